#include "layers/traits.h"

#include "gtest/gtest.h"

namespace colonnade::layers {
namespace {

TEST(Traits, SayWhatLoweringAsksOfEachLayer) {
  EXPECT_TRUE(TraitsOf(Input{}).is_input);
  EXPECT_TRUE(TraitsOf(SoftmaxCrossEntropy{}).is_loss);
  EXPECT_FALSE(TraitsOf(Concat{}).needs_all_channels);
  EXPECT_TRUE(TraitsOf(Concat{}).joins_channels && !TraitsOf(Concat{}).keeps_channels);
  for (const Layer& layer : {Layer{MaxPool{}}, Layer{AvgPool{}}, Layer{Relu{}}, Layer{Gelu{}}}) {
    EXPECT_TRUE(TraitsOf(layer).keeps_channels && !TraitsOf(layer).joins_channels) << TypeName(layer);
  }
  EXPECT_FALSE(TraitsOf(Add{}).needs_all_channels);
  EXPECT_TRUE(TraitsOf(AddNarrow{}).needs_all_channels);
  EXPECT_FALSE(TraitsOf(BatchNorm{}).needs_all_channels);
  EXPECT_EQ(TraitsOf(BatchNorm{.samples_per_group = 6}).samples_per_group, 6);
  EXPECT_EQ(TraitsOf(BatchNorm{}).samples_per_group, 0);
  EXPECT_EQ(TraitsOf(Lrn{}).samples_per_group, 0);
  const LayerTraits conv = TraitsOf(Conv2d{.groups = 2, .bias = false}), fc = TraitsOf(FullyConnected{});
  EXPECT_TRUE(conv.is_convolution && conv.multiplies_weights);
  EXPECT_EQ(conv.groups, 2);
  EXPECT_TRUE(!fc.is_convolution && fc.multiplies_weights);
}

// Of what has no row.
TEST(Traits, AreNoneOfALayerThatSaysNothing) {
  for (const Layer& layer : {Layer{Dropout{}}, Layer{Lrn{}}, Layer{Flatten{}}}) {
    const LayerTraits traits = TraitsOf(layer);
    EXPECT_FALSE(traits.is_input || traits.is_loss || traits.is_convolution || traits.multiplies_weights ||
                 traits.needs_all_channels || traits.joins_channels || traits.keeps_channels);
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
