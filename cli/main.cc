// The `colonnade` command: parses the command line, runs one sub-command, turns its status into message and exit code.

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/build_facts.h"
#include "cli/command_line/config.h"
#include "cli/command_line/errors.h"
#include "cli/command_line/help.h"
#include "cli/command_line/openmp.h"
#include "cli/command_line/spellings.h"
#include "cli/command_line/usage.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"

namespace {

using colonnade::cli::Outcome;
using colonnade::cli::SubCommand;
using enum colonnade::cli::ExitCode;

// Set by the first signal that asks for an end; g_signal says which it was.
std::atomic<bool> g_stop{false};
std::atomic<int> g_signal{0};
std::atomic<bool> g_steps_began{false};
bool g_resumes = false;  // the same command goes on with what is there

int ExitCodeOfStop(int signal, bool resumes) { return signal != SIGINT && resumes ? kSavedForLater : 128 + signal; }

void WriteToStderr(absl::string_view message) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message.data(), message.size());
}

// Before the first step there is nothing to keep. Then a second Ctrl-C ends the process at once. Other signals do not: those
// who send them may send them twice, and have SIGKILL.
void OnStop(int signal) {
  const int error = errno;  // of a call that this interrupts
  if (!g_steps_began) {
    WriteToStderr(g_resumes ? "\ncolonnade: stopped before the first step, as asked; the same command goes on\n"
                            : "\ncolonnade: stopped before the first step, as asked; nothing was done\n");
    std::_Exit(ExitCodeOfStop(signal, g_resumes));
  }
  int none = 0;
  if (g_signal.compare_exchange_strong(none, signal)) {
    g_stop = true;
    WriteToStderr("\ncolonnade: stopping after the steps that have begun");
    WriteToStderr(signal == SIGINT ? "; again to quit\n" : "\n");
  } else if (signal == SIGINT) {
    std::_Exit(128 + signal);
  }
  errno = error;
}

// Else a file that is opened gets the number of a standard stream that is closed, and what is printed goes into it.
void OpenClosedStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const bool is_closed = ::fcntl(stream, F_GETFD) == -1 && errno == EBADF;
    // What cannot be printed to the standard output is still an error: nothing can be written to what is open for reading.
    if (is_closed) (void)::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// Files are mapped; where one becomes shorter, or its disk fails, reading it ends in this signal.
void OnUnreadable(int) {
  WriteToStderr(
      "colonnade: cannot read a mapped file, such as one of weights: it became shorter meanwhile, or its disk failed\n");
  std::_Exit(kReadOrWriteFailed);
}

// Messages have one line, but those of memory, which are of numbers. Names in them may hold anything.
void SayError(absl::string_view message, bool has_lines = false) {
  const std::string text = has_lines ? colonnade::cli::PrintableLines(message) : colonnade::cli::Printable(message);
  std::fprintf(stderr, "colonnade: %s\n", text.c_str());
}

// `error` is that of the system; 0 where it is not known any more.
int ReportUnwritten(int error) {
  SayError(absl::StrCat("cannot write the results to the standard output",
                        error == 0 ? "" : absl::StrCat(": ", std::strerror(error))));
  return kReadOrWriteFailed;
}

int Report(const absl::Status& status, const Outcome& outcome) {
  // Before the results: where their reader has gone, writing ends the process.
  if (!status.ok()) SayError(status.message(), /*has_lines=*/absl::IsResourceExhausted(status));
  const int error = std::fflush(stdout) != 0 ? errno : 0;
  const bool is_lost = error != 0 || std::ferror(stdout);
  const int written =
      is_lost && g_signal != SIGHUP ? ReportUnwritten(error) : kSuccess;  // a terminal that has gone reads nothing
  if (!status.ok()) return colonnade::cli::ExitCodeOf(status);
  if (written != kSuccess) return written;
  if (outcome.interrupted) {
    SayError(absl::StrCat("stopped early, as asked; ",
                          outcome.saved.empty() ? "the results are those of the steps done" : outcome.saved));
    return ExitCodeOfStop(g_signal, outcome.resumes);
  }
  return outcome.disagrees ? kUnexpected : kSuccess;
}

// An error that begins with a flag of a --config file is one of the file.
absl::Status WithPlace(const absl::Status& status, const colonnade::cli::ConfiguredWords& line) {
  const std::string place = line.PlaceOf(status.message());
  if (place.empty()) return status;
  const absl::StatusCode code = absl::IsFailedPrecondition(status) ? absl::StatusCode::kInvalidArgument : status.code();
  return absl::Status(code, absl::StrCat(place, ": ", status.message()));
}

// Whether the sub-command has such a flag, and it is given.
bool IsGiven(const CLI::App& command, const std::string& flag) {
  const CLI::Option* const option = command.get_option_no_throw(flag);
  return option != nullptr && option->count() > 0;
}

