// predict: what saved weights take image files for.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "data/formats.h"
#include "engine/io/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"
#include "tests/data/image_files.h"
#include "tests/engine/load_weights.h"

namespace colonnade::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Predict : public Command {
 protected:
  // A classifier of digits that is right more often than not.
  void TrainOnDigits() const {
    const Result r =
        Run(absl::StrCat("train --model=two_column --width=0.5 --data=digits --epochs=3 --lr=0.05 --save=", In("w")));
    ASSERT_EQ(r.code, 0) << r.err;
  }

  // The test set's digits as PNG files, "0000.png" and on; their labels.
  std::vector<int32_t> WriteDigits(const std::string& folder) const {
    std::filesystem::create_directories(In(folder));
    const auto digits = data::OpenSamples("digits", data::SplitOf::kTest, {}).value();
    std::vector<int32_t> labels;
    std::string room;
    for (int64_t i = 0; i < digits->size(); ++i) {
      const data::StoredImage stored = digits->Read(i, room).value();
      std::vector<uint8_t> pixels;
      for (char value : stored.bytes) {
        const double share = static_cast<uint8_t>(value) / digits->largest_value();
        pixels.push_back(static_cast<uint8_t>(std::lround(255 * share)));
      }
      Write(absl::StrFormat("%s/%04d.png", folder, i), data::PngOf({stored.height, stored.width, stored.channels, pixels}));
      labels.push_back(digits->label(i));
    }
    return labels;
  }

  // How many of the images in a folder are taken for what they show.
  double Top1Of(const std::string& command, const std::vector<int32_t>& labels) const {
    const Result r = Run(command + " --json");
    EXPECT_EQ(r.code, 0) << r.err;
    const json images = json::parse(r.out)["images"];
    EXPECT_EQ(images.size(), labels.size());
    int hits = 0;
    for (size_t i = 0; i < labels.size(); ++i) hits += images[i]["classes"][0]["label"] == labels[i];
    return static_cast<double>(hits) / static_cast<double>(labels.size());
  }

  std::string OnDigits(const std::string& flags) const {
    return absl::StrCat("predict --model=two_column --width=0.5 --data=digits --init=", In("w"), " ", flags);
  }
};

// Networks of more than 64 pixels see the middle of files, but these were trained on whole images with a pad.
TEST_F(Predict, FilesGetThePadAndTheViewThatTheWeightsState) {
  ASSERT_EQ(Run(absl::StrCat("train --model=two_column --width=0.25 --data=digits --input-size=66 --pad=29 --epochs=3 "
                             "--batch=32 --lr=0.02 --save=",
                             In("w.safetensors")))
                .code,
            0);
  const std::string init = absl::StrCat("--init=", In("w.safetensors"), " ");
  const std::vector<int32_t> labels = WriteDigits("digits");
  const auto eval = [&](const std::string& data) -> double {
    const Result r = Run(absl::StrCat("eval ", init, "--json --data=", data));
    EXPECT_EQ(r.code, 0) << r.err;
    return json::parse(r.out)["test"]["top1"];
  };
  const double top1 = eval("digits --pad=29");
  EXPECT_GT(top1, 0.5);
  EXPECT_EQ(eval("digits"), top1) << "the weights state the pad";
  EXPECT_NEAR(Top1Of(absl::StrCat("predict ", init, In("digits")), labels), top1, 0.02);
  EXPECT_NEAR(Top1Of(absl::StrCat("predict ", init, "--data=digits ", In("digits")), labels), top1, 0.02);
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::string name = absl::StrFormat("%04d.png", i), folder = In(absl::StrCat("set/val/", labels[i]));
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(In("digits/" + name), absl::StrCat(folder, "/", name));
  }
  EXPECT_NEAR(eval(In("set")), top1, 0.02);
  EXPECT_LT(Top1Of(absl::StrCat("predict ", init, "--pad=0 ", In("digits")), labels), top1 - 0.1) << "none is asked for";
  ExpectError(absl::StrCat("predict ", init, "--pad=33 ", In("digits")), 2,
              {"--pad: expected less than half of an image of 66 x 66, found 33"});
}

