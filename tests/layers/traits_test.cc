#include "layers/traits.h"

#include "gtest/gtest.h"

namespace colonnade::layers {
namespace {

TEST(Traits, SayWhatLoweringAsksOfEachLayer) {
  EXPECT_TRUE(IsInput(Input{}));
  EXPECT_TRUE(IsLoss(SoftmaxCrossEntropy{}));
  EXPECT_EQ(TraitsOf(SoftmaxCrossEntropy{}).channels, ChannelUse::kNeedsAll);
  EXPECT_EQ(TraitsOf(Concat{}).channels, ChannelUse::kJoins);
  for (const Layer& layer : {Layer{MaxPool{}}, Layer{AvgPool{}}, Layer{Relu{}}, Layer{Gelu{}}}) {
    EXPECT_EQ(TraitsOf(layer).channels, ChannelUse::kKeeps) << TypeName(layer);
  }
  EXPECT_EQ(TraitsOf(Add{}).channels, ChannelUse::kOther);
  EXPECT_EQ(TraitsOf(AddNarrow{}).channels, ChannelUse::kNeedsAll);
  EXPECT_EQ(TraitsOf(BatchNorm{}).channels, ChannelUse::kOther);
  EXPECT_EQ(TraitsOf(BatchNorm{.samples_per_group = 6}).samples_per_group, 6);
  EXPECT_EQ(TraitsOf(BatchNorm{}).samples_per_group, 0);
  EXPECT_EQ(TraitsOf(Lrn{}).samples_per_group, 0);
  const Layer conv = Conv2d{.groups = 2, .bias = false}, fc = FullyConnected{};
  EXPECT_TRUE(IsConvolution(conv) && MultipliesWeights(conv));
  EXPECT_EQ(TraitsOf(conv).groups, 2);
  EXPECT_TRUE(!IsConvolution(fc) && MultipliesWeights(fc));
}

// Of what has no row.
TEST(Traits, AreNoneOfALayerThatSaysNothing) {
  for (const Layer& layer : {Layer{Dropout{}}, Layer{Lrn{}}, Layer{LayerNorm{}}, Layer{Flatten{}}}) {
    const LayerTraits traits = TraitsOf(layer);
    EXPECT_EQ(traits.role, LayerRole::kOther);
    EXPECT_EQ(traits.channels, ChannelUse::kOther);
    EXPECT_FALSE(IsInput(layer) || IsLoss(layer) || IsConvolution(layer) || MultipliesWeights(layer));
    EXPECT_EQ(traits.samples_per_group, 0);
    EXPECT_EQ(traits.groups, 1);
  }
}

struct NoLayer {
  bool operator==(const NoLayer&) const = default;
};
static_assert(LayerType<Conv2d> && !LayerType<NoLayer>);

}  // namespace
}  // namespace colonnade::layers
