// The lowering passes, in the order in which lower.cc runs them. "Before" and "After" say what passes leave to each other. A
// pass returns Internal where it sees that this does not hold, since only a fault of our own can cause that; options are
// checked before the first pass. What holds after every pass, and is checked there, is in check_actions.h.
#ifndef COLONNADE_PARTITION_LOWERING_PASSES_H_
#define COLONNADE_PARTITION_LOWERING_PASSES_H_

#include "absl/status/status.h"
#include "partition/lowering/lowering.h"
#include "program/program.h"
#include "program/representative_program.h"

namespace colonnade::partition {

// Turns the graph into the actions of forward and, in training, backward. Before: no actions. After: every node that reaches
// a parameter has its gradient action; no value has a placement.
absl::Status ExpandStages(Lowering& lowering);

// Masks a gradient (ReLU) before it is routed (max pooling) instead of after, where it comes from that routing alone.
// Gradients reach only the largest element of a window, which is above zero where the pooled one is, so that dx is the same,
// bit for bit; but the mask works on tensors as small as the pooled one, and the large one need not be kept for it. Applies
// only if both layers have the same placement. After: no such mask comes after its routing.
absl::Status AdvanceMasks(Lowering& lowering);

// Gives every value the placement in which it is made and every operand the one that is needed. After: no placement is
// empty.
absl::Status ExpandShards(Lowering& lowering);

// Puts actions of the resharding table before each operand that does not lie as needed. After: every operand does.
absl::Status InsertResharding(Lowering& lowering);

// Moves actions that only update state to the end, since sums over devices that they read may still move. Sums that only
// such actions read, as those of a normalisation in groups, share buckets, closed as those of gradients are, each reduced by
// one collective after its last summand is made. Not bucketed: sums within subgroups, and values whose type ChoosePrecision
// still has to decide.
absl::Status BucketStatistics(Lowering& lowering);

// Gives compute work while a value moves for which the backward pass waits: the nearest action before the transfer that
// makes only parameters' gradients, for which nothing waits, goes behind the transfer.
absl::Status HideTransfers(Lowering& lowering);

// Puts parameters of like reduction into buckets, in the order in which backward makes their gradients. After: each is in
// one.
absl::Status BucketGradients(Lowering& lowering);

// Checks and reduces each bucket as soon as its last gradient is made, and updates it when nothing more reads its parameters
// (after backward, without overlap); evaluation has none. Before: buckets. After: every bucket is updated once.
absl::Status InsertGradientReduction(Lowering& lowering);

// Makes an activation part of the stage before it, where it alone reads what that stage writes and the stage takes one;
// likewise a sum of what a stage writes and one other value, with the activation that may follow. Nothing is fused across a
// transfer.
absl::Status FuseEpilogues(Lowering& lowering);

// Leaves out the action that masks a gradient (ReLU). Where forward fused the activation with a stage, and stages of that
// layer alone read the masked gradient, they recall the mask from what they read anyway. Else a stage that reads the masked
// gradient masks it itself and writes it for others, and takes on the sum of two gradients before it. Before: epilogues are
// fused.
absl::Status FuseMasks(Lowering& lowering);

// Makes a stage that scales and shifts by channel (a normalisation in evaluation) part of the product whose result it alone
// reads: an action folds it into the product's weight and bias, and the product takes over its activation, if it has one. It
// does not where a value is added too, nor where the weight is larger than the tensor that would be scaled, so that scaling
// costs less, unless the weight is rounded anyway. Before: epilogues and masks are fused.
absl::Status FoldNormalisations(Lowering& lowering);

// Gives values their element types. Kernels that compute in another type than that of parameters and of sums over devices
// get a rounded copy of each. After: every value has a type.
absl::Status ChoosePrecision(Lowering& lowering);

// Cuts transfers of activations, to and from layers that multiply each sample by their weights alone (fully connected ones),
// into parts of the batch, and the stages of these layers with them, so that one part is computed while another moves
// (Krizhevsky 2014, arXiv:1404.5997, section 4, schemes b and c; but weights are updated once, by all of the batch). Stages
// between these layers that have no weights are cut, too. Before: values have types. After: between transfers, all of a part
// comes before the next.
absl::Status SplitTransfers(Lowering& lowering);

// Orders the actions so that compute does not wait for a reduction that has only begun: an update stands where the reduction
// is expected to have ended. Element counts and nominal rates decide, never a measurement.
absl::Status OrderActions(Lowering& lowering);

// Turns the actions into the tasks of every device.
program::Program EmitTasks(const Lowering& lowering);

// Turns the actions into the tasks of one device of each class (representative_positions.h).
program::RepresentativeProgram EmitRepresentatives(const Lowering& lowering, const GroupClassifier& classify_group);

// Writes the waits between lanes that dependencies ask for, leaving out those that others imply.
absl::Status AssignWaits(program::Program& program);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWERING_PASSES_H_
