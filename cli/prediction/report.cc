#include "cli/prediction/report.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cli/build_facts.h"
#include "cli/command_line/config.h"
#include "cli/info.h"
#include "cli/training/curves.h"
#include "engine/io/file.h"
#include "engine/trace.h"
#include "tools/drawing.h"
#include "tools/memory_fit.h"
#include "tools/planning.h"
#include "tools/report_figures.h"
#include "tools/svg.h"

namespace colonnade::cli {
namespace {

using tools::ReportSection;

// What a step is predicted to be.
struct ShownPrediction {
  engine::Machine machine;
  engine::Simulation simulation;
  std::optional<tools::Interval> interval;  // of the step, in seconds
};

std::string MillisecondsText(double ms) { return absl::StrFormat("%.2f ms", ms); }
std::string MegabytesText(double bytes) { return tools::Bytes(static_cast<int64_t>(bytes)); }
std::string Signed(double part) { return absl::StrFormat("%+.1f %%", 100 * part); }

std::string TitleOf(const Session& session) {
  return absl::StrFormat("%s under %s on %s", session.graph.name, session.plan.name,
                         base::Counted(session.plan.mesh.device_count(), "device"));
}

// The first of the devices, and what is said of the others.
size_t Shown(size_t devices) { return std::min(devices, size_t{tools::kMostDevicesShown}); }
std::string OthersInWords(size_t devices) {
  return devices <= tools::kMostDevicesShown
             ? ""
             : absl::StrFormat(" The first %d of %d devices are shown.", tools::kMostDevicesShown, devices);
}

// Where the time of a step goes on each device, predicted or measured or both.
tools::ReportFigure DevicesFigure(const ShownPrediction* predicted, const std::vector<engine::Breakdown>& measured) {
  std::vector<tools::StackedBar> bars;
  const size_t devices = std::max(predicted == nullptr ? 0 : predicted->simulation.devices.size(), measured.size());
  for (size_t d = 0; d < Shown(devices); ++d) {
    if (predicted != nullptr) {
      bars.push_back(BarOf(absl::StrFormat("device %d, predicted", d), predicted->simulation.devices[d]));
    }
    if (d < measured.size()) bars.push_back(BarOf(absl::StrFormat("device %d, measured", d), measured[d]));
  }
  return StepFigure(absl::StrCat("Where the time of a step goes, by device.", OthersInWords(devices)), bars);
}

absl::StatusOr<ReportSection> PlanSection(const Session& session, const program::Program& program) {
  ASSIGN_OR_RETURN(tools::PlanPicture picture, tools::PictureOfPlan(session.graph, session.plan, program));
  ReportSection section{.title = "Plan"};
  section.figures.push_back(
      {.caption = "Devices are columns, layers are rows; what moves between devices stands between them.",
       .svg = std::move(picture.svg),
       .is_long = true,
       .cuts = std::move(picture.cuts)});
  return section;
}

// `held`: bytes that the backend holds, by device; empty where nothing ran.
ReportSection MemorySection(const program::Program& program, const ShownPrediction* predicted,
                            const std::vector<int64_t>& held) {
  const std::vector<tools::MemoryParts> memory = tools::MemoryOf(program);
  ReportSection section{.title = "Memory"};
  tools::ReportTable table{.header = {"device", "weights", "gradients", "optimiser", "activations"}};
  if (predicted != nullptr) table.header.emplace_back("predicted in all");
  if (!held.empty()) table.header.emplace_back("held in all");
  std::vector<tools::StackedBar> bars;
  double most = 0;
  for (size_t d = 0; d < Shown(memory.size()); ++d) {
    const tools::MemoryParts& parts = memory[d];
    bars.push_back(BarOf(absl::StrCat("device ", d), parts));
    std::vector<std::string> row = {absl::StrCat(d)};
    for (int64_t bytes : {parts.weights, parts.gradients, parts.optimizer, parts.activations}) {
      row.push_back(tools::Bytes(bytes));
    }
    most = std::max(most, static_cast<double>(parts.total));
    if (predicted != nullptr) row.push_back(tools::Bytes(predicted->simulation.devices[d].peak_memory_bytes));
    if (d < held.size()) row.push_back(tools::Bytes(held[d]));
    table.rows.push_back(std::move(row));
  }
  section.text =
      "The parts are those of the step's Program, densely packed; activations are all else that lives for a step.";
  if (predicted != nullptr) {
    if (predicted->machine.cores.value > 0) {
      absl::StrAppend(&section.text, " The prediction adds what layouts and workspaces of the CPU backend take.");
    }
    absl::StrAppend(&section.text, " A device of ", predicted->machine.Title(), " has ",
                    MegabytesText(predicted->machine.memory_bytes.value), ".");
  }
  if (!held.empty()) absl::StrAppend(&section.text, " Held is what the backend took for training and tests together.");
  const double limit =
      predicted != nullptr && most > predicted->machine.memory_bytes.value / 4 ? predicted->machine.memory_bytes.value : 0;
  section.figures.push_back(
      MemoryFigure(absl::StrCat("Memory of a device by what it is for.", OthersInWords(memory.size())), bars, limit));
  section.tables.push_back(std::move(table));
  return section;
}

std::string IntervalText(const ShownPrediction& predicted) {
  if (!predicted.interval.has_value()) return "";
  return absl::StrFormat("%.2f to %.2f ms", predicted.interval->low * 1e3, predicted.interval->high * 1e3);
}

tools::ReportTable DevicesTable(const ShownPrediction& predicted) {
  tools::ReportTable table{.header = {"device", "compute", "exposed communication", "input", "idle", "sends"}};
  const std::vector<engine::SimulatedDevice>& devices = predicted.simulation.devices;
  for (size_t d = 0; d < Shown(devices.size()); ++d) {
    std::vector<std::string> row = {absl::StrCat(d)};
    for (absl::Duration part :
         {devices[d].compute, devices[d].exposed_communication, devices[d].input_wait, devices[d].idle}) {
      row.push_back(MillisecondsText(Ms(part)));
    }
    row.push_back(tools::Bytes(devices[d].sent_bytes));
    table.rows.push_back(std::move(row));
  }
  return table;
}

ReportSection MachineSection(const engine::Machine* profile) {
  ReportSection section{.title = "Versions and machine", .listing = InfoText(ReadFacts())};
  if (profile != nullptr) {
    section.text = absl::StrCat("Predictions are those of the profile ", profile->name,
                                profile->description.empty() ? "." : ": ", profile->description);
  }
  return section;
}

std::string Subtitle(const std::string& command) {
  return absl::StrFormat("colonnade %s, version %s, %s", command, VersionText(ThisBuild()),
                         absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::Now(), absl::UTCTimeZone()));
}

// The run's forecast with the timeline and the memory of each device, which a forecast does without.
absl::StatusOr<ShownPrediction> InFull(const absl::StatusOr<Forecast>& forecast, const Session& session) {
  RETURN_IF_ERROR(forecast.status());
  ASSIGN_OR_RETURN(tools::Predicted predicted,
                   tools::Predict(forecast->machine, session.graph, session.plan, forecast->lower));
  return ShownPrediction{forecast->machine, std::move(predicted.simulation)};
}

ReportSection CurvesSection(const Session& session, const TrainResults& results, const Evaluations& evaluations) {
  RunCurves curves;
  int64_t step = results.start.step;
  for (double loss : results.report.losses) {
    ++step;
    if (std::isfinite(loss)) curves.loss.emplace_back(step, loss);  // else it was skipped
  }
  ReportSection section{.title = "Curves"};
  tools::ReportTable tests{.caption = "Tests", .header = {"after step", "top-1", "top-5", "loss", "images"}};
  for (const EvaluationRecord& record : evaluations.all()) {
    const auto at = static_cast<double>(record.step);
    curves.top1.emplace_back(at, 100 * record.test.top1());
    curves.top5.emplace_back(at, 100 * record.test.top5());
    tests.rows.push_back({absl::StrCat(record.step), absl::StrFormat("%.2f %%", 100 * record.test.top1()),
                          absl::StrFormat("%.2f %%", 100 * record.test.top5()), absl::StrFormat("%.4f", record.test.loss),
                          absl::StrCat(record.test.count)});
  }
  section.figures.push_back({.caption = "Of this run.", .svg = DrawCurves(session.graph.name, curves)});
  if (!tests.rows.empty()) section.tables.push_back(std::move(tests));
  return section;
}

// `predicted` may be an error: then it says why.
ReportSection ComparisonSection(const PlanFlags& flags, const absl::StatusOr<ShownPrediction>& predicted,
                                const TrainResults& results, const std::vector<engine::Breakdown>& measured) {
  ReportSection section{.title = "Predicted beside measured"};
  const double median = Ms(results.report.MedianStep());
  tools::ReportTable table{.header = {"", "measured"}};
  if (predicted.ok()) table.header = {"", "predicted", "measured", "error of the prediction"};
  const double step = predicted.ok() ? Ms(predicted->simulation.step) : 0;
  const auto row = [&](const std::string& name, double guess, double found, auto text) {
    if (predicted.ok()) {
      table.rows.push_back({name, text(guess), text(found), found > 0 ? Signed(guess / found - 1) : ""});
    } else {
      table.rows.push_back({name, text(found)});
    }
  };
  const auto images = [](double rate) { return absl::StrFormat("%.0f", rate); };
  row("step (measured: median)", step, median, MillisecondsText);
  row("images/s", step > 0 ? static_cast<double>(flags.batch) / step * 1e3 : 0, results.images_per_s(flags.batch), images);
  if (!predicted.ok()) section.text = std::string(predicted.status().message());
  if (predicted.ok() || !measured.empty()) {
    section.figures.push_back(DevicesFigure(predicted.ok() ? &*predicted : nullptr, measured));
  }
  section.tables.push_back(std::move(table));
  return section;
}

std::vector<tools::ReportFact> TrainHeadlines(const PlanFlags& flags, const absl::StatusOr<ShownPrediction>& predicted,
                                              const TrainResults& results) {
  const engine::TrainReport& report = results.report;
  std::vector<tools::ReportFact> facts = {{"steps", absl::StrCat(StepsText(results), results.stopped ? ", stopped" : "")}};
  if (!report.losses.empty()) {
    facts.push_back({"loss", absl::StrFormat("%.4f → %.4f", report.losses.front(), report.losses.back())});
    facts.push_back({"images/s", absl::StrFormat("%.0f", results.images_per_s(flags.batch))});
    facts.push_back({"step, median", MillisecondsText(Ms(report.MedianStep()))});
    if (predicted.ok()) facts.push_back({"step, predicted", MillisecondsText(Ms(predicted->simulation.step))});
  }
  if (results.test.count > 0) facts.push_back({"test top-1", absl::StrFormat("%.2f %%", 100 * results.test.top1())});
  return facts;
}

}  // namespace