// Pixels of 0..16 become those of 0..255, which rounds: a digit or two may change sides.
TEST_F(Predict, FilesAreTakenForWhatTheTestSetIsTakenFor) {
  TrainOnDigits();
  const std::vector<int32_t> labels = WriteDigits("digits");
  const Result tested = Run(absl::StrCat("eval --model=two_column --width=0.5 --data=digits --json --init=", In("w")));
  ASSERT_EQ(tested.code, 0) << tested.err;
  for (const char* plan : {"", "--plan=model --devices=2 ", "--batch=7 ", "--plan=hybrid --devices=4 --dtype=bf16 "}) {
    const Result r = Run(OnDigits(absl::StrCat(plan, "--json --top=3 ", In("digits"))));
    ASSERT_EQ(r.code, 0) << r.err;
    const json images = json::parse(r.out)["images"];
    ASSERT_EQ(images.size(), labels.size());
    int hits = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      EXPECT_EQ(images[i]["file"], In(absl::StrFormat("digits/%04d.png", i)));
      ASSERT_EQ(images[i]["classes"].size(), 3);
      hits += images[i]["classes"][0]["label"] == labels[i];
      EXPECT_GE(images[i]["classes"][0]["probability"], images[i]["classes"][1]["probability"]);
    }
    const double top1 = json::parse(tested.out)["test"]["top1"];
    EXPECT_GT(top1, 0.5);
    EXPECT_NEAR(hits / static_cast<double>(labels.size()), top1, 0.02) << plan;
  }
}

TEST_F(Predict, PrintsALineForEachImageInTheOrderOfTheCommandLine) {
  TrainOnDigits();
  WriteDigits("digits");
  const Result r = Run(OnDigits(absl::StrCat("--top=2 ", In("digits/0003.png"), " ", In("digits/0001.png"))));
  ASSERT_EQ(r.code, 0) << r.err;
  const std::vector<std::string> lines = absl::StrSplit(r.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2);
  EXPECT_THAT(lines[0], ::testing::MatchesRegex(absl::StrCat(In("digits/0003.png"), ": [0-9] [0-9.]+ %, [0-9] [0-9.]+ %")));
  EXPECT_THAT(lines[1], HasSubstr("0001.png: "));
}

// Images, classes, mean and deviation are those of the training: of a file of --save, of a checkpoint, and of what is
// exported.
TEST_F(Predict, WeightsSayWhatTheyWereTrainedOn) {
  const std::string net = "--model=resnet20 --width=0.25 ";  // whose images are 32 x 32, in three colours
  ASSERT_EQ(Run(absl::StrCat("train ", net, "--data=digits --steps=1 --checkpoint=", In("run"), " --save=", In("w"))).code,
            0);
  ASSERT_EQ(Run(absl::StrCat("checkpoint export ", In("run"), " --out=", In("exported"))).code, 0);
  WriteDigits("digits");
  const std::string predict = absl::StrCat("predict ", net, "--json ", In("digits"), " --init=");
  const Result with_set = Run(absl::StrCat(predict, In("w"), " --data=digits"));
  ASSERT_EQ(with_set.code, 0) << with_set.err;
  for (const char* weights : {"w", "exported", "run/step-000000001/weights.safetensors"}) {
    const Result r = Run(absl::StrCat(predict, In(weights)));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.out, with_set.out) << weights;
  }
  ExpectError(absl::StrCat(predict, In("w"), " --channels=3"), 65,
              {In("w"), "expected weights trained on images of 3 channels, as the network takes, found 1"});
}

