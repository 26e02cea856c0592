// The checkpoints of a run: which are kept, and that whatever happens while one is written, a good one is there.

#include "engine/checkpoint_folder.h"

#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/disk.h"
#include "tests/engine/locks.h"
#include "tests/engine/parameters.h"
#include "tests/folder.h"
#include "tests/read_file.h"

namespace colonnade::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Checkpoints : public Folder {
 protected:
  std::string Run() const { return In("run"); }
  std::unique_ptr<CheckpointFolder> Open(const CheckpointFolderOptions& options = {}) const {
    absl::StatusOr<std::unique_ptr<CheckpointFolder>> folder = CheckpointFolder::Open(Run(), options);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return folder.ok() ? *std::move(folder) : nullptr;
  }
  // Saves the state of a step: parameters drawn with step and loss for a seed.
  static absl::Status Save(CheckpointFolder& folder, int64_t step, double loss = 1, std::optional<TestScores> test = {}) {
    Loaded made(Parameters(1, 1));
    made.Initial(static_cast<uint64_t>(step) + (loss > 0 ? static_cast<uint64_t>(1000 * loss) : 0));
    StateCopy copy;
    EXPECT_TRUE(CopyState(made.loaded, copy).ok());
    const absl::Status status = folder.Save({.position = {.step = step, .loss = loss}, .test = test}, copy);
    if (status.ok()) {
      EXPECT_TRUE(folder.Retire().ok());
    }
    return status;
  }
  std::vector<int64_t> Steps() const { return *CheckpointSteps(Run()); }
};

TEST_F(Checkpoints, TheLastAreKeptAndTheBest) {
  const std::unique_ptr<CheckpointFolder> folder = Open({.keep = 2});
  const double losses[] = {0.9, 0.3, 0.5, 0.4, 0.6};
  for (int64_t step = 1; step <= 5; ++step) ASSERT_TRUE(Save(*folder, step, losses[step - 1]).ok());
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 5));
  ASSERT_TRUE(Save(*folder, 6, 0.2).ok());
  EXPECT_THAT(Steps(), ElementsAre(5, 6)) << "the best is among the last";
  EXPECT_FALSE(std::filesystem::exists(CheckpointPath(Run(), 2)));
  for (int64_t step : Steps()) EXPECT_TRUE(VerifyCheckpoint(CheckpointPath(Run(), step)).ok());
}

TEST_F(Checkpoints, TheBestIsThatOfTheBestTestWhereThereWereTests) {
  const std::unique_ptr<CheckpointFolder> folder = Open({.keep = 1});
  ASSERT_TRUE(Save(*folder, 1, 0.1).ok());
  const TestScores tests[] = {{0.5, 1}, {0.6, 0.9}, {0.6, 0.8}, {0.6, 0.85}, {0.55, 0.1}};
  const int64_t best[] = {2, 3, 4, 4, 4};
  for (int64_t step = 2; step <= 6; ++step) {
    ASSERT_TRUE(Save(*folder, step, 1, tests[step - 2]).ok());
    EXPECT_EQ(Steps().front(), best[step - 2]);
    EXPECT_EQ(ReadManifest(folder->PathOf(step))->test, tests[step - 2]);
  }
  ASSERT_TRUE(Save(*folder, 7, 0.05).ok());
  EXPECT_THAT(Steps(), ElementsAre(4, 7)) << "one that was not tested is never the best";
  EXPECT_EQ(ReadManifest(folder->PathOf(7))->test, std::nullopt);
}

TEST_F(Checkpoints, WithoutLossesTheLastAloneAreKept) {
  const std::unique_ptr<CheckpointFolder> folder = Open({.keep = 1});
  for (int64_t step = 1; step <= 3; ++step) ASSERT_TRUE(Save(*folder, step, std::nan("")).ok());
  EXPECT_THAT(Steps(), ElementsAre(3));
}

TEST_F(Checkpoints, AStepIsSavedAgainInItsPlace) {
  const std::unique_ptr<CheckpointFolder> folder = Open();
  for (double loss : {0.5, 0.25}) ASSERT_TRUE(Save(*folder, 4, loss).ok());
  EXPECT_THAT(Steps(), ElementsAre(4));
  EXPECT_EQ(ReadManifest(folder->PathOf(4))->position.loss, 0.25);
}

TEST_F(Checkpoints, ASecondRunIsRefusedByTheNumberOfTheFirst) {
  std::unique_ptr<CheckpointFolder> first = Open();
  const absl::Status second = CheckpointFolder::Open(Run(), {}).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(second.message()), HasSubstr(absl::StrCat("found process ", ::getpid(), " writing there")));
  EXPECT_THAT(std::string(second.message()), HasSubstr(Run()));
  first.reset();
  EXPECT_TRUE(CheckpointFolder::Open(Run(), {}).ok()) << "the first has gone";
}

