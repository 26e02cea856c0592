#include "layers/graph.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::layers {
namespace {

using program::Shape;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(GraphBuilder, ShapesAndParametersFollowTheLayers) {
  GraphBuilder net("net");
  auto x = net.Input("images", {3, 11, 9});
  x = net.Conv2d("conv", x, {.out_channels = 8, .kernel = 3, .stride = 2, .pad = 1});
  x = net.MaxPool("pool", x, {.kernel = 2});
  x = net.Flatten("flatten", x);
  x = net.FullyConnected("fc", x, {.out_features = 5, .bias = false});
  net.SoftmaxCrossEntropy("loss", x);
  absl::StatusOr<LayerGraph> graph = std::move(net).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->OutputShape(LayerId{1}, 4), (Shape{4, 8, 6, 5}));
  EXPECT_EQ(graph->OutputShape(LayerId{2}, 4), (Shape{4, 8, 3, 2}));
  EXPECT_EQ(graph->OutputShape(LayerId{3}, 4), (Shape{4, 48}));
  EXPECT_EQ(graph->nodes[1].parameters[0].name, "conv.weight");
  EXPECT_EQ(graph->nodes[1].parameters[0].shape, (Shape{8, 3, 3, 3}));
  EXPECT_EQ(graph->nodes[4].parameters.size(), 1u);
  EXPECT_EQ(graph->ParameterCount(), 8 * 27 + 8 + 5 * 48);
  EXPECT_EQ(graph->ForwardFlops(2), 2 * (2 * 8 * 27 * 30 + 2 * 5 * 48));
  EXPECT_EQ(graph->classes(), 5);
}

