// The table as text and as JSON.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "cli/output/output.h"
#include "cli/prediction/prediction.h"
#include "cli/session/devices.h"
#include "cli/table.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLabelWidth = 34;
constexpr double kLeastErrorShown = 5e-4;  // what is below shows as 0.0 %

Json NumberOrNull(bool there, double value) { return there ? Json(value) : Json(); }

Json RowJson(const Table& table, const TableRow& r) {
  const double published = r.row.published_step_sec;
  const bool is_published = published > 0;
  const bool has_days = table.has_days(), has_interval = r.interval.has_value();
  const auto days = [&](double sec) { return table.about.DaysOf(sec, r.row.global_batch); };
  return {{"configuration", r.row.name},
          {"model", r.network},
          {"global_batch", r.row.global_batch},
          {"devices", r.row.devices},
          {"plan", r.row.plan},
          {"published_days", NumberOrNull(is_published && has_days, has_days ? days(published) : 0)},
          {"simulated_days", NumberOrNull(has_days, has_days ? days(r.simulated_sec) : 0)},
          {"simulated_error", NumberOrNull(is_published, is_published ? r.simulated_sec / published - 1 : 0)},
          {"speedup_published", OrNull(table.PublishedSpeedup(r))},
          {"speedup_simulated", table.SimulatedSpeedup(r)},
          {"published_step_ms", NumberOrNull(is_published, published * 1e3)},
          {"simulated_step_ms", r.simulated_sec * 1e3},
          {"simulated_step_ms_low", NumberOrNull(has_interval, has_interval ? r.interval->low * 1e3 : 0)},
          {"simulated_step_ms_high", NumberOrNull(has_interval, has_interval ? r.interval->high * 1e3 : 0)},
          {"measured_step_ms", NumberOrNull(r.measured_sec.has_value(), r.measured_sec.value_or(0) * 1e3)},
          {"speedup_measured", OrNull(table.MeasuredSpeedup(r))},
          {"note", r.note}};
}

}  // namespace

std::optional<double> Table::PublishedSpeedup(const TableRow& row) const {
  const double first_sec = rows[0].row.published_step_sec, sec = row.row.published_step_sec;
  return first_sec > 0 && sec > 0 ? std::optional(Speedup(row, first_sec, sec)) : std::nullopt;
}

std::optional<double> Table::MeasuredSpeedup(const TableRow& row) const {
  const std::optional<double>& first_sec = rows[0].measured_sec;
  return first_sec && row.measured_sec ? std::optional(Speedup(row, *first_sec, *row.measured_sec)) : std::nullopt;
}

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
          {"model", table.rows[0].network},
          {"global_batch", table.rows[0].row.global_batch},
          {"fit", {{"step_sec", table.machine.step_sec.value}, {"kernel_factor", table.fit ? table.fit->kernel_factor : 1}}},
          {"draws", table.draws},
          {"order_holds", NumberOrNull(table.draws > 0, table.part_in_order)},
          {"rows", std::move(rows)}};
}

std::string TitleOf(const Table& table) {
  const std::string unit = table.has_days() ? absl::StrFormat("%s for %g passes over %.0f images", table.Unit().in_words,
                                                              table.about.passes, table.about.images)
                                            : "milliseconds a step";
  if (!table.is_papers) return absl::StrFormat("%s, on %s; %s", table.about.title, table.machine.Title(), unit);
  return absl::StrFormat("%s on %s, batch %d; %s", table.rows[0].network, table.machine.Title(),
                         table.rows[0].row.global_batch, unit);
}

std::string IntervalText(const Table& table, const TableRow& row) {
  if (!row.interval.has_value()) return "";
  return absl::StrFormat("%.2f to %.2f %s", table.Shown(row, row.interval->low), table.Shown(row, row.interval->high),
                         table.unit());
}

std::string ErrorText(const TableRow& row) {
  const double published = row.row.published_step_sec;
  if (published <= 0) return "";
  const double error = row.simulated_sec / published - 1;
  if (row.is_fitted && std::abs(error) < kLeastErrorShown) return "fitted";
  return absl::StrFormat("%+.1f %%", 100 * error);
}

void PrintTable(const Table& table) {
  PrintLine(TitleOf(table));
  size_t width = kLabelWidth;
  for (const TableRow& r : table.rows) width = std::max(width, WidthOf(Printable(r.row.label)));
  const char* const source = table.is_papers ? "paper" : "published";
  PrintLine(
      absl::StrFormat("%s %10s %11s %18s %8s %-20s %11s", PadRight("", width), "", "", "", "", "      speed-up", "step"));
  PrintLine(absl::StrFormat("%s %10s %11s %18s %8s %9s %10s %11s", PadRight("", width), source, "simulated",
                            DrawsTitle(table.draws), "error", source, "simulated", "measured"));
  const char* unit = table.unit();
  const int digits = table.has_days() ? 1 : 2;
  for (const TableRow& r : table.rows) {
    const double sec = r.row.published_step_sec;
    const std::string published = sec > 0 ? absl::StrFormat("%.*f %s", digits, table.Shown(r, sec), unit) : "";
    const std::optional<double> published_speedup = table.PublishedSpeedup(r);
    const std::string speedup = published_speedup ? absl::StrFormat("%.2f x", *published_speedup) : "";
    const std::string measured = r.measured_sec ? absl::StrCat(TimeText(*r.measured_sec * 1e3), " ms") : "";
    PrintLine(absl::StrFormat("%s %10s %11s %18s %8s %9s %8.2f x %11s", PadRight(r.row.label, width), published,
                              absl::StrFormat("%.2f %s", table.Shown(r, r.simulated_sec), unit), IntervalText(table, r),
                              ErrorText(r), speedup, table.SimulatedSpeedup(r), measured));
  }
  if (table.draws == 0) return;
  PrintLine(
      absl::StrFormat("In %.0f of %s of the profile's uncertain numbers the rows are in the order of their simulated "
                      "steps.",
                      table.part_in_order * table.draws, base::Counted(table.draws, "draw")));
}

}  // namespace colonnade::cli
