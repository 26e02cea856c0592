#include "layers/graph.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "layers/product.h"
#include "layers/traits.h"
#include "program/stream_id.h"

namespace colonnade::layers {
namespace {

program::Shape WithBatch(int64_t n, const program::Shape& sample) {
  program::Shape shape = {n};
  shape.insert(shape.end(), sample.begin(), sample.end());
  return shape;
}

// LayerNode::sections of a layer that reads `inputs`.
std::vector<int64_t> SectionsOf(const Layer& layer, const std::vector<LayerNode>& nodes,
                                const std::vector<LayerId>& inputs) {
  const ChannelUse channels = TraitsOf(layer).channels;
  if (channels == ChannelUse::kKeeps) return nodes[inputs[0].value].sections;
  std::vector<int64_t> sections;
  if (channels != ChannelUse::kJoins) return sections;
  for (LayerId input : inputs) sections.push_back(nodes[input.value].sample_shape[0]);
  return sections;
}

// The most elements of one tensor: far above what any machine holds, and far below where products of sizes overflow.
constexpr int64_t kMostTensorElements = int64_t{1} << 36;
constexpr double kMostFlops = 1e15;   // of one layer and one sample
constexpr size_t kMostInputs = 1000;  // of one layer

bool HasTooManyElements(const program::Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) {
    if (extent > kMostTensorElements / std::max<int64_t>(count, 1)) return true;
    count *= extent;
  }
  return false;
}

// `what`: "an output", or the name of a parameter.
absl::Status CheckSize(absl::string_view what, const program::Shape& shape) {
  if (!HasTooManyElements(shape)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("expected at most %d elements, found %s %s", kMostTensorElements, what, program::ToString(shape)));
}

absl::Status CheckCounts(Layer layer) {
  for (const Field& field : Fields(layer)) {
    const auto* count = std::get_if<int64_t*>(&field.value);
    if (count == nullptr || **count <= kLargestCount) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("expected %s of at most %d, found %d", field.name, kLargestCount, **count));
  }
  return absl::OkStatus();
}

// Checks the parameters of a layer, and what it multiplies them by.
absl::Status CheckParameters(const Layer& layer, const program::Shape& output,
                             const std::vector<ParameterSpec>& parameters) {
  for (const ParameterSpec& parameter : parameters) {
    RETURN_IF_ERROR(CheckSize(parameter.name, parameter.shape));
    const double initial = parameter.initializer.value;
    const bool is_drawn = parameter.initializer.kind != program::Initializer::Kind::kConstant;
    if (!program::FitsF32(initial)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("expected an initial value of %s that f32 holds, found %g", parameter.name, initial));
    }
    if (is_drawn && initial < 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("expected a deviation or a bound of %s from 0, found %g", parameter.name, initial));
    }
  }
  if (!MultipliesWeights(layer)) return absl::OkStatus();
  const program::Shape& weight = parameters[0].shape;
  const double flops = 2.0 * static_cast<double>(program::ElementCount(weight)) *
                       static_cast<double>(program::ElementCount(output)) / static_cast<double>(weight[0]);
  if (flops <= kMostFlops) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("expected at most %g flop for a sample, found %g", kMostFlops, flops));
}

}  // namespace

absl::StatusOr<LayerId> LayerGraph::Find(absl::string_view layer) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].name == layer) return LayerId{static_cast<int32_t>(i)};
    names.push_back(nodes[i].name);
  }
  const std::string nearest = base::NearestName(layer, names);
  return absl::FailedPreconditionError(absl::StrFormat("network %s has no layer \"%s\"; %s", name, layer,
                                                       nearest.empty()
                                                           ? absl::StrCat("expected one of ", absl::StrJoin(names, ", "))
                                                           : absl::StrFormat("did you mean \"%s\"?", nearest)));
}

program::Shape LayerGraph::OutputShape(LayerId id, int64_t n) const { return WithBatch(n, node(id).sample_shape); }

std::vector<program::Shape> LayerGraph::InputShapes(LayerId id, int64_t n) const {
  std::vector<program::Shape> shapes;
  for (LayerId input : node(id).inputs) shapes.push_back(OutputShape(input, n));
  return shapes;
}

