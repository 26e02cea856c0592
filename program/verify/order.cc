// The rules `waits`, `initialised` and `order`: every task finds the data that it needs.

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "program/boxes.h"
#include "program/dag.h"
#include "program/location.h"
#include "program/verify/rules.h"

namespace colonnade::program {
namespace {

// Tracks which boxes hold what the step may read, as the tasks run one after the other: state, and what tasks have written.
class Written {
 public:
  Written(const Program& program, const std::vector<bool>& holds_state) : program_(program), roots_(program.buffers.size()) {
    for (const Buffer& buffer : program.buffers) {
      if (holds_state[buffer.id.value]) Add(Locate(program, buffer.id, Region::Whole(buffer.shape)));
    }
  }

  // An element or part of `location` that nothing has written; empty if all is there.
  std::vector<Region> Missing(const Location& location) const {
    const State& state = roots_[location.root.value];
    if (location.member != Location::kParts) {
      if (HoldsAllParts(location.root)) return {};
      return Uncovered(location.region, Find(state, location.member));
    }
    std::vector<Region> parts = Uncovered(location.region, Find(state, Location::kParts));
    if (parts.empty()) return {};
    const auto& bucket = std::get<Bucket>(program_.buffer(location.root).storage);
    for (size_t i = 0; i < bucket.members.size(); ++i) {
      const Region whole = Region::Whole(program_.buffer(bucket.members[i]).shape);
      if (!Uncovered(whole, Find(state, static_cast<int>(i))).empty()) return parts;
    }
    return {};
  }

  void Add(const Location& location) {
    std::vector<Region>& boxes = roots_[location.root.value][location.member];
    // What is covered already adds nothing; what the new box covers is not needed any more.
    for (const Region& box : boxes) {
      if (Contains(box, location.region)) return;
    }
    std::erase_if(boxes, [&](const Region& box) { return Contains(location.region, box); });
    boxes.push_back(location.region);
  }

 private:
  using State = absl::flat_hash_map<int, std::vector<Region>>;  // by Location::member: boxes written

  const std::vector<Region>& Find(const State& state, int member) const {
    const auto it = state.find(member);
    return it == state.end() ? none_ : it->second;
  }

  bool HoldsAllParts(BufferId root) const {
    const auto* bucket = std::get_if<Bucket>(&program_.buffer(root).storage);
    if (bucket == nullptr) return false;
    const Region held{{bucket->first_part}, {bucket->held_parts}};
    return Uncovered(held, Find(roots_[root.value], Location::kParts)).empty();
  }

  const Program& program_;
  std::vector<State> roots_;  // by root
  const std::vector<Region> none_;
};

// By buffer: whether the state of a parameter lies in it.
std::vector<bool> HoldsState(const Program& program) {
  std::vector<bool> holds(program.buffers.size());
  for (const Parameter& parameter : program.parameters) {
    for (const std::vector<Piece>& pieces : parameter.state) {
      for (const Piece& piece : pieces) holds[piece.buffer.value] = true;
    }
  }
  return holds;
}

// Classes of devices that also keep their state in buffers that pair up.
DeviceClasses ClassesByState(const Program& program, const std::vector<bool>& holds_state) {
  DeviceClasses classes(program);
  for (const Buffer& buffer : program.buffers) {
    if (classes.IsRepresentative(buffer.device)) continue;
    const BufferId pair = classes.PairOf(buffer.id, classes.RepresentativeOf(buffer.device));
    if (holds_state[buffer.id.value] != holds_state[pair.value]) classes.SetApart(buffer.device);
  }
  return classes;
}

absl::Status NotInitialised(const Program& program, const Task& task, const BufferUse& use, const Region& missing) {
  const Buffer& root = program.buffer(RootOf(program, use.buffer));
  const std::string whose = root.id == use.buffer ? std::string() : absl::StrCat(" of ", Describe(root));
  const char* expected =
      root.lifetime == Lifetime::kPersistent ? "; it persists, so expected a parameter whose state lies there" : "";
  return RuleBroken("initialised", Describe(task), " reads ", ToString(use.region), " of ",
                    Describe(program.buffer(use.buffer)), ", but no task before it writes ", ToString(missing), whose,
                    expected);
}

}  // namespace

absl::Status CheckInitialised(const Program& program) {
  const std::vector<bool> holds_state = HoldsState(program);
  Written written(program, holds_state);
  const DeviceClasses classes = ClassesByState(program, holds_state);
  for (const Task& task : program.tasks) {
    if (!classes.IsRepresentative(task.device)) continue;
    for (const BufferUse& use : task.uses) {
      if (!Reads(use.access)) continue;
      const Location location = Locate(program, use);
      const std::vector<Region> missing = written.Missing(location);
      if (!missing.empty()) return NotInitialised(program, task, use, missing.front());
      written.Add(location);  // one box for the many that made it up
    }
    for (const BufferUse& use : task.uses) {
      if (Writes(use.access)) written.Add(Locate(program, use));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWaits(const Program& program) {
  const auto check = [&](const Task& task, TaskId wait, bool in_step_before) {
    if (!wait.valid() || static_cast<size_t>(wait.value) >= program.tasks.size()) {
      return RuleBroken("waits", Describe(task), " waits for task ", wait.value, " of ", program.tasks.size());
    }
    const Task& other = program.task(wait);
    if (other.device != task.device || other.lane == task.lane) {
      return RuleBroken("waits", Describe(task), " on lane ", Name(task.lane), " waits for ", Describe(other), " on lane ",
                        Name(other.lane), "; expected another lane of the same device");
    }
    if (!in_step_before && wait >= task.id) {
      return RuleBroken("waits", Describe(task), " waits for ", Describe(other), ", which comes later in the step");
    }
    return absl::OkStatus();
  };
  for (const Task& task : program.tasks) {
    for (TaskId wait : task.waits) {
      RETURN_IF_ERROR(check(task, wait, false));
    }
    for (TaskId wait : task.waits_previous) {
      RETURN_IF_ERROR(check(task, wait, true));
    }
  }
  return absl::OkStatus();
}

namespace {

// The uses by which two tasks conflict, in words.
std::string DescribeConflict(const Program& program, const Task& before, const Task& after, bool in_step_before) {
  const char* when = in_step_before ? " in the step before" : "";
  for (const BufferUse& b : after.uses) {
    for (const BufferUse& a : before.uses) {
      if (!Conflicts(program, a, b)) continue;
      return absl::StrCat(Describe(after), " ", Writes(b.access) ? "writes " : "reads ", Describe(program.buffer(b.buffer)),
                          " that ", Describe(before), Writes(a.access) ? " writes" : " reads", when);
    }
  }
  return absl::StrCat(Describe(after), " depends on ", Describe(before), when);
}

}  // namespace

absl::Status CheckOrder(const Program& program) {
  const DeviceClasses classes(program);
  const Dependencies dependencies = DeriveDependencies(program, classes);
  const HappensBefore order(program, classes);
  for (const Task& task : program.tasks) {
    for (TaskId before : dependencies.within[task.id.value]) {
      if (order.Within(before, task.id)) continue;
      return RuleBroken("order", DescribeConflict(program, program.task(before), task, false),
                        ", but nothing orders them; add a wait");
    }
    for (TaskId before : dependencies.carried[task.id.value]) {
      if (order.Carried(before, task.id)) continue;
      return RuleBroken("order", DescribeConflict(program, program.task(before), task, true),
                        ", but nothing orders them; add a wait on the step before");
    }
  }
  return absl::OkStatus();
}

}  // namespace colonnade::program
