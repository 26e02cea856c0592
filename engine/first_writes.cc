#include "engine/first_writes.h"

#include <algorithm>
#include <tuple>
#include <variant>

namespace colonnade::engine {

using program::Program;
using program::Task;

std::vector<FirstWrite> FirstWrites(const Program& program) {
  std::vector<size_t> first_of_root(program.buffers.size(), program.tasks.size());
  for (const Task& task : program.tasks) {
    for (const program::BufferUse& use : task.uses) {
      if (use.access == program::Access::kRead) continue;
      size_t& first = first_of_root[program::RootOf(program, use.buffer).value];
      first = std::min<size_t>(first, task.id.value);
    }
  }
  std::vector<FirstWrite> writes;
  for (size_t p = 0; p < program.parameters.size(); ++p) {
    FirstWrite write{.task = program.tasks.size(), .parameter = p};
    for (program::StateKind kind : program::kStateKinds) {
      for (const program::Piece& piece : program.parameters[p].pieces(kind)) {
        write.task = std::min(write.task, first_of_root[program::RootOf(program, piece.buffer).value]);
      }
    }
    writes.push_back(write);
  }
  std::sort(writes.begin(), writes.end(), [](const FirstWrite& a, const FirstWrite& b) {
    return std::tie(a.task, a.parameter) < std::tie(b.task, b.parameter);
  });
  return writes;
}

absl::Duration HeldUp(const Program& program, absl::Span<const FirstWrite> writes, absl::Span<const TaskTime> times) {
  std::vector<absl::Duration> held_up(program.device_count);
  std::vector<bool> is_late(program.device_count, false);  // a write was launched, and no compute task since
  std::vector<absl::Duration> lane_end(program.device_count * program::kLaneCount, -absl::InfiniteDuration());
  size_t next = 0;
  for (const Task& task : program.tasks) {
    for (; next < writes.size() && writes[next].task <= static_cast<size_t>(task.id.value); ++next) {
      std::fill(is_late.begin(), is_late.end(), true);
    }
    const TaskTime& time = times[task.id.value];
    absl::Duration& end = lane_end[task.device * program::kLaneCount + static_cast<int>(task.lane)];
    absl::Duration ready = end;
    for (program::TaskId wait : task.waits) ready = std::max(ready, times[wait.value].end);
    end = time.end;
    if (!is_late[task.device] || !std::holds_alternative<program::Compute>(task.body)) continue;
    is_late[task.device] = false;
    if (ready > -absl::InfiniteDuration()) held_up[task.device] += std::max(time.start - ready, absl::ZeroDuration());
  }
  return held_up.empty() ? absl::ZeroDuration() : *std::max_element(held_up.begin(), held_up.end());
}

}  // namespace colonnade::engine
