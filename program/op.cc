#include "program/op.h"

namespace colonnade::program {
namespace {

// clang-format off
const char* NameOf(const Load&) { return "load"; }
const char* NameOf(const Store&) { return "store"; }
const char* NameOf(const Copy&) { return "copy"; }
const char* NameOf(const Sum&) { return "sum"; }
const char* NameOf(const ConvForward&) { return "conv_forward"; }
const char* NameOf(const ConvBackwardData&) { return "conv_backward_data"; }
const char* NameOf(const ConvBackwardWeights&) { return "conv_backward_weights"; }
const char* NameOf(const FullyConnectedForward&) { return "fully_connected_forward"; }
const char* NameOf(const FullyConnectedBackwardData&) { return "fully_connected_backward_data"; }
const char* NameOf(const FullyConnectedBackwardWeights&) { return "fully_connected_backward_weights"; }
const char* NameOf(const BiasForward&) { return "bias_forward"; }
const char* NameOf(const BiasBackward&) { return "bias_backward"; }
const char* NameOf(const ReluForward&) { return "relu_forward"; }
const char* NameOf(const ReluBackward&) { return "relu_backward"; }
const char* NameOf(const MaxPoolForward&) { return "max_pool_forward"; }
const char* NameOf(const MaxPoolBackward&) { return "max_pool_backward"; }
const char* NameOf(const AvgPoolForward&) { return "avg_pool_forward"; }
const char* NameOf(const AvgPoolBackward&) { return "avg_pool_backward"; }
const char* NameOf(const LrnForward&) { return "lrn_forward"; }
const char* NameOf(const LrnBackward&) { return "lrn_backward"; }
const char* NameOf(const Dropout&) { return "dropout"; }
const char* NameOf(const SoftmaxCrossEntropyForward&) { return "softmax_cross_entropy_forward"; }
const char* NameOf(const SoftmaxCrossEntropyBackward&) { return "softmax_cross_entropy_backward"; }
const char* NameOf(const CheckFinite&) { return "check_finite"; }
const char* NameOf(const SgdUpdate&) { return "sgd_update"; }
// clang-format on

}  // namespace

const char* Name(const Op& op) {
  return std::visit([](const auto& attributes) { return NameOf(attributes); }, op);
}

}  // namespace colonnade::program
