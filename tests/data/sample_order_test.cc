#include "data/sample_order.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::data {
namespace {

std::vector<int64_t> WholeOrder(uint64_t seed, int64_t epoch, int64_t size) {
  const SampleOrder order(seed, epoch, size);
  std::vector<int64_t> samples;
  for (int64_t place = 0; place < size; ++place) samples.push_back(order.At(place));
  return samples;
}

bool IsPermutation(std::vector<int64_t> samples) {
  std::sort(samples.begin(), samples.end());
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

// How far counts that are expected to be alike lie from that, in standard deviations of chi-square.
double ChiSquareDeviations(const std::vector<int64_t>& counts, double degrees) {
  double total = 0, chi = 0;
  for (int64_t count : counts) total += static_cast<double>(count);
  const double expected = total / static_cast<double>(counts.size());
  for (int64_t count : counts) chi += std::pow(static_cast<double>(count) - expected, 2) / expected;
  return (chi - degrees) / std::sqrt(2 * degrees);
}

TEST(SampleOrder, EachSampleHasOnePlace) {
  for (int64_t size = 1; size <= 300; ++size) EXPECT_TRUE(IsPermutation(WholeOrder(1, 0, size))) << size;
  for (int64_t size : {511, 512, 513, 1437, 4096, 5000, 65535, 65536, 65537, 100003}) {
    EXPECT_TRUE(IsPermutation(WholeOrder(3, 7, size))) << size;
  }
}

TEST(SampleOrder, SamplesOfAVeryLargeSetStayInIt) {
  const int64_t size = (int64_t{1} << 61) + 12345;
  const SampleOrder order(1, 0, size);
  std::vector<int64_t> samples;
  for (int64_t place = 0; place < 1000; ++place) {
    samples.push_back(order.At(place));
    EXPECT_GE(samples.back(), 0);
    EXPECT_LT(samples.back(), size);
  }
  std::sort(samples.begin(), samples.end());
  EXPECT_EQ(std::adjacent_find(samples.begin(), samples.end()), samples.end());
}

TEST(SampleOrder, EpochsAndSeedsHaveOrdersOfTheirOwn) {
  const std::vector<int64_t> order = WholeOrder(1, 0, 1000);
  EXPECT_EQ(WholeOrder(1, 0, 1000), order);
  for (const auto& other : {WholeOrder(1, 1, 1000), WholeOrder(2, 0, 1000), WholeOrder(1, int64_t{1} << 32, 1000)}) {
    int64_t at_their_places = 0;
    for (size_t i = 0; i < order.size(); ++i) at_their_places += order[i] == other[i];
    EXPECT_LE(at_their_places, 10);  // 1 is expected of two random orders
  }
}

TEST(SampleOrder, EverySampleComesAtEveryPlaceEquallyOften) {
  for (int64_t size : {2, 3, 5, 10, 37, 64, 100}) {
    std::vector<int64_t> counts(size * size);
    for (int64_t epoch = 0; epoch < 2000; ++epoch) {
      const SampleOrder order(9, epoch, size);
      for (int64_t place = 0; place < size; ++place) ++counts[place * size + order.At(place)];
    }
    EXPECT_LT(std::abs(ChiSquareDeviations(counts, static_cast<double>((size - 1) * (size - 1)))), 5) << size;
  }
}

TEST(SampleOrder, AllOrdersOfFewSamplesComeEquallyOften) {
  std::map<std::vector<int64_t>, int64_t> count_of;
  for (int64_t epoch = 0; epoch < 12000; ++epoch) ++count_of[WholeOrder(4, epoch, 4)];
  std::vector<int64_t> counts;
  for (const auto& [order, count] : count_of) counts.push_back(count);
  EXPECT_EQ(counts.size(), 24u);
  EXPECT_LT(std::abs(ChiSquareDeviations(counts, 23)), 5);
}

// A network of as few bits as 16 samples need would give even permutations alone.
TEST(SampleOrder, OddAndEvenOrdersOfFewSamplesComeEquallyOften) {
  std::vector<int64_t> counts(2);
  for (int64_t epoch = 0; epoch < 4000; ++epoch) {
    const std::vector<int64_t> order = WholeOrder(4, epoch, 16);
    int64_t inversions = 0;
    for (auto a = order.begin(); a != order.end(); ++a) {
      inversions += std::count_if(a, order.end(), [&](int64_t b) { return b < *a; });
    }
    ++counts[inversions % 2];
  }
  EXPECT_LT(std::abs(ChiSquareDeviations(counts, 1)), 5);
}

// Neighbours in a file, often of one class, do not stay neighbours: the differences of neighbouring places are those of
// random numbers.
TEST(SampleOrder, NeighboursAreTornApart) {
  constexpr int64_t kSize = 20000, kBins = 20;
  const std::vector<int64_t> order = WholeOrder(1, 0, kSize);
  std::vector<int64_t> counts(kBins);
  for (int64_t i = 1; i < kSize; ++i) ++counts[(order[i] - order[i - 1] + kSize) % kSize * kBins / kSize];
  EXPECT_LT(std::abs(ChiSquareDeviations(counts, kBins - 1)), 5);
}

}  // namespace
}  // namespace colonnade::data
