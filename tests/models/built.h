// What the tests of models share: a network that can be built, and the shapes that its layers make.
#ifndef COLONNADE_TESTS_MODELS_BUILT_H_
#define COLONNADE_TESTS_MODELS_BUILT_H_

#include <map>
#include <string>

#include "gtest/gtest.h"
#include "models/models.h"

namespace colonnade::models {

inline layers::LayerGraph Built(const std::string& name, ModelOptions options = {}) {
  absl::StatusOr<layers::LayerGraph> graph = BuildModel(name, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

// By layer, of one sample.
inline std::map<std::string, program::Shape> SampleShapes(const layers::LayerGraph& graph) {
  std::map<std::string, program::Shape> shapes;
  for (const layers::LayerNode& node : graph.nodes) shapes[node.name] = node.sample_shape;
  return shapes;
}

}  // namespace colonnade::models

#endif  // COLONNADE_TESTS_MODELS_BUILT_H_
