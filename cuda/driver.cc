// Calls on CUDA, cuDNN and cuBLASLt: a module of its own, so that programs start without their libraries.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cuda/backend.h"
#include "cuda/calls.h"
#include "cuda/communicators.h"
#include "cuda/launch.h"
#include "cuda/status.h"

namespace colonnade::cuda {
namespace {

// status.cc states the libraries' numbers without their headers.
static_assert(cudaErrorMemoryAllocation == 2 && cudaErrorInsufficientDriver == 35 && cudaErrorNoDevice == 100 &&
              cudaErrorNoKernelImageForDevice == 209 && cudaErrorNotSupported == 801);
static_assert(CUDNN_STATUS_NOT_INITIALIZED == 1001 && CUDNN_STATUS_BAD_PARAM == 2000 && CUDNN_STATUS_NOT_SUPPORTED == 3000 &&
              CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED == 4003 &&
              CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED == 4004);
static_assert(CUBLAS_STATUS_ALLOC_FAILED == 3 && CUBLAS_STATUS_INVALID_VALUE == 7 && CUBLAS_STATUS_NOT_SUPPORTED == 15);

constexpr int64_t kMostWorkspace = int64_t{256} << 20;  // of a convolution; a slower algorithm wants less
constexpr int64_t kProductWorkspace = int64_t{32} << 20;

constexpr absl::Duration kMostWait = absl::Minutes(10), kPollEvery = absl::Microseconds(20);

absl::Status Check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) (void)cudaGetLastError();  // or the next launch of a kernel would return it again
  return StatusOf(FailureOfCuda(error), call, cudaGetErrorString(error));
}
absl::Status Check(cudnnStatus_t status, const char* call) {
  return StatusOf(FailureOfCudnn(status), call, cudnnGetErrorString(status));
}
absl::Status Check(cublasStatus_t status, const char* call) {
  return StatusOf(FailureOfCublas(status), call, cublasLtGetStatusString(status));
}

