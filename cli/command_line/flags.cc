// One source for all groups of flags, so that one sees where a flag is defined and no two have its name.
#include "cli/command_line/flags.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "cli/command_line/augment_words.h"
#include "data/moments.h"
#include "engine/machine.h"
#include "engine/machine_quantities.h"
#include "engine/precision.h"
#include "engine/trainer.h"
#include "partition/plan.h"
#include "program/epsilon.h"
#include "program/op.h"

namespace colonnade::cli {
namespace {

constexpr char kModelGroup[] = "Model", kDataGroup[] = "Data", kMachineGroup[] = "Machine";
constexpr char kMomentsHelp[] = "per channel, of values scaled to 0..1 (default: the training set's)";
constexpr double kNoLimit = 3e38;  // of what kernels compute with in f32

CLI::Validator BatchNormRule() {
  auto check = [](std::string& text) -> std::string {
    if (text == "sync" || SamplesPerGroup(text) > 0) return "";
    return absl::StrFormat("expected sync, or ghost:N with N samples from 1 to 2^20, found \"%s\"", text);
  };
  return {check, "sync|ghost:N"};
}

CLI::Validator CheckpointIntervalRule() {
  auto check = [](std::string& text) -> std::string {
    if (ParseCheckpointInterval(text).has_value()) return "";
    return absl::StrFormat("expected a number of steps, or of minutes as in 10m, found \"%s\"", text);
  };
  return {check, "N|Nm"};
}

constexpr double kBelowOne = 0.9999999;  // in f32, with room

// A finite number from `least` to `most`.
CLI::Validator Number(double least, double most) {
  const std::string range = most == kNoLimit    ? absl::StrFormat("%g or more", least)
                            : most == kBelowOne ? absl::StrFormat("from %g to 0.9999999", least)
                                                : absl::StrFormat("from %g to %g", least, most);
  auto check = [=](std::string& text) -> std::string {
    double value = 0;
    if (absl::SimpleAtod(text, &value) && value >= least && value <= most) return "";
    const std::string beyond = most == kNoLimit && value > most ? absl::StrFormat(", up to %g", most) : "";
    return absl::StrFormat("expected a number %s%s, found \"%s\"", range, beyond, text);
  };
  return {check, range};
}

// Means of pixels of 0..255, as some programs have them, would make all images alike.
CLI::Validator MeanRule() {
  auto check = [](std::string& text) -> std::string {
    double value = 0;
    if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) {
      return absl::StrFormat("expected a number from -1 to 1, found \"%s\"", text);
    }
    if (std::abs(value) <= data::kLargestMean) return "";
    return absl::StrFormat(
        "expected a number from -1 to 1, since pixels are scaled to 0..1, found \"%s\"; divide what is of "
        "0..255 by 255, --std too",
        text);
  };
  return {check, "from -1 to 1"};
}

CLI::Option* AddSwitch(CLI::App& app, const std::string& name, std::string& value, const std::string& help) {
  return app.add_option(name, value, help)->check(CLI::IsMember({"on", "off"}))->capture_default_str();
}

void AddCollectivesFlag(CLI::App& app, BackendFlags& flags) {
  app.add_option("--collectives", flags.collectives,
                 "on GPUs: by nccl, by copies between peers, or auto (nccl where it serves)")
      ->check(CLI::IsMember({"nccl", "peer", "auto"}))
      ->capture_default_str()
      ->group(kMachineGroup);
}

void AddGpuFlags(CLI::App& app, BackendFlags& flags) {
  AddCollectivesFlag(app, flags);
  app.add_option("--cuda-graphs", flags.cuda_graphs,
                 "on GPUs: each step as one CUDA graph where it can be; on: an error where it cannot")
      ->check(CLI::IsMember({"on", "off", "auto"}))
      ->capture_default_str()
      ->group(kMachineGroup);
  app.add_option("--search-algorithms", flags.search_algorithms,
                 "on GPUs: time algorithms of convolutions, and keep the fastest in this file for the next run")
      ->type_name("FILE")
      ->group(kMachineGroup);
}

void AddMeasuredBackendFlag(CLI::App& app, BackendFlags& flags) {
  app.add_option("--backend", flags.name, "what is measured: cpu, or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str()
      ->group(kMachineGroup);
}

// Refuses names that end as files of other kinds do.
CLI::Validator FileOf(const char* kind, std::vector<std::string> others) {
  auto check = [kind, others = std::move(others)](std::string& path) -> std::string {
    for (const std::string& ending : others) {
      if (absl::EndsWithIgnoreCase(path, ending)) {
        return absl::StrFormat("expected the name of %s file, found \"%s\"", kind, path);
      }
    }
    return "";
  };
  return {check, ""};
}

}  // namespace

int64_t SamplesPerGroup(absl::string_view batch_norm) {
  constexpr int64_t kMost = int64_t{1} << 20;
  int64_t samples = 0;
  const bool is_number = absl::ConsumePrefix(&batch_norm, "ghost:") && absl::SimpleAtoi(batch_norm, &samples);
  return is_number && samples >= 1 && samples <= kMost ? samples : 0;
}

std::optional<CheckpointInterval> ParseCheckpointInterval(absl::string_view text) {
  constexpr int64_t kMostMinutes = 1'000'000;
  const bool in_minutes = absl::ConsumeSuffix(&text, "m");
  int64_t count = 0;
  if (!absl::SimpleAtoi(text, &count) || count < 1 || count > (in_minutes ? kMostMinutes : kMostSteps)) return std::nullopt;
  return in_minutes ? CheckpointInterval{.minutes = count} : CheckpointInterval{.steps = count};
}

void AddSessionFlags(CLI::App& app, SessionFlags& flags, bool dtype_may_be_auto) {
  AddModelFlags(app, flags.network);
  AddDataFlags(app, flags.data);
  AddPlanFlags(app, flags.plan);
  AddProfileFlag(app, flags.profile);
  AddBackendFlags(app, flags.backend, dtype_may_be_auto);
}

void AddLoweringFlags(CLI::App& app, SessionFlags& flags) {
  AddModelFlags(app, flags.network);
  AddPlanFlags(app, flags.plan);
  AddPredictedUpdateFlags(app, flags.optimizer);
  AddProfileFlag(app, flags.profile);
}

void AddModelFlags(CLI::App& app, NetworkFlags& flags) {
  app.add_option(
         "--model", flags.model,
         "network of the zoo, or a file that states one: a network file, or weights that train wrote; list: names those of "
         "the zoo, with parameters and flop")
      ->type_name("MODEL")
      ->required()
      ->group(kModelGroup);
  AddNetworkFlags(app, flags);
}

void AddNetworkFlags(CLI::App& app, NetworkFlags& flags) {
  const std::string group = kModelGroup;
  AddInputSizeFlag(app, flags.input_size, "rows and columns of an image (default: the data's, or the model's)")
      ->group(group);
  app.add_option("--channels", flags.input_channels, "channels of an image (default: the data's, or the model's)")
      ->check(CLI::Range(1, 4096))
      ->group(group);
  app.add_option("--classes", flags.classes, "number of classes (default: the model's)")
      ->check(CLI::Range(1, 1000000))
      ->group(group);
  app.add_option("--width", flags.width,
                 "factor on the channels and features of all layers but the last, which become multiples of 8")
      ->check(Number(0.001, 64))
      ->capture_default_str()
      ->group(group);
  AddSwitch(app, "--dropout", flags.dropout, "off: without dropout layers")->group(group);
  app.add_option("--batch-norm", flags.batch_norm, "sync: over the whole global batch; ghost:N: over each N samples of it")
      ->check(BatchNormRule())
      ->capture_default_str()
      ->group(group);
  AddSwitch(app, "--zero-init-residual", flags.zero_init_residual,
            "on: the last normalisation of each residual branch begins with weight 0")
      ->group(group);
  AddSwitch(app, "--auxiliary-heads", flags.auxiliary_heads,
            "on: the two more losses of googlenet and googlenet_bn in training")
      ->group(group);
  app.add_option("--label-smoothing", flags.label_smoothing,
                 "in training: this share of each label is spread over all classes")
      ->check(Number(0, 0.999))
      ->capture_default_str()
      ->group(group);
}

CLI::Option* AddInputSizeFlag(CLI::App& app, int64_t& size, const std::string& description) {
  return app.add_option("--input-size", size, description)->check(CLI::Range(1, kMostSide));
}

CLI::Option* AddDataFlag(CLI::App& app, DataFlags& flags, const std::string& description) {
  return app.add_option("--data", flags.source, description)->type_name("DATA")->capture_default_str()->group(kDataGroup);
}

CLI::Option* AddAugmentFlag(CLI::App& app, DataFlags& flags, const std::string& description) {
  return app.add_option("--augment", flags.augment, description)
      ->check([](const std::string& augment) { return std::string(CheckAugment(augment).message()); })
      ->capture_default_str()
      ->group(kDataGroup);
}

void AddReadingFlags(CLI::App& app, DataFlags& flags) {
  AddSwitch(app, "--shuffle", flags.shuffle, "off: samples in the order of the files")->group(kDataGroup);
  app.add_option("--prefetch", flags.prefetch, "batches in memory: the one that is read, and those filled ahead")
      ->check(CLI::Range(1, kMostPrefetched))
      ->capture_default_str()
      ->group(kDataGroup);
  app.add_option(
         "--jpeg-index", flags.jpeg_index,
         "MB of memory for indices of large JPEGs, with which only the part that is seen is decoded; each is made when its "
         "image is read for the second time; 0: none")
      ->check(CLI::Range(int64_t{0}, kMostIndexMegabytes))
      ->capture_default_str()
      ->group(kDataGroup);
}

void AddDataFlags(CLI::App& app, DataFlags& flags) {
  const std::string group = kDataGroup;
  AddDataFlag(app, flags, "digits, synthetic, or a path: IDX, CIFAR, RecordIO, tar or a folder of images (docs/data.md)");
  AddAugmentFlag(app, flags,
                 "standard: what is published for such images; none; or a list with commas: pad:N, resized[:A], "
                 "scaled:N[-M], mirror, jitter:X, lighting:X, cutout:N (docs/data.md)");
  AddReadingFlags(app, flags);
  app.add_option("--data-threads", flags.threads,
                 "threads that read, decode and augment ahead of the steps (default: the number of cores)")
      ->check(CLI::Range(1, kMostDataThreads))
      ->group(group);
  app.add_option(
         "--bad-sample", flags.bad_sample,
         "skip: a sample that cannot be read or decoded is replaced by the next and counted; more than 1 % end the run")
      ->check(CLI::IsMember({"error", "skip"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--pad", flags.pad,
                 "pixels of value 0 added on each side of every image, before its mean is taken off (--mean and --std stay "
                 "those of the images without them); trained weights state theirs")
      ->check(CLI::Range(int64_t{0}, kMostPad))
      ->capture_default_str()
      ->group(group);
  app.add_option("--mean", flags.mean, kMomentsHelp)->delimiter(',')->check(MeanRule())->group(group);
  app.add_option("--std", flags.std, kMomentsHelp)
      ->delimiter(',')
      ->check(Number(data::kLeastDeviation, data::kLargestDeviation))
      ->group(group);
}

CLI::Validator DrawnFile() { return FileOf("an SVG", {".png", ".jpg", ".jpeg", ".gif", ".pdf", ".webp"}); }

void AddProfileFlag(CLI::App& app, ProfileFlags& flags) {
  app.add_option("--machine", flags.machine,
                 "machine profile: a name, a file, or local (the last calibrate of this machine)")
      ->type_name("MACHINE")
      ->capture_default_str()
      ->group(kMachineGroup);
}

void AddInputRateFlag(CLI::App& app, ProfileFlags& flags) {
  app.add_option("--input-rate", flags.input_rate,
                 "images/s of the input, as io-bench prints them (default: the profile's, or as many as are asked for)")
      ->check(Number(engine::kImageRates.least, engine::kImageRates.most))
      ->type_name("IMAGES/S")
      ->group(kMachineGroup);
}

void AddPlanFlags(CLI::App& app, PlanFlags& flags) {
  const std::string group = "Plan";
  app.add_option("--batch", flags.batch, "global batch")
      ->check(CLI::Range(int64_t{1}, kMostBatch))
      ->capture_default_str()
      ->group(group);
  app.add_option("--devices", flags.devices, "number of devices (default: 1, or the plan file's)")
      ->check(CLI::Range(1, program::kMostDevices))
      ->group(group);
  app.add_option(
         "--plan", flags.name,
         "how the work is spread over devices: single (one device alone), data (each a part of the batch), model (each a "
         "part of every layer), hybrid (both), owt (data for convolutions, model for the layers behind them), auto (what "
         "a search finds for --machine), or a plan file (default: data; of one device single)")
      ->type_name("PLAN")
      ->group(group);
  app.add_option("--columns", flags.columns,
                 "how many devices share each layer, where a plan splits layers (default: model all devices, hybrid 2)")
      ->check(CLI::Range(1, program::kMostDevices))
      ->group(group);
  app.add_option(
         "--reduction", flags.reduction,
         "how gradients are summed over devices: all-reduce (each device has the sum and updates), sharded (each "
         "updates a part and sends it to the others), or master (one updates and sends to the others) (default: the plan's)")
      ->check(CLI::IsMember(partition::ReductionNames()))
      ->group(group);
  app.add_option("--overlap", flags.overlap,
                 "on: devices compute while data moves between them; off: one after the other (default: the plan's)")
      ->check(CLI::IsMember({"on", "off"}))
      ->group(group);
  app.add_option("--bucket-bytes", flags.bucket_bytes,
                 "gradients are reduced together, in buckets of at least so many bytes (default: the plan's)")
      ->check(CLI::Range(int64_t{1}, partition::kMostPlanBytes))
      ->group(group);
  app.add_option(
         "--piece-bytes", flags.piece_bytes,
         "a bucket is reduced in pieces of at most so many bytes: what the next layer waits for moves between two of them, "
         "instead of behind them all (default: the plan's)")
      ->check(CLI::Range(partition::kLeastPieceBytes, partition::kMostPlanBytes))
      ->group(group);
  app.add_option(
         "--transfer-parts", flags.transfer_parts,
         "where a plan splits fully connected layers: how many parts their batch moves in, so that they compute one part "
         "while another moves; 1: all at once (default: the plan's)")
      ->check(CLI::Range(1, partition::kMostTransferParts))
      ->group(group);
}

void AddBackendFlags(CLI::App& app, BackendFlags& flags, bool dtype_may_be_auto) {
  const std::string group = kMachineGroup;
  app.add_option("--backend", flags.name, "cpu, cuda, or auto")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}))
      ->capture_default_str()
      ->group(group);
  AddKernelsFlag(app, flags);
  app.add_option("--threads-per-device", flags.threads_per_device,
                 "CPU threads of one device (default: usable cores / devices, at most OMP_NUM_THREADS)")
      ->check(CLI::Range(1, 1024))
      ->group(group);
  app.add_flag("--deterministic", flags.deterministic,
               "on GPUs: two runs give equal bits (on the CPU they do, with equal --threads-per-device and processor)")
      ->group(group);
  AddGpuFlags(app, flags);
  AddDtypeFlag(app, flags, dtype_may_be_auto);
}

