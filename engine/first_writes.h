// Which task of a step is the first to change what is kept of a parameter: until that task the state after the step before
// can be read while the step runs.
#ifndef COLONNADE_ENGINE_FIRST_WRITES_H_
#define COLONNADE_ENGINE_FIRST_WRITES_H_

#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/backend.h"
#include "program/program.h"

namespace colonnade::engine {

struct FirstWrite {
  size_t task = 0;  // by Program::tasks; one past the last where none writes
  size_t parameter = 0;
  bool operator==(const FirstWrite&) const = default;
};

// Returns the first write of every parameter, in the order of the tasks. A write to a bucket counts for all its members.
std::vector<FirstWrite> FirstWrites(const program::Program& program);

// Returns how long the host held up a step whose first writes it launched late, by the times of its tasks. After each of
// `writes`, the first compute task that was launched on a device may have been ready for some time before it started; the
// result is the sum of these times on the device where it is largest.
absl::Duration HeldUp(const program::Program& program, absl::Span<const FirstWrite> writes,
                      absl::Span<const TaskTime> times);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_FIRST_WRITES_H_
