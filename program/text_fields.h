// The attributes of every op, exchange and collective by name, in the order of the text form: one list for Print and Parse.
// Internal to program/.
#ifndef COLONNADE_PROGRAM_TEXT_FIELDS_H_
#define COLONNADE_PROGRAM_TEXT_FIELDS_H_

#include "program/task.h"

namespace colonnade::program {

// Calls `f(name, attribute)` for each attribute of what a task does.
template <class F>
struct VisitFields {
  F& f;

  void operator()(Compute& compute) { std::visit(*this, compute.op); }
  void operator()(Exchange& x) {
    f("message", x.message);
    f("peer", x.peer);
    f("sends", x.sends);
    f("receives", x.receives);
  }
  void operator()(Collective& x) {
    f("instance", x.instance);
    f("group", x.group);
    f("from", x.dim_from);
    f("to", x.dim_to);
    f("root", x.root);
  }

  void operator()(Load& op) { f("input", op.input); }
  void operator()(Store& op) { f("output", op.output); }
  void operator()(Copy&) {}
  void operator()(Sum&) {}
  void operator()(ConvForward& op) {
    f("window", op.window);
    f("groups", op.groups);
    f("bias", op.bias);
    f("relu", op.relu);
  }
  void operator()(ConvBackwardData& op) {
    f("window", op.window);
    f("groups", op.groups);
  }
  void operator()(ConvBackwardWeights& op) {
    f("window", op.window);
    f("groups", op.groups);
    f("bias", op.bias);
  }
  void operator()(FullyConnectedForward& op) {
    f("bias", op.bias);
    f("relu", op.relu);
  }
  void operator()(FullyConnectedBackwardData&) {}
  void operator()(FullyConnectedBackwardWeights& op) { f("bias", op.bias); }
  void operator()(BiasForward&) {}
  void operator()(BiasBackward&) {}
  void operator()(ReluForward&) {}
  void operator()(ReluBackward&) {}
  void operator()(MaxPoolForward& op) { f("window", op.window); }
  void operator()(MaxPoolBackward& op) { f("window", op.window); }
  void operator()(AvgPoolForward& op) {
    f("window", op.window);
    f("count_pad", op.count_pad);
  }
  void operator()(AvgPoolBackward& op) {
    f("window", op.window);
    f("count_pad", op.count_pad);
  }
  void operator()(LrnForward& op) { Lrn(op); }
  void operator()(LrnBackward& op) { Lrn(op); }
  void operator()(Dropout& op) {
    f("rate", op.rate);
    f("stream", op.stream);
    f("global_shape", op.global_shape);
    f("offset", op.offset);
  }
  void operator()(SoftmaxCrossEntropyForward&) {}
  void operator()(SoftmaxCrossEntropyBackward&) {}
  void operator()(CheckFinite&) {}
  void operator()(SgdUpdate& op) {
    f("momentum", op.momentum);
    f("weight_decay", op.weight_decay);
  }

 private:
  template <class Op>
  void Lrn(Op& op) {
    f("size", op.size);
    f("groups", op.groups);
    f("alpha", op.alpha);
    f("beta", op.beta);
    f("k", op.k);
  }
};
template <class F>
VisitFields(F&) -> VisitFields<F>;

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_TEXT_FIELDS_H_