template <class F>
std::string ErrorOf(F build) {
  GraphBuilder net("net");
  build(net);
  const absl::Status status = std::move(net).Build().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(GraphBuilder, TheFirstErrorNamesNetworkLayerExpectedAndFound) {
  const std::string message = ErrorOf([](GraphBuilder& net) {
    auto x = net.Input("images", {3, 4, 4});
    x = net.Conv2d("conv9", x, {.out_channels = 8, .kernel = 7});
    x = net.Conv2d("later", x, {.out_channels = 0});
    net.SoftmaxCrossEntropy("loss", x);
  });
  for (const char* part : {"\"net\"", "Conv2d \"conv9\"", "at least 7x7", "[3,4,4]"}) EXPECT_THAT(message, HasSubstr(part));
}

TEST(GraphBuilder, WrongAttributesAreRefused) {
  auto with = [](auto add) {
    return ErrorOf([&](GraphBuilder& net) {
      auto x = net.Input("images", {6, 8, 8});
      add(net, x);
    });
  };
  EXPECT_THAT(with([](GraphBuilder& n, LayerId x) { n.Conv2d("c", x, {.out_channels = 8, .kernel = 3, .groups = 4}); }),
              HasSubstr("groups"));
  EXPECT_THAT(with([](GraphBuilder& n, LayerId x) { n.Conv2d("c", x, {.out_channels = 8, .kernel = 3, .stride = 0}); }),
              HasSubstr("stride"));
  EXPECT_THAT(with([](GraphBuilder& n, LayerId x) { n.Lrn("l", x, {.size = 4}); }), HasSubstr("odd size"));
  EXPECT_THAT(with([](GraphBuilder& n, LayerId x) { n.Lrn("l", x, {.groups = 5}); }), HasSubstr("groups"));
  EXPECT_THAT(with([](GraphBuilder& n, LayerId x) { n.MaxPool("p", x, {.kernel = 2, .pad = 2}); }),
              HasSubstr("pad < kernel"));
  EXPECT_THAT(with([](GraphBuilder& n, LayerId x) { n.Dropout("d", x, {.rate = 1.0}); }), HasSubstr("rate"));
  EXPECT_THAT(with([](GraphBuilder& n, LayerId x) { n.FullyConnected("f", x, {.out_features = 3}); }), HasSubstr("Flatten"));
  EXPECT_THAT(with([](GraphBuilder& n, LayerId x) { n.SoftmaxCrossEntropy("s", x); }), HasSubstr("flat input"));
  EXPECT_THAT(with([](GraphBuilder& n, LayerId x) { n.Relu("images", x); }), HasSubstr("name"));
  EXPECT_THAT(with([](GraphBuilder& n, LayerId) { n.Relu("r", LayerId{7}); }), HasSubstr("layers of this network"));
  EXPECT_THAT(with([](GraphBuilder& n, LayerId x) {
                auto a = n.Conv2d("a", x, {.out_channels = 4});
                n.Add("add", {a, x});
              }),
              HasSubstr("equal shapes"));
  EXPECT_THAT(with([](GraphBuilder& n, LayerId x) {
                auto a = n.MaxPool("a", x, {.kernel = 2});
                n.Concat("concat", {a, x});
              }),
              HasSubstr("channels alone"));
}

TEST(GraphBuilder, InitialValuesAreNumbersThatF32Holds) {
  const auto with = [](double initial_weight, program::Initializer weight_init) {
    GraphBuilder net("net");
    auto x = net.BatchNorm("norm", net.Input("images", {4}), {.initial_weight = initial_weight});
    net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", x, {.out_features = 4, .weight_init = weight_init}));
    return std::string(std::move(net).Build().status().message());
  };
  const auto gaussian = [](double value) { return program::Initializer{program::Initializer::Kind::kGaussian, value}; };
  EXPECT_EQ(with(1, gaussian(1e38)), "");
  EXPECT_THAT(with(1e39, gaussian(1)),
              HasSubstr("BatchNorm \"norm\": expected an initial value of weight that f32 holds, found 1e+39"));
  EXPECT_THAT(with(double{NAN}, gaussian(1)), HasSubstr("\"norm\": expected an initial value of weight that f32 holds"));
  EXPECT_THAT(with(1, gaussian(1e300)),
              HasSubstr("\"fc\": expected an initial value of weight that f32 holds, found 1e+300"));
  EXPECT_EQ(with(-1, gaussian(0)), "") << "a constant may be below 0, and all may be 0";
  EXPECT_THAT(with(1, gaussian(-1)), HasSubstr("\"fc\": expected a deviation or a bound of weight from 0, found -1"));
}

TEST(GraphBuilder, ALayerReadsAtMostAThousandInputs) {
  const auto with = [](size_t count) {
    GraphBuilder net("net");
    auto x = net.Input("images", {4});
    net.SoftmaxCrossEntropy("loss", net.Add("add", std::vector<LayerId>(count, x)));
    return std::string(std::move(net).Build().status().message());
  };
  EXPECT_EQ(with(1000), "");
  EXPECT_THAT(with(1001), HasSubstr("Add \"add\": expected at most 1000 inputs, found 1001"));
}

// As many, as long and as large as a network file holds, so that weights can state the network.
TEST(GraphBuilder, LayersNamesAndCountsAreThoseOfNetworkFiles) {
  const auto with = [](size_t relus, const std::string& name, int64_t lrn_size) {
    GraphBuilder net("net");
    auto x = net.Lrn("lrn", net.Input("images", {4, 1, 1}), {.size = lrn_size});
    for (size_t i = 1; i < relus; ++i) x = net.Relu(absl::StrCat("relu", i), x);
    net.SoftmaxCrossEntropy("loss", net.Flatten("flat", net.Relu(name, x)));
    return std::string(std::move(net).Build().status().message());
  };
  const std::string longest(kLongestLayerName, 'x'), longer = absl::StrCat("é", longest.substr(1));
  EXPECT_EQ(with(kMostLayers - 4, longest, kLargestCount - 1), "");
  EXPECT_EQ(with(kMostLayers - 3, "last", 5),
            "network \"net\", SoftmaxCrossEntropy \"loss\": expected at most 10000 layers, found one more");
  EXPECT_EQ(with(1, longer, 5), "network \"net\", Relu \"" + longer.substr(0, longer.size() - 1) +
                                    "\": expected a name of at most 200 bytes, found 201");
  EXPECT_EQ(with(1, "r", kLargestCount + 1),
            "network \"net\", Lrn \"lrn\": expected size of at most 1000000000000, found 1000000000001");
}

TEST(GraphBuilder, EveryLayerReachesALoss) {
  EXPECT_THAT(ErrorOf([](GraphBuilder& net) { net.Relu("r", net.Input("images", {4})); }), HasSubstr("SoftmaxCrossEntropy"));
  EXPECT_THAT(ErrorOf([](GraphBuilder&) {}), HasSubstr("Input"));
  EXPECT_THAT(ErrorOf([](GraphBuilder& net) {
                auto x = net.Input("images", {4});
                net.Relu("lonely", x);
                net.SoftmaxCrossEntropy("loss", x);
              }),
              HasSubstr("\"lonely\""));
}

TEST(GraphBuilder, ALossIsLastAndFeedsNothing) {
  EXPECT_THAT(ErrorOf([](GraphBuilder& net) {
                auto x = net.Input("images", {4});
                net.SoftmaxCrossEntropy("loss", x);
                net.Relu("relu", x);
              }),
              HasSubstr("expected a SoftmaxCrossEntropy as last layer"));
  EXPECT_THAT(
      ErrorOf([](GraphBuilder& net) { net.Relu("relu", net.SoftmaxCrossEntropy("loss", net.Input("images", {4}))); }),
      HasSubstr("Relu \"relu\": expected inputs that are tensors, found the loss \"loss\""));
}

TEST(GraphBuilder, LossesHaveWeightsAndShareTheLabels) {
  const auto with = [](layers::SoftmaxCrossEntropy attributes, int64_t classes) {
    GraphBuilder net("net");
    auto x = net.Input("images", {4});
    net.SoftmaxCrossEntropy("head", net.FullyConnected("fc", x, {.out_features = classes}), attributes);
    net.SoftmaxCrossEntropy("loss", x);
    return std::string(std::move(net).Build().status().message());
  };
  EXPECT_EQ(with({.weight = 0.3, .label_smoothing = 0.999}, 4), "");
  EXPECT_THAT(with({}, 5), HasSubstr("one number of classes for all losses, found 5 of \"head\" and 4 of \"loss\""));
  for (double weight : {0.0, -1.0, 1e39, double{INFINITY}, double{NAN}}) {
    EXPECT_THAT(with({.weight = weight}, 4), HasSubstr("\"head\": expected a weight above 0 that f32 holds, found"));
  }
  for (double smoothing : {-0.1, 1.0, double{NAN}}) {
    EXPECT_THAT(with({.label_smoothing = smoothing}, 4), HasSubstr("expected label smoothing in [0, 1), found"));
  }
}

TEST(GraphBuilder, WhatIsThereForAnAuxiliaryLossAloneDoesNotReachTheLast) {
  GraphBuilder net("heads");
  auto x = net.Relu("shared", net.Input("images", {4}));
  net.SoftmaxCrossEntropy("head.loss", net.Relu("head", x));
  net.SoftmaxCrossEntropy("loss", x);
  const auto graph = std::move(net).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->ReachesLast(), ::testing::ElementsAre(true, true, false, false, true));
}

