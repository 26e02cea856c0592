#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "cli/commands.h"
#include "cli/prediction.h"
#include "cli/session.h"
#include "data/decode.h"
#include "data/formats.h"
#include "data/pipeline.h"
#include "engine/io/file.h"
#include "program/status_macros.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kDefaultInputSize = 224;             // of images that are not all of one shape
constexpr int64_t kDecodedAlone = 500;                 // files, at most
constexpr int64_t kMostReadBefore = int64_t{2} << 30;  // bytes
constexpr data::Stage kTimedStages[] = {data::Stage::kRead, data::Stage::kDecode, data::Stage::kAugment};

// One number of threads.
struct InputRun {
  int threads = 0;
  int64_t count = 0;
  absl::Duration elapsed;
  data::StageTimes times;

  double images_per_s() const { return static_cast<double>(count) / absl::ToDoubleSeconds(elapsed); }
  double microseconds(data::Stage stage) const {
    return absl::ToDoubleMicroseconds(times.of(stage)) / static_cast<double>(times.images);
  }
  // If the threads did nothing but their work.
  double attainable_images_per_s() const {
    return threads * static_cast<double>(times.images) / absl::ToDoubleSeconds(times.Working());
  }
};

struct InputReport {
  std::string format, description;
  absl::Duration first_read;
  int64_t first_read_bytes = 0;
  double decoded_alone_per_s = 0;  // by one thread; 0: the samples are no files
  std::vector<InputRun> runs;

  const InputRun& fastest() const {
    const auto slower = [](const InputRun& a, const InputRun& b) { return a.images_per_s() < b.images_per_s(); };
    return *std::max_element(runs.begin(), runs.end(), slower);
  }
};

std::string FormatOf(const std::string& spec) {
  for (const data::Format& format : data::Formats()) {
    if (format.recognises(spec)) return format.name;
  }
  return "";
}

// What training does to such images, at the size that the flags ask for, or their own if all are alike.
absl::StatusOr<data::AugmentOptions> RecipeOf(const Flags& flags, const data::SampleSet& set) {
  program::Shape shape = set.image_shape().value_or(program::Shape{3, kDefaultInputSize, kDefaultInputSize});
  if (flags.input_channels > 0) shape[0] = flags.input_channels;
  if (flags.input_size > 0) shape[1] = shape[2] = flags.input_size;
  return RecipeFor(flags, set, shape, /*train=*/true, /*shifts=*/false);
}

// Reads the bytes of all samples once, so that no run is the first to fetch them from a disk.
absl::Status ReadBefore(const data::SampleSet& set, InputReport& report) {
  std::string room;
  const absl::Time begin = absl::Now();
  for (int64_t sample = 0; sample < set.size() && report.first_read_bytes < kMostReadBefore; ++sample) {
    ASSIGN_OR_RETURN(const data::StoredImage stored, set.Read(sample, room));
    report.first_read_bytes += static_cast<int64_t>(stored.bytes.size());
  }
  report.first_read = absl::Now() - begin;
  return absl::OkStatus();
}

// How many files a thread decodes in a second that does nothing else: all of each, at full size.
absl::Status DecodeAlone(const data::SampleSet& set, int64_t channels, InputReport& report) {
  std::string room;
  absl::Duration spent;
  const int64_t count = std::min(set.size(), kDecodedAlone);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t sample = i * set.size() / count;
    ASSIGN_OR_RETURN(const data::StoredImage stored, set.Read(sample, room));
    if (!stored.is_encoded) return absl::OkStatus();
    const absl::Time begin = absl::Now();
    const absl::Status status = data::DecodeImage(stored.bytes, channels).status();
    spent += absl::Now() - begin;
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(set.sample_name(sample), ": ", status.message()));
    }
  }
  report.decoded_alone_per_s = static_cast<double>(count) / absl::ToDoubleSeconds(spent);
  return absl::OkStatus();
}

absl::StatusOr<InputRun> RunInput(const Flags& flags, std::shared_ptr<const data::SampleSet> set, int threads,
                                  InputReport& report) {
  ASSIGN_OR_RETURN(const data::AugmentOptions recipe, RecipeOf(flags, *set));
  const int64_t batch = std::min(flags.batch, set->size());
  ASSIGN_OR_RETURN(std::unique_ptr<data::Pipeline> pipeline, data::Pipeline::Create(set, {.seed = flags.seed,
                                                                                          .shuffle = flags.shuffle == "on",
                                                                                          .once = true,
                                                                                          .augment = recipe,
                                                                                          .threads = threads,
                                                                                          .moments = {{0}, {1}}}));
  report.description = pipeline->description();
  std::vector<uint8_t> images(batch * recipe.height * recipe.width * recipe.channels);
  std::vector<int32_t> labels(batch);
  InputRun run{.threads = threads, .count = set->size() * std::max<int64_t>(flags.epochs, 1)};
  const absl::Time begin = absl::Now();
  for (int64_t done = 0; done < run.count; done += set->size()) {
    for (int64_t position = 0; position < set->size(); position += batch) {
      RETURN_IF_ERROR(pipeline->Read(position, absl::MakeSpan(images), absl::MakeSpan(labels)));
    }
  }
  run.elapsed = absl::Now() - begin;
  run.times = pipeline->Stages();
  return run;
}

