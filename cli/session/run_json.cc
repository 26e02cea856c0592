#include "cli/session/run_json.h"

namespace colonnade::cli {

using Json = nlohmann::ordered_json;

Json PlanJson(const partition::Plan& plan) {
  return {{"plan", plan.name},
          {"mesh", {{"replicas", ReplicasOf(plan.mesh)}, {"columns", ColumnsOf(plan.mesh)}}},
          {"devices", plan.mesh.device_count()}};
}

Json RunJson(const SessionFlags& flags, const Session& session, const std::string& backend) {
  Json json = {{"model", session.graph.name}};
  json.update(PlanJson(session.plan));
  json.update({{"backend", backend}, {"dtype", DTypeName(flags.backend)}, {"global_batch", flags.plan.batch}});
  return json;
}

}  // namespace colonnade::cli
