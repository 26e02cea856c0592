// Each rule of Verify, broken in each of its ways: tables of breakages, which stand together so that one sees what is
// missing.

#include "program/verify.h"

#include <cmath>
#include <functional>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/verify_rules.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

void ExpectOk(const Program& program) {
  const absl::Status status = Verify(program);
  EXPECT_TRUE(status.ok()) << status;
}

// One way to break a good Program, and what Verify must say.
struct Breakage {
  const char* name;
  const char* rule;
  const char* says;
  std::function<void(Program&)> apply;
  Program (*start)() = TwoColumns;
};

void PrintTo(const Breakage& breakage, std::ostream* out) { *out << breakage.name; }

class VerifyFinds : public ::testing::TestWithParam<Breakage> {};

TEST_P(VerifyFinds, TheBrokenRule) {
  Program program = GetParam().start();
  GetParam().apply(program);
  // The other rules may not look at a Program whose structure is broken, so `structure` is asked alone.
  const bool is_structure = GetParam().rule == std::string("structure");
  const absl::Status status = is_structure ? CheckStructure(program) : Verify(program);
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith(std::string(GetParam().rule) + ": "));
  EXPECT_EQ(Verify(program), status);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().says));
}

template <class What>
What& WhatOf(Task& task) {
  return std::get<What>(task.what);
}
template <class OpKind>
OpKind& OpOf(Task& task) {
  return std::get<OpKind>(std::get<Compute>(task.what).op);
}

