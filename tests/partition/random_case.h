// Random small networks and random legal plans for them; random_coverage.h counts what was drawn.
#ifndef COLONNADE_TESTS_PARTITION_RANDOM_CASE_H_
#define COLONNADE_TESTS_PARTITION_RANDOM_CASE_H_

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layers/graph.h"
#include "partition/plan.h"
#include "partition/shardings.h"

namespace colonnade::partition {

using Random = std::mt19937_64;

template <class T>
T Pick(Random& random, const std::vector<T>& from) {
  return from[random() % from.size()];
}

// Scale and shift of a channel each, whose products with bytes are exact in f32.
inline program::PixelScaling PixelsFor(const layers::LayerGraph& graph) {
  program::PixelScaling pixels;
  for (int64_t c = 0; c < graph.nodes[0].sample_shape[0]; ++c) {
    pixels.scale.push_back(static_cast<double>(c + 1) / 128);
    pixels.shift.push_back(static_cast<double>(c) / 4 - 1);
  }
  return pixels;
}

struct RandomNetwork {
  layers::LayerGraph graph;
  int classes = 0;
};

// Convolutions (dense and grouped), pooling, LRN, batch and layer normalisation, dropout, joins by Add, AddNarrow and
// Concat, one or two fully connected layers, one or two losses. With `exact`, only operations whose results on small
// integers are exact. With `normalised`, normalisations right behind many products, which leave these no gradient of a bias:
// for evaluation.
class NetworkDrawer {
 public:
  NetworkDrawer(Random& random, bool exact, bool normalised = false)
      : random_(random), exact_(exact), normalised_(normalised), net_("random") {}

  absl::StatusOr<RandomNetwork> Draw() {
    channels_ = Pick<int64_t>(random_, {1, 2, 3});
    extent_ = Pick<int64_t>(random_, {5, 6, 8});
    layers::LayerId x = net_.Input("images", {channels_, extent_, extent_});
    x = Conv(x, 1, RandomChannels());
    const int count = 1 + static_cast<int>(random_() % (exact_ ? 3 : 5));
    for (int i = 0; i < count; ++i) x = Block(x);
    const int classes = exact_ ? 4 : Pick<int>(random_, {4, 5, 6, 12});
    if (!exact_ && random_() % 2) AuxiliaryLoss(x, classes);
    x = net_.Flatten("flatten", x);
    if (random_() % 2) {
      x = BehindProduct(net_.FullyConnected(Next("fc"), x, {.out_features = Pick<int64_t>(random_, {12, 24, 8})}));
      if (random_() % 2) x = net_.Relu(Next("relu"), x);
      if (!exact_ && counter_ % 3 == 0) x = LayerNorm(x);
      if (random_() % 2) x = net_.Dropout(Next("dropout"), x, {.rate = 0.5});
    }
    x = net_.FullyConnected("classifier", x, {.out_features = classes});
    net_.SoftmaxCrossEntropy("loss", x);
    absl::StatusOr<layers::LayerGraph> graph = std::move(net_).Build();
    if (!graph.ok()) return graph.status();
    return RandomNetwork{*std::move(graph), classes};
  }

 private:
  std::string Next(const std::string& kind) { return absl::StrCat(kind, ++counter_); }
  int64_t RandomChannels() { return Pick<int64_t>(random_, {12, 24, 12, 24, 6, 16}); }

  layers::LayerId Conv(layers::LayerId x, int64_t groups, int64_t out, int64_t kernel = 3) {
    channels_ = out;
    return BehindProduct(net_.Conv2d(
        Next("conv"), x,
        {.out_channels = out, .kernel = kernel, .pad = kernel / 2, .groups = groups, .bias = random_() % 3 != 0}));
  }

  layers::LayerId BehindProduct(layers::LayerId x) {
    if (!normalised_ || counter_ % 4 == 0) return x;
    const layers::LayerId y = net_.BatchNorm(Next("norm"), x, {.epsilon = 0.1});
    return counter_ % 3 == 0 ? net_.Relu(Next("relu"), y) : y;
  }

  void AuxiliaryLoss(layers::LayerId x, int classes) {
    x = net_.FullyConnected("head", net_.Flatten("head.flatten", x), {.out_features = classes});
    net_.SoftmaxCrossEntropy("head.loss", x, {.weight = 0.3, .label_smoothing = random_() % 2 ? 0.1 : 0});
  }

  // A small variance would magnify roundings.
  layers::LayerId LayerNorm(layers::LayerId x) {
    return net_.Append(Next("layer_norm"), layers::LayerNorm{.epsilon = 0.1}, {x});
  }

  // Alone, behind it a ReLU, or as the end of a residual block.
  layers::LayerId Normalised(layers::LayerId x) {
    const layers::LayerId y =
        net_.BatchNorm(Next("norm"), x, {.epsilon = 0.1, .samples_per_group = Pick<int64_t>(random_, {0, 0, 2})});
    if (counter_ % 4 == 0) return y;
    return net_.Relu(Next("relu"), counter_ % 4 == 1 ? y : net_.Add(Next("add"), {y, x}));
  }

