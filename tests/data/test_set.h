// Samples that a test makes up: pixels that are a function of the sample, of which some are bad and some never come.
#ifndef COLONNADE_TESTS_DATA_TEST_SET_H_
#define COLONNADE_TESTS_DATA_TEST_SET_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "data/sample_set.h"

namespace colonnade::data {

class TestSet : public SampleSet {
 public:
  explicit TestSet(int64_t size, program::Shape shape = {1, 2, 2}) : size_(size), shape_(std::move(shape)) {}

  // To be set before anything is read.
  std::set<int64_t> bad;
  int64_t hanging = -1;  // Read of it returns after Unblock
  absl::Duration delay;  // of each Read

  const std::string& name() const override { return name_; }
  int64_t size() const override { return size_; }
  int32_t label(int64_t sample) const override { return static_cast<int32_t>(sample % 3); }
  std::string sample_name(int64_t sample) const override { return absl::StrCat("made-up/", sample); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::optional<program::Shape> image_shape() const override { return shape_; }

  absl::StatusOr<StoredImage> Read(int64_t sample, std::string& room) const override {
    ++reads;
    if (delay > absl::ZeroDuration()) std::this_thread::sleep_for(absl::ToChronoMicroseconds(delay));
    if (sample == hanging) Block();
    if (bad.count(sample) > 0) return absl::InvalidArgumentError(absl::StrCat(sample_name(sample), ": is bad"));
    room.assign(program::ElementCount(shape_), static_cast<char>(sample));
    if (room.size() > 1) room[1] = static_cast<char>(sample >> 8);
    return StoredImage{.height = shape_[1], .width = shape_[2], .channels = shape_[0], .bytes = room};
  }

  void Unblock() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }

  mutable std::atomic<int64_t> reads{0};

 private:
  void Block() const {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return is_open_; });
  }

  int64_t size_;
  program::Shape shape_;
  std::string name_ = "made-up train";
  std::vector<std::string> class_names_ = {"ant", "bee", "cat"};
  mutable std::mutex mutex_;
  mutable std::condition_variable opened_;
  bool is_open_ = false;
};

}  // namespace colonnade::data

#endif  // COLONNADE_TESTS_DATA_TEST_SET_H_
