#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/commands.h"
#include "cli/prediction.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/session.h"
#include "engine/io/file.h"
#include "engine/state.h"
#include "program/status_macros.h"
#include "tools/drawing.h"
#include "tools/fit.h"
#include "tools/intervals.h"
#include "tools/measure.h"
#include "tools/planning.h"
#include "tools/plot.h"
#include "tools/report.h"
#include "tools/report_figures.h"
#include "tools/rows.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMeasuredSteps = 5;
constexpr int64_t kLargestRowsFile = int64_t{1} << 20;
constexpr size_t kLabelWidth = 34;
constexpr int kMostDrawnDevices = 16;
// The runs whose error by update stands in the plot of error against time.
constexpr int64_t kCurvePoints = 30, kCurveBatch = 64;

struct Row {
  tools::Row row;
  partition::Plan plan;
  program::Representatives program;
  double simulated_sec = 0;
  std::optional<tools::Interval> interval;  // of simulated_sec
  std::optional<double> measured_sec;       // on this machine
  bool is_fitted = false;
  std::string note;
};

struct Table {
  tools::RowTable about;  // its rows are in `rows`
  engine::Machine machine;
  std::optional<tools::Fit> fit;
  bool is_papers = false;  // no --rows
  std::vector<Row> rows;
  int draws = 0;
  double part_in_order = 1;

  bool has_days() const { return about.images > 0; }
  // Images a second over those of the first row.
  double Speedup(const Row& row, double first_sec, double sec) const {
    return first_sec / sec * static_cast<double>(row.row.global_batch) / static_cast<double>(rows[0].row.global_batch);
  }
  double SimulatedSpeedup(const Row& row) const { return Speedup(row, rows[0].simulated_sec, row.simulated_sec); }
  // In the unit that is shown: days of the run, or milliseconds a step.
  double Shown(const Row& row, double sec) const { return has_days() ? about.DaysOf(sec, row.row.global_batch) : sec * 1e3; }
  const char* unit() const { return has_days() ? "d" : "ms"; }
};

// Networks that rows name, each built once.
class Networks {
 public:
  explicit Networks(const Flags& flags) : flags_(flags) {}

  absl::StatusOr<const layers::LayerGraph*> Of(const tools::Row& row) {
    const std::pair key(row.model, row.batch_norm_samples);
    const auto found = graphs_.find(key);
    if (found != graphs_.end()) return &found->second;
    flags_.model = row.model;
    flags_.batch_norm = row.batch_norm_samples > 0 ? absl::StrCat("ghost:", row.batch_norm_samples) : "sync";
    ASSIGN_OR_RETURN(layers::LayerGraph graph, BuildNetwork(flags_, nullptr));
    return &graphs_.emplace(key, std::move(graph)).first->second;
  }

 private:
  Flags flags_;
  std::map<std::pair<std::string, int64_t>, layers::LayerGraph> graphs_;
};

// Gives the paper's rows the network and batch that the flags ask for. Their times stay where nothing is otherwise.
void ForgetTimesOfOthers(const Flags& flags, const engine::Machine& machine, tools::RowTable& paper) {
  for (tools::Row& row : paper.rows) {
    const bool as_measured = machine.name == paper.machine && row.model == flags.model && row.global_batch == flags.batch;
    if (!as_measured) row.measured_step_sec = 0;
    row.model = flags.model;
    row.global_batch = flags.batch;
  }
}

absl::StatusOr<tools::RowTable> RowsOf(const Flags& flags) {
  if (flags.rows.empty()) return tools::PaperTable();
  ASSIGN_OR_RETURN(const std::string json, engine::ReadFile(flags.rows, kLargestRowsFile));
  absl::StatusOr<tools::RowTable> table = tools::RowsFromJson(json);
  if (table.ok()) return table;
  return absl::Status(table.status().code(), absl::StrCat(flags.rows, ": ", table.status().message()));
}

