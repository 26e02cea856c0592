#include "cpu/backend.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "cpu/load/layout.h"
#include "fixture.h"
#include "gtest/gtest.h"
#include "program/verify.h"
#include "refused_memory.h"

namespace colonnade::cpu {
namespace {

using program::Access;
using program::Buffer;
using program::BufferId;
using program::DType;
using program::Lane;
using program::Lifetime;
using program::Region;
using program::Shape;

// Two devices, each with half of a batch: y = relu(x), z = the other's y, s = y + z, then Σ s over both, stored.
struct Pipeline {
  static constexpr int64_t kHalf = 2 * 32 * 4 * 4;
  program::Program program;
  std::vector<BufferId> s;

  Pipeline() {
    program::Builder builder = MakeBuilder(2);
    const Shape half = {2, 32, 4, 4};
    std::vector<BufferId> x, y, z;
    program::Input input{"images", DType::kF32, {4, 32, 4, 4}, {}};
    program::Output output{program::Output::Kind::kGradient, "s", "", {4, 32, 4, 4}, {}};
    for (int d = 0; d < 2; ++d) {
      x.push_back(builder.AddBuffer(d, "x", DType::kF32, half));
      y.push_back(builder.AddBuffer(d, "y", DType::kF32, half));
      z.push_back(builder.AddBuffer(d, "z", DType::kF32, half));
      s.push_back(builder.AddBuffer(d, "s", DType::kF32, half));
      input.pieces.push_back({x[d], {{2 * d, 0, 0, 0}, half}});
      output.pieces.push_back({s[d], {{2 * d, 0, 0, 0}, half}});
    }
    builder.AddInput(input);
    builder.AddOutput(output);
    for (int d = 0; d < 2; ++d) {
      builder.AddCompute(d, Lane::kCopy, program::Load{0}, {builder.Write(x[d])}, {}, {"x"});
      builder.AddCompute(d, Lane::kCompute, program::ActivationForward{program::Activation::kRelu},
                         {builder.Read(x[d]), builder.Write(y[d])}, {}, {"relu"});
    }
    builder.AddExchange(0, {{builder.Read(y[0]), builder.Write(z[0])}, {}}, 1,
                        {{builder.Read(y[1]), builder.Write(z[1])}, {}}, Lane::kComm, {"y"});
    for (int d = 0; d < 2; ++d) {
      builder.AddCompute(d, Lane::kCompute, program::Sum{}, {builder.Read(y[d]), builder.Read(z[d]), builder.Write(s[d])},
                         {}, {"sum"});
    }
    builder.AddCollective(builder.AddGroup({0, 1}), {.kind = program::CollectiveKind::kAllReduce},
                          {{{builder.Accumulate(s[0])}, {}}, {{builder.Accumulate(s[1])}, {}}}, Lane::kComm, {"s"});
    for (int d = 0; d < 2; ++d) {
      builder.AddCompute(d, Lane::kCopy, program::Store{0}, {builder.Read(s[d])}, {}, {"s"});
    }
    program = std::move(builder).Build();
  }
};

TEST(CpuBackend, PipelinesStepsOfTwoDevices) {
  const Pipeline pipeline;
  Session session(pipeline.program);
  ASSERT_TRUE(session.status().ok()) << session.status();
  ASSERT_TRUE(program::Verify(session.program()).ok()) << program::Verify(session.program());
  std::vector<float> images[2], results[2][2];
  for (int slot = 0; slot < 2; ++slot) {
    images[slot].resize(2 * Pipeline::kHalf);
    session.slot(slot).inputs[0] = images[slot].data();
    for (int d = 0; d < 2; ++d) {
      results[slot][d].resize(Pipeline::kHalf);
      session.slot(slot).outputs[0][d] = results[slot][d].data();
    }
  }
  const auto check = [&](int64_t step) {
    ASSERT_TRUE(session->Synchronize(step).ok());
    for (int64_t i = 0; i < Pipeline::kHalf; ++i) {
      const auto relu = [&](int64_t at) { return std::max(0.0f, images[step % 2][at]); };
      const float expected = 2 * (relu(i) + relu(i + Pipeline::kHalf));
      for (int d = 0; d < 2; ++d) ASSERT_EQ(results[step % 2][d][i], expected) << "step " << step << " element " << i;
    }
  };
  for (int64_t step = 0; step < 6; ++step) {
    if (step >= 2) check(step - 2);
    const std::vector<double> values = Integers(2 * Pipeline::kHalf, static_cast<int>(step));
    std::copy(values.begin(), values.end(), images[step % 2].begin());
    session.Launch(step);
  }
  check(4);
  check(5);
  const std::vector<engine::TaskTime> before = session->Times(4), last = session->Times(5);
  for (size_t task = 0; task < last.size(); ++task) {
    EXPECT_GT(before[task].start, absl::ZeroDuration());
    EXPECT_GE(before[task].end, before[task].start);
    EXPECT_GE(last[task].start, before[task].end);
    EXPECT_GE(last[task].end, last[task].start);
  }
}

TEST(CpuBackend, AFailedTaskPoisonsTheProgramAndNobodyHangs) {
  program::Builder builder = MakeBuilder(2);
  std::vector<BufferId> logits, labels, p, metrics, received;
  for (int d = 0; d < 2; ++d) {
    logits.push_back(builder.AddBuffer(d, "logits", DType::kF32, {3, 10}));
    labels.push_back(builder.AddBuffer(d, "labels", DType::kI32, {3}));
    p.push_back(builder.AddBuffer(d, "p", DType::kF32, {3, 10}));
    metrics.push_back(builder.AddBuffer(d, "metrics", DType::kF64, {4}));
    received.push_back(builder.AddBuffer(d, "received", DType::kF32, {3, 10}));
  }
  for (int d = 0; d < 2; ++d) {
    builder.AddCompute(d, Lane::kCompute, program::SoftmaxCrossEntropyForward{},
                       {builder.Read(logits[d]), builder.Read(labels[d]), builder.Write(p[d]), builder.Write(metrics[d])},
                       {}, {"loss"});
  }
  builder.AddExchange(0, {{builder.Read(p[0]), builder.Write(received[0])}, {}}, 1,
                      {{builder.Read(p[1]), builder.Write(received[1])}, {}}, Lane::kComm, {"p"});
  Session session(std::move(builder).Build());
  ASSERT_TRUE(session.status().ok()) << session.status();
  session.Launch(0);
  EXPECT_TRUE(session->Synchronize(0).ok());
  session.Write(labels[1], {1, 10, 2});
  for (int64_t step = 1; step < 4; ++step) session.Launch(step);
  for (int64_t step = 1; step < 4; ++step) {
    const absl::Status status = session->Synchronize(step);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(status.message(), "task 1")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "device 1")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "label 10 of sample 1")) << status;
  }
}

