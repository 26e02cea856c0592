// One checkpoint: what it holds, and that nothing of it can change unnoticed.

#include "engine/checkpoint.h"

#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/checkpoint_saver.h"
#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "engine/io/weights.h"
#include "engine/io/xxh3.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/load_weights.h"
#include "tests/engine/parameters.h"
#include "tests/folder.h"
#include "tests/no_threads.h"
#include "tests/read_file.h"

namespace colonnade::engine {
namespace {

using program::DType;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// A network whose parameters and momenta are drawn.
Loaded Drawn(int parts, int copies, DType dtype = DType::kF32, const std::string& name = "w") {
  Loaded made(Parameters(parts, copies, dtype, name));
  std::vector<NamedTensor> tensors = made.Initial(3);
  std::mt19937 random(7);
  for (NamedTensor& tensor : tensors) {
    for (double& value : tensor.values) value = std::normal_distribution<float>()(random);
  }
  EXPECT_TRUE(WriteTensors(made.loaded, tensors, StateKind::kMomentum).ok());
  return made;
}

StateCopy StateOf(const Loaded& made) {
  StateCopy copy;
  EXPECT_TRUE(CopyState(made.loaded, copy).ok());
  return copy;
}

// Everything of the state, bit for bit.
std::string BytesOf(const StateCopy& copy) {
  std::string all;
  for (const StateCopy::Tensor& tensor : copy.tensors) {
    all += tensor.name + program::ToString(tensor.shape);
    all.append(tensor.bytes.begin(), tensor.bytes.end());
  }
  return all;
}

class Checkpoint : public Folder {
 protected:
  void Save(const Loaded& made, const RunPosition& position = {.step = 12, .sample = 768, .loss = 0.25}) const {
    const absl::Status status =
        WriteCheckpoint(In("c"), {.position = position, .run = {{"model", "net"}}, .plan = "data"}, StateOf(made));
    ASSERT_TRUE(status.ok()) << status;
  }
  std::vector<std::string> Files() const {
    return {In("c") + "/weights.safetensors", In("c") + "/momentum.safetensors", In("c") + "/manifest.json"};
  }
  // That the checkpoint is refused as it lies there, by an error that names `file`.
  void ExpectDamaged(const std::string& file, const std::string& what) const {
    Loaded made(Parameters(1, 1));
    made.Initial(9);
    const std::string before = BytesOf(StateOf(made));
    for (const absl::Status& status : {VerifyCheckpoint(In("c")), RestoreCheckpoint(In("c"), made.loaded).status()}) {
      ASSERT_THAT(status.code(), AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound)) << what;
      EXPECT_THAT(std::string(status.message()), HasSubstr(file)) << what;
    }
    EXPECT_EQ(BytesOf(StateOf(made)), before) << what << ": restored in part";
  }
};

TEST_F(Checkpoint, IsTheSameStateUnderEveryCut) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    const std::string expected = BytesOf(StateOf(Drawn(1, 1, dtype)));
    for (const auto& from : {std::pair{1, 1}, {1, 3}, {4, 2}, {60, 1}}) {
      Save(Drawn(from.first, from.second, dtype));
      ASSERT_TRUE(VerifyCheckpoint(In("c")).ok()) << VerifyCheckpoint(In("c"));
      for (const auto& to : {std::pair{1, 1}, {1, 3}, {4, 2}, {60, 1}}) {
        Loaded other(Parameters(to.first, to.second, dtype));
        ASSERT_TRUE(RestoreCheckpoint(In("c"), other.loaded).ok());
        EXPECT_EQ(BytesOf(StateOf(other)), expected) << from.first << " parts to " << to.first;
      }
    }
  }
}

TEST_F(Checkpoint, ThatLacksAKindOfStateChangesNothing) {
  StateCopy values = StateOf(Drawn(1, 1));
  std::erase_if(values.tensors, [](const StateCopy::Tensor& tensor) { return tensor.kind != StateKind::kValue; });
  ASSERT_TRUE(WriteCheckpoint(In("c"), {}, values).ok());
  Loaded made(Parameters(1, 1));
  made.Initial(9);
  const std::string before = BytesOf(StateOf(made));
  const absl::Status status = RestoreCheckpoint(In("c"), made.loaded).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), In("c") +
                                  ": expected momenta, which the Program's optimiser keeps, found none; "
                                  "another optimiser wrote the checkpoint");
  EXPECT_EQ(BytesOf(StateOf(made)), before) << "the values were written before the momenta were looked for";
}

