// Which task of a step is the first to change what is kept of a parameter: until then the state of the step before can be
// read while the step runs.
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

// Of every parameter, in the order of the tasks. What one task writes of a bucket counts for all its members.
std::vector<FirstWrite> FirstWrites(const program::Program& program);

// How long the host held up a step whose first writes it launched late, by the times of its tasks: the time for which the
// first compute task of a device that was launched after one of them was ready and did not start, summed over `writes`, on
// the device where that is most.
absl::Duration HeldUp(const program::Program& program, absl::Span<const FirstWrite> writes,
                      absl::Span<const TaskTime> times);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_FIRST_WRITES_H_
