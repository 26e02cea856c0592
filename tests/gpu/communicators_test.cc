// Communicators with a stand-in for NCCL: its functions are those of this program, which exports them. Each notes that it
// was called, and a rank answers what a test says.
#include "cuda/driver/communicators.h"

#include <nccl.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/steady_now.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// NCCL's name of a rank's state.
struct ncclComm {
  std::string name;
  ncclResult_t made = ncclSuccess;   // what the call that makes it returns
  ncclResult_t state = ncclSuccess;  // what it answers once it is no longer at work
  int asks_at_work = 0;              // so often it answers that it is at work
};

namespace colonnade::cuda {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr absl::Duration kShort = absl::Milliseconds(500), kLong = absl::Seconds(60);
constexpr int kForEver = 1 << 30;
constexpr const char* kThisProgram = nullptr;  // as a library

class FakeNccl {
 public:
  void Note(std::string call) {
    std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
    changed_.notify_all();
  }
  std::vector<std::string> TakeCalls() {
    std::lock_guard lock(mutex_);
    return std::move(calls_);
  }

  ncclComm& Of(int gpu) { return ranks_[gpu]; }

  // Aborts last until LetAbortsEnd, which returns when the group of them has ended.
  void LetAbortsHang() { hangs_ = true; }
  void LetAbortsEnd() {
    std::unique_lock lock(mutex_);
    hangs_ = false;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !calls_.empty() && calls_.back() == "end"; });
  }
  void Abort(const ncclComm& rank) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !hangs_; });
    calls_.push_back(absl::StrCat("abort ", rank.name));
  }

  int gpu = -1;
  int version = NCCL_VERSION_CODE;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = false;
  std::vector<std::string> calls_;
  std::array<ncclComm, 8> ranks_ = {};
};

FakeNccl* nccl = nullptr;

}  // namespace
}  // namespace colonnade::cuda

using colonnade::cuda::nccl;

