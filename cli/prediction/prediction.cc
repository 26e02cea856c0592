#include "cli/prediction/prediction.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "cli/command_line/config.h"
#include "cli/command_line/errors.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/session/devices.h"
#include "cli/session/named_files.h"
#include "cli/session/run_json.h"
#include "cpu/backend.h"
#include "engine/io/file.h"
#include "engine/trace.h"
#include "tools/drawing.h"
#include "tools/fit.h"
#include "tools/memory_fit.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

SentBytes SentBytesOf(const program::RepresentativeProgram& lowered, const layers::LayerGraph& graph) {
  SentBytes sent;
  for (const layers::LayerNode& node : graph.nodes) sent.by_layer[node.name] = 0;
  for (const program::Task& task : lowered.program.tasks) {
    const int64_t bytes = task.work.bytes_sent * static_cast<int64_t>(lowered.stands_for[task.device].size());
    const auto layer = sent.by_layer.find(task.provenance.layer);
    if (layer != sent.by_layer.end()) {
      layer->second += bytes;
    } else {
      (task.provenance.pass == program::Pass::kForward ? sent.statistics : sent.gradients) += bytes;
    }
  }
  return sent;
}

// All times are of what stands for the Program, as those of draws and other plans are. A timeline shows all devices, though,
// and only of a whole Program does the CPU backend say what memory it takes.
absl::StatusOr<engine::Simulation> SimulationFor(const PredictionFlags& flags, const Prediction& p) {
  ASSIGN_OR_RETURN(engine::Simulation simulation, engine::Simulate(p.lowered, p.machine));
  if (flags.trace.empty() && flags.report.empty() && p.machine.cores.value == 0) return simulation;
  ASSIGN_OR_RETURN(tools::Predicted whole, tools::Predict(p.machine, p.session.graph, p.session.plan, p.lower,
                                                          cpu::KernelsFromName(flags.backend.kernels)));
  simulation.last_steps = std::move(whole.simulation.last_steps);
  for (size_t d = 0; d < simulation.devices.size() && p.machine.cores.value > 0; ++d) {
    simulation.devices[d].peak_memory_bytes = whole.simulation.devices[d].peak_memory_bytes;
  }
  return simulation;
}

// What the backend adds to dense buffers, where the profile is of CPU devices, must have room, too.
absl::Status CheckFitsInFull(const Prediction& p) {
  for (size_t d = 0; d < p.simulation.devices.size(); ++d) {
    const auto needed = static_cast<double>(p.simulation.devices[d].peak_memory_bytes);
    if (needed <= p.machine.memory_bytes.value) continue;
    return absl::ResourceExhaustedError(
        absl::StrFormat("the plan does not fit: device %d of machine %s has %.7g MB, the plan needs %.7g MB with layouts "
                        "and workspaces; use a smaller --batch or more devices",
                        d, p.machine.Title(), p.machine.memory_bytes.value / 1e6, needed / 1e6));
  }
  return absl::OkStatus();
}

// The candidates that people compare the choice with: the best that the planner made, and every named plan.
std::vector<size_t> ComparedCandidates(const Prediction& p) {
  std::vector<size_t> compared;
  std::set<std::string> names;
  for (size_t i = 1; i < p.candidates.size(); ++i) {
    if (p.candidates[i].fits && names.insert(p.candidates[i].plan.name).second) compared.push_back(i);
  }
  return compared;
}

absl::Status Draw(const PredictionFlags& flags, Prediction& p) {
  const tools::Refit refit = RefitOrWarn(p.machine);
  p.drawn_candidates = ComparedCandidates(p);
  std::vector<program::RepresentativeProgram> others;
  for (size_t i : p.drawn_candidates) {
    ASSIGN_OR_RETURN(program::RepresentativeProgram lowered,
                     tools::LowerRepresentativesOn(p.machine, p.session.graph, p.candidates[i].plan, p.lower));
    others.push_back(std::move(lowered));
  }
  std::vector<const program::RepresentativeProgram*> programs = {&p.lowered};
  for (const program::RepresentativeProgram& lowered : others) programs.push_back(&lowered);
  ASSIGN_OR_RETURN(p.drawn, DrawOrWarn(flags.draws, p.machine, programs, refit, "fitted_to"));
  return absl::OkStatus();
}

// Checks that a profile gives the step that it says it was fitted to: one that was edited since may not, and its draws,
// fitted anew, would surround another time than its own.
absl::Status CheckIsFitted(const engine::Machine& machine, const tools::Refit& refit) {
  constexpr double kAlike = 0.01;
  engine::Machine again = machine;
  if (!refit(again).ok()) return absl::OkStatus();  // nor can its draws be fitted: Draw says so
  const double of_host = std::abs(again.step_sec.value - machine.step_sec.value) / machine.fitted_to.step_sec;
  const double of_kernels = std::abs(again.flops_per_sec.value / machine.flops_per_sec.value - 1);
  if (of_host <= kAlike && of_kernels <= kAlike) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the profile no longer gives that step; table --fit fits it anew, or leave fitted_to out");
}

