#include "program/meetings.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

TEST(Meetings, AComputationMeetsNobody) {
  const Program program = TwoColumns();
  const Meetings meetings(program);
  for (const Task& task : program.tasks) {
    if (!std::holds_alternative<Compute>(task.body)) continue;
    EXPECT_EQ(meetings.IndexOf(task.id), -1);
    EXPECT_THAT(meetings.SidesOf(task.id), ElementsAre(task.id));
  }
}

TEST(Meetings, AnExchangeAndACollectiveOfOneNumberAreTwoMeetings) {
  Program program = TwoColumns();
  for (int d : {0, 1}) {
    std::get<Exchange>(Find(program, "exchange", d).body).message = 7;
    std::get<Collective>(Find(program, "all_reduce", d).body).instance = 7;
  }
  const Meetings meetings(program);
  ASSERT_EQ(meetings.all().size(), 2u);
  int of_each[2] = {0, 0};
  for (const Meeting& meeting : meetings.all()) {
    const char* word = meeting.is_collective ? "all_reduce" : "exchange";
    ++of_each[meeting.is_collective];
    EXPECT_EQ(meeting.number, 7);
    std::vector<TaskId> sides = {Find(program, word, 0).id, Find(program, word, 1).id};
    std::sort(sides.begin(), sides.end());
    EXPECT_THAT(meeting.sides, ElementsAreArray(sides));
    for (TaskId side : sides) {
      EXPECT_EQ(&meetings.all()[meetings.IndexOf(side)], &meeting);
      EXPECT_THAT(meetings.SidesOf(side), ElementsAreArray(sides));
    }
  }
  EXPECT_EQ(of_each[0], 1);
  EXPECT_EQ(of_each[1], 1);
}

TEST(Meetings, ComeInTheOrderOfTheirFirstSides) {
  const Program program = EveryCollective();
  TaskId last;
  for (const Meeting& meeting : Meetings(program).all()) {
    EXPECT_LT(last, meeting.sides.front());
    last = meeting.sides.front();
  }
  EXPECT_TRUE(last.valid());
}

// The group of the sample is 1, 0: its first member is device 1.
TEST(Meetings, MembersAreThoseOfTheGroupInItsOrder) {
  Program program = EveryCollective();
  ASSERT_THAT(program.groups[0], ElementsAre(1, 0));
  const Meetings meetings(program);
  for (const Meeting& meeting : meetings.all()) {
    const std::vector<TaskId> members = ByMember(program, meeting.sides);
    ASSERT_EQ(members.size(), 2u);
    EXPECT_EQ(program.task(members[0]).device, 1);
    EXPECT_EQ(program.task(members[1]).device, 0);
  }
  program.groups[0].push_back(5);
  EXPECT_FALSE(ByMember(program, meetings.all()[0].sides)[2].valid());
}

}  // namespace
}  // namespace colonnade::program
