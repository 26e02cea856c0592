#include <time.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
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
#include "data/sample_order.h"
#include "engine/io/file.h"
#include "program/status_macros.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kDefaultInputSize = 224;                  // of images that are not all of one shape
constexpr absl::Duration kDecodesAlone = absl::Seconds(1);  // at most
constexpr int64_t kMostReadBefore = int64_t{2} << 30;       // bytes
constexpr data::Stage kTimedStages[] = {data::Stage::kRead, data::Stage::kDecode, data::Stage::kAugment};

// What threads decode that do nothing else; 0 where the samples are no files.
struct DecodingAlone {
  double images_per_s = 0;       // of all of them
  double images_per_core_s = 0;  // in a second of processor time, which other programs do not lengthen
};

// One number of threads.
struct InputRun {
  int threads = 0;
  int64_t count = 0;
  DecodingAlone alone;  // by as many threads, before
  absl::Duration elapsed, processor;
  data::StageTimes times;

  double images_per_s() const { return static_cast<double>(count) / absl::ToDoubleSeconds(elapsed); }
  double microseconds(data::Stage stage) const {
    return absl::ToDoubleMicroseconds(times.of(stage)) / static_cast<double>(times.images);
  }
  // If the threads did nothing but their work.
  double attainable_images_per_s() const {
    return threads * static_cast<double>(times.images) / absl::ToDoubleSeconds(times.Working());
  }
  bool are_files() const { return alone.images_per_s > 0; }
  double share_of_decoding() const { return images_per_s() / alone.images_per_s; }
  double share_per_core() const {
    return static_cast<double>(count) / absl::ToDoubleSeconds(processor) / alone.images_per_core_s;
  }
};

struct InputReport {
  std::string format, description;
  absl::Duration first_read;
  int64_t first_read_bytes = 0;
  std::vector<InputRun> runs;
  int64_t peak_bytes = 0, batch_bytes = 0;

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

absl::Duration ProcessorTime(clockid_t clock) {
  timespec time = {};
  ::clock_gettime(clock, &time);
  return absl::DurationFromTimespec(time);
}

// What this thread decodes that does nothing else: all of each file, at full size. Nothing where samples are no files.
absl::StatusOr<DecodingAlone> DecodeAlone(const data::SampleSet& set, const data::SampleOrder& order, int64_t channels) {
  std::string room;
  data::Image image;
  absl::Duration spent, processor;
  int64_t count = 0;
  for (; count < set.size() && spent < kDecodesAlone; ++count) {
    const int64_t sample = order.At(count);
    ASSIGN_OR_RETURN(const data::StoredImage stored, set.Read(sample, room));
    if (!stored.is_encoded) return DecodingAlone();
    const absl::Time begin = absl::Now();
    const absl::Duration used = ProcessorTime(CLOCK_THREAD_CPUTIME_ID);
    absl::StatusOr<data::Image> decoded = data::DecodeImage(stored.bytes, channels, std::move(image.pixels));
    processor += ProcessorTime(CLOCK_THREAD_CPUTIME_ID) - used;
    spent += absl::Now() - begin;
    if (!decoded.ok()) {
      return absl::Status(decoded.status().code(), absl::StrCat(set.sample_name(sample), ": ", decoded.status().message()));
    }
    image = *std::move(decoded);
  }
  return DecodingAlone{static_cast<double>(count) / absl::ToDoubleSeconds(spent),
                       static_cast<double>(count) / absl::ToDoubleSeconds(processor)};
}

// The same of several threads together.
absl::StatusOr<DecodingAlone> DecodeAlone(const data::SampleSet& set, uint64_t seed, int64_t channels, int threads) {
  const data::SampleOrder order(seed, /*epoch=*/0, set.size());
  std::vector<std::future<absl::StatusOr<DecodingAlone>>> all;
  for (int i = 0; i < threads; ++i) {
    all.push_back(std::async(std::launch::async, [&] { return DecodeAlone(set, order, channels); }));
  }
  DecodingAlone sum;
  for (std::future<absl::StatusOr<DecodingAlone>>& one : all) {
    ASSIGN_OR_RETURN(const DecodingAlone decoding, one.get());
    sum.images_per_s += decoding.images_per_s;
    sum.images_per_core_s += decoding.images_per_core_s / threads;
  }
  return sum;
}

// The most memory that the process held, or 0 where the system does not say.
int64_t PeakResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    int64_t kilobytes = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %" SCNd64, &kilobytes) == 1) return kilobytes * 1024;
  }
  return 0;
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
                                                                                          .prefetch = flags.prefetch,
                                                                                          .moments = {{0}, {1}}}));
  report.description = pipeline->description();
  report.batch_bytes = batch * recipe.height * recipe.width * recipe.channels;
  InputRun run{.threads = threads, .count = set->size() * std::max<int64_t>(flags.epochs, 1)};
  ASSIGN_OR_RETURN(run.alone, DecodeAlone(*set, flags.seed, recipe.channels, threads));
  const absl::Time begin = absl::Now();
  const absl::Duration used = ProcessorTime(CLOCK_PROCESS_CPUTIME_ID);
  for (int64_t done = 0; done < run.count; done += set->size()) {
    for (int64_t position = 0; position < set->size(); position += batch) {
      RETURN_IF_ERROR(pipeline->Visit(position, batch, [](const data::Batch&) {}));
    }
  }
  run.elapsed = absl::Now() - begin;
  run.processor = ProcessorTime(CLOCK_PROCESS_CPUTIME_ID) - used;
  run.times = pipeline->Stages();
  return run;
}

