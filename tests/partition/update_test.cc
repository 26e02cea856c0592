// Optimisers, and what updates obey: against formulas written out here, under every plan, and with a gate that closes.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/classification.h"
#include "engine/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/named_plans.h"
#include "tests/partition/harness.h"
#include "tests/partition/random_run.h"

namespace colonnade::partition {
namespace {

constexpr int64_t kSamples = 8, kUpdateClasses = 4;
constexpr double kRate = 0.125;

layers::LayerGraph SmallNetwork() {
  layers::GraphBuilder net("updates");
  auto x = net.Conv2d("conv", net.Input("images", {2, 6, 6}), {.out_channels = 8, .kernel = 3, .pad = 1});
  x = net.Relu("relu", net.BatchNorm("norm", x, {}));
  x = net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 8});
  x = net.FullyConnected("head", net.Relu("fc.relu", x), {.out_features = kUpdateClasses});
  net.SoftmaxCrossEntropy("loss", x);
  return *std::move(net).Build();
}

Batch SomeBatch(Random& random) {
  Batch batch;
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < kSamples * 72; ++i) batch.images.push_back(normal(random));
  for (int64_t i = 0; i < kSamples; ++i) batch.labels.push_back(static_cast<int32_t>(i % kUpdateClasses));
  return batch;
}

struct NamedUpdate {
  const char* name;
  UpdateOptions update;
};

const NamedUpdate kUpdates[] = {
    {"krizhevsky", {.weight_decay = 0.01}},
    {"pytorch", {.optimizer = program::Sgd{.momentum = 0.5, .form = program::SgdForm::kPyTorch}, .weight_decay = 0.01}},
    {"nesterov_clipped",
     {.optimizer = program::Sgd{.form = program::SgdForm::kNesterov}, .weight_decay = 0.01, .clip_norm = 0.25}},
    {"lars", {.optimizer = program::Lars{.trust = 0.02}, .weight_decay = 0.01}},
    {"lars_of_weights",
     {.optimizer = program::Lars{.momentum = 0.5, .trust = 0.02},
      .weight_decay = 0.01,
      .decays_weights_alone = true,
      .clip_norm = 0.25}},
    {"adamw", {.optimizer = program::AdamW{}, .weight_decay = 0.1}},
    {"adamw_of_weights",
     {.optimizer = program::AdamW{.beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-3},
      .weight_decay = 0.1,
      .decays_weights_alone = true,
      .clip_norm = 0.25,
      .average_decay = 0.9,
      .skips_not_finite = true,
      .layer_rates = {{"head", 3}, {"conv", 0}}}},
    {"averaged", {.optimizer = program::Sgd{.momentum = 0.5}, .average_decay = 0.75}},
};

// One parameter and what is kept of it, updated by the formulas of the papers.
struct Expected {
  std::vector<double> w, m, v, average;

  void Step(const UpdateOptions& update, int64_t step, double lr, double decay, bool adapts, double scale,
            const std::vector<double>& gradient) {
    m.resize(w.size()), v.resize(w.size());
    if (const auto* lars = std::get_if<program::Lars>(&update.optimizer); lars != nullptr && adapts) {
      const double g = scale * Norm(gradient), size = Norm(w);
      if (size > 0) lr *= lars->trust * size / (g + decay * size);
    }
    for (size_t i = 0; i < w.size(); ++i) {
      const double g = scale * gradient[i];
      if (const auto* adam = std::get_if<program::AdamW>(&update.optimizer)) {
        m[i] = adam->beta1 * m[i] + (1 - adam->beta1) * g;
        v[i] = adam->beta2 * v[i] + (1 - adam->beta2) * g * g;
        const double t = static_cast<double>(step + 1);
        const double first = m[i] / (1 - std::pow(adam->beta1, t)), second = v[i] / (1 - std::pow(adam->beta2, t));
        w[i] = w[i] - lr * decay * w[i] - lr * first / (std::sqrt(second) + adam->epsilon);
        average[i] = update.average_decay * average[i] + (1 - update.average_decay) * w[i];
        continue;
      }
      const auto* sgd = std::get_if<program::Sgd>(&update.optimizer);
      const auto* lars = std::get_if<program::Lars>(&update.optimizer);
      const double momentum = sgd != nullptr ? sgd->momentum : lars->momentum, u = g + decay * w[i];
      if (sgd == nullptr || sgd->form == program::SgdForm::kKrizhevsky) {
        m[i] = momentum * m[i] - lr * u;
        w[i] += m[i];
      } else {
        m[i] = momentum * m[i] + u;
        w[i] -= lr * (sgd->form == program::SgdForm::kNesterov ? u + momentum * m[i] : m[i]);
      }
      average[i] = update.average_decay * average[i] + (1 - update.average_decay) * w[i];
    }
  }
};

