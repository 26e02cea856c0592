#include "program/dag.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/types/span.h"
#include "program/location.h"

namespace colonnade::program {
namespace {

// One use that later uses may have to wait for.
struct Past {
  TaskId task;
  bool in_step_before;
  Location location;
};

// The uses of a root, or of one member of a bucket, that still matter. Invariant: no entry is covered by a write that came
// after it.
struct History {
  std::vector<Past> reads, writes;
};

// The uses of all roots. Those of a bucket by member, since members are used one by one and meet only its parts.
class Histories {
 public:
  explicit Histories(const Program& program) : program_(program), first_(program.buffers.size()) {
    size_t count = 0;
    for (const Buffer& buffer : program.buffers) {
      first_[buffer.id.value] = count;
      count += 1 + MembersOf(buffer.id);
    }
    all_.resize(count);
  }

  // Calls visit(history) for each in which there may be what meets `location`.
  template <class Visit>
  void ForEach(const Location& location, const Visit& visit) {
    History* const whole = &all_[first_[location.root.value]];  // or of the parts
    visit(*whole);
    if (location.member >= 0) {
      visit(whole[1 + location.member]);
    } else if (location.member == Location::kParts) {
      for (size_t i = 0; i < MembersOf(location.root); ++i) visit(whole[1 + i]);
    }
  }

  // Returns the history in which the uses of `location` are entered.
  History& Of(const Location& location) { return all_[first_[location.root.value] + std::max(0, 1 + location.member)]; }

  // Returns the histories of a root.
  absl::Span<History> OfRoot(BufferId root) { return absl::MakeSpan(all_).subspan(first_[root.value], 1 + MembersOf(root)); }

 private:
  size_t MembersOf(BufferId root) const {
    const auto* bucket = std::get_if<Bucket>(&program_.buffer(root).storage);
    return bucket == nullptr ? 0 : bucket->members.size();
  }

  const Program& program_;
  std::vector<size_t> first_;  // by buffer: where its histories begin
  std::vector<History> all_;
};

// Walks the body of the loop twice, so that the second walk sees what the step before left.
class Walk {
 public:
  Walk(const Program& program, const DeviceClasses& classes) : program_(program), classes_(classes), histories_(program) {}

  Dependencies Run() {
    Dependencies found;
    found.within.resize(program_.tasks.size());
    found.carried.resize(program_.tasks.size());
    VisitAll(found.within, /*in_step_before=*/false);
    for (const Buffer& buffer : program_.buffers) {
      for (History& history : histories_.OfRoot(buffer.id)) {
        if (buffer.slots > 1) history = {};  // the step before uses the other slot
        for (Past& past : history.reads) past.in_step_before = true;
        for (Past& past : history.writes) past.in_step_before = true;
      }
    }
    VisitAll(found.carried, /*in_step_before=*/true);
    return found;
  }

 private:
  void VisitAll(std::vector<std::vector<TaskId>>& predecessors, bool in_step_before) {
    for (const Task& task : program_.tasks) {
      if (classes_.IsRepresentative(task.device)) Visit(task, predecessors[task.id.value], in_step_before);
    }
  }

  // Adds to `predecessors` those of `task` whose step is meant, then enters its uses into the history.
  void Visit(const Task& task, std::vector<TaskId>& predecessors, bool in_step_before) {
    const Located located = LocateAll(task);
    for (const Location& read : located.reads) {
      histories_.ForEach(read, [&](const History& history) { Collect(history.writes, read, in_step_before, predecessors); });
    }
    for (const Location& write : located.writes) {
      histories_.ForEach(write, [&](const History& history) {
        Collect(history.writes, write, in_step_before, predecessors);
        Collect(history.reads, write, in_step_before, predecessors);
      });
    }
    std::sort(predecessors.begin(), predecessors.end());
    predecessors.erase(std::unique(predecessors.begin(), predecessors.end()), predecessors.end());
    for (const Location& read : located.reads) histories_.Of(read).reads.push_back({task.id, false, read});
    for (const Location& write : located.writes) {
      histories_.ForEach(write, [&](History& history) {
        DropCovered(history.reads, write);
        DropCovered(history.writes, write);
      });
      histories_.Of(write).writes.push_back({task.id, false, write});
    }
  }

  // What a task reads, and what it writes, or reads and writes.
  struct Located {
    absl::InlinedVector<Location, 4> reads, writes;
  };

  Located LocateAll(const Task& task) const {
    Located located;
    for (const BufferUse& use : task.uses) {
      (Writes(use.access) ? located.writes : located.reads).push_back(Locate(program_, use));
    }
    JoinRanges(located.writes);
    return located;
  }

