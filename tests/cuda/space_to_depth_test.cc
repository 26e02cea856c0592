#include "cuda/load/space_to_depth.h"

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/backend.h"
#include "cuda/load/layout.h"
#include "engine/classification.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "run_kernel.h"

namespace colonnade::cuda {
namespace {

using program::BFloat16;
using program::DType;
using program::Shape;
using program::Window;

struct FoldCase {
  Window window;
  int64_t channels, height, width;
};
const FoldCase kFoldCases[] = {
    {{11, 11, 4, 4, 2, 2, 2, 2}, 3, 39, 39},
    {{11, 11, 4, 4}, 3, 43, 35},
    {{7, 7, 2, 2, 3, 3, 3, 3}, 3, 16, 20},
    {{5, 5, 1, 1, 2, 2, 2, 2}, 1, 12, 12},
    {{3, 3, 1, 1}, 3, 8, 9},
    {{3, 2, 3, 2, 1, 0, 1, 0}, 5, 13, 12},
    {{2, 2, 3, 3}, 3, 11, 14},
    {{1, 1, 1, 1}, 4, 5, 5},
    {{5, 5, 4, 4, 1, 2, 3, 0}, 3, 18, 21},
    {{3, 3, 2, 2, 0, 1, 2, 0}, 3, 9, 10},
    {{3, 3, 4, 4}, 3, 10, 14},  // the last three rows and columns are in no window
};

Shape OutputOf(const FoldCase& c, int64_t n, int64_t k) {
  const Window& w = c.window;
  return {n, k, (c.height + w.pad_top + w.pad_bottom - w.size_h) / w.stride_h + 1,
          (c.width + w.pad_left + w.pad_right - w.size_w) / w.stride_w + 1};
}

std::string Text(const FoldCase& c) {
  return absl::StrCat(c.channels, "x", c.height, "x", c.width, " window ", c.window.size_h, "x", c.window.size_w, " stride ",
                      c.window.stride_h, "x", c.window.stride_w);
}

// Numbers that bf16 holds, no two neighbours alike.
float NumberAt(int64_t i) { return static_cast<float>(i * 37 % 251 - 125); }

template <class T>
struct Vectors {
  explicit Vectors(int64_t elements) : vectors((elements + kLanesOf<T> - 1) / kLanesOf<T>) {}
  T* data() { return vectors[0].of; }
  char* bytes() { return reinterpret_cast<char*>(data()); }
  std::vector<Vector<T, kLanesOf<T>>> vectors;
};

// Every element comes to its own place, everything else becomes zero, and all of it comes back.
template <class T>
void FoldAndUnfold(const View& plain, const SpaceToDepth& fold) {
  const int64_t count = program::ElementCount(plain.shape), room = plain.shape[0] * fold.elements();
  Vectors<T> x(count), folded(room);
  for (int64_t i = 0; i < count; ++i) x.data()[i] = static_cast<T>(NumberAt(i));
  std::fill_n(folded.data(), room, static_cast<T>(NAN));  // what others left there
  const View view = FoldedView(plain.dtype, plain.shape, fold);
  const Shape last = {plain.shape[0] - 1, plain.shape[1] - 1, plain.shape[2] - 1, plain.shape[3] - 1};
  ASSERT_LT(OffsetOf(view, last), room);
  RunKernelOnHost(std::get<Kernel>(*FoldCall({plain, x.bytes()}, {view, folded.bytes()})));
  std::set<int64_t> used;
  Shape index(4, 0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = OffsetOf(view, index);
    EXPECT_TRUE(used.insert(at).second);
    EXPECT_EQ(static_cast<float>(folded.data()[at]), static_cast<float>(x.data()[OffsetOf(plain, index)]));
    for (int d = 3; d >= 0 && ++index[d] == plain.shape[d]; --d) index[d] = 0;
  }
  for (int64_t i = 0; i < room; ++i) {
    if (used.contains(i)) continue;
    EXPECT_EQ(static_cast<float>(folded.data()[i]), 0.0f) << i;
  }
  Vectors<float> back(count);
  const View target = Natural(DType::kF32, plain.shape);
  RunKernelOnHost(std::get<Kernel>(*UnfoldCall({view, folded.bytes()}, {target, back.bytes()})));
  index.assign(4, 0);
  for (int64_t i = 0; i < count; ++i) {
    EXPECT_EQ(back.data()[OffsetOf(target, index)], static_cast<float>(x.data()[OffsetOf(plain, index)]));
    for (int d = 3; d >= 0 && ++index[d] == plain.shape[d]; --d) index[d] = 0;
  }
}

TEST(SpaceToDepth, EveryElementHasItsPlaceAndAllElseIsZero) {
  for (const FoldCase& c : kFoldCases) {
    SCOPED_TRACE(Text(c));
    const Shape x = {2, c.channels, c.height, c.width}, y = OutputOf(c, 2, 6),
                filters = {6, c.channels, c.window.size_h, c.window.size_w};
    const auto fold = FoldOfImages(c.window, x, y, DType::kBF16, Precision::kF32);
    ASSERT_TRUE(fold.has_value());
    EXPECT_EQ(fold->channels % 8, 0);
    FoldAndUnfold<BFloat16>(RowMajor(DType::kBF16, x), *fold);
    FoldAndUnfold<BFloat16>(Natural(DType::kBF16, filters), FoldOfFilters(c.window, *fold));
    const auto fold_f32 = FoldOfImages(c.window, x, y, DType::kF32, Precision::kTf32);
    if (fold_f32.has_value()) FoldAndUnfold<float>(RowMajor(DType::kF32, x), *fold_f32);
  }
}

// y of a convolution of channels-last tensors, in double.
std::vector<double> Convolve(const Window& window, const Shape& x_shape, const float* x, const Shape& f_shape,
                             const float* f, const Shape& y_shape) {
  std::vector<double> y(program::ElementCount(y_shape));
  const View xs = Natural(DType::kF32, x_shape), fs = Natural(DType::kF32, f_shape), ys = Natural(DType::kF32, y_shape);
  for (int64_t n = 0; n < y_shape[0]; ++n) {
    for (int64_t k = 0; k < y_shape[1]; ++k) {
      for (int64_t p = 0; p < y_shape[2]; ++p) {
        for (int64_t q = 0; q < y_shape[3]; ++q) {
          double sum = 0;
          for (int64_t r = 0; r < f_shape[2]; ++r) {
            for (int64_t s = 0; s < f_shape[3]; ++s) {
              const int64_t h = p * window.stride_h + r - window.pad_top, w = q * window.stride_w + s - window.pad_left;
              if (h < 0 || w < 0 || h >= x_shape[2] || w >= x_shape[3]) continue;
              for (int64_t c = 0; c < x_shape[1]; ++c) {
                sum += double{x[OffsetOf(xs, {n, c, h, w})]} * f[OffsetOf(fs, {k, c, r, s})];
              }
            }
          }
          y[OffsetOf(ys, {n, k, p, q})] = sum;
        }
      }
    }
  }
  return y;
}

TEST(SpaceToDepth, FoldedConvolutionsComputeTheSame) {
  int folded_cases = 0;
  for (const FoldCase& c : kFoldCases) {
    SCOPED_TRACE(Text(c));
    const Shape x_shape = {2, c.channels, c.height, c.width}, y_shape = OutputOf(c, 2, 3),
                f_shape = {3, c.channels, c.window.size_h, c.window.size_w};
    Vectors<float> x(program::ElementCount(x_shape)), f(program::ElementCount(f_shape));
    for (int64_t i = 0; i < program::ElementCount(x_shape); ++i) x.data()[i] = NumberAt(i);
    for (int64_t i = 0; i < program::ElementCount(f_shape); ++i) f.data()[i] = NumberAt(5 * i + 1);
    const auto expected = Convolve(c.window, x_shape, x.data(), f_shape, f.data(), y_shape);
    // The folding is that of bf16, which folds every case; the test computes in f32, so that sums are exact.
    const auto fold = FoldOfImages(c.window, x_shape, y_shape, DType::kBF16, Precision::kF32);
    ASSERT_TRUE(fold.has_value());
    const SpaceToDepth filters = FoldOfFilters(c.window, *fold);
    Vectors<float> folded_x(x_shape[0] * fold->elements()), folded_f(f_shape[0] * filters.elements());
    RunKernelOnHost(std::get<Kernel>(
        *FoldCall({Natural(DType::kF32, x_shape), x.bytes()}, {FoldedView(DType::kF32, x_shape, *fold), folded_x.bytes()})));
    RunKernelOnHost(std::get<Kernel>(*FoldCall({Natural(DType::kF32, f_shape), f.bytes()},
                                               {FoldedView(DType::kF32, f_shape, filters), folded_f.bytes()})));
    EXPECT_EQ(
        Convolve(FoldedWindow(c.window, *fold), {x_shape[0], fold->channels, fold->rows, fold->columns}, folded_x.data(),
                 {f_shape[0], filters.channels, filters.rows, filters.columns}, folded_f.data(), y_shape),
        expected);
    folded_cases += fold->block_h * fold->block_w > 1;
  }
  EXPECT_GE(folded_cases, 3);
}

TEST(SpaceToDepth, WhereItGainsNothingImagesStay) {
  const Window window = {11, 11, 4, 4, 2, 2, 2, 2};
  const Shape x = {256, 3, 224, 224}, y = {256, 64, 55, 55};
  const auto tf32 = FoldOfImages(window, x, y, DType::kF32, Precision::kTf32),
             bf16 = FoldOfImages(window, x, y, DType::kBF16, Precision::kF32);
  const SpaceToDepth blocks = {
      .block_h = 4, .block_w = 4, .pad_h = 2, .pad_w = 2, .rows = 57, .columns = 57, .channels = 48};
  EXPECT_EQ(tf32, blocks);
  EXPECT_EQ(bf16, blocks);
  EXPECT_EQ(FoldedWindow(window, blocks), (Window{.size_h = 3, .size_w = 3}));
  EXPECT_FALSE(FoldOfImages(window, x, y, DType::kF32, Precision::kF32).has_value()) << "no tensor cores";
  EXPECT_FALSE(
      FoldOfImages({3, 3, 1, 1, 1, 1, 1, 1}, {8, 64, 9, 9}, {8, 64, 9, 9}, DType::kBF16, Precision::kF32).has_value());
  EXPECT_FALSE(
      FoldOfImages({3, 3, 1, 1, 1, 1, 1, 1}, {8, 3, 9, 9}, {8, 64, 9, 9}, DType::kF32, Precision::kTf32).has_value());
  EXPECT_FALSE(FoldOfImages({5, 5, 4, 4}, {8, 3, 9, 9}, {8, 64, 2, 2}, DType::kF32, Precision::kTf32).has_value())
      << "filters of 5 x 5 would be 8 x 8";
}

// Notes the convolutions that run.
class ConvolutionCalls : public HostCalls {
 public:
  explicit ConvolutionCalls(std::vector<Convolution>& seen) : HostCalls({.has_memory = false}), seen_(seen) {}
  absl::Status Enqueue(const Stream& stream, const Call& call) override {
    if (const auto* convolution = std::get_if<Convolution>(&call)) seen_.push_back(*convolution);
    return HostCalls::Enqueue(stream, call);
  }

