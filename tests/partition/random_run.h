// Runs of random networks under random plans, on any backend: what the tests of Law 2 compare.
#ifndef COLONNADE_TESTS_PARTITION_RANDOM_RUN_H_
#define COLONNADE_TESTS_PARTITION_RANDOM_RUN_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/classification.h"
#include "gtest/gtest.h"
#include "layers/traits.h"
#include "tests/partition/harness.h"
#include "tests/partition/random_case.h"

namespace colonnade::partition {

struct Batch {
  std::vector<float> images;
  std::vector<uint8_t> pixels{};  // what a Program whose images are bytes is given instead
  std::vector<int32_t> labels;
};

inline Plan SinglePlan(const layers::LayerGraph& graph) {
  Plan plan{.name = "single", .mesh = Mesh::ReplicasByColumns(1, 1)};
  for (const layers::LayerNode& node : graph.nodes) {
    if (std::holds_alternative<layers::Input>(node.layer)) continue;
    plan.layers[node.name] = {layers::Strategy::kReplicate, layers::Strategy::kReplicate};
  }
  return plan;
}

// Random data: continuous, or small integers with `labelled` labels, a power of two, the rest padding.
inline Batch DrawBatch(Random& random, const RandomNetwork& network, int64_t n, bool exact) {
  Batch batch;
  batch.images.resize(program::ElementCount(network.graph.OutputShape(layers::LayerId{0}, n)));
  std::normal_distribution<float> normal;
  for (float& v : batch.images) v = exact ? static_cast<float>(random() % 4) : normal(random);
  int64_t labelled = 1;
  while (labelled * 2 <= n) labelled *= 2;
  for (int64_t i = 0; i < n; ++i) {
    const bool padding = exact ? i >= labelled : random() % 7 == 0;
    batch.labels.push_back(padding ? -1 : static_cast<int32_t>(random() % network.classes));
  }
  batch.labels[0] = std::max(batch.labels[0], 0);
  return batch;
}

inline Tensors DrawParameters(Random& random, const program::Program& program) {
  Tensors tensors;
  std::normal_distribution<double> normal;
  for (const program::Parameter& p : program.parameters) {
    const double fan_in = static_cast<double>(program::ElementCount(p.shape)) / static_cast<double>(p.shape[0]);
    std::vector<double>& values = tensors[p.name];
    values.resize(program::ElementCount(p.shape));
    for (double& v : values) v = normal(random) * (p.shape.size() > 1 ? std::sqrt(2.0 / fan_in) : 0.1);
  }
  return tensors;
}

// Weights of −1, 0 and 1; the classifier's are far apart, so that softmax is exactly one-hot and the loss's gradient exact.
inline Tensors DrawExactParameters(Random& random, const program::Program& program) {
  Tensors tensors;
  for (const program::Parameter& p : program.parameters) {
    std::vector<double>& values = tensors[p.name];
    values.resize(program::ElementCount(p.shape));
    const bool classifier = p.layer == "classifier";
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(static_cast<int>(random() % 3) - 1) * (random() % 3 == 0 ? 1 : 0);
      if (classifier) values[i] = p.shape.size() == 1 ? 1024.0 * static_cast<double>(i) : values[i] * 4096;
    }
  }
  return tensors;
}

// An optimiser, and what its updates obey. Epsilon is large: what rounding leaves of a gradient that is zero does not count.
inline UpdateOptions DrawUpdate(Random& random, const layers::LayerGraph& graph) {
  UpdateOptions update{.weight_decay = 1e-3};
  switch (random() % 5) {
    case 0:
      update.optimizer = program::AdamW{.epsilon = 1e-3};
      break;
    case 1:
      update.optimizer = program::Lars{.momentum = 0.5, .trust = 0.1};
      break;
    case 2:
      update.optimizer =
          program::Sgd{.momentum = 0.9,
                       .form = Pick<program::SgdForm>(random, {program::SgdForm::kPyTorch, program::SgdForm::kNesterov})};
      break;
    default:
      break;
  }
  update.decays_weights_alone = random() % 2 == 0;
  update.skips_not_finite = random() % 4 == 0;
  if (random() % 3 == 0) update.average_decay = 0.5;
  if (random() % 3 == 0) update.clip_norm = 0.1;
  std::vector<std::string> layers;
  for (const layers::LayerNode& node : graph.nodes) {
    if (!node.parameters.empty()) layers.push_back(node.name);
  }
  if (random() % 3 == 0) update.layer_rates[Pick(random, layers)] = 0.5;
  if (random() % 3 == 0 && layers.size() > 1) update.frozen_layers = {Pick(random, layers)};
  return update;
}