  // Joins ranges of one buffer of one dimension that adjoin each other: a task may write a buffer element by element.
  static void JoinRanges(absl::InlinedVector<Location, 4>& locations) {
    const auto is_range = [](const Location& l) { return l.member == Location::kWhole && l.region.offset.size() == 1; };
    const auto order = [&](const Location& a, const Location& b) {
      return std::tuple(is_range(a), a.root, is_range(a) ? a.region.offset[0] : 0) <
             std::tuple(is_range(b), b.root, is_range(b) ? b.region.offset[0] : 0);
    };
    std::stable_sort(locations.begin(), locations.end(), order);
    size_t kept = 0;
    for (size_t i = 1; i < locations.size(); ++i) {
      Region &last = locations[kept].region, &next = locations[i].region;
      if (is_range(locations[kept]) && is_range(locations[i]) && locations[kept].root == locations[i].root &&
          last.offset[0] + last.size[0] == next.offset[0]) {
        last.size[0] += next.size[0];
      } else if (++kept != i) {
        locations[kept] = std::move(locations[i]);
      }
    }
    if (!locations.empty()) locations.resize(kept + 1);
  }

  static void Collect(const std::vector<Past>& past, const Location& location, bool in_step_before,
                      std::vector<TaskId>& predecessors) {
    for (const Past& p : past) {
      if (p.in_step_before == in_step_before && ShareElements(p.location, location)) predecessors.push_back(p.task);
    }
  }

  void DropCovered(std::vector<Past>& past, const Location& by) const {
    std::erase_if(past, [&](const Past& p) { return Covers(program_, by, p.location); });
  }

  const Program& program_;
  const DeviceClasses& classes_;
  Histories histories_;
};

}  // namespace

Dependencies DeriveDependencies(const Program& program) {
  return DeriveDependencies(program, DeviceClasses::EachApart(program));
}

Dependencies DeriveDependencies(const Program& program, const DeviceClasses& classes) {
  return Walk(program, classes).Run();
}

bool Conflicts(const Program& program, const BufferUse& a, const BufferUse& b) {
  return (Writes(a.access) || Writes(b.access)) && ShareElements(Locate(program, a), Locate(program, b));
}

HappensBefore::HappensBefore(const Program& program) : HappensBefore(program, DeviceClasses::EachApart(program)) {}

HappensBefore::HappensBefore(const Program& program, const DeviceClasses& classes)
    : device_(program.tasks.size()),
      lane_(program.tasks.size()),
      position_(program.tasks.size()),
      ended_(program.tasks.size()),
      lane_sizes_(program.device_count) {
  const std::vector<TaskId> previous = PreviousInLane(program);
  std::vector<std::array<TaskId, kLaneCount>> last_of_lane(program.device_count);
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    device_[i] = task.device;
    lane_[i] = static_cast<int>(task.lane);
    position_[i] = lane_sizes_[device_[i]][lane_[i]]++;
    last_of_lane[device_[i]][lane_[i]] = task.id;
  }
  // "Nothing of the step before has ended" is what can be known of a task without any predecessor.
  for (size_t i = 0; i < ended_.size(); ++i) {
    for (int lane = 0; lane < kLaneCount; ++lane) ended_[i][lane] = -lane_sizes_[device_[i]][lane];
  }
  const auto after = [&](size_t task, int predecessor, bool in_step_before) {
    bool grew = false;
    for (int lane = 0; lane < kLaneCount; ++lane) {
      int64_t ended = ended_[predecessor][lane];
      if (lane == lane_[predecessor]) ended = std::max(ended, position_[predecessor] + 1);
      if (in_step_before) ended -= lane_sizes_[device_[task]][lane];
      if (ended > ended_[task][lane]) {
        ended_[task][lane] = ended;
        grew = true;
      }
    }
    return grew;
  };
  // An edge crosses at most one border of steps, so the second round knows all and the third finds nothing new.
  for (bool grew = true; grew;) {
    grew = false;
    for (size_t i = 0; i < ended_.size(); ++i) {
      if (!classes.IsRepresentative(device_[i])) continue;
      const bool first = !previous[i].valid();
      grew |= after(i, (first ? last_of_lane[device_[i]][lane_[i]] : previous[i]).value, first);
      for (TaskId wait : program.tasks[i].waits) grew |= after(i, wait.value, false);
      for (TaskId wait : program.tasks[i].waits_previous) grew |= after(i, wait.value, true);
    }
  }
}

bool HappensBefore::Within(TaskId a, TaskId b) const {
  return device_[a.value] == device_[b.value] && ended_[b.value][lane_[a.value]] > position_[a.value];
}

bool HappensBefore::Carried(TaskId a, TaskId b) const {
  const int device = device_[a.value], lane = lane_[a.value];
  return device == device_[b.value] && ended_[b.value][lane] + lane_sizes_[device][lane] > position_[a.value];
}

}  // namespace colonnade::program
