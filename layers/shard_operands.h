// The operands of one shard of a layer: the one place that says which there are and what their shapes are.
//
// They have no buffers yet: lowering puts in those it has made, a cost function needs none.
#ifndef COLONNADE_LAYERS_SHARD_OPERANDS_H_
#define COLONNADE_LAYERS_SHARD_OPERANDS_H_

#include "layers/emit.h"
#include "layers/layer.h"

namespace colonnade::layers {

// Of a loss, the labels stand behind its inputs, and the output is the metrics, forward and backward; its region is empty.
// `output_region` lies at the origin. Of a training step: all that is saved is there.
ForwardShard ForwardOperands(const Layer& layer, const LayerShapes& local);

// As above, with dy (but for a loss) and every dx: the caller takes away those that nobody needs.
BackwardShard BackwardOperands(const Layer& layer, const LayerShapes& local);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_SHARD_OPERANDS_H_
