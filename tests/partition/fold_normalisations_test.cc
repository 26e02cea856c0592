// FoldNormalisations, and evaluation by random networks: what is folded computes what normalisations compute.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "engine/classification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/named_plans.h"
#include "tests/partition/lowering_case.h"
#include "tests/partition/random_run.h"
#include "tests/sanitized.h"

namespace colonnade::partition {
namespace {

using layers::State;
using program::DType;
using program::Mode;
using ::testing::ElementsAre;

// images [4,6,6] → conv [8,6,6] → norm → relu → flatten → fc → loss
layers::LayerGraph Normalised(bool bias) {
  layers::GraphBuilder net("normalised");
  auto x = net.Conv2d("conv", net.Input("images", {4, 6, 6}), {.out_channels = 8, .kernel = 3, .pad = 1, .bias = bias});
  x = net.Relu("relu", net.BatchNorm("norm", x, {}));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  return Built(std::move(net));
}

// A convolution and a normalisation behind it, in evaluation.
struct FoldCase : LoweringCase {
  FoldCase(layers::LayerGraph network, const std::string& conv, int64_t batch = 8, DType dtype = DType::kF32)
      : LoweringCase(network, PlanOf(network, 1, 2, {kReplicate, kReplicate}),
                     {.mode = Mode::kEval, .global_batch = batch, .dtype = dtype}),
        image{batch, 8, 6, 6},
        y(Put("y", image)),
        z(Put("z", image)),
        r(Put("r", image)),
        weight(Put("weight", {8, 4, 3, 3})),
        w(Put("w", {8})) {
    std::vector<SlotValue> of_conv = {{X(), Add("x", {batch, 4, 6, 6})}, {layers::Parameter(0), weight}, {Y(), y}};
    if (graph.nodes[Node(conv)].parameters.size() > 1) of_conv.push_back({layers::Parameter(1), Add("b", {8})});
    ForwardOf(conv, of_conv);
  }
  explicit FoldCase(bool bias = false, int64_t batch = 8, DType dtype = DType::kF32)
      : FoldCase(Normalised(bias), "conv", batch, dtype) {}

