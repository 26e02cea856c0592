// The `colonnade` command: parses the command line, runs one sub-command, turns its status into message and exit code.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cli/bench.h"
#include "cli/build_facts.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/config.h"
#include "cli/data.h"
#include "cli/definitions.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/man_page.h"
#include "cli/session.h"
#include "cli/spellings.h"
#include "cli/waiting.h"
#include "program/nearest_name.h"

namespace {

using colonnade::cli::Flags;
using colonnade::cli::Outcome;

constexpr int kUsage = 2, kUnexpected = 1, kOutOfMemory = 12, kWriteError = 74, kSavedForLater = 75;

// Set by the first signal that asks for an end; g_signal says which it was.
std::atomic<bool> g_stop{false};
std::atomic<int> g_signal{0};

// A second Ctrl-C ends the process at once. SIGTERM and SIGUSR1 do not: those who send it may send it twice, and have
// SIGKILL.
void OnStop(int signal) {
  int none = 0;
  if (g_signal.compare_exchange_strong(none, signal)) {
    g_stop = true;
    constexpr char kMessage[] = "\ncolonnade: stopping after this step; again to quit\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  } else if (signal == SIGINT) {
    std::_Exit(128 + signal);
  }
}

CLI::App* AddTrain(CLI::App& app, Flags& flags) {
  CLI::App* train = app.add_subcommand("train", "Trains a model under a plan, then tests it.");
  colonnade::cli::AddModelFlags(*train, flags);
  colonnade::cli::AddDataFlags(*train, flags);
  colonnade::cli::AddPlanFlags(*train, flags);
  colonnade::cli::AddMachineFlags(*train, flags);
  colonnade::cli::AddOptimizerFlags(*train, flags);
  train->add_option("--steps", flags.steps, "steps in all (default: one epoch)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  train->add_option("--epochs", flags.epochs, "epochs in all")->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  train->add_option("--seed", flags.seed, "of everything random, below 2^53")
      ->check(CLI::Range(uint64_t{0}, (uint64_t{1} << 53) - 1))
      ->capture_default_str();
  CLI::Option* init =
      train->add_option("--init", flags.init, "weights to begin with, a safetensors file or FILE.index.json of several")
          ->type_name("FILE");
  train->add_flag("--replace-head", flags.replace_head, "but for the last layer's: begin that anew, for the data's classes")
      ->needs(init);
  train->add_option("--save", flags.save, "where to write the weights, a safetensors file")->type_name("FILE");
  train->add_option("--save-ema", flags.save_ema, "where to write the weights with the averages of --ema in them")
      ->type_name("FILE");
  train->add_option("--trace", flags.trace, "where to write the timeline of the last steps, Chrome trace format")
      ->type_name("FILE");
  colonnade::cli::AddCheckpointFlags(*train, flags);
  colonnade::cli::AddRecordFlags(*train, flags);
  colonnade::cli::AddReportFlag(*train, flags);
  colonnade::cli::AddJsonFlag(*train, flags);
  train->footer(
      "Examples:\n  colonnade train --model=two_column --data=digits --plan=hybrid --devices=4 --epochs=20\n"
      "  colonnade train --model=lenet --data=fashion-mnist --epochs=3 --save=lenet.safetensors --json\n"
      "  colonnade train --model=resnet20 --data=digits --epochs=20 --checkpoint=run1 --resume");
  return train;
}

CLI::App* AddEval(CLI::App& app, Flags& flags) {
  CLI::App* eval = app.add_subcommand("eval", "Tests saved weights on a data set: top-1, top-5, loss, images/s.");
  colonnade::cli::AddModelFlags(*eval, flags);
  colonnade::cli::AddDataFlags(*eval, flags);
  colonnade::cli::AddPlanFlags(*eval, flags);
  colonnade::cli::AddMachineFlags(*eval, flags);
  eval->add_option("--init", flags.init, "the weights, a safetensors file or FILE.index.json of several")
      ->type_name("FILE")
      ->required();
  colonnade::cli::AddJsonFlag(*eval, flags);
  eval->footer(
      "Examples:\n  colonnade eval --model=lenet --data=fashion-mnist --init=lenet.safetensors\n"
      "  colonnade eval --model=two_column --data=digits --init=w.safetensors --plan=model --devices=2 --json");
  return eval;
}

CLI::App* AddCheckpoint(CLI::App& app, Flags& flags) {
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Shows, verifies or exports what train --checkpoint has saved.");
  checkpoint
      ->add_option("ACTION", flags.action, "show: what is there; verify: reads all of it and compares; export: the weights")
      ->required()
      ->check(CLI::IsMember({"show", "verify", "export"}));
  checkpoint->add_option("DIR", flags.folder, "a folder of checkpoints, or one checkpoint in it")
      ->type_name("DIR")
      ->required();
  checkpoint->add_option("--out", flags.out, "of export: where to write the weights, a safetensors file")->type_name("FILE");
  checkpoint->add_flag("--ema", flags.exports_ema, "of export: with the averages of train --ema in the weights");
  colonnade::cli::AddJsonFlag(*checkpoint, flags);
  checkpoint->footer(
      "Examples:\n  colonnade checkpoint show run1\n"
      "  colonnade checkpoint export run1 --out=weights.safetensors");
  return checkpoint;
}

CLI::App* AddVerify(CLI::App& app, Flags& flags) {
  CLI::App* verify = app.add_subcommand(
      "verify", "Runs the same steps on one device and under a plan, and compares loss, gradients and weights.");
  colonnade::cli::AddModelFlags(*verify, flags);
  colonnade::cli::AddDataFlags(*verify, flags);
  colonnade::cli::AddPlanFlags(*verify, flags);
  colonnade::cli::AddMachineFlags(*verify, flags);
  colonnade::cli::AddOptimizerFlags(*verify, flags);
  verify->add_option("--steps", flags.steps, "steps to compare (default: 3)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  verify->add_option("--seed", flags.seed, "of everything random, below 2^53")
      ->check(CLI::Range(uint64_t{0}, (uint64_t{1} << 53) - 1))
      ->capture_default_str();
  colonnade::cli::AddJsonFlag(*verify, flags);
  verify->footer(
      "Examples:\n  colonnade verify --model=two_column --plan=hybrid --devices=4\n"
      "  colonnade verify --model=lenet --plan=owt --devices=2 --kernels=reference --json");
  return verify;
}

CLI::App* AddProgram(CLI::App& app, Flags& flags) {
  CLI::App* program = app.add_subcommand("program", "Prints the lowered Program of a model, plan and batch.");
  colonnade::cli::AddModelFlags(*program, flags);
  colonnade::cli::AddPlanFlags(*program, flags);
  colonnade::cli::AddMachineFlags(*program, flags);
  program->add_option("--mode", flags.mode, "train or eval")->check(CLI::IsMember({"train", "eval"}))->capture_default_str();
  program->add_flag("--summary", flags.summary, "what each device does, and what moves between devices");
  program->footer(
      "Examples:\n  colonnade program --model=alexnet2012 --plan=model --devices=2 --summary\n"
      "  colonnade program --model=two_column --plan=hybrid --devices=4 --batch=32");
  return program;
}

CLI::App* AddPlan(CLI::App& app, Flags& flags) {
  CLI::App* plan =
      app.add_subcommand("plan", "Shows a plan layer by layer; predicts time, communication and memory on a machine.");
  colonnade::cli::AddModelFlags(*plan, flags);
  colonnade::cli::AddPlanFlags(*plan, flags);
  plan->add_option("--explain", flags.explain, "a layer: what every other way to split it would cost");
  plan->add_option("--save-plan", flags.save_plan, "where to write the plan, a file that --plan takes")->type_name("FILE");
  plan->add_option("--drawing", flags.drawing,
                   "where to draw the network under the plan: SVG, or text in a file that ends in .txt")
      ->type_name("FILE.svg");
  plan->add_flag("--unfold", flags.unfold,
                 "draws each layer of a block, where one box is drawn for branches that join again");
  plan->add_option("--trace", flags.trace, "where to write the predicted timeline, Chrome trace format")->type_name("FILE");
  colonnade::cli::AddInputRateFlag(*plan, flags);
  colonnade::cli::AddDrawFlags(*plan, flags);
  colonnade::cli::AddReportFlag(*plan, flags);
  colonnade::cli::AddJsonFlag(*plan, flags);
  plan->footer(
      "Examples:\n  colonnade plan --model=alexnet2012 --batch=256 --devices=4 --plan=auto --machine=titan-2013\n"
      "  colonnade plan --model=alexnet --batch=512 --devices=8 --plan=owt --machine=hgx-h100 --explain=classifier.1");
  return plan;
}

CLI::App* AddSimulate(CLI::App& app, Flags& flags) {
  CLI::App* simulate = app.add_subcommand("simulate", "Runs a Program on a machine profile; writes the timeline.");
  colonnade::cli::AddModelFlags(*simulate, flags);
  colonnade::cli::AddPlanFlags(*simulate, flags);
  simulate->add_option("--trace", flags.trace, "where to write the timeline of the last steps, Chrome trace format")
      ->type_name("FILE");
  colonnade::cli::AddInputRateFlag(*simulate, flags);
  colonnade::cli::AddDrawFlags(*simulate, flags);
  colonnade::cli::AddReportFlag(*simulate, flags);
  colonnade::cli::AddJsonFlag(*simulate, flags);
  simulate->footer(
      "Examples:\n  colonnade simulate --model=alexnet2012 --batch=256 --devices=4 --plan=hybrid --machine=titan-2013\n"
      "  colonnade simulate --model=alexnet --batch=512 --devices=8 --plan=data --machine=dgx1-v100 --trace=t.json");
  return simulate;
}

CLI::App* AddTable(CLI::App& app, Flags& flags) {
  CLI::App* table =
      app.add_subcommand("table", "The 1/2/4-device table of the paper: paper, simulated, measured, side by side.");
  CLI::Option* model =
      table->add_option("--model", flags.model, "network of the zoo, or a file of one (default: alexnet2012)")
          ->type_name("MODEL");
  CLI::Option* batch = table->add_option("--batch", flags.batch, "global batch (default: 256)")
                           ->check(CLI::Range(int64_t{4}, int64_t{1} << 30));
  table
      ->add_option("--rows", flags.rows,
                   "a table of one's own instead, JSON: rows with model, batch, devices, plan and time")
      ->type_name("FILE")
      ->excludes(model)
      ->excludes(batch);
  table
      ->add_option("--fit", flags.fit,
                   "one or two rows to which the profile is fitted (default: the paper's 1-GPU row, where it is compared)")
      ->delimiter(',')
      ->expected(1, 2);
  table->add_option("--out", flags.out, "where to write the profile as it was fitted")->type_name("FILE");
  colonnade::cli::AddProfileFlag(*table, flags);
  table->get_option("--machine")->default_str("titan-2013");
  colonnade::cli::AddMeasuringFlags(*table, flags);
  table
      ->add_option("--calibrate-on", flags.calibrate_on,
                   "one more row of the paper that gives the per-step overhead: 2-model, …; as --fit=1,2-model")
      ->excludes("--fit");
  colonnade::cli::AddDrawFlags(*table, flags);
  table->add_option("--plots", flags.plots, "beginning of the names of the plots to write, SVG")->type_name("FILE");
  table->add_option("--curve-steps", flags.curve_steps, "steps of the training run whose error is plotted against time")
      ->check(CLI::Range(int64_t{20}, int64_t{1} << 30))
      ->capture_default_str();
  colonnade::cli::AddReportFlag(*table, flags);
  colonnade::cli::AddJsonFlag(*table, flags);
  table->footer(
      "Examples:\n  colonnade table --plots=paper\n  colonnade table --machine=local --batch=32 --json\n"
      "  colonnade table --rows=mine.json --machine=dgx1-v100 --fit=1-gpu --out=fitted.json\n"
      "  colonnade table --machine=hgx-h100 --backend=cuda --dtype=tf32");
  return table;
}

CLI::App* AddCalibrate(CLI::App& app, Flags& flags) {
  CLI::App* calibrate =
      app.add_subcommand("calibrate", "Measures this machine's kernels, links and overheads; writes a machine profile.");
  calibrate
      ->add_option("--model", flags.model, "network or file whose shapes are timed (default: lenet, alexnet2012, alexnet)")
      ->type_name("MODEL");
  calibrate->add_option("--batch", flags.batch, "global batch around which shapes are timed")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  calibrate->add_option("--devices", flags.devices, "devices at work, at most (default: cores, or GPUs)")
      ->check(CLI::Range(1, 64));
  calibrate->add_option("--out", flags.out, "where to write the profile (default: that of --machine=local)")
      ->type_name("FILE");
  calibrate->add_option("--transfers", flags.transfers, "JSON of bench transfers to read instead of timing transfers here")
      ->type_name("FILE");
  CLI::Option* data =
      calibrate
          ->add_option("--data", flags.data, "data whose input is timed, as of io-bench (default: the input is not timed)")
          ->type_name("DATA");
  calibrate->add_option("--augment", flags.augment, "as of train")
      ->check([](const std::string& augment) { return std::string(colonnade::cli::CheckAugment(augment).message()); })
      ->capture_default_str()
      ->needs(data);
  calibrate
      ->add_option("--input-size", flags.input_size, "rows and columns of an image of --data (default: the data's, or 224)")
      ->check(CLI::Range(1, 4096))
      ->needs(data);
  calibrate->add_flag("--long", flags.long_run,
                      "all rounds of all plans, however long they take (default: what fits into three minutes)");
  colonnade::cli::AddMeasuringFlags(*calibrate, flags);
  colonnade::cli::AddJsonFlag(*calibrate, flags);
  calibrate->footer(
      "Examples:\n  colonnade calibrate\n  colonnade calibrate --model=alexnet --batch=32 --out=machine.json\n"
      "  colonnade calibrate --data=imagenet --augment=resized,mirror\n"
      "  colonnade calibrate --backend=cuda --dtype=tf32 --batch=256 --out=gpus.json");
  return calibrate;
}

CLI::App* AddIoBench(CLI::App& app, Flags& flags) {
  CLI::App* bench = app.add_subcommand(
      "io-bench", "Reads, decodes and augments data as training would, without training: images/s, and of each stage.");
  bench->add_option("--data", flags.data, "as of train; images are those of the training set")
      ->type_name("DATA")
      ->capture_default_str();
  bench->add_option("--threads", flags.threads, "numbers of threads to try, 1,2,4 (default: the number of cores)")
      ->delimiter(',')
      ->check(CLI::Range(1, colonnade::cli::kMostDataThreads));
  bench->add_option("--epochs", flags.epochs, "how often each sample is read (default: 1)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  bench->add_option("--batch", flags.batch, "images of a batch")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  bench->add_option("--input-size", flags.input_size, "rows and columns of an image (default: the data's, or 224)")
      ->check(CLI::Range(1, 4096));
  bench->add_option("--channels", flags.input_channels, "channels of an image (default: the data's, or 3)")
      ->check(CLI::IsMember({1, 3}));
  bench->add_option("--augment", flags.augment, "as of train")
      ->check([](const std::string& augment) { return std::string(colonnade::cli::CheckAugment(augment).message()); })
      ->capture_default_str();
  bench->add_option("--shuffle", flags.shuffle, "off: samples in the order of the files")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  bench->add_option("--prefetch", flags.prefetch, "as of train: batches in memory")
      ->check(CLI::Range(1, colonnade::cli::kMostPrefetched))
      ->capture_default_str();
  bench->add_option("--csv", flags.csv, "where to write a line for each number of threads")->type_name("FILE");
  colonnade::cli::AddJsonFlag(*bench, flags);
  bench->footer(
      "Examples:\n  colonnade io-bench --data=imagenet --threads=1,2,4 --batch=256\n"
      "  colonnade io-bench --data=digits --json");
  return bench;
}

CLI::App* AddModels(CLI::App& app, Flags& flags) {
  CLI::App* models =
      app.add_subcommand("models", "Lists the networks of the zoo, or the layers of one of them or of a file.");
  CLI::Option* name =
      models->add_option("NAME", flags.model, "the network whose layers are shown, with shapes, parameters and flop")
          ->type_name("MODEL");
  colonnade::cli::AddNetworkFlags(*models, flags);
  for (CLI::Option* option : models->get_options()) {
    if (option->get_group() == "Model") option->needs(name);
  }
  colonnade::cli::AddJsonFlag(*models, flags);
  CLI::Option* json = models->get_option("--json");
  json->description("of a network: the file that --model=FILE takes; of the zoo: a list with parameters and flop");
  models->add_flag("--summary", flags.summary, "with --json: what each layer makes and costs instead")
      ->needs(name)
      ->needs(json);
  models->footer(
      "Examples:\n  colonnade models vgg16 --width=0.5 --input-size=32 --classes=10\n"
      "  colonnade models resnet20 --json > mine.json");
  return models;
}

CLI::App* AddInfo(CLI::App& app, Flags& flags) {
  CLI::App* info =
      app.add_subcommand("info", "Version, build, processor, GPUs, libraries and machine profile: what a bug report needs.");
  colonnade::cli::AddJsonFlag(*info, flags);
  info->footer("Examples:\n  colonnade info\n  colonnade info --json");
  return info;
}

CLI::App* AddCompletion(CLI::App& app, Flags& flags) {
  using colonnade::cli::kShells;
  CLI::App* completion = app.add_subcommand("completion", "Prints what completes this command line in bash, zsh or fish.");
  completion->add_option("SHELL", flags.shell, "the shell that reads it")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kShells), std::end(kShells))));
  completion->footer(
      "Examples:\n  colonnade completion bash >~/.local/share/bash-completion/completions/colonnade\n"
      "  colonnade completion fish >~/.config/fish/completions/colonnade.fish");
  return completion;
}

CLI::App* AddMan(CLI::App& app, Flags& flags) {
  CLI::App* man = app.add_subcommand("man", "Prints the manual page of the command, or of a sub-command, in roff.");
  std::vector<std::string> names;
  for (const CLI::App* command : colonnade::cli::SubCommandsOf(app)) names.push_back(colonnade::cli::NameOf(*command));
  CLI::Option* page =
      man->add_option("SUBCOMMAND", flags.page, "the sub-command whose page is printed")->check(CLI::IsMember(names));
  man->add_option("--out", flags.folder, "a folder into which all pages are written instead")
      ->type_name("DIR")
      ->excludes(page);
  man->footer("Examples:\n  colonnade man train | man -l -\n  colonnade man --out=man1");
  return man;
}

// `table` is the paper's unless the command line says otherwise.
void TakeDefaultsOfTable(const CLI::App& table, Flags& flags) {
  if (table.count("--machine") == 0) flags.machine = flags.rows.empty() ? "titan-2013" : "";
  if (table.count("--model") == 0) flags.model = "alexnet2012";
  if (table.count("--batch") == 0) flags.batch = 256;
  if (table.count("--backend") == 0) flags.backend = "cpu";
}

// The flag that was probably meant: one that `word` begins with or that begins with it, or the nearest in letters. Empty if
// there is none.
std::string FlagMeant(const std::string& word, const std::vector<std::string>& known) {
  for (const std::string& flag : known) {
    if (flag.size() > 2 && (absl::StartsWith(word, flag + "-") || absl::StartsWith(flag, word + "-"))) return flag;
  }
  std::vector<std::string> names;
  for (const std::string& flag : known) names.emplace_back(absl::StripPrefix(flag, "--"));
  const std::string nearest = colonnade::program::NearestName(absl::StripPrefix(word, "--"), names);
  return nearest.empty() ? "" : "--" + nearest;
}

std::string UnknownCommand(const std::string& word, const std::vector<std::string>& commands) {
  const std::string nearest = colonnade::program::NearestName(word, commands);
  return absl::StrFormat("unknown sub-command \"%s\"%s; expected one of %s", word,
                         nearest.empty() ? "" : absl::StrFormat(", did you mean \"%s\"?", nearest),
                         absl::StrJoin(commands, ", "));
}

// Of `colonnade bench …`, where none of its sub-commands was meant.
std::string MissingOfGroup(const CLI::App& group, const std::vector<std::string>& words) {
  std::vector<std::string> commands;
  for (const CLI::App* sub : group.get_subcommands({})) commands.push_back(sub->get_name());
  if (words.size() > 1 && !absl::StartsWith(words[1], "-")) {
    return absl::StrCat(words[0], ": ", UnknownCommand(words[1], commands));
  }
  return absl::StrFormat("%s: expected one of %s behind it", words[0], absl::StrJoin(commands, ", "));
}

// CLI11's word on a number, which it says of "1e3" and "64.5", too.
std::string InWholeNumbers(const std::string& message) {
  std::smatch parts;
  if (!std::regex_match(message, parts, std::regex("(--[a-z-]+): Value (.*) not in range (-?[0-9]+) to ([0-9]+)")))
    return message;
  return absl::StrFormat("%s: expected a whole number from %s to %s, found \"%s\"", parts[1].str(), parts[3].str(),
                         parts[4].str(), parts[2].str());
}

// The first flag that ends in "=", for whose value CLI11 would take the next word; empty if there is none.
std::string FlagWithoutValue(const std::vector<std::string>& words) {
  const auto found = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return absl::StartsWith(word, "--") && word.find('=') + 1 == word.size();
  });
  return found == words.end() ? "" : *found;
}

