// An oracle for memory maps, beside the order by which they are made.
#ifndef COLONNADE_TESTS_PROGRAM_VERIFY_MEMORY_MAP_H_
#define COLONNADE_TESTS_PROGRAM_VERIFY_MEMORY_MAP_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "program/dag.h"
#include "program/device_classes.h"
#include "program/memory.h"
#include "program/memory_order.h"
#include "program/verify/rules.h"

namespace colonnade::program {

inline std::vector<TaskId> TasksThatUse(const Program& program, BufferId root) {
  std::vector<TaskId> tasks;
  for (const Task& task : program.tasks) {
    const auto is_of_root = [&](const BufferUse& use) { return RootOf(program, use.buffer) == root; };
    if (std::any_of(task.uses.begin(), task.uses.end(), is_of_root)) tasks.push_back(task.id);
  }
  return tasks;
}

// Returns two tasks that keep `a` from being `b`'s predecessor in memory: the first uses one root and is not known to have
// ended when the second, which uses the other, starts. Empty if there are none.
inline std::optional<std::pair<TaskId, TaskId>> Clash(const Program& program, BufferId a, BufferId b) {
  const HappensBefore order(program);
  for (TaskId of_a : TasksThatUse(program, a)) {
    for (TaskId of_b : TasksThatUse(program, b)) {
      if (!order.Within(of_a, of_b)) return std::pair(of_a, of_b);
      if (!order.Carried(of_b, of_a)) return std::pair(of_b, of_a);
    }
  }
  return std::nullopt;
}

// Two roots of one arena whose bytes overlap.
inline absl::Status CheckShared(const Program& program, const MemoryOrder& order, BufferId a, BufferId b) {
  const Buffer& buffer_a = program.buffer(a);
  const Buffer& buffer_b = program.buffer(b);
  if (buffer_a.lifetime == Lifetime::kPersistent) {
    return RuleBroken("placement", Describe(buffer_a), " and ", Describe(buffer_b), " of device ", buffer_a.device,
                      " share bytes, but both outlive the step; place them apart");
  }
  if (order.Apart(a, b)) return absl::OkStatus();
  const auto clash = Clash(program, a, b);
  return RuleBroken("placement", Describe(buffer_a), " and ", Describe(buffer_b), " of device ", buffer_a.device,
                    " share bytes, but ", Describe(program.task(clash->first)), " is not known to have ended when ",
                    Describe(program.task(clash->second)), " starts; place them apart or add a wait");
}

// Checks a memory map: tasks of one device whose byte ranges overlap, one of them writing, are ordered. Its messages name
// the rule `placement`, of buffers in memory.
inline absl::Status VerifyMemoryMap(const Program& program, const MemoryMap& map) {
  if (map.offset.size() != program.buffers.size() || map.size.size() != program.buffers.size()) {
    return RuleBroken("placement", "expected a place for each of ", program.buffers.size(), " buffers, found ",
                      map.offset.size(), " offsets and ", map.size.size(), " sizes");
  }
  std::vector<BufferId> roots;
  for (const Buffer& buffer : program.buffers) {
    if (RootOf(program, buffer.id) != buffer.id) continue;
    if (map.offset[buffer.id.value] < 0) return RuleBroken("placement", Describe(buffer), " has no place");
    if (map.size[buffer.id.value] > 0) roots.push_back(buffer.id);
  }
  const auto arena = [&](BufferId id) { return std::pair(program.buffer(id).device, program.buffer(id).lifetime); };
  const auto begin = [&](BufferId id) { return map.offset[id.value]; };
  std::sort(roots.begin(), roots.end(),
            [&](BufferId a, BufferId b) { return std::pair(arena(a), begin(a)) < std::pair(arena(b), begin(b)); });
  const MemoryOrder order(program, DeviceClasses::EachApart(program));
  for (size_t i = 0; i < roots.size(); ++i) {
    const int64_t end = begin(roots[i]) + map.size[roots[i].value];
    for (size_t j = i + 1; j < roots.size() && arena(roots[j]) == arena(roots[i]) && begin(roots[j]) < end; ++j) {
      RETURN_IF_ERROR(CheckShared(program, order, roots[i], roots[j]));
    }
  }
  return absl::OkStatus();
}

}  // namespace colonnade::program

#endif  // COLONNADE_TESTS_PROGRAM_VERIFY_MEMORY_MAP_H_
