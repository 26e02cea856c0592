// The random networks hold every layer and, lowered, every op; so what tests draw from them covers both.
#include "tests/partition/random_case.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "partition/lower.h"
#include "program/op_traits.h"
#include "tests/partition/random_run.h"

namespace colonnade::partition {
namespace {

TEST(RandomNetworks, HoldEveryLayerAndEveryOp) {
  Random random(7);
  std::set<size_t> layer_types;
  std::set<std::string> ops;
  bool masks_sums = false;
  for (int i = 0; i < 80; ++i) {
    const Drawn drawn = DrawCase(random, /*exact=*/false, nullptr, /*normalised=*/i % 4 == 0);
    for (const layers::LayerNode& node : drawn.network.graph.nodes) layer_types.insert(node.layer.index());
    // One device, with which tests compare, has what is fused where layers lie alike.
    for (const Plan& plan : {drawn.plan, SinglePlan(drawn.network.graph)}) {
      for (const program::Mode mode : {program::Mode::kTrain, program::Mode::kEval}) {
        LowerOptions options{.mode = mode, .global_batch = drawn.batch};
        if (i % 2 == 0) options.pixels = PixelsFor(drawn.network.graph);
        if (i % 8 == 0) options.update = {.optimizer = program::AdamW{}, .clip_norm = 1, .average_decay = 0.9};
        const absl::StatusOr<program::Program> program = Lower(drawn.network.graph, plan, options);
        ASSERT_TRUE(program.ok()) << program.status();
        for (const program::Task& task : program->tasks) {
          ops.insert(program::Name(task));
          masks_sums |= program::Name(task) == std::string("batch_norm_masked_sums") && task.uses.size() == 9;
        }
      }
    }
  }
  EXPECT_TRUE(masks_sums) << "no sum of gradients is fused with a mask";
  EXPECT_EQ(layer_types.size(), std::variant_size_v<layers::Layer>) << "a layer is never drawn";
  for (const program::Op& op : program::AllOps()) {
    EXPECT_TRUE(ops.contains(program::Name(op))) << program::Name(op) << " is in no random network";
  }
}

}  // namespace
}  // namespace colonnade::partition
