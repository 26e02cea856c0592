#include "layers/shard_operands.h"

#include "layers/traits.h"

namespace colonnade::layers {

ForwardShard ForwardOperands(const Layer& layer, const LayerShapes& local) {
  const bool loss = TraitsOf(layer).is_loss;
  ForwardShard shard{.output = {{}, loss ? program::Shape{program::kMetricCount} : local.output},
                     .scalars = {{}, {program::kStepScalarCount}},
                     .global_output_shape = local.global_output};
  for (const program::Shape& shape : local.inputs) shard.inputs.push_back({{}, shape});
  if (loss) shard.inputs.push_back({{}, {local.inputs[0][0]}});
  for (const program::Shape& shape : local.parameters) shard.parameters.push_back({{}, shape});
  for (const SavedSpec& saved : Saved(layer, local)) shard.saved.push_back({{}, saved.shape});
  if (!loss) shard.output_region = program::Region::Whole(local.output);
  return shard;
}

BackwardShard BackwardOperands(const Layer& layer, const LayerShapes& local) {
  const ForwardShard forward = ForwardOperands(layer, local);
  BackwardShard shard{.inputs = forward.inputs,
                      .parameters = forward.parameters,
                      .output = forward.output,
                      .saved = forward.saved,
                      .scalars = forward.scalars,
                      .d_parameters = forward.parameters,
                      .global_output_shape = forward.global_output_shape,
                      .output_region = forward.output_region};
  if (!TraitsOf(layer).is_loss) shard.d_output = forward.output;
  for (const program::Shape& shape : local.inputs) shard.d_inputs.push_back(Operand{{}, shape});
  return shard;
}

}  // namespace colonnade::layers
