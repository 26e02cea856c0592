// Names for what is not a layer (buckets, the gate) where tasks say which layer they come from.
#ifndef COLONNADE_PARTITION_LOWERING_LAYER_NAMES_H_
#define COLONNADE_PARTITION_LOWERING_LAYER_NAMES_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "layers/graph.h"

namespace colonnade::partition {

class LayerNames {
 public:
  explicit LayerNames(const layers::LayerGraph& graph) {
    for (const layers::LayerNode& node : graph.nodes) names_.insert(node.name);
  }
  // Returns `name`, with "@" appended if a layer has that name. No layer's name has an "@".
  std::string Unlike(const std::string& name) const { return names_.contains(name) ? name + "@" : name; }

 private:
  absl::flat_hash_set<std::string> names_;
};

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWERING_LAYER_NAMES_H_
