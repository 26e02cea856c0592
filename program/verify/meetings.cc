// The rules `messages`, `collectives` and `deadlock`: what devices do together fits, and can all run.

#include "program/meetings.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "program/verify/rules.h"

namespace colonnade::program {
namespace {

absl::Status CheckSides(const Program& program, const Task& a, const Task& b) {
  constexpr char kRule[] = "messages";
  const Exchange& side_a = std::get<Exchange>(a.body);
  const Exchange& side_b = std::get<Exchange>(b.body);
  if (a.device == b.device || side_a.peer != b.device || side_b.peer != a.device) {
    return RuleBroken(kRule, Describe(a), " and ", Describe(b), " are the sides of message ", side_a.message,
                      ", but name devices ", side_a.peer, " and ", side_b.peer, " as their peers; expected each other's");
  }
  if (side_a.sends != side_b.receives || side_a.receives != side_b.sends) {
    return RuleBroken(kRule, "in message ", side_a.message, " ", Describe(a), " or ", Describe(b),
                      " sends what the other side does not receive, or receives what it does not send");
  }
  const auto check_way = [&](const Task& from, const Task& to) {
    const Extents sent = ExtentsOf(program, from.uses.front());
    const Extents received = ExtentsOf(program, to.uses.back());
    if (sent == received) return absl::OkStatus();
    return RuleBroken(kRule, "in message ", side_a.message, " ", Describe(from), " sends ", Describe(sent), ", but ",
                      Describe(to), " receives ", Describe(received));
  };
  if (side_a.sends) {
    RETURN_IF_ERROR(check_way(a, b));
  }
  return side_b.sends ? check_way(b, a) : absl::OkStatus();
}

// One instance of a collective: tasks[m] is that of member m.
class InstanceCheck {
 public:
  InstanceCheck(const Program& program, std::vector<const Task*> tasks)
      : program_(program),
        tasks_(std::move(tasks)),
        attributes_(std::get<Collective>(tasks_[0]->body)),
        members_(static_cast<int64_t>(tasks_.size())) {}

  absl::Status Run() const {
    for (const Task* task : tasks_) {
      if (std::get<Collective>(task->body) != attributes_) {
        return RuleBroken(kRule, Describe(*task), " and ", Describe(*tasks_[0]), " are instance ", attributes_.instance,
                          ", but differ in kind, group, dimensions or root");
      }
    }
    switch (attributes_.kind) {
      case CollectiveKind::kAllGather:
        return CheckJoined(/*joined=*/1, /*part=*/0);
      case CollectiveKind::kReduceScatter:
        return CheckJoined(/*joined=*/0, /*part=*/1);
      case CollectiveKind::kAllToAll:
        return CheckAllToAll();
      case CollectiveKind::kAllReduce:
        return CheckEqual(0);
      case CollectiveKind::kReduce:
        return CheckRoot(Access::kAccumulate, Access::kRead);
      case CollectiveKind::kBroadcast:
        return CheckRoot(Access::kRead, Access::kWrite);
    }
    return absl::OkStatus();
  }

 private:
  static constexpr char kRule[] = "collectives";

  absl::Status CheckEqual(int use) const {
    for (const Task* task : tasks_) {
      const Extents expected = ExtentsOf(program_, tasks_[0]->uses[use]), found = ExtentsOf(program_, task->uses[use]);
      if (found != expected) return Differ(*task, found, expected);
    }
    return absl::OkStatus();
  }

  absl::Status CheckRoot(Access at_root, Access elsewhere) const {
    for (int64_t m = 0; m < members_; ++m) {
      const Access expected = m == attributes_.root ? at_root : elsewhere;
      if (tasks_[m]->uses[0].access == expected) continue;
      return RuleBroken(kRule, Describe(*tasks_[m]), ", member ", m, " under root ", attributes_.root, ", must ",
                        Name(expected), " its operand");
    }
    return CheckEqual(0);
  }