TEST(GraphBuilder, NamesAreUniqueWords) {
  for (const char* name : {"", "two words", "a\nb", "a\"b", "a@b", "a\x1b[31m", "a\x7f", "a\xc2\x9b", "a\xc2\x80"}) {
    EXPECT_THAT(ErrorOf([&](GraphBuilder& net) { net.Input(name, {4}); }), HasSubstr("a name without")) << name;
  }
  EXPECT_THAT(ErrorOf([](GraphBuilder& net) {
                auto x = net.Input("images", {4});
                net.Relu("relu", net.Relu("relu", x));
              }),
              HasSubstr("Relu \"relu\": expected a name of its own"));
}

TEST(GraphBuilder, NamesAreInUtf8) {
  for (const char* name : {"\xff", "conv\xc3", "\xed\xa0\x80"}) {
    const std::string escaped = absl::CEscape(name);
    EXPECT_EQ(ErrorOf([&](GraphBuilder& net) { net.Input(name, {4}); }),
              "network \"net\", Input \"" + escaped + "\": expected a name in UTF-8, found other bytes");
    const absl::Status status = GraphBuilder(name).Build().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "network \"" + escaped + "\": expected a name in UTF-8, found other bytes");
  }
}

TEST(GraphBuilder, ANetworksNameHasNoControlCharacters) {
  for (const char* name : {"a\nb", "\033[31mred", "a\x7f", "a\xc2\x9b"}) {
    const absl::Status status = GraphBuilder(name).Build().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("without control characters"), Not(HasSubstr(name))));
  }
  GraphBuilder net("réseau de neurones, \u00a0");
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Input("images", {4}), {.out_features = 2}));
  EXPECT_TRUE(std::move(net).Build().ok());
}

