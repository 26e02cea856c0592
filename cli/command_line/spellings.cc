#include "cli/command_line/spellings.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "cli/command_line/config_items.h"
#include "cli/command_line/definitions.h"

namespace colonnade::cli {
namespace {

// Spellings are without dashes before them and with - for _; several of one meaning have spaces between them.
struct Spelling {
  const char* theirs;
  const char* ours;       // of kAnswers: the answer
  const char* note = "";  // what our flag means where theirs may have meant another thing
};

// The value goes along. Where there are two rows, the first whose flag the sub-command has.
constexpr Spelling kFlags[] = {
    // What is trained
    {"arch architecture network net backbone model-name a", "--model"},
    {"num-classes nb-classes n-classes", "--classes"},
    {"image-size img-size imgsz crop-size train-crop-size resolution", "--input-size"},
    {"in-channels in-chans num-channels", "--channels"},
    {"smoothing", "--label-smoothing"},
    // On what
    {"dataset data-dir data-path dataset-dir dataset-path train-data train-dir", "--data", "training and test set together"},
    {"augmentation", "--augment"},
    {"workers num-workers data-workers num-data-workers j", "--data-threads", "threads of this process"},
    {"workers num-workers data-workers num-data-workers j", "--threads"},
    // How
    {"batch-size batchsize bs b global-batch-size total-batch-size", "--batch", "the global batch, of all devices together"},
    {"num-devices nproc-per-node nproc num-proc np world-size", "--devices", "of one process"},
    {"learning-rate learningrate base-lr init-lr initial-lr", "--lr"},
    {"lr-scheduler lr-schedule lr-scheduler-type scheduler sched lr-decay-style", "--lr-policy"},
    {"wd", "--weight-decay"},
    {"opt optim", "--optimizer"},
    {"eps adam-epsilon adam-eps", "--epsilon"},
    {"adam-betas opt-betas", "--betas"},
    {"clip-grad clip-grad-norm grad-clip max-grad-norm gradient-clip-val gradient-clip-norm clip-gradients", "--clip-norm"},
    {"ema-decay model-ema-decay", "--ema"},
    {"warmup warmup-steps num-warmup-steps lr-warmup-steps warmup-iters", "--warm-up", "in steps"},
    {"warmup-epochs", "--warm-up-epochs"},
    {"epoch num-epochs n-epochs nb-epochs max-epochs num-train-epochs train-epochs", "--epochs"},
    {"max-steps num-steps train-steps num-train-steps iterations num-iterations iters max-iter max-iters", "--steps"},
    {"random-seed manual-seed rng-seed random-state", "--seed"},
    // Files
    {"weights load load-weights pretrained-weights init-checkpoint", "--init"},
    {"restore resume-from resume-from-checkpoint", "--resume"},
    {"save-weights", "--save"},
    {"checkpoint-dir ckpt-dir checkpoint-path save-dir output-dir snapshot-prefix", "--checkpoint", "a folder"},
    {"save-steps save-interval checkpoint-interval", "--checkpoint-every", "in steps"},
    {"save-total-limit checkpoint-hist max-to-keep", "--checkpoint-keep"},
    {"eval-steps eval-interval validation-interval test-interval", "--eval-every", "in steps"},
    {"log-file", "--log"},
    {"log-dir logdir tb-dir tb-log-dir tensorboard-dir", "--tensorboard"},
    {"timeline-filename timeline", "--trace"},
    {"output o out-file output-file", "--out"},
    // nccl-tests
    {"minbytes", "--min-bytes"},
    {"maxbytes", "--max-bytes"},
    {"stepfactor", "--factor"},
    {"iters", "--iterations"},
    {"warmup-iters", "--warm-up"},
};

// Words in the place of a switch, or of a flag with one of its values.
constexpr Spelling kSwitches[] = {
    {"cuda use-cuda use-gpu device=cuda device=gpu accelerator=gpu accelerator=cuda", "--backend=cuda"},
    {"cpu no-cuda no-gpu use-cpu cpu-only device=cpu accelerator=cpu", "--backend=cpu"},
    {"accelerator=auto device=auto", "--backend=auto"},
    {"bf16 bfloat16 precision=bf16 precision=bfloat16 precision=bf16-mixed precision=bf16-true amp-dtype=bfloat16",
     "--dtype=bf16"},
    {"dtype=bfloat16", "--dtype=bf16"},
    {"fp32 float32 precision=32 precision=fp32 precision=float32 precision=32-true dtype=float32", "--dtype=fp32"},
    {"tf32 allow-tf32 precision=tf32", "--dtype=tf32"},
    {"nesterov", "--optimizer=nesterov"},
    {"sync-bn syncbn sync-batchnorm sync-batch-norm", "--batch-norm=sync"},
    {"no-augment no-aug no-augmentation", "--augment=none"},
    {"no-shuffle", "--shuffle=off"},
    {"no-dropout", "--dropout=off"},
    {"zero-init-last", "--zero-init-residual=on"},
    {"use-deterministic-algorithms", "--deterministic"},
    {"list-models", "--model=list"},
};

constexpr char kOneProcess[] = "one process runs all devices of one machine, without a launcher; --devices=N says how many";
constexpr char kWhichGpus[] =
    "GPUs are taken in their order; choose them by CUDA_VISIBLE_DEVICES=0,1 before the command, with --devices=N "
    "--backend=cuda";

constexpr Spelling kAnswers[] = {
    // How work is spread
    {"ddp dp distributed data-parallel horovod multiprocessing-distributed multi-gpu strategy=ddp strategy=dp strategy "
     "distributed-backend",
     "data parallelism is --plan=data, which is what --devices=N above 1 means by itself"},
    {"fsdp zero zero-stage deepspeed sharded-ddp strategy=fsdp strategy=deepspeed use-distributed-optimizer",
     "--plan=data --reduction=sharded shards updates and optimiser state; --plan=model shards parameters by columns"},
    {"tp tensor-parallel tensor-parallel-size tensor-model-parallel-size model-parallel model-parallel-size",
     "--plan=model splits layers over all devices; --plan=hybrid --columns=M over M of them, replicated over the others"},
    {"pp pipeline-parallel pipeline-parallel-size pipeline-model-parallel-size",
     "there is no pipeline of layers; --plan=auto finds the fastest of the plans that there are"},
    {"nnodes nodes num-nodes node-rank rank local-rank local-world-size master-addr master-port rdzv-backend rdzv-endpoint "
     "rdzv-id dist-url init-method hostfile hosts machinefile standalone",
     kOneProcess},
    {"device=mps device=xpu device=tpu device=hip accelerator=mps accelerator=tpu",
     "devices are the processor (--backend=cpu) or NVIDIA's GPUs (--backend=cuda)"},
    {"gpu gpu-id gpu-ids gpuid device device-id device-ids accelerator", kWhichGpus},
    {"dist-backend kvstore kv-store", "GPUs reduce by --collectives=nccl, peer or auto; CPU devices share memory"},
    {"bucket-cap-mb fusion-threshold-mb", "buckets of gradients are set by --bucket-bytes=N, in bytes"},
    // Batches
    {"per-device-batch-size per-device-train-batch-size batch-size-per-gpu batch-per-device local-batch-size "
     "micro-batch-size",
     "--batch is the global batch: multiply by the number of devices"},
    {"gradient-accumulation-steps grad-accum-steps grad-accum accum-steps accumulate-grad-batches iter-size",
     "--accumulate=K cuts the global --batch into K parts: multiply --batch by K to get as many samples a step as there"},
    {"steps-per-epoch", "an epoch is every sample once; --steps=N or --epochs=N end the run"},
    {"drop-last", "batches are cut from one stream of samples, so that no epoch has a last one to drop"},
    // Types
    {"amp fp16 half float16 use-amp native-amp apex mixed-precision precision fp16-opt-level dtype=fp16 dtype=float16",
     "fp16 is not there; --dtype=bf16 computes in bfloat16 with parameters and sums in fp32"},
    {"loss-scale dynamic-loss-scale static-loss-scale", "bf16 has the range of fp32, so that losses are not scaled"},
    // Optimiser
    {"optimizer=sgd",
     "SGD has three forms: --optimizer=pytorch (as torch.optim.SGD), nesterov, or krizhevsky (as Caffe and Keras)"},
    {"optimizer=adam", "--optimizer=adamw --weight-decay=0 is Adam"},
    {"gamma lr-gamma lr-decay lr-decay-rate step-size lr-step-size lr-steps lr-milestones milestones decay-epochs stepsize",
     "--lr-policy=step:N,F multiplies the rate by F after every N steps, multistep:N1,N2,…,F after those"},
    {"warmup-epochs lr-warmup-epochs warmup-ratio", "--warm-up=N counts steps"},
    {"beta1 beta2 adam-beta1 adam-beta2", "--betas=B1,B2 takes both"},
    {"model-ema use-ema", "--ema=D takes the decay, such as 0.999"},
    {"early-stopping patience", "--until=top1:X ends a run at a test accuracy of X, from 0 to 1"},
    // Runs and files
    {"pretrained", "--init=FILE.safetensors begins with weights of a file; it also takes torchvision's"},
    {"start-epoch initial-epoch", "--resume goes on where the last checkpoint of --checkpoint=DIR ends"},
    {"evaluate eval-only test-only e", "`colonnade eval` tests weights of a file, --init=FILE"},
    {"val-data val-dir validation-data test-data val-split", "--data names training and test set together (docs/data.md)"},
    {"print-freq log-interval log-every log-every-n-steps logging-steps display verbose v p",
     "progress is shown while it runs; --log=FILE.jsonl records every step"},
    {"dry-run", "`colonnade plan` predicts time and memory, `colonnade program` prints what would run"},
    {"profile profiler", "--trace=FILE.json writes a timeline that chrome://tracing and Perfetto show"},
    {"solver", "Caffe's solver files are not read; --model, --data, --lr, --lr-policy and --steps say the same"},
    // What needs no flag
    {"compile torch-compile jit xla jit-compile", "networks are always lowered whole before they run"},
    {"channels-last memory-format data-format", "each backend chooses its own layouts"},
    {"pin-memory pin-mem persistent-workers", "batches are always pinned and threads kept"},
    {"cudnn-benchmark cudnn.benchmark benchmark", "--search-algorithms=FILE times algorithms and keeps the fastest"},
    {"gradient-checkpointing activation-checkpointing checkpoint-activations recompute",
     "activations are not recomputed; --accumulate=K takes less memory"},
    {"threads num-threads omp-num-threads",
     "--threads-per-device=T is for computing, --data-threads=T for reading and decoding"},
};

// Sub-commands, by what others call them.
constexpr Spelling kCommands[] = {{"fit", "train"},
                                  {"evaluate validate test", "eval"},
                                  {"infer inference classify", "predict"},
                                  {"env doctor", "info"},
                                  {"zoo", "models"},
                                  {"version -v -V", "--version"},
                                  {"help", "--help"}};

using SpellingTable = std::multimap<std::string, const Spelling*>;

template <size_t N>
const SpellingTable& SpellingsIn(const Spelling (&rows)[N]) {
  static const SpellingTable& table = *[&] {
    auto* made = new SpellingTable;
    for (const Spelling& row : rows) {
      for (const absl::string_view theirs : absl::StrSplit(row.theirs, ' ')) made->emplace(theirs, &row);
    }
    return made;
  }();
  return table;
}

class SpellingReader {
 public:
  SpellingReader(const std::vector<std::string>& words, const CLI::App& command) : words_(words), command_(command) {}

