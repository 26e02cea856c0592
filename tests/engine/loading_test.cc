// Memory of Programs on any backend: places, books, limits, and persistent tensors that Programs share.
#include "engine/loading.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "engine/layouts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/builder.h"

namespace colonnade::engine {
namespace {

using program::BufferId;
using program::DType;
using program::Lane;
using program::Lifetime;
using ::testing::HasSubstr;

// Gives memory of the host; refuses `refusals` requests from the `refused`-th, counted from 0.
Allocate HostMemory(int refused = -1, int refusals = 1) {
  return [=, requests = 0](int, int64_t bytes) mutable -> absl::StatusOr<Arena> {
    if (bytes == 0) return Arena();
    const int request = requests++;
    if (refused >= 0 && refused <= request && request < refused + refusals) return absl::ResourceExhaustedError("no more");
    return Arena(static_cast<char*>(std::calloc(1, bytes)), [](char* data) { std::free(data); });
  };
}

constexpr int64_t kAlignment = 64, kWorkspace = 1000;

// On each of two devices: y = w + v, of persistent w and v; 128 bytes each.
program::Program Sums() {
  program::Builder builder("sums", program::Mode::kTrain, 1, DType::kF32, {{"data", 2}});
  for (int d = 0; d < 2; ++d) {
    const BufferId w = builder.AddBuffer(d, "w", DType::kF32, {32}, Lifetime::kPersistent);
    const BufferId v = builder.AddBuffer(d, "v", DType::kF32, {4, 8}, Lifetime::kPersistent);
    const BufferId y = builder.AddBuffer(d, "y", DType::kF32, {32});
    builder.AddCompute(d, Lane::kCompute, program::Sum{}, {builder.Read(w), builder.Read(v), builder.Write(y)}, {}, {"sum"});
  }
  return std::move(builder).Build();
}

std::vector<int64_t> DenseBytes(const program::Program& program) {
  std::vector<int64_t> bytes;
  for (const program::Buffer& buffer : program.buffers) bytes.push_back(program::DenseSizeOf(program, buffer));
  return bytes;
}

std::vector<BucketLayout> DenseBuckets(const program::Program& program) {
  std::vector<BucketLayout> layouts(program.buffers.size());
  for (const program::Buffer& buffer : program.buffers) {
    const auto* bucket = std::get_if<program::Bucket>(&buffer.storage);
    if (bucket == nullptr) continue;
    std::vector<int64_t> bytes;
    for (BufferId member : bucket->members) bytes.push_back(program::DenseSizeOf(program, program.buffer(member)));
    layouts[buffer.id.value] = LayOutBucket(*bucket, std::move(bytes), kAlignment);
  }
  return layouts;
}

std::unique_ptr<ProgramMemory> Placed(const program::Program& program, MemoryBooks& books) {
  auto memory = std::make_unique<ProgramMemory>(program, books);
  std::vector<int64_t> bytes = DenseBytes(program);
  const std::vector<BucketLayout> buckets = DenseBuckets(program);
  for (const program::Buffer& buffer : program.buffers) {
    const auto* bucket = std::get_if<program::Bucket>(&buffer.storage);
    if (bucket != nullptr) bytes[buffer.id.value] = buckets[buffer.id.value].held_bytes(*bucket);
  }
  memory->Place(bytes, buckets, kAlignment);
  for (int d = 0; d < program.device_count; ++d) memory->WantWorkspace(d, 0, kWorkspace);
  return memory;
}

TEST(CheckDeviceCount, ABackendHasAtLeastAsManyDevicesAsAProgram) {
  EXPECT_TRUE(CheckDeviceCount(Sums(), 3).ok());
  EXPECT_TRUE(CheckDeviceCount(Sums(), 2).ok());
  EXPECT_EQ(CheckDeviceCount(Sums(), 1).message(), "the Program is for 2 devices, the backend has 1; make it with as many");
}

TEST(CheckLogicalAccess, IsOfAllElementsOfATensorThatIsNoBucket) {
  program::Builder builder("buffers", program::Mode::kTrain, 1, DType::kF32, {{"data", 1}});
  const BufferId x = builder.AddBuffer(0, "x", DType::kF32, {2, 3});
  const BufferId bucket = builder.AddBucket({.name = "bucket", .lifetime = Lifetime::kPersistent});
  const program::Program program = std::move(builder).Build();
  EXPECT_TRUE(CheckLogicalAccess(program, x, 24).ok());
  for (size_t bytes : {20, 25, 28}) EXPECT_FALSE(CheckLogicalAccess(program, x, bytes).ok()) << bytes;
  EXPECT_EQ(CheckLogicalAccess(program, x, 20).message(), "buffer x has 6 elements, not 5");
  EXPECT_EQ(CheckLogicalAccess(program, bucket, 0).message(), "buffer bucket is a bucket; its members have logical content");
}

TEST(Loading, ProgramsShareAllTheirMemoryAndPersistentBuffersStay) {
  const program::Program program = Sums();
  MemoryBooks books(2, 0, HostMemory());
  auto memory = Placed(program, books);
  ASSERT_TRUE(memory->Take().ok());
  EXPECT_EQ(memory->of(0).step_arena_bytes, 128);
  EXPECT_EQ(memory->of(0).persistent_bytes, 256);
  EXPECT_EQ(memory->of(0).workspace_bytes, kWorkspace);
  for (int d = 0; d < 2; ++d) EXPECT_EQ(books.taken_bytes(d), 128 + 256 + kWorkspace);
  auto other = Placed(program, books);
  ASSERT_TRUE(other->Take().ok());
  for (BufferId buffer : {BufferId{0}, BufferId{2}}) EXPECT_EQ(other->BaseOf(buffer), memory->BaseOf(buffer));
  EXPECT_EQ(other->workspace(0, 0), memory->workspace(0, 0));
  other.reset();
  for (int d = 0; d < 2; ++d) EXPECT_EQ(books.taken_bytes(d), 128 + 256 + kWorkspace);
  memory.reset();
  for (int d = 0; d < 2; ++d) EXPECT_EQ(books.taken_bytes(d), 256);
}

TEST(Loading, AreasGrowToTheLargestAndThoseWhoUseThemAreTold) {
  const program::Program program = Sums();
  MemoryBooks books(2, 0, HostMemory());
  auto small = Placed(program, books), large = Placed(program, books), late = Placed(program, books);
  large->WantWorkspace(0, 0, 3 * kWorkspace);
  int moves = 0;
  const auto count = [&moves](const absl::Status& room) { moves += room.ok() ? 1 : 100; };
  ASSERT_TRUE(small->Take().ok());
  small->OnMove(count);
  ASSERT_TRUE(large->Take().ok());
  EXPECT_EQ(moves, 1);
  large->OnMove(count);
  ASSERT_TRUE(late->Take().ok());
  EXPECT_EQ(moves, 1) << "there is room";
  EXPECT_EQ(small->workspace(0, 0), large->workspace(0, 0));
  EXPECT_EQ(books.taken_bytes(0), 128 + 256 + 3 * kWorkspace);
  EXPECT_EQ(books.taken_bytes(1), 128 + 256 + kWorkspace);
}

TEST(Loading, WhereThereIsNoRoomForALargerProgramTheOthersHaveTheirsAgainOrAreTold) {
  const program::Program program = Sums();
  constexpr int kTaken = 2 * (1 + 1 + 2);  // of each device: step buffers, a workspace, two persistent buffers
  for (int refusals : {1, 2}) {
    MemoryBooks books(2, 0, HostMemory(kTaken, refusals));
    auto small = Placed(program, books), large = Placed(program, books);
    large->WantWorkspace(0, 0, 3 * kWorkspace);
    absl::Status told = absl::UnknownError("not told");
    ASSERT_TRUE(small->Take().ok());
    small->OnMove([&told](const absl::Status& room) { told = room; });
    EXPECT_THAT(large->Take().message(), HasSubstr("workspace of device 0: no more"));
    EXPECT_EQ(told.code(), refusals == 1 ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted) << told;
    EXPECT_EQ(books.taken_bytes(0), 128 + 256 + (refusals == 1 ? kWorkspace : 0));
  }
}

TEST(Loading, ATurnIsAnothersWhereAnotherRanSince) {
  const program::Program program = Sums();
  MemoryBooks books(2, 0, HostMemory());
  auto a = Placed(program, books), b = Placed(program, books);
  ASSERT_TRUE(a->Take().ok() && b->Take().ok());
  EXPECT_TRUE(a->TakeTurn()) << "what ran before may have gone";
  EXPECT_FALSE(a->TakeTurn());
  EXPECT_TRUE(b->TakeTurn());
  EXPECT_FALSE(b->TakeTurn());
  EXPECT_TRUE(a->TakeTurn());
  a.reset();
  EXPECT_TRUE(b->TakeTurn()) << "steps of others may be under way behind a Program that went";
}

TEST(Loading, ARefusedAllocationLeavesTheBooksAsTheyWere) {
  const program::Program program = Sums();
  constexpr int kRequests = 2 * (1 + 1 + 2);  // of each device: step buffers, a workspace, two persistent buffers
  for (int refused = 0; refused < kRequests; ++refused) {
    MemoryBooks books(2, 0, HostMemory(refused));
    auto memory = Placed(program, books);
    EXPECT_EQ(memory->Take().code(), absl::StatusCode::kResourceExhausted);
    memory.reset();
    for (int d = 0; d < 2; ++d) EXPECT_EQ(books.taken_bytes(d), 0) << "refusal " << refused << ", device " << d;
    for (const program::Buffer& buffer : program.buffers) EXPECT_FALSE(books.HoldsPersistent(buffer.device, buffer.name));
    EXPECT_TRUE(Placed(program, books)->Take().ok());
  }
  MemoryBooks books(2, 0, HostMemory(kRequests));
  EXPECT_TRUE(Placed(program, books)->Take().ok());
}

TEST(Loading, ALimitAdmitsWhatFitsToTheByteAndSaysWhatDoesNot) {
  const program::Program program = Sums();
  constexpr int64_t kNeeded = 128 + 256 + kWorkspace;
  MemoryBooks enough(2, kNeeded, HostMemory()), tight(2, kNeeded - 1, HostMemory());
  auto memory = Placed(program, enough);
  EXPECT_TRUE(memory->Take().ok());
  EXPECT_EQ(Placed(program, tight)->Take().message(),
            "device 0 needs 1384 bytes (step buffers 128, persistent buffers 256, workspaces 1000, other Programs 0), its "
            "limit is 1383; use a smaller batch or more devices");
  EXPECT_EQ(tight.taken_bytes(0), 0);
  EXPECT_TRUE(Placed(program, enough)->Take().ok()) << "all of it is shared";
  // What others alone want counts, too.
  auto more = Placed(program, enough);
  more->WantWorkspace(0, 1, 10);
  EXPECT_THAT(more->Take().message(), HasSubstr("needs 1394 bytes"));
  program::Program other = program;
  for (program::Buffer& buffer : other.buffers) buffer.name += "2";
  EXPECT_THAT(Placed(other, enough)->Take().message(), HasSubstr("needs 1640 bytes"));
  EXPECT_THAT(Placed(other, enough)->Take().message(), HasSubstr("other Programs 256"));
  memory.reset();
  EXPECT_TRUE(Placed(program, enough)->Take().ok());
}

TEST(Loading, APersistentTensorThatIsHeldAsSomethingElseIsRefused) {
  const program::Program program = Sums();
  MemoryBooks books(2, 0, HostMemory());
  ASSERT_TRUE(Placed(program, books)->Take().ok());
  EXPECT_TRUE(books.CheckPersistentTensors(program).ok());
  const auto refusal = [&](auto change) {
    program::Program changed = program;
    change(changed.buffers[1]);
    EXPECT_EQ(Placed(changed, books)->Take(), books.CheckPersistentTensors(changed));
    return books.CheckPersistentTensors(changed);
  };
  const absl::Status shape = refusal([](program::Buffer& v) { v.shape = {8, 4}; });
  EXPECT_EQ(shape.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      shape.message(),
      "persistent tensor v of device 0: another Program on this backend holds f32[4,8] under this name, this one wants "
      "f32[8,4]; load it on a backend of its own");
  EXPECT_THAT(refusal([](program::Buffer& v) { v.dtype = DType::kI32; }).message(), HasSubstr("wants i32[4,8]"));
  // The same under another layout, which takes other bytes.
  ProgramMemory wider(program, books);
  std::vector<int64_t> bytes = DenseBytes(program);
  bytes[1] += 64;
  wider.Place(bytes, DenseBuckets(program), kAlignment);
  EXPECT_THAT(wider.Take().message(), HasSubstr("holds it in 128 bytes, the layout of this one takes 192"));
}

program::Builder::BucketSpec Weights(std::vector<program::Shape> shapes, int64_t first_part) {
  std::vector<std::string> names;
  for (size_t m = 0; m < shapes.size(); ++m) names.push_back("w" + std::to_string(m));
  return {.device = 0,
          .name = "weights",
          .dtype = DType::kF32,
          .lifetime = Lifetime::kPersistent,
          .parts = 3,
          .first_part = first_part,
          .held_parts = 1,
          .member_names = names,
          .member_shapes = std::move(shapes)};
}

program::Program OneBucket(const program::Builder::BucketSpec& spec) {
  program::Builder builder("bucket", program::Mode::kTrain, 1, DType::kF32, {{"data", 1}});
  builder.AddBucket(spec);
  return std::move(builder).Build();
}

TEST(Loading, ABucketIsHeldByItsPartsAndTheShapesOfItsMembers) {
  const program::Program program = OneBucket(Weights({{5, 7}, {11}}, 1));
  MemoryBooks books(1, 0, HostMemory());
  ASSERT_TRUE(Placed(program, books)->Take().ok());
  EXPECT_TRUE(books.CheckPersistentTensors(OneBucket(Weights({{5, 7}, {11}}, 1))).ok());
  program::Builder::BucketSpec other_names = Weights({{5, 7}, {11}}, 1);
  other_names.member_names[1] = "w2";
  for (const auto& other : {Weights({{5, 7}, {11}}, 2), Weights({{7, 5}, {11}}, 1), Weights({{5, 7}}, 1), other_names}) {
    const absl::Status refused = books.CheckPersistentTensors(OneBucket(other));
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_THAT(refused.message(),
                HasSubstr("of which it has parts [1, 2) of 3 of a bucket of w0[5,7] w1[11] under this name"));
  }
}

using Buckets = std::vector<std::vector<std::string>>;

// Parameters of 4 bytes, whose values lie in these buckets of equal parts or not.
program::Program InBuckets(const Buckets& buckets, int64_t parts = 1, bool equal_parts = false) {
  program::Builder builder("buckets", program::Mode::kTrain, 1, DType::kF32, {{"data", 1}});
  std::vector<program::Parameter> parameters;
  for (size_t b = 0; b < buckets.size(); ++b) {
    const BufferId id = builder.AddBucket({.name = "bucket" + std::to_string(b),
                                           .lifetime = Lifetime::kPersistent,
                                           .parts = parts,
                                           .held_parts = parts,
                                           .equal_parts = equal_parts,
                                           .member_names = buckets[b],
                                           .member_shapes = std::vector<program::Shape>(buckets[b].size(), {1})});
    const std::vector<BufferId> members = std::get<program::Bucket>(builder.buffer(id).storage).members;
    for (size_t m = 0; m < members.size(); ++m) {
      parameters.push_back({.name = buckets[b][m], .layer = "layer", .shape = {1}});
      parameters.back().value().push_back({members[m], {{0}, {1}}});
    }
  }
  program::Program program = std::move(builder).Build();
  program.parameters = std::move(parameters);
  return program;
}

// Where the memory of each bucket begins, counted from that of the first.
absl::StatusOr<std::vector<int64_t>> Begins(const program::Program& program, MemoryBooks& books) {
  auto memory = Placed(program, books);
  const absl::Status taken = memory->Take();
  if (!taken.ok()) return taken;
  std::vector<int64_t> begins;
  for (const program::Buffer& buffer : program.buffers) {
    if (std::holds_alternative<program::BucketMember>(buffer.storage)) continue;
    begins.push_back(memory->BaseOf(buffer.id) - memory->BaseOf(BufferId{0}));
  }
  return begins;
}

program::Program Roots(const std::vector<const char*>& names) {
  program::Builder builder("roots", program::Mode::kEval, 1, DType::kF32, {{"data", 1}});
  for (const char* name : names) builder.AddBuffer(0, name, DType::kF32, {1}, Lifetime::kPersistent);
  return std::move(builder).Build();
}

TEST(Loading, TensorsLieOneBehindTheOtherWhateverBucketsTheyAreIn) {
  MemoryBooks books(1, 0, HostMemory());
  EXPECT_EQ(*Begins(InBuckets({{"a", "b"}, {"c"}, {"d"}}), books), (std::vector<int64_t>{0, 128, 192}));
  const int64_t held = books.taken_bytes(0);
  EXPECT_EQ(held, 256);
  EXPECT_EQ(*Begins(InBuckets({{"a"}, {"b", "c"}, {"d"}}), books), (std::vector<int64_t>{0, 64, 192}));
  EXPECT_EQ(*Begins(InBuckets({{"a", "b", "c", "d"}}, 3), books), (std::vector<int64_t>{0}));
  EXPECT_EQ(*Begins(Roots({"a", "d"}), books), (std::vector<int64_t>{0, 192}));
  EXPECT_EQ(books.taken_bytes(0), held);
  const auto refusal = [&](const program::Program& program) {
    const absl::Status status = Begins(program, books).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(books.taken_bytes(0), held);
    return std::string(status.message());
  };
  EXPECT_EQ(
      refusal(InBuckets({{"b", "a"}})),
      "persistent tensor a of device 0: the bucket of this Program wants it 64 bytes behind b, another Program on this "
      "backend holds it elsewhere; load it on a backend of its own");
  EXPECT_THAT(refusal(InBuckets({{"a", "c"}})), HasSubstr("tensor c of device 0: the bucket of this Program wants it 64"));
  for (const Buckets& with_another : {Buckets{{"d", "e"}}, Buckets{{"e", "d"}}}) {
    EXPECT_THAT(refusal(InBuckets(with_another)),
                HasSubstr("tensor e of device 0: the Programs on this backend hold other"));
  }
  // The padding that makes parts equal would lie on what comes next.
  EXPECT_THAT(
      refusal(InBuckets({{"a", "b", "c"}}, 2, /*equal_parts=*/true)),
      HasSubstr("tensor c of device 0: another Program on this backend holds it with room for 64 bytes before the next "
                "tensor, the bucket of this one takes 128"));
  EXPECT_TRUE(Begins(InBuckets({{"a", "b"}, {"c", "d"}}, 2, /*equal_parts=*/true), books).ok());
}

// As a parameter that one Program has frozen and another trains.
TEST(Loading, ATensorAloneAndOneInABucketAreHeldAlike) {
  MemoryBooks alone_first(1, 0, HostMemory()), bucket_first(1, 0, HostMemory());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Begins(Roots({"a"}), alone_first).ok());
    EXPECT_TRUE(Begins(InBuckets({{"a"}}), alone_first).ok());
    EXPECT_TRUE(Begins(InBuckets({{"a"}}), bucket_first).ok());
    EXPECT_TRUE(Begins(Roots({"a"}), bucket_first).ok());
  }
  EXPECT_EQ(alone_first.taken_bytes(0), kAlignment);
  EXPECT_EQ(bucket_first.taken_bytes(0), kAlignment);
}