LayerShapes LayerGraph::Shapes(LayerId id, int64_t n) const {
  LayerShapes shapes{.inputs = InputShapes(id, n), .output = OutputShape(id, n)};
  for (const ParameterSpec& parameter : node(id).parameters) shapes.parameters.push_back(parameter.shape);
  if (IsLoss(node(id).layer)) {
    shapes.inputs.push_back({n});
    shapes.inputs.push_back({1});
    shapes.output = {program::Metric::kCount};
  }
  shapes.global_inputs = shapes.inputs;
  if (TraitsOf(node(id).layer).channels == ChannelUse::kKeeps) shapes.sections = node(id).sections;
  return shapes;
}

int64_t LayerGraph::ParameterCount() const {
  int64_t count = 0;
  for (const LayerNode& node : nodes) {
    for (const ParameterSpec& parameter : node.parameters) count += program::ElementCount(parameter.shape);
  }
  return count;
}

// Each element of a weight multiplies as many elements of the output as there are outputs per output channel.
int64_t ForwardFlops(const LayerNode& node, int64_t n) {
  if (!MultipliesWeights(node.layer)) return 0;
  const program::Shape& weight = node.parameters[0].shape;
  return n * ProductFlops(weight, node.sample_shape);
}

int64_t LayerGraph::ForwardFlops(int64_t n) const {
  constexpr int64_t kMost = int64_t{1} << 62;  // far beyond what LargestBatch allows
  int64_t flops = 0;
  for (const LayerNode& node : nodes) flops = std::min(flops + layers::ForwardFlops(node, n), kMost);
  return flops;
}

int64_t LayerGraph::classes() const { return logits().sample_shape[0]; }

std::set<std::string> LayerGraph::HeadsOf(LayerId loss) const {
  std::vector<bool> reaches(nodes.size(), false);
  reaches[loss.value] = true;
  std::set<std::string> heads;
  for (int32_t i = loss.value; i >= 0; --i) {
    if (!reaches[i]) continue;
    if (!nodes[i].parameters.empty()) heads.insert(nodes[i].name);
    if (MultipliesWeights(nodes[i].layer)) continue;
    for (LayerId input : nodes[i].inputs) reaches[input.value] = true;
  }
  return heads;
}

std::set<std::string> LayerGraph::Heads() const {
  std::set<std::string> heads;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (IsLoss(nodes[i].layer)) heads.merge(HeadsOf(LayerId{static_cast<int32_t>(i)}));
  }
  return heads;
}

std::vector<bool> LayerGraph::ReachesLast() const {
  std::vector<bool> reaches(nodes.size(), false);
  for (size_t i = nodes.size(); i-- > 0;) {
    reaches[i] = reaches[i] || i + 1 == nodes.size();
    for (LayerId input : nodes[i].inputs) reaches[input.value] = reaches[input.value] || reaches[i];
  }
  return reaches;
}

LayerGraph InEvaluation(LayerGraph graph) {
  for (LayerNode& node : graph.nodes) {
    if (auto* norm = std::get_if<BatchNorm>(&node.layer)) norm->samples_per_group = 0;
  }
  return graph;
}

// The name is printed as it is: to terminals, in tables and in logs; files of weights and networks have it in UTF-8.
GraphBuilder::GraphBuilder(std::string name) {
  if (!base::IsUtf8(name)) {
    status_ = absl::InvalidArgumentError(
        absl::StrFormat("network \"%s\": expected a name in UTF-8, found other bytes", absl::CEscape(name)));
  } else if (base::HasControls(name)) {
    status_ = absl::InvalidArgumentError(
        absl::StrFormat("network \"%s\": expected a name without control characters, found some", absl::CEscape(name)));
  }
  graph_.name = std::move(name);
}

absl::Status GraphBuilder::CheckName(const std::string& name) const {
  const auto has_a_meaning = [](char c) { return c == ' ' || c == '"' || c == '@'; };
  if (name.empty() || base::HasControls(name) || absl::c_any_of(name, has_a_meaning)) {
    return absl::InvalidArgumentError("expected a name without spaces, control characters, quotes and @");
  }
  if (!base::IsUtf8(name)) return absl::InvalidArgumentError("expected a name in UTF-8, found other bytes");
  if (name.size() > kLongestLayerName) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected a name of at most %d bytes, found %d", kLongestLayerName, name.size()));
  }
  const auto has_it = [&](const LayerNode& node) { return node.name == name; };
  if (!absl::c_any_of(graph_.nodes, has_it)) return absl::OkStatus();
  return absl::InvalidArgumentError("expected a name of its own, found the name of another layer");
}

