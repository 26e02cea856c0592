#include "cli/training/train_report.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "cli/command_line/config.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/output/test_json.h"
#include "cli/session/learning_rate.h"
#include "cli/session/optimizer.h"
#include "cli/session/run_json.h"
#include "engine/statistics.h"
#include "engine/trace.h"
#include "tools/drawing.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

Json BreakdownJson(const std::vector<engine::Breakdown>& devices) {
  Json all = Json::array();
  for (const engine::Breakdown& d : devices) {
    all.push_back({{"compute_ms", absl::ToDoubleMilliseconds(d.compute)},
                   {"exposed_communication_ms", absl::ToDoubleMilliseconds(d.exposed_communication)},
                   {"input_wait_ms", absl::ToDoubleMilliseconds(d.input_wait)},
                   {"idle_ms", absl::ToDoubleMilliseconds(d.idle)}});
  }
  return all;
}

std::string DeviceRow(std::string_view name, const engine::Breakdown& d) {
  return absl::StrFormat("%27s %10.2f %14.2f %6.2f %9.2f", name, absl::ToDoubleMilliseconds(d.compute),
                         absl::ToDoubleMilliseconds(d.exposed_communication), absl::ToDoubleMilliseconds(d.input_wait),
                         absl::ToDoubleMilliseconds(d.idle));
}

// Returns for each column by itself the duration below which `part` of the devices lie.
engine::Breakdown Percentiles(const std::vector<engine::Breakdown>& devices, double part) {
  const auto column = [&](absl::Duration engine::Breakdown::*field) {
    std::vector<double> seconds;
    for (const engine::Breakdown& d : devices) seconds.push_back(absl::ToDoubleSeconds(d.*field));
    return absl::Seconds(engine::Quantile(std::move(seconds), part));
  };
  return {column(&engine::Breakdown::compute), column(&engine::Breakdown::exposed_communication),
          column(&engine::Breakdown::input_wait), column(&engine::Breakdown::idle)};
}

void PrintSteps(const PlanFlags& flags, const Session& session, const TrainResults& results) {
  const engine::TrainReport& report = results.report;
  if (report.losses.empty()) {
    PrintLine("no step was done");
    return;
  }
  PrintLine(absl::StrFormat("steps %s  loss %.6f -> %.6f  %.0f images/s  step %.2f ms (median), %.2f ms (p95)",
                            StepsText(results), report.losses.front(), report.losses.back(),
                            results.images_per_s(flags.batch), absl::ToDoubleMilliseconds(report.MedianStep()),
                            absl::ToDoubleMilliseconds(report.P95Step())));
  if (report.skipped_steps > 0) {
    PrintLine(
        absl::StrFormat("%d of %d skipped, since gradients were not finite", report.skipped_steps, report.losses.size()));
  }
  const std::vector<engine::Breakdown> devices = engine::BreakDown(report.last_steps, session.plan.mesh.device_count());
  std::printf("%s", BreakdownText(devices).c_str());
}

// "68 steps"; where a run goes on "180 steps in all, of which 90 are done"; where that has more "60 steps in all, 90 done".
std::string CourseText(const RunCourse& course) {
  const std::string all = base::Counted(course.steps, "step");
  if (course.start.step == 0) return all;
  const int64_t done = course.start.step;
  if (done > course.steps) return absl::StrFormat("%s in all, %d done", all, done);
  return absl::StrFormat("%s in all, of which %d %s done", all, done, done == 1 ? "is" : "are");
}

}  // namespace

std::string StepsText(const TrainResults& results) {
  if (results.start.step == 0) return absl::StrCat(results.steps_done());
  return absl::StrFormat("%d, of which %d since it was resumed", results.steps_done(), results.report.losses.size());
}

std::string BreakdownText(const std::vector<engine::Breakdown>& devices) {
  if (devices.empty()) return absl::StrCat(kTasksNotTimed, "\n");
  std::vector<std::string> lines = {"last step, ms:       device    compute  exposed comm.  input      idle"};
  if (devices.size() > size_t{tools::kMostDevicesShown}) {
    lines.push_back(DeviceRow(absl::StrCat("least of ", devices.size()), Percentiles(devices, 0)));
    lines.push_back(DeviceRow("median", Percentiles(devices, 0.5)));
    lines.push_back(DeviceRow("most", Percentiles(devices, 1)));
  } else {
    for (size_t d = 0; d < devices.size(); ++d) lines.push_back(DeviceRow(absl::StrCat(d), devices[d]));
  }
  return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
}

void SayFirstLinesOf(const TrainFlags& flags, const Session& session, const std::string& backend, const std::string& data,
                     const RunCourse& course) {
  if (!flags.config.empty()) {
    const std::string text = absl::StrFormat("# %s and the command line\n%s", flags.config, ConfigText(flags.resolved));
    std::fputs(PrintableLines(text).c_str(), stderr);
  }
  SaySession(flags.backend, session, backend);
  const partition::UpdateOptions update = UpdateOptionsOf(flags.optimizer, session);
  Say(absl::StrCat("data ", data));
  Say(absl::StrFormat("%s: lr %g (%s), %s, global batch %d, %s", NameOf(update), course.learning_rate.base,
                      Describe(course.learning_rate), Describe(update), flags.plan.batch, CourseText(course)));
  if (course.samples < flags.plan.batch) {
    Say(absl::StrFormat("note: the data set has %s, fewer than a batch: some come twice in it",
                        base::Counted(course.samples, "image")));
  }
  if (flags.optimizer.base_batch > 0) {
    Say(absl::StrFormat("lr is that of a batch of %d, times %d / %d", flags.optimizer.base_batch, flags.plan.batch,
                        flags.optimizer.base_batch));
  }
}

Json ReportJson(const TrainFlags& flags, const Session& session, const engine::Backend& backend, const TrainResults& results,
                const Evaluations& evaluations, const Json& checkpoints) {
  const engine::TrainReport& report = results.report;
  const int devices = session.plan.mesh.device_count();
  Json memory = Json::array();
  for (int d = 0; d < devices; ++d) memory.push_back(backend.TakenBytes(d));
  Json json = RunJson(flags, session, backend.name());
  json.update({{"stopped", results.stopped},
               {"error", OrNull(results.error)},
               {"steps", report.losses.size()},
               {"first_step", results.start.step},
               {"losses", report.losses},
               {"steps_skipped", report.skipped_steps},
               {"images_per_s", results.images_per_s(flags.plan.batch)},
               {"step_ms",
                {{"median", absl::ToDoubleMilliseconds(report.MedianStep())},
                 {"p95", absl::ToDoubleMilliseconds(report.P95Step())}}},
               {"breakdown", BreakdownJson(engine::BreakDown(report.last_steps, devices))},
               {"peak_memory_bytes", memory},
               {"checkpoints", checkpoints},
               {"test", TestJson(results.test)},
               {"test_ema", TestJson(results.test_of_averages)},
               {"evaluations", evaluations.Json()},
               {"until", evaluations.TargetJson()},
               {"seconds", absl::ToDoubleSeconds(report.elapsed)}});
  return json;
}

void PrintReport(const TrainFlags& flags, const Session& session, const TrainResults& results,
                 const Evaluations& evaluations) {
  PrintSteps(flags.plan, session, results);
  const auto print = [](const char* what, const engine::EvalReport& test) {
    if (test.count == 0) return;
    std::printf("%s: %s\n", what, Describe(test).c_str());
  };
  print("test", results.test);
  print("test of the averages", results.test_of_averages);
  if (evaluations.has_target()) std::printf("%s\n", evaluations.TargetText().c_str());
}

}  // namespace colonnade::cli
