// What is proposed where a plan does not fit, by what each plan is said to need; whose memory a prediction states.
#include "tools/planning.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cpu/about.h"
#include "engine/machine.h"
#include "engine/simulator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/partition/random_case.h"
#include "tests/sanitized.h"
#include "tools/calibration.h"
#include "tools/machines.h"
#include "tools/measure.h"
#include "tools/memory_fit.h"

namespace colonnade::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::StartsWith;

constexpr int64_t kLargeBatch = 3 << 10;

class NearestPlan : public ::testing::Test {
 protected:
  // On a machine of `most` devices; each plan needs bytes_of(devices, whether it is sharded).
  std::optional<FittingPlan> Find(int devices, int most, int64_t memory_bytes, int64_t (*bytes_of)(int, bool)) {
    calls_.clear();
    return NearestPlanThatFits(graph_, kLargeBatch, devices, most, memory_bytes,
                               [&](const partition::Plan& plan) -> absl::StatusOr<int64_t> {
                                 ++calls_[plan.mesh.device_count()];
                                 return bytes_of(plan.mesh.device_count(), plan.reduction == partition::Reduction::kSharded);
                               });
  }
  const layers::LayerGraph graph_ = *models::BuildModel("two_column", {});
  std::map<int, int> calls_;  // by number of devices
};

int64_t Shared(int devices, bool /*sharded*/) { return 6400 / devices; }
int64_t SharedIfSharded(int devices, bool sharded) { return sharded ? 6400 / devices : 6400; }
int64_t Endless(int /*devices*/, bool /*sharded*/) { return 1 << 30; }

TEST_F(NearestPlan, IsTheFirstNamedOneOnTwiceAsManyDevicesEachTime) {
  const std::optional<FittingPlan> found = Find(2, 64, 1000, Shared);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->plan.name, "data");
  EXPECT_EQ(found->plan.mesh.device_count(), 8);
  EXPECT_EQ(found->plan.reduction, partition::Reduction::kAllReduce);
  EXPECT_EQ(found->peak_bytes, 800);
}

TEST_F(NearestPlan, IsOnAllDevicesWhereNoPowerOfTwoFits) {
  const std::optional<FittingPlan> found = Find(1, 6, 1100, Shared);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->plan.mesh.device_count(), 6);
}

TEST_F(NearestPlan, IsShardedWhereNoOtherFits) {
  const std::optional<FittingPlan> found = Find(1, 64, 1000, SharedIfSharded);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->plan.mesh.device_count(), 8);
  EXPECT_EQ(found->plan.reduction, partition::Reduction::kSharded);
}

// Of "single" or the four others, and of two more where one fits.
TEST_F(NearestPlan, LooksAtFewPlansWhateverTheMachine) {
  EXPECT_FALSE(Find(1, 1024, 1000, Endless).has_value());
  EXPECT_EQ(calls_.size(), 11u);
  for (const auto& [devices, calls] : calls_) EXPECT_LE(calls, devices == 1 ? 5 : 4) << devices;
  ASSERT_TRUE(Find(8, 1024, 1000, Shared).has_value());
  EXPECT_THAT(calls_, ElementsAre(Pair(8, 2)));
}

int64_t TotalBytes(const absl::StatusOr<std::vector<engine::DeviceMemory>>& memory) {
  int64_t bytes = 0;
  for (const engine::DeviceMemory& device : *memory) bytes += device.total_bytes();
  return bytes;
}

int64_t PeakOf(const engine::Machine& machine, const layers::LayerGraph& graph, const partition::Plan& plan,
               const partition::LowerOptions& lower) {
  const Predicted predicted = *Predict(machine, graph, plan, lower);
  int64_t most = 0;
  for (const engine::SimulatedDevice& device : predicted.simulation.devices) most = std::max(most, device.peak_memory_bytes);
  return most;
}