TEST(GraphBuilder, ABuilderInErrorStaysSo) {
  GraphBuilder net("net");
  auto x = net.Input("images", {3, 0, 4});
  EXPECT_FALSE(x.valid());
  x = net.Relu("relu", x);
  EXPECT_FALSE(x.valid());
  net.SoftmaxCrossEntropy("loss", x);
  const std::string message(std::move(net).Build().status().message());
  EXPECT_THAT(message, HasSubstr("Input \"images\""));
  EXPECT_THAT(message, Not(HasSubstr("relu")));
}

// The stream keys the random numbers of a run: it may never change.
TEST(GraphBuilder, ADropoutsStreamIsTheHashOfItsName) {
  GraphBuilder net("net");
  auto x = net.Input("images", {4});
  x = net.Dropout("a", x, {.rate = 0.5, .stream = 7});
  x = net.Dropout("foobar", x, {.rate = 0.5});
  net.SoftmaxCrossEntropy("loss", x);
  absl::StatusOr<LayerGraph> graph = std::move(net).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(std::get<Dropout>(graph->nodes[1].layer).stream, 0xe40c292cu);  // FNV-1a's published test vectors
  EXPECT_EQ(std::get<Dropout>(graph->nodes[2].layer).stream, 0xbf9cf968u);
}

// "costarring" and "liquid" are the best known pair of words of one FNV-1a hash of 32 bits.
TEST(GraphBuilder, DropoutsThatWouldShareTheirMasksAreRefusedWithBothNames) {
  GraphBuilder net("net");
  auto x = net.Dropout("costarring", net.Input("images", {4}), {.rate = 0.5});
  net.SoftmaxCrossEntropy("loss", net.Dropout("liquid", x, {.rate = 0.5}));
  const absl::Status status = std::move(net).Build().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("\"costarring\""), HasSubstr("\"liquid\"")));
}

TEST(GraphBuilder, ParametersThatWouldShareTheirInitialValuesAreRefusedWithBothNames) {
  GraphBuilder net("net");
  auto x = net.FullyConnected("costarring", net.Input("images", {4}), {.out_features = 4});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("liquid", x, {.out_features = 4}));
  EXPECT_THAT(std::string(std::move(net).Build().status().message()),
              AllOf(HasSubstr("\"costarring.weight\""), HasSubstr("\"liquid.weight\"")));
}

TEST(GraphBuilder, OneHashIsNoHarmWhereTheRandomNumbersServeDifferentPurposes) {
  GraphBuilder net("net");
  auto x = net.FullyConnected("costarring", net.Input("images", {4}), {.out_features = 4});
  net.SoftmaxCrossEntropy("loss", net.Dropout("liquid", x, {.rate = 0.5}));
  EXPECT_TRUE(std::move(net).Build().ok());
}

TEST(GraphBuilder, LayersMayHaveSeveralInputsAndSeveralReaders) {
  GraphBuilder net("net");
  auto x = net.Input("images", {2, 4, 4});
  auto a = net.Conv2d("a", x, {.out_channels = 2, .bias = false});
  auto sum = net.Add("sum", {a, x, a});
  auto both = net.Concat("both", {sum, a, x});
  net.SoftmaxCrossEntropy("loss", net.Flatten("flatten", net.AvgPool("mean", both, {.kernel = 4})));
  absl::StatusOr<LayerGraph> graph = std::move(net).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->InputShapes(sum, 3), (std::vector<Shape>{{3, 2, 4, 4}, {3, 2, 4, 4}, {3, 2, 4, 4}}));
  EXPECT_EQ(graph->OutputShape(both, 3), (Shape{3, 6, 4, 4}));
  EXPECT_EQ(graph->ParameterCount(), 4);
  EXPECT_EQ(graph->ForwardFlops(1), 2 * 4 * 16);
  EXPECT_EQ(graph->classes(), 6);
}

