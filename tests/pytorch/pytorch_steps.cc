// A few steps of training under a plan, on weights and batches from files; agree.py compares what comes of them with
// PyTorch.
//
// --out gets `losses`, the `logits` of the first batch before the first update, those that evaluation finds of it with the
// same weights, and after the last update the running statistics and by how much each parameter has changed. Without
// --weights it gets those that the network begins with.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/command_line.h"
#include "cpu/backend.h"
#include "engine/classification.h"
#include "engine/executor.h"
#include "engine/io/safetensors.h"
#include "engine/io/weights.h"
#include "engine/state.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/engine/load_weights.h"

namespace {

using namespace colonnade;

using engine::NamedTensor;
using Tensors = std::vector<NamedTensor>;

struct Options {
  std::string model, plan = "single", weights, batches, out;
  models::ModelOptions network{.dropout = false};
  partition::LowerOptions lower;
  std::string optimizer = "krizhevsky";
  program::Sgd sgd;
  int devices = 1;
  int64_t steps = 3;
  double learning_rate = 0.01;
  bool reference = false;
};

absl::StatusOr<const NamedTensor*> Find(const Tensors& tensors, const std::string& name) {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return absl::InvalidArgumentError(absl::StrCat("expected a tensor \"", name, "\", found none"));
}

// A Program on devices of its own, whose logits can be read after a step.
class Network {
 public:
  static absl::StatusOr<std::unique_ptr<Network>> Create(const Options& options, program::Mode mode) {
    auto network = std::make_unique<Network>();
    ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel(options.model, options.network));
    ASSIGN_OR_RETURN(partition::Plan plan,
                     partition::NamedPlan(options.plan, graph,
                                          {.devices = options.devices,
                                           .global_batch = options.lower.global_batch / options.lower.micro_batches}));
    partition::LowerOptions lower = options.lower;
    lower.mode = mode;
    if (mode == program::Mode::kEval) lower.micro_batches = 1;
    network->logits_ = graph.logits().name;
    network->classes_ = graph.classes();
    lower.shown_layers = {network->logits_};
    ASSIGN_OR_RETURN(network->program_, partition::Lower(graph, plan, lower));
    const auto kernels = options.reference ? cpu::CpuOptions::Kernels::kReference : cpu::CpuOptions::Kernels::kOneDnn;
    ASSIGN_OR_RETURN(network->devices_, cpu::MakeCpuBackend({.devices = options.devices, .kernels = kernels}));
    ASSIGN_OR_RETURN(network->executor_, engine::Executor::Create(network->program_, *network->devices_));
    return network;
  }

  const program::Program& program() const { return program_; }
  engine::LoadedProgram& loaded() { return executor_->loaded(); }

  // One step on the tensors `images<step>` and `labels<step>`.
  absl::StatusOr<engine::ScoredStep> Run(const Tensors& batches, int64_t step, double learning_rate) {
    ASSIGN_OR_RETURN(const NamedTensor* images, Find(batches, absl::StrCat("images", step)));
    ASSIGN_OR_RETURN(const NamedTensor* labels, Find(batches, absl::StrCat("labels", step)));
    return engine::RunStep(*executor_, std::vector<float>(images->values.begin(), images->values.end()),
                           std::vector<int32_t>(labels->values.begin(), labels->values.end()),
                           {.learning_rate = learning_rate, .step = static_cast<uint64_t>(step)});
  }

  // [batch, classes], of the latest step.
  absl::StatusOr<NamedTensor> Logits(const std::string& name) const {
    ASSIGN_OR_RETURN(std::vector<double> values, executor_->ReadActivation(logits_));
    return NamedTensor{.name = name, .shape = {program_.global_batch, classes_}, .values = std::move(values)};
  }

 private:
  program::Program program_;
  std::string logits_;  // the layer
  int64_t classes_ = 0;
  std::unique_ptr<engine::Backend> devices_;
  std::unique_ptr<engine::Executor> executor_;
};

// Parameters as their change since `before`; statistics as they are.
Tensors Changes(const program::Program& program, const Tensors& before, Tensors after) {
  for (size_t i = 0; i < after.size(); ++i) {
    if (program.parameters[i].role == program::StateRole::kStatistic) continue;
    std::transform(after[i].values.begin(), after[i].values.end(), before[i].values.begin(), after[i].values.begin(),
                   std::minus<>());
  }
  return after;
}