TEST_F(Checkpoint, ThatCouldNotBeReadBackIsNotWritten) {
  const Loaded made = Drawn(1, 1);
  Save(made);
  const std::string before = *ReadFile(Files()[2]);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<Manifest, std::string> wrong[] = {
      {{.position = {.step = -1, .sample = 768}}, "at least 0, found step -1 and sample 768"},
      {{.position = {.step = 12, .sample = -1}}, "at least 0, found step 12 and sample -1"},
      {{.test = TestScores{.top1 = kNan, .loss = 1}}, "expected a finite top-1 accuracy and loss, found nan and 1"},
      {{.test = TestScores{.top1 = 0, .loss = kNan}}, "expected a finite top-1 accuracy and loss, found 0 and nan"}};
  for (const auto& [manifest, message] : wrong) {
    for (const absl::Status& status : {WriteCheckpoint(In("c"), manifest, StateOf(made)), WriteManifest(In("c"), manifest),
                                       WriteCheckpoint(In("new"), manifest, StateOf(made))}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
      EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    }
  }
  EXPECT_EQ(SaveCheckpoint(In("new"), made.loaded, {.step = -1}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(In("new")));
  EXPECT_EQ(*ReadFile(Files()[2]), before);
}

TEST_F(Checkpoint, SaysWhereTheRunStands) {
  Save(Drawn(1, 1), {.step = 12, .sample = 768, .loss = 0.1});
  const absl::StatusOr<Manifest> manifest = ReadManifest(In("c"));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->position.step, 12);
  EXPECT_EQ(manifest->position.sample, 768);
  EXPECT_EQ(manifest->position.loss, 0.1);
  EXPECT_EQ(manifest->run, (RunFields{{"model", "net"}}));
  EXPECT_EQ(manifest->plan, "data");
  Save(Drawn(1, 1), {.step = 1});
  EXPECT_TRUE(std::isnan(ReadManifest(In("c"))->position.loss));
}

TEST_F(Checkpoint, MetadataAreThoseOfTheWeights) {
  const Metadata metadata = {{"colonnade_a", "text"}};
  ASSERT_TRUE(WriteCheckpoint(In("c"), {.position = {.step = 1}, .metadata = metadata}, StateOf(Drawn(1, 1))).ok());
  EXPECT_EQ(VerifiedCheckpoint::Open(In("c"))->manifest().metadata, metadata);
  EXPECT_EQ(MapWeights(In("c/weights.safetensors"))->metadata, metadata);
  EXPECT_EQ(MapWeights(In("c/momentum.safetensors"))->metadata, Metadata());
}

TEST_F(Checkpoint, VerifyingSaysHowManyBytesWereRead) {
  const Loaded made = Drawn(1, 1);
  Save(made);
  int64_t read = 0, expected = 0;
  ASSERT_TRUE(VerifyCheckpoint(In("c"), [&](int64_t bytes) { read += bytes; }).ok());
  for (const StateCopy::Tensor& tensor : StateOf(made).tensors) expected += static_cast<int64_t>(tensor.bytes.size());
  EXPECT_GT(expected, 0);
  EXPECT_EQ(read, expected);
}