// One convolution and one fully connected layer whose weights oneDNN lays out as it likes.
struct WeightsProgram {
  program::Program program;
  BufferId conv_w, fc_w;

  explicit WeightsProgram(int64_t batch = 4) {
    program::Builder builder = MakeBuilder(1);
    const auto step = [&](const char* name, Shape shape) {
      return builder.AddBuffer(0, name, DType::kF32, std::move(shape));
    };
    const BufferId x = step("x", {batch, 64, 7, 7}), y = step("y", {batch, 96, 7, 7});
    const BufferId a = step("a", {batch, 96}), b = step("b", {batch, 80});
    conv_w = builder.AddBuffer(0, "conv.w", DType::kF32, {96, 32, 3, 3}, Lifetime::kPersistent);
    fc_w = builder.AddBuffer(0, "fc.w", DType::kF32, {80, 96}, Lifetime::kPersistent);
    builder.AddCompute(0, Lane::kCompute, program::ConvForward{.window = {3, 3, 1, 1, 1, 1, 1, 1}, .groups = 2},
                       {builder.Read(x), builder.Read(conv_w), builder.Write(y)}, {}, {"conv"});
    builder.AddCompute(0, Lane::kCompute, program::FullyConnectedForward{},
                       {builder.Read(a), builder.Read(fc_w), builder.Write(b)}, {}, {"fc"});
    program = std::move(builder).Build();
  }
};

