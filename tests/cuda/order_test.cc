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
#include "program/philox.h"

namespace colonnade::cuda {
namespace {

using program::Program;
using program::Task;
using program::TaskId;

constexpr int kSteps = 3;

// A step of a task in a replay: when its first call ran and when its last one, counted in calls; −1: it has none.
struct Ran {
  int64_t start = -1, end = -1;
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
      Command command{.kind = noted[i].kind};
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

  // A random order of what may run next; `heeds_waits` off breaks the rules on purpose. Empty if it stands still.
  std::vector<Ran> Replay(uint64_t seed, bool heeds_waits) const {
    std::vector<Ran> ran(kSteps * task_count_);
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
        const bool blocked =
            command.kind == Noted::Kind::kWait && heeds_waits && command.waits_for >= 0 && !done[command.waits_for];
        if (!blocked) ready.push_back(s);
      }
      if (ended) return ran;
      if (ready.empty()) return {};
      const uint32_t word = program::RandomBlock(seed, program::RandomPurpose::kSyntheticData, 0, 0, pick).v[0];
      const size_t s = ready[word % ready.size()];
      const int index = streams_[s][next[s]++];
      done[index] = true;
      if (commands_[index].kind != Noted::Kind::kCall) continue;
      Ran& of = ran[commands_[index].instance];
      if (of.start < 0) of.start = clock;
      of.end = clock++;
    }
  }

 private:
  struct Command {
    Noted::Kind kind;
    int waits_for = -1;
    size_t instance = 0;  // step · tasks + task
  };
  size_t task_count_;
  std::vector<Command> commands_;
  std::vector<std::vector<int>> streams_;
};

// Pairs of instances of which the first must have ended before the second starts.
std::vector<std::pair<size_t, size_t>> EdgesOf(const Program& program) {
  const program::Dependencies dependencies = program::DeriveDependencies(program);
  std::map<std::pair<bool, int>, std::vector<TaskId>> meetings;
  const auto sides_of = [&](const Task& task) -> std::vector<TaskId> {
    if (const auto* e = std::get_if<program::Exchange>(&task.what)) return meetings[{false, e->message}];
    if (const auto* c = std::get_if<program::Collective>(&task.what)) return meetings[{true, c->instance}];
    return {task.id};
  };
  for (const Task& task : program.tasks) {
    if (const auto* e = std::get_if<program::Exchange>(&task.what)) meetings[{false, e->message}].push_back(task.id);
    if (const auto* c = std::get_if<program::Collective>(&task.what)) meetings[{true, c->instance}].push_back(task.id);
  }
  std::vector<std::pair<size_t, size_t>> edges;
  const size_t tasks = program.tasks.size();
  const auto add = [&](TaskId from, int from_step, TaskId to, int to_step) {
    // All sides of a transfer start together and end together.
    for (TaskId a : sides_of(program.task(from))) {
      for (TaskId b : sides_of(program.task(to))) edges.emplace_back(from_step * tasks + a.value, to_step * tasks + b.value);
    }
  };
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

int64_t BrokenEdges(const std::vector<std::pair<size_t, size_t>>& edges, const std::vector<Ran>& ran) {
  return std::count_if(edges.begin(), edges.end(), [&](const auto& edge) {
    return ran[edge.first].end >= 0 && ran[edge.second].start >= 0 && ran[edge.first].end >= ran[edge.second].start;
  });
}

class Order : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(Order, AThousandLegalOrdersBreakNoEdge) {
  const auto [plan_name, reach] = GetParam();
  absl::StatusOr<layers::LayerGraph> graph = models::BuildModel("alexnet2012", {});
  ASSERT_TRUE(graph.ok());
  constexpr int64_t kBatch = 4;
  const auto plan = partition::NamedPlan(plan_name, *graph, {.devices = 4, .global_batch = kBatch});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto program = partition::Lower(*graph, *plan, {.global_batch = kBatch});
  ASSERT_TRUE(program.ok()) << program.status();

  auto calls = std::make_unique<HostCalls>(HostCallsOptions{.gpus = 4, .reach = reach, .has_memory = false});
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
  const std::vector<std::pair<size_t, size_t>> edges = EdgesOf(*program);
  EXPECT_GT(edges.size(), program->tasks.size());
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const std::vector<Ran> ran = recording.Replay(seed, /*heeds_waits=*/true);
    ASSERT_FALSE(ran.empty()) << "order " << seed << " stands still";
    ASSERT_EQ(BrokenEdges(edges, ran), 0) << "order " << seed;
  }
  // The check sees what it is for.
  EXPECT_GT(BrokenEdges(edges, recording.Replay(0, /*heeds_waits=*/false)), 0);
}

INSTANTIATE_TEST_SUITE_P(Alexnet2012, Order,
                         testing::Values(std::tuple("hybrid", true), std::tuple("hybrid", false), std::tuple("owt", true)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + (std::get<1>(info.param) ? "" : "_without_reach");
                         });

}  // namespace
}  // namespace colonnade::cuda
