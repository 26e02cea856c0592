#include "cli/sub_commands.h"

#include <cstdio>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/command_line/config.h"
#include "cli/command_line/definitions.h"
#include "cli/completion.h"
#include "cli/man_page.h"
#include "data/class_names.h"
#include "tools/calibration.h"

namespace colonnade::cli {
namespace {

CLI::App* AddTrain(CLI::App& app, Flags& flags) {
  CLI::App* train = app.add_subcommand("train", "Trains a model under a plan, then tests it.");
  AddModelFlags(*train, flags);
  AddDataFlags(*train, flags);
  AddPlanFlags(*train, flags);
  AddProfileFlag(*train, flags);
  AddBackendFlags(*train, flags, /*dtype_may_be_auto=*/true);
  AddOptimizerFlags(*train, flags);
  train->add_option("--steps", flags.steps, "steps in all (default: one epoch)")->check(CLI::Range(int64_t{1}, kMostSteps));
  train->add_option("--epochs", flags.epochs, "epochs in all")->check(CLI::Range(int64_t{1}, kMostEpochs));
  AddSeedFlag(*train, flags, "seed of all random numbers, below 2^53");
  CLI::Option* init =
      train->add_option("--init", flags.init, "weights to begin with, a safetensors file or FILE.index.json of several")
          ->type_name("FILE");
  train
      ->add_flag("--replace-head", flags.replace_head,
                 "with --init: initialises the last layer anew, and that of auxiliary heads, for the data's classes")
      ->needs(init);
  train->add_option("--save", flags.save, "where to write the weights, a safetensors file")->type_name("FILE");
  train->add_option("--save-ema", flags.save_ema, "where to write the weights with the averages of --ema in them")
      ->type_name("FILE");
  train->add_option("--trace", flags.trace, "where to write the timeline of the last steps, Chrome trace format")
      ->type_name("FILE");
  AddCheckpointFlags(*train, flags);
  AddRecordFlags(*train, flags);
  AddReportFlag(*train, flags);
  AddJsonFlag(*train, flags);
  train->footer(
      "Examples:\n  colonnade train --model=two_column --data=digits --plan=hybrid --devices=4 --epochs=20\n"
      "  colonnade train --model=lenet --data=fashion-mnist --epochs=3 --save=lenet.safetensors --json\n"
      "  colonnade train --model=resnet20 --data=digits --epochs=20 --checkpoint=run1 --resume");
  return train;
}

// Those of a network whose weights are there: what it is, its data, and the devices that compute.
void AddTrainedFlags(CLI::App& app, Flags& flags) {
  AddModelFlags(app, flags);
  AddDataFlags(app, flags);
  AddPlanFlags(app, flags);
  AddProfileFlag(app, flags);
  AddBackendFlags(app, flags);
  app.add_option("--init", flags.init, "the weights, a safetensors file or FILE.index.json of several")
      ->type_name("FILE")
      ->required();
}

CLI::App* AddEval(CLI::App& app, Flags& flags) {
  CLI::App* eval = app.add_subcommand("eval", "Tests saved weights on a data set: top-1, top-5, loss, images/s.");
  AddTrainedFlags(*eval, flags);
  AddJsonFlag(*eval, flags);
  eval->footer(
      "Examples:\n  colonnade eval --model=lenet --data=fashion-mnist --init=lenet.safetensors\n"
      "  colonnade eval --model=two_column --data=digits --init=w.safetensors --plan=model --devices=2 --json");
  return eval;
}

CLI::App* AddPredict(CLI::App& app, Flags& flags) {
  CLI::App* predict =
      app.add_subcommand("predict", "Tells what saved weights take images for: the likeliest classes of each.");
  predict->add_option("IMAGE", flags.images, "image files, and folders of them")->type_name("FILE")->required();
  AddTrainedFlags(*predict, flags);
  predict->add_option("--top", flags.top, "how many classes of each image, the likeliest first")
      ->check(CLI::Range(int64_t{1}, data::kMostClasses))
      ->capture_default_str();
  predict->get_option("--data")
      ->description("the training set: names of the classes, mean and deviation of the pixels (default: --mean and --std)")
      ->default_str("");
  predict->get_option("--bad-sample")
      ->description("skip: of the training set; of an image that cannot be read this is said, and the others are answered");
  predict->get_option("--batch")->description("images at once (default: all of them, up to some 64)")->default_str("");
  AddJsonFlag(*predict, flags);
  predict->footer(
      "Examples:\n  colonnade predict --model=resnet20 --data=photos --init=w.safetensors cat.jpg dog.png\n"
      "  colonnade predict --model=resnet50 --init=resnet50.safetensors --mean=0.485,0.456,0.406 --std=0.229,0.224,0.225 "
      "--top=1 --json folder");
  return predict;
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
  checkpoint->add_option("--out", flags.out, "export: where to write the weights, a safetensors file")->type_name("FILE");
  checkpoint->add_flag("--averages", flags.exports_averages,
                       "export: the averages of train --ema in the place of the weights");
  AddJsonFlag(*checkpoint, flags);
  checkpoint->footer(
      "Examples:\n  colonnade checkpoint show run1\n"
      "  colonnade checkpoint export run1 --out=weights.safetensors");
  return checkpoint;
}

CLI::App* AddVerify(CLI::App& app, Flags& flags) {
  CLI::App* verify = app.add_subcommand(
      "verify", "Runs the same steps on one device and under a plan, and compares loss, gradients and weights.");
  AddModelFlags(*verify, flags);
  AddDataFlags(*verify, flags);
  AddPlanFlags(*verify, flags);
  AddProfileFlag(*verify, flags);
  AddBackendFlags(*verify, flags);
  AddOptimizerFlags(*verify, flags);
  verify->add_option("--steps", flags.steps, "steps to compare (default: 3)")->check(CLI::Range(int64_t{1}, kMostSteps));
  AddSeedFlag(*verify, flags, "seed of all random numbers, below 2^53");
  AddJsonFlag(*verify, flags);
  verify->footer(
      "Examples:\n  colonnade verify --model=two_column --plan=hybrid --devices=4\n"
      "  colonnade verify --model=lenet --plan=owt --devices=2 --kernels=reference --json");
  return verify;
}

CLI::App* AddProgram(CLI::App& app, Flags& flags) {
  CLI::App* program = app.add_subcommand("program", "Prints the lowered Program of a model, plan and batch.");
  AddModelFlags(*program, flags);
  AddPlanFlags(*program, flags);
  AddPredictedUpdateFlags(*program, flags);
  AddProfileFlag(*program, flags);
  AddKernelsFlag(*program, flags);
  AddDtypeFlag(*program, flags, /*may_be_auto=*/false);
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
  AddModelFlags(*plan, flags);
  AddPlanFlags(*plan, flags);
  AddPredictedUpdateFlags(*plan, flags);
  AddProfileFlag(*plan, flags);
  plan->add_option("--explain", flags.explain, "a layer: what every other way to split it would cost");
  plan->add_option("--save-plan", flags.save_plan, "where to write the plan, a file that --plan takes")->type_name("FILE");
  CLI::Option* drawing =
      plan->add_option("--drawing", flags.drawing,
                       "where to draw the network under the plan: SVG, or text in a file that ends in .txt")
          ->check(DrawnFile())
          ->type_name("FILE.svg");
  plan->add_flag("--unfold", flags.unfold,
                 "draws each layer of a block, where one box is drawn for branches that join again")
      ->needs(drawing);
  plan->add_option("--trace", flags.trace, "where to write the simulated timeline of two steps, Chrome trace format")
      ->type_name("FILE");
  AddTimedKernelsFlag(*plan, flags);
  AddDtypeFlag(*plan, flags, /*may_be_auto=*/false);
  AddInputRateFlag(*plan, flags);
  AddDrawFlags(*plan, flags);
  AddReportFlag(*plan, flags);
  AddJsonFlag(*plan, flags);
  plan->footer(
      "Examples:\n  colonnade plan --model=alexnet2012 --batch=256 --devices=4 --plan=auto --machine=titan-2013\n"
      "  colonnade plan --model=alexnet --batch=512 --devices=8 --plan=owt --machine=hgx-h100 --explain=classifier.1");
  return plan;
}

CLI::App* AddSimulate(CLI::App& app, Flags& flags) {
  CLI::App* simulate = app.add_subcommand("simulate", "Runs a Program on a machine profile; writes the timeline.");
  AddModelFlags(*simulate, flags);
  AddPlanFlags(*simulate, flags);
  AddPredictedUpdateFlags(*simulate, flags);
  AddProfileFlag(*simulate, flags);
  simulate->add_option("--trace", flags.trace, "where to write the timeline of the last steps, Chrome trace format")
      ->type_name("FILE");
  AddTimedKernelsFlag(*simulate, flags);
  AddDtypeFlag(*simulate, flags, /*may_be_auto=*/false);
  AddInputRateFlag(*simulate, flags);
  AddDrawFlags(*simulate, flags);
  AddReportFlag(*simulate, flags);
  AddJsonFlag(*simulate, flags);
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
  CLI::Option* batch =
      table->add_option("--batch", flags.batch, "global batch (default: 256)")->check(CLI::Range(int64_t{4}, kMostBatch));
  table
      ->add_option("--rows", flags.rows,
                   "a table of one's own instead, JSON: rows with model, batch, devices, plan and time")
      ->type_name("FILE")
      ->excludes(model)
      ->excludes(batch);
  table
      ->add_option("--fit", flags.fit,
                   "one or two rows whose times the profile is changed to give, so that the others can be compared "
                   "(default: 1, the paper's row of one GPU, where it is on that machine)")
      ->delimiter(',')
      ->expected(1, 2);
  table->add_option("--out", flags.out, "where to write the profile as --fit made it")->type_name("FILE");
  AddProfileFlag(*table, flags);
  CLI::Option* machine = table->get_option("--machine");
  machine
      ->description(absl::StrCat(machine->get_description(),
                                 " (default: titan-2013; with --rows the machine that the file names, or local)"))
      ->default_str("");
  AddMeasuringFlags(*table, flags);
  AddDrawFlags(*table, flags);
  table->add_option("--plots", flags.plots, "writes the table's plots, SVG files whose names begin with this")
      ->type_name("FILE");
  table->add_option("--curve-steps", flags.curve_steps, "steps of the training run whose error is plotted against time")
      ->check(CLI::Range(int64_t{20}, int64_t{1} << 30))
      ->capture_default_str();
  AddReportFlag(*table, flags);
  AddJsonFlag(*table, flags);
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
      ->check(CLI::Range(int64_t{1}, kMostTimedBatch))
      ->capture_default_str();
  calibrate->add_option("--devices", flags.devices, "devices at work, at most (default: cores, or GPUs)")
      ->check(CLI::Range(1, tools::kMostDevicesHere));
  calibrate->add_option("--out", flags.out, "where to write the profile (default: that of --machine=local)")
      ->type_name("FILE");
  calibrate->add_option("--transfers", flags.transfers, "JSON of bench transfers to read instead of timing transfers here")
      ->type_name("FILE");
  CLI::Option* data =
      calibrate
          ->add_option("--data", flags.data, "data whose input is timed, as of io-bench (default: the input is not timed)")
          ->type_name("DATA");
  AddAugmentFlag(*calibrate, flags, "as of train")->needs(data);
  calibrate
      ->add_option("--input-size", flags.input_size, "rows and columns of an image of --data (default: the data's, or 224)")
      ->check(CLI::Range(1, kMostSide))
      ->needs(data);
  calibrate->add_flag("--long", flags.long_run,
                      "all rounds of all plans, however long they take (default: what fits into three minutes)");
  AddMeasuringFlags(*calibrate, flags);
  AddJsonFlag(*calibrate, flags);
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
      ->check(CLI::Range(1, kMostDataThreads));
  bench->add_option("--epochs", flags.epochs, "how often each image is read (default: 1)")
      ->check(CLI::Range(int64_t{1}, kMostEpochs));
  bench
      ->add_option("--warm-up-epochs", flags.warm_up_epochs,
                   "epochs before, which do not count; 2 make the indices of JPEGs")
      ->check(CLI::Range(int64_t{0}, kMostEpochs))
      ->capture_default_str();
  bench->add_option("--batch", flags.batch, "images of a batch")
      ->check(CLI::Range(int64_t{1}, kMostTimedBatch))
      ->capture_default_str();
  bench->add_option("--input-size", flags.input_size, "rows and columns of an image (default: the data's, or 224)")
      ->check(CLI::Range(1, kMostSide));
  bench->add_option("--channels", flags.input_channels, "channels of an image (default: the data's, or 3)")
      ->check(CLI::IsMember({1, 3}));
  AddAugmentFlag(*bench, flags, "as of train");
  bench->add_option("--shuffle", flags.shuffle, "off: samples in the order of the files")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  bench->add_option("--prefetch", flags.prefetch, "as of train: batches in memory")
      ->check(CLI::Range(1, kMostPrefetched))
      ->capture_default_str();
  bench->add_option("--jpeg-index", flags.jpeg_index, "as of train: MB for indices of JPEGs")
      ->check(CLI::Range(int64_t{0}, kMostIndexMegabytes))
      ->capture_default_str();
  bench->add_option("--csv", flags.csv, "where to write a line for each number of threads")->type_name("FILE");
  AddJsonFlag(*bench, flags);
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
  AddNetworkFlags(*models, flags);
  for (CLI::Option* option : models->get_options()) {
    if (option->get_group() == "Model") option->needs(name);
  }
  AddJsonFlag(*models, flags);
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
  AddJsonFlag(*info, flags);
  info->footer("Examples:\n  colonnade info\n  colonnade info --json");
  return info;
}

CLI::App* AddCompletion(CLI::App& app, Flags& flags) {
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
  for (const CLI::App* command : SubCommandsOf(app)) names.push_back(NameOf(*command));
  for (const CLI::App* group : GroupsOf(app)) names.push_back(NameOf(*group));
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

}  // namespace

std::vector<SubCommand> AddSubCommands(CLI::App& app, Flags& flags, BenchFlags& bench_flags, const std::atomic<bool>& stop,
                                       Outcome& outcome) {
  CLI::App *train = AddTrain(app, flags), *eval = AddEval(app, flags), *predict = AddPredict(app, flags);
  std::vector<SubCommand> commands = {
      {.app = train,
       .run = [&] { return RunTrain(flags, stop, outcome); },
       .records_flags = true,
       .keeps_results = true,
       .ignores_sigpipe = true},
      {.app = eval, .run = [&] { return RunEval(flags, stop, outcome); }, .keeps_results = true, .ignores_sigpipe = true},
      {.app = predict,
       .run =
           [&flags, &stop, &outcome, predict] {
             if (predict->count("--data") == 0) flags.data.clear();
             if (predict->count("--batch") == 0) flags.batch = 0;
             return RunPredict(flags, stop, outcome);
           },
       .keeps_results = true},
      {AddCheckpoint(app, flags), [&] { return RunCheckpoint(flags); }},
      {AddVerify(app, flags), [&] { return RunVerify(flags, outcome); }},
      {AddProgram(app, flags), [&] { return RunProgram(flags); }},
      {.app = AddPlan(app, flags), .run = [&] { return RunPlan(flags); }, .records_flags = true},
      {.app = AddSimulate(app, flags), .run = [&] { return RunSimulate(flags); }, .records_flags = true},
  };
  CLI::App* table = AddTable(app, flags);
  commands.push_back({.app = table,
                      .run =
                          [&flags, table] {
                            TakeDefaultsOfTable(*table, flags);
                            return RunTable(flags);
                          },
                      .records_flags = true});
  CLI::App* calibrate = AddCalibrate(app, flags);
  commands.push_back({calibrate, [&flags, calibrate] {
                        if (calibrate->count("--backend") == 0) flags.backend = "cpu";
                        if (calibrate->count("--data") == 0) flags.data.clear();
                        return RunCalibrate(flags);
                      }});
  commands.push_back({AddModels(app, flags), [&] { return RunModels(flags); }});
  commands.push_back({AddIoBench(app, flags), [&] { return RunIoBench(flags); }});
  for (const SubCommand& command : commands) AddConfigFlag(*command.app, flags.config);
  CLI::App* bench = AddBench(app, flags, bench_flags);
  commands.push_back({bench, [&, bench] { return RunBench(*bench, flags, bench_flags, outcome); }});
  commands.push_back({AddInfo(app, flags), [&] { return RunInfo(flags); }});
  commands.push_back({AddCompletion(app, flags), [&] {
                        std::fputs(CompletionScript(app, flags.shell).c_str(), stdout);
                        return absl::OkStatus();
                      }});
  commands.push_back({AddMan(app, flags), [&] { return RunMan(flags, app); }});
  return commands;
}

}  // namespace colonnade::cli