TEST(CpuBackend, LogicalContentOfWeightsSurvivesTheirLayouts) {
  const WeightsProgram weights;
  const auto layouts = ChooseLayouts(
      weights.program, CpuOptions::Kernels::kOneDnn, [](int, const std::string&) { return std::optional<OpaqueDesc>(); },
      dnnl::engine(dnnl::engine::kind::cpu, 0));
  ASSERT_TRUE(layouts.ok()) << layouts.status();
  ASSERT_EQ(layouts->views[weights.conv_w.value].kind, View::Kind::kOpaque) << "weights in an order of oneDNN's choice";
  Session session(weights.program);
  ASSERT_TRUE(session.status().ok()) << session.status();
  const std::vector<double> conv = Integers(96 * 32 * 9, 1, 1000), fc = Integers(80 * 96, 2, 1000);
  EXPECT_EQ(session.Read(weights.conv_w), std::vector<double>(conv.size(), 0.0));
  session.Write(weights.conv_w, conv);
  session.Write(weights.fc_w, fc);
  EXPECT_EQ(session.Read(weights.conv_w), conv);
  EXPECT_EQ(session.Read(weights.fc_w), fc);
}

TEST(CpuBackend, ProgramsShareThePersistentBuffersOfOneName) {
  const WeightsProgram large(8), small(1);
  Session session(large.program);
  ASSERT_TRUE(session.status().ok()) << session.status();
  const std::vector<double> conv = Integers(96 * 32 * 9, 3, 1000);
  session.Write(large.conv_w, conv);
  auto other = session.backend().Load(small.program, {{}, {}});
  ASSERT_TRUE(other.ok()) << other.status();
  std::vector<double> values(conv.size());
  ASSERT_TRUE((*other)->Read(small.conv_w, absl::MakeSpan(values)).ok());
  EXPECT_EQ(values, conv);
  EXPECT_EQ((*other)->Memory(0).persistent_bytes, session->Memory(0).persistent_bytes);

  program::Program mismatch = small.program;
  mismatch.buffer(small.fc_w).name = "conv.w";
  mismatch.buffer(small.conv_w).name = "fc.w";
  const absl::Status refused = session.backend().Load(mismatch, {{}, {}}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(refused.message(), "persistent tensor fc.w of device 0")) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "holds f32[80,96]")) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "wants f32[96,32,3,3]")) << refused;
}

TEST(CpuBackend, ABoxOfAPersistentBufferThatOneDnnLaidOutIsRefused) {
  const WeightsProgram weights;
  Session session(weights.program);
  ASSERT_TRUE(session.status().ok()) << session.status();
  program::Builder builder = MakeBuilder(1);
  const BufferId w = builder.AddBuffer(0, "conv.w", DType::kF32, {96, 32, 3, 3}, Lifetime::kPersistent);
  const BufferId half = builder.AddBuffer(0, "half", DType::kF32, {48, 32, 3, 3});
  builder.AddCompute(0, Lane::kCompute, program::Copy{},
                     {{w, {{48, 0, 0, 0}, {48, 32, 3, 3}}, Access::kRead}, builder.Write(half)}, {}, {"half"});
  const program::Program boxes = Scheduled(std::move(builder).Build());
  const absl::Status refused = session.backend().Load(boxes, {{}, {}}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(refused.message(), "persistent tensor conv.w of device 0")) << refused;
  EXPECT_TRUE(Session(boxes).status().ok()) << "alone it is legal";
}

TEST(CpuBackend, RefusesWhatDoesNotFit) {
  const WeightsProgram weights;
  Session limited(weights.program, {.memory_limit_bytes = 100000});
  EXPECT_EQ(limited.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(limited.status().message(), "limit is 100000")) << limited.status();

  program::Program in_double = weights.program;
  in_double.dtype = DType::kF64;
  Session doubles(in_double);
  EXPECT_EQ(doubles.status().code(), absl::StatusCode::kInvalidArgument);

  EXPECT_FALSE(MakeCpuBackend({.devices = 0}).ok());
}

