// Buckets end to end: gradients written by kernels in their own layouts, reduced in parts, and updated in parts.
#include <cmath>
#include <vector>

#include "fixture.h"
#include "gtest/gtest.h"
#include "program/verify.h"

namespace colonnade::cpu {
namespace {

using program::Access;
using program::Buffer;
using program::BufferId;
using program::BufferUse;
using program::DType;
using program::Lane;
using program::Lifetime;
using program::Shape;

constexpr int64_t kIn = 16, kOut = 32, kSize = 5, kBatch = 2;

// dw[k,c,r,s] = Σ_{n,p,q} x[n,c,p+r−1,q+s−1] · dy[n,k,p,q]
std::vector<double> WeightGradient(const std::vector<double>& x, const std::vector<double>& dy) {
  std::vector<double> dw(kOut * kIn * 9);
  for (int64_t i = 0; i < kOut * kIn * 9; ++i) {
    const int64_t k = i / (kIn * 9), c = i / 9 % kIn, r = i / 3 % 3, s = i % 3;
    for (int64_t n = 0; n < kBatch; ++n) {
      for (int64_t p = 0; p < kSize; ++p) {
        for (int64_t q = 0; q < kSize; ++q) {
          const int64_t h = p + r - 1, w = q + s - 1;
          if (h < 0 || w < 0 || h >= kSize || w >= kSize) continue;
          dw[i] += x[((n * kIn + c) * kSize + h) * kSize + w] * dy[((n * kOut + k) * kSize + p) * kSize + q];
        }
      }
    }
  }
  return dw;
}

std::vector<double> BiasGradient(const std::vector<double>& dy) {
  std::vector<double> db(kOut);
  for (size_t i = 0; i < dy.size(); ++i) db[i / (kSize * kSize) % kOut] += dy[i];
  return db;
}

// A convolution on `devices` replicas whose optimiser state is cut into one part per replica.
struct Sharded {
  program::Program program;
  std::vector<Fed> x, dy, scalars;
  std::vector<BufferId> w, b, momentum_w, momentum_b, flag;

