// Fine-tuning: a network learns the ten digits, and its weights are saved. Another, for two classes, begins with them under
// a new last layer, which alone learns to tell even digits from odd ones, at a learning rate by a function of one's own.
//
// The weights may be those of any safetensors file in torchvision's names that fits the network but for its last layer.

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "cpu/backend.h"
#include "data/formats.h"
#include "data/pipeline.h"
#include "engine/executor.h"
#include "engine/io/safetensors.h"
#include "engine/io/weights.h"
#include "engine/state.h"
#include "engine/trainer.h"
#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/named_plans.h"

using namespace colonnade;  // NOLINT: an example

constexpr int kDevices = 2;
constexpr int64_t kBatch = 32;
constexpr char kWeights[] = "fine_tuning.safetensors";

absl::StatusOr<layers::LayerGraph> Network(int64_t classes) {
  layers::GraphBuilder net("digits");
  auto x = net.Input("images", {1, 8, 8});
  x = net.Relu("relu1", net.Conv2d("conv1", x, {.out_channels = 32, .kernel = 3, .pad = 1}));
  x = net.MaxPool("pool1", x, {.kernel = 2});
  x = net.Relu("relu2", net.Conv2d("conv2", x, {.out_channels = 64, .kernel = 3, .pad = 1}));
  x = net.FullyConnected("fc3", net.Flatten("flatten", x), {.out_features = classes});
  net.SoftmaxCrossEntropy("loss", x);
  return std::move(net).Build();
}

// The digits, of which each is even (0) or odd (1).
class Parity : public engine::DataSource {
 public:
  explicit Parity(std::unique_ptr<data::Pipeline> digits) : digits_(std::move(digits)) {}

  std::string description() const override { return "parity of " + digits_->description(); }
  int64_t size() const override { return digits_->size(); }
  const program::Shape& sample_shape() const override { return digits_->sample_shape(); }
  int64_t classes() const override { return 2; }
  const program::PixelScaling& scaling() const override { return digits_->scaling(); }
  absl::Status Read(int64_t position, absl::Span<uint8_t> images, absl::Span<int32_t> labels) override {
    RETURN_IF_ERROR(digits_->Read(position, images, labels));
    for (int32_t& label : labels) label = label < 0 ? label : label % 2;  // padding stays what it is
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<data::Pipeline> digits_;
};

absl::StatusOr<std::unique_ptr<data::Pipeline>> OpenDigits(data::SplitOf split, const data::PipelineOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<data::SampleSet> set, data::OpenSamples("digits", split, {}));
  return data::Pipeline::Create(std::move(set), options);
}

absl::Status LearnDigits(engine::DataSource& digits) {
  ASSIGN_OR_RETURN(layers::LayerGraph graph, Network(/*classes=*/10));
  ASSIGN_OR_RETURN(partition::Plan plan, partition::NamedPlan("data", graph, {.devices = kDevices, .global_batch = kBatch}));
  ASSIGN_OR_RETURN(program::Program program,
                   partition::Lower(graph, plan, {.global_batch = kBatch, .pixels = digits.scaling()}));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> devices, cpu::MakeCpuBackend({.devices = kDevices}));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> executor, engine::Executor::Create(program, *devices));
  RETURN_IF_ERROR(engine::InitializeParameters(executor->loaded(), /*seed=*/1));
  ASSIGN_OR_RETURN(engine::TrainReport report,
                   engine::Train(*executor, digits, {.steps = 200, .learning_rate = {.base = 0.02}}));
  std::printf("ten digits: loss %.3f -> %.3f\n", report.losses.front(), report.losses.back());
  ASSIGN_OR_RETURN(const std::vector<engine::NamedTensor> weights, engine::ReadTensors(executor->loaded()));
  return engine::SaveTensors(kWeights, weights);
}

absl::Status LearnParity(engine::DataSource& train_data, engine::DataSource& test_data) {
  ASSIGN_OR_RETURN(layers::LayerGraph graph, Network(/*classes=*/2));
  const std::set<std::string> heads = graph.Heads();  // fc3
  partition::LowerOptions lower = {.global_batch = kBatch, .pixels = train_data.scaling()};
  for (const layers::LayerNode& layer : graph.nodes) {
    if (!layer.parameters.empty() && !heads.contains(layer.name)) lower.update.frozen_layers.insert(layer.name);
  }
  ASSIGN_OR_RETURN(partition::Plan plan, partition::NamedPlan("data", graph, {.devices = kDevices, .global_batch = kBatch}));
  ASSIGN_OR_RETURN(program::Program train_program, partition::Lower(graph, plan, lower));
  lower.mode = program::Mode::kEval;
  ASSIGN_OR_RETURN(program::Program test_program, partition::Lower(graph, plan, lower));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> devices, cpu::MakeCpuBackend({.devices = kDevices}));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> trainer, engine::Executor::Create(train_program, *devices));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> tester, engine::Executor::Create(test_program, *devices));

  // All layers get initial values; then all but the heads those of the file.
  RETURN_IF_ERROR(engine::InitializeParameters(trainer->loaded(), /*seed=*/2));
  ASSIGN_OR_RETURN(engine::MappedWeights weights, engine::MapWeights(kWeights));
  RETURN_IF_ERROR(engine::WriteState(trainer->loaded(), engine::StateKind::kValue, weights.tensors, heads));
  const auto rate = [](int64_t step) { return 0.02 / (1 + static_cast<double>(step) / 50); };
  ASSIGN_OR_RETURN(engine::TrainReport report,
                   engine::Train(*trainer, train_data, {.steps = 80, .learning_rate = {.function = rate}}));
  ASSIGN_OR_RETURN(engine::EvalReport test, engine::Evaluate(*tester, test_data));
  std::printf("even or odd: loss %.3f -> %.3f, %zu layers frozen, %lld of %lld right\n", report.losses.front(),
              report.losses.back(), lower.update.frozen_layers.size(), static_cast<long long>(test.top1_hits),
              static_cast<long long>(test.count));
  return absl::OkStatus();
}

absl::Status Run() {
  ASSIGN_OR_RETURN(std::unique_ptr<data::Pipeline> digits, OpenDigits(data::SplitOf::kTrain, {}));
  const data::PipelineOptions once = {.shuffle = false, .once = true, .moments = digits->moments()};
  ASSIGN_OR_RETURN(std::unique_ptr<data::Pipeline> tests, OpenDigits(data::SplitOf::kTest, once));
  RETURN_IF_ERROR(LearnDigits(*digits));
  Parity train_data(std::move(digits)), test_data(std::move(tests));
  return LearnParity(train_data, test_data);
}

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