// An LRN, which wants a workspace, of a persistent buffer.
program::Program OneLrn() {
  program::Builder builder = MakeBuilder(1);
  const Shape image = {2, 32, 6, 6};
  const BufferId x = builder.AddBuffer(0, "x", DType::kF32, image, Lifetime::kPersistent);
  const BufferId y = builder.AddBuffer(0, "y", DType::kF32, image);
  const BufferId dx = builder.AddBuffer(0, "dx", DType::kF32, image);
  builder.AddCompute(0, Lane::kCompute, program::LrnForward{}, {builder.Read(x), builder.Write(y)}, {}, {"lrn"});
  builder.AddCompute(0, Lane::kCompute, program::LrnBackward{}, {builder.Read(x), builder.Read(y), builder.Write(dx)}, {},
                     {"lrn"});
  return Scheduled(std::move(builder).Build());
}

// In a process of its own, since OpenMP reads its environment when it is loaded.
TEST(CpuBackendDeathTest, RefusesDevicesWhoseThreadsOpenMpWouldBindToTheSameCores) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto refusal = [](int devices) {
    const auto backend = MakeCpuBackend({.devices = devices, .threads_per_device = 1});
    std::fputs(backend.status().ToString().c_str(), stderr);
    std::exit(backend.ok() ? 0 : 1);
  };
  ASSERT_EQ(::setenv("OMP_PROC_BIND", "true", /*overwrite=*/1), 0);
  EXPECT_EXIT(refusal(2), testing::ExitedWithCode(1),
              "bind the threads of all devices to the same cores; unset OMP_PROC_BIND");
  EXPECT_EXIT(refusal(1), testing::ExitedWithCode(0), "OK");
  ::unsetenv("OMP_PROC_BIND");
}

TEST(CpuBackend, MemoryThatTheMachineRefusesLeavesTheBooksInOrder) {
  const program::Program program = OneLrn();
  auto unlimited = MakeCpuBackend({.devices = 1, .threads_per_device = 1});
  ASSERT_TRUE(unlimited.ok()) << unlimited.status();
  const auto memory = (*unlimited)->MemoryOf(program);
  ASSERT_TRUE(memory.ok()) << memory.status();
  ASSERT_GT((*memory)[0].workspace_bytes, 0);
  // A backend with room for the Program once.
  const CpuOptions options{.devices = 1, .threads_per_device = 1, .memory_limit_bytes = (*memory)[0].total_bytes()};
  const auto load = [&](engine::Backend& backend) { return backend.Load(program, {{}, {}}); };
  int refusals = 0;
  for (bool was_refused = true; was_refused; ++refusals) {
    auto backend = MakeCpuBackend(options);
    ASSERT_TRUE(backend.ok()) << backend.status();
    {
      const RefusedMemory refused(refusals);
      const absl::Status status = load(**backend).status();
      was_refused = !status.ok();
      if (was_refused) {
        EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      }
    }
    EXPECT_EQ((*backend)->TakenBytes(0), was_refused ? 0 : (*memory)[0].persistent_bytes) << "after refusal " << refusals;
    const auto once = load(**backend);
    ASSERT_TRUE(once.ok()) << once.status();
    EXPECT_EQ((*backend)->TakenBytes(0), (*memory)[0].total_bytes()) << "after refusal " << refusals;
  }
  EXPECT_EQ(refusals, 3 + 1);  // of the step buffers, the workspace and the persistent buffer; then none
}

