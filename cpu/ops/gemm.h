// Fully connected layers: matrix products on oneDNN's inner product.
#ifndef COLONNADE_CPU_GEMM_H_
#define COLONNADE_CPU_GEMM_H_

#include <memory>

#include "cpu/task_context.h"

namespace colonnade::cpu {

PreparedKernel Prepare(const program::FullyConnectedForward& op, const TaskContext& context);
PreparedKernel Prepare(const program::FullyConnectedBackwardData& op, const TaskContext& context);
PreparedKernel Prepare(const program::FullyConnectedBackwardWeights& op, const TaskContext& context);

// Returns the layout that the forward kernel of `dtype` prefers for weights [O, I] at batch size n; null if it is row-major.
// Blocked weights save the repacking at each product: forward runs up to four times as fast at n = 16. To be called where
// primitives are made.
std::shared_ptr<const MemoryDesc> PreferredFullyConnectedWeights(int64_t n, program::DType dtype, const program::Shape& w,
                                                                 const dnnl::engine& engine);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_GEMM_H_
