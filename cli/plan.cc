#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cli/command_line/config.h"
#include "cli/command_line/errors.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/prediction/prediction.h"
#include "cli/prediction/report.h"
#include "cli/session/devices.h"
#include "cli/session/network.h"
#include "engine/error_context.h"
#include "layers/traits.h"
#include "partition/planner.h"
#include "tools/svg.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownCandidates = 10;
constexpr size_t kMostTasksForReasons = 40'000;

// Which of the drawn programs is the candidate's.
std::optional<size_t> DrawnAs(const Prediction& p, size_t candidate) {
  const auto found = std::find(p.drawn_candidates.begin(), p.drawn_candidates.end(), candidate);
  if (!p.drawn.has_value() || found == p.drawn_candidates.end()) return std::nullopt;
  return 1 + static_cast<size_t>(found - p.drawn_candidates.begin());
}

// "  slower than the plan in 93 of 100 draws": than what is predicted above, with the flags' reduction and buckets.
std::string HowOftenSlower(const Prediction& p, size_t candidate) {
  if (candidate == 0 || !p.drawn.has_value()) return "";  // the first is the plan
  const std::optional<size_t> drawn = DrawnAs(p, candidate);
  if (!drawn.has_value()) return "  not drawn";
  return absl::StrFormat("  slower than the plan in %.0f of %s", p.drawn->PartFaster(0, *drawn) * p.drawn->draws(),
                         base::Counted(p.drawn->draws(), "draw"));
}

Json PredictedPlanJson(const PredictionFlags& flags, const Prediction& p) {
  Json layers = Json::array();
  for (const layers::LayerNode& node : p.session.graph.nodes) {
    layers.push_back({{"name", node.name},
                      {"strategy", tools::StrategiesOf(p.session.plan, node.name)},
                      {"communication_bytes", p.sent.OfLayer(node.name)}});
  }
  Json json = {{"model", p.session.graph.name},
               {"global_batch", p.lower.global_batch},
               {"kernels", KernelsJson(flags.backend, p.machine)},
               {"dtype", flags.backend.dtype},
               {"machine", p.machine.name},
               {"machine_file", MachineFileJson(p.machine)},
               {"layers", std::move(layers)},
               {"gradient_communication_bytes", p.sent.gradients},
               {"statistics_communication_bytes", p.sent.statistics},
               {"predicted", PredictedJson(p)}};
  json.update(SettingsJson(p.session.plan));
  if (p.candidates.empty()) return json;
  json["least_step_ms"] = p.least_sec > 0 ? Json(p.least_sec * 1e3) : Json();
  json["candidates"] = Json::array();
  for (size_t i = 0; i < p.candidates.size(); ++i) {
    const partition::Candidate& c = p.candidates[i];
    Json candidate = SettingsJson(c.plan);
    candidate.update(
        {{"step_ms", c.judgement.step_sec * 1e3}, {"peak_memory_bytes", c.judgement.peak_memory_bytes}, {"fits", c.fits}});
    if (const std::optional<size_t> drawn = DrawnAs(p, i)) {
      candidate.update(IntervalJson(p, *drawn));
      candidate["slower_than_plan"] = p.drawn->PartFaster(0, *drawn);
    }
    json["candidates"].push_back(std::move(candidate));
  }
  return json;
}

// What the step would take with one layer split otherwise.
struct Alternative {
  std::string strategies;
  double step_sec = 0;
  bool is_planned = false;
};

std::vector<Alternative> AlternativesOf(const Prediction& p, const std::string& layer) {
  std::vector<Alternative> alternatives;
  const absl::StatusOr<layers::LayerId> id = p.session.graph.Find(layer);
  if (!id.ok() || layers::IsInput(p.session.graph.node(*id).layer)) return alternatives;
  for (const auto& strategies :
       partition::LegalStrategies(p.session.graph, *id, p.session.plan.mesh, p.lower.global_batch)) {
    partition::Plan plan = p.session.plan;
    plan.layers[layer] = strategies;
    const absl::StatusOr<program::RepresentativeProgram> lowered =
        tools::LowerRepresentativesOn(p.machine, p.session.graph, plan, p.lower);
    if (!lowered.ok()) continue;
    const absl::StatusOr<engine::Simulation> simulation =
        engine::Simulate(*lowered, p.machine, {.trace = false, .memory = false});
    if (!simulation.ok()) continue;
    std::string split = tools::StrategiesOf(plan, layer);
    const bool is_planned = split == tools::StrategiesOf(p.session.plan, layer);
    alternatives.push_back({std::move(split), absl::ToDoubleSeconds(simulation->step), is_planned});
  }
  std::stable_sort(alternatives.begin(), alternatives.end(),
                   [](const Alternative& a, const Alternative& b) { return a.step_sec < b.step_sec; });
  return alternatives;
}