// Names of the rows to fit the profile to, none or one or two.
absl::StatusOr<std::vector<std::string>> RowsToFit(const Flags& flags, const tools::RowTable& table) {
  const bool has_times =
      std::any_of(table.rows.begin(), table.rows.end(), [](const tools::Row& row) { return row.measured_step_sec > 0; });
  if (!flags.calibrate_on.empty() && !(flags.rows.empty() && has_times)) {
    return absl::FailedPreconditionError(
        "--calibrate-on: expected --machine=titan-2013 --model=alexnet2012 --batch=256, whose rows the paper has");
  }
  std::vector<std::string> names = flags.fit;
  if (names.empty() && flags.rows.empty() && has_times) names = {table.rows[0].name};
  if (!flags.calibrate_on.empty()) names = {table.rows[0].name, flags.calibrate_on};
  const char* flag = flags.calibrate_on.empty() ? "--fit" : "--calibrate-on";
  for (size_t i = 0; i < names.size(); ++i) {
    std::vector<std::string> measured;
    for (const tools::Row& row : table.rows) {
      if (row.measured_step_sec > 0) measured.push_back(row.name);
    }
    const bool is_there = std::find(measured.begin(), measured.end(), names[i]) != measured.end();
    if (!is_there || (i > 0 && names[i] == names[0])) {
      return absl::FailedPreconditionError(absl::StrFormat("%s: expected %s row that was measured, one of %s; found \"%s\"",
                                                           flag, i > 0 ? "another" : "a", absl::StrJoin(measured, ", "),
                                                           names[i]));
    }
  }
  return names;
}

absl::StatusOr<Row> Lowered(const tools::Row& row, const engine::Machine& machine, Networks& networks) {
  RETURN_IF_ERROR(tools::CheckDevices(machine, row.devices));
  Row lowered;
  lowered.row = row;
  ASSIGN_OR_RETURN(const layers::LayerGraph* graph, networks.Of(row));
  ASSIGN_OR_RETURN(lowered.plan, tools::PlanOfRow(row, *graph, machine));
  ASSIGN_OR_RETURN(lowered.program, tools::LowerRow(row, *graph, lowered.plan));
  return lowered;
}

// The row lowered; nothing where the machine is too small for it, or the network or batch does not split so.
absl::StatusOr<std::optional<Row>> LoweredIfItCan(const tools::Row& row, const engine::Machine& machine, Networks& networks,
                                                  bool is_papers) {
  absl::StatusOr<Row> lowered = Lowered(row, machine, networks);
  if (lowered.ok()) return *std::move(lowered);
  if (is_papers && absl::IsFailedPrecondition(lowered.status())) return std::nullopt;
  return absl::Status(lowered.status().code(), absl::StrFormat("row %s: %s", row.name, lowered.status().message()));
}

// Fits the table's machine to the rows of those names.
absl::Status FitToRows(const std::vector<std::string>& names, const std::vector<tools::MeasuredStep>& steps, Table& table) {
  if (names.empty()) return absl::OkStatus();
  if (steps.size() != names.size()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("fit: expected rows that machine %s has devices for and whose network and batch split so, found %s",
                        table.machine.name, absl::StrJoin(names, ", ")));
  }
  const double before = table.machine.step_sec.value;
  ASSIGN_OR_RETURN(table.fit, tools::FitTo(table.machine, steps));
  for (Row& row : table.rows) {
    row.is_fitted = std::find(names.begin(), names.end(), row.row.name) != names.end();
    if (row.is_fitted) row.note = "the profile is calibrated on it";
  }
  std::fprintf(stderr, "fitted to row %s: step_sec %.4g s, was %.4g; kernels take %.4g times as long\n",
               absl::StrJoin(names, " and row ").c_str(), table.fit->step_sec, before, table.fit->kernel_factor);
  return absl::OkStatus();
}

std::vector<tools::MeasuredStep> StepsOf(const std::vector<std::string>& names, const Table& table) {
  std::vector<tools::MeasuredStep> steps;
  for (const std::string& name : names) {
    for (const Row& row : table.rows) {
      if (row.row.name != name) continue;
      steps.push_back({name, row.row.model, row.row.global_batch, &row.program, row.row.measured_step_sec,
                       /*is_as_named=*/row.row.batch_norm_samples == 0});
    }
  }
  return steps;
}

