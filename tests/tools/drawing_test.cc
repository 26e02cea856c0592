// Drawings of plans: what they say of each device, and what a name may do to them.
#include "tools/drawing.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/folder.h"

namespace colonnade::tools {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct Drawn {
  layers::LayerGraph graph = *models::BuildModel("two_column", {});
  partition::Plan plan = *partition::NamedPlan("hybrid", graph, {.devices = 4, .global_batch = 64});
  program::Program program = *partition::Lower(graph, plan, {.global_batch = 64});
};

TEST(Drawing, TheFirstAndTheLastRowAreWhatADeviceHolds) {
  const Drawn drawn;
  const std::string text = PlanAsText(drawn.graph, drawn.plan, drawn.program);
  EXPECT_THAT(text, ContainsRegex("\nimages +[^\n]*\\[32,1,8,8\\]"));
  EXPECT_THAT(text, ContainsRegex("\nloss +[^\n]*\\[32\\]"));
  EXPECT_THAT(PlanAsDot(drawn.graph, drawn.plan, drawn.program), Not(HasSubstr("[64")));
}

TEST(Drawing, NamesCannotLeaveTheirQuotes) {
  Drawn drawn;
  drawn.plan.name = "x\"; URL=\"javascript:alert(1)\\";
  const std::string dot = PlanAsDot(drawn.graph, drawn.plan, drawn.program);
  EXPECT_THAT(dot, HasSubstr("under x\\\"; URL=\\\"javascript:alert(1)\\\\, batch"));
}

// With a PATH that holds one program `dot`, or none.
class DrawingWithoutGraphviz : public Folder {
 protected:
  DrawingWithoutGraphviz() : programs_(std::getenv("PATH")) { ::setenv("PATH", path_.c_str(), 1); }
  ~DrawingWithoutGraphviz() override { ::setenv("PATH", programs_.c_str(), 1); }
  absl::Status Draw(const std::string& name) const {
    const Drawn drawn;
    return DrawPlan(drawn.graph, drawn.plan, drawn.program, In(name));
  }
  const std::string programs_;
};

TEST_F(DrawingWithoutGraphviz, IsRefusedForSvgAndNotForDotOrText) {
  EXPECT_EQ(CheckCanDraw("p.svg").code(), absl::StatusCode::kUnavailable);
  const absl::Status svg = Draw("p.svg");
  EXPECT_EQ(svg.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(svg.message()), HasSubstr("not installed"));
  EXPECT_FALSE(std::filesystem::exists(In("p.svg")));
  ASSERT_TRUE(CheckCanDraw("p.dot").ok() && Draw("p.dot").ok());
  EXPECT_THAT(*engine::ReadFile(In("p.dot")), HasSubstr("digraph"));
  ASSERT_TRUE(CheckCanDraw("p.txt").ok() && Draw("p.txt").ok());
  EXPECT_THAT(*engine::ReadFile(In("p.txt")), HasSubstr("what one device holds"));
}

TEST_F(DrawingWithoutGraphviz, AFailureOfGraphvizIsNotItsAbsence) {
  ASSERT_TRUE(engine::ReplaceFile(In("dot"), "#!/bin/sh\nexit 3\n").ok());
  std::filesystem::permissions(In("dot"), std::filesystem::perms::owner_all);
  const absl::Status status = Draw("p.svg");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ended with 3"));
}

}  // namespace
}  // namespace colonnade::tools
