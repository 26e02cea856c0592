#include "cli/session/optimizer.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/counted.h"
#include "base/nearest_name.h"
#include "cli/session/learning_rate.h"

namespace colonnade::cli {
namespace {

constexpr double kAdamWRate = 1e-3, kAdamWDecay = 1e-2;  // torch.optim.AdamW's
constexpr double kLarsRate = 1;  // with a trust of 0.001; a model's rate is one of SGD, and so small that nothing is learned

program::Optimizer OptimizerOf(const OptimizerFlags& flags, const Session& session) {
  const double momentum = flags.momentum >= 0 ? flags.momentum : session.model.momentum;
  if (flags.name == "lars") {
    program::Lars lars{.momentum = momentum};
    lars.trust = flags.trust.value_or(lars.trust);
    return lars;
  }
  if (flags.name == "adamw") {
    program::AdamW adam;
    adam.epsilon = flags.epsilon.value_or(adam.epsilon);
    if (!flags.betas.empty()) adam.beta1 = flags.betas[0], adam.beta2 = flags.betas[1];
    return adam;
  }
  return program::Sgd{.momentum = momentum, .form = *program::SgdFormFromName(flags.name)};
}

bool HasParameters(const layers::LayerNode& node) { return !node.parameters.empty(); }

// Whether `name` is `pattern`, in which each * stands for any text; no other character does.
bool IsLike(absl::string_view name, absl::string_view pattern) {
  const std::vector<absl::string_view> parts = absl::StrSplit(pattern, '*');
  if (parts.size() == 1) return name == pattern;
  if (!absl::ConsumePrefix(&name, parts.front()) || !absl::ConsumeSuffix(&name, parts.back())) return false;
  for (absl::string_view part : absl::MakeSpan(parts).subspan(1, parts.size() - 2)) {
    const size_t at = name.find(part);
    if (at == name.npos) return false;
    name.remove_prefix(at + part.size());
  }
  return true;
}

bool Matches(const layers::LayerNode& node, const std::string& pattern) {
  return HasParameters(node) && IsLike(node.name, pattern);
}

std::set<std::string> FrozenLayers(const OptimizerFlags& flags, const layers::LayerGraph& graph) {
  std::set<std::string> frozen;
  for (const layers::LayerNode& node : graph.nodes) {
    for (const std::string& pattern : flags.freeze) {
      if (Matches(node, pattern)) frozen.insert(node.name);
    }
  }
  return frozen;
}

}  // namespace

absl::Status CheckUpdate(const SessionFlags& flags, const layers::LayerGraph& graph) {
  struct FlagOfOptimizer {
    const char* name;
    bool is_given, is_used;
    const char* optimizers;
  };
  const bool adamw = flags.optimizer.name == "adamw", lars = flags.optimizer.name == "lars";
  const FlagOfOptimizer all[] = {
      {"--trust", flags.optimizer.trust.has_value(), lars, "lars"},
      {"--betas", !flags.optimizer.betas.empty(), adamw, "adamw"},
      {"--epsilon", flags.optimizer.epsilon.has_value(), adamw, "adamw"},
      {"--momentum", flags.optimizer.momentum >= 0, !adamw, "krizhevsky, pytorch, nesterov or lars"}};
  for (const FlagOfOptimizer& flag : all) {
    if (!flag.is_given || flag.is_used) continue;
    return absl::FailedPreconditionError(absl::StrFormat("%s: expected --optimizer=%s, which has it, found --optimizer=%s",
                                                         flag.name, flag.optimizers, flags.optimizer.name));
  }
  if (flags.optimizer.trust == 0) {
    return absl::FailedPreconditionError(
        "--trust: expected a number above 0, found 0; lars without trust is --optimizer=krizhevsky");
  }
  std::vector<std::string> layers;
  for (const layers::LayerNode& node : graph.nodes) {
    if (HasParameters(node)) layers.push_back(node.name);
  }
  for (const std::string& pattern : flags.optimizer.freeze) {
    const bool any = absl::c_any_of(graph.nodes, [&](const layers::LayerNode& node) { return Matches(node, pattern); });
    if (any) continue;
    return absl::FailedPreconditionError(
        absl::StrFormat("--freeze: expected the name of a layer with parameters, or a pattern of some, found \"%s\"%s",
                        pattern, base::DidYouMean("; ", pattern, layers)));
  }
  for (const std::string& head : flags.weights.replace_head ? graph.Heads() : std::set<std::string>()) {
    if (!FrozenLayers(flags.optimizer, graph).contains(head)) continue;
    return absl::FailedPreconditionError(
        absl::StrFormat("--replace-head: expected a last layer that is trained, found \"%s\" frozen", head));
  }
  if (layers.empty() || FrozenLayers(flags.optimizer, graph).size() < layers.size()) return absl::OkStatus();
  return absl::FailedPreconditionError("--freeze: expected a layer that is left to train, found none");
}

partition::UpdateOptions UpdateOptionsOf(const OptimizerFlags& flags, const Session& session) {
  const bool adamw = flags.name == "adamw";
  partition::UpdateOptions update{.optimizer = OptimizerOf(flags, session),
                                  .weight_decay = adamw ? kAdamWDecay : session.model.weight_decay,
                                  .decays_weights_alone = flags.decay == "weights",
                                  .clip_norm = flags.clip_norm,
                                  .average_decay = flags.ema,
                                  .skips_not_finite = flags.on_not_finite == "skip",
                                  .frozen_layers = FrozenLayers(flags, session.graph)};
  if (flags.weight_decay >= 0) update.weight_decay = flags.weight_decay;
  if (flags.head_lr_scale != 1) {
    const layers::LayerId loss{static_cast<int32_t>(session.graph.nodes.size()) - 1};
    for (const std::string& head : session.graph.HeadsOf(loss)) update.layer_rates[head] = flags.head_lr_scale;
  }
  return update;
}

double DefaultLearningRate(const OptimizerFlags& flags, const Session& session) {
  if (flags.name == "adamw") return kAdamWRate;
  return flags.name == "lars" ? kLarsRate : session.model.learning_rate;
}

std::string NameOf(const partition::UpdateOptions& update) {
  if (std::holds_alternative<program::Lars>(update.optimizer)) return "LARS";
  if (std::holds_alternative<program::AdamW>(update.optimizer)) return "AdamW";
  return absl::StrCat("SGD in ", program::Name(std::get<program::Sgd>(update.optimizer).form), "'s form");
}

std::string Describe(const partition::UpdateOptions& update) {
  std::string text;
  if (const auto* adam = std::get_if<program::AdamW>(&update.optimizer)) {
    text = absl::StrFormat("betas %g and %g, epsilon %g", adam->beta1, adam->beta2, adam->epsilon);
  } else if (const auto* lars = std::get_if<program::Lars>(&update.optimizer)) {
    text = absl::StrFormat("momentum %g, trust %g", lars->momentum, lars->trust);
  } else {
    text = absl::StrFormat("momentum %g", std::get<program::Sgd>(update.optimizer).momentum);
  }
  absl::StrAppendFormat(&text, ", weight decay %g%s", update.weight_decay,
                        update.decays_weights_alone ? " of weights alone" : "");
  if (update.clip_norm > 0) absl::StrAppendFormat(&text, ", clipped to norm %g", update.clip_norm);
  if (update.average_decay > 0) absl::StrAppendFormat(&text, ", averages of decay %g", update.average_decay);
  if (update.skips_not_finite) text += ", steps that are not finite skipped";
  if (!update.frozen_layers.empty())
    absl::StrAppend(&text, ", ", base::Counted(update.frozen_layers.size(), "layer"), " frozen");
  for (const auto& [layer, rate] : update.layer_rates) absl::StrAppendFormat(&text, ", rate of %s times %g", layer, rate);
  return text;
}

engine::RunFields UpdateFieldsOf(const OptimizerFlags& flags, const partition::UpdateOptions& update) {
  engine::RunFields fields = {{"optimizer", flags.name}};
  if (const auto* adam = std::get_if<program::AdamW>(&update.optimizer)) {
    fields.emplace_back("betas", absl::StrCat(Digits(adam->beta1), ",", Digits(adam->beta2)));
    fields.emplace_back("epsilon", Digits(adam->epsilon));
  } else if (const auto* lars = std::get_if<program::Lars>(&update.optimizer)) {
    fields.emplace_back("momentum", Digits(lars->momentum));
    fields.emplace_back("trust", Digits(lars->trust));
  } else {
    fields.emplace_back("momentum", Digits(std::get<program::Sgd>(update.optimizer).momentum));
  }
  fields.emplace_back("weight-decay", Digits(update.weight_decay));
  // Fields that came later are stated only where they are not what runs before them did.
  if (update.decays_weights_alone) fields.emplace_back("decay", flags.decay);
  if (update.clip_norm > 0) fields.emplace_back("clip-norm", Digits(update.clip_norm));
  if (update.skips_not_finite) fields.emplace_back("on-not-finite", flags.on_not_finite);
  if (update.average_decay > 0) fields.emplace_back("ema", Digits(update.average_decay));
  if (!update.layer_rates.empty()) fields.emplace_back("head-lr-scale", Digits(flags.head_lr_scale));
  if (!update.frozen_layers.empty()) fields.emplace_back("freeze", absl::StrJoin(update.frozen_layers, ","));
  return fields;
}

}  // namespace colonnade::cli