absl::StatusOr<std::vector<program::Shape>> GraphBuilder::SampleShapesOf(const std::vector<LayerId>& inputs) const {
  std::vector<program::Shape> shapes;
  for (LayerId input : inputs) {
    if (!IsLayer(input)) {
      return absl::InvalidArgumentError("expected inputs that are layers of this network, found another");
    }
    const LayerNode& node = graph_.node(input);
    if (IsLoss(node.layer)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("expected inputs that are tensors, found the loss \"%s\"", node.name));
    }
    shapes.push_back(node.sample_shape);
  }
  return shapes;
}

absl::StatusOr<LayerNode> GraphBuilder::MakeNode(const std::string& name, Layer layer, std::vector<LayerId> inputs) const {
  if (graph_.nodes.size() == kMostLayers) {
    return absl::InvalidArgumentError(absl::StrFormat("expected at most %d layers, found one more", kMostLayers));
  }
  RETURN_IF_ERROR(CheckName(name));
  if (IsInput(layer) && !graph_.nodes.empty()) {
    return absl::InvalidArgumentError("expected one Input, found a second");
  }
  if (inputs.size() > kMostInputs) {
    return absl::InvalidArgumentError(absl::StrFormat("expected at most %d inputs, found %d", kMostInputs, inputs.size()));
  }
  ASSIGN_OR_RETURN(const std::vector<program::Shape> shapes, SampleShapesOf(inputs));
  ASSIGN_OR_RETURN(program::Shape output, OutputSampleShape(layer, shapes));
  RETURN_IF_ERROR(CheckSize("an output", output));
  std::vector<ParameterSpec> parameters = Parameters(layer, shapes);
  RETURN_IF_ERROR(CheckParameters(layer, output, parameters));
  RETURN_IF_ERROR(CheckCounts(layer));
  for (ParameterSpec& parameter : parameters) parameter.name = absl::StrCat(name, ".", parameter.name);
  std::vector<int64_t> sections = SectionsOf(layer, graph_.nodes, inputs);
  if (auto* dropout = std::get_if<layers::Dropout>(&layer)) dropout->stream = program::StreamOfName(name);
  return LayerNode{name, std::move(layer), std::move(inputs), std::move(output), std::move(parameters), std::move(sections)};
}

LayerId GraphBuilder::Append(const std::string& name, Layer layer, std::vector<LayerId> inputs) {
  if (!status_.ok()) return LayerId{};
  const char* type = TypeName(layer);
  absl::StatusOr<LayerNode> node = MakeNode(name, std::move(layer), std::move(inputs));
  if (!node.ok()) {
    const std::string printed = base::Legible(base::WholeCharacters(name, kLongestLayerName));
    status_ = absl::InvalidArgumentError(
        absl::StrFormat("network \"%s\", %s \"%s\": %s", graph_.name, type, printed, node.status().message()));
    return LayerId{};
  }
  graph_.nodes.push_back(*std::move(node));
  return LayerId{static_cast<int32_t>(graph_.nodes.size()) - 1};
}

LayerId GraphBuilder::Input(const std::string& name, program::Shape sample_shape) {
  return Append(name, layers::Input{std::move(sample_shape)}, {});
}
LayerId GraphBuilder::Conv2d(const std::string& name, LayerId x, layers::Conv2d attributes) {
  return Append(name, std::move(attributes), {x});
}
LayerId GraphBuilder::FullyConnected(const std::string& name, LayerId x, layers::FullyConnected attributes) {
  return Append(name, std::move(attributes), {x});
}
LayerId GraphBuilder::Relu(const std::string& name, LayerId x) { return Append(name, layers::Relu{}, {x}); }
LayerId GraphBuilder::Gelu(const std::string& name, LayerId x) { return Append(name, layers::Gelu{}, {x}); }
LayerId GraphBuilder::MaxPool(const std::string& name, LayerId x, layers::MaxPool attributes) {
  return Append(name, attributes, {x});
}
LayerId GraphBuilder::AvgPool(const std::string& name, LayerId x, layers::AvgPool attributes) {
  return Append(name, attributes, {x});
}
LayerId GraphBuilder::GlobalAvgPool(const std::string& name, LayerId x) {
  layers::AvgPool whole;
  if (IsLayer(x) && graph_.node(x).sample_shape.size() == 3) {
    const program::Shape& image = graph_.node(x).sample_shape;
    whole.kernel = image[1];
    whole.kernel_w = image[2];
  }
  return Append(name, whole, {x});  // refuses what is no image
}
LayerId GraphBuilder::Lrn(const std::string& name, LayerId x, layers::Lrn attributes) {
  return Append(name, attributes, {x});
}
LayerId GraphBuilder::BatchNorm(const std::string& name, LayerId x, layers::BatchNorm attributes) {
  return Append(name, attributes, {x});
}
LayerId GraphBuilder::LayerNorm(const std::string& name, LayerId x, layers::LayerNorm attributes) {
  return Append(name, attributes, {x});
}
LayerId GraphBuilder::Dropout(const std::string& name, LayerId x, layers::Dropout attributes) {
  return Append(name, attributes, {x});
}
LayerId GraphBuilder::Flatten(const std::string& name, LayerId x) { return Append(name, layers::Flatten{}, {x}); }
LayerId GraphBuilder::Concat(const std::string& name, std::vector<LayerId> xs) {
  return Append(name, layers::Concat{}, std::move(xs));
}
LayerId GraphBuilder::Add(const std::string& name, std::vector<LayerId> xs) {
  return Append(name, layers::Add{}, std::move(xs));
}
LayerId GraphBuilder::AddNarrow(const std::string& name, LayerId wide, LayerId narrow) {
  return Append(name, layers::AddNarrow{}, {wide, narrow});
}
LayerId GraphBuilder::SoftmaxCrossEntropy(const std::string& name, LayerId logits, layers::SoftmaxCrossEntropy attributes) {
  return Append(name, attributes, {logits});
}

