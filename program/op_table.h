// The ops, one row each: everything that is true of an op whatever runs it. Names, the text form, Verify's checks of
// operands, the cost model, calibration and the choice of layouts read this table; an op without a row does not compile. It
// is long because it is one table: a row is found, and compared with others, in one place.
#ifndef COLONNADE_PROGRAM_OP_TABLE_H_
#define COLONNADE_PROGRAM_OP_TABLE_H_

#include <tuple>
#include <vector>

#include "program/op.h"
#include "program/op_row.h"
#include "program/op_traits.h"

namespace colonnade::program {

// Operands of convolutions and fully connected layers.
inline constexpr OperandTrait kWeights{"w", Role::kWeight, kReads},
    kBias{"b", Role::kBias, kReads, Width::kElement, Occurs::kIfBias};
inline constexpr OperandTrait kForwardOfWeights[] = {kX, kWeights, kBias, {"y", Role::kOutput, kWrites, Width::kSummand}};
inline constexpr OperandTrait kBackwardToData[] = {kDy, kWeights, {"dx", Role::kInput, kWrites, Width::kSummand}};
inline constexpr OperandTrait kBackwardToWeights[] = {
    kX, kDy, {"dw", Role::kWeight, kWrites, Width::kMaster}, {"db", Role::kBias, kWrites, Width::kMaster, Occurs::kIfBias}};

template <>
struct OpTraits<Load> : Streams {
  static constexpr const char* kName = "load";
  static constexpr OperandTrait kOperands[] = {{"y", Role::kData, kWrites}};
  static constexpr std::tuple kAttributes{Attribute{"input", &Load::input}};
};
template <>
struct OpTraits<Store> : Streams {
  static constexpr const char* kName = "store";
  static constexpr OperandTrait kOperands[] = {{"x", Role::kData, kReads}};
  static constexpr std::tuple kAttributes{Attribute{"output", &Store::output}};
};
template <>
struct OpTraits<Copy> : Streams {
  static constexpr const char* kName = "copy";
  static constexpr OperandTrait kOperands[] = {{"x", Role::kData, kReads}, {"y", Role::kData, kWrites}};
};
template <>
struct OpTraits<Normalise> : Streams {
  static constexpr const char* kName = "normalise";
  static constexpr OperandTrait kOperands[] = {{"x", Role::kPixels, kReads}, kY};
  static constexpr std::tuple kAttributes{Attribute{"scale", &Normalise::scale}, Attribute{"shift", &Normalise::shift}};
};
template <>
struct OpTraits<Sum> : StreamsAlike {
  static constexpr const char* kName = "sum";
  static constexpr OperandTrait kOperands[] = {{"x", Role::kData, kReads, Width::kElement, Occurs::kOnceOrMore},
                                               {"y", Role::kData, kWrites}};
};

template <>
struct OpTraits<ConvForward> : Convolves {
  static constexpr const char* kName = "conv_forward";
  static constexpr const auto& kOperands = kForwardOfWeights;
  static constexpr std::tuple kAttributes{Attribute{"window", &ConvForward::window},
                                          Attribute{"groups", &ConvForward::groups}, Attribute{"bias", &ConvForward::bias},
                                          Attribute{"relu", &ConvForward::relu}};
};
template <>
struct OpTraits<ConvBackwardData> : Convolves {
  static constexpr const char* kName = "conv_backward_data";
  static constexpr const auto& kOperands = kBackwardToData;
  static constexpr std::tuple kAttributes{Attribute{"window", &ConvBackwardData::window},
                                          Attribute{"groups", &ConvBackwardData::groups}};
};
template <>
struct OpTraits<ConvBackwardWeights> : Convolves {
  static constexpr const char* kName = "conv_backward_weights";
  static constexpr const auto& kOperands = kBackwardToWeights;
  static constexpr std::tuple kAttributes{Attribute{"window", &ConvBackwardWeights::window},
                                          Attribute{"groups", &ConvBackwardWeights::groups},
                                          Attribute{"bias", &ConvBackwardWeights::bias}};
};

template <>
struct OpTraits<FullyConnectedForward> : Multiplies {
  static constexpr const char* kName = "fully_connected_forward";
  static constexpr const auto& kOperands = kForwardOfWeights;
  static constexpr std::tuple kAttributes{Attribute{"bias", &FullyConnectedForward::bias},
                                          Attribute{"relu", &FullyConnectedForward::relu}};
};
template <>
struct OpTraits<FullyConnectedBackwardData> : Multiplies {
  static constexpr const char* kName = "fully_connected_backward_data";
  static constexpr const auto& kOperands = kBackwardToData;
};
template <>
struct OpTraits<FullyConnectedBackwardWeights> : Multiplies {
  static constexpr const char* kName = "fully_connected_backward_weights";
  static constexpr const auto& kOperands = kBackwardToWeights;
  static constexpr std::tuple kAttributes{Attribute{"bias", &FullyConnectedBackwardWeights::bias}};
};

template <>
struct OpTraits<BiasForward> : StreamsAlike {
  static constexpr const char* kName = "bias_forward";
  static constexpr OperandTrait kOperands[] = {{"x", Role::kInput, kReads, Width::kMaster}, {"b", Role::kBias, kReads}, kY};
};
template <>
struct OpTraits<BiasBackward> : Streams {
  static constexpr const char* kName = "bias_backward";
  static constexpr OperandTrait kOperands[] = {kDy, {"db", Role::kBias, kWrites, Width::kMaster}};
};

// One op of each activation.
template <class Op>
std::vector<Op> OfEachActivation() {
  std::vector<Op> ops;
  for (Activation activation : kActivations) ops.push_back({activation});
  return ops;
}

template <>
struct OpTraits<ActivationForward> : StreamsAlike {
  static const char* NameOf(const ActivationForward& op) {
    return WithFormula(op.activation, [](auto formula) { return formula.kForward; });
  }
  static std::vector<ActivationForward> Each() { return OfEachActivation<ActivationForward>(); }
  static constexpr OperandTrait kOperands[] = {kX, kY};
};
template <>
struct OpTraits<ActivationBackward> : StreamsAlike {
  static const char* NameOf(const ActivationBackward& op) {
    return WithFormula(op.activation, [](auto formula) { return formula.kBackward; });
  }
  static std::vector<ActivationBackward> Each() { return OfEachActivation<ActivationBackward>(); }
  static constexpr OperandTrait kOperands[] = {{"kept", Role::kSaved, kReads}, kDy, kDx};
};

template <>
struct OpTraits<MaxPoolForward> : WorksOnImages {
  static constexpr const char* kName = "max_pool_forward";
  static constexpr OperandTrait kOperands[] = {
      kX, kY, {"argmax", Role::kArgmax, kWrites, Width::kElement, Occurs::kAllOrNone}};
  static constexpr std::tuple kAttributes{Attribute{"window", &MaxPoolForward::window}};
  static constexpr LayoutRule kLayout = LayoutRule::kArgmax;
};
template <>
struct OpTraits<MaxPoolBackward> : WorksOnImages {
  static constexpr const char* kName = "max_pool_backward";
  static constexpr OperandTrait kOperands[] = {{"argmax", Role::kArgmax, kReads}, kDy, kDx};
  static constexpr std::tuple kAttributes{Attribute{"window", &MaxPoolBackward::window}};
  static constexpr LayoutRule kLayout = LayoutRule::kArgmax;
};

template <>
struct OpTraits<AvgPoolForward> : WorksOnImages {
  static constexpr const char* kName = "avg_pool_forward";
  static constexpr OperandTrait kOperands[] = {kX, kY};
  static constexpr std::tuple kAttributes{Attribute{"window", &AvgPoolForward::window},
                                          Attribute{"count_pad", &AvgPoolForward::count_pad}};
};
template <>
struct OpTraits<AvgPoolBackward> : WorksOnImages {
  static constexpr const char* kName = "avg_pool_backward";
  static constexpr OperandTrait kOperands[] = {kDy, kDx};
  static constexpr std::tuple kAttributes{Attribute{"window", &AvgPoolBackward::window},
                                          Attribute{"count_pad", &AvgPoolBackward::count_pad}};
};

template <class Op>
inline constexpr std::tuple kWindowOfChannels{Attribute{"size", &Op::size}, Attribute{"groups", &Op::groups},
                                              Attribute{"alpha", &Op::alpha}, Attribute{"beta", &Op::beta},
                                              Attribute{"k", &Op::k}};

template <>
struct OpTraits<LrnForward> : WorksOnImages {
  static constexpr const char* kName = "lrn_forward";
  static constexpr OperandTrait kOperands[] = {kX, kY};
  static constexpr const auto& kAttributes = kWindowOfChannels<LrnForward>;
};
template <>
struct OpTraits<LrnBackward> : WorksOnImages {
  static constexpr const char* kName = "lrn_backward";
  static constexpr OperandTrait kOperands[] = {kX, kDy, kDx};
  static constexpr const auto& kAttributes = kWindowOfChannels<LrnBackward>;
};

// Returns the trait of an operand with one number for each channel.
constexpr OperandTrait OfChannels(const char* name, Access access) { return {name, Role::kBias, access, Width::kMaster}; }
inline constexpr OperandTrait kChannelW = OfChannels("w", kReads), kChannelB = OfChannels("b", kReads),
                              kDw = OfChannels("dw", kWrites), kDb = OfChannels("db", kWrites),
                              kDsums{"dsums", Role::kSums, kWrites};
template <class Op>
inline constexpr std::tuple kCountAndEpsilon{Attribute{"count", &Op::count}, Attribute{"epsilon", &Op::epsilon}};

template <>
struct OpTraits<BatchNormSums> : StreamsAlike {
  static constexpr const char* kName = "batch_norm_sums";
  static constexpr OperandTrait kOperands[] = {
      kX, {"sums", Role::kSums, kWrites}, {"totals", Role::kSums, kWrites, Width::kElement, Occurs::kAllOrNone}};
};
template <>
struct OpTraits<BatchNormForward> : StreamsAlike {
  static constexpr const char* kName = "batch_norm_forward";
  static constexpr OperandTrait kOperands[] = {kX, kSums, kChannelW, kChannelB, Maybe({"addend", Role::kInput, kReads}), kY};
  static constexpr auto kAttributes =
      std::tuple_cat(kCountAndEpsilon<BatchNormForward>, std::tuple{Attribute{"relu", &BatchNormForward::relu}});
};
template <>
struct OpTraits<BatchNormTrack> : Streams {
  static constexpr const char* kName = "batch_norm_track";
  static constexpr OperandTrait kOperands[] = {kSums, OfChannels("mean", kAccumulates), OfChannels("var", kAccumulates),
                                               Maybe(kGate)};
  static constexpr std::tuple kAttributes{Attribute{"count", &BatchNormTrack::count},
                                          Attribute{"momentum", &BatchNormTrack::momentum}};
};
template <>
struct OpTraits<BatchNormRecall> : Streams {
  static constexpr const char* kName = "batch_norm_recall";
  static constexpr OperandTrait kOperands[] = {
      OfChannels("mean", kReads), OfChannels("var", kReads), {"sums", Role::kSums, kWrites}};
};
// Its weights are not those of a product of its own: they are of the master type, and read as any tensor is.
template <>
struct OpTraits<BatchNormFold> : Streams {
  static constexpr const char* kName = "batch_norm_fold";
  static constexpr OperandTrait kOperands[] = {{"weights", Role::kInput, kReads, Width::kMaster},
                                               OfChannels("mean", kReads),
                                               OfChannels("var", kReads),
                                               kChannelW,
                                               kChannelB,
                                               Maybe(OfChannels("bias", kReads)),
                                               {"folded", Role::kOutput, kWrites},
                                               {"folded_bias", Role::kBias, kWrites}};
  static constexpr std::tuple kAttributes{Attribute{"epsilon", &BatchNormFold::epsilon}};
};
template <>
struct OpTraits<BatchNormBackwardSums> : StreamsAlike {
  static constexpr const char* kName = "batch_norm_backward_sums";
  static constexpr OperandTrait kOperands[] = {kX, kDy, kSums, Maybe(kChannelW), Maybe(kChannelB), kDsums, kDw, kDb};
  static constexpr const auto& kAttributes = kCountAndEpsilon<BatchNormBackwardSums>;
};
template <>
struct OpTraits<BatchNormMaskedSums> : StreamsAlike {
  static constexpr const char* kName = "batch_norm_masked_sums";
  static constexpr OperandTrait kKept{"y", Role::kOutput, kReads}, kMore{"more", Role::kOutput, kReads},
      kDz{"dz", Role::kOutput, kWrites};
  static constexpr OperandTrait kOperands[] = {kX, kKept, kDy, kSums, Maybe(kMore), kDz, kDsums, kDw, kDb};
  static constexpr const auto& kAttributes = kCountAndEpsilon<BatchNormMaskedSums>;
};
template <>
struct OpTraits<BatchNormBackward> : StreamsAlike {
  static constexpr const char* kName = "batch_norm_backward";
  static constexpr OperandTrait kOperands[] = {kX, kDy, kSums, {"dsums", Role::kSums, kReads}, kChannelW, Maybe(kChannelB),
                                               kDx};
  static constexpr const auto& kAttributes = kCountAndEpsilon<BatchNormBackward>;
};

inline constexpr OperandTrait kMoments{"moments", Role::kSaved, kReads, Width::kMaster};
template <>
struct OpTraits<LayerNormForward> : StreamsAlike {
  static constexpr const char* kName = "layer_norm_forward";
  static constexpr OperandTrait kOperands[] = {
      kX, kChannelW, kChannelB, kY, {"moments", Role::kSaved, kWrites, Width::kMaster}};
  static constexpr std::tuple kAttributes{Attribute{"epsilon", &LayerNormForward::epsilon}};
};
template <>
struct OpTraits<LayerNormBackwardData> : StreamsAlike {
  static constexpr const char* kName = "layer_norm_backward_data";
  static constexpr OperandTrait kOperands[] = {kX, kDy, kMoments, kChannelW, kDx};
};
template <>
struct OpTraits<LayerNormBackwardWeights> : Streams {
  static constexpr const char* kName = "layer_norm_backward_weights";
  static constexpr OperandTrait kOperands[] = {kX, kDy, kMoments, kDw, kDb};
};

template <>
struct OpTraits<Dropout> : StreamsAlike {
  static constexpr const char* kName = "dropout";
  static constexpr OperandTrait kOperands[] = {kScalars, kX, kY};
  static constexpr std::tuple kAttributes{Attribute{"rate", &Dropout::rate}, Attribute{"stream", &Dropout::stream},
                                          Attribute{"global_shape", &Dropout::global_shape},
                                          Attribute{"offset", &Dropout::offset}};
};

template <class Op>
inline constexpr std::tuple kWeightAndSmoothing{Attribute{"weight", &Op::weight},
                                                Attribute{"label_smoothing", &Op::label_smoothing}};

template <>
struct OpTraits<SoftmaxCrossEntropyForward> : Streams {
  static constexpr const char* kName = "softmax_cross_entropy_forward";
  static constexpr OperandTrait kOperands[] = {{"logits", Role::kInput, kReads},
                                               kSampleLabels,
                                               {"p", Role::kSaved, kWrites, Width::kMaster},
                                               {"metrics", Role::kMetrics, kWrites}};
  static constexpr const auto& kAttributes = kWeightAndSmoothing<SoftmaxCrossEntropyForward>;
};
template <>
struct OpTraits<CountLabels> : Streams {
  static constexpr const char* kName = "count_labels";
  static constexpr OperandTrait kOperands[] = {{"labels", Role::kLabels, kReads, Width::kElement, Occurs::kOnceOrMore},
                                               {"count", Role::kCount, kWrites}};
};
template <>
struct OpTraits<SoftmaxCrossEntropyBackward> : Streams {
  static constexpr const char* kName = "softmax_cross_entropy_backward";
  static constexpr OperandTrait kOperands[] = {{"count", Role::kCount, kReads},
                                               {"p", Role::kSaved, kReads, Width::kMaster},
                                               kSampleLabels,
                                               {"dlogits", Role::kInput, kWrites}};
  static constexpr const auto& kAttributes = kWeightAndSmoothing<SoftmaxCrossEntropyBackward>;
};
template <>
struct OpTraits<CheckFinite> : Streams {
  static constexpr const char* kName = "check_finite";
  static constexpr OperandTrait kOperands[] = {{"x", Role::kWeight, kReads, Width::kMaster, Occurs::kOnceOrMore},
                                               {"flag", Role::kFlag, kWrites, Width::kElement, Occurs::kOnceOrMore}};
};
inline constexpr OperandTrait kTrust{"trust", Role::kControl, kReads}, kGradient{"g", Role::kWeight, kReads, Width::kMaster},
    kUpdated{"w", Role::kWeight, kAccumulates, Width::kMaster};
template <>
struct OpTraits<SgdUpdate> : Updates {
  static constexpr const char* kName = "sgd_update";
  static constexpr OperandTrait kOperands[] = {
      kScalars, Maybe(kGate), Maybe(kTrust), kGradient, {"v", Role::kMomentum, kAccumulates, Width::kMaster}, kUpdated};
  static constexpr std::tuple kAttributes{
      Attribute{"momentum", &SgdUpdate::momentum}, Attribute{"weight_decay", &SgdUpdate::weight_decay},
      Attribute{"form", &SgdUpdate::form}, Attribute{"rates", &SgdUpdate::rates}, Attribute{"decays", &SgdUpdate::decays}};
};
template <>
struct OpTraits<AdamWUpdate> : Updates {
  static constexpr const char* kName = "adamw_update";
  static constexpr OperandTrait kOperands[] = {kScalars,
                                               Maybe(kGate),
                                               Maybe(kTrust),
                                               kGradient,
                                               {"m", Role::kMomentum, kAccumulates, Width::kMaster},
                                               {"v", Role::kMomentum, kAccumulates, Width::kMaster},
                                               kUpdated};
  static constexpr std::tuple kAttributes{
      Attribute{"adam", &AdamWUpdate::adam}, Attribute{"weight_decay", &AdamWUpdate::weight_decay},
      Attribute{"rates", &AdamWUpdate::rates}, Attribute{"decays", &AdamWUpdate::decays}};
};
template <>
struct OpTraits<AverageUpdate> : Updates {
  static constexpr const char* kName = "average_update";
  static constexpr OperandTrait kOperands[] = {
      Maybe(kGate), {"w", Role::kWeight, kReads, Width::kMaster}, {"e", Role::kMomentum, kAccumulates, Width::kMaster}};
  static constexpr std::tuple kAttributes{Attribute{"decay", &AverageUpdate::decay}};
};
template <>
struct OpTraits<SquaredNorms> : Updates {
  static constexpr const char* kName = "squared_norms";
  static constexpr OperandTrait kOperands[] = {
      kGradient, Maybe({"w", Role::kWeight, kReads, Width::kMaster}), {"norms", Role::kControl, kWrites}};
  static constexpr std::tuple kAttributes{Attribute{"counted", &SquaredNorms::counted}};
};
template <>
struct OpTraits<UpdateGate> : Streams {
  static constexpr const char* kName = "update_gate";
  static constexpr OperandTrait kOperands[] = {
      {"norms", Role::kControl, kReads}, {"gate", Role::kControl, kWrites}, {"trust", Role::kControl, kWrites}};
  static constexpr std::tuple kAttributes{
      Attribute{"clip_norm", &UpdateGate::clip_norm}, Attribute{"trust", &UpdateGate::trust},
      Attribute{"weight_decay", &UpdateGate::weight_decay}, Attribute{"decays", &UpdateGate::decays},
      Attribute{"adapted", &UpdateGate::adapted}};
};

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_OP_TABLE_H_
