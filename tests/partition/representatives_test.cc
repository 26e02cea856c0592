// What stands for all devices against the whole Program: tasks, predicted steps, bytes and memory.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "engine/simulator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/traits.h"
#include "partition/lower.h"
#include "program/representative_program.h"
#include "tests/engine/on_a_switch.h"
#include "tests/partition/lowered.h"
#include "tests/partition/random_case.h"
#include "tests/sanitized.h"

namespace colonnade::partition {
namespace {

using program::RepresentativeProgram;
using program::Task;

struct Case {
  layers::LayerGraph graph;
  Plan plan;
  LowerOptions options;
};

// A random network under a random plan on up to 64 devices.
Case DrawCase(Random& random) {
  const std::vector<std::pair<int64_t, int64_t>> meshes = {{1, 2}, {3, 1},  {4, 1}, {2, 2}, {2, 4},  {8, 1}, {4, 4},
                                                           {1, 6}, {16, 2}, {8, 4}, {8, 8}, {16, 4}, {64, 1}};
  const auto [outer, inner] = Pick(random, meshes);
  absl::StatusOr<RandomNetwork> network = NetworkDrawer(random, false).Draw();
  EXPECT_TRUE(network.ok()) << network.status();
  int64_t batch = outer * inner * (1 + static_cast<int64_t>(random() % 2));
  for (const layers::LayerNode& node : network->graph.nodes) {
    const int64_t group = layers::TraitsOf(node.layer).samples_per_group;
    if (group > 0 && batch % group != 0) batch *= group;
  }
  Case drawn{.graph = std::move(network->graph), .plan = {}, .options = {.global_batch = batch}};
  drawn.plan = DrawPlan(random, drawn.graph, outer, inner, batch);
  drawn.options.global_batch *= DrawParts(random, drawn.plan);
  if (random() % 3 == 0) drawn.options.update.clip_norm = 1;
  if (random() % 3 == 0) drawn.options.update.average_decay = 0.9;
  return drawn;
}

// Nodes of eight with a link of 2 GB/s, and a host that loads over these, or none.
engine::Machine Nodes(int devices, engine::CollectiveAlgorithm collectives, bool has_host) {
  engine::Machine machine = engine::InNodes(devices);
  machine.launch_sec.value = 2e-6;
  machine.collectives = collectives;
  if (has_host) machine.links.push_back({.a = "network", .b = "host", .bytes_per_sec = {4e9}, .latency_sec = {1e-6}});
  return machine;
}

double Seconds(const absl::StatusOr<engine::Simulation>& simulation) {
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  return simulation.ok() ? absl::ToDoubleSeconds(simulation->step) : 0;
}

std::vector<const Task*> TasksOfDevice(const program::Program& program, int device) {
  std::vector<const Task*> tasks;
  for (const Task& task : program.tasks) {
    if (task.device == device) tasks.push_back(&task);
  }
  return tasks;
}

// What a device does among those that stand for others, and in the whole.
void ExpectTheSame(const program::Program& few, const program::Program& whole, int device) {
  const std::vector<const Task*> mine = TasksOfDevice(few, device), all = TasksOfDevice(whole, device);
  ASSERT_EQ(mine.size(), all.size());
  for (size_t i = 0; i < mine.size(); ++i) {
    const Task &a = *mine[i], &b = *all[i];
    EXPECT_EQ(program::Name(a), program::Name(b));
    EXPECT_EQ(a.lane, b.lane);
    EXPECT_EQ(a.work, b.work);
    EXPECT_EQ(a.waits.size(), b.waits.size());
    EXPECT_EQ(a.waits_previous.size(), b.waits_previous.size());
    ASSERT_EQ(a.uses.size(), b.uses.size());
    for (size_t u = 0; u < a.uses.size(); ++u) {
      EXPECT_EQ(a.uses[u].region, b.uses[u].region);
      EXPECT_EQ(a.uses[u].access, b.uses[u].access);
      EXPECT_EQ(few.buffer(a.uses[u].buffer).name, whole.buffer(b.uses[u].buffer).name);
    }
    if (const auto* collective = std::get_if<program::Collective>(&a.body)) {
      EXPECT_EQ(few.groups[collective->group], whole.groups[std::get<program::Collective>(b.body).group]);
    }
  }
}

// By device, which one stands for it.
std::vector<int> RepresentativeOf(const RepresentativeProgram& few) {
  std::vector<int> of(few.stands_for.size(), -1);
  for (size_t device = 0; device < of.size(); ++device) {
    for (int other : few.stands_for[device]) of[other] = static_cast<int>(device);
  }
  return of;
}

// What stands for those whom a task meets: for the members of its group in their order, or for the two of an exchange.
std::vector<int> StandForMet(const std::vector<int>& representative, const program::Program& whole, const Task& task) {
  std::vector<int> met;
  if (const auto* collective = std::get_if<program::Collective>(&task.body)) {
    for (int member : whole.groups[collective->group]) met.push_back(representative[member]);
  } else if (const auto* exchange = std::get_if<program::Exchange>(&task.body)) {
    met = {representative[task.device], representative[exchange->peer]};
    std::sort(met.begin(), met.end());
  }
  return met;
}

// Where those are among tasks in the order of their ids; others are left out.
std::vector<int64_t> Places(const std::vector<const Task*>& tasks, absl::Span<const program::TaskId> ids) {
  std::vector<int64_t> places;
  for (program::TaskId id : ids) {
    const auto at = std::lower_bound(tasks.begin(), tasks.end(), id.value,
                                     [](const Task* task, int32_t value) { return task->id.value < value; });
    if (at != tasks.end() && (*at)->id == id) places.push_back(at - tasks.begin());
  }
  std::sort(places.begin(), places.end());
  return places;
}

// A device waits for the same tasks as the one that stands for it, and meets such as that one does.
void ExpectStoodFor(const std::vector<int>& representative, const program::Program& whole, int device) {
  std::vector<const Task*> mine = TasksOfDevice(whole, device), its = TasksOfDevice(whole, representative[device]);
  // One device alone stores the metrics.
  const auto is_store = [](const Task* task) { return task->provenance.pass == program::Pass::kOutput; };
  std::erase_if(mine, is_store);
  std::erase_if(its, is_store);
  ASSERT_EQ(mine.size(), its.size());
  for (size_t i = 0; i < mine.size(); ++i) {
    const std::string where = absl::StrFormat("device %d, task %d: %s", device, i, program::Name(*mine[i]));
    EXPECT_EQ(Places(mine, mine[i]->waits), Places(its, its[i]->waits)) << where;
    EXPECT_EQ(Places(mine, mine[i]->waits_previous), Places(its, its[i]->waits_previous)) << where;
    EXPECT_EQ(StandForMet(representative, whole, *mine[i]), StandForMet(representative, whole, *its[i])) << where;
  }
}

class StandForAll : public ::testing::TestWithParam<engine::CollectiveAlgorithm> {};

TEST_P(StandForAll, InRandomNetworksUnderRandomPlans) {
  Random random(static_cast<uint64_t>(GetParam()) + 1), terms(7);
  int with_several = 0, smaller = 0;
  double worst = 0;
  for (int draw = 0; draw < Draws(40); ++draw) {
    Case drawn = DrawCase(random);
    const bool on_a_switch = random() % 2;
    const int devices = drawn.plan.mesh.device_count();
    engine::Machine machine = on_a_switch ? engine::OnASwitch(devices, 1e-6) : Nodes(devices, GetParam(), random() % 2 != 0);
    if (terms() % 4 == 0) machine.slower = {{machine.devices[terms() % devices], 1.2}};
    const absl::StatusOr<engine::Simulator> simulator = engine::Simulator::Create(machine, devices);
    ASSERT_TRUE(simulator.ok()) << simulator.status();
    const program::Program whole = Lowered(drawn.graph, drawn.plan, drawn.options);
    const absl::StatusOr<RepresentativeProgram> few =
        LowerRepresentatives(drawn.graph, drawn.plan, drawn.options, simulator->GroupClassifier());
    ASSERT_TRUE(few.ok()) << few.status();
    const std::vector<int> representative = RepresentativeOf(*few);
    int stood_for = 0, standing = 0;
    for (int device = 0; device < devices; ++device) {
      ExpectStoodFor(representative, whole, device);
      stood_for += static_cast<int>(few->stands_for[device].size());
      if (few->stands_for[device].empty()) continue;
      ++standing;
      ExpectTheSame(few->program, whole, device);
    }
    EXPECT_EQ(stood_for, devices);
    with_several += standing > 1;
    smaller += few->program.tasks.size() < whole.tasks.size();

    machine.collectives = GetParam();
    if (random() % 4 == 0) machine.cores.value = devices;  // shared by all
    if (terms() % 4 == 0) machine.step_sec_per_task.value = 1e-6;
    if (terms() % 4 == 0) machine.overlap_slowdown.value = 0.2;
    if (terms() % 4 == 0) machine.input_images_per_sec.value = 1e4;
    const absl::StatusOr<engine::Simulation> of_few = Simulate(*few, machine), of_whole = Simulate(whole, machine);
    const double error = std::abs(Seconds(of_few) / Seconds(of_whole) - 1);
    worst = std::max(worst, error);
    EXPECT_LE(error, 0.01) << "case " << draw << " on " << machine.name << ", " << machine.cores.value << " cores, batch "
                           << drawn.options.global_batch << " " << PlanToJson(drawn.plan);
    int64_t fullest_of_few = 0, fullest = 0;
    for (int device = 0; device < devices; ++device) {
      EXPECT_EQ(of_few->devices[device].sent_bytes, of_whole->devices[device].sent_bytes);
      const int64_t of_one = of_few->devices[device].peak_memory_bytes, bytes = of_whole->devices[device].peak_memory_bytes;
      EXPECT_TRUE(of_one == bytes || few->stands_for[device].empty()) << of_one << " and " << bytes;
      fullest_of_few = std::max(fullest_of_few, of_one);
      fullest = std::max(fullest, bytes);
    }
    // Of networks as small as these what else a device holds, metrics or its part of a value, moves much.
    const double most = static_cast<double>(fullest);
    EXPECT_NEAR(static_cast<double>(fullest_of_few), most, 0.3 * most);
  }
  RecordProperty("worst_error", std::to_string(worst));
  EXPECT_GE(with_several, kSanitized ? 0 : 1) << "one device always stood for all";
  EXPECT_GT(smaller, 0);
}

INSTANTIATE_TEST_SUITE_P(Collectives, StandForAll,
                         ::testing::Values(engine::CollectiveAlgorithm::kRing, engine::CollectiveAlgorithm::kTree,
                                           engine::CollectiveAlgorithm::kDirect, engine::CollectiveAlgorithm::kMaster,
                                           engine::CollectiveAlgorithm::kFastest));

// In nodes of eight the third of four replicas, devices 6 to 8, meets over the network, the others within a node; and 0, 3,
// 6 and 9 lie three and one, as 1, 4, 7 and 10, but 2, 5, 8 and 11 two and two.
TEST(LowerRepresentatives, StandForThoseAloneWhoseLinksAndSpeedAreAlike) {
  const layers::LayerGraph graph = Model("lenet", {.classes = 12});
  Plan plan = NamedPlan("hybrid", graph, {.devices = 12, .columns = 3, .global_batch = 24}).value();
  engine::Machine machine = engine::InNodes(12);
  const auto few_of = [&] {
    const absl::StatusOr<engine::Simulator> simulator = engine::Simulator::Create(machine, 12);
    return LowerRepresentatives(graph, plan, {.global_batch = 24}, simulator->GroupClassifier()).value();
  };
  const RepresentativeProgram few = few_of();
  EXPECT_THAT(few.stands_for[0], ::testing::ElementsAre(0, 1, 3, 4, 9, 10));
  EXPECT_THAT(few.stands_for[2], ::testing::ElementsAre(2, 5, 11));
  EXPECT_THAT(few.stands_for[6], ::testing::ElementsAre(6, 7));
  EXPECT_DOUBLE_EQ(Seconds(Simulate(few, machine)), Seconds(Simulate(Lowered(graph, plan, {.global_batch = 24}), machine)));
  plan = Named("data", graph, 12, 24);
  machine.slower = {{"d4", 1.5}};
  const RepresentativeProgram slowed = few_of();
  EXPECT_EQ(slowed.stands_for[0].size(), 11u);
  EXPECT_THAT(slowed.stands_for[4], ::testing::ElementsAre(4));
}

// The host spends a second on each task: metrics and the gate are stored by one device for all.
TEST(LowerRepresentatives, CountTheTasksOfAll) {
  const layers::LayerGraph graph = Model("lenet", {.classes = 12});
  engine::Machine machine = engine::OnASwitch(4, 1e-6);
  machine.step_sec_per_task.value = 1;
  for (double clip_norm : {0.0, 1.0}) {
    const LowerOptions options{.global_batch = 8, .update = {.clip_norm = clip_norm}};
    const Plan plan = Named("data", graph, 4, 8);
    const RepresentativeProgram few = LowerRepresentatives(graph, plan, options).value();
    EXPECT_NEAR(Seconds(Simulate(few, machine)), Seconds(Simulate(Lowered(graph, plan, options), machine)), 1e-6)
        << clip_norm;
  }
}

TEST(LowerRepresentatives, HoldOneDeviceOfMany) {
  const layers::LayerGraph graph = Model("resnet20", {.classes = 10});
  const auto few_of = [&](int devices, Reduction reduction) {
    Plan plan = Named("data", graph, devices, devices);
    plan.reduction = reduction;
    return LowerRepresentatives(graph, plan, {.global_batch = devices}).value();
  };
  const RepresentativeProgram eight = few_of(8, Reduction::kAllReduce), many = few_of(1024, Reduction::kAllReduce);
  EXPECT_EQ(eight.program.tasks.size(), many.program.tasks.size());
  EXPECT_EQ(many.program.device_count, 1024);
  EXPECT_EQ(many.stands_for[0].size(), 1024u);
  const Plan plan = Named("data", graph, 8, 8);
  const engine::Machine machine = engine::OnASwitch(8);
  const absl::StatusOr<engine::Simulation> of_few = Simulate(eight, machine),
                                           of_whole = Simulate(Lowered(graph, plan, {.global_batch = 8}), machine);
  EXPECT_DOUBLE_EQ(Seconds(of_few), Seconds(of_whole));
  const auto bytes = static_cast<double>(of_whole->devices[7].peak_memory_bytes);
  EXPECT_NEAR(static_cast<double>(of_few->devices[7].peak_memory_bytes), bytes, 0.01 * bytes);
  const RepresentativeProgram mastered = few_of(8, Reduction::kMaster);
  EXPECT_THAT(mastered.stands_for[0], ::testing::ElementsAre(0)) << "the master updates for all";
  EXPECT_THAT(mastered.stands_for[1], ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

}  // namespace
}  // namespace colonnade::partition
