#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "engine/io/file.h"
#include "engine/state.h"
#include "program/status_macros.h"
#include "tools/measure.h"
#include "tools/paper_table.h"
#include "tools/planning.h"
#include "tools/plot.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMeasuredSteps = 5;
// The run whose error by update stands in the plot of error against time.
constexpr int64_t kCurvePoints = 30, kCurveBatch = 64;

struct Row {
  tools::TableRow row;
  std::optional<absl::Duration> measured;
  std::string note;
};

struct Table {
  Session session;
  engine::Machine machine;
  tools::PaperFit fit;
  bool paper = false;  // the machine is the paper's: rows are compared with it
  std::vector<Row> rows;

  double SimulatedDays(const Row& row) const { return tools::DaysOf(row.row.simulated_step, batch); }
  double SimulatedSpeedup(const Row& row) const {
    return absl::FDivDuration(rows[0].row.simulated_step, row.row.simulated_step);
  }
  int64_t batch = 0;
};

// Rows that this machine has cores for, when the profile is of this machine; on GPUs those that there are GPUs for.
absl::Status MeasureRows(const Flags& flags, Table& table) {
  const bool on_gpus = flags.backend == "cuda";
  ASSIGN_OR_RETURN(tools::Gpus gpus, on_gpus ? FindGpus() : tools::Gpus{});
  const int most = on_gpus ? gpus.count : tools::CoreCount();
  for (Row& row : table.rows) {
    if (!on_gpus && flags.machine != "local") {
      row.note = "not measured: machine " + table.machine.name + " is not this one";
      continue;
    }
    if (row.row.devices > most) {
      row.note = absl::StrFormat("not measured: %d devices on %d %s measure nothing", row.row.devices, most,
                                 on_gpus ? (most == 1 ? "GPU" : "GPUs") : "cores");
      continue;
    }
    absl::StatusOr<partition::Plan> plan = tools::PlanOfRow(row.row, table.session.graph, table.batch, table.machine);
    if (!plan.ok()) continue;
    std::fprintf(stderr, "measuring %s\n", row.row.label.c_str());
    ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                     OpenBackend(flags, row.row.devices, /*threads_per_device=*/0));
    ASSIGN_OR_RETURN(std::unique_ptr<tools::StepMeter> meter,
                     tools::StepMeter::Create(table.session.graph, *plan,
                                              {.global_batch = table.batch, .dtype = DTypeOf(flags)}, std::move(backend)));
    RETURN_IF_ERROR(meter->Run(kMeasuredSteps));
    row.measured = absl::Seconds(tools::TrimmedMean(meter->step_seconds()));
  }
  return absl::OkStatus();
}

absl::StatusOr<Table> MakeTable(const Flags& flags) {
  ASSIGN_OR_RETURN(engine::Machine machine, OpenMachine(flags));
  Flags one_device = flags;
  one_device.plan = "single";
  ASSIGN_OR_RETURN(Session session, OpenSession(one_device, nullptr));
  WarnOfFit(machine, session.graph);
  Table table{.session = std::move(session), .machine = std::move(machine), .batch = flags.batch};
  table.paper = table.machine.name == "titan-2013" && table.session.graph.name == "alexnet2012";
  if (table.paper) {
    absl::StatusOr<tools::PaperFit> fit =
        tools::CalibrateOnPaper(table.machine, table.session.graph, table.batch, flags.calibrate_on);
    if (!fit.ok()) return FieldAsFlag(fit.status(), "calibrate_on");
    table.fit = *fit;
  } else if (!flags.calibrate_on.empty()) {
    return absl::FailedPreconditionError(
        "--calibrate-on: expected --machine=titan-2013 --model=alexnet2012, whose rows the paper has");
  }
  for (tools::TableRow& row : tools::PaperRows()) {
    if (row.devices > table.machine.device_count()) continue;
    absl::StatusOr<engine::Simulation> simulation = tools::SimulateRow(row, table.session.graph, table.batch, table.machine);
    if (!simulation.ok()) {
      if (absl::IsFailedPrecondition(simulation.status())) continue;  // the network or batch does not split so
      return simulation.status();
    }
    row.simulated_step = simulation->step;
    row.calibrated = table.paper && (row.configuration == "1" || row.configuration == flags.calibrate_on);
    if (!table.paper) row.paper_days = 0;
    table.rows.push_back({row, std::nullopt, row.calibrated ? "the profile is calibrated on it" : ""});
  }
  RETURN_IF_ERROR(MeasureRows(flags, table));
  return table;
}

Json OrNull(bool there, double value) { return there ? Json(value) : Json(nullptr); }

