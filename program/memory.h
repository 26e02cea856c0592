// Where the buffers of a Program lie in each device's memory: one function for all backends and for predictions.
//
// Two step buffers share bytes only where lane order and the emitted waits keep all their uses apart, within a step and
// from one step to the next. Members of a bucket lie inside it.
#ifndef COLONNADE_PROGRAM_MEMORY_H_
#define COLONNADE_PROGRAM_MEMORY_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "program/program.h"

namespace colonnade::program {

// Bytes of a root or a bucket (all of its held parts) in the backend's layout.
using SizeOf = std::function<int64_t(const Buffer&)>;

struct MemoryMap {
  std::vector<int64_t> offset;            // by buffer: byte offset of each root in its arena; −1 for members
  std::vector<int64_t> size;              // by buffer: bytes of each root, of all its slots
  std::vector<int64_t> step_bytes;        // by device: bytes of the arena that step buffers share
  std::vector<int64_t> persistent_bytes;  // by device
};

// Step buffers and persistent buffers lie in two arenas of their own per device, each from offset 0. Offsets are multiples
// of `alignment`. Greedy by size: each buffer takes the lowest place that no conflicting buffer has.
// Slots of a buffer lie one behind the other, each as long as the others.
MemoryMap PlaceBuffers(const Program& program, const SizeOf& size_of, int64_t alignment = 64);

// Returns the bytes that the content of `buffer` takes if no layout pads it. Of a bucket these are the parts that its device
// holds, each counted as large as its largest part.
int64_t DenseSizeOf(const Program& program, const Buffer& buffer);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_MEMORY_H_