TEST(CheckDevices, AsksForOneAtLeastAndNoMoreThanTheMachineHas) {
  const engine::Machine machine = *OpenMachine("dgx1-v100");
  const layers::LayerGraph graph = *models::BuildModel("two_column", {});
  EXPECT_TRUE(CheckDevices(machine, 1).ok() && CheckDevices(machine, 8).ok());
  for (const auto& [devices, message] :
       std::vector<std::pair<int, std::string>>{{0, "devices: expected 1 to 8 of machine dgx1-v100, found 0"},
                                                {-1, "devices: expected 1 to 8 of machine dgx1-v100, found -1"},
                                                {50, "devices: machine dgx1-v100 has 8, found 50"}}) {
    const absl::Status checked = CheckDevices(machine, devices);
    EXPECT_EQ(checked.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(checked.message()), StartsWith(message));
    EXPECT_EQ(LeastSecondsOn(machine, graph, {.global_batch = 48}, devices).status(), checked);
    EXPECT_EQ(SearchPlansOn(machine, graph, {.global_batch = 48}, devices).status(), checked);
  }
}

// Steps of many micro-batches are judged by that of three, to whose memory the images of the others are added: without them
// a third of these would lack.
TEST(SearchPlansOn, TheMemoryOfManyMicroBatchesIsThatOfALoweredStep) {
  const engine::Machine machine = *OpenMachine("dgx1-v100");
  const layers::LayerGraph graph = *models::BuildModel("lenet", {});
  const partition::LowerOptions lower{
      .global_batch = 12 * 64, .micro_batches = 12, .pixels = program::PixelScaling{.scale = {1}, .shift = {0}}};
  const absl::StatusOr<std::vector<partition::Candidate>> found = SearchPlansOn(machine, graph, lower, 2);
  ASSERT_TRUE(found.ok()) << found.status();
  for (const partition::Candidate& candidate : *found) {
    const int64_t most = PeakOf(machine, graph, candidate.plan, lower);
    EXPECT_NEAR(static_cast<double>(candidate.judgement.peak_memory_bytes), static_cast<double>(most),
                0.08 * static_cast<double>(most))
        << candidate.plan.name;
  }
}

// The input is slower than the devices, or about as fast: judged with it, a few micro-batches that wait for it would say
// nothing of how long the others compute.
TEST(SearchPlansOn, ManyMicroBatchesTakeAsLongAsTheirInputOrTheDevices) {
  engine::Machine machine = *OpenMachine("dgx-a100");
  const layers::LayerGraph graph = *models::BuildModel("two_column", {});
  const partition::LowerOptions lower{.global_batch = 96, .micro_batches = 6};
  for (double rate : {50000, 90000}) {
    machine.input_images_per_sec.value = rate;
    const absl::StatusOr<std::vector<partition::Candidate>> found = SearchPlansOn(machine, graph, lower, 2);
    ASSERT_TRUE(found.ok()) << found.status();
    for (const partition::Candidate& candidate : *found) {
      const Predicted predicted = *Predict(machine, graph, candidate.plan, lower);
      EXPECT_NEAR(candidate.judgement.step_sec, absl::ToDoubleSeconds(predicted.simulation.step),
                  1e-3 * candidate.judgement.step_sec)
          << candidate.plan.name << " at " << rate;
    }
    EXPECT_GE(found->front().judgement.step_sec, *LeastSecondsOn(machine, graph, lower, 2));
  }
  machine.flops_per_sec.value = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(LeastSecondsOn(machine, graph, lower, 2).status()));
}

// Layers of which some are frozen, at random.
std::set<std::string> FrozenOf(partition::Random& random, const layers::LayerGraph& graph) {
  std::set<std::string> frozen;
  const uint64_t of_three = random() % 3;
  for (const layers::LayerNode& node : graph.nodes) {
    if (!node.parameters.empty() && random() % 3 < of_three) frozen.insert(node.name);
  }
  return frozen;
}

