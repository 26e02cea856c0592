// Denormals are zeros to the kernels of every thread of a device, but to the reference's and to the host.
#include <vector>

#include "fixture.h"
#include "gtest/gtest.h"

namespace colonnade::cpu {
namespace {

using program::BufferId;
using program::DType;

// x, and x + x as a device computes it, where each x is `value`.
struct Doubled {
  std::vector<double> once, twice;
};
Doubled TwiceOf(double value, const CpuOptions& options) {
  constexpr int64_t kElements = 1 << 16;
  program::Builder builder = MakeBuilder(1);
  const BufferId x = builder.AddBuffer(0, "x", DType::kF32, {kElements}, program::Lifetime::kPersistent),
                 y = builder.AddBuffer(0, "y", DType::kF32, {kElements}, program::Lifetime::kPersistent);
  builder.AddCompute(0, program::Lane::kCompute, program::Sum{}, {builder.Read(x), builder.Read(x), builder.Write(y)}, {},
                     {"sum"});
  Session session(std::move(builder).Build(), options);
  EXPECT_TRUE(session.status().ok()) << session.status();
  session.Write(x, std::vector<double>(kElements, value));
  session.Launch(0);
  EXPECT_TRUE(session->Synchronize(0).ok());
  return {session.Read(x), session.Read(y)};
}

constexpr float kLeastNormal = 0x1p-126f, kDenormal = 0x1p-130f;

TEST(Denormals, AreZerosToEachThreadOfADevice) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "skipped: this processor is no x86";
#endif
  for (int threads : {1, 2, 3}) {
    const Doubled of_denormal = TwiceOf(kDenormal, {.threads_per_device = threads});
    EXPECT_EQ(of_denormal.once, std::vector<double>(of_denormal.once.size(), kDenormal)) << "what the host wrote";
    EXPECT_EQ(of_denormal.twice, std::vector<double>(of_denormal.twice.size(), 0)) << threads << " threads";
    const Doubled of_normal = TwiceOf(kLeastNormal, {.threads_per_device = threads});
    EXPECT_EQ(of_normal.twice, std::vector<double>(of_normal.twice.size(), 2 * kLeastNormal)) << threads << " threads";
  }
}

TEST(Denormals, AreNumbersToTheReferenceKernels) {
  const Doubled doubled = TwiceOf(kDenormal, {.kernels = CpuOptions::Kernels::kReference});
  EXPECT_EQ(doubled.twice, std::vector<double>(doubled.twice.size(), 2 * double{kDenormal}));
}

}  // namespace
}  // namespace colonnade::cpu
