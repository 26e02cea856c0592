#include "program/formulas/philox.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "program/formulas/math.h"
#include "program/formulas/sgd.h"

namespace colonnade::program {
namespace {

void ExpectWords(const Philox4& found, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  EXPECT_EQ(found.v[0], a);
  EXPECT_EQ(found.v[1], b);
  EXPECT_EQ(found.v[2], c);
  EXPECT_EQ(found.v[3], d);
}

// The known answers of Random123, file kat_vectors, philox4x32 with 10 rounds.
TEST(Philox, GivesTheKnownAnswers) {
  ExpectWords(PhiloxRounds({{0, 0, 0, 0}}, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  const uint32_t f = 0xffffffff;
  ExpectWords(PhiloxRounds({{f, f, f, f}}, f, f), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
  ExpectWords(PhiloxRounds({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0), 0xd16cfe09,
              0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST(Philox, EachPartOfTheKeyChangesTheNumbers) {
  const Philox4 base = RandomBlock(1, RandomPurpose::kSyntheticData, 2, 3, 4);
  const Philox4 others[] = {RandomBlock(9, RandomPurpose::kSyntheticData, 2, 3, 4),
                            RandomBlock(1, RandomPurpose::kDropout, 2, 3, 4),
                            RandomBlock(1, RandomPurpose::kSyntheticData, 9, 3, 4),
                            RandomBlock(1, RandomPurpose::kSyntheticData, 2, 9, 4),
                            RandomBlock(1, RandomPurpose::kSyntheticData, 2, 3, 9),
                            RandomBlock(1 | uint64_t{1} << 40, RandomPurpose::kSyntheticData, 2, 3, 4)};
  for (const Philox4& other : others) EXPECT_NE(other.v[0], base.v[0]);
}

TEST(Philox, UniformNumbersLieInZeroToOne) {
  EXPECT_EQ(UniformFloat(0), 0.0f);
  EXPECT_LT(UniformFloat(0xffffffff), 1.0f);
  EXPECT_EQ(UniformDouble(0, 0), 0.0);
  EXPECT_LT(UniformDouble(0xffffffff, 0xffffffff), 1.0);
}

TEST(Philox, GaussianHasMeanZeroAndVarianceOne) {
  constexpr int kCount = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = Gaussian(42, RandomPurpose::kSyntheticData, 0, 0, i);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 4 / std::sqrt(kCount));  // four standard errors
  EXPECT_NEAR(squares / kCount, 1, 4 * std::sqrt(2.0 / kCount));
}

TEST(DropoutBlock, KeepsTheFractionThatTheRateLeaves) {
  constexpr int kBlocks = 25000;
  for (double rate : {0.0, 0.1, 0.5, 0.9}) {
    int kept[4] = {};
    for (int block = 0; block < kBlocks; ++block) {
      const Keep4 keep = DropoutBlock(7, 1, 0, block, rate);
      for (int i = 0; i < 4; ++i) kept[i] += keep.keep[i];
    }
    const double standard_error = std::sqrt(rate * (1 - rate) / kBlocks);
    for (int count : kept) EXPECT_NEAR(static_cast<double>(count) / kBlocks, 1 - rate, 4 * standard_error) << rate;
  }
}

TEST(DropoutBlock, DiffersFromStepToStepAndFromStreamToStream) {
  int same_step = 0, same_stream = 0;
  constexpr int kBlocks = 1000;
  for (int block = 0; block < kBlocks; ++block) {
    const bool base = DropoutBlock(7, 1, 0, block, 0.5).keep[0];
    same_step += DropoutBlock(7, 1, 1, block, 0.5).keep[0] == base;
    same_stream += DropoutBlock(7, 2, 0, block, 0.5).keep[0] == base;
  }
  EXPECT_NEAR(same_step, kBlocks / 2, 4 * std::sqrt(kBlocks) / 2);
  EXPECT_NEAR(same_stream, kBlocks / 2, 4 * std::sqrt(kBlocks) / 2);
}

TEST(Math, ElementWiseFormulas) {
  EXPECT_EQ(Relu(-1.0f), 0.0f);
  EXPECT_EQ(Relu(2.0f), 2.0f);
  EXPECT_EQ(ReluGradient(0.0, 3.0), 0.0);
  EXPECT_EQ(ReluGradient(0.5, 3.0), 3.0);
  EXPECT_EQ(Gelu(0.0), 0.0);
  EXPECT_DOUBLE_EQ(Gelu(1.0), 0.84134474606854293);    // Φ(1)
  EXPECT_DOUBLE_EQ(Gelu(-2.0), -0.04550026389635842);  // −2·Φ(−2)
  // Far below 1 the digits suffer by the argument's rounding alone: 81 times 2^-24.
  EXPECT_NEAR(Gelu(-9.0f) / -1.01572957e-18f, 1, 1e-5);
  EXPECT_EQ(GeluGradient(0.0, 2.0), 1.0);
  EXPECT_DOUBLE_EQ(GeluGradient(1.0, 2.0), 2 * (0.84134474606854293 + 0.24197072451914337));
  EXPECT_FALSE(IsFinite(Gelu(std::numeric_limits<float>::quiet_NaN())));
  double v = 2, w = 8;
  SgdStep(SgdForm::kKrizhevsky, 0.5, 0.25, 0.125, 4.0, v, w);  // v = 0.25·2 − 0.5·(0.125·8 + 4)
  EXPECT_EQ(v, -2.0);
  EXPECT_EQ(w, 6.0);
  EXPECT_TRUE(IsFinite(std::numeric_limits<float>::max()));
  EXPECT_FALSE(IsFinite(std::numeric_limits<float>::infinity()));
  EXPECT_FALSE(IsFinite(std::numeric_limits<double>::quiet_NaN()));
}

}  // namespace
}  // namespace colonnade::program
