#include "cli/command_line/help.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"

namespace colonnade::cli {
namespace {

constexpr int kNarrowest = 60, kWidest = 100;
constexpr absl::string_view kDeeper = "      ";

// A line for a shell, in lines that end with a backslash but for the last.
std::string WrappedForShell(absl::string_view line, int width) {
  if (line.size() <= static_cast<size_t>(width)) return std::string(line);
  constexpr absl::string_view kGoesOn = " \\\n";
  return absl::StrReplaceAll(Wrapped(line, width - 2, kDeeper), {{"\n", kGoesOn}});
}

}  // namespace

int HelpWidth() {
  const int terminal = TerminalWidth();
  return terminal == 0 ? kWidest : std::clamp(terminal, kNarrowest, kWidest);
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(CLI::Formatter::make_description(app), '\n'))
    lines.push_back(Wrapped(line, width_, ""));
  return absl::StrJoin(lines, "\n");
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return Row(absl::StrCat(make_option_name(option, is_positional), make_option_opts(option)), make_option_desc(option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* sub) const {
  return Row(sub->get_display_name(true), sub->get_description());
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(CLI::Formatter::make_footer(app), '\n'))
    lines.push_back(WrappedForShell(line, width_));
  return absl::StrJoin(lines, "\n");
}

// The description stands beside the name, or below it where the name reaches into its column.
std::string HelpFormatter::Row(const std::string& name, const std::string& description) const {
  const size_t column = get_column_width();
  const std::string first = absl::StrCat("  ", name), indent(column, ' ');
  const size_t width = WidthOf(first);
  if (width >= column) {
    return absl::StrCat(Wrapped(first, width_, kDeeper), "\n", Wrapped(absl::StrCat(indent, description), width_, indent),
                        "\n");
  }
  const std::string gap(column - width, ' ');
  return absl::StrCat(Wrapped(absl::StrCat(first, gap, description), width_, indent), "\n");
}

}  // namespace colonnade::cli