TEST_F(Checkpoint, ItsWeightsAreAFileThatInitTakes) {
  Loaded made = Drawn(4, 2);
  Save(made);
  const absl::StatusOr<std::vector<NamedTensor>> weights = LoadWeights(In("c") + "/weights.safetensors");
  ASSERT_TRUE(weights.ok()) << weights.status();
  const std::vector<NamedTensor> expected = *ReadTensors(made.loaded);
  ASSERT_EQ(weights->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ((*weights)[i].values, expected[i].values);
}

TEST_F(Checkpoint, WhatWasVerifiedIsWhatIsRestored) {
  Save(Drawn(1, 1));
  const absl::StatusOr<VerifiedCheckpoint> checkpoint = VerifiedCheckpoint::Open(In("c"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::filesystem::remove_all(In("c"));
  Loaded made(Parameters(4, 2));
  ASSERT_TRUE(checkpoint->Restore(made.loaded).ok()) << "the files are read anew";
  EXPECT_EQ(BytesOf(StateOf(made)), BytesOf(StateOf(Drawn(1, 1))));
}

TEST_F(Checkpoint, OfDoublesIsReadBySinglesAndBack) {
  Save(Drawn(1, 1, DType::kF64));
  Loaded singles(Parameters(4, 2));
  ASSERT_TRUE(RestoreCheckpoint(In("c"), singles.loaded).ok());
  EXPECT_EQ(BytesOf(StateOf(singles)), BytesOf(StateOf(Drawn(1, 1))));  // they are drawn as singles
}

TEST_F(Checkpoint, AFlippedBitIsFoundWhereverItIs) {
  Save(Drawn(1, 1));
  std::mt19937 random(1);
  for (const std::string& file : Files()) {
    const std::string good = *ReadFile(file);
    std::vector<size_t> bits;
    const bool is_json = file == Files()[2];
    const size_t first = is_json ? 64 : SafetensorsHeader(StateOf(Drawn(1, 1)).views(StateKind::kValue))->size();
    for (size_t bit = 0; bit < 8 * first; ++bit) bits.push_back(bit);  // lengths, versions, names, blanks
    while (bits.size() < 8 * first + 700) bits.push_back(random() % (8 * good.size()));
    for (size_t bit : bits) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      ASSERT_TRUE(ReplaceFile(file, bad).ok());
      const absl::Status status = VerifyCheckpoint(In("c"));
      ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << file << " bit " << bit << ": " << status;
      ASSERT_THAT(std::string(status.message()), HasSubstr(file)) << bit;
    }
    ExpectDamaged(file, "the last of them");
    ASSERT_TRUE(ReplaceFile(file, good).ok());
    ASSERT_TRUE(VerifyCheckpoint(In("c")).ok()) << "found damage where there is none";
  }
}

// A copy of the file has no manifest beside it.
TEST_F(Checkpoint, AFileAloneKnowsItsDamageToo) {
  Save(Drawn(1, 1));
  for (const std::string& file : {Files()[0], Files()[1]}) {
    std::string bytes = *ReadFile(file);
    ASSERT_TRUE(ViewFile(bytes).ok());
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    EXPECT_THAT(std::string(ViewFile(bytes).status().message()), HasSubstr("expected tensors of checksum"));
  }
}

TEST_F(Checkpoint, ACutALongerAMissingAndASwappedFileAreFound) {
  Save(Drawn(1, 1));
  for (const std::string& file : Files()) {
    const std::string good = *ReadFile(file);
    for (size_t size = 0; size < good.size(); size += 1 + good.size() / 40) {
      ASSERT_TRUE(ReplaceFile(file, good.substr(0, size)).ok());
      ExpectDamaged(file, absl::StrCat(size, " of ", good.size(), " bytes"));
    }
    ASSERT_TRUE(ReplaceFile(file, good + " ").ok());
    ExpectDamaged(file, "a byte more");
    std::filesystem::remove(file);
    ExpectDamaged(file, "missing");
    ASSERT_TRUE(ReplaceFile(file, good).ok());
  }
  const std::string weights = *ReadFile(Files()[0]), momentum = *ReadFile(Files()[1]);
  ASSERT_TRUE(ReplaceFile(Files()[0], momentum).ok());
  ASSERT_TRUE(ReplaceFile(Files()[1], weights).ok());
  ExpectDamaged(Files()[0], "swapped");
}

TEST_F(Checkpoint, DamageNamesTensorAndPlace) {
  Save(Drawn(1, 1));
  std::string bytes = *ReadFile(Files()[1]);
  bytes[bytes.size() - 2] ^= 1;  // in the last tensor's last value
  ASSERT_TRUE(ReplaceFile(Files()[1], bytes).ok());
  const absl::Status status = VerifyCheckpoint(In("c"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("tensor \"b\", bytes ", bytes.size() - 12, " to ", bytes.size())));
}

// A manifest whose checksum is right, whatever was changed in it.
std::string WithItsSum(std::string json) {
  const size_t at = json.find("\"xxh3\": \"") + 9;
  json.replace(at, 16, "0000000000000000");
  return json.replace(at, 16, std::string(Xxh3Text(json)));
}

TEST_F(Checkpoint, OfAnotherVersionIsRefusedWithBothNamed) {
  Save(Drawn(1, 1));
  std::string json = *ReadFile(Files()[2]);
  json.replace(json.find("\"version\": 1"), 12, "\"version\": 7");
  ASSERT_TRUE(ReplaceFile(Files()[2], WithItsSum(json)).ok());
  EXPECT_EQ(VerifyCheckpoint(In("c")).code(), absl::StatusCode::kUnimplemented) << "it is not damaged";
  EXPECT_THAT(std::string(VerifyCheckpoint(In("c")).message()),
              HasSubstr("expected a checkpoint of version 1, found version 7"));
}

// As a fuzzer found: a number that no int64_t holds was converted all the same.
TEST_F(Checkpoint, WhatIsNoCountIsDamageThoughTheSumIsRight) {
  Save(Drawn(1, 1));
  const std::string good = *ReadFile(Files()[2]);
  for (const char* key : {"\"step\": ", "\"sample\": ", "\"bytes\": ", "\"shape\": ["}) {
    const size_t at = good.find(key) + std::string(key).size(), end = good.find_first_not_of(" \n0123456789", at);
    ASSERT_LT(at, end) << key;
    for (const char* number : {"1e300", "1.5", "-1", "\"1\""}) {
      std::string json = good;
      json.replace(at, end - at, number);
      const absl::StatusOr<Manifest> manifest = ManifestFromJson(WithItsSum(json));
      EXPECT_EQ(manifest.status().code(), absl::StatusCode::kInvalidArgument) << key << number;
      EXPECT_THAT(std::string(manifest.status().message()), HasSubstr("the manifest is not as it should be"));
    }
  }
}

TEST_F(Checkpoint, OfAnotherNetworkIsRefusedByTensor) {
  Save(Drawn(1, 1, DType::kF32, "v"));
  Loaded made(Parameters(1, 1));
  const absl::Status status = RestoreCheckpoint(In("c"), made.loaded).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("weights.safetensors: tensor \"w\": expected shape [40,60], found no such"));
}

TEST_F(Checkpoint, ItsSizeIsKnownBefore) {
  const Loaded made = Drawn(1, 1);
  Save(made);
  double bytes = 0;
  for (const std::string& file : {Files()[0], Files()[1]}) bytes += static_cast<double>(std::filesystem::file_size(file));
  EXPECT_NEAR(static_cast<double>(CheckpointBytes(made.program)) / bytes, 1, 0.02);
}

// A copy is used for checkpoint after checkpoint: of networks of another size, too.
TEST_F(Checkpoint, ACopyOfTheStateIsUsedAgain) {
  StateCopy copy;
  for (const auto& [parts, copies] : {std::pair{4, 2}, {1, 1}}) {
    Loaded made = Drawn(parts, copies);
    ASSERT_TRUE(CopyState(made.loaded, copy).ok());
    EXPECT_EQ(BytesOf(copy), BytesOf(StateOf(made)));
    EXPECT_EQ(copy.bytes(), StateBytes(made.program));
  }
}

class Saver : public Checkpoint {
 protected:
  std::unique_ptr<CheckpointFolder> folder_here_ = *CheckpointFolder::Open(In("run"), {});
};

TEST_F(Saver, WritesTheStateOfTheMomentThoughItChangesMeanwhile) {
  CheckpointSaver saver(*folder_here_);
  Loaded made = Drawn(4, 2);
  for (int64_t step = 1; step <= 20; ++step) {
    const std::string expected = BytesOf(StateOf(made));
    ASSERT_TRUE(CopyState(made.loaded, saver.copy()).ok());
    saver.Begin({.position = {.step = step}});
    std::vector<NamedTensor> next = made.Initial(static_cast<uint64_t>(100 + step));
    const std::optional<SavedCheckpoint> saved = saver.Await();
    ASSERT_TRUE(saved.has_value());
    ASSERT_TRUE(saved->status.ok()) << saved->status;
    EXPECT_EQ(saved->step, step);
    EXPECT_EQ(saver.Await(), std::nullopt) << "told twice";
    Loaded restored(Parameters(1, 1));
    ASSERT_TRUE(RestoreCheckpoint(folder_here_->PathOf(step), restored.loaded).ok());
    EXPECT_EQ(BytesOf(StateOf(restored)), expected) << step;
  }
}

TEST_F(Saver, WritesByItselfWhereTheSystemGivesNoThread) {
  CheckpointSaver saver(*folder_here_);
  Loaded made = Drawn(1, 1);
  ASSERT_TRUE(CopyState(made.loaded, saver.copy()).ok());
  for (int64_t step : {1, 2}) {
    const NoThreads no_threads;
    saver.Begin({.position = {.step = step}});
    const std::optional<SavedCheckpoint> saved = saver.Poll();
    ASSERT_TRUE(saved.has_value());
    EXPECT_TRUE(saved->status.ok()) << saved->status;
    EXPECT_EQ(saver.Await(), std::nullopt) << "told twice";
    EXPECT_TRUE(std::filesystem::exists(folder_here_->PathOf(step)));
  }
}

TEST_F(Saver, WhatIsNotFiniteIsNotWritten) {
  CheckpointSaver saver(*folder_here_);
  for (bool momentum : {false, true}) {
    Loaded made = Drawn(1, 1);
    std::vector<NamedTensor> bad = *ReadTensors(made.loaded);
    bad[1].values[5] = std::numeric_limits<double>::infinity();
    ASSERT_TRUE(WriteTensors(made.loaded, bad, momentum ? StateKind::kMomentum : StateKind::kValue).ok());
    ASSERT_TRUE(CopyState(made.loaded, saver.copy()).ok());
    saver.Begin({.position = {.step = 3}});
    const std::optional<SavedCheckpoint> saved = saver.Await();
    ASSERT_TRUE(saved.has_value());
    EXPECT_EQ(saved->status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(saved->status.message()), HasSubstr("step 3: tensor \"u\""));
    EXPECT_TRUE(CheckpointSteps(In("run"))->empty());
  }
}

TEST_F(Checkpoint, AManifestOfMoreThan256MiBIsNotRead) {
  Save(Drawn(1, 1));
  std::filesystem::resize_file(In("c/manifest.json"), (int64_t{1} << 28) + 1);
  const absl::Status status = ReadManifest(In("c")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected at most 268435456 bytes"));
}

}  // namespace
}  // namespace colonnade::engine