double RateFactor(const UpdateOptions& update, const std::string& layer) {
  const auto found = update.layer_rates.find(layer);
  return found == update.layer_rates.end() ? 1 : found->second;
}

Plan PlanOfFour(const layers::LayerGraph& graph, const std::string& name, Reduction reduction, bool overlap) {
  Plan plan = *NamedPlan(name, graph, {.devices = 4, .columns = name == "hybrid" ? 2 : 0, .global_batch = kSamples});
  plan.reduction = reduction;
  plan.overlap = overlap;
  plan.bucket_bytes = 1000;
  return plan;
}

class Updates : public ::testing::TestWithParam<NamedUpdate> {};
std::string NameOf(const ::testing::TestParamInfo<NamedUpdate>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, Updates, ::testing::ValuesIn(kUpdates), NameOf);

// From the gradients that a step made, whose sums of squares and formulas are worked out here. The rate changes between the
// steps, which tells the forms of SGD apart.
TEST_P(Updates, AreWhatTheFormulasSay) {
  const UpdateOptions& update = GetParam().update;
  Random random(71);
  const layers::LayerGraph graph = SmallNetwork();
  const auto run = PlannedRun::Create(
      graph, SinglePlan(graph),
      {.global_batch = kSamples, .dtype = program::DType::kF64, .update = update, .expose_gradients = true},
      cpu::CpuOptions::Kernels::kReference);
  ASSERT_TRUE(run.ok()) << run.status();
  const Tensors begin = DrawParameters(random, (*run)->program);
  ASSERT_TRUE((*run)->SetParameters(begin).ok());
  std::map<std::string, Expected> expected;
  ASSERT_TRUE(engine::StartAverages((*run)->executor->loaded()).ok());
  for (const auto& [name, values] : begin) expected[name].w = expected[name].average = values;
  const Batch batch = SomeBatch(random);
  for (int64_t step = 0; step < 4; ++step) {
    const double lr = step < 2 ? kRate : kRate / 4;
    const engine::StepInputs inputs{.learning_rate = lr, .step = static_cast<uint64_t>(step), .seed = 7};
    ASSERT_TRUE(engine::RunStep(*(*run)->executor, batch.images, batch.labels, inputs).ok());
    const Tensors gradients = *(*run)->Gradients();
    double squares = 0;
    for (const auto& [name, gradient] : gradients) squares += Norm(gradient) * Norm(gradient);
    const double clip = update.clip_norm > 0 ? std::min(1.0, update.clip_norm / (std::sqrt(squares) + 1e-6)) : 1;
    EXPECT_TRUE(update.clip_norm == 0 || clip < 1 || step > 0);
    for (const program::Parameter& p : (*run)->program.parameters) {
      if (p.role != program::StateRole::kTrained) continue;
      const bool exempt = update.decays_weights_alone && p.shape.size() == 1;
      expected[p.name].Step(update, step, lr * RateFactor(update, p.layer), exempt ? 0 : update.weight_decay, !exempt, clip,
                            gradients.at(p.name));
    }
  }
  const Tensors found = *(*run)->Parameters();
  for (const program::Parameter& p : (*run)->program.parameters) {
    if (p.role != program::StateRole::kTrained) continue;
    EXPECT_LE(RelativeDistance(found.at(p.name), expected[p.name].w), 1e-13) << p.name;
  }
  const auto averages = engine::ReadTensors((*run)->executor->loaded(), engine::StateKind::kAverage);
  ASSERT_TRUE(averages.ok()) << averages.status();
  EXPECT_EQ(averages->size(), update.average_decay > 0 ? 8 : 0);
  for (const engine::NamedTensor& average : *averages) {
    EXPECT_LE(RelativeDistance(average.values, expected[average.name].average), 1e-13) << average.name;
  }
}