// One run's folder is removed, and another run makes it anew: the first keeps its hands off what the second has.
TEST_F(Checkpoints, AFolderThatWasRemovedAndMadeAnewIsAnothers) {
  const std::unique_ptr<CheckpointFolder> first = Open({.keep = 1});
  ASSERT_TRUE(Save(*first, 1).ok());
  std::filesystem::remove_all(Run());
  const std::unique_ptr<CheckpointFolder> second = Open({.keep = 1});
  ASSERT_TRUE(Save(*second, 5).ok());
  EXPECT_THAT(std::string(Save(*first, 3).message()), HasSubstr("found one that was made anew in its place"));
  EXPECT_EQ(first->Retire().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Steps(), ElementsAre(5));
  EXPECT_TRUE(Save(*second, 6).ok());
}

// As by one who takes it for what a run has left behind.
TEST_F(Checkpoints, ALockThatWasRemovedIsTakenAnew) {
  const std::unique_ptr<CheckpointFolder> folder = Open();
  ASSERT_TRUE(Save(*folder, 1).ok());
  std::filesystem::remove(Run() + "/lock");
  ASSERT_TRUE(Save(*folder, 2).ok());
  EXPECT_THAT(Steps(), ElementsAre(1, 2));
  EXPECT_EQ(CheckpointFolder::Open(Run(), {}).status().code(), absl::StatusCode::kDataLoss) << "it has the lock again";
}

TEST_F(Checkpoints, AreWrittenWhereThereAreNoLocksWhichIsSaid) {
  const Locks none({ENOLCK}), interrupted({EINTR}), broken({EIO}), held({EWOULDBLOCK});
  EXPECT_FALSE(Open({.calls = &none})->is_locked());
  EXPECT_TRUE(Open({.calls = &interrupted})->is_locked());
  EXPECT_THAT(std::string(CheckpointFolder::Open(Run(), {.calls = &broken}).status().message()), HasSubstr("cannot lock"));
  EXPECT_THAT(std::string(CheckpointFolder::Open(Run(), {.calls = &held}).status().message()), HasSubstr("no other run"));
}

TEST_F(Checkpoints, WhatAKilledRunLeftHalfWrittenIsRemovedAndNothingElse) {
  ASSERT_TRUE(Save(*Open(), 1).ok());
  ASSERT_TRUE(Save(*Open(), 2).ok());
  std::filesystem::remove(CheckpointPath(Run(), 2) + "/manifest.json");
  for (const char* other : {"step-", "step-12a", "notes", "damaged-step-000000003"}) {
    std::filesystem::create_directories(Run() + "/" + other);
  }
  EXPECT_THAT(Steps(), ElementsAre(1));
  Open();
  EXPECT_FALSE(std::filesystem::exists(CheckpointPath(Run(), 2)));
  for (const char* other : {"step-", "step-12a", "notes", "damaged-step-000000003"}) {
    EXPECT_TRUE(std::filesystem::exists(Run() + "/" + other)) << other;
  }
  EXPECT_THAT(Steps(), ElementsAre(1));
}

TEST_F(Checkpoints, ADamagedOneIsSetAsideNotRemoved) {
  const std::unique_ptr<CheckpointFolder> folder = Open();
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(Save(*folder, 7).ok());
    ASSERT_TRUE(folder->SetAside(7).ok());
    EXPECT_THAT(Steps(), IsEmpty());
  }
  for (const char* name : {"/damaged-step-000000007", "/damaged-step-000000007-1"}) {
    EXPECT_TRUE(VerifyCheckpoint(Run() + name).ok()) << name;
  }
}

TEST_F(Checkpoints, ProcessesThatDieWhileTheyReadOneAreCounted) {
  const std::unique_ptr<CheckpointFolder> folder = Open();
  for (int64_t step : {1, 2}) ASSERT_TRUE(Save(*folder, step).ok());
  for (int deaths : {1, 2}) {
    EXPECT_EXIT(
        {
          const ReadingMark mark(*folder, 2);
          ::_exit(1);
        },
        ::testing::ExitedWithCode(1), "");
    EXPECT_EQ(folder->DeathsOfReaders(2), deaths);
  }
  EXPECT_EQ(folder->DeathsOfReaders(1), 0);
  EXPECT_TRUE(VerifyCheckpoint(folder->PathOf(2)).ok());
  { const ReadingMark mark(*folder, 2); }
  EXPECT_EQ(folder->DeathsOfReaders(2), 0) << "one that lives to its end has read it";
}

