// What the tests of layers share: the extents of a layer on one device, and the operands that lowering would give it.
#ifndef COLONNADE_TESTS_LAYERS_LAYER_CASE_H_
#define COLONNADE_TESTS_LAYERS_LAYER_CASE_H_

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "layers/layer.h"

namespace colonnade::layers {

// The extents of `layer` on `inputs`, which have their batch dimension, before any axis cuts them.
inline LayerShapes ShapesOf(const Layer& layer, const std::vector<program::Shape>& inputs) {
  LayerShapes shapes{.inputs = inputs, .global_inputs = inputs};
  std::vector<program::Shape> samples;
  for (const program::Shape& x : inputs) samples.emplace_back(x.begin() + 1, x.end());
  absl::StatusOr<program::Shape> sample = OutputSampleShape(layer, samples);
  EXPECT_TRUE(sample.ok()) << sample.status();
  if (!sample.ok()) return shapes;
  shapes.output = {inputs[0][0]};
  shapes.output.insert(shapes.output.end(), sample->begin(), sample->end());
  shapes.global_output = shapes.output;
  for (const ParameterSpec& p : Parameters(layer, inputs)) shapes.parameters.push_back(p.shape);
  return shapes;
}

}  // namespace colonnade::layers

#endif  // COLONNADE_TESTS_LAYERS_LAYER_CASE_H_
