// Event files byte by byte, and files that grow by whole pieces.

#include "engine/io/event_file.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/io/append_file.h"
#include "engine/io/crc32c.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/locks.h"
#include "tests/folder.h"
#include "tests/read_file.h"

namespace colonnade::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// RFC 3720, B.4, and the check value of CRC-32/ISCSI.
TEST(Crc32c, HasThePublishedValues) {
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending.push_back(c);
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
}

// Both masked sums were worked out apart from this code: crc32c of the eight bytes of the length, and of the three of "abc".
TEST(TfRecord, FramesItsDataByLengthAndTwoMaskedSums) {
  const std::string record = TfRecord("abc");
  ASSERT_EQ(record.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(absl::BytesToHexString(record),
            "0300000000000000"  // length
            "b099490e"
            "616263"
            "6e57f121");
}

TEST(Event, OfTheVersionIsWallTimeAndName) {
  EXPECT_EQ(absl::BytesToHexString(VersionEvent(1.0)), absl::StrCat("09000000000000f03f"
                                                                    "1a0d",
                                                                    absl::BytesToHexString("brain.Event:2")));
}

TEST(Event, OfScalarsIsWallTimeStepAndSummary) {
  EXPECT_EQ(absl::BytesToHexString(ScalarsEvent(1.0, 300, {{"a", 0.5}, {"bc", -2}})),
            "09000000000000f03f"  // wall_time
            "10ac02"              // step, a varint of two bytes
            "2a15"                // summary, 21 bytes
            "0a08"
            "0a0161"
            "150000003f"
            "0a09"
            "0a026263"
            "15000000c0");
}

TEST(Event, OfARestartIsASessionThatStarts) {
  EXPECT_EQ(absl::BytesToHexString(RestartEvent(1.0, 5)),
            "09000000000000f03f"
            "1005"
            "3a020801");
}

TEST(Event, LengthsAndStepsOf128AndMoreTakeMoreBytes) {
  const std::string tag(200, 't');
  EXPECT_THAT(ScalarsEvent(0, 1, {{tag, 0}}), HasSubstr(std::string("\x0a\xc8\x01", 3) + tag));
  EXPECT_THAT(ScalarsEvent(0, int64_t{1} << 35, {}), HasSubstr(std::string("\x10\x80\x80\x80\x80\x80\x01", 7)));
}

using EventFileTest = Folder;
TEST_F(EventFileTest, BeginsWithTheVersionAndIsNewForEachRun) {
  absl::StatusOr<std::unique_ptr<EventFile>> first = EventFile::Create(path_), second = EventFile::Create(path_);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_NE((*first)->path(), (*second)->path());
  EXPECT_THAT(std::filesystem::path((*first)->path()).filename().string(), StartsWith("events.out.tfevents."));
  EXPECT_THAT(*ReadFile((*first)->path()), HasSubstr("brain.Event:2"));
  ASSERT_TRUE((*first)->AddScalars(1, {{"train/loss", 2}}).ok());
  EXPECT_THAT(*ReadFile((*first)->path()), HasSubstr("train/loss"));  // without an end to it
}

using AppendFileTest = Folder;
TEST_F(AppendFileTest, KeepsTheFirstBytesThatItIsAskedFor) {
  ASSERT_TRUE(ReplaceFile(In("f"), "one\ntwo\nhal").ok());
  for (const auto& [kept, expected] :
       std::vector<std::pair<int64_t, std::string>>{{100, "one\ntwo\nhal+"}, {8, "one\ntwo\n+"}, {0, "+"}}) {
    ASSERT_TRUE(ReplaceFile(In("f"), "one\ntwo\nhal").ok());
    ASSERT_TRUE((*AppendFile::Open(In("f"), kept))->Append("+").ok());
    EXPECT_EQ(*ReadFile(In("f")), expected) << kept;
  }
}

TEST_F(AppendFileTest, IsWrittenByOneAtATime) {
  const absl::StatusOr<std::unique_ptr<AppendFile>> file = AppendFile::Open(In("f"));
  ASSERT_TRUE((*file)->Append("line\n").ok());
  const absl::Status second = AppendFile::Open(In("f")).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(second.message()), HasSubstr("another process"));
  EXPECT_EQ(*ReadFile(In("f")), "line\n");
}

TEST_F(AppendFileTest, GoesOnWhereThereAreNoLocksAndSaysSo) {
  for (const auto& [errors, is_locked] : std::vector<std::pair<std::vector<int>, bool>>{
           {{}, true}, {{EINTR, EINTR}, true}, {{ENOLCK}, false}, {{EOPNOTSUPP}, false}, {{EINTR, ENOSYS}, false}}) {
    const absl::StatusOr<std::unique_ptr<AppendFile>> file = AppendFile::Open(In("f"), 0, Locks(errors));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->is_locked(), is_locked);
  }
  for (const auto& [error, found] : {std::pair{EWOULDBLOCK, "another process is writing it"}, {EIO, "cannot lock"}}) {
    const absl::Status status = AppendFile::Open(In("f"), 0, Locks({error})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(found));
  }
}

TEST_F(AppendFileTest, SaysWhatCannotBeWritten) {
  for (const std::string& path : {In("none/f"), path_, std::string("/dev/null")}) {
    const absl::Status status = AppendFile::Open(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
  EXPECT_THAT(std::string(AppendFile::Open("/dev/null").status().message()), HasSubstr("expected the name of a file"));
}

// As where a disk is full: a piece fits in part.
TEST_F(AppendFileTest, LeavesNothingOfAPieceThatDoesNotFit) {
  const absl::StatusOr<std::unique_ptr<AppendFile>> file = AppendFile::Open(In("f"));
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit ten{.rlim_cur = 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &ten), 0);
  const absl::Status whole = (*file)->Append("1234567\n"), half = (*file)->Append("12345\n"), rest = (*file)->Append("1\n");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(whole.ok() && rest.ok()) << whole << rest;
  EXPECT_EQ(half.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(*ReadFile(In("f")), "1234567\n1\n");
}

}  // namespace
}  // namespace colonnade::engine