// What evaluation makes of the first batch.
absl::StatusOr<NamedTensor> Evaluate(const Options& options, const Tensors& parameters, const Tensors& batches) {
  ASSIGN_OR_RETURN(std::unique_ptr<Network> network, Network::Create(options, program::Mode::kEval));
  RETURN_IF_ERROR(engine::WriteTensors(network->loaded(), parameters));
  RETURN_IF_ERROR(network->Run(batches, 0, 0).status());
  return network->Logits("logits of evaluation");
}

absl::StatusOr<Tensors> Train(const Options& options, Network& network) {
  ASSIGN_OR_RETURN(Tensors weights, engine::LoadWeights(options.weights));
  ASSIGN_OR_RETURN(Tensors batches, engine::LoadWeights(options.batches));
  RETURN_IF_ERROR(engine::WriteTensors(network.loaded(), weights));
  ASSIGN_OR_RETURN(Tensors before, engine::ReadTensors(network.loaded()));
  ASSIGN_OR_RETURN(NamedTensor evaluated, Evaluate(options, before, batches));
  Tensors results = {std::move(evaluated)};
  NamedTensor losses{.name = "losses", .shape = {options.steps}};
  for (int64_t step = 0; step < options.steps; ++step) {
    ASSIGN_OR_RETURN(engine::ScoredStep result, network.Run(batches, step, options.learning_rate));
    losses.values.push_back(result.loss);
    if (step > 0) continue;
    ASSIGN_OR_RETURN(NamedTensor logits, network.Logits("logits"));
    results.push_back(std::move(logits));
  }
  results.push_back(std::move(losses));
  ASSIGN_OR_RETURN(Tensors after, engine::ReadTensors(network.loaded()));
  for (NamedTensor& tensor : Changes(network.program(), before, std::move(after))) results.push_back(std::move(tensor));
  ASSIGN_OR_RETURN(Tensors averages, engine::ReadTensors(network.loaded(), engine::StateKind::kAverage));
  for (NamedTensor& tensor : Changes(network.program(), before, std::move(averages))) {
    tensor.name = absl::StrCat("average of ", tensor.name);
    results.push_back(std::move(tensor));
  }
  return results;
}

absl::StatusOr<Tensors> Begin(Network& network) {
  RETURN_IF_ERROR(engine::InitializeParameters(network.loaded(), /*seed=*/1));
  return engine::ReadTensors(network.loaded());
}

program::Optimizer OptimizerOf(const Options& options) {
  if (options.optimizer == "adamw") return program::AdamW{};
  program::Sgd sgd = options.sgd;
  for (program::SgdForm form : program::kSgdForms) {
    if (options.optimizer == program::Name(form)) sgd.form = form;
  }
  return sgd;
}

absl::Status Main(const Options& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Network> network, Network::Create(options, program::Mode::kTrain));
  ASSIGN_OR_RETURN(Tensors results, options.weights.empty() ? Begin(*network) : Train(options, *network));
  return engine::SaveTensors(options.out, results);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a few steps on weights and batches from files", "pytorch_steps");
  app.add_option("--model", options.model)->required();
  app.add_option("--plan", options.plan);
  app.add_option("--devices", options.devices);
  app.add_option("--batch", options.lower.global_batch);
  app.add_option("--input-size", options.network.input_size);
  app.add_option("--classes", options.network.classes);
  app.add_option("--width", options.network.width);
  app.add_flag("--auxiliary-heads", options.network.auxiliary_heads);
  app.add_option("--steps", options.steps);
  app.add_option("--learning-rate", options.learning_rate);
  app.add_option("--optimizer", options.optimizer)->check(CLI::IsMember({"krizhevsky", "pytorch", "nesterov", "adamw"}));
  app.add_option("--clip-norm", options.lower.update.clip_norm);
  app.add_option("--average-decay", options.lower.update.average_decay);
  app.add_option("--micro-batches", options.lower.micro_batches);
  app.add_option("--momentum", options.sgd.momentum);
  app.add_option("--weight-decay", options.lower.update.weight_decay);
  app.add_option("--weights", options.weights, "safetensors file; without it, initial weights are written");
  app.add_option("--batches", options.batches, "safetensors file of images0, labels0, images1, …");
  app.add_option("--out", options.out, "safetensors file to write")->required();
  app.add_flag("--double", options.reference, "all in double, on reference kernels");
  return bench::Run(app, argc, argv, [&] {
    options.lower.update.optimizer = OptimizerOf(options);
    if (options.reference) options.lower.dtype = program::DType::kF64;
    return Main(options);
  });
}
