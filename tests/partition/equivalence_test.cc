// Law 2: a plan never changes the mathematics. Random networks under random legal plans against one device.
//
// COLONNADE_NETWORKS says how many random networks are computed in double (300), COLONNADE_NETWORKS_SEED what they are drawn
// from (20132).

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "engine/classification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/environment.h"
#include "tests/partition/random_coverage.h"
#include "tests/partition/random_run.h"
#include "tests/sanitized.h"

namespace colonnade::partition {
namespace {

using cpu::CpuOptions;

// The CPU's, with the oracle's kernels or oneDNN's.
BackendMaker MakerOf(CpuOptions::Kernels kernels) {
  return [kernels](int devices) {
    return cpu::MakeCpuBackend({.devices = devices, .threads_per_device = 1, .kernels = kernels});
  };
}
const BackendMaker& Reference() {
  static const BackendMaker& maker = *new BackendMaker(MakerOf(CpuOptions::Kernels::kReference));
  return maker;
}
const BackendMaker& OneDnn() {
  static const BackendMaker& maker = *new BackendMaker(MakerOf(CpuOptions::Kernels::kOneDnn));
  return maker;
}

double LargestNorm(const Tensors& tensors) {
  double largest = 0;
  for (const auto& [name, values] : tensors) largest = std::max(largest, Norm(values));
  return largest;
}

// Relative to the gradient; to 1e-5 of the network's largest where it cancels and roundings alone are left of it. That of a
// bias is zero where the ReLU behind it lets all values of a channel pass, or none, and a normalisation takes off their
// mean.
double GradientError(const std::vector<double>& found, const std::vector<double>& expected, double largest) {
  const double error = RelativeDistance(found, expected), norm = Norm(expected);
  return norm > 0 && norm < 1e-5 * largest ? error * norm / (1e-5 * largest) : error;
}

TEST(Equivalence, RandomNetworksUnderRandomPlansComputeWhatOneDeviceComputes) {
  constexpr int kCases = Draws(300);
  const auto seed = static_cast<uint64_t>(FromEnvironment("COLONNADE_NETWORKS_SEED", 20132));
  const auto cases = static_cast<int>(FromEnvironment("COLONNADE_NETWORKS", kCases));
  Random random(seed), updates(seed);
  Coverage coverage;
  // Then, while something is missing, what covers more: so that no seed must be found when a layer is added.
  const bool covers_all = !kSanitized && cases >= kCases;
  const int most = covers_all ? 20 * kCases : cases;
  Tries strategies;
  double loss_error = 0, gradient_error = 0, parameter_error = 0;
  int computed = 0;
  for (int i = 0; i < cases || (i < most && !coverage.Missing().empty()); ++i) {
    const Drawn drawn = DrawCase(random, false, &strategies);
    const bool covers_more = coverage.Count(drawn.network.graph, drawn.plan, drawn.batch);
    if (i >= cases && !covers_more) continue;
    const LowerOptions options{.global_batch = drawn.batch,
                               .dtype = program::DType::kF64,
                               .update = DrawUpdate(updates, drawn.network.graph),
                               .expose_gradients = true};
    const Batch batch = DrawBatch(random, drawn.network, drawn.batch, false);
    Tensors parameters;
    absl::StatusOr<Result> one = RunSteps(drawn.network.graph, SinglePlan(drawn.network.graph), options, Reference(), batch,
                                          nullptr, random, false, 2, &parameters);
    ASSERT_TRUE(one.ok()) << one.status() << "\n" << Describe(drawn, i);
    absl::StatusOr<Result> many =
        RunSteps(drawn.network.graph, drawn.plan, options, Reference(), batch, &parameters, random, false, 2, nullptr);
    ASSERT_TRUE(many.ok()) << many.status() << "\n" << Describe(drawn, i);
    for (size_t s = 0; s < one->losses.size(); ++s) {
      const double error = RelativeDistance({many->losses[s]}, {one->losses[s]});
      ASSERT_LE(error, 1e-10) << Describe(drawn, i);
      loss_error = std::max(loss_error, error);
    }
    ASSERT_EQ(many->hits, one->hits) << Describe(drawn, i);
    ASSERT_EQ(many->gradients.size(), one->gradients.size());
    const double largest_gradient = LargestNorm(one->gradients);
    for (const auto& [name, gradient] : one->gradients) {
      const double error = GradientError(many->gradients.at(name), gradient, largest_gradient);
      ASSERT_LE(error, 1e-10) << name << "\n" << Describe(drawn, i);
      gradient_error = std::max(gradient_error, error);
    }
    for (const auto& [name, value] : one->parameters) {
      const double error = RelativeDistance(many->parameters.at(name), value);
      ASSERT_LE(error, 1e-10) << name << "\n" << Describe(drawn, i);
      parameter_error = std::max(parameter_error, error);
    }
    ++computed;
  }
  std::printf(
      "%d networks from seed %llu, %d of %d strategies not legal; largest errors: loss %.2g, gradient %.2g, parameter "
      "%.2g\n",
      computed, static_cast<unsigned long long>(seed), strategies.refused, strategies.all, loss_error, gradient_error,
      parameter_error);
  EXPECT_TRUE(!covers_all || coverage.Missing().empty()) << "never drawn:\n  " << absl::StrJoin(coverage.Missing(), "\n  ");
  RecordProperty("covered", static_cast<int>(coverage.size()));
}

TEST(Equivalence, ExactDataGivesEqualBitsUnderEveryPlan) {
  Random random(1404);
  for (int i = 0; i < Draws(60); ++i) {
    const Drawn drawn = DrawCase(random, true);
    const LowerOptions options{
        .global_batch = drawn.batch, .update = {.optimizer = program::Sgd{.momentum = 0.5}}, .expose_gradients = true};
    const Batch batch = DrawBatch(random, drawn.network, drawn.batch, true);
    Tensors parameters;
    absl::StatusOr<Result> one = RunSteps(drawn.network.graph, SinglePlan(drawn.network.graph), options, OneDnn(), batch,
                                          nullptr, random, true, 1, &parameters);
    ASSERT_TRUE(one.ok()) << one.status() << "\n" << Describe(drawn, i);
    absl::StatusOr<Result> many =
        RunSteps(drawn.network.graph, drawn.plan, options, OneDnn(), batch, &parameters, random, true, 1, nullptr);
    ASSERT_TRUE(many.ok()) << many.status() << "\n" << Describe(drawn, i);
    ASSERT_EQ(many->hits, one->hits) << Describe(drawn, i);
    for (const auto& [name, gradient] : one->gradients) {
      ASSERT_EQ(many->gradients.at(name), gradient) << name << "\n" << Describe(drawn, i);
    }
    for (const auto& [name, value] : one->parameters) {
      ASSERT_EQ(many->parameters.at(name), value) << name << "\n" << Describe(drawn, i);
    }
  }
}

// How far gradients in bf16 are off, at most: over all of a tensor, since single numbers of these small networks hang on a
// few signs.
struct Bf16Distances {
  double own = 0;       // those of one device with reference kernels, from double
  double spread = 0;    // those of the plan, from double
  double from_one = 0;  // those of the plan, from one device
};

void MeasureInBf16(Random& random, const Drawn& drawn, const BackendMaker& kernels, Bf16Distances& distances) {
  LowerOptions options{.global_batch = drawn.batch, .dtype = program::DType::kF64, .expose_gradients = true};
  const Batch batch = DrawBatch(random, drawn.network, drawn.batch, false);
  Tensors parameters;
  const auto exact = RunSteps(drawn.network.graph, SinglePlan(drawn.network.graph), options, Reference(), batch, nullptr,
                              random, false, 1, &parameters);
  options.dtype = program::DType::kBF16;
  const auto one = RunSteps(drawn.network.graph, SinglePlan(drawn.network.graph), options, Reference(), batch, &parameters,
                            random, false, 1, nullptr);
  const auto many =
      RunSteps(drawn.network.graph, drawn.plan, options, kernels, batch, &parameters, random, false, 1, nullptr);
  ASSERT_TRUE(exact.ok() && one.ok() && many.ok()) << one.status() << many.status();
  for (const auto& [name, gradient] : exact->gradients) {
    distances.own = std::max(distances.own, RelativeDistance(one->gradients.at(name), gradient));
    distances.spread = std::max(distances.spread, RelativeDistance(many->gradients.at(name), gradient));
    distances.from_one = std::max(distances.from_one, RelativeDistance(many->gradients.at(name), one->gradients.at(name)));
  }
  EXPECT_GT(distances.own, 0);
}

constexpr double kNearInBf16 = 1e-3, kFewRoundings = 3.0 / 256;

// A plan rounds to bf16 where one device does. A number that a sum in f32 puts on the other side of a rounding differs, and
// what hangs on it: in a few cases a maximum. Summands in bf16 put nine cases of ten further off than kNearInBf16.
TEST(Equivalence, InBf16PlansAreAsNearToExactAsOneDevice) {
  Random random(19);
  constexpr double kFactor = 1.1;
  constexpr int kCases = Draws(60), kFew = 3;
  int far = 0;
  for (int i = 0; i < kCases; ++i) {
    const Drawn drawn = DrawCase(random, false);
    Bf16Distances distances;
    MeasureInBf16(random, drawn, Reference(), distances);
    ASSERT_FALSE(HasFatalFailure()) << Describe(drawn, i);
    far += distances.from_one > kNearInBf16 ? 1 : 0;
    EXPECT_LE(distances.spread, std::max(kFactor * distances.own, kFewRoundings)) << Describe(drawn, i);
  }
  EXPECT_LE(far, kFew);
}

// Products in f32 put a few more numbers on the other side than those in double.
TEST(Equivalence, InBf16OneDnnsKernelsAreAsNearToExactAsTheReference) {
  Random random(23);
  constexpr double kFactor = 1.5;
  constexpr int kCases = Draws(60);
  for (int i = 0; i < kCases; ++i) {
    const Drawn drawn = DrawCase(random, false);
    Bf16Distances distances;
    MeasureInBf16(random, drawn, OneDnn(), distances);
    ASSERT_FALSE(HasFatalFailure()) << Describe(drawn, i);
    EXPECT_LE(distances.spread, std::max(kFactor * distances.own, kFewRoundings)) << Describe(drawn, i);
  }
}

// What the reference kernels make on one device is rounded once, to bf16. So is a sum over devices, but for f32's 16 more
// bits: that these change how a sum is rounded is a matter of one in some 10,000, and is not so here. Summands rounded to
// bf16 would change every other one.
TEST(Equivalence, InBf16ASumOverDevicesIsRoundedAsOnOneDevice) {
  using enum layers::Strategy;
  for (int64_t columns : {2, 4, 8}) {
    layers::GraphBuilder net("sums");
    auto x = net.Conv2d("conv1", net.Input("images", {1, 5, 5}), {.out_channels = 8, .kernel = 3, .pad = 1});
    x = net.Conv2d("conv2", x, {.out_channels = 8, .kernel = 3, .pad = 1});                  // row: y is a sum
    x = net.Conv2d("conv3", x, {.out_channels = 16, .kernel = 3, .pad = 1, .bias = false});  // column: dx is a sum
    x = net.FullyConnected("fc1", net.Flatten("flatten", x), {.out_features = 16});          // column
    x = net.FullyConnected("fc2", x, {.out_features = 4, .bias = false});                    // row, without a bias
    net.SoftmaxCrossEntropy("loss", x);
    const RandomNetwork network{*std::move(net).Build(), 4};
    Plan plan{.name = "sums", .mesh = Mesh::ReplicasByColumns(1, columns)};
    for (const char* layer : {"conv1", "flatten", "loss"}) plan.layers[layer] = {kReplicate, kReplicate};
    for (const char* layer : {"conv3", "fc1"}) plan.layers[layer] = {kReplicate, kColumn};
    for (const char* layer : {"conv2", "fc2"}) plan.layers[layer] = {kReplicate, kRow};
    Random random(5);
    const LowerOptions options{.global_batch = 2, .dtype = program::DType::kBF16, .expose_gradients = true};
    const Batch batch = DrawBatch(random, network, 2, false);
    Tensors parameters;
    const auto one = RunSteps(network.graph, SinglePlan(network.graph), options, Reference(), batch, nullptr, random, false,
                              1, &parameters);
    const auto many = RunSteps(network.graph, plan, options, Reference(), batch, &parameters, random, false, 1, nullptr);
    ASSERT_TRUE(one.ok() && many.ok()) << one.status() << many.status();
    EXPECT_EQ(many->losses, one->losses) << columns;
    for (const auto& [name, gradient] : one->gradients) EXPECT_EQ(many->gradients.at(name), gradient) << name;
  }
}

// In double, whose sums differ by rounding alone.
void ExpectTheSameOnOneDevice(const RandomNetwork& network, const Plan& plan) {
  Random random(3);
  const LowerOptions options{.global_batch = 8, .dtype = program::DType::kF64, .expose_gradients = true};
  const Batch batch = DrawBatch(random, network, 8, false);
  Tensors parameters;
  absl::StatusOr<Result> one = RunSteps(network.graph, SinglePlan(network.graph), options, Reference(), batch, nullptr,
                                        random, false, 1, &parameters);
  absl::StatusOr<Result> many =
      RunSteps(network.graph, plan, options, Reference(), batch, &parameters, random, false, 1, nullptr);
  ASSERT_TRUE(one.ok() && many.ok()) << one.status() << many.status();
  EXPECT_NEAR(many->losses[0], one->losses[0], 1e-10);
  for (const auto& [name, gradient] : one->gradients) {
    EXPECT_LE(RelativeDistance(many->gradients.at(name), gradient), 1e-10) << name;
  }
}

// A value that is partial on one axis, read by two layers that need it differently on the other: its sum, which is done in
// place, must not be done twice.
TEST(Equivalence, AForkAfterARowSplitIsSummedOnce) {
  using enum layers::Strategy;
  layers::GraphBuilder net("fork");
  auto x = net.Conv2d("conv1", net.Input("images", {1, 6, 6}), {.out_channels = 8, .kernel = 3, .pad = 1});
  x = net.Conv2d("conv2", x, {.out_channels = 8, .kernel = 3, .pad = 1, .bias = false});
  x = net.Add("add", {net.Relu("relu", x), net.MaxPool("pool", x, {.kernel = 3, .stride = 1, .pad = 1})});
  x = net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4});
  net.SoftmaxCrossEntropy("loss", x);
  RandomNetwork network{*std::move(net).Build(), 4};
  Plan plan{.name = "fork", .mesh = Mesh::ReplicasByColumns(2, 2)};
  for (const char* layer : {"add", "flatten", "fc", "loss", "relu"}) plan.layers[layer] = {kReplicate, kReplicate};
  plan.layers["conv1"] = {kBatch, kColumn};
  plan.layers["conv2"] = {kBatch, kRow};
  plan.layers["pool"] = {kReplicate, kGroup};
  ExpectTheSameOnOneDevice(network, plan);
}

