// How time and memory of every pass over a whole Program grow with the number of devices, up to 1,024, and with the depth of
// a network.
//
// Linear growth from an eighth is eightfold. Memory may grow by twice that, since a list or a text that has just outgrown
// its memory has taken twice as much; time, too, or by twice what a copy of the Program takes more: the smaller
// Program lies in the processor's caches, the larger does not, which by itself made passes up to 17 times as long beside
// other work. A part that grows with the square grows 64-fold. Time is that of the thread, and the least of several runs,
// since other processes share processor and caches.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "engine/simulator.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "nlohmann/json.hpp"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "program/dag.h"
#include "program/memory.h"
#include "program/text.h"
#include "program/verify.h"
#include "tests/allocations.h"
#include "tests/engine/on_a_switch.h"
#include "tests/sanitized.h"

namespace colonnade::engine {
namespace {

// With sanitizers a quarter, which is enough to find what they look for.
constexpr int kMany = kSanitized ? 256 : 1024, kFew = kMany / 8;
constexpr double kLinear = 8;
constexpr int kMostRuns = 12;
constexpr SimulatorOptions kTime = {.memory = false};

struct Spread {
  std::string plan;
  partition::Reduction reduction;

  friend void PrintTo(const Spread& spread, std::ostream* out) {
    *out << spread.plan << ", " << partition::Name(spread.reduction);
  }
};

struct Case {
  layers::LayerGraph graph;
  partition::Plan plan;
  partition::LowerOptions options;
  Machine machine;
  program::Program program;
  std::string text;

  program::Program Lower() const { return partition::Lower(graph, plan, options).value(); }
  program::RepresentativeProgram LowerRepresentatives() const {
    return partition::LowerRepresentatives(graph, plan, options).value();
  }
};

Case CaseOf(const Spread& spread, layers::LayerGraph graph, int devices) {
  Case c{
      .graph = std::move(graph), .plan = {}, .options = {.global_batch = devices}, .machine = {}, .program = {}, .text = ""};
  c.plan = partition::NamedPlan(spread.plan, c.graph, {.devices = devices, .global_batch = devices}).value();
  c.plan.reduction = spread.reduction;
  c.machine = InNodes(devices);
  c.program = c.Lower();
  c.text = program::Print(c.program);
  return c;
}

// Convolutions, each with a normalisation and a ReLU, and a pooling behind every tenth.
layers::LayerGraph Chain(int depth) {
  layers::GraphBuilder net("chain");
  auto x = net.Input("images", {8, 8, 8});
  for (int i = 0; i < depth; ++i) {
    x = net.Conv2d(absl::StrCat("conv", i), x, {.out_channels = 8, .kernel = 3, .pad = 1, .bias = false});
    x = net.Relu(absl::StrCat("relu", i), net.BatchNorm(absl::StrCat("bn", i), x));
    if (i % 10 == 9) x = net.MaxPool(absl::StrCat("pool", i), x, {.kernel = 3, .stride = 1, .pad = 1});
  }
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  return std::move(net).Build().value();
}

// ReLUs and poolings by turns, behind one convolution.
layers::LayerGraph PooledRelus(int depth) {
  layers::GraphBuilder net("pooled_relus");
  auto x = net.Conv2d("conv", net.Input("images", {1, 4, 4}), {.out_channels = 2});
  for (int i = 0; i < depth; ++i) {
    x = net.Relu(absl::StrCat("relu", i), x);
    x = net.MaxPool(absl::StrCat("pool", i), x, {.kernel = 3, .stride = 1, .pad = 1});
  }
  net.SoftmaxCrossEntropy("loss", net.Flatten("flatten", x));
  return std::move(net).Build().value();
}

double Seconds(const std::function<void()>& run) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  run();
  return now() - begin;
}

class Growth {
 public:
  // `many` is kMany of `what`, `few` is kFew.
  Growth(std::string what, Case few, Case many) : what_(std::move(what)), few_(std::move(few)), many_(std::move(many)) {}

  void ExpectOfLowering() const {
    Expect("Lower", [](const Case& c) { c.Lower(); });
  }

  void ExpectOfEveryPassButPlacing() const {
    ExpectOfLowering();
    Expect("Verify", [](const Case& c) { EXPECT_TRUE(program::Verify(c.program).ok()); });
    Expect("DeriveDependencies", [](const Case& c) { program::DeriveDependencies(c.program); });
    Expect("Print", [](const Case& c) { program::Print(c.program); });
    Expect("Parse", [](const Case& c) { EXPECT_TRUE(program::Parse(c.text).ok()); });
    Expect("LowerRepresentatives", [](const Case& c) { EXPECT_FALSE(c.LowerRepresentatives().program.tasks.empty()); });
    Expect("Simulate representatives",
           [](const Case& c) { EXPECT_TRUE(Simulate(c.LowerRepresentatives(), c.machine, kTime).ok()); });
    Expect("Simulate", [](const Case& c) { EXPECT_TRUE(Simulate(c.program, c.machine, kTime).ok()); });
  }

  void ExpectOfPlacing() const {
    Expect("PlaceBuffers", [](const Case& c) {
      program::PlaceBuffers(c.program,
                            [&](const program::Buffer& buffer) { return program::DenseSizeOf(c.program, buffer); });
    });
  }

 private:
  // The least seconds of a pass.
  struct Least {
    double few = std::numeric_limits<double>::infinity(), many = few;
    double Growth() const { return many / few; }
  };

