#include "cli/input_run.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/steady_now.h"
#include "cli/output/progress.h"
#include "data/formats.h"
#include "data/no_split.h"

namespace colonnade::cli {
namespace {

constexpr int64_t kDefaultInputSize = 224;             // of images that are not all of one shape
constexpr int64_t kMostReadBefore = int64_t{2} << 30;  // bytes

// Returns how many samples to read ahead of a measurement, after so many samples had so many bytes.
int64_t SamplesToReadBefore(const data::SampleSet& set, int64_t samples, int64_t bytes) {
  const double most = static_cast<double>(kMostReadBefore) / std::max<double>(bytes, 1) * static_cast<double>(samples);
  return std::min(set.size(), static_cast<int64_t>(std::min(std::ceil(most), 1e18)));
}

// All images, or those that a run will have made when its time is over.
int64_t ImagesOf(const InputAmount& amount, int64_t set_size, const InputRun& run) {
  const double all = static_cast<double>(amount.epochs) * static_cast<double>(set_size);
  const double in_time = static_cast<double>(run.count) * absl::FDivDuration(amount.time, run.elapsed);
  return static_cast<int64_t>(std::min({all, in_time, 1e18}));
}

// Epochs one after the other as training reads them: a batch may lie in two of them.
class Reader {
 public:
  Reader(data::Pipeline& pipeline, int64_t batch) : pipeline_(pipeline), batch_(batch) {}

  // How many images have been read.
  int64_t position() const { return position_; }
  // A batch, or what is left before `end`.
  absl::Status ReadBatch(int64_t end, const std::function<void(const data::Batch&)>& visit) {
    const int64_t count = std::min(batch_, end - position_);
    RETURN_IF_ERROR(pipeline_.Visit(position_, count, visit));
    position_ += count;
    return absl::OkStatus();
  }
  absl::Status WarmUp(int64_t images) {
    CountProgress progress("warming up:", "images");
    while (position_ < images) {
      RETURN_IF_ERROR(ReadBatch(images, [](const data::Batch&) {}));
      progress.Show(position_, images);
    }
    return absl::OkStatus();
  }

 private:
  data::Pipeline& pipeline_;
  const int64_t batch_;
  int64_t position_ = 0;
};

}  // namespace

absl::StatusOr<Samples> OpenInput(const InputFlags& flags) {
  const int64_t channels = flags.channels > 0 ? flags.channels : 3;
  const int64_t size = flags.size > 0 ? flags.size : kDefaultInputSize;
  const data::DatasetOptions options{.synthetic_shape = {channels, size, size}};
  absl::StatusOr<Samples> opened = data::OpenSamples(flags.data.source, data::SplitOf::kTrain, options);
  if (data::IsNoSplit(opened.status())) opened = data::OpenSamples(flags.data.source, data::SplitOf::kTest, options);
  ASSIGN_OR_RETURN(Samples set, std::move(opened));
  SayNotesOf(*set);
  return set;
}

absl::StatusOr<data::AugmentOptions> InputRecipe(const InputFlags& flags, const data::SampleSet& set) {
  program::Shape shape = set.image_shape().value_or(program::Shape{3, kDefaultInputSize, kDefaultInputSize});
  if (flags.channels > 0) shape[0] = flags.channels;
  if (flags.size > 0) shape[1] = shape[2] = flags.size;
  return RecipeFor(flags.data, set, shape, data::SplitOf::kTrain, /*shifts=*/false);
}

absl::StatusOr<FirstRead> ReadBefore(const data::SampleSet& set, absl::Duration most) {
  std::string room;
  FirstRead read;
  const absl::Time begin = base::SteadyNow();
  CountProgress progress("reading from the disk:", "images");
  for (int64_t sample = 0; sample < set.size() && read.bytes < kMostReadBefore && read.elapsed < most; ++sample) {
    ASSIGN_OR_RETURN(const data::StoredImage stored, set.Read(sample, room));
    read.bytes += static_cast<int64_t>(stored.bytes.size());
    read.elapsed = base::SteadyNow() - begin;
    progress.Show(sample + 1, SamplesToReadBefore(set, sample + 1, read.bytes));
  }
  return read;
}

absl::Duration ProcessorTime(clockid_t clock) {
  timespec time = {};
  ::clock_gettime(clock, &time);
  return absl::DurationFromTimespec(time);
}

absl::StatusOr<InputRun> RunInput(const InputFlags& flags, const Samples& set, int threads, const InputAmount& amount,
                                  const std::function<void(const data::Batch&)>& visit) {
  ASSIGN_OR_RETURN(const data::AugmentOptions recipe, InputRecipe(flags, *set));
  const int64_t batch = std::min(flags.batch, set->size());
  ASSIGN_OR_RETURN(std::unique_ptr<data::Pipeline> pipeline,
                   data::Pipeline::Create(set, {.seed = kInputSeed,
                                                .shuffle = flags.data.shuffle == "on",
                                                .augment = recipe,
                                                .threads = threads,
                                                .prefetch = flags.data.prefetch,
                                                .jpeg_index_bytes = JpegIndexBytes(flags.data),
                                                .moments = {{0}, {1}}}));
  InputRun run{.description = pipeline->description(),
               .threads = threads,
               .batch = batch,
               .batch_bytes = batch * recipe.height * recipe.width * recipe.channels};
  Reader reader(*pipeline, batch);
  RETURN_IF_ERROR(reader.WarmUp(amount.warm_up * set->size()));
  const int64_t first = reader.position();
  const data::StageTimes before = pipeline->Stages();
  const absl::Time begin = base::SteadyNow();
  const absl::Duration used = ProcessorTime(CLOCK_PROCESS_CPUTIME_ID);
  CountProgress progress(absl::StrCat("reading with ", base::Counted(threads, "thread"), ":"), "images");
  const int64_t end = first + amount.epochs * set->size();
  while (reader.position() < end && run.elapsed < amount.time) {
    RETURN_IF_ERROR(reader.ReadBatch(end, visit));
    run.count = reader.position() - first;
    run.elapsed = base::SteadyNow() - begin;
    progress.Show(run.count, ImagesOf(amount, set->size(), run));
  }
  run.processor = ProcessorTime(CLOCK_PROCESS_CPUTIME_ID) - used;
  run.times = pipeline->Stages() - before;
  run.indices = pipeline->jpeg_indices();
  return run;
}

}  // namespace colonnade::cli
