// The rules of Verify, one function each, and how its messages name things. Internal to program/.
//
// CheckStructure comes first: the others rely on what it has checked. Pure functions; threads may share a Program.
#ifndef COLONNADE_PROGRAM_VERIFY_RULES_H_
#define COLONNADE_PROGRAM_VERIFY_RULES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "program/program.h"

namespace colonnade::program {

// Limits that keep products of extents far from overflow, whatever a text says.
inline constexpr int64_t kMaxAttribute = int64_t{1} << 31;
inline constexpr int kMaxRank = 8;

absl::Status CheckStructure(const Program& program);  // and calls CheckOperands for each task
absl::Status CheckOperands(const Program& program, const Task& task);
absl::Status CheckDeclarations(const Program& program);  // outputs, slots
absl::Status CheckWaits(const Program& program);
absl::Status CheckMessages(const Program& program);
absl::Status CheckCollectives(const Program& program);
absl::Status CheckArgmax(const Program& program);
absl::Status CheckOverlap(const Program& program);   // REQUIRES: collectives are sound
absl::Status CheckDeadlock(const Program& program);  // REQUIRES: waits, messages and collectives are sound
absl::Status CheckInitialised(const Program& program);
absl::Status CheckOrder(const Program& program);  // REQUIRES: waits are sound

// True if `shape` has no negative extent and keeps kMaxRank and kMostElements.
bool IsSound(const Shape& shape);

// True if `region` lies in `shape`, also for numbers that would overflow a sum.
bool Fits(const Region& region, const Shape& shape);

// What a use holds, as far as two devices' uses must agree on it.
struct Extents {
  DType dtype;
  Shape size;                  // of a bucket: {parts}
  std::vector<Shape> members;  // of a bucket; else empty
  int64_t bucket_parts = 0;    // of a bucket: into how many parts its bytes are cut; else 0
  bool equal_parts = false;    // of a bucket
  int64_t first_part = 0;      // that is used, of a bucket whose parts differ
  bool operator==(const Extents&) const = default;
};
Extents ExtentsOf(const Program& program, const BufferUse& use);

std::string Describe(const Buffer& buffer);  // buffer 12 "conv1.y"
std::string Describe(const Extents& extents);

template <class... Parts>
absl::Status RuleBroken(const char* rule, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(rule, ": ", parts...));
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_VERIFY_RULES_H_