void AddKernelsFlag(CLI::App& app, BackendFlags& flags) {
  app.add_option("--kernels", flags.kernels,
                 "on the CPU: onednn, winograd (faster convolutions of 3 x 3, 5 x 5 and of stride 4, errors of 1e-6 instead "
                 "of 1e-7, in bf16 of 4e-3, so that plans differ in bits), or reference (plain loops, double precision)")
      ->check(CLI::IsMember({"onednn", "winograd", "reference"}))
      ->capture_default_str()
      ->group(kMachineGroup);
}

void AddDtypeFlag(CLI::App& app, BackendFlags& flags, bool may_be_auto) {
  std::vector<std::string> types(std::begin(engine::kPrecisions), std::end(engine::kPrecisions));
  if (may_be_auto) types.push_back("auto");
  app.add_option("--dtype", flags.dtype,
                 absl::StrCat("element type of compute: fp32, bf16, or on GPUs tf32",
                              may_be_auto ? "; auto: fp32 or bf16, whichever a few steps here are faster in" : ""))
      ->check(CLI::IsMember(types))
      ->capture_default_str()
      ->group(kMachineGroup);
}

void AddTimedKernelsFlag(CLI::App& app, BackendFlags& flags) {
  app.add_option("--kernels", flags.kernels, "kernels of CPU devices whose rates are taken: onednn or winograd")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(engine::kTimedKernels), std::end(engine::kTimedKernels))))
      ->capture_default_str()
      ->group(kMachineGroup);
}

