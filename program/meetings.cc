#include "program/meetings.h"

#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"

namespace colonnade::program {

Meetings::Meetings(const Program& program) : index_(program.tasks.size(), -1) {
  absl::flat_hash_map<std::pair<bool, int32_t>, int> known;
  for (const Task& task : program.tasks) {
    alone_.push_back(task.id);
    const auto* exchange = std::get_if<Exchange>(&task.body);
    const auto* collective = std::get_if<Collective>(&task.body);
    if (exchange == nullptr && collective == nullptr) continue;
    const std::pair key(collective != nullptr, exchange != nullptr ? exchange->message : collective->instance);
    const auto [at, is_new] = known.emplace(key, static_cast<int>(all_.size()));
    if (is_new) all_.push_back({key.first, key.second, {}});
    index_[task.id.value] = at->second;
    all_[at->second].sides.push_back(task.id);
  }
}

absl::Span<const TaskId> Meetings::SidesOf(TaskId task) const {
  const int index = index_[task.value];
  return index < 0 ? absl::MakeConstSpan(&alone_[task.value], 1) : absl::MakeConstSpan(all_[index].sides);
}

std::vector<TaskId> ByMember(const Program& program, absl::Span<const TaskId> sides) {
  const int group = std::get<Collective>(program.task(sides[0]).body).group;
  absl::flat_hash_map<int, TaskId> of_device;
  for (TaskId side : sides) of_device.try_emplace(program.task(side).device, side);
  std::vector<TaskId> members;
  for (int device : program.groups[group]) {
    const auto found = of_device.find(device);
    members.push_back(found == of_device.end() ? TaskId{} : found->second);
  }
  return members;
}

}  // namespace colonnade::program
