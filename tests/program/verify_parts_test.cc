// What Verify says of buckets that are used part by part.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/verify.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Verify, AcceptsPartsOfBuckets) { EXPECT_TRUE(Verify(PartsOfBuckets()).ok()) << Verify(PartsOfBuckets()); }

// A part of a bucket that was received may be read though no member was written; all parts make up the members.
TEST(Verify, PartsInitialiseMembers) {
  Builder b("parts", Mode::kTrain, 1, DType::kF32, {});
  const auto bucket = [&](const char* name, Lifetime lifetime) {
    return b.AddBucket({.name = name,
                        .lifetime = lifetime,
                        .parts = 2,
                        .held_parts = 2,
                        .equal_parts = true,
                        .member_names = {absl::StrCat(name, ".m")},
                        .member_shapes = {{8}}});
  };
  const BufferId from = bucket("from", Lifetime::kPersistent), to = bucket("to", Lifetime::kStep);
  const BufferId member = std::get<Bucket>(b.buffer(to).storage).members[0];
  const BufferId y = b.AddBuffer(0, "y", DType::kF32, {8});
  for (int part : {0, 1}) {
    b.AddCompute(0, Lane::kCompute, Copy{}, {{from, {{part}, {1}}, Access::kRead}, {to, {{part}, {1}}, Access::kWrite}}, {},
                 {"copy"});
  }
  b.AddCompute(0, Lane::kCompute, Copy{}, {b.Read(member), b.Write(y)}, {}, {"read"});
  Program program = std::move(b).Build();
  DeclareState(program);
  EXPECT_TRUE(Verify(program).ok()) << Verify(program);
  program.tasks[1].uses[1].region.offset[0] = 0;  // part 1 of `to` stays unwritten
  EXPECT_THAT(std::string(Verify(program).message()), StartsWith("initialised: task 2"));
}

// Two buckets of two parts, one on each of two devices.
class TwoBuckets {
 public:
  explicit TwoBuckets(bool equal_parts) {
    for (int d : {0, 1}) {
      ids_[d] = builder.AddBucket({.device = d,
                                   .name = "b",
                                   .lifetime = Lifetime::kPersistent,
                                   .parts = 2,
                                   .held_parts = 2,
                                   .equal_parts = equal_parts,
                                   .member_names = {"b.m"},
                                   .member_shapes = {{8}}});
    }
  }
  BufferUse Part(int device, int part, Access access) const { return {ids_[device], {{part}, {1}}, access}; }
  BufferUse All(int device, Access access) const { return {ids_[device], {{0}, {2}}, access}; }
  // What is wrong with the collective whose members have these uses.
  std::string Problem(Collective what, const std::function<Uses(int device)>& uses) {
    std::vector<Member> members;
    for (int d : {0, 1}) members.push_back({.uses = uses(d)});
    builder.AddCollective(builder.AddGroup({0, 1}), what, std::move(members), Lane::kComm, {"b"});
    Program program = std::move(builder).Build();
    DeclareState(program);
    return std::string(Verify(program).message());
  }

  Builder builder{"parts", Mode::kTrain, 1, DType::kF32, {{"data", 2}}};

 private:
  BufferId ids_[2];
};

// Parts that differ in bytes are neither joined nor taken apart, and one is not used for another.
TEST(Verify, PartsThatMayDifferStayInTheirPlaces) {
  using enum Access;
  for (bool equal_parts : {false, true}) {
    const auto expected = [&](const char* problem) { return HasSubstr(equal_parts ? "" : problem); };
    TwoBuckets scatter(equal_parts), gather(equal_parts), turn(equal_parts), sum(equal_parts), same(equal_parts);
    EXPECT_THAT(scatter.Problem({.kind = CollectiveKind::kReduceScatter},
                                [&](int d) {
                                  return Uses{scatter.All(d, kRead), scatter.Part(d, d, kWrite)};
                                }),
                expected("takes it apart; expected equal parts"));
    EXPECT_THAT(gather.Problem({.kind = CollectiveKind::kAllGather},
                               [&](int d) {
                                 return Uses{gather.Part(d, d, kRead), gather.All(d, kWrite)};
                               }),
                expected("takes it apart; expected equal parts"));
    EXPECT_THAT(turn.Problem({.kind = CollectiveKind::kAllToAll},
                             [&](int d) {
                               return Uses{turn.All(d, kRead), turn.All(d, kWrite)};
                             }),
                expected("takes it apart; expected equal parts"));
    EXPECT_THAT(sum.Problem({.kind = CollectiveKind::kAllReduce}, [&](int d) { return Uses{sum.Part(d, d, kAccumulate)}; }),
                expected("brings"));
    EXPECT_EQ(same.Problem({.kind = CollectiveKind::kAllReduce}, [&](int d) { return Uses{same.Part(d, 1, kAccumulate)}; }),
              "");
    Program parts = PartsOfBuckets();
    for (Buffer& buffer : parts.buffers) {
      if (auto* bucket = std::get_if<Bucket>(&buffer.storage)) bucket->equal_parts = equal_parts;
    }
    for (Task& task : parts.tasks) task.uses.back().region.offset[0] ^= 1;
    EXPECT_THAT(std::string(Verify(parts).message()), expected("differ in element type, parts or members"));
  }
}

}  // namespace
}  // namespace colonnade::program