// Why a layer is split as it is: its next best choice, all else held.
std::string Reason(const Prediction& p, const layers::LayerNode& node) {
  const double step = absl::ToDoubleSeconds(p.simulation.step);
  for (const Alternative& a : AlternativesOf(p, node.name)) {
    if (a.is_planned) continue;
    return absl::StrFormat("%s would be %+.2f ms", a.strategies, (a.step_sec - step) * 1e3);
  }
  return "no other is legal";
}

// Simulations of all other choices of all layers take so long as they have tasks.
bool ReasonsAreQuick(const Prediction& p) {
  const auto layers = std::count_if(p.session.graph.nodes.begin(), p.session.graph.nodes.end(),
                                    [](const layers::LayerNode& node) { return !node.parameters.empty(); });
  return static_cast<size_t>(layers) * p.lowered.program.tasks.size() <= kMostTasksForReasons;
}

std::string Megabytes(int64_t bytes) { return absl::StrFormat("%.3f", static_cast<double>(bytes) / 1e6); }

void PrintLayers(const Prediction& p) {
  const bool reasons = !p.candidates.empty() && ReasonsAreQuick(p);
  if (!p.candidates.empty() && !reasons) {
    PrintLine("What another split of a layer would cost: --explain=LAYER says it of one, since here it takes long for all.");
  }
  size_t widest = 20;
  for (const layers::LayerNode& node : p.session.graph.nodes) widest = std::max(widest, WidthOf(Printable(node.name)));
  const auto row = [&](absl::string_view layer, absl::string_view strategy, absl::string_view sent) {
    return absl::StrFormat("%s %-18s %12s", PadRight(layer, widest), strategy, sent);
  };
  PrintLine(absl::StrCat(row("layer", "strategy", "all send MB"), reasons ? "   why" : ""));
  for (const layers::LayerNode& node : p.session.graph.nodes) {
    const std::string reason = reasons && !node.parameters.empty() ? "   " + Reason(p, node) : "";
    const std::string strategies = tools::StrategiesOf(p.session.plan, node.name);
    PrintLine(absl::StrCat(row(node.name, strategies, Megabytes(p.sent.OfLayer(node.name))), reason));
  }
  if (p.sent.statistics > 0) PrintLine(row("running statistics", "all-reduce", Megabytes(p.sent.statistics)));
  PrintLine(row("gradients", partition::Name(p.session.plan.reduction), Megabytes(p.sent.gradients)));
}

// What a row of the ranking shows of a candidate's plan.
std::string ChoicesOf(const partition::Candidate& c) {
  return absl::StrFormat("%-8s %3d x %-3d %-11s %-7s %11.1f %6d", c.plan.name, ReplicasOf(c.plan.mesh),
                         ColumnsOf(c.plan.mesh), partition::Name(c.plan.reduction), c.plan.overlap ? "on" : "off",
                         static_cast<double>(c.plan.bucket_bytes) / 1e6, c.plan.transfer_parts);
}

struct ShownCandidate {
  size_t index = 0;
  int more = 0;  // later ones of the same choices
};

// Without its rank, and without what draws say of it.
std::string RowOf(const Prediction& p, const ShownCandidate& shown) {
  const partition::Candidate& c = p.candidates[shown.index];
  return absl::StrFormat("%s %11.2f %11.1f %7s%s", ChoicesOf(c), c.judgement.step_sec * 1e3,
                         static_cast<double>(c.judgement.peak_memory_bytes) / 1e6,
                         shown.more > 0 ? absl::StrCat("+", shown.more) : "", c.fits ? "" : "  does not fit");
}

// The best of each of the best choices, and the best of every name and number of devices.
std::vector<ShownCandidate> ShownCandidates(const Prediction& p) {
  std::vector<ShownCandidate> shown;
  std::set<std::string> names;
  std::map<std::string, size_t> rows;  // by choices: the place in `shown`
  for (size_t i = 0; i < p.candidates.size(); ++i) {
    const partition::Plan& plan = p.candidates[i].plan;
    const bool is_new = names.insert(absl::StrCat(plan.name, " ", plan.mesh.device_count())).second;
    const auto row = rows.find(ChoicesOf(p.candidates[i]));
    if (row != rows.end()) {
      ++shown[row->second].more;
    } else if (shown.size() < kShownCandidates || (is_new && plan.name != partition::kAutoPlan)) {
      rows.emplace(ChoicesOf(p.candidates[i]), shown.size());
      shown.push_back({.index = i});
    }
  }
  return shown;
}

// Without a full stop; empty where the bound is not known.
std::string BoundText(const Prediction& p) {
  if (p.least_sec == 0) return "";
  return absl::StrFormat(" No plan on a number of devices that was tried takes less than %.2f ms", p.least_sec * 1e3);
}

