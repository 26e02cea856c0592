#include "cli/training/record.h"

#include <algorithm>
#include <variant>

#include "cli/build_facts.h"
#include "cli/command_line/config.h"
#include "cli/info.h"
#include "cli/output/output.h"
#include "cli/session/devices.h"
#include "cli/session/optimizer.h"
#include "cpu/about.h"
#include "partition/plan.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

void AddNetwork(const Session& session, Json& values) {
  const program::Shape& shape = session.graph.nodes[0].sample_shape;
  values["channels"] = shape[0];
  if (shape.size() == 3 && shape[1] == shape[2]) values["input-size"] = shape[1];
  values["classes"] = session.graph.classes();
}

void AddPlan(const Session& session, Json& values) {
  const partition::Plan& plan = session.plan;
  values["plan"] = plan.name;
  values["devices"] = plan.mesh.device_count();
  values["reduction"] = partition::Name(plan.reduction);
  values["overlap"] = plan.overlap ? "on" : "off";
  values["bucket-bytes"] = plan.bucket_bytes;
  values["piece-bytes"] = plan.piece_bytes;
  values["transfer-parts"] = plan.transfer_parts;
}

void AddOptimizer(const TrainFlags& flags, const Session& session, Json& values) {
  const partition::UpdateOptions update = UpdateOptionsOf(flags.optimizer, session);
  values["lr"] = DefaultLearningRate(flags.optimizer, session);
  values["lr-policy"] = session.model.lr_policy;
  values["weight-decay"] = update.weight_decay;
  if (const auto* adam = std::get_if<program::AdamW>(&update.optimizer)) {
    values["betas"] = {adam->beta1, adam->beta2};
    values["epsilon"] = adam->epsilon;
  } else if (const auto* lars = std::get_if<program::Lars>(&update.optimizer)) {
    values["momentum"] = lars->momentum;
    values["trust"] = lars->trust;
  } else {
    values["momentum"] = std::get<program::Sgd>(update.optimizer).momentum;
  }
}

// What flags come to that have no default of their own.
Json ChosenValues(const TrainFlags& flags, const Session& session, const RunFacts& facts) {
  Json values;
  AddNetwork(session, values);
  AddPlan(session, values);
  AddOptimizer(flags, session, values);
  values["data-threads"] = DataThreads(flags.data);
  values["backend"] = facts.backend;
  if (facts.backend == "cpu") values["threads-per-device"] = session.threads_per_device;
  if (flags.steps == 0) values["epochs"] = std::max<int64_t>(flags.epochs, 1);
  return values;
}

Json FlagsJson(const TrainFlags& flags, const Session& session, const RunFacts& facts) {
  const Json chosen = ChosenValues(flags, session, facts);
  Json json;
  for (const ResolvedFlag& flag : FlagsThatRepeat(flags, session)) {
    const bool is_open = flag.values.empty() || (flag.name == "backend" && flag.values[0] == "auto");
    json[flag.name] = is_open && chosen.contains(flag.name) ? chosen[flag.name] : FlagJson(flag);
  }
  return json;
}

Json MachineJson(const BackendFlags& flags, const RunFacts& facts) {
  const HostFacts host = ReadHost();
  const cpu::OneDnn onednn = cpu::AboutOneDnn();
  Json json = {{"system", host.system},
               {"processor", host.processor},
               {"instruction_sets", host.instruction_sets},
               {"cores", host.cores},
               {"usable_cores", host.usable_cores},
               {"kernels", facts.backend == "cpu" ? Json(flags.kernels) : Json()},
               {"onednn", onednn.version},
               {"onednn_instruction_set", onednn.instruction_set}};
  if (facts.backend == "cpu") return json;
  const absl::StatusOr<tools::Gpus> gpus = FindGpus();
  json["gpus"] = gpus.ok() ? Json{{"name", gpus->name}, {"count", gpus->count}} : Json();
  return json;
}

}  // namespace

std::vector<ResolvedFlag> FlagsThatRepeat(const TrainFlags& flags, const Session& session) {
  std::vector<ResolvedFlag> repeat = flags.resolved;
  for (ResolvedFlag& flag : repeat) {
    if (flag.name != "plan" || !session.plan_was_searched) continue;
    flag.values = {partition::kAutoPlan};
    flag.is_path = false;
  }
  return repeat;
}

Json RecordJson(const TrainFlags& flags, const Session& session, const RunFacts& facts) {
  const BuildFacts& build = ThisBuild();
  return {{"version", build.version},
          {"commit", OrNull(build.commit)},
          {"machine", MachineJson(flags.backend, facts)},
          {"data", flags.data.source},
          {"data_identity", facts.data_identity},
          {"data_moments", {{"mean", facts.moments.mean}, {"std", facts.moments.std}}},
          {"seed", flags.seed},
          {"flags", FlagsJson(flags, session, facts)},
          {kPlanInRecord, Json::parse(partition::PlanToJson(session.plan), nullptr, /*allow_exceptions=*/false)}};
}

}  // namespace colonnade::cli