  absl::StatusOr<OurWords> Read() && {
    while (next_ < words_.size() && words_[next_] != "--") RETURN_IF_ERROR(ReadWord());
    while (next_ < words_.size()) Keep();
    return std::move(read_);
  }

 private:
  struct Word {
    std::string name, key;  // "--batch_size", "batch-size"
    std::optional<std::string> value;
  };

  bool Has(absl::string_view flag) const {
    return command_.get_option_no_throw(std::string(flag.substr(0, flag.find('=')))) != nullptr;
  }

  static bool IsFlag(const std::string& word) { return word.size() > 1 && word[0] == '-' && word != "--"; }

  static Word Split(const std::string& text) {
    const size_t equals = text.find('=');
    Word word{.name = text.substr(0, equals)};
    if (equals != std::string::npos) word.value = text.substr(equals + 1);
    absl::string_view bare = word.name;
    while (absl::ConsumePrefix(&bare, "-")) continue;
    word.key = absl::StrReplaceAll(absl::AsciiStrToLower(bare), {{"_", "-"}});
    return word;
  }

  // The value of the word: behind its =, or the next word.
  std::optional<std::string> ValueOf(const Word& word) const {
    if (word.value.has_value()) return word.value;
    if (next_ + 1 < words_.size() && !IsFlag(words_[next_ + 1]) && words_[next_ + 1] != "--") return words_[next_ + 1];
    return std::nullopt;
  }

