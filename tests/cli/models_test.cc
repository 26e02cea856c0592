#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

TEST_F(Command, ModelsListsTheZoo) {
  const Result r = Run("models");
  EXPECT_EQ(r.code, 0) << r.err;
  for (const char* name :
       {"two_column", "lenet", "alexnet2012", "alexnet", "vgg11", "vgg16", "vgg16_bn", "googlenet", "googlenet_bn",
        "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d", "resnet20", "resnet56"}) {
    EXPECT_THAT(r.out, ContainsRegex(absl::StrCat("\n", name, " ")));
  }
  EXPECT_THAT(r.out, ContainsRegex("\nalexnet +61100840 +1\\.428  3x224x224  "));
}

TEST_F(Command, TheZooIsAlsoOneJsonObject) {
  for (const char* arguments : {"models --json", "train --model=list --json"}) {
    const Json zoo = Json::parse(Run(arguments).out);
    ASSERT_EQ(zoo.at("models").size(), 17u) << arguments;
    EXPECT_EQ(zoo.at("models")[0].at("model"), "lenet");
    EXPECT_EQ(zoo.at("models")[0].at("input"), Json({1, 28, 28}));
    EXPECT_EQ(zoo.at("models")[0].at("classes"), 10);
    EXPECT_EQ(zoo.at("models")[0].at("parameters"), 61706);
  }
}

TEST_F(Command, HeadsAndSmoothingReachTheProgramOfTrainingAlone) {
  const std::string network = "program --model=googlenet --width=0.1 --input-size=96 --batch=2 --label-smoothing=0.1 ";
  const Result plain = Run(network), heads = Run(network + "--auxiliary-heads=on"),
               evaluated = Run(network + "--auxiliary-heads=on --mode=eval");
  ASSERT_EQ(heads.code, 0) << heads.err;
  EXPECT_THAT(plain.out, HasSubstr("softmax_cross_entropy_forward{weight=1 label_smoothing=0.1}"));
  EXPECT_THAT(plain.out, Not(HasSubstr("weight=0.3")));
  EXPECT_THAT(heads.out, HasSubstr("softmax_cross_entropy_backward{weight=0.3 label_smoothing=0.1}"));
  EXPECT_THAT(heads.out, HasSubstr("output metrics \"head2.loss.metrics\""));
  EXPECT_THAT(evaluated.out, HasSubstr("softmax_cross_entropy_forward{weight=1 label_smoothing=0}"));
  EXPECT_THAT(evaluated.out, Not(HasSubstr("from head1.conv forward")));
  EXPECT_THAT(evaluated.out, HasSubstr("parameter \"head1.conv.weight\""));
}

// The heads' weights are in the file, and in the memory of an evaluation that runs no head.
TEST_F(Command, ANetworkWithHeadsIsTestedAsItIsEvaluated) {
  const std::string network =
      " --model=googlenet --width=0.02 --input-size=80 --classes=10 --auxiliary-heads=on --batch=4 --json ";
  const auto test_of = [&](const std::string& arguments) {
    const Result r = Run(arguments);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.code == 0 ? Json::parse(r.out).at("test") : Json();
  };
  const Json trained =
      test_of(absl::StrCat("train", network, "--label-smoothing=0.1 --steps=2 --save=", In("w.safetensors")));
  EXPECT_EQ(trained, test_of(absl::StrCat("eval", network, "--init=", In("w.safetensors"))));
  const std::string without = absl::StrReplaceAll(network, {{"--auxiliary-heads=on ", ""}});
  for (const char* command : {"eval", "train --steps=1"}) {
    ExpectError(
        absl::StrCat(command, without, "--init=", In("w.safetensors")), 65,
        {"\"head1.conv.weight\"", "has no such parameter; --auxiliary-heads=on takes weights that have those heads"});
  }
  // For other classes the last layers of the heads are begun anew, too.
  const std::string five = absl::StrReplaceAll(network, {{"--classes=10", "--classes=5"}});
  const std::string tune = absl::StrCat("train", five, "--steps=1 --init=", In("w.safetensors"));
  EXPECT_EQ(Run(tune + " --replace-head").code, 0);
  ExpectError(tune, 65, {"head1.", "; --replace-head begins with a new last layer"});
  Run(absl::StrCat("train", without, "--steps=1 --save=", In("headless")));
  ExpectError(absl::StrCat("train", network, "--steps=1 --init=", In("headless")), 65,
              {"found no such tensor", "; without --auxiliary-heads weights need no such heads"});
}

