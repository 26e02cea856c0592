// What a task or a meeting writes over what it reads, and notes of max poolings that others read.
#include "gtest/gtest.h"
#include "program/builder.h"
#include "tests/program/breakages.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {
namespace {

// Norms of a part of a bucket.
Program NormsOfAPart() {
  Builder b("norms", Mode::kTrain, 1, DType::kF64, {});
  const BufferId bucket = b.AddBucket({.name = "bucket",
                                       .dtype = DType::kF64,
                                       .lifetime = Lifetime::kPersistent,
                                       .parts = 2,
                                       .held_parts = 2,
                                       .member_names = {"member"},
                                       .member_shapes = {{1, 2}}});
  const BufferId norms = b.AddBuffer(0, "norms", DType::kF64, {1, 2});
  b.AddCompute(0, Lane::kCompute, SquaredNorms{{1}}, {{bucket, {{1}, {1}}, Access::kRead}, b.Write(norms)}, {}, {"norms"});
  Program program = std::move(b).Build();
  DeclareState(program);
  return program;
}

const Breakage kOverlap[] = {
    {"part_and_member", "overlap", "operand 1 (write",
     [](Program& p) { Find(p, "squared_norms").uses[1].buffer = FindBuffer(p, "member").id; }, NormsOfAPart},
    {"exchange_one_box", "overlap", "operand 0 (read [0:2,0:2,0:2,0:2] of buffer 3 \"conv.whole\") and operand 1 (write",
     [](Program& p) {
       BufferUse& received = Find(p, "exchange", 0).uses[1];
       received = Find(p, "exchange", 0).uses[0];
       received.access = Access::kWrite;
     }},
    {"exchange_boxes_overlap", "overlap", "share elements",
     [](Program& p) { Find(p, "exchange", 0).uses[1].region.offset[1] = 1; }},
    {"one_flag_for_two", "overlap", "operand 1 (write",
     [](Program& p) {
       Task& check = Find(p, "check_finite");
       check.uses = {check.uses[0], check.uses[1], check.uses[0], check.uses[1]};
     }},
    {"relu_in_place", "overlap", "relu",
     [](Program& p) { Find(p, "relu_backward").uses[2].buffer = Find(p, "relu_backward").uses[1].buffer; }, EveryOp},
    {"copy_onto_itself", "overlap", "operand 1 (write",
     [](Program& p) { Find(p, "copy").uses[1].buffer = Find(p, "copy").uses[0].buffer; }, PartsOfBuckets},
    {"sum_in_place", "overlap", "operand 2 (write",
     [](Program& p) { Find(p, "sum").uses[2].buffer = Find(p, "sum").uses[1].buffer; }, PartsOfBuckets},
    {"gather_part_of_another", "overlap", "the member's own part",
     [](Program& p) {
       const auto part = [](int m) { return Region{{0, 3 * (1 - m), 0}, {2, 3, 4}}; };
       PutInOneBuffer(p, "all_gather", {2, 6, 4}, part, [](int) { return Region::Whole({2, 6, 4}); });
     },
     EveryCollective},
    {"scatter_part_of_another", "overlap", "the member's own part",
     [](Program& p) {
       const auto part = [](int m) { return Region{{0, 0, 2 * (1 - m)}, {2, 3, 2}}; };
       PutInOneBuffer(
           p, "reduce_scatter", {2, 3, 4},
           [](int) {
             return Region::Whole({2, 3, 4});
           },
           part);
     },
     EveryCollective},
    {"all_to_all_in_place", "overlap", "share elements",
     [](Program& p) {
       PutInOneBuffer(
           p, "all_to_all", {2, 6},
           [](int) {
             return Region::Whole({2, 3});
           },
           [](int) {
             return Region::Whole({1, 6});
           });
     },
     EveryCollective},
};

void ShiftedPooling(Program& p) { OpOf<MaxPoolBackward>(Find(p, "max_pool_backward")).window = {3, 3, 2, 2, 1, 1, 1, 1}; }

const Breakage kArgmax[] = {
    {"argmax_of_another_window", "argmax", "a window of [3,3], stride [2,2], padding [1,1] over [2,4,6,6]", ShiftedPooling,
     EveryOp},
    {"argmax_of_other_images", "argmax", "over [2,4,7,6]",
     [](Program& p) {
       Task& pooling = Find(p, "max_pool_backward");
       p.buffer(pooling.uses[2].buffer).shape[2] = pooling.uses[2].region.size[2] = 7;
     },
     EveryOp},
    {"argmax_in_another_box", "argmax", "noted in [1:3,0:4,0:3,0:3]",
     [](Program& p) {
       BufferUse& argmax = Find(p, "max_pool_backward").uses[0];
       p.buffer(argmax.buffer).shape[0] = 3;
       argmax.region.offset[0] = 1;
     },
     EveryOp},
    {"argmax_copied", "argmax", "expected max poolings alone",
     [](Program& p) {
       Task copy = Find(p, "copy");
       Buffer to = p.buffer(Find(p, "max_pool_backward").uses[0].buffer);
       copy.uses = {{to.id, Region::Whole(to.shape), Access::kRead}, {to.id, Region::Whole(to.shape), Access::kWrite}};
       to.id = to.layout_as = copy.uses[1].buffer = BufferId{static_cast<int32_t>(p.buffers.size())};
       copy.id.value = static_cast<int32_t>(p.tasks.size());
       p.buffers.push_back(to);
       p.tasks.push_back(copy);
     },
     EveryOp},
    {"argmax_that_outlives_the_step", "argmax", "expected a buffer of the step",
     [](Program& p) { p.buffer(Find(p, "max_pool_forward").uses[2].buffer).lifetime = Lifetime::kPersistent; }, EveryOp},
};

INSTANTIATE_TEST_SUITE_P(Overlap, VerifyFinds, ::testing::ValuesIn(kOverlap), NameOf);
INSTANTIATE_TEST_SUITE_P(Argmax, VerifyFinds, ::testing::ValuesIn(kArgmax), NameOf);

TEST(Verify, AcceptsNormsOfAPart) { ExpectVerified(NormsOfAPart()); }

TEST(Verify, AcceptsAnAllGatherAndAReduceScatterInPlace) {
  Program program = EveryCollective();
  PutInOneBuffer(
      program, "all_gather", {2, 6, 4},
      [](int m) {
        return Region{{0, 3 * m, 0}, {2, 3, 4}};
      },
      [](int) {
        return Region::Whole({2, 6, 4});
      });
  PutInOneBuffer(
      program, "reduce_scatter", {2, 3, 4},
      [](int) {
        return Region::Whole({2, 3, 4});
      },
      [](int m) {
        return Region{{0, 0, 2 * m}, {2, 3, 2}};
      });
  DeclareState(program);
  ExpectVerified(program);
}

}  // namespace
}  // namespace colonnade::program
