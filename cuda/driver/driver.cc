// Calls on CUDA, cuDNN and cuBLASLt: a module of its own, so that programs start without their libraries.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/steady_now.h"
#include "cuda/backend.h"
#include "cuda/calls.h"
#include "cuda/driver/check.h"
#include "cuda/driver/communicators.h"
#include "cuda/driver/convolution_runner.h"
#include "cuda/driver/engine_timer.h"
#include "cuda/driver/matrix_products.h"
#include "cuda/kernels/launch.h"
#include "cuda/status.h"

namespace colonnade::cuda {
namespace {

// status.cc states the libraries' numbers without their headers.
static_assert(cudaErrorStreamCaptureUnsupported == 900 && cudaErrorStreamCaptureWrongThread == 908);
static_assert(cudaErrorMemoryAllocation == 2 && cudaErrorInsufficientDriver == 35 && cudaErrorNoDevice == 100 &&
              cudaErrorNoKernelImageForDevice == 209 && cudaErrorNotSupported == 801);
static_assert(CUDNN_STATUS_NOT_INITIALIZED == 1001 && CUDNN_STATUS_BAD_PARAM == 2000 && CUDNN_STATUS_NOT_SUPPORTED == 3000 &&
              CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED == 4003 &&
              CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED == 4004);
static_assert(CUBLAS_STATUS_ALLOC_FAILED == 3 && CUBLAS_STATUS_INVALID_VALUE == 7 && CUBLAS_STATUS_NOT_SUPPORTED == 15);

constexpr size_t kLeastCudnn = 90800;  // cmake/cuda.cmake

constexpr absl::Duration kMostStepWait = absl::Minutes(10), kPollEvery = absl::Microseconds(20);
constexpr int kTurnsBetweenGpus = 1000;

class CudaCalls : public Calls {
 public:
  static absl::StatusOr<std::unique_ptr<Calls>> Open(const std::string& engines_file, int most_gpus) {
    int count = 0;
    COLONNADE_CHECK(cudaGetDeviceCount(&count));
    if (count == 0) return absl::UnavailableError("cudaGetDeviceCount: no GPU");
    count = std::min(count, most_gpus);
    if (cudnnGetVersion() < kLeastCudnn) {
      return absl::UnavailableError(
          absl::StrCat("cudnnGetVersion: expected ", kLeastCudnn, " or newer, found ", cudnnGetVersion()));
    }
    auto calls = std::make_unique<CudaCalls>();
    for (int g = 0; g < count; ++g) {
      Gpu& gpu = calls->gpus_.emplace_back();
      COLONNADE_CHECK(cudaSetDevice(g));
      cudaDeviceProp properties;
      COLONNADE_CHECK(cudaGetDeviceProperties(&properties, g));
      gpu.name = properties.name;
      gpu.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
      COLONNADE_CHECK(cudnnCreate(&gpu.dnn));
      calls->convolutions_.AddGpu({.name = gpu.name, .handle = gpu.dnn});
      COLONNADE_CHECK(cublasLtCreate(&gpu.blas));
      calls->products_.AddGpu(gpu.blas);
      gpu.reaches.assign(count, false);
      for (int other = 0; other < count; ++other) {
        int can = other == g ? 1 : 0;
        if (other != g) {
          COLONNADE_CHECK(cudaDeviceCanAccessPeer(&can, g, other));
          const cudaError_t enabled = can != 0 ? cudaDeviceEnablePeerAccess(other, 0) : cudaSuccess;
          if (enabled == cudaErrorTooManyPeers) can = 0;  // a GPU has eight at most
          // An earlier object of this process enabled it.
          if (enabled != cudaErrorPeerAccessAlreadyEnabled && enabled != cudaErrorTooManyPeers) COLONNADE_CHECK(enabled);
          (void)cudaGetLastError();
        }
        gpu.reaches[other] = can != 0;
      }
    }
    COLONNADE_CHECK(cudaSetDevice(0));
    if (!engines_file.empty()) {
      ASSIGN_OR_RETURN(EngineChoices choices, EngineChoices::Read(engines_file));
      calls->convolutions_.Search(
          std::move(choices),
          [&self = *calls](int gpu, const Convolution& convolution) -> absl::StatusOr<ConvolutionRunner::Timer> {
            return MakeEngineTimer(self, gpu, self.gpus_[gpu].dnn, convolution);
          });
    }
    return {std::move(calls)};
  }

  ~CudaCalls() override {
    convolutions_ = {};
    products_ = {};
    for (size_t g = 0; g < gpus_.size(); ++g) {
      cudaSetDevice(static_cast<int>(g));
      if (gpus_[g].dnn != nullptr) cudnnDestroy(gpus_[g].dnn);
      if (gpus_[g].blas != nullptr) cublasLtDestroy(gpus_[g].blas);
    }
  }