// Wherever an allocator puts memory: this one puts it side by side.
TEST(Loading, TensorsOfTwoMemoriesMakeNoBucket) {
  alignas(kAlignment) static char bytes[16 * kAlignment];
  MemoryBooks books(1, 0, [next = bytes](int, int64_t size) mutable -> absl::StatusOr<Arena> {
    return Arena(std::exchange(next, next + size), [](char*) {});
  });
  ASSERT_TRUE(Begins(Roots({"a", "b"}), books).ok());
  EXPECT_EQ(Begins(InBuckets({{"a", "b"}}), books).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Loading, WhatHasNoElementsOrNoMembersIsHeldToo) {
  MemoryBooks books(1, 0, HostMemory());
  program::Builder builder("empty", program::Mode::kEval, 1, DType::kF32, {{"data", 1}});
  builder.AddBuffer(0, "nothing", DType::kF32, {0}, Lifetime::kPersistent);
  builder.AddBucket({.name = "bucket", .lifetime = Lifetime::kPersistent});
  const program::Program program = std::move(builder).Build();
  EXPECT_TRUE(Begins(program, books).ok());
  const int64_t held = books.taken_bytes(0);
  EXPECT_TRUE(Begins(program, books).ok());
  EXPECT_EQ(books.taken_bytes(0), held);
}

TEST(Layouts, PartsAreAsEqualAsAlignmentAllowsOrPaddedUntilTheyAre) {
  const auto begins = [](int64_t members, int64_t parts, bool equal_parts) {
    const program::Bucket bucket{.parts = parts, .held_parts = parts, .equal_parts = equal_parts};
    const BucketLayout layout = LayOutBucket(bucket, std::vector<int64_t>(members, 4), kAlignment);
    std::vector<int64_t> begin;
    for (int64_t part = 0; part <= parts; ++part) begin.push_back(layout.part_begin(part) / kAlignment);
    EXPECT_EQ(layout.held_bytes(bucket), begin.back() * kAlignment);
    return begin;
  };
  EXPECT_EQ(begins(5, 3, false), (std::vector<int64_t>{0, 2, 4, 5}));
  EXPECT_EQ(begins(5, 3, true), (std::vector<int64_t>{0, 2, 4, 6}));
  EXPECT_EQ(begins(6, 3, false), begins(6, 3, true));
  EXPECT_EQ(begins(2, 3, false), (std::vector<int64_t>{0, 1, 2, 3})) << "no part is empty";
}

// How often each byte of a bucket's image is a member's or padding: of all parts, each held by one device.
TEST(Layouts, MembersAndThePaddingBehindThemCoverABucketOnce) {
  for (const std::vector<program::Shape>& shapes :
       {std::vector<program::Shape>{{5, 7}, {11}, {64}}, {{1}}, {{100}, {3, 3}, {1}, {1}}}) {
    for (bool equal_parts : {false, true}) {
      std::vector<int> covered;
      for (int64_t part = 0; part < 3; ++part) {
        program::Builder builder("bucket", program::Mode::kTrain, 1, DType::kF32, {{"data", 1}});
        program::Builder::BucketSpec spec = Weights(shapes, part);
        spec.lifetime = Lifetime::kStep;
        spec.equal_parts = equal_parts;
        const BufferId id = builder.AddBucket(spec);
        const std::vector<BufferId> members = std::get<program::Bucket>(builder.buffer(id).storage).members;
        for (BufferId member : members) {
          builder.AddCompute(0, Lane::kCompute, program::Copy{}, {builder.Write(member)}, {}, {"member"});
        }
        const program::Program program = std::move(builder).Build();
        const auto& bucket = std::get<program::Bucket>(program.buffer(id).storage);
        std::vector<int64_t> member_bytes;
        for (BufferId member : members) member_bytes.push_back(program::DenseSizeOf(program, program.buffer(member)));
        std::vector<BucketLayout> images(program.buffers.size());
        const BucketLayout& image = images[id.value] = LayOutBucket(bucket, member_bytes, kAlignment);
        EXPECT_EQ(image.part_begin(part) % kAlignment, 0);
        covered.resize(image.part_begin(3));
        for (const program::Task& task : program.tasks) {
          for (const ByteRange& range : PaddingBehind(program, images, task)) {
            for (int64_t i = 0; i < range.bytes; ++i) ++covered[image.part_begin(part) + range.begin + i];
          }
        }
        for (size_t m = 0; m < members.size(); ++m) {
          EXPECT_EQ(image.member_begin[m] % kAlignment, 0);
          const HeldBytes held =
              HeldBytesOf(image.member_begin[m] - image.held_begin(bucket), member_bytes[m], image.held_bytes(bucket));
          for (int64_t i = held.begin; i < held.end; ++i) ++covered[image.member_begin[m] + i];
        }
      }
      EXPECT_EQ(covered, std::vector<int>(covered.size(), 1));
    }
  }
}

// Members of 3 and 5 floats in units of 4, three units in parts of one: part 1 has the first unit of the second member.
TEST(MembersOf, OfPartsOfABucketAreThoseThatLieThereWithThePaddingBehindThem) {
  program::Builder builder("bucket", program::Mode::kTrain, 1, DType::kF32, {});
  const BufferId id = builder.AddBucket(
      {.name = "bucket", .parts = 3, .held_parts = 3, .member_names = {"a", "b"}, .member_shapes = {{3}, {5}}});
  const BufferId tensor = builder.AddBuffer(0, "tensor", DType::kF32, {2, 3});
  const program::Program program = std::move(builder).Build();
  std::vector<BucketLayout> layouts(program.buffers.size());
  layouts[id.value] = LayOutBucket(std::get<program::Bucket>(program.buffer(id).storage), {12, 20}, /*alignment=*/16);
  const auto found = [&](const program::BufferUse& use) {
    std::vector<std::vector<int64_t>> ranges;
    for (const MemberRange& range : MembersOf(program, layouts, use)) {
      ranges.push_back({range.member, range.begin, range.end});
    }
    return ranges;
  };
  using Ranges = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(found({id, {{0}, {3}}}), (Ranges{{0, 0, 4}, {1, 4, 12}}));
  EXPECT_EQ(found({id, {{0}, {1}}}), (Ranges{{0, 0, 4}}));
  EXPECT_EQ(found({id, {{1}, {2}}}), (Ranges{{1, 0, 8}}));
  EXPECT_EQ(found({tensor, {{0, 0}, {2, 3}}}), (Ranges{{0, 0, 6}}));
}

TEST(PaddingBehind, IsOfWhatIsWrittenAlone) {
  program::Builder builder("bucket", program::Mode::kTrain, 1, DType::kF32, {});
  const BufferId id =
      builder.AddBucket({.name = "bucket", .parts = 1, .held_parts = 1, .member_names = {"a"}, .member_shapes = {{3}}});
  const BufferId a = std::get<program::Bucket>(builder.buffer(id).storage).members[0];
  const BufferId tensor = builder.AddBuffer(0, "tensor", DType::kF32, {3});
  builder.AddCompute(0, Lane::kCompute, program::Copy{}, {builder.Read(a), builder.Write(tensor)}, {}, {"reads"});
  builder.AddCompute(0, Lane::kCompute, program::Copy{}, {builder.Read(tensor), builder.Write(a)}, {}, {"writes"});
  const program::Program program = std::move(builder).Build();
  std::vector<BucketLayout> layouts(program.buffers.size());
  layouts[id.value] = LayOutBucket(std::get<program::Bucket>(program.buffer(id).storage), {12}, /*alignment=*/16);
  EXPECT_TRUE(PaddingBehind(program, layouts, program.tasks[0]).empty());
  const std::vector<ByteRange> behind = PaddingBehind(program, layouts, program.tasks[1]);
  ASSERT_EQ(behind.size(), 1u);
  EXPECT_EQ(behind[0].begin, 12);
  EXPECT_EQ(behind[0].bytes, 4);
}

}  // namespace
}  // namespace colonnade::engine