  ValueId Put(const std::string& name, program::Shape shape) { return Add(name, std::move(shape), {kR, kR}); }
  void Normalise() { ForwardOf("norm", {{X(), y}, {layers::Parameter(0), w}, {State(0), Add("mean", {8})}, {Y(), z}}); }
  const program::Shape image;
  ValueId y, z, r, weight, w;
};

TEST(FoldNormalisations, ANormalisationThatAloneReadsAProductBecomesPartOfItsWeightsAndBias) {
  FoldCase without, with(/*bias=*/true);
  for (FoldCase* c : {&without, &with}) {
    c->Normalise();
    ASSERT_TRUE(FoldNormalisations(c->lowering).ok());
  }
  EXPECT_THAT(Actions(without.lowering),
              ElementsAre("forward+weight norm: mean w weight -> norm.folded_weight(R,R) norm.folded_bias(R,R)",
                          "forward+bias conv: x norm.folded_weight(R,R) norm.folded_bias(R,R) -> z(R,R)"));
  EXPECT_THAT(Actions(with.lowering),
              ElementsAre("forward+weight+bias norm: mean w weight b -> norm.folded_weight(R,R) norm.folded_bias(R,R)",
                          "forward conv: x norm.folded_weight(R,R) norm.folded_bias(R,R) -> z(R,R)"));
}

TEST(FoldNormalisations, TheProductTakesOverTheActivation) {
  FoldCase c;
  c.Normalise();
  c.ForwardOf("relu", {{X(), c.z}, {Y(), c.r}});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  ASSERT_TRUE(FoldNormalisations(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("forward+weight norm: mean w weight -> norm.folded_weight(R,R) norm.folded_bias(R,R)",
                          "forward+bias+relu conv: x norm.folded_weight(R,R) norm.folded_bias(R,R) -> r(R,R)"));
}

TEST(FoldNormalisations, AProductThatOthersReadTooOrThatIsCutOffStaysWhole) {
  FoldCase others, cut;
  others.Normalise();
  others.ForwardOf("relu", {{X(), others.y}, {Y(), others.r}});
  std::get<RunStage>(cut.lowering.actions[0].body).epilogue = program::Activation::kRelu;
  cut.Normalise();
  for (FoldCase* c : {&others, &cut}) {
    const std::vector<std::string> before = Actions(c->lowering);
    ASSERT_TRUE(FoldNormalisations(c->lowering).ok());
    EXPECT_EQ(Actions(c->lowering), before);
  }
}

// As an op of its own it costs no more than the sum, which the product would not take.
TEST(FoldNormalisations, ANormalisationThatAddsAValueStaysApart) {
  FoldCase c(Residual(), "conv2");
  c.Normalise();
  c.ForwardOf("add", {{X(0), c.z}, {X(1), c.r}, {Y(), c.Put("a", c.image)}});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  ASSERT_TRUE(FoldNormalisations(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("forward conv2: x weight -> y(R,R)", "forward+addend norm: y mean w r(R,R) -> a(R,R)"));
}

TEST(FoldNormalisations, NothingIsFoldedAcrossATransfer) {
  FoldCase c;
  const ValueId whole = c.Put("whole", c.image);
  c.Act(Reshard{{.axis = 1, .kind = ReshardKind::kAllReduce}}, "norm", program::Pass::kForward, {{c.y, {}}}, {whole});
  c.y = whole;
  c.Normalise();
  const std::vector<std::string> before = Actions(c.lowering);
  ASSERT_TRUE(FoldNormalisations(c.lowering).ok());
  EXPECT_EQ(Actions(c.lowering), before);
}

TEST(FoldNormalisations, WeightsAndNumbersOfChannelsThatLieOtherwiseAreNotFolded) {
  for (const layers::Placement& of_weight : {kR, kS0, kS1}) {
    FoldCase c;
    c.lowering.values[c.weight.value].placement = {kR, of_weight};
    c.lowering.values[c.w.value].placement = {kR, kS0};
    c.Normalise();
    ASSERT_TRUE(FoldNormalisations(c.lowering).ok());
    EXPECT_EQ(c.lowering.actions[0].provenance.layer, of_weight == kS0 ? "norm" : "conv") << layers::ToString(of_weight);
  }
}

// 288 weights; y has 288 elements for each sample.
TEST(FoldNormalisations, MoreWeightsThanElementsAreFoldedWhereTheyAreRoundedAnyway) {
  for (const auto& [dtype, split, folds] : {std::tuple(DType::kF32, kR, true),
                                            {DType::kF32, kS1, false},
                                            {DType::kF64, kS1, false},
                                            {DType::kBF16, kS1, true}}) {
    FoldCase c(false, 1, dtype);
    c.lowering.values[c.y.value].placement = {kR, split};
    c.lowering.values[c.weight.value].placement = c.lowering.values[c.w.value].placement = {kR, kR};
    c.Normalise();
    ASSERT_TRUE(FoldNormalisations(c.lowering).ok());
    EXPECT_EQ(c.lowering.actions[0].provenance.layer, folds ? "norm" : "conv") << program::Name(dtype);
  }
}

TEST(FoldNormalisations, InBf16NoWeightThatIsFoldedIsRounded) {
  FoldCase c(true, 8, DType::kBF16);
  for (size_t v = 0; v < c.lowering.values.size(); ++v) {
    if (ValueId{static_cast<int32_t>(v)} == c.weight) c.lowering.values[v].role = TrainedParameter{0};
  }
  c.Normalise();
  ASSERT_TRUE(FoldNormalisations(c.lowering).ok());
  ASSERT_TRUE(ChoosePrecision(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("forward+weight+bias norm: mean w b -> norm.folded_weight(R,R) norm.folded_bias(R,R)",
                          "forward conv: x norm.folded_weight(R,R) norm.folded_bias(R,R) -> z(R,R)"));
  for (const Value& value : c.lowering.values) {
    const bool is_folded = absl::StartsWith(value.name, "norm.folded");
    EXPECT_TRUE(!is_folded || value.dtype == DType::kBF16) << value.name;
  }
}

// ---- Whole networks.

// The Program of an evaluation that folds nothing.
absl::StatusOr<program::Program> Unfolded(const layers::LayerGraph& graph, const Plan& plan, const LowerOptions& options) {
  absl::StatusOr<GraphSharding> sharding = ShardGraph(graph, plan, options.global_batch, options.mode);
  if (!sharding.ok()) return sharding.status();
  Lowering lowering{.graph = graph, .plan = plan, .options = options, .shardings = std::move(sharding->nodes)};
  for (const auto pass : {ExpandStages, ExpandShards, InsertResharding, BucketGradients, InsertGradientReduction,
                          FuseEpilogues, ChoosePrecision, OrderActions}) {
    if (absl::Status status = pass(lowering); !status.ok()) return status;
  }
  absl::StatusOr<program::Program> program = EmitTasks(lowering);
  if (!program.ok()) return program.status();
  EXPECT_TRUE(AssignWaits(*program).ok());
  return program;
}

int CountOf(const program::Program& program, const std::string& op) {
  return static_cast<int>(std::count_if(program.tasks.begin(), program.tasks.end(),
                                        [&](const program::Task& task) { return program::Name(task) == op; }));
}

// Variances above zero, of any size.
Tensors DrawTrained(Random& random, const program::Program& program) {
  Tensors tensors = DrawParameters(random, program);
  std::normal_distribution<double> normal;
  for (auto& [name, values] : tensors) {
    const bool is_variance = absl::EndsWith(name, ".running_var"), is_mean = absl::EndsWith(name, ".running_mean");
    for (double& v : values) v = is_variance ? std::exp(normal(random)) : is_mean ? normal(random) : v;
    if (absl::StartsWith(name, "norm") && absl::EndsWith(name, ".weight")) {
      for (double& v : values) v += 1;
    }
  }
  return tensors;
}

struct Evaluation {
  const Drawn& drawn;
  const Batch& batch;
  const Tensors& parameters;

  double Loss(absl::StatusOr<program::Program> program, cpu::CpuOptions::Kernels kernels) const {
    EXPECT_TRUE(program.ok()) << program.status();
    if (!program.ok()) return NAN;
    const int devices = program->device_count;
    auto backend = cpu::MakeCpuBackend({.devices = devices, .threads_per_device = 1, .kernels = kernels});
    EXPECT_TRUE(backend.ok()) << backend.status();
    auto run = PlannedRun::Create(*std::move(program), *std::move(backend));
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return NAN;
    EXPECT_TRUE((*run)->SetParameters(parameters).ok());
    const absl::StatusOr<engine::ScoredStep> result = engine::RunStep(*(*run)->executor, batch.images, batch.labels, {});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->loss : NAN;
  }
  LowerOptions Options(DType dtype) const { return {.mode = Mode::kEval, .global_batch = drawn.batch, .dtype = dtype}; }
  absl::StatusOr<program::Program> OnOne(DType dtype, bool folded) const {
    const Plan plan = SinglePlan(drawn.network.graph);
    return folded ? Lower(drawn.network.graph, plan, Options(dtype)) : Unfolded(drawn.network.graph, plan, Options(dtype));
  }
};

// In double as on one device without folding, and in f32 as near to it as products in f32 are. In bf16 a folded bias, which
// holds the mean, is rounded where the normalisation's numbers are not: that adds less than what is there.
TEST(FoldNormalisations, RandomNetworksEvaluateToWhatTheyDoUnfolded) {
  constexpr auto kReference = cpu::CpuOptions::Kernels::kReference, kOneDnn = cpu::CpuOptions::Kernels::kOneDnn;
  Random random(33);
  constexpr int kCases = Draws(30);
  int folded = 0;
  double own = 0, of_folded = 0;  // errors in bf16, summed: single losses are near by chance
  for (int i = 0; i < kCases; ++i) {
    const Drawn drawn = DrawCase(random, /*exact=*/false, nullptr, /*normalised=*/true);
    SCOPED_TRACE(Describe(drawn, i));
    const Batch batch = DrawBatch(random, drawn.network, drawn.batch, false);
    const absl::StatusOr<program::Program> one =
        Unfolded(drawn.network.graph, SinglePlan(drawn.network.graph),
                 {.mode = Mode::kEval, .global_batch = drawn.batch, .dtype = DType::kF64});
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_EQ(CountOf(*one, "batch_norm_fold"), 0);
    const Tensors parameters = DrawTrained(random, *one);
    const Evaluation evaluation = {drawn, batch, parameters};
    const double exact = evaluation.Loss(one, kReference);
    const absl::StatusOr<program::Program> many = Lower(drawn.network.graph, drawn.plan, evaluation.Options(DType::kF64));
    ASSERT_TRUE(many.ok()) << many.status();
    folded += CountOf(*many, "batch_norm_fold");
    EXPECT_LE(RelativeDistance({evaluation.Loss(many, kReference)}, {exact}), 1e-10);
    EXPECT_LE(RelativeDistance({evaluation.Loss(evaluation.OnOne(DType::kF32, true), kOneDnn)}, {exact}), 1e-5);
    own += RelativeDistance({evaluation.Loss(evaluation.OnOne(DType::kBF16, false), kReference)}, {exact});
    of_folded += RelativeDistance({evaluation.Loss(evaluation.OnOne(DType::kBF16, true), kReference)}, {exact});
  }
  std::printf("%d folded; mean error in bf16 %.2g, unfolded %.2g\n", folded, of_folded / kCases, own / kCases);
  EXPECT_GE(folded, kCases);
  EXPECT_LE(of_folded, 2 * own);
}

// At 128 samples on a device also the last layers have more elements than weights.
TEST(FoldNormalisations, Resnet18sEvaluationNormalisesNothingButWhatItAddsTo) {
  const layers::LayerGraph graph = *models::BuildModel("resnet18", {});
  for (const auto& [plan_name, devices] : {std::pair("single", 1), {"data", 2}, {"hybrid", 4}}) {
    const absl::StatusOr<Plan> plan = NamedPlan(plan_name, graph, {.devices = devices, .global_batch = 512});
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const auto program = Lower(graph, *plan, {.mode = Mode::kEval, .global_batch = 512, .dtype = dtype});
      ASSERT_TRUE(program.ok()) << program.status();
      int normalised = 0;
      for (const program::Task& task : program->tasks) {
        if (program::Name(task) != std::string("batch_norm_forward")) continue;
        EXPECT_EQ(task.uses.size(), 6u) << task.provenance.layer << " adds nothing";
        ++normalised;
      }
      EXPECT_EQ(normalised, 8 * devices) << "one for each block";
      EXPECT_EQ(CountOf(*program, "batch_norm_fold"), 12 * devices);
      EXPECT_EQ(CountOf(*program, "relu_forward"), 0);
    }
  }
}

}  // namespace
}  // namespace colonnade::partition
