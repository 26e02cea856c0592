#include "tools/intervals.h"

#include <algorithm>
#include <numeric>

#include "base/status_macros.h"
#include "engine/simulator.h"
#include "engine/statistics.h"
#include "engine/uncertainty.h"

namespace colonnade::tools {
namespace {

constexpr double kLow = 0.05, kHigh = 0.95;
constexpr int kMostDraws = 100, kLeastDraws = 20, kStepsOfADraw = 6;  // or about so many
// Tasks that are simulated where the number of draws is left open, as far as kLeastDraws allows: some seconds. To find the
// ways between devices takes as long as so many tasks of each.
constexpr double kMostTasks = 2e7, kTasksOfADevice = 100;

std::vector<size_t> OrderOf(absl::Span<const double> seconds) {
  std::vector<size_t> order(seconds.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return seconds[a] < seconds[b]; });
  return order;
}

int DrawsFor(absl::Span<const program::RepresentativeProgram* const> programs) {
  double tasks = 1;
  for (const program::RepresentativeProgram* program : programs) {
    tasks += static_cast<double>(program->program.tasks.size()) * kStepsOfADraw;
    tasks += kTasksOfADevice * program->program.device_count;
  }
  return std::clamp(static_cast<int>(kMostTasks / tasks), kLeastDraws, kMostDraws);
}

template <class Predicate>
double PartOf(const std::vector<std::vector<double>>& draws, Predicate predicate) {
  return static_cast<double>(std::count_if(draws.begin(), draws.end(), predicate)) / static_cast<double>(draws.size());
}

}  // namespace

Interval DrawnSteps::Of(size_t program) const {
  std::vector<double> seconds;
  for (const std::vector<double>& draw : seconds_) seconds.push_back(draw[program]);
  if (draws() < kLeastForAnInterval) {
    const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
    return {*least, *most};
  }
  return {engine::Quantile(seconds, kLow), engine::Quantile(seconds, kHigh)};
}

double DrawnSteps::PartInOrder(absl::Span<const double> nominal) const {
  const std::vector<size_t> order = OrderOf(nominal);
  return PartOf(seconds_, [&](const std::vector<double>& draw) { return OrderOf(draw) == order; });
}

double DrawnSteps::PartFaster(size_t a, size_t b) const {
  return PartOf(seconds_, [&](const std::vector<double>& draw) { return draw[a] < draw[b]; });
}

absl::StatusOr<DrawnSteps> DrawSteps(const engine::Machine& machine,
                                     absl::Span<const program::RepresentativeProgram* const> programs, const Refit& refit,
                                     const DrawOptions& options) {
  std::vector<std::vector<double>> seconds;
  if (engine::IsCertain(machine)) return DrawnSteps(std::move(seconds));
  const int draws = options.draws > 0 ? options.draws : DrawsFor(programs);
  absl::Status unfitted;
  int devices = 1;
  for (const program::RepresentativeProgram* program : programs) devices = std::max(devices, program->program.device_count);
  for (int draw = 0; draw < draws; ++draw) {
    engine::Machine drawn = engine::DrawMachine(machine, options.seed, draw);
    const absl::Status fitted = refit ? refit(drawn) : absl::OkStatus();
    if (fitted.ok()) {
      ASSIGN_OR_RETURN(const engine::Simulator simulator, engine::Simulator::Create(drawn, devices));
      std::vector<double>& steps = seconds.emplace_back();
      for (const program::RepresentativeProgram* program : programs) {
        ASSIGN_OR_RETURN(engine::Simulation simulation, simulator.Run(*program, {.trace = false, .memory = false}));
        steps.push_back(absl::ToDoubleSeconds(simulation.step));
      }
    } else {
      unfitted = fitted;
    }
    if (options.progress) options.progress(draw + 1, draws);
  }
  if (seconds.empty()) return unfitted;
  return DrawnSteps(std::move(seconds));
}

}  // namespace colonnade::tools
