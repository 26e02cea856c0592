// --init and --save: files that are damaged, that cannot be written, or that are no files.

#include <sys/resource.h>
#include <sys/stat.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"
#include "tests/engine/load_weights.h"
#include "tests/sanitized.h"

namespace colonnade::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const char kTrainOnce[] = "train --model=two_column --data=digits --width=0.25 --steps=1 ";
const char kEvalTwoColumn[] = "eval --model=two_column --data=digits --width=0.25 ";

using WeightsFiles = Command;

TEST_F(WeightsFiles, ValuesThatAreNotFiniteAre65WhereTheyAreRead) {
  ASSERT_EQ(Run(absl::StrCat(kTrainOnce, "--save=", In("w.safetensors"))).code, 0);
  absl::StatusOr<std::vector<engine::NamedTensor>> weights = engine::LoadWeights(In("w.safetensors"));
  ASSERT_TRUE(weights.ok());
  for (engine::NamedTensor& tensor : *weights) {
    if (tensor.name == "conv3.weight") tensor.values[7] = std::numeric_limits<double>::quiet_NaN();
  }
  ASSERT_TRUE(engine::SaveTensors(In("w.safetensors"), *weights).ok());
  for (const char* command : {kTrainOnce, kEvalTwoColumn}) {
    ExpectError(absl::StrCat(command, "--init=", In("w.safetensors")), 65,
                {"w.safetensors: tensor \"conv3.weight\": expected finite values, found nan as element 7"});
  }
}

TEST_F(WeightsFiles, NegativeVariancesAre65) {
  const std::string network = " --model=resnet20 --width=0.25 --data=digits --batch=8 ";
  ASSERT_EQ(Run(absl::StrCat("train", network, "--steps=1 --save=", In("w"))).code, 0);
  std::vector<engine::NamedTensor> tensors = *engine::LoadWeights(In("w"));
  for (engine::NamedTensor& tensor : tensors) {
    if (tensor.name == "bn1.running_var") tensor.values[1] = -5;
  }
  ASSERT_TRUE(engine::SaveTensors(In("w"), tensors).ok());
  ExpectError(absl::StrCat("eval", network, "--init=", In("w")), 65,
              {"tensor \"bn1.running_var\": expected variances of at least 0, found -5 as element 1"});
}

TEST_F(WeightsFiles, AnIndexOfSeveralFilesIsTakenForOne) {
  ASSERT_EQ(Run(absl::StrCat(kTrainOnce, "--save=", In("w.safetensors"))).code, 0);
  const std::vector<engine::NamedTensor> weights = *engine::LoadWeights(In("w.safetensors"));
  json index;
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::string file = absl::StrCat("w-", i, ".safetensors");
    ASSERT_TRUE(engine::SaveTensors(In(file), absl::MakeConstSpan(&weights[i], 1)).ok());
    index["weight_map"][weights[i].name] = file;
  }
  Write("w.index.json", index.dump());
  const Result whole = Run(absl::StrCat(kEvalTwoColumn, "--json --init=", In("w.safetensors")));
  const Result parts = Run(absl::StrCat(kEvalTwoColumn, "--json --init=", In("w.index.json")));
  ASSERT_EQ(parts.code, 0) << parts.err;
  EXPECT_EQ(json::parse(parts.out)["test"], json::parse(whole.out)["test"]);
  ASSERT_EQ(Run(absl::StrCat(kTrainOnce, "--lr=0 --init=", In("w.index.json"), " --save=", In("again"))).code, 0);
  EXPECT_EQ(*engine::ReadFile(In("again")), *engine::ReadFile(In("w.safetensors")));
  std::filesystem::remove(In("w-3.safetensors"));
  ExpectError(absl::StrCat(kEvalTwoColumn, "--init=", In("w.index.json")), 66, {"w.index.json: ", "w-3.safetensors"});
}

TEST_F(WeightsFiles, OfARunInDoubleAreSavedAsTheyAre) {
  ASSERT_EQ(Run(absl::StrCat(kTrainOnce, "--kernels=reference --save=", In("w.safetensors"))).code, 0);
  EXPECT_THAT(*engine::ReadFile(In("w.safetensors")), HasSubstr(R"("conv1.weight":{"dtype":"F64")"));
  ASSERT_EQ(
      Run(absl::StrCat(kTrainOnce, "--kernels=reference --lr=0 --init=", In("w.safetensors"), " --save=", In("again"))).code,
      0);
  EXPECT_EQ(*engine::ReadFile(In("again")), *engine::ReadFile(In("w.safetensors")));
}

TEST_F(WeightsFiles, ADamagedFileIs65) {
  ASSERT_EQ(Run(absl::StrCat(kTrainOnce, "--save=", In("w.safetensors"))).code, 0);
  std::string bytes = *engine::ReadFile(In("w.safetensors"));
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 0x10);
  Write("w.safetensors", bytes);
  ExpectError(absl::StrCat(kEvalTwoColumn, "--init=", In("w.safetensors")), 65, {"w.safetensors: ", "the file is damaged"});
}

