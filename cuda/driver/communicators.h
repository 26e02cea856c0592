// Communicators of NCCL within this process: made, used and given up without blocking for long.
//
// NCCL's calls return at once, and what is under way is asked for until it is done or its time is over: so long may Make,
// End, Check and Abort take. After an error all are aborted, since ranks that wait for a lost one would wait for
// ever. Part of the driver module; where NCCL is not available, Make returns why. Thread rule: one host thread.
#ifndef COLONNADE_CUDA_COMMUNICATORS_H_
#define COLONNADE_CUDA_COMMUNICATORS_H_

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "cuda/calls.h"
#include "cuda/driver/nccl_library.h"

namespace colonnade::cuda {

class Communicators {
 public:
  // Ranks of one process meet at once or not at all; the first meeting loads kernels and sets up links.
  // `library` is where NCCL is looked for (LoadNccl).
  explicit Communicators(absl::Duration most_wait = absl::Seconds(60), const char* library = kNcclLibrary);
  ~Communicators();

  // OK, or why there is no NCCL; then nothing but Make, Check and Abort may be called.
  absl::Status available() const { return nccl_.status(); }
  // Calls::MakeCommunicator.
  absl::StatusOr<int> Make(absl::Span<const int> gpus);
  bool empty() const { return all_.empty(); }

  absl::Status Begin();
  absl::Status Enqueue(cudaStream_t stream, const RankCall& call);
  // Of ranks that were not all enqueued: Unavailable, and all are aborted, since those that were would wait for the others.
  absl::Status End();

  // What went wrong since, on any of them; then all are aborted.
  absl::Status Check();
  void Abort();

 private:
  struct Communicator;
  absl::Status Settle(const Communicator& communicator, const char* call);
  absl::Status EnqueueRank(cudaStream_t stream, const RankCall& call);

  absl::Duration most_wait_;
  absl::StatusOr<NcclLibrary> nccl_;
  std::vector<std::unique_ptr<Communicator>> all_;
  std::map<int, size_t> in_group_;  // those used since Begin, with the ranks that were enqueued
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_COMMUNICATORS_H_