void AddMeasuringFlags(CLI::App& app, BackendFlags& flags) {
  AddMeasuredBackendFlag(app, flags);
  AddTimedKernelsFlag(app, flags);
  AddGpuFlags(app, flags);
  AddDtypeFlag(app, flags, /*may_be_auto=*/false);
}

void AddTransferFlags(CLI::App& app, BackendFlags& flags) {
  AddMeasuredBackendFlag(app, flags);
  AddCollectivesFlag(app, flags);
  app.add_option("--dtype", flags.dtype, "element type of what moves")
      ->check(CLI::IsMember({"fp32"}))
      ->capture_default_str()
      ->group(kMachineGroup);
}

void AddOptimizerFlag(CLI::App& app, const std::string& group, OptimizerFlags& flags) {
  std::vector<std::string> optimizers;
  for (program::SgdForm form : program::kSgdForms) optimizers.emplace_back(program::Name(form));
  optimizers.insert(optimizers.end(), {"lars", "adamw"});
  app.add_option("--optimizer", flags.name,
                 "SGD with momentum: krizhevsky (the rate is in the momentum), pytorch (it is outside), or nesterov; lars; "
                 "adamw")
      ->check(CLI::IsMember(optimizers))
      ->capture_default_str()
      ->group(group);
}

// What a step computes beside the rule itself, whatever the numbers are.
void AddStepFlags(CLI::App& app, const std::string& group, OptimizerFlags& flags) {
  app.add_option("--clip-norm", flags.clip_norm, "largest norm of all gradients together (default: 0, none)")
      ->check(Number(0, kNoLimit))
      ->group(group);
  app.add_option("--freeze", flags.freeze,
                 "layers whose parameters are not trained: names, in which * stands for anything, a comma, too (see "
                 "colonnade models)")
      ->delimiter(',')
      ->type_name("PATTERN,…")
      ->group(group);
  app.add_option(
         "--ema", flags.ema,
         "keeps a moving average of the parameters with this decay, such as 0.999, and tests it, too (default: none)")
      ->check(Number(0, kBelowOne))
      ->group(group);
  app.add_option("--accumulate", flags.accumulate,
                 "micro-batches in which the batch is computed, one after the other; their gradients are added")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}))
      ->capture_default_str()
      ->group(group);
}

