// How long Verify takes as Programs grow. Time is that of the processor, the least of five runs, and bounds leave a factor
// of two and more, since other processes share the caches.
#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/boxes.h"
#include "program/builder.h"
#include "program/text.h"
#include "program/verify.h"

namespace colonnade::program {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Processor seconds of the fastest of five runs.
double Seconds(const std::function<void()>& run) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    const std::clock_t begin = std::clock();
    run();
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

// One buffer written box by box, then read as a whole.
Program InBoxes(const Shape& shape, const std::vector<Region>& boxes) {
  Builder b("boxes", Mode::kTrain, 1, DType::kF32, {});
  const BufferId from = b.AddBuffer(0, "from", DType::kF32, shape, Lifetime::kPersistent);
  const BufferId whole = b.AddBuffer(0, "whole", DType::kF32, shape);
  const BufferId to = b.AddBuffer(0, "to", DType::kF32, shape);
  for (const Region& box : boxes) {
    b.AddCompute(0, Lane::kCompute, Copy{}, {{from, box, Access::kRead}, {whole, box, Access::kWrite}}, {}, {"copy"});
  }
  b.AddCompute(0, Lane::kCompute, Copy{}, {b.Read(whole), b.Write(to)}, {}, {"read"});
  return std::move(b).Build();
}

// Overlapping boxes of many dimensions can cut what is left of a tensor into exponentially many.
TEST(VerifyTime, DoesNotExplodeWithOverlappingBoxesOfManyDimensions) {
  const auto program_of = [](int count) {
    std::mt19937 random(1);
    std::vector<Region> boxes;
    for (int i = 0; i < count; ++i) {
      Region& box = boxes.emplace_back();
      for (int d = 0; d < 8; ++d) {
        const int64_t begin = static_cast<int64_t>(random() % 6);
        box.offset.push_back(begin);
        box.size.push_back(3 + static_cast<int64_t>(random() % 3));
        box.size[d] = std::min(box.size[d], 8 - begin);
      }
    }
    return InBoxes(Shape(8, 8), boxes);
  };
  const Program few = program_of(40), many = program_of(160);
  EXPECT_THAT(std::string(Verify(many).message()), StartsWith("initialised"));
  const double seconds_few = Seconds([&] { (void)Verify(few); }), seconds_many = Seconds([&] { (void)Verify(many); });
  EXPECT_LT(seconds_many, 16 * seconds_few + 0.01);
}

// Every other box first, so that what is left on the way is in as many pieces as can be: four times the boxes may take eight
// times as long, but not sixteen times.
TEST(VerifyTime, GrowsWithTheNumberOfBoxesThatATensorIsCutInto) {
  const auto boxes_of = [](int64_t count) {
    std::vector<Region> boxes;
    for (int64_t first : {0, 1}) {
      for (int64_t i = first; i < count; i += 2) boxes.push_back({{i, 0, 0}, {1, 4, 4}});
    }
    return boxes;
  };
  const Program program = InBoxes({100, 4, 4}, boxes_of(100));
  EXPECT_TRUE(Verify(program).ok()) << Verify(program);
  const auto boxes_few = boxes_of(1500), boxes_many = boxes_of(6000);
  const auto left_of = [](const std::vector<Region>& boxes) {
    return Uncovered(Region::Whole({static_cast<int64_t>(boxes.size()), 4, 4}), boxes);
  };
  EXPECT_EQ(left_of(boxes_many).size(), 0);
  const double seconds_few = Seconds([&] { (void)left_of(boxes_few); });
  const double seconds_many = Seconds([&] { (void)left_of(boxes_many); });
  EXPECT_LT(seconds_many, 8 * seconds_few + 0.01);
}

}  // namespace
}  // namespace colonnade::program
