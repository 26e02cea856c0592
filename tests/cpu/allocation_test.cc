// A step of the executor, our own kernels, transfers and lanes allocates nothing. (oneDNN's own small allocations are known
// and tolerated, so that the Program here has none of its primitives. Sanitizers allocate for themselves.)
#include "tests/sanitized.h"
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/classification.h"
#include "engine/executor.h"
#include "fixture.h"
#include "gtest/gtest.h"
#include "tests/allocations.h"

namespace colonnade::cpu {
namespace {

using program::BufferId;
using program::DType;
using program::Lane;
using program::Shape;

program::Program OwnKernels() {
  program::Builder builder = MakeBuilder(2);
  const Shape image = {2, 32, 6, 6}, flat = {2, 32 * 36}, half = {2, 16, 6, 6};
  std::vector<BufferId> parts, gathered, sums;
  program::Input images{"images", DType::kF32, image, {}}, targets{"labels", DType::kI32, {2}, {}};
  program::Input step{"scalars", DType::kF64, {program::StepScalar::kCount}, {}};
  program::Output results{program::Output::Kind::kMetrics, "metrics", "loss", {4}, {}};
  program::Output flags{program::Output::Kind::kFinite, "finite", "", {1}, {}};
  for (int d = 0; d < 2; ++d) {
    const auto add = [&](const char* name, const Shape& shape, DType dtype = DType::kF32) {
      return builder.AddBuffer(d, name, dtype, shape);
    };
    const auto run = [&](program::Op op, program::Uses uses, Lane lane = Lane::kCompute) {
      builder.AddCompute(d, lane, std::move(op), std::move(uses), {}, {"layer"});
    };
    const BufferId x = add("x", image), labels = add("labels", {2}, DType::kI32),
                   scalars = add("scalars", {program::StepScalar::kCount}, DType::kF64);
    int input = 0;
    for (const auto& [buffer, of] : {std::pair{x, &images}, {labels, &targets}, {scalars, &step}}) {
      of->pieces.push_back({buffer, WholeOf(builder.shape(buffer))});
      run(program::Load{input++}, {builder.Write(buffer)}, Lane::kCopy);
    }
    const BufferId relu = add("relu", image), lrn = add("lrn", image), matrix = add("matrix", flat);
    const BufferId dropped = add("dropped", flat), p = add("p", flat), dp = add("dp", flat), bias = add("bias", {32 * 36});
    const BufferId metrics = add("metrics", {4}, DType::kF64), count = add("count", {1}, DType::kF64),
                   flag = add("flag", {1}, DType::kI32), dx = add("dx", image);
    const BufferId v = builder.AddBuffer(d, "v", DType::kF32, {32 * 36}, program::Lifetime::kPersistent);
    const BufferId w = builder.AddBuffer(d, "w", DType::kF32, {32 * 36}, program::Lifetime::kPersistent);
    const BufferId mean = builder.AddBuffer(d, "mean", DType::kF32, {32}, program::Lifetime::kPersistent);
    const BufferId var = builder.AddBuffer(d, "var", DType::kF32, {32}, program::Lifetime::kPersistent);
    const BufferId bn_recalled = add("bn_recalled", {1, 2, 32}, DType::kF64);
    run(program::ActivationForward{program::Activation::kRelu}, {builder.Read(x), builder.Write(relu)});
    program::Uses many(40, builder.Read(relu));
    many.push_back(builder.Write(add("sum", image)));
    run(program::Sum{}, std::move(many));
    run(program::LrnForward{.groups = 2}, {builder.Read(relu), builder.Write(lrn)});
    run(program::LrnBackward{.groups = 2}, {builder.Read(relu), builder.Read(lrn), builder.Write(dx)});
    const BufferId bn_sums = add("bn_sums", {2, 2, 32}, DType::kF64), bn_totals = add("bn_totals", {1, 2, 32}, DType::kF64);
    const BufferId bn_dsums = add("bn_dsums", {2, 2, 32}, DType::kF64), bn_dx = add("bn_dx", image), bn = add("bn", image);
    const BufferId bn_w = add("bn_w", {32}), bn_b = add("bn_b", {32});
    run(program::BatchNormSums{}, {builder.Read(lrn), builder.Write(bn_sums), builder.Write(bn_totals)});
    run(program::BatchNormRecall{}, {builder.Read(mean), builder.Read(var), builder.Write(bn_recalled)});
    run(program::BatchNormTrack{.count = 144}, {builder.Read(bn_totals), builder.Accumulate(mean), builder.Accumulate(var)});
    run(program::BatchNormBackwardSums{.count = 72}, {builder.Read(lrn), builder.Read(dx), builder.Read(bn_sums),
                                                      builder.Write(bn_dsums), builder.Write(bn_w), builder.Write(bn_b)});
    run(program::BatchNormForward{.count = 72, .relu = true},
        {builder.Read(lrn), builder.Read(bn_sums), builder.Read(bn_w), builder.Read(bn_b), builder.Write(bn)});
    run(program::BatchNormBackward{.count = 72}, {builder.Read(bn), builder.Read(dx), builder.Read(bn_sums),
                                                  builder.Read(bn_dsums), builder.Read(bn_w), builder.Write(bn_dx)});
    const BufferId ln = add("ln", image), ln_dx = add("ln_dx", image), moments = add("moments", {2, 3, 6, 6});
    const BufferId ln_w = add("ln_w", {32}), ln_b = add("ln_b", {32});
    run(program::LayerNormForward{},
        {builder.Read(bn_dx), builder.Read(bn_w), builder.Read(bn_b), builder.Write(ln), builder.Write(moments)});
    run(program::LayerNormBackwardWeights{},
        {builder.Read(bn_dx), builder.Read(ln), builder.Read(moments), builder.Write(ln_w), builder.Write(ln_b)});
    run(program::LayerNormBackwardData{},
        {builder.Read(bn_dx), builder.Read(ln), builder.Read(moments), builder.Read(bn_w), builder.Write(ln_dx)});
    run(program::Copy{}, {builder.Read(ln_dx), builder.Write(matrix)});
    run(program::Dropout{.global_shape = flat, .offset = {0, 0}},
        {builder.Read(scalars), builder.Read(matrix), builder.Write(dropped)});
    run(program::SoftmaxCrossEntropyForward{},
        {builder.Read(dropped), builder.Read(labels), builder.Write(p), builder.Write(metrics)});
    run(program::CountLabels{}, {builder.Read(labels), builder.Write(count)});
    run(program::SoftmaxCrossEntropyBackward{},
        {builder.Read(count), builder.Read(p), builder.Read(labels), builder.Write(dp)});
    run(program::BiasBackward{}, {builder.Read(dp), builder.Write(bias)});
    run(program::SgdUpdate{}, {builder.Read(scalars), builder.Read(bias), builder.Accumulate(v), builder.Accumulate(w)});
    run(program::CheckFinite{}, {builder.Read(dp), builder.Write(flag)}, Lane::kCopy);
    if (d == 0) run(program::Store{0}, {builder.Read(metrics)}, Lane::kCopy);
    run(program::Store{1}, {builder.Read(flag)}, Lane::kCopy);
    if (d == 0) results.pieces.push_back({metrics, WholeOf({4})});
    flags.pieces.push_back({flag, WholeOf({1})});
    parts.push_back(add("part", half));
    gathered.push_back(add("gathered", image));
    sums.push_back(lrn);
    run(program::Copy{}, {{relu, {{0, 16, 0, 0}, half}, program::Access::kRead}, builder.Write(parts[d])});
  }
  for (const program::Input& input : {images, targets, step}) builder.AddInput(input);
  for (const program::Output& output : {results, flags}) builder.AddOutput(output);
  builder.AddParameter({.name = "w", .layer = "layer", .shape = {32 * 36}});
  const int both = builder.AddGroup({0, 1});
  builder.AddCollective(both, {.kind = program::CollectiveKind::kAllGather, .dim_to = 1},
                        {{{builder.Read(parts[0]), builder.Write(gathered[0])}, {}},
                         {{builder.Read(parts[1]), builder.Write(gathered[1])}, {}}},
                        Lane::kComm, {"gather"});
  builder.AddCollective(both, {.kind = program::CollectiveKind::kAllReduce},
                        {{{builder.Accumulate(sums[0])}, {}}, {{builder.Accumulate(sums[1])}, {}}}, Lane::kComm, {"sum"});
  builder.AddExchange(0, {{builder.Read(gathered[0])}, {}}, 1, {{builder.Write(sums[1])}, {}}, Lane::kComm, {"exchange"});
  return std::move(builder).Build();
}

TEST(Allocation, AStepAllocatesNothing) {
  const program::Program program = Scheduled(OwnKernels());
  auto backend = MakeCpuBackend({.devices = 2, .threads_per_device = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  auto created = engine::Executor::Create(program, **backend);
  ASSERT_TRUE(created.ok()) << created.status();
  engine::Executor& executor = **created;
  bool ok = true;
  const auto enqueue = [&] {
    const auto images = executor.NextInput<float>(engine::kImages);
    ok = ok && images.ok();
    std::fill(images->begin(), images->end(), 1.0f);
    const auto labels = executor.NextInput<int32_t>(engine::kLabels);
    std::fill(labels->begin(), labels->end(), 3);
    ok = ok && executor.Enqueue({.learning_rate = 0.1}).ok();
  };
  enqueue();
  const int64_t allocations = AllocationsIn([&] {
    for (int step = 1; step < 6; ++step) {
      enqueue();
      ok = ok && engine::CollectScored(executor).ok();
    }
  });
  ASSERT_TRUE(ok);
  EXPECT_EQ(allocations, 0);
  EXPECT_GT(engine::CollectScored(executor)->loss, 0);
}

}  // namespace
}  // namespace colonnade::cpu

#endif
