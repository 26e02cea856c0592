// What the backend enqueues for a few steps, run again in any order that streams and events allow: no edge of the Program
// is broken, and the sides of a transfer meet.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/backend.h"
#include "engine/loading.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "program/dag.h"
#include "program/formulas/philox.h"
#include "program/meetings.h"
#include "tests/sanitized.h"

namespace colonnade::cuda {
namespace {

using program::Program;
using program::Task;
using program::TaskId;

constexpr int kSteps = 6;  // two eager ones, then two graphs of each slot: a load must wait for the first of its slot

// A step of a task in a replay: when its first call ran and when its last one, counted in calls; −1: it has none. And when
// it met others: a collective of NCCL in its one call, without what packs and unpacks.
struct Ran {
  int64_t start = -1, end = -1;
  int64_t met_start = -1, met_end = -1;
};

// What was enqueued, by stream, with each wait resolved to the record that it waits for.
class Recording {
 public:
  // `tasks`: of a step; the most where steps are of several Programs.
  Recording(size_t tasks, const std::vector<Noted>& noted, const std::vector<size_t>& step_ends, int streams)
      : task_count_(tasks), streams_(streams) {
    std::map<int, int> last_record;  // by event: index of the command
    int step = 0;
    for (size_t i = 0; i < noted.size(); ++i) {
      while (step + 1 < static_cast<int>(step_ends.size()) && i >= step_ends[step]) ++step;
      Command command{.kind = noted[i].kind, .group = noted[i].group};
      if (command.group >= 0) groups_[command.group].push_back({noted[i].stream, static_cast<int>(i)});
      if (noted[i].kind == Noted::Kind::kRecord) {
        last_record[noted[i].event] = static_cast<int>(i);
      } else if (noted[i].kind == Noted::Kind::kWait) {
        const auto record = last_record.find(noted[i].event);
        command.waits_for = record == last_record.end() ? -1 : record->second;
      } else {
        command.instance = step * task_count_ + std::stoi(noted[i].range);
      }
      commands_.push_back(command);
      streams_[noted[i].stream].push_back(static_cast<int>(i));
    }
  }

  // A random order of what may run next; `heeds_waits` off breaks the rules on purpose. Empty if it stands still. In half of
  // the orders any stream may be next; in the others streams have priorities, so that some are as late as they may be.
  std::vector<Ran> Replay(uint64_t seed, bool heeds_waits) const {
    const std::vector<uint32_t> priorities = Priorities(seed);
    std::vector<Ran> ran(kSteps * task_count_);
    std::vector<bool> met_in_group(ran.size(), false);
    std::vector<bool> done(commands_.size(), false);
    std::vector<size_t> next(streams_.size(), 0), ready;
    int64_t clock = 0;
    for (uint64_t pick = 0;; ++pick) {
      ready.clear();
      bool ended = true;
      for (size_t s = 0; s < streams_.size(); ++s) {
        if (next[s] == streams_[s].size()) continue;
        ended = false;
        const Command& command = commands_[streams_[s][next[s]]];
        bool blocked =
            command.kind == Noted::Kind::kWait && heeds_waits && command.waits_for >= 0 && !done[command.waits_for];
        if (command.group >= 0) {
          for (const Member& member : groups_.at(command.group)) {
            const std::vector<int>& stream = streams_[member.stream];
            blocked = blocked || stream[next[member.stream]] != member.command;
          }
        }
        if (!blocked) ready.push_back(s);
      }
      if (ended) return ran;
      if (ready.empty()) return {};
      const size_t s = seed % 2 == 0 ? ready[Word(seed, pick) % ready.size()]
                                     : *std::max_element(ready.begin(), ready.end(),
                                                         [&](size_t a, size_t b) { return priorities[a] < priorities[b]; });
      const int index = streams_[s][next[s]];
      std::vector<Member> together = MembersOf(commands_[index]);
      if (together.empty()) together = {{static_cast<int>(s), index}};
      for (const Member& member : together) {
        ++next[member.stream];
        done[member.command] = true;
        if (commands_[member.command].kind != Noted::Kind::kCall) continue;
        Ran& of = ran[commands_[member.command].instance];
        if (of.start < 0) of.start = clock;
        of.end = clock;
        const bool is_group = commands_[member.command].group >= 0;
        if (is_group || !met_in_group[commands_[member.command].instance]) {
          if (is_group || of.met_start < 0) of.met_start = clock;
          of.met_end = clock;
        }
        if (is_group) met_in_group[commands_[member.command].instance] = true;
      }
      ++clock;
    }
  }

