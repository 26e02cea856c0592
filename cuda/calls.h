// The thin layer through which everything reaches the GPUs: streams, events, memory, and calls that are plain data.
//
// A task of a Program becomes a few Calls (ops/prepare.h), made by plain functions that need no GPU. An implementation of
// `Calls` runs them: driver/ on CUDA, cuDNN and cuBLAS; others, in tests, record them or run them on the host. Thread
// rule: one host thread.
#ifndef COLONNADE_CUDA_CALLS_H_
#define COLONNADE_CUDA_CALLS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cuda/kernels/kernels.h"
#include "program/op.h"
#include "program/task.h"

namespace colonnade::cuda {

// How products of f32 tensors are computed; sums are f32 in both.
enum class Precision {
  kF32,
  kTf32,  // factors rounded to ten bits of mantissa, on tensor cores
};

// Contiguous bytes between any two of host and devices.
struct CopyBytes {
  void* to = nullptr;
  const void* from = nullptr;
  int64_t bytes = 0;
  int to_gpu = -1, from_gpu = -1;  // −1: host
};

struct ClearBytes {
  void* data = nullptr;
  int64_t bytes = 0;
};

// A convolution or one of its gradients, by cuDNN. All tensors are dense and channels-last: x [n,h,w,c], w [k,r,s,c/groups],
// y [n,p,q,k].
//   forward            y = x ∗ w (+ b) (then max(·, 0)), rounded once
//   backward data      x (written) from w and y
//   backward weights   w (written) from x and y
struct Convolution {
  enum class Direction { kForward, kBackwardData, kBackwardWeights };
  Direction direction = Direction::kForward;
  int64_t n = 0, c = 0, h = 0, w = 0, k = 0, p = 0, q = 0, groups = 1;
  program::Window window;
  Precision precision = Precision::kF32;
  bool deterministic = false;                   // equal bits from run to run
  program::DType dtype = program::DType::kF32;  // of all tensors: f32 or bf16; sums are f32
  bool writes_f32 = false;                      // what is written is, where its factors are bf16; neither bias nor ReLU then
  void *x = nullptr, *filter = nullptr, *y = nullptr;
  const void* bias = nullptr;  // [k] of dtype, forward alone
  bool relu = false;           // likewise
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
  int plan = -1;  // set by Calls::Prepare
};

// c [rows, columns] = A·B (+ bias [columns]) (then max(·, 0)), by cuBLASLt. Row-major; A is a [rows, depth], or its
// transpose if a is [depth, rows]; B is b [depth, columns], or its transpose if b is [columns, depth].
struct MatrixProduct {
  int64_t rows = 0, columns = 0, depth = 0;
  program::DType dtype = program::DType::kF32, c_dtype = program::DType::kF32;  // f32 or bf16; sums are f32
  const void *a = nullptr, *b = nullptr;
  int64_t lda = 0, ldb = 0, ldc = 0;  // elements from row to row, as stored
  bool transpose_a = false, transpose_b = false;
  void* c = nullptr;
  const void* bias = nullptr;  // of c_dtype
  bool relu = false;
  Precision precision = Precision::kF32;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
  int plan = -1;  // set by Calls::Prepare
};

// One member's part of a collective by NCCL, on dense elements. `count` is of `from`, of a reduce-scatter of `to`:
//   all-reduce      to = Σ from                        reduce   to = Σ from at the root
//   broadcast       to = the root's from               all-gather   to [ranks · count] = the ranks' from in turn
//   reduce-scatter  to = Σ from [ranks · count], the rank's own part of it
struct RankCall {
  program::CollectiveKind kind = program::CollectiveKind::kAllReduce;
  program::DType dtype = program::DType::kF32;
  const void* from = nullptr;
  void* to = nullptr;
  int64_t count = 0;
  int root = 0;
  int communicator = -1;  // Calls::MakeCommunicator
  int rank = 0;
};

using Call = std::variant<Kernel, CopyBytes, ClearBytes, Convolution, MatrixProduct, RankCall>;

struct Stream {
  int gpu = 0;
  void* handle = nullptr;
};
using Event = void*;
using Graph = void*;

class Calls {
 public:
  virtual ~Calls() = default;

  virtual int gpu_count() const = 0;
  virtual std::string GpuName(int gpu) const = 0;
  virtual int64_t GpuMemoryBytes(int gpu) const = 0;
  // Whether kernels on `gpu` can read and write the memory of `other`.
  virtual bool CanReach(int gpu, int other) const = 0;
  virtual absl::Status HasNccl() const = 0;  // or why not

  // Zero-filled. ResourceExhausted if the GPU has not so much.
  virtual absl::StatusOr<void*> Allocate(int gpu, int64_t bytes) = 0;
  virtual void Free(int gpu, void* data) = 0;
  // Makes whole pages of host memory known to the GPUs, so that copies need no detour and do not block. Returns false, with
  // nothing done, where the system does not allow that.
  virtual absl::StatusOr<bool> Register(void* host, int64_t bytes) = 0;
  virtual void Unregister(void* host) = 0;
  // Host memory that is known from the start.
  virtual absl::StatusOr<void*> AllocateHost(int64_t bytes) = 0;
  virtual void FreeHost(void* host) = 0;

  // A stream that goes first has its kernels begin before those of others that wait for room.
  virtual absl::StatusOr<Stream> MakeStream(int gpu, bool goes_first) = 0;
  virtual absl::StatusOr<Event> MakeEvent(int gpu, bool timed) = 0;
  virtual void Destroy(const Stream& stream) = 0;
  virtual void Destroy(int gpu, Event event) = 0;

  // These run on the stream in the order of the calls. None of them waits for GPUs, except EndGroup, which waits up to a
  // minute until all ranks have started.
  virtual absl::Status Record(Event event, const Stream& stream) = 0;
  virtual absl::Status Wait(const Stream& stream, Event event) = 0;
  virtual absl::Status Enqueue(const Stream& stream, const Call& call) = 0;
  // RankCalls of all ranks of a communicator are enqueued between these two.
  virtual absl::Status BeginGroup() = 0;
  virtual absl::Status EndGroup() = 0;
  // What is enqueued between these two, on `stream` and on streams that wait for what is, becomes a graph instead of
  // running; all of it must be joined to `stream` again. EndCapture ends the capture whether it returns a graph or an error.
  virtual absl::Status BeginCapture(const Stream& stream) = 0;
  virtual absl::StatusOr<Graph> EndCapture(const Stream& stream) = 0;
  virtual absl::Status Launch(Graph graph, const Stream& stream) = 0;
  virtual void Destroy(Graph graph) = 0;
  // What profilers show around the calls of a task.
  virtual void BeginRange(const std::string& name) = 0;
  virtual void EndRange() = 0;

  // Returns a communicator of NCCL with one rank on each of `gpus`, which are all different; the same one for the same GPUs.
  // Blocks, for a bounded time.
  virtual absl::StatusOr<int> MakeCommunicator(absl::Span<const int> gpus) = 0;

  // Blocks until the event's last record has been passed. With several GPUs an error of another one, or of a communicator,
  // ends it too, and after ten minutes it is Unavailable.
  virtual absl::Status Synchronize(Event event) = 0;
  virtual absl::StatusOr<double> SecondsBetween(Event from, Event to) = 0;

  // Chooses the algorithm of a convolution or a product, notes it in the call's `plan`, and returns the bytes of workspace
  // that it wants. Outside steps; addresses are not followed. Unimplemented where there is none.
  virtual absl::StatusOr<int64_t> Prepare(int gpu, Call& call) = 0;
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_CALLS_H_
