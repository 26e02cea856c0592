// The transfer of a batch runs under the compute of the step before: on CPU devices, in the simulator, by the Program's
// text.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cpu/backend.h"
#include "engine/simulator.h"
#include "engine/state.h"
#include "engine/trainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/open_stream.h"
#include "tools/machines.h"

namespace colonnade {
namespace {

constexpr int64_t kBatch = 256;

struct Case {
  std::string plan;
  int devices = 1;
};

// Of the time in which `device` loads for the last step of a trace, the share that is over before it has computed the one
// before. What is later a step would wait for.
double ShareUnderCompute(const engine::Trace& trace, int device) {
  int last = 0;
  for (const engine::TraceEvent& event : trace.events) last = std::max(last, event.step);
  absl::Duration computed, loading, hidden;
  for (const engine::TraceEvent& event : trace.events) {
    const bool computes = event.device == device && event.step == last - 1 && event.lane == program::Lane::kCompute;
    if (computes) computed = std::max(computed, event.end);
  }
  for (const engine::TraceEvent& load : trace.events) {
    if (load.device != device || load.step != last || load.lane != program::Lane::kLoad) continue;
    loading += load.end - load.start;
    hidden += std::max(std::min(load.end, computed) - load.start, absl::ZeroDuration());
  }
  return loading > absl::ZeroDuration() ? absl::FDivDuration(hidden, loading) : 0;
}

double LeastShare(const engine::Trace& trace, int devices) {
  double least = 1;
  for (int d = 0; d < devices; ++d) least = std::min(least, ShareUnderCompute(trace, d));
  return least;
}

class LoadOverlap : public testing::TestWithParam<Case> {
 protected:
  LoadOverlap() {
    const layers::LayerGraph graph = *models::BuildModel("lenet", {});
    data::DatasetOptions options{.synthetic_shape = graph.nodes[0].sample_shape};
    images_ = OpenStream("synthetic", {}, options);
    const partition::Plan plan =
        *partition::NamedPlan(GetParam().plan, graph, {.devices = GetParam().devices, .global_batch = kBatch});
    program_ = *partition::Lower(graph, plan, {.global_batch = kBatch, .pixels = images_->scaling()});
  }

  std::unique_ptr<data::Pipeline> images_;
  program::Program program_;
};

// Five short runs, of which the median counts: other programs may hold a thread up.
TEST_P(LoadOverlap, OnCpuDevicesTheNextBatchIsCopiedUnderThisStep) {
  std::vector<double> shares;
  for (int run = 0; run < 5; ++run) {
    auto backend = *cpu::MakeCpuBackend({.devices = GetParam().devices, .threads_per_device = 1});
    auto executor = *engine::Executor::Create(program_, *backend);
    ASSERT_TRUE(engine::InitializeParameters(executor->loaded(), 1).ok());
    const auto report = engine::Train(*executor, *images_, {.steps = 8, .learning_rate = {.base = 0.01}});
    ASSERT_TRUE(report.ok()) << report.status();
    shares.push_back(LeastShare(report->last_steps, GetParam().devices));
  }
  std::sort(shares.begin(), shares.end());
  RecordProperty("share", std::to_string(shares[2]));
  EXPECT_GE(shares[2], 0.95);
}

TEST_P(LoadOverlap, InTheSimulatorToo) {
  for (const char* machine : {"cpu-2core", "dgx1-v100", "hgx-h100"}) {
    const engine::Machine profile = *tools::OpenMachine(machine);
    if (static_cast<int>(profile.devices.size()) < GetParam().devices) continue;
    const auto simulation = engine::Simulate(program_, profile, {.trace = true});
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    EXPECT_GE(LeastShare(simulation->last_steps, GetParam().devices), 0.95) << machine;
  }
}

// Loads wait for nothing, of this step or the one before; what they fill has two slots and the bytes of files.
TEST_P(LoadOverlap, TheProgramSaysWhy) {
  int loads = 0;
  for (const program::Task& task : program_.tasks) {
    if (task.lane != program::Lane::kLoad) continue;
    ++loads;
    EXPECT_TRUE(task.waits.empty() && task.waits_previous.empty()) << task.provenance.layer;
    EXPECT_EQ(program_.buffer(task.uses[0].buffer).slots, 2);
  }
  EXPECT_EQ(loads, 3 * GetParam().devices) << "images, labels, scalars";
  for (const program::Input& input : program_.inputs) {
    EXPECT_TRUE(input.name != "images" || input.host_dtype == program::DType::kU8);
  }
}

// Of all that the host is asked to keep, images of a step are as many for one device as for eight.
TEST_P(LoadOverlap, TheHostHoldsEachSampleOnceWhateverTheNumberOfDevices) {
  int64_t bytes = 0;
  for (const program::Input& input : program_.inputs) {
    bytes += program::ElementCount(input.shape) * program::SizeInBytes(input.host_dtype);
  }
  EXPECT_EQ(bytes, kBatch * 28 * 28 + kBatch * 4 + program::StepScalar::kCount * 8);
}

INSTANTIATE_TEST_SUITE_P(Plans, LoadOverlap,
                         testing::Values(Case{"single", 1}, Case{"data", 2}, Case{"hybrid", 4}, Case{"data", 8}),
                         [](const auto& info) { return info.param.plan + std::to_string(info.param.devices); });

}  // namespace
}  // namespace colonnade