// The kernels of a shipped machine on which all but products takes next to no time, of every other of which small batches
// are fast.
engine::Machine ProductsOn(partition::Random& random) {
  engine::Machine machine = *OpenMachine(partition::Pick<std::string>(random, {"dgx1-v100", "cpu-2core", "titan-2013"}));
  for (engine::Quantity* seconds : {&machine.launch_sec, &machine.handoff_sec, &machine.step_sec,
                                    &machine.step_sec_per_device, &machine.step_sec_per_image, &machine.step_sec_per_task}) {
    seconds->value = 0;
  }
  machine.memory_bytes_per_sec.value = 1e15;
  machine.peak_memory_bytes_per_sec.value = machine.shared_memory_bytes_per_sec.value = machine.cores.value = 0;
  machine.transfers.clear();
  for (engine::Link& link : machine.links) {
    link.bytes_per_sec.value = 1e14;
    link.latency_sec.value = link.one_transfer_bytes_per_sec.value = 0;
  }
  std::erase_if(machine.ops, [](const engine::OpRate& op) { return op.unit == engine::OpRate::Unit::kBytes; });
  const bool small_are_fast = random() % 2 == 0;
  for (engine::OpRate& op : machine.ops) {
    if (small_are_fast) op.batch_curve = {{1, 4}, {400, 1}};
  }
  return machine;
}

// A step in micro-batches, of either type, with frozen layers, whose activations move in parts.
TEST(LeastSecondsOn, NoRandomPlanGoesBelowIt) {
  partition::Random random(7);
  int simulated = 0, near = 0;
  for (int draw = 0; draw < Draws(300); ++draw) {
    const engine::Machine machine = ProductsOn(random);
    const absl::StatusOr<partition::RandomNetwork> network = partition::NetworkDrawer(random, false).Draw();
    ASSERT_TRUE(network.ok()) << network.status();
    const layers::LayerGraph& graph = network->graph;
    const int outer = partition::Pick<int>(random, {1, 2}),
              inner = machine.device_count() > 2 ? partition::Pick<int>(random, {1, 2}) : 3 - outer;
    const auto micro_batches = partition::Pick<int64_t>(random, {1, 1, 2, 3});
    const partition::LowerOptions lower{
        .global_batch = partition::Pick<int64_t>(random, {8, 24, 96, 384}) * micro_batches,
        .micro_batches = micro_batches,
        .dtype = partition::Pick<program::DType>(random, {program::DType::kF32, program::DType::kBF16}),
        .update = {.frozen_layers = FrozenOf(random, graph)}};
    partition::Plan plan = partition::DrawPlan(random, graph, outer, inner, lower.samples_at_once());
    plan.transfer_parts = partition::Pick<int>(random, {1, 2, 3, 8});
    const absl::StatusOr<Predicted> predicted = Predict(machine, graph, plan, lower);
    if (!predicted.ok()) continue;  // all is frozen
    const absl::StatusOr<double> least = LeastSecondsOn(machine, graph, lower, outer * inner);
    ASSERT_TRUE(least.ok()) << least.status();
    const double step = absl::ToDoubleSeconds(predicted->simulation.step);
    EXPECT_LE(*least, step * (1 + 1e-6)) << draw << " " << machine.name << " " << program::Name(lower.dtype) << "\n"
                                         << partition::PlanToJson(plan);
    ++simulated;
    near += *least > step / 2;
  }
  EXPECT_GT(simulated, Draws(200));
  EXPECT_GT(near, Draws(30)) << "the bound is too low to be broken";
}