 private:
  struct Command {
    Noted::Kind kind;
    int waits_for = -1;
    int group = -1;       // calls of one start together
    size_t instance = 0;  // step · tasks + task
  };
  struct Member {
    int stream = 0, command = 0;
  };
  static uint32_t Word(uint64_t seed, uint64_t pick) {
    return program::RandomBlock(seed, program::RandomPurpose::kSyntheticData, 0, 0, pick).v[0];
  }
  std::vector<uint32_t> Priorities(uint64_t seed) const {
    std::vector<uint32_t> priorities;
    for (size_t s = 0; s < streams_.size(); ++s) priorities.push_back(Word(seed, s));
    return priorities;
  }
  std::vector<Member> MembersOf(const Command& command) const {
    return command.group < 0 ? std::vector<Member>() : groups_.at(command.group);
  }

  size_t task_count_;
  std::map<int, std::vector<Member>> groups_;
  std::vector<Command> commands_;
  std::vector<std::vector<int>> streams_;
};

// The first must have ended before the second starts; of what meets others (`meets`) the meetings.
struct Edge {
  size_t from = 0, to = 0;
  bool meets = false;
};
// A load into a buffer of two slots, and a task that reads it.
std::vector<std::pair<size_t, size_t>> ReadersOfSlots(const Program& program) {
  std::vector<std::pair<size_t, size_t>> readers;
  for (const Task& load : program.tasks) {
    if (load.lane != program::Lane::kLoad) continue;
    for (const Task& task : program.tasks) {
      const bool reads = std::any_of(task.uses.begin(), task.uses.end(), [&](const program::BufferUse& use) {
        return task.id != load.id && use.buffer == load.uses[0].buffer;
      });
      if (reads) readers.emplace_back(load.id.value, task.id.value);
    }
  }
  EXPECT_FALSE(readers.empty());
  return readers;
}
std::vector<Edge> EdgesOf(const Program& program, const std::vector<int64_t>& steps) {
  const program::Dependencies dependencies = program::DeriveDependencies(program);
  const program::Meetings meetings(program);
  std::vector<Edge> edges;
  const size_t tasks = program.tasks.size();
  const auto add = [&](TaskId from, int from_step, TaskId to, int to_step) {
    // All sides of a transfer start together and end together.
    for (TaskId a : meetings.SidesOf(from)) {
      for (TaskId b : meetings.SidesOf(to)) {
        edges.push_back({from_step * tasks + a.value, to_step * tasks + b.value, a != from || b != to});
      }
    }
  };
  // A slot is read before it is filled again, by the next step of the same parity.
  for (int step = 0; step < kSteps; ++step) {
    int next = step + 1;
    while (next < kSteps && steps[next] % 2 != steps[step] % 2) ++next;
    for (const auto& [load, reader] : ReadersOfSlots(program)) {
      if (next < kSteps) edges.push_back({step * tasks + reader, next * tasks + load});
    }
  }
  for (int step = 0; step < kSteps; ++step) {
    for (const Task& task : program.tasks) {
      for (TaskId from : dependencies.within[task.id.value]) add(from, step, task.id, step);
      for (TaskId from : dependencies.carried[task.id.value]) {
        if (step > 0) add(from, step - 1, task.id, step);
      }
    }
  }
  return edges;
}

int64_t BrokenEdges(const std::vector<Edge>& edges, const std::vector<Ran>& ran) {
  return std::count_if(edges.begin(), edges.end(), [&](const Edge& edge) {
    const Ran &from = ran[edge.from], &to = ran[edge.to];
    const int64_t end = edge.meets ? from.met_end : from.end, start = edge.meets ? to.met_start : to.start;
    return end >= 0 && start >= 0 && end >= start;
  });
}

struct Case {
  std::string name, plan;
  bool reach = true, nccl = false;
  int fail_capture_at = -1;  // the capture that cannot be a graph; −1: none
  int graphs = 4;            // steps that are graphs
  std::vector<int64_t> steps = {0, 1, 2, 3, 4, 5};
  std::string model = "alexnet2012";
};
class Order : public testing::TestWithParam<Case> {};

// Hands steps to a loaded Program as an executor does, whatever their numbers are.
class Steps {
 public:
  Steps(const Program& program, engine::Backend& backend) : program_(program) {
    for (engine::HostSlot& slot : slots_) {
      slot = engine::SlotWithoutMemory(program);
      for (size_t o = 0; o < program.outputs.size(); ++o) {
        for (size_t p = 0; p < program.outputs[o].pieces.size(); ++p) {
          const program::Piece& piece = program.outputs[o].pieces[p];
          outputs_.emplace_back(piece.region.elements() * program::SizeInBytes(program.buffer(piece.buffer).dtype));
          slot.outputs[o][p] = outputs_.back().data();
        }
      }
    }
    auto loaded = backend.Load(program, slots_);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (loaded.ok()) loaded_ = *std::move(loaded);
  }