tools::ReportFigure TimelineFigure(const std::string& what, const engine::Trace& trace, int devices) {
  tools::Timeline timeline = tools::DrawTimeline(trace);
  std::string caption = absl::StrCat(what, ": tasks by device and lane.");
  if (timeline.devices < devices) {
    absl::StrAppendFormat(&caption, " The first %d of %d devices are shown; --trace writes all.", timeline.devices, devices);
  }
  return {.caption = std::move(caption), .svg = std::move(timeline.svg)};
}

tools::StackedBar BarOf(const std::string& label, const engine::Breakdown& b) {
  return {label, {Ms(b.compute), Ms(b.exposed_communication), Ms(b.input_wait), Ms(b.idle)}};
}

tools::StackedBar BarOf(const std::string& label, const tools::MemoryParts& m) {
  tools::StackedBar bar{label, {}};
  for (int64_t bytes : {m.weights, m.gradients, m.optimizer, m.activations})
    bar.values.push_back(static_cast<double>(bytes));
  return bar;
}

tools::ReportFigure StepFigure(const std::string& caption, const std::vector<tools::StackedBar>& bars) {
  return {.caption = caption,
          .svg = tools::DrawStackedBars({{"compute", tools::SeriesPaint(0)},
                                         {"exposed communication", tools::SeriesPaint(4)},
                                         {"waiting for input", tools::SeriesPaint(3)},
                                         {"idle", tools::Paint::kNeutral}},
                                        bars, MillisecondsText)};
}