  layers::LayerId Block(layers::LayerId x) {
    switch (random_() % (exact_ ? 8 : 11)) {
      case 0: {
        const auto kernel =
            Pick<int64_t>(random_, {1, 3});  // apart: compilers draw a call's arguments in orders of their own
        return Conv(x, 1, RandomChannels(), kernel);
      }
      case 1:
      case 2: {
        std::vector<int64_t> groups;
        for (int64_t g : {2, 3, 4, 6}) {
          if (channels_ % g == 0) groups.push_back(g);
        }
        const int64_t g = Pick(random_, groups);
        return Conv(x, g, g % 3 == 0 ? 24 : Pick<int64_t>(random_, {12, 24}));
      }
      case 3:
        if (!exact_ && counter_ % 2) return net_.Gelu(Next("gelu"), x);
        return net_.Relu(Next("relu"), x);
      case 4:
        if (extent_ < 4) return net_.Relu(Next("relu"), x);
        if (random_() % 2) {
          extent_ = (extent_ - 1) / 2 + 1;
          return net_.MaxPool(Next("max_pool"), net_.Relu(Next("relu"), x), {.kernel = 3, .stride = 2, .pad = 1});
        }
        extent_ = (extent_ - 2) / 2 + 1;
        // Overlapping windows of the same extent, which is rounded up: other draws stay as they are.
        if (counter_ % 2) return net_.MaxPool(Next("max_pool"), x, {.kernel = 3, .stride = 2, .ceil_mode = true});
        return net_.MaxPool(Next("max_pool"), x, {.kernel = 2, .stride = 2});
      case 5:
        if (extent_ < 4) return x;
        extent_ = (extent_ - 2) / 2 + 1;
        // This pooling has the same extent; its divisor of 3 is not exact.
        if (!exact_ && counter_ % 2) return net_.AvgPool(Next("avg_pool"), x, {.kernel = 3, .stride = 2, .ceil_mode = true});
        return net_.AvgPool(Next("avg_pool"), x, {.kernel = 2, .stride = 2});
      case 6: {
        const int64_t before = channels_;
        const layers::LayerId a = Conv(x, 1, before);
        if (random_() % 2) return net_.Add(Next("add"), {a, random_() % 2 ? x : Conv(x, 1, before)});
        // Two readers of one value, which may need it in different placements.
        return net_.Add(Next("add"), {net_.Relu(Next("relu"), a),
                                      net_.MaxPool(Next("max_pool"), a, {.kernel = 3, .stride = 1, .pad = 1})});
      }
      case 7: {
        if (!exact_ && counter_ % 2) return net_.AddNarrow(Next("add_narrow"), Conv(x, 1, 24), x);
        layers::LayerId a = Conv(x, 1, 4), b = Conv(x, 1, 8, 1);
        channels_ = 12;
        return net_.Concat(Next("concat"), {a, b});
      }
      case 8: {
        const int64_t groups = channels_ % 12 == 0 ? Pick<int64_t>(random_, {1, 2, 3, 4}) : 1;
        return net_.Lrn(Next("lrn"), x, {.size = 3, .groups = groups, .alpha = 0.1});
      }
      // Behind a ReLU: a bias right before a normalisation has the gradient zero, of which roundings alone would be
      // compared. So has all that is before a normalisation of few elements, and a small variance would magnify roundings.
      case 9:
        if (extent_ < 3) return net_.Gelu(Next("gelu"), x);
        return Normalised(net_.Relu(Next("relu"), x));
      default:
        if (counter_ % 2 == 0) return LayerNorm(x);
        return net_.Dropout(Next("dropout"), x, {.rate = 0.25});
    }
  }

  Random& random_;
  const bool exact_, normalised_;
  layers::GraphBuilder net_;
  int64_t channels_ = 0, extent_ = 0;
  int counter_ = 0;
};

inline const std::vector<layers::Strategy>& AllStrategies() {
  static const auto& all =
      *new std::vector<layers::Strategy>(std::begin(layers::kStrategies), std::end(layers::kStrategies));
  return all;
}

// How many strategies were tried, and how many of them were not legal.
struct Tries {
  int all = 0, refused = 0;
};

// A plan that draws, for each layer and axis, one of the strategies that are legal there.
inline Plan DrawPlan(Random& random, const layers::LayerGraph& graph, int64_t outer, int64_t inner, int64_t batch,
                     Tries* tries = nullptr) {
  Plan plan{.name = "random", .mesh = Mesh::ReplicasByColumns(outer, inner)};
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const layers::LayerNode& node = graph.nodes[i];
    if (std::holds_alternative<layers::Input>(node.layer)) continue;
    const layers::LayerId id{static_cast<int32_t>(i)};
    std::vector<layers::Strategy> chosen(2, layers::Strategy::kReplicate);
    for (int a = 0; a < 2; ++a) {
      if (plan.mesh.axes[a].size == 1) continue;
      std::vector<layers::Strategy> order = AllStrategies();
      std::shuffle(order.begin(), order.end(), random);
      for (layers::Strategy s : order) {
        chosen[a] = s;
        const bool legal = ShardNode(graph, id, plan.mesh, chosen, batch).ok();
        if (tries != nullptr) {
          ++tries->all;
          tries->refused += legal ? 0 : 1;
        }
        if (legal) break;
      }
    }
    plan.layers[node.name] = chosen;
  }
  plan.reduction = Pick<Reduction>(random, {std::begin(kReductions), std::end(kReductions)});
  plan.overlap = random() % 4 != 0;
  plan.bucket_bytes = Pick<int64_t>(random, {1, 2000, 1 << 20});
  plan.piece_bytes = plan.bucket_bytes == 2000 ? kLeastPieceBytes : plan.piece_bytes;
  for (int d = 0; d < plan.mesh.device_count(); ++d) plan.device_order.push_back(d);
  std::shuffle(plan.device_order.begin(), plan.device_order.end(), random);
  return plan;
}

// Parts in which activations move, for one in two plans; by how much the batch has to grow for them. Draws of others stay as
// they are.
inline int DrawParts(Random random, Plan& plan) {
  plan.transfer_parts = Pick<int>(random, {1, 1, 2, 3});
  return plan.transfer_parts;
}

}  // namespace colonnade::partition

#endif  // COLONNADE_TESTS_PARTITION_RANDOM_CASE_H_
