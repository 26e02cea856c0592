// Draws of what a profile is unsure of: how far they go, what goes together, and what is never drawn.
#include "engine/uncertainty.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace colonnade::engine {
namespace {

constexpr int kDraws = 5000;

// All of it certain.
Machine Certain() {
  Machine machine;
  machine.devices = {"d0", "d1"};
  machine.memory_bytes = {1e9, Origin::kGuess};
  machine.cores = {2, Origin::kGuess};
  machine.flops_per_sec = {1e12, Origin::kSpec};
  machine.memory_bytes_per_sec = {1e11, Origin::kMeasured};
  machine.launch_sec = {1e-5, Origin::kPublished};
  machine.step_sec = {0.1, Origin::kFitted};
  machine.ops = {{.op = "conv_forward",
                  .points = {{.rate = 4e11}, {.shape = {.c = 3}, .rate = 2e11}},
                  .batch_curve = {{32, 0.5}, {64, 1}},
                  .origin = Origin::kPublished,
                  .source = "paper"},
                 {.op = "conv_backward_data", .points = {{.rate = 1e11}}, .origin = Origin::kPublished, .source = "paper"}};
  machine.links = {{.a = "d0", .b = "x", .bytes_per_sec = {6e9, Origin::kSpec, "sheet"}},
                   {.a = "d1", .b = "x", .bytes_per_sec = {6e9, Origin::kSpec, "sheet"}}};
  machine.transfers = {{.operation = "exchange", .points = {{1000, 1e-4}}, .origin = Origin::kMeasured}};
  return machine;
}

std::vector<double> Drawn(const Machine& machine, const std::function<double(const Machine&)>& number) {
  std::vector<double> numbers;
  for (int draw = 0; draw < kDraws; ++draw) numbers.push_back(number(DrawMachine(machine, 1, draw)));
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST(DrawMachine, LeavesACertainProfileAsItIs) {
  EXPECT_TRUE(IsCertain(Certain()));
  EXPECT_EQ(MachineToJson(DrawMachine(Certain(), 1, 7)), MachineToJson(Certain()));
}

// The logarithm is even: the median is the value, the quartiles are at its square roots, and both ends are reached.
void ExpectEvenWithin(const std::vector<double>& sorted, double value, double within) {
  EXPECT_GE(sorted.front(), value / within);
  EXPECT_LE(sorted.back(), value * within);
  const auto at = [&](double part) {
    return std::log(sorted[static_cast<size_t>(part * kDraws)] / value) / std::log(within);
  };
  EXPECT_NEAR(at(0.001), -1, 0.02);
  EXPECT_NEAR(at(0.25), -0.5, 0.06);
  EXPECT_NEAR(at(0.5), 0, 0.06);
  EXPECT_NEAR(at(0.75), 0.5, 0.06);
  EXPECT_NEAR(at(0.999), 1, 0.02);
}

TEST(DrawMachine, SpreadsEachNumberOverItsRange) {
  struct Case {
    std::function<void(Machine&)> doubt;
    std::function<double(const Machine&)> number;
    double value, within;
  };
  const auto quantity = [](Quantity Machine::*q, double value) {
    return Case{[q](Machine& m) { (m.*q).within = 2; }, [q](const Machine& m) { return (m.*q).value; }, value, 2};
  };
  const std::vector<Case> cases = {
      quantity(&Machine::flops_per_sec, 1e12),
      quantity(&Machine::memory_bytes_per_sec, 1e11),
      quantity(&Machine::launch_sec, 1e-5),
      quantity(&Machine::step_sec, 0.1),
      {[](Machine& m) { m.flops_per_sec.origin = Origin::kGuess; }, [](const Machine& m) { return m.flops_per_sec.value; },
       1e12, kGuessWithin},
      {[](Machine& m) { m.ops[0].within = 1.3; }, [](const Machine& m) { return m.ops[0].points[1].rate; }, 2e11, 1.3},
      {[](Machine& m) { m.ops[0].batch_curve_within = 1.4; },
       [](const Machine& m) { return m.ops[0].batch_curve[0].second; }, 0.5, 1.4},
      {[](Machine& m) { m.links[1].bytes_per_sec.within = 1.2; },
       [](const Machine& m) { return m.links[1].bytes_per_sec.value; }, 6e9, 1.2},
      {[](Machine& m) {
         m.links[1].latency_sec = {1e-6, Origin::kSpec, "sheet", 2};
       },
       [](const Machine& m) { return m.links[1].latency_sec.value; }, 1e-6, 2},
      {[](Machine& m) {
         m.links[1].one_transfer_bytes_per_sec = {3e9, Origin::kSpec, "sheet", 2};
       },
       [](const Machine& m) { return m.links[1].one_transfer_bytes_per_sec.value; }, 3e9, 2},
      {[](Machine& m) { m.transfers[0].within = 3; }, [](const Machine& m) { return m.transfers[0].points[0].second; }, 1e-4,
       3}};
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    Machine machine = Certain();
    cases[i].doubt(machine);
    EXPECT_FALSE(IsCertain(machine));
    ExpectEvenWithin(Drawn(machine, cases[i].number), cases[i].value, cases[i].within);
  }
}

TEST(DrawMachine, AStatedFactorReplacesThatOfAGuess) {
  Machine machine = Certain();
  machine.flops_per_sec.origin = Origin::kGuess;
  machine.flops_per_sec.within = 1;
  EXPECT_TRUE(IsCertain(machine));
}

TEST(DrawMachine, NumbersOfOneFieldAndSourceGoTogether) {
  Machine machine = Certain();
  for (Link& link : machine.links) link.bytes_per_sec.within = 2;
  for (OpRate& op : machine.ops) op.within = 2;
  machine.ops[0].batch_curve_within = 2;
  machine.flops_per_sec.within = 2;
  const Machine drawn = DrawMachine(machine, 1, 3);
  EXPECT_EQ(drawn.links[0].bytes_per_sec.value, drawn.links[1].bytes_per_sec.value);
  EXPECT_DOUBLE_EQ(drawn.ops[0].points[0].rate / 4e11, drawn.ops[1].points[0].rate / 1e11);
  EXPECT_DOUBLE_EQ(drawn.ops[0].points[0].rate / 4e11, drawn.ops[0].points[1].rate / 2e11);
  const std::vector<double> factors = {drawn.links[0].bytes_per_sec.value / 6e9, drawn.ops[0].points[0].rate / 4e11,
                                       drawn.ops[0].batch_curve[0].second / 0.5, drawn.flops_per_sec.value / 1e12};
  for (size_t a = 0; a < factors.size(); ++a) {
    for (size_t b = 0; b < a; ++b) EXPECT_NE(factors[a], factors[b]) << a << " and " << b << " are of other fields";
  }
  machine.links[1].bytes_per_sec.source = "another";
  const Machine apart = DrawMachine(machine, 1, 3);
  EXPECT_NE(apart.links[0].bytes_per_sec.value, apart.links[1].bytes_per_sec.value);
}

TEST(DrawMachine, IsAFunctionOfSeedAndDraw) {
  Machine machine = Certain();
  machine.flops_per_sec.within = 2;
  const auto flops = [&](uint64_t seed, uint64_t draw) { return DrawMachine(machine, seed, draw).flops_per_sec.value; };
  EXPECT_EQ(flops(1, 5), flops(1, 5));
  EXPECT_NE(flops(1, 5), flops(1, 6));
  EXPECT_NE(flops(1, 5), flops(2, 5));
}

TEST(DrawMachine, KeepsMemoryBelowItsPeakAndCurvesBelowOne) {
  Machine machine = Certain();
  machine.memory_bytes_per_sec.within = 2;
  machine.peak_memory_bytes_per_sec = {1.2e11, Origin::kSpec};
  machine.ops[0].batch_curve_within = 4;
  EXPECT_EQ(Drawn(machine, [](const Machine& m) { return m.memory_bytes_per_sec.value; }).back(), 1.2e11);
  EXPECT_EQ(Drawn(machine, [](const Machine& m) { return m.ops[0].batch_curve[0].second; }).back(), 1);
  EXPECT_EQ(Drawn(machine, [](const Machine& m) { return m.ops[0].batch_curve[1].second; }).front(), 1);
}

TEST(DrawMachine, OfNumbersWithoutASourceLinksGoTogetherAndTransfersApart) {
  Machine machine = Certain();
  for (Link& link : machine.links) {
    link.bytes_per_sec.source.clear();
    link.bytes_per_sec.within = 2;
  }
  machine.transfers[0].within = 2;
  for (const auto& [operation, members] : {std::pair{"exchange", 4}, {"all_reduce", 2}}) {
    machine.transfers.push_back(machine.transfers[0]);
    machine.transfers.back().operation = operation;
    machine.transfers.back().members = members;
  }
  const Machine drawn = DrawMachine(machine, 1, 3);
  EXPECT_EQ(drawn.links[0].bytes_per_sec.value, drawn.links[1].bytes_per_sec.value);
  std::set<double> seconds;
  for (const MeasuredTransfer& transfer : drawn.transfers) seconds.insert(transfer.points[0].second);
  EXPECT_EQ(seconds.size(), 3u);
}

}  // namespace
}  // namespace colonnade::engine