tools::ReportFigure MemoryFigure(const std::string& caption, const std::vector<tools::StackedBar>& bars, double limit) {
  return {.caption = caption,
          .svg = tools::DrawStackedBars({{"weights", tools::SeriesPaint(0)},
                                         {"gradients", tools::SeriesPaint(1)},
                                         {"optimiser", tools::SeriesPaint(2)},
                                         {"activations", tools::SeriesPaint(5)}},
                                        bars, MegabytesText, limit)};
}

absl::Status WriteReport(const std::string& path, const std::string& command, const std::vector<ResolvedFlag>& flags,
                         const engine::Machine* profile, tools::Report report) {
  report.subtitle = Subtitle(command);
  report.sections.push_back({.title = "Configuration",
                             .text = absl::StrFormat("As `colonnade %s --config=FILE` takes it.", command),
                             .listing = ConfigText(flags)});
  report.sections.push_back(MachineSection(profile));
  return engine::ReplaceFile(path, tools::ToHtml(report));
}

absl::Status WritePredictionReport(const PredictionFlags& flags, const std::string& command, const Prediction& p,
                                   std::vector<ReportSection> sections) {
  if (flags.report.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const program::Program program, partition::Lower(p.session.graph, p.session.plan, p.lower));
  ShownPrediction predicted{p.machine, p.simulation, std::nullopt};
  if (p.drawn.has_value()) predicted.interval = p.drawn->Of(0);
  tools::Report report{.title = TitleOf(p.session)};
  report.headlines = {{"step, predicted", MillisecondsText(Ms(p.simulation.step))},
                      {"images/s", ImageRateText(ImagesPerSecond(p))},
                      {"machine", p.machine.Title()}};
  if (predicted.interval.has_value()) report.headlines.push_back({DrawsText(p.drawn->draws()), IntervalText(predicted)});
  ReportSection step{.title = "Predicted step", .text = "Nothing was run: all times are the simulator's."};
  step.figures.push_back(DevicesFigure(&predicted, {}));
  step.tables.push_back(DevicesTable(predicted));
  report.sections.push_back(std::move(step));
  ReportSection timeline{.title = "Timeline"};
  timeline.figures.push_back(
      TimelineFigure("The last two steps, simulated", p.simulation.last_steps, p.session.plan.mesh.device_count()));
  report.sections.push_back(std::move(timeline));
  ASSIGN_OR_RETURN(ReportSection plan, PlanSection(p.session, program));
  report.sections.push_back(std::move(plan));
  report.sections.push_back(MemorySection(program, &predicted, {}));
  for (ReportSection& section : sections) report.sections.push_back(std::move(section));
  return WriteReport(flags.report, command, flags.resolved, &p.machine, std::move(report));
}

