#include "cuda/driver/engine_timer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cuda/driver/check.h"
#include "program/formulas/bfloat16.h"

namespace colonnade::cuda {
namespace {

// Numbers between −1 and 1 that fill `bytes`.
absl::StatusOr<std::vector<char>> RandomNumbers(program::DType dtype, int64_t bytes) {
  std::vector<char> numbers(bytes);
  std::minstd_rand random;
  for (int64_t at = 0, size = program::SizeInBytes(dtype); at + size <= bytes; at += size) {
    const float number = std::uniform_real_distribution<float>(-1, 1)(random);
    if (dtype == program::DType::kF32) {
      std::memcpy(&numbers[at], &number, size);
    } else if (dtype == program::DType::kBF16) {
      const program::BFloat16 rounded(number);
      std::memcpy(&numbers[at], &rounded, size);
    } else {
      return absl::UnimplementedError(absl::StrCat("random numbers of ", program::Name(dtype)));
    }
  }
  return numbers;
}

// Device memory of its own.
class Scratch {
 public:
  static absl::StatusOr<Scratch> Make(int64_t bytes) {
    Scratch scratch;
    if (bytes == 0) return scratch;
    void* data = nullptr;
    COLONNADE_CHECK(cudaMalloc(&data, bytes));
    scratch.data_.reset(data);
    return scratch;
  }
  // Full of numbers of size up to one: engines run faster on zeros.
  static absl::StatusOr<Scratch> MakeFull(int64_t elements, program::DType dtype) {
    const int64_t bytes = elements * program::SizeInBytes(dtype);
    ASSIGN_OR_RETURN(Scratch scratch, Make(bytes));
    ASSIGN_OR_RETURN(const std::vector<char> numbers, RandomNumbers(dtype, std::min(bytes, kAtOnce)));
    if (bytes > 0) COLONNADE_CHECK(cudaMemcpy(scratch.data(), numbers.data(), numbers.size(), cudaMemcpyHostToDevice));
    for (int64_t full = kAtOnce; full < bytes; full *= 2) {
      COLONNADE_CHECK(
          cudaMemcpy(scratch.data() + full, scratch.data(), std::min(bytes - full, full), cudaMemcpyDeviceToDevice));
    }
    COLONNADE_CHECK(cudaDeviceSynchronize());
    return scratch;
  }
  char* data() const { return static_cast<char*>(data_.get()); }

 private:
  static constexpr int64_t kAtOnce = int64_t{1} << 20;
  struct Free {
    void operator()(void* data) const { cudaFree(data); }
  };
  std::unique_ptr<void, Free> data_;
};

class EngineTimer {
 public:
  // `calls` and `handle`, the GPU's, must outlive the result.
  static absl::StatusOr<std::shared_ptr<EngineTimer>> Make(Calls& calls, int gpu, cudnnHandle_t handle,
                                                           const Convolution& c) {
    using Direction = Convolution::Direction;
    const program::Window& window = c.window;
    // What is written may be f32 where factors are bf16.
    const auto type_of = [&c](Direction writer) {
      return c.direction == writer && c.writes_f32 ? program::DType::kF32 : c.dtype;
    };
    const std::shared_ptr<EngineTimer> timer(new EngineTimer(calls, gpu, handle, c));
    COLONNADE_CHECK(cudaSetDevice(gpu));
    ASSIGN_OR_RETURN(timer->x_, Scratch::MakeFull(c.n * c.c * c.h * c.w, type_of(Direction::kBackwardData)));
    ASSIGN_OR_RETURN(timer->filter_, Scratch::MakeFull(c.k * (c.c / c.groups) * window.size_h * window.size_w,
                                                       type_of(Direction::kBackwardWeights)));
    ASSIGN_OR_RETURN(timer->y_, Scratch::MakeFull(c.n * c.k * c.p * c.q, type_of(Direction::kForward)));
    ASSIGN_OR_RETURN(timer->bias_, Scratch::MakeFull(c.k, c.dtype));
    ASSIGN_OR_RETURN(timer->stream_, calls.MakeStream(gpu, /*goes_first=*/false));
    ASSIGN_OR_RETURN(timer->begin_, calls.MakeEvent(gpu, /*timed=*/true));
    ASSIGN_OR_RETURN(timer->end_, calls.MakeEvent(gpu, /*timed=*/true));
    return timer;
  }
  ~EngineTimer() {
    if (begin_ != nullptr) calls_.Destroy(gpu_, begin_);
    if (end_ != nullptr) calls_.Destroy(gpu_, end_);
    if (stream_.handle != nullptr) calls_.Destroy(stream_);
  }
  EngineTimer(const EngineTimer&) = delete;
  EngineTimer& operator=(const EngineTimer&) = delete;

