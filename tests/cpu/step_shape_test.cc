// The shape for speed: no name is looked up inside a step, layouts are converted only where they must be, and primitives are
// made for their device's number of threads. (What a step allocates: allocation_test.cc.)
#include <omp.h>

#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cpu/about.h"
#include "cpu/backend.h"
#include "cpu/ops/instruction_set.h"
#include "cpu/ops/primitive.h"
#include "cpu/ops/row_loops.h"
#include "cpu/threads/announce.h"
#include "engine/classification.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"

namespace colonnade::cpu {
namespace {

using ::testing::IsEmpty;
using ::testing::IsSubsetOf;

program::Program Lowered(const layers::LayerGraph& graph, const std::string& plan, int devices, int64_t batch,
                         program::DType dtype = program::DType::kF32) {
  absl::StatusOr<partition::Plan> named = partition::NamedPlan(plan, graph, {.devices = devices, .global_batch = batch});
  EXPECT_TRUE(named.ok()) << named.status();
  absl::StatusOr<program::Program> program = partition::Lower(graph, *named, {.global_batch = batch, .dtype = dtype});
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

program::Program Lowered(const std::string& model, const models::ModelOptions& options, const std::string& plan, int devices,
                         int64_t batch, program::DType dtype = program::DType::kF32) {
  absl::StatusOr<layers::LayerGraph> graph = models::BuildModel(model, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return Lowered(*graph, plan, devices, batch, dtype);
}

void ForgetNames(program::Program& program) {
  program.model.clear();
  for (program::Buffer& buffer : program.buffers) buffer.name.clear();
  for (program::Task& task : program.tasks) task.provenance.layer.clear();
  for (program::MeshAxis& axis : program.mesh) axis.name.clear();
  for (program::Input& input : program.inputs) input.name.clear();
  for (program::Output& output : program.outputs) output.name.clear(), output.layer.clear();
  for (program::Parameter& parameter : program.parameters) parameter.name.clear(), parameter.layer.clear();
}

// By "layer task: what".
std::set<std::string> AddedReorders(const program::Program& program, int devices) {
  auto backend = MakeCpuBackend({.devices = devices, .threads_per_device = 1});
  EXPECT_TRUE(backend.ok()) << backend.status();
  auto executor = engine::Executor::Create(program, **backend);
  EXPECT_TRUE(executor.ok()) << executor.status();
  std::set<std::string> reorders;
  for (const engine::AddedReorder& reorder : (*executor)->loaded().added_reorders()) {
    const program::Task& task = program.task(reorder.task);
    reorders.insert(absl::StrCat(task.provenance.layer, " ", program::Name(task), ": ", reorder.description));
  }
  return reorders;
}

std::vector<double> Losses(program::Program program, const CpuOptions& options, bool with_names = true) {
  auto backend = MakeCpuBackend(options);
  EXPECT_TRUE(backend.ok()) << backend.status();
  auto executor = engine::Executor::Create(program, **backend);
  EXPECT_TRUE(executor.ok()) << executor.status();
  EXPECT_TRUE(engine::InitializeParameters((*executor)->loaded(), 1).ok());
  const auto images = *(*executor)->FindInput<float>(engine::kImages);
  const auto labels = *(*executor)->FindInput<int32_t>(engine::kLabels);
  if (!with_names) ForgetNames(program);
  std::vector<double> losses;
  for (uint64_t step = 0; step < 4; ++step) {
    const absl::Span<float> pixels = *(*executor)->NextInput(images);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 17) / 17;
    const absl::Span<int32_t> classes = *(*executor)->NextInput(labels);
    for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int32_t>(i % 10);
    EXPECT_TRUE((*executor)->Enqueue({.learning_rate = 0.05, .step = step}).ok());
    const auto result = engine::CollectScored(**executor);
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->not_finite, "");
    losses.push_back(result->loss);
  }
  return losses;
}

TEST(StepShape, AStepReadsNoNames) {
  const program::Program program = Lowered("two_column", {.width = 0.5}, "hybrid", 4, 16);
  const CpuOptions options = {.devices = 4, .threads_per_device = 1};
  const std::vector<double> losses = Losses(program, options);
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_EQ(losses, Losses(program, options, /*with_names=*/false));
}

// Images of 16 channels lie in rows behind a convolution by rows, and so in all layers up to the next convolution.
TEST(StepShape, EveryLayerOfImagesRunsInRows) {
  layers::GraphBuilder builder("rows");
  layers::LayerId x = builder.Input("images", {12, 24, 24});
  x = builder.Conv2d("conv", x, {.out_channels = 16, .kernel = 3, .pad = 1});
  x = builder.Relu("relu", builder.BatchNorm("batch_norm", x));
  x = builder.AvgPool("avg_pool", builder.Lrn("lrn", x, {.alpha = 1}), {.kernel = 3, .stride = 1, .pad = 1});
  const layers::LayerId branch = builder.Gelu("gelu", builder.LayerNorm("layer_norm", x));
  x = builder.MaxPool("max_pool", builder.Add("add", {x, branch}), {});
  x = builder.Dropout("dropout", x, {.rate = 0.25});
  x = builder.FullyConnected("fc", builder.Flatten("flatten", x), {.out_features = 10});
  builder.SoftmaxCrossEntropy("loss", x);
  const absl::StatusOr<layers::LayerGraph> graph = std::move(builder).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  const program::Program program = Lowered(*graph, "single", 1, 8);
  if (FindRowLoops() != nullptr) {
    EXPECT_THAT(AddedReorders(program, 1), IsEmpty());
  }
  const std::vector<double> reference =
      Losses(program, {.threads_per_device = 1, .kernels = CpuOptions::Kernels::kReference});
  for (const int threads : {1, 2}) {
    const std::vector<double> losses = Losses(program, {.threads_per_device = threads});
    for (size_t step = 0; step < losses.size(); ++step) EXPECT_NEAR(losses[step], reference[step], 1e-4) << step;
  }
}

std::set<std::string> AddedReorders(const std::string& model, const std::string& plan, int devices,
                                    program::DType dtype = program::DType::kF32, int64_t input_size = 67) {
  return AddedReorders(Lowered(model, {.input_size = input_size, .classes = 32}, plan, devices, 16, dtype), devices);
}

// Images of 16 channels could lie blocked. Those of a pooling lie alike, on whichever side there is more to do.
TEST(StepShape, PoolingsBetweenUnlikeConvolutionsConvertNothing) {
  for (const int64_t outputs_behind : {8, 256}) {
    layers::GraphBuilder builder("unlike");
    layers::LayerId x = builder.Input("images", {12, 24, 24});
    const auto conv = [&](const char* name, int64_t outputs) {
      x = builder.Conv2d(name, x, {.out_channels = outputs, .kernel = 3, .pad = 1});
    };
    conv("by_rows", 16);
    x = builder.MaxPool("pool", x, {});
    conv("in_blocks", 16);
    conv("behind", outputs_behind);
    x = builder.FullyConnected("fc", builder.Flatten("flatten", x), {.out_features = 10});
    builder.SoftmaxCrossEntropy("loss", x);
    const absl::StatusOr<layers::LayerGraph> graph = std::move(builder).Build();
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (const std::string& reorder : AddedReorders(Lowered(*graph, "single", 1, 8), 1)) {
      EXPECT_FALSE(absl::StartsWith(reorder, "pool ")) << reorder << ", with " << outputs_behind;
    }
  }
}

// Where channels fill oneDNN's blocks, only the weights of convolutions, whose backward-data kernels want another order.
TEST(StepShape, OnlyWeightsAreConvertedAndOnlyForBackwardData) {
  if (!HasAvx512()) {
    GTEST_SKIP() << "no AVX-512 here: oneDNN's kernels take channels in blocks of 8, tensors lie in blocks of 16";
  }
  size_t converted = 0;
  for (const auto& [plan, devices] : {std::pair{"single", 1}, {"data", 2}, {"model", 2}, {"owt", 2}}) {
    const std::string what = " conv_backward_data: weights to the layout of the kernel";
    std::set<std::string> needed;
    for (const char* layer : {"conv2", "conv3", "conv4", "conv5"}) needed.insert(layer + what);
    const std::set<std::string> added = AddedReorders("alexnet2012", plan, devices);
    EXPECT_THAT(added, IsSubsetOf(needed)) << plan;
    converted += added.size();
  }
  EXPECT_GT(converted, 0u);  // added reorders are reported
}

// LeNet's images have 1, 6 and 16 channels: all lie in rows, those of 16 too, and conv5 multiplies them as they are.
TEST(StepShape, NothingOfLenetIsConverted) {
  if (FindRowLoops() == nullptr) GTEST_SKIP() << "no AVX2 with FMA here: convolutions run on oneDNN";
  for (const auto& [plan, devices] : {std::pair{"single", 1}, {"data", 2}, {"model", 2}, {"owt", 2}}) {
    EXPECT_THAT(AddedReorders("lenet", plan, devices, program::DType::kF32, 28), IsEmpty()) << plan;
  }
}

TEST(StepShape, InBf16NothingWorksOnCopiesInF32WhereOneDnnMultipliesInBf16) {
  std::set<std::string> on_copies;  // names of tasks
  for (const std::string& reorder : AddedReorders("alexnet2012", "model", 2, program::DType::kBF16)) {
    const std::vector<std::string> words = absl::StrSplit(reorder, absl::ByAnyChar(" :"));
    if (absl::EndsWith(reorder, "bf16 for a kernel of f32")) on_copies.insert(words[1]);
  }
  std::set<std::string> expected;
  if (Bf16Products() == "in fp32") {
    expected.insert({"conv_forward", "conv_backward_data", "conv_backward_weights", "fully_connected_forward",
                     "fully_connected_backward_data", "fully_connected_backward_weights"});
  }
  EXPECT_EQ(on_copies, expected) << Bf16Products();
}

TEST(StepShape, TwoModelsOnOneBackendAreRefusedByTheNameThatTheyShare) {
  const program::Program one = Lowered("two_column", {}, "single", 1, 16), other = Lowered("lenet", {}, "single", 1, 16);
  auto backend = MakeCpuBackend({.devices = 1, .threads_per_device = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto loaded = engine::Executor::Create(one, **backend);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const absl::Status refused = engine::Executor::Create(other, **backend).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("another Program on this backend holds"));
}

TEST(StepShape, PrimitivesAreMadeForTheThreadsOfTheirDevice) {
  const program::Program program = Lowered("two_column", {}, "single", 1, 16);
  const MemoryDesc plain({4, 32}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
  const MemoryDesc turned({4, 32}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ba);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const auto make = [&](int threads) {
    TaskContext context{.program = program,
                        .task = program.tasks[0],
                        .operands = {},
                        .threads = threads,
                        .engine = engine,
                        .stream = dnnl::stream(engine)};
    PrimitiveKernel(context).SetReorder(0, plain, 1, turned);
  };
  EXPECT_NO_THROW(make(omp_get_max_threads()));
  EXPECT_THROW(make(omp_get_max_threads() + 1), std::logic_error);
  if (kThreadSanitizer) return;  // devices of one thread only
  for (int threads : {1, 2, 3}) {
    auto backend = MakeCpuBackend({.devices = 1, .threads_per_device = threads});
    ASSERT_TRUE(backend.ok()) << backend.status();
    auto executor = engine::Executor::Create(program, **backend);
    EXPECT_TRUE(executor.ok()) << executor.status();
  }
}

}  // namespace
}  // namespace colonnade::cpu