  // Use `joined` of each member is every member's use `part` side by side along dim_to.
  absl::Status CheckJoined(int joined, int part) const {
    RETURN_IF_ERROR(CheckEqual(joined));
    RETURN_IF_ERROR(CheckPartsAreEqual(joined));
    Extents sum = ExtentsOf(program_, tasks_[0]->uses[part]);
    RETURN_IF_ERROR(CheckDim(*tasks_[0], attributes_.dim_to, sum));
    int64_t& extent = sum.size[attributes_.dim_to];
    for (int64_t m = 1; m < members_; ++m) {
      Extents other = ExtentsOf(program_, tasks_[m]->uses[part]);
      if (other.size.size() != sum.size.size()) return Differ(*tasks_[m], other, sum);
      extent += std::exchange(other.size[attributes_.dim_to], 0);
      const int64_t total = std::exchange(extent, 0);
      if (other != sum) return Differ(*tasks_[m], other, sum);
      extent = total;
    }
    const Extents found = ExtentsOf(program_, tasks_[0]->uses[joined]);
    return found == sum ? absl::OkStatus() : Differ(*tasks_[0], found, sum);
  }

  // Else a member would bring more bytes than another.
  absl::Status CheckPartsAreEqual(int use) const {
    const Extents whole = ExtentsOf(program_, tasks_[0]->uses[use]);
    if (whole.bucket_parts == 0 || whole.equal_parts) return absl::OkStatus();
    return RuleBroken(kRule, Describe(*tasks_[0]), " joins parts of a bucket or takes it apart; expected equal parts");
  }

  absl::Status CheckAllToAll() const {
    for (int use : {0, 1}) {
      RETURN_IF_ERROR(CheckEqual(use));
      RETURN_IF_ERROR(CheckPartsAreEqual(use));
    }
    Extents expected = ExtentsOf(program_, tasks_[0]->uses[0]);
    for (int dim : {attributes_.dim_from, attributes_.dim_to}) {
      RETURN_IF_ERROR(CheckDim(*tasks_[0], dim, expected));
    }
    int64_t& cut = expected.size[attributes_.dim_from];
    if (cut % members_ != 0) {
      return RuleBroken(kRule, Describe(*tasks_[0]), " cuts ", cut, " into ", members_, " parts; expected a multiple");
    }
    cut /= members_;
    expected.size[attributes_.dim_to] *= members_;
    const Extents found = ExtentsOf(program_, tasks_[0]->uses[1]);
    return found == expected ? absl::OkStatus() : Differ(*tasks_[0], found, expected);
  }

  absl::Status CheckDim(const Task& task, int dim, const Extents& extents) const {
    if (dim >= 0 && static_cast<size_t>(dim) < extents.size.size()) return absl::OkStatus();
    return RuleBroken(kRule, Describe(task), " works along dimension ", dim, " of ", Describe(extents));
  }

  absl::Status Differ(const Task& task, const Extents& found, const Extents& expected) const {
    return RuleBroken(kRule, Describe(task), " of instance ", attributes_.instance, " brings ", Describe(found),
                      ", where the other members ask for ", Describe(expected));
  }

  const Program& program_;
  const std::vector<const Task*> tasks_;
  const Collective& attributes_;
  const int64_t members_;
};

absl::Status CheckInstance(const Program& program, const Meeting& meeting) {
  const Collective& attributes = std::get<Collective>(program.task(meeting.sides[0]).body);
  const std::vector<int>& group = program.groups[attributes.group];
  std::vector<const Task*> members;
  for (TaskId member : ByMember(program, meeting.sides)) {
    if (member.valid()) members.push_back(&program.task(member));
  }
  if (members.size() != group.size() || meeting.sides.size() != group.size()) {
    return RuleBroken("collectives", "instance ", attributes.instance, " (", Describe(program.task(meeting.sides[0])),
                      ") has ", base::Counted(meeting.sides.size(), "task"),
                      "; expected exactly one on each device of group ", attributes.group, " (", absl::StrJoin(group, ","),
                      ")");
  }
  return InstanceCheck(program, std::move(members)).Run();
}

// All members see the instances of a group in one order; a device's collectives are on one lane.
absl::Status CheckInstanceOrder(const Program& program) {
  std::vector<const Task*> first_of_device(program.device_count, nullptr);
  std::map<std::pair<int, int>, std::vector<const Task*>> seen;  // by group and device
  for (const Task& task : program.tasks) {
    const auto* collective = std::get_if<Collective>(&task.body);
    if (collective == nullptr) continue;
    seen[{collective->group, task.device}].push_back(&task);
    const Task*& first = first_of_device[task.device];
    if (first == nullptr) first = &task;
    if (first->lane != task.lane) {
      return RuleBroken("collectives", Describe(*first), " is on lane ", Name(first->lane), " and ", Describe(task),
                        " on lane ", Name(task.lane), "; expected all collectives of a device on one lane");
    }
  }
  for (const auto& [key, tasks] : seen) {
    const std::vector<const Task*>& expected = seen[{key.first, program.groups[key.first][0]}];
    for (size_t i = 0; i < tasks.size(); ++i) {
      const int32_t found = std::get<Collective>(tasks[i]->body).instance;
      const int32_t wanted = std::get<Collective>(expected[i]->body).instance;
      if (found == wanted) continue;
      return RuleBroken("collectives", "number ", i, " of group ", key.first, " is instance ", found, " in ",
                        Describe(*tasks[i]), ", but instance ", wanted, " in ", Describe(*expected[i]),
                        "; expected one order on all members");
    }
  }
  return absl::OkStatus();
}

// The step as a graph whose nodes are tasks, the sides of one meeting merged into one.
class StepGraph {
 public:
  explicit StepGraph(const Program& program) : node_(program.tasks.size()), before_(node_.size()) {
    std::iota(node_.begin(), node_.end(), 0);
    const Meetings meetings(program);
    for (int& node : node_) node = meetings.SidesOf(TaskId{node}).front().value;
    const std::vector<TaskId> previous = PreviousInLane(program);
    for (const Task& task : program.tasks) {
      std::vector<TaskId>& before = before_[node_[task.id.value]];
      if (previous[task.id.value].valid()) before.push_back(previous[task.id.value]);
      before.insert(before.end(), task.waits.begin(), task.waits.end());
    }
  }