// Simulates all rows on the profile, and on draws of it, each fitted anew.
absl::Status SimulateRows(const Flags& flags, const engine::Machine& profile, const std::vector<tools::MeasuredStep>& steps,
                          Table& table) {
  std::vector<const program::Representatives*> programs;
  std::vector<double> seconds;
  for (Row& row : table.rows) {
    ASSIGN_OR_RETURN(engine::Simulation simulation, engine::Simulate(row.program, table.machine, {.trace = false}));
    row.simulated_sec = absl::ToDoubleSeconds(simulation.step);
    programs.push_back(&row.program);
    seconds.push_back(row.simulated_sec);
  }
  if (flags.draws == 0) return absl::OkStatus();
  tools::Refit refit = RefitOrWarn(profile);
  if (!steps.empty()) refit = [&](engine::Machine& drawn) { return tools::FitTo(drawn, steps).status(); };
  CountProgress progress("draw");
  ASSIGN_OR_RETURN(const tools::DrawnSteps drawn,
                   tools::DrawSteps(profile, programs, refit, DrawOptionsOf(flags, progress)));
  table.draws = drawn.draws();
  if (table.draws == 0) return absl::OkStatus();
  for (size_t r = 0; r < table.rows.size(); ++r) table.rows[r].interval = drawn.Of(r);
  table.part_in_order = drawn.PartInOrder(seconds);
  return absl::OkStatus();
}

// Rows that this machine has cores for, when the profile is of this machine; on GPUs those that there are GPUs for.
absl::Status MeasureRows(const Flags& flags, Networks& networks, Table& table) {
  const bool on_gpus = flags.backend == "cuda";
  ASSIGN_OR_RETURN(tools::Gpus gpus, on_gpus ? FindGpus() : tools::Gpus{});
  const int most = on_gpus ? gpus.count : tools::CoreCount();
  for (Row& row : table.rows) {
    if (!on_gpus && flags.machine != "local") {
      row.note = row.is_fitted ? row.note : "not measured: machine " + table.machine.name + " is not this one";
      continue;
    }
    if (const bool is_bf16 = row.row.dtype == program::DType::kBF16; is_bf16 != (flags.dtype == "bf16")) {
      row.note = absl::StrFormat("not measured: the row is in %s, --dtype is %s", is_bf16 ? "bf16" : "fp32", flags.dtype);
      continue;
    }
    if (row.row.devices > most) {
      row.note = absl::StrFormat("not measured: %d devices on %d %s measure nothing", row.row.devices, most,
                                 on_gpus ? (most == 1 ? "GPU" : "GPUs") : "cores");
      continue;
    }
    std::fprintf(stderr, "measuring %s\n", row.row.label.c_str());
    const CountProgress progress(absl::StrCat("measuring ", row.row.label));
    ASSIGN_OR_RETURN(const layers::LayerGraph* graph, networks.Of(row.row));
    ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                     OpenBackend(flags, row.row.devices, /*threads_per_device=*/0));
    ASSIGN_OR_RETURN(
        std::unique_ptr<tools::StepMeter> meter,
        tools::StepMeter::Create(*graph, row.plan, {.global_batch = row.row.global_batch, .dtype = DTypeOf(flags)},
                                 std::move(backend)));
    RETURN_IF_ERROR(meter->Run(kMeasuredSteps));
    row.measured_sec = tools::TrimmedMean(meter->step_seconds());
  }
  return absl::OkStatus();
}