  void Take(const Word& word, const std::string& theirs, const std::vector<std::string>& ours, bool with_value,
            const char* why = "") {
    read_.words.insert(read_.words.end(), ours.begin(), ours.end());
    next_ += with_value && !word.value.has_value() ? 2 : 1;
    const std::string note =
        absl::StrCat("read ", theirs, " as ", absl::StrJoin(ours, " "), *why == '\0' ? "" : absl::StrCat(" (", why, ")"));
    if (std::find(read_.notes.begin(), read_.notes.end(), note) == read_.notes.end()) read_.notes.push_back(note);
  }

  // A flag of ours that takes over the value.
  void Rename(const Word& word, const std::string& ours, const char* why) {
    const std::string with = word.value.has_value() ? absl::StrCat(ours, "=", *word.value) : ours;
    Take(word, word.name, {ours}, /*with_value=*/false, why);
    read_.words.back() = with;
  }

  // Their number of GPUs is our number of devices on them.
  absl::StatusOr<bool> ReadGpus(const Word& word) {
    static const auto& names =
        *new std::vector<std::string>{"gpus", "num-gpus", "ngpus", "n-gpus", "n-gpu", "gpus-per-node"};
    if (std::find(names.begin(), names.end(), word.key) == names.end() || !Has("--devices")) return false;
    const std::string value = ValueOf(word).value_or("");
    int count = 0;
    if (!absl::SimpleAtoi(value, &count) || count < 1) {
      return absl::FailedPreconditionError(count == 0 && value == "0"
                                               ? absl::StrCat(word.name, "=0: without GPUs it is --backend=cpu")
                                               : absl::StrCat(word.name, ": ", kWhichGpus));
    }
    std::vector<std::string> ours = {absl::StrCat("--devices=", count)};
    const bool chosen = absl::c_any_of(WordsBeforeDashes(words_),
                                       [](const std::string& other) { return absl::StartsWith(other, "--backend"); });
    if (Has("--backend") && !chosen) ours.emplace_back("--backend=cuda");
    Take(word, absl::StrCat(word.name, "=", value), ours, /*with_value=*/true);
    return true;
  }

