// The flags of the command line and the groups in which sub-commands take them. A flag means the same wherever it appears,
// with few exceptions (docs/command_line.md).
#ifndef COLONNADE_CLI_COMMAND_LINE_FLAGS_H_
#define COLONNADE_CLI_COMMAND_LINE_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/string_view.h"

namespace colonnade::cli {

// A flag of a command line that was parsed.
struct ResolvedFlag {
  std::string name;                 // "batch"
  std::vector<std::string> values;  // given, or the default; empty where there is neither
  bool is_switch = false;           // takes no value
  bool is_list = false;             // takes several, with commas between
  bool is_number = false;           // takes numbers
  bool is_path = false;             // the values are of files or folders
};

// What the network is: --model, and what it is to be instead of itself.
struct NetworkFlags {
  std::string model;
  int64_t input_size = 0, input_channels = 0, classes = 0;
  double width = 1.0;
  std::string dropout = "on";
  std::string batch_norm = "sync", zero_init_residual = "off", auxiliary_heads = "off";
  double label_smoothing = 0;
};

struct DataFlags {
  std::string source = "synthetic";
  std::string shuffle = "on";
  std::string augment = "standard";
  int64_t pad = 0;
  bool pad_is_given = false;  // noted by sub-commands whose weights may state one
  std::vector<double> mean, std;
  int threads = 0;           // 0: as many as there are cores
  int prefetch = 3;          // batches
  int64_t jpeg_index = 256;  // MB
  std::string bad_sample = "error";
};

struct PlanFlags {
  int64_t batch = 64;
  int devices = 0;  // 0: not given
  std::string name;
  int columns = 0;
  std::string reduction, overlap;  // empty: the plan's own
  int64_t bucket_bytes = 0;        // 0: the plan's own
  int64_t piece_bytes = 0;         // likewise
  int transfer_parts = 0;          // likewise
};

// The devices, and what they compute with.
struct BackendFlags {
  std::string name = "auto";
  std::string kernels = "onednn";
  int threads_per_device = 0;
  std::string dtype = "fp32";
  bool deterministic = false;
  std::string collectives = "auto";
  std::string cuda_graphs = "auto";
  std::string search_algorithms;  // empty: no search
};

struct OptimizerFlags {
  std::string name = "krizhevsky";
  double lr = -1, momentum = -1, weight_decay = -1;  // below 0: the model's, or the optimiser's
  std::optional<double> trust, epsilon;
  std::vector<double> betas;  // empty: the optimiser's
  double clip_norm = 0, head_lr_scale = 1, ema = 0;
  std::vector<std::string> freeze;  // patterns of layers' names
  std::string decay = "all", on_not_finite = "stop";
  int64_t accumulate = 1;               // micro-batches
  std::string lr_policy;                // empty: the model's
  int64_t warm_up = 0, base_batch = 0;  // steps; 0: the rate is as it is given
};

// The machine of a prediction.
struct ProfileFlags {
  std::string machine = "local";
  double input_rate = 0;  // images/s; 0: what the machine says
};

// Draws of what a profile is unsure of, which give the interval of a prediction.
struct DrawFlags {
  int count = -1;  // below 0: as many as take some seconds
  uint64_t seed = 1;
};

// The weights to begin with, if there are any.
struct WeightsFlags {
  std::string init;
  bool replace_head = false;
};

// What most sub-commands work with (cli/session/): a network, its data, and the devices that compute it under a plan. A
// sub-command leaves those at their defaults for which it has no flags.
struct SessionFlags {
  NetworkFlags network;
  DataFlags data;
  PlanFlags plan;
  BackendFlags backend;
  OptimizerFlags optimizer;
  ProfileFlags profile;
  WeightsFlags weights;
  uint64_t seed = 1;  // of parameters and samples; that of draws is in DrawFlags
};

struct CheckpointFlags {
  std::string folder, every = "10m";
  int keep = 3;
  std::optional<std::string> resume;  // empty: from `folder`
  std::vector<std::string> allow_change;
};

// What a training writes beside weights and checkpoints, and when it is tested; empty: nothing, or never.
struct RecordFlags {
  std::string log, tensorboard, curves, eval_every, until;
};

// The most that flags take, whichever sub-command has them; of devices that is program::kMostDevices.
inline constexpr int64_t kMostSteps = int64_t{1} << 40, kMostEpochs = int64_t{1} << 30, kMostBatch = int64_t{1} << 30;
inline constexpr int64_t kMostTimedBatch = int64_t{1} << 20;  // of calibrate and io-bench
inline constexpr int kMostSide = 4096;                        // rows or columns of an image
inline constexpr int64_t kMostPad = 64;
inline constexpr int kMostDataThreads = 1024, kMostPrefetched = 64, kMostDraws = 10000;
inline constexpr int64_t kMostIndexMegabytes = int64_t{1} << 20;

// What --checkpoint-every says: so many steps, or so much time; the other is 0.
struct CheckpointInterval {
  int64_t steps = 0, minutes = 0;
};
std::optional<CheckpointInterval> ParseCheckpointInterval(absl::string_view text);

// What --eval-every says: so many steps, or so many epochs; the other is 0.
struct EvaluationInterval {
  int64_t steps = 0, epochs = 0;
};
std::optional<EvaluationInterval> ParseEvaluationInterval(absl::string_view text);

// What --until says: top1 or top5 of at least so much, from 0 to 1, or a loss of at most so much.
struct Target {
  enum class Metric { kTop1, kTop5, kLoss } metric = Metric::kTop1;
  double value = 0;
};
std::optional<Target> ParseTarget(absl::string_view text);

// N of "ghost:N", from 1 to 2^20; 0 of anything else.
int64_t SamplesPerGroup(absl::string_view batch_norm);

// Refuses names of files that end as pictures of other formats do, since all that is drawn is SVG.
CLI::Validator DrawnFile();

// Those of what runs: network, data, plan, profile and devices.
void AddSessionFlags(CLI::App& app, SessionFlags& flags, bool dtype_may_be_auto = false);
// Those of what is lowered and need not run: network, plan, profile and what an update computes.
void AddLoweringFlags(CLI::App& app, SessionFlags& flags);
void AddModelFlags(CLI::App& app, NetworkFlags& flags);    // --model and AddNetworkFlags
void AddNetworkFlags(CLI::App& app, NetworkFlags& flags);  // what the network is to be instead of itself
void AddDataFlags(CLI::App& app, DataFlags& flags);
// Those that say what is read of a data set, and how: of AddDataFlags, and of what times the input.
CLI::Option* AddDataFlag(CLI::App& app, DataFlags& flags, const std::string& description);
CLI::Option* AddAugmentFlag(CLI::App& app, DataFlags& flags, const std::string& description);
void AddReadingFlags(CLI::App& app, DataFlags& flags);  // --shuffle, --prefetch and --jpeg-index
CLI::Option* AddInputSizeFlag(CLI::App& app, int64_t& size, const std::string& description);
void AddPlanFlags(CLI::App& app, PlanFlags& flags);
void AddBackendFlags(CLI::App& app, BackendFlags& flags, bool dtype_may_be_auto = false);
void AddKernelsFlag(CLI::App& app, BackendFlags& flags);
void AddDtypeFlag(CLI::App& app, BackendFlags& flags, bool may_be_auto);
void AddTimedKernelsFlag(CLI::App& app, BackendFlags& flags);  // --kernels, of those whose rates a profile may state
void AddMeasuringFlags(CLI::App& app, BackendFlags& flags);    // --backend, --kernels and --dtype of what is measured
void AddTransferFlags(CLI::App& app, BackendFlags& flags);     // those of what moves alone, which is fp32
void AddOptimizerFlags(CLI::App& app, OptimizerFlags& flags);
void AddPredictedUpdateFlags(CLI::App& app, OptimizerFlags& flags);  // those on which the work and memory of a step depend
void AddCheckpointFlags(CLI::App& app, CheckpointFlags& flags);
void AddRecordFlags(CLI::App& app, RecordFlags& flags);
void AddProfileFlag(CLI::App& app, ProfileFlags& flags);
void AddInputRateFlag(CLI::App& app, ProfileFlags& flags);
void AddDrawFlags(CLI::App& app, DrawFlags& flags);  // --draws and --seed
void AddSeedFlag(CLI::App& app, uint64_t& seed, const std::string& description);
void AddTrainedWeightsFlag(CLI::App& app, WeightsFlags& flags);  // --init of what only evaluates
void AddReportFlag(CLI::App& app, std::string& file);
void AddJsonFlag(CLI::App& app, bool& json);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMMAND_LINE_FLAGS_H_