TEST_F(Command, HeadsOfANetworkWithoutAndSmoothingBeyond0To1Are2) {
  const Result none = Run("models resnet18 --auxiliary-heads=on --width=0.5");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("resnet18 has no auxiliary heads; googlenet and googlenet_bn have\n"))
      << "no advice on --width";
  ExpectError("models googlenet --auxiliary-heads=on --input-size=64 --width=0.5", 2,
              {"\"head1.pool\"", "5x5", "; use another --input-size"});
  for (const char* share : {"1", "-0.1", "nan", "x"}) {
    ExpectError(absl::StrCat("models lenet --label-smoothing=", share), 2, {"--label-smoothing", share});
  }
}

TEST_F(Command, ModelsOfANameShowsItsLayers) {
  const Result r = Run("models alexnet");
  EXPECT_EQ(r.code, 0) << r.err;
  // 64 filters of 3 x 11 x 11 and their biases; 2 x 64 x 363 x 55 x 55 flop.
  EXPECT_THAT(r.out, ContainsRegex("\nfeatures\\.0 +Conv2d +\\[64,55,55\\] +23296 +140\\.554\n"));
  // torchvision's documentation of AlexNet_Weights.IMAGENET1K_V1: num_params 61100840, 0.71 billion multiply-adds.
  EXPECT_THAT(r.out, ContainsRegex("\nin all +61100840 +1428\\.377\n"));
}

// Numbers stand in the last column: where all lines end at one place, that column and those before it are aligned.
TEST_F(Command, TheTableOfLayersIsAlignedAndNoWiderThanATerminal) {
  for (const char* arguments : {"models alexnet2012", "models vgg16", "models resnet50", "models googlenet",
                                "models googlenet_bn", "models vgg16 --width=8 --input-size=448"}) {
    const std::string out = Run(arguments).out;
    const std::vector<std::string> lines = absl::StrSplit(out, '\n', absl::SkipEmpty());
    ASSERT_GT(lines.size(), 20u) << arguments;
    for (const std::string& line : lines) EXPECT_EQ(line.size(), lines[0].size()) << arguments << "\n" << line;
    EXPECT_LE(lines[0].size(), 100u) << arguments;
  }
}

TEST_F(Command, TheSummaryOfANameIsOneJsonObjectWhoseTotalsAreTheSumsOfItsLayers) {
  const Result r = Run("models vgg16 --json --summary");
  ASSERT_EQ(r.code, 0) << r.err;
  const Json net = Json::parse(r.out);
  EXPECT_EQ(net.at("model"), "vgg16");
  int64_t parameters = 0, flops = 0;
  for (const Json& layer : net.at("layers")) {
    parameters += layer.at("parameters").get<int64_t>();
    flops += layer.at("forward_flops").get<int64_t>();
  }
  EXPECT_EQ(parameters, 138'357'544);
  EXPECT_EQ(net.at("parameters"), parameters);
  EXPECT_EQ(net.at("forward_flops"), flops);
  EXPECT_EQ(net.at("layers")[1], (Json{{"name", "features.0"},
                                       {"type", "Conv2d"},
                                       {"output", {64, 224, 224}},
                                       {"parameters", 64 * 27 + 64},
                                       {"forward_flops", 2 * 27 * 64 * 224 * 224}}));
}

