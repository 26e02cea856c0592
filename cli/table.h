// What `colonnade table` compares: rows of published steps, simulated and measured; as text, JSON, plots and a report.
#ifndef COLONNADE_CLI_TABLE_H_
#define COLONNADE_CLI_TABLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command_line/flags.h"
#include "engine/machine.h"
#include "layers/graph.h"
#include "nlohmann/json.hpp"
#include "partition/plan.h"
#include "program/representative_program.h"
#include "tools/fit.h"
#include "tools/intervals.h"
#include "tools/rows.h"

namespace colonnade::cli {

struct TableFlags {
  TableFlags() {
    profile.machine.clear();  // that of the paper, or of --rows
    backend.name = "cpu";
  }
  std::string model = "alexnet2012";
  int64_t batch = 256;
  std::string rows;              // a file; empty: the paper's
  std::vector<std::string> fit;  // names of rows
  ProfileFlags profile;
  BackendFlags backend;
  DrawFlags draws;
  std::string out, plots, report, config;
  int64_t curve_steps = 600;
  std::vector<ResolvedFlag> resolved;  // every flag, which reports hold
  bool json = false;
};

struct TableRow {
  tools::Row row;
  std::string network;  // its name, also where the row has a file
  partition::Plan plan;
  program::RepresentativeProgram program;
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
  bool is_papers = false;  // the paper's table: no --rows was given
  std::vector<TableRow> rows;
  int draws = 0;
  double part_in_order = 1;

  bool has_days() const { return about.images > 0; }
  // Returns the row's images per second over those of the first row, where steps take `sec` and `first_sec`.
  double Speedup(const TableRow& row, double first_sec, double sec) const {
    return first_sec / sec * static_cast<double>(row.row.global_batch) / static_cast<double>(rows[0].row.global_batch);
  }
  double SimulatedSpeedup(const TableRow& row) const { return Speedup(row, rows[0].simulated_sec, row.simulated_sec); }
  // Return nothing where the row or the first has no such time.
  std::optional<double> PublishedSpeedup(const TableRow& row) const;
  std::optional<double> MeasuredSpeedup(const TableRow& row) const;
  // Converts the seconds of a step to the unit that is shown: days, hours or minutes of the run, or milliseconds of a step.
  double Shown(const TableRow& row, double sec) const {
    return has_days() ? about.DaysOf(sec, row.row.global_batch) * Unit().of_a_day : sec * 1e3;
  }
  struct RunUnit {
    const char *name, *in_words;
    double of_a_day;
  };
  // Returns the largest of days, hours and minutes of which the fastest simulated run takes one or more; else minutes.
  RunUnit Unit() const;
  const char* unit() const { return has_days() ? Unit().name : "ms"; }
};

// Networks that rows name, each built once.
class Networks {
 public:
  // Returns the network that `row` names. It is valid as long as this object is.
  absl::StatusOr<const layers::LayerGraph*> Of(const tools::Row& row);

 private:
  std::map<std::pair<std::string, int64_t>, layers::LayerGraph> graphs_;
};

// Returns what the table compares, on which machine and in which unit.
std::string TitleOf(const Table& table);
// Returns the row's interval as "5.98 to 6.84 d"; empty without draws.
std::string IntervalText(const Table& table, const TableRow& row);
// Returns the error of the prediction as "-2.7 %", "fitted" for a fitted row without one, or nothing where nothing was
// published.
std::string ErrorText(const TableRow& row);

nlohmann::ordered_json TableJson(const Table& table);
void PrintTable(const Table& table);  // on stdout

// The files of --plots; of rows of one's own there is the first alone.
struct PlotFiles {
  std::string speedup, error_against_time;
};
PlotFiles PlotFilesOf(const TableFlags& flags);

// Writes --plots, if it is given: bars of the speed-ups, and, for the paper's table, test error against time of trainings
// that run here.
absl::Status WritePlots(const TableFlags& flags, const Table& table);
// Writes the report, if --report is given.
absl::Status WriteTableReport(const TableFlags& flags, const Table& table);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TABLE_H_
