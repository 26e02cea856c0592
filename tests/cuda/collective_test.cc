// Collectives between peers: sums in the order of the members, and all-gathers of unequal parts.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/backend.h"
#include "engine/loading.h"
#include "gtest/gtest.h"
#include "host_calls.h"
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

TEST(CudaCollective, SumsAreInTheOrderOfTheMembers) {
  for (const program::CollectiveKind kind : conformance::kSums) {
    for (const bool reach : {true, false}) {
      const conformance::OneCollective one = conformance::SumOf(kind, 4);
      const auto x = conformance::NumbersWhoseSumsDependOnTheirOrder(4, conformance::kElements);
      conformance::ExpectSumsInMemberOrder(one, x, RunOnce(one, x, reach));
    }
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

}  // namespace
}  // namespace colonnade::cuda