TEST_F(Command, TheJsonOfANameIsTheFileThatTrainsAsTheNameDoes) {
  const Result r = Run("models two_column --width=0.25 --dropout=off --json");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out).at("colonnade_model"), 1);
  Write("mine.json", r.out);
  EXPECT_EQ(Run(absl::StrCat("models ", In("mine.json"), " --json")).out, r.out);
  const std::string run = " --data=digits --devices=4 --plan=hybrid --steps=5 --json";
  const Result of_name = Run(absl::StrCat("train --model=two_column --width=0.25 --dropout=off", run));
  const Result of_file = Run(absl::StrCat("train --model=", In("mine.json"), run));
  ASSERT_EQ(of_file.code, 0) << of_file.err;
  const Json name = Json::parse(of_name.out), file = Json::parse(of_file.out);
  EXPECT_EQ(file.at("losses"), name.at("losses")) << "the recipe is in the file, too";
  EXPECT_EQ(file.at("test"), name.at("test"));
  EXPECT_EQ(file.at("model"), "two_column");
}

constexpr char kFile[] = R"({
 "colonnade_model": 1,
 "name": "small",
 "training": {"lr_policy": "cosine"},
 "layers": [
  {"name": "images", "type": "Input", "sample_shape": [1, 8, 8]},
  {"name": "conv1", "type": "Conv2d", "out_channels": 8, "kernel": 3, "pad": 1},
  {"name": "relu1", "type": "Relu"},
  {"name": "flatten", "type": "Flatten"},
  {"name": "fc", "type": "FullyConnected", "out_features": 10},
  {"name": "loss", "type": "SoftmaxCrossEntropy"}
 ]
})";

TEST_F(Command, AFileIsTakenWhereverANetworkIs) {
  Write("small.json", kFile);
  const std::string model = absl::StrCat(" --model=", In("small.json"));
  const std::string weights = absl::StrCat("=", In("w.safetensors"));
  const std::string commands[] = {absl::StrCat("train --lr-policy=constant --steps=2 --save", weights, model),
                                  absl::StrCat("eval --init", weights, model),
                                  absl::StrCat("verify --devices=2 --plan=model --lr-policy=constant --steps=1", model),
                                  absl::StrCat("plan --devices=2 --plan=auto --machine=dgx1-v100 --draws=0", model),
                                  absl::StrCat("simulate --devices=2 --machine=dgx1-v100 --draws=0", model),
                                  absl::StrCat("program --summary", model),
                                  absl::StrCat("table --batch=64 --draws=0", model),
                                  absl::StrCat("models ", In("small.json"))};
  for (const std::string& command : commands) {
    const Result r = Run(command);
    EXPECT_EQ(r.code, 0) << command << "\n" << r.err;
    EXPECT_NE(r.out, "") << command;
  }
}

TEST_F(Command, WhatIsWrongWithAFileIsSaidWithItsNameAndThePlace) {
  Write("small.json", absl::StrReplaceAll(kFile, {{"cosine", "cosin"}}));
  const std::string file = In("small.json"), train = absl::StrCat("train --steps=1 --model=", file);
  for (const std::string& command : {train, absl::StrCat("models ", file), absl::StrCat("plan --model=", file)}) {
    ExpectError(command, 65, {absl::StrCat(file, ": training.lr_policy: expected constant, "), "\"cosin\""});
  }
  Write("small.json", kFile);
  ExpectError(train + " --width=0.5", 2, {"--width: expected none", file});
  ExpectError(train + " --dropout=off", 2, {"--dropout: expected none"});
  ExpectError(train + " --classes=7", 2, {"--classes: expected none"});
  ExpectError(train + " --input-size=9", 2, {"--input-size: expected none"});
  EXPECT_EQ(Run(absl::StrCat("models --channels=1 --input-size=8 --classes=10 ", file)).code, 0) << "as they are";
  ExpectError(absl::StrCat("models ", In("none.json")), 66, {"none.json"});
  const auto with = [&](const std::string& from, const std::string& to) {
    Write("small.json", absl::StrReplaceAll(kFile, {{from, to}}));
    return absl::StrCat("plan --model=", file);
  };
  ExpectError(with("\"Relu\"}", "\"Relu\",}"), 65, {absl::StrCat(file, ": expected JSON; line 8, column 36: ")});
  ExpectError(with("\"kernel\"", "\"kernal\""), 65,
              {file, "layers[1] \"conv1\".kernal: unknown field, did you mean \"kernel\"?"});
  ExpectError(with("\"pad\": 1", "\"pad\": 1, \"groups\": 3"), 65, {file, "Conv2d \"conv1\"", "found 3 groups"});
  ExpectError(with("[1, 8, 8]", "[64]"), 65, {file, "found [64]"});
  Write("small.json", R"({"colonnade_model": 1, "name": "flat", "layers": [
    {"name": "x", "type": "Input", "sample_shape": [64]}, {"name": "fc", "type": "FullyConnected", "out_features": 10},
    {"name": "loss", "type": "SoftmaxCrossEntropy"}]})");
  ExpectError(train + " --data=digits", 65, {file, "layer \"x\", sample_shape: expected images [C,H,W], found [64]"});
  Write("small.json", absl::StrReplaceAll(kFile, {{"10", "7"}}));
  ExpectError(train + " --data=digits", 2, {"7 classes", "has 10; change the last layer before the loss in the file"});
  Write("small.json", absl::StrReplaceAll(kFile, {{"8, 8", "9, 9"}}));
  ExpectError(train + " --data=digits", 2, {"[1,9,9]", "set sample_shape in the file"});
}