  // A switch, or a flag with a value that has a row of its own.
  bool ReadSwitch(const Word& word) {
    const SpellingTable& table = SpellingsIn(kSwitches);
    const std::optional<std::string> value = ValueOf(word);
    if (value.has_value()) {
      const auto row = table.find(absl::StrCat(word.key, "=", absl::AsciiStrToLower(*value)));
      if (row != table.end() && Has(row->second->ours)) {
        Take(word, absl::StrCat(word.name, "=", *value), {row->second->ours}, /*with_value=*/true);
        return true;
      }
    }
    const auto row = table.find(word.key);
    const bool is_on = !word.value.has_value() || absl::AsciiStrToLower(*word.value) == "true" || word.value == "1";
    if (row == table.end() || !is_on || !Has(row->second->ours)) return false;
    Take(word, word.name, {row->second->ours}, /*with_value=*/false);
    return true;
  }

  absl::StatusOr<bool> ReadFlag(const Word& word) {
    const auto [begin, end] = SpellingsIn(kFlags).equal_range(word.key);
    const auto row = std::find_if(begin, end, [&](const auto& entry) { return Has(entry.second->ours); });
    if (row == end) return false;
    RETURN_IF_ERROR(AnswerToValue(word, std::string(absl::StripPrefix(row->second->ours, "--"))));
    Rename(word, row->second->ours, row->second->note);
    return true;
  }

  // The answer to the value of `word`, as that of the flag `key`.
  absl::Status AnswerToValue(const Word& word, const std::string& key) const {
    const SpellingTable& table = SpellingsIn(kAnswers);
    const std::string value = ValueOf(word).value_or("");
    const auto row = table.find(absl::StrCat(key, "=", absl::AsciiStrToLower(value)));
    if (row == table.end()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(word.name, "=", value, ": ", row->second->ours));
  }

