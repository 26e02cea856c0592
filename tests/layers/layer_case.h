// What the tests of layers share: the extents of a layer's tensors.
#ifndef COLONNADE_TESTS_LAYERS_LAYER_CASE_H_
#define COLONNADE_TESTS_LAYERS_LAYER_CASE_H_

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "layers/layer.h"
#include "layers/traits.h"

namespace colonnade::layers {

// What a layer's stages are told of these strategies, on axes of several positions.
inline StageOptions Under(const std::vector<Strategy>& strategies) {
  return {.makes_partial_sum = std::find(strategies.begin(), strategies.end(), Strategy::kRow) != strategies.end()};
}

inline const std::vector<program::Shape> kImage = {{2, 4, 5, 5}};  // as the only input

// The extents of `layer` on `inputs`, which have their batch dimension, before any axis cuts them. Its inner tensors are
// those that it has under `strategies`.
inline LayerShapes ShapesOf(const Layer& layer, const std::vector<program::Shape>& inputs,
                            const std::vector<Strategy>& strategies = {}) {
  LayerShapes shapes{.inputs = inputs};
  std::vector<program::Shape> samples;
  for (const program::Shape& x : inputs) samples.emplace_back(x.begin() + 1, x.end());
  absl::StatusOr<program::Shape> sample = OutputSampleShape(layer, samples);
  EXPECT_TRUE(sample.ok()) << sample.status();
  if (!sample.ok()) return shapes;
  shapes.output = {inputs[0][0]};
  shapes.output.insert(shapes.output.end(), sample->begin(), sample->end());
  if (IsLoss(layer)) {
    shapes.inputs.push_back({inputs[0][0]});
    shapes.inputs.push_back({1});
    shapes.output = {program::Metric::kCount};
  }
  shapes.global_inputs = shapes.inputs;
  for (const ParameterSpec& p : Parameters(layer, samples)) shapes.parameters.push_back(p.shape);
  const LayerStages stages = Stages(layer, shapes, Under(strategies));
  for (const ParameterSpec& state : stages.state) shapes.state.push_back(state.shape);
  for (const InnerSpec& inner : stages.inner) shapes.inner.push_back(inner.shape);
  return shapes;
}

}  // namespace colonnade::layers

#endif  // COLONNADE_TESTS_LAYERS_LAYER_CASE_H_