// An evaluation of averages is that of a network whose parameters they are.
TEST(Averages, AreEvaluatedAsParametersAre) {
  const layers::LayerGraph graph = SmallNetwork();
  const UpdateOptions update{.optimizer = program::Sgd{.momentum = 0.5}, .average_decay = 0.75};
  for (const char* name : {"data", "model", "hybrid"}) {
    for (Reduction reduction : kReductions) {
      SCOPED_TRACE(absl::StrCat(name, ", ", Name(reduction)));
      Random random(77);
      const Batch batch = SomeBatch(random);
      const Plan plan = PlanOfFour(graph, name, reduction, true);
      const auto run =
          PlannedRun::Create(graph, plan, {.global_batch = kSamples, .update = update}, cpu::CpuOptions::Kernels::kOneDnn);
      ASSERT_TRUE(run.ok()) << run.status();
      engine::LoadedProgram& loaded = (*run)->executor->loaded();
      ASSERT_TRUE(engine::InitializeParameters(loaded, 3).ok());
      for (uint64_t step = 0; step < 3; ++step) {
        ASSERT_TRUE(
            engine::RunStep(*(*run)->executor, batch.images, batch.labels, {.learning_rate = 0.1, .step = step}).ok());
      }
      const auto loss_of = [&](engine::Backend& backend, bool reads_averages, const auto& set) {
        const auto eval =
            *Lower(graph, plan, {.mode = program::Mode::kEval, .global_batch = kSamples, .reads_averages = reads_averages});
        const auto executor = *engine::Executor::Create(eval, backend);
        set(executor->loaded());
        return engine::RunStep(*executor, batch.images, batch.labels, {})->loss;
      };
      const auto averages = *engine::ReadTensors(loaded, engine::StateKind::kAverage);
      auto parameters = *engine::ReadTensors(loaded);
      const double of_parameters = loss_of(*(*run)->backend, false, [](auto&) {});
      const double found = loss_of(*(*run)->backend, true, [](auto&) {});
      for (size_t i = 0; i < averages.size(); ++i) parameters[i] = averages[i];  // those that are trained come first
      const auto other = *cpu::MakeCpuBackend({.devices = 4, .threads_per_device = 1});
      const double expected =
          loss_of(*other, false, [&](engine::LoadedProgram& to) { EXPECT_TRUE(engine::WriteTensors(to, parameters).ok()); });
      EXPECT_EQ(found, expected);
      EXPECT_NE(found, of_parameters);
    }
  }
}

TEST(Averages, BeginWithTheParametersThatAreWritten) {
  const layers::LayerGraph graph = SmallNetwork();
  const LowerOptions options{.global_batch = kSamples, .update = {.average_decay = 0.75}};
  const auto run = PlannedRun::Create(graph, SinglePlan(graph), options, cpu::CpuOptions::Kernels::kOneDnn);
  ASSERT_TRUE(run.ok()) << run.status();
  engine::LoadedProgram& loaded = (*run)->executor->loaded();
  ASSERT_TRUE(engine::InitializeParameters(loaded, 3).ok());
  const auto values_of = [&](engine::StateKind kind) {
    std::map<std::string, std::vector<double>> values;
    std::vector<engine::NamedTensor> tensors = *engine::ReadTensors(loaded, kind);
    for (engine::NamedTensor& tensor : tensors) values[tensor.name] = std::move(tensor.values);
    return values;
  };
  std::vector<engine::NamedTensor> doubled = *engine::ReadTensors(loaded);
  std::vector<engine::TensorView> views;  // in double, which is not the Program's type
  for (engine::NamedTensor& tensor : doubled) {
    for (double& value : tensor.values) value *= 2;
    views.push_back({tensor.name,
                     program::DType::kF64,
                     tensor.shape,
                     {reinterpret_cast<const char*>(tensor.values.data()), sizeof(double) * tensor.values.size()}});
  }
  ASSERT_TRUE(engine::WriteState(loaded, engine::StateKind::kValue, views).ok());
  const auto parameters = values_of(engine::StateKind::kValue);
  for (const auto& [name, values] : values_of(engine::StateKind::kAverage)) EXPECT_EQ(values, parameters.at(name)) << name;
}