void PrintCandidates(const Prediction& p) {
  if (p.candidates.empty()) return;
  const double step = absl::ToDoubleSeconds(p.simulation.step);
  const std::string within =
      p.least_sec > 0 ? absl::StrFormat("; the choice is within %.1f %% of that.", 100 * (step / p.least_sec - 1)) : "";
  PrintLine("");
  PrintLine(absl::StrFormat("%s simulated.%s%s", base::Counted(p.candidates.size(), "plan"), BoundText(p), within));
  PrintLine(
      "The best of each choice, and the best of every name and number of devices; +N: so many more of a choice, which");
  PrintLine("split layers otherwise or reduce in other pieces:");
  PrintLine("rank  plan      mesh    reduction   overlap  buckets MB  parts     step ms   memory MB    more");
  for (const ShownCandidate& shown : ShownCandidates(p)) {
    const std::string row = absl::StrFormat("%4d  %s%s", shown.index + 1, RowOf(p, shown), HowOftenSlower(p, shown.index));
    PrintLine(absl::StripTrailingAsciiWhitespace(row));
  }
}

// The layer's tasks of one step on the first device of the plan.
std::vector<engine::TraceEvent> TasksOf(const Prediction& p, const std::string& layer) {
  std::vector<engine::TraceEvent> tasks;
  for (const engine::TraceEvent& event : p.simulation.last_steps.events) {
    if (event.step == 0 && event.device == p.session.plan.device_at(0) && event.layer == layer) tasks.push_back(event);
  }
  return tasks;
}

Json ExplainedJson(const Prediction& p, const std::string& layer) {
  Json strategies = Json::array(), tasks = Json::array();
  for (const Alternative& a : AlternativesOf(p, layer)) {
    strategies.push_back({{"strategy", a.strategies}, {"step_ms", a.step_sec * 1e3}, {"is_planned", a.is_planned}});
  }
  for (const engine::TraceEvent& event : TasksOf(p, layer)) {
    tasks.push_back({{"task", event.name},
                     {"pass", program::Name(event.pass)},
                     {"task_ms", Ms(event.end - event.start)},
                     {"flops", event.flops},
                     {"sent_bytes", event.bytes_sent}});
  }
  return {{"layer", layer},
          {"strategies", std::move(strategies)},
          {"device", p.session.plan.device_at(0)},
          {"tasks", std::move(tasks)}};
}

void Explain(const Prediction& p, const std::string& layer) {
  PrintLine(absl::StrFormat("layer %s under %s on %s; all else held:", layer, p.session.plan.name, p.machine.Title()));
  PrintLine("strategy               step ms");
  for (const Alternative& a : AlternativesOf(p, layer)) {
    PrintLine(absl::StrFormat("%-20s %9.2f%s", a.strategies, a.step_sec * 1e3, a.is_planned ? "  as planned" : ""));
  }
  PrintLine("");
  PrintLine(absl::StrFormat("its tasks on device %d:", p.session.plan.device_at(0)));
  const std::vector<engine::TraceEvent> tasks = TasksOf(p, layer);
  size_t width = 29;
  for (const engine::TraceEvent& event : tasks) width = std::max(width, WidthOf(Printable(event.name)));
  PrintLine(absl::StrFormat("%s %-8s %9s %7s %10s", PadRight("task", width), "pass", "ms", "Mflop", "sent MB"));
  for (const engine::TraceEvent& event : tasks) {
    PrintLine(absl::StrFormat("%s %-8s %9.3f %7.0f %10.3f", PadRight(event.name, width), program::Name(event.pass),
                              Ms(event.end - event.start), static_cast<double>(event.flops) / 1e6,
                              static_cast<double>(event.bytes_sent) / 1e6));
  }
}