// The message of a command line that cannot be parsed, with the flag that was probably meant.
std::string UsageMessage(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  std::string message = InWholeNumbers(error.what());
  std::vector<std::string> known, commands;
  for (const CLI::App* sub : app.get_subcommands({})) commands.push_back(sub->get_name());
  const CLI::App* const meant = colonnade::cli::CommandOf(app, words);
  const auto is_command = [&](const std::string& word) {
    return std::find(commands.begin(), commands.end(), word) != commands.end();
  };
  const bool flag_first = !words.empty() && absl::StartsWith(words[0], "-");
  if (!words.empty() && !flag_first && !is_command(words[0])) {
    return UnknownCommand(words[0], commands);
  }
  if (meant != nullptr && !colonnade::cli::SubCommandsOf(*meant).empty()) return MissingOfGroup(*meant, words);
  if (flag_first && message.find(words[0]) == std::string::npos) {
    const auto command = std::find_if(words.begin() + 1, words.end(), is_command);
    if (command != words.end()) {
      return absl::StrFormat("expected the sub-command %s first, and its flags after it, found \"%s\" before it", *command,
                             words[0]);
    }
  }
  if (meant != nullptr) {
    for (const CLI::Option* option : meant->get_options()) known.push_back(option->get_name());
  }
  for (const std::string& given : words) {
    const std::string word = given.substr(0, given.find('='));
    if (message.find(word) == std::string::npos || std::find(known.begin(), known.end(), word) != known.end()) continue;
    const std::string nearest = FlagMeant(word, known);
    if (!nearest.empty()) return absl::StrFormat("%s; did you mean \"%s\"?", message, nearest);
  }
  return message;
}

