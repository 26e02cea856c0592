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
    return ControlGroupFolders(controller, path_ + "/groups", "/root");
  }
};

TEST_F(ControlGroups, OfVersion2AreTheGroupAndThoseAboveIt) {
  EXPECT_THAT(Of("cpu", "0::/job/step\n"), ElementsAre("/root/job/step", "/root/job", "/root"));
  EXPECT_THAT(Of("cpu", "0::/\n"), ElementsAre("/root"));
}

TEST_F(ControlGroups, OfVersion1AreThoseOfTheControllersHierarchy) {
  const std::string groups = "5:memory:/own\n3:cpu,cpuacct:/own\n2:cpuset:/\n1:name=systemd:/own\n";
  EXPECT_THAT(Of("memory", groups), ElementsAre("/root/memory/own", "/root/memory"));
  EXPECT_THAT(Of("cpu", groups), ElementsAre("/root/cpu,cpuacct/own", "/root/cpu,cpuacct", "/root/cpu/own", "/root/cpu"));
  EXPECT_THAT(Of("pids", groups), IsEmpty());
}

TEST_F(ControlGroups, AreNoneWhereTheListIsMissingOrNone) {
  EXPECT_THAT(Of("cpu", "no list\n0::\n3:cpu:own\n\n"), IsEmpty());
  EXPECT_THAT(ControlGroupFolders("cpu", path_ + "/missing", "/root"), IsEmpty());
}

TEST_F(ControlGroups, MayHaveColonsInTheirNames) { EXPECT_THAT(Of("cpu", "0::/a:b\n"), ElementsAre("/root/a:b", "/root")); }

}  // namespace
}  // namespace colonnade::engine