// Moves the task at `from` to `to`; ids and waits follow.
void MoveTask(Program& program, int from, int to) {
  std::vector<int> order(program.tasks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  std::vector<int> new_id(order.size());
  for (size_t i = 0; i < order.size(); ++i) new_id[order[i]] = static_cast<int>(i);
  std::vector<Task> tasks;
  for (int old : order) {
    Task& task = tasks.emplace_back(program.tasks[old]);
    task.id.value = new_id[old];
    for (TaskId& wait : task.waits) wait.value = new_id[wait.value];
    for (TaskId& wait : task.waits_previous) wait.value = new_id[wait.value];
  }
  program.tasks = std::move(tasks);
}

// What both members of `word` send and receive lies in one buffer of `shape`, at the boxes given for member m.
void PutInOneBuffer(Program& program, const char* word, const Shape& shape, const std::function<Region(int)>& sent,
                    const std::function<Region(int)>& received) {
  for (int m : {0, 1}) {
    Task& task = Find(program, word, program.groups[0][m]);
    Buffer both = program.buffer(task.uses[0].buffer);
    both.id = both.layout_as = BufferId{static_cast<int32_t>(program.buffers.size())};
    both.name = absl::StrCat(word, ".both");
    both.shape = shape;
    program.buffers.push_back(both);
    task.uses[0] = {both.id, sent(m), Access::kRead};
    task.uses[1] = {both.id, received(m), Access::kWrite};
  }
}

const Breakage kStructure[] = {
    {"task_id", "structure", "has id 7", [](Program& p) { p.tasks[0].id.value = 7; }},
    {"buffer_id", "structure", "has id 9", [](Program& p) { p.buffers[3].id.value = 9; }},
    {"task_device", "structure", "device 5", [](Program& p) { p.tasks[0].device = 5; }},
    {"buffer_device", "structure", "device -1", [](Program& p) { p.buffers[0].device = -1; }},
    {"device_count", "structure", "device_count", [](Program& p) { p.device_count = 3; }},
    {"mesh", "structure", "mesh axis", [](Program& p) { p.mesh[0].size = 0; }},
    {"group_device", "structure", "group 0",
     [](Program& p) {
       p.groups[0] = {0, 2};
     }},
    {"group_twice", "structure", "group 0",
     [](Program& p) {
       p.groups[0] = {1, 1};
     }},
    {"foreign_buffer", "structure", "of device 1",
     [](Program& p) { Find(p, "copy").uses[0].buffer = FindBuffer(p, "conv.whole", 1).id; }},
    {"no_such_buffer", "structure", "uses buffer 1000", [](Program& p) { Find(p, "copy").uses[0].buffer.value = 1000; }},
    {"region_outside", "structure", "uses the box", [](Program& p) { Find(p, "copy").uses[0].region.offset[0] = 1; }},
    {"region_overflow", "structure", "uses the box",
     [](Program& p) { Find(p, "copy").uses[0].region.offset[0] = std::numeric_limits<int64_t>::max(); }},
    {"region_rank", "structure", "uses the box", [](Program& p) { Find(p, "copy").uses[0].region = Region::Whole({2}); }},
    {"shape_overflow", "structure", "shape",
     [](Program& p) {
       FindBuffer(p, "flat").shape = {int64_t{1} << 40, 1 << 30};
     }},
    {"negative_extent", "structure", "shape",
     [](Program& p) {
       FindBuffer(p, "flat").shape = {-1, 2};
     }},
    {"negative_work", "structure", "work", [](Program& p) { p.tasks[0].work.flops = -1; }},
    {"view_outside", "structure", "is the box",
     [](Program& p) { std::get<BoxView>(FindBuffer(p, "conv.y").storage).region.offset[1] = 3; }},
    {"view_of_itself", "structure", "smaller id",
     [](Program& p) {
       Buffer& y = FindBuffer(p, "conv.y");
       std::get<BoxView>(y.storage).parent = y.id;
     }},
    {"view_of_bucket", "structure", "view of a bucket",
     [](Program& p) {
       FindBuffer(p, "finite", 1).storage = BoxView{FindBuffer(p, "bucket0").id, Region::Whole({2})};
     }},
    {"view_type", "structure", "differs from its parent", [](Program& p) { FindBuffer(p, "conv.y").dtype = DType::kF64; }},
    {"member_list", "structure", "member",
     [](Program& p) {
       std::swap(std::get<Bucket>(FindBuffer(p, "bucket0").storage).members[0],
                 std::get<Bucket>(FindBuffer(p, "bucket0").storage).members[1]);
     }},
    {"member_unlisted", "structure", "does not list it",
     [](Program& p) { std::get<Bucket>(FindBuffer(p, "bucket0").storage).members.pop_back(); }},
    {"equal_parts", "structure", "that are not alike",
     [](Program& p) { std::get<Bucket>(FindBuffer(p, "bucket0.gradient").storage).equal_parts = true; }},
    {"bucket_parts", "structure", "parts",
     [](Program& p) { std::get<Bucket>(FindBuffer(p, "bucket0").storage).held_parts = 3; }},
    {"parts_not_held", "structure", "holds only parts",
     [](Program& p) { std::get<Bucket>(FindBuffer(p, "bucket0.momentum").storage).held_parts = 1; }},
    {"member_of_parts_not_held", "structure", "holds only parts",
     [](Program& p) { std::get<Bucket>(FindBuffer(p, "bucket0").storage).held_parts = 1; }},
    {"views_of_views", "structure", "more than 64 deep",
     [](Program& p) {
       for (int i = 0; i < 64; ++i) {
         Buffer view = FindBuffer(p, "conv.y");
         std::get<BoxView>(view.storage) = {i == 0 ? view.id : p.buffers.back().id, Region::Whole(view.shape)};
         view.id = view.layout_as = BufferId{static_cast<int32_t>(p.buffers.size())};
         p.buffers.push_back(view);
       }
     }},
    {"layout_as", "structure", "layout", [](Program& p) { FindBuffer(p, "flat").layout_as = FindBuffer(p, "labels").id; }},
    {"persistent_name", "structure", "only persistent buffer",
     [](Program& p) { FindBuffer(p, "bucket0.conv.b").name = "bucket0.conv.w"; }},
};

// Operands `uses` of the op named `word` are of another type.
Breakage Retyped(const char* name, const char* word, std::vector<int> uses, DType dtype, const char* says,
                 Program (*start)() = EveryOp) {
  return {name, "structure", says,
          [=](Program& p) {
            for (int use : uses) {
              BufferUse& changed = Find(p, word).uses[use];
              Buffer other = p.buffer(changed.buffer);
              other.id = other.layout_as = BufferId{static_cast<int32_t>(p.buffers.size())};
              other.name = absl::StrCat("other", use);
              other.storage = Root{};
              other.dtype = dtype;
              p.buffers.push_back(other);
              changed.buffer = other.id;
            }
          },
          start};
}

const Breakage kOperands[] = {
    Retyped("summand_of_rounded", "conv_backward_data", {2}, DType::kBF16, "operand 2 of bf16; expected f32"),
    Retyped("summand_of_doubles", "fully_connected_backward_data", {2}, DType::kF64, "operand 2 of f64; expected f32"),
    Retyped("summand_with_bias", "conv_forward", {0, 1, 2}, DType::kBF16,
            "a summand of f32 from operands of bf16 and has bias or relu"),
    Retyped("matrix_summand_with_bias", "fully_connected_forward", {0, 1, 2}, DType::kBF16,
            "a summand of f32 from operands of bf16 and has bias or relu"),
    Retyped("activation_of_another_type", "relu_forward", {0}, DType::kBF16, "operand 1 of f32; expected bf16"),
    Retyped("bias_added_to_rounded", "bias_forward", {0, 1, 2}, DType::kBF16, "operand 0 of bf16; expected f32"),
    Retyped("all_reduce_in_bf16", "all_reduce", {0}, DType::kBF16, "sums bf16 over devices; expected f32 or f64",
            EveryCollective),
    Retyped("reduce_scatter_in_bf16", "reduce_scatter", {0, 1}, DType::kBF16, "sums bf16 over devices; expected f32 or f64",
            EveryCollective),
    Retyped("reduce_in_bf16", "reduce", {0}, DType::kBF16, "sums bf16 over devices; expected f32 or f64", EveryCollective),
    {"operand_count", "structure", "operands", [](Program& p) { Find(p, "conv_forward").uses.pop_back(); }},
    {"operand_access", "structure", "operands", [](Program& p) { Find(p, "copy").uses[0].access = Access::kAccumulate; }},
    {"conv_window", "structure", "shape",
     [](Program& p) { OpOf<ConvForward>(Find(p, "conv_forward")).window.pad_bottom = 1; }},
    {"conv_window_size", "structure", "window",
     [](Program& p) { OpOf<ConvForward>(Find(p, "conv_forward")).window.stride_w = 0; }},
    {"conv_pad", "structure", "padding 0 before and -1 behind over 4; expected padding of at least 0",
     [](Program& p) { OpOf<ConvForward>(Find(p, "conv_forward")).window.pad_right = -1; }},
    {"conv_window_beyond_the_padded_image", "structure",
     "a window of 8 with stride 1 and padding 1 before and 2 behind over 4; expected a window that fits",
     [](Program& p) { OpOf<ConvForward>(Find(p, "conv_forward")).window = {3, 8, 1, 1, 0, 1, 0, 2}; }},
    {"window_without_end", "structure", "expected none of these above 2^31",
     [](Program& p) { OpOf<ConvForward>(Find(p, "conv_forward")).window.pad_top = int64_t{1} << 62; }},
    {"pool_of_padding_alone", "structure", "padding 0 before and 2 behind over 6; expected padding less than the window",
     [](Program& p) { OpOf<AvgPoolForward>(Find(p, "avg_pool_forward")).window.pad_bottom = 2; }, EveryOp},
    {"conv_groups", "structure", "groups", [](Program& p) { OpOf<ConvForward>(Find(p, "conv_forward")).groups = 3; }},
    {"copy_count", "structure", "elements", [](Program& p) { Find(p, "copy").uses[0].region.size[0] = 1; }},
    {"fc_shape", "structure", "shape",
     [](Program& p) { std::swap(Find(p, "fully_connected_forward").uses[0], Find(p, "fully_connected_forward").uses[1]); }},
    {"label_type", "structure", "i32", [](Program& p) { FindBuffer(p, "labels").dtype = DType::kF32; }},
    {"metrics_type", "structure", "f64", [](Program& p) { FindBuffer(p, "metrics").dtype = DType::kF32; }},
    {"sgd_part", "structure", "shape", [](Program& p) { Find(p, "sgd_update").uses[1].region.size[0] = 1; }},
    {"sgd_bucket_and_member", "structure", "shape",
     [](Program& p) {
       BufferUse& use = Find(p, "sgd_update").uses[1];
       use.buffer = FindBuffer(p, "bucket0.gradient.conv.b").id;
       use.region = Region::Whole({2});
       Find(p, "sgd_update").uses[2].region = Region::Whole({1});
     }},
    {"box_of_nothing", "structure", "holds nothing; expected at least one element",
     [](Program& p) { Find(p, "bias_backward").uses[0].region.size[0] = 0; }, EveryOp},
    {"load_input", "structure", "input 3", [](Program& p) { OpOf<Load>(Find(p, "load")).input = 3; }},
    {"exchange_nothing", "structure", "neither",
     [](Program& p) { WhatOf<Exchange>(Find(p, "exchange")) = {.message = 0, .peer = 1}; }},
    {"group_index", "structure", "group 4", [](Program& p) { WhatOf<Collective>(Find(p, "all_reduce")).group = 4; }},
    {"root", "structure", "root 2", [](Program& p) { WhatOf<Collective>(Find(p, "broadcast")).root = 2; }, EveryCollective},
    {"dropout_box", "structure", "global tensor", [](Program& p) { OpOf<Dropout>(Find(p, "dropout")).offset[0] = 3; },
     EveryOp},
    {"dropout_global_shape", "structure", "at most 2^48 elements",
     [](Program& p) { OpOf<Dropout>(Find(p, "dropout")).global_shape[0] = int64_t{1} << 60; }, EveryOp},
    {"copy_bucket_members", "structure", "differ in element type, parts or members",
     [](Program& p) { FindBuffer(p, "to.m").shape = {9}; }, PartsOfBuckets},
    {"sum_bucket_members", "structure", "differ in element type, parts or members",
     [](Program& p) { FindBuffer(p, "more.m").shape = {9}; }, PartsOfBuckets},
    {"dropout_rate", "structure", "rate", [](Program& p) { OpOf<Dropout>(Find(p, "dropout")).rate = 1; }, EveryOp},
    {"lrn_alpha", "structure", "alpha -1", [](Program& p) { OpOf<LrnForward>(Find(p, "lrn_forward")).alpha = -1; }, EveryOp},
    {"lrn_beta", "structure", "beta -1", [](Program& p) { OpOf<LrnForward>(Find(p, "lrn_forward")).beta = -1; }, EveryOp},
    {"lrn_k", "structure", "k 0", [](Program& p) { OpOf<LrnForward>(Find(p, "lrn_forward")).k = 0; }, EveryOp},
    {"lrn_groups", "structure", "groups", [](Program& p) { OpOf<LrnForward>(Find(p, "lrn_forward")).groups = 3; }, EveryOp},
    {"pool_extent", "structure", "shape",
     [](Program& p) { OpOf<AvgPoolForward>(Find(p, "avg_pool_forward")).window.stride_h = 1; }, EveryOp},
    {"argmax_type", "structure", "u8",
     [](Program& p) { p.buffer(Find(p, "max_pool_forward").uses[2].buffer).dtype = DType::kF32; }, EveryOp},
    {"argmax_cells", "structure", "289 cells",
     [](Program& p) { OpOf<MaxPoolForward>(Find(p, "max_pool_forward")).window = {17, 17, 8, 8, 16, 16, 16, 16}; }, EveryOp},
};

// Operand `use` of a task is of another shape.
void Reshape(Program& p, Task& task, int use, const Shape& shape) {
  BufferUse& changed = task.uses[use];
  Buffer other = p.buffer(changed.buffer);
  other.id = other.layout_as = BufferId{static_cast<int32_t>(p.buffers.size())};
  other.name = "other";
  other.shape = shape;
  p.buffers.push_back(other);
  changed = {other.id, Region::Whole(shape), changed.access};
}
Breakage Reshaped(const char* name, const char* word, int use, Shape shape, const char* says) {
  return {name, "structure", says, [=](Program& p) { Reshape(p, Find(p, word), use, shape); }, EveryOp};
}
// Of the last op named `word`, which has all that may be absent.
Breakage ReshapedLast(const char* name, const char* word, int use, Shape shape, const char* says) {
  return {name, "structure", says,
          [=](Program& p) {
            const auto last = std::find_if(p.tasks.rbegin(), p.tasks.rend(), [&](const Task& t) { return Name(t) == word; });
            Reshape(p, *last, use, shape);
          },
          EveryOp};
}

template <class OpKind, class T>
Breakage Changed(const char* name, const char* word, T OpKind::*attribute, T value, const char* says) {
  return {name, "structure", says, [=](Program& p) { OpOf<OpKind>(Find(p, word)).*attribute = value; }, EveryOp};
}

const char *const kNormSums = "batch_norm_sums", *const kNorm = "batch_norm_forward", *const kTrack = "batch_norm_track",
                  *const kRecall = "batch_norm_recall", *const kNormBackwardSums = "batch_norm_backward_sums",
                  *const kFold = "batch_norm_fold", *const kNormBackward = "batch_norm_backward",
                  *const kNormMaskedSums = "batch_norm_masked_sums";
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

const Breakage kBatchNorms[] = {
    Reshaped("sums_of_no_channels", kNormSums, 0, {4}, "operand 0 of shape [4]; expected [n,K,…]"),
    Reshaped("sums_rank", kNormSums, 1, {2, 8}, "operand 1 of shape [2,8]; expected rank 3"),
    Reshaped("sums_groups", kNormSums, 1, {3, 2, 4}, "3 groups of samples, which do not divide 2 samples"),
    Reshaped("sums_channels", kNormSums, 1, {2, 2, 5}, "operand 1 of shape [2,2,5]; expected [2,2,4]"),
    Reshaped("sums_two", kNormSums, 1, {2, 1, 4}, "operand 1 of shape [2,1,4]; expected [2,2,4]"),
    Reshaped("totals", kNormSums, 2, {2, 2, 4}, "operand 2 of shape [2,2,4]; expected [1,2,4]"),
    {"sums_type", "structure", "operand 1 of f32; expected f64",
     [](Program& p) { p.buffer(Find(p, kNormSums).uses[1].buffer).dtype = DType::kF32; }, EveryOp},
    Changed("forward_count", kNorm, &BatchNormForward::count, int64_t{0}, "a count of 0; expected at least 1"),
    Changed("forward_epsilon", kNorm, &BatchNormForward::epsilon, -1e-9, "epsilon -1e-09; expected [0, 1]"),
    Reshaped("forward_y", kNorm, 4, {2, 4, 6, 5}, "operand 0 of shape [2,4,6,6], but operand 4 of [2,4,6,5]"),
    Reshaped("forward_sums", kNorm, 1, {3, 2, 4}, "3 groups of samples, which do not divide 2 samples"),
    Reshaped("forward_w", kNorm, 2, {5}, "operand 2 of shape [5]; expected [4]"),
    Reshaped("forward_b", kNorm, 3, {4, 1}, "operand 3 of shape [4,1]; expected [4]"),
    Changed("track_count", kTrack, &BatchNormTrack::count, int64_t{-1}, "a count of -1; expected at least 1"),
    Changed("track_momentum", kTrack, &BatchNormTrack::momentum, 1.5, "momentum 1.5; expected [0, 1]"),
    Changed("track_no_momentum", kTrack, &BatchNormTrack::momentum, kNoNumber, "momentum nan; expected [0, 1]"),
    Reshaped("track_mean", kTrack, 1, {2, 2}, "operand 1 of shape [2,2]; expected rank 1"),
    Reshaped("track_sums", kTrack, 0, {2, 2, 4}, "operand 0 of shape [2,2,4]; expected [1,2,4]"),
    Reshaped("track_var", kTrack, 2, {3}, "operand 2 of shape [3]; expected [4]"),
    Reshaped("recall_mean", kRecall, 0, {2, 2}, "operand 0 of shape [2,2]; expected rank 1"),
    Reshaped("recall_var", kRecall, 1, {3}, "operand 0 of shape [4], but operand 1 of [3]"),
    Reshaped("recall_sums", kRecall, 2, {2, 2, 4}, "operand 2 of shape [2,2,4]; expected [1,2,4]"),
    Reshaped("fold_weights", kFold, 0, {4}, "operand 0 of shape [4]; expected [n,K,…]"),
    Reshaped("fold_mean", kFold, 1, {3}, "operand 1 of shape [3]; expected [4]"),
    Reshaped("fold_var", kFold, 2, {2, 2}, "operand 2 of shape [2,2]; expected [4]"),
    Reshaped("fold_w", kFold, 3, {3}, "operand 3 of shape [3]; expected [4]"),
    Reshaped("fold_b", kFold, 4, {3}, "operand 4 of shape [3]; expected [4]"),
    Reshaped("fold_folded", kFold, 5, {4, 2, 9}, "but operand 5 of [4,2,9]"),
    Reshaped("fold_folded_bias", kFold, 6, {3}, "operand 6 of shape [3]; expected [4]"),
    ReshapedLast("fold_bias", kFold, 5, {3}, "operand 5 of shape [3]; expected [4]"),
    ReshapedLast("fold_folded_behind_bias", kFold, 6, {4, 2, 9}, "but operand 6 of [4,2,9]"),
    ReshapedLast("fold_folded_bias_behind_bias", kFold, 7, {3}, "operand 7 of shape [3]; expected [4]"),
    Changed("fold_epsilon", kFold, &BatchNormFold::epsilon, 2.0, "epsilon 2; expected [0, 1]"),
    Changed("backward_sums_count", kNormBackwardSums, &BatchNormBackwardSums::count, int64_t{0}, "a count of 0"),
    Changed("backward_sums_epsilon", kNormBackwardSums, &BatchNormBackwardSums::epsilon, 2.0, "epsilon 2; expected [0, 1]"),
    Reshaped("backward_sums_dy", kNormBackwardSums, 1, {2, 4, 36}, "but operand 1 of [2,4,36]"),
    Reshaped("backward_sums_sums", kNormBackwardSums, 2, {2, 2, 3}, "operand 2 of shape [2,2,3]; expected [2,2,4]"),
    Reshaped("backward_sums_dsums", kNormBackwardSums, 3, {1, 2, 4}, "operand 2 of shape [2,2,4], but operand 3 of [1,2,4]"),
    Reshaped("backward_sums_dw", kNormBackwardSums, 4, {3}, "operand 4 of shape [3]; expected [4]"),
    Reshaped("backward_sums_db", kNormBackwardSums, 5, {3}, "operand 5 of shape [3]; expected [4]"),
    ReshapedLast("forward_addend", kNorm, 4, {2, 4, 6, 5}, "but operand 4 of [2,4,6,5]"),
    ReshapedLast("forward_y_behind_addend", kNorm, 5, {2, 4, 6, 5}, "but operand 5 of [2,4,6,5]"),
    ReshapedLast("backward_sums_w", kNormBackwardSums, 3, {3}, "operand 3 of shape [3]; expected [4]"),
    ReshapedLast("backward_sums_b", kNormBackwardSums, 4, {3}, "operand 4 of shape [3]; expected [4]"),
    ReshapedLast("backward_sums_dsums_behind_b", kNormBackwardSums, 5, {1, 2, 4}, "but operand 5 of [1,2,4]"),
    ReshapedLast("backward_sums_dw_behind_b", kNormBackwardSums, 6, {3}, "operand 6 of shape [3]; expected [4]"),
    ReshapedLast("backward_b", kNormBackward, 5, {3}, "operand 5 of shape [3]; expected [4]"),
    ReshapedLast("backward_dx_behind_b", kNormBackward, 6, {2, 4, 6, 5}, "but operand 6 of [2,4,6,5]"),
    Changed("masked_sums_count", kNormMaskedSums, &BatchNormMaskedSums::count, int64_t{0}, "a count of 0"),
    Changed("masked_sums_epsilon", kNormMaskedSums, &BatchNormMaskedSums::epsilon, 2.0, "epsilon 2; expected [0, 1]"),
    Reshaped("masked_sums_y", kNormMaskedSums, 1, {2, 4, 6, 5}, "but operand 1 of [2,4,6,5]"),
    Reshaped("masked_sums_dy", kNormMaskedSums, 2, {2, 4, 6, 5}, "but operand 2 of [2,4,6,5]"),
    Reshaped("masked_sums_sums", kNormMaskedSums, 3, {2, 2, 3}, "operand 3 of shape [2,2,3]; expected [2,2,4]"),
    Reshaped("masked_sums_dz", kNormMaskedSums, 4, {2, 4, 6, 5}, "but operand 4 of [2,4,6,5]"),
    Reshaped("masked_sums_dsums", kNormMaskedSums, 5, {1, 2, 4}, "but operand 5 of [1,2,4]"),
    Reshaped("masked_sums_dw", kNormMaskedSums, 6, {3}, "operand 6 of shape [3]; expected [4]"),
    Reshaped("masked_sums_db", kNormMaskedSums, 7, {3}, "operand 7 of shape [3]; expected [4]"),
    ReshapedLast("masked_sums_more", kNormMaskedSums, 4, {2, 4, 6, 5}, "but operand 4 of [2,4,6,5]"),
    ReshapedLast("masked_sums_dz_behind_more", kNormMaskedSums, 5, {2, 4, 6, 5}, "but operand 5 of [2,4,6,5]"),
    Changed("backward_count", kNormBackward, &BatchNormBackward::count, int64_t{0}, "a count of 0"),
    Changed("backward_epsilon", kNormBackward, &BatchNormBackward::epsilon, 2.0, "epsilon 2; expected [0, 1]"),
    Reshaped("backward_dy", kNormBackward, 1, {2, 4, 6, 5}, "but operand 1 of [2,4,6,5]"),
    Reshaped("backward_dx", kNormBackward, 5, {2, 4, 6, 5}, "but operand 5 of [2,4,6,5]"),
    Reshaped("backward_sums_groups", kNormBackward, 2, {3, 2, 4}, "3 groups of samples, which do not divide 2 samples"),
    Reshaped("backward_dsums", kNormBackward, 3, {1, 2, 4}, "operand 2 of shape [2,2,4], but operand 3 of [1,2,4]"),
    Reshaped("backward_w", kNormBackward, 4, {3}, "operand 4 of shape [3]; expected [4]"),
};

const char *const kLayerNorm = "layer_norm_forward", *const kLayerNormData = "layer_norm_backward_data",
                  *const kLayerNormWeights = "layer_norm_backward_weights";

const Breakage kLayerNorms[] = {
    Reshaped("forward_no_channels", kLayerNorm, 0, {4}, "operand 0 of shape [4], but operand 3 of [2,4,6,6]"),
    Reshaped("forward_w", kLayerNorm, 1, {5}, "operand 1 of shape [5]; expected [4]"),
    Reshaped("forward_b", kLayerNorm, 2, {4, 1}, "operand 2 of shape [4,1]; expected [4]"),
    Reshaped("forward_y", kLayerNorm, 3, {2, 4, 6, 5}, "operand 0 of shape [2,4,6,6], but operand 3 of [2,4,6,5]"),
    Reshaped("forward_moments", kLayerNorm, 4, {2, 2, 6, 6}, "operand 4 of shape [2,2,6,6]; expected [2,3,6,6]"),
    Changed("forward_epsilon", kLayerNorm, &LayerNormForward::epsilon, -1e-9, "epsilon -1e-09; expected [0, 1]"),
    Changed("forward_no_epsilon", kLayerNorm, &LayerNormForward::epsilon, kNoNumber, "epsilon nan; expected [0, 1]"),
    Reshaped("data_dy", kLayerNormData, 1, {2, 4, 36}, "but operand 1 of [2,4,36]"),
    Reshaped("data_moments", kLayerNormData, 2, {2, 3, 6}, "operand 2 of shape [2,3,6]; expected [2,3,6,6]"),
    Reshaped("data_w", kLayerNormData, 3, {3}, "operand 3 of shape [3]; expected [4]"),
    Reshaped("data_dx", kLayerNormData, 4, {2, 4, 6, 5}, "but operand 4 of [2,4,6,5]"),
    Reshaped("weights_dy", kLayerNormWeights, 1, {2, 4, 36}, "but operand 1 of [2,4,36]"),
    Reshaped("weights_moments", kLayerNormWeights, 2, {2, 4, 6, 6}, "operand 2 of shape [2,4,6,6]; expected [2,3,6,6]"),
    Reshaped("weights_dw", kLayerNormWeights, 3, {3}, "operand 3 of shape [3]; expected [4]"),
    Reshaped("weights_db", kLayerNormWeights, 4, {3}, "operand 4 of shape [3]; expected [4]"),
    {"moments_type", "structure", "operand 4 of f64; expected f32",
     [](Program& p) { p.buffer(Find(p, kLayerNorm).uses[4].buffer).dtype = DType::kF64; }, EveryOp},
};

const char *const kLoss = "softmax_cross_entropy_forward", *const kLossBackward = "softmax_cross_entropy_backward";

const Breakage kLosses[] = {
    Changed("forward_weight", kLoss, &SoftmaxCrossEntropyForward::weight, 0.0, "weight 0; expected a finite number above 0"),
    Changed("forward_no_weight", kLoss, &SoftmaxCrossEntropyForward::weight, kNoNumber, "weight nan; expected"),
    Changed("forward_smoothing", kLoss, &SoftmaxCrossEntropyForward::label_smoothing, 1.0, "smoothing 1; expected [0, 1)"),
    Changed("backward_weight", kLossBackward, &SoftmaxCrossEntropyBackward::weight, double{INFINITY},
            "weight inf; expected"),
    Changed("backward_smoothing", kLossBackward, &SoftmaxCrossEntropyBackward::label_smoothing, -0.1,
            "smoothing -0.1; expected [0, 1)"),
};

const Breakage kMeetings[] = {
    {"one_side", "messages", "1 side", [](Program& p) { WhatOf<Exchange>(Find(p, "exchange", 1)).message = 9; }},
    {"peer", "messages", "peers", [](Program& p) { WhatOf<Exchange>(Find(p, "exchange", 1)).peer = 1; }},
    {"direction", "messages", "does not receive",
     [](Program& p) {
       Task& task = Find(p, "exchange", 1);
       WhatOf<Exchange>(task).sends = false;
       task.uses.erase(task.uses.begin());
     }},
    {"message_extents", "messages", "sends f32 [1,2,2,2]",
     [](Program& p) { Find(p, "exchange", 0).uses[0].region.size[0] = 1; }},
    {"missing_member", "collectives", "exactly one on each device",
     [](Program& p) { WhatOf<Collective>(Find(p, "all_reduce", 1)).instance = 5; }},
    {"attributes", "collectives", "differ in kind",
     [](Program& p) { WhatOf<Collective>(Find(p, "all_gather", 1)).dim_to = 0; }, EveryCollective},
    {"collective_extents", "collectives", "brings", [](Program& p) { Find(p, "all_reduce", 1).uses[0].region.size[0] = 1; }},
    {"gather_extents", "collectives", "brings",
     [](Program& p) {
       for (int d : {0, 1}) WhatOf<Collective>(Find(p, "all_gather", d)).dim_to = 0;
     },
     EveryCollective},
    {"gather_dimension", "collectives", "dimension 3",
     [](Program& p) {
       for (int d : {0, 1}) WhatOf<Collective>(Find(p, "all_gather", d)).dim_to = 3;
     },
     EveryCollective},
    {"cut", "collectives", "into 2 parts",
     [](Program& p) {
       for (int d : {0, 1}) WhatOf<Collective>(Find(p, "all_to_all", d)).dim_from = 1;
     },
     EveryCollective},
    {"all_to_all_extents", "collectives", "brings f64 [1,5]",
     [](Program& p) {
       for (int d : {0, 1}) Find(p, "all_to_all", d).uses[1].region.size[1] = 5;
     },
     EveryCollective},
    {"root_access", "collectives", "must write",
     [](Program& p) {
       for (int d : {0, 1}) WhatOf<Collective>(Find(p, "broadcast", d)).root = 1;
     },
     EveryCollective},
    {"instance_order", "collectives", "one order",
     [](Program& p) { MoveTask(p, Find(p, "all_gather", 1).id.value, Find(p, "reduce_scatter", 1).id.value); },
     EveryCollective},
    {"lanes_of_collectives", "collectives", "one lane", [](Program& p) { Find(p, "broadcast", 1).lane = Lane::kCopy; },
     EveryCollective},
    {"rendezvous_cycle", "deadlock", "exchange",
     [](Program& p) {  // device 1 has its exchange after the all-reduce, device 0 before
       MoveTask(p, Find(p, "exchange", 1).id.value, Find(p, "all_reduce", 1).id.value);
     },
     TwoColumnsUnscheduled},
};

const Breakage kData[] = {
    {"never_written", "initialised", "conv.dwhole",
     [](Program& p) {
       Task& copy = Find(p, "copy");
       copy.uses[0].buffer = FindBuffer(p, "conv.dwhole").id;
     }},
    {"half_written", "initialised", "[0:2,2:4,0:2,0:2]",
     [](Program& p) { Find(p, "exchange", 0).uses[1].buffer = FindBuffer(p, "conv.dwhole").id; }},
    {"member_not_written", "initialised", "\"bucket0.gradient\"",
     [](Program& p) {
       Task& weights = Find(p, "conv_backward_weights");
       OpOf<ConvBackwardWeights>(weights).bias = false;
       weights.uses.pop_back();
     }},
    {"waits_same_lane", "waits", "another lane",
     [](Program& p) { Find(p, "relu_backward").waits.push_back(Find(p, "conv_forward").id); }},
    {"waits_other_device", "waits", "another lane",
     [](Program& p) { Find(p, "relu_backward").waits.push_back(Find(p, "exchange", 1).id); }},
    {"waits_later", "waits", "later in the step",
     [](Program& p) { Find(p, "conv_forward").waits.push_back(Find(p, "exchange").id); }},
    {"waits_nowhere", "waits", "task 999", [](Program& p) { Find(p, "exchange").waits_previous.push_back(TaskId{999}); }},
    {"no_waits", "order", "but nothing orders them; add a wait", [](Program&) {}, TwoColumnsUnscheduled},
    {"no_wait_within", "order", "reads buffer 3 \"conv.whole\" that task",
     [](Program& p) { Find(p, "copy").waits.clear(); }},
    {"no_wait_carried", "order", "in the step before",
     [](Program& p) {  // of the step scalars, which the update of the step before reads
       ASSERT_EQ(p.tasks[2].from.layer, "scalars");
       p.tasks[2].waits_previous.clear();
     }},
};

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
  return std::move(b).Build();
}