absl::StatusOr<Table> MakeTable(Flags flags) {
  ASSIGN_OR_RETURN(tools::RowTable about, RowsOf(flags));
  if (flags.machine.empty()) flags.machine = about.machine.empty() ? "local" : about.machine;
  ASSIGN_OR_RETURN(engine::Machine machine, OpenMachine(flags));
  if (flags.rows.empty()) ForgetTimesOfOthers(flags, machine, about);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, RowsToFit(flags, about));
  Table table{.about = std::move(about), .machine = machine, .is_papers = flags.rows.empty()};
  Networks networks(flags);
  for (const tools::Row& row : table.about.rows) {
    ASSIGN_OR_RETURN(std::optional<Row> lowered, LoweredIfItCan(row, machine, networks, table.is_papers));
    if (lowered.has_value()) table.rows.push_back(*std::move(lowered));
  }
  if (table.rows.empty()) return Lowered(table.about.rows[0], machine, networks).status();  // why not
  if (names.empty()) {
    ASSIGN_OR_RETURN(const layers::LayerGraph* first, networks.Of(table.rows[0].row));
    WarnOfFit(machine, *first);
  }
  const std::vector<tools::MeasuredStep> steps = StepsOf(names, table);
  RETURN_IF_ERROR(FieldAsFlag(FitToRows(names, steps, table), "fit"));
  RETURN_IF_ERROR(SimulateRows(flags, machine, steps, table));
  RETURN_IF_ERROR(MeasureRows(flags, networks, table));
  return table;
}

Json OrNull(bool there, double value) { return there ? Json(value) : Json(nullptr); }

Json RowJson(const Table& table, const Row& r) {
  const double known = r.row.measured_step_sec, first_known = table.rows[0].row.measured_step_sec;
  const bool is_known = known > 0, compares = is_known && first_known > 0;
  const bool has_days = table.has_days(), has_interval = r.interval.has_value();
  const auto days = [&](double sec) { return table.about.DaysOf(sec, r.row.global_batch); };
  const bool measured = r.measured_sec.has_value(), both_measured = measured && table.rows[0].measured_sec.has_value();
  return {{"configuration", r.row.name},
          {"model", r.row.model},
          {"global_batch", r.row.global_batch},
          {"devices", r.row.devices},
          {"plan", r.row.plan},
          {"paper_days", OrNull(is_known && has_days, has_days ? days(known) : 0)},
          {"simulated_days", OrNull(has_days, has_days ? days(r.simulated_sec) : 0)},
          {"simulated_error", OrNull(is_known, is_known ? r.simulated_sec / known - 1 : 0)},
          {"speedup_paper", OrNull(compares, compares ? table.Speedup(r, first_known, known) : 0)},
          {"speedup_simulated", table.SimulatedSpeedup(r)},
          {"published_step_ms", OrNull(is_known, known * 1e3)},
          {"simulated_step_ms", r.simulated_sec * 1e3},
          {"simulated_step_ms_low", OrNull(has_interval, has_interval ? r.interval->low * 1e3 : 0)},
          {"simulated_step_ms_high", OrNull(has_interval, has_interval ? r.interval->high * 1e3 : 0)},
          {"measured_step_ms", OrNull(measured, r.measured_sec.value_or(0) * 1e3)},
          {"measured_speedup",
           OrNull(both_measured, both_measured ? table.Speedup(r, *table.rows[0].measured_sec, *r.measured_sec) : 0)},
          {"note", r.note}};
}

Json TableJson(const Table& table) {
  Json rows = Json::array();
  for (const Row& row : table.rows) rows.push_back(RowJson(table, row));
  return {{"machine", table.machine.name},
          {"title", table.about.title},
          {"model", table.rows[0].row.model},
          {"global_batch", table.rows[0].row.global_batch},
          {"calibrated",
           {{"step_sec", table.machine.step_sec.value}, {"kernel_factor", table.fit ? table.fit->kernel_factor : 1}}},
          {"draws", table.draws},
          {"order_holds", OrNull(table.draws > 0, table.part_in_order)},
          {"rows", std::move(rows)}};
}

std::string TitleOf(const Table& table) {
  const std::string unit =
      table.has_days() ? absl::StrFormat("days for %g passes over %.0f images", table.about.passes, table.about.images)
                       : "milliseconds a step";
  if (!table.is_papers) return absl::StrFormat("%s, on %s; %s", table.about.title, table.machine.name, unit);
  return absl::StrFormat("%s on %s, batch %d; %s", table.rows[0].row.model, table.machine.name,
                         table.rows[0].row.global_batch, unit);
}