void PrintReport(const Flags& flags, const InputReport& report) {
  PrintLine(absl::StrFormat("%s; batches of %d", report.description, flags.batch));
  PrintLine(absl::StrFormat("format %s; before the runs %.1f MB were read in %.2f s", report.format,
                            static_cast<double>(report.first_read_bytes) / 1e6, absl::ToDoubleSeconds(report.first_read)));
  PrintLine("                             microseconds of a thread for an image");
  PrintLine("threads  images/s  attainable      read    decode   augment");
  for (const InputRun& run : report.runs) {
    PrintLine(absl::StrFormat("%7d  %8.1f  %10.1f  %8.1f  %8.1f  %8.1f", run.threads, run.images_per_s(),
                              run.attainable_images_per_s(), run.microseconds(data::Stage::kRead),
                              run.microseconds(data::Stage::kDecode), run.microseconds(data::Stage::kAugment)));
  }
  if (report.decoded_alone_per_s > 0) {
    PrintLine(
        absl::StrFormat("one thread that does nothing but decode whole files: %.1f images/s", report.decoded_alone_per_s));
  }
}

Json InputRunJson(const InputReport& report, const InputRun& run) {
  Json stages, microseconds;
  for (data::Stage stage : kTimedStages) {
    const double time = run.microseconds(stage);
    stages[data::Name(stage)] = time > 0 ? Json(1e6 / time) : Json();
    microseconds[data::Name(stage)] = time;
  }
  return {{"images_per_s", run.images_per_s()},
          {"stages", std::move(stages)},
          {"threads", run.threads},
          {"format", report.format},
          {"count", run.count},
          {"seconds", absl::ToDoubleSeconds(run.elapsed)},
          {"attainable_images_per_s", run.attainable_images_per_s()},
          {"stage_microseconds", std::move(microseconds)}};
}

// That of the fastest run, and all runs.
Json InputReportJson(const InputReport& report) {
  Json json = InputRunJson(report, report.fastest());
  json["decoded_alone_images_per_s"] = report.decoded_alone_per_s > 0 ? Json(report.decoded_alone_per_s) : Json();
  json["first_read"] = {{"bytes", report.first_read_bytes}, {"seconds", absl::ToDoubleSeconds(report.first_read)}};
  json["runs"] = Json::array();
  for (const InputRun& run : report.runs) json["runs"].push_back(InputRunJson(report, run));
  return json;
}

absl::Status WriteCsv(const std::string& path, const InputReport& report) {
  std::string csv = "format,threads,count,seconds,images_per_s,attainable_images_per_s,read_us,decode_us,augment_us\n";
  for (const InputRun& run : report.runs) {
    absl::StrAppendFormat(&csv, "%s,%d,%d,%.6f,%.3f,%.3f,%.3f,%.3f,%.3f\n", report.format, run.threads, run.count,
                          absl::ToDoubleSeconds(run.elapsed), run.images_per_s(), run.attainable_images_per_s(),
                          run.microseconds(data::Stage::kRead), run.microseconds(data::Stage::kDecode),
                          run.microseconds(data::Stage::kAugment));
  }
  return engine::ReplaceFile(path, csv);
}

}  // namespace

absl::Status RunIoBench(const Flags& flags) {
  const int64_t channels = flags.input_channels > 0 ? flags.input_channels : 3;
  const int64_t size = flags.input_size > 0 ? flags.input_size : kDefaultInputSize;
  ASSIGN_OR_RETURN(std::shared_ptr<const data::SampleSet> set,
                   data::OpenSamples(flags.data, data::SplitOf::kTrain, {.synthetic_shape = {channels, size, size}}));
  InputReport report{.format = FormatOf(flags.data)};
  RETURN_IF_ERROR(ReadBefore(*set, report));
  ASSIGN_OR_RETURN(const data::AugmentOptions recipe, RecipeOf(flags, *set));
  RETURN_IF_ERROR(DecodeAlone(*set, recipe.channels, report));
  std::vector<int> threads = flags.threads;
  if (threads.empty()) threads = {std::max(static_cast<int>(std::thread::hardware_concurrency()), 1)};
  for (int count : threads) {
    ASSIGN_OR_RETURN(InputRun run, RunInput(flags, set, count, report));
    report.runs.push_back(std::move(run));
  }
  if (!flags.csv.empty()) RETURN_IF_ERROR(WriteCsv(flags.csv, report));
  if (flags.json) {
    PrintJson(InputReportJson(report));
  } else {
    PrintReport(flags, report);
  }
  return absl::OkStatus();
}

}  // namespace colonnade::cli
