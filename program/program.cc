#include "program/program.h"

#include <algorithm>
#include <utility>

namespace colonnade::program {

const char* Name(StateKind kind) {
  switch (kind) {
    case StateKind::kValue:
      return "value";
    case StateKind::kMomentum:
      return "momentum";
    case StateKind::kSecondMoment:
      return "second_moment";
    case StateKind::kAverage:
      return "average";
  }
  return "";
}

std::optional<int> DeviceCount(absl::Span<const MeshAxis> mesh) {
  int64_t devices = 1;
  for (const MeshAxis& axis : mesh) {
    if (axis.size < 1 || axis.size > kMostDevices / devices) return std::nullopt;
    devices *= axis.size;
  }
  return static_cast<int>(devices);
}

int FindPiece(const std::vector<Piece>& pieces, BufferId buffer) {
  const auto found = std::find_if(pieces.begin(), pieces.end(), [&](const Piece& piece) { return piece.buffer == buffer; });
  return found == pieces.end() ? -1 : static_cast<int>(found - pieces.begin());
}

bool HasMemory(const Buffer& buffer) {
  return std::holds_alternative<Root>(buffer.storage) || std::holds_alternative<Bucket>(buffer.storage);
}

BufferId RootOf(const Program& program, BufferId id) {
  const auto* member = std::get_if<BucketMember>(&program.buffer(id).storage);
  return member == nullptr ? id : member->bucket;
}

bool UsesSlots(const Program& program, const Task& task) {
  return std::any_of(task.uses.begin(), task.uses.end(),
                     [&](const BufferUse& use) { return program.buffer(RootOf(program, use.buffer)).slots > 1; });
}

bool IsPartlyHeld(const Program& program, BufferId id) {
  const auto* member = std::get_if<BucketMember>(&program.buffer(id).storage);
  if (member == nullptr) return false;
  const auto& bucket = std::get<Bucket>(program.buffer(member->bucket).storage);
  return bucket.held_parts < bucket.parts;
}

int TrainedCount(const Program& program) {
  const auto is_trained = [](const Parameter& p) { return p.role == StateRole::kTrained; };
  return static_cast<int>(std::count_if(program.parameters.begin(), program.parameters.end(), is_trained));
}

std::vector<TaskId> LaneOrder(const Program& program, int device, Lane lane) {
  std::vector<TaskId> order;
  for (const Task& task : program.tasks) {
    if (task.device == device && task.lane == lane) order.push_back(task.id);
  }
  return order;
}

std::vector<TaskId> PreviousInLane(const Program& program) {
  std::vector<std::array<TaskId, kLaneCount>> last(program.device_count);
  std::vector<TaskId> previous;
  previous.reserve(program.tasks.size());
  for (const Task& task : program.tasks) {
    previous.push_back(std::exchange(last[task.device][static_cast<int>(task.lane)], task.id));
  }
  return previous;
}

}  // namespace colonnade::program
