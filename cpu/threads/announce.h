// Tells ThreadSanitizer which bytes a task touches, since it cannot see into generated code.
//
// In other builds an Announcer is empty and costs nothing.
#ifndef COLONNADE_CPU_ANNOUNCE_H_
#define COLONNADE_CPU_ANNOUNCE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "cpu/task_context.h"

namespace colonnade::cpu {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1  // as GCC says it
#endif
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

// The byte ranges of the boxes that one task's uses state, and no byte beside them.
class Announcer {
 public:
  Announcer() = default;
  // `data`: by operand, the base of its root buffer.
  Announcer(absl::Span<const Operand> operands, absl::Span<char* const> data);

  // To be called on the task's thread, before and after it runs.
  void Announce() const;

 private:
  struct Range {
    char* begin;
    int64_t bytes;
    bool write;
  };
  std::vector<Range> ranges_;
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_ANNOUNCE_H_
