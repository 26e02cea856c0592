// What SearchPlans tries: for each kind of change, a judge under which that change alone wins.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "partition/planner.h"
#include "partition/planner/proposals.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using program::CollectiveKind;
using program::Program;
using program::Task;
using ::testing::Contains;
using ::testing::Field;

// Of a search where `seconds` judges; of named plans and what is made of them, unless proposals are asked for. Additive
// costs are flops and bytes.
PlannerOptions Options(int devices, const std::function<double(const Program&)>& seconds, int proposals = 0,
                       int most_judgements = 400) {
  return {.devices = devices,
          .lower = {.global_batch = 8},
          .cost =
              [](int) {
                return CostFunctions{.compute = [](const Task& task) { return static_cast<double>(task.work.flops); },
                                     .transfer = [](CollectiveKind, int, double bytes) { return bytes; }};
              },
          .judge = [seconds](const program::RepresentativeProgram& lowered) -> absl::StatusOr<Judgement> {
            return Judgement{seconds(lowered.program), 1};
          },
          .proposals_per_mesh = proposals,
          .most_judgements = most_judgements};
}

std::vector<Candidate> Search(const layers::LayerGraph& graph, const PlannerOptions& options) {
  absl::StatusOr<std::vector<Candidate>> found = SearchPlans(graph, options);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? *std::move(found) : std::vector<Candidate>(1);
}

// The winner first.
std::vector<Candidate> Search(const layers::LayerGraph& graph, int devices,
                              const std::function<double(const Program&)>& seconds, int proposals = 0,
                              int most_judgements = 400) {
  return Search(graph, Options(devices, seconds, proposals, most_judgements));
}

// The proposals: no named plan, and nothing varied.
std::vector<Plan> ProposalsIn(const std::vector<Candidate>& found) {
  const Plan usual;
  std::vector<Plan> proposals;
  for (const Candidate& candidate : found) {
    const Plan& plan = candidate.plan;
    const bool is_varied = plan.reduction != usual.reduction || plan.bucket_bytes != usual.bucket_bytes ||
                           plan.overlap != usual.overlap || plan.transfer_parts != usual.transfer_parts ||
                           !plan.device_order.empty();
    if (plan.name == kAutoPlan && !is_varied) proposals.push_back(plan);
  }
  return proposals;
}

int Count(const Program& program, const std::function<bool(const Task&)>& counts) {
  return static_cast<int>(std::count_if(program.tasks.begin(), program.tasks.end(), counts));
}

bool IsOfBucket(const Task& task, CollectiveKind kind) {
  const auto* collective = std::get_if<program::Collective>(&task.body);
  return collective != nullptr && collective->kind == kind && task.provenance.layer.starts_with("bucket");
}

TEST(SearchPlans, TriesEveryKindOfReduction) {
  const std::map<Reduction, CollectiveKind> kinds = {{Reduction::kAllReduce, CollectiveKind::kAllReduce},
                                                     {Reduction::kSharded, CollectiveKind::kReduceScatter},
                                                     {Reduction::kMaster, CollectiveKind::kReduce}};
  for (const auto& [reduction, kind] : kinds) {
    const Candidate best = Search(TwoLayers(), 2, [kind = kind](const Program& program) {
      return Count(program, [&](const Task& t) { return IsOfBucket(t, kind); }) > 0 ? 1.0 : 2.0;
    })[0];
    EXPECT_EQ(best.plan.reduction, reduction);
    EXPECT_EQ(best.judgement.step_sec, 1);
  }
}

// A search that tried other settings too would find that all-reduce is the fastest, and would judge more plans.
TEST(SearchPlans, WhatIsSetIsOfEveryPlanAndDecidesWhichIsTheBest) {
  const auto seconds = [](const Program& program) {
    const auto kinds = {CollectiveKind::kAllReduce, CollectiveKind::kReduce};
    for (double time = 1; CollectiveKind kind : kinds) {
      if (Count(program, [&](const Task& t) { return IsOfBucket(t, kind); }) > 0) return time;
      time = 3;
    }
    return 2.0;
  };
  PlannerOptions options = Options(2, seconds, /*proposals=*/4);
  const size_t freely = Search(TwoLayers(), options).size();
  EXPECT_EQ(Search(TwoLayers(), options)[0].judgement.step_sec, 1);
  options.settings = {.reduction = Reduction::kMaster,
                      .overlap = false,
                      .bucket_bytes = 1 << 12,
                      .piece_bytes = 1 << 11,
                      .transfer_parts = 2};
  const std::vector<Candidate> found = Search(TwoLayers(), options);
  EXPECT_EQ(found[0].judgement.step_sec, 2);
  EXPECT_LT(found.size(), freely);
  std::set<std::string> plans;
  for (Candidate candidate : found) {
    EXPECT_EQ(candidate.plan.reduction, Reduction::kMaster);
    EXPECT_FALSE(candidate.plan.overlap);
    EXPECT_EQ(candidate.plan.bucket_bytes, 1 << 12);
    EXPECT_EQ(candidate.plan.piece_bytes, 1 << 11);
    EXPECT_EQ(candidate.plan.transfer_parts, 2);
    candidate.plan.name.clear();
    EXPECT_TRUE(plans.insert(PlanToJson(candidate.plan)).second) << PlanToJson(candidate.plan);
  }
}

