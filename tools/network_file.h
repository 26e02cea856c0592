// Networks as files, JSON that people write by hand: what --model=FILE.json takes and `colonnade models NAME --json` prints.
//
//   {"colonnade_model": 1, "name": "small",
//    "layers": [
//     {"name": "images", "type": "Input", "sample_shape": [1, 8, 8]},
//     {"name": "conv1", "type": "Conv2d", "out_channels": 16, "kernel": 3, "pad": 1},
//     …
//     {"name": "loss", "type": "SoftmaxCrossEntropy"}
//    ]}
//
// Weights state their network in the metadata of their file, as such a text under "colonnade_network".
//
// A layer has the fields of its struct (layers/*.h), with their defaults. Its input is the layer before it unless "inputs"
// names others, which layers of several inputs must. docs/models.md is the page for users.
#ifndef COLONNADE_TOOLS_NETWORK_FILE_H_
#define COLONNADE_TOOLS_NETWORK_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/io/safetensors.h"
#include "layers/graph.h"
#include "models/models.h"

namespace colonnade::tools {

struct Network {
  models::ModelInfo info;  // of a file: name, description, recipe and shape; it builds nothing
  layers::LayerGraph graph;
};

// What equals its default is left out.
std::string NetworkToJson(const Network& network);

// InvalidArgument: line and column of what is no JSON; else the place, with the layer's name, what was expected, what was
// found and the nearest name; or what GraphBuilder says of the layers.
absl::StatusOr<Network> NetworkFromJson(absl::string_view text);

engine::Metadata NetworkMetadata(const Network& network);
bool StatesNetwork(const engine::Metadata& metadata);

// Whether --model=`model` is a file: names of the zoo have no dot, no slash and are no file's.
bool IsNetworkFile(const std::string& model);
bool IsWeightsFile(const std::string& model);  // of those files, one of weights (safetensors)

// As models::FindModel; what it says of an unknown name is that a network file would do, too.
absl::StatusOr<const models::ModelInfo*> FindInZoo(const std::string& model);

// A file as it stands, or the network that weights state, with the file's name before what is wrong with it; or a network of
// the zoo as `options` want it. InvalidArgument where weights state none.
absl::StatusOr<Network> OpenNetwork(const std::string& model, const models::ModelOptions& options = {});

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_NETWORK_FILE_H_