void PrintTable(const Table& table) {
  PrintLine(TitleOf(table));
  size_t label = kLabelWidth;
  for (const Row& r : table.rows) label = std::max(label, r.row.label.size());
  const char* const source = table.is_papers ? "paper" : "published";
  PrintLine(absl::StrFormat("%-*s %10s %11s %18s %8s %-20s %9s", label, "", "", "", "", "", "      speed-up", "step"));
  PrintLine(absl::StrFormat("%-*s %10s %11s %18s %8s %9s %10s %9s", label, "", source, "simulated",
                            table.draws > 0 ? "90 % of draws" : "", "error", source, "simulated", "measured"));
  const char* unit = table.unit();
  const int digits = table.has_days() ? 1 : 2;
  for (const Row& r : table.rows) {
    const double known = r.row.measured_step_sec, first_known = table.rows[0].row.measured_step_sec;
    const std::string published = known > 0 ? absl::StrFormat("%.*f %s", digits, table.Shown(r, known), unit) : "";
    const std::string interval = r.interval ? absl::StrFormat("%.2f to %.2f %s", table.Shown(r, r.interval->low),
                                                              table.Shown(r, r.interval->high), unit)
                                            : "";
    const std::string error = r.is_fitted ? "fitted"
                              : known > 0 ? absl::StrFormat("%+.1f %%", 100 * (r.simulated_sec / known - 1))
                                          : "";
    const std::string speedup =
        known > 0 && first_known > 0 ? absl::StrFormat("%.2f x", table.Speedup(r, first_known, known)) : "";
    const std::string measured = r.measured_sec ? absl::StrFormat("%.0f ms", *r.measured_sec * 1e3) : "";
    PrintLine(absl::StrFormat("%-*s %10s %11s %18s %8s %9s %8.2f x %9s", label, r.row.label, published,
                              absl::StrFormat("%.2f %s", table.Shown(r, r.simulated_sec), unit), interval, error, speedup,
                              table.SimulatedSpeedup(r), measured));
  }
  if (table.draws == 0) return;
  PrintLine(
      absl::StrFormat("The rows come in the order of their simulated steps in %.0f of %d draws of what the profile is "
                      "unsure of.",
                      table.part_in_order * table.draws, table.draws));
}

// "2 GPUs, model parallelism" in the lines of an axis: "2 GPUs", "model".
std::string AxisLabel(const tools::Row& row) { return absl::StrReplaceAll(row.label, {{", ", "\n"}, {" parallelism", ""}}); }

std::string SpeedupBars(const Table& table) {
  std::vector<std::string> categories;
  tools::BarSeries published{table.is_papers ? "paper" : "published", {}, {}}, simulated{"simulated", {}, {}},
      measured{"measured on this machine", {}, {}};
  std::vector<double> ideal;
  const Row& first = table.rows[0];
  for (const Row& r : table.rows) {
    const double known = r.row.measured_step_sec, first_known = first.row.measured_step_sec;
    categories.push_back(AxisLabel(r.row));
    published.values.push_back(known > 0 && first_known > 0 ? table.Speedup(r, first_known, known) : -1);
    simulated.values.push_back(table.SimulatedSpeedup(r));
    const bool both_measured = r.measured_sec.has_value() && first.measured_sec.has_value();
    measured.values.push_back(both_measured ? table.Speedup(r, *first.measured_sec, *r.measured_sec) : -1);
    ideal.push_back(static_cast<double>(r.row.devices) / first.row.devices);
    if (!r.interval) continue;
    simulated.ranges.emplace_back(table.Speedup(r, first.simulated_sec, r.interval->high),
                                  table.Speedup(r, first.simulated_sec, r.interval->low));
  }
  if (!simulated.ranges.empty()) simulated.name = absl::StrFormat("simulated, with 90 %% of %d draws", table.draws);
  std::vector<tools::BarSeries> series;
  if (first.row.measured_step_sec > 0) series.push_back(std::move(published));
  series.push_back(std::move(simulated));
  if (first.measured_sec.has_value()) series.push_back(std::move(measured));
  return tools::BarChart({.title = absl::StrFormat("%s, on %s", table.about.title, table.machine.name),
                          .x = "devices and parallelism",
                          .y = absl::StrFormat("images/s over those of \"%s\"", first.row.label)},
                         categories, series, ideal);
}

