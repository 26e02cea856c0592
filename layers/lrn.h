// Local response normalisation across channels, within each of `groups` equal blocks of channels (program/op.h, LrnForward).
//
// Source: Krizhevsky et al. 2012, section 3.3. In a network of two columns each column normalises over its own channels:
// groups = 2.
#ifndef COLONNADE_LAYERS_LRN_H_
#define COLONNADE_LAYERS_LRN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/emit.h"
#include "layers/sharding.h"

namespace colonnade::layers {

struct Lrn {
  int64_t size = 5;  // channels in a window; odd
  int64_t groups = 1;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 2.0;
  bool operator==(const Lrn&) const = default;
};

const char* TypeName(const Lrn&);
absl::StatusOr<program::Shape> OutputSampleShape(const Lrn& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Lrn& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Lrn& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
std::vector<SavedSpec> Saved(const Lrn& layer, const LayerShapes& local);
std::vector<EmittedOp> EmitForward(const Lrn& layer, const ForwardShard& shard);
std::vector<EmittedOp> EmitBackward(const Lrn& layer, const BackwardShard& shard);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_LRN_H_
