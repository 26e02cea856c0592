#include "cuda/driver/matrix_products.h"

#include <utility>

#include "cuda/status.h"
#include "program/status_macros.h"

namespace colonnade::cuda {
namespace {

constexpr int64_t kProductWorkspace = int64_t{32} << 20;

#define COLONNADE_CHECK(call)                  \
  do {                                         \
    RETURN_IF_ERROR(CheckCublas(call, #call)); \
  } while (false)

cudaDataType_t BlasType(program::DType dtype) {
  switch (dtype) {
    case program::DType::kF32:
      return CUDA_R_32F;
    case program::DType::kF64:
      return CUDA_R_64F;
    case program::DType::kI32:
      return CUDA_R_32I;
    case program::DType::kU8:
      return CUDA_R_8U;
    case program::DType::kBF16:
      return CUDA_R_16BF;
  }
  return CUDA_R_32F;
}

// Addresses and row distances are multiples of 16 bytes.
bool AreAligned(const MatrixProduct& p) {
  const auto aligned = [](const void* data, int64_t row, program::DType dtype) {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && row * program::SizeInBytes(dtype) % 16 == 0;
  };
  return aligned(p.a, p.lda, p.dtype) && aligned(p.b, p.ldb, p.dtype) && aligned(p.c, p.ldc, p.c_dtype);
}

absl::Status Describe(cublasLtHandle_t blas, const MatrixProduct& p, ProductPlan& plan) {
  const bool tf32 = p.precision == Precision::kTf32 && p.dtype == program::DType::kF32;
  const cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const cublasOperation_t left = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                          right = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  if (p.bias != nullptr) epilogue = p.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  if (p.bias == nullptr && p.relu) epilogue = CUBLASLT_EPILOGUE_RELU;
  COLONNADE_CHECK(cublasLtMatmulDescCreate(&plan.product, compute, CUDA_R_32F));
  COLONNADE_CHECK(cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof(left)));
  COLONNADE_CHECK(cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof(right)));
  COLONNADE_CHECK(cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)));
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
  // Parts of sums that are added up afterwards are f32, too.
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  COLONNADE_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                                       sizeof(reductions)));
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

}  // namespace

absl::Status CheckCublas(cublasStatus_t status, const char* call) {
  return StatusOf(FailureOfCublas(status), call, cublasLtGetStatusString(status));
}

MatrixProducts::Key MatrixProducts::KeyOf(int gpu, const MatrixProduct& p) {
  return {gpu,
          {p.rows, p.columns, p.depth, p.lda, p.ldb, p.ldc, p.transpose_a ? 1 : 0, p.transpose_b ? 1 : 0,
           p.bias != nullptr ? 1 : 0, p.relu ? 1 : 0, AreAligned(p) ? 1 : 0, static_cast<int64_t>(p.precision),
           static_cast<int64_t>(p.dtype), static_cast<int64_t>(p.c_dtype)}};
}

absl::StatusOr<int64_t> MatrixProducts::Prepare(int gpu, MatrixProduct& p) {
  const Key key = KeyOf(gpu, p);
  if (!plan_of_.contains(key)) {
    auto plan = std::make_unique<ProductPlan>();
    RETURN_IF_ERROR(Describe(gpus_[gpu], p, *plan));
    plan_of_[key] = static_cast<int>(plans_.size());
    plans_.push_back(std::move(plan));
  }
  p.plan = plan_of_[key];
  return static_cast<int64_t>(plans_[p.plan]->workspace_bytes);
}

absl::Status MatrixProducts::Run(int gpu, cudaStream_t stream, const MatrixProduct& p) {
  const ProductPlan& plan = *plans_[p.plan];
  const float one = 1, zero = 0;
  if (p.bias != nullptr) {
    COLONNADE_CHECK(
        cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p.bias, sizeof(p.bias)));
  }
  COLONNADE_CHECK(cublasLtMatmul(gpus_[gpu], plan.product, &one, p.b, plan.left, p.a, plan.right, &zero, p.c, plan.result,
                                 p.c, plan.result, &plan.algorithm, p.workspace, p.workspace_bytes, stream));
  return absl::OkStatus();
}

#undef COLONNADE_CHECK

}  // namespace colonnade::cuda
