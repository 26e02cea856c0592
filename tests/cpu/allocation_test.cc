// A step of our own kernels, transfers and lanes allocates nothing. (oneDNN's own small allocations are known and tolerated,
// so that the Program here has none of its primitives. Sanitizers bring their own operator new.)
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "fixture.h"
#include "gtest/gtest.h"

namespace {
std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0;

void* CountedAllocation(std::size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) { return CountedAllocation(bytes); }
void* operator new[](std::size_t bytes) { return CountedAllocation(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

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
  for (int d = 0; d < 2; ++d) {
    const auto add = [&](const char* name, const Shape& shape, DType dtype = DType::kF32) {
      return builder.AddBuffer(d, name, dtype, shape);
    };
    const auto run = [&](program::Op op, program::Uses uses, Lane lane = Lane::kCompute) {
      builder.AddCompute(d, lane, std::move(op), std::move(uses), {}, {"layer"});
    };
    const BufferId x = AddFed(builder, d, "x", DType::kF32, image).step;
    const BufferId scalars = AddFed(builder, d, "scalars", DType::kF64, {4}).step;
    const BufferId labels = AddFed(builder, d, "labels", DType::kI32, {2}).step;
    const BufferId relu = add("relu", image), s = add("s", image), lrn = add("lrn", image), matrix = add("matrix", flat);
    const BufferId dropped = add("dropped", flat), p = add("p", flat), dp = add("dp", flat), bias = add("bias", {32 * 36});
    const BufferId metrics = add("metrics", {4}, DType::kF64), flag = add("flag", {1}, DType::kI32), dx = add("dx", image);
    const BufferId v = builder.AddBuffer(d, "v", DType::kF32, {32 * 36}, program::Lifetime::kPersistent);
    const BufferId w = builder.AddBuffer(d, "w", DType::kF32, {32 * 36}, program::Lifetime::kPersistent);
    run(program::ReluForward{}, {builder.Read(x), builder.Write(relu)});
    run(program::LrnForward{.groups = 2}, {builder.Read(relu), builder.Write(lrn), builder.Write(s)});
    run(program::LrnBackward{.groups = 2}, {builder.Read(relu), builder.Read(s), builder.Read(lrn), builder.Write(dx)});
    run(program::Copy{}, {builder.Read(dx), builder.Write(matrix)});
    run(program::Dropout{.global_shape = flat, .offset = {0, 0}},
        {builder.Read(scalars), builder.Read(matrix), builder.Write(dropped)});
    run(program::SoftmaxCrossEntropyForward{},
        {builder.Read(dropped), builder.Read(labels), builder.Write(p), builder.Write(metrics)});
    run(program::SoftmaxCrossEntropyBackward{},
        {builder.Read(scalars), builder.Read(p), builder.Read(labels), builder.Write(dp)});
    run(program::BiasBackward{}, {builder.Read(dp), builder.Write(bias)});
    run(program::SgdUpdate{}, {builder.Read(scalars), builder.Read(bias), builder.Accumulate(v), builder.Accumulate(w)});
    run(program::CheckFinite{}, {builder.Read(dp), builder.Write(flag)}, Lane::kCopy);
    parts.push_back(add("part", half));
    gathered.push_back(add("gathered", image));
    sums.push_back(lrn);
    run(program::Copy{}, {{relu, {{0, 16, 0, 0}, half}, program::Access::kRead}, builder.Write(parts[d])});
  }
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
  Session session(OwnKernels());
  ASSERT_TRUE(session.status().ok()) << session.status();
  session.Launch(0);
  ASSERT_TRUE(session->Synchronize(0).ok()) << session->Synchronize(0);
  counting = true;
  for (int64_t step = 1; step < 6; ++step) {
    if (step >= 3) session->Synchronize(step - 2).IgnoreError();
    session.Launch(step);
  }
  session->Synchronize(5).IgnoreError();
  counting = false;
  EXPECT_EQ(allocations.load(), 0);
}

}  // namespace
}  // namespace colonnade::cpu

#endif