TEST(Averages, ThatNobodyHasStartedAreNotTaken) {
  const layers::LayerGraph graph = SmallNetwork();
  LowerOptions options{.global_batch = kSamples};
  const auto run = PlannedRun::Create(graph, SinglePlan(graph), options, cpu::CpuOptions::Kernels::kOneDnn);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(engine::InitializeParameters((*run)->executor->loaded(), 3).ok());
  options.update.average_decay = 0.75;
  const program::Program averaged = *Lower(graph, SinglePlan(graph), options);
  const auto executor = *engine::Executor::Create(averaged, *(*run)->backend);
  const absl::Status status = engine::CheckInitialized(executor->loaded());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("initial values of its average, found zeros alone; call StartAverages"));
  ASSERT_TRUE(engine::StartAverages(executor->loaded()).ok());
  EXPECT_TRUE(engine::CheckInitialized(executor->loaded()).ok());
}

TEST(Averages, AreNotReadByTrainingAndHaveADecayBelowOne) {
  const layers::LayerGraph graph = SmallNetwork();
  const auto lowered = [&](const LowerOptions& options) { return Lower(graph, SinglePlan(graph), options).status(); };
  EXPECT_EQ(lowered({.global_batch = kSamples, .reads_averages = true}).code(), absl::StatusCode::kFailedPrecondition);
  for (double decay : {-0.5, 1.0, std::nan("")}) {
    EXPECT_EQ(lowered({.global_batch = kSamples, .update = {.average_decay = decay}}).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(lowered({.global_batch = kSamples, .update = {.average_decay = 0.999999}}).ok());
}

// With momentum 0 and no decay an update of LARS is rate·trust·|w|/|g|·g, whose norm is that of w times a constant: so the
// norms of whole tensors can be read off what is kept.
TEST(Lars, NormsAreThoseOfWholeTensorsUnderEveryPlan) {
  const UpdateOptions update{.optimizer = program::Lars{.momentum = 0, .trust = 0.5}};
  const layers::LayerGraph graph = SmallNetwork();
  for (const char* name : {"data", "model", "hybrid", "owt"}) {
    for (Reduction reduction : kReductions) {
      for (bool overlap : {true, false}) {
        Random random(72);
        const auto run = PlannedRun::Create(graph, PlanOfFour(graph, name, reduction, overlap),
                                            {.global_batch = kSamples, .dtype = program::DType::kF64, .update = update},
                                            cpu::CpuOptions::Kernels::kReference);
        ASSERT_TRUE(run.ok()) << run.status();
        const Tensors begin = DrawParameters(random, (*run)->program);
        ASSERT_TRUE((*run)->SetParameters(begin).ok());
        const Batch batch = SomeBatch(random);
        ASSERT_TRUE(engine::RunStep(*(*run)->executor, batch.images, batch.labels, {.learning_rate = 1, .seed = 7}).ok());
        const auto momenta = engine::ReadTensors((*run)->executor->loaded(), engine::StateKind::kMomentum);
        ASSERT_TRUE(momenta.ok()) << momenta.status();
        for (const engine::NamedTensor& tensor : *momenta) {
          EXPECT_NEAR(Norm(tensor.values) / (0.5 * Norm(begin.at(tensor.name))), 1, 1e-12)
              << tensor.name << " under " << name << ", " << Name(reduction);
        }
      }
    }
  }
}

// oneDNN's kernels under plans, whose parts cut members, against one device in double.
TEST_P(Updates, AreThoseOfOneDeviceUnderPlans) {
  const layers::LayerGraph graph = SmallNetwork();
  Random random(76);
  const Batch batch = SomeBatch(random);
  Tensors begin;
  LowerOptions options{.global_batch = kSamples, .dtype = program::DType::kF64, .update = GetParam().update};
  const auto run = [&](const Plan& plan, cpu::CpuOptions::Kernels kernels) {
    auto planned = PlannedRun::Create(graph, plan, options, kernels);
    EXPECT_TRUE(planned.ok()) << planned.status();
    if (begin.empty()) begin = DrawParameters(random, (*planned)->program);
    EXPECT_TRUE((*planned)->SetParameters(begin).ok());
    for (uint64_t step = 0; step < 2; ++step) {
      EXPECT_TRUE(engine::RunStep(*(*planned)->executor, batch.images, batch.labels,
                                  {.learning_rate = 0.01, .step = step, .seed = 7})
                      .ok());
    }
    return *(*planned)->Parameters();
  };
  const Tensors one = run(SinglePlan(graph), cpu::CpuOptions::Kernels::kReference);
  options.dtype = program::DType::kF32;
  for (const char* name : {"data", "model", "hybrid"}) {
    for (Reduction reduction : kReductions) {
      const Tensors many = run(PlanOfFour(graph, name, reduction, true), cpu::CpuOptions::Kernels::kOneDnn);
      for (const auto& [tensor, value] : one) {
        const auto given = begin.find(tensor);
        const std::vector<double> before = given != begin.end() ? given->second : std::vector<double>(value.size());
        std::vector<double> change = value, found = many.at(tensor);
        for (size_t i = 0; i < change.size(); ++i) change[i] -= before[i], found[i] -= before[i];
        // What cancels, as the gradient of a bias before a normalisation, is roundings alone.
        if (Norm(change) < 1e-4 || tensor == "conv.bias" || tensor.find("running") != std::string::npos) continue;
        EXPECT_LE(RelativeDistance(found, change), 1e-3) << tensor << " under " << name << ", " << Name(reduction);
      }
    }
  }
}

// Frozen layers keep every bit, the others train as they did, and nothing goes back beyond the first that is trained.
TEST(Freeze, LeavesOutGradientsAndWhatLeadsToThem) {
  const layers::LayerGraph graph = SmallNetwork();
  Random random(74);
  const Batch batch = SomeBatch(random);
  Tensors begin;
  std::map<std::string, Tensors> ended;
  for (program::DType dtype : {program::DType::kF64, program::DType::kBF16}) {
    for (const char* name : {"whole", "data", "model", "hybrid"}) {
      const bool whole = std::string(name) == "whole";
      const UpdateOptions update{.weight_decay = 0.01, .frozen_layers = {"conv", "norm", "head"}};
      const Plan plan = whole ? SinglePlan(graph) : PlanOfFour(graph, name, Reduction::kSharded, true);
      const auto run = PlannedRun::Create(graph, plan, {.global_batch = kSamples, .dtype = dtype, .update = update},
                                          cpu::CpuOptions::Kernels::kReference);
      ASSERT_TRUE(run.ok()) << run.status();
      const program::Program& program = (*run)->program;
      if (begin.empty()) begin = DrawParameters(random, program);
      ASSERT_TRUE((*run)->SetParameters(begin).ok());
      for (uint64_t step = 0; step < 2; ++step) {
        ASSERT_TRUE(
            engine::RunStep(*(*run)->executor, batch.images, batch.labels, {.learning_rate = kRate, .step = step, .seed = 7})
                .ok());
      }
      for (const program::Task& task : program.tasks) {
        const auto* compute = std::get_if<program::Compute>(&task.body);
        if (compute == nullptr) continue;
        EXPECT_FALSE(std::holds_alternative<program::ConvBackwardWeights>(compute->op));
        EXPECT_FALSE(task.provenance.pass == program::Pass::kBackward && task.provenance.layer == "norm");
      }
      const Tensors found = *(*run)->Parameters();
      EXPECT_EQ(program::TrainedCount(program), 2);
      for (const char* frozen : {"conv.weight", "conv.bias", "norm.weight", "norm.bias", "head.weight", "head.bias"}) {
        std::vector<double> kept = begin.at(frozen);  // as memory in f32 holds it
        for (double& value : kept) value = dtype == program::DType::kF64 ? value : static_cast<float>(value);
        EXPECT_EQ(found.at(frozen), kept) << frozen;
      }
      EXPECT_NE(found.at("fc.weight"), begin.at("fc.weight"));
      if (whole) ended[program::Name(dtype)] = found;
      const Tensors& one = ended.at(program::Name(dtype));
      EXPECT_LE(RelativeDistance(found.at("fc.weight"), one.at("fc.weight")), dtype == program::DType::kF64 ? 1e-12 : 1e-3);
    }
  }
}

// Between layers that are trained, a frozen one passes the gradient on.
TEST(Freeze, PassesTheGradientOn) {
  const layers::LayerGraph graph = SmallNetwork();
  Random random(75);
  const Batch batch = SomeBatch(random);
  Tensors begin, gradients;
  for (const UpdateOptions& update : {UpdateOptions{}, UpdateOptions{.frozen_layers = {"norm", "fc"}}}) {
    const auto run = PlannedRun::Create(
        graph, SinglePlan(graph),
        {.global_batch = kSamples, .dtype = program::DType::kF64, .update = update, .expose_gradients = true},
        cpu::CpuOptions::Kernels::kReference);
    ASSERT_TRUE(run.ok()) << run.status();
    if (begin.empty()) begin = DrawParameters(random, (*run)->program);
    ASSERT_TRUE((*run)->SetParameters(begin).ok());
    ASSERT_TRUE(engine::RunStep(*(*run)->executor, batch.images, batch.labels, {.learning_rate = kRate, .seed = 7}).ok());
    const Tensors found = *(*run)->Gradients();
    EXPECT_EQ(found.size(), update.frozen_layers.empty() ? 8u : 4u);
    if (gradients.empty()) gradients = found;
    for (const auto& [name, gradient] : found) EXPECT_EQ(gradient, gradients.at(name)) << name;
  }
}

std::vector<std::vector<char>> StateOf(const PlannedRun& run) {
  engine::StateCopy copy;
  EXPECT_TRUE(engine::CopyState(run.executor->loaded(), copy).ok());
  std::vector<std::vector<char>> bytes;
  for (engine::StateCopy::Tensor& tensor : copy.tensors) bytes.push_back(std::move(tensor.bytes));
  return bytes;
}

// Infinite images make gradients that are not finite: such a step changes no bit of parameters, of what is kept, and of
// running statistics; the others do.
TEST(Gate, ThatIsClosedLeavesAllStateAsItWas) {
  const layers::LayerGraph graph = SmallNetwork();
  Random random(73);
  for (const NamedUpdate& of : kUpdates) {
    for (const char* name : {"data", "model", "hybrid"}) {
      const auto reduction = static_cast<Reduction>(random() % 3);
      UpdateOptions update = of.update;
      update.skips_not_finite = true;
      const auto run = PlannedRun::Create(graph, PlanOfFour(graph, name, reduction, random() % 2 == 0),
                                          {.global_batch = kSamples, .update = update}, cpu::CpuOptions::Kernels::kOneDnn);
      ASSERT_TRUE(run.ok()) << run.status();
      ASSERT_TRUE((*run)->SetParameters(DrawParameters(random, (*run)->program)).ok());
      Batch batch = SomeBatch(random);
      for (uint64_t step = 0; step < 6; ++step) {
        const bool closed = step == 0 || random() % 2 == 0;
        const size_t at = random() % batch.images.size();
        const float kept = batch.images[at];
        if (closed) batch.images[at] = std::numeric_limits<float>::infinity();
        const auto before = StateOf(**run);
        const auto result =
            engine::RunStep(*(*run)->executor, batch.images, batch.labels, {.learning_rate = 0.01, .step = step, .seed = 7});
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(result->not_finite.empty(), !closed);
        EXPECT_EQ(result->is_gate_closed, closed);
        EXPECT_EQ(StateOf(**run) == before, closed) << of.name << " under " << name << ", step " << step;
        batch.images[at] = kept;
      }
    }
  }
}

// Each of two samples makes a gradient of 0.9 · 3e38, which a float holds; it does not hold their sum.
TEST(Gate, ThatASumOverDevicesClosesIsToldOnEveryPlan) {
  layers::GraphBuilder net("one");
  const auto y = net.FullyConnected("fc", net.Input("images", {1}), {.out_features = 10, .bias = false});
  net.SoftmaxCrossEntropy("loss", y, {.weight = 2});
  const layers::LayerGraph graph = *std::move(net).Build();
  for (Reduction reduction : kReductions) {
    Plan plan = *NamedPlan("data", graph, {.devices = 2, .global_batch = 2});
    plan.reduction = reduction;
    const auto run =
        PlannedRun::Create(graph, plan, {.global_batch = 2, .update = {.clip_norm = 1}}, cpu::CpuOptions::Kernels::kOneDnn);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE((*run)->SetParameters({{"fc.weight", std::vector<double>(10)}}).ok());
    for (const auto& [second, closed] : {std::pair{1e-30f, false}, {3e38f, true}}) {
      const auto result = engine::RunStep(*(*run)->executor, {3e38f, second}, {4, 4}, {.learning_rate = 1e-45});
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->is_gate_closed, closed) << Name(reduction);
      EXPECT_EQ(result->not_finite.empty(), !closed);
      EXPECT_EQ(result->not_finite_device, -1);
    }
  }
}

TEST(UpdateOptions, NumbersThatNoUpdateCanUseAreRefusedBeforeAnythingIsLowered) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const layers::LayerGraph graph = models::BuildModel("lenet", {}).value();
  const Plan plan = NamedPlan("single", graph, {.global_batch = 8}).value();
  for (const auto& [update, name] : std::vector<std::pair<UpdateOptions, const char*>>{
           {{.optimizer = program::Sgd{.momentum = 1.5}}, "momentum"},
           {{.optimizer = program::Sgd{.momentum = nan}}, "momentum"},
           {{.optimizer = program::Lars{.momentum = -1}}, "momentum"},
           {{.optimizer = program::Lars{.trust = nan}}, "trust"},
           {{.optimizer = program::Lars{.trust = 1e39}}, "trust"},
           {{.optimizer = program::AdamW{.beta1 = 1}}, "betas"},
           {{.optimizer = program::AdamW{.beta2 = nan}}, "betas"},
           {{.optimizer = program::AdamW{.epsilon = 1e-40}}, "epsilon"},
           {{.optimizer = program::AdamW{.epsilon = 1e39}}, "epsilon"},
           {{.weight_decay = 1e39}, "weight decay from 0 that f32 holds, found 1e+39"},
           {{.clip_norm = nan}, "norm to clip at from 0 that f32 holds, found nan"},
           {{.layer_rates = {{"conv1", 1e39}}}, "rate of layer"}}) {
    const absl::Status lowered = Lower(graph, plan, {.global_batch = 8, .update = update}).status();
    EXPECT_EQ(lowered.code(), absl::StatusCode::kInvalidArgument) << lowered;
    EXPECT_THAT(std::string(lowered.message()), ::testing::HasSubstr(name));
    EXPECT_FALSE(LowerRepresentatives(graph, plan, {.global_batch = 8, .update = update}).ok()) << name;
  }
}

TEST(UpdateOptions, ALayerThatIsNotThereIsAnsweredWithTheNearest) {
  const layers::LayerGraph graph = models::BuildModel("lenet", {}).value();
  EXPECT_THAT(std::string(UpdateOptions{.frozen_layers = {"conv_1"}}.Check(graph).message()),
              ::testing::EndsWith("found \"conv_1\"; did you mean \"conv1\"?"));
  EXPECT_THAT(std::string(UpdateOptions{.layer_rates = {{"softmax", 2}}}.Check(graph).message()),
              ::testing::EndsWith("found \"softmax\""))
      << "near to none";
}

}  // namespace
}  // namespace colonnade::partition