FileKind KindOfDrawing(const std::string& path) {
  return absl::EndsWith(path, ".txt") ? FileKind::kTextDrawing : FileKind::kDrawing;
}

}  // namespace

void AddPredictionFlags(CLI::App& app, PredictionFlags& flags) {
  AddTimedKernelsFlag(app, flags.backend);
  AddDtypeFlag(app, flags.backend, /*may_be_auto=*/false);
  AddInputRateFlag(app, flags.profile);
  AddDrawFlags(app, flags.draws);
  AddReportFlag(app, flags.report);
  AddJsonFlag(app, flags.json);
  AddConfigFlag(app, flags.config);
}

tools::Refit RefitOrWarn(const engine::Machine& machine) {
  absl::StatusOr<tools::Refit> refit = tools::MakeRefit(machine);
  absl::Status status = refit.status();
  if (status.ok() && *refit != nullptr) status = CheckIsFitted(machine, *refit);
  if (status.ok()) return *std::move(refit);
  Warn(absl::StrFormat("machine %s: draws are not fitted anew to fitted_to: %s", machine.Title(), status.message()));
  return nullptr;
}

std::string TimeText(double ms) { return ms > 0 && ms < 0.1 ? absl::StrFormat("%.2g", ms) : absl::StrFormat("%.2f", ms); }

std::string ImageRateText(double per_second) {
  return per_second < 10 ? absl::StrFormat("%.2g", per_second) : absl::StrFormat("%.0f", per_second);
}

std::string DrawsText(int draws) {
  if (draws >= tools::kLeastForAnInterval) return absl::StrFormat("90 %% of %d draws", draws);
  return absl::StrCat(base::Counted(draws, "draw"), " (too few for an interval of 90 %)");
}

std::string DrawsTitle(int draws) {
  if (draws >= tools::kLeastForAnInterval) return "90 % of draws";
  return draws == 0 ? "" : absl::StrCat("of ", base::Counted(draws, "draw"));
}

