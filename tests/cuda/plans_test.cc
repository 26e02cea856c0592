// Law 2 on the CUDA backend, whose calls the host runs: random networks under random plans against one device of the CPU.
#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cuda/backend.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "tests/partition/random_run.h"
#include "tests/sanitized.h"

namespace colonnade::partition {
namespace {

struct Gpus {
  int count = 1;
  bool reach = true, nccl = false;
};

BackendMaker On(const Gpus& gpus, cuda::Precision precision = cuda::Precision::kF32) {
  return [=](int devices) {
    return cuda::MakeCudaBackend({.devices = devices, .precision = precision},
                                 std::make_unique<cuda::HostCalls>(
                                     cuda::HostCallsOptions{.gpus = gpus.count, .reach = gpus.reach, .nccl = gpus.nccl}));
  };
}

absl::StatusOr<std::unique_ptr<engine::Backend>> Reference(int devices) {
  return cpu::MakeCpuBackend({.devices = devices, .threads_per_device = 1, .kernels = cpu::CpuOptions::Kernels::kReference});
}

// GPUs of each device's own that reach each other or do not, with NCCL or without, and devices that share GPUs.
const Gpus kMachines[] = {{1, true},        {16, true},        {16, false},    {3, false},
                          {16, true, true}, {16, false, true}, {3, true, true}};

TEST(CudaPlans, RandomNetworksUnderRandomPlansComputeWhatOneDeviceOfTheCpuComputes) {
  Random random(9), updates(9);
  int flipped = 0;
  for (int i = 0; i < Draws(105); ++i) {
    const Drawn drawn = DrawCase(random, false);
    LowerOptions options{.global_batch = drawn.batch,
                         .dtype = program::DType::kF64,
                         .update = DrawUpdate(updates, drawn.network.graph),
                         .expose_gradients = true};
    const Batch batch = DrawBatch(random, drawn.network, drawn.batch, false);
    Tensors parameters;
    const auto one = RunSteps(drawn.network.graph, SinglePlan(drawn.network.graph), options, Reference, batch, nullptr,
                              random, false, 2, &parameters);
    ASSERT_TRUE(one.ok()) << one.status();
    options.dtype = program::DType::kF32;
    const auto many = RunSteps(drawn.network.graph, drawn.plan, options, On(kMachines[i % std::size(kMachines)]), batch,
                               &parameters, random, false, 2, nullptr);
    ASSERT_TRUE(many.ok()) << many.status() << "\n" << Describe(drawn, i);
    // f32 against double: a ReLU or a maximum on the other side moves a gradient of these small networks by a few 1e-3, and
    // after it the parameters of the second step.
    constexpr double kBound = 1e-4, kBoundOfFlipped = 1e-2;
    double farthest = 0;
    for (size_t s = 0; s < one->losses.size(); ++s) {
      ASSERT_LE(std::abs(many->losses[s] - one->losses[s]), 1e-4 * std::abs(one->losses[s])) << Describe(drawn, i);
    }
    for (const auto& [name, gradient] : one->gradients) {
      farthest = std::max(farthest, RelativeDistance(many->gradients.at(name), gradient));
    }
    for (const auto& [name, value] : one->parameters) {
      farthest = std::max(farthest, RelativeDistance(many->parameters.at(name), value));
    }
    ASSERT_LE(farthest, kBoundOfFlipped) << Describe(drawn, i);
    flipped += farthest > kBound ? 1 : 0;
  }
  EXPECT_LE(flipped, 1) << "networks in which a ReLU or a maximum may be on the other side";
}

TEST(CudaPlans, InBf16PlansAreAsNearToExactAsOneDeviceOfTheCpu) {
  Random random(16);
  constexpr double kFactor = 1.1, kFewRoundings = 3.0 / 256;
  constexpr int kCases = 70;
  int near = 0;
  for (int i = 0; i < kCases; ++i) {
    const Drawn drawn = DrawCase(random, false);
    LowerOptions options{.global_batch = drawn.batch, .dtype = program::DType::kF64, .expose_gradients = true};
    const Batch batch = DrawBatch(random, drawn.network, drawn.batch, false);
    Tensors parameters;
    const Plan single = SinglePlan(drawn.network.graph);
    const auto exact =
        RunSteps(drawn.network.graph, single, options, Reference, batch, nullptr, random, false, 1, &parameters);
    options.dtype = program::DType::kBF16;
    const auto one =
        RunSteps(drawn.network.graph, single, options, Reference, batch, &parameters, random, false, 1, nullptr);
    const auto many = RunSteps(drawn.network.graph, drawn.plan, options, On(kMachines[i % std::size(kMachines)]), batch,
                               &parameters, random, false, 1, nullptr);
    ASSERT_TRUE(exact.ok() && one.ok() && many.ok()) << one.status() << many.status() << "\n" << Describe(drawn, i);
    double own = 0, spread = 0;
    for (const auto& [name, gradient] : exact->gradients) {
      own = std::max(own, RelativeDistance(one->gradients.at(name), gradient));
      spread = std::max(spread, RelativeDistance(many->gradients.at(name), gradient));
    }
    near += spread <= std::max(kFactor * own, kFewRoundings) ? 1 : 0;
  }
  // A sum in f32 on the other side of a rounding, or a convolution that rounds before it adds a bias, may change a sign.
  EXPECT_GE(near, kCases - 2);
}

// More members in a bucket than a kernel has room for: each has its own factors, of rate and of trust.
TEST(CudaPlans, UpdatesOfManyMembersAreThoseOfTheOracle) {
  layers::GraphBuilder net("many");
  const auto x = net.Input("images", {6});
  auto sum = net.FullyConnected("first", x, {.out_features = 4});
  UpdateOptions update{.optimizer = program::Lars{.momentum = 0.5, .trust = 0.1}, .weight_decay = 1e-2, .clip_norm = 0.5};
  for (int i = 0; i < 80; ++i) {
    const std::string name = absl::StrCat("fc", i);
    sum = net.Add(absl::StrCat("sum", i), {sum, net.FullyConnected(name, x, {.out_features = 4})});
    update.layer_rates[name] = 1 + 0.01 * i;
  }
  net.SoftmaxCrossEntropy("loss", sum);
  const layers::LayerGraph graph = *std::move(net).Build();
  Random random(10);
  const RandomNetwork network{graph, 4};
  const Batch batch = DrawBatch(random, network, 8, false);
  for (const bool decays_weights_alone : {false, true}) {
    update.decays_weights_alone = decays_weights_alone;
    for (const program::Optimizer& optimizer : {program::Optimizer(program::Lars{.momentum = 0.5, .trust = 0.1}),
                                                program::Optimizer(program::AdamW{.epsilon = 1e-3})}) {
      update.optimizer = optimizer;
      LowerOptions options{.global_batch = 8, .dtype = program::DType::kF64, .update = update, .expose_gradients = true};
      Tensors parameters;
      const auto one = RunSteps(graph, SinglePlan(graph), options, Reference, batch, nullptr, random, false, 2, &parameters);
      ASSERT_TRUE(one.ok()) << one.status();
      options.dtype = program::DType::kF32;
      for (const bool cpu : {false, true}) {
        const BackendMaker on_cpu = [](int devices) {
          return cpu::MakeCpuBackend({.devices = devices, .threads_per_device = 2});
        };
        const auto many = RunSteps(graph, SinglePlan(graph), options, cpu ? on_cpu : On({}), batch, &parameters, random,
                                   false, 2, nullptr);
        ASSERT_TRUE(many.ok()) << many.status();
        for (const auto& [name, value] : one->parameters) {
          std::vector<double> change = value, found = many->parameters.at(name);
          for (size_t i = 0; i < change.size(); ++i) change[i] -= parameters.at(name)[i], found[i] -= parameters.at(name)[i];
          EXPECT_LE(RelativeDistance(found, change), 1e-3) << name << (cpu ? " on the CPU" : "");
        }
      }
    }
  }
}

TEST(CudaPlans, ExactDataGivesEqualBitsUnderEveryPlan) {
  Random random(5);
  for (int i = 0; i < Draws(70); ++i) {
    const Drawn drawn = DrawCase(random, true);
    const LowerOptions options{
        .global_batch = drawn.batch, .update = {.optimizer = program::Sgd{.momentum = 0.5}}, .expose_gradients = true};
    const Batch batch = DrawBatch(random, drawn.network, drawn.batch, true);
    Tensors parameters;
    const auto one = RunSteps(drawn.network.graph, SinglePlan(drawn.network.graph), options, On({}), batch, nullptr, random,
                              true, 1, &parameters);
    ASSERT_TRUE(one.ok()) << one.status();
    // The host does not round factors as tensor cores do, but layouts are those of tf32.
    const cuda::Precision precision = i % 2 == 0 ? cuda::Precision::kF32 : cuda::Precision::kTf32;
    const auto many = RunSteps(drawn.network.graph, drawn.plan, options, On(kMachines[i % std::size(kMachines)], precision),
                               batch, &parameters, random, true, 1, nullptr);
    ASSERT_TRUE(many.ok()) << many.status() << "\n" << Describe(drawn, i);
    for (const auto& [name, gradient] : one->gradients) {
      ASSERT_EQ(many->gradients.at(name), gradient) << name << "\n" << Describe(drawn, i);
    }
    for (const auto& [name, value] : one->parameters) {
      ASSERT_EQ(many->parameters.at(name), value) << name << "\n" << Describe(drawn, i);
    }
  }
}

}  // namespace
}  // namespace colonnade::partition
