// Collectives between peers: sums in the order of the members, and all-gathers of unequal parts.
#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/backend.h"
#include "cuda/ops/nccl.h"
#include "engine/loading.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "made_backend.h"
#include "tests/cpu/member_order.h"

namespace colonnade::cuda {
namespace {

std::vector<std::vector<double>> RunOnce(const conformance::OneCollective& one, const std::vector<std::vector<double>>& x,
                                         bool reach) {
  const int members = static_cast<int>(x.size());
  auto backend =
      MakeCudaBackend({.devices = members}, std::make_unique<HostCalls>(HostCallsOptions{.gpus = members, .reach = reach}));
  EXPECT_TRUE(backend.ok()) << backend.status();
  const engine::HostSlot slot = engine::SlotWithoutMemory(one.program), slots[2] = {slot, slot};
  const auto loaded = (*backend)->Load(one.program, slots);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return conformance::RunOnce(one, **loaded, x);
}

constexpr int64_t kFew = conformance::kElements, kMany = 10 * kFew;  // 11 KB, and more than a member sums by itself

TEST(CudaCollective, SumsAreInTheOrderOfTheMembers) {
  for (const program::CollectiveKind kind : conformance::kSums) {
    for (const bool reach : {true, false}) {
      for (const int members : {4, 17}) {  // 17: more than one kernel adds up
        for (const int64_t elements_of_member : {kFew / 4, kMany / 4}) {
          const int64_t elements = members * elements_of_member;
          const conformance::OneCollective one = conformance::SumOf(kind, members, elements);
          const auto x = conformance::NumbersWhoseSumsDependOnTheirOrder(members, elements);
          conformance::ExpectSumsInMemberOrder(one, x, RunOnce(one, x, reach));
        }
      }
    }
  }
}

TEST(CudaCollective, FewBytesAreSummedByEachMemberInTwoCalls) {
  for (const auto& [elements, reach, calls_of_member] :
       {std::tuple{kFew, true, 2}, std::tuple{kMany, true, 4}, std::tuple{kFew, false, 3 + 1 + 3}}) {
    const conformance::OneCollective one = conformance::SumOf(program::CollectiveKind::kAllReduce, 4, elements);
    auto calls = std::make_shared<HostCalls>(HostCallsOptions{.gpus = 4, .reach = reach});
    const auto backend = MakeCudaBackend({.devices = 4}, calls);
    ASSERT_TRUE(backend.ok()) << backend.status();
    const engine::HostSlot slot = engine::SlotWithoutMemory(one.program), slots[2] = {slot, slot};
    const auto loaded = (*backend)->Load(one.program, slots);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const size_t before = calls->noted().size();
    for (const program::Task& task : one.program.tasks) (*loaded)->Launch(task.id, 0);
    ASSERT_TRUE((*loaded)->Synchronize(0).ok());
    const auto& noted = calls->noted();
    EXPECT_EQ(
        std::count_if(noted.begin() + before, noted.end(), [](const Noted& n) { return n.kind == Noted::Kind::kCall; }),
        4 * calls_of_member)
        << elements << " elements, " << (reach ? "by reach" : "through workspaces");
  }
}

TEST(CudaCollective, AnAllGatherOfUnequalPartsPutsThemOneBehindTheOther) {
  for (const bool reach : {true, false}) {
    for (int dim = 0; dim < 2; ++dim) {
      const conformance::OneCollective one = conformance::UnequalGather(dim, {1, 5, 2});
      const auto x = conformance::NumbersOf(one);
      conformance::ExpectGathered(dim, {1, 5, 2}, x, RunOnce(one, x, reach));
    }
  }
}

// Two sums that are never compared may differ by the order in which NCCL adds.
TEST(EveryCopyHasOneSum, OnlyWhereASumHasAllThatHoldAParameterAndEachParameterHasOne) {
  program::Program program = Lowered("two_column", "data", 4, 16);
  EXPECT_TRUE(EveryCopyHasOneSum(program));
  program::Program halves = program;
  for (std::vector<int>& group : halves.groups) group.resize(2);
  EXPECT_FALSE(EveryCopyHasOneSum(halves)) << "devices 2 and 3 have the gradient of another sum";
  std::erase_if(program.tasks,
                [](const program::Task& task) { return std::holds_alternative<program::Collective>(task.body); });
  EXPECT_FALSE(EveryCopyHasOneSum(program)) << "no sum at all";
}

}  // namespace
}  // namespace colonnade::cuda
