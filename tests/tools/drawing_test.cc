// Drawings of plans: what they say of each device, which rows they have, and what a name may do to them.
#include "tools/drawing.h"

#include <filesystem>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/folder.h"
#include "tests/read_file.h"
#include "tools/branch_lanes.h"
#include "tools/drawing_rows.h"

namespace colonnade::tools {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Drawn {
  explicit Drawn(const std::string& model = "two_column", const std::string& plan_name = "hybrid", int devices = 4,
                 int64_t batch = 64)
      : graph(*models::BuildModel(model, {})),
        plan(*partition::NamedPlan(plan_name, graph, {.devices = devices, .global_batch = batch})),
        program(*partition::Lower(graph, plan, {.global_batch = batch})) {}
  std::string Svg(const DrawingOptions& options = {}) const { return *PlanAsSvg(graph, plan, program, options); }
  DrawnPlan Rows(bool folds_blocks = true) const { return *RowsOfPlan(graph, plan, program, folds_blocks); }

  layers::LayerGraph graph;
  partition::Plan plan;
  program::Program program;
};

const DrawnRow& RowOf(const DrawnPlan& plan, absl::string_view name) {
  for (const DrawnRow& row : plan.rows) {
    if (row.name == name) return row;
  }
  ADD_FAILURE() << "no row " << name;
  return plan.rows[0];
}

TEST(Drawing, TheFirstAndTheLastRowAreWhatADeviceHolds) {
  const Drawn drawn;
  const std::string text = *PlanAsText(drawn.graph, drawn.plan, drawn.program);
  EXPECT_THAT(text, ContainsRegex("\nimages +[^\n]*\\[32,1,8,8\\]"));
  EXPECT_THAT(text, ContainsRegex("\nloss +[^\n]*\\[32\\]"));
  EXPECT_THAT(text, HasSubstr("\ngradients of bucket0:  backward all-reduce"));
  EXPECT_THAT(drawn.Svg(), Not(HasSubstr(">[64")));
}

// Whatever its plan is called, the first line is what a drawing that may be replaced begins with.
TEST(Drawing, ANameOfAPlanIsPartOfTheFirstLine) {
  Drawn drawn("lenet", "single", 1);
  drawn.plan.name = "a\n\x1b[31m";
  EXPECT_THAT(*PlanAsText(drawn.graph, drawn.plan, drawn.program),
              StartsWith("lenet under a\\n\\033[31m, batch 64, 1 device; what device 0 holds, and what moves\n"));
}

TEST(Drawing, ColumnsOfTextStandBelowEachOther) {
  const Drawn drawn("alexnet", "owt", 2, 32);
  const std::string text = *PlanAsText(drawn.graph, drawn.plan, drawn.program);
  EXPECT_THAT(text, ContainsRegex("\nfeatures.0    batch      \\[16,64,55,55\\]   \\[64,3,11,11\\]"));
  EXPECT_THAT(text, ContainsRegex("\nclassifier.1  column     \\[32,2048\\]       \\[2048,9216\\]"));
}

// A column of the fully connected layers for each device, the whole of the convolutions: Krizhevsky's one weird trick.
TEST(Drawing, OwtHoldsPartsOfWeightsAndReducesTheOthersGradients) {
  const DrawnPlan plan = Drawn("alexnet", "owt", 8, 512).Rows();
  const DrawnRow &conv = RowOf(plan, "features.3"), &fc = RowOf(plan, "classifier.1");
  for (int d = 0; d < 8; ++d) {
    EXPECT_EQ(conv.cells[d].parts, 1);
    EXPECT_EQ(conv.cells[d].weights, "[192,64,5,5]");
    EXPECT_EQ(fc.cells[d].part, d);
    EXPECT_EQ(fc.cells[d].output, "[512,512]");
    EXPECT_EQ(fc.cells[d].weights, "[512,9216]");
  }
  ASSERT_EQ(fc.moves.size(), 2u);
  EXPECT_EQ(fc.moves[0].kind, "all-gather");
  EXPECT_EQ(fc.moves[0].pass, program::Pass::kForward);
  EXPECT_EQ(fc.moves[0].most_bytes, 64 * 9216 * 4 * 7);
  EXPECT_EQ(fc.moves[1].kind, "reduce-scatter");
  ASSERT_EQ(plan.reductions.size(), 1u);
  EXPECT_EQ(plan.reductions[0].moves[0].kind, "all-reduce");
  std::vector<std::string> reduced;
  for (int row : plan.reductions[0].rows) reduced.push_back(plan.rows[row].name);
  EXPECT_THAT(reduced, ElementsAre("features.0", "features.3", "features.6", "features.8", "features.10"));
}

TEST(Drawing, StatisticsThatAreReducedTogetherAreNoGradients) {
  Drawn drawn("resnet20", "data", 2, 8);
  drawn.graph = *models::BuildModel("resnet20", {.samples_per_group = 2});
  drawn.program = *partition::Lower(drawn.graph, drawn.plan, {.global_batch = 8});
  EXPECT_THAT(*PlanAsText(drawn.graph, drawn.plan, drawn.program), HasSubstr("\nstatistics0:  forward all-reduce 11.0 kB"));
  const DrawnPlan plan = drawn.Rows(/*folds_blocks=*/false);
  ASSERT_EQ(plan.reductions.size(), 2u);
  for (const DrawnReduction& reduction : plan.reductions) {
    if (reduction.of_gradients) continue;
    EXPECT_EQ(reduction.rows.size(), 19u) << "of each normalisation";
    EXPECT_THAT(plan.rows[reduction.rows[0]].name, HasSubstr("bn1"));
  }
}

TEST(Drawing, ReplicasAreFramedAndTheirReductionsCrossThem) {
  const Drawn drawn;
  const std::string svg = drawn.Svg();
  EXPECT_THAT(svg, HasSubstr(">replica 1<"));
  EXPECT_THAT(svg, HasSubstr(">device 3<"));
  EXPECT_THAT(svg, HasSubstr(">reductions of gradients and statistics<"));
  EXPECT_THAT(drawn.Rows().reductions[0].moves[0].groups, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT(Drawn("two_column", "data", 4).Svg(), Not(HasSubstr(">replica ")));
  Drawn split = drawn;  // a layer of which the groups hold different parts
  split.plan.layers["fc5"] = {layers::Strategy::kColumn, layers::Strategy::kReplicate};
  split.program = *partition::Lower(split.graph, split.plan, {.global_batch = 64});
  EXPECT_THAT(split.Svg(), HasSubstr(">group 1<"));
}

TEST(Drawing, BlocksAreFoldedUnlessTheyAreToBeUnfolded) {
  const Drawn drawn("resnet50", "data", 2, 4);
  const DrawnPlan folded = drawn.Rows(), unfolded = drawn.Rows(false);
  EXPECT_EQ(unfolded.rows.size(), drawn.graph.nodes.size());
  EXPECT_LT(folded.rows.size(), 26u);
  const DrawnRow& block = RowOf(folded, "layer1.0");
  EXPECT_EQ(block.description, "block of 12 layers");
  EXPECT_EQ(block.cells[0].output, "[2,256,56,56]");
  EXPECT_EQ(RowOf(unfolded, "layer1.0.conv2").cells[1].weights, "[64,64,3,3]");
  int64_t of_folded = 0, of_unfolded = 0;
  for (const DrawnRow& row : folded.rows) {
    for (const Move& move : row.moves) of_folded += move.all_bytes;
  }
  for (const DrawnRow& row : unfolded.rows) {
    for (const Move& move : row.moves) of_unfolded += move.all_bytes;
  }
  EXPECT_EQ(of_folded, of_unfolded);
  EXPECT_THAT(drawn.Svg({.folds_blocks = false}), HasSubstr(">layer1.0.conv2<"));
}

// Some texts stand beside the rows, in the middle of those whose gradients are reduced together.
TEST(Drawing, NoCutGoesThroughATextOrABox) {
  for (const Drawn& drawn :
       {Drawn("resnet50", "data", 4, 4), Drawn("alexnet", "owt", 8), Drawn("resnet18", "hybrid", 4, 4)}) {
    const PlanPicture picture = *PictureOfPlan(drawn.graph, drawn.plan, drawn.program);
    EXPECT_GT(picture.cuts.size(), drawn.Rows().rows.size() / 2);
    std::vector<std::pair<double, double>> extents;
    const std::regex text("<text x=\"[^\"]*\" y=\"([^\"]*)\""), box("<rect [^>]*y=\"([^\"]*)\" [^>]*height=\"34.0\"");
    for (std::sregex_iterator match(picture.svg.begin(), picture.svg.end(), text), end; match != end; ++match) {
      const double y = std::stod((*match)[1]);
      extents.emplace_back(y - 9, y + 2);
    }
    const size_t texts = extents.size();
    for (std::sregex_iterator match(picture.svg.begin(), picture.svg.end(), box), end; match != end; ++match) {
      const double y = std::stod((*match)[1]);
      extents.emplace_back(y, y + 34);
    }
    ASSERT_GT(texts, 50u);
    ASSERT_GT(extents.size(), texts);
    for (double cut : picture.cuts) {
      for (const auto& [top, bottom] : extents)
        EXPECT_FALSE(top < cut && cut < bottom) << cut << " in " << top << ", " << bottom;
    }
  }
}

TEST(Drawing, OfManyDevicesWholeReplicasAreShown) {
  const std::string svg = Drawn("two_column", "hybrid", 32, 64).Svg();
  EXPECT_THAT(svg, HasSubstr("the first 16 are drawn"));
  EXPECT_THAT(svg, HasSubstr(">device 15<"));
  EXPECT_THAT(svg, Not(HasSubstr(">device 16<")));
}

TEST(Drawing, NamesAreEscaped) {
  Drawn drawn;
  drawn.plan.name = "x\"><script>alert(1)</script>&\x01\xff";
  const std::string svg = drawn.Svg();
  EXPECT_THAT(
      svg, HasSubstr("under x&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;\xEF\xBF\xBD\xEF\xBF\xBD, global batch"));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
}

// Two branches and an edge that passes by both.
TEST(BranchLanes, NothingSharesALaneSideBySide) {
  const BranchLanes lanes = LayOutBranches({{}, {0}, {1}, {0}, {2, 3, 0}, {4}});
  EXPECT_THAT(lanes.lane_of, ElementsAre(0, 0, 0, 1, 0, 0));
  EXPECT_EQ(lanes.count, 3);
  std::vector<int> passing;
  for (const LaneEdge& edge : lanes.edges) {
    if (edge.from == 0 && edge.to >= 3) passing.push_back(edge.lane);
  }
  EXPECT_THAT(passing, ElementsAre(1, 2));
  EXPECT_EQ(LayOutBranches({{}, {0}, {1}}).count, 1);
}

class DrawingFile : public Folder {};

TEST_F(DrawingFile, IsSvgOrTextAndNoLongerGraphviz) {
  const Drawn drawn;
  const auto draw = [&](const std::string& name) { return DrawPlan(drawn.graph, drawn.plan, drawn.program, In(name)); };
  ASSERT_TRUE(draw("p.svg").ok() && draw("p.txt").ok());
  EXPECT_EQ(*engine::ReadFile(In("p.svg")), drawn.Svg());
  EXPECT_THAT(*engine::ReadFile(In("p.txt")), HasSubstr("what device 0 holds"));
  EXPECT_EQ(draw("p.dot").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(std::filesystem::exists(In("p.dot")));
}

}  // namespace
}  // namespace colonnade::tools
