// What tests of the loops that are compiled for each instruction set begin with: which of them are here, random
// numbers, and a reason to skip the tests.
#ifndef COLONNADE_TESTS_CPU_LOOPS_FIXTURE_H_
#define COLONNADE_TESTS_CPU_LOOPS_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "cpu/ops/instruction_set.h"

namespace colonnade::cpu {

// Returns all loops that this processor can run, the widest last.
template <class Loops>
std::vector<const Loops*> AllOf(const Loops* avx512, const Loops* avx2) {
  std::vector<const Loops*> loops;
  if (HasAvx2()) loops.push_back(avx2);
  if (HasAvx512()) loops.push_back(avx512);
  return loops;
}

class LoopsFixture : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasAvx2() && !HasAvx512()) GTEST_SKIP() << "this processor has neither AVX-512 nor AVX2 with FMA";
  }

  int64_t Between(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  std::vector<float> Floats(int64_t count) {
    std::vector<float> floats(count);
    std::generate(floats.begin(), floats.end(), [&] { return std::uniform_real_distribution<float>(-1, 1)(random_); });
    return floats;
  }

 private:
  std::mt19937 random_{20261125};
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_TESTS_CPU_LOOPS_FIXTURE_H_