Json TableJson(const Table& table) {
  Json rows = Json::array();
  for (const Row& r : table.rows) {
    const double days = table.SimulatedDays(r), paper = r.row.paper_days;
    const bool measured = r.measured.has_value() && table.rows[0].measured.has_value();
    rows.push_back(
        {{"configuration", r.row.configuration},
         {"devices", r.row.devices},
         {"plan", r.row.plan},
         {"paper_days", OrNull(paper > 0, paper)},
         {"simulated_days", days},
         {"simulated_error", OrNull(paper > 0, days / (paper > 0 ? paper : 1) - 1)},
         {"speedup_paper", OrNull(paper > 0, table.rows[0].row.paper_days / (paper > 0 ? paper : 1))},
         {"speedup_simulated", table.SimulatedSpeedup(r)},
         {"simulated_step_ms", absl::ToDoubleMilliseconds(r.row.simulated_step)},
         {"measured_step_ms",
          OrNull(r.measured.has_value(), absl::ToDoubleMilliseconds(r.measured.value_or(absl::ZeroDuration())))},
         {"measured_speedup", OrNull(measured, measured ? absl::FDivDuration(*table.rows[0].measured, *r.measured) : 0)},
         {"note", r.note}});
  }
  return {{"machine", table.machine.name},
          {"model", table.session.graph.name},
          {"global_batch", table.batch},
          {"calibrated", {{"step_sec", table.machine.step_sec.value}, {"kernel_factor", table.fit.kernel_factor}}},
          {"rows", std::move(rows)}};
}

void PrintTable(const Table& table) {
  std::printf("%s\n", absl::StrFormat("%s on %s, batch %d; days for 100 passes over ILSVRC 2012", table.session.graph.name,
                                      table.machine.name, table.batch)
                          .c_str());
  std::printf("%-34s %7s %10s %8s %10s %10s %9s\n", "", "paper", "simulated", "error", "speed-up", "simulated", "measured");
  for (const Row& r : table.rows) {
    const double days = table.SimulatedDays(r), paper = r.row.paper_days;
    const std::string paper_days = paper > 0 ? absl::StrFormat("%.1f d", paper) : "";
    const std::string error = r.row.calibrated ? "fitted"
                              : paper > 0      ? absl::StrFormat("%+.1f %%", 100 * (days / paper - 1))
                                               : "";
    const std::string speedup = paper > 0 ? absl::StrFormat("%.2f x", table.rows[0].row.paper_days / paper) : "";
    const std::string measured = r.measured ? absl::StrFormat("%.0f ms", absl::ToDoubleMilliseconds(*r.measured)) : "";
    std::printf("%s\n", absl::StrFormat("%-34s %7s %8.2f d %8s %10s %8.2f x %9s", r.row.label, paper_days, days, error,
                                        speedup, table.SimulatedSpeedup(r), measured)
                            .c_str());
  }
}

std::string SpeedupBars(const Table& table) {
  std::vector<std::string> categories;
  tools::BarSeries paper{"paper", {}}, simulated{"simulated", {}};
  for (const Row& r : table.rows) {
    categories.push_back(r.row.configuration);
    paper.values.push_back(r.row.paper_days > 0 ? table.rows[0].row.paper_days / r.row.paper_days : -1);
    simulated.values.push_back(table.SimulatedSpeedup(r));
  }
  std::vector<tools::BarSeries> series = {simulated};
  if (table.paper) series.insert(series.begin(), paper);
  return tools::BarChart(absl::StrFormat("%s on %s: speed-up over one device", table.session.graph.name, table.machine.name),
                         "times", categories, series);
}

// Test error by update of a real training run, and each plan's time for an update: the paper's Figure 1.
absl::StatusOr<std::string> ErrorAgainstTime(const Flags& flags, const Table& table) {
  const int64_t every = std::max<int64_t>(flags.curve_steps / kCurvePoints, 1), steps = flags.curve_steps / every * every;
  ASSIGN_OR_RETURN(std::vector<double> errors, tools::ErrorByUpdate(steps, every, kCurveBatch));
  std::vector<tools::LineSeries> series;
  for (const Row& r : table.rows) {
    const std::string& c = r.row.configuration;
    if (c != "1" && c != "2-model" && c != "2-data" && c != "4-hybrid") continue;
    tools::LineSeries line{r.row.label, {}};
    for (size_t i = 0; i < errors.size(); ++i) {
      line.points.emplace_back(table.SimulatedDays(r) * static_cast<double>(i) / static_cast<double>(errors.size() - 1),
                               100 * errors[i]);
    }
    series.push_back(std::move(line));
  }
  return tools::LineChart(absl::StrFormat("Test error against time (error by update: two_column on digits; time: %s on %s)",
                                          table.session.graph.name, table.machine.name),
                          "simulated days", "test error, %", series);
}

absl::Status WritePlots(const Flags& flags, const Table& table) {
  const std::string bars = flags.plots + "-speedup.svg", curve = flags.plots + "-error-against-time.svg";
  RETURN_IF_ERROR(engine::ReplaceFile(bars, SpeedupBars(table)));
  ASSIGN_OR_RETURN(std::string plot, ErrorAgainstTime(flags, table));
  RETURN_IF_ERROR(engine::ReplaceFile(curve, plot));
  std::fprintf(stderr, "plots: %s and %s\n", bars.c_str(), curve.c_str());
  return absl::OkStatus();
}

}  // namespace

absl::Status RunTable(const Flags& flags) {
  RETURN_IF_ERROR(CheckBackend(flags));
  if (!flags.plots.empty()) {
    RETURN_IF_ERROR(engine::CheckWritable(flags.plots + "-speedup.svg"));
  }
  ASSIGN_OR_RETURN(Table table, MakeTable(flags));
  if (flags.json) {
    PrintJson(TableJson(table));
  } else {
    PrintTable(table);
  }
  return flags.plots.empty() ? absl::OkStatus() : WritePlots(flags, table);
}

}  // namespace colonnade::cli