TEST(SearchPlans, TriesTransfersInLineWithCompute) {
  for (bool overlap : {true, false}) {
    const Candidate best = Search(TwoLayers(), 2, [&](const Program& program) {
      const auto moves = [](const Task& t) { return !std::holds_alternative<program::Compute>(t.body); };
      const bool apart = Count(program, [&](const Task& t) { return moves(t) && t.lane == program::Lane::kComm; }) > 0;
      return Count(program, moves) > 0 && apart == overlap ? 1.0 : 2.0;
    })[0];
    EXPECT_EQ(best.plan.overlap, overlap);
    EXPECT_EQ(best.judgement.step_sec, 1);
  }
}

TEST(SearchPlans, TriesTransfersInParts) {
  for (int parts : {1, 2, 4}) {
    const Candidate best = Search(TwoLayers(), 2, [&](const Program& program) {
      const auto multiplies = [](const Task& t) {
        const auto* compute = std::get_if<program::Compute>(&t.body);
        return t.device == 0 && compute && std::holds_alternative<program::FullyConnectedForward>(compute->op);
      };
      return Count(program, multiplies) == (parts == 1 ? 2 : 2 * parts) ? 1.0 : 2.0;
    })[0];
    EXPECT_EQ(best.plan.transfer_parts, parts);
    EXPECT_EQ(best.judgement.step_sec, 1);
  }
}

// Twelve layers of 4 MiB: buckets of 1, 8, 32 and 128 MiB hold one weight, two, eight and all.
TEST(SearchPlans, TriesEverySizeOfBuckets) {
  layers::GraphBuilder net("deep");
  auto x = net.Input("images", {1024});
  for (int i = 0; i < 12; ++i) x = net.FullyConnected(absl::StrCat("fc", i), x, {.out_features = 1024, .bias = false});
  net.SoftmaxCrossEntropy("loss", x);
  const layers::LayerGraph graph = Built(std::move(net));
  for (const auto& [mib, buckets] : std::map<int64_t, int>{{1, 12}, {8, 6}, {32, 2}, {128, 1}}) {
    const Candidate best = Search(
        graph, 2,
        [buckets = buckets](const Program& program) {
          const int reduced = Count(program, [](const Task& t) { return IsOfBucket(t, CollectiveKind::kAllReduce); });
          return reduced == buckets ? 1.0 : 2.0;  // of the device that stands for both
        },
        0, 1)[0];
    EXPECT_EQ(best.plan.bucket_bytes, mib << 20);
    EXPECT_EQ(best.judgement.step_sec, 1);
  }
}

// Activations between devices 0 and 2, which no named plan on 2 x 2 devices exchanges while its order is the identity.
TEST(SearchPlans, TriesTheOtherOrderOfDevices) {
  const std::vector<Candidate> found = Search(
      TwoLayers(), 4,
      [](const Program& program) {
        const int far = Count(program, [](const Task& t) {
          const auto* exchange = std::get_if<program::Exchange>(&t.body);
          return exchange != nullptr && t.device == 0 && exchange->peer == 2 && t.provenance.pass == program::Pass::kForward;
        });
        if (far > 0) return 1.0;
        return program.mesh.size() > 1 && program.mesh[0].size == 2 ? 2.0 : 3.0;  // so that a mesh of 2 x 2 is varied
      },
      0, 1);
  EXPECT_EQ(found[0].judgement.step_sec, 1);
  EXPECT_EQ(found[0].plan.device_order, (std::vector<int>{0, 2, 1, 3}));
}

std::optional<program::Shape> ShapeOfUse(const Program& program, const std::string& layer, size_t use) {
  for (const Task& task : program.tasks) {
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (compute == nullptr || task.provenance.layer != layer || task.provenance.pass != program::Pass::kForward) continue;
    if (std::holds_alternative<program::Copy>(compute->op)) continue;
    return program.buffer(task.uses[use].buffer).shape;
  }
  return std::nullopt;
}

