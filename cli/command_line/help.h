// How --help looks: CLI11's text, wrapped.
#ifndef COLONNADE_CLI_COMMAND_LINE_HELP_H_
#define COLONNADE_CLI_COMMAND_LINE_HELP_H_

#include <string>

#include "CLI/CLI.hpp"

namespace colonnade::cli {

// As wide as the terminal, from 60 to 100 columns; 100 where there is none.
int HelpWidth();

// No line has more than `width` columns. Where an example is wider it goes on behind a backslash, so that a shell still
// takes it.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(int width) : width_(width) {}
  std::string make_description(const CLI::App* app) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* sub) const override;
  std::string make_footer(const CLI::App* app) const override;

 private:
  std::string Row(const std::string& name, const std::string& description) const;

  const int width_;
};

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMMAND_LINE_HELP_H_
