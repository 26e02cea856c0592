// What one task and one transfer cost on a profile, against numbers that one can compute by hand.
#include "engine/simulator/cost_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/simulator.h"
#include "gtest/gtest.h"
#include "program/builder.h"
#include "tests/engine/on_a_switch.h"

namespace colonnade::engine {
namespace {

using program::Access;
using program::CollectiveKind;
using program::Op;
using program::Region;
using program::Shape;
using program::Task;

// The sums of logarithms are the only rounding.
constexpr double kRounding = 1e-12;

Machine Plain() {
  Machine machine;
  machine.name = "plain";
  machine.flops_per_sec.value = 1e12;
  machine.memory_bytes_per_sec.value = 1e9;
  return machine;
}

Task TaskOf(Op op, const std::vector<Shape>& operands, const program::Work& work = {}) {
  Task task;
  task.body = program::Compute{std::move(op)};
  for (const Shape& shape : operands) task.uses.push_back({{}, Region::Whole(shape), Access::kRead});
  task.work = work;
  return task;
}

// A product of n rows with 8 inputs and k outputs, of so many flops and bytes.
Task Product(int64_t n, int64_t k, const program::Work& work = {.flops = 1000000}) {
  return TaskOf(program::FullyConnectedForward{}, {{n, 8}, {k, 8}, {n, k}}, work);
}
OpRate ProductRate(std::vector<OpRate::Point> points) {
  return {.op = "fully_connected_forward",
          .unit = OpRate::Unit::kFlops,
          .points = std::move(points),
          .origin = Origin::kMeasured};
}
OpRate::Point At(double n, double k, double rate, int devices = 0) {
  return {.shape = {.n = n, .c = 8, .k = k}, .devices = devices, .rate = rate};
}
// Flops per second at which a machine with `rate` does Product(n, k).
double RateOf(const OpRate& rate, int64_t n, int64_t k, int devices = 1) {
  Machine machine = Plain();
  machine.ops = {rate};
  return 1e6 / CostModel(machine, devices).Seconds(Product(n, k));
}

// ---- Shapes.

void ExpectShape(const Task& task, const OpShape& expected) {
  const OpShape shape = ShapeOf(task);
  EXPECT_EQ(shape.n, expected.n);
  EXPECT_EQ(shape.c, expected.c);
  EXPECT_EQ(shape.k, expected.k);
  EXPECT_EQ(shape.r, expected.r);
  EXPECT_EQ(shape.p, expected.p);
  EXPECT_EQ(shape.groups, expected.groups);
}

TEST(ShapeOf, AConvolutionsPassesIsOfOneGroupsChannelsAndTheOutputsRows) {
  const Shape x = {6, 8, 20, 20}, w = {10, 4, 3, 3}, b = {10}, y = {6, 10, 9, 16};
  const OpShape expected{.n = 6, .c = 4, .k = 5, .r = 3, .p = 12, .groups = 2};
  ExpectShape(TaskOf(program::ConvForward{.groups = 2, .bias = true}, {x, w, b, y}), expected);
  ExpectShape(TaskOf(program::ConvBackwardData{.groups = 2}, {y, w, x}), expected);
  ExpectShape(TaskOf(program::ConvBackwardWeights{.groups = 2, .bias = true}, {x, y, w, b}), expected);
}

TEST(ShapeOf, AProductsPassesIsItsExtents) {
  const Shape x = {6, 8}, w = {10, 8}, y = {6, 10};
  const OpShape expected{.n = 6, .c = 8, .k = 10};
  ExpectShape(TaskOf(program::FullyConnectedForward{}, {x, w, y}), expected);
  ExpectShape(TaskOf(program::FullyConnectedBackwardData{}, {y, w, x}), expected);
  ExpectShape(TaskOf(program::FullyConnectedBackwardWeights{}, {x, y, w}), expected);
}

TEST(ShapeOf, AWindowsPassesIsThatOfTheImagesBeforeIt) {
  const Shape x = {6, 8, 9, 16}, y = {6, 8, 4, 8};
  const OpShape expected{.n = 6, .c = 8, .p = 12};
  ExpectShape(TaskOf(program::MaxPoolForward{}, {x, y, y}), expected);
  ExpectShape(TaskOf(program::MaxPoolBackward{}, {y, y, x}), expected);
  ExpectShape(TaskOf(program::AvgPoolForward{}, {x, y}), expected);
  ExpectShape(TaskOf(program::AvgPoolBackward{}, {y, x}), expected);
  ExpectShape(TaskOf(program::LrnForward{}, {x, x}), expected);
  ExpectShape(TaskOf(program::LrnBackward{}, {x, x, x}), expected);
}

TEST(ShapeOf, WhatStreamsIsItsBytes) {
  ExpectShape(TaskOf(program::Copy{}, {{6, 8}, {6, 8}}, {.bytes_read = 192, .bytes_written = 100}), {.n = 292});
  ExpectShape(TaskOf(program::SgdUpdate{}, {}, {}), {.n = 1});
  const Shape x = {6, 8, 9, 16}, sums = {2, 2, 8}, c = {8};
  const program::Work work{.bytes_read = 700, .bytes_written = 77};
  ExpectShape(TaskOf(program::BatchNormSums{}, {x, sums}, work), {.n = 777});
  ExpectShape(TaskOf(program::BatchNormForward{}, {x, sums, c, c, x}, work), {.n = 777});
  ExpectShape(TaskOf(program::BatchNormTrack{}, {sums, c, c}, work), {.n = 777});
  ExpectShape(TaskOf(program::BatchNormRecall{}, {c, c, sums}, work), {.n = 777});
  ExpectShape(TaskOf(program::BatchNormFold{}, {{8, 4, 3, 3}, c, c, c, c, {8, 4, 3, 3}, c}, work), {.n = 777});
  ExpectShape(TaskOf(program::BatchNormBackwardSums{}, {x, x, sums, sums, c, c}, work), {.n = 777});
  ExpectShape(TaskOf(program::BatchNormBackward{}, {x, x, sums, sums, c, x}, work), {.n = 777});
  const Shape moments = {6, 3, 9, 16};
  ExpectShape(TaskOf(program::LayerNormForward{}, {x, c, c, x, moments}, work), {.n = 777});
  ExpectShape(TaskOf(program::LayerNormBackwardData{}, {x, x, moments, c, x}, work), {.n = 777});
  ExpectShape(TaskOf(program::LayerNormBackwardWeights{}, {x, x, moments, c, c}, work), {.n = 777});
}

// ---- Seconds of a task.

TEST(Seconds, WithoutARateAreTheRooflinesAndTheLaunch) {
  Machine machine = Plain();
  machine.launch_sec.value = 0.25;
  const CostModel model(machine, 1);
  EXPECT_EQ(model.Seconds(Product(1, 1, {.flops = 2000000000000, .bytes_read = 400000000, .bytes_written = 600000000})),
            2.25);
  EXPECT_EQ(model.Seconds(Product(1, 1, {.flops = 2000000000000, .bytes_read = 1000000000, .bytes_written = 3000000000})),
            4.25);
}

TEST(Seconds, OfSeveralDevicesAreLongerByTheSkewButNotTheLaunch) {
  Machine machine = Plain();
  machine.launch_sec.value = 0.25;
  machine.skew.value = 0.5;
  const Task task = Product(1, 1, {.flops = 2000000000000});
  EXPECT_EQ(CostModel(machine, 1).Seconds(task), 2.25);
  EXPECT_EQ(CostModel(machine, 2).Seconds(task), 3.25);
}

// Tippett 1925, table of the extreme individuals of samples.
TEST(MeanOfLargest, IsThatOfPublishedTables) {
  EXPECT_NEAR(MeanOfLargest(1), 0, 1e-6);
  EXPECT_NEAR(MeanOfLargest(2), 0.56419, 5e-6);
  EXPECT_NEAR(MeanOfLargest(10), 1.53875, 5e-6);
  EXPECT_NEAR(MeanOfLargest(100), 2.50759, 5e-6);
  EXPECT_NEAR(MeanOfLargest(1000), 3.24144, 5e-6);
}

TEST(Seconds, GrowWithTheSlowestOfAllThatMeet) {
  Machine machine = Plain();
  machine.skew.value = 0.1;
  const Task task = Product(1, 1, {.flops = 2000000000000});
  EXPECT_NEAR(CostModel(machine, 10).Seconds(task), 2 * (1 + 0.1 * 1.53875 / 0.56419), 1e-5);
  EXPECT_NEAR(CostModel(machine, 1000).Seconds(task), 2 * (1 + 0.1 * 3.24144 / 0.56419), 1e-5);
}

TEST(Seconds, ARateInBytesCountsBytes) {
  Machine machine = Plain();
  machine.ops = {{.op = "copy", .unit = OpRate::Unit::kBytes, .points = {{.shape = {}, .rate = 5e8}}}};
  const Task task = TaskOf(program::Copy{}, {{4}, {4}}, {.flops = 77, .bytes_read = 400000000, .bytes_written = 600000000});
  EXPECT_NEAR(CostModel(machine, 1).Seconds(task), 2, kRounding);
}

TEST(Seconds, AnOpsOwnRateInBytesHoldsItsFlopsToo) {
  Machine machine = Plain();
  machine.ops = {{.op = "copy", .unit = OpRate::Unit::kBytes, .points = {{.shape = {}, .rate = 5e8}}}};
  const Task task = TaskOf(program::Copy{}, {{4}, {4}}, {.flops = 100'000'000'000'000, .bytes_read = 1'000'000'000});
  EXPECT_NEAR(CostModel(machine, 1).Seconds(task), 2, kRounding);
}

// A task of 1 s of memory in each case; what no forward or backward of the first device's compute lane is does not count.
TEST(LeastStepSeconds, AreThoseOfTheLayersOfOneDevice) {
  using program::Lane;
  using program::Pass;
  program::Program program;
  const auto add = [&](int device, Lane lane, Pass pass, Op op) {
    Task task = TaskOf(std::move(op), {{4}, {4}}, {.bytes_read = 1'000'000'000});
    task.device = device;
    task.lane = lane;
    task.provenance.pass = pass;
    program.tasks.push_back(task);
  };
  add(0, Lane::kCompute, Pass::kForward, program::Copy{});
  add(0, Lane::kCompute, Pass::kBackward, program::Copy{});
  EXPECT_NEAR(CostModel(Plain(), 1).LeastStepSeconds(program), 2, kRounding);
  add(0, Lane::kCompute, Pass::kUpdate, program::Copy{});
  add(0, Lane::kCompute, Pass::kBackward, program::CheckFinite{});
  add(0, Lane::kCopy, Pass::kForward, program::Copy{});
  add(1, Lane::kCompute, Pass::kForward, program::Copy{});
  add(0, Lane::kCompute, Pass::kForward, program::Copy{});
  program.tasks.back().body = program::Exchange{};
  EXPECT_NEAR(CostModel(Plain(), 1).LeastStepSeconds(program), 2, kRounding);
}

TEST(Seconds, ARateThatWasMeasuredHoldsTheMemorysShare) {
  Machine machine = Plain();
  machine.ops = {ProductRate({At(4, 8, 1e9)})};
  const Task task = Product(4, 8, {.flops = 1000000000, .bytes_read = 3000000000});
  EXPECT_NEAR(CostModel(machine, 1).Seconds(task), 1, kRounding);
  machine.ops[0].origin = Origin::kPublished;
  EXPECT_NEAR(CostModel(machine, 1).Seconds(task), 3, kRounding);
}

// A product of 2 s at the peak and 1 s through memory.
TEST(Seconds, AnOpWithoutAnEntryTakesTheRateOfAllOthers) {
  const Task task = Product(4, 8, {.flops = 2000000000000, .bytes_read = 400000000, .bytes_written = 600000000});
  Machine machine = Plain();
  machine.ops = {{.op = kAllOtherOps, .unit = OpRate::Unit::kFlops, .points = {{.rate = 5e11}}},
                 {.op = "copy", .unit = OpRate::Unit::kBytes, .points = {{.rate = 1}}}};
  EXPECT_NEAR(CostModel(machine, 1).Seconds(task), 4, kRounding);
  machine.ops[0].batch_curve = {{4, 0.5}};
  EXPECT_NEAR(CostModel(machine, 1).Seconds(task), 8, kRounding);
  machine.ops.push_back(ProductRate({At(4, 8, 2e11)}));
  EXPECT_NEAR(CostModel(machine, 1).Seconds(task), 10, 10 * kRounding);
}

TEST(Seconds, TheRateOfAllOthersIsOneSideOfTheRoofline) {
  const Task product = Product(4, 8, {.flops = 2000000000000, .bytes_read = 1000000000});
  const Task copy = TaskOf(program::Copy{}, {{4}, {4}}, {.bytes_read = 1000000000});
  Machine machine = Plain();
  for (Origin origin : {Origin::kGuess, Origin::kMeasured}) {
    machine.ops = {{.op = kAllOtherOps, .unit = OpRate::Unit::kFlops, .points = {{.rate = 1e13}}, .origin = origin}};
    EXPECT_NEAR(CostModel(machine, 1).Seconds(product), 1, kRounding);
    EXPECT_NEAR(CostModel(machine, 1).Seconds(copy), 1, kRounding);
    machine.ops = {{.op = kAllOtherOps, .unit = OpRate::Unit::kBytes, .points = {{.rate = 2e9}}, .origin = origin}};
    EXPECT_NEAR(CostModel(machine, 1).Seconds(product), 2, kRounding);
    EXPECT_NEAR(CostModel(machine, 1).Seconds(copy), 0.5, kRounding);
  }
}

// ---- Rates between points.

TEST(Rate, AtAPointIsThePoints) {
  const OpRate rate = ProductRate({At(4, 8, 1e9), At(4, 32, 7e9), At(4, 9, 3e9)});
  EXPECT_NEAR(RateOf(rate, 4, 32), 7e9, 7e9 * kRounding);
}

TEST(Rate, HalfwayBetweenTwoPointsIsTheirGeometricMean) {
  EXPECT_NEAR(RateOf(ProductRate({At(4, 8, 1e9), At(4, 32, 4e9)}), 4, 16), 2e9, 2e9 * kRounding);
}

// Twice as far in the logarithm of k weighs a sixteenth: (16·ln 1e9 + ln 17e9)/17.
TEST(Rate, APointsWeightIsTheInverseFourthPowerOfItsDistance) {
  const OpRate rate = ProductRate({At(4, 8, 1e9), At(4, 64, 17e9)});
  const double expected = std::exp((16 * std::log(1e9) + std::log(17e9)) / 17);
  EXPECT_NEAR(RateOf(rate, 4, 16), expected, expected * kRounding);
  // Beyond the last point the distances are ln 2 and ln 16.
  const double beyond = std::exp((256 * std::log(17e9) + std::log(1e9)) / 257);
  EXPECT_NEAR(RateOf(rate, 4, 128), beyond, beyond * kRounding);
}

TEST(Rate, EachExtentCounts) {
  const OpRate::Point near{.shape = {.n = 4, .c = 2, .k = 5, .r = 3, .p = 4, .groups = 2}, .rate = 1e9};
  const Shape x = {4, 4, 6, 6}, y = {4, 10, 4, 4};
  const Task task = TaskOf(program::ConvForward{.groups = 2}, {x, {10, 2, 3, 3}, y}, {.flops = 1000000});
  for (double OpShape::*extent : {&OpShape::n, &OpShape::c, &OpShape::k, &OpShape::r, &OpShape::p, &OpShape::groups}) {
    OpRate::Point far = near;
    far.shape.*extent *= 2;
    far.rate = 4e9;
    OpRate::Point twice = far;
    twice.shape.*extent /= 4;  // as far on the other side
    twice.rate = 9e9;
    Machine machine = Plain();
    machine.ops = {{.op = "conv_forward", .points = {far, twice}, .origin = Origin::kMeasured}};
    EXPECT_NEAR(1e6 / CostModel(machine, 1).Seconds(task), 6e9, 6e9 * kRounding);
  }
}

TEST(Rate, PointsOfAsManyDevicesCountElseThoseOfTheNearestNumber) {
  const OpRate rate = ProductRate({At(4, 8, 1e9, 1), At(4, 8, 2e9, 4), At(4, 8, 3e9, 8)});
  EXPECT_NEAR(RateOf(rate, 4, 8, 1), 1e9, 1e9 * kRounding);
  EXPECT_NEAR(RateOf(rate, 4, 8, 4), 2e9, 2e9 * kRounding);
  EXPECT_NEAR(RateOf(rate, 4, 8, 5), 2e9, 2e9 * kRounding);
  EXPECT_NEAR(RateOf(rate, 4, 8, 7), 3e9, 3e9 * kRounding);
  EXPECT_NEAR(RateOf(rate, 4, 8, 100), 3e9, 3e9 * kRounding);
}

TEST(Rate, PointsOfAnyNumberOfDevicesCountBesideThemInWhateverOrder) {
  std::vector<OpRate::Point> points = {At(4, 32, 4e9, 4), At(4, 8, 1e9, 0), At(4, 32, 5e9, 7)};
  for (int order = 0; order < 3; ++order) {
    std::rotate(points.begin(), points.begin() + 1, points.end());
    const OpRate rate = ProductRate(points);
    EXPECT_NEAR(RateOf(rate, 4, 16, 5), 2e9, 2e9 * kRounding);
    EXPECT_NEAR(RateOf(rate, 4, 16, 1), 2e9, 2e9 * kRounding) << "0 devices are no number that is near to one";
  }
}

TEST(Rate, TheBatchSaysNothingWherePointsAreOfOneBatch) {
  EXPECT_NEAR(RateOf(ProductRate({At(4, 8, 1e9), At(4, 32, 4e9)}), 64, 16), 2e9, 2e9 * kRounding);
  // Here it does: the first point is ln 16 away in n, the second ln 2.
  const double expected =
      std::exp((std::log(1e9) / std::pow(std::log(16.0), 4) + std::log(4e9) / std::pow(std::log(2.0), 4)) /
               (1 / std::pow(std::log(16.0), 4) + 1 / std::pow(std::log(2.0), 4)));
  EXPECT_NEAR(RateOf(ProductRate({At(4, 16, 1e9), At(128, 16, 4e9)}), 64, 16), expected, expected * kRounding);
}

TEST(Rate, ABatchCurveIsAFactorInterpolatedInLogarithms) {
  OpRate rate = ProductRate({At(4, 8, 1e9)});
  rate.batch_curve = {{32, 0.5}, {128, 2}};
  EXPECT_NEAR(RateOf(rate, 64, 8), 1e9, 1e9 * kRounding);  // 0.5·(2 / 0.5)^(1/2)
  EXPECT_NEAR(RateOf(rate, 32, 8), 0.5e9, 1e9 * kRounding);
  EXPECT_NEAR(RateOf(rate, 1, 8), 0.5e9, 1e9 * kRounding);  // beyond the ends, the ends'
  EXPECT_NEAR(RateOf(rate, 1000, 8), 2e9, 2e9 * kRounding);
}

// ---- Memory and transfers.

TEST(MemorySeconds, AreAtADevicesRateOrItsShareOfWhatAllHave) {
  Machine machine = Plain();
  machine.shared_memory_bytes_per_sec.value = 3e9;
  EXPECT_EQ(CostModel(machine, 1).MemorySeconds(2e9), 2);
  EXPECT_EQ(CostModel(machine, 3).MemorySeconds(2e9), 2);
  EXPECT_EQ(CostModel(machine, 6).MemorySeconds(2e9), 4);
}

TEST(MeasuredTransferSeconds, AreInterpolatedAndGrowWithTheBytesBeyondTheLast) {
  Machine machine = Plain();
  machine.transfers = {{.operation = "exchange", .members = 2, .points = {{1000, 0.5}, {4000, 8}}},
                       {.operation = "all_reduce", .members = 3, .points = {{1000, 1}}}};
  const CostModel model(machine, 1);
  EXPECT_EQ(model.MeasuredTransferSeconds("exchange", 2, 1000), 0.5);
  EXPECT_NEAR(model.MeasuredTransferSeconds("exchange", 2, 2000), 2, kRounding);  // 0.5·(8 / 0.5)^(1/2)
  EXPECT_EQ(model.MeasuredTransferSeconds("exchange", 2, 1), 0.5);
  EXPECT_EQ(model.MeasuredTransferSeconds("exchange", 2, 12000), 24);
  EXPECT_LT(model.MeasuredTransferSeconds("all_reduce", 2, 1000), 0);
  EXPECT_LT(model.MeasuredTransferSeconds("all_gather", 3, 1000), 0);
}

// Devices on a switch: a hop has the latency of two links.
Machine OnASwitchWith(int devices, CollectiveAlgorithm algorithm) {
  Machine machine = Plain();
  machine.memory_bytes_per_sec.value = 1e30;  // sums cost nothing
  machine.launch_sec.value = 0.125;
  machine.collectives = algorithm;
  AddDevicesOnASwitch(machine, devices, 0.5);
  return machine;
}

double SecondsOf(const Machine& machine, CollectiveKind kind, int members, double bytes) {
  const absl::StatusOr<Routes> routes = Routes::Create(machine);
  EXPECT_TRUE(routes.ok()) << routes.status();
  return routes.ok() ? CostModel(machine, members).CollectiveSeconds(*routes, kind, members, bytes) : 0;
}

// launch + the formula of transfer_phases.h with α = 1 s, S/β = 3 s.
TEST(CollectiveSeconds, AreThePublishedFormulas) {
  constexpr double kBytes = 3e9, kLaunch = 0.125;
  const Machine ring = OnASwitchWith(4, CollectiveAlgorithm::kRing), direct = OnASwitchWith(4, CollectiveAlgorithm::kDirect);
  const Machine tree = OnASwitchWith(4, CollectiveAlgorithm::kTree), master = OnASwitchWith(4, CollectiveAlgorithm::kMaster);
  EXPECT_NEAR(SecondsOf(ring, CollectiveKind::kAllReduce, 4, kBytes), kLaunch + 6 + 1.5 * 3, kRounding);
  EXPECT_NEAR(SecondsOf(direct, CollectiveKind::kAllReduce, 4, kBytes), kLaunch + 2 + 1.5 * 3, kRounding);
  EXPECT_NEAR(SecondsOf(tree, CollectiveKind::kAllReduce, 4, kBytes), kLaunch + 4 + 1.5 * 3, kRounding);
  EXPECT_NEAR(SecondsOf(master, CollectiveKind::kAllReduce, 4, kBytes), kLaunch + 2 + 6 * 3, kRounding);
  EXPECT_NEAR(SecondsOf(ring, CollectiveKind::kReduceScatter, 4, kBytes), kLaunch + 3 + 0.75 * 3, kRounding);
  EXPECT_NEAR(SecondsOf(ring, CollectiveKind::kAllGather, 4, kBytes), kLaunch + 3 + 3 * 3, kRounding);
  EXPECT_NEAR(SecondsOf(ring, CollectiveKind::kAllToAll, 4, kBytes), kLaunch + 1 + 0.75 * 3, kRounding);
  EXPECT_NEAR(SecondsOf(ring, CollectiveKind::kReduce, 4, kBytes), kLaunch + 3 + 3, kRounding);
  EXPECT_NEAR(SecondsOf(direct, CollectiveKind::kBroadcast, 4, kBytes), kLaunch + 1 + 3 * 3, kRounding);
  EXPECT_EQ(SecondsOf(ring, CollectiveKind::kAllReduce, 1, kBytes), 0);
}

TEST(CollectiveSeconds, SumsTakeThreeWaysThroughMemory) {
  Machine machine = OnASwitchWith(3, CollectiveAlgorithm::kMaster);
  machine.memory_bytes_per_sec.value = 1e9;
  // The master adds two operands of 1 s each to its own: 2 reads and 1 write of each.
  EXPECT_NEAR(SecondsOf(machine, CollectiveKind::kReduce, 3, 1e9), 0.125 + 1 + 2 + 6, kRounding);
}

// Links of 1 GB/s join the devices in a circle, d0, d2, d1, d3; what is not next to each other has 0.1 GB/s. A hop takes 1
// s.
Machine Circle(CollectiveAlgorithm algorithm) {
  Machine machine = OnASwitchWith(4, algorithm);
  for (Link& link : machine.links) link.bytes_per_sec.value = 1e8;
  const char* circle[] = {"d0", "d2", "d1", "d3", "d0"};
  for (int d = 0; d < 4; ++d) {
    machine.links.push_back({.a = circle[d], .b = circle[d + 1], .bytes_per_sec = {1e9}, .latency_sec = {1}});
  }
  return machine;
}

// Half of the bytes go round in each direction.
TEST(CollectiveSeconds, ARingTakesTheFastLinks) {
  EXPECT_NEAR(SecondsOf(Circle(CollectiveAlgorithm::kRing), CollectiveKind::kAllReduce, 4, 3e9), 0.125 + 6 + 1.5 * 3 / 2,
              kRounding);
}

// Directly a byte takes two hops, and 3 GB take 2 · 7.5 s on the slow links besides.
TEST(CollectiveSeconds, TheFastestAlgorithmIsChosenByTheBytes) {
  const Machine fastest = Circle(CollectiveAlgorithm::kFastest);
  EXPECT_NEAR(SecondsOf(fastest, CollectiveKind::kAllReduce, 4, 1), 0.125 + 2, 1e-7);
  EXPECT_NEAR(SecondsOf(fastest, CollectiveKind::kAllReduce, 4, 3e9), 0.125 + 6 + 1.5 * 3 / 2, kRounding);
}

TEST(CollectiveSeconds, AreThoseMeasuredWhereThereAre) {
  Machine machine = OnASwitchWith(4, CollectiveAlgorithm::kRing);
  machine.transfers = {{.operation = "all_reduce", .members = 4, .points = {{3e9, 42}}}};
  EXPECT_EQ(SecondsOf(machine, CollectiveKind::kAllReduce, 4, 3e9), 42);
  EXPECT_NEAR(SecondsOf(machine, CollectiveKind::kAllReduce, 3, 3e9), 0.125 + 4 + 4.0 / 3 * 3, kRounding);
}

// Without peer access the second halves begin when all first ones have ended: each half has the link of the host to itself.
TEST(CollectiveSeconds, OfStagedPairsAreThoseOfOneHalfBehindTheOther) {
  Machine machine = OnASwitchWith(2, CollectiveAlgorithm::kRing);
  machine.links.push_back({.a = "switch", .b = "host", .bytes_per_sec = {0.5e9}, .latency_sec = {0.25}});
  machine.peer_access = false;
  // Both send 1 GB to the host at once, 4 s over its link, and then get as much from it.
  const double seconds = SecondsOf(machine, CollectiveKind::kAllReduce, 2, 1e9);
  EXPECT_NEAR(seconds, 0.125 + 2 * 2 * 0.75 + 4 + 4, kRounding);
  program::Builder builder("case", program::Mode::kTrain, 1, program::DType::kF32, {{"data", 2}});
  std::vector<program::Member> members;
  for (int d : {0, 1}) {
    members.push_back({{builder.Accumulate(builder.AddBuffer(d, "x", program::DType::kF32, {250'000'000}))}, {}});
  }
  builder.AddCollective(builder.AddGroup({0, 1}), {.kind = CollectiveKind::kAllReduce}, std::move(members),
                        program::Lane::kComm, {"sum"});
  const absl::StatusOr<Simulation> simulation = Simulate(std::move(builder).Build(), machine);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_NEAR(absl::ToDoubleSeconds(simulation->first_step), seconds, 1e-6);
}

// What a root has is on its way for as long as its own link takes, whichever member it is.
TEST(SchedulesFor, ACollectiveWithARootBeginsOrEndsThere) {
  Machine machine = OnASwitchWith(4, CollectiveAlgorithm::kMaster);
  machine.links[1].bytes_per_sec.value = 0.25e9;
  const Routes routes = *Routes::Create(machine);
  for (CollectiveKind kind : {CollectiveKind::kReduce, CollectiveKind::kBroadcast}) {
    const auto seconds_of_a_gigabyte = [&](int root) {
      return 1e9 * CostModel(machine, 4).SchedulesFor(routes, kind, {0, 1, 2, 3}, root)[0].sec_per_byte;
    };
    EXPECT_NEAR(seconds_of_a_gigabyte(0), 4, 1e-6) << "the link of member 1";
    EXPECT_NEAR(seconds_of_a_gigabyte(1), 3 * 4, 1e-6) << "three times over its link";
  }
}

// A tree scatters and gathers parts as direct does, and reduces along its own edges.
TEST(SchedulesFor, ATreeOfPartsIsOneOfUpTo16Members) {
  const auto is_tree = [](const CostModel::CollectiveSchedule& schedule) {
    return schedule.algorithm == CollectiveAlgorithm::kTree;
  };
  for (int members : {16, 17}) {
    const Machine machine = OnASwitchWith(members, CollectiveAlgorithm::kFastest);
    const Routes routes = *Routes::Create(machine);
    std::vector<int> group(members);
    std::iota(group.begin(), group.end(), 0);
    const auto has_tree = [&](CollectiveKind kind) {
      const std::vector<CostModel::CollectiveSchedule> schedules =
          CostModel(machine, members).SchedulesFor(routes, kind, group, 0);
      return std::any_of(schedules.begin(), schedules.end(), is_tree);
    };
    EXPECT_EQ(has_tree(CollectiveKind::kAllGather), members == 16);
    EXPECT_EQ(has_tree(CollectiveKind::kReduceScatter), members == 16);
    EXPECT_TRUE(has_tree(CollectiveKind::kReduce));
    EXPECT_TRUE(has_tree(CollectiveKind::kAllReduce));
  }
}

// The algorithms and forms that an all-reduce of so many devices on a switch that adds may have.
std::vector<CostModel::CollectiveSchedule> SchedulesOf(int members) {
  Machine machine = OnASwitchWith(members, CollectiveAlgorithm::kFastest);
  machine.switch_bytes_per_sec.value = 1e9;
  std::vector<int> group(members);
  std::iota(group.begin(), group.end(), 0);
  return CostModel(machine, members).SchedulesFor(*Routes::Create(machine), CollectiveKind::kAllReduce, group, 0);
}

TEST(SchedulesFor, DirectIsOneOfUpTo16Members) {
  const auto is_direct = [](const CostModel::CollectiveSchedule& schedule) {
    return schedule.algorithm == CollectiveAlgorithm::kDirect;
  };
  for (int members : {16, 17}) {
    const std::vector<CostModel::CollectiveSchedule> schedules = SchedulesOf(members);
    EXPECT_EQ(std::any_of(schedules.begin(), schedules.end(), is_direct), members == 16) << members;
  }
}

TEST(SchedulesFor, ASwitchAddsForUpTo128Devices) {
  const auto is_in_switch = [](const CostModel::CollectiveSchedule& schedule) {
    return schedule.form == CostModel::CollectiveSchedule::Form::kInSwitch;
  };
  for (int members : {128, 129}) {
    const std::vector<CostModel::CollectiveSchedule> schedules = SchedulesOf(members);
    EXPECT_EQ(std::any_of(schedules.begin(), schedules.end(), is_in_switch), members == 128) << members;
  }
}

}  // namespace
}  // namespace colonnade::engine