// Of a file of --save, of a checkpoint, and of what is exported. Groups of training are none of a batch that is predicted.
TEST_F(Predict, WeightsStateTheirNetwork) {
  const std::string net = "--model=resnet20 --width=0.25 --batch-norm=ghost:16 ";
  ASSERT_EQ(Run(absl::StrCat("train ", net, "--data=digits --steps=1 --checkpoint=", In("run"), " --save=", In("w"))).code,
            0);
  ASSERT_EQ(Run(absl::StrCat("checkpoint export ", In("run"), " --out=", In("exported"))).code, 0);
  WriteDigits("digits");
  const Result named = Run(absl::StrCat("predict ", net, "--json ", In("digits"), " --init=", In("w")));
  ASSERT_EQ(named.code, 0) << named.err;
  const Result tested = Run(absl::StrCat("eval --model=resnet20 --width=0.25 --json --data=digits --init=", In("w")));
  ASSERT_EQ(tested.code, 0) << tested.err;
  const auto loss_of = [](const Result& r) { return json::parse(r.out)["test"]["loss"]; };
  for (const char* weights : {"w", "exported", "run/step-000000001/weights.safetensors"}) {
    const Result r = Run(absl::StrCat("predict --json ", In("digits"), " --init=", In(weights)));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.out, named.out) << weights;
    const Result again = Run(absl::StrCat("eval --json --data=digits --init=", In(weights)));
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(loss_of(again), loss_of(tested)) << weights;
  }
}

TEST_F(Predict, TheNetworkOfWeightsIsOneForAllSubCommands) {
  ASSERT_EQ(Run(absl::StrCat("train --model=two_column --width=0.5 --data=digits --steps=1 --save=", In("w"))).code, 0);
  const Result printed = Run(absl::StrCat("models ", In("w"), " --json"));
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_EQ(printed.out, Run("models two_column --width=0.5 --json").out);
  EXPECT_EQ(Run(absl::StrCat("train --model=", In("w"), " --init=", In("w"), " --data=digits --steps=1")).code, 0);
  ExpectError(absl::StrCat("eval --width=0.5 --data=digits --init=", In("w")), 2,
              {"--width: expected none, since ", absl::StrCat("change the network file that colonnade models ", In("w"),
                                                              " --json prints, and give it as --model")});
  ForgetTraining(In("w"));
  ExpectError(absl::StrCat("eval --data=digits --init=", In("w")), 2,
              {"--model: expected a network, found none, and ", "states none; name one of the zoo, or give a network file"});
  ExpectError(absl::StrCat("plan --model=", In("w")), 65, {In("w"), "expected weights that state their network"});
}

TEST_F(Predict, WithoutTheTrainingSetClassesHaveTheNamesThatTheWeightsState) {
  for (const char* name : {"cat", "dog"}) {
    std::filesystem::create_directories(In(absl::StrCat("pets/train/", name)));
    Write(absl::StrCat("pets/train/", name, "/1.png"), data::PngOf(data::Pattern(16, 16, 3)));
  }
  const std::string net = "--model=resnet20 --width=0.25 ";
  const Result trained = Run(absl::StrCat("train ", net, "--input-size=16 --classes=2 --data=", In("pets"),
                                          " --batch=2 --steps=1 --save=", In("w")));
  ASSERT_EQ(trained.code, 0) << trained.err;
  std::filesystem::rename(In("pets/train/cat/1.png"), In("it.png"));
  std::filesystem::remove_all(In("pets"));
  const Result r = Run(absl::StrCat("predict ", net, "--top=1 --init=", In("w"), " ", In("it.png")));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, ::testing::MatchesRegex(absl::StrCat(In("it.png"), ": (cat|dog) [0-9.]+ %\n")));
}

TEST_F(Predict, WhatIsStatedOfTheTrainingMayBeDamaged) {
  TrainOnDigits();
  WriteDigits("digits");
  const engine::MappedWeights weights = *engine::MapWeights(In("w"));
  ASSERT_TRUE(engine::SaveTensors(In("w"), weights.tensors, {{"colonnade_trained_on", "{}"}}).ok());
  ExpectError(OnDigits(In("digits/0000.png")), 65, {In("w"), ": colonnade_trained_on: ", "missing"});
  ExpectError(absl::StrCat("eval --model=two_column --width=0.5 --data=digits --init=", In("w")), 65,
              {"colonnade_trained_on"});
}