TEST(CpuBackend, EqualBitsForAnyNumberOfThreads) {
  program::Builder builder = MakeBuilder(1);
  const BufferId x = builder.AddBuffer(0, "x", DType::kF32, {3, 32, 9, 9}),
                 w = builder.AddBuffer(0, "w", DType::kF32, {48, 32, 3, 3});
  const BufferId y = builder.AddBuffer(0, "y", DType::kF32, {3, 48, 9, 9}),
                 db = builder.AddBuffer(0, "db", DType::kF32, {48});
  builder.AddCompute(0, Lane::kCompute, program::ConvForward{.window = {3, 3, 1, 1, 1, 1, 1, 1}, .relu = true},
                     {builder.Read(x), builder.Read(w), builder.Write(y)}, {}, {"conv"});
  builder.AddCompute(0, Lane::kCompute, program::BiasBackward{}, {builder.Read(y), builder.Write(db)}, {}, {"conv"});
  const program::Program program = std::move(builder).Build();
  std::vector<double> first_y, first_db;
  for (int threads : {1, 2, 3}) {
    Session session(program, {.threads_per_device = threads});
    ASSERT_TRUE(session.status().ok()) << session.status();
    session.Write(x, Integers(3 * 32 * 81, 1));
    session.Write(w, Integers(48 * 32 * 9, 2));
    session.Launch(0);
    ASSERT_TRUE(session->Synchronize(0).ok());
    if (threads == 1) {
      first_y = session.Read(y);
      first_db = session.Read(db);
    }
    EXPECT_EQ(session.Read(y), first_y);
    EXPECT_EQ(session.Read(db), first_db);
  }
}

// Numbers whose sums depend on their order.
std::vector<double> Fractions(int64_t count, int seed) {
  std::vector<double> values = Integers(count, seed);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(values[i] / 3 + 1e-3 * std::sin(i));
  return values;
}

// The sums of batch normalisation, forward and backward, of images of `shape` in two groups; of `threads`.
std::vector<std::vector<double>> SumsOfBatchNorm(const Shape& shape, int threads) {
  program::Builder builder = MakeBuilder(1);
  const int64_t channels = shape[1], count = program::ElementCount(shape) / channels / 2;
  const auto add = [&](const char* name, DType dtype, const Shape& of) { return builder.AddBuffer(0, name, dtype, of); };
  const BufferId x = add("x", DType::kF32, shape), dy = add("dy", DType::kF32, shape);
  const BufferId sums = add("sums", DType::kF64, {2, 2, channels}), dsums = add("dsums", DType::kF64, {2, 2, channels});
  const BufferId dw = add("dw", DType::kF32, {channels}), db = add("db", DType::kF32, {channels});
  builder.AddCompute(0, Lane::kCompute, program::BatchNormSums{}, {builder.Read(x), builder.Write(sums)}, {}, {"norm"});
  builder.AddCompute(
      0, Lane::kCompute, program::BatchNormBackwardSums{.count = count},
      {builder.Read(x), builder.Read(dy), builder.Read(sums), builder.Write(dsums), builder.Write(dw), builder.Write(db)},
      {}, {"norm"});
  Session session(std::move(builder).Build(), {.threads_per_device = threads});
  EXPECT_TRUE(session.status().ok()) << session.status();
  session.Write(x, Fractions(program::ElementCount(shape), 1));
  session.Write(dy, Fractions(program::ElementCount(shape), 2));
  session.Launch(0);
  EXPECT_TRUE(session->Synchronize(0).ok());
  return {session.Read(sums), session.Read(dsums), session.Read(dw), session.Read(db)};
}

TEST(CpuBackend, TheSumsOfBatchNormalisationHaveEqualBitsForAnyNumberOfThreads) {
  for (const Shape& shape : {Shape{2, 16, 70, 70}, Shape{4, 3, 150, 150}, Shape{8, 160, 7, 7}, Shape{5000, 40}}) {
    SCOPED_TRACE(program::ToString(shape));
    const auto one = SumsOfBatchNorm(shape, 1);
    for (int threads : {2, 3, 5}) EXPECT_EQ(SumsOfBatchNorm(shape, threads), one) << threads << " threads";
  }
}

