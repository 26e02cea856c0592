# Makes of our comments what Doxygen reads. Lines of // become the description of what stands below them, those that a header
# begins with that of the file; // behind a declaration, and what goes on below it, becomes that of the declaration. What is
# set in by two spaces or more, or in columns (formulae, tables, code), keeps its form.

function escaped(text) {
  gsub(/[\\@<>#%&]/, "\\\\&", text)
  gsub(/--/, "\\--", text)
  gsub(/\/\*/, "/\\&zwnj;*", text)  # would begin a comment in this one
  gsub(/`[^`]*`/, "<tt>&</tt>", text)
  gsub(/`/, "", text)
  return text
}

function say(text,    has_form) {
  has_form = text ~ /^   / || text ~ /[^ ]  +[^ ]/
  if (!in_block) print NR == 1 ? "/** @file" : "/**"
  in_block = 1
  if (has_form && !in_form) print "@verbatim"
  if (has_form) in_form = 1
  else if (text != "") end_form()
  print in_form ? text : escaped(text)
}

function end_form() {
  if (in_form) print "@endverbatim"
  in_form = 0
}

function end_block() {
  end_form()
  if (in_block) print "*/"
  in_block = 0
}

# Code with a comment behind it, held back until it is known whether the comment goes on.
function end_held() {
  if (held != "") print held " ///<" escaped(remark)
  held = ""
}

{ column = index($0, "//") }
/^ *\/\/( |$)/ && held != "" && column == held_column {
  remark = remark substr($0, column + 2)
  next
}
{ end_held() }
/^ *\/\/( |$)/ {
  say(substr($0, column + 2))
  next
}
/^ *(struct|class|enum) .*[{]  +\/\/ / { say(substr($0, column + 2)) }
{ end_block() }
/^ *[^ #}].*[^ {]  +\/\/ / && !/"[^"]*\/\/[^"]*"/ {
  held = substr($0, 1, column - 1)
  held_column = column
  remark = substr($0, column + 2)
  next
}
{ print }
END { end_held(); end_block() }
