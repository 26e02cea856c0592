#!/usr/bin/env bash
# Every test that a list of what was seen to fail names is there, and so is every source file that a comment or a page names. Of a test that was not
# broken the lists say so in one phrase, "not broken by hand".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
found=$(mktemp)
trap 'rm -f "$found"' EXIT

# A name that ends in "…", "\*" or "{" is the beginning of one; ".Test" is of the suite before it.
tests_that_are_missing() {
  find tests -name '*.cc' -exec sed -nE 's/^ *(TYPED_)?TEST(_F|_P)?\((\w+), *(\w+)\).*/\3.\4/p' {} + |
    awk -F'|' '
      NR == FNR { defined[$1]; next }
      { suite = ""
        text = $2
        while (match(text, /([A-Z][A-Za-z0-9]*(\/[A-Za-z0-9]+)?)?\.[A-Z][A-Za-z0-9]+(…|\\\*|\{)?/)) {
          name = substr(text, RSTART, RLENGTH)
          text = substr(text, RSTART + RLENGTH)
          begins = sub(/(…|\\\*|\{)$/, "", name)
          if (name ~ /^\./) name = suite name; else suite = substr(name, 1, index(name, ".") - 1)
          typed = of_instance = name
          sub(/\/[^.]*/, "", typed)  # Suite/Type.Test
          sub(/.*\//, "", of_instance)  # Instance/Suite.Test
          known = typed in defined || of_instance in defined
          if (begins) for (test in defined) known = known || index(test, typed) == 1
          if (!known) print FILENAME ":" FNR ": no test " name
        } }' - tests/seen_to_fail.md tests/*/seen_to_fail.md
}

# A name without its folders may be of any file that has it. What other projects have stands in lines with "source" or a URL.
files_that_are_missing() {
  find . \( -path './build*' -o -path './.git' \) -prune -o -type f -printf '/%P\n' >"$found"
  # shellcheck disable=SC2016  # awk's own
  grep -E '\.(h|cc|cu|md)$' "$found" | sed 's:^/::' | tr '\n' '\0' | xargs -0 awk -v list="$found" '
    BEGIN { while ((getline file < list) > 0) { there[file]; n = split(file, parts, "/"); for (i = n; i > 1; --i) {
              tail = tail == "" ? parts[i] : parts[i] "/" tail; there[tail] }; tail = "" } }
    { text = ""
      if (FILENAME ~ /\.md$/) {
        n = split($0, pieces, "`")
        for (i = 2; i <= n; i += 2) text = text " " pieces[i]
      } else if (match($0, /(^|[^:])\/\//)) {
        text = substr($0, RSTART)
      }
      if (tolower(text) ~ /source/ || $0 ~ /[a-z]:\/\//) next
      while (match(text, /[A-Za-z0-9_\/.-]+/)) {
        name = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        sub(/\.+$/, "", name)
        if (name ~ /^[a-z][a-z0-9_\/]*\.(h|cc|cu)$/ && !(name in there)) print FILENAME ":" FNR ": no file " name
      } }'
}

phrases_of_another_form() {
  grep -nE 'not (yet )?(been )?(seen to fail|broken)|: not \|' tests/seen_to_fail.md tests/*/seen_to_fail.md | grep -v 'not broken by hand' |
    sed 's/^\([^:]*:[0-9]*\):.*/\1: expected "not broken by hand", found another phrase for it/'
  return 0
}

missing=$(tests_that_are_missing && files_that_are_missing && phrases_of_another_form) || exit 1
[ -z "$missing" ] && echo "every test and file that is named is there" && exit 0
echo "$missing"
exit 1