const Breakage kOverlap[] = {
    {"part_and_member", "overlap", "operand 1 (write",
     [](Program& p) { Find(p, "squared_norms").uses[1].buffer = FindBuffer(p, "member").id; }, NormsOfAPart},
    {"exchange_one_box", "overlap", "operand 0 (read [0:2,0:2,0:2,0:2] of buffer 4 \"conv.y\") and operand 1 (write",
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

// The pooling backward reads this box of the note through a view.
void ReadArgmaxThroughAView(Program& p, const Region& box) {
  Task& pooling = Find(p, "max_pool_backward");
  Buffer view = p.buffer(pooling.uses[0].buffer);
  view.storage = BoxView{view.id, box};
  view.id = view.layout_as = BufferId{static_cast<int32_t>(p.buffers.size())};
  view.shape = box.size;
  p.buffers.push_back(view);
  pooling.uses[0] = {view.id, Region::Whole(box.size), Access::kRead};
}

const Breakage kArgmax[] = {
    {"argmax_of_another_window", "argmax", "a window of [3,3], stride [2,2], padding [1,1] over [2,4,6,6]", ShiftedPooling,
     EveryOp},
    {"argmax_of_another_window_through_a_view", "argmax", "a window of [3,3]",
     [](Program& p) {
       ReadArgmaxThroughAView(p, Region::Whole({2, 4, 3, 3}));
       ShiftedPooling(p);
     },
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

// "mean", which nobody writes.
void AddStatistic(Program& p) {
  Buffer mean{.id = {static_cast<int32_t>(p.buffers.size())},
              .name = "mean",
              .dtype = DType::kF32,
              .shape = {3},
              .lifetime = Lifetime::kPersistent};
  mean.layout_as = mean.id;
  p.buffers.push_back(mean);
  p.parameters.push_back({.name = "mean",
                          .layer = "norm",
                          .role = StateRole::kStatistic,
                          .shape = {3},
                          .state = {{{{mean.id, Region::Whole({3})}}}}});
}

const Breakage kDeclarations[] = {
    {"fewer_flags_than_parameters", "outputs", "one flag for each trained parameter",
     [](Program& p) {
       p.parameters.push_back(p.parameters[1]);
       p.parameters.back().name = "more";
     }},
    {"flag_of_a_statistic", "outputs", "has shape [3]; expected [2], one flag for each trained parameter",
     [](Program& p) {
       p.parameters.back().role = StateRole::kStatistic;
       p.parameters.back().pieces(StateKind::kMomentum).clear();
     }},
    {"statistic_before_trained", "outputs", "\"fc.w\" is trained and stands behind what is not; expected trained parameters",
     [](Program& p) {
       p.parameters[1].role = StateRole::kStatistic;
       p.parameters[1].pieces(StateKind::kMomentum).clear();
     }},
    {"statistic_with_momentum", "outputs", "parameter \"fc.w\" is not trained and has a momentum",
     [](Program& p) { p.parameters[2].role = StateRole::kStatistic; }},
    {"statistic_lies_in_step", "outputs", "persistent",
     [](Program& p) {
       AddStatistic(p);
       p.buffer(p.parameters.back().value()[0].buffer).lifetime = Lifetime::kStep;
     }},
    {"statistic_not_covered", "outputs", "no piece",
     [](Program& p) {
       AddStatistic(p);
       p.parameters.back().shape = {4};
     }},
    {"flags_in_pieces", "outputs", "expected all of",
     [](Program& p) {
       const int64_t parameters = p.outputs[1].shape[0];
       p.outputs[1].pieces.clear();
       for (const Region& box : {Region{{0}, {1}}, Region{{1}, {parameters - 1}}}) {
         Buffer piece = FindBuffer(p, "finite");
         piece.id = piece.layout_as = BufferId{static_cast<int32_t>(p.buffers.size())};
         piece.shape = box.size;
         p.outputs[1].pieces.push_back({piece.id, box});
         p.buffers.push_back(piece);
       }
     }},
    {"metrics_shape", "outputs", "one sum for each metric",
     [](Program& p) {
       p.outputs[0].shape = {8};
       p.outputs[0].pieces.push_back({p.outputs[0].pieces[0].buffer, {{4}, {4}}});
     }},
    {"metrics_of_two_devices", "outputs", "has 2 pieces; expected one, of one device",
     [](Program& p) {
       p.outputs[0].pieces.push_back({FindBuffer(p, "metrics", 1).id, p.outputs[0].pieces[0].region});
     }},
    {"count_shape", "structure", "of shape [2]; expected [1]",
     [](Program& p) {
       FindBuffer(p, "label_count").shape = {2};
       Find(p, "count_labels").uses.back().region = {{0}, {2}};
     }},
    {"input_twice", "outputs", "\"images\" is declared twice", [](Program& p) { p.inputs[1].name = "images"; }},
    {"output_twice", "outputs", "is declared twice", [](Program& p) { p.outputs.push_back(p.outputs[0]); }},

    {"parameter_lies_in_step", "outputs", "persistent",
     [](Program& p) { p.parameters[1].value()[0].buffer = FindBuffer(p, "bucket0.gradient.conv.b").id; }},
    {"parameter_not_covered", "outputs", "no piece", [](Program& p) { p.parameters[0].value().pop_back(); }},
    {"parameter_twice", "outputs", "declared twice", [](Program& p) { p.parameters[1].name = "conv.w"; }},
    {"momentum_not_covered", "outputs", "momentum",
     [](Program& p) { p.parameters[0].pieces(StateKind::kMomentum).pop_back(); }},
    {"piece_shape", "outputs", "extents", [](Program& p) { p.parameters[0].value()[0].region.size[0] = 1; }},
    {"piece_outside", "outputs", "not inside", [](Program& p) { p.parameters[0].value()[0].region.offset[0] = 3; }},
    {"input_type", "outputs", "loaded into", [](Program& p) { p.inputs[1].host_dtype = DType::kU8; }},
    {"input_not_loaded", "outputs", "no task loads",
     [](Program& p) {
       Buffer extra = FindBuffer(p, "images");
       extra.id = extra.layout_as = BufferId{static_cast<int32_t>(p.buffers.size())};
       p.inputs[0].pieces.push_back({extra.id, Region::Whole(extra.shape)});
       p.buffers.push_back(extra);
     }},
    {"loads_other_buffer", "outputs", "not a whole piece",
     [](Program& p) { p.inputs[0].pieces[0].buffer = p.inputs[0].pieces[1].buffer; }},
    {"output_type", "outputs", "metrics", [](Program& p) { p.outputs[0].kind = Output::Kind::kFinite; }},
    {"output_stored_twice", "outputs", "2 tasks store",
     [](Program& p) {
       Task again = Find(p, "store");
       again.id.value = static_cast<int32_t>(p.tasks.size());
       p.tasks.push_back(again);
     }},
};

// Buffers of two slots.
Buffer& BytesOf(Program& p) { return FindBuffer(p, "bytes"); }
const Breakage kSlots[] = {
    {"three_slots", "structure", "has 3 slots", [](Program& p) { BytesOf(p).slots = 3; }, EveryOp},
    {"no_slot", "structure", "has 0 slots", [](Program& p) { BytesOf(p).slots = 0; }, EveryOp},
    {"persistent_slots", "structure", "2 slots; expected 1", [](Program& p) { BytesOf(p).lifetime = Lifetime::kPersistent; },
     EveryOp},
    {"slots_of_a_bucket", "structure", "2 slots; expected 1",
     [](Program& p) { FindBuffer(p, "bucket0.gradient").slots = 2; }},
    {"computes_on_load", "slots", "on lane load; expected a load",
     [](Program& p) { Find(p, "conv_forward").lane = Lane::kLoad; }},
    {"loads_one_slot", "slots", "expected a buffer of two slots", [](Program& p) { Find(p, "load").lane = Lane::kLoad; }},
    {"loads_two_on_another_lane", "slots", "expected a load on lane load",
     [](Program& p) { Find(p, "load").lane = Lane::kCopy; }, EveryOp},
    {"sends_slots", "slots", "of two slots; expected a load on lane load, or a computation that reads it",
     [](Program& p) { p.buffer(RootOf(p, Find(p, "exchange").uses[0].buffer)).slots = 2; }},
};
const Breakage kNormalise[] = {
    {"normalise_of_floats", "structure", "u8",
     [](Program& p) {
       BytesOf(p).dtype = DType::kF32;
       p.inputs[0].host_dtype = DType::kF32;
     },
     EveryOp},
    {"normalise_keeps_channels", "structure", "expected",
     [](Program& p) {
       Find(p, "normalise").uses[0].region.size = {2, 6, 5, 4};
     },
     EveryOp},
    {"normalise_two_scales", "structure", "2 numbers for 4 channels",
     [](Program& p) {
       OpOf<Normalise>(Find(p, "normalise")).scale = {1, 2};
     },
     EveryOp},
    {"normalise_no_shift", "structure", "0 numbers for 4 channels",
     [](Program& p) { OpOf<Normalise>(Find(p, "normalise")).shift = {}; }, EveryOp},
    {"normalise_infinite", "structure", "expected finite",
     [](Program& p) { OpOf<Normalise>(Find(p, "normalise")).shift[2] = INFINITY; }, EveryOp},
};

std::string NameOf(const ::testing::TestParamInfo<Breakage>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Slots, VerifyFinds, ::testing::ValuesIn(kSlots), NameOf);
INSTANTIATE_TEST_SUITE_P(Normalise, VerifyFinds, ::testing::ValuesIn(kNormalise), NameOf);
INSTANTIATE_TEST_SUITE_P(Structure, VerifyFinds, ::testing::ValuesIn(kStructure), NameOf);
INSTANTIATE_TEST_SUITE_P(Operands, VerifyFinds, ::testing::ValuesIn(kOperands), NameOf);
INSTANTIATE_TEST_SUITE_P(Losses, VerifyFinds, ::testing::ValuesIn(kLosses), NameOf);
INSTANTIATE_TEST_SUITE_P(LayerNorms, VerifyFinds, ::testing::ValuesIn(kLayerNorms), NameOf);
INSTANTIATE_TEST_SUITE_P(BatchNorms, VerifyFinds, ::testing::ValuesIn(kBatchNorms), NameOf);
INSTANTIATE_TEST_SUITE_P(Meetings, VerifyFinds, ::testing::ValuesIn(kMeetings), NameOf);
INSTANTIATE_TEST_SUITE_P(Data, VerifyFinds, ::testing::ValuesIn(kData), NameOf);
INSTANTIATE_TEST_SUITE_P(Overlap, VerifyFinds, ::testing::ValuesIn(kOverlap), NameOf);
INSTANTIATE_TEST_SUITE_P(Argmax, VerifyFinds, ::testing::ValuesIn(kArgmax), NameOf);
INSTANTIATE_TEST_SUITE_P(Declarations, VerifyFinds, ::testing::ValuesIn(kDeclarations), NameOf);

TEST(Verify, AcceptsAScheduledProgram) { ExpectOk(TwoColumns()); }
TEST(Verify, AcceptsEveryOp) { ExpectOk(EveryOp()); }
TEST(Verify, AcceptsNormsOfAPart) { ExpectOk(NormsOfAPart()); }
TEST(Verify, AcceptsStatisticsBehindTrainedParametersWithoutAFlag) {
  Program program = TwoColumns();
  AddStatistic(program);
  ExpectOk(program);
  EXPECT_EQ(TrainedCount(program), 3);
  EXPECT_EQ(program.parameters.size(), 4u);
}
TEST(Verify, AcceptsEveryCollective) { ExpectOk(EveryCollective()); }
TEST(Verify, AcceptsSummandsInF32OfFactorsInBf16) {
  for (const Breakage& none : {Retyped("", "conv_backward_data", {0, 1}, DType::kBF16, ""),
                               Retyped("", "fully_connected_backward_data", {0, 1}, DType::kBF16, ""),
                               Retyped("", "fully_connected_forward", {0, 1}, DType::kBF16, "", TwoColumns),
                               Retyped("", "bias_forward", {1, 2}, DType::kBF16, "")}) {
    Program program = none.start();
    none.apply(program);
    EXPECT_TRUE(CheckStructure(program).ok()) << CheckStructure(program);
  }
}
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
  ExpectOk(program);
}

TEST(Verify, AcceptsAnArgmaxThatIsReadThroughAView) {
  Program program = EveryOp();
  ReadArgmaxThroughAView(program, Region::Whole({2, 4, 3, 3}));
  ExpectOk(program);
}

TEST(Verify, AcceptsTheEmptyProgram) { ExpectOk(Builder("empty", Mode::kEval, 0, DType::kF32, {}).Build()); }

TEST(Verify, AcceptsAnUnscheduledProgramOnOneLane) {
  Program program = TwoColumnsUnscheduled();
  for (Task& task : program.tasks) task.lane = Lane::kCompute;
  ExpectOk(program);
}

TEST(Verify, NamesTasksAndBufferOfAMissingWait) {
  Program program = TwoColumns();
  Task& copy = Find(program, "copy");
  const int32_t exchange = Find(program, "exchange").id.value;
  copy.waits.clear();
  EXPECT_EQ(
      std::string(Verify(program).message()),
      absl::StrCat("order: task ", copy.id.value, " (copy of flatten, device 0) reads buffer 3 \"conv.whole\" that task ",
                   exchange, " (exchange of conv, device 0) writes, but nothing orders them; add a wait"));
}

}  // namespace
}  // namespace colonnade::program