// Without the training set, and with weights of others, the flags say what it would.
TEST_F(Predict, MeanAndDeviationMayBeSaid) {
  TrainOnDigits();
  ForgetTraining(In("w"));
  WriteDigits("digits");
  const std::string asked =
      absl::StrCat("predict --model=two_column --width=0.5 --json --init=", In("w"), " ", In("digits"));
  ExpectError(asked, 2, {"--data: these weights do not say", "name the training set, or give --mean and --std"});
  const Result said = Run(absl::StrCat(asked, " --mean=0.5 --std=0.25"));
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.out, Run(OnDigits(absl::StrCat("--json --mean=0.5 --std=0.25 ", In("digits")))).out);
  EXPECT_NE(said.out, Run(OnDigits(absl::StrCat("--json ", In("digits")))).out);
}

// All up to 64 of them, as many for each device of the plan's mesh.
TEST_F(Predict, ABatchThatIsNotGivenSuitsThePlan) {
  TrainOnDigits();
  WriteDigits("digits");
  const Result planned = Run(
      absl::StrCat("plan --model=two_column --width=0.5 --batch=12 --plan=data --devices=3 --save-plan=", In("three.json")));
  ASSERT_EQ(planned.code, 0) << planned.err;
  const std::string one = In("digits/0003.png"), answer = Run(OnDigits(one)).out;
  EXPECT_THAT(answer, HasSubstr("0003.png: "));
  for (const std::string& plan : {absl::StrCat("--plan=", In("three.json")), std::string("--plan=data --devices=3")}) {
    const Result r = Run(OnDigits(absl::StrCat(plan, " ", one)));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.out, answer) << plan;
  }
}

TEST_F(Predict, ClassesHaveTheNamesOfTheTrainingSetAndJsonTheirNumbersToo) {
  for (const char* split : {"train", "val"}) {
    for (const char* name : {"cat", "dog"}) {
      std::filesystem::create_directories(In(absl::StrCat("pets/", split, "/", name)));
      Write(absl::StrCat("pets/", split, "/", name, "/1.png"), data::PngOf(data::Pattern(16, 16, 3)));
    }
  }
  const std::string network = "--model=resnet20 --width=0.25 --input-size=16 --classes=2 ";
  const Result trained =
      Run(absl::StrCat("train ", network, "--data=", In("pets"), " --batch=2 --steps=1 --save=", In("w")));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string asked = absl::StrCat("infer ", network, "--init=", In("w"), " ", In("pets/val/dog"), " --json --data=");
  const Result r = Run(absl::StrCat(asked, In("pets")));
  ASSERT_EQ(r.code, 0) << r.err;
  const json answer = json::parse(r.out);
  EXPECT_EQ(answer["model"], "resnet20");
  EXPECT_EQ(answer["stopped"], false);
  ASSERT_EQ(answer["images"].size(), 1);
  ASSERT_EQ(answer["images"][0]["classes"].size(), 2) << "there are no five";
  for (const json& guess : answer["images"][0]["classes"]) EXPECT_EQ(guess["name"], guess["label"] == 0 ? "cat" : "dog");

  // Of a test set alone the names are taken, and nothing is measured.
  std::filesystem::remove_all(In("pets/train"));
  EXPECT_THAT(Run(absl::StrCat(asked, In("pets"))).out, HasSubstr("\"cat\"")) << "the weights say mean and deviation";
  ForgetTraining(In("w"));
  ExpectError(absl::StrCat(asked, In("pets")), 66, {"expected training images", "--mean and --std"});
  const Result said = Run(absl::StrCat(asked, In("pets"), " --mean=0.5,0.5,0.5 --std=0.2,0.2,0.2"));
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("\"cat\""));
}