// No named plan splits a layer by rows.
TEST(SearchPlans, ChangesSingleLayersOfTheWinner) {
  const auto rows_of_fc2 = [](const Program& program) {
    return ShapeOfUse(program, "fc2", 1) == program::Shape{4, 3} ? 1.0 : program.device_count == 2 ? 2.0 : 3.0;
  };
  const Candidate best = Search(TwoLayers(), 2, rows_of_fc2)[0];
  EXPECT_EQ(best.judgement.step_sec, 1);
  EXPECT_THAT(best.plan.layers.at("fc2"), Contains(kRow));
  EXPECT_EQ(best.plan.name, kAutoPlan);
  EXPECT_EQ(Search(TwoLayers(), 2, rows_of_fc2, 0, 1)[0].judgement.step_sec, 2) << "no more judgements than asked for";
}

// Whole batches in two layers together win, in one of them they cost as much as in none.
TEST(SearchPlans, ChangesNeighboursAlike) {
  layers::GraphBuilder net("three");
  auto x = net.Input("images", {4});
  for (const char* name : {"fc1", "fc2", "fc3"}) x = net.FullyConnected(name, x, {.out_features = 6});
  net.SoftmaxCrossEntropy("loss", x);
  const Candidate best = Search(Built(std::move(net)), 2, [](const Program& program) {
    if (program.device_count < 2) return 3.0;
    const bool whole =
        ShapeOfUse(program, "fc2", 1) == program::Shape{6, 6} && ShapeOfUse(program, "fc3", 1) == program::Shape{6, 6};
    const bool all_samples =
        ShapeOfUse(program, "fc2", 0) == program::Shape{8, 6} && ShapeOfUse(program, "fc3", 0) == program::Shape{8, 6};
    return whole && all_samples ? 1.0 : 2.0;
  })[0];
  EXPECT_EQ(best.judgement.step_sec, 1);
}

TEST(SearchPlans, ProposalsOfTheAdditiveCostAreJudged) {
  std::set<std::string> with, without;
  const auto record = [](std::set<std::string>& names) {
    return [&names](const Program& program) {
      names.insert(program.tasks.empty() ? "" : absl::StrCat(program.tasks.size(), " ", program.buffers.size()));
      return 1.0;
    };
  };
  Search(TwoLayers(), 4, record(without), 0, 1);
  Search(TwoLayers(), 4, record(with), 6, 1);
  EXPECT_GT(with.size(), without.size());
}

// Twelve readers of one value, of four strategies each: more than a table may hold.
TEST(SearchPlans, SaysWhereProposalsMayNotBeTheBest) {
  layers::GraphBuilder net("fan");
  const auto x = net.FullyConnected("fc", net.Input("images", {4}), {.out_features = 6});
  std::vector<layers::LayerId> read;
  for (int i = 0; i < 12; ++i) read.push_back(net.FullyConnected(absl::StrCat("fc", i), x, {.out_features = 6}));
  net.SoftmaxCrossEntropy("loss", net.Add("add", read));
  const auto notes = [](const layers::LayerGraph& graph) {
    std::set<std::string> notes;
    for (const Candidate& candidate : Search(
             graph, 2, [](const Program&) { return 1.0; }, 1, 1)) {
      if (candidate.plan.name == kAutoPlan) notes.insert(candidate.plan.notes.begin(), candidate.plan.notes.end());
    }
    return notes;
  };
  EXPECT_THAT(notes(Built(std::move(net))), ::testing::ElementsAre(::testing::HasSubstr("proposed by descent")));
  EXPECT_THAT(notes(TwoLayers()), ::testing::IsEmpty());
}

double Alike(const Program&) { return 1; }

// Of 64 samples, 64 numbers of each: 8 KB that a device sends where columns are cut, against 4 KB of gradients, so that
// "data" is the best, which no proposal differs from. Those of 8 samples are 1 KB, and columns proposed; as much were
// proposed for 64, were those of one micro-batch of eight counted alone.
TEST(SearchPlans, ProposalsArePricedForAllMicroBatches) {
  layers::GraphBuilder net("one");
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Input("images", {16}), {.out_features = 64, .bias = false}));
  const layers::LayerGraph graph = Built(std::move(net));
  PlannerOptions options = Options(2, Alike, /*proposals=*/1, /*most_judgements=*/4);
  const auto proposals_of = [&](int64_t batch, int64_t micro_batches) {
    options.lower.global_batch = batch;
    options.lower.micro_batches = micro_batches;
    return ProposalsIn(Search(graph, options)).size();
  };
  EXPECT_EQ(proposals_of(64, 1), 0u);
  EXPECT_EQ(proposals_of(64, 8), 0u);
  EXPECT_GT(proposals_of(8, 1), 0u);
}

