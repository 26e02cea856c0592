// The shape rule, the parameters and the attributes of every layer.

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/layer.h"

namespace colonnade::layers {
namespace {

using program::Initializer;
using program::Shape;
using ::testing::HasSubstr;

struct Rule {
  const char* name;
  Layer layer;
  std::vector<Shape> inputs;  // without the batch
  Shape output;
};

class ShapeRule : public ::testing::TestWithParam<Rule> {};

TEST_P(ShapeRule, Holds) {
  absl::StatusOr<Shape> output = OutputSampleShape(GetParam().layer, GetParam().inputs);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(*output, GetParam().output);
}

INSTANTIATE_TEST_SUITE_P(
    Layers, ShapeRule,
    ::testing::Values(
        Rule{"input", Input{{3, 5, 7}}, {}, {3, 5, 7}},
        Rule{"conv", Conv2d{.out_channels = 4, .kernel = 3}, {{3, 5, 7}}, {4, 3, 5}},
        Rule{"conv_pad", Conv2d{.out_channels = 4, .kernel = 3, .pad = 1}, {{3, 5, 7}}, {4, 5, 7}},
        Rule{"conv_oblong", Conv2d{.out_channels = 2, .kernel = 1, .kernel_w = 5}, {{3, 5, 7}}, {2, 5, 3}},
        Rule{"conv_groups", Conv2d{.out_channels = 6, .kernel = 1, .groups = 3}, {{9, 2, 2}}, {6, 2, 2}},
        Rule{"conv_one", Conv2d{.out_channels = 1, .kernel = 1}, {{1, 1, 1}}, {1, 1, 1}},
        Rule{"conv_all", Conv2d{.out_channels = 5, .kernel = 7}, {{1, 7, 7}}, {5, 1, 1}},
        Rule{"conv_alexnet", Conv2d{.out_channels = 96, .kernel = 11, .stride = 4}, {{3, 227, 227}}, {96, 55, 55}},
        Rule{"conv_rounds_down",
             Conv2d{.out_channels = 64, .kernel = 11, .stride = 4, .pad = 2},
             {{3, 224, 224}},
             {64, 55, 55}},
        Rule{"fc", FullyConnected{.out_features = 10}, {{31}}, {10}},
        Rule{"concat", Concat{}, {{3, 5, 7}, {1, 5, 7}, {31, 5, 7}}, {35, 5, 7}},
        Rule{"concat_flat", Concat{}, {{3}, {4}}, {7}}, Rule{"relu", Relu{}, {{3, 5, 7}}, {3, 5, 7}},
        Rule{"gelu", Gelu{}, {{31}}, {31}}, Rule{"max_pool", MaxPool{.kernel = 2}, {{3, 5, 7}}, {3, 2, 3}},
        Rule{"max_pool_overlaps", MaxPool{.kernel = 3, .stride = 2}, {{96, 55, 55}}, {96, 27, 27}},
        Rule{"max_pool_pad", MaxPool{.kernel = 3, .stride = 2, .pad = 1}, {{3, 5, 7}}, {3, 3, 4}},
        Rule{"max_pool_largest", MaxPool{.kernel = 15}, {{3, 15, 15}}, {3, 1, 1}},
        Rule{"max_pool_ceil_112", MaxPool{.kernel = 3, .stride = 2, .ceil_mode = true}, {{64, 112, 112}}, {64, 56, 56}},
        Rule{"max_pool_ceil_exact", MaxPool{.kernel = 3, .stride = 2, .ceil_mode = true}, {{96, 55, 13}}, {96, 27, 6}},
        Rule{"max_pool_ceil_14", MaxPool{.kernel = 3, .stride = 2, .ceil_mode = true}, {{480, 14, 28}}, {480, 7, 14}},
        Rule{"max_pool_ceil_pad", MaxPool{.kernel = 3, .stride = 2, .pad = 1, .ceil_mode = true}, {{3, 8, 6}}, {3, 5, 4}},
        Rule{"max_pool_ceil_not_behind",
             MaxPool{.kernel = 2, .stride = 2, .pad = 1, .ceil_mode = true},
             {{3, 3, 4}},
             {3, 2, 3}},
        Rule{"avg_pool_ceil", AvgPool{.kernel = 2, .ceil_mode = true}, {{3, 7, 9}}, {3, 4, 5}},
        Rule{"avg_pool_oblong", AvgPool{.kernel = 2, .kernel_w = 3}, {{3, 5, 9}}, {3, 2, 3}},
        Rule{"avg_pool", AvgPool{.kernel = 6, .stride = 1}, {{3, 6, 7}}, {3, 1, 2}},
        Rule{"avg_pool_large", AvgPool{.kernel = 33}, {{3, 33, 33}}, {3, 1, 1}},
        Rule{"lrn", Lrn{.size = 3, .groups = 3}, {{9, 2, 2}}, {9, 2, 2}}, Rule{"dropout", Dropout{.rate = 0}, {{31}}, {31}},
        Rule{"flatten", Flatten{}, {{3, 5, 7}}, {105}}, Rule{"add", Add{}, {{3, 5, 7}, {3, 5, 7}, {3, 5, 7}}, {3, 5, 7}},
        Rule{"batch_norm_image", BatchNorm{}, {{3, 5, 7}}, {3, 5, 7}},
        Rule{"batch_norm_flat", BatchNorm{.epsilon = 1, .momentum = 0}, {{31}}, {31}},
        Rule{"batch_norm_of_groups", BatchNorm{.momentum = 1, .samples_per_group = 3}, {{3, 1, 1}}, {3, 1, 1}},
        Rule{"layer_norm_image", LayerNorm{}, {{3, 5, 7}}, {3, 5, 7}},
        Rule{"layer_norm_flat", LayerNorm{.epsilon = 1}, {{31}}, {31}},
        Rule{"layer_norm_of_one_channel", LayerNorm{}, {{1, 5, 7}}, {1, 5, 7}},
        Rule{"add_narrow", AddNarrow{}, {{3, 5, 7}, {2, 5, 7}}, {3, 5, 7}},
        Rule{"add_narrow_equal", AddNarrow{}, {{3, 5, 7}, {3, 5, 7}}, {3, 5, 7}},
        Rule{"add_narrow_flat", AddNarrow{}, {{31}, {1}}, {31}}, Rule{"loss", SoftmaxCrossEntropy{}, {{10}}, {}}),
    [](const auto& info) { return info.param.name; });

constexpr program::Initializer kOne{program::Initializer::Kind::kConstant, 1};

struct Refusal {
  const char* name;
  Layer layer;
  std::vector<Shape> inputs;
  std::vector<std::string> message;  // its parts
};

class ShapeRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(ShapeRefusal, SaysWhatWasExpectedAndFound) {
  const absl::Status status = OutputSampleShape(GetParam().layer, GetParam().inputs).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected"));
  for (const std::string& part : GetParam().message) EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    Layers, ShapeRefusal,
    ::testing::Values(
        Refusal{"input_empty", Input{}, {}, {"positive extents", "[]"}},
        Refusal{"input_of_two", Input{{1, 8}}, {}, {"[C,H,W] of images, or [F] in C++ alone", "[1,8]"}},
        Refusal{"input_zero", Input{{3, 0, 7}}, {}, {"positive extents", "[3,0,7]"}},
        Refusal{"conv_flat", Conv2d{.out_channels = 4}, {{31}}, {"[C,H,W]", "[31]"}},
        Refusal{"conv_no_input", Conv2d{.out_channels = 4}, {}, {"[C,H,W]", "none"}},
        Refusal{
            "conv_too_large", Conv2d{.out_channels = 4, .kernel = 8, .pad = 1}, {{3, 5, 9}}, {"at least 6x6", "[3,5,9]"}},
        Refusal{
            "conv_too_wide", Conv2d{.out_channels = 4, .kernel = 1, .kernel_w = 9, .pad = 1}, {{3, 5, 5}}, {"at least 1x7"}},
        Refusal{"conv_groups_in", Conv2d{.out_channels = 4, .groups = 2}, {{3, 5, 7}}, {"3 input channels", "2 groups"}},
        Refusal{"conv_groups_out", Conv2d{.out_channels = 3, .groups = 2}, {{4, 5, 7}}, {"3 output channels", "2 groups"}},
        Refusal{"conv_no_groups", Conv2d{.out_channels = 3, .groups = 0}, {{4, 5, 7}}, {"0 groups"}},
        Refusal{"conv_no_filters", Conv2d{}, {{4, 5, 7}}, {"at least 1 output channel, found 0"}},
        Refusal{"conv_no_stride", Conv2d{.out_channels = 3, .stride = 0}, {{4, 5, 7}}, {"stride 0"}},
        Refusal{"conv_no_kernel", Conv2d{.out_channels = 3, .kernel = 0}, {{4, 5, 7}}, {"kernel 0x0"}},
        Refusal{"conv_kernel_w", Conv2d{.out_channels = 3, .kernel = 1, .kernel_w = -2}, {{4, 5, 7}}, {"kernel 1x-2"}},
        Refusal{"conv_pad", Conv2d{.out_channels = 3, .pad = -1}, {{4, 5, 7}}, {"pad -1"}},
        Refusal{"conv_bias_init", Conv2d{.out_channels = 3, .bias = false, .bias_init = kOne}, {{4, 5, 7}}, {"bias false"}},
        Refusal{"fc_bias_init", FullyConnected{.out_features = 4, .bias = false, .bias_init = kOne}, {{31}}, {"bias false"}},
        Refusal{"fc_image", FullyConnected{.out_features = 4}, {{3, 5, 7}}, {"[I]", "[3,5,7]", "Flatten"}},
        Refusal{"fc_no_features", FullyConnected{}, {{31}}, {"found 0"}}, Refusal{"concat_none", Concat{}, {}, {"none"}},
        Refusal{"concat_one", Concat{}, {{3, 5, 7}}, {"at least two inputs, found [3,5,7]; leave the layer out"}},
        Refusal{"concat_sizes", Concat{}, {{3, 5, 7}, {3, 5, 8}}, {"[3,5,7]", "[3,5,8]"}},
        Refusal{"concat_ranks", Concat{}, {{3, 5, 7}, {3}}, {"[3,5,7]", "[3]"}},
        Refusal{"relu_two", Relu{}, {{3}, {3}}, {"one input", "2"}},
        Refusal{"max_pool_pad", MaxPool{.kernel = 2, .pad = 2}, {{3, 5, 7}}, {"pad < kernel", "pad 2"}},
        Refusal{"max_pool_largest", MaxPool{.kernel = 16}, {{3, 32, 32}}, {"kernel ≤ 15", "kernel 16"}},
        Refusal{"max_pool_stride", MaxPool{.kernel = 2, .stride = -1}, {{3, 5, 7}}, {"stride -1"}},
        Refusal{"avg_pool_pad", AvgPool{.kernel = 2, .pad = 3}, {{3, 5, 7}}, {"pad < kernel", "pad 3"}},
        Refusal{"max_pool_ceil_too_large",
                MaxPool{.kernel = 5, .stride = 4, .ceil_mode = true},
                {{3, 4, 7}},
                {"at least 5x5", "[3,4,7]"}},
        Refusal{
            "avg_pool_oblong_pad", AvgPool{.kernel = 3, .kernel_w = 2, .pad = 2}, {{3, 5, 7}}, {"pad < kernel", "kernel 2"}},
        Refusal{"avg_pool_too_large", AvgPool{.kernel = 6}, {{3, 5, 7}}, {"at least 6x6", "[3,5,7]"}},
        Refusal{"lrn_even", Lrn{.size = 4}, {{3, 5, 7}}, {"odd size", "size 4"}},
        Refusal{"lrn_groups", Lrn{.groups = 2}, {{3, 5, 7}}, {"3 channels", "groups 2"}},
        Refusal{"lrn_alpha", Lrn{.alpha = -1}, {{3, 5, 7}}, {"alpha and beta of at least 0", "alpha -1"}},
        Refusal{"lrn_beta", Lrn{.beta = -0.5}, {{3, 5, 7}}, {"k above 0", "beta -0.5"}},
        Refusal{"lrn_k", Lrn{.k = 0}, {{3, 5, 7}}, {"k above 0", "k 0"}},
        Refusal{"lrn_flat", Lrn{}, {{3}}, {"[C,H,W]", "[3]"}},
        Refusal{"dropout_one", Dropout{.rate = 1}, {{3}}, {"below 1", "found 1"}},
        Refusal{"dropout_negative", Dropout{.rate = -0.5}, {{3}}, {"found -0.5"}},
        Refusal{"dropout_nan", Dropout{.rate = std::nan("")}, {{3}}, {"nan"}},
        Refusal{"flatten_two", Flatten{}, {{3}, {3}}, {"one input", "2"}}, Refusal{"add_none", Add{}, {}, {"none"}},
        Refusal{"add_one", Add{}, {{3, 5, 7}}, {"at least two inputs, found [3,5,7]; leave the layer out"}},
        Refusal{"add_shapes", Add{}, {{3, 5, 7}, {3, 7, 5}}, {"[3,5,7]", "[3,7,5]"}},
        Refusal{"batch_norm_none", BatchNorm{}, {}, {"expected one input with channels, found 0"}},
        Refusal{"batch_norm_two", BatchNorm{}, {{3}, {3}}, {"expected one input with channels, found 2"}},
        Refusal{"batch_norm_empty", BatchNorm{}, {Shape{}}, {"expected an input of shape [F] or [C,H,W], found []"}},
        Refusal{"batch_norm_sequence", BatchNorm{}, {{3, 7}}, {"expected an input of shape [F] or [C,H,W], found [3,7]"}},
        Refusal{"batch_norm_no_epsilon",
                BatchNorm{.epsilon = 0},
                {{3}},
                {"an epsilon from 1.2e-38 (less may be 0 in f32) to 1, found 0"}},
        Refusal{"batch_norm_vanishing_epsilon",
                BatchNorm{.epsilon = 1e-60},
                {{3}},
                {"(less may be 0 in f32) to 1, found 1e-60"}},
        Refusal{"batch_norm_epsilon",
                BatchNorm{.epsilon = 1.5},
                {{3}},
                {"an epsilon from 1.2e-38 (less may be 0 in f32) to 1, found 1.5"}},
        Refusal{"batch_norm_epsilon_nan", BatchNorm{.epsilon = std::nan("")}, {{3}}, {"to 1, found nan"}},
        Refusal{"batch_norm_momentum", BatchNorm{.momentum = 1.5}, {{3}}, {"momentum from 0 to 1, found 1.5"}},
        Refusal{"batch_norm_momentum_below", BatchNorm{.momentum = -0.1}, {{3}}, {"momentum from 0 to 1, found -0.1"}},
        Refusal{"batch_norm_momentum_nan", BatchNorm{.momentum = std::nan("")}, {{3}}, {"from 0 to 1, found nan"}},
        Refusal{
            "batch_norm_groups", BatchNorm{.samples_per_group = -1}, {{3}}, {"samples_per_group of at least 0, found -1"}},
        Refusal{"layer_norm_none", LayerNorm{}, {}, {"expected one input, found 0"}},
        Refusal{"layer_norm_two", LayerNorm{}, {{3}, {3}}, {"expected one input, found 2"}},
        Refusal{"layer_norm_empty", LayerNorm{}, {Shape{}}, {"shape [F] or [C,H,W], found []"}},
        Refusal{"layer_norm_rank_2", LayerNorm{}, {{3, 5}}, {"shape [F] or [C,H,W], found [3,5]"}},
        Refusal{"layer_norm_no_epsilon",
                LayerNorm{.epsilon = 0},
                {{3}},
                {"an epsilon from 1.2e-38 (less may be 0 in f32) to 1, found 0"}},
        Refusal{"layer_norm_vanishing_epsilon",
                LayerNorm{.epsilon = 1e-60},
                {{3}},
                {"(less may be 0 in f32) to 1, found 1e-60"}},
        Refusal{"layer_norm_epsilon",
                LayerNorm{.epsilon = 1.5},
                {{3}},
                {"an epsilon from 1.2e-38 (less may be 0 in f32) to 1, found 1.5"}},
        Refusal{"layer_norm_epsilon_nan", LayerNorm{.epsilon = std::nan("")}, {{3}}, {"to 1, found nan"}},
        Refusal{"add_narrow_one", AddNarrow{}, {{3, 5, 7}}, {"two inputs of equal rank with channels, found [3,5,7]"}},
        Refusal{"add_narrow_three", AddNarrow{}, {{3}, {2}, {1}}, {"two inputs of equal rank", "found [3] and [2] and [1]"}},
        Refusal{"add_narrow_ranks",
                AddNarrow{},
                {{3, 1, 1}, {3}},
                {"two inputs of equal rank with channels, found [3,1,1] and [3]"}},
        Refusal{"add_narrow_wider", AddNarrow{}, {{3, 5, 7}, {4, 5, 7}}, {"at most the first one's", "[3,5,7] and [4,5,7]"}},
        Refusal{"add_narrow_size", AddNarrow{}, {{3, 5, 7}, {2, 5, 6}}, {"else its shape, found [3,5,7] and [2,5,6]"}},
        Refusal{"loss_image", SoftmaxCrossEntropy{}, {{3, 5, 7}}, {"[classes]", "[3,5,7]"}}),
    [](const auto& info) { return info.param.name; });

// The number of places where a window starts in an image of `size` with padding and still ends inside.
int64_t CountedPlaces(int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
  int64_t places = 0;
  for (int64_t start = -pad; start + kernel <= size + pad; start += stride) ++places;
  return places;
}

// The number of windows from the first on, the last of which is the one that reaches the end of the padded image, or the
// last that begins before the end of the image.
int64_t CountedWindows(int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
  int64_t windows = 0;
  for (int64_t start = -pad; start < size; start += stride) {
    ++windows;
    if (start + kernel >= size + pad) break;
  }
  return windows;
}

TEST(Window, TheCeilingRuleCountsTheLastWindowThatBeginsInTheImage) {
  for (int64_t size : {1, 2, 5, 13, 31, 32, 33, 227}) {
    for (int64_t kernel : {1, 2, 3, 5, 11}) {
      for (int64_t stride : {1, 2, 3, 4, 7}) {
        for (int64_t pad = 0; pad < kernel; ++pad) {
          const std::vector<Shape> x = {{4, size, 2 * size}};
          const Shape expected = {4, CountedWindows(size, kernel, stride, pad),
                                  CountedWindows(2 * size, kernel, stride, pad)};
          for (const Layer& layer : {Layer{MaxPool{.kernel = kernel, .stride = stride, .pad = pad, .ceil_mode = true}},
                                     Layer{AvgPool{.kernel = kernel, .stride = stride, .pad = pad, .ceil_mode = true}}}) {
            absl::StatusOr<Shape> y = OutputSampleShape(layer, x);
            ASSERT_EQ(y.ok(), size + 2 * pad >= kernel) << size << " " << kernel << " " << stride << " " << pad;
            if (y.ok()) {
              EXPECT_EQ(*y, expected) << size << " " << kernel << " " << stride << " " << pad;
            }
          }
        }
      }
    }
  }
}

TEST(Window, OutputSizeIsTheNumberOfPlacesWhereTheWindowFits) {
  for (int64_t size : {1, 2, 5, 13, 31, 32, 33, 227}) {
    for (int64_t kernel : {1, 2, 3, 5, 11}) {
      for (int64_t stride : {1, 2, 3, 4, 7}) {
        for (int64_t pad : {0, 1, 2, 5}) {
          const std::vector<Shape> x = {{4, size, 2 * size}};
          const Shape expected = {4, CountedPlaces(size, kernel, stride, pad), CountedPlaces(2 * size, kernel, stride, pad)};
          std::vector<Layer> layers = {Conv2d{.out_channels = 4, .kernel = kernel, .stride = stride, .pad = pad}};
          if (pad < kernel) {
            layers.push_back(MaxPool{.kernel = kernel, .stride = stride, .pad = pad});
            layers.push_back(AvgPool{.kernel = kernel, .stride = stride, .pad = pad});
          }
          for (const Layer& layer : layers) {
            absl::StatusOr<Shape> y = OutputSampleShape(layer, x);
            ASSERT_EQ(y.ok(), size + 2 * pad >= kernel) << size << " " << kernel << " " << stride << " " << pad;
            if (y.ok()) {
              EXPECT_EQ(*y, expected) << size << " " << kernel << " " << stride << " " << pad;
            }
          }
        }
      }
    }
  }
}

TEST(Parameters, OfAConvolutionAreItsFiltersAndHesInitialisation) {
  const std::vector<Shape> x = {{6, 5, 5}};
  const std::vector<ParameterSpec> p =
      Parameters(Layer{Conv2d{.out_channels = 4, .kernel = 3, .kernel_w = 5, .groups = 2}}, x);
  ASSERT_EQ(p.size(), 2u);
  EXPECT_EQ(p[0].name, "weight");
  EXPECT_EQ(p[0].shape, (Shape{4, 3, 3, 5}));
  EXPECT_EQ(p[0].initializer.kind, Initializer::Kind::kGaussian);
  EXPECT_DOUBLE_EQ(p[0].initializer.value, std::sqrt(2.0 / 45));
  EXPECT_EQ(p[1].name, "bias");
  EXPECT_EQ(p[1].shape, (Shape{4}));
  EXPECT_EQ(p[1].initializer, (Initializer{Initializer::Kind::kConstant, 0.0}));
}

TEST(Parameters, OfAFullyConnectedLayerAreRowsOfOutputs) {
  const Initializer uniform{Initializer::Kind::kUniform, 0.5}, one{Initializer::Kind::kConstant, 1.0};
  std::vector<ParameterSpec> p = Parameters(Layer{FullyConnected{.out_features = 7}}, {{8}});
  ASSERT_EQ(p.size(), 2u);
  EXPECT_EQ(p[0].shape, (Shape{7, 8}));
  EXPECT_DOUBLE_EQ(p[0].initializer.value, 0.5);
  EXPECT_EQ(p[1].shape, (Shape{7}));
  p = Parameters(Layer{FullyConnected{.out_features = 7, .weight_init = uniform, .bias_init = one}}, {{8}});
  EXPECT_EQ(p[0].initializer, uniform);
  EXPECT_EQ(p[1].initializer, one);
  EXPECT_EQ(Parameters(Layer{FullyConnected{.out_features = 7, .bias = false}}, {{8}}).size(), 1u);
}

TEST(Parameters, OfANormalisationAreOneWeightAndOneBiasForEachChannel) {
  const Initializer one{Initializer::Kind::kConstant, 1.0}, zero{Initializer::Kind::kConstant, 0.0};
  for (const Layer& norm : {Layer{BatchNorm{}}, Layer{LayerNorm{}}}) {
    for (const auto& [x, channels] : {std::pair(Shape{5, 3, 7}, 5), {Shape{9}, 9}}) {
      const std::vector<ParameterSpec> p = Parameters(norm, {x});
      ASSERT_EQ(p.size(), 2u);
      EXPECT_EQ(p[0].name, "weight");
      EXPECT_EQ(p[1].name, "bias");
      for (const ParameterSpec& of : p) EXPECT_EQ(of.shape, Shape{channels}) << program::ToString(x);
      EXPECT_EQ(p[0].initializer, one);
      EXPECT_EQ(p[1].initializer, zero);
    }
  }
  EXPECT_EQ(Parameters(Layer{BatchNorm{.initial_weight = 0}}, {{5, 3, 7}})[0].initializer, zero);
}

TEST(Parameters, OtherLayersHaveNone) {
  for (const Layer& layer :
       {Layer{Input{{4, 6, 6}}}, Layer{Concat{}}, Layer{Relu{}}, Layer{Gelu{}}, Layer{MaxPool{}}, Layer{AvgPool{}},
        Layer{Lrn{}}, Layer{Dropout{}}, Layer{Flatten{}}, Layer{Add{}}, Layer{AddNarrow{}}, Layer{SoftmaxCrossEntropy{}}}) {
    EXPECT_TRUE(Parameters(layer, {{4, 6, 6}}).empty()) << TypeName(layer);
  }
}

TEST(Attributes, AreComparedFieldByField) {
  EXPECT_EQ((Conv2d{.out_channels = 4, .kernel = 3}), (Conv2d{.out_channels = 4, .kernel = 3}));
  EXPECT_NE((Conv2d{.out_channels = 4, .kernel = 3}), (Conv2d{.out_channels = 4, .kernel = 3, .pad = 1}));
  EXPECT_NE((Lrn{.groups = 2}), Lrn{});
  for (const BatchNorm& other : {BatchNorm{.epsilon = 1e-3}, BatchNorm{.momentum = 0.01}, BatchNorm{.samples_per_group = 4},
                                 BatchNorm{.initial_weight = 0}}) {
    EXPECT_NE(other, BatchNorm{});
  }
  EXPECT_NE((LayerNorm{.epsilon = 1e-3}), LayerNorm{});
  EXPECT_NE(Layer{MaxPool{}}, Layer{AvgPool{}});
}

}  // namespace
}  // namespace colonnade::layers
