// What Conv2d and FullyConnected share: y is a product of x with parameter 0, the weight, and parameter 1, the bias, may be
// added to each of its channels.
//
//   columns  a device holds some of the filters (or rows of the weight), reads all of x and makes its channels of y
//   rows     a device holds the weights of its channels of x and makes a summand of y; the bias is then added to the sum, in
//            a stage of its own
#ifndef COLONNADE_LAYERS_PRODUCT_H_
#define COLONNADE_LAYERS_PRODUCT_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layers/sharding.h"
#include "layers/stage.h"
#include "program/op.h"
#include "program/program.h"

namespace colonnade::layers {

// The ops of a product, from the shapes of one device's x and w.
struct Product {
  bool has_bias = true;
  bool by_sample = false;  // its stages may run on some of the samples
  std::function<program::Op(const program::Shape& x, const program::Shape& w, bool bias, bool relu)> forward;
  std::function<program::Op(const program::Shape& x, const program::Shape& w, bool bias)> backward_weights;
  std::function<program::Op(const program::Shape& x, const program::Shape& w)> backward_data;
};

// Returns InvalidArgument where a product without a bias has initial values for one.
absl::Status CheckBias(bool has_bias, const program::Initializer& initial);

// Returns the flop of a product of weight w [k,…] and y: 2 for each element of y and each weight that it is made of.
int64_t ProductFlops(const program::Shape& w, const program::Shape& y);

LayerStages ProductStages(const Product& product, const LayerShapes& whole, const StageOptions& options);

// Return the sharding by columns, or by rows. InvalidArgument, with the nearest sizes that work, where axis_size does not
// divide the channels of y (columns) or of x (rows), which the message calls `channels`.
absl::StatusOr<Sharding> ProductByColumns(const LayerShapes& local, int64_t axis_size, absl::string_view channels);
absl::StatusOr<Sharding> ProductByRows(const LayerShapes& local, int64_t axis_size, absl::string_view channels);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_PRODUCT_H_