struct Result {
  std::vector<double> losses;
  std::vector<std::array<int64_t, 2>> hits;  // top-1 and top-5
  Tensors gradients, parameters;
};

// A backend of so many devices.
using BackendMaker = std::function<absl::StatusOr<std::unique_ptr<engine::Backend>>(int devices)>;

// Draws parameters into `drawn` where none are given.
inline absl::StatusOr<Result> RunSteps(const layers::LayerGraph& graph, const Plan& plan, const LowerOptions& options,
                                       const BackendMaker& make_backend, const Batch& batch, const Tensors* parameters,
                                       Random& random, bool exact, int steps, Tensors* drawn) {
  absl::StatusOr<std::unique_ptr<engine::Backend>> backend = make_backend(plan.mesh.device_count());
  if (!backend.ok()) return backend.status();
  auto run = PlannedRun::Create(graph, plan, options, *std::move(backend));
  if (!run.ok()) return run.status();
  if (parameters == nullptr) {
    *drawn = exact ? DrawExactParameters(random, (*run)->program) : DrawParameters(random, (*run)->program);
    parameters = drawn;
  }
  if (absl::Status s = (*run)->SetParameters(*parameters); !s.ok()) return s;
  Result result;
  for (int step = 0; step < steps; ++step) {
    const engine::StepInputs inputs{.learning_rate = 1.0 / 64, .step = static_cast<uint64_t>(step), .seed = 7};
    engine::Executor& executor = *(*run)->executor;
    absl::StatusOr<engine::ScoredStep> r = options.pixels.has_value()
                                               ? engine::RunStepOnPixels(executor, batch.pixels, batch.labels, inputs)
                                               : engine::RunStep(executor, batch.images, batch.labels, inputs);
    if (!r.ok()) return r.status();
    result.losses.push_back(r->loss);
    result.hits.push_back({r->top1_hits, r->top5_hits});
    EXPECT_EQ(r->labels, std::count_if(batch.labels.begin(), batch.labels.end(), [](int32_t label) { return label >= 0; }));
    if (step > 0) continue;
    absl::StatusOr<Tensors> gradients = (*run)->Gradients();
    if (!gradients.ok()) return gradients.status();
    result.gradients = *std::move(gradients);
  }
  absl::StatusOr<Tensors> values = (*run)->Parameters();
  if (!values.ok()) return values.status();
  result.parameters = *std::move(values);
  return result;
}

struct Drawn {
  RandomNetwork network;
  Plan plan;
  int64_t batch;
};

inline Drawn DrawCase(Random& random, bool exact, Tries* tries = nullptr, bool normalised = false) {
  for (;;) {
    absl::StatusOr<RandomNetwork> network = NetworkDrawer(random, exact, normalised).Draw();
    EXPECT_TRUE(network.ok()) << network.status();
    if (!network.ok()) std::abort();
    const std::vector<int64_t> sizes = {1, 2, 3, 4, 4};
    const int64_t outer = Pick(random, sizes), inner = Pick(random, sizes);
    if (outer * inner == 1) continue;
    int64_t batch = outer * inner * (1 + static_cast<int64_t>(random() % 2));
    for (const layers::LayerNode& node : network->graph.nodes) {
      const int64_t group = layers::TraitsOf(node.layer).samples_per_group;
      if (group > 0 && batch % group != 0) batch *= group;
    }
    Plan plan = DrawPlan(random, network->graph, outer, inner, batch, tries);
    batch *= DrawParts(random, plan);
    return {*std::move(network), std::move(plan), batch};
  }
}

inline std::string Describe(const Drawn& drawn, int index) {
  return absl::StrCat("case ", index, ": batch ", drawn.batch, " ", PlanToJson(drawn.plan));
}

}  // namespace colonnade::partition

#endif  // COLONNADE_TESTS_PARTITION_RANDOM_RUN_H_