int Report(const absl::Status& status, const Outcome& outcome) {
  if (!status.ok()) {
    std::fprintf(stderr, "colonnade: %s\n", std::string(status.message()).c_str());
    return colonnade::cli::ExitCodeOf(status);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    std::fprintf(stderr, "colonnade: cannot write the results to the standard output\n");
    return kWriteError;
  }
  if (outcome.interrupted) {
    std::fprintf(stderr, "colonnade: stopped early, as asked; %s\n",
                 outcome.saved.empty() ? "the results are those of the steps done" : outcome.saved.c_str());
    return g_signal != SIGINT && !outcome.saved.empty() ? kSavedForLater : 128 + g_signal;
  }
  return outcome.disagrees ? kUnexpected : 0;
}

int Main(int argc, char** argv) {
  CLI::App app{"Trains convolutional networks with hybrid model and data parallelism."};
  app.require_subcommand(1);
  app.name("colonnade");
  app.formatter(std::make_shared<colonnade::cli::HelpFormatter>(colonnade::cli::HelpWidth()));  // that of all sub-commands
  app.set_version_flag("--version", "colonnade " + colonnade::cli::VersionText(colonnade::cli::ThisBuild()));
  Flags flags;
  CLI::App* train = AddTrain(app, flags);
  CLI::App* eval = AddEval(app, flags);
  CLI::App* checkpoint = AddCheckpoint(app, flags);
  CLI::App* verify = AddVerify(app, flags);
  CLI::App* program = AddProgram(app, flags);
  CLI::App* plan = AddPlan(app, flags);
  CLI::App* simulate = AddSimulate(app, flags);
  CLI::App* table = AddTable(app, flags);
  CLI::App* calibrate = AddCalibrate(app, flags);
  CLI::App* models = AddModels(app, flags);
  CLI::App* io_bench = AddIoBench(app, flags);
  for (CLI::App* command : app.get_subcommands({})) colonnade::cli::AddConfigFlag(*command, flags.config);
  colonnade::cli::BenchFlags bench_flags;
  CLI::App* bench = colonnade::cli::AddBench(app, flags, bench_flags);
  CLI::App* info = AddInfo(app, flags);
  CLI::App* completion = AddCompletion(app, flags);
  CLI::App* man = AddMan(app, flags);
  absl::StatusOr<colonnade::cli::OurWords> ours = colonnade::cli::InOurWords({argv + 1, argv + argc}, app);
  if (!ours.ok()) return Report(ours.status(), {});
  for (const std::string& note : ours->notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  if (const std::string flag = FlagWithoutValue(ours->words); !flag.empty()) {
    std::fprintf(stderr, "colonnade: %s: expected a value behind it, found none\n", flag.c_str());
    return kUsage;
  }
  absl::StatusOr<std::vector<std::string>> words = colonnade::cli::WithConfig(ours->words, app);
  if (!words.ok()) return Report(words.status(), {});
  try {
    app.parse(std::vector<std::string>(words->rbegin(), words->rend()));  // CLI11 takes them from the end
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    if (flags.model == "list") return Report(colonnade::cli::ListModels(flags), {});
    std::fprintf(stderr, "colonnade: %s; --help lists what there is\n", UsageMessage(app, error, ours->words).c_str());
    return kUsage;
  }
  for (const CLI::App* command : {train, plan, simulate, table}) {
    if (command->parsed()) flags.resolved = colonnade::cli::ResolvedConfig(*command);
  }
  if (train->parsed()) {
    flags.all = colonnade::cli::ResolvedFlags(*train);
  }
  // The others have nothing to keep: there a signal ends the process.
  if (train->parsed() || eval->parsed()) {
    for (int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, OnStop);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // so that writing says that a file grows too large
  Outcome outcome;
  absl::Status status;
  if (flags.model == "list") {
    status = colonnade::cli::ListModels(flags);
  } else if (train->parsed()) {
    status = colonnade::cli::RunTrain(flags, g_stop, outcome);
  } else if (eval->parsed()) {
    status = colonnade::cli::RunEval(flags, g_stop, outcome);
  } else if (checkpoint->parsed()) {
    status = colonnade::cli::RunCheckpoint(flags);
  } else if (verify->parsed()) {
    status = colonnade::cli::RunVerify(flags, outcome);
  } else if (program->parsed()) {
    status = colonnade::cli::RunProgram(flags);
  } else if (plan->parsed()) {
    status = colonnade::cli::RunPlan(flags);
  } else if (simulate->parsed()) {
    status = colonnade::cli::RunSimulate(flags);
  } else if (table->parsed()) {
    TakeDefaultsOfTable(*table, flags);
    status = colonnade::cli::RunTable(flags);
  } else if (calibrate->parsed()) {
    if (calibrate->count("--backend") == 0) flags.backend = "cpu";
    if (calibrate->count("--data") == 0) flags.data.clear();
    status = colonnade::cli::RunCalibrate(flags);
  } else if (models->parsed()) {
    status = colonnade::cli::RunModels(flags);
  } else if (io_bench->parsed()) {
    status = colonnade::cli::RunIoBench(flags);
  } else if (bench->parsed()) {
    status = colonnade::cli::RunBench(*bench, flags, bench_flags, outcome);
  } else if (info->parsed()) {
    status = colonnade::cli::RunInfo(flags);
  } else if (completion->parsed()) {
    std::fputs(colonnade::cli::CompletionScript(app, flags.shell).c_str(), stdout);
  } else if (man->parsed()) {
    status = colonnade::cli::RunMan(flags, app);
  }
  return Report(status, outcome);
}

}  // namespace

int main(int argc, char** argv) {
  colonnade::cli::LimitSpinning(argv);
  try {
    return Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "colonnade: out of memory; use a smaller --batch or more devices\n");
    return kOutOfMemory;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "colonnade: unexpected: %s\n", error.what());
    return kUnexpected;
  }
}
