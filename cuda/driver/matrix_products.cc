#include "cuda/driver/matrix_products.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "cuda/alignment.h"
#include "cuda/driver/check.h"
#include "cuda/status.h"

namespace colonnade::cuda {
namespace {

constexpr int64_t kProductWorkspace = int64_t{32} << 20;

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

// Bytes of which the addresses are multiples: boxes of tensors start anywhere. cuBLASLt knows by itself what rows are.
struct Alignments {
  uint32_t a = 0, b = 0, c = 0, bias = 0;
};

Alignments AlignmentsOf(const MatrixProduct& p) {
  return {AlignmentOf(p.a, program::SizeInBytes(p.dtype)), AlignmentOf(p.b, program::SizeInBytes(p.dtype)),
          AlignmentOf(p.c, program::SizeInBytes(p.c_dtype)), AlignmentOf(p.bias, program::SizeInBytes(p.c_dtype))};
}

// Returns the alignments of single elements, which every kernel serves.
Alignments LeastAlignments(const MatrixProduct& p) {
  const auto of_factors = static_cast<uint32_t>(program::SizeInBytes(p.dtype)),
             of_result = static_cast<uint32_t>(program::SizeInBytes(p.c_dtype));
  return {of_factors, of_factors, of_result, of_result};
}

absl::Status FindAlgorithm(cublasLtHandle_t blas, const Alignments& bytes, ProductPlan& plan, bool& found_one) {
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
  // cuBLASLt's A is `left`, which is our b: it counts by columns. It has no attribute for the bias, which the last step
  // reads as it writes D.
  for (const auto& [attribute, of] : {std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes.b),
                                      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes.a},
                                      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes.c},
                                      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::min(bytes.c, bytes.bias)}}) {
    COLONNADE_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &of, sizeof(of)));
  }
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(blas, plan.product, plan.left, plan.right, plan.result,
                                                               plan.result, preference, 1, &result, &found);
  found_one = status == CUBLAS_STATUS_SUCCESS && found > 0 && result.state == CUBLAS_STATUS_SUCCESS;
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) COLONNADE_CHECK(status);
  plan.algorithm = result.algo;
  plan.workspace_bytes = result.workspaceSize;
  return absl::OkStatus();
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
  bool found = false;
  for (const Alignments& bytes : {AlignmentsOf(p), LeastAlignments(p)}) {
    RETURN_IF_ERROR(FindAlgorithm(blas, bytes, plan, found));
    if (found) return absl::OkStatus();
  }
  return absl::UnimplementedError("cublasLtMatmulAlgoGetHeuristic: no algorithm for this product");
}

}  // namespace

absl::Status CheckCublas(cublasStatus_t status, const char* call) {
  return StatusOf(FailureOfCublas(status), call, cublasLtGetStatusString(status));
}

// The bias is among the alignments: the choice of an algorithm looks at its address.
MatrixProducts::Key MatrixProducts::KeyOf(int gpu, const MatrixProduct& p) {
  const Alignments bytes = AlignmentsOf(p);
  return {gpu,
          {p.rows, p.columns, p.depth, p.lda, p.ldb, p.ldc, p.transpose_a ? 1 : 0, p.transpose_b ? 1 : 0,
           p.bias != nullptr ? 1 : 0, p.relu ? 1 : 0, bytes.a, bytes.b, bytes.c, bytes.bias,
           static_cast<int64_t>(p.precision), static_cast<int64_t>(p.dtype), static_cast<int64_t>(p.c_dtype)}};
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

}  // namespace colonnade::cuda