extern "C" {
cudaError_t cudaSetDevice(int gpu) {
  nccl->gpu = gpu;
  return gpu < 8 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of CUDA"; }

ncclResult_t ncclGetVersion(int* version) {
  *version = nccl->version;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "an error of NCCL"; }
ncclResult_t ncclGetUniqueId(ncclUniqueId*) { return ncclSuccess; }
ncclResult_t ncclGroupStart() {
  nccl->Note("group");
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  nccl->Note("end");
  return ncclInProgress;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* rank, int ranks, ncclUniqueId, int index, ncclConfig_t* config) {
  EXPECT_EQ(config->blocking, 0);
  ncclComm& made = nccl->Of(nccl->gpu);
  made.name = absl::StrCat(index, "/", ranks, " on ", nccl->gpu);
  nccl->Note(absl::StrCat("make ", made.name));
  if (made.made == ncclSuccess) *rank = &made;
  return made.made == ncclSuccess ? ncclInProgress : made.made;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t rank, ncclResult_t* state) {
  *state = rank->asks_at_work > 0 ? ncclInProgress : rank->state;
  if (rank->asks_at_work > 0) --rank->asks_at_work;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t rank) {
  nccl->Note(absl::StrCat("finalize ", rank->name));
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t rank) {
  nccl->Note(absl::StrCat("destroy ", rank->name));
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t rank) {
  nccl->Abort(*rank);
  return ncclSuccess;
}

static ncclResult_t Collective(const char* name, size_t count, ncclDataType_t type, int root, ncclComm_t rank) {
  nccl->Note(absl::StrCat(name, " of ", count, " of type ", static_cast<int>(type),
                          root < 0 ? "" : absl::StrCat(" at ", root), " by ", rank->name));
  return ncclInProgress;
}
ncclResult_t ncclAllReduce(const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t rank,
                           cudaStream_t) {
  EXPECT_EQ(op, ncclSum);
  return Collective("all-reduce", count, type, -1, rank);
}
ncclResult_t ncclReduce(const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t rank,
                        cudaStream_t) {
  EXPECT_EQ(op, ncclSum);
  return Collective("reduce", count, type, root, rank);
}
ncclResult_t ncclBroadcast(const void*, void*, size_t count, ncclDataType_t type, int root, ncclComm_t rank, cudaStream_t) {
  return Collective("broadcast", count, type, root, rank);
}
ncclResult_t ncclAllGather(const void*, void*, size_t count, ncclDataType_t type, ncclComm_t rank, cudaStream_t) {
  return Collective("all-gather", count, type, -1, rank);
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t rank,
                               cudaStream_t) {
  EXPECT_EQ(op, ncclSum);
  return Collective("reduce-scatter", count, type, -1, rank);
}
}

namespace colonnade::cuda {
namespace {

class NcclCommunicators : public ::testing::Test {
 protected:
  NcclCommunicators() { nccl = &fake_; }

  // Of the GPUs 1 and 2, with nothing noted of how they were made.
  int MakePair(Communicators& communicators) {
    absl::StatusOr<int> made = communicators.Make({1, 2});
    EXPECT_TRUE(made.ok()) << made.status();
    fake_.TakeCalls();
    return made.value_or(-1);
  }

  FakeNccl fake_;
};

TEST_F(NcclCommunicators, WhereThereIsNoLibraryOrAnOldOneNoneIsMadeAndItIsSaidWhy) {
  const Communicators here(kLong, kThisProgram);
  EXPECT_TRUE(here.available().ok()) << here.available();
  Communicators none(kLong, "libnccl_of_nobody.so.2");
  EXPECT_EQ(none.available().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(none.available().message(), HasSubstr("NCCL cannot be loaded (libnccl_of_nobody.so.2: "));
  EXPECT_EQ(none.Make({1, 2}).status(), none.available());
  EXPECT_TRUE(none.Check().ok());
  none.Abort();
  const Communicators other(kLong, "libm.so.6");
  EXPECT_THAT(other.available().message(), HasSubstr("NCCL's library has no ncclGetVersion"));
  fake_.version = NCCL_VERSION(2, 21, 5);
  const Communicators old(kLong, kThisProgram);
  EXPECT_EQ(old.available().message(), "ncclGetVersion: expected 2.22.0 or newer, found 2.21.5");
  EXPECT_EQ(old.available().code(), absl::StatusCode::kUnavailable);
}

TEST_F(NcclCommunicators, RanksAreMadeInOneGroupAndAskedUntilTheyHaveMet) {
  fake_.Of(3).asks_at_work = 5;
  Communicators communicators(kLong, kThisProgram);
  EXPECT_TRUE(communicators.empty());
  EXPECT_EQ(communicators.Make({3, 1}).value(), 0);
  EXPECT_EQ(fake_.Of(3).asks_at_work, 0);
  EXPECT_FALSE(communicators.empty());
  EXPECT_THAT(fake_.TakeCalls(), ElementsAre("group", "make 0/2 on 3", "make 1/2 on 1", "end"));
}

TEST_F(NcclCommunicators, TheSameGpusInTheSameOrderHaveOneCommunicator) {
  Communicators communicators(kLong, kThisProgram);
  EXPECT_EQ(communicators.Make({0, 1}).value(), 0);
  EXPECT_EQ(communicators.Make({2, 3}).value(), 1);
  fake_.TakeCalls();
  EXPECT_EQ(communicators.Make({0, 1}).value(), 0);
  EXPECT_THAT(fake_.TakeCalls(), IsEmpty());
}

TEST_F(NcclCommunicators, WhereARankCannotBeMadeTheOthersAreAborted) {
  fake_.Of(2).made = ncclSystemError;
  Communicators communicators(kLong, kThisProgram);
  const absl::Status status = communicators.Make({1, 2, 3}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr("ncclCommInitRankConfig"));
  EXPECT_THAT(fake_.TakeCalls(),
              ElementsAre("group", "make 0/3 on 1", "make 1/3 on 2", "end", "group", "abort 0/3 on 1", "end"));
  EXPECT_TRUE(communicators.empty());
}

TEST_F(NcclCommunicators, RanksThatDoNotMeetInTimeAreAborted) {
  fake_.Of(2).asks_at_work = kForEver;
  Communicators communicators(kShort, kThisProgram);
  const absl::Status status = communicators.Make({1, 2}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr("ncclCommInitRankConfig: not done after 500ms"));
  EXPECT_THAT(fake_.TakeCalls(), ElementsAre("group", "make 0/2 on 1", "make 1/2 on 2", "end", "group", "abort 0/2 on 1",
                                             "abort 1/2 on 2", "end"));
}

TEST_F(NcclCommunicators, EachKindIsTheCallOfItsName) {
  Communicators communicators(kLong, kThisProgram);
  const int pair = MakePair(communicators);
  using program::CollectiveKind, program::DType;
  for (const auto& [kind, dtype] : {std::pair(CollectiveKind::kAllReduce, DType::kF32),
                                    {CollectiveKind::kReduce, DType::kBF16},
                                    {CollectiveKind::kBroadcast, DType::kI32},
                                    {CollectiveKind::kAllGather, DType::kU8},
                                    {CollectiveKind::kReduceScatter, DType::kF64}}) {
    const RankCall call = {.kind = kind, .dtype = dtype, .count = 6, .root = 1, .communicator = pair, .rank = 1};
    EXPECT_TRUE(communicators.Enqueue(nullptr, call).ok());
  }
  EXPECT_THAT(fake_.TakeCalls(), ElementsAre(absl::StrCat("all-reduce of 6 of type ", ncclFloat32, " by 1/2 on 2"),
                                             absl::StrCat("reduce of 6 of type ", ncclBfloat16, " at 1 by 1/2 on 2"),
                                             absl::StrCat("broadcast of 6 of type ", ncclInt32, " at 1 by 1/2 on 2"),
                                             absl::StrCat("all-gather of 6 of type ", ncclUint8, " by 1/2 on 2"),
                                             absl::StrCat("reduce-scatter of 6 of type ", ncclFloat64, " by 1/2 on 2")));
  EXPECT_EQ(communicators.Enqueue(nullptr, {.kind = CollectiveKind::kAllToAll, .communicator = pair}).code(),
            absl::StatusCode::kInternal);
}

TEST_F(NcclCommunicators, EachGroupOfAllRanksEndsWhenTheyAreDone) {
  Communicators communicators(kLong, kThisProgram);
  const int pair = MakePair(communicators);
  for (int turn = 0; turn < 2; ++turn) {
    for (int gpu : {1, 2}) fake_.Of(gpu).asks_at_work = 4;
    ASSERT_TRUE(communicators.Begin().ok());
    for (int rank : {0, 1}) ASSERT_TRUE(communicators.Enqueue(nullptr, {.communicator = pair, .rank = rank}).ok());
    EXPECT_TRUE(communicators.End().ok());
    EXPECT_EQ(fake_.Of(1).asks_at_work + fake_.Of(2).asks_at_work, 0);
  }
  EXPECT_THAT(fake_.TakeCalls(), Not(Contains(HasSubstr("abort"))));
}

// The rank that was enqueued would wait for the other for ever.
TEST_F(NcclCommunicators, AGroupThatLacksARankIsAnErrorAndAllAreAborted) {
  Communicators communicators(kLong, kThisProgram);
  const int pair = MakePair(communicators);
  ASSERT_TRUE(communicators.Make({3, 4}).ok());
  ASSERT_TRUE(communicators.Begin().ok());
  ASSERT_TRUE(communicators.Enqueue(nullptr, {.communicator = pair, .rank = 0}).ok());
  fake_.TakeCalls();
  const absl::Status status = communicators.End();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr("1 of 2 ranks"));
  EXPECT_THAT(fake_.TakeCalls(),
              ElementsAre("end", "group", "abort 0/2 on 1", "abort 1/2 on 2", "abort 0/2 on 3", "abort 1/2 on 4", "end"));
  EXPECT_EQ(communicators.Enqueue(nullptr, {.communicator = pair}).code(), absl::StatusCode::kUnavailable);
  // And what was given up is not taken again.
  EXPECT_EQ(communicators.Make({1, 2}).value(), 2);
}

TEST_F(NcclCommunicators, ARankThatFailsWhileAGroupEndsAbortsAll) {
  Communicators communicators(kLong, kThisProgram);
  const int pair = MakePair(communicators);
  fake_.Of(2).state = ncclInternalError;
  ASSERT_TRUE(communicators.Begin().ok());
  for (int rank : {0, 1}) ASSERT_TRUE(communicators.Enqueue(nullptr, {.communicator = pair, .rank = rank}).ok());
  EXPECT_EQ(communicators.End().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(fake_.TakeCalls(), Contains("abort 0/2 on 1"));
}

TEST_F(NcclCommunicators, AFaultThatIsFoundLaterNamesItsRankAndAbortsAll) {
  Communicators communicators(kLong, kThisProgram);
  MakePair(communicators);
  fake_.Of(1).asks_at_work = 1;  // at work is no fault
  EXPECT_TRUE(communicators.Check().ok());
  fake_.Of(2).state = ncclRemoteError;
  const absl::Status status = communicators.Check();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr("rank 1 on GPU 2"));
  EXPECT_THAT(fake_.TakeCalls(), ElementsAre("group", "abort 0/2 on 1", "abort 1/2 on 2", "end"));
  EXPECT_TRUE(communicators.Check().ok());  // it is said once
}

TEST_F(NcclCommunicators, RanksAreFinalizedThenDestroyedEachInOneGroup) {
  {
    Communicators communicators(kLong, kThisProgram);
    MakePair(communicators);
    fake_.Of(2).asks_at_work = 3;
  }
  EXPECT_EQ(fake_.Of(2).asks_at_work, 0);
  EXPECT_THAT(fake_.TakeCalls(), ElementsAre("group", "finalize 0/2 on 1", "finalize 1/2 on 2", "end", "group",
                                             "destroy 0/2 on 1", "destroy 1/2 on 2", "end"));
}

TEST_F(NcclCommunicators, RanksThatCannotBeFinalizedAreAborted) {
  {
    Communicators communicators(kShort, kThisProgram);
    MakePair(communicators);
    fake_.Of(2).asks_at_work = kForEver;
  }
  EXPECT_THAT(fake_.TakeCalls(), ElementsAre("group", "finalize 0/2 on 1", "finalize 1/2 on 2", "end", "group",
                                             "abort 0/2 on 1", "abort 1/2 on 2", "end"));
}

TEST_F(NcclCommunicators, WhatWasAbortedIsNotFinalized) {
  {
    Communicators communicators(kLong, kThisProgram);
    MakePair(communicators);
    communicators.Abort();
    fake_.TakeCalls();
  }
  EXPECT_THAT(fake_.TakeCalls(), IsEmpty());
}

TEST_F(NcclCommunicators, AnAbortThatHangsIsLeftBehind) {
  Communicators communicators(kShort, kThisProgram);
  MakePair(communicators);
  fake_.LetAbortsHang();
  const absl::Time begin = base::SteadyNow();
  communicators.Abort();
  EXPECT_GE(base::SteadyNow() - begin, kShort);
  EXPECT_THAT(fake_.TakeCalls(), ElementsAre("group"));
  fake_.LetAbortsEnd();
}

}  // namespace
}  // namespace colonnade::cuda