// The rule by which parameters are updated, and its numbers.
void AddUpdateRuleFlags(CLI::App& app, const std::string& group, OptimizerFlags& flags) {
  AddOptimizerFlag(app, group, flags);
  app.add_option("--lr", flags.lr, "learning rate (default: the model's; of adamw 0.001, of lars 1)")
      ->check(Number(0, kNoLimit))
      ->group(group);
  app.add_option("--momentum", flags.momentum, "momentum (default: the model's)")->check(Number(0, 1))->group(group);
  app.add_option("--weight-decay", flags.weight_decay, "weight decay (default: the model's; of adamw 0.01)")
      ->check(Number(0, kNoLimit))
      ->group(group);
  app.add_option("--decay", flags.decay,
                 "what --weight-decay holds for, and what lars gives rates of its own: all parameters, or weights (neither "
                 "biases nor normalisations)")
      ->check(CLI::IsMember({"all", "weights"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--trust", flags.trust, "lars: the trust coefficient, above 0 (default: 0.001)")
      ->check(Number(0, kNoLimit))
      ->group(group);
  app.add_option("--betas", flags.betas, "adamw: decay rates of its two moments, each below 1 (default: 0.9,0.999)")
      ->check(Number(0, kBelowOne))
      ->delimiter(',')
      ->expected(2)
      ->group(group);
  app.add_option("--epsilon", flags.epsilon, "adamw: term added to the denominator (default: 1e-08)")
      ->check(Number(program::kLeastAdamEpsilon, kNoLimit))
      ->group(group);
}

// Which gradients are used, of which parameters, and what is kept of those.
void AddUpdateScopeFlags(CLI::App& app, const std::string& group, OptimizerFlags& flags) {
  AddStepFlags(app, group, flags);
  app.add_option(
         "--on-not-finite", flags.on_not_finite,
         absl::StrFormat("where a gradient is not finite: stop, or skip (the step leaves all state as it was; %d in a row "
                         "end the run)",
                         engine::kMostSkippedInARow))
      ->check(CLI::IsMember({"stop", "skip"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--head-lr-scale", flags.head_lr_scale,
                 "factor on the learning rate of the last layer, or of each that the logits are added or joined of")
      ->check(Number(0, kNoLimit))
      ->capture_default_str()
      ->group(group);
}

void AddScheduleFlags(CLI::App& app, const std::string& group, OptimizerFlags& flags) {
  app.add_option(
         "--lr-policy", flags.lr_policy,
         "how the learning rate changes: constant; step:N,F (times F after every N steps); multistep:N1,N2,…,F (times F "
         "after step N1, again after N2 …); or over the whole run poly:P, cosine or onecycle, as "
         "docs/command_line.md says (default: the model's, in steps whatever the batch)")
      ->group(group);
  app.add_option("--warm-up", flags.warm_up,
                 "first steps, in which the learning rate grows linearly to what it would be without")
      ->check(CLI::Range(int64_t{0}, kMostSteps))
      ->capture_default_str()
      ->group(group);
  app.add_option("--base-batch", flags.base_batch, "batch size that --lr is meant for: the rate is scaled by --batch / this")
      ->check(CLI::Range(int64_t{1}, kMostBatch))
      ->group(group);
}

void AddOptimizerFlags(CLI::App& app, OptimizerFlags& flags) {
  const std::string group = "Optimiser";
  AddUpdateRuleFlags(app, group, flags);
  AddUpdateScopeFlags(app, group, flags);
  AddScheduleFlags(app, group, flags);
}

void AddPredictedUpdateFlags(CLI::App& app, OptimizerFlags& flags) {
  const std::string group = "Optimiser";
  AddOptimizerFlag(app, group, flags);
  AddStepFlags(app, group, flags);
}

void AddCheckpointFlags(CLI::App& app, CheckpointFlags& flags) {
  const std::string group = "Checkpoints";
  CLI::Option* folder =
      app.add_option(
             "--checkpoint", flags.folder,
             "folder in which all state of the run is saved, now and then and at the end; any plan can go on from it")
          ->type_name("DIR")
          ->group(group);
  app.add_option("--checkpoint-every", flags.every, "N: after every N steps; Nm: about every N minutes")
      ->check(CheckpointIntervalRule())
      ->capture_default_str()
      ->needs(folder)
      ->group(group);
  app.add_option(
         "--checkpoint-keep", flags.keep,
         "how many of the last are kept, beside the best: of the best test, or where nothing was tested of the lowest loss")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str()
      ->needs(folder)
      ->group(group);
  CLI::Option* resume =
      app.add_option_function<std::vector<std::string>>(
             "--resume", [&flags](const std::vector<std::string>& from) { flags.resume = from.empty() ? "" : from.front(); },
             "goes on from the newest good checkpoint of a folder, or from the one named (without DIR: in --checkpoint, or "
             "from the beginning where none is there yet)")
          ->expected(0, 1)
          ->type_name("DIR")
          ->group(group);
  app.add_option("--allow-change", flags.allow_change,
                 "fields of the run that may differ from the checkpoint's: batch, lr, …")
      ->needs(resume)
      ->delimiter(',')
      ->type_name("FIELD,…")
      ->group(group);
}

void AddDrawFlags(CLI::App& app, DrawFlags& flags) {
  app.add_option("--draws", flags.count,
                 "how often the step is simulated again, each time with other values of what the profile is unsure of: the "
                 "interval of a prediction is that of these; 0: no interval (default: 100, or fewer where they take long)")
      ->check(CLI::Range(0, kMostDraws));
  AddSeedFlag(app, flags.seed, "seed of the draws");
}

void AddSeedFlag(CLI::App& app, uint64_t& seed, const std::string& description) {
  app.add_option("--seed", seed, description)
      ->check(CLI::Range(uint64_t{0}, program::kLargestScalar))
      ->capture_default_str();
}

void AddTrainedWeightsFlag(CLI::App& app, WeightsFlags& flags) {
  app.add_option("--init", flags.init, "the weights, a safetensors file or FILE.index.json of several")
      ->type_name("FILE")
      ->required();
  app.get_option("--model")->required(false)->description(
      "network of the zoo, or a file that states one (default: what the weights state); list: names those of the zoo");
  for (const char* flag : {"--mean", "--std"}) {
    app.get_option(flag)->description(
        "per channel, of values scaled to 0..1 (default: what the weights were trained with, or the training set's)");
  }
  const std::pair<const char*, const char*> of_network[] = {
      {"--input-size",
       "rows and columns of an image (default: the data's, what the weights were trained on, or the model's)"},
      {"--channels", "channels of an image (default: the data's, what the weights were trained on, or the model's)"},
      {"--classes", "number of classes (default: what the weights were trained on, or the model's)"}};
  for (const auto& [flag, description] : of_network) app.get_option(flag)->description(description);
}

void AddReportFlag(CLI::App& app, std::string& file) {
  app.add_option("--report", file, "one HTML page with plan, timeline, memory and machine")
      ->check(FileOf("an HTML", {".pdf", ".json", ".txt", ".md", ".csv", ".png", ".jpg", ".jpeg", ".gif", ".webp"}))
      ->type_name("FILE.html");
}

void AddJsonFlag(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "one JSON object on stdout and nothing else there");
}

}  // namespace colonnade::cli
