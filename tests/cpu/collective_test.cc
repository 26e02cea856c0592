#include "cpu/ops/collective.h"

#include <tuple>
#include <vector>

#include "fixture.h"
#include "gtest/gtest.h"
#include "tests/cpu/member_order.h"

namespace colonnade::cpu {
namespace {

using program::BufferId;
using program::Collective;
using program::CollectiveKind;
using program::DType;
using program::Lane;
using program::Member;
using program::Region;
using program::Shape;

int64_t IndexIn(const Shape& shape, const Shape& index) {
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return at;
}

// to[box_to] = from[box_from] of row-major tensors; boxes have equal sizes.
void CopyPlain(const std::vector<double>& from, const Shape& from_shape, Shape from_offset, std::vector<double>& to,
               const Shape& to_shape, Shape to_offset, const Shape& size) {
  for (int64_t i = 0; i < program::ElementCount(size); ++i) {
    Shape a = from_offset, b = to_offset;
    int64_t rest = i;
    for (int d = static_cast<int>(size.size()) - 1; d >= 0; --d) {
      a[d] += rest % size[d];
      b[d] += rest % size[d];
      rest /= size[d];
    }
    to[IndexIn(to_shape, b)] = from[IndexIn(from_shape, a)];
  }
}

// What a collective leaves in y (or in x, for kinds with one operand) of each member.
struct Case {
  Collective what;
  Shape x_shape, y_shape;
  bool in_place = false;
};

Case MakeCase(CollectiveKind kind, int members, int dim_from, int dim_to, const Shape& global) {
  Case c{{.kind = kind, .dim_from = dim_from, .dim_to = dim_to, .root = members - 1}, global, global};
  switch (kind) {
    case CollectiveKind::kAllGather:
      c.x_shape[dim_to] /= members;
      break;
    case CollectiveKind::kReduceScatter:
      c.y_shape[dim_to] /= members;
      break;
    case CollectiveKind::kAllToAll:
      c.x_shape[dim_to] /= members;
      c.y_shape[dim_from] /= members;
      break;
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce:
    case CollectiveKind::kBroadcast:
      c.in_place = true;
      break;
  }
  return c;
}

std::vector<double> Expected(const Case& c, int m, const std::vector<std::vector<double>>& x) {
  const int members = static_cast<int>(x.size());
  std::vector<double> sum(x[0].size()), y(program::ElementCount(c.y_shape));
  for (const auto& one : x) {
    for (size_t i = 0; i < one.size(); ++i) sum[i] += one[i];
  }
  const Shape zero(c.x_shape.size(), 0);
  Shape offset = zero;
  switch (c.what.kind) {
    case CollectiveKind::kAllGather:
      for (int j = 0; j < members; ++j) {
        offset[c.what.dim_to] = j * c.x_shape[c.what.dim_to];
        CopyPlain(x[j], c.x_shape, zero, y, c.y_shape, offset, c.x_shape);
      }
      return y;
    case CollectiveKind::kReduceScatter:
      offset[c.what.dim_to] = m * c.y_shape[c.what.dim_to];
      CopyPlain(sum, c.x_shape, offset, y, c.y_shape, zero, c.y_shape);
      return y;
    case CollectiveKind::kAllToAll: {
      Shape size = c.x_shape;
      size[c.what.dim_from] /= members;
      for (int j = 0; j < members; ++j) {
        Shape from = zero, to = zero;
        from[c.what.dim_from] = m * size[c.what.dim_from];
        to[c.what.dim_to] = j * size[c.what.dim_to];
        CopyPlain(x[j], c.x_shape, from, y, c.y_shape, to, size);
      }
      return y;
    }
    case CollectiveKind::kAllReduce:
      return sum;
    case CollectiveKind::kReduce:
      return m == c.what.root ? sum : x[m];
    case CollectiveKind::kBroadcast:
      return x[c.what.root];
  }
  return y;
}

void RunAndCompare(const Case& c, int members, DType dtype) {
  program::Builder builder = MakeBuilder(members, DType::kF32);
  std::vector<BufferId> x, y;
  std::vector<int> devices;
  std::vector<Member> uses;
  for (int m = 0; m < members; ++m) {
    devices.push_back(m);
    x.push_back(builder.AddBuffer(m, "x", dtype, c.x_shape));
    y.push_back(c.in_place ? x[m] : builder.AddBuffer(m, "y", dtype, c.y_shape));
    Member member;
    const bool root = m == c.what.root;
    if (!c.in_place) {
      member.uses = {builder.Read(x[m]), builder.Write(y[m])};
    } else if (c.what.kind == CollectiveKind::kAllReduce || (c.what.kind == CollectiveKind::kReduce && root)) {
      member.uses = {builder.Accumulate(x[m])};
    } else if (c.what.kind == CollectiveKind::kBroadcast && !root) {
      member.uses = {builder.Write(x[m])};
    } else {
      member.uses = {builder.Read(x[m])};
    }
    uses.push_back(member);
  }
  builder.AddCollective(builder.AddGroup(devices), c.what, uses, Lane::kComm, {});
  Session session(std::move(builder).Build());
  ASSERT_TRUE(session.status().ok()) << session.status();
  for (int64_t step = 0; step < 2; ++step) {
    std::vector<std::vector<double>> values;
    for (int m = 0; m < members; ++m) {
      values.push_back(Integers(program::ElementCount(c.x_shape), m + 10 * static_cast<int>(step)));
      session.Write(x[m], values[m]);
    }
    session.Launch(step);
    ASSERT_TRUE(session->Synchronize(step).ok());
    for (int m = 0; m < members; ++m) ASSERT_EQ(session.Read(y[m]), Expected(c, m, values)) << "member " << m;
  }
}

class CollectiveOf : public testing::TestWithParam<std::tuple<CollectiveKind, int>> {};

TEST_P(CollectiveOf, ImagesEqualsPlainLoopsForEveryDimensionAndLayout) {
  const auto [kind, members] = GetParam();
  for (int64_t channels : {8, 16, 32, 48}) {
    for (int dim_to = 0; dim_to < 4; ++dim_to) {
      for (int dim_from = 0; dim_from < (kind == CollectiveKind::kAllToAll ? 4 : 1); ++dim_from) {
        if (kind == CollectiveKind::kAllToAll && dim_from == dim_to) continue;
        const int64_t n = 2 * members, c = members == 3 ? 3 * channels : channels;
        RunAndCompare(MakeCase(kind, members, dim_from, dim_to, {n, c, members, 2 * members}), members, DType::kF32);
        if (HasFatalFailure()) FAIL() << "channels " << c << " from " << dim_from << " to " << dim_to;
      }
    }
  }
}

TEST_P(CollectiveOf, MatricesAndVectorsOfOtherTypes) {
  const auto [kind, members] = GetParam();
  RunAndCompare(MakeCase(kind, members, 1, 0, {4 * members, 9 * members}), members, DType::kF64);
  RunAndCompare(MakeCase(kind, members, 0, 1, {4 * members, 9 * members}), members, DType::kI32);
  if (kind != CollectiveKind::kAllToAll)
    RunAndCompare(MakeCase(kind, members, 0, 0, {2500 * members}), members, DType::kF32);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CollectiveOf,
                         testing::Combine(testing::ValuesIn(program::kCollectiveKinds), testing::Values(1, 2, 3, 4)),
                         [](const auto& info) {
                           return std::string(program::Name(std::get<0>(info.param))) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(CollectiveOfMany, EqualsPlainLoopsForNinetyMembers) {
  const int members = 90;
  for (const CollectiveKind kind : program::kCollectiveKinds) {
    RunAndCompare(MakeCase(kind, members, 1, 0, {members, members}), members, DType::kF32);
    if (HasFatalFailure()) FAIL() << program::Name(kind);
  }
}

TEST(CpuCollective, SumsAreInTheOrderOfTheMembers) {
  for (const CollectiveKind kind : conformance::kSums) {
    const conformance::OneCollective one = conformance::SumOf(kind, 4);
    const auto x = conformance::NumbersWhoseSumsDependOnTheirOrder(4, conformance::kElements);
    Session session(one.program);
    ASSERT_TRUE(session.status().ok()) << session.status();
    conformance::ExpectSumsInMemberOrder(one, x, conformance::RunOnce(one, *session, x));
  }
}

TEST(CpuCollective, AnAllGatherOfUnequalPartsPutsThemOneBehindTheOther) {
  for (int dim = 0; dim < 2; ++dim) {
    const conformance::OneCollective one = conformance::UnequalGather(dim, {1, 5, 2});
    Session session(one.program);
    ASSERT_TRUE(session.status().ok()) << session.status();
    const auto x = conformance::NumbersOf(one);
    conformance::ExpectGathered(dim, {1, 5, 2}, x, conformance::RunOnce(one, *session, x));
  }
}

TEST(Exchange, MovesBoxesBothWaysBetweenLayouts) {
  program::Builder builder = MakeBuilder(2);
  const Shape shape = {2, 48, 3, 3};
  const Region upper = {{0, 24, 0, 0}, {2, 24, 3, 3}}, lower = {{0, 0, 0, 0}, {2, 24, 3, 3}};
  std::vector<BufferId> x, y;
  for (int d = 0; d < 2; ++d) {
    x.push_back(builder.AddBuffer(d, "x", DType::kF32, shape));          // channel-blocked
    y.push_back(builder.AddBuffer(d, "y", DType::kF32, {2, 24, 3, 3}));  // row-major
  }
  builder.AddExchange(0, {{{x[0], upper, program::Access::kRead}, builder.Write(y[0])}, {}}, 1,
                      {{{x[1], lower, program::Access::kRead}, builder.Write(y[1])}, {}}, Lane::kCopy, {});
  Session session(std::move(builder).Build());
  ASSERT_TRUE(session.status().ok()) << session.status();
  const std::vector<double> values[] = {Integers(2 * 48 * 9, 1), Integers(2 * 48 * 9, 2)};
  for (int d = 0; d < 2; ++d) session.Write(x[d], values[d]);
  session.Launch(0);
  ASSERT_TRUE(session->Synchronize(0).ok());
  std::vector<double> expected(2 * 24 * 9);
  CopyPlain(values[1], shape, lower.offset, expected, {2, 24, 3, 3}, {0, 0, 0, 0}, lower.size);
  EXPECT_EQ(session.Read(y[0]), expected);
  CopyPlain(values[0], shape, upper.offset, expected, {2, 24, 3, 3}, {0, 0, 0, 0}, lower.size);
  EXPECT_EQ(session.Read(y[1]), expected);
}

}  // namespace
}  // namespace colonnade::cpu
