// The physical layout of each buffer of a Program on a GPU: a pure function of the Program and the precision of
// products.
//
// Images and filters are channels-last, all else row-major (view.h); loaded images that convolutions of one kind
// alone read are folded where that helps them (space_to_depth.h). Members of a bucket lie one after the other, each from
// a multiple of 256 bytes, in `parts` ranges of a multiple of 256 bytes.
#ifndef COLONNADE_CUDA_LAYOUT_H_
#define COLONNADE_CUDA_LAYOUT_H_

#include <cstdint>

#include "cuda/calls.h"
#include "cuda/load/view.h"
#include "engine/layouts.h"
#include "program/program.h"

namespace colonnade::cuda {

inline constexpr int64_t kAlignment = 256;  // of buffers, members of buckets and pieces of workspaces

using Layouts = engine::Layouts<View>;

Layouts ChooseLayouts(const program::Program& program, Precision precision);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_LAYOUT_H_