TEST_F(Command, ANetworkWithoutParametersIsNotTrained) {
  Write("none.json", R"({"colonnade_model": 1, "name": "none", "layers": [
    {"name": "images", "type": "Input", "sample_shape": [1, 8, 8]},
    {"name": "flatten", "type": "Flatten"}, {"name": "loss", "type": "SoftmaxCrossEntropy"}]})");
  const std::string run = absl::StrCat(" --data=digits --steps=1 --model=", In("none.json"));
  ExpectError(absl::StrCat("train", run), 2, {"network \"none\": expected a layer with parameters to train, found none"});
  ExpectError(absl::StrCat("verify --plan=data --devices=2", run), 2, {"axis \"data\", since no layer has parameters; "});
}

// Labels and images are those of the file: here neither square nor of ten classes.
TEST_F(Command, SyntheticDataAreShapedAsTheFileSays) {
  Write("oblong.json", absl::StrReplaceAll(kFile, {{"8, 8", "6, 9"}, {"10", "3"}}));
  const Result r = Run(absl::StrCat("train --steps=1 --model=", In("oblong.json")));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("images [1,6,9], 3 classes"));
}

TEST_F(Command, ARunGoesOnWithTheSameFileAlone) {
  Write("small.json", absl::StrReplaceAll(kFile, {{"cosine", "constant"}}));
  const std::string run =
      absl::StrCat("train --data=digits --resume --checkpoint=", In("run"), " --model=", In("small.json"));
  ASSERT_EQ(Run(run + " --steps=2").code, 0);
  EXPECT_EQ(Run(run + " --steps=3").code, 0);
  Write("small.json", absl::StrReplaceAll(kFile, {{"cosine", "constant"}, {"Relu", "Gelu"}}));
  ExpectError(run + " --steps=4", 65, {"expected the run that was saved", "network: "});
  EXPECT_EQ(Run(run + " --steps=4 --allow-change=network").code, 0);
}

TEST_F(Command, ARunIsNotToldToGoOnWithAFileOfOtherShapes) {
  Write("small.json", kFile);
  const std::string run =
      absl::StrCat("train --data=digits --resume --checkpoint=", In("run"), " --model=", In("small.json"), " --steps=");
  ASSERT_EQ(Run(run + "2").code, 0);
  Write("small.json", absl::StrReplaceAll(kFile, {{"\"out_channels\": ", "\"out_channels\": 1"}}));
  const Result r = Run(run + "3");
  EXPECT_EQ(r.code, 65) << r.err;
  EXPECT_THAT(r.err, HasSubstr("network: "));
  EXPECT_THAT(r.err, HasSubstr("its state is not this run's: begin anew, with its weights by --init="));
  EXPECT_THAT(r.err, Not(HasSubstr("--allow-change")));
}