TEST(Equivalence, AGlobalMeanMayBeSplitByChannelAndByImage) {
  using enum layers::Strategy;
  layers::GraphBuilder net("mean");
  auto x = net.Conv2d("conv", net.Input("images", {1, 6, 9}), {.out_channels = 6, .kernel = 3, .pad = 1});
  x = net.MaxPool("pool", x, {.kernel = 3, .stride = 2, .ceil_mode = true});
  x = net.GlobalAvgPool("mean", x);
  x = net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4});
  net.SoftmaxCrossEntropy("loss", x);
  RandomNetwork network{*std::move(net).Build(), 4};
  Plan plan{.name = "mean", .mesh = Mesh::ReplicasByColumns(2, 2)};
  for (const char* layer : {"pool", "mean", "flatten"}) plan.layers[layer] = {kBatch, kGroup};
  plan.layers["conv"] = {kBatch, kColumn};
  plan.layers["fc"] = {kBatch, kRow};
  plan.layers["loss"] = {kBatch, kReplicate};
  ExpectTheSameOnOneDevice(network, plan);
}

// An error that one device and many share would pass the tests above; the derivative along random directions shows it.
TEST(Equivalence, WholeNetworksPassFiniteDifferences) {
  Random random(77);
  for (int i = 0; i < 25; ++i) {
    absl::StatusOr<RandomNetwork> network = NetworkDrawer(random, false).Draw();
    ASSERT_TRUE(network.ok()) << network.status();
    const int64_t n = 4;
    const LowerOptions options{.global_batch = n, .dtype = program::DType::kF64, .expose_gradients = true};
    auto run = PlannedRun::Create(network->graph, SinglePlan(network->graph), options, CpuOptions::Kernels::kReference);
    ASSERT_TRUE(run.ok()) << run.status();
    const Batch batch = DrawBatch(random, *network, n, false);
    const Tensors w = DrawParameters(random, (*run)->program);
    Tensors direction = DrawParameters(random, (*run)->program);
    auto loss_at = [&](double epsilon) {
      Tensors moved = w;
      for (auto& [name, values] : moved) {
        for (size_t e = 0; e < values.size(); ++e) values[e] += epsilon * direction.at(name)[e];
      }
      EXPECT_TRUE((*run)->SetParameters(moved).ok());
      absl::StatusOr<engine::ScoredStep> r =
          engine::RunStep(*(*run)->executor, batch.images, batch.labels, {.learning_rate = 0});
      EXPECT_TRUE(r.ok()) << r.status();
      return r.ok() ? r->loss : NAN;
    };
    loss_at(0);
    absl::StatusOr<Tensors> gradients = (*run)->Gradients();
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    double expected = 0, scale = 0;
    for (const auto& [name, g] : *gradients) {
      for (size_t e = 0; e < g.size(); ++e) {
        expected += g[e] * direction.at(name)[e];
        scale += std::abs(g[e] * direction.at(name)[e]);
      }
    }
    const double epsilon = 1e-6;
    const double measured = (loss_at(epsilon) - loss_at(-epsilon)) / (2 * epsilon);
    // Central differences are good to ε² and to 1e-16/ε of the loss; a kink of ReLU or maximum within ε is drawn with
    // probability of about 1e-3 a network and would show as a larger difference.
    EXPECT_NEAR(measured, expected, 1e-6 * scale + 1e-8) << "network " << i;
  }
}

}  // namespace
}  // namespace colonnade::partition
