// The table of ops: what reads it at run time, and that the tests' lists cover it.
#include "program/op_traits.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "program/verify/rules.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {
namespace {

TEST(AllOps, AreEachStructOnceAndEachActivationUnderItsName) {
  std::set<std::string> names;
  std::set<size_t> structs;
  for (const Op& op : AllOps()) {
    EXPECT_TRUE(names.insert(Name(op)).second) << Name(op) << " names two ops";
    structs.insert(op.index());
  }
  EXPECT_EQ(structs.size(), std::variant_size_v<Op>);
  EXPECT_EQ(names.size(), structs.size() + 2 * (std::size(kActivations) - 1));
  for (const char* name : {"relu_forward", "relu_backward", "gelu_forward", "gelu_backward"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(AllOps, StandInTheProgramWhoseTextIsTested) {
  std::set<std::string> printed;
  for (const Task& task : EveryOp().tasks) printed.insert(Name(task));
  for (const Op& op : AllOps()) EXPECT_TRUE(printed.contains(Name(op))) << Name(op) << " is not in EveryOp()";
}

// What the cost model and the choice of layouts look up without asking whether it is there.
TEST(AllOps, HaveTheOperandsThatTheirClassesLookFor) {
  for (const Op& op : AllOps()) {
    SCOPED_TRACE(Name(op));
    size_t count = 1;
    while (!TraitsOfOperands(op, count).has_value()) ASSERT_LT(++count, 9u);
    const auto has = [&](Role role) { return OperandOf(op, count, role) >= 0; };
    const CostClass cost = CostClassOf(op);
    if (IsTimedByFlops(cost)) {
      EXPECT_TRUE(has(Role::kOutput) && has(Role::kWeight));
    }
    if (cost == CostClass::kImages) {
      EXPECT_TRUE(has(Role::kInput));
    }
    const LayoutRule rule = LayoutRuleOf(op);
    if (rule == LayoutRule::kConvolution || rule == LayoutRule::kMatrixProduct) {
      EXPECT_TRUE(has(Role::kInput) && has(Role::kWeight) && has(Role::kOutput));
    }
    if (rule == LayoutRule::kArgmax) {
      EXPECT_TRUE(has(Role::kInput) && has(Role::kOutput));
    }
  }
}

std::string NamesOfOperands(const Op& op, size_t count) {
  const std::optional<OperandTraits> traits = TraitsOfOperands(op, count);
  if (!traits.has_value()) return "refused";
  std::string names;
  for (const OperandTrait* trait : *traits) absl::StrAppend(&names, names.empty() ? "" : " ", trait->name);
  return names;
}

TEST(TraitsOfOperands, NumberAndOrderFollowAttributesAndCount) {
  EXPECT_EQ(NamesOfOperands(ConvForward{}, 3), "x w y");
  EXPECT_EQ(NamesOfOperands(ConvForward{}, 4), "refused");
  EXPECT_EQ(NamesOfOperands(ConvForward{.bias = true}, 4), "x w b y");
  EXPECT_EQ(NamesOfOperands(ConvForward{.bias = true}, 3), "refused");
  EXPECT_EQ(NamesOfOperands(MaxPoolForward{}, 1), "refused");
  EXPECT_EQ(NamesOfOperands(MaxPoolForward{}, 2), "x y");
  EXPECT_EQ(NamesOfOperands(MaxPoolForward{}, 3), "x y argmax");
  EXPECT_EQ(NamesOfOperands(MaxPoolForward{}, 4), "refused");
  EXPECT_EQ(NamesOfOperands(BatchNormSums{}, 1), "refused");
  EXPECT_EQ(NamesOfOperands(BatchNormSums{}, 2), "x sums");
  EXPECT_EQ(NamesOfOperands(BatchNormSums{}, 3), "x sums totals");
  EXPECT_EQ(NamesOfOperands(BatchNormForward{}, 5), "x sums w b y");
  EXPECT_EQ(NamesOfOperands(BatchNormForward{}, 6), "x sums w b addend y");
  EXPECT_EQ(NamesOfOperands(BatchNormBackwardSums{}, 6), "x dy sums dsums dw db");
  EXPECT_EQ(NamesOfOperands(BatchNormBackwardSums{}, 7), "refused");
  EXPECT_EQ(NamesOfOperands(BatchNormBackwardSums{}, 8), "x dy sums w b dsums dw db");
  EXPECT_EQ(NamesOfOperands(BatchNormMaskedSums{}, 8), "x y dy sums dz dsums dw db");
  EXPECT_EQ(NamesOfOperands(BatchNormMaskedSums{}, 9), "x y dy sums more dz dsums dw db");
  EXPECT_EQ(NamesOfOperands(BatchNormBackward{}, 7), "x dy sums dsums w b dx");
  EXPECT_EQ(NamesOfOperands(Sum{}, 1), "refused");
  EXPECT_EQ(NamesOfOperands(Sum{}, 4), "x x x y");
  EXPECT_EQ(NamesOfOperands(CheckFinite{}, 0), "refused");
  EXPECT_EQ(NamesOfOperands(CheckFinite{}, 3), "refused");
  EXPECT_EQ(NamesOfOperands(CheckFinite{}, 4), "x flag x flag");
}

TEST(TraitsOfOperands, OfNoOperandsAreThoseOfNoOp) {
  for (const Op& op : AllOps()) EXPECT_FALSE(TraitsOfOperands(op, 0).has_value()) << Name(op);
}

TEST(TraitsOfOperands, AreDescribedAsTheyAre) {
  EXPECT_EQ(DescribeOperands(LrnBackward{}), "x read, dy read, dx write");
  EXPECT_EQ(DescribeOperands(Sum{}), "x read …, y write");
  EXPECT_EQ(DescribeOperands(BatchNormTrack{}), "sums read, mean accumulate, var accumulate, [gate read]");
  EXPECT_EQ(DescribeOperands(BatchNormBackwardSums{}),
            "x read, dy read, sums read, [w read], [b read], dsums write, dw write, db write");
  EXPECT_EQ(DescribeOperands(ConvBackwardWeights{}), "x read, dy read, dw write");
  EXPECT_EQ(DescribeOperands(SgdUpdate{}), "scalars read, [gate read], [trust read], g read, v accumulate, w accumulate");
}

TEST(CostClassOf, AName) {
  EXPECT_EQ(CostClassOf("conv_backward_data"), CostClass::kConvolution);
  EXPECT_EQ(CostClassOf("sgd_update"), CostClass::kUpdate);
  EXPECT_EQ(CostClassOf("gelu_backward"), CostClass::kBytes);
  EXPECT_EQ(CostClassOf("all_gather"), std::nullopt);
}

// Each operand of each op in turn, spoilt; Verify must see it.
TEST(CheckOperands, RefusesAnyOperandOfAnotherAccess) {
  const Program good = EveryOp();
  for (const Task& task : good.tasks) {
    for (size_t use = 0; use < task.uses.size(); ++use) {
      Task spoilt = task;
      spoilt.uses[use].access = task.uses[use].access == Access::kRead ? Access::kWrite : Access::kRead;
      const absl::Status status = CheckOperands(good, spoilt);
      EXPECT_TRUE(absl::StrContains(status.message(), "has the operands (")) << Name(task) << " " << use << ": " << status;
    }
  }
}

TEST(CheckOperands, RefusesAnyOperandOfAnotherType) {
  const Program good = EveryOp();
  for (const Task& task : good.tasks) {
    for (size_t use = 0; use < task.uses.size(); ++use) {
      const Op& op = std::get<Compute>(task.body).op;
      const OperandTrait& trait = *(*TraitsOfOperands(op, task.uses.size()))[use];
      if (std::holds_alternative<Load>(op) || std::holds_alternative<Store>(op)) continue;  // of any type
      Program spoilt = good;
      Buffer other = good.buffer(task.uses[use].buffer);
      const bool is_i32 = other.dtype == DType::kI32;
      other.id = other.layout_as = BufferId{static_cast<int32_t>(spoilt.buffers.size())};
      other.dtype = is_i32 ? DType::kF32 : DType::kI32;
      spoilt.buffers.push_back(other);
      Task with_other = task;
      with_other.uses[use].buffer = other.id;
      const absl::Status status = CheckOperands(spoilt, with_other);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
          << Name(task) << " takes " << trait.name << " of any type";
    }
  }
}

// Each extent of each operand in turn, and its rank; where an op takes others, that is said here.
TEST(CheckOperands, RefusesAnyOperandOfAnotherShape) {
  std::set<std::string> taken;
  const Program good = EveryOp();
  for (const Task& task : good.tasks) {
    ASSERT_TRUE(CheckOperands(good, task).ok()) << CheckOperands(good, task);
    for (size_t use = 0; use < task.uses.size(); ++use) {
      for (size_t dim = 0; dim <= task.uses[use].region.size.size(); ++dim) {
        Task spoilt = task;
        Region& region = spoilt.uses[use].region;
        const bool has_dim = dim < region.size.size();
        if (has_dim) ++region.size[dim];
        if (!has_dim) region.size.push_back(1), region.offset.push_back(0);
        if (!CheckOperands(good, spoilt).ok()) continue;
        taken.insert(absl::StrCat(Name(task), " ", use, " ", has_dim ? absl::StrCat(dim) : "rank"));
      }
    }
  }
  const char* const any_of[] = {
      // One row or column more than the windows of these poolings reach.
      "avg_pool_backward 1 2, avg_pool_backward 1 3, avg_pool_forward 0 2, avg_pool_forward 0 3",
      // What is summed over samples and positions.
      "batch_norm_sums 0 2, batch_norm_sums 0 3, batch_norm_sums 0 rank",
      "bias_backward 0 0, bias_backward 0 2, bias_backward 0 3, bias_backward 0 rank",
      "check_finite 0 0, check_finite 0 1, check_finite 0 rank",
      "copy 0 rank, copy 1 rank",                             // of as many elements
      "count_labels 0 0, count_labels 1 0",                   // of any part of the batch
      "load 0 0, load 0 1, load 0 2, load 0 3, load 0 rank",  // the Program's inputs say what they are
      "max_pool_backward 2 2, max_pool_backward 2 3, max_pool_forward 0 2, max_pool_forward 0 3",
      "squared_norms 0 0, squared_norms 0 1, squared_norms 0 rank",  // of a gradient alone
      "store 0 0, store 0 1, store 0 rank"};                         // the outputs
  EXPECT_EQ(absl::StrJoin(taken, ", "), absl::StrJoin(any_of, ", "));
}

TEST(CheckTensorTypes, NamesOperandAndTypes) {
  const Program program = EveryOp();
  for (const Task& task : program.tasks) {
    if (Name(task) != "gelu_backward") continue;
    const Op& op = std::get<Compute>(task.body).op;
    EXPECT_TRUE(CheckTensorTypes(program, task, op, {DType::kF64, DType::kF32}).ok());
    EXPECT_EQ(CheckTensorTypes(program, task, op, {DType::kF64, DType::kBF16}).message(),
              "operand 0 (kept) of f32; expected f64 or bf16");
  }
}

}  // namespace
}  // namespace colonnade::program