// The paper's Figure 1 for a network that is trained here: test error against epochs, which is the same under all plans,
// and against the time that was measured, under those plans of the table that this machine has cores for.
absl::StatusOr<std::string> ErrorAgainstTime(const Flags& flags, const Table& table) {
  const int64_t every = std::max<int64_t>(flags.curve_steps / kCurvePoints, 1), steps = flags.curve_steps / every * every;
  const int cores = tools::CoreCount();
  std::vector<tools::LineSeries> by_epoch, by_time;
  for (const Row& r : table.rows) {
    if (r.row.devices > cores || r.row.plan == partition::kAutoPlan) continue;
    std::fprintf(stderr, "training two_column on digits: %s\n", r.row.name.c_str());
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
       tools::LineChart({.title = absl::StrFormat("The same runs as measured on this machine, %d %s", cores,
                                                  cores == 1 ? "core" : "cores"),
                         .x = "time of training, s",
                         .y = "test error, %"},
                        by_time)});
}

absl::Status WritePlots(const Flags& flags, const Table& table) {
  const std::string bars = flags.plots + "-speedup.svg", curve = flags.plots + "-error-against-time.svg";
  RETURN_IF_ERROR(engine::ReplaceFile(bars, SpeedupBars(table)));
  if (!table.is_papers) {
    std::fprintf(stderr, "plot: %s\n", bars.c_str());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::string plot, ErrorAgainstTime(flags, table));
  RETURN_IF_ERROR(engine::ReplaceFile(curve, plot));
  std::fprintf(stderr, "plots: %s and %s\n", bars.c_str(), curve.c_str());
  return absl::OkStatus();
}

std::string DaysOrMilliseconds(const Table& table, const Row& r, double sec) {
  return absl::StrFormat("%.2f %s", table.Shown(r, sec), table.unit());
}

tools::ReportSection RowsSection(const Table& table) {
  tools::ReportTable rows{.header = {"", table.is_papers ? "paper" : "published", "simulated", "90 % of draws", "error",
                                     "speed-up", "simulated", "measured step", "note"}};
  for (const Row& r : table.rows) {
    const double known = r.row.measured_step_sec, first_known = table.rows[0].row.measured_step_sec;
    rows.rows.push_back({r.row.label, known > 0 ? DaysOrMilliseconds(table, r, known) : "",
                         DaysOrMilliseconds(table, r, r.simulated_sec),
                         r.interval ? absl::StrFormat("%.2f to %.2f %s", table.Shown(r, r.interval->low),
                                                      table.Shown(r, r.interval->high), table.unit())
                                    : "",
                         r.is_fitted ? "fitted"
                         : known > 0 ? absl::StrFormat("%+.1f %%", 100 * (r.simulated_sec / known - 1))
                                     : "",
                         known > 0 && first_known > 0 ? absl::StrFormat("%.2f ×", table.Speedup(r, first_known, known)) : "",
                         absl::StrFormat("%.2f ×", table.SimulatedSpeedup(r)),
                         r.measured_sec ? absl::StrFormat("%.1f ms", *r.measured_sec * 1e3) : "", r.note});
  }
  tools::ReportSection section{.title = "Predicted beside measured", .text = TitleOf(table)};
  section.figures.push_back(
      {.caption = "Speed-up over the first row; dashed: that of as many devices.", .svg = SpeedupBars(table)});
  section.tables.push_back(std::move(rows));
  return section;
}