TEST(LayerGraph, WhatKeepsTheChannelsOfAConcatenationKnowsItsSections) {
  GraphBuilder net("net");
  auto x = net.Input("images", {2, 8, 8});
  auto both = net.Concat("both", {net.Conv2d("a", x, {.out_channels = 6}), x});
  auto pool = net.MaxPool("pool", net.Relu("relu", both), {.kernel = 2, .stride = 2});
  auto mean = net.AvgPool("mean", net.Gelu("gelu", pool), {.kernel = 2, .stride = 2});
  auto drop = net.Dropout("drop", mean, {.rate = 0.5});
  auto more = net.Concat("more", {drop, mean});
  net.SoftmaxCrossEntropy("loss", net.Flatten("flatten", more));
  absl::StatusOr<LayerGraph> graph = std::move(net).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<int64_t> sections = {6, 2}, none;
  EXPECT_EQ(graph->node(both).sections, sections);
  EXPECT_EQ(graph->node(mean).sections, sections);
  EXPECT_EQ(graph->node(drop).sections, none);
  EXPECT_EQ(graph->node(more).sections, (std::vector<int64_t>{8, 8}));
  EXPECT_EQ(graph->Shapes(mean, 3).sections, sections);
  EXPECT_EQ(graph->Shapes(both, 3).sections, none);  // a concatenation's own sharding says what its inputs are
  EXPECT_EQ(graph->Shapes(drop, 3).sections, none);
}

TEST(LayerGraph, ShapesOfALossHaveLabelsAndTheirCountLastAndTheMetricsAsOutput) {
  GraphBuilder net("net");
  auto fc = net.FullyConnected("fc", net.Input("images", {4}), {.out_features = 5});
  auto loss = net.SoftmaxCrossEntropy("loss", fc);
  absl::StatusOr<LayerGraph> graph = std::move(net).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  const LayerShapes of_loss = graph->Shapes(loss, 3), of_fc = graph->Shapes(fc, 3);
  EXPECT_EQ(of_loss.inputs, (std::vector<Shape>{Shape{3, 5}, Shape{3}, Shape{1}}));
  EXPECT_EQ(of_loss.global_inputs, of_loss.inputs);
  EXPECT_EQ(of_loss.output, Shape{program::Metric::kCount});
  EXPECT_EQ(of_fc.inputs, (std::vector<Shape>{{3, 4}}));
  EXPECT_EQ(of_fc.parameters, (std::vector<Shape>{{5, 4}, {5}}));
  EXPECT_EQ(of_fc.output, (Shape{3, 5}));
}

TEST(GraphBuilder, AGlobalMeanIsAnAvgPoolWhoseWindowIsTheImage) {
  GraphBuilder net("net");
  auto mean = net.GlobalAvgPool("mean", net.Input("images", {6, 5, 7}));
  net.SoftmaxCrossEntropy("loss", net.Flatten("flatten", mean));
  absl::StatusOr<LayerGraph> graph = std::move(net).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->node(mean).layer, Layer(AvgPool{.kernel = 5, .kernel_w = 7}));
  EXPECT_EQ(graph->OutputShape(mean, 2), (Shape{2, 6, 1, 1}));
  EXPECT_EQ(graph->classes(), 6);
}

TEST(GraphBuilder, NormalisationsAndNarrowSumsAreAppendedWithTheirAttributes) {
  GraphBuilder net("net");
  auto x = net.Input("images", {3, 8, 8});
  auto wide = net.BatchNorm("norm", net.Conv2d("conv", x, {.out_channels = 5, .bias = false}),
                            {.epsilon = 0.5, .momentum = 0.25, .samples_per_group = 2, .initial_weight = 0});
  auto sum = net.AddNarrow("sum", wide, x);
  auto plain = net.BatchNorm("plain", sum);
  net.SoftmaxCrossEntropy("loss", net.Flatten("flatten", plain));
  absl::StatusOr<LayerGraph> graph = std::move(net).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->node(wide).layer,
            Layer(BatchNorm{.epsilon = 0.5, .momentum = 0.25, .samples_per_group = 2, .initial_weight = 0}));
  EXPECT_EQ(graph->node(plain).layer, Layer(BatchNorm{}));
  EXPECT_EQ(graph->node(sum).layer, Layer(AddNarrow{}));
  EXPECT_THAT(graph->node(sum).inputs, ::testing::ElementsAre(wide, x));
  EXPECT_EQ(graph->OutputShape(sum, 4), (Shape{4, 5, 8, 8}));
  ASSERT_EQ(graph->node(plain).parameters.size(), 2u);
  EXPECT_EQ(graph->node(plain).parameters[0].name, "plain.weight");
  EXPECT_EQ(graph->node(plain).parameters[1].name, "plain.bias");
  EXPECT_EQ(graph->ParameterCount(), 3 * 5 + 2 * 5 + 2 * 5) << "running means and variances are no parameters";
}

