#include "program/memory.h"

#include <algorithm>

#include "program/device_classes.h"
#include "program/formulas/rounding.h"
#include "program/memory_order.h"

namespace colonnade::program {
namespace {

// Gives `buffer` the lowest place apart from those of `placed`, which is in order of offsets, that must not share its bytes.
void PlaceLowest(BufferId buffer, const MemoryOrder& order, int64_t alignment, std::vector<BufferId>& placed,
                 MemoryMap& map) {
  int64_t place = 0;
  for (BufferId other : placed) {
    const int64_t begin = map.offset[other.value], end = begin + map.size[other.value];
    if (begin >= place + map.size[buffer.value]) break;
    if (end > place && begin < end && !order.Apart(buffer, other)) place = RoundUp(end, alignment);
  }
  map.offset[buffer.value] = place;
  const auto after = std::upper_bound(placed.begin(), placed.end(), place,
                                      [&](int64_t offset, BufferId other) { return offset < map.offset[other.value]; });
  placed.insert(after, buffer);
}

// Takes devices apart from which the first of their class differs in the size of a buffer.
void CompareSizes(const Program& program, const MemoryMap& map, DeviceClasses& classes) {
  for (int device = 0; device < program.device_count; ++device) {
    const std::vector<BufferId>& own = classes.BuffersOf(device);
    const std::vector<BufferId>& first = classes.BuffersOf(classes.RepresentativeOf(device));
    const auto same = [&](BufferId a, BufferId b) { return map.size[a.value] == map.size[b.value]; };
    if (!std::equal(own.begin(), own.end(), first.begin(), same)) classes.SetApart(device);
  }
}

}  // namespace

MemoryMap PlaceBuffers(const Program& program, const SizeOf& size_of, int64_t alignment) {
  MemoryMap map;
  map.offset.assign(program.buffers.size(), -1);
  map.size.assign(program.buffers.size(), 0);
  map.step_bytes.assign(program.device_count, 0);
  map.persistent_bytes.assign(program.device_count, 0);

  std::vector<BufferId> step_roots;
  for (const Buffer& buffer : program.buffers) {
    if (!HasMemory(buffer)) continue;
    map.size[buffer.id.value] = buffer.slots == 1 ? size_of(buffer) : buffer.slots * RoundUp(size_of(buffer), alignment);
    if (buffer.lifetime == Lifetime::kStep) {
      step_roots.push_back(buffer.id);
      continue;
    }
    int64_t& bytes = map.persistent_bytes[buffer.device];
    map.offset[buffer.id.value] = RoundUp(bytes, alignment);
    bytes = map.offset[buffer.id.value] + map.size[buffer.id.value];
  }
  std::stable_sort(step_roots.begin(), step_roots.end(),
                   [&](BufferId a, BufferId b) { return map.size[a.value] > map.size[b.value]; });

  DeviceClasses classes(program);
  CompareSizes(program, map, classes);
  const MemoryOrder order(program, classes);
  std::vector<std::vector<BufferId>> placed(program.device_count);
  for (BufferId root : step_roots) {
    const int device = program.buffer(root).device;
    if (!classes.IsRepresentative(device)) continue;
    PlaceLowest(root, order, alignment, placed[device], map);
    int64_t& bytes = map.step_bytes[device];
    bytes = std::max(bytes, map.offset[root.value] + map.size[root.value]);
  }
  for (BufferId root : step_roots) {
    const int device = program.buffer(root).device, first = classes.RepresentativeOf(device);
    map.offset[root.value] = map.offset[classes.PairOf(root, first).value];
    map.step_bytes[device] = map.step_bytes[first];
  }
  return map;
}

int64_t DenseSizeOf(const Program& program, const Buffer& buffer) {
  const auto* bucket = std::get_if<Bucket>(&buffer.storage);
  if (bucket == nullptr) return ElementCount(buffer.shape) * SizeInBytes(buffer.dtype);
  int64_t bytes = 0;
  for (BufferId member : bucket->members) bytes += DenseSizeOf(program, program.buffer(member));
  // A part is a whole number of elements, and all parts count as the largest.
  const int64_t element = SizeInBytes(buffer.dtype);
  return CeilDiv(bytes / element, bucket->parts) * bucket->held_parts * element;
}

}  // namespace colonnade::program
