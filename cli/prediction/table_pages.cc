// What shows the table in pictures: its plots, and the page of --report.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cli/output/progress.h"
#include "cli/prediction/prediction.h"
#include "cli/prediction/report.h"
#include "cli/table.h"
#include "cpu/threads/cores.h"
#include "engine/io/file.h"
#include "engine/simulator.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tools/drawing.h"
#include "tools/error_curve.h"
#include "tools/memory_fit.h"
#include "tools/planning.h"
#include "tools/plot.h"
#include "tools/report.h"
#include "tools/report_figures.h"

namespace colonnade::cli {
namespace {

// Of the runs in the plot of error against time: points of a curve, and the batch.
constexpr int64_t kCurvePoints = 30, kCurveBatch = 64;

// "2 GPUs, model parallelism" in the lines of an axis: "2 GPUs", "model".
std::string AxisLabel(const tools::Row& row) { return absl::StrReplaceAll(row.label, {{", ", "\n"}, {" parallelism", ""}}); }

std::string SpeedupBars(const Table& table) {
  std::vector<std::string> categories;
  tools::BarSeries published{table.is_papers ? "paper" : "published", {}, {}}, simulated{"simulated", {}, {}},
      measured{"measured on this machine", {}, {}};
  std::vector<double> ideal;
  const TableRow& first = table.rows[0];
  for (const TableRow& r : table.rows) {
    categories.push_back(AxisLabel(r.row));
    published.values.push_back(table.PublishedSpeedup(r).value_or(-1));
    simulated.values.push_back(table.SimulatedSpeedup(r));
    measured.values.push_back(table.MeasuredSpeedup(r).value_or(-1));
    ideal.push_back(static_cast<double>(r.row.devices) / first.row.devices);
    if (!r.interval) continue;
    simulated.ranges.emplace_back(table.Speedup(r, first.simulated_sec, r.interval->high),
                                  table.Speedup(r, first.simulated_sec, r.interval->low));
  }
  if (!simulated.ranges.empty()) simulated.name = absl::StrCat("simulated, with ", DrawsText(table.draws));
  std::vector<tools::BarSeries> series;
  if (first.row.published_step_sec > 0) series.push_back(std::move(published));
  series.push_back(std::move(simulated));
  if (first.measured_sec.has_value()) series.push_back(std::move(measured));
  return tools::BarChart({.title = absl::StrFormat("%s, on %s", table.about.title, table.machine.Title()),
                          .x = "devices and parallelism",
                          .y = absl::StrFormat("images/s over those of \"%s\"", first.row.label)},
                         categories, series, ideal);
}

// The paper's Figure 1 for a network that is trained here: test error against epochs, which is the same under all plans,
// and against the time that was measured, under those plans of the table that this machine has cores for.
absl::StatusOr<std::string> ErrorAgainstTime(const TableFlags& flags, const Table& table) {
  const int64_t every = std::max<int64_t>(flags.curve_steps / kCurvePoints, 1), steps = flags.curve_steps / every * every;
  const int cores = cpu::UsableCores();
  std::vector<tools::LineSeries> by_epoch, by_time;
  for (const TableRow& r : table.rows) {
    if (r.row.devices > cores || r.row.plan == partition::kAutoPlan) continue;
    Say(absl::StrCat("training two_column on digits: ", r.row.name));
    ASSIGN_OR_RETURN(const std::vector<tools::ErrorPoint> points,
                     tools::ErrorByUpdate(r.row.plan, r.row.devices, steps, every, kCurveBatch));
    const std::string name = absl::StrReplaceAll(r.row.label, {{"GPU", "CPU device"}});
    by_epoch.push_back({.name = name});
    by_time.push_back({.name = name});
    for (const tools::ErrorPoint& point : points) {
      by_epoch.back().points.emplace_back(point.epochs, 100 * point.error);
      by_time.back().points.emplace_back(point.seconds, 100 * point.error);
    }
  }
  return tools::Stacked(
      {tools::LineChart(
           {.title = absl::StrFormat("two_column on the digits, batch %d: plans differ by rounding alone", kCurveBatch),
            .x = "epochs",
            .y = "test error, %"},
           by_epoch),
       tools::LineChart({.title = absl::StrCat("The same runs as measured on this machine, ", base::Counted(cores, "core")),
                         .x = "time of training, s",
                         .y = "test error, %"},
                        by_time)});
}

std::string InUnit(const Table& table, const TableRow& r, double sec) {
  return absl::StrFormat("%.2f %s", table.Shown(r, sec), table.unit());
}

tools::ReportSection RowsSection(const Table& table) {
  tools::ReportTable rows{.header = {"", table.is_papers ? "paper" : "published", "simulated", DrawsTitle(table.draws),
                                     "error", "speed-up", "simulated", "measured step", "note"}};
  for (const TableRow& r : table.rows) {
    const double published = r.row.published_step_sec;
    const std::optional<double> speedup = table.PublishedSpeedup(r);
    rows.rows.push_back({r.row.label, published > 0 ? InUnit(table, r, published) : "", InUnit(table, r, r.simulated_sec),
                         IntervalText(table, r), ErrorText(r), speedup ? absl::StrFormat("%.2f ×", *speedup) : "",
                         absl::StrFormat("%.2f ×", table.SimulatedSpeedup(r)),
                         r.measured_sec ? absl::StrCat(TimeText(*r.measured_sec * 1e3), " ms") : "", r.note});
  }
  tools::ReportSection section{.title = "Predicted beside measured", .text = TitleOf(table)};
  section.figures.push_back(
      {.caption = "Speed-up over the first row; dashed: that of as many devices.", .svg = SpeedupBars(table)});
  section.tables.push_back(std::move(rows));
  return section;
}

// Appends, for each row, where the time of its step goes, what a device has in memory, and the timeline and plan of those
// that a page has room for.
absl::Status AppendSectionsOfRows(const Table& table, tools::Report& report) {
  std::vector<tools::StackedBar> steps, memory;
  tools::ReportSection plans{.title = "Plans"}, timelines{.title = "Timelines", .text = "Two steps, simulated."};
  Networks networks;
  for (const TableRow& r : table.rows) {
    ASSIGN_OR_RETURN(const engine::Simulation simulation, engine::Simulate(r.program, table.machine));
    steps.push_back(BarOf(r.row.label, simulation.devices[0]));
    memory.push_back(BarOf(r.row.label, tools::MemoryOf(r.program.program)[0]));
    if (r.row.devices > tools::kMostDevicesShown) continue;
    ASSIGN_OR_RETURN(const layers::LayerGraph* graph, networks.Of(r.row));
    ASSIGN_OR_RETURN(const program::Program program, partition::Lower(*graph, r.plan, tools::LowerOptionsOf(r.row, *graph)));
    ASSIGN_OR_RETURN(const engine::Simulation whole, engine::Simulate(program, table.machine, {.memory = false}));
    timelines.figures.push_back(TimelineFigure(r.row.label, whole.last_steps, r.row.devices));
    ASSIGN_OR_RETURN(tools::PlanPicture drawing, tools::PictureOfPlan(*graph, r.plan, program));
    plans.figures.push_back(
        {.caption = r.row.label, .svg = std::move(drawing.svg), .is_long = true, .cuts = std::move(drawing.cuts)});
  }
  report.sections.push_back(
      {.title = "Predicted step", .figures = {StepFigure("Where the time of a step goes on device 0, simulated.", steps)}});
  report.sections.push_back(
      {.title = "Memory", .figures = {MemoryFigure("Memory of device 0 by what it is for, densely packed.", memory)}});
  report.sections.push_back(std::move(timelines));
  report.sections.push_back(std::move(plans));
  return absl::OkStatus();
}

}  // namespace

PlotFiles PlotFilesOf(const TableFlags& flags) {
  if (flags.plots.empty()) return {};
  return {.speedup = flags.plots + "-speedup.svg",
          .error_against_time = flags.rows.empty() ? flags.plots + "-error-against-time.svg" : ""};
}

absl::Status WritePlots(const TableFlags& flags, const Table& table) {
  if (flags.plots.empty()) return absl::OkStatus();
  const auto [bars, curve] = PlotFilesOf(flags);
  RETURN_IF_ERROR(engine::ReplaceFile(bars, SpeedupBars(table)));
  if (curve.empty()) {
    Say(absl::StrCat("plot: ", bars));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::string plot, ErrorAgainstTime(flags, table));
  RETURN_IF_ERROR(engine::ReplaceFile(curve, plot));
  Say(absl::StrCat("plots: ", bars, " and ", curve));
  return absl::OkStatus();
}

absl::Status WriteTableReport(const TableFlags& flags, const Table& table) {
  if (flags.report.empty()) return absl::OkStatus();
  tools::Report report{.title = absl::StrFormat("%s, on %s", table.about.title, table.machine.Title())};
  const TableRow* fastest = &table.rows[0];
  for (const TableRow& r : table.rows) {
    if (table.SimulatedSpeedup(r) > table.SimulatedSpeedup(*fastest)) fastest = &r;
  }
  report.headlines = {{"rows", absl::StrCat(table.rows.size())},
                      {"fastest, simulated", fastest->row.label},
                      {"its speed-up", absl::StrFormat("%.2f ×", table.SimulatedSpeedup(*fastest))},
                      {"machine", table.machine.Title()}};
  report.sections.push_back(RowsSection(table));
  RETURN_IF_ERROR(AppendSectionsOfRows(table, report));
  return WriteReport(flags.report, "table", flags.resolved, &table.machine, std::move(report));
}

}  // namespace colonnade::cli
