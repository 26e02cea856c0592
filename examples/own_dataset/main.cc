// A data set of one's own, as an engine::DataSource: pictures that a function draws, so that there is nothing to store.
//
// What has to hold: a position of the stream always gives the same sample, whatever was read before, so that a run does not
// depend on its batches. A test set is read once: what lies behind its end has the label −1, which counts nowhere. (Images
// in memory or in files are a data::SampleSet instead, which data::Pipeline shuffles and augments by threads of its own.)

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "cpu/backend.h"
#include "engine/data_source.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "engine/trainer.h"
#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/named_plans.h"

using namespace colonnade;  // NOLINT: an example

constexpr int kSide = 16, kClasses = 4;

// Grey pictures of 16x16 with noise: lying stripes, upright stripes, a chequerboard or a disc, somewhere.
class Drawings : public engine::DataSource {
 public:
  Drawings(uint32_t seed, int64_t size, bool once) : seed_(seed), size_(size), once_(once) {}

  std::string description() const override { return "drawings, " + std::to_string(size_) + " of them"; }
  int64_t size() const override { return size_; }
  const program::Shape& sample_shape() const override { return shape_; }
  int64_t classes() const override { return kClasses; }
  const program::PixelScaling& scaling() const override { return scaling_; }

  absl::Status Read(int64_t position, absl::Span<uint8_t> images, absl::Span<int32_t> labels) override {
    if (images.size() != labels.size() * kSide * kSide) return absl::InvalidArgumentError("expected room for whole images");
    for (size_t i = 0; i < labels.size(); ++i, ++position) {
      const bool is_padding = once_ && position >= size_;
      labels[i] = is_padding ? -1 : Draw(position % size_, images.subspan(i * kSide * kSide, kSide * kSide));
    }
    return absl::OkStatus();
  }

 private:
  // Draws a sample [H, W, C]; its class.
  int32_t Draw(int64_t sample, absl::Span<uint8_t> pixels) const {
    std::seed_seq seed{seed_, static_cast<uint32_t>(sample)};
    std::mt19937 random(seed);
    const int label = static_cast<int>(sample % kClasses), x0 = static_cast<int>(random() % 8), y0 = random() % 8;
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const bool lying = (y + y0) / 2 % 2 == 0, upright = (x + x0) / 2 % 2 == 0;
        const int dx = x - 4 - x0, dy = y - 4 - y0;
        const bool is_light[kClasses] = {lying, upright, lying != upright, dx * dx + dy * dy < 20};
        pixels[y * kSide + x] = static_cast<uint8_t>((is_light[label] ? 60 : 0) + random() % 196);
      }
    }
    return label;
  }

  const uint32_t seed_;
  const int64_t size_;
  const bool once_;
  const program::Shape shape_ = {1, kSide, kSide};                              // {C, H, W}
  const program::PixelScaling scaling_ = {.scale = {1 / 64.0}, .shift = {-2}};  // what the network reads of a byte
};

absl::Status TrainOnOwnData() {
  layers::GraphBuilder net("drawings");
  auto x = net.Input("images", {1, kSide, kSide});
  x = net.MaxPool("pool1", net.Relu("relu1", net.Conv2d("conv1", x, {.out_channels = 8, .kernel = 3, .pad = 1})),
                  {.kernel = 2});
  x = net.MaxPool("pool2", net.Relu("relu2", net.Conv2d("conv2", x, {.out_channels = 16, .kernel = 3, .pad = 1})),
                  {.kernel = 2});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc3", net.Flatten("flatten", x), {.out_features = kClasses}));
  ASSIGN_OR_RETURN(layers::LayerGraph graph, std::move(net).Build());

  Drawings train_data(/*seed=*/1, 2000, /*once=*/false), test_data(/*seed=*/2, 500, /*once=*/true);
  ASSIGN_OR_RETURN(partition::Plan plan, partition::NamedPlan("data", graph, {.devices = 2, .global_batch = 64}));
  partition::LowerOptions lower = {.global_batch = 64, .pixels = train_data.scaling()};
  ASSIGN_OR_RETURN(program::Program train_program, partition::Lower(graph, plan, lower));
  lower.mode = program::Mode::kEval;
  ASSIGN_OR_RETURN(program::Program test_program, partition::Lower(graph, plan, lower));

  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> devices, cpu::MakeCpuBackend({.devices = 2}));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> trainer, engine::Executor::Create(train_program, *devices));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> tester, engine::Executor::Create(test_program, *devices));
  RETURN_IF_ERROR(engine::InitializeParameters(trainer->loaded(), /*seed=*/1));
  ASSIGN_OR_RETURN(engine::TrainReport report,
                   engine::Train(*trainer, train_data, {.steps = 60, .learning_rate = {.base = 0.01}}));
  ASSIGN_OR_RETURN(engine::EvalReport test, engine::Evaluate(*tester, test_data));
  std::printf("%s: loss %.3f -> %.3f\n", train_data.description().c_str(), report.losses.front(), report.losses.back());
  std::printf("of others, %lld of %lld right\n", static_cast<long long>(test.top1_hits), static_cast<long long>(test.count));
  return absl::OkStatus();
}

int main() {
  const absl::Status status = TrainOnOwnData();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