// The search judges neither layouts and workspaces of the CPU nor more than a few micro-batches.
TEST(SearchPlansOn, TheChoiceFitsByWhatItTakesInFull) {
  const layers::LayerGraph graph = *models::BuildModel("lenet", {});
  for (const char* name : {"cpu-2core", "dgx1-v100"}) {
    engine::Machine machine = *OpenMachine(name);
    const int64_t micro_batches = machine.cores.value > 0 ? 1 : 16;
    const partition::LowerOptions lower{.global_batch = micro_batches * 64, .micro_batches = micro_batches};
    const auto choose = [&] { return SearchPlansOn(machine, graph, lower, 2)->front(); };
    machine.memory_bytes.value = 1e12;
    int fitting = 0;
    for (partition::Candidate choice = choose(); choice.fits && fitting < 20; choice = choose()) {
      const int64_t peak = PeakOf(machine, graph, choice.plan, lower);
      ASSERT_LE(peak, static_cast<int64_t>(machine.memory_bytes.value)) << name;
      machine.memory_bytes.value = static_cast<double>(peak - 1);
      ++fitting;
    }
    EXPECT_GT(fitting, 1) << name;
  }
}

TEST(SearchPlansOn, IsStoppedAlsoWhileChoicesAreAskedForTheirMemory) {
  const layers::LayerGraph graph = *models::BuildModel("lenet", {});
  engine::Machine machine = *OpenMachine("cpu-2core");
  const partition::LowerOptions lower{.global_batch = 64};
  machine.memory_bytes.value =
      static_cast<double>(PeakOf(machine, graph, SearchPlansOn(machine, graph, lower, 2)->front().plan, lower) - 1);
  std::atomic<bool> stop = false;
  const auto stop_at_end = [&](int, double part) { stop = part == 1; };  // when the first choice is asked
  EXPECT_EQ(SearchPlansOn(machine, graph, lower, 2, {.progress = stop_at_end, .stop = &stop}).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(Predict, StatesTheMemoryThatTheKernelsOfTheProfileTakeUnlessOthersAreAskedFor) {
  if (!cpu::HasWinograd()) GTEST_SKIP() << "this processor has no Winograd kernels";
  const layers::LayerGraph graph = *models::BuildModel("resnet20", {});
  const partition::Plan plan = *partition::NamedPlan("single", graph, {.devices = 1, .global_batch = 32});
  const partition::LowerOptions lower{.global_batch = 32};
  const program::Program program = *partition::Lower(graph, plan, lower);
  const int64_t direct = TotalBytes(PredictCpuMemory(program)),
                winograd = TotalBytes(PredictCpuMemory(program, cpu::CpuOptions::Kernels::kWinograd));
  ASSERT_NE(direct, winograd);
  engine::Machine machine = *OpenMachine("cpu-2core");
  const auto predicted = [&](std::optional<cpu::CpuOptions::Kernels> kernels) {
    return Predict(machine, graph, plan, lower, kernels)->simulation.devices[0].peak_memory_bytes;
  };
  EXPECT_EQ(predicted(std::nullopt), direct);
  EXPECT_EQ(predicted(cpu::CpuOptions::Kernels::kWinograd), winograd);
  machine.kernels = "winograd";
  EXPECT_EQ(predicted(std::nullopt), winograd);
  EXPECT_EQ(predicted(cpu::CpuOptions::Kernels::kOneDnn), direct);
  // What is calibrated runs those kernels.
  for (const auto& [kernels, bytes] : {std::pair("onednn", direct), std::pair("winograd", winograd)}) {
    const CalibrationTarget target = CpuTarget(1, {.kernels = kernels});
    EXPECT_EQ(target.machine.kernels, kernels);
    EXPECT_EQ(TotalBytes((*target.make_backend(1))->MemoryOf(program)), bytes) << kernels;
  }
}

// Steps that alternate between two lengths: 1.43 and 1.89 ms here.
constexpr char kAlternates[] = R"({
  "colonnade_machine": 1, "name": "alternates", "devices": {"name": "g", "count": 16},
  "memory_bytes": {"value": 1e11, "from": "guess"}, "flops_per_sec": {"value": 9.8e13, "from": "guess"},
  "memory_bytes_per_sec": {"value": 1.2e11, "from": "guess"}, "launch_sec": {"value": 5e-6, "from": "guess"},
  "step_sec_per_device": {"value": 8.7e-5, "from": "guess"}, "steps_in_flight": 2,
  "links": [{"a": "g", "b": "sw", "bytes_per_sec": {"value": 1.6e10, "from": "guess"}, "each": 1, "duplex": "half"},
            {"a": "sw", "b": "top", "bytes_per_sec": {"value": 1.4e9, "from": "guess"}, "each": 16},
            {"a": "host", "b": "sw0", "bytes_per_sec": {"value": 4.4e10, "from": "guess"}},
            {"a": "host", "b": "sw4", "bytes_per_sec": {"value": 4.5e10, "from": "guess"}, "duplex": "half"},
            {"a": "host", "b": "sw5", "bytes_per_sec": {"value": 1.7e9, "from": "guess"}},
            {"a": "host", "b": "sw9", "bytes_per_sec": {"value": 8.6e10, "from": "guess"}}],
  "collectives": "tree"})";

