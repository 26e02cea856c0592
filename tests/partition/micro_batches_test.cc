// A batch in micro-batches: the same step, whatever their number.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/environment.h"
#include "tests/partition/random_run.h"
#include "tests/sanitized.h"

namespace colonnade::partition {
namespace {

using ::testing::HasSubstr;

BackendMaker CpuWith(cpu::CpuOptions::Kernels kernels) {
  return [kernels](int devices) {
    return cpu::MakeCpuBackend({.devices = devices, .threads_per_device = 1, .kernels = kernels});
  };
}

bool NormalisesWholeBatch(const layers::LayerGraph& graph) {
  for (const layers::LayerNode& node : graph.nodes) {
    const auto* norm = std::get_if<layers::BatchNorm>(&node.layer);
    if (norm != nullptr && norm->samples_per_group == 0) return true;
  }
  return false;
}

// Random networks, losses and plans: in 2 and 4 micro_batches gradients, losses, hits, parameters and running statistics are
// those of the whole batch on one device. Batches of 8 samples a device and more can be cut.
void ExpectMicroBatchesAreTheWhole(bool exact, program::DType dtype, cpu::CpuOptions::Kernels kernels, int networks) {
  Random random(exact ? 81 : 82);
  int drawn_networks = 0, cut = 0;
  while (drawn_networks < networks) {
    const Drawn drawn = DrawCase(random, exact);
    if (NormalisesWholeBatch(drawn.network.graph)) continue;
    ++drawn_networks;
    const int64_t batch_size = 4 * drawn.batch;
    LowerOptions options{.global_batch = batch_size,
                         .dtype = dtype,
                         .update = {.optimizer = program::Sgd{.momentum = 0.5}, .weight_decay = exact ? 0 : 1e-3},
                         .expose_gradients = true};
    const Batch batch = DrawBatch(random, drawn.network, batch_size, exact);
    Tensors parameters;
    const int steps = exact ? 1 : 2;
    const auto whole = RunSteps(drawn.network.graph, SinglePlan(drawn.network.graph), options, CpuWith(kernels), batch,
                                nullptr, random, exact, steps, &parameters);
    ASSERT_TRUE(whole.ok()) << whole.status() << Describe(drawn, drawn_networks);
    for (int64_t micro_batches : {2, 4}) {
      options.micro_batches = micro_batches;
      const auto found = RunSteps(drawn.network.graph, drawn.plan, options, CpuWith(kernels), batch, &parameters, random,
                                  exact, steps, nullptr);
      ASSERT_TRUE(found.ok()) << found.status() << Describe(drawn, drawn_networks);
      ++cut;
      const double bound = exact ? 0 : 1e-10;
      for (size_t s = 0; s < whole->losses.size(); ++s) {
        ASSERT_LE(RelativeDistance({found->losses[s]}, {whole->losses[s]}), 1e-10) << Describe(drawn, drawn_networks);
      }
      ASSERT_EQ(found->hits, whole->hits) << Describe(drawn, drawn_networks);
      double largest = 0;
      for (const auto& [name, gradient] : whole->gradients) largest = std::max(largest, Norm(gradient));
      for (const auto& [name, gradient] : whole->gradients) {
        // Of what cancels, roundings alone are left.
        const double of_largest = exact ? 1 : std::min(1.0, Norm(gradient) / (1e-5 * largest));
        ASSERT_LE(RelativeDistance(found->gradients.at(name), gradient) * of_largest, bound)
            << name << " in " << micro_batches << Describe(drawn, drawn_networks);
      }
      for (const auto& [name, value] : whole->parameters) {
        ASSERT_LE(RelativeDistance(found->parameters.at(name), value), bound)
            << name << " in " << micro_batches << Describe(drawn, drawn_networks);
      }
    }
  }
  EXPECT_EQ(cut, 2 * networks);
}

TEST(MicroBatches, AreTheWholeBatchInDouble) {
  ExpectMicroBatchesAreTheWhole(false, program::DType::kF64, cpu::CpuOptions::Kernels::kReference, Draws(24));
}
TEST(MicroBatches, GiveEqualBitsOnExactData) {
  ExpectMicroBatchesAreTheWhole(true, program::DType::kF32, cpu::CpuOptions::Kernels::kOneDnn, Draws(16));
}

layers::LayerGraph Normalised(int64_t samples_per_group) {
  layers::GraphBuilder net("micro_batches");
  auto x = net.Conv2d("conv", net.Input("images", {2, 6, 6}), {.out_channels = 8, .kernel = 3, .pad = 1});
  x = net.Dropout("dropout", net.BatchNorm("norm", x, {.samples_per_group = samples_per_group}), {.rate = 0.5});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  return *std::move(net).Build();
}

// Statistics of a batch are not those of its micro-batches, but those of groups within micro-batches are. Running statistics
// see the whole batch once.
TEST(MicroBatches, NormaliseGroupsThatTheyHold) {
  const layers::LayerGraph whole = Normalised(0), groups = Normalised(2);
  const absl::Status refused = Lower(whole, SinglePlan(whole), {.global_batch = 16, .micro_batches = 2}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("layer \"norm\""));
  EXPECT_THAT(refused.message(), HasSubstr("which is in 2 micro-batches; set samples_per_group"));
  EXPECT_EQ(Lower(groups, SinglePlan(groups), {.global_batch = 16, .micro_batches = 3}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Lower(groups, SinglePlan(groups), {.global_batch = 16, .micro_batches = 16}).status().code(),
            absl::StatusCode::kFailedPrecondition)
      << "a one holds no group of two";
  EXPECT_EQ(Lower(groups, SinglePlan(groups), {.mode = program::Mode::kEval, .global_batch = 16, .micro_batches = 2})
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
  const auto program = Lower(groups, SinglePlan(groups), {.global_batch = 16, .micro_batches = 8});
  ASSERT_TRUE(program.ok()) << program.status();
  int tracks = 0, drops = 0;
  for (const program::Task& task : program->tasks) {
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (compute == nullptr) continue;
    const auto* track = std::get_if<program::BatchNormTrack>(&compute->op);
    const auto* dropout = std::get_if<program::Dropout>(&compute->op);
    if (track != nullptr) {
      ++tracks;
      EXPECT_EQ(track->count, 16 * 36);
    }
    if (dropout != nullptr) {
      EXPECT_EQ(dropout->offset[0] % 2, 0);
      EXPECT_EQ(dropout->global_shape[0], 16);
      ++drops;
    }
  }
  EXPECT_EQ(tracks, 1);
  EXPECT_EQ(drops, 16);
}

// A step in micro_batches has the activations of one of them.
TEST(MicroBatches, TakeTheMemoryOfOne) {
  const layers::LayerGraph graph = Normalised(2);
  const auto bytes = [&](int64_t batch, int64_t micro_batches) {
    auto backend = *CpuWith(cpu::CpuOptions::Kernels::kOneDnn)(1);
    const auto program = *Lower(graph, SinglePlan(graph), {.global_batch = batch, .micro_batches = micro_batches});
    return (*backend->MemoryOf(program))[0].step_arena_bytes;
  };
  const int64_t whole = bytes(512, 1), one = bytes(64, 1), micro_batches = bytes(512, 8);
  EXPECT_LT(micro_batches, whole / 3);
  EXPECT_GT(micro_batches, one);
}

}  // namespace
}  // namespace colonnade::partition