// All losses compare with the same labels, and every layer is there for one of them.
absl::Status GraphBuilder::CheckLosses() const {
  auto fail = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrFormat("network \"%s\": %s", graph_.name, what));
  };
  const LayerNode& last = graph_.nodes.back();
  if (!IsLoss(last.layer)) {
    return fail(
        absl::StrFormat("expected a SoftmaxCrossEntropy as last layer, found %s \"%s\"", TypeName(last.layer), last.name));
  }
  std::vector<bool> reaches(graph_.nodes.size(), false);
  for (size_t i = graph_.nodes.size(); i-- > 0;) {
    const LayerNode& node = graph_.nodes[i];
    const bool loss = IsLoss(node.layer);
    if (!loss && !reaches[i]) {
      return fail(absl::StrFormat("expected every layer to reach a loss, found that \"%s\" does not", node.name));
    }
    for (LayerId input : node.inputs) reaches[input.value] = true;
    const int64_t classes = loss ? graph_.node(node.inputs[0]).sample_shape[0] : graph_.classes();
    if (classes == graph_.classes()) continue;
    return fail(absl::StrFormat("expected one number of classes for all losses, found %d of \"%s\" and %d of \"%s\"",
                                classes, node.name, graph_.classes(), graph_.nodes.back().name));
  }
  return absl::OkStatus();
}

// Hashes of names number the streams of random numbers, of which those of one purpose must differ: names of one hash would
// share dropout masks or initial values.
absl::Status GraphBuilder::CheckStreams() const {
  std::map<uint32_t, std::string> masks, initial_values;
  auto check = [&](std::map<uint32_t, std::string>& names, uint32_t stream, const std::string& name) {
    const auto [other, is_new] = names.emplace(stream, name);
    if (is_new) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrFormat("network \"%s\": expected names with streams of random numbers of their own, found that \"%s\" and "
                        "\"%s\" have the same hash; rename one of the layers",
                        graph_.name, other->second, name));
  };
  for (const LayerNode& node : graph_.nodes) {
    if (const auto* dropout = std::get_if<layers::Dropout>(&node.layer)) {
      RETURN_IF_ERROR(check(masks, dropout->stream, node.name));
    }
    for (const ParameterSpec& parameter : node.parameters) {
      RETURN_IF_ERROR(check(initial_values, program::StreamOfName(parameter.name), parameter.name));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<LayerGraph> GraphBuilder::Build() && {
  if (!status_.ok()) return status_;
  if (graph_.nodes.empty() || !IsInput(graph_.nodes[0].layer)) {
    return absl::InvalidArgumentError(absl::StrFormat("network \"%s\": expected an Input as first layer, found %s",
                                                      graph_.name,
                                                      graph_.nodes.empty() ? "none" : TypeName(graph_.nodes[0].layer)));
  }
  RETURN_IF_ERROR(CheckLosses());
  RETURN_IF_ERROR(CheckStreams());
  return std::move(graph_);
}

}  // namespace colonnade::layers