  // ConvolutionRunner::Timer.
  absl::StatusOr<double> Seconds(const ConvolutionPlan& plan, double least) {
    if (plan.workspace_bytes > workspace_bytes_) {
      workspace_ = {}, workspace_bytes_ = 0;
      ASSIGN_OR_RETURN(workspace_, Scratch::Make(plan.workspace_bytes));
      workspace_bytes_ = plan.workspace_bytes;
    }
    absl::StatusOr<double> seconds = LeastOfTurns(plan, least);
    if (seconds.ok()) return seconds;
    (void)cudaGetLastError();
    // An engine that has failed and left the GPU as it was is one that does not serve.
    const bool is_of_engine = absl::IsInternal(seconds.status()) || absl::IsInvalidArgument(seconds.status());
    if (is_of_engine && cudaDeviceSynchronize() == cudaSuccess) return absl::UnimplementedError(seconds.status().message());
    return seconds;
  }

 private:
  EngineTimer(Calls& calls, int gpu, cudnnHandle_t handle, const Convolution& c)
      : calls_(calls), gpu_(gpu), handle_(handle), convolution_(c) {}

  // Returns the least time of a few turns, since others may be at work; of two, where the engine is far behind.
  absl::StatusOr<double> LeastOfTurns(const ConvolutionPlan& plan, double least) {
    constexpr int kTurns = 4;       // the first of which loads kernels
    constexpr int kRunsOfTurn = 4;  // one behind the other, so that the GPU waits for the host before the first alone
    constexpr double kLong = 1e-3;  // beside which the host's time is nothing
    constexpr double kFarBehind = 2;
    Convolution c = convolution_;
    c.x = x_.data(), c.filter = filter_.data(), c.y = y_.data(), c.workspace = workspace_.data();
    if (c.bias != nullptr) c.bias = bias_.data();
    ASSIGN_OR_RETURN(const Descriptor addresses, AddressesOf(c));
    double of_plan = std::numeric_limits<double>::infinity();
    for (int turn = 0; turn < kTurns; ++turn) {
      const int runs = turn == 0 || of_plan > kLong ? 1 : kRunsOfTurn;
      ASSIGN_OR_RETURN(const double seconds, SecondsOf(runs, plan, addresses));
      of_plan = std::min(of_plan, seconds / runs);
      if (turn > 0 && of_plan > kFarBehind * least) break;
    }
    return of_plan;
  }

  absl::StatusOr<double> SecondsOf(int runs, const ConvolutionPlan& plan, const Descriptor& addresses) {
    COLONNADE_CHECK(cudnnSetStream(handle_, static_cast<cudaStream_t>(stream_.handle)));
    RETURN_IF_ERROR(calls_.Record(begin_, stream_));
    absl::Status ran;
    for (int run = 0; run < runs && ran.ok(); ++run) ran = Execute(handle_, plan, addresses);
    RETURN_IF_ERROR(calls_.Record(end_, stream_));
    COLONNADE_CHECK(cudaEventSynchronize(static_cast<cudaEvent_t>(end_)));
    RETURN_IF_ERROR(ran);
    return calls_.SecondsBetween(begin_, end_);
  }

  Calls& calls_;
  const int gpu_;
  const cudnnHandle_t handle_;
  const Convolution convolution_;
  Scratch x_, filter_, y_, bias_, workspace_;
  int64_t workspace_bytes_ = 0;
  Stream stream_ = {};
  Event begin_ = nullptr, end_ = nullptr;
};

}  // namespace

absl::StatusOr<ConvolutionRunner::Timer> MakeEngineTimer(Calls& calls, int gpu, cudnnHandle_t handle,
                                                         const Convolution& convolution) {
  ASSIGN_OR_RETURN(const std::shared_ptr<EngineTimer> timer, EngineTimer::Make(calls, gpu, handle, convolution));
  return [timer](const ConvolutionPlan& plan, double least) { return timer->Seconds(plan, least); };
}

}  // namespace colonnade::cuda
