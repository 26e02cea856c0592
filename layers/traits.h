// What lowering asks of a layer beside its functions (layer.h), so that partition/ asks no layer for its type.
#ifndef COLONNADE_LAYERS_TRAITS_H_
#define COLONNADE_LAYERS_TRAITS_H_

#include <cstdint>

#include "layers/layer.h"

namespace colonnade::layers {

struct LayerTraits {
  bool is_input = false;            // the host loads its output
  bool is_loss = false;             // reads labels and their count, too, makes metrics, and is where differentiation begins
  bool is_convolution = false;      // its weights are read at many places of an image
  bool multiplies_weights = false;  // y is a product with parameter 0
  bool joins_channels = false;      // the channels of its output are those of its inputs, one input after the other
  bool keeps_channels = false;      // does the same to each channel of its one input, wherever it lies
  bool needs_all_channels = false;  // has no parameters, and cannot follow an input that is cut along its channels
  int64_t samples_per_group = 0;    // that it treats together, a divisor of the batch; 0: it asks for none
  int64_t groups = 1;               // blocks of channels that a convolution keeps apart
};

LayerTraits TraitsOf(const Layer& layer);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_TRAITS_H_