  int gpu_count() const override { return static_cast<int>(gpus_.size()); }
  std::string GpuName(int gpu) const override { return gpus_[gpu].name; }
  int64_t GpuMemoryBytes(int gpu) const override { return gpus_[gpu].memory_bytes; }
  bool CanReach(int gpu, int other) const override { return gpus_[gpu].reaches[other]; }
  absl::Status HasNccl() const override { return communicators_.available(); }

  absl::StatusOr<void*> Allocate(int gpu, int64_t bytes) override {
    void* data = nullptr;
    COLONNADE_CHECK(cudaSetDevice(gpu));
    COLONNADE_CHECK(cudaMalloc(&data, bytes));
    absl::Cleanup free = [data] { cudaFree(data); };
    COLONNADE_CHECK(cudaMemset(data, 0, bytes));
    COLONNADE_CHECK(cudaDeviceSynchronize());
    std::move(free).Cancel();
    return data;
  }
  void Free(int gpu, void* data) override {
    cudaSetDevice(gpu);
    cudaFree(data);
  }
  absl::StatusOr<bool> Register(void* host, int64_t bytes) override {
    const cudaError_t registered = cudaHostRegister(host, bytes, cudaHostRegisterPortable);
    // A system that pins no memory, or no more, is slower without.
    for (const cudaError_t refused :
         {cudaErrorMemoryAllocation, cudaErrorNotSupported, cudaErrorNotPermitted, cudaErrorOperatingSystem}) {
      if (registered != refused) continue;
      (void)cudaGetLastError();
      return false;
    }
    RETURN_IF_ERROR(CheckCall(registered, "cudaHostRegister"));
    return true;
  }
  void Unregister(void* host) override {
    if (cudaHostUnregister(host) != cudaSuccess) (void)cudaGetLastError();
  }
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override {
    void* data = nullptr;
    COLONNADE_CHECK(cudaHostAlloc(&data, bytes, cudaHostAllocPortable));
    return data;
  }
  void FreeHost(void* host) override { cudaFreeHost(host); }

