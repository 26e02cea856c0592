// The shardings that several layers share, and messages of what is not legal.
#ifndef COLONNADE_LAYERS_COMMON_SHARDINGS_H_
#define COLONNADE_LAYERS_COMMON_SHARDINGS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "layers/sharding.h"

namespace colonnade::layers {

// Returns the sharding in which every position holds every tensor whole.
Sharding ReplicatedSharding(const LayerShapes& local);

// Returns InvalidArgument unless the positions of an axis divide the groups of a layer called `layer`, or are a multiple of
// them.
absl::Status CheckGroupsFit(absl::string_view layer, int64_t groups, int64_t axis_size);

// Sets the placement in which all inner tensors are made and needed.
void SetInnerPlacements(const LayerShapes& local, const Placement& placement, Sharding& sharding);

// Returns the sharding with inputs, output and inner tensors cut along the batch, and parameters whole, whose gradients are
// partial sums. InvalidArgument if the axis does not divide the batch that is left.
absl::StatusOr<Sharding> BatchSharding(const LayerShapes& local, int64_t axis_size);

// Returns the sharding of a layer that treats each channel alone: inputs, output and inner tensors cut along the channels,
// no communication. Channels of a concatenation are cut as it lies, section by section, where the layer keeps them and the
// axis divides each section.
absl::StatusOr<Sharding> ChannelwiseSharding(const LayerShapes& local, int64_t axis_size);

// Returns the sharding, by replicate, batch or group, of a layer that treats each channel alone.
absl::StatusOr<Sharding> ShardChannelwise(const LayerShapes& local, Strategy strategy, int64_t axis_size);

// Returns OK if `axis_size` divides `size`; else InvalidArgument with the nearest sizes that work.
absl::Status CheckDivides(Strategy strategy, int64_t axis_size, absl::string_view what, int64_t size);

// Returns InvalidArgument: `layer_type` cannot be spread by `strategy`, because of `reason`.
absl::Status NotLegal(absl::string_view layer_type, Strategy strategy, absl::string_view reason);

// Returns InvalidArgument unless a layer that joins its inputs has at least two.
absl::Status CheckSeveral(absl::Span<const program::Shape> inputs);

// Returns shapes as a message shows what was found: "none", "[3,5,7]", "[3,5,7] and [31]".
std::string Listed(absl::Span<const program::Shape> inputs);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_COMMON_SHARDINGS_H_
