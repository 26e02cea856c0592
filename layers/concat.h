// Inputs side by side along the channels: y = [x_0; x_1; …].
//
// Under group each position joins its parts of the inputs' channels, without communication. They are no neighbours in y,
// which is therefore split by sections, one for each input; the axis divides the channels of every input.
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