// Of each row: where the time of its step goes, what a device has in memory, and the timeline and plan of those that a page
// has room for.
absl::Status AppendSectionsOfRows(const Flags& flags, const Table& table, tools::Report& report) {
  std::vector<tools::StackedBar> steps, memory;
  tools::ReportSection plans{.title = "Plans"}, timelines{.title = "Timelines", .text = "Two steps, simulated."};
  Networks networks(flags);
  for (const Row& r : table.rows) {
    ASSIGN_OR_RETURN(const engine::Simulation simulation, engine::Simulate(r.program, table.machine));
    steps.push_back(BarOf(r.row.label, simulation.devices[0]));
    memory.push_back(BarOf(r.row.label, tools::MemoryOf(r.program.program)[0]));
    if (r.row.devices > kMostDrawnDevices) continue;
    timelines.figures.push_back({.caption = r.row.label, .svg = tools::DrawTimeline(simulation.last_steps).svg});
    ASSIGN_OR_RETURN(const layers::LayerGraph* graph, networks.Of(r.row));
    ASSIGN_OR_RETURN(const program::Program program, partition::Lower(*graph, r.plan, tools::LowerOptionsOf(r.row)));
    ASSIGN_OR_RETURN(std::string drawing, tools::PlanAsSvg(*graph, r.plan, program));
    plans.figures.push_back({.caption = r.row.label, .svg = std::move(drawing), .is_long = true});
  }
  report.sections.push_back(
      {.title = "Predicted step", .figures = {StepFigure("Where the time of a step goes on device 0, simulated.", steps)}});
  report.sections.push_back(
      {.title = "Memory", .figures = {MemoryFigure("Memory of device 0 by what it is for, densely packed.", memory)}});
  report.sections.push_back(std::move(timelines));
  report.sections.push_back(std::move(plans));
  return absl::OkStatus();
}

absl::Status WriteTableReport(const Flags& flags, const Table& table) {
  if (flags.report.empty()) return absl::OkStatus();
  tools::Report report{.title = absl::StrFormat("%s, on %s", table.about.title, table.machine.name)};
  const Row* fastest = &table.rows[0];
  for (const Row& r : table.rows) {
    if (table.SimulatedSpeedup(r) > table.SimulatedSpeedup(*fastest)) fastest = &r;
  }
  report.headlines = {{"rows", absl::StrCat(table.rows.size())},
                      {"fastest, simulated", fastest->row.label},
                      {"its speed-up", absl::StrFormat("%.2f ×", table.SimulatedSpeedup(*fastest))},
                      {"machine", table.machine.name}};
  report.sections.push_back(RowsSection(table));
  RETURN_IF_ERROR(AppendSectionsOfRows(flags, table, report));
  return WriteReport(flags, "table", &table.machine, std::move(report));
}

// --out: the profile as it was fitted.
absl::Status WriteProfile(const Flags& flags, const Table& table) {
  if (flags.out.empty()) return absl::OkStatus();
  if (!table.fit.has_value()) {
    return absl::FailedPreconditionError("--out: expected --fit, which makes the profile that is written");
  }
  RETURN_IF_ERROR(engine::ReplaceFile(flags.out, engine::MachineToJson(table.machine)));
  std::fprintf(stderr, "fitted profile: %s\n", flags.out.c_str());
  return absl::OkStatus();
}

}  // namespace

absl::Status RunTable(const Flags& flags) {
  RETURN_IF_ERROR(CheckBackend(flags));
  if (!flags.plots.empty()) {
    RETURN_IF_ERROR(engine::CheckWritable(flags.plots + "-speedup.svg"));
  }
  for (const std::string& path : {flags.out, flags.report}) {
    if (path.empty()) continue;
    RETURN_IF_ERROR(engine::CheckWritable(path));
  }
  ASSIGN_OR_RETURN(Table table, MakeTable(flags));
  RETURN_IF_ERROR(WriteProfile(flags, table));
  RETURN_IF_ERROR(WriteTableReport(flags, table));
  if (flags.json) {
    PrintJson(TableJson(table));
  } else {
    PrintTable(table);
  }
  return flags.plots.empty() ? absl::OkStatus() : WritePlots(flags, table);
}

}  // namespace colonnade::cli