// A step takes as long as it has tasks, so that all micro-batches behind the first take the same.
TEST(SearchPlans, ManyMicroBatchesAreJudgedByFew) {
  size_t most = 0;
  PlannerOptions options = Options(2, [&](const Program& program) {
    most = std::max(most, program.tasks.size());
    return static_cast<double>(program.tasks.size());
  });
  const auto single = [&](int64_t micro_batches) {
    options.lower.micro_batches = micro_batches;
    options.lower.global_batch = 8 * micro_batches;
    most = 0;
    for (const Candidate& candidate : Search(TwoLayers(), options)) {
      if (candidate.plan.name == "single") return candidate.judgement.step_sec;
    }
    return 0.0;
  };
  const double five = single(5);
  const size_t most_of_five = most;
  const double six = single(6), hundred = single(100);
  EXPECT_LT(most, most_of_five);
  EXPECT_GT(six, five);
  EXPECT_NEAR(hundred - six, 94 * (six - five), 1e-6);
}

// A quarter of each step.
TEST(SearchPlans, TheLeastTimeOfManyMicroBatchesIsThatOfAll) {
  PlannerOptions options = Options(2, Alike);
  options.judge = [](const program::RepresentativeProgram& lowered) -> absl::StatusOr<Judgement> {
    const auto tasks = static_cast<double>(lowered.program.tasks.size());
    return Judgement{.step_sec = tasks, .least_step_sec = tasks / 4};
  };
  options.lower.micro_batches = 100;
  options.lower.global_batch = 800;
  for (const Candidate& candidate : Search(TwoLayers(), options)) {
    EXPECT_EQ(candidate.judgement.least_step_sec, candidate.judgement.step_sec / 4);
  }
}

// Each has images and labels of its own, in two slots, which are there at once.
TEST(SearchPlans, ManyMicroBatchesTakeTheMemoryOfAll) {
  PlannerOptions options = Options(1, Alike);
  options.judge = [](const program::RepresentativeProgram&) -> absl::StatusOr<Judgement> {
    return Judgement{.step_sec = 1, .peak_memory_bytes = 1000};
  };
  const layers::LayerGraph graph = TwoLayers();
  const auto single = [&](int64_t micro_batches) {
    options.lower.micro_batches = micro_batches;
    options.lower.global_batch = 8 * micro_batches;
    return Search(graph, options).front();
  };
  const int64_t of_one = 2 * 8 * 4 * (program::ElementCount(graph.nodes[0].sample_shape) + 1);
  EXPECT_EQ(single(5).judgement.peak_memory_bytes, 1000);
  EXPECT_EQ(single(100).judgement.peak_memory_bytes, 1000 + 97 * of_one);
  options.memory_bytes = 1000 + 97 * of_one;
  EXPECT_TRUE(single(100).fits);
  options.memory_bytes -= 1;
  EXPECT_FALSE(single(100).fits);
}

TEST(SearchPlans, RefusesMicroBatchesThatDoNotDivideTheBatch) {
  PlannerOptions options = Options(2, Alike);
  for (int64_t micro_batches : {0, 3, -1}) {
    options.lower.micro_batches = micro_batches;
    EXPECT_EQ(SearchPlans(TwoLayers(), options).status().code(), absl::StatusCode::kFailedPrecondition) << micro_batches;
  }
}

// Half of what may be judged is left for what is made of the best.
TEST(SearchPlans, ProposalsAreHalfOfWhatIsJudged) {
  EXPECT_EQ(ProposalsIn(Search(TwoLayers(), Options(2, Alike, /*proposals=*/4, /*most_judgements=*/2))).size(), 1u);
  EXPECT_GT(ProposalsIn(Search(TwoLayers(), Options(2, Alike, /*proposals=*/4, /*most_judgements=*/400))).size(), 2u);
}

TEST(SearchPlans, EndsWhereItIsStoppedAlsoWhileItPricesProposals) {
  int judgements = 0, asked = 0;
  PlannerOptions options = Options(4, Alike, /*proposals=*/4);
  options.judge = [&](const program::RepresentativeProgram&) -> absl::StatusOr<Judgement> {
    ++judgements;
    return Judgement{1, 1};
  };
  options.cost = [&](int) -> absl::StatusOr<CostFunctions> {
    ADD_FAILURE() << "a mesh is priced after the search was stopped";
    return absl::InternalError("");
  };
  // The named plans are judged, and the next question is that of the first mesh.
  const auto count_named = [&] {
    PlannerOptions all = options;
    all.cost = [](int) -> absl::StatusOr<CostFunctions> { return absl::InternalError("priced"); };
    EXPECT_EQ(SearchPlans(TwoLayers(), all).status().message(), "priced");
    return std::exchange(judgements, 0);
  };
  const int named = count_named();
  options.is_stopped = [&] { return ++asked > named; };
  EXPECT_EQ(SearchPlans(TwoLayers(), options).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(judgements, named);
}

}  // namespace
}  // namespace colonnade::partition
