// The one place where the 2.x and the 3.x series of oneDNN differ: how primitives are described.
//
// 2.x makes a primitive descriptor from an operation descriptor, 3.x from the same arguments at once. All other files of
// cpu/ include this header instead of dnnl.hpp and use what it has in common.
#ifndef COLONNADE_CPU_ONEDNN_H_
#define COLONNADE_CPU_ONEDNN_H_

#include <dnnl.hpp>

#include "program/types.h"

static_assert(DNNL_VERSION_MAJOR == 2 || DNNL_VERSION_MAJOR == 3, "cpu/ is written for the 2.x and 3.x APIs of oneDNN");

namespace colonnade::cpu {

using MemoryDesc = dnnl::memory::desc;

inline dnnl::memory::dims DimsOf(const program::Shape& shape) { return {shape.begin(), shape.end()}; }

// Scratchpads are given to the primitive at each execution, so that it allocates none.
inline dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

#if DNNL_VERSION_MAJOR == 2

using PoolingForward = dnnl::pooling_v2_forward;  // that with dilation, as in 3.x
using PoolingBackward = dnnl::pooling_v2_backward;

inline dnnl::memory::dims DimsOf(const MemoryDesc& desc) { return desc.dims(); }
inline dnnl::memory::data_type TypeOf(const MemoryDesc& desc) { return desc.data_type(); }

inline void AppendRelu(dnnl::post_ops& ops) { ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f); }

// Returns the descriptor of the `Primitive` that `arguments` describe; empty where oneDNN has none.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc Describe(const dnnl::engine& engine, const dnnl::primitive_attr& attr,
                                            const Arguments&... arguments) {
  return {typename Primitive::desc(arguments...), attr, engine, /*allow_empty=*/true};
}

// Does the same for a backward primitive, whose forward descriptor is `forward`.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc DescribeBackward(const dnnl::engine& engine, const Forward& forward,
                                                    const dnnl::primitive_attr& attr, const Arguments&... arguments) {
  return {typename Primitive::desc(arguments...), attr, engine, forward, /*allow_empty=*/true};
}

#else

using PoolingForward = dnnl::pooling_forward;
using PoolingBackward = dnnl::pooling_backward;

inline dnnl::memory::dims DimsOf(const MemoryDesc& desc) { return desc.get_dims(); }
inline dnnl::memory::data_type TypeOf(const MemoryDesc& desc) { return desc.get_data_type(); }

inline void AppendRelu(dnnl::post_ops& ops) { ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f); }

template <class Primitive, class... Arguments>
typename Primitive::primitive_desc Describe(const dnnl::engine& engine, const dnnl::primitive_attr& attr,
                                            const Arguments&... arguments) {
  return {engine, arguments..., attr, /*allow_empty=*/true};
}

template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc DescribeBackward(const dnnl::engine& engine, const Forward& forward,
                                                    const dnnl::primitive_attr& attr, const Arguments&... arguments) {
  return {engine, arguments..., forward, attr, /*allow_empty=*/true};
}

#endif

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_ONEDNN_H_
