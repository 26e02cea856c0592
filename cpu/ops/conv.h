// Convolution: by direct algorithms, on oneDNN or by rows, so that exact data give equal bits under every plan, unless
// Winograd's is asked for.
#ifndef COLONNADE_CPU_CONV_H_
#define COLONNADE_CPU_CONV_H_

#include <memory>

#include "cpu/task_context.h"

namespace colonnade::cpu {

PreparedKernel Prepare(const program::ConvForward& op, const TaskContext& context);
PreparedKernel Prepare(const program::ConvBackwardData& op, const TaskContext& context);
PreparedKernel Prepare(const program::ConvBackwardWeights& op, const TaskContext& context);

// Whether a convolution of images x is the product of their rows and its weights: its window covers them.
bool IsProduct(const program::Window& window, int64_t groups, const program::Shape& x);

// Returns the layout that the forward kernel of `dtype` prefers for weights `w`, given x and y in their natural layouts;
// null if it is row-major. To be called where primitives are made.
std::shared_ptr<const MemoryDesc> PreferredConvWeights(const program::Window& window, int64_t groups, program::DType dtype,
                                                       const program::Shape& x, const program::Shape& w,
                                                       const program::Shape& y, const dnnl::engine& engine);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_CONV_H_