// An input whose stock of batches fills by a part of a batch in each step, until it needs no more cores.
TEST(Simulate, OfAnInputThatIsNearlyAsFastAsTheDevicesIsSteadyInTheEnd) {
  engine::Machine machine = *OpenMachine("cpu-2core");
  machine.input_images_per_sec.value = 17500;
  const layers::LayerGraph graph = *models::BuildModel("lenet", {});
  const auto plan = *partition::NamedPlan("single", graph, {.devices = 1, .global_batch = 128});
  const auto program = *partition::Lower(graph, plan, {.global_batch = 128, .pixels = PixelsFromBytes(graph)});
  const auto milliseconds = [&](const engine::SimulatorOptions& options) {
    return absl::ToDoubleMilliseconds(engine::Simulate(program, machine, options)->step);
  };
  EXPECT_NEAR(milliseconds({}), milliseconds({.max_steps = 400}), 1e-6);
  const auto found = *SearchPlansOn(machine, graph, {.global_batch = 128, .pixels = PixelsFromBytes(graph)}, 1);
  EXPECT_NEAR(1e3 * found[0].judgement.step_sec, milliseconds({}), 1e-6) << "what a search says of its choice";
}

TEST(Simulate, OfStepsThatAlternateTheMeanOfBothIsTheStepAndItsPartsAddUpToIt) {
  const absl::StatusOr<engine::Machine> machine = engine::MachineFromJson(kAlternates);
  ASSERT_TRUE(machine.ok()) << machine.status();
  const layers::LayerGraph graph = *models::BuildModel("lenet", {});
  const auto plan = partition::NamedPlan("model", graph, {.devices = 16, .global_batch = 96});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto program = partition::Lower(graph, *plan, {.global_batch = 96});
  ASSERT_TRUE(program.ok()) << program.status();
  const double of_many = absl::ToDoubleMilliseconds(engine::Simulate(*program, *machine, {.max_steps = 200})->step);
  bool alternate = false;
  for (int steps : {8, 9, 10, 11, 12, 13}) {
    const engine::Simulation simulation = *engine::Simulate(*program, *machine, {.max_steps = steps});
    EXPECT_NEAR(absl::ToDoubleMilliseconds(simulation.step), of_many, 0.02 * of_many) << steps;
    const engine::SimulatedDevice& device = simulation.devices[3];
    const absl::Duration sum = device.compute + device.exposed_communication + device.input_wait + device.idle;
    EXPECT_NEAR(absl::ToDoubleMilliseconds(sum), absl::ToDoubleMilliseconds(simulation.step), 1e-4) << steps;
    EXPECT_GE(device.idle, -absl::Nanoseconds(1)) << steps;
    const engine::Simulation three = *engine::Simulate(*program, *machine, {.max_steps = 3});
    alternate = alternate || std::abs(absl::ToDoubleMilliseconds(three.step) - of_many) > 0.05 * of_many;
  }
  EXPECT_TRUE(alternate) << "the steps of this profile are alike: it shows nothing";
}

}  // namespace
}  // namespace colonnade::tools
