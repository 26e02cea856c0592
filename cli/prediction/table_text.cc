// The table as text and as JSON.
#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "cli/output/output.h"
#include "cli/prediction/prediction.h"
#include "cli/session/devices.h"
#include "cli/table.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLabelWidth = 34;

Json OrNull(bool there, double value) { return there ? Json(value) : Json(nullptr); }

Json RowJson(const Table& table, const TableRow& r) {
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

}  // namespace

Table::RunUnit Table::Unit() const {
  double least_days = std::numeric_limits<double>::infinity();
  for (const TableRow& row : rows) least_days = std::min(least_days, about.DaysOf(row.simulated_sec, row.row.global_batch));
  if (least_days >= 1) return {"d", "days", 1};
  return least_days * 24 >= 1 ? RunUnit{"h", "hours", 24} : RunUnit{"min", "minutes", 24 * 60};
}

nlohmann::ordered_json TableJson(const Table& table) {
  Json rows = Json::array();
  for (const TableRow& row : table.rows) rows.push_back(RowJson(table, row));
  return {{"machine", table.machine.name},
          {"machine_file", MachineFileJson(table.machine)},
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
  const std::string unit = table.has_days() ? absl::StrFormat("%s for %g passes over %.0f images", table.Unit().in_words,
                                                              table.about.passes, table.about.images)
                                            : "milliseconds a step";
  if (!table.is_papers) return absl::StrFormat("%s, on %s; %s", table.about.title, table.machine.Title(), unit);
  return absl::StrFormat("%s on %s, batch %d; %s", table.rows[0].row.model, table.machine.Title(),
                         table.rows[0].row.global_batch, unit);
}

std::string IntervalText(const Table& table, const TableRow& row) {
  if (!row.interval.has_value()) return "";
  return absl::StrFormat("%.2f to %.2f %s", table.Shown(row, row.interval->low), table.Shown(row, row.interval->high),
                         table.unit());
}

std::string ErrorText(const TableRow& row) {
  if (row.is_fitted) return "fitted";
  const double known = row.row.measured_step_sec;
  return known > 0 ? absl::StrFormat("%+.1f %%", 100 * (row.simulated_sec / known - 1)) : "";
}

void PrintTable(const Table& table) {
  PrintLine(TitleOf(table));
  size_t width = kLabelWidth;
  for (const TableRow& r : table.rows) width = std::max(width, WidthOf(Printable(r.row.label)));
  const char* const source = table.is_papers ? "paper" : "published";
  PrintLine(
      absl::StrFormat("%s %10s %11s %18s %8s %-20s %9s", PadRight("", width), "", "", "", "", "      speed-up", "step"));
  PrintLine(absl::StrFormat("%s %10s %11s %18s %8s %9s %10s %9s", PadRight("", width), source, "simulated",
                            table.draws > 0 ? "90 % of draws" : "", "error", source, "simulated", "measured"));
  const char* unit = table.unit();
  const int digits = table.has_days() ? 1 : 2;
  for (const TableRow& r : table.rows) {
    const double known = r.row.measured_step_sec, first_known = table.rows[0].row.measured_step_sec;
    const std::string published = known > 0 ? absl::StrFormat("%.*f %s", digits, table.Shown(r, known), unit) : "";
    const std::string speedup =
        known > 0 && first_known > 0 ? absl::StrFormat("%.2f x", table.Speedup(r, first_known, known)) : "";
    const std::string measured = r.measured_sec ? absl::StrFormat("%.0f ms", *r.measured_sec * 1e3) : "";
    PrintLine(absl::StrFormat("%s %10s %11s %18s %8s %9s %8.2f x %9s", PadRight(r.row.label, width), published,
                              absl::StrFormat("%.2f %s", table.Shown(r, r.simulated_sec), unit), IntervalText(table, r),
                              ErrorText(r), speedup, table.SimulatedSpeedup(r), measured));
  }
  if (table.draws == 0) return;
  PrintLine(
      absl::StrFormat("In %.0f of %d draws of the profile's uncertain numbers the rows are in the order of their simulated "
                      "steps.",
                      table.part_in_order * table.draws, table.draws));
}

}  // namespace colonnade::cli