TEST_F(Predict, LogitsThatAreNotFiniteAreNoAnswer) {
  TrainOnDigits();
  WriteDigits("digits");
  std::vector<engine::NamedTensor> weights = engine::LoadWeights(In("w")).value();
  for (engine::NamedTensor& tensor : weights) {
    if (tensor.shape.size() > 1) std::fill(tensor.values.begin(), tensor.values.end(), 3e38);
  }
  ASSERT_TRUE(engine::SaveTensors(In("w"), weights).ok());
  ExpectError(OnDigits(In("digits/0007.png")), 21, {"0007.png: expected finite logits of these weights, found "});
}

// An image without light gives the biases alone, which are finite.
TEST_F(Predict, OneWhoseLogitsAreNotFiniteLeavesTheOthersTheirAnswers) {
  TrainOnDigits();
  WriteDigits("digits");
  Write("black.png", data::PngOf({8, 8, 1, std::vector<uint8_t>(64)}));
  std::vector<engine::NamedTensor> weights = engine::LoadWeights(In("w")).value();
  for (engine::NamedTensor& tensor : weights) {
    if (tensor.shape.size() == 1) std::fill(tensor.values.begin(), tensor.values.end(), 0);
    if (tensor.shape[0] == 10) std::fill(tensor.values.begin(), tensor.values.end(), 3e38);
  }
  ASSERT_TRUE(engine::SaveTensors(In("w"), weights).ok());
  const std::string bright = In("digits/0007.png"), black = In("black.png");
  const Result r = Run(OnDigits(absl::StrCat(bright, " ", black, " --json --mean=0 --std=1")));
  EXPECT_EQ(r.code, 21) << r.err;
  EXPECT_THAT(r.err, HasSubstr(absl::StrCat("1 of 2 images has no answer; the first: ", bright)));
  const json images = json::parse(r.out)["images"];
  ASSERT_EQ(images.size(), 2);
  EXPECT_EQ(images[0]["classes"], json::array());
  EXPECT_THAT(images[0]["error"].get<std::string>(), HasSubstr("expected finite logits"));
  EXPECT_EQ(images[1]["classes"].size(), 5);
}

TEST_F(Predict, WhatIsNoImageIsNamed) {
  TrainOnDigits();
  WriteDigits("digits");
  std::filesystem::create_directories(In("empty"));
  Write("text.png", "this is no image");
  ExpectError(OnDigits(In("nowhere.png")), 66, {In("nowhere.png"), "expected an image file or a folder"});
  const Result others = Run(OnDigits(absl::StrCat(In("nowhere.png"), " ", In("digits/0007.png"))));
  EXPECT_EQ(others.code, 66);
  EXPECT_THAT(others.out, HasSubstr("0007.png: "));
  EXPECT_THAT(others.err, HasSubstr("1 of 2 images has no answer"));
  ExpectError(OnDigits(In("empty")), 65, {In("empty"), "expected images", "found none"});
  ExpectError(OnDigits(""), 2, {"IMAGE"});
}

TEST_F(Predict, ClassesThatNoLabelReachesAndNoiseAreNoted) {
  const std::string net = "--model=two_column --width=0.25 --classes=12 ";
  ASSERT_EQ(Run(absl::StrCat("train ", net, "--data=digits --steps=1 --save=", In("w"))).code, 0);
  WriteDigits("digits");
  const std::string init = absl::StrCat("--init=", In("w"), " "), image = In("digits/0000.png");
  constexpr char kNote[] = "note: the network has 12 classes, the data set 10\n";
  EXPECT_THAT(Run(absl::StrCat("predict ", net, init, "--data=digits ", image)).err, HasSubstr(kNote));
  EXPECT_THAT(Run(absl::StrCat("predict ", net, init, "--data=synthetic ", image)).err, ::testing::Not(HasSubstr("noise")))
      << "the weights say mean and deviation";
  ForgetTraining(In("w"));
  EXPECT_THAT(Run(absl::StrCat("eval ", net, init, "--data=digits")).err, HasSubstr(kNote));
  const Result noise = Run(absl::StrCat("predict ", net, init, "--data=synthetic ", image));
  EXPECT_EQ(noise.code, 0) << noise.err;
  EXPECT_THAT(noise.err,
              HasSubstr("note: synthetic images are noise, whose mean and deviation are not those of these images"));
  TrainOnDigits();
  EXPECT_THAT(Run(OnDigits(image)).err, ::testing::Not(HasSubstr("note: ")));
}

