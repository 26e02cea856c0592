// What engine/ writes and reads: atomic files, safetensors.

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::engine {
namespace {

using ::testing::HasSubstr;

class Folder : public ::testing::Test {
 protected:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "colonnade_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() override { std::filesystem::remove_all(path_); }
  std::string In(const std::string& name) const { return path_ + "/" + name; }
  size_t Count() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
  }
  std::string path_;
};

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
  absl::StatusOr<std::vector<NamedTensor>> read = LoadTensors(In("t"));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 4u);
  for (const NamedTensor& t : tensors) {
    const auto found = std::find_if(read->begin(), read->end(), [&](const NamedTensor& r) { return r.name == t.name; });
    ASSERT_NE(found, read->end()) << t.name;
    EXPECT_EQ(found->shape, t.shape);
    EXPECT_EQ(found->values, t.values);
  }
}

std::string File(const std::string& header, size_t data_bytes, uint64_t length = ~uint64_t{0}) {
  if (length == ~uint64_t{0}) length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

std::string ErrorOf(const std::string& file) {
  const absl::Status status = ParseTensors(file).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << file.substr(8, 60);
  return std::string(status.message());
}

constexpr char kGood[] = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

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

}  // namespace
}  // namespace colonnade::engine
