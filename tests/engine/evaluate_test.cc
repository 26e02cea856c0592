// What an evaluation adds up, against sums by hand: a network whose logits are its bias, whatever the image.

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "cpu/backend.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "engine/trainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/open_stream.h"

namespace colonnade::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr int64_t kTestBatch = 150;  // the 360 digits of the test set are two and a part

// Class 9 is the likeliest, class 0 the least likely.
double LogitOf(int64_t label) { return 0.25 * static_cast<double>(label); }

struct BiasAlone {
  std::unique_ptr<data::Pipeline> digits = OpenStream("digits", {.shuffle = false, .once = true});
  program::Program program;
  std::unique_ptr<Backend> backend = *cpu::MakeCpuBackend({.devices = 2, .threads_per_device = 1});
  std::unique_ptr<Executor> executor;

  // Weights of nothing but zeros are taken for none; these are lost beside the bias.
  BiasAlone() {
    layers::GraphBuilder net("bias");
    const auto pixels = net.Flatten("flatten", net.Input("images", {1, 8, 8}));
    net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", pixels, {.out_features = 10}));
    const layers::LayerGraph graph = *std::move(net).Build();
    program = *partition::Lower(graph, *partition::NamedPlan("data", graph, {.devices = 2, .global_batch = kTestBatch}),
                                {.mode = program::Mode::kEval, .global_batch = kTestBatch, .pixels = digits->scaling()});
    executor = *Executor::Create(program, *backend);
    std::vector<double> bias;
    for (int64_t c = 0; c < 10; ++c) bias.push_back(LogitOf(c));
    EXPECT_TRUE(
        WriteTensors(executor->loaded(), {{"fc.weight", {10, 64}, std::vector<double>(640, 1e-30)}, {"fc.bias", {10}, bias}})
            .ok());
  }
};

TEST(Evaluate, AddsUpLossAndHitsOfEverySample) {
  const auto samples = *data::OpenSamples("digits", data::SplitOf::kTest, {});
  double exponentials = 0, loss = 0;
  for (int64_t c = 0; c < 10; ++c) exponentials += std::exp(LogitOf(c));
  int64_t top1 = 0, top5 = 0;
  for (int64_t i = 0; i < samples->size(); ++i) {
    loss += std::log(exponentials) - LogitOf(samples->label(i));
    top1 += samples->label(i) == 9;
    top5 += samples->label(i) >= 5;
  }
  BiasAlone net;
  const absl::StatusOr<EvalReport> report = Evaluate(*net.executor, *net.digits);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->count, 360);
  EXPECT_NEAR(report->loss, loss / 360, 1e-6);
  EXPECT_EQ(report->top1_hits, top1);
  EXPECT_EQ(report->top5_hits, top5);
}

TEST(Evaluate, TellsWhichSamplesABatchHas) {
  BiasAlone net;
  std::vector<std::pair<int64_t, int64_t>> read;
  std::vector<int64_t> tested;
  ASSERT_TRUE(Evaluate(*net.executor, *net.digits,
                       {.on_batch = [&](int64_t samples) { tested.push_back(samples); },
                        .read_batch =
                            [&](int64_t first, int64_t count) {
                              read.emplace_back(first, count);
                              return absl::OkStatus();
                            }})
                  .ok());
  EXPECT_THAT(read, ElementsAre(Pair(0, 150), Pair(150, 150), Pair(300, 60)));
  EXPECT_THAT(tested, ElementsAre(150, 300, 360));
}

}  // namespace
}  // namespace colonnade::engine
