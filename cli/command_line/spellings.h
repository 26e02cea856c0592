// What users of other programs type: torchrun, Keras, Caffe, Horovod and others have other words for the same flags.
//
// A spelling that means what one of our flags means is read as that flag, and a note says so; one that means something that
// Colonnade does otherwise, or not at all, is answered. Neither is in help, in completions or in
// configuration files, whose errors say what it is here.
#ifndef COLONNADE_CLI_COMMAND_LINE_SPELLINGS_H_
#define COLONNADE_CLI_COMMAND_LINE_SPELLINGS_H_

#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"

namespace colonnade::cli {

struct OurWords {
  std::vector<std::string> words;
  std::vector<std::string> notes;  // "read --batch-size as --batch", each once
};

// Returns the command line `words` (without the program's name) in our words. What no table knows, and what the sub-command
// has itself, stays as it is. FailedPrecondition with the answer to a spelling that is not understood.
absl::StatusOr<OurWords> InOurWords(const std::vector<std::string>& words, const CLI::App& app);

// What other programs mean by a key and its value in a configuration file, in our words: "did you mean \"batch\"?", or the
// answer. Empty where no table knows them, and of what is ours. REQUIRES: `command` is a sub-command of `app`.
std::string AdviceOnKey(const std::string& command, const std::string& key, const std::string& value, const CLI::App& app);

// Each spelling of a flag, a switch or a value, without dashes before it, and what it is read as; of those that are answered
// the second is empty.
std::vector<std::pair<std::string, std::string>> AllSpellings();
// The same of sub-commands, "fit" and "train".
std::vector<std::pair<std::string, std::string>> AllSpellingsOfCommands();

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMMAND_LINE_SPELLINGS_H_
