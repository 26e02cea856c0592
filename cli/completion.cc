#include "cli/completion.h"

#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/command_line/definitions.h"
#include "cli/command_line/usage.h"
#include "cli/commands.h"

namespace colonnade::cli {
namespace {

using Words = std::vector<std::string>;

constexpr char kWrittenBy[] = "# Completion for colonnade, written by `colonnade completion %s`.\n";

// "bench|more": the groups, as a pattern of shells.
std::string GroupPattern(const CLI::App& app) {
  return absl::StrJoin(GroupsOf(app), "|",
                       [](std::string* out, const CLI::App* group) { absl::StrAppend(out, group->get_name()); });
}

// ---- bash

// What may stand in the place of a value: assignments to the script's variables.
std::string BashValues(const Definition& definition) {
  return absl::StrFormat("values='%s' files=%s", absl::StrJoin(definition.values, " "),
                         definition.files     ? "-f"
                         : definition.folders ? "-d"
                                              : "");
}

// One case of the script: the flags of a sub-command, and what the value of `$flag` may be.
std::string BashCase(const std::string& name, const std::vector<Definition>& definitions) {
  Words flags, arguments;
  std::map<std::string, Words> flags_by_values;
  for (const Definition& definition : definitions) {
    if (definition.is_argument) {
      arguments.push_back(BashValues(definition));
      continue;
    }
    flags.push_back(absl::StrCat(definition.name, definition.needs_value ? "=" : ""));
    if (definition.takes_value) flags_by_values[BashValues(definition)].push_back(definition.name);
  }
  std::string text = absl::StrFormat("    %s)\n      flags='%s'\n      case $flag in\n", name, absl::StrJoin(flags, " "));
  for (const auto& [values, names] : flags_by_values) {
    absl::StrAppend(&text, "        ", absl::StrJoin(names, "|"), ") ", values, " ;;\n");
  }
  absl::StrAppend(&text, "        *) flag=''");
  // The first argument stands behind the sub-command, the last anywhere.
  if (arguments.size() > 1) {
    absl::StrAppend(&text, "; if [ \"$COMP_CWORD\" -eq 2 ]; then ", arguments.front(), "; else ", arguments.back(), "; fi");
  } else if (arguments.size() == 1) {
    absl::StrAppend(&text, " ", arguments.front());
  }
  return absl::StrCat(text, " ;;\n      esac ;;\n");
}

constexpr char kBashBegin[] = R"(_colonnade() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' flag='' prefix='' flags='' \
    values='' files=''
  if [ "$COMP_CWORD" -gt 1 ]; then command=${COMP_WORDS[1]}; fi
  case $command in
    GROUPS) if [ "$COMP_CWORD" -gt 2 ]; then command=$command-${COMP_WORDS[2]}; fi ;;
  esac
  # Bash takes = for a word of its own, unless it was told not to.
  case $word in
    --*=*) flag=${word%%=*} prefix=$flag= word=${word#*=} ;;
    =) flag=$before word='' ;;
    *) if [ "$before" = = ]; then flag=${COMP_WORDS[COMP_CWORD - 2]}; else flag=$before; fi ;;
  esac
  case $command in
)";

constexpr char kBashEnd[] = R"(  esac
  COMPREPLY=()
  if [ -z "$flag" ] && { [[ $word == -* ]] || [ -z "$values$files" ]; }; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word")
    case ${COMPREPLY[0]-} in *=) compopt -o nospace 2>/dev/null ;; esac
    return 0
  fi
  if [ -n "$values" ]; then mapfile -t COMPREPLY < <(compgen -W "$values" -P "$prefix" -- "$word"); fi
  if [ -n "$files" ]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen "$files" -P "$prefix" -- "$word")
  fi
}
complete -F _colonnade colonnade
)";

std::string BashScript(const CLI::App& app) {
  std::string text = absl::StrFormat(kWrittenBy, "bash");
  const auto words_case = [&](const std::string& name, const CLI::App& of, const char* flags) {
    absl::StrAppendFormat(&text, "    %s) flag='' values='%s' flags='%s' ;;\n", name,
                          absl::StrJoin(NamesOfCommands(of), " "), flags);
  };
  absl::StrAppend(&text, absl::StrReplaceAll(kBashBegin, {{"GROUPS", GroupPattern(app)}}));
  words_case("''", app, "--help --version");
  for (const CLI::App* group : GroupsOf(app)) words_case(group->get_name(), *group, "--help");
  for (const CLI::App* command : SubCommandsOf(app)) {
    absl::StrAppend(&text, BashCase(NameOf(*command), DefinitionsOf(*command)));
  }
  return absl::StrCat(text, "    *) return ;;\n", kBashEnd);
}

// ---- zsh

// Within single quotes; what _arguments reads is escaped before.
std::string ZshQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::string ZshText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string ZshAction(const Definition& definition) {
  const std::string values = absl::StrJoin(definition.values, " ");
  if (definition.folders) return "_files -/";
  if (definition.files) return values.empty() ? "_files" : absl::StrCat("_colonnade_or_files ", values);
  return values.empty() ? " " : absl::StrCat("(", values, ")");
}

std::string ZshSpec(const Definition& definition) {
  const std::string value = absl::StrCat(ZshText(definition.placeholder), ":", ZshAction(definition));
  if (definition.is_argument) return ZshQuoted(absl::StrCat(definition.required ? ":" : "::", value));
  std::string spec = absl::StrCat(definition.name, definition.takes_value ? "=" : "", "[", ZshText(definition.help), "]");
  if (definition.takes_value) absl::StrAppend(&spec, definition.needs_value ? ":" : "::", value);
  return ZshQuoted(spec);
}

