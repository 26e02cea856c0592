// Every operation of the oneDNN kernels against the oracle: equal bits on small integers where arithmetic is exact, a relative
// norm on random data, equal bits from run to run and for any number of threads. Forward and backward of what saves a tensor
// between the two are run as pairs.

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/ref/kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cpu/fixture.h"
#include "tests/cpu/op_cases.h"

namespace colonnade::cpu {
namespace {

using program::Access;
using program::BufferId;
using program::DType;
using program::Shape;
using Role = OpOperand::Role;
using Values = std::vector<std::vector<double>>;  // by operand

bool IsWritten(Role role) { return role == Role::kOutput || role == Role::kAccumulated || role == Role::kSaved; }

Values DrawValues(const OpCase& c, bool exact) {
  std::mt19937_64 random(c.name.size() * 131 + exact);
  std::normal_distribution<float> normal;
  Values values;
  for (const OpOperand& operand : c.operands) {
    std::vector<double>& v = values.emplace_back(program::ElementCount(operand.shape));
    for (double& x : v) {
      switch (operand.role) {
        case Role::kLabels: x = static_cast<double>(random() % 3) - (random() % 4 == 0 ? 3 : 0); break;
        case Role::kScalars: x = 0; break;
        default: x = exact ? static_cast<double>(random() % 9) - 4 : normal(random);
      }
      if (operand.role == Role::kLabels && c.operands[0].shape.back() == 2 && x > 1) x = 1;
    }
    if (operand.role == Role::kScalars) {
      v = {0.125, 4, 17, 99};  // learning rate, label count, step, seed
    }
  }
  return values;
}

// What the oracle makes of `values`, all in double.
Values Oracle(const OpCase& c, Values values) {
  std::vector<ref::Tensor> tensors;
  for (size_t i = 0; i < values.size(); ++i) {
    const Shape& shape = c.operands[i].shape;
    Shape strides(shape.size(), 1);
    for (int d = static_cast<int>(shape.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
    tensors.push_back({values[i].data(), DType::kF64, shape, strides});
  }
  EXPECT_TRUE(ref::Run(c.op, tensors).ok()) << c.name;
  return values;
}

// What a backend makes of them: one step of a Program that holds the operation alone. Operands are persistent buffers; weights
// and what shares their layout are members of buckets, as in lowered Programs.
Values OnBackend(const OpCase& c, const Values& values, int threads) {
  program::Builder builder = MakeBuilder(1);
  std::vector<BufferId> buffers;
  for (const OpOperand& operand : c.operands) {
    const std::string name = absl::StrCat("operand", buffers.size());
    if (operand.weight >= 0) {
      const BufferId bucket = builder.AddBucket({.device = 0, .name = "bucket" + name, .lifetime = program::Lifetime::kPersistent,
                                                 .member_names = {name}, .member_shapes = {operand.shape}});
      buffers.push_back(std::get<program::Bucket>(builder.buffer(bucket).storage).members[0]);
    } else {
      buffers.push_back(builder.AddBuffer(0, name, operand.dtype, operand.shape, program::Lifetime::kPersistent));
    }
  }
  program::Uses uses;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Role role = c.operands[i].role;
    uses.push_back(role == Role::kAccumulated ? builder.Accumulate(buffers[i])
                   : IsWritten(role)          ? builder.Write(buffers[i])
                                              : builder.Read(buffers[i]));
  }
  builder.AddCompute(0, program::Lane::kCompute, c.op, uses, {}, {"layer", program::Pass::kForward});
  Session session(Scheduled(std::move(builder).Build()), {.devices = 1, .threads_per_device = threads});
  EXPECT_TRUE(session.status().ok()) << c.name << " " << session.status();
  if (!session.status().ok()) return values;
  for (size_t i = 0; i < buffers.size(); ++i) session.Write(buffers[i], values[i]);
  session.Launch(0);
  EXPECT_TRUE(session->Synchronize(0).ok()) << c.name;
  Values results;
  for (size_t i = 0; i < buffers.size(); ++i) results.push_back(session.Read(buffers[i]));
  return results;
}

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / (norm > 0 ? norm : 1));
}

class Conformance : public ::testing::TestWithParam<OpCase> {};

TEST_P(Conformance, EqualsTheOracle) {
  const OpCase& c = GetParam();
  for (const bool exact : {true, false}) {
    const Values values = DrawValues(c, exact), expected = Oracle(c, values), found = OnBackend(c, values, 1);
    for (size_t i = 0; i < values.size(); ++i) {
      if (!IsWritten(c.operands[i].role)) continue;
      if (exact && c.exact) {
        EXPECT_EQ(found[i], expected[i]) << "operand " << i;
      } else {
        EXPECT_LE(Distance(found[i], expected[i]), c.tolerance) << "operand " << i;
      }
    }
  }
}

TEST_P(Conformance, RunsToTheSameBitsAgainAndOnTwoThreads) {
  const OpCase& c = GetParam();
  const Values values = DrawValues(c, false), first = OnBackend(c, values, 1);
  EXPECT_EQ(OnBackend(c, values, 1), first);
#if !defined(__SANITIZE_THREAD__)
  EXPECT_EQ(OnBackend(c, values, 2).size(), first.size());
#endif
}

INSTANTIATE_TEST_SUITE_P(Ops, Conformance, ::testing::ValuesIn(OpCases()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace_if(name.begin(), name.end(), [](char ch) { return !std::isalnum(static_cast<unsigned char>(ch)); }, '_');
  return name;
});

// Max pooling and LRN: backward reads what their forward left, whatever its form.
struct PairCase {
  std::string name;
  program::Op forward, backward;
  Shape x, y;
  DType saved;
};

std::vector<double> PairOnOracle(const PairCase& c, std::vector<double> x, std::vector<double> dy) {
  auto tensor = [](std::vector<double>& v, const Shape& shape) {
    Shape strides(shape.size(), 1);
    for (int d = static_cast<int>(shape.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
    return ref::Tensor{v.data(), DType::kF64, shape, strides};
  };
  std::vector<double> y(program::ElementCount(c.y)), saved(y.size()), dx(x.size());
  EXPECT_TRUE(ref::Run(c.forward, {tensor(x, c.x), tensor(y, c.y), tensor(saved, c.y)}).ok());
  const bool lrn = std::holds_alternative<program::LrnBackward>(c.backward);
  EXPECT_TRUE((lrn ? ref::Run(c.backward, {tensor(x, c.x), tensor(saved, c.y), tensor(dy, c.y), tensor(dx, c.x)})
                   : ref::Run(c.backward, {tensor(saved, c.y), tensor(dy, c.y), tensor(dx, c.x)}))
                  .ok());
  return dx;
}

std::vector<double> PairOnDnn(const PairCase& c, const std::vector<double>& x, const std::vector<double>& dy) {
  program::Builder b = MakeBuilder(1);
  const auto persistent = program::Lifetime::kPersistent;
  const BufferId xb = b.AddBuffer(0, "x", DType::kF32, c.x, persistent), dyb = b.AddBuffer(0, "dy", DType::kF32, c.y, persistent);
  const BufferId y = b.AddBuffer(0, "y", DType::kF32, c.y), saved = b.AddBuffer(0, "saved", c.saved, c.y);
  const BufferId dx = b.AddBuffer(0, "dx", DType::kF32, c.x, persistent);
  const bool lrn = std::holds_alternative<program::LrnBackward>(c.backward);
  program::Uses uses;
  if (lrn) uses.push_back(b.Read(xb));
  uses.insert(uses.end(), {b.Read(saved), b.Read(dyb), b.Write(dx)});
  b.AddCompute(0, program::Lane::kCompute, c.forward, {b.Read(xb), b.Write(y), b.Write(saved)}, {}, {"l", program::Pass::kForward});
  b.AddCompute(0, program::Lane::kCompute, c.backward, uses, {}, {"l", program::Pass::kBackward});
  Session session(Scheduled(std::move(b).Build()), {.devices = 1, .threads_per_device = 1});
  EXPECT_TRUE(session.status().ok()) << session.status();
  session.Write(xb, x);
  session.Write(dyb, dy);
  session.Launch(0);
  EXPECT_TRUE(session->Synchronize(0).ok());
  return session.Read(dx);
}

TEST(ConformancePairs, BackwardReadsWhatForwardLeft) {
  std::vector<PairCase> cases;
  for (int64_t c : {3, 16, 33}) {
    const Shape x = {2, c, 9, 7};
    const program::Window w{3, 3, 2, 2, 0, 0}, padded{3, 3, 2, 2, 1, 1};
    cases.push_back({"max_pool", program::MaxPoolForward{w}, program::MaxPoolBackward{w}, x, {2, c, 4, 3}, DType::kU8});
    cases.push_back({"max_pool_padded", program::MaxPoolForward{padded}, program::MaxPoolBackward{padded}, x, {2, c, 5, 4}, DType::kU8});
    for (int64_t groups : {1, 3}) {
      if (c % groups != 0) continue;
      cases.push_back({"lrn", program::LrnForward{5, groups, 0.3, 0.75, 2}, program::LrnBackward{5, groups, 0.3, 0.75, 2}, x, x, DType::kF32});
    }
  }
  std::mt19937_64 random(7);
  for (const PairCase& c : cases) {
    const bool pool = std::holds_alternative<program::MaxPoolBackward>(c.backward);
    std::vector<double> x(program::ElementCount(c.x)), dy(program::ElementCount(c.y));
    // Few values, so that maxima tie: the first counts.
    for (double& v : x) v = static_cast<double>(random() % 3) - 1;
    for (double& v : dy) v = static_cast<double>(random() % 9) - 4;
    const std::vector<double> expected = PairOnOracle(c, x, dy), found = PairOnDnn(c, x, dy);
    if (pool) {
      EXPECT_EQ(found, expected) << c.name << c.x[1];
    } else {
      EXPECT_LE(Distance(found, expected), 1e-5) << c.name << c.x[1];
    }
  }
}

}  // namespace
}  // namespace colonnade::cpu