 private:
  std::vector<Convolution>& seen_;
};

// The convolutions of a step.
std::vector<Convolution> StepOf(const layers::LayerGraph& graph, const partition::Plan& plan, DType dtype,
                                Precision precision) {
  std::vector<Convolution> seen;
  const auto program = partition::Lower(graph, plan, {.global_batch = 4, .dtype = dtype});
  EXPECT_TRUE(program.ok()) << program.status();
  auto backend = MakeCudaBackend({.devices = plan.mesh.device_count(), .precision = precision},
                                 std::make_unique<ConvolutionCalls>(seen));
  EXPECT_TRUE(backend.ok());
  auto executor = engine::Executor::Create(*program, **backend);
  EXPECT_TRUE(executor.ok()) << executor.status();
  EXPECT_TRUE((*executor)->NextInput<float>(engine::kImages).ok());
  EXPECT_TRUE((*executor)->Enqueue({.step = 0}).ok());
  EXPECT_TRUE((*executor)->Collect().ok());
  return seen;
}
std::vector<Convolution> StepOf(const layers::LayerGraph& graph, int devices, DType dtype, Precision precision) {
  const auto plan = partition::NamedPlan(devices > 1 ? "model" : "single", graph, {.devices = devices, .global_batch = 4});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return StepOf(graph, *plan, dtype, precision);
}

TEST(SpaceToDepth, FirstConvolutionsOfTheZooAreFoldedOnTensorCores) {
  const auto graph = models::BuildModel("alexnet2012", {});
  ASSERT_TRUE(graph.ok());
  for (int devices : {1, 2}) {
    for (const auto& [dtype, precision, is_folded] : {std::tuple(DType::kBF16, Precision::kF32, true),
                                                      {DType::kF32, Precision::kTf32, true},
                                                      {DType::kF32, Precision::kF32, false}}) {
      SCOPED_TRACE(absl::StrCat(program::Name(dtype), " ", static_cast<int>(precision), " on ", devices));
      int first = 0;
      for (const Convolution& convolution : StepOf(*graph, devices, dtype, precision)) {
        if (convolution.p != 55) continue;
        ++first;
        EXPECT_EQ(convolution.c, is_folded ? 48 : 3);
        EXPECT_EQ(convolution.window.size_h, is_folded ? 3 : 11);
      }
      EXPECT_EQ(first, 2 * devices) << "forward, and the gradient of weights";
    }
  }
}

// What cannot read them folded wants them as they are.
TEST(SpaceToDepth, ImagesThatOtherConvolutionsReadTooStay) {
  layers::GraphBuilder net("two_readers");
  const auto x = net.Input("images", {3, 16, 16});
  const auto a = net.Conv2d("a", x, {.out_channels = 8, .kernel = 4, .stride = 2});
  const auto b = net.Conv2d("b", x, {.out_channels = 8, .kernel = 3, .stride = 1});
  auto logits = net.Add("add", {net.FullyConnected("fc_a", net.Flatten("flatten_a", a), {.out_features = 4}),
                                net.FullyConnected("fc_b", net.Flatten("flatten_b", b), {.out_features = 4})});
  net.SoftmaxCrossEntropy("loss", logits);
  const auto graph = std::move(net).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  int first = 0;
  for (const Convolution& convolution : StepOf(*graph, 1, DType::kBF16, Precision::kF32)) {
    ++first;
    EXPECT_EQ(convolution.c, 3);
  }
  EXPECT_EQ(first, 4);
}

// Factors of summands in f32 may be widened, which folded images are not.
TEST(SpaceToDepth, ImagesOfWhichSummandsAreMadeStay) {
  using enum layers::Strategy;
  layers::GraphBuilder net("rows");
  const auto x = net.Conv2d("conv", net.Input("images", {3, 16, 16}), {.out_channels = 8, .kernel = 4, .stride = 2});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  const auto graph = std::move(net).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  partition::Plan plan{.name = "rows", .mesh = partition::Mesh::ReplicasByColumns(1, 3)};
  for (const char* layer : {"flatten", "fc", "loss"}) plan.layers[layer] = {kReplicate, kReplicate};
  plan.layers["conv"] = {kReplicate, kRow};
  int first = 0, summands = 0;
  for (const Convolution& convolution : StepOf(*graph, plan, DType::kBF16, Precision::kF32)) {
    ++first;
    summands += convolution.writes_f32;
    EXPECT_EQ(convolution.c, 1);
  }
  EXPECT_EQ(first, 6);
  EXPECT_EQ(summands, 3) << "forward";
}

// Losses of three steps on images whose values bf16 holds exactly, given as such or as bytes.
std::vector<double> LossesOn(const layers::LayerGraph& graph, bool as_bytes) {
  constexpr int64_t kBatch = 4;
  const auto plan = partition::NamedPlan("single", graph, {.devices = 1, .global_batch = kBatch});
  EXPECT_TRUE(plan.ok()) << plan.status();
  partition::LowerOptions options{.global_batch = kBatch, .dtype = DType::kBF16};
  if (as_bytes) options.pixels = program::PixelScaling{{1.0 / 128, 1.0 / 64, 1.0 / 128}, {-1, 0, 0}};
  const auto program = partition::Lower(graph, *plan, options);
  EXPECT_TRUE(program.ok()) << program.status();
  auto backend = MakeCudaBackend({.devices = 1}, std::make_unique<HostCalls>(HostCallsOptions{}));
  auto executor = engine::Executor::Create(*program, **backend);
  EXPECT_TRUE(executor.ok()) << executor.status();
  EXPECT_TRUE(engine::InitializeParameters((*executor)->loaded(), 1).ok());
  const program::Shape& sample = graph.nodes[0].sample_shape;
  const int64_t plane = sample[1] * sample[2];
  std::vector<double> losses;
  for (uint64_t step = 0; step < 3; ++step) {
    std::vector<uint8_t> bytes(kBatch * plane * 3);
    std::vector<float> values(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<uint8_t>(i * 37 + step * 11);
      const int64_t c = static_cast<int64_t>(i) % 3, at = static_cast<int64_t>(i) / 3;
      const float scale[] = {1.0f / 128, 1.0f / 64, 1.0f / 128}, shift[] = {-1, 0, 0};
      values[(at / plane * 3 + c) * plane + at % plane] = scale[c] * bytes[i] + shift[c];
    }
    const std::vector<int32_t> labels = {0, 1, 2, 0};
    const engine::StepInputs inputs{.learning_rate = 0.01, .step = step};
    const auto result = as_bytes ? engine::RunStepOnPixels(*(*executor), bytes, labels, inputs)
                                 : engine::RunStep(*(*executor), values, labels, inputs);
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) losses.push_back(result->loss);
  }
  return losses;
}

// Where the first convolution is folded, bytes are scaled as they are put in blocks; elsewhere as they are put in place.
TEST(SpaceToDepth, BytesOfImagesGiveTheLossesOfTheirValues) {
  for (bool is_folded : {true, false}) {
    layers::GraphBuilder net("bytes");
    auto x = net.Input("images", {3, 16, 16});
    if (!is_folded) x = net.MaxPool("pool", x, {.kernel = 2, .stride = 2});
    x = net.Conv2d("conv", x, {.out_channels = 8, .kernel = 7, .stride = 2, .pad = 3});
    net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flat", net.Relu("relu", x)), {.out_features = 3}));
    const auto graph = std::move(net).Build();
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(StepOf(*graph, 1, DType::kBF16, Precision::kF32)[0].c > 3, is_folded);
    EXPECT_EQ(LossesOn(*graph, true), LossesOn(*graph, false));
  }
}

}  // namespace
}  // namespace colonnade::cuda