constexpr char kZshBegin[] = R"(
_colonnade_or_files() {
  compadd "$@"
  _files
}

_colonnade() {
  if (( CURRENT == 2 )); then
    local -a commands=(
)";

constexpr char kZshMiddle[] = R"(    )
    _describe 'sub-command' commands
    _arguments '--help[what there is]' '--version[version and commit]'
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  if [[ $command == (GROUPS) ]] && (( CURRENT > 2 )); then
    command+=-$words[2]
    shift words
    (( CURRENT-- ))
  fi
  case $command in
)";

// As a file of $fpath the script is the function's body; sourced, it defines it.
constexpr char kZshEnd[] = R"(  esac
}

if [[ $funcstack[1] == _colonnade ]]; then
  _colonnade "$@"
else
  compdef _colonnade colonnade
fi
)";

std::string ZshScript(const CLI::App& app) {
  std::string text = absl::StrCat("#compdef colonnade\n", absl::StrFormat(kWrittenBy, "zsh"), kZshBegin);
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string help = absl::StrReplaceAll(command->get_description(), {{":", "\\:"}});
    absl::StrAppend(&text, "      ", ZshQuoted(absl::StrCat(command->get_name(), ":", help)), "\n");
  }
  absl::StrAppend(&text, absl::StrReplaceAll(kZshMiddle, {{"GROUPS", GroupPattern(app)}}));
  for (const CLI::App* group : GroupsOf(app)) {
    absl::StrAppend(&text, "    ", group->get_name(), ") compadd ", absl::StrJoin(NamesOfCommands(*group), " "), " ;;\n");
  }
  for (const CLI::App* command : SubCommandsOf(app)) {
    absl::StrAppend(&text, "    ", NameOf(*command), ")\n      _arguments");
    for (const Definition& definition : DefinitionsOf(*command))
      absl::StrAppend(&text, " \\\n        ", ZshSpec(definition));
    absl::StrAppend(&text, " ;;\n");
  }
  return absl::StrCat(text, kZshEnd);
}

// ---- fish

std::string FishQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

// The candidates for a value or an argument, and whether files are, too.
std::string FishValues(const Definition& definition) {
  std::string values = absl::StrJoin(definition.values, " ");
  if (definition.folders) values = "(__fish_complete_directories)";
  return absl::StrCat(definition.files ? " -F" : "", values.empty() ? "" : absl::StrCat(" -a ", FishQuoted(values)));
}

std::string FishLine(const std::string& command, const Definition& definition, const std::string& place) {
  std::string line = absl::StrFormat("complete -c colonnade -n '__colonnade_is %s%s'", command, place);
  if (!definition.is_argument) absl::StrAppend(&line, " -l ", definition.name.substr(2));
  if (definition.needs_value && !definition.is_argument) absl::StrAppend(&line, definition.files ? " -r" : " -x");
  if (definition.takes_value) absl::StrAppend(&line, FishValues(definition));
  return absl::StrCat(line, " -d ", FishQuoted(definition.help), "\n");
}

constexpr char kFishBegin[] = R"(function __colonnade_is
    set -l words (commandline -opc)
    contains -- $argv[1] "$words[2]" "$words[2]-$words[3]"; or return 1
    test (count $argv) -lt 2; or test (count $words) -eq $argv[2]
end
function __colonnade_is_alone
    test (count (commandline -opc)) -eq 1
end
complete -c colonnade -f
complete -c colonnade -n __colonnade_is_alone -l help -d 'what there is'
complete -c colonnade -n __colonnade_is_alone -l version -d 'version and commit'
)";

std::string FishScript(const CLI::App& app) {
  std::string text = absl::StrCat(absl::StrFormat(kWrittenBy, "fish"), kFishBegin);
  const auto words_of = [&](const CLI::App& of, const std::string& where) {
    for (const CLI::App* command : of.get_subcommands({})) {
      absl::StrAppend(&text, "complete -c colonnade -n ", where, " -a ", command->get_name(), " -d ",
                      FishQuoted(command->get_description()), "\n");
    }
  };
  words_of(app, "__colonnade_is_alone");
  for (const CLI::App* group : GroupsOf(app)) words_of(*group, absl::StrFormat("'__colonnade_is %s 2'", NameOf(*group)));
  for (const CLI::App* command : SubCommandsOf(app)) {
    const std::string name = NameOf(*command);
    int words = 1 + static_cast<int>(WordsOfCommand(*command).size());  // before the argument
    for (const Definition& definition : DefinitionsOf(*command)) {
      absl::StrAppend(&text,
                      FishLine(name, definition, definition.is_argument ? absl::StrCat(" ", words++) : std::string()));
    }
  }
  return text;
}

}  // namespace

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  return shell == "bash" ? BashScript(app) : shell == "zsh" ? ZshScript(app) : FishScript(app);
}

SubCommand AddCompletion(CLI::App& app) {
  CLI::App* completion = app.add_subcommand("completion", "Prints what completes this command line in bash, zsh or fish.");
  const auto shell = std::make_shared<std::string>();
  completion->add_option("SHELL", *shell, "the shell that reads it")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kShells), std::end(kShells))));
  completion->footer(
      "Examples:\n  colonnade completion bash >~/.local/share/bash-completion/completions/colonnade\n"
      "  colonnade completion fish >~/.config/fish/completions/colonnade.fish");
  return {completion, [=, &app] {
            std::fputs(CompletionScript(app, *shell).c_str(), stdout);
            return absl::OkStatus();
          }};
}

}  // namespace colonnade::cli
