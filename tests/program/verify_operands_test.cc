// Number, types, shapes and attributes of the operands of each op, broken in each way.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "program/verify/rules.h"
#include "tests/program/breakages.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {
namespace {

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
    {"exchange_peer", "structure", "names the peer 2", [](Program& p) { WhatOf<Exchange>(Find(p, "exchange")).peer = 2; }},
    {"exchange_no_peer", "structure", "names the peer -1",
     [](Program& p) { WhatOf<Exchange>(Find(p, "exchange")).peer = -1; }},
    {"exchange_access", "structure", "has the operands (accumulate",
     [](Program& p) { Find(p, "exchange").uses[0].access = Access::kAccumulate; }},
    {"one_sided_exchange_access", "structure", "has the operands (write); expected (read)",
     [](Program& p) {
       Task& task = Find(p, "exchange");
       WhatOf<Exchange>(task).receives = false;
       task.uses.erase(task.uses.begin());
     }},
    {"gathered_access", "structure", "has the operands (read, accumulate); expected (read, write)",
     [](Program& p) { Find(p, "all_gather").uses[1].access = Access::kAccumulate; }, EveryCollective},
    {"group_behind_the_last", "structure", "names group 1 of 1",
     [](Program& p) { WhatOf<Collective>(Find(p, "all_reduce")).group = 1; }},
    {"store_output", "structure", "names output 2", [](Program& p) { OpOf<Store>(Find(p, "store")).output = 2; }, EveryOp},
    {"store_no_output", "structure", "names output -1", [](Program& p) { OpOf<Store>(Find(p, "store")).output = -1; },
     EveryOp},
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
    {"lrn_large_alpha", "structure", "alpha 1e+39",
     [](Program& p) { OpOf<LrnForward>(Find(p, "lrn_forward")).alpha = 1e39; }, EveryOp},
    {"lrn_k", "structure", "k 0", [](Program& p) { OpOf<LrnForward>(Find(p, "lrn_forward")).k = 0; }, EveryOp},
    {"lrn_size", "structure", "a window of 0 channels",
     [](Program& p) { OpOf<LrnForward>(Find(p, "lrn_forward")).size = 0; }, EveryOp},
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
    Changed("forward_epsilon", kNorm, &BatchNormForward::epsilon, -1e-9,
            "expected an epsilon from 1.2e-38 (less may be 0 in f32) to 1, found -1e-09"),
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
    ReshapedLast("track_gate", kTrack, 3, {3}, "operand 3 of shape [3]; expected [2]"),
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
    Changed("fold_epsilon", kFold, &BatchNormFold::epsilon, 2.0,
            "expected an epsilon from 1.2e-38 (less may be 0 in f32) to 1, found 2"),
    Changed("backward_sums_count", kNormBackwardSums, &BatchNormBackwardSums::count, int64_t{0}, "a count of 0"),
    Changed("backward_sums_epsilon", kNormBackwardSums, &BatchNormBackwardSums::epsilon, 2.0,
            "expected an epsilon from 1.2e-38 (less may be 0 in f32) to 1, found 2"),
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
    Changed("masked_sums_epsilon", kNormMaskedSums, &BatchNormMaskedSums::epsilon, 2.0,
            "expected an epsilon from 1.2e-38 (less may be 0 in f32) to 1, found 2"),
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
    Changed("backward_epsilon", kNormBackward, &BatchNormBackward::epsilon, 2.0,
            "expected an epsilon from 1.2e-38 (less may be 0 in f32) to 1, found 2"),
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
    Changed("forward_epsilon", kLayerNorm, &LayerNormForward::epsilon, -1e-9,
            "expected an epsilon from 1.2e-38 (less may be 0 in f32) to 1, found -1e-09"),
    Changed("forward_no_epsilon", kLayerNorm, &LayerNormForward::epsilon, kNoNumber,
            "expected an epsilon from 1.2e-38 (less may be 0 in f32) to 1, found nan"),
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

Breakage OfAdamW(const char* name, double AdamW::*number, double wrong, const char* message) {
  return {name, "structure", message, [=](Program& p) { OpOf<AdamWUpdate>(Find(p, "adamw_update")).adam.*number = wrong; },
          EveryOp};
}

const Breakage kUpdates[] = {
    OfAdamW("adamw_beta1", &AdamW::beta1, 1.0, "betas: expected a number from 0 and below 1, found 1"),
    OfAdamW("adamw_beta2", &AdamW::beta2, kNoNumber, "betas: expected a number from 0 and below 1, found nan"),
    OfAdamW("adamw_small_epsilon", &AdamW::epsilon, 9e-16,
            "epsilon: expected a number from 1e-15 that f32 holds, found 9e-16"),
    OfAdamW("adamw_large_epsilon", &AdamW::epsilon, 1e39, "found 1e+39"),
    {"sgd_rate", "structure", "has 1e+39 in rates; expected numbers from 0 that f32 holds",
     [](Program& p) { OpOf<SgdUpdate>(Find(p, "sgd_update")).rates = {1e39}; }, EveryOp},
    Changed("sgd_weight_decay", "sgd_update", &SgdUpdate::weight_decay, -1e-4,
            "has weight decay -0.0001; expected a number from 0 that f32 holds"),
    Changed("sgd_large_weight_decay", "sgd_update", &SgdUpdate::weight_decay, 1e300, "has weight decay 1e+300; expected"),
    Changed("adamw_weight_decay", "adamw_update", &AdamWUpdate::weight_decay, kNoNumber, "has weight decay nan; expected"),
    Changed("sgd_momentum", "sgd_update", &SgdUpdate::momentum, 1.5, "has momentum 1.5; expected [0, 1]"),
    Changed("average_decay", "average_update", &AverageUpdate::decay, -0.5, "has decay -0.5; expected [0, 1]"),
    Changed("norms_counted", "squared_norms", &SquaredNorms::counted, Factors(99, 1.0),
            "has 99 numbers in counted; expected"),
    Changed("gate_norm", "update_gate", &UpdateGate::clip_norm, 1e39,
            "has norm to clip to 1e+39; expected a number from 0 that f32 holds"),
    Changed("gate_trust", "update_gate", &UpdateGate::trust, -1.0, "has trust -1; expected"),
    Changed("gate_weight_decay", "update_gate", &UpdateGate::weight_decay, kNoNumber, "has weight decay nan; expected"),
    Changed("gate_decays", "update_gate", &UpdateGate::decays, Factors(99, 1.0), "has 99 numbers in decays; expected"),
    Changed("gate_adapted", "update_gate", &UpdateGate::adapted, Factors(99, 1.0), "has 99 numbers in adapted; expected"),
};

const char *const kLoss = "softmax_cross_entropy_forward", *const kLossBackward = "softmax_cross_entropy_backward";

const Breakage kLosses[] = {
    Changed("forward_weight", kLoss, &SoftmaxCrossEntropyForward::weight, 0.0,
            "weight 0; expected a number above 0 that f32 holds"),
    Changed("forward_no_weight", kLoss, &SoftmaxCrossEntropyForward::weight, kNoNumber, "weight nan; expected"),
    Changed("forward_smoothing", kLoss, &SoftmaxCrossEntropyForward::label_smoothing, 1.0, "smoothing 1; expected [0, 1)"),
    Changed("backward_weight", kLossBackward, &SoftmaxCrossEntropyBackward::weight, double{INFINITY},
            "weight inf; expected"),
    Changed("backward_smoothing", kLossBackward, &SoftmaxCrossEntropyBackward::label_smoothing, -0.1,
            "smoothing -0.1; expected [0, 1)"),
};

const Breakage kNormalise[] = {
    {"normalise_of_floats", "structure", "u8",
     [](Program& p) {
       FindBuffer(p, "bytes").dtype = DType::kF32;
       p.inputs[0].host_dtype = DType::kF32;
     },
     EveryOp},
    {"normalise_keeps_channels", "structure", "expected",
     [](Program& p) {
       Find(p, "normalise").uses[0].region.size = {2, 6, 5, 4};
     },
     EveryOp},
    {"normalise_rank", "structure", "makes [2,4,36] of [2,6,6,4]; expected [n,C,…] of [n,…,C]",
     [](Program& p) {
       Reshape(p, Find(p, "normalise"), 1, {2, 4, 36});
     },
     EveryOp},
    {"normalise_without_channels", "structure", "makes [2] of [2]; expected [n,C,…] of [n,…,C]",
     [](Program& p) {
       for (int use : {0, 1}) Reshape(p, Find(p, "normalise"), use, {2});
     },
     EveryOp},
    {"normalise_two_scales", "structure", "2 numbers for 4 channels",
     [](Program& p) {
       OpOf<Normalise>(Find(p, "normalise")).scale = {1, 2};
     },
     EveryOp},
    {"normalise_no_shift", "structure", "0 numbers for 4 channels",
     [](Program& p) { OpOf<Normalise>(Find(p, "normalise")).shift = {}; }, EveryOp},
    {"normalise_infinite", "structure", "inf; expected numbers that f32 holds",
     [](Program& p) { OpOf<Normalise>(Find(p, "normalise")).shift[2] = INFINITY; }, EveryOp},
};

INSTANTIATE_TEST_SUITE_P(Operands, VerifyFinds, ::testing::ValuesIn(kOperands), NameOf);
INSTANTIATE_TEST_SUITE_P(BatchNorms, VerifyFinds, ::testing::ValuesIn(kBatchNorms), NameOf);
INSTANTIATE_TEST_SUITE_P(LayerNorms, VerifyFinds, ::testing::ValuesIn(kLayerNorms), NameOf);
INSTANTIATE_TEST_SUITE_P(Updates, VerifyFinds, ::testing::ValuesIn(kUpdates), NameOf);
INSTANTIATE_TEST_SUITE_P(Losses, VerifyFinds, ::testing::ValuesIn(kLosses), NameOf);
INSTANTIATE_TEST_SUITE_P(Normalise, VerifyFinds, ::testing::ValuesIn(kNormalise), NameOf);

TEST(CheckOperands, AcceptsADropoutThatDropsNothing) {
  Program program = EveryOp();
  OpOf<Dropout>(Find(program, "dropout")).rate = 0;
  EXPECT_TRUE(CheckOperands(program, Find(program, "dropout")).ok());
}

TEST(CheckOperands, AcceptsImagesOfOnePixel) {
  Program program = EveryOp();
  for (int use : {0, 1}) Find(program, "normalise").uses[use].region = Region::Whole({2, 4});
  EXPECT_TRUE(CheckOperands(program, Find(program, "normalise")).ok());
}

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

}  // namespace
}  // namespace colonnade::program