TEST_F(Predict, AnImageWhoseNameBeginsWithADashStandsBehindTwo) {
  TrainOnDigits();
  WriteDigits("digits");
  const auto in_digits = [&](const std::string& words) {
    return Wait(Start(OnDigits(words), [&] { (void)!::chdir(In("digits").c_str()); }));
  };
  std::filesystem::rename(In("digits/0000.png"), In("digits/-d.png"));
  const Result refused = in_digits("-d.png");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("unknown flag -d.png; for the file of that name write ./-d.png, or -- before it"));
  EXPECT_THAT(in_digits("./-d.png").out, StartsWith("./-d.png: "));
  Write("run.toml", "batch = 1\n");
  EXPECT_THAT(in_digits(absl::StrCat("--config=", In("run.toml"), " -- -d.png")).out, StartsWith("-d.png: "));
  EXPECT_THAT(in_digits("-n.png").err, HasSubstr("unknown flag -n.png; --help"));
  EXPECT_THAT(in_digits("0001.png -d.png").err, HasSubstr("unknown flag -d.png; for the file of that name write ./-d.png"));
  // Behind the two dashes nothing is a flag, whatever it looks like.
  for (const std::string name : {"--config=x.png", "--batch=9.png", "--mean="}) {
    std::filesystem::rename(In("digits/-d.png"), In(absl::StrCat("digits/", name)));
    const Result r = in_digits(absl::StrCat("-- ", name));
    EXPECT_THAT(r.out, StartsWith(absl::StrCat(name, ": "))) << r.err;
    std::filesystem::rename(In(absl::StrCat("digits/", name)), In("digits/-d.png"));
  }
  std::filesystem::rename(In("digits/-d.png"), In("digits/--batch=9.png"));
  Write("run.toml", "batch = 0\n");
  const Result read = in_digits(absl::StrCat("--config=", In("run.toml"), " -- --batch=9.png"));
  EXPECT_THAT(read.err, HasSubstr("run.toml: line 1: --batch: "));
}

// Under a plan and a batch that have it among the last, too; --bad-sample is of the training set.
TEST_F(Predict, WhatCannotBeReadIsNamedAndTheOthersAreAnswered) {
  TrainOnDigits();
  WriteDigits("digits");
  Write("text.png", "this is no image");
  const std::string first = In("digits/0000.png"), bad = In("text.png"), last = In("digits/0001.png");
  const std::string good = Run(OnDigits(absl::StrCat(first, " ", last))).out;
  for (const char* flags : {"", "--bad-sample=skip ", "--plan=model --devices=2 --batch=2 "}) {
    const Result r = Run(OnDigits(absl::StrCat(flags, first, " ", bad, " ", bad, " ", last)));
    EXPECT_EQ(r.code, 65) << flags;
    EXPECT_EQ(r.out, good) << flags;
    EXPECT_THAT(r.err, HasSubstr(absl::StrCat("warning: ", bad, ": ")));
    EXPECT_THAT(r.err, HasSubstr(absl::StrCat("2 of 4 images have no answer; the first: ", bad)));
  }
  const Result r = Run(OnDigits(absl::StrCat("--json ", bad, " ", last)));
  EXPECT_EQ(r.code, 65);
  const json images = json::parse(r.out)["images"];
  ASSERT_EQ(images.size(), 2);
  EXPECT_EQ(images[0]["classes"], json::array());
  EXPECT_THAT(images[0]["error"].get<std::string>(), HasSubstr(bad));
  EXPECT_EQ(images[1]["classes"].size(), 5);
  EXPECT_EQ(images[1]["error"], json());
}

}  // namespace
}  // namespace colonnade::cli
