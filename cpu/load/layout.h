// The physical layout of each buffer of a Program: a pure function of the Program and of what is loaded already.
//
//   activations   images of f32 and bf16 whose channels are a multiple of 16 are channel-blocked, unless the larger part
//                 of the convolutions that touch them runs by rows (ops/conv_rows.h); all else is row-major
//   weights       as the forward kernel prefers them, row-major where it is our own; a weight's gradient and momentum,
//                 and what they meet in updates and in transfers on other devices, have the same layout
//   argmax        bytes of the pooling kernels
//   buckets       members in their own layouts, each from a multiple of 64 bytes, in `parts` ranges of a multiple of 64
// The reference kernels take row-major operands only. To be called where primitives are made.
#ifndef COLONNADE_CPU_LAYOUT_H_
#define COLONNADE_CPU_LAYOUT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cpu/backend.h"
#include "cpu/load/view.h"
#include "engine/layouts.h"
#include "program/program.h"

namespace colonnade::cpu {

// A layout that oneDNN chose; null is any other.
using OpaqueDesc = std::shared_ptr<const MemoryDesc>;

using Layouts = engine::Layouts<View>;

// Returns the layout of a persistent tensor, a root or a bucket's member, that was loaded before; nothing if it was not. May
// be an empty function.
using KnownLayouts = std::function<std::optional<OpaqueDesc>(int device, const std::string& name)>;

absl::StatusOr<Layouts> ChooseLayouts(const program::Program& program, CpuOptions::Kernels kernels,
                                      const KnownLayouts& known, const dnnl::engine& engine);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_LAYOUT_H_