TEST_F(Checkpoints, AMarkOfAReaderGoesWithItsCheckpoint) {
  const std::unique_ptr<CheckpointFolder> folder = Open({.keep = 1});
  ASSERT_TRUE(Save(*folder, 1, 2).ok());
  ASSERT_TRUE(ReplaceFile(folder->PathOf(1) + "/reading", "1\n").ok());
  ASSERT_TRUE(Save(*folder, 2, 1).ok());
  EXPECT_FALSE(std::filesystem::exists(folder->PathOf(1)));
}

TEST_F(Checkpoints, AFolderThatIsNotThereAndOneThatCannotBe) {
  EXPECT_EQ(CheckpointSteps(Run()).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(ReplaceFile(In("file"), "x").ok());
  EXPECT_EQ(CheckpointSteps(In("file")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CheckpointFolder::Open(In("file"), {}).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(Checkpoints, ADiskWithoutRoomIsToldBefore) {
  const std::unique_ptr<CheckpointFolder> folder = Open();
  EXPECT_TRUE(folder->CheckFreeSpace(1).ok());
  const absl::Status status = folder->CheckFreeSpace(int64_t{1} << 60);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("expected room for a checkpoint of 1152921504606.8 MB, found"),
                                                   HasSubstr("MB free; make room or name a folder elsewhere")));
}

TEST_F(Checkpoints, MostAddedAreThoseKeptTheBestAndTheOneThatIsWritten) {
  const std::unique_ptr<CheckpointFolder> folder = Open({.keep = 2});
  EXPECT_GT(*folder->FreeBytes(), 0);
  EXPECT_EQ(*folder->MostAdded(), 4);
  for (int64_t step = 1; step <= 6; ++step) {  // the first is the best, and stays beside the last two
    ASSERT_TRUE(Save(*folder, step, static_cast<double>(step)).ok());
    EXPECT_EQ(*folder->MostAdded(), 4 - std::min<int64_t>(step, 3));
  }
}

// Power may go at any moment: the newest checkpoint is then this one or the one before, and good.
TEST_F(Checkpoints, AfterALossOfPowerAtAnyCallAGoodOneIsThere) {
  const Disk disk(path_);
  const std::unique_ptr<CheckpointFolder> folder = Open({.keep = 2, .calls = &disk});
  std::vector<int64_t> saved_at;  // calls after which step i + 1 must be there
  for (int64_t step = 1; step <= 4; ++step) {
    ASSERT_TRUE(Save(*folder, step, static_cast<double>(step)).ok());
    saved_at.push_back(disk.calls());
  }
  // Saved again in its place, the last is none for a while.
  ASSERT_TRUE(Save(*folder, 4, 5.0).ok());
  for (int64_t count = 0; count <= disk.calls(); ++count) {
    int64_t promised = 0;
    while (promised < 4 && saved_at[promised] <= count) ++promised;
    if (count > saved_at[3] && count < disk.calls()) promised = 3;
    for (Unsynced unsynced : {Unsynced::kLost, Unsynced::kSomeNamesStay, Unsynced::kStays}) {
      const std::string left = In("left/run");
      disk.Replay(count, unsynced, In("left"));
      const std::vector<int64_t> steps = CheckpointSteps(left).value_or(std::vector<int64_t>());
      const int64_t newest = steps.empty() ? 0 : steps.back();
      EXPECT_GE(newest, promised) << "after " << count << " calls";
      EXPECT_LE(newest, promised + 1) << "after " << count << " calls";
      for (int64_t step : steps) {
        const absl::Status good = VerifyCheckpoint(CheckpointPath(left, step));
        ASSERT_TRUE(good.ok()) << "after " << count << " calls: " << good;
      }
    }
  }
}

// The disk is full from some call on: the error says where, and what was there stays.
TEST_F(Checkpoints, WhicheverCallFailsTheOneBeforeStays) {
  for (int64_t n = 0;; ++n) {
    std::filesystem::remove_all(Run());
    Disk disk(path_);
    const std::unique_ptr<CheckpointFolder> folder = Open({.calls = &disk});
    ASSERT_TRUE(Save(*folder, 1).ok());
    disk.fails_from = disk.calls() + n;
    const absl::Status status = Save(*folder, 2);
    ASSERT_TRUE(VerifyCheckpoint(folder->PathOf(1)).ok());
    if (status.ok()) {
      EXPECT_GT(n, 10) << "the calls that can fail";
      break;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("No space left on device"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(Run()));
    for (int64_t step : Steps()) EXPECT_TRUE(VerifyCheckpoint(folder->PathOf(step)).ok()) << n;
    if (Steps().back() == 1) {
      EXPECT_FALSE(std::filesystem::exists(folder->PathOf(2))) << "half of one is left, n = " << n;
    }
  }
}

// What cannot be removed is told, and keeps nobody from going on.
TEST_F(Checkpoints, WhicheverCallOfARemovalFailsTheNewOneIsThereAndTheFolderOpens) {
  for (int64_t n = 0;; ++n) {
    std::filesystem::remove_all(Run());
    Disk disk(path_);
    std::unique_ptr<CheckpointFolder> folder = Open({.keep = 2, .calls = &disk});
    for (int64_t step : {1, 2}) ASSERT_TRUE(Save(*folder, step, std::nan("")).ok());
    folder = nullptr;
    folder = Open({.keep = 1, .calls = &disk});
    disk.fails_from = disk.calls() + n;
    const absl::Status retired = folder->Retire();
    EXPECT_THAT(Steps(), Contains(2));
    for (int64_t step : Steps()) EXPECT_TRUE(VerifyCheckpoint(folder->PathOf(step)).ok()) << n;
    folder = nullptr;
    ASSERT_NE(Open(), nullptr);
    if (retired.ok()) {
      EXPECT_GT(n, 3) << "the calls that can fail";
      break;
    }
    EXPECT_EQ(retired.code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(Checkpoints, FoldersAndFilesOfOthersAreLeftAlone) {
  const std::unique_ptr<CheckpointFolder> folder = Open({.keep = 1});
  ASSERT_TRUE(Save(*folder, 2, std::nan("")).ok());
  ASSERT_TRUE(ReplaceFile(folder->PathOf(2) + "/notes", "mine").ok());
  for (const char* name : {"/step-2", "/step-0000000002", "/step-000000009"}) {
    std::filesystem::create_directories(Run() + name);
    ASSERT_TRUE(ReplaceFile(absl::StrCat(Run(), name, "/notes"), "mine").ok());
  }
  EXPECT_THAT(Steps(), ElementsAre(2));
  Loaded made(Parameters(1, 1));
  made.Initial(1);
  StateCopy copy;
  ASSERT_TRUE(CopyState(made.loaded, copy).ok());
  ASSERT_TRUE(folder->Save({.position = {.step = 3}}, copy).ok());
  EXPECT_EQ(folder->Retire().code(), absl::StatusCode::kDataLoss) << "a folder with a file of another's stays";
  EXPECT_THAT(Steps(), ElementsAre(3));
  for (const char* name : {"/step-2", "/step-0000000002", "/step-000000009", "/step-000000002"}) {
    EXPECT_EQ(*ReadFile(absl::StrCat(Run(), name, "/notes")), "mine") << name;
  }
}

TEST_F(Checkpoints, ASaveThatFailsLeavesTheFilesOfOthers) {
  const std::unique_ptr<CheckpointFolder> folder = Open();
  std::filesystem::create_directories(folder->PathOf(1) + "/weights.safetensors");  // where a file would have to lie
  ASSERT_TRUE(ReplaceFile(folder->PathOf(1) + "/notes", "mine").ok());
  EXPECT_EQ(Save(*folder, 1).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(*ReadFile(folder->PathOf(1) + "/notes"), "mine");
  EXPECT_FALSE(std::filesystem::exists(folder->PathOf(1) + "/weights.safetensors"));
}

TEST_F(Checkpoints, FilesOfOthersInACheckpointStayWhateverTheirNamesBeginWith) {
  const char* others[] = {"manifest.json.bak", "weights.safetensors.orig", "reading-notes.txt",
                          "manifest.json.colonnade-x.tmp"};
  const char* ours[] = {"manifest.json", "weights.safetensors", "weights.safetensors.colonnade-1-0.tmp"};
  const std::unique_ptr<CheckpointFolder> folder = Open({.keep = 1});
  ASSERT_TRUE(Save(*folder, 1, 2).ok());
  const std::string path = folder->PathOf(1);
  for (const char* name : others) ASSERT_TRUE(ReplaceFile(path + "/" + name, "x").ok());
  ASSERT_TRUE(ReplaceFile(path + "/" + ours[2], "x").ok());
  Loaded made(Parameters(1, 1));
  made.Initial(1);
  StateCopy copy;
  ASSERT_TRUE(CopyState(made.loaded, copy).ok());
  ASSERT_TRUE(folder->Save({.position = {.step = 2, .loss = 1}}, copy).ok());
  EXPECT_EQ(folder->Retire().code(), absl::StatusCode::kDataLoss) << "the folder stays with them";
  for (const char* name : ours) EXPECT_FALSE(std::filesystem::exists(path + "/" + name)) << name;
  for (const char* name : others) EXPECT_TRUE(std::filesystem::exists(path + "/" + name)) << name;
}

}  // namespace
}  // namespace colonnade::engine