bool AsksForJson(const CLI::App& command) { return IsGiven(command, "--json") && command.get_option("--json")->as<bool>(); }

// The sub-command that was parsed, or began to be.
const CLI::App& ParsedCommand(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

// Whether the name of a network asks which there are: --model=list, or `models list`.
bool AsksForModels(const CLI::App& command) {
  for (const char* name : {"--model", "NAME"}) {
    if (IsGiven(command, name) && command.get_option(name)->results().front() == "list") return true;
  }
  return false;
}

void HandleSignals(const SubCommand& command) {
  if (command.keeps_results) {
    g_resumes = IsGiven(*command.app, "--resume");
    for (int signal : {SIGTERM, SIGUSR1}) std::signal(signal, OnStop);
    // As under nohup, and of what a script starts in the background.
    for (int signal : {SIGHUP, SIGINT}) {
      if (std::signal(signal, OnStop) == SIG_IGN) std::signal(signal, SIG_IGN);
    }
  }
  if (command.ignores_sigpipe) std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGBUS, OnUnreadable);
  std::signal(SIGXFSZ, SIG_IGN);  // so that writing says that a file grows too large
}

int Main(int argc, char** argv) {
  CLI::App app{"Trains convolutional networks with hybrid model and data parallelism."};
  app.require_subcommand(1);
  app.name("colonnade");
  app.formatter(std::make_shared<colonnade::cli::HelpFormatter>(colonnade::cli::HelpWidth()));  // that of all sub-commands
  app.set_version_flag("--version", "colonnade " + colonnade::cli::VersionText(colonnade::cli::ThisBuild()));
  Outcome outcome{.before_steps = [] { g_steps_began = true; }};
  const std::vector<SubCommand> commands = colonnade::cli::AddSubCommands(app, g_stop, outcome);
  colonnade::cli::ReadWholeNumbersInDecimal(app);
  absl::StatusOr<colonnade::cli::OurWords> ours = colonnade::cli::InOurWords({argv + 1, argv + argc}, app);
  if (!ours.ok()) return Report(ours.status(), {});
  for (const std::string& note : ours->notes) colonnade::cli::Say(absl::StrCat("note: ", note));
  if (const std::string flag = colonnade::cli::FlagWithoutValue(ours->words); !flag.empty()) {
    SayError(absl::StrCat(flag, ": expected a value behind it, found none"));
    return kUsage;
  }
  absl::StatusOr<colonnade::cli::ConfiguredWords> line = colonnade::cli::WithConfig(ours->words, app);
  if (!line.ok()) return Report(line.status(), {});
  try {
    app.parse(std::vector<std::string>(line->words.rbegin(), line->words.rend()));  // CLI11 takes them from the end
  } catch (const CLI::Success& success) {
    if (const std::string wrong = colonnade::cli::WrongCommand(app, ours->words); !wrong.empty()) {
      SayError(absl::StrCat(wrong, "; --help lists what there is"));
      return kUsage;
    }
    const int code = app.exit(success);
    return std::cout.flush().good() ? code : ReportUnwritten(errno);
  } catch (const CLI::ParseError& error) {
    const bool only_lacks = error.get_name() == "RequiredError" && app.remaining_size(/*recurse=*/true) == 0;
    const CLI::App& command = ParsedCommand(app);
    if (only_lacks && AsksForModels(command)) {
      return Report(colonnade::cli::ListModels(AsksForJson(command)), {});
    }
    const std::string message = colonnade::cli::UsageMessage(app, error, ours->words), place = line->PlaceOf(message);
    SayError(absl::StrCat(place, place.empty() ? "" : ": ", message, "; --help lists what there is"));
    return place.empty() ? kUsage : kWrongContents;
  }
  const SubCommand& command = colonnade::cli::ParsedOf(commands);
  HandleSignals(command);
  const CLI::App& parsed = ParsedCommand(app);
  const absl::Status status = AsksForModels(parsed) ? colonnade::cli::ListModels(AsksForJson(parsed)) : command.run();
  return Report(WithPlace(status, *line), outcome);
}

}  // namespace

int main(int argc, char** argv) {
  OpenClosedStreams();
  colonnade::cli::SetUpOpenMp(argv);
  try {
    return Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "colonnade: out of memory; use a smaller --batch or more devices\n");
    return kDoesNotFit;
  } catch (const std::system_error& error) {
    const bool is_refused = error.code() == std::errc::resource_unavailable_try_again;
    SayError(is_refused ? absl::StrCat("the system refused another thread (", error.what(),
                                       "); use fewer --data-threads, --threads-per-device or --devices")
                        : absl::StrCat("unexpected: ", error.what()));
    return is_refused ? kDoesNotFit : kUnexpected;
  } catch (const std::exception& error) {
    SayError(absl::StrCat("unexpected: ", error.what()));
    return kUnexpected;
  }
}
