// What each phase of a search alone finds: judges under which nothing else wins.
#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "partition/planner.h"
#include "partition/planner/plan_judge.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using program::Program;
using program::Task;

// Two convolutions with weights of 1 MiB each, and a layer that only a proposal splits by rows.
layers::LayerGraph ConvolutionsAndDense() {
  layers::GraphBuilder net("convolutions_and_dense");
  auto x = net.Conv2d("conv1", net.Input("images", {512, 2, 2}), {.out_channels = 512});
  x = net.Conv2d("conv2", x, {.out_channels = 512});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 6}));
  return Built(std::move(net));
}

template <class OpKind>
const OpKind* OpOf(const Task& task) {
  const auto* compute = std::get_if<program::Compute>(&task.body);
  return compute != nullptr ? std::get_if<OpKind>(&compute->op) : nullptr;
}

// Convolutions cost the samples that a device has, and a product its bias, so that these propose batch and row: no named
// plan has rows.
double Seconds(const Task& task) {
  if (const auto* fc = OpOf<program::FullyConnectedForward>(task)) return fc->bias ? 100 : 0;
  return OpOf<program::ConvForward>(task) != nullptr ? static_cast<double>(task.uses[0].region.size[0]) : 0;
}

// Under rows the bias is added apart.
bool HasRows(const Program& program) {
  return std::any_of(program.tasks.begin(), program.tasks.end(),
                     [](const Task& task) { return OpOf<program::BiasForward>(task) != nullptr; });
}

int ReductionsOfBuckets(const Program& program, program::CollectiveKind kind) {
  return static_cast<int>(std::count_if(program.tasks.begin(), program.tasks.end(), [&](const Task& task) {
    const auto* collective = std::get_if<program::Collective>(&task.body);
    return collective != nullptr && collective->kind == kind && task.device == 0 &&
           std::holds_alternative<program::Bucket>(program.buffer(task.uses[0].buffer).storage);
  }));
}

std::vector<Candidate> Found(int devices, const std::function<double(const Program&)>& step_sec) {
  const PlannerOptions options{
      .devices = devices,
      .lower = {.global_batch = 12},
      .cost =
          [](int) {
            return CostFunctions{.compute = Seconds, .transfer = [](program::CollectiveKind, int, double) { return 0.0; }};
          },
      .judge = [&](const program::RepresentativeProgram& lowered) -> absl::StatusOr<Judgement> {
        return Judgement{.step_sec = step_sec(lowered.program)};
      }};
  absl::StatusOr<std::vector<Candidate>> found = SearchPlans(ConvolutionsAndDense(), options);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? *std::move(found) : std::vector<Candidate>{{}};
}

// On two of three devices named plans take `named_sec` for the second of those on three, and one with rows a tenth.
Candidate BestOfThreeOrTwo(double named_sec) {
  return Found(3,
               [named_sec](const Program& program) {
                 if (program.device_count != 2) return 1.0;
                 return HasRows(program) ? 0.1 : named_sec;
               })
      .front();
}

TEST(SearchPlans, ProposeForFewerDevicesWhereANamedPlanDoesNearlyAsWell) {
  const Candidate best = BestOfThreeOrTwo(1.05);
  EXPECT_EQ(best.judgement.step_sec, 0.1);
  EXPECT_EQ(best.plan.mesh.device_count(), 2);
}

TEST(SearchPlans, ProposeNothingForFewerDevicesWhereNamedPlansDoWorse) {
  EXPECT_EQ(BestOfThreeOrTwo(1.2).judgement.step_sec, 1.0);
}

TEST(SearchPlans, VaryTheReductionOfAProposal) {
  const auto step_sec = [](const Program& program) {
    if (!HasRows(program)) return 1.0;
    return ReductionsOfBuckets(program, program::CollectiveKind::kReduceScatter) > 0 ? 0.1 : 0.9;
  };
  const Candidate best = Found(2, step_sec).front();
  EXPECT_EQ(best.judgement.step_sec, 0.1);
  EXPECT_EQ(best.plan.reduction, Reduction::kSharded);
}

TEST(SearchPlans, VaryTheBucketsOfAProposal) {
  const auto step_sec = [](const Program& program) {
    if (!HasRows(program)) return 1.0;
    return ReductionsOfBuckets(program, program::CollectiveKind::kAllReduce) > 1 ? 0.1 : 0.9;
  };
  const Candidate best = Found(2, step_sec).front();
  EXPECT_EQ(best.judgement.step_sec, 0.1);
  EXPECT_LT(best.plan.bucket_bytes, Plan().bucket_bytes);
}

// Sums of the same times in another order are not another time.
TEST(SearchPlans, FasterIsMoreThanARounding) {
  const auto taking = [](double seconds) { return Candidate{.judgement = {.step_sec = seconds}}; };
  EXPECT_FALSE(FitsBetterOrIsFaster(taking(1 - 1e-9), taking(1)));
  EXPECT_TRUE(FitsBetterOrIsFaster(taking(1 - 1e-5), taking(1)));
  EXPECT_FALSE(FitsBetterOrIsFaster(taking(1), taking(1)));
}

TEST(SearchPlans, WhatFitsIsBetterThanWhatIsFasterAndElseWhatTakesLessMemory) {
  const auto taking = [](double seconds, int64_t bytes, bool fits) { return Candidate{{}, {seconds, bytes}, fits}; };
  EXPECT_TRUE(FitsBetterOrIsFaster(taking(2, 10, true), taking(1, 20, false)));
  EXPECT_FALSE(FitsBetterOrIsFaster(taking(1, 20, false), taking(2, 10, true)));
  EXPECT_TRUE(FitsBetterOrIsFaster(taking(2, 20, false), taking(1, 30, false)));
  EXPECT_FALSE(FitsBetterOrIsFaster(taking(1, 30, false), taking(2, 20, false)));
  EXPECT_FALSE(FitsBetterOrIsFaster(taking(1, 20, false), taking(2, 20, false)));
  EXPECT_TRUE(FitsBetterOrIsFaster(taking(1, 10, true), taking(2, 5, true)));
}

}  // namespace
}  // namespace colonnade::partition