TEST_F(WeightsFiles, WhatIsNoFileIs65AtOnce) {
  ASSERT_EQ(::mkfifo(In("pipe").c_str(), 0600), 0);
  ExpectError(absl::StrCat(kEvalTwoColumn, "--init=", In("pipe")), 65, {"expected a file, found a pipe"});
  ExpectError(absl::StrCat(kTrainOnce, "--init=/dev/zero"), 65, {"/dev/zero: expected a file, found a device"});
  ExpectError(absl::StrCat(kTrainOnce, "--init=", path_), 65, {"expected a file, found a folder"});
}

// The limit lets --save be tried before training, and not be written after it.
TEST_F(WeightsFiles, ResultsAreShownWhereSavingFails) {
  const auto limit = [] {
    const struct rlimit bytes = {4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &bytes);
  };
  for (const bool as_json : {true, false}) {
    const Result r = Wait(Start(absl::StrCat(kTrainOnce, as_json ? "--json " : "", "--save=", In("w.safetensors")), limit));
    EXPECT_EQ(r.code, 74) << r.err;
    EXPECT_THAT(r.err, HasSubstr("cannot write " + In("w.safetensors") + ": File too large"));
    if (as_json) {
      EXPECT_EQ(json::parse(r.out)["test"]["count"], 360);
    } else {
      EXPECT_THAT(r.out, HasSubstr("test: top-1"));
    }
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      EXPECT_THAT(entry.path().filename().string(), ::testing::AnyOf("out", "err")) << "something is left";
    }
  }
}

TEST_F(WeightsFiles, AReplacedFileKeepsItsMode) {
  Write("w.safetensors", "");
  ASSERT_EQ(::chmod(In("w.safetensors").c_str(), 0600), 0);
  ASSERT_EQ(Run(absl::StrCat(kTrainOnce, "--save=", In("w.safetensors"))).code, 0);
  struct stat info;
  ASSERT_EQ(::stat(In("w.safetensors").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, mode_t{0600});
}

TEST_F(WeightsFiles, WithoutMemoryForAThreadTheEndIs12WithOneMessage) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs more address space than the test allows";
  // The least address space that is enough until threads start, whose stacks then lack it.
  Result r;
  for (rlim_t kib = 60'000; kib < 300'000 && !absl::StrContains(r.err, "no thread can be started"); kib += 4'000) {
    const auto limit = [kib] {
      const struct rlimit bytes = {kib * 1024, RLIM_INFINITY};
      ::setrlimit(RLIMIT_AS, &bytes);
    };
    r = Wait(Start(absl::StrCat(kTrainOnce, "--devices=2 --plan=data"), limit));
  }
  EXPECT_EQ(r.code, 12);
  EXPECT_EQ(r.out, "");
  EXPECT_THAT(r.err, ::testing::MatchesRegex("colonnade: no thread can be started; use fewer devices or threads[^\n]*\n"));
}

// OpenMP, which starts a device's team, would end the process by itself.
TEST_F(WeightsFiles, WithoutMemoryForATeamTheEndIs12WithOneMessage) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs more address space than the test allows";
  const auto limit = [] {
    const struct rlimit bytes = {rlim_t{900} << 20, RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &bytes);
  };
  const Result r = Wait(Start(absl::StrCat(kTrainOnce, "--threads-per-device=512"), limit));
  EXPECT_EQ(r.code, 12);
  EXPECT_THAT(r.err, ::testing::MatchesRegex("colonnade: no thread can be started; use fewer devices or threads[^\n]*\n"));
}

// A file that is mapped ends a process by a signal where it becomes shorter: that is one message, whenever it happens.
TEST_F(Command, AFileOfWeightsThatBecomesShorterWhileItIsReadIsOneMessage) {
  ASSERT_EQ(Run(absl::StrCat("train --model=two_column --data=digits --steps=1 --save=", In("w"))).code, 0);
  // As it is, with a tensor of 1 GB of zeros behind it, which takes a while to read.
  constexpr int64_t kElements = 250'000'000;
  const std::string header =
      absl::StrCat("{\"more\":{\"dtype\":\"F32\",\"shape\":[", kElements, "],\"data_offsets\":[0,", 4 * kElements, "]}}");
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  int signals = 0;
  for (int delay_ms : {20, 50, 90, 150, 250, 400}) {
    Write("big", length + header);
    std::filesystem::resize_file(In("big"), 8 + header.size() + 4 * kElements);
    const pid_t child = Start(absl::StrCat("eval --model=two_column --data=digits --init=", In("big")));
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    std::filesystem::resize_file(In("big"), 4096);
    const Result r = Wait(child);
    EXPECT_TRUE(r.code == 74 || r.code == 65) << r.code << r.err;
    if (r.code != 74) continue;
    ++signals;
    EXPECT_THAT(r.err, HasSubstr("cannot read a mapped file"));
  }
  if (signals == 0) GTEST_SKIP() << "the file was never read at the moment";
}

}  // namespace
}  // namespace colonnade::cli