TEST(GraphBuilder, AnyLayerIsAppendedByItsAttributes) {
  GraphBuilder net("net");
  auto norm = net.Append("norm", BatchNorm{.epsilon = 0.5}, {net.Input("images", {3, 8, 8})});
  net.SoftmaxCrossEntropy("loss", net.Flatten("flatten", norm));
  absl::StatusOr<LayerGraph> graph = std::move(net).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->node(norm).layer, Layer(BatchNorm{.epsilon = 0.5}));
  EXPECT_EQ(graph->OutputShape(norm, 4), (Shape{4, 3, 8, 8}));
  EXPECT_EQ(graph->ParameterCount(), 2 * 3);
  EXPECT_THAT(ErrorOf([](GraphBuilder& refused) { refused.Append("norm", BatchNorm{}, {LayerId{7}}); }),
              AllOf(HasSubstr("BatchNorm \"norm\""), HasSubstr("layers of this network")));
}

TEST(GraphBuilder, ANarrowSumWithAWideSecondInputIsRefusedWithBothShapes) {
  EXPECT_THAT(ErrorOf([](GraphBuilder& net) {
                auto x = net.Input("images", {3, 8, 8});
                net.AddNarrow("sum", x, net.Conv2d("conv", x, {.out_channels = 5}));
              }),
              AllOf(HasSubstr("AddNarrow \"sum\""), HasSubstr("found [3,8,8] and [5,8,8]")));
  EXPECT_THAT(ErrorOf([](GraphBuilder& net) { net.BatchNorm("norm", net.Input("images", {3}), {.momentum = 2}); }),
              AllOf(HasSubstr("BatchNorm \"norm\""), HasSubstr("momentum from 0 to 1, found 2")));
}

TEST(GraphBuilder, AGlobalMeanIsOfImages) {
  EXPECT_THAT(ErrorOf([](GraphBuilder& net) { net.GlobalAvgPool("mean", net.Input("images", {6})); }),
              AllOf(HasSubstr("AvgPool \"mean\""), HasSubstr("expected one input of shape [C,H,W], found [6]")));
  EXPECT_THAT(ErrorOf([](GraphBuilder& net) { net.GlobalAvgPool("mean", LayerId{7}); }),
              HasSubstr("layers of this network"));
}

TEST(GraphBuilder, SizesBeyondReasonAreRefusedBeforeTheyOverflow) {
  constexpr int64_t kAbsurd = int64_t{1} << 60;
  auto error_of = [](auto add) {
    GraphBuilder net("n");
    add(net, net.Input("images", {3, 8, 8}));
    const absl::Status status = std::move(net).Build().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error_of([](GraphBuilder& net, LayerId x) {
                net.FullyConnected("fc", net.Flatten("flat", x), {.out_features = kAbsurd});
              }),
              ::testing::HasSubstr("\"fc\": expected at most 68719476736 elements, found an output [1152921504606846976]"));
  // The output fits, the weight of 192 times as many elements does not.
  EXPECT_THAT(error_of([](GraphBuilder& net, LayerId x) {
                net.FullyConnected("fc", net.Flatten("flat", x), {.out_features = int64_t{1} << 36});
              }),
              ::testing::HasSubstr("found weight [68719476736,192]"));
  EXPECT_THAT(error_of([](GraphBuilder& net, LayerId x) { net.Conv2d("c", x, {.out_channels = kAbsurd, .kernel = 3}); }),
              ::testing::HasSubstr("expected at most"));
  EXPECT_THAT(error_of([](GraphBuilder& net, LayerId x) {
                net.Conv2d("c", x, {.out_channels = 1, .kernel = 3, .pad = kAbsurd * 7});
              }),
              ::testing::HasSubstr("a pad of at most 1048576"));
}

