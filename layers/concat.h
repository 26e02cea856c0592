// Inputs side by side along the channels:  y = [x_0; x_1; …].
//
//   x_k [n,C_k,…]   y [n,C_0+C_1+…,…]
//
// Backward: dx_k is the part of dy in which x_k stands.
// Cost       no flop; a copy of each input forward, and of each part backward.
// Strategies batch. group: each position joins its parts of the inputs' channels, without communication. They are no
//            neighbours in y, which is therefore split by sections, one for each input; M divides the channels of each.
// Errors     InvalidArgument where there are fewer than two inputs, or inputs differ in more than their channels.
// Numerics   exact.
// Source     Szegedy et al. 2014, arXiv:1409.4842, section 4: the end of an inception module.
#ifndef COLONNADE_LAYERS_CONCAT_H_
#define COLONNADE_LAYERS_CONCAT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct Concat {
  bool operator==(const Concat&) const = default;
};

const char* TypeName(const Concat&);
std::vector<Field> Fields(Concat&);
absl::StatusOr<program::Shape> OutputSampleShape(const Concat& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Concat& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Concat& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const Concat& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_CONCAT_H_