// A file states no width: that of the network is in its layers, which are compared.
TEST_F(Command, ARunOfTheZooGoesOnWithTheSameNetworkInAFile) {
  const std::string zoo = " two_column --width=0.25 --json";
  Write("same.json", Run("models" + zoo).out);
  const std::string run = absl::StrCat("train --data=digits --checkpoint=", In("run"), " --lr-policy=constant ");
  ASSERT_EQ(Run(run + "--steps=2 --model=two_column --width=0.25").code, 0);
  const std::string on = absl::StrCat(run, "--steps=3 --resume --model=", In("same.json"));
  const Result refused = Run(on);
  EXPECT_EQ(refused.code, 65);
  EXPECT_THAT(refused.err, HasSubstr("network: (none) → "));
  EXPECT_THAT(refused.err, Not(HasSubstr("width")));
  const Result r = Run(on + " --allow-change=network");
  EXPECT_EQ(r.code, 0) << r.err;
}

// What two pages show: each its file, then its commands.
TEST_F(Command, ThePagesOnFilesOfNetworksAndPlansRun) {
  for (const auto& [name, file, count] : {std::tuple("models.md", "digits_resnet.json", 5), {"plans.md", "mine.json", 4}}) {
    const std::string page = *engine::ReadFile(absl::StrCat(kSourceDir, "/docs/", name));
    const auto block = [&](const std::string& kind) {
      const size_t begin = page.find(absl::StrCat("\n```", kind, "\n")) + kind.size() + 5;
      return page.substr(begin, page.find("\n```", begin) + 1 - begin);
    };
    Write(file, block("json"));
    const std::string shell = block("sh");
    int commands = 0;
    for (absl::string_view line : absl::StrSplit(shell, '\n', absl::SkipEmpty())) {
      line = line.substr(0, line.find(" # "));
      ASSERT_TRUE(absl::ConsumePrefix(&line, "colonnade ")) << line;
      const std::vector<std::string> parts =
          absl::StrSplit(absl::StrReplaceAll(line, {{file, In(file)}, {"found.json", In("found.json")}}), " > ");
      const Result r = Run(parts[0]);
      EXPECT_EQ(r.code, 0) << line << "\n" << r.err;
      if (parts.size() > 1) Write(parts[1], r.out);
      ++commands;
    }
    EXPECT_EQ(commands, count);
  }
}

TEST_F(Command, ModelsTakesTheFlagsThatShapeANetwork) {
  const Result r = Run("models vgg11 --width=0.125 --input-size=64 --channels=1 --classes=7 --dropout=off");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, ContainsRegex("\nimages +Input +\\[1,64,64\\] "));
  EXPECT_THAT(r.out, ContainsRegex("\nfeatures\\.0 +Conv2d +\\[8,64,64\\] +80 "));
  EXPECT_THAT(r.out, ContainsRegex("\nclassifier\\.6 +FullyConnected +\\[7\\] +3591 "));
  EXPECT_THAT(r.out, Not(HasSubstr("Dropout")));
}

TEST_F(Command, ModelsOfAnUnknownNameIsRefused) {
  ExpectError("table --model=lenett --draws=0", 2, {"unknown model \"lenett\"", "did you mean \"lenet\"?"});
  ExpectError("models alexnett", 2, {"alexnett", "did you mean \"alexnet\"?"});
  ExpectError("models vgg61 --json", 2, {"unknown model \"vgg61\"", "did you mean \"vgg"});
}

TEST_F(Command, ModelsRefusesShapesThatANetworkCannotHave) {
  ExpectError("models vgg11 --input-size=31", 2, {"\"vgg11\"", "\"features.20\"", "at least 2x2", "[512,1,1]"});
  ExpectError("models --width=0.5", 2, {"--width requires NAME"});
  ExpectError("models lenet --summary", 2, {"--summary requires --json"});
}

}  // namespace
}  // namespace colonnade::cli
