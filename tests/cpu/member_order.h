// What every backend promises of collectives beyond equal sums: sums are taken in the order of the members, on which their
// bits depend, and all-gathers may join parts of unequal extents.
#ifndef COLONNADE_TESTS_CPU_MEMBER_ORDER_H_
#define COLONNADE_TESTS_CPU_MEMBER_ORDER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/backend.h"
#include "gtest/gtest.h"
#include "program/builder.h"

namespace colonnade::conformance {

// A Program of one collective, with the operand that each member gives and the one that it gets.
struct OneCollective {
  program::Program program;
  std::vector<program::BufferId> x, y;
};

using Values = std::vector<std::vector<double>>;  // by member

inline constexpr program::CollectiveKind kSums[] = {program::CollectiveKind::kAllReduce, program::CollectiveKind::kReduce,
                                                    program::CollectiveKind::kReduceScatter};
inline constexpr int64_t kElements = 4 * 700;

// Makes a Program of one sum, on persistent buffers that tests write and read: in place, or for a reduce-scatter from
// [elements] into parts.
inline OneCollective SumOf(program::CollectiveKind kind, int members, int64_t elements = kElements) {
  program::Builder builder("sum", program::Mode::kTrain, 1, program::DType::kF32, {{"data", members}});
  OneCollective one;
  std::vector<int> group;
  std::vector<program::Member> uses;
  for (int m = 0; m < members; ++m) {
    const auto add = [&](const char* name, int64_t extent) {
      return builder.AddBuffer(m, name, program::DType::kF32, {extent}, program::Lifetime::kPersistent);
    };
    group.push_back(m);
    one.x.push_back(add("x", elements));
    if (kind == program::CollectiveKind::kReduceScatter) {
      one.y.push_back(add("y", elements / members));
      uses.push_back({{builder.Read(one.x[m]), builder.Write(one.y[m])}, {}});
    } else {
      one.y.push_back(one.x[m]);
      const bool gets = kind == program::CollectiveKind::kAllReduce || m == 0;
      uses.push_back({{gets ? builder.Accumulate(one.x[m]) : builder.Read(one.x[m])}, {}});
    }
  }
  builder.AddCollective(builder.AddGroup(group), {.kind = kind}, uses, program::Lane::kComm, {"sum"});
  one.program = std::move(builder).Build();
  return one;
}

// Returns numbers whose sizes differ by up to 2^20, so that f32 sums in another order have other bits.
inline Values NumbersWhoseSumsDependOnTheirOrder(int members, int64_t elements) {
  Values x(members, std::vector<double>(elements));
  uint32_t state = 7;
  for (auto& of_member : x) {
    for (double& value : of_member) {
      state = state * 1664525u + 1013904223u;
      const double size = static_cast<double>(1 << (state >> 27) % 21);
      value = static_cast<float>((static_cast<double>(state >> 8 & 0xffff) / 65536 - 0.5) * size);
    }
  }
  return x;
}

// Runs the Program once on `x`; returns what each member holds then.
inline Values RunOnce(const OneCollective& one, engine::LoadedProgram& loaded, const Values& x) {
  for (size_t m = 0; m < x.size(); ++m) EXPECT_TRUE(loaded.Write(one.x[m], x[m]).ok());
  for (const program::Task& task : one.program.tasks) loaded.Launch(task.id, 0);
  EXPECT_TRUE(loaded.Synchronize(0).ok()) << loaded.Synchronize(0);
  Values y;
  for (const program::BufferId id : one.y) {
    y.emplace_back(program::ElementCount(one.program.buffer(id).shape));
    EXPECT_TRUE(loaded.Read(id, absl::MakeSpan(y.back())).ok());
  }
  return y;
}

// Expects `y` to be sums in f32 of the first member's element and the second's, then the third's, …
inline void ExpectSumsInMemberOrder(const OneCollective& one, const Values& x, const Values& y) {
  const auto& what = std::get<program::Collective>(one.program.tasks[0].body);
  const int members = static_cast<int>(x.size());
  const auto elements = static_cast<int64_t>(x[0].size());
  std::vector<double> in_order(elements), backwards(elements);
  for (int64_t i = 0; i < elements; ++i) {
    float sum = static_cast<float>(x[0][i]), other = static_cast<float>(x[members - 1][i]);
    for (int m = 1; m < members; ++m) sum += static_cast<float>(x[m][i]);
    for (int m = members - 2; m >= 0; --m) other += static_cast<float>(x[m][i]);
    in_order[i] = sum;
    backwards[i] = other;
  }
  EXPECT_NE(in_order, backwards) << "numbers that tell orders apart";
  for (int m = 0; m < members; ++m) {
    const bool is_part = what.kind == program::CollectiveKind::kReduceScatter;
    if (what.kind == program::CollectiveKind::kReduce && m != what.root) continue;
    const int64_t size = is_part ? elements / members : elements, begin = is_part ? m * size : 0;
    EXPECT_EQ(y[m], std::vector<double>(in_order.begin() + begin, in_order.begin() + begin + size))
        << program::Name(what.kind) << ", member " << m;
  }
}

// Makes a Program that gathers parts [extents[m], 3] (or [3, extents[m]]) along dimension `dim`.
inline OneCollective UnequalGather(int dim, const std::vector<int64_t>& extents) {
  const int members = static_cast<int>(extents.size());
  program::Builder builder("gather", program::Mode::kTrain, 1, program::DType::kF32, {{"data", members}});
  OneCollective one;
  std::vector<int> group;
  std::vector<program::Member> uses;
  program::Shape whole = {3, 3};
  whole[dim] = 0;
  for (int64_t extent : extents) whole[dim] += extent;
  for (int m = 0; m < members; ++m) {
    program::Shape part = {3, 3};
    part[dim] = extents[m];
    group.push_back(m);
    one.x.push_back(builder.AddBuffer(m, "x", program::DType::kF32, part, program::Lifetime::kPersistent));
    one.y.push_back(builder.AddBuffer(m, "y", program::DType::kF32, whole, program::Lifetime::kPersistent));
    uses.push_back({{builder.Read(one.x[m]), builder.Write(one.y[m])}, {}});
  }
  builder.AddCollective(builder.AddGroup(group), {.kind = program::CollectiveKind::kAllGather, .dim_to = dim}, uses,
                        program::Lane::kComm, {"gather"});
  one.program = std::move(builder).Build();
  return one;
}

// Returns numbers that are all different.
inline Values NumbersOf(const OneCollective& one) {
  Values x;
  double next = 1;
  for (const program::BufferId id : one.x) {
    x.emplace_back(program::ElementCount(one.program.buffer(id).shape));
    for (double& value : x.back()) value = next++;
  }
  return x;
}

inline void ExpectGathered(int dim, const std::vector<int64_t>& extents, const Values& x, const Values& y) {
  std::vector<double> expected;
  if (dim == 0) {
    for (const auto& part : x) expected.insert(expected.end(), part.begin(), part.end());
  } else {
    for (int64_t row = 0; row < 3; ++row) {
      for (size_t m = 0; m < x.size(); ++m) {
        expected.insert(expected.end(), x[m].begin() + row * extents[m], x[m].begin() + (row + 1) * extents[m]);
      }
    }
  }
  for (const auto& gathered : y) EXPECT_EQ(gathered, expected) << "dimension " << dim;
}

}  // namespace colonnade::conformance

#endif  // COLONNADE_TESTS_CPU_MEMBER_ORDER_H_
