// Matrix products made ready on GPUs: an algorithm of cuBLASLt for each shape of product.
//
// Part of the driver module. Thread rule: one host thread.
#ifndef COLONNADE_CUDA_MATRIX_PRODUCTS_H_
#define COLONNADE_CUDA_MATRIX_PRODUCTS_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/calls.h"

namespace colonnade::cuda {

// `status` with the call and cuBLAS's words for what was wrong.
absl::Status CheckCublas(cublasStatus_t status, const char* call);

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

class MatrixProducts {
 public:
  // The next GPU, by number; its handle must outlive what is made ready on it.
  void AddGpu(cublasLtHandle_t handle) { gpus_.push_back(handle); }

  // Calls::Prepare.
  absl::StatusOr<int64_t> Prepare(int gpu, MatrixProduct& product);
  absl::Status Run(int gpu, cudaStream_t stream, const MatrixProduct& prepared);

 private:
  // The GPU, and all of a product but its addresses.
  using Key = std::tuple<int, std::vector<int64_t>>;
  static Key KeyOf(int gpu, const MatrixProduct& product);

  std::vector<cublasLtHandle_t> gpus_;
  std::vector<std::unique_ptr<ProductPlan>> plans_;
  std::map<Key, int> plan_of_;
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_MATRIX_PRODUCTS_H_
