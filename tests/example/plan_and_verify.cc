// A program of one's own that lets the planner split a network for a machine, and has what it found verified on the CPU. It
// includes installed headers alone; tests/install.sh builds it against an installation, too.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "data/dataset.h"
#include "data/sample_stream.h"
#include "engine/machine.h"
#include "layers/graph.h"
#include "models/models.h"
#include "partition/plan.h"
#include "partition/planner.h"
#include "program/status_macros.h"
#include "tools/machines.h"
#include "tools/planning.h"
#include "tools/verify_plan.h"

using namespace colonnade;  // NOLINT: an example

absl::Status PlanAndVerify() {
  constexpr int kDevices = 4;
  const partition::LowerOptions lower{.global_batch = 32};
  ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel("two_column", {}));

  ASSIGN_OR_RETURN(engine::Machine machine, tools::OpenMachine("dgx1-v100"));
  ASSIGN_OR_RETURN(std::vector<partition::Candidate> found, tools::SearchPlansOn(machine, graph, lower, kDevices));
  const partition::Plan& plan = found.front().plan;
  ASSIGN_OR_RETURN(tools::Predicted predicted, tools::Predict(machine, graph, plan, lower));
  std::printf("%zu plans; %s: %.3f ms a step on %d devices of %s\n", found.size(), plan.name.c_str(),
              absl::ToDoubleMilliseconds(predicted.simulation.step), plan.mesh.device_count(), machine.name.c_str());
  for (const layers::LayerNode& node : graph.nodes) {
    std::printf("  %-8s %s\n", node.name.c_str(), tools::StrategiesOf(plan, node.name).c_str());
  }

  ASSIGN_OR_RETURN(data::ImageSet digits, data::OpenDataset("digits", data::SplitOf::kTrain, {}));
  ASSIGN_OR_RETURN(data::SampleStream stream, data::SampleStream::Create(digits, {}));
  ASSIGN_OR_RETURN(tools::VerifyReport report, tools::VerifyPlan(graph, plan, stream, {.steps = 2, .lower = lower}));
  std::printf("verified %lld steps: %s, worst %s %.2g\n", static_cast<long long>(report.steps),
              report.ok ? "equal to one device" : "NOT EQUAL", report.worst_tensor.c_str(), report.worst_error);
  return report.ok ? absl::OkStatus() : absl::InternalError("the plan does not compute what one device computes");
}

int main() {
  const absl::Status status = PlanAndVerify();
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
