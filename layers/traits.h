// What lowering asks of a layer beside its functions (layer.h), so that partition/ asks no layer for its type.
#ifndef COLONNADE_LAYERS_TRAITS_H_
#define COLONNADE_LAYERS_TRAITS_H_

#include <cstdint>

#include "layers/layer.h"

namespace colonnade::layers {

struct LayerTraits {
  bool is_input = false;        // the host loads its output
  bool is_loss = false;         // reads labels beside its input, makes the metrics, and has no dy
  bool is_convolution = false;  // weights that are read at many places of an image
  bool multiplies_weights =
      false;                 // y is a product with parameter 0, then takes an epilogue: a convolution or matrix product
  bool has_bias = false;     // parameter 1 is added to each channel of y
  bool is_relu = false;      // dx is dy where y > 0
  bool is_max_pool = false;  // dx is dy at the largest element of each window
  bool needs_all_channels = false;  // has no parameters, and cannot follow an input that is cut along its channels
  int64_t groups = 1;               // blocks of channels that a convolution keeps apart
};

LayerTraits TraitsOf(const Layer& layer);

// The layer without its bias, if it has one: what a row split computes, since a bias is added after the sum over devices.
Layer WithoutBias(const Layer& layer);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_TRAITS_H_
