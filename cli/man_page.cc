#include "cli/man_page.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "cli/build_facts.h"
#include "cli/command_line/definitions.h"
#include "cli/commands.h"
#include "cli/session/named_files.h"
#include "engine/io/file.h"

namespace colonnade::cli {
namespace {

// The code point of UTF-8 text that begins at `at`, which moves behind it.
uint32_t NextCodePoint(absl::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at++);
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
  uint32_t point = more == 0 ? first : first & (0x3fu >> more);
  for (int i = 0; i < more; ++i) point = point << 6 | (byte(at++) & 0x3fu);
  return point;
}

// Text that roff prints as it is: no character of it is a command, and hyphens stay those of ASCII, so that flags can be
// copied.
std::string Roff(absl::string_view text) {
  std::string roff;
  for (size_t at = 0; at < text.size();) {
    const bool begins_line = at == 0 || text[at - 1] == '\n';
    const uint32_t point = NextCodePoint(text, at);
    if (begins_line && (point == '.' || point == '\'')) roff += "\\&";
    if (point == '\\') {
      roff += "\\e";
    } else if (point == '-') {
      roff += "\\-";
    } else if (point == '\'' || point == '`' || point == '^' || point == '~') {
      absl::StrAppend(&roff, point == '\'' ? "\\(aq" : point == '`' ? "\\(ga" : point == '^' ? "\\(ha" : "\\(ti");
    } else if (point >= 0x80) {
      absl::StrAppendFormat(&roff, "\\[u%04X]", point);
    } else {
      roff += static_cast<char>(point);
    }
  }
  return roff;
}

std::string Bold(absl::string_view text) { return absl::StrCat("\\fB", Roff(text), "\\fR"); }
std::string Italic(absl::string_view text) { return absl::StrCat("\\fI", Roff(text), "\\fR"); }

std::string Title(const std::string& name, const std::string& version) {
  return absl::StrFormat(".TH \"%s\" 1 \"\" \"colonnade %s\" \"Colonnade\"\n.ad l\n.nh\n", Roff(absl::AsciiStrToUpper(name)),
                         Roff(version));
}

// Lower case at its beginning and no full stop at its end, as NAME has it.
std::string Phrase(std::string sentence) {
  if (sentence.size() > 1 && absl::ascii_islower(sentence[1])) sentence[0] = absl::ascii_tolower(sentence[0]);
  return std::string(absl::StripSuffix(sentence, "."));
}

std::string NameSection(const std::string& name, const std::string& description) {
  return absl::StrCat(".SH NAME\n", Roff(name), " \\- ", Roff(Phrase(description)), "\n");
}

// "--batch=INT", "--resume[=DIR]", "DIR"
std::string Usage(const Definition& definition) {
  std::string text = definition.short_name.empty() ? "" : absl::StrCat(Bold(definition.short_name), ", ");
  if (definition.is_argument) return absl::StrCat(text, Italic(definition.name));
  absl::StrAppend(&text, Bold(definition.name));
  if (!definition.takes_value) return text;
  const std::string value = absl::StrCat("=", Italic(definition.placeholder));
  return absl::StrCat(text, definition.needs_value ? value : absl::StrCat("[", value, "]"));
}

// Help, and behind it what stands in help's first column.
std::string Item(const Definition& definition) {
  std::vector<std::string> sentences = {Roff(definition.help)};
  if (!definition.rule.empty()) {
    sentences.push_back(absl::StrCat("Value: ", Roff(definition.rule)));
  } else if (!definition.values.empty()) {
    const char* const or_file = definition.files ? ", or a file" : "";
    sentences.push_back(absl::StrCat("One of ", Roff(absl::StrJoin(definition.values, ", ")), or_file));
  }
  if (definition.required) sentences.emplace_back("Required");
  if (!definition.needs.empty()) sentences.push_back(absl::StrCat("Needs ", Roff(absl::StrJoin(definition.needs, ", "))));
  if (!definition.default_value.empty()) sentences.push_back(absl::StrCat("Default: ", Roff(definition.default_value)));
  return absl::StrCat(".TP\n", Usage(definition), "\n", absl::StrJoin(sentences, ". "), ".\n");
}

std::string Synopsis(const CLI::App& command) {
  std::string line = absl::StrCat(Bold(absl::StrCat("colonnade ", absl::StrJoin(WordsOfCommand(command), " "))), " [",
                                  Italic("OPTION"), "]...");
  for (const Definition& definition : DefinitionsOf(command)) {
    if (!definition.is_argument) continue;
    const std::string name = Italic(definition.name);
    absl::StrAppend(&line, " ", definition.required ? name : absl::StrCat("[", name, "]"));
  }
  return absl::StrCat(".SH SYNOPSIS\n", line, "\n");
}

std::string Options(const CLI::App& command) {
  std::string text, group;
  for (const Definition& definition : DefinitionsOf(command)) {
    const std::string of = definition.is_argument ? "Arguments" : definition.group;
    if (of != group) {
      const std::string section = absl::AsciiStrToUpper(of);
      const bool is_main = section == "ARGUMENTS" || section == "OPTIONS";
      absl::StrAppend(&text, is_main ? absl::StrCat(".SH ", section) : absl::StrCat(".SS ", Roff(of)), "\n");
    }
    group = of;
    absl::StrAppend(&text, Item(definition));
  }
  return text;
}

// The footers of sub-commands are "Examples:" and one a line.
std::string Examples(const CLI::App& command) {
  std::string text = ".SH EXAMPLES\n.nf\n";
  for (const absl::string_view line : absl::StrSplit(command.get_footer(), '\n', absl::SkipWhitespace())) {
    if (line != "Examples:") absl::StrAppend(&text, Roff(absl::StripAsciiWhitespace(line)), "\n");
  }
  return absl::StrCat(text, ".fi\n");
}

struct CodeOnPage {
  const char* code;
  const char* meaning;
};
constexpr CodeOnPage kExitCodes[] = {
    {"0", "done"},
    {"1", "verify found a difference, bench transfers a wrong element, or something unexpected happened"},
    {"2",
     "the command line is wrong, or it asks for a GPU that is there but for which the CUDA driver module cannot be loaded"},
    {"12", "not enough memory, or the system refuses another thread"},
    {"21", "a loss, gradient or logit is not finite"},
    {"65", "a file has the wrong contents"},
    {"66", "a file is missing"},
    {"69", "there is no such backend here"},
    {"74", "a file cannot be read or written, or the standard output not be written"},
    {"75", "stopped by SIGTERM, SIGHUP or SIGUSR1, and --resume goes on where it ended: run it again"},
    {"129, 138, 143",
     "ended by SIGHUP, SIGUSR1 or SIGTERM where there is nothing to resume. Before the first step, as while data are read "
     "or a plan is searched, a signal ends train, eval and predict at once"},
    {"130", "interrupted"},
    {"141",
     "ended by SIGPIPE, since what reads the standard output has gone, as head does; train and eval go on to their end, and "
     "end with 74 if they had more to print"},
};

std::string ExitStatus() {
  std::string text = ".SH EXIT STATUS\n";
  for (const CodeOnPage& code : kExitCodes) absl::StrAppend(&text, ".TP\n", Bold(code.code), "\n", Roff(code.meaning), "\n");
  return text;
}

std::string Reference(const std::string& page) { return absl::StrCat(".BR ", Roff(page), " (1)"); }

// How sub-commands are typed behind `words`, and what each does.
std::string Overview(const std::string& words, const std::vector<const CLI::App*>& commands) {
  std::string text = absl::StrCat(".SH SYNOPSIS\n", Bold(words), " ", Italic("SUBCOMMAND"), " [", Italic("OPTION"),
                                  "]...\n.SH SUBCOMMANDS\n");
  for (const CLI::App* command : commands) {
    absl::StrAppend(&text, ".TP\n", Bold(absl::StrJoin(WordsOfCommand(*command), " ")), "\n",
                    Roff(command->get_description()), "\n");
  }
  return text;
}

std::string SeeAlso(const CLI::App& app, const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> pages;
  for (const CLI::App* command : commands) pages.push_back(Reference(absl::StrCat(app.get_name(), "-", NameOf(*command))));
  return absl::StrCat(".SH SEE ALSO\n", absl::StrJoin(pages, " ,\n"), "\n");
}

}  // namespace

