// Programs of training and of evaluation that take turns on one backend, with the host waiting between their steps or not,
// and copies of the state between two steps of training, made beside the later one or before it.
//
// The network holds what keeps something from forward to backward, or from step to step: batch normalisation with its
// statistics, max pooling with its argmax, dropout with its mask.
#ifndef COLONNADE_TESTS_ENGINE_ALTERNATION_H_
#define COLONNADE_TESTS_ENGINE_ALTERNATION_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/classification.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "gtest/gtest.h"
#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "program/builder.h"

namespace colonnade::engine {

constexpr int64_t kAlternationBatch = 8;

inline layers::LayerGraph AlternationNetwork() {
  layers::GraphBuilder net("alternation");
  auto x = net.Input("images", {1, 8, 8});
  x = net.Conv2d("conv1", x, {.out_channels = 16, .kernel = 3, .pad = 1});
  x = net.MaxPool("pool1", net.Relu("relu1", net.BatchNorm("norm1", x)), {.kernel = 2});
  x = net.Lrn("lrn2", net.Relu("relu2", net.Conv2d("conv2", x, {.out_channels = 20, .kernel = 3, .pad = 1})), {});
  x = net.Relu("relu3", net.FullyConnected("fc3", net.Flatten("flatten", x), {.out_features = 24}));
  x = net.FullyConnected("fc4", net.Dropout("dropout", x, {.rate = 0.5}), {.out_features = 12});
  net.SoftmaxCrossEntropy("loss", x);
  return *std::move(net).Build();
}

struct PlanOnDevices {
  const char* plan;
  int devices;
  partition::Reduction reduction = partition::Reduction::kAllReduce;
};

// bucket_bytes 0: the plan's own.
inline program::Program LoweredFor(const PlanOnDevices& on, program::Mode mode, int64_t bucket_bytes = 0) {
  const layers::LayerGraph graph = AlternationNetwork();
  auto plan = partition::NamedPlan(on.plan, graph, {.devices = on.devices, .global_batch = kAlternationBatch});
  EXPECT_TRUE(plan.ok()) << plan.status();
  plan->reduction = on.reduction;
  if (bucket_bytes > 0) {
    plan->bucket_bytes = bucket_bytes;
    plan->piece_bytes = std::max(partition::kLeastPieceBytes, bucket_bytes);
  }
  auto program = partition::Lower(graph, *plan, {.mode = mode, .global_batch = kAlternationBatch});
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

// Fills `bytes` of each device's step memory with numbers that are none: copies of a persistent buffer, to be written.
inline program::Program Spoiler(int devices, int64_t bytes) {
  program::Builder builder("spoiler", program::Mode::kEval, kAlternationBatch, program::DType::kF32, {{"data", devices}});
  const program::Shape shape = {bytes / program::SizeInBytes(program::DType::kF32)};
  for (int d = 0; d < devices; ++d) {
    const auto nan = builder.AddBuffer(d, "nan", program::DType::kF32, shape, program::Lifetime::kPersistent);
    const auto step = builder.AddBuffer(d, "step", program::DType::kF32, shape);
    builder.AddCompute(d, program::Lane::kCompute, program::Copy{}, {builder.Read(nan), builder.Write(step)}, {}, {"spoil"});
  }
  return std::move(builder).Build();
}

// A Program may have none.
inline void FillInputs(Executor& executor, int64_t step) {
  if (!executor.HasInput(kImages)) return;
  auto images = executor.NextInput<float>(engine::kImages);
  ASSERT_TRUE(images.ok()) << images.status();
  for (size_t i = 0; i < images->size(); ++i) (*images)[i] = static_cast<float>((i * 37 + step * 11) % 64) / 64;
  const absl::Span<int32_t> labels = *executor.NextInput<int32_t>(engine::kLabels);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>((i + step) % 12);
}

struct Alternation {
  std::vector<double> train_losses, eval_losses;
  StateCopy state;
  std::vector<StateCopy> copies;
};

class Turns {
 public:
  Turns(const PlanOnDevices& on, Backend& backend, bool drains) : on_(on), backend_(backend), drains_(drains) {}

  // Evaluation is loaded, and runs, before training is, which wants more memory.
  void Load() {
    eval_ = Make(eval_program_);
    ASSERT_NE(eval_, nullptr);
    ASSERT_TRUE(InitializeParameters(eval_->loaded(), 1).ok());
    constexpr int kFirst = 5;  // enough for graphs
    for (int step = 0; step < kFirst; ++step) Enqueue(*eval_, step);
    train_ = Make(train_program_);
    ASSERT_NE(train_, nullptr);
  }
  // Another Program that takes its turn behind each step.
  void LoadSpoiler() {
    int64_t bytes = 0;
    for (int d = 0; d < on_.devices; ++d) bytes = std::max(bytes, train_->loaded().Memory(d).step_arena_bytes);
    spoiler_program_ = Spoiler(on_.devices, bytes);
    spoiler_ = Make(spoiler_program_);
    ASSERT_NE(spoiler_, nullptr);
    for (const program::Buffer& buffer : spoiler_program_.buffers) {
      if (buffer.lifetime != program::Lifetime::kPersistent) continue;
      const std::vector<double> nan(buffer.shape[0], std::numeric_limits<double>::quiet_NaN());
      ASSERT_TRUE(spoiler_->loaded().Write(buffer.id, nan).ok());
    }
  }

  // Before every so many steps of training the state is copied.
  void CopyEvery(int64_t steps) { copy_every_ = steps; }

  Alternation Run(int64_t steps) {
    for (int64_t step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
      for (Executor* executor : {train_.get(), eval_.get()}) {
        Enqueue(*executor, step);
        if (spoiler_ != nullptr) Enqueue(*spoiler_, step);
      }
    }
    for (Executor* executor : {train_.get(), eval_.get(), spoiler_.get()}) {
      while (executor != nullptr && executor->in_flight() > 0 && !testing::Test::HasFatalFailure()) Collect(*executor);
    }
    EXPECT_TRUE(CheckCopies(train_->loaded()).ok());
    EXPECT_TRUE(CopyState(train_->loaded(), result_.state).ok());
    return std::move(result_);
  }

 private:
  std::unique_ptr<Executor> Make(const program::Program& program) {
    auto executor = Executor::Create(program, backend_);
    EXPECT_TRUE(executor.ok()) << executor.status();
    return executor.ok() ? *std::move(executor) : nullptr;
  }
  void Enqueue(Executor& executor, int64_t step) {
    if (executor.in_flight() == 2) Collect(executor);
    FillInputs(executor, step);
    const StepInputs inputs{.learning_rate = 0.01, .step = static_cast<uint64_t>(step)};
    const bool copies = &executor == train_.get() && copy_every_ > 0 && step % copy_every_ == 0;
    const absl::Status status = copies ? EnqueueAndCopy(executor, inputs) : executor.Enqueue(inputs);
    ASSERT_TRUE(status.ok()) << status;
    if (drains_) Collect(executor);
  }
  absl::Status EnqueueAndCopy(Executor& executor, const StepInputs& inputs) {
    StateCopy& copy = result_.copies.emplace_back();
    if (drains_) {
      const absl::Status status = CopyState(executor.loaded(), copy);
      return status.ok() ? executor.Enqueue(inputs) : status;
    }
    return executor.EnqueueWhileReading(inputs, [&](size_t parameter) {
      while (executor.in_flight() > 0) Collect(executor);
      if (copy.tensors.empty()) ReserveState(executor.program(), copy);
      return CopyParameter(executor.loaded(), parameter, copy);
    });
  }
  void Collect(Executor& executor) {
    const absl::StatusOr<ScoredStep> result = CollectScored(executor);
    ASSERT_TRUE(result.ok()) << result.status();
    if (&executor == spoiler_.get()) return;
    EXPECT_EQ(result->not_finite, "");
    (&executor == eval_.get() ? result_.eval_losses : result_.train_losses).push_back(result->loss);
  }

  const PlanOnDevices on_;
  Backend& backend_;
  const bool drains_;
  int64_t copy_every_ = 0;  // 0: never
  const program::Program eval_program_ = LoweredFor(on_, program::Mode::kEval);
  const program::Program train_program_ = LoweredFor(on_, program::Mode::kTrain);
  program::Program spoiler_program_;
  std::unique_ptr<Executor> eval_, train_, spoiler_;
  Alternation result_;
};

// Step after step by one of `programs` after the other: what the last one then reads of the state.
inline Alternation TrainInTurns(Backend& backend, const std::vector<program::Program>& programs, int64_t steps) {
  Alternation result;
  std::vector<std::unique_ptr<Executor>> executors;
  for (const program::Program& program : programs) {
    auto executor = Executor::Create(program, backend);
    EXPECT_TRUE(executor.ok()) << executor.status();
    if (!executor.ok()) return result;
    executors.push_back(*std::move(executor));
  }
  EXPECT_TRUE(InitializeParameters(executors[0]->loaded(), 1).ok());
  for (int64_t step = 0; step < steps; ++step) {
    Executor& executor = *executors[step % executors.size()];
    FillInputs(executor, step);
    EXPECT_TRUE(executor.Enqueue({.learning_rate = 0.01, .step = static_cast<uint64_t>(step)}).ok());
    const absl::StatusOr<ScoredStep> collected = CollectScored(executor);
    EXPECT_TRUE(collected.ok()) << collected.status();
    if (collected.ok()) result.train_losses.push_back(collected->loss);
  }
  EXPECT_TRUE(CopyState(executors.back()->loaded(), result.state).ok());
  return result;
}

inline void ExpectEqualBits(const StateCopy& a, const StateCopy& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t t = 0; t < a.tensors.size(); ++t) {
    EXPECT_TRUE(a.tensors[t].bytes == b.tensors[t].bytes) << a.tensors[t].name;
  }
}

inline void ExpectEqualBits(const Alternation& a, const Alternation& b) {
  EXPECT_EQ(a.train_losses, b.train_losses);
  EXPECT_EQ(a.eval_losses, b.eval_losses);
  ExpectEqualBits(a.state, b.state);
  ASSERT_EQ(a.copies.size(), b.copies.size());
  for (size_t c = 0; c < a.copies.size(); ++c) {
    SCOPED_TRACE(absl::StrCat("copy ", c));
    ExpectEqualBits(a.copies[c], b.copies[c]);
  }
}

// Parameters and momenta belong to no bucket: Programs in other buckets and pieces train one state, in no more memory.
inline void ExpectOneStateWhateverTheBuckets(const PlanOnDevices& on,
                                             const std::function<std::unique_ptr<Backend>()>& make) {
  constexpr int64_t kSteps = 6, kLarge = 1 << 30;
  const auto lowered = [&](int64_t bucket_bytes) { return LoweredFor(on, program::Mode::kTrain, bucket_bytes); };
  const auto alone = make();
  const Alternation expected = TrainInTurns(*alone, {lowered(0)}, kSteps);
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1, kLarge}, {kLarge, 1}, {2000, 700, kLarge}}) {
    const auto backend = make();
    std::vector<program::Program> programs;
    for (int64_t bytes : sizes) programs.push_back(lowered(bytes));
    ExpectEqualBits(TrainInTurns(*backend, programs, kSteps), expected);
    // What is held while no Program is loaded.
    for (int d = 0; d < on.devices; ++d) EXPECT_EQ(backend->TakenBytes(d), alone->TakenBytes(d));
  }
}

}  // namespace colonnade::engine

#endif  // COLONNADE_TESTS_ENGINE_ALTERNATION_H_
