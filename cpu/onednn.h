// The one place that names the oneDNN API: its 2.x series, in which primitives are made from operation descriptors.
//
// All other files of cpu/ include this header instead of dnnl.hpp, so that a port to 3.x starts here.
#ifndef COLONNADE_CPU_ONEDNN_H_
#define COLONNADE_CPU_ONEDNN_H_

#include <dnnl.hpp>

#include "program/types.h"

static_assert(DNNL_VERSION_MAJOR == 2, "cpu/ is written for the 2.x API of oneDNN");

namespace colonnade::cpu {

using MemoryDesc = dnnl::memory::desc;

inline dnnl::memory::dims DimsOf(const program::Shape& shape) { return {shape.begin(), shape.end()}; }

// Scratchpads are given to the primitive at each execution, so that it allocates none.
inline dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_ONEDNN_H_