  absl::Status Answer(const Word& word) const {
    RETURN_IF_ERROR(AnswerToValue(word, word.key));
    const SpellingTable& table = SpellingsIn(kAnswers);
    const auto row = table.find(word.key);
    if (row == table.end() || Has(word.name)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(word.name, ": ", row->second->ours));
  }

  absl::Status ReadWord() {
    const std::string& text = words_[next_];
    if (!IsFlag(text)) {
      Keep();
      return absl::OkStatus();
    }
    const Word word = Split(text);
    ASSIGN_OR_RETURN(const bool is_number_of_gpus, ReadGpus(word));
    if (is_number_of_gpus || ReadSwitch(word)) return absl::OkStatus();
    const std::string dashed = absl::StrCat("--", word.key);
    if (Has(word.name)) {
      RETURN_IF_ERROR(Answer(word));
      Keep();
    } else if (word.key.size() > 1 && Has(dashed)) {
      Rename(word, dashed, "");
    } else {
      ASSIGN_OR_RETURN(const bool is_read, ReadFlag(word));
      if (is_read) return absl::OkStatus();
      RETURN_IF_ERROR(Answer(word));
      Keep();
    }
    return absl::OkStatus();
  }

  void Keep() { read_.words.push_back(words_[next_++]); }

  const std::vector<std::string>& words_;
  const CLI::App& command_;
  size_t next_ = 0;
  OurWords read_;
};

std::string BehindColon(absl::string_view message) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(message, absl::MaxSplits(": ", 1));
  return parts.second;
}

// A flag as a file says it: its name, and its value where that is not the one given.
std::string AsKey(absl::string_view flag, absl::string_view given) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(flag.substr(2), absl::MaxSplits('=', 1));
  if (parts.second == given || parts.second.empty()) return absl::StrFormat("\"%s\"", parts.first);
  return absl::StrFormat("%s = %s", parts.first, TomlOf(std::string(parts.second), /*is_number=*/true));
}

}  // namespace

absl::StatusOr<OurWords> InOurWords(const std::vector<std::string>& words, const CLI::App& app) {
  if (words.empty()) return OurWords{};
  std::vector<std::string> ours = words;
  std::vector<std::string> notes;
  const auto command = SpellingsIn(kCommands).find(words[0]);
  if (command != SpellingsIn(kCommands).end()) {
    ours[0] = command->second->ours;
    // `help train` is `train --help`, and `help nothing` as wrong as `nothing`.
    if (words[0] == "help" && words.size() > 1) {
      ours = {words.begin() + 1, words.end()};
      if (CommandOf(app, ours) == nullptr) return OurWords{ours, {}};
      ours.emplace_back("--help");
    }
    notes.push_back(absl::StrCat("read ", words[0], " as ", ours[0]));
    if (ours.back() == "--help" || ours[0] == "--version") notes.clear();
  }
  const CLI::App* const meant = CommandOf(app, ours);
  if (meant == nullptr) return OurWords{ours, notes};
  ASSIGN_OR_RETURN(OurWords read, SpellingReader(ours, *meant).Read());
  read.notes.insert(read.notes.begin(), notes.begin(), notes.end());
  return read;
}

std::string AdviceOnKey(const std::string& command, const std::string& key, const std::string& value, const CLI::App& app) {
  const std::string given = absl::StrCat("--", key, "=", value);
  const absl::StatusOr<OurWords> read = InOurWords({command, given}, app);
  if (!read.ok()) return BehindColon(read.status().message());
  if (read->words == std::vector<std::string>{command, given}) return "";
  std::vector<std::string> ours;
  for (size_t w = 1; w < read->words.size(); ++w) ours.push_back(AsKey(read->words[w], value));
  return absl::StrFormat("did you mean %s?", absl::StrJoin(ours, " and "));
}

std::vector<std::pair<std::string, std::string>> AllSpellings() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const SpellingTable* table : {&SpellingsIn(kFlags), &SpellingsIn(kSwitches)}) {
    for (const auto& [theirs, row] : *table) all.emplace_back(theirs, row->ours);
  }
  for (const auto& [theirs, row] : SpellingsIn(kAnswers)) all.emplace_back(theirs, "");
  return all;
}

std::vector<std::pair<std::string, std::string>> AllSpellingsOfCommands() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [theirs, row] : SpellingsIn(kCommands)) all.emplace_back(theirs, row->ours);
  return all;
}

}  // namespace colonnade::cli