  // The step `before` it, −1 where there is none, is the one that waits for a previous step mean.
  void Launch(int64_t step, int64_t before, bool fences = true) {
    if (fences) loaded_->Fence();
    for (const Task& task : program_.tasks) {
      for (TaskId wait : task.waits) loaded_->Await(task.device, task.lane, wait, step);
      for (TaskId wait : task.waits_previous) loaded_->Await(task.device, task.lane, wait, before);
      loaded_->Launch(task.id, step);
    }
  }
  engine::LoadedProgram& operator*() { return *loaded_; }

 private:
  const Program& program_;
  engine::HostSlot slots_[2];
  std::deque<std::vector<char>> outputs_;
  std::unique_ptr<engine::LoadedProgram> loaded_;
};

// Each sample is normalised by itself; the statistics of all layers are summed over devices in one bucket.
Program Lowered(const std::string& plan_name, program::Mode mode = program::Mode::kTrain,
                const std::string& model = "alexnet2012") {
  absl::StatusOr<layers::LayerGraph> graph = models::BuildModel(model, {.samples_per_group = model == "resnet20" ? 1 : 0});
  EXPECT_TRUE(graph.ok());
  constexpr int64_t kBatch = 4;
  const auto plan = partition::NamedPlan(plan_name, *graph, {.devices = 4, .global_batch = kBatch});
  EXPECT_TRUE(plan.ok()) << plan.status();
  auto program = partition::Lower(*graph, *plan, {.mode = mode, .global_batch = kBatch});
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

TEST_P(Order, AThousandLegalOrdersBreakNoEdge) {
  const Case& param = GetParam();
  const Program program = Lowered(param.plan, program::Mode::kTrain, param.model);
  auto calls = std::make_unique<HostCalls>(HostCallsOptions{
      .gpus = 4, .reach = param.reach, .nccl = param.nccl, .fail_capture_at = param.fail_capture_at, .has_memory = false});
  const HostCalls& recorder = *calls;
  auto backend = MakeCudaBackend({.devices = 4}, std::move(calls));
  ASSERT_TRUE(backend.ok());
  Steps steps(program, **backend);
  std::vector<size_t> step_ends;
  for (int step = 0; step < kSteps; ++step) {
    steps.Launch(param.steps[step], step == 0 ? -1 : param.steps[step - 1]);
    step_ends.push_back(recorder.noted().size());
    ASSERT_TRUE((*steps).Synchronize(param.steps[step]).ok()) << (*steps).Synchronize(param.steps[step]);
  }

  const Recording recording(program.tasks.size(), recorder.noted(), step_ends, recorder.stream_count());
  const std::vector<Edge> edges = EdgesOf(program, param.steps);
  EXPECT_GT(edges.size(), program.tasks.size());
  EXPECT_EQ(recorder.rank_calls() > 0, param.nccl);
  EXPECT_EQ(recorder.graph_launches(), param.graphs);
  for (uint64_t seed = 0; seed < Draws(1000); ++seed) {
    const std::vector<Ran> ran = recording.Replay(seed, /*heeds_waits=*/true);
    ASSERT_FALSE(ran.empty()) << "order " << seed << " stands still";
    ASSERT_EQ(BrokenEdges(edges, ran), 0) << "order " << seed;
  }
  // The check sees what it is for.
  EXPECT_GT(BrokenEdges(edges, recording.Replay(0, /*heeds_waits=*/false)), 0);
}

// Of steps of `programs` in turn: all of a step has ended on a device, what others read of it included, before anything of
// the next begins there, its loads included.
std::vector<Edge> EdgesOfTurns(const std::vector<const Program*>& programs, size_t tasks) {
  std::vector<Edge> edges;
  for (int step = 0; step + 1 < kSteps; ++step) {
    const Program &ended = *programs[step % programs.size()], &next = *programs[(step + 1) % programs.size()];
    const program::Meetings meetings(ended);
    for (const Task& a : ended.tasks) {
      for (const Task& b : next.tasks) {
        if (a.device != b.device) continue;
        for (TaskId side : meetings.SidesOf(a.id)) {
          edges.push_back({step * tasks + side.value, (step + 1) * tasks + b.id.value, side != a.id});
        }
      }
    }
  }
  return edges;
}

class OrderOfTurns : public testing::TestWithParam<Case> {};

TEST_P(OrderOfTurns, NoStepOfAnotherProgramBeginsOnADeviceBeforeOneHasEndedThere) {
  const Case& param = GetParam();
  const Program train = Lowered(param.plan), eval = Lowered(param.plan, program::Mode::kEval);
  const size_t tasks = std::max(train.tasks.size(), eval.tasks.size());
  const std::vector<Edge> edges = EdgesOfTurns({&train, &eval}, tasks);
  for (bool fences : {true, false}) {
    auto calls = std::make_unique<HostCalls>(
        HostCallsOptions{.gpus = 4, .reach = param.reach, .nccl = param.nccl, .has_memory = false});
    const HostCalls& recorder = *calls;
    auto backend = MakeCudaBackend({.devices = 4}, std::move(calls));
    ASSERT_TRUE(backend.ok());
    Steps trains(train, **backend), evals(eval, **backend);
    std::vector<size_t> step_ends;
    for (int step = 0; step < kSteps; ++step) {
      (step % 2 == 0 ? trains : evals).Launch(step / 2, step / 2 - 1, fences);
      step_ends.push_back(recorder.noted().size());
    }
    EXPECT_EQ(recorder.graph_launches(), param.graphs);
    const Recording recording(tasks, recorder.noted(), step_ends, recorder.stream_count());
    int64_t broken = 0;
    for (uint64_t seed = 0; seed < Draws(100); ++seed) {
      const std::vector<Ran> ran = recording.Replay(seed, /*heeds_waits=*/true);
      ASSERT_FALSE(ran.empty()) << "order " << seed << " stands still";
      broken += BrokenEdges(edges, ran);
    }
    EXPECT_EQ(broken == 0, fences);
  }
}

INSTANTIATE_TEST_SUITE_P(Alexnet2012, OrderOfTurns,
                         testing::Values(Case{.name = "hybrid", .plan = "hybrid", .graphs = 2},
                                         Case{.name = "hybrid_without_reach", .plan = "hybrid", .reach = false, .graphs = 2},
                                         Case{.name = "owt_by_nccl", .plan = "owt", .nccl = true, .graphs = 0}),
                         [](const auto& info) { return info.param.name; });

const Case kCases[] = {
    {.name = "hybrid", .plan = "hybrid"},
    {.name = "hybrid_without_reach", .plan = "hybrid", .reach = false},
    {.name = "hybrid_by_nccl", .plan = "hybrid", .nccl = true, .graphs = 0},
    {.name = "owt", .plan = "owt"},
    {.name = "owt_by_nccl_without_reach", .plan = "owt", .reach = false, .nccl = true, .graphs = 0},
    {.name = "hybrid_without_graphs", .plan = "hybrid", .fail_capture_at = 0, .graphs = 0},
    {.name = "hybrid_eager_after_a_graph", .plan = "hybrid", .fail_capture_at = 1, .graphs = 1},
    // Steps that do not follow each other: none of a training's, so that graphs end there.
    {.name = "hybrid_with_a_gap", .plan = "hybrid", .graphs = 2, .steps = {0, 1, 2, 3, 5, 6}},
    {.name = "resnet20_data", .plan = "data", .model = "resnet20"},
};
INSTANTIATE_TEST_SUITE_P(Networks, Order, testing::ValuesIn(kCases), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace colonnade::cuda
