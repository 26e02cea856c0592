// Calls of the system that do a part of what they are asked for, are interrupted, or fail.
#include "base/full_io.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace colonnade::base {
namespace {

constexpr int kFile = 7;

// A file in memory whose calls move at most three bytes, and are interrupted every other time.
class SlowFile {
 public:
  explicit SlowFile(std::string contents = "") : contents_(std::move(contents)) {}

  ssize_t Write(int file, const void* bytes, size_t count) {
    EXPECT_EQ(file, kFile);
    if (IsInterrupted()) return -1;
    const size_t moved = std::min<size_t>(count, 3);
    contents_.append(static_cast<const char*>(bytes), moved);
    return static_cast<ssize_t>(moved);
  }

  ssize_t Read(int file, void* to, size_t count, off_t offset) {
    EXPECT_EQ(file, kFile);
    if (IsInterrupted()) return -1;
    const std::string moved = contents_.substr(std::min<size_t>(offset, contents_.size()), std::min<size_t>(count, 3));
    std::memcpy(to, moved.data(), moved.size());
    return static_cast<ssize_t>(moved.size());
  }

  const std::string& contents() const { return contents_; }

 private:
  bool IsInterrupted() {
    errno = EINTR;
    return ++calls_ % 2 == 1;
  }

  std::string contents_;
  int calls_ = 0;
};

std::string Read(SlowFile file, int64_t offset, size_t size) {
  std::string to(size, '?');
  const auto read = [&](int f, void* bytes, size_t count, off_t at) { return file.Read(f, bytes, count, at); };
  to.resize(static_cast<size_t>(ReadFull(kFile, offset, absl::MakeSpan(to), read)));
  return to;
}

TEST(WriteFull, GoesOnWhereACallWroteAPartOrWasInterrupted) {
  SlowFile file;
  const auto write = [&](int f, const void* bytes, size_t count) { return file.Write(f, bytes, count); };
  EXPECT_TRUE(WriteFull(kFile, "eleven byte", write));
  EXPECT_EQ(file.contents(), "eleven byte");
}

TEST(WriteFull, EndsWithTheErrorOfTheCallThatFails) {
  int calls = 0;
  const auto write = [&](int, const void*, size_t) -> ssize_t {
    errno = ENOSPC;
    return ++calls == 1 ? 4 : -1;
  };
  EXPECT_FALSE(WriteFull(kFile, "eleven byte", write));
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(calls, 2);
}

TEST(WriteFull, EndsWhereACallTakesNothing) {
  const auto write = [](int, const void*, size_t) -> ssize_t { return 0; };
  errno = 0;
  EXPECT_FALSE(WriteFull(kFile, "eleven byte", write));
  EXPECT_EQ(errno, EIO);
}

TEST(ReadFull, GoesOnUntilTheRoomIsFullOrTheFileEnds) {
  EXPECT_EQ(Read(SlowFile("eleven byte"), 2, 7), "even by");
  EXPECT_EQ(Read(SlowFile("eleven byte"), 2, 100), "even byte");
  EXPECT_EQ(Read(SlowFile("eleven byte"), 11, 1), "");
}

TEST(ReadFull, SaysThatACallFailedTheFirstOrALaterOne) {
  for (int failing : {1, 3}) {
    char to[8];
    int calls = 0;
    const auto read = [&](int, void*, size_t, off_t) -> ssize_t {
      errno = EIO;
      return ++calls < failing ? 1 : -1;
    };
    EXPECT_EQ(ReadFull(kFile, 0, absl::MakeSpan(to), read), -1);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(calls, failing);
  }
}

}  // namespace
}  // namespace colonnade::base