std::string ManPageOf(const CLI::App& app, const CLI::App& command, const std::string& version) {
  const std::string name = absl::StrCat(app.get_name(), "-", NameOf(command));
  return absl::StrCat(Title(name, version), NameSection(name, command.get_description()), Synopsis(command),
                      Options(command), Examples(command), ".SH SEE ALSO\n", Reference(app.get_name()), "\n");
}

std::string ManPageOfGroup(const CLI::App& app, const CLI::App& group, const std::string& version) {
  const std::string name = absl::StrCat(app.get_name(), "-", NameOf(group));
  return absl::StrCat(Title(name, version), NameSection(name, group.get_description()),
                      Overview(absl::StrCat(app.get_name(), " ", NameOf(group)), SubCommandsOf(group)),
                      SeeAlso(app, SubCommandsOf(group)));
}

std::string ManPage(const CLI::App& app, const std::string& version) {
  return absl::StrCat(Title(app.get_name(), version), NameSection(app.get_name(), app.get_description()),
                      Overview(app.get_name(), SubCommandsOf(app)), Options(app), ExitStatus(),
                      SeeAlso(app, SubCommandsOf(app)));
}

namespace {

struct ManFlags {
  std::string page, folder;
};

absl::Status RunMan(const ManFlags& flags, const CLI::App& app) {
  const std::string& version = ThisBuild().version;
  std::map<std::string, std::string> pages = {{"", ManPage(app, version)}};
  for (const CLI::App* command : SubCommandsOf(app)) pages[NameOf(*command)] = ManPageOf(app, *command, version);
  for (const CLI::App* group : GroupsOf(app)) pages[NameOf(*group)] = ManPageOfGroup(app, *group, version);
  if (flags.folder.empty()) {
    std::fputs(pages.at(flags.page).c_str(), stdout);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(engine::MakeFolders(flags.folder));
  const auto path_of = [&](const std::string& command) {
    return absl::StrCat(flags.folder, "/", app.get_name(), command.empty() ? "" : "-", command, ".1");
  };
  std::vector<NamedFile> written;
  for (const auto& page : pages) written.push_back({"--out", path_of(page.first), FileKind::kManPage});
  RETURN_IF_ERROR(CheckWrittenFiles(written));
  for (const auto& page : pages) RETURN_IF_ERROR(engine::ReplaceFile(path_of(page.first), page.second));
  return absl::OkStatus();
}

}  // namespace

SubCommand AddMan(CLI::App& app) {
  CLI::App* man = app.add_subcommand("man", "Prints the manual page of the command, or of a sub-command, in roff.");
  const auto flags = std::make_shared<ManFlags>();
  std::vector<std::string> names;
  for (const CLI::App* command : SubCommandsOf(app)) names.push_back(NameOf(*command));
  for (const CLI::App* group : GroupsOf(app)) names.push_back(NameOf(*group));
  CLI::Option* page =
      man->add_option("SUBCOMMAND", flags->page, "the sub-command whose page is printed")->check(CLI::IsMember(names));
  man->add_option("--out", flags->folder, "a folder into which all pages are written instead")
      ->type_name("DIR")
      ->excludes(page);
  man->footer("Examples:\n  colonnade man train | man -l -\n  colonnade man --out=man1");
  return {man, [=, &app] { return RunMan(*flags, app); }};
}

}  // namespace colonnade::cli
