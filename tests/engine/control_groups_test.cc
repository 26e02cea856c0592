// Lists of groups as the two versions write them.
#include "engine/control_groups.h"

#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/folder.h"

namespace colonnade::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ControlGroups : public Folder {
 protected:
  std::vector<std::string> Of(const char* controller, const std::string& groups) const {
    std::ofstream(path_ + "/groups") << groups;
    return ControlGroupFolders(controller, path_ + "/groups", "/groups");
  }
};

TEST_F(ControlGroups, OfVersion2AreTheGroupAndThoseAboveIt) {
  EXPECT_THAT(Of("cpu", "0::/job/step\n"), ElementsAre("/groups/job/step", "/groups/job", "/groups"));
  EXPECT_THAT(Of("cpu", "0::/\n"), ElementsAre("/groups"));
}

TEST_F(ControlGroups, OfVersion1AreThoseOfTheControllersHierarchy) {
  const std::string groups = "5:memory:/own\n3:cpu,cpuacct:/own\n2:cpuset:/\n1:name=systemd:/own\n";
  EXPECT_THAT(Of("memory", groups), ElementsAre("/groups/memory/own", "/groups/memory"));
  EXPECT_THAT(Of("cpu", groups),
              ElementsAre("/groups/cpu,cpuacct/own", "/groups/cpu,cpuacct", "/groups/cpu/own", "/groups/cpu"));
  EXPECT_THAT(Of("pids", groups), IsEmpty());
}

TEST_F(ControlGroups, AreNoneWhereTheListIsMissingOrNone) {
  EXPECT_THAT(Of("cpu", "no list\n0::\n3:cpu:own\n\n"), IsEmpty());
  EXPECT_THAT(ControlGroupFolders("cpu", path_ + "/missing", "/groups"), IsEmpty());
}

TEST_F(ControlGroups, MayHaveColonsInTheirNames) {
  EXPECT_THAT(Of("cpu", "0::/a:b\n"), ElementsAre("/groups/a:b", "/groups"));
}

}  // namespace
}  // namespace colonnade::engine
