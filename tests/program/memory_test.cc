#include "program/memory.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/verify.h"
#include "tests/program/sample_programs.h"
#include "tests/program/verify_memory_map.h"

namespace colonnade::program {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SizeOf Dense(const Program& program) {
  return [&program](const Buffer& buffer) { return DenseSizeOf(program, buffer); };
}

bool Share(const MemoryMap& map, BufferId a, BufferId b) {
  return map.offset[a.value] < map.offset[b.value] + map.size[b.value] &&
         map.offset[b.value] < map.offset[a.value] + map.size[a.value];
}

// x → y → z, the last step on `lane`; x and z could share memory if their tasks are ordered.
struct Chain {
  explicit Chain(Lane last = Lane::kCompute) {
    Builder b("chain", Mode::kTrain, 1, DType::kF32, {});
    x = b.AddBuffer(0, "x", DType::kF32, {100});
    y = b.AddBuffer(0, "y", DType::kF32, {100});
    z = b.AddBuffer(0, "z", DType::kF32, {100});
    b.AddCompute(0, Lane::kCompute, Load{0}, {b.Write(x)}, {}, {});
    b.AddCompute(0, Lane::kCompute, Copy{}, {b.Read(x), b.Write(y)}, {}, {});
    b.AddCompute(0, last, Copy{}, {b.Read(y), b.Write(z)}, {}, {});
    program = std::move(b).Build();
  }
  Program program;
  BufferId x, y, z;
};

TEST(PlaceBuffers, LifetimesApartShareBytes) {
  const Chain c;
  const MemoryMap map = PlaceBuffers(c.program, Dense(c.program));
  EXPECT_TRUE(Share(map, c.x, c.z));
  EXPECT_FALSE(Share(map, c.x, c.y));
  EXPECT_FALSE(Share(map, c.y, c.z));
  EXPECT_EQ(map.step_bytes[0], 448 + 400);  // 400 bytes rounded up to 64, then 400
  EXPECT_TRUE(VerifyMemoryMap(c.program, map).ok());
}

TEST(PlaceBuffers, TheLargestIsPlacedFirst) {
  Builder b("sizes", Mode::kTrain, 1, DType::kF32, {});
  const BufferId small = b.AddBuffer(0, "small", DType::kF32, {16}), large = b.AddBuffer(0, "large", DType::kF32, {32});
  b.AddCompute(0, Lane::kCompute, Copy{}, {b.Write(small), b.Write(large)}, {}, {});
  const Program program = std::move(b).Build();
  const MemoryMap map = PlaceBuffers(program, Dense(program));
  EXPECT_EQ(map.offset[large.value], 0);
  EXPECT_EQ(map.offset[small.value], 128);
}

TEST(PlaceBuffers, AcrossLanesOnlyWithWaits) {
  Chain c(Lane::kCopy);
  EXPECT_FALSE(Share(PlaceBuffers(c.program, Dense(c.program)), c.x, c.z)) << "nothing orders the lanes";
  c.program.tasks[2].waits = {TaskId{1}};
  EXPECT_FALSE(Share(PlaceBuffers(c.program, Dense(c.program)), c.x, c.z)) << "the next step may write x while z is written";
  c.program.tasks[0].waits_previous = {TaskId{2}};
  EXPECT_TRUE(Share(PlaceBuffers(c.program, Dense(c.program)), c.x, c.z));
}

// Devices that do alike may have buffers of other sizes: layouts are the backend's.
TEST(PlaceBuffers, ADeviceWithLargerBuffersHasPlacesOfItsOwn) {
  Builder b("two", Mode::kTrain, 1, DType::kF32, {{"data", 3}});
  std::vector<BufferId> x(3), y(3);
  for (int d = 0; d < 3; ++d) x[d] = b.AddBuffer(d, "x", DType::kF32, {16});
  for (int d = 0; d < 3; ++d) y[d] = b.AddBuffer(d, "y", DType::kF32, {16});
  for (int d = 0; d < 3; ++d) b.AddCompute(d, Lane::kCompute, Load{0}, {b.Write(x[d])}, {}, {});
  for (int d = 0; d < 3; ++d) b.AddCompute(d, Lane::kCompute, Copy{}, {b.Read(x[d]), b.Write(y[d])}, {}, {});
  const Program program = std::move(b).Build();
  const MemoryMap map = PlaceBuffers(program, [&](const Buffer& buffer) { return buffer.device == 1 ? 128 : 64; });
  EXPECT_THAT(map.step_bytes, ElementsAre(128, 256, 128));
  EXPECT_EQ(map.offset[y[1].value], 128);
  EXPECT_EQ(map.offset[y[2].value], map.offset[y[0].value]);
  EXPECT_TRUE(VerifyMemoryMap(program, map).ok()) << VerifyMemoryMap(program, map);
}

TEST(PlaceBuffers, TwoSlotsLieApartFromEachOtherAndFromAllElse) {
  Builder b("slots", Mode::kTrain, 1, DType::kF32, {});
  const BufferId x = b.AddLoaded(0, "x", DType::kF32, {100}), y = b.AddBuffer(0, "y", DType::kF32, {100});
  const BufferId z = b.AddBuffer(0, "z", DType::kF32, {100});
  b.AddCompute(0, Lane::kLoad, Load{0}, {b.Write(x)}, {}, {});
  b.AddCompute(0, Lane::kCompute, Copy{}, {b.Read(x), b.Write(y)}, {}, {});
  b.AddCompute(0, Lane::kCompute, Copy{}, {b.Read(y), b.Write(z)}, {}, {});
  Program program = std::move(b).Build();
  program.tasks[1].waits = {TaskId{0}};
  const MemoryMap map = PlaceBuffers(program, Dense(program));
  EXPECT_EQ(map.size[x.value], 2 * 448);  // each 400 bytes rounded up to 64
  EXPECT_FALSE(Share(map, x, y));
  EXPECT_FALSE(Share(map, x, z)) << "the next step's load may write while z is written";
  EXPECT_TRUE(VerifyMemoryMap(program, map).ok());
}

TEST(PlaceBuffers, UnusedBuffersHavePlaces) {
  Builder b("unused", Mode::kTrain, 1, DType::kF32, {});
  b.AddBuffer(0, "x", DType::kF32, {10});
  const Program program = std::move(b).Build();
  const MemoryMap map = PlaceBuffers(program, Dense(program));
  EXPECT_EQ(map.offset[0], 0);
  EXPECT_EQ(map.step_bytes[0], 40);
}

TEST(PlaceBuffers, ViewsAndMembersHaveNoPlaceOfTheirOwn) {
  Program program = TwoColumns();
  const MemoryMap map = PlaceBuffers(program, Dense(program), 128);
  for (const Buffer& buffer : program.buffers) {
    const int64_t offset = map.offset[buffer.id.value];
    EXPECT_EQ(offset < 0, RootOf(program, buffer.id) != buffer.id);
    if (offset >= 0) {
      EXPECT_EQ(offset % 128, 0);
    }
  }
  const int64_t bucket_bytes = 4 * (18 + 2 + 48);
  EXPECT_EQ(map.size[FindBuffer(program, "bucket0").id.value], bucket_bytes);
  EXPECT_EQ(map.persistent_bytes[1], 384 + bucket_bytes);
  EXPECT_TRUE(VerifyMemoryMap(program, map).ok());
}

TEST(DenseSizeOf, CountsTheHeldPartsOfABucket) {
  Builder b("bucket", Mode::kTrain, 1, DType::kF32, {});
  const BufferId bucket = b.AddBucket(
      {.name = "b", .parts = 4, .first_part = 1, .held_parts = 2, .member_names = {"m", "n"}, .member_shapes = {{7}, {2}}});
  const Program program = std::move(b).Build();
  EXPECT_EQ(DenseSizeOf(program, program.buffer(bucket)), 2 * 3 * 4);  // 9 elements in 4 parts: 3 each
}

TEST(VerifyMemoryMap, FindsSharedBytesWithoutOrder) {
  Chain c(Lane::kCopy);
  MemoryMap map = PlaceBuffers(c.program, Dense(c.program));
  EXPECT_TRUE(VerifyMemoryMap(c.program, map).ok());
  map.offset[c.z.value] = map.offset[c.x.value];
  EXPECT_THAT(std::string(VerifyMemoryMap(c.program, map).message()), HasSubstr("share bytes"));
  map.offset[c.z.value] = -1;
  EXPECT_THAT(std::string(VerifyMemoryMap(c.program, map).message()), HasSubstr("no place"));
}

TEST(VerifyMemoryMap, FindsPersistentBuffersThatOverlap) {
  Program program = TwoColumns();
  MemoryMap map = PlaceBuffers(program, Dense(program));
  map.offset[FindBuffer(program, "bucket0").id.value] = map.offset[FindBuffer(program, "bucket0.momentum").id.value];
  EXPECT_THAT(std::string(VerifyMemoryMap(program, map).message()), HasSubstr("outlive the step"));
}

class RandomPlacement : public ::testing::TestWithParam<int> {};

TEST_P(RandomPlacement, PassesVerifyMemoryMapAndSharesMemory) {
  const Program program = RandomLifetimes(GetParam(), 300);
  const absl::Status verified = Verify(program);
  ASSERT_TRUE(verified.ok()) << verified;
  const MemoryMap map = PlaceBuffers(program, Dense(program));
  const absl::Status status = VerifyMemoryMap(program, map);
  EXPECT_TRUE(status.ok()) << status;
  int64_t sum = 0;
  for (int64_t size : map.size) sum += size;
  EXPECT_LT(map.step_bytes[0], sum);
  // The same Program has the same places.
  EXPECT_EQ(PlaceBuffers(program, Dense(program)).offset, map.offset);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlacement, ::testing::Range(0, 8));

}  // namespace
}  // namespace colonnade::program
