#include "cuda/driver/communicators.h"

#include "cuda/status.h"

#if COLONNADE_NCCL

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/steady_now.h"
#include "cuda/driver/check.h"

namespace colonnade::cuda {
namespace {

static_assert(ncclSystemError == 2 && ncclInvalidArgument == 4 && ncclInvalidUsage == 5 && ncclRemoteError == 6 &&
              ncclInProgress == 7);

absl::Status Check(const NcclLibrary& nccl, ncclResult_t result, const char* call) {
  return StatusOf(FailureOfNccl(result), call, nccl.GetErrorString(result));
}

ncclDataType_t TypeOf(program::DType dtype) {
  switch (dtype) {
    case program::DType::kF32:
      return ncclFloat32;
    case program::DType::kF64:
      return ncclFloat64;
    case program::DType::kI32:
      return ncclInt32;
    case program::DType::kU8:
      return ncclUint8;
    case program::DType::kBF16:
      return ncclBfloat16;
  }
  return ncclFloat32;
}

// All at once: an abort of some waits for the collectives of the others, which may never end (NCCL issue 1013). And in a
// thread that is left behind after `most_wait`, since an abort can hang in the driver.
void GiveUp(const NcclLibrary& nccl, std::vector<ncclComm_t> ranks, absl::Duration most_wait) {
  auto over = std::make_shared<std::promise<void>>();
  std::future<void> ended = over->get_future();
  std::thread([nccl, ranks = std::move(ranks), over] {
    nccl.GroupStart();
    for (ncclComm_t rank : ranks) {
      if (rank != nullptr) nccl.CommAbort(rank);
    }
    nccl.GroupEnd();
    over->set_value();
  }).detach();
  ended.wait_for(absl::ToChronoNanoseconds(most_wait));
}

}  // namespace

struct Communicators::Communicator {
  std::vector<int> gpus;
  std::vector<ncclComm_t> ranks;
  bool gone = false;  // destroyed or aborted
};

Communicators::Communicators(absl::Duration most_wait, const char* library)
    : most_wait_(most_wait), nccl_(LoadNccl(library)) {}

Communicators::~Communicators() {
  for (const auto& one : all_) {
    if (one->gone) continue;
    nccl_->GroupStart();
    for (ncclComm_t rank : one->ranks) nccl_->CommFinalize(rank);
    nccl_->GroupEnd();
    if (!Settle(*one, "ncclCommFinalize").ok()) break;
    nccl_->GroupStart();
    for (ncclComm_t rank : one->ranks) nccl_->CommDestroy(rank);
    nccl_->GroupEnd();
    one->gone = true;
  }
  Abort();  // what did not settle
}

// Until no rank is at work on what was asked of it.
absl::Status Communicators::Settle(const Communicator& communicator, const char* call) {
  const absl::Time last = base::SteadyNow() + most_wait_;
  for (size_t r = 0; r < communicator.ranks.size();) {
    ncclResult_t state = ncclSuccess;
    RETURN_IF_ERROR(cuda::Check(*nccl_, nccl_->CommGetAsyncError(communicator.ranks[r], &state), "ncclCommGetAsyncError"));
    if (state == ncclSuccess) {
      ++r;
    } else if (state != ncclInProgress) {
      return cuda::Check(*nccl_, state, call);
    } else if (base::SteadyNow() > last) {
      return absl::UnavailableError(absl::StrCat(call, ": not done after ", absl::FormatDuration(most_wait_)));
    } else {
      std::this_thread::yield();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Communicators::Make(absl::Span<const int> gpus) {
  RETURN_IF_ERROR(nccl_.status());
  const std::vector<int> wanted(gpus.begin(), gpus.end());
  for (size_t i = 0; i < all_.size(); ++i) {
    if (all_[i]->gpus == wanted && !all_[i]->gone) return static_cast<int>(i);
  }
  auto made = std::make_unique<Communicator>();
  made->gpus = wanted;
  made->ranks.resize(gpus.size(), nullptr);
  ncclUniqueId id;
  RETURN_IF_ERROR(cuda::Check(*nccl_, nccl_->GetUniqueId(&id), "ncclGetUniqueId"));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  RETURN_IF_ERROR(Begin());
  absl::Status status;
  for (size_t r = 0; r < gpus.size() && status.ok(); ++r) {
    status = CheckCall(cudaSetDevice(gpus[r]), "cudaSetDevice");
    if (!status.ok()) break;
    status = cuda::Check(
        *nccl_, nccl_->CommInitRankConfig(&made->ranks[r], static_cast<int>(gpus.size()), id, static_cast<int>(r), &config),
        "ncclCommInitRankConfig");
  }
  status.Update(cuda::Check(*nccl_, nccl_->GroupEnd(), "ncclGroupEnd"));
  if (status.ok()) status = Settle(*made, "ncclCommInitRankConfig");
  if (!status.ok()) {
    GiveUp(*nccl_, std::move(made->ranks), most_wait_);
    return status;
  }
  all_.push_back(std::move(made));
  return static_cast<int>(all_.size()) - 1;
}

absl::Status Communicators::Begin() {
  in_group_.clear();
  return cuda::Check(*nccl_, nccl_->GroupStart(), "ncclGroupStart");
}

absl::Status Communicators::End() {
  absl::Status status = cuda::Check(*nccl_, nccl_->GroupEnd(), "ncclGroupEnd");
  for (const auto& [index, ranks] : in_group_) {
    const Communicator& communicator = *all_[index];
    if (status.ok() && ranks != communicator.ranks.size()) {
      status = absl::UnavailableError(absl::StrCat("a collective of ", ranks, " of ", communicator.ranks.size(),
                                                   " ranks, which would wait for the others"));
    }
    if (status.ok()) status = Settle(communicator, "ncclGroupEnd");
  }
  if (!status.ok()) Abort();
  return status;
}

absl::Status Communicators::Enqueue(cudaStream_t stream, const RankCall& call) {
  if (all_[call.communicator]->gone)
    return absl::UnavailableError("a collective on ranks that were given up after an error");
  RETURN_IF_ERROR(EnqueueRank(stream, call));
  ++in_group_[call.communicator];
  return absl::OkStatus();
}

absl::Status Communicators::EnqueueRank(cudaStream_t stream, const RankCall& call) {
  const Communicator& communicator = *all_[call.communicator];
  const ncclComm_t rank = communicator.ranks[call.rank];
  const ncclDataType_t type = TypeOf(call.dtype);
  switch (call.kind) {
    case program::CollectiveKind::kAllReduce:
      return cuda::Check(*nccl_, nccl_->AllReduce(call.from, call.to, call.count, type, ncclSum, rank, stream),
                         "ncclAllReduce");
    case program::CollectiveKind::kReduce:
      return cuda::Check(*nccl_, nccl_->Reduce(call.from, call.to, call.count, type, ncclSum, call.root, rank, stream),
                         "ncclReduce");
    case program::CollectiveKind::kBroadcast:
      return cuda::Check(*nccl_, nccl_->Broadcast(call.from, call.to, call.count, type, call.root, rank, stream),
                         "ncclBroadcast");
    case program::CollectiveKind::kAllGather:
      return cuda::Check(*nccl_, nccl_->AllGather(call.from, call.to, call.count, type, rank, stream), "ncclAllGather");
    case program::CollectiveKind::kReduceScatter:
      return cuda::Check(*nccl_, nccl_->ReduceScatter(call.from, call.to, call.count, type, ncclSum, rank, stream),
                         "ncclReduceScatter");
    case program::CollectiveKind::kAllToAll:
      break;
  }
  return absl::InternalError("NCCL has no all-to-all");
}

absl::Status Communicators::Check() {
  for (const auto& one : all_) {
    if (one->gone) continue;
    for (size_t r = 0; r < one->ranks.size(); ++r) {
      ncclResult_t state = ncclSuccess;
      absl::Status status = cuda::Check(*nccl_, nccl_->CommGetAsyncError(one->ranks[r], &state), "ncclCommGetAsyncError");
      if (status.ok()) status = cuda::Check(*nccl_, state, "a collective of NCCL");
      if (status.ok()) continue;
      status = WithContext(status, absl::StrCat("rank ", r, " on GPU ", one->gpus[r]));
      Abort();
      return status;
    }
  }
  return absl::OkStatus();
}

void Communicators::Abort() {
  std::vector<ncclComm_t> ranks;
  for (const auto& one : all_) {
    if (!one->gone) ranks.insert(ranks.end(), one->ranks.begin(), one->ranks.end());
    one->gone = true;
  }
  if (!ranks.empty()) GiveUp(*nccl_, std::move(ranks), most_wait_);
}

}  // namespace colonnade::cuda

#else

namespace colonnade::cuda {

struct Communicators::Communicator {};

Communicators::Communicators(absl::Duration most_wait, const char* library)
    : most_wait_(most_wait), nccl_(LoadNccl(library)) {}
Communicators::~Communicators() = default;
absl::StatusOr<int> Communicators::Make(absl::Span<const int>) { return nccl_.status(); }
absl::Status Communicators::Begin() { return absl::OkStatus(); }
absl::Status Communicators::Enqueue(cudaStream_t, const RankCall&) { return absl::InternalError("no NCCL"); }
absl::Status Communicators::End() { return absl::OkStatus(); }
absl::Status Communicators::Check() { return absl::OkStatus(); }
void Communicators::Abort() {}

}  // namespace colonnade::cuda

#endif