#define COLONNADE_CHECK(call)                                                                    \
  do {                                                                                           \
    if (absl::Status check_status = Check(call, #call); !check_status.ok()) return check_status; \
  } while (false)

cudnnDataType_t CudnnType(program::DType dtype) {
  return dtype == program::DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}
cudaDataType_t BlasType(program::DType dtype) { return dtype == program::DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F; }

// Descriptors and algorithm of one shape of convolution.
struct ConvolutionPlan {
  cudnnTensorDescriptor_t x = nullptr, y = nullptr, bias = nullptr;
  cudnnFilterDescriptor_t filter = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  cudnnActivationDescriptor_t activation = nullptr;
  int algorithm = 0;  // of the pass's enumeration
  size_t workspace_bytes = 0;

  ~ConvolutionPlan() {
    if (x != nullptr) cudnnDestroyTensorDescriptor(x);
    if (y != nullptr) cudnnDestroyTensorDescriptor(y);
    if (bias != nullptr) cudnnDestroyTensorDescriptor(bias);
    if (filter != nullptr) cudnnDestroyFilterDescriptor(filter);
    if (convolution != nullptr) cudnnDestroyConvolutionDescriptor(convolution);
    if (activation != nullptr) cudnnDestroyActivationDescriptor(activation);
  }
};

// Layouts and algorithm of one shape of product. cuBLAS counts by columns, so that it computes cᵀ = Bᵀ·Aᵀ.
struct ProductPlan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  size_t workspace_bytes = 0;

  ~ProductPlan() {
    if (product != nullptr) cublasLtMatmulDescDestroy(product);
    for (cublasLtMatrixLayout_t layout : {left, right, result}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
  }
};

// Algorithms that multiply in another domain: quicker for some shapes, but inexact where direct ones are exact.
bool Transforms(cudnnConvolutionFwdAlgo_t a) {
  return a == CUDNN_CONVOLUTION_FWD_ALGO_FFT || a == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING ||
         a == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD || a == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
}
bool Transforms(cudnnConvolutionBwdDataAlgo_t a) {
  return a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT || a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING ||
         a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD || a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
}
bool Transforms(cudnnConvolutionBwdFilterAlgo_t a) {
  return a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT || a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING ||
         a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD || a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
}

// The first algorithm that serves, by cuDNN's own ranking, with the arithmetic that it was ranked with. `workspace_of` asks
// for an algorithm's workspace.
template <class Performance, class WorkspaceOf>
absl::Status Choose(const std::vector<Performance>& ranked, const Convolution& c, const WorkspaceOf& workspace_of,
                    ConvolutionPlan& plan) {
  for (const Performance& candidate : ranked) {
    if (candidate.status != CUDNN_STATUS_SUCCESS || Transforms(candidate.algo)) continue;
    if (c.deterministic && candidate.determinism != CUDNN_DETERMINISTIC) continue;
    const bool full = c.precision == Precision::kF32 && c.dtype == program::DType::kF32;
    if (full &&
        (candidate.mathType == CUDNN_TENSOR_OP_MATH || candidate.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION)) {
      continue;
    }
    COLONNADE_CHECK(cudnnSetConvolutionMathType(plan.convolution, full ? CUDNN_FMA_MATH : candidate.mathType));
    size_t bytes = 0;
    if (workspace_of(candidate.algo, &bytes) != CUDNN_STATUS_SUCCESS || bytes > size_t{kMostWorkspace}) continue;
    plan.algorithm = static_cast<int>(candidate.algo);
    plan.workspace_bytes = bytes;
    return absl::OkStatus();
  }
  return absl::UnimplementedError("a convolution: cuDNN has no algorithm for this shape");
}

class CudaCalls : public Calls {
 public:
  static absl::StatusOr<std::unique_ptr<Calls>> Open() {
    int count = 0;
    COLONNADE_CHECK(cudaGetDeviceCount(&count));
    if (count == 0) return absl::UnavailableError("cudaGetDeviceCount: no GPU");
    auto calls = std::make_unique<CudaCalls>();
    for (int g = 0; g < count; ++g) {
      Gpu& gpu = calls->gpus_.emplace_back();
      COLONNADE_CHECK(cudaSetDevice(g));
      cudaDeviceProp properties;
      COLONNADE_CHECK(cudaGetDeviceProperties(&properties, g));
      gpu.name = properties.name;
      COLONNADE_CHECK(cudnnCreate(&gpu.dnn));
      COLONNADE_CHECK(cublasLtCreate(&gpu.blas));
      gpu.reaches.assign(count, false);
      for (int other = 0; other < count; ++other) {
        int can = other == g ? 1 : 0;
        if (other != g) {
          COLONNADE_CHECK(cudaDeviceCanAccessPeer(&can, g, other));
          const cudaError_t enabled = can != 0 ? cudaDeviceEnablePeerAccess(other, 0) : cudaSuccess;
          // By an earlier one of this process.
          if (enabled != cudaErrorPeerAccessAlreadyEnabled) COLONNADE_CHECK(enabled);
          (void)cudaGetLastError();
        }
        gpu.reaches[other] = can != 0;
      }
    }
    COLONNADE_CHECK(cudaSetDevice(0));
    return {std::move(calls)};
  }

  ~CudaCalls() override {
    convolutions_.clear();
    products_.clear();
    for (size_t g = 0; g < gpus_.size(); ++g) {
      cudaSetDevice(static_cast<int>(g));
      if (gpus_[g].dnn != nullptr) cudnnDestroy(gpus_[g].dnn);
      if (gpus_[g].blas != nullptr) cublasLtDestroy(gpus_[g].blas);
    }
  }

  int gpu_count() const override { return static_cast<int>(gpus_.size()); }
  std::string GpuName(int gpu) const override { return gpus_[gpu].name; }
  bool CanReach(int gpu, int other) const override { return gpus_[gpu].reaches[other]; }
  bool has_nccl() const override { return Communicators::available(); }

  absl::StatusOr<void*> Allocate(int gpu, int64_t bytes) override {
    void* data = nullptr;
    COLONNADE_CHECK(cudaSetDevice(gpu));
    COLONNADE_CHECK(cudaMalloc(&data, bytes));
    COLONNADE_CHECK(cudaMemset(data, 0, bytes));
    COLONNADE_CHECK(cudaDeviceSynchronize());
    return data;
  }
  void Free(int gpu, void* data) override {
    cudaSetDevice(gpu);
    cudaFree(data);
  }
  absl::Status Register(void* host, int64_t bytes) override {
    COLONNADE_CHECK(cudaHostRegister(host, bytes, cudaHostRegisterPortable));
    return absl::OkStatus();
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

  absl::StatusOr<Stream> MakeStream(int gpu) override {
    cudaStream_t stream = nullptr;
    COLONNADE_CHECK(cudaSetDevice(gpu));
    COLONNADE_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return Stream{gpu, stream};
  }
  absl::StatusOr<Event> MakeEvent(int gpu, bool timed) override {
    cudaEvent_t event = nullptr;
    COLONNADE_CHECK(cudaSetDevice(gpu));
    COLONNADE_CHECK(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
    return static_cast<Event>(event);
  }
  void Destroy(const Stream& stream) override { cudaStreamDestroy(static_cast<cudaStream_t>(stream.handle)); }
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
    const absl::Status status = Check(cudaGraphInstantiate(&graph, captured, 0), "cudaGraphInstantiate");
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
    if (communicators_.empty()) {
      COLONNADE_CHECK(cudaEventSynchronize(static_cast<cudaEvent_t>(event)));
      return absl::OkStatus();
    }
    // A rank that waits for a lost one would let the event wait for ever.
    for (const absl::Time last = absl::Now() + kMostWait;;) {
      const cudaError_t state = cudaEventQuery(static_cast<cudaEvent_t>(event));
      if (state != cudaErrorNotReady) return Check(state, "cudaEventQuery");
      (void)cudaGetLastError();
      if (absl::Status s = communicators_.Check(); !s.ok()) return s;
      if (absl::Now() > last) {
        communicators_.Abort();
        return absl::UnavailableError(
            absl::StrCat("a step was not over after ", absl::FormatDuration(kMostWait), ": a collective of NCCL hangs"));
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
    if (auto* convolution = std::get_if<Convolution>(&call)) return PrepareConvolution(gpu, *convolution);
    if (auto* product = std::get_if<MatrixProduct>(&call)) return PrepareProduct(gpu, *product);
    return 0;
  }

 private:
  struct Gpu {
    std::string name;
    cudnnHandle_t dnn = nullptr;
    cublasLtHandle_t blas = nullptr;
    std::vector<bool> reaches;
  };

  absl::Status Run(const Stream& stream, const RankCall& call) { return communicators_.Enqueue(Handle(stream), call); }

  static cudaStream_t Handle(const Stream& stream) { return static_cast<cudaStream_t>(stream.handle); }

  absl::Status Run(const Stream& stream, const Kernel& kernel) {
    return Check(LaunchKernel(kernel, Handle(stream)), "a kernel");
  }
  absl::Status Run(const Stream& stream, const CopyBytes& copy) {
    if (copy.bytes == 0) return absl::OkStatus();
    if (copy.to_gpu >= 0 && copy.from_gpu >= 0 && copy.to_gpu != copy.from_gpu) {
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

  // By (GPU, all that descriptors and the choice of algorithm depend on).
  using ConvolutionKey = std::tuple<int, int, std::vector<int64_t>>;
  static ConvolutionKey KeyOf(int gpu, const Convolution& c) {
    const program::Window& w = c.window;
    return {gpu,
            static_cast<int>(c.pass),
            {c.n, c.c, c.h, c.w, c.k, c.p, c.q, c.groups, w.size_h, w.size_w, w.stride_h, w.stride_w, w.pad_h, w.pad_w,
             c.bias != nullptr ? 1 : 0, c.deterministic ? 1 : 0, static_cast<int64_t>(c.precision),
             static_cast<int64_t>(c.dtype)}};
  }

  absl::StatusOr<int64_t> PrepareConvolution(int gpu, Convolution& c) {
    const ConvolutionKey key = KeyOf(gpu, c);
    if (!convolution_of_.contains(key)) {
      auto plan = std::make_unique<ConvolutionPlan>();
      if (absl::Status s = Describe(c, *plan); !s.ok()) return s;
      if (absl::Status s = ChooseAlgorithm(gpus_[gpu].dnn, c, *plan); !s.ok()) return s;
      convolution_of_[key] = static_cast<int>(convolutions_.size());
      convolutions_.push_back(std::move(plan));
    }
    c.plan = convolution_of_[key];
    return static_cast<int64_t>(convolutions_[c.plan]->workspace_bytes);
  }

  static absl::Status Describe(const Convolution& c, ConvolutionPlan& plan) {
    const auto format = CUDNN_TENSOR_NHWC;
    const cudnnDataType_t type = CudnnType(c.dtype);
    const auto i = [](int64_t extent) { return static_cast<int>(extent); };
    COLONNADE_CHECK(cudnnCreateTensorDescriptor(&plan.x));
    COLONNADE_CHECK(cudnnSetTensor4dDescriptor(plan.x, format, type, i(c.n), i(c.c), i(c.h), i(c.w)));
    COLONNADE_CHECK(cudnnCreateTensorDescriptor(&plan.y));
    COLONNADE_CHECK(cudnnSetTensor4dDescriptor(plan.y, format, type, i(c.n), i(c.k), i(c.p), i(c.q)));
    COLONNADE_CHECK(cudnnCreateTensorDescriptor(&plan.bias));
    COLONNADE_CHECK(cudnnSetTensor4dDescriptor(plan.bias, format, type, 1, i(c.k), 1, 1));
    COLONNADE_CHECK(cudnnCreateFilterDescriptor(&plan.filter));
    COLONNADE_CHECK(cudnnSetFilter4dDescriptor(plan.filter, type, format, i(c.k), i(c.c / c.groups), i(c.window.size_h),
                                               i(c.window.size_w)));
    COLONNADE_CHECK(cudnnCreateConvolutionDescriptor(&plan.convolution));
    COLONNADE_CHECK(cudnnSetConvolution2dDescriptor(plan.convolution, i(c.window.pad_h), i(c.window.pad_w),
                                                    i(c.window.stride_h), i(c.window.stride_w), 1, 1,
                                                    CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    COLONNADE_CHECK(cudnnSetConvolutionGroupCount(plan.convolution, i(c.groups)));
    COLONNADE_CHECK(cudnnSetConvolutionMathType(
        plan.convolution,
        c.precision == Precision::kTf32 || c.dtype == program::DType::kBF16 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH));
    COLONNADE_CHECK(cudnnCreateActivationDescriptor(&plan.activation));
    // max(NaN, 0) is 0, as in program/math.h.
    COLONNADE_CHECK(cudnnSetActivationDescriptor(plan.activation, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    return absl::OkStatus();
  }

  static absl::Status ChooseAlgorithm(cudnnHandle_t dnn, const Convolution& c, ConvolutionPlan& plan) {
    int returned = 0;
    switch (c.pass) {
      case Convolution::Pass::kForward: {
        std::vector<cudnnConvolutionFwdAlgoPerf_t> ranked(CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
        COLONNADE_CHECK(cudnnGetConvolutionForwardAlgorithm_v7(dnn, plan.x, plan.filter, plan.convolution, plan.y,
                                                               static_cast<int>(ranked.size()), &returned, ranked.data()));
        ranked.resize(returned);
        const auto workspace_of = [&](cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
          return cudnnGetConvolutionForwardWorkspaceSize(dnn, plan.x, plan.filter, plan.convolution, plan.y, algorithm,
                                                         bytes);
        };
        return Choose(ranked, c, workspace_of, plan);
      }
      case Convolution::Pass::kBackwardData: {
        std::vector<cudnnConvolutionBwdDataAlgoPerf_t> ranked(CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT);
        COLONNADE_CHECK(cudnnGetConvolutionBackwardDataAlgorithm_v7(
            dnn, plan.filter, plan.y, plan.convolution, plan.x, static_cast<int>(ranked.size()), &returned, ranked.data()));
        ranked.resize(returned);
        const auto workspace_of = [&](cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
          return cudnnGetConvolutionBackwardDataWorkspaceSize(dnn, plan.filter, plan.y, plan.convolution, plan.x, algorithm,
                                                              bytes);
        };
        return Choose(ranked, c, workspace_of, plan);
      }
      case Convolution::Pass::kBackwardWeights: {
        std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> ranked(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT);
        COLONNADE_CHECK(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
            dnn, plan.x, plan.y, plan.convolution, plan.filter, static_cast<int>(ranked.size()), &returned, ranked.data()));
        ranked.resize(returned);
        const auto workspace_of = [&](cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
          return cudnnGetConvolutionBackwardFilterWorkspaceSize(dnn, plan.x, plan.y, plan.convolution, plan.filter,
                                                                algorithm, bytes);
        };
        return Choose(ranked, c, workspace_of, plan);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Run(const Stream& stream, const Convolution& c) {
    const cudnnHandle_t dnn = gpus_[stream.gpu].dnn;
    const ConvolutionPlan& plan = *convolutions_[c.plan];
    const float one = 1, zero = 0;
    COLONNADE_CHECK(cudnnSetStream(dnn, Handle(stream)));
    switch (c.pass) {
      case Convolution::Pass::kForward: {
        const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(plan.algorithm);
        if (c.bias == nullptr) {
          COLONNADE_CHECK(cudnnConvolutionForward(dnn, &one, plan.x, c.x, plan.filter, c.filter, plan.convolution, algorithm,
                                                  c.workspace, c.workspace_bytes, &zero, plan.y, c.y));
        } else {
          COLONNADE_CHECK(cudnnConvolutionBiasActivationForward(
              dnn, &one, plan.x, c.x, plan.filter, c.filter, plan.convolution, algorithm, c.workspace, c.workspace_bytes,
              &zero, plan.y, c.y, plan.bias, c.bias, plan.activation, plan.y, c.y));
        }
        return absl::OkStatus();
      }
      case Convolution::Pass::kBackwardData:
        COLONNADE_CHECK(cudnnConvolutionBackwardData(dnn, &one, plan.filter, c.filter, plan.y, c.y, plan.convolution,
                                                     static_cast<cudnnConvolutionBwdDataAlgo_t>(plan.algorithm), c.workspace,
                                                     c.workspace_bytes, &zero, plan.x, c.x));
        return absl::OkStatus();
      case Convolution::Pass::kBackwardWeights:
        COLONNADE_CHECK(cudnnConvolutionBackwardFilter(dnn, &one, plan.x, c.x, plan.y, c.y, plan.convolution,
                                                       static_cast<cudnnConvolutionBwdFilterAlgo_t>(plan.algorithm),
                                                       c.workspace, c.workspace_bytes, &zero, plan.filter, c.filter));
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  using ProductKey = std::tuple<int, std::vector<int64_t>>;
  static ProductKey KeyOf(int gpu, const MatrixProduct& p) {
    return {gpu,
            {p.rows, p.columns, p.depth, p.lda, p.ldb, p.ldc, p.transpose_a ? 1 : 0, p.transpose_b ? 1 : 0,
             p.bias != nullptr ? 1 : 0, p.relu ? 1 : 0, AreAligned(p) ? 1 : 0, static_cast<int64_t>(p.precision),
             static_cast<int64_t>(p.dtype), static_cast<int64_t>(p.c_dtype)}};
  }

  absl::StatusOr<int64_t> PrepareProduct(int gpu, MatrixProduct& p) {
    const ProductKey key = KeyOf(gpu, p);
    if (!product_of_.contains(key)) {
      auto plan = std::make_unique<ProductPlan>();
      if (absl::Status s = Describe(gpus_[gpu].blas, p, *plan); !s.ok()) return s;
      product_of_[key] = static_cast<int>(products_.size());
      products_.push_back(std::move(plan));
    }
    p.plan = product_of_[key];
    return static_cast<int64_t>(products_[p.plan]->workspace_bytes);
  }

  static absl::Status Describe(cublasLtHandle_t blas, const MatrixProduct& p, ProductPlan& plan) {
    const cublasComputeType_t compute = p.precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const cublasOperation_t left = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                            right = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    if (p.bias != nullptr) epilogue = p.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    if (p.bias == nullptr && p.relu) epilogue = CUBLASLT_EPILOGUE_RELU;
    COLONNADE_CHECK(cublasLtMatmulDescCreate(&plan.product, compute, CUDA_R_32F));
    COLONNADE_CHECK(cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof(left)));
    COLONNADE_CHECK(cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof(right)));
    COLONNADE_CHECK(
        cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)));
    if (p.bias != nullptr) {
      const cudaDataType_t bias_type = BlasType(p.c_dtype);
      COLONNADE_CHECK(
          cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p.bias, sizeof(p.bias)));
      COLONNADE_CHECK(
          cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, sizeof(bias_type)));
    }
    COLONNADE_CHECK(cublasLtMatrixLayoutCreate(&plan.left, BlasType(p.dtype), p.transpose_b ? p.depth : p.columns,
                                               p.transpose_b ? p.columns : p.depth, p.ldb));
    COLONNADE_CHECK(cublasLtMatrixLayoutCreate(&plan.right, BlasType(p.dtype), p.transpose_a ? p.rows : p.depth,
                                               p.transpose_a ? p.depth : p.rows, p.lda));
    COLONNADE_CHECK(cublasLtMatrixLayoutCreate(&plan.result, BlasType(p.c_dtype), p.columns, p.rows, p.ldc));
    cublasLtMatmulPreference_t preference = nullptr;
    COLONNADE_CHECK(cublasLtMatmulPreferenceCreate(&preference));
    const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, decltype(&cublasLtMatmulPreferenceDestroy)> owner(
        preference, &cublasLtMatmulPreferenceDestroy);
    const size_t most = kProductWorkspace;
    COLONNADE_CHECK(
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof(most)));
    // Boxes of tensors start anywhere.
    const uint32_t bytes = AreAligned(p) ? 16 : 2;
    for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      COLONNADE_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &bytes, sizeof(bytes)));
    }
    cublasLtMatmulHeuristicResult_t result = {};
    int found = 0;
    COLONNADE_CHECK(cublasLtMatmulAlgoGetHeuristic(blas, plan.product, plan.left, plan.right, plan.result, plan.result,
                                                   preference, 1, &result, &found));
    if (found == 0) return absl::UnimplementedError("cublasLtMatmulAlgoGetHeuristic: no algorithm for this product");
    plan.algorithm = result.algo;
    plan.workspace_bytes = result.workspaceSize;
    return absl::OkStatus();
  }

  // Addresses and row distances are multiples of 16 bytes.
  static bool AreAligned(const MatrixProduct& p) {
    const auto aligned = [](const void* data, int64_t row, program::DType dtype) {
      return reinterpret_cast<uintptr_t>(data) % 16 == 0 && row * program::SizeInBytes(dtype) % 16 == 0;
    };
    return aligned(p.a, p.lda, p.dtype) && aligned(p.b, p.ldb, p.dtype) && aligned(p.c, p.ldc, p.c_dtype);
  }

  absl::Status Run(const Stream& stream, const MatrixProduct& p) {
    const ProductPlan& plan = *products_[p.plan];
    const float one = 1, zero = 0;
    if (p.bias != nullptr) {
      COLONNADE_CHECK(
          cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p.bias, sizeof(p.bias)));
    }
    COLONNADE_CHECK(cublasLtMatmul(gpus_[stream.gpu].blas, plan.product, &one, p.b, plan.left, p.a, plan.right, &zero, p.c,
                                   plan.result, p.c, plan.result, &plan.algorithm, p.workspace, p.workspace_bytes,
                                   Handle(stream)));
    return absl::OkStatus();
  }

  std::vector<Gpu> gpus_;
  Communicators communicators_;
  std::vector<std::unique_ptr<ConvolutionPlan>> convolutions_;
  std::map<ConvolutionKey, int> convolution_of_;
  std::vector<std::unique_ptr<ProductPlan>> products_;
  std::map<ProductKey, int> product_of_;
};

#undef COLONNADE_CHECK

}  // namespace

// What open.cc looks for.
extern "C" void colonnade_open_cuda(absl::StatusOr<std::unique_ptr<Calls>>* calls) { *calls = CudaCalls::Open(); }

}  // namespace colonnade::cuda