absl::Status WriteTrainReport(const TrainFlags& flags, const Session& session, const absl::StatusOr<Forecast>& forecast,
                              const engine::Backend& backend, const program::Program& program, const TrainResults& results,
                              const Evaluations& evaluations) {
  if (flags.report.empty()) return absl::OkStatus();
  const int devices = session.plan.mesh.device_count();
  const absl::StatusOr<ShownPrediction> predicted = InFull(forecast, session);
  const ShownPrediction* const of_profile = predicted.ok() ? &*predicted : nullptr;
  tools::Report report{.title = TitleOf(session), .headlines = TrainHeadlines(flags.plan, predicted, results)};
  if (!results.error.empty()) report.sections.push_back({.title = "Error", .text = results.error});
  if (!results.report.losses.empty()) {
    report.sections.push_back(CurvesSection(session, results, evaluations));
    const engine::Trace& last_steps = results.report.last_steps;
    report.sections.push_back(ComparisonSection(flags.plan, predicted, results, engine::BreakDown(last_steps, devices)));
    ReportSection timeline{.title = "Timeline"};
    if (last_steps.events.empty()) {
      timeline.text = kTasksNotTimed;
    } else {
      timeline.figures.push_back(TimelineFigure("The last steps, measured", last_steps, devices));
    }
    if (predicted.ok()) {
      timeline.figures.push_back(TimelineFigure(absl::StrCat("Two steps, simulated on ", predicted->machine.Title()),
                                                predicted->simulation.last_steps, devices));
    }
    report.sections.push_back(std::move(timeline));
  }
  ASSIGN_OR_RETURN(ReportSection plan, PlanSection(session, program));
  report.sections.push_back(std::move(plan));
  std::vector<int64_t> held;
  for (int d = 0; d < devices; ++d) held.push_back(backend.TakenBytes(d));
  report.sections.push_back(MemorySection(program, of_profile, held));
  return WriteReport(flags.report, "train", flags.resolved, of_profile == nullptr ? nullptr : &of_profile->machine,
                     std::move(report));
}

}  // namespace colonnade::cli
