// What the backend enqueues for a whole step, run again in any order that streams and events allow: no edge of the Program
// is broken, and the sides of a transfer meet.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/backend.h"
#include "engine/executor.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "program/dag.h"
#include "program/meetings.h"
#include "program/philox.h"

namespace colonnade::cuda {
namespace {

using program::Program;
using program::Task;
using program::TaskId;

constexpr int kSteps = 4;
constexpr char kFetch[] = "fetch ";  // begins the range of what a Load fetches from the host ahead

// A step of a task in a replay: when its first call ran and when its last one, counted in calls; −1: it has none. And when
// it met others: a collective of NCCL in its one call, without what packs and unpacks.
struct Ran {
  int64_t start = -1, end = -1;
  int64_t met_start = -1, met_end = -1;
};

// What was enqueued, by stream, with each wait resolved to the record that it waits for.
class Recording {
 public:
  Recording(const Program& program, const std::vector<Noted>& noted, const std::vector<size_t>& step_ends, int streams)
      : task_count_(program.tasks.size()), streams_(streams) {
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
        const bool fetches = noted[i].range.starts_with(kFetch);
        const int task = std::stoi(noted[i].range.substr(fetches ? sizeof(kFetch) - 1 : 0));
        command.instance = (step + (fetches ? kSteps : 0)) * task_count_ + task;
      }
      commands_.push_back(command);
      streams_[noted[i].stream].push_back(static_cast<int>(i));
    }
  }

  // A random order of what may run next; `heeds_waits` off breaks the rules on purpose. Empty if it stands still.
  std::vector<Ran> Replay(uint64_t seed, bool heeds_waits) const {
    std::vector<Ran> ran(2 * kSteps * task_count_);
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
        for (const Member& member : MembersOf(command)) {
          const std::vector<int>& stream = streams_[member.stream];
          blocked = blocked || stream[next[member.stream]] != member.command;
        }
        if (!blocked) ready.push_back(s);
      }
      if (ended) return ran;
      if (ready.empty()) return {};
      const uint32_t word = program::RandomBlock(seed, program::RandomPurpose::kSyntheticData, 0, 0, pick).v[0];
      const size_t s = ready[word % ready.size()];
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
    size_t instance = 0;  // step · tasks + task; of what is fetched for it, kSteps later
  };
  struct Member {
    int stream = 0, command = 0;
  };
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
std::vector<Edge> EdgesOf(const Program& program) {
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
  // A landing is filled before it is read, and read before it is filled again, two steps later.
  for (int step = 0; step < kSteps; ++step) {
    for (size_t task = 0; task < tasks; ++task) {
      edges.push_back({(kSteps + step) * tasks + task, step * tasks + task});
      if (step + 2 < kSteps) edges.push_back({step * tasks + task, (kSteps + step + 2) * tasks + task});
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
  bool captures = true;  // the last two steps are graphs, but with NCCL
};
class Order : public testing::TestWithParam<Case> {};

TEST_P(Order, AThousandLegalOrdersBreakNoEdge) {
  const Case& param = GetParam();
  absl::StatusOr<layers::LayerGraph> graph = models::BuildModel("alexnet2012", {});
  ASSERT_TRUE(graph.ok());
  constexpr int64_t kBatch = 4;
  const auto plan = partition::NamedPlan(param.plan, *graph, {.devices = 4, .global_batch = kBatch});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto program = partition::Lower(*graph, *plan, {.global_batch = kBatch});
  ASSERT_TRUE(program.ok()) << program.status();

  auto calls = std::make_unique<HostCalls>(HostCallsOptions{
      .gpus = 4, .reach = param.reach, .nccl = param.nccl, .captures = param.captures, .has_memory = false});
  const HostCalls& recorder = *calls;
  auto backend = MakeCudaBackend({.devices = 4}, std::move(calls));
  ASSERT_TRUE(backend.ok());
  auto executor = engine::Executor::Create(*program, **backend);
  ASSERT_TRUE(executor.ok()) << executor.status();
  std::vector<size_t> step_ends;
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_TRUE((*executor)->NextImages().ok());
    ASSERT_TRUE((*executor)->Enqueue({.step = static_cast<uint64_t>(step)}).ok());
    step_ends.push_back(recorder.noted().size());
    ASSERT_TRUE((*executor)->Collect().ok());
  }

  const Recording recording(*program, recorder.noted(), step_ends, recorder.stream_count());
  const std::vector<Edge> edges = EdgesOf(*program);
  EXPECT_GT(edges.size(), program->tasks.size());
  EXPECT_EQ(recorder.rank_calls() > 0, param.nccl);
  EXPECT_EQ(recorder.graph_launches(), param.captures && !param.nccl ? 2 : 0);
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const std::vector<Ran> ran = recording.Replay(seed, /*heeds_waits=*/true);
    ASSERT_FALSE(ran.empty()) << "order " << seed << " stands still";
    ASSERT_EQ(BrokenEdges(edges, ran), 0) << "order " << seed;
  }
  // The check sees what it is for.
  EXPECT_GT(BrokenEdges(edges, recording.Replay(0, /*heeds_waits=*/false)), 0);
}

INSTANTIATE_TEST_SUITE_P(Alexnet2012, Order,
                         testing::Values(Case{"hybrid", "hybrid"}, Case{"hybrid_without_reach", "hybrid", false},
                                         Case{"hybrid_by_nccl", "hybrid", true, true}, Case{"owt", "owt"},
                                         Case{"owt_by_nccl_without_reach", "owt", false, true},
                                         Case{"hybrid_without_graphs", "hybrid", true, false, false}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace colonnade::cuda
