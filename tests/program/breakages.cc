#include "tests/program/breakages.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "program/verify.h"
#include "program/verify/rules.h"

namespace colonnade::program {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_P(VerifyFinds, TheBrokenRule) {
  Program program = GetParam().start();
  GetParam().apply(program);
  // The other rules may not look at a Program whose structure is broken, so `structure` is asked alone.
  const bool is_structure = GetParam().rule == std::string("structure");
  const absl::Status status = is_structure ? CheckStructure(program) : Verify(program);
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith(std::string(GetParam().rule) + ": "));
  EXPECT_EQ(Verify(program), status);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().says));
}

void ExpectVerified(const Program& program) {
  const absl::Status status = Verify(program);
  EXPECT_TRUE(status.ok()) << status;
}

Breakage Retyped(const char* name, const char* word, std::vector<int> uses, DType dtype, const char* says,
                 Program (*start)()) {
  return {name, "structure", says,
          [=](Program& p) {
            for (int use : uses) {
              BufferUse& changed = Find(p, word).uses[use];
              Buffer other = p.buffer(changed.buffer);
              other.id = other.layout_as = BufferId{static_cast<int32_t>(p.buffers.size())};
              other.name = absl::StrCat("other", use);
              other.storage = Root{};
              other.dtype = dtype;
              p.buffers.push_back(other);
              changed.buffer = other.id;
            }
          },
          start};
}

void PutInOneBuffer(Program& program, const char* word, const Shape& shape, const std::function<Region(int)>& sent,
                    const std::function<Region(int)>& received) {
  for (int m : {0, 1}) {
    Task& task = Find(program, word, program.groups[0][m]);
    Buffer both = program.buffer(task.uses[0].buffer);
    both.id = both.layout_as = BufferId{static_cast<int32_t>(program.buffers.size())};
    both.name = absl::StrCat(word, ".both");
    both.shape = shape;
    program.buffers.push_back(both);
    task.uses[0] = {both.id, sent(m), Access::kRead};
    task.uses[1] = {both.id, received(m), Access::kWrite};
  }
}

}  // namespace colonnade::program