double Ms(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

absl::StatusOr<Prediction> LowerForPrediction(const PredictionFlags& flags) {
  ASSIGN_OR_RETURN(engine::Machine machine, OpenMachine(flags.profile, flags.backend));
  Prediction p{.machine = std::move(machine)};
  ASSIGN_OR_RETURN(Session session, OpenSession(flags, nullptr, program::Mode::kTrain, &p.candidates));
  p.session = std::move(session);
  WarnOfFit(p.machine, p.session.graph);
  p.lower = LowerOptionsOf(flags, p.session, program::Mode::kTrain);
  ASSIGN_OR_RETURN(p.lowered, tools::LowerRepresentativesOn(p.machine, p.session.graph, p.session.plan, p.lower));
  p.sent = SentBytesOf(p.lowered, p.session.graph);
  SayNotes(p.session.plan);
  return p;
}

absl::StatusOr<std::optional<tools::DrawnSteps>> DrawOrWarn(
    const DrawFlags& flags, const engine::Machine& profile,
    const std::vector<const program::RepresentativeProgram*>& programs, const tools::Refit& refit, absl::string_view what) {
  CountProgress progress("draw");
  const auto show = [&progress](int done, int draws) { progress.Show(done, draws); };
  absl::StatusOr<tools::DrawnSteps> drawn =
      tools::DrawSteps(profile, programs, refit, {.draws = std::max(flags.count, 0), .seed = flags.seed, .progress = show});
  if (absl::IsFailedPrecondition(drawn.status())) {
    Warn(absl::StrFormat("machine %s: there is no interval, since no draw can be fitted anew to %s: %s", profile.Title(),
                         what, drawn.status().message()));
    return std::nullopt;
  }
  RETURN_IF_ERROR(drawn.status());
  if (drawn->draws() == 0) return std::nullopt;
  return std::optional(*std::move(drawn));
}

absl::Status Predict(const PredictionFlags& flags, Prediction& p) {
  const CountProgress progress("simulating");
  RETURN_IF_ERROR(FieldAsFlag(tools::CheckDevices(p.machine, p.session.plan.mesh.device_count()), "devices"));
  ASSIGN_OR_RETURN(p.simulation, SimulationFor(flags, p));
  if (!p.candidates.empty()) {
    ASSIGN_OR_RETURN(p.least_sec, tools::LeastSecondsOn(p.machine, p.session.graph, p.lower, std::max(flags.plan.devices, 1),
                                                        PlanSettingsOf(flags.plan)));
  }
  absl::Status fits =
      tools::CheckFits(p.machine, p.session.graph, p.lower, p.lowered.program, cpu::KernelsFromName(flags.backend.kernels));
  // The plans that are offered have columns of their own.
  if (!fits.ok() && flags.plan.columns > 0)
    fits = absl::Status(fits.code(), absl::StrCat(fits.message(), ", without --columns"));
  RETURN_IF_ERROR(fits);
  RETURN_IF_ERROR(CheckFitsInFull(p));
  return flags.draws.count == 0 ? absl::OkStatus() : Draw(flags, p);
}

Json IntervalJson(const Prediction& p, size_t program) {
  if (!p.drawn.has_value()) return {{"draws", 0}, {"step_ms_low", nullptr}, {"step_ms_high", nullptr}};
  const tools::Interval interval = p.drawn->Of(program);
  return {{"draws", p.drawn->draws()}, {"step_ms_low", interval.low * 1e3}, {"step_ms_high", interval.high * 1e3}};
}

double ImagesPerSecond(const Prediction& p) {
  return static_cast<double>(p.lower.global_batch) / absl::ToDoubleSeconds(p.simulation.step);
}

Json PredictedJson(const Prediction& p) {
  Json devices = Json::array();
  for (const engine::SimulatedDevice& d : p.simulation.devices) {
    devices.push_back({{"compute_ms", Ms(d.compute)},
                       {"exposed_communication_ms", Ms(d.exposed_communication)},
                       {"input_wait_ms", Ms(d.input_wait)},
                       {"idle_ms", Ms(d.idle)},
                       {"sent_bytes", d.sent_bytes},
                       {"peak_memory_bytes", d.peak_memory_bytes}});
  }
  Json json = {{"step_ms", Ms(p.simulation.step)}, {"images_per_s", ImagesPerSecond(p)}, {"per_device", std::move(devices)}};
  json.update(IntervalJson(p, 0));
  return json;
}

Json SettingsJson(const partition::Plan& plan) {
  Json json = PlanJson(plan);
  json.update({{"reduction", partition::Name(plan.reduction)},
               {"overlap", plan.overlap},
               {"bucket_bytes", plan.bucket_bytes},
               {"transfer_parts", plan.transfer_parts}});
  return json;
}

void PrintDevices(const Prediction& p) {
  const engine::Simulation& s = p.simulation;
  PrintLine("");
  PrintLine(absl::StrFormat("predicted on %s: %s ms a step, %s images/s", p.machine.Title(), TimeText(Ms(s.step)),
                            ImageRateText(ImagesPerSecond(p))));
  if (p.drawn.has_value()) {
    const tools::Interval interval = p.drawn->Of(0);
    const int draws = p.drawn->draws();
    PrintLine(absl::StrFormat("%s of the profile's uncertain numbers: %s to %s ms a step", DrawsText(draws),
                              TimeText(interval.low * 1e3), TimeText(interval.high * 1e3)));
  }
  PrintLine("   device   compute  exposed comm.     input      idle     sent MB   memory MB");
  std::vector<std::string> lines;
  for (const engine::SimulatedDevice& device : s.devices) {
    lines.push_back(absl::StrFormat("%9s %14s %9s %9s %11.2f %11.1f", TimeText(Ms(device.compute)),
                                    TimeText(Ms(device.exposed_communication)), TimeText(Ms(device.input_wait)),
                                    TimeText(Ms(device.idle)), static_cast<double>(device.sent_bytes) / 1e6,
                                    static_cast<double>(device.peak_memory_bytes) / 1e6));
  }
  // Of many devices neighbours of which all numbers are equal share a line.
  for (size_t first = 0, end; first < lines.size(); first = end) {
    for (end = first + 1;
         lines.size() > size_t{tools::kMostDevicesShown} && end < lines.size() && lines[end] == lines[first];)
      ++end;
    PrintLine(
        absl::StrFormat("%9s %s", first + 1 < end ? absl::StrCat(first, "-", end - 1) : absl::StrCat(first), lines[first]));
  }
}

absl::Status CheckOutputs(const PredictionFlags& flags) {
  const std::vector<NamedFile> read = {
      {"--config", flags.config}, {"--model", IfFile(flags.network.model)}, {"--machine", IfFile(flags.profile.machine)}};
  RETURN_IF_ERROR(CheckWrittenFiles({{"--save-plan", flags.save_plan, FileKind::kPlan}},
                                    read));  // a plan may be written over what it was
  std::vector<NamedFile> others = read;
  others.insert(others.end(), {{"--save-plan", flags.save_plan}, {"--plan", IfFile(flags.plan.name)}});
  RETURN_IF_ERROR(CheckWrittenFiles({{"--trace", flags.trace, FileKind::kTimeline},
                                     {"--drawing", flags.drawing, KindOfDrawing(flags.drawing)},
                                     {"--report", flags.report, FileKind::kPage}},
                                    others));
  if (flags.drawing.empty()) return absl::OkStatus();
  return base::WithContext(tools::CheckCanDraw(flags.drawing), "--drawing");
}

absl::Status WritePlanFiles(const PredictionFlags& flags, const Prediction& p) {
  if (!flags.save_plan.empty()) {
    RETURN_IF_ERROR(engine::ReplaceFile(flags.save_plan, partition::PlanToJson(p.session.plan)));
  }
  if (flags.drawing.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const program::Program program, partition::Lower(p.session.graph, p.session.plan, p.lower));
  return tools::DrawPlan(p.session.graph, p.session.plan, program, flags.drawing, {.folds_blocks = !flags.unfold});
}

absl::Status WriteTimeline(const PredictionFlags& flags, const Prediction& p) {
  if (flags.trace.empty()) return absl::OkStatus();
  return engine::ReplaceFile(flags.trace, engine::ToChromeJson(p.simulation.last_steps));
}

}  // namespace colonnade::cli
