// A file system whose locks answer what a test says, as those of networks may.
#ifndef COLONNADE_TESTS_ENGINE_LOCKS_H_
#define COLONNADE_TESTS_ENGINE_LOCKS_H_

#include <cerrno>
#include <utility>
#include <vector>

#include "base/file_calls.h"

namespace colonnade::engine {

class Locks : public base::FileCalls {
 public:
  // What the first calls fail with, in this order; those that follow succeed.
  explicit Locks(std::vector<int> errors) : errors_(std::move(errors)) {}

  int Flock(int, int) const override {
    if (next_ == errors_.size()) return 0;
    errno = errors_[next_++];
    return -1;
  }

 private:
  const std::vector<int> errors_;
  mutable size_t next_ = 0;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_TESTS_ENGINE_LOCKS_H_