// Between two convolutions, forward and back: its operands lie as theirs do, so that nothing is copied for it.
TEST(CpuBackend, BatchNormalisationTakesTheLayoutOfConvolutions) {
  program::Builder builder = MakeBuilder(1);
  const Shape image = {2, 32, 9, 9}, filters = {32, 32, 3, 3}, of_sums = {1, 2, 32};
  const auto add = [&](const char* name, const Shape& shape, DType dtype = DType::kF32) {
    return builder.AddBuffer(0, name, dtype, shape);
  };
  const auto keep = [&](const char* name, const Shape& shape) {
    return builder.AddBuffer(0, name, DType::kF32, shape, Lifetime::kPersistent);
  };
  const auto run = [&](program::Op op, program::Uses uses) {
    builder.AddCompute(0, Lane::kCompute, std::move(op), std::move(uses), {}, {"layer"});
  };
  const BufferId x = add("x", image), z = add("z", image), n = add("n", image), y = add("y", image), dn = add("dn", image);
  const BufferId dz = add("dz", image), dx = add("dx", image), sums = add("sums", of_sums, DType::kF64);
  const BufferId dsums = add("dsums", of_sums, DType::kF64), dw = add("dw", {32}), db = add("db", {32});
  const BufferId first = keep("first", filters), second = keep("second", filters), w = keep("w", {32}), b = keep("b", {32});
  const program::Window same{3, 3, 1, 1, 1, 1, 1, 1};
  run(program::ConvForward{.window = same}, {builder.Read(x), builder.Read(first), builder.Write(z)});
  run(program::BatchNormSums{}, {builder.Read(z), builder.Write(sums)});
  run(program::BatchNormForward{.count = 162, .relu = true},
      {builder.Read(z), builder.Read(sums), builder.Read(w), builder.Read(b), builder.Write(n)});
  run(program::ConvForward{.window = same}, {builder.Read(n), builder.Read(second), builder.Write(y)});
  run(program::ConvBackwardData{.window = same}, {builder.Read(y), builder.Read(second), builder.Write(dn)});
  run(program::BatchNormBackwardSums{.count = 162},
      {builder.Read(z), builder.Read(dn), builder.Read(sums), builder.Write(dsums), builder.Write(dw), builder.Write(db)});
  run(program::BatchNormBackward{.count = 162},
      {builder.Read(z), builder.Read(dn), builder.Read(sums), builder.Read(dsums), builder.Read(w), builder.Write(dz)});
  run(program::ConvBackwardData{.window = same}, {builder.Read(dz), builder.Read(first), builder.Write(dx)});
  Session session(std::move(builder).Build(), {.threads_per_device = 1});
  ASSERT_TRUE(session.status().ok()) << session.status();
  for (const engine::AddedReorder& reorder : session->added_reorders()) {
    const std::string op = program::Name(session.program().task(reorder.task));
    EXPECT_FALSE(absl::StartsWith(op, "batch_norm")) << op << ": " << reorder.description;
  }
}

// A hit counts a class with an equal logit as ahead where its index is smaller.
TEST(CpuBackend, OfEqualLogitsTheSmallestClassIsAhead) {
  constexpr int64_t kSamples = 7, kClasses = 7;
  program::Builder builder = MakeBuilder(1);
  const Fed logits = AddFed(builder, 0, "logits", DType::kF32, {kSamples, kClasses});
  const Fed labels = AddFed(builder, 0, "labels", DType::kI32, {kSamples});
  const BufferId p = builder.AddBuffer(0, "p", DType::kF32, {kSamples, kClasses});
  const BufferId metrics = builder.AddBuffer(0, "metrics", DType::kF64, {4});
  builder.AddCompute(0, Lane::kCompute, program::SoftmaxCrossEntropyForward{},
                     {builder.Read(logits.step), builder.Read(labels.step), builder.Write(p), builder.Write(metrics)}, {},
                     {"loss"});
  const program::Program program = std::move(builder).Build();
  for (const auto kernels : {CpuOptions::Kernels::kOneDnn, CpuOptions::Kernels::kReference}) {
    Session session(program, {.kernels = kernels});
    ASSERT_TRUE(session.status().ok()) << session.status();
    session.Write(logits.host, std::vector<double>(kSamples * kClasses, 2.0));
    session.Write(labels.host, {0, 1, 2, 3, 4, 5, 6});
    session.Launch(0);
    ASSERT_TRUE(session->Synchronize(0).ok());
    const std::vector<double> sums = session.Read(metrics);
    EXPECT_EQ(sums[1], 1);  // class 0 alone is ahead of all others
    EXPECT_EQ(sums[2], 5);
    EXPECT_EQ(sums[3], 7);
  }
}