  // Tasks of a cycle, each before the next; empty if there is none. Depth first, with a stack of its own.
  std::vector<TaskId> Cycle() const {
    enum class State : char { kUnseen, kOpen, kDone };
    std::vector<State> state(node_.size(), State::kUnseen);
    std::vector<size_t> next_edge(node_.size(), 0);
    for (size_t start = 0; start < node_.size(); ++start) {
      if (node_[start] != static_cast<int>(start) || state[start] != State::kUnseen) continue;
      std::vector<int> open = {static_cast<int>(start)};
      state[start] = State::kOpen;
      while (!open.empty()) {
        const int node = open.back();
        if (next_edge[node] == before_[node].size()) {
          state[node] = State::kDone;
          open.pop_back();
          continue;
        }
        const int other = node_[before_[node][next_edge[node]++].value];
        if (state[other] == State::kOpen) return CycleFrom(std::vector<int>(std::ranges::find(open, other), open.end()));
        if (state[other] == State::kUnseen) {
          state[other] = State::kOpen;
          open.push_back(other);
        }
      }
    }
    return {};
  }

 private:
  // `nodes` lists a cycle from each node to one before it.
  static std::vector<TaskId> CycleFrom(const std::vector<int>& nodes) {
    std::vector<TaskId> tasks;
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) tasks.push_back(TaskId{*it});
    return tasks;
  }

  std::vector<int> node_;                    // by task: the task that stands for its meeting
  std::vector<std::vector<TaskId>> before_;  // by node: tasks that end before it can start
};

}  // namespace

absl::Status CheckMessages(const Program& program) {
  for (const Meeting& meeting : Meetings(program).all()) {
    if (meeting.is_collective) continue;
    const std::vector<TaskId>& sides = meeting.sides;
    if (sides.size() != 2) {
      return RuleBroken("messages", "message ", meeting.number, " (", Describe(program.task(sides[0])), ") has ",
                        base::Counted(sides.size(), "side"), "; expected two");
    }
    RETURN_IF_ERROR(CheckSides(program, program.task(sides[0]), program.task(sides[1])));
  }
  return absl::OkStatus();
}

absl::Status CheckCollectives(const Program& program) {
  for (const Meeting& meeting : Meetings(program).all()) {
    if (!meeting.is_collective) continue;
    RETURN_IF_ERROR(CheckInstance(program, meeting));
  }
  return CheckInstanceOrder(program);
}

absl::Status CheckDeadlock(const Program& program) {
  const std::vector<TaskId> cycle = StepGraph(program).Cycle();
  if (cycle.empty()) return absl::OkStatus();
  const auto describe = [&](std::string* out, TaskId id) { absl::StrAppend(out, Describe(program.task(id))); };
  return RuleBroken("deadlock", "each of these must end before the next can start, and the last before the first: ",
                    absl::StrJoin(cycle, "; ", describe), "; change the order of a lane");
}

}  // namespace colonnade::program
