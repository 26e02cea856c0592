// The layer graph: what a network computes. It knows no device, batch split or kernel; one network has one meaning.
//
//   GraphBuilder net("my_net");
//   auto x = net.Input("images", {1, 28, 28});
//   x = net.Conv2d("conv1", x, {.out_channels = 32, .kernel = 5, .pad = 2});
//   x = net.Relu("relu1", x);
//   …
//   net.SoftmaxCrossEntropy("loss", x);
//   absl::StatusOr<LayerGraph> graph = std::move(net).Build();
//
// The builder keeps the first error, with the layer's name, and Build returns it.
#ifndef COLONNADE_LAYERS_GRAPH_H_
#define COLONNADE_LAYERS_GRAPH_H_

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layers/layer.h"

namespace colonnade::layers {

using LayerId = program::StrongId<struct LayerTag>;

inline constexpr size_t kMostLayers = 10'000;     // of one network
inline constexpr size_t kLongestLayerName = 200;  // bytes

struct LayerNode {
  std::string name;
  Layer layer;
  std::vector<LayerId> inputs;
  program::Shape sample_shape;            // of the output, without the batch
  std::vector<ParameterSpec> parameters;  // names are "<layer>.weight", "<layer>.bias" here
  std::vector<int64_t> sections;          // the channels of each input of the concatenation that made them, if one did
};

// Returns the floating-point operations of a node's forward pass for a batch of n: 2 for each multiplication by a weight, of
// convolutions and fully connected layers; all else counts as none.
int64_t ForwardFlops(const LayerNode& node, int64_t n);

// Nodes in topological order. Invariants: names are unique, and in UTF-8, as the network's is; node 0 is the Input of
// images; every layer reaches a SoftmaxCrossEntropy, which no layer reads; the last node is one, the network's own loss;
// those before it are auxiliary and have as many classes: training minimises the sum of all, evaluation runs what reaches
// the last. No two layers share a stream of random numbers. Labels are not a node: losses read them.
struct LayerGraph {
  std::string name;
  std::vector<LayerNode> nodes;

  const LayerNode& node(LayerId id) const { return nodes[id.value]; }
  // Returns the layer of that name. FailedPrecondition naming the nearest, or all, where there is none.
  absl::StatusOr<LayerId> Find(absl::string_view layer) const;
  // Returns the shape of a node's output for a batch of n.
  program::Shape OutputShape(LayerId id, int64_t n) const;
  std::vector<program::Shape> InputShapes(LayerId id, int64_t n) const;
  // Returns the whole extents of a node for a batch of n, but those of its state and inner tensors, which its stages name.
  LayerShapes Shapes(LayerId id, int64_t n) const;
  int64_t ParameterCount() const;                                           // values
  int64_t ForwardFlops(int64_t n) const;                                    // of all nodes
  const LayerNode& logits() const { return node(nodes.back().inputs[0]); }  // what the network's own loss reads
  int64_t classes() const;
  // Returns the names of the layers that multiply weights and behind which, on the way to the logits of `loss`, no other
  // does: one, unless a sum or a concatenation makes the logits; and of all with parameters behind them, as a normalisation
  // of logits. A loss of other classes begins with new ones.
  std::set<std::string> HeadsOf(LayerId loss) const;
  std::set<std::string> Heads() const;  // of all losses, auxiliary ones, too
  // Returns, by node, whether the network's own loss depends on it.
  std::vector<bool> ReachesLast() const;
};

// Returns the network for evaluation alone: normalisations use running statistics there, so they ask for no groups of
// samples that would have to divide the batch.
LayerGraph InEvaluation(LayerGraph graph);

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);

  // Appends a layer of any type; each function below appends one of the type that it names.
  LayerId Append(const std::string& name, Layer layer, std::vector<LayerId> inputs);
  LayerId Input(const std::string& name, program::Shape sample_shape);
  LayerId Conv2d(const std::string& name, LayerId x, layers::Conv2d attributes);
  LayerId FullyConnected(const std::string& name, LayerId x, layers::FullyConnected attributes);
  LayerId Relu(const std::string& name, LayerId x);
  LayerId Gelu(const std::string& name, LayerId x);
  LayerId MaxPool(const std::string& name, LayerId x, layers::MaxPool attributes = {});
  LayerId AvgPool(const std::string& name, LayerId x, layers::AvgPool attributes = {});
  LayerId GlobalAvgPool(const std::string& name, LayerId x);  // an AvgPool whose window is the image: {C, 1, 1}
  LayerId Lrn(const std::string& name, LayerId x, layers::Lrn attributes = {});
  LayerId BatchNorm(const std::string& name, LayerId x, layers::BatchNorm attributes = {});
  LayerId LayerNorm(const std::string& name, LayerId x, layers::LayerNorm attributes = {});
  LayerId Dropout(const std::string& name, LayerId x, layers::Dropout attributes = {});
  LayerId Flatten(const std::string& name, LayerId x);
  LayerId Concat(const std::string& name, std::vector<LayerId> xs);
  LayerId Add(const std::string& name, std::vector<LayerId> xs);
  LayerId AddNarrow(const std::string& name, LayerId wide, LayerId narrow);
  LayerId SoftmaxCrossEntropy(const std::string& name, LayerId logits, layers::SoftmaxCrossEntropy attributes = {});

  absl::StatusOr<LayerGraph> Build() &&;

 private:
  bool IsLayer(LayerId id) const { return id.valid() && id.value < static_cast<int32_t>(graph_.nodes.size()); }
  absl::Status CheckName(const std::string& name) const;
  absl::StatusOr<std::vector<program::Shape>> SampleShapesOf(const std::vector<LayerId>& inputs) const;
  absl::StatusOr<LayerNode> MakeNode(const std::string& name, Layer layer, std::vector<LayerId> inputs) const;
  absl::Status CheckLosses() const;
  absl::Status CheckStreams() const;

  LayerGraph graph_;
  absl::Status status_;
};

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_GRAPH_H_
