// y = x_0 + x_1 + …, of equal shapes.
#ifndef COLONNADE_LAYERS_ADD_H_
#define COLONNADE_LAYERS_ADD_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct Add {
  bool operator==(const Add&) const = default;
};

const char* TypeName(const Add&);
std::vector<Field> Fields(Add&);
absl::StatusOr<program::Shape> OutputSampleShape(const Add& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Add& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Add& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const Add& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_ADD_H_