// A channel takes a weight and an output of 2^24 elements each, all of which meet.
TEST(GraphBuilder, FlopBeyondReasonAreRefusedBeforeTheyOverflow) {
  auto status_of = [](int64_t channels) {
    GraphBuilder net("n");
    const LayerId x = net.Input("images", {1, 1 << 13, 1 << 13});
    net.SoftmaxCrossEntropy("loss", net.Flatten("flat", net.Conv2d("c", x, {.out_channels = channels, .kernel = 1 << 12})));
    return std::move(net).Build().status();
  };
  EXPECT_TRUE(status_of(1).ok()) << status_of(1);
  EXPECT_EQ(status_of(2).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status_of(2).message()),
              ::testing::HasSubstr("Conv2d \"c\": expected at most 1e+15 flop for a sample, found "));
}

TEST(LayerGraph, FindsALayerByNameAndNamesTheNearest) {
  GraphBuilder net("n");
  const LayerId x = net.Flatten("flatten", net.Input("images", {1, 2, 2}));
  const LayerId fc = net.FullyConnected("fc1", x, {.out_features = 2});
  net.SoftmaxCrossEntropy("loss", fc);
  const LayerGraph graph = *std::move(net).Build();
  ASSERT_TRUE(graph.Find("fc1").ok());
  EXPECT_EQ(*graph.Find("fc1"), fc);
  EXPECT_EQ(graph.Find("fc_1").status(),
            absl::FailedPreconditionError("network n has no layer \"fc_1\"; did you mean \"fc1\"?"));
  EXPECT_THAT(std::string(graph.Find("zzzzzz").status().message()),
              ::testing::HasSubstr("\"zzzzzz\"; expected one of images, flatten, fc1, loss"));
}

TEST(LayerGraph, HeadsAreTheLastLayersWithParametersBeforeEachLoss) {
  GraphBuilder net("n");
  const LayerId body =
      net.Flatten("flatten", net.Conv2d("conv", net.Input("images", {1, 4, 4}), {.out_channels = 2, .kernel = 3}));
  const LayerId a = net.FullyConnected("a", body, {.out_features = 2}),
                b = net.FullyConnected("b", body, {.out_features = 2});
  const LayerId logits = net.Relu("relu", net.Add("sum", {a, b}));
  const LayerId hidden = net.FullyConnected("hidden", body, {.out_features = 8});
  const LayerId side = net.SoftmaxCrossEntropy(
      "side", net.FullyConnected("fc", net.Relu("relu2", hidden), {.out_features = 2}), {.weight = 0.3});
  const LayerId loss = net.SoftmaxCrossEntropy("loss", logits);
  const LayerGraph graph = *std::move(net).Build();
  EXPECT_THAT(graph.HeadsOf(loss), ::testing::ElementsAre("a", "b"));
  EXPECT_THAT(graph.HeadsOf(side), ::testing::ElementsAre("fc"));
  EXPECT_THAT(graph.Heads(), ::testing::ElementsAre("a", "b", "fc"));
}

TEST(LayerGraph, HeadsAreNormalisationsOfLogitsAndWhatTheyRead) {
  GraphBuilder net("n");
  const LayerId images = net.Input("images", {1, 4, 4});
  const LayerId body = net.BatchNorm("bn1", net.Conv2d("conv", images, {.out_channels = 2, .kernel = 4}));
  const LayerId fc = net.FullyConnected("fc", net.Flatten("flatten", body), {.out_features = 2});
  const LayerId loss = net.SoftmaxCrossEntropy("loss", net.BatchNorm("bn2", fc));
  EXPECT_THAT(std::move(net).Build()->HeadsOf(loss), ::testing::ElementsAre("bn2", "fc"));
}

TEST(GraphBuilder, AttributesThatWereForgottenAreNamed) {
  GraphBuilder conv("n"), fc("n");
  conv.Conv2d("c", conv.Input("images", {3, 8, 8}), {.kernel = 3});
  EXPECT_THAT(std::string(std::move(conv).Build().status().message()),
              ::testing::HasSubstr("\"c\": expected at least 1 output channel, found 0; set out_channels"));
  fc.FullyConnected("f", fc.Flatten("flat", fc.Input("images", {3, 8, 8})), {});
  EXPECT_THAT(std::string(std::move(fc).Build().status().message()), ::testing::HasSubstr("set out_features"));
}

}  // namespace
}  // namespace colonnade::layers