  absl::StatusOr<Stream> MakeStream(int gpu, bool goes_first) override {
    cudaStream_t stream = nullptr;
    int last = 0, first = 0;
    COLONNADE_CHECK(cudaSetDevice(gpu));
    COLONNADE_CHECK(cudaDeviceGetStreamPriorityRange(&last, &first));
    COLONNADE_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, goes_first ? first : last));
    return Stream{gpu, stream};
  }
  absl::StatusOr<Event> MakeEvent(int gpu, bool timed) override {
    cudaEvent_t event = nullptr;
    COLONNADE_CHECK(cudaSetDevice(gpu));
    COLONNADE_CHECK(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
    return static_cast<Event>(event);
  }
  void Destroy(const Stream& stream) override {
    cudaSetDevice(stream.gpu);
    (void)cudnnSetStream(gpus_[stream.gpu].dnn, nullptr);  // which else may keep one that is no more
    cudaStreamDestroy(Handle(stream));
  }
  void Destroy(int, Event event) override { cudaEventDestroy(static_cast<cudaEvent_t>(event)); }

  absl::Status Record(Event event, const Stream& stream) override {
    COLONNADE_CHECK(cudaSetDevice(stream.gpu));
    COLONNADE_CHECK(cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream.handle)));
    return absl::OkStatus();
  }
  absl::Status Wait(const Stream& stream, Event event) override {
    COLONNADE_CHECK(cudaSetDevice(stream.gpu));
    COLONNADE_CHECK(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream.handle), static_cast<cudaEvent_t>(event), 0));
    return absl::OkStatus();
  }
  absl::Status Enqueue(const Stream& stream, const Call& call) override {
    COLONNADE_CHECK(cudaSetDevice(stream.gpu));
    return std::visit([&](const auto& what) { return Run(stream, what); }, call);
  }
  absl::Status BeginGroup() override { return communicators_.Begin(); }
  absl::Status EndGroup() override { return communicators_.End(); }
  absl::Status BeginCapture(const Stream& stream) override {
    COLONNADE_CHECK(cudaSetDevice(stream.gpu));
    COLONNADE_CHECK(cudaStreamBeginCapture(Handle(stream), cudaStreamCaptureModeThreadLocal));
    return absl::OkStatus();
  }
  absl::StatusOr<Graph> EndCapture(const Stream& stream) override {
    cudaGraph_t captured = nullptr;
    COLONNADE_CHECK(cudaSetDevice(stream.gpu));
    COLONNADE_CHECK(cudaStreamEndCapture(Handle(stream), &captured));
    cudaGraphExec_t graph = nullptr;
    const absl::Status status = CheckCall(cudaGraphInstantiate(&graph, captured, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(captured);
    if (!status.ok()) return status;
    return static_cast<Graph>(graph);
  }
  absl::Status Launch(Graph graph, const Stream& stream) override {
    COLONNADE_CHECK(cudaSetDevice(stream.gpu));
    COLONNADE_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), Handle(stream)));
    return absl::OkStatus();
  }
  void Destroy(Graph graph) override { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }
  void BeginRange(const std::string& name) override { nvtxRangePushA(name.c_str()); }
  void EndRange() override { nvtxRangePop(); }

  absl::StatusOr<int> MakeCommunicator(absl::Span<const int> gpus) override { return communicators_.Make(gpus); }

  absl::Status Synchronize(Event event) override {
    if (gpu_count() == 1) {
      COLONNADE_CHECK(cudaEventSynchronize(static_cast<cudaEvent_t>(event)));
      return absl::OkStatus();
    }
    // Work that waits for a lost rank or for a GPU that has failed would let the event wait for ever.
    int turns = 0;
    for (const absl::Time last = base::SteadyNow() + kMostStepWait;;) {
      if (++turns % kTurnsBetweenGpus == 0) RETURN_IF_ERROR(CheckGpus());
      const cudaError_t state = cudaEventQuery(static_cast<cudaEvent_t>(event));
      if (state != cudaErrorNotReady) return CheckCall(state, "cudaEventQuery");
      (void)cudaGetLastError();
      RETURN_IF_ERROR(communicators_.Check());
      if (base::SteadyNow() > last) {
        communicators_.Abort();
        return absl::UnavailableError(
            absl::StrCat("a step was not over after ", absl::FormatDuration(kMostStepWait), ": a collective hangs"));
      }
      absl::SleepFor(kPollEvery);
    }
  }
  absl::StatusOr<double> SecondsBetween(Event from, Event to) override {
    float milliseconds = 0;
    COLONNADE_CHECK(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(from), static_cast<cudaEvent_t>(to)));
    return milliseconds * 1e-3;
  }

  absl::StatusOr<int64_t> Prepare(int gpu, Call& call) override {
    COLONNADE_CHECK(cudaSetDevice(gpu));
    if (auto* convolution = std::get_if<Convolution>(&call)) return convolutions_.Prepare(gpu, *convolution);
    if (auto* product = std::get_if<MatrixProduct>(&call)) return products_.Prepare(gpu, *product);
    return 0;
  }

 private:
  // A fault of one GPU lets the collectives of the others wait for it.
  absl::Status CheckGpus() {
    for (size_t g = 0; g < gpus_.size(); ++g) {
      cudaError_t state = cudaSetDevice(static_cast<int>(g));
      if (state == cudaSuccess) state = cudaStreamQuery(nullptr);
      if (state == cudaSuccess || state == cudaErrorNotReady) continue;
      communicators_.Abort();
      const absl::Status fault = CheckCall(state, "cudaStreamQuery");
      return absl::Status(fault.code(), absl::StrCat("GPU ", g, ": ", fault.message()));
    }
    (void)cudaGetLastError();
    return absl::OkStatus();
  }
  struct Gpu {
    std::string name;
    int64_t memory_bytes = 0;
    cudnnHandle_t dnn = nullptr;
    cublasLtHandle_t blas = nullptr;
    std::vector<bool> reaches;
  };

  absl::Status Run(const Stream& stream, const RankCall& call) { return communicators_.Enqueue(Handle(stream), call); }

  static cudaStream_t Handle(const Stream& stream) { return static_cast<cudaStream_t>(stream.handle); }

  absl::Status Run(const Stream& stream, const Kernel& kernel) {
    return CheckCall(LaunchKernel(kernel, Handle(stream)), "a kernel");
  }
  absl::Status Run(const Stream& stream, const CopyBytes& copy) {
    if (copy.bytes == 0) return absl::OkStatus();
    const bool is_between_gpus = copy.to_gpu >= 0 && copy.from_gpu >= 0 && copy.to_gpu != copy.from_gpu;
    if (is_between_gpus && !CanReach(copy.to_gpu, copy.from_gpu)) {
      COLONNADE_CHECK(cudaMemcpyPeerAsync(copy.to, copy.to_gpu, copy.from, copy.from_gpu, copy.bytes, Handle(stream)));
    } else {
      COLONNADE_CHECK(cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDefault, Handle(stream)));
    }
    return absl::OkStatus();
  }
  absl::Status Run(const Stream& stream, const ClearBytes& clear) {
    COLONNADE_CHECK(cudaMemsetAsync(clear.data, 0, clear.bytes, Handle(stream)));
    return absl::OkStatus();
  }

  absl::Status Run(const Stream& stream, const Convolution& convolution) {
    COLONNADE_CHECK(cudnnSetStream(gpus_[stream.gpu].dnn, Handle(stream)));
    return convolutions_.Run(stream.gpu, convolution);
  }
  absl::Status Run(const Stream& stream, const MatrixProduct& product) {
    return products_.Run(stream.gpu, Handle(stream), product);
  }

  std::vector<Gpu> gpus_;
  Communicators communicators_;
  ConvolutionRunner convolutions_;
  MatrixProducts products_;
};

}  // namespace

// What open.cc looks for.
extern "C" void colonnade_open_cuda(const std::string* engines_file, int most_gpus,
                                    absl::StatusOr<std::unique_ptr<Calls>>* calls) {
  *calls = CudaCalls::Open(*engines_file, most_gpus);
}

}  // namespace colonnade::cuda
