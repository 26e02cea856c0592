// What lowering asks of a layer beside its functions (layer.h), so that partition/ asks no layer for its type.
#ifndef COLONNADE_LAYERS_TRAITS_H_
#define COLONNADE_LAYERS_TRAITS_H_

#include <cstdint>

#include "layers/layer.h"

namespace colonnade::layers {

// What a layer is to a network.
enum class LayerRole {
  kOther,
  kInput,          // the host loads its output
  kMatrixProduct,  // y is a product with parameter 0
  kConvolution,    // y is a product with parameter 0, which is read at many places of an image
  kLoss,           // reads labels and their count, too, makes metrics, and is where differentiation begins
};

// What a layer does with the channels of what it reads.
enum class ChannelUse {
  kOther,
  kJoins,     // the channels of its output are those of its inputs, one input after the other
  kKeeps,     // does the same to each channel of its one input, wherever it lies
  kNeedsAll,  // has no parameters, and cannot follow an input that is cut along its channels
};

struct LayerTraits {
  LayerRole role = LayerRole::kOther;
  ChannelUse channels = ChannelUse::kOther;
  int64_t samples_per_group = 0;     // that it treats together, a divisor of the batch; 0: it asks for none
  bool normalises_samples = false;   // in training: each channel by the moments of the samples of a group, or of all
  bool normalises_channels = false;  // each sample and position by the moments of its channels
  int64_t groups = 1;                // blocks of channels that a convolution keeps apart
};

LayerTraits TraitsOf(const Layer& layer);
inline LayerRole RoleOf(const Layer& layer) { return TraitsOf(layer).role; }

inline bool IsInput(const Layer& layer) { return RoleOf(layer) == LayerRole::kInput; }
inline bool IsLoss(const Layer& layer) { return RoleOf(layer) == LayerRole::kLoss; }
inline bool IsConvolution(const Layer& layer) { return RoleOf(layer) == LayerRole::kConvolution; }
inline bool MultipliesWeights(const Layer& layer) {
  return RoleOf(layer) == LayerRole::kMatrixProduct || IsConvolution(layer);
}

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_TRAITS_H_