// Layers, and the plans that were compared.
std::vector<tools::ReportSection> SectionsOf(const Prediction& p) {
  tools::ReportTable layers{.header = {"layer", "strategy", "all devices send"}};
  for (const layers::LayerNode& node : p.session.graph.nodes) {
    const int64_t sent = p.sent.OfLayer(node.name);
    layers.rows.push_back({node.name, tools::StrategiesOf(p.session.plan, node.name), sent == 0 ? "" : tools::Bytes(sent)});
  }
  if (p.sent.statistics > 0) layers.rows.push_back({"running statistics", "all-reduce", tools::Bytes(p.sent.statistics)});
  if (p.sent.gradients > 0) {
    layers.rows.push_back({"gradients", partition::Name(p.session.plan.reduction), tools::Bytes(p.sent.gradients)});
  }
  std::vector<tools::ReportSection> sections = {{.title = "Layers", .tables = {std::move(layers)}}};
  if (p.candidates.empty()) return sections;
  tools::ReportTable plans{
      .header = {"plan", "mesh", "reduction", "overlap", "buckets", "parts", "step", "memory", "more of it", ""}};
  for (const ShownCandidate& shown : ShownCandidates(p)) {
    const partition::Candidate& c = p.candidates[shown.index];
    plans.rows.push_back(
        {absl::StrCat(shown.index + 1, ". ", c.plan.name),
         absl::StrFormat("%d × %d", ReplicasOf(c.plan.mesh), ColumnsOf(c.plan.mesh)), partition::Name(c.plan.reduction),
         c.plan.overlap ? "on" : "off", tools::Bytes(c.plan.bucket_bytes), absl::StrCat(c.plan.transfer_parts),
         absl::StrFormat("%.2f ms", c.judgement.step_sec * 1e3), tools::Bytes(c.judgement.peak_memory_bytes),
         shown.more > 0 ? absl::StrCat("+", shown.more) : "", c.fits ? "" : "does not fit"});
  }
  sections.push_back({.title = "Plans compared",
                      .text = absl::StrFormat("%s simulated.%s%s", base::Counted(p.candidates.size(), "plan", "was", "were"),
                                              BoundText(p), p.least_sec > 0 ? "." : ""),
                      .tables = {std::move(plans)}});
  return sections;
}

// Before a search, which may take long.
absl::Status CheckExplained(const PredictionFlags& flags) {
  if (flags.explain.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const layers::LayerGraph graph, BuildNetwork(flags.network));
  return engine::WithContext(graph.Find(flags.explain).status(), "--explain");
}

// Whether only what needs no machine is asked for beside the layers.
bool NeedsNoMachine(const PredictionFlags& flags) {
  return !(flags.save_plan.empty() && flags.drawing.empty()) && flags.trace.empty() && flags.report.empty() &&
         flags.explain.empty() && !flags.json;
}

absl::Status RunPlan(const PredictionFlags& flags) {
  RETURN_IF_ERROR(CheckOutputs(flags));
  RETURN_IF_ERROR(CheckExplained(flags));
  ASSIGN_OR_RETURN(Prediction p, LowerForPrediction(flags));
  const absl::Status enough = tools::CheckDevices(p.machine, p.session.plan.mesh.device_count());
  if (!enough.ok() && NeedsNoMachine(flags)) {
    RETURN_IF_ERROR(WritePlanFiles(flags, p));
    PrintLayers(p);
    Say(absl::StrCat("note: no prediction; ", FieldAsFlag(enough, "devices").message()));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Predict(flags, p));
  RETURN_IF_ERROR(WritePlanFiles(flags, p));
  RETURN_IF_ERROR(WriteTimeline(flags, p));
  RETURN_IF_ERROR(WritePredictionReport(flags, "plan", p, SectionsOf(p)));
  if (flags.json) {
    Json json = PredictedPlanJson(flags, p);
    if (!flags.explain.empty()) json["explained"] = ExplainedJson(p, flags.explain);
    PrintJson(json);
    return absl::OkStatus();
  }
  if (!flags.explain.empty()) {
    Explain(p, flags.explain);
    return absl::OkStatus();
  }
  PrintLayers(p);
  PrintDevices(p);
  PrintCandidates(p);
  return absl::OkStatus();
}

}  // namespace

SubCommand AddPlan(CLI::App& app) {
  CLI::App* plan =
      app.add_subcommand("plan", "Shows a plan layer by layer; predicts time, communication and memory on a machine.");
  const auto flags = std::make_shared<PredictionFlags>();
  AddLoweringFlags(*plan, *flags);
  plan->add_option("--explain", flags->explain, "a layer: what every other way to split it would cost");
  plan->add_option("--save-plan", flags->save_plan, "where to write the plan, a file that --plan takes")->type_name("FILE");
  CLI::Option* drawing =
      plan->add_option("--drawing", flags->drawing,
                       "where to draw the network under the plan: SVG, or text in a file that ends in .txt")
          ->check(DrawnFile())
          ->type_name("FILE.svg");
  plan->add_flag("--unfold", flags->unfold,
                 "draws each layer of a block, where one box is drawn for branches that join again")
      ->needs(drawing);
  plan->add_option("--trace", flags->trace, "where to write the simulated timeline of two steps, Chrome trace format")
      ->type_name("FILE");
  AddPredictionFlags(*plan, *flags);
  plan->footer(
      "Examples:\n  colonnade plan --model=alexnet2012 --batch=256 --devices=4 --plan=auto --machine=titan-2013\n"
      "  colonnade plan --model=alexnet --batch=512 --devices=8 --plan=owt --machine=hgx-h100 --explain=classifier.1");
  return {plan, [=] {
            flags->resolved = ResolvedFlags(*plan);
            return RunPlan(*flags);
          }};
}

}  // namespace colonnade::cli