// A column of each operand: no two of its elements are neighbours.
TEST(CpuBackend, AnUpdateOfAColumnLeavesTheOtherColumns) {
  constexpr int64_t kRows = 5, kColumns = 6;
  program::Builder builder = MakeBuilder(1);
  const Fed scalars = AddFed(builder, 0, "scalars", DType::kF64, {program::StepScalar::kCount});
  const auto add = [&](const char* name) {
    return builder.AddBuffer(0, name, DType::kF32, {kRows, kColumns}, Lifetime::kPersistent);
  };
  const BufferId g = add("g"), v = add("v"), w = add("w");
  const auto column = [](BufferId id, int64_t at, Access access) {
    return program::BufferUse{id, {{0, at}, {kRows, 1}}, access};
  };
  builder.AddCompute(0, Lane::kCompute, program::SgdUpdate{.momentum = 0.5, .weight_decay = 0.25},
                     {builder.Read(scalars.step), column(g, 1, Access::kRead), column(v, 3, Access::kAccumulate),
                      column(w, 4, Access::kAccumulate)},
                     {}, {"update"});
  Session session(std::move(builder).Build());
  ASSERT_TRUE(session.status().ok()) << session.status();
  const std::vector<double> gradient = Integers(kRows * kColumns, 1);
  std::vector<double> velocity = Integers(kRows * kColumns, 2), weight = Integers(kRows * kColumns, 3);
  session.Write(g, gradient);
  session.Write(v, velocity);
  session.Write(w, weight);
  session.Write(scalars.host, {0.5, 0, 1});
  session.Launch(0);
  ASSERT_TRUE(session->Synchronize(0).ok());
  for (int64_t row = 0; row < kRows; ++row) {
    double &dv = velocity[row * kColumns + 3], &dw = weight[row * kColumns + 4];
    dv = 0.5 * dv - 0.5 * (gradient[row * kColumns + 1] + 0.25 * dw);
    dw += dv;
  }
  EXPECT_EQ(session.Read(v), velocity);
  EXPECT_EQ(session.Read(w), weight);
}

// y[p] of a 3 x 3 pooling over a constant image: the gradient of a tie goes to the first of the window.
TEST(CpuBackend, TheFirstOfEqualMaximaTakesTheGradient) {
  for (int64_t channels : {3, 16, 32}) {
    program::Builder builder = MakeBuilder(1);
    const Shape image = {2, channels, 7, 7}, pooled = {2, channels, 3, 3};
    const Fed x = AddFed(builder, 0, "x", DType::kF32, image), dy = AddFed(builder, 0, "dy", DType::kF32, pooled);
    const BufferId y = builder.AddBuffer(0, "y", DType::kF32, pooled), dx = builder.AddBuffer(0, "dx", DType::kF32, image);
    const BufferId argmax = builder.AddBuffer(0, "argmax", DType::kU8, pooled);
    const program::Window window{3, 3, 2, 2};
    builder.AddCompute(0, Lane::kCompute, program::MaxPoolForward{window},
                       {builder.Read(x.step), builder.Write(y), builder.Write(argmax)}, {}, {"pool"});
    builder.AddCompute(0, Lane::kCompute, program::MaxPoolBackward{window},
                       {builder.Read(argmax), builder.Read(dy.step), builder.Write(dx)}, {}, {"pool"});
    Session session(std::move(builder).Build());
    ASSERT_TRUE(session.status().ok()) << session.status();
    session.Write(x.host, std::vector<double>(2 * channels * 49, 5));
    session.Write(dy.host, std::vector<double>(2 * channels * 9, 1));
    session.Launch(0);
    ASSERT_TRUE(session->Synchronize(0).ok());
    const std::vector<double> gradient = session.Read(dx);
    for (size_t i = 0; i < gradient.size(); ++i) {
      const int64_t h = i % 49 / 7, w = i % 7;
      EXPECT_EQ(gradient[i], h % 2 == 0 && h < 6 && w % 2 == 0 && w < 6 ? 1 : 0) << "channels " << channels << " at " << i;
    }
  }
}

}  // namespace
}  // namespace colonnade::cpu
