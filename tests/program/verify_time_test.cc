// How long Verify takes as Programs grow.
#include <algorithm>
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
#include "tests/processor_seconds.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

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
  Program program = std::move(b).Build();
  DeclareState(program);
  return program;
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
  const double seconds_few = ProcessorSeconds([&] { (void)Verify(few); }),
               seconds_many = ProcessorSeconds([&] { (void)Verify(many); });
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
  const double seconds_few = ProcessorSeconds([&] { (void)left_of(boxes_few); });
  const double seconds_many = ProcessorSeconds([&] { (void)left_of(boxes_many); });
  EXPECT_LT(seconds_many, 8 * seconds_few + 0.01);
}

// A sum may read one tensor any number of times, as may a sum of a network's layer in a file.
TEST(VerifyTime, GrowsWithTheNumberOfReadsOfOneBuffer) {
  const auto program_of = [](int count) {
    Builder b("reads", Mode::kTrain, 1, DType::kF32, {});
    const BufferId x = b.AddBuffer(0, "x", DType::kF32, {4}, Lifetime::kPersistent),
                   y = b.AddBuffer(0, "y", DType::kF32, {4});
    Uses uses(count, b.Read(x));
    uses.push_back(b.Write(y));
    b.AddCompute(0, Lane::kCompute, Sum{}, std::move(uses), {}, {"sum"});
    Program program = std::move(b).Build();
    DeclareState(program);
    return program;
  };
  const Program few = program_of(2000), many = program_of(16'000);
  EXPECT_TRUE(Verify(many).ok()) << Verify(many);
  const double seconds_few = ProcessorSeconds([&] { (void)Verify(few); }),
               seconds_many = ProcessorSeconds([&] { (void)Verify(many); });
  EXPECT_LT(seconds_many, 24 * seconds_few + 0.01);
}

}  // namespace
}  // namespace colonnade::program
