// What engine/ writes and reads: atomic files, safetensors.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/load_weights.h"
#include "tests/engine/safetensors_bytes.h"
#include "tests/folder.h"
#include "tests/read_file.h"

namespace colonnade::engine {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using ReplaceFileTest = Folder;
TEST_F(ReplaceFileTest, LeavesTheOldFileWhereWritingFails) {
  ASSERT_TRUE(ReplaceFile(In("f"), "old").ok());
  const absl::Status status = ReplaceFile(In("f"), [](Append append) {
    EXPECT_TRUE(append("half").ok());
    return absl::DataLossError("the disk is full");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(*ReadFile(In("f")), "old");
  EXPECT_EQ(Count(), 1u);
  ASSERT_TRUE(ReplaceFile(In("f"), "new").ok());
  EXPECT_EQ(*ReadFile(In("f")), "new");
}

TEST_F(ReplaceFileTest, WhatCannotBeWrittenIsDataLossAndLeavesNothing) {
  ASSERT_TRUE(ReplaceFile(In("file"), "x").ok());
  for (const std::string& path : {In("file") + "/below", In("no/such"), path_}) {
    EXPECT_EQ(CheckWritable(path).code(), absl::StatusCode::kDataLoss) << path;
    EXPECT_EQ(ReplaceFile(path, "y").code(), absl::StatusCode::kDataLoss) << path;
  }
  EXPECT_TRUE(CheckWritable(In("other")).ok());
  EXPECT_EQ(Count(), 1u);
}

TEST_F(ReplaceFileTest, AMissingFileIsNotFoundAndALimitIsKept) {
  EXPECT_EQ(ReadFile(In("none")).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(ReplaceFile(In("f"), "12345").ok());
  EXPECT_EQ(ReadFile(In("f"), 4).status().code(), absl::StatusCode::kInvalidArgument);
}

// Writes down each call, with file names for descriptors, and lets the one that `fails` begins fail with ENOSPC.
class RecordedCalls : public FileCalls {
 public:
  int Open(const char* path, int flags, mode_t mode) const override {
    if (!Record("open", path)) return -1;
    const int file = FileCalls::Open(path, flags, mode);
    if (file >= 0) names_[file] = path;
    return file;
  }
  ssize_t Write(int file, const void* bytes, size_t count) const override {
    return Record("write", names_[file]) ? FileCalls::Write(file, bytes, std::min(count, most_bytes)) : -1;
  }
  int Fsync(int file) const override { return Record("fsync", names_[file]) ? FileCalls::Fsync(file) : -1; }
  int Rename(const char* from, const char* to) const override {
    return Record("rename", std::string(from) + " to " + to) ? FileCalls::Rename(from, to) : -1;
  }

  std::string fails;  // the beginning of a call
  size_t most_bytes = SIZE_MAX;
  mutable std::vector<std::string> calls;

 private:
  bool Record(const std::string& call, const std::string& of) const {
    calls.push_back(call + " " + of);
    if (fails.empty() || calls.back().compare(0, fails.size(), fails) != 0) return true;
    errno = ENOSPC;
    return false;
  }
  mutable std::map<int, std::string> names_;
};

absl::Status Append3(Append append) { return append("new"); }

TEST_F(ReplaceFileTest, BytesAreOnTheDiskBeforeTheNameAndTheNameBeforeTheReturn) {
  RecordedCalls calls;
  ASSERT_TRUE(ReplaceFile(In("f"), Append3, calls).ok());
  ASSERT_FALSE(calls.calls.empty());
  const std::string temporary = calls.calls[0].substr(sizeof("open"));
  EXPECT_THAT(calls.calls, ElementsAre("open " + temporary, "write " + temporary, "fsync " + temporary,
                                       "rename " + temporary + " to " + In("f"), "open " + path_, "fsync " + path_));
  EXPECT_THAT(temporary, StartsWith(In("f") + ".colonnade-"));
}

TEST_F(ReplaceFileTest, AWriteOfFewerBytesIsGoneOnWith) {
  RecordedCalls calls;
  calls.most_bytes = 1;
  ASSERT_TRUE(ReplaceFile(In("f"), Append3, calls).ok());
  EXPECT_EQ(*ReadFile(In("f")), "new");
}

TEST_F(ReplaceFileTest, WhicheverCallFailsIsReportedAndBeforeTheRenameTheOldFileStays) {
  for (const std::string& call : {"open " + In("f"), "write " + In("f"), "fsync " + In("f"), std::string("rename"),
                                  "open " + path_, "fsync " + path_}) {
    SCOPED_TRACE(call);
    ASSERT_TRUE(ReplaceFile(In("f"), "old").ok());
    RecordedCalls calls;
    calls.fails = call;
    const absl::Status status = ReplaceFile(In("f"), Append3, calls);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("No space left on device"));
    const bool renamed = calls.calls.back() == call && call != "rename" && call != "open " + In("f");
    EXPECT_EQ(*ReadFile(In("f")), renamed ? "new" : "old");
    EXPECT_EQ(Count(), 1u) << "something is left beside it";
  }
}

// The limit lies within the file, so that a write ends short before the next one fails.
TEST_F(ReplaceFileTest, ALimitOfFileSizesIsDataLossAndLeavesTheOldFile) {
  ASSERT_TRUE(ReplaceFile(In("f"), "old").ok());
  struct rlimit old_limit;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_action = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit = {990, old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status status = ReplaceFile(In("f"), std::string(1000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_action);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write " + In("f") + ": File too large"));
  EXPECT_EQ(*ReadFile(In("f")), "old");
  EXPECT_EQ(Count(), 1u);
}

TEST_F(ReplaceFileTest, KeepsTheModeOfTheFileAndGivesANewOneThatOfTheShell) {
  for (mode_t mode : {0600, 0640, 0664, 0400}) {
    ASSERT_TRUE(ReplaceFile(In("f"), "old").ok());
    ASSERT_EQ(::chmod(In("f").c_str(), mode), 0);
    ASSERT_TRUE(ReplaceFile(In("f"), "new").ok());
    struct stat info;
    ASSERT_EQ(::stat(In("f").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, mode);
    std::filesystem::remove(In("f"));
  }
  const mode_t mask = ::umask(0077);
  ASSERT_TRUE(ReplaceFile(In("f"), "new").ok());
  ::umask(mask);
  struct stat info;
  ASSERT_EQ(::stat(In("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, mode_t{0600});
}

TEST_F(ReplaceFileTest, WritesThroughLinksAlsoToAFileThatIsNotThere) {
  std::filesystem::create_directory(In("far"));
  std::filesystem::create_symlink("far/second", In("first"));  // each relative to the folder of its link
  std::filesystem::create_symlink("file", In("far/second"));
  for (const char* contents : {"new", "replaced"}) {
    EXPECT_TRUE(CheckWritable(In("first")).ok());
    ASSERT_TRUE(ReplaceFile(In("first"), contents).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(In("first")));
    EXPECT_TRUE(std::filesystem::is_symlink(In("far/second")));
    EXPECT_EQ(*ReadFile(In("far/file")), contents);
  }
  EXPECT_EQ(Count(), 2u);
}

TEST_F(ReplaceFileTest, LinksInACircleAreRefusedAndStay) {
  std::filesystem::create_symlink("b", In("a"));
  std::filesystem::create_symlink("a", In("b"));
  for (const absl::Status& status : {CheckWritable(In("a")), ReplaceFile(In("a"), "x")}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write " + In("a") + ": Too many levels"));
  }
  EXPECT_TRUE(std::filesystem::is_symlink(In("a")));
  EXPECT_TRUE(std::filesystem::is_symlink(In("b")));
}

TEST_F(ReplaceFileTest, WhatAKilledProcessLeftIsRemovedAndWhatIsBeingWrittenStays) {
  for (const char* name : {"f.colonnade-1-0.tmp", "f.colonnade-2-0.tmp", "f.colonnade-x.tmp", "g.colonnade-1-0.tmp"}) {
    std::ofstream(In(name)) << "half";
  }
  const int writer = ::open(In("f.colonnade-2-0.tmp").c_str(), O_WRONLY);
  ASSERT_EQ(::flock(writer, LOCK_EX), 0);
  ASSERT_TRUE(ReplaceFile(In("f"), "whole").ok());
  EXPECT_FALSE(std::filesystem::exists(In("f.colonnade-1-0.tmp")));
  EXPECT_TRUE(std::filesystem::exists(In("f.colonnade-2-0.tmp"))) << "another process writes it";
  EXPECT_TRUE(std::filesystem::exists(In("f.colonnade-x.tmp"))) << "no name of ours";
  EXPECT_TRUE(std::filesystem::exists(In("g.colonnade-1-0.tmp"))) << "of another file";
  ::close(writer);
  ASSERT_TRUE(ReplaceFile(In("f"), "whole").ok());
  EXPECT_FALSE(std::filesystem::exists(In("f.colonnade-2-0.tmp")));
}

TEST_F(ReplaceFileTest, TwoAtOnceEachLeaveAWholeFile) {
  const std::string contents[] = {std::string(1000, 'a'), std::string(1000, 'b')};
  std::vector<std::thread> writers;
  for (const std::string& text : contents) {
    writers.emplace_back([this, &text] {
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(ReplaceFile(In("f"), text).ok());
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_THAT(*ReadFile(In("f")), AnyOf(contents[0], contents[1]));
  EXPECT_EQ(Count(), 1u);
}

TEST_F(ReplaceFileTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(::mkfifo(In("pipe").c_str(), 0600), 0);
  for (const auto& [path, kind] :
       {std::pair{In("pipe"), "a pipe"}, {std::string("/dev/zero"), "a device"}, {path_, "a folder"}}) {
    const absl::Status status = ReadFile(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(path + ": expected a file, found " + kind));
  }
}

using Folders = Folder;
TEST_F(Folders, AreMadeWithThoseAboveThemHoweverTheirNameEnds) {
  for (const std::string& folder : {In("a/b"), In("a/b"), In("c/d/")}) {
    EXPECT_TRUE(MakeFolders(folder).ok()) << MakeFolders(folder);
    EXPECT_TRUE(std::filesystem::is_directory(folder)) << folder;
  }
  EXPECT_TRUE(MakeFolder(In("a/b")).ok());
  EXPECT_EQ(MakeFolder(In("e/f")).code(), absl::StatusCode::kDataLoss) << "that above it is missing";
  ASSERT_TRUE(ReplaceFile(In("file"), "x").ok());
  for (const absl::Status& status : {MakeFolder(In("file")), MakeFolders(In("file"))}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("cannot make folder " + In("file") + ": File exists"));
  }
}

// Another process makes the folder between the look and the call.
struct MadeByAnother : FileCalls {
  int Mkdir(const char* path, mode_t mode) const override {
    FileCalls::Mkdir(path, mode);
    return FileCalls::Mkdir(path, mode);
  }
};

TEST_F(Folders, MayBeMadeByAnotherProcessMeanwhile) {
  const MadeByAnother calls;
  EXPECT_TRUE(MakeFolder(In("a"), calls).ok()) << MakeFolder(In("b"), calls);
  EXPECT_TRUE(MakeFolders(In("c/d"), calls).ok());
  EXPECT_TRUE(std::filesystem::is_directory(In("c/d")));
}

using Safetensors = Folder;
TEST_F(Safetensors, RoundTripWithAnAlignedHeader) {
  const std::vector<NamedTensor> tensors = {
      {"b", {2, 2}, {1, -2, 0.5, 3}}, {"a.weight", {3}, {1, 2, 3}}, {"scalar", {}, {7}}, {"empty", {0, 4}, {}}};
  ASSERT_TRUE(SaveTensors(In("t"), tensors).ok());
  uint64_t length = 0;
  const std::string bytes = *ReadFile(In("t"));
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(bytes[8], '{');
  absl::StatusOr<std::vector<NamedTensor>> read = LoadWeights(In("t"));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 4u);
  for (const NamedTensor& t : tensors) {
    const auto found = std::find_if(read->begin(), read->end(), [&](const NamedTensor& r) { return r.name == t.name; });
    ASSERT_NE(found, read->end()) << t.name;
    EXPECT_EQ(found->shape, t.shape);
    EXPECT_EQ(found->values, t.values);
  }
}

std::string ErrorOf(const std::string& file) {
  const absl::Status status = ParseTensors(file).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << file.substr(8, 60);
  return std::string(status.message());
}

TEST(SafetensorsHeader, ValidEdgeCasesLoad) {
  EXPECT_TRUE(ParseTensors(File(kGood, 8)).ok());
  EXPECT_TRUE(ParseTensors(File("  " + std::string(kGood) + "   ", 8)).ok());
  EXPECT_TRUE(ParseTensors(File("{}", 0)).ok());
  EXPECT_TRUE(ParseTensors(File(R"({"__metadata__":{"k":"v"}})", 0)).ok());
  EXPECT_TRUE(ParseTensors(File(R"({"d":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})", 8)).ok());
}

TEST(SafetensorsHeader, HostileFilesAreRefused) {
  for (uint64_t length : {uint64_t{1} << 63, ~uint64_t{0} - 1, uint64_t{100'000'001}, uint64_t{sizeof(kGood) + 8}}) {
    EXPECT_THAT(ErrorOf(File(kGood, 8, length)), HasSubstr("header"));
  }
  ErrorOf("");
  ErrorOf("1234567");
  EXPECT_THAT(ErrorOf(File("[]", 0)), HasSubstr("{"));
  EXPECT_THAT(ErrorOf(File("{\"a\":\xff\xfe}", 0)), HasSubstr("JSON"));
  EXPECT_THAT(ErrorOf(File("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0)), HasSubstr("\"a\""));
  EXPECT_THAT(
      ErrorOf(File(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
          8)),
      HasSubstr("twice"));
  EXPECT_THAT(
      ErrorOf(File(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
          8)),
      HasSubstr("begin at 8"));
  EXPECT_THAT(ErrorOf(File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12)), HasSubstr("begin at 0"));
  EXPECT_THAT(ErrorOf(File(kGood, 12)), HasSubstr("expected 8 bytes"));
  EXPECT_THAT(ErrorOf(File(kGood, 4)), HasSubstr("within 4 bytes"));
  EXPECT_THAT(ErrorOf(File(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8)), HasSubstr("expected 12 bytes"));
  EXPECT_THAT(ErrorOf(File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8)), HasSubstr("offsets"));
  EXPECT_THAT(ErrorOf(File(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]}})", 8)),
              HasSubstr("too large"));
  EXPECT_THAT(ErrorOf(File(R"({"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,8]}})", 8)), HasSubstr(""));
  EXPECT_THAT(ErrorOf(File(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8)), HasSubstr("whole numbers"));
  EXPECT_THAT(ErrorOf(File(R"({"a":{"dtype":"Q9","shape":[2],"data_offsets":[0,8]}})", 8)), HasSubstr("\"Q9\""));
  EXPECT_THAT(ErrorOf(File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8)), HasSubstr("alone"));
  EXPECT_THAT(ErrorOf(File(R"({"__metadata__":{"k":1}})", 0)), HasSubstr("text"));
}

// As where another user's file is replaced: what its group might, the new file's group may not.
struct OwnersThatStay : FileCalls {
  int Fchown(int, uid_t, gid_t) const override {
    errno = EPERM;
    return -1;
  }
};

TEST_F(ReplaceFileTest, GivesAnotherGroupNoneOfTheOldOnesRights) {
  const FileCalls usual;
  const OwnersThatStay stay;
  for (const auto& [calls, mode] : {std::pair<const FileCalls*, mode_t>{&usual, 0675}, {&stay, 0605}}) {
    ASSERT_TRUE(ReplaceFile(In("f"), "old").ok());
    ASSERT_EQ(::chmod(In("f").c_str(), 0675), 0);
    ASSERT_TRUE(ReplaceFile(In("f"), Append3, *calls).ok());
    struct stat info;
    ASSERT_EQ(::stat(In("f").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, mode);
  }
}

// Only the superuser may give a file away.
TEST_F(ReplaceFileTest, KeepsTheOwnerOfTheFile) {
  if (::getuid() != 0) GTEST_SKIP() << "skipped: only the superuser may give a file away";
  ASSERT_TRUE(ReplaceFile(In("f"), "old").ok());
  ASSERT_EQ(::chown(In("f").c_str(), 1234, 2345), 0);
  ASSERT_TRUE(ReplaceFile(In("f"), "new").ok());
  struct stat info;
  ASSERT_EQ(::stat(In("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 1234u);
  EXPECT_EQ(info.st_gid, 2345u);
}

}  // namespace
}  // namespace colonnade::engine