  explicit Sharded(int devices, DType dtype = DType::kF32) {
    program::Builder builder = MakeBuilder(devices, dtype);
    std::vector<BufferId> weights, gradients, reduced, momenta;
    std::vector<int> group;
    const std::vector<std::string> names = {"w", "b"};
    const std::vector<Shape> shapes = {{kOut, kIn, 3, 3}, {kOut}};
    for (int d = 0; d < devices; ++d) {
      group.push_back(d);
      program::Builder::BucketSpec spec{.device = d,
                                        .dtype = dtype,
                                        .parts = devices,
                                        .held_parts = devices,
                                        .equal_parts = true,
                                        .member_shapes = shapes};
      const auto add = [&](const std::string& name, Lifetime lifetime, bool whole) {
        spec.name = name;
        spec.lifetime = lifetime;
        spec.first_part = whole ? 0 : d;
        spec.held_parts = whole ? devices : 1;
        spec.member_names = {name + ".w", name + ".b"};
        return builder.AddBucket(spec);
      };
      weights.push_back(add("weights", Lifetime::kPersistent, true));
      const auto members = [&](BufferId bucket) {
        return std::get<program::Bucket>(builder.buffer(bucket).storage).members;
      };
      w.push_back(members(weights[d])[0]);
      b.push_back(members(weights[d])[1]);
      spec.member_layout_as = {w[d], b[d]};
      gradients.push_back(add("gradients", Lifetime::kStep, true));
      reduced.push_back(add("reduced", Lifetime::kStep, false));
      momenta.push_back(add("momenta", Lifetime::kPersistent, false));
      momentum_w.push_back(members(momenta[d])[0]);
      momentum_b.push_back(members(momenta[d])[1]);
      x.push_back(AddFed(builder, d, "x", dtype, {kBatch, kIn, kSize, kSize}));
      dy.push_back(AddFed(builder, d, "dy", dtype, {kBatch, kOut, kSize, kSize}));
      scalars.push_back(AddFed(builder, d, "scalars", DType::kF64, {program::StepScalar::kCount}));
      flag.push_back(builder.AddBuffer(d, "flag", DType::kI32, {1}));
      const BufferId y = builder.AddBuffer(d, "y", dtype, {kBatch, kOut, kSize, kSize});
      const program::Window window{3, 3, 1, 1, 1, 1, 1, 1};
      builder.AddCompute(d, Lane::kCompute, program::ConvForward{.window = window, .bias = true},
                         {builder.Read(x[d].step), builder.Read(w[d]), builder.Read(b[d]), builder.Write(y)}, {}, {"conv"});
      const auto gradient = members(gradients[d]);
      builder.AddCompute(
          d, Lane::kCompute, program::ConvBackwardWeights{.window = window, .bias = true},
          {builder.Read(x[d].step), builder.Read(dy[d].step), builder.Write(gradient[0]), builder.Write(gradient[1])}, {},
          {"conv"});
    }
    const auto part = [](BufferId bucket, int d, Access access) { return BufferUse{bucket, {{d}, {1}}, access}; };
    const int all = builder.AddGroup(group);
    std::vector<program::Member> scatter, gather;
    for (int d = 0; d < devices; ++d) {
      scatter.push_back({{builder.Read(gradients[d]), part(reduced[d], d, Access::kWrite)}, {}});
      gather.push_back({{part(weights[d], d, Access::kRead), builder.Write(weights[d])}, {}});
    }
    builder.AddCollective(all, {.kind = program::CollectiveKind::kReduceScatter}, scatter, Lane::kComm, {"gradients"});
    for (int d = 0; d < devices; ++d) {
      builder.AddCompute(d, Lane::kCompute, program::CheckFinite{},
                         {part(reduced[d], d, Access::kRead), builder.Write(flag[d])}, {}, {"gradients"});
      builder.AddCompute(d, Lane::kCompute, program::SgdUpdate{.momentum = 0.5, .weight_decay = 0},
                         {builder.Read(scalars[d].step), part(reduced[d], d, Access::kRead),
                          part(momenta[d], d, Access::kAccumulate), part(weights[d], d, Access::kAccumulate)},
                         {}, {"gradients"});
    }
    builder.AddCollective(all, {.kind = program::CollectiveKind::kAllGather}, gather, Lane::kComm, {"weights"});
    program = std::move(builder).Build();
  }
};

void RunSharded(int devices, DType dtype, CpuOptions::Kernels kernels) {
  const Sharded sharded(devices, dtype);
  Session session(sharded.program, {.kernels = kernels});
  ASSERT_TRUE(session.status().ok()) << session.status();
  std::vector<double> w = Integers(kOut * kIn * 9, 1), b = Integers(kOut, 2);
  std::vector<double> vw(w.size()), vb(b.size());
  for (int d = 0; d < devices; ++d) {
    session.Write(sharded.w[d], w);
    session.Write(sharded.b[d], b);
  }
  for (int64_t step = 0; step < 3; ++step) {
    std::vector<double> gw(w.size()), gb(b.size());
    for (int d = 0; d < devices; ++d) {
      const std::vector<double> x = Integers(kBatch * kIn * kSize * kSize, 10 * d + step, 3);
      const std::vector<double> dy = Integers(kBatch * kOut * kSize * kSize, 20 * d + step, 3);
      session.Write(sharded.x[d].host, x);
      session.Write(sharded.dy[d].host, dy);
      session.Write(sharded.scalars[d].host, {0.5, static_cast<double>(step), 1});
      const std::vector<double> one_w = WeightGradient(x, dy), one_b = BiasGradient(dy);
      for (size_t i = 0; i < gw.size(); ++i) gw[i] += one_w[i];
      for (size_t i = 0; i < gb.size(); ++i) gb[i] += one_b[i];
    }
    for (size_t i = 0; i < w.size(); ++i) w[i] += vw[i] = 0.5 * vw[i] - 0.5 * gw[i];
    for (size_t i = 0; i < b.size(); ++i) b[i] += vb[i] = 0.5 * vb[i] - 0.5 * gb[i];
    session.Launch(step);
    ASSERT_TRUE(session->Synchronize(step).ok()) << session->Synchronize(step);
    for (int d = 0; d < devices; ++d) {
      EXPECT_EQ(session.Read(sharded.w[d]), w);
      EXPECT_EQ(session.Read(sharded.b[d]), b);
      EXPECT_EQ(session.Read(sharded.flag[d]), std::vector<double>{1});
    }
    // Each device holds a part of the momentum; together they hold all of it.
    std::vector<double> read_vw(vw.size(), -1e9), read_vb(vb.size(), -1e9);
    for (int d = 0; d < devices; ++d) {
      ASSERT_TRUE(session->Read(sharded.momentum_w[d], absl::MakeSpan(read_vw)).ok());
      ASSERT_TRUE(session->Read(sharded.momentum_b[d], absl::MakeSpan(read_vb)).ok());
    }
    EXPECT_EQ(read_vw, vw);
    EXPECT_EQ(read_vb, vb);
  }
}

class BucketOf : public testing::TestWithParam<int> {};

TEST_P(BucketOf, PartsAreReducedUpdatedAndGatheredAsWholeTensorsWouldBe) {
  RunSharded(GetParam(), DType::kF32, CpuOptions::Kernels::kOneDnn);
}

TEST_P(BucketOf, PartsOnTheReferenceKernelsInDouble) {
  RunSharded(GetParam(), DType::kF64, CpuOptions::Kernels::kReference);
}

INSTANTIATE_TEST_SUITE_P(Devices, BucketOf, testing::Values(1, 2, 3, 4));

TEST(Bucket, WritingAPartlyHeldMemberTouchesTheHeldElementsOnly) {
  const Sharded sharded(3);
  Session session(sharded.program);
  ASSERT_TRUE(session.status().ok()) << session.status();
  const std::vector<double> values = Integers(kOut * kIn * 9, 5, 1000);
  for (int d = 0; d < 3; ++d) session.Write(sharded.momentum_w[d], values);
  std::vector<int> held(values.size());
  for (int d = 0; d < 3; ++d) {
    std::vector<double> read(values.size(), -1e9);
    ASSERT_TRUE(session->Read(sharded.momentum_w[d], absl::MakeSpan(read)).ok());
    for (size_t i = 0; i < read.size(); ++i) {
      if (read[i] == -1e9) continue;
      EXPECT_EQ(read[i], values[i]);
      ++held[i];
    }
  }
  EXPECT_EQ(held, std::vector<int>(values.size(), 1));
  // The bias lies in the last part: the first device holds none of it.
  std::vector<double> bias(kOut, 7);
  ASSERT_TRUE(session->Read(sharded.momentum_b[0], absl::MakeSpan(bias)).ok());
  EXPECT_EQ(bias, std::vector<double>(kOut, 7));
}

}  // namespace
}  // namespace colonnade::cpu