void PrintReport(const Flags& flags, const InputReport& report) {
  PrintLine(absl::StrFormat("%s; batches of %d", report.description, flags.batch));
  PrintLine(absl::StrFormat("format %s; before the runs %.1f MB were read in %.2f s", report.format,
                            static_cast<double>(report.first_read_bytes) / 1e6, absl::ToDoubleSeconds(report.first_read)));
  PrintLine("                                                             microseconds of a thread for an image");
  PrintLine("threads  images/s  attainable  decoding     share  per core      read    decode   augment");
  for (const InputRun& run : report.runs) {
    const auto if_files = [&run](std::string number) { return run.are_files() ? number : "-"; };
    PrintLine(absl::StrFormat("%7d  %8.1f  %10.1f  %8s  %8s  %8s  %8.1f  %8.1f  %8.1f", run.threads, run.images_per_s(),
                              run.attainable_images_per_s(), if_files(absl::StrFormat("%.1f", run.alone.images_per_s)),
                              if_files(absl::StrFormat("%.3f", run.share_of_decoding())),
                              if_files(absl::StrFormat("%.3f", run.share_per_core())), run.microseconds(data::Stage::kRead),
                              run.microseconds(data::Stage::kDecode), run.microseconds(data::Stage::kAugment)));
  }
  if (report.fastest().are_files()) {
    PrintLine(
        "decoding: whole files a second by as many threads that do nothing else, before the run; share: images/s over that, "
        "per core: of a second of processor time");
  }
  PrintLine(absl::StrFormat("at most %.1f MB were in memory; %d batches of %.1f MB at once",
                            static_cast<double>(report.peak_bytes) / 1e6, flags.prefetch,
                            static_cast<double>(report.batch_bytes) / 1e6));
}

Json InputRunJson(const InputReport& report, const InputRun& run) {
  const bool are_files = run.are_files();
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
          {"decoded_alone_images_per_s", are_files ? Json(run.alone.images_per_s) : Json()},
          {"share_of_decoding", are_files ? Json(run.share_of_decoding()) : Json()},
          {"share_per_core", are_files ? Json(run.share_per_core()) : Json()},
          {"stage_microseconds", std::move(microseconds)}};
}

// That of the fastest run, and all runs.
Json InputReportJson(const InputReport& report) {
  Json json = InputRunJson(report, report.fastest());
  json["peak_resident_bytes"] = report.peak_bytes;
  json["batch_bytes"] = report.batch_bytes;
  json["first_read"] = {{"bytes", report.first_read_bytes}, {"seconds", absl::ToDoubleSeconds(report.first_read)}};
  json["runs"] = Json::array();
  for (const InputRun& run : report.runs) json["runs"].push_back(InputRunJson(report, run));
  return json;
}

absl::Status WriteCsv(const std::string& path, const InputReport& report) {
  std::string csv =
      "format,threads,count,seconds,images_per_s,attainable_images_per_s,read_us,decode_us,augment_us,decoded_alone_per_s\n";
  for (const InputRun& run : report.runs) {
    absl::StrAppendFormat(&csv, "%s,%d,%d,%.6f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f\n", report.format, run.threads, run.count,
                          absl::ToDoubleSeconds(run.elapsed), run.images_per_s(), run.attainable_images_per_s(),
                          run.microseconds(data::Stage::kRead), run.microseconds(data::Stage::kDecode),
                          run.microseconds(data::Stage::kAugment), run.alone.images_per_s);
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
  std::vector<int> threads = flags.threads;
  if (threads.empty()) threads = {std::max(static_cast<int>(std::thread::hardware_concurrency()), 1)};
  for (int count : threads) {
    ASSIGN_OR_RETURN(InputRun run, RunInput(flags, set, count, report));
    report.runs.push_back(std::move(run));
  }
  report.peak_bytes = PeakResidentBytes();
  if (!flags.csv.empty()) RETURN_IF_ERROR(WriteCsv(flags.csv, report));
  if (flags.json) {
    PrintJson(InputReportJson(report));
  } else {
    PrintReport(flags, report);
  }
  return absl::OkStatus();
}

}  // namespace colonnade::cli