  void Run(const std::function<void(const Case&)>& pass, Least& least) const {
    // As long as the one run of many, so that it is as likely to be disturbed.
    for (int i = 0; i < 4; ++i) least.few = std::min(least.few, Seconds([&] { pass(few_); }));
    least.many = std::min(least.many, Seconds([&] { pass(many_); }));
  }

  void Expect(const std::string& what, const std::function<void(const Case&)>& pass) const {
    const auto copy = [](const Case& c) { EXPECT_FALSE(program::Program(c.program).tasks.empty()); };
    Least of_pass, of_copy;
    const auto bound = [&] { return 2 * std::max(kLinear, of_copy.Growth()); };
    for (int run = 0; run == 0 || (run < kMostRuns && of_pass.Growth() > bound()); ++run) {
      Run(pass, of_pass);
      Run(copy, of_copy);
    }
    EXPECT_LE(of_pass.Growth(), bound()) << what << ": " << of_pass.few << " s for " << kFew << " " << what_ << ", "
                                         << of_pass.many << " s for " << kMany << "; a copy: " << of_copy.few << " and "
                                         << of_copy.many;
    const auto bytes = [&](const Case& c) { return static_cast<double>(PeakBytesIn([&] { pass(c); })); };
    EXPECT_LE(bytes(many_), 2 * kLinear * bytes(few_)) << what << ": bytes for " << kMany << " " << what_ << " and " << kFew;
  }

 private:
  const std::string what_;
  const Case few_, many_;
};

class GrowthWithDevices : public ::testing::TestWithParam<Spread> {};

TEST_P(GrowthWithDevices, IsThatOfTheirNumber) {
  const auto case_of = [](int devices) { return CaseOf(GetParam(), models::BuildModel("lenet", {}).value(), devices); };
  const Growth growth("devices", case_of(kFew), case_of(kMany));
  growth.ExpectOfEveryPassButPlacing();
  growth.ExpectOfPlacing();
}

// Places are found by comparing the buffers of a device two by two.
TEST(GrowthWithDepth, IsThatOfTheDepthButForPlacing) {
  const auto case_of = [](int depth) { return CaseOf({"data", partition::Reduction::kAllReduce}, Chain(depth), 2); };
  Growth("convolutions", case_of(kFew), case_of(kMany)).ExpectOfEveryPassButPlacing();
}

// Lowering asks of each ReLU whether its gradient goes before that of the pooling.
TEST(GrowthWithDepth, IsThatOfTheDepthForReluAndPoolingByTurns) {
  const auto case_of = [](int depth) { return CaseOf({"data", partition::Reduction::kAllReduce}, PooledRelus(depth), 2); };
  Growth("ReLUs and poolings", case_of(kFew), case_of(kMany)).ExpectOfLowering();
}

// The library's callback looks through a whole list behind each of its elements that is a list or an object.
TEST(GrowthOfJson, IsThatOfTheLengthOfAList) {
  constexpr int kShort = 2000, kLong = 8 * kShort;
  const auto of_length = [](int length) {
    std::string text = "[{}";
    for (int i = 1; i < length; ++i) text += R"(,{"a":[0,1]})";
    return text + "]";
  };
  const auto seconds = [](const std::string& text) {
    return Seconds([&] { EXPECT_TRUE(base::ParseJson<nlohmann::json>(text, 3).ok()); });
  };
  const std::string few = of_length(kShort), many = of_length(kLong);
  double of_few = std::numeric_limits<double>::infinity(), of_many = of_few;
  for (int run = 0; run == 0 || (run < kMostRuns && of_many > 2 * kLinear * of_few); ++run) {
    for (int i = 0; i < 4; ++i) of_few = std::min(of_few, seconds(few));
    of_many = std::min(of_many, seconds(many));
  }
  EXPECT_LE(of_many, 2 * kLinear * of_few) << kLong << " and " << kShort << " objects";
}

// Of 20 devices in nodes of eight, members 0, 5, 10 and 15 of four replicas lie two by two; 1, 6, 11 and 16 do not.
TEST(Simulate, RepresentativesWhoseGroupsLieOnNodesInOtherNumbers) {
  Case c{.graph = models::BuildModel("lenet", {}).value(), .machine = InNodes(20)};
  c.options.global_batch = 40;
  c.plan = partition::NamedPlan("hybrid", c.graph, {.devices = 20, .columns = 5, .global_batch = 40}).value();
  c.machine.collectives = CollectiveAlgorithm::kFastest;
  for (Link& link : c.machine.links) {  // so slow between nodes that the first group takes its own phases within each
    if (link.b == "network") link.bytes_per_sec.value = 1e7;
  }
  const absl::StatusOr<Simulation> few = Simulate(c.LowerRepresentatives(), c.machine), all = Simulate(c.Lower(), c.machine);
  ASSERT_TRUE(few.ok() && all.ok()) << few.status() << all.status();
  EXPECT_NEAR(absl::FDivDuration(few->step, all->step), 1, 0.5);
}

INSTANTIATE_TEST_SUITE_P(
    Plans, GrowthWithDevices,
    ::testing::Values(Spread{"data", partition::Reduction::kAllReduce}, Spread{"data", partition::Reduction::kSharded},
                      Spread{"data", partition::Reduction::kMaster}, Spread{"hybrid", partition::Reduction::kAllReduce}),
    [](const auto& info) { return absl::StrCat(info.param.plan, "_", static_cast<int>(info.param.reduction)); });

}  // namespace
}  // namespace colonnade::engine
