#include <time.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/steady_now.h"
#include "base/with_context.h"
#include "cli/command_line/config.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/input_run.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/prediction/prediction.h"
#include "cli/session/named_files.h"
#include "data/decode.h"
#include "data/formats.h"
#include "data/sample_order.h"
#include "engine/io/file.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

struct IoBenchFlags : InputFlags {
  std::vector<int> threads;  // empty: as many as there are cores
  int64_t epochs = 1, warm_up_epochs = 0;
  std::string csv, config;
  bool json = false;
};

constexpr absl::Duration kDecodesAlone = absl::Seconds(1);  // at most
constexpr data::Stage kTimedStages[] = {data::Stage::kRead, data::Stage::kDecode, data::Stage::kAugment};

// What threads decode that do nothing else; 0 where the samples are no files.
struct DecodingAlone {
  double images_per_s = 0;       // of all of them
  double images_per_core_s = 0;  // in a second of processor time, which other programs do not lengthen
};

// One number of threads.
struct BenchRun : InputRun {
  DecodingAlone alone;  // by as many threads, before

  bool are_files() const { return alone.images_per_s > 0; }
  double share_of_decoding() const { return images_per_s() / alone.images_per_s; }
  double share_per_core() const {
    return static_cast<double>(count) / absl::ToDoubleSeconds(processor) / alone.images_per_core_s;
  }
};

struct InputReport {
  std::string format;
  FirstRead first_read;
  std::vector<BenchRun> runs;
  int64_t peak_bytes = 0;

  const BenchRun& fastest() const {
    const auto slower = [](const BenchRun& a, const BenchRun& b) { return a.images_per_s() < b.images_per_s(); };
    return *std::max_element(runs.begin(), runs.end(), slower);
  }
};

std::string FormatOf(const std::string& spec) {
  for (const data::Format& format : data::Formats()) {
    if (format.recognises(spec)) return format.name;
  }
  return "";
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
    const absl::Time begin = base::SteadyNow();
    const absl::Duration used = ProcessorTime(CLOCK_THREAD_CPUTIME_ID);
    absl::StatusOr<data::Image> decoded = data::DecodeImage(stored.bytes, channels, std::move(image.pixels));
    processor += ProcessorTime(CLOCK_THREAD_CPUTIME_ID) - used;
    spent += base::SteadyNow() - begin;
    if (!decoded.ok()) {
      return base::WithContext(decoded.status(), set.sample_name(sample));
    }
    image = *std::move(decoded);
  }
  return DecodingAlone{static_cast<double>(count) / absl::ToDoubleSeconds(spent),
                       static_cast<double>(count) / absl::ToDoubleSeconds(processor)};
}

