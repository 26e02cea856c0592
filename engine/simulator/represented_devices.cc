#include "engine/simulator/represented_devices.h"

#include <algorithm>
#include <variant>

namespace colonnade::engine {

using program::Task;

absl::Span<const int> RepresentedDevices::DoneBy(const Task& task) const {
  if (representatives_ == nullptr || StoresForAll(task)) return absl::MakeConstSpan(&task.device, 1);
  return representatives_->stands_for[task.device];
}

const RepresentedDevices::Devices& RepresentedDevices::TakingPartIn(const Task& task) {
  Devices own = {task.device};
  if (const auto* exchange = std::get_if<program::Exchange>(&task.body)) own = InMemberOrder(task.device, exchange->peer);
  if (const auto* collective = std::get_if<program::Collective>(&task.body)) own = program_.groups[collective->group];
  const auto [known, is_new] = taking_part_.try_emplace(own);
  if (!is_new) return known->second;
  if (own.size() == 1) return known->second = representatives_->stands_for[task.device];
  for (const Devices& group : MeetingsLike(own)) known->second.insert(known->second.end(), group.begin(), group.end());
  std::sort(known->second.begin(), known->second.end());
  return known->second;
}

absl::Span<const RepresentedDevices::Devices> RepresentedDevices::MeetingsLike(const Devices& devices) const {
  if (representatives_ == nullptr) return absl::MakeConstSpan(&devices, 1);
  return representatives_->alike.at(devices);
}

RepresentedDevices::Devices RepresentedDevices::InMemberOrder(int device, int peer) const {
  if (representatives_ == nullptr || representatives_->alike.contains({device, peer})) return {device, peer};
  return {peer, device};
}

double RepresentedDevices::TaskCount() const {
  if (representatives_ == nullptr) return static_cast<double>(program_.tasks.size());
  double count = 0;
  for (const Task& task : program_.tasks) {
    const bool computes = std::holds_alternative<program::Compute>(task.body);
    count += static_cast<double>(computes ? DoneBy(task).size() : representatives_->stands_for[task.device].size());
  }
  return count;
}

bool RepresentedDevices::StoresForAll(const Task& task) const {
  const auto* store = std::get_if<program::Store>(&std::get<program::Compute>(task.body).op);
  if (store == nullptr) return false;
  const program::Output::Kind kind = program_.outputs[store->output].kind;
  return kind == program::Output::Kind::kMetrics || kind == program::Output::Kind::kGate;
}

}  // namespace colonnade::engine
