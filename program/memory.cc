#include "program/memory.h"

#include <algorithm>

#include "program/memory_order.h"

namespace colonnade::program {
namespace {

int64_t RoundUp(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

bool HasOwnMemory(const Buffer& buffer) {
  return std::holds_alternative<Root>(buffer.storage) || std::holds_alternative<Bucket>(buffer.storage);
}

// Gives `buffer` the lowest place apart from `neighbours`, the placed buffers that must not share its bytes.
void PlaceLowest(BufferId buffer, std::vector<BufferId> neighbours, int64_t alignment, Placement& placement) {
  std::sort(neighbours.begin(), neighbours.end(), [&](BufferId a, BufferId b) {
    return std::pair(placement.offset[a.value], a) < std::pair(placement.offset[b.value], b);
  });
  int64_t place = 0;
  for (BufferId neighbour : neighbours) {
    const int64_t begin = placement.offset[neighbour.value], end = begin + placement.size[neighbour.value];
    if (place + placement.size[buffer.value] <= begin) break;
    place = std::max(place, RoundUp(end, alignment));
  }
  placement.offset[buffer.value] = place;
}

}  // namespace

Placement PlaceBuffers(const Program& program, const SizeOf& size_of, int64_t alignment) {
  Placement placement;
  placement.offset.assign(program.buffers.size(), -1);
  placement.size.assign(program.buffers.size(), 0);
  placement.step_bytes.assign(program.device_count, 0);
  placement.persistent_bytes.assign(program.device_count, 0);

  std::vector<BufferId> step_roots;
  for (const Buffer& buffer : program.buffers) {
    if (!HasOwnMemory(buffer)) continue;
    placement.size[buffer.id.value] = size_of(buffer);
    if (buffer.lifetime == Lifetime::kStep) {
      step_roots.push_back(buffer.id);
      continue;
    }
    int64_t& bytes = placement.persistent_bytes[buffer.device];
    placement.offset[buffer.id.value] = RoundUp(bytes, alignment);
    bytes = placement.offset[buffer.id.value] + placement.size[buffer.id.value];
  }
  std::stable_sort(step_roots.begin(), step_roots.end(), [&](BufferId a, BufferId b) {
    return placement.size[a.value] > placement.size[b.value];
  });

  const MemoryOrder order(program);
  std::vector<std::vector<BufferId>> placed(program.device_count);
  for (BufferId root : step_roots) {
    const int device = program.buffer(root).device;
    std::vector<BufferId> neighbours;
    for (BufferId other : placed[device]) {
      if (placement.size[other.value] > 0 && !order.Apart(root, other)) neighbours.push_back(other);
    }
    PlaceLowest(root, std::move(neighbours), alignment, placement);
    placed[device].push_back(root);
    int64_t& bytes = placement.step_bytes[device];
    bytes = std::max(bytes, placement.offset[root.value] + placement.size[root.value]);
  }
  return placement;
}

int64_t DenseSizeOf(const Program& program, const Buffer& buffer) {
  const auto* bucket = std::get_if<Bucket>(&buffer.storage);
  if (bucket == nullptr) return ElementCount(buffer.shape) * SizeInBytes(buffer.dtype);
  int64_t bytes = 0;
  for (BufferId member : bucket->members) bytes += DenseSizeOf(program, program.buffer(member));
  // A part is a whole number of elements; the last one is padded.
  const int64_t element = SizeInBytes(buffer.dtype);
  return RoundUp(bytes / element, bucket->parts) / bucket->parts * bucket->held_parts * element;
}

}  // namespace colonnade::program