// The same of several threads together.
absl::StatusOr<DecodingAlone> DecodeAlone(const data::SampleSet& set, uint64_t seed, int64_t channels, int threads) {
  const CountProgress progress(absl::StrCat("decoding alone with ", base::Counted(threads, "thread")));
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

absl::StatusOr<BenchRun> BenchInput(const IoBenchFlags& flags, const Samples& set, int threads) {
  ASSIGN_OR_RETURN(const data::AugmentOptions recipe, InputRecipe(flags, *set));
  ASSIGN_OR_RETURN(const DecodingAlone alone, DecodeAlone(*set, kInputSeed, recipe.channels, threads));
  const InputAmount amount = {.epochs = flags.epochs, .warm_up = flags.warm_up_epochs};
  ASSIGN_OR_RETURN(InputRun run, RunInput(flags, set, threads, amount));
  return BenchRun{std::move(run), alone};
}

void PrintReport(const IoBenchFlags& flags, const InputReport& report) {
  PrintLine(absl::StrFormat("%s; batches of %d", report.fastest().description, report.fastest().batch));
  PrintLine(absl::StrFormat("format %s; before the runs %.1f MB were read in %.2f s", report.format,
                            static_cast<double>(report.first_read.bytes) / 1e6,
                            absl::ToDoubleSeconds(report.first_read.elapsed)));
  PrintLine("                                                             microseconds of a thread for an image");
  PrintLine("threads  images/s  attainable  decoding     share  per core      read    decode   augment");
  for (const BenchRun& run : report.runs) {
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
  const data::JpegIndices::Kept& indices = report.fastest().indices;
  if (indices.indices > 0) {
    PrintLine(absl::StrFormat("indices of %s took %.1f MB; with them %s decoded", base::Counted(indices.indices, "JPEG"),
                              static_cast<double>(indices.bytes) / 1e6,
                              base::Counted(indices.decoded, "part", "was", "were")));
  }
  PrintLine(absl::StrFormat("at most %.1f MB were in memory; %s of %.1f MB at once",
                            static_cast<double>(report.peak_bytes) / 1e6, base::Counted(flags.data.prefetch, "batch"),
                            static_cast<double>(report.fastest().batch_bytes) / 1e6));
}

Json InputRunJson(const InputReport& report, const BenchRun& run) {
  const bool are_files = run.are_files();
  Json stages, microseconds;
  for (data::Stage stage : kTimedStages) {
    const double time = run.microseconds(stage);
    stages[data::Name(stage)] = time > 0 ? Json(1e6 / time) : Json();
    microseconds[data::Name(stage)] = time;
  }
  return {
      {"images_per_s", run.images_per_s()},
      {"stages", std::move(stages)},
      {"threads", run.threads},
      {"format", report.format},
      {"count", run.count},
      {"seconds", absl::ToDoubleSeconds(run.elapsed)},
      {"attainable_images_per_s", run.attainable_images_per_s()},
      {"decoded_alone_images_per_s", are_files ? Json(run.alone.images_per_s) : Json()},
      {"share_of_decoding", are_files ? Json(run.share_of_decoding()) : Json()},
      {"share_per_core", are_files ? Json(run.share_per_core()) : Json()},
      {"stage_microseconds", std::move(microseconds)},
      {"jpeg_indices", {{"count", run.indices.indices}, {"bytes", run.indices.bytes}, {"decoded", run.indices.decoded}}}};
}

// The numbers of the fastest run, and all runs.
Json InputReportJson(const InputReport& report) {
  Json json = InputRunJson(report, report.fastest());
  json["peak_resident_bytes"] = report.peak_bytes;
  json["batch_bytes"] = report.fastest().batch_bytes;
  json["first_read"] = {{"bytes", report.first_read.bytes}, {"seconds", absl::ToDoubleSeconds(report.first_read.elapsed)}};
  json["runs"] = Json::array();
  for (const BenchRun& run : report.runs) json["runs"].push_back(InputRunJson(report, run));
  return json;
}

absl::Status WriteCsv(const std::string& path, const InputReport& report) {
  std::string csv =
      "format,threads,count,seconds,images_per_s,attainable_images_per_s,read_us,decode_us,augment_us,decoded_alone_per_s\n";
  for (const BenchRun& run : report.runs) {
    absl::StrAppendFormat(&csv, "%s,%d,%d,%.6f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f\n", report.format, run.threads, run.count,
                          absl::ToDoubleSeconds(run.elapsed), run.images_per_s(), run.attainable_images_per_s(),
                          run.microseconds(data::Stage::kRead), run.microseconds(data::Stage::kDecode),
                          run.microseconds(data::Stage::kAugment), run.alone.images_per_s);
  }
  return engine::ReplaceFile(path, csv);
}

absl::Status RunIoBench(const IoBenchFlags& flags) {
  RETURN_IF_ERROR(CheckWrittenFiles({{"--csv", flags.csv, FileKind::kTable}}, {{"--config", flags.config}}));
  ASSIGN_OR_RETURN(const Samples set, OpenInput(flags));
  InputReport report{.format = FormatOf(flags.data.source)};
  ASSIGN_OR_RETURN(report.first_read, ReadBefore(*set));
  std::vector<int> threads = flags.threads;
  if (threads.empty()) threads = {DataThreads(flags.data)};
  for (int count : threads) {
    ASSIGN_OR_RETURN(BenchRun run, BenchInput(flags, set, count));
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

}  // namespace

SubCommand AddIoBench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand(
      "io-bench", "Reads, decodes and augments data as training would, without training: images/s, and of each stage.");
  const auto flags = std::make_shared<IoBenchFlags>();
  AddDataFlag(*bench, flags->data, "as of train; images are those of the training set");
  bench->add_option("--threads", flags->threads, "numbers of threads to try, 1,2,4 (default: the number of cores)")
      ->delimiter(',')
      ->check(CLI::Range(1, kMostDataThreads));
  bench->add_option("--epochs", flags->epochs, "how often each image is read")
      ->check(CLI::Range(int64_t{1}, kMostEpochs))
      ->capture_default_str();
  bench
      ->add_option("--warm-up-epochs", flags->warm_up_epochs,
                   "epochs before, which do not count; 2 make the indices of JPEGs")
      ->check(CLI::Range(int64_t{0}, kMostEpochs))
      ->capture_default_str();
  bench->add_option("--batch", flags->batch, "images of a batch")
      ->check(CLI::Range(int64_t{1}, kMostTimedBatch))
      ->capture_default_str();
  AddInputSizeFlag(*bench, flags->size, "rows and columns of an image (default: the data's, or 224)");
  bench->add_option("--channels", flags->channels, "channels of an image (default: the data's, or 3)")
      ->check(CLI::IsMember({1, 3}));
  AddAugmentFlag(*bench, flags->data, "as of train");
  AddReadingFlags(*bench, flags->data);
  bench->add_option("--csv", flags->csv, "where to write a line for each number of threads")->type_name("FILE");
  AddJsonFlag(*bench, flags->json);
  AddConfigFlag(*bench, flags->config);
  bench->footer(
      "Examples:\n  colonnade io-bench --data=imagenet --threads=1,2,4 --batch=256\n"
      "  colonnade io-bench --data=digits --json");
  return {bench, [=] { return RunIoBench(*flags); }};
}

}  // namespace colonnade::cli
