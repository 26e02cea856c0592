#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cuda/kernels.h"
#include "gtest/gtest.h"

namespace colonnade::cuda {
namespace {

template <class K>
void RunAll(const K& kernel) {
  for (int64_t i = 0; i < kernel.count(); ++i) kernel(i);
}

// A logit that has overflowed to −∞ is a part of its own here, and has no share.
TEST(Softmax, MinusInfinityHasProbabilityZero) {
  constexpr int64_t kClasses = 3;
  for (int64_t parts : {1, 2, 3}) {
    SCOPED_TRACE(parts);
    const float logits[kClasses] = {-std::numeric_limits<float>::infinity(), 0, 1};
    const int32_t label = 2;
    std::vector<SoftmaxPart> of_parts(parts), total(1);
    std::vector<SampleMetrics> metrics(1);
    float p[kClasses] = {};
    RunAll(SoftmaxParts<float>{1, kClasses, parts, logits, kClasses, 1, &label, 1, of_parts.data()});
    RunAll(SoftmaxTotals<float>{1, kClasses, parts, logits, kClasses, 1, &label, 1, of_parts.data(), total.data(),
                                metrics.data()});
    RunAll(SoftmaxElements<float>{1, kClasses, logits, kClasses, 1, total.data(), p, kClasses, 1});
    EXPECT_NEAR(metrics[0].loss, std::log(1 + std::exp(-1.0)), 1e-7);
    EXPECT_EQ(p[0], 0);
    EXPECT_NEAR(p[1] + p[2], 1, 1e-6);
  }
}

// Nothing but −∞ is no distribution: the loss says so, and the host stops.
TEST(Softmax, OnlyMinusInfinityIsNotFinite) {
  constexpr int64_t kClasses = 2;
  const float none = -std::numeric_limits<float>::infinity();
  const float logits[kClasses] = {none, none};
  const int32_t label = 0;
  std::vector<SoftmaxPart> parts(kClasses), total(1);
  std::vector<SampleMetrics> metrics(1);
  RunAll(SoftmaxParts<float>{1, kClasses, kClasses, logits, kClasses, 1, &label, 1, parts.data()});
  RunAll(SoftmaxTotals<float>{1, kClasses, kClasses, logits, kClasses, 1, &label, 1, parts.data(), total.data(),
                              metrics.data()});
  EXPECT_TRUE(std::isnan(metrics[0].loss));
}

}  // namespace
}  // namespace colonnade::cuda
