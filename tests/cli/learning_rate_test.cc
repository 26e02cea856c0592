// The words of --lr-policy, --warm-up and --base-batch, and the rates that runs have.

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class LearningRateFlags : public Command {
 protected:
  static std::string Train(const std::string& flags) {
    return absl::StrCat("train --model=two_column --data=digits --width=0.25 --steps=8 ", flags);
  }
};

TEST_F(LearningRateFlags, AreSaidInTheFirstLines) {
  const std::pair<const char*, const char*> cases[] = {
      {"--lr-policy=constant", "lr 0.01 (constant)"},
      {"--lr-policy=step:3,0.5", "(step:3,0.5)"},
      {"--lr-policy=multistep:3,5,0.1", "(multistep:3,5,0.1)"},
      {"--lr-policy=poly:2 --warm-up=3", "(poly:2 over 8 steps, warm-up of 3)"},
      {"--lr-policy=cosine", "(cosine over 8 steps)"},
      {"--lr-policy=onecycle", "(onecycle over 8 steps)"},
      {"--lr=0.125 --batch=32 --base-batch=64", "lr 0.0625 "},
      {"--lr=0.125 --batch=32 --base-batch=64", "lr is that of a batch of 64, times 32 / 64"}};
  for (const auto& [flags, said] : cases) {
    const Result r = Run(Train(flags));
    EXPECT_EQ(r.code, 0) << flags << r.err;
    EXPECT_THAT(r.err, HasSubstr(said)) << flags;
  }
}

// Each form trains otherwise, and a plan computes each as one device does.
TEST_F(LearningRateFlags, TheFormOfSgdIsThatOfTheFlag) {
  std::set<double> last;
  for (const char* form : {"krizhevsky", "pytorch", "nesterov"}) {
    const Result r = Run(Train(absl::StrCat("--lr-policy=step:4,0.5 --json --optimizer=", form)));
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_THAT(r.err, HasSubstr(absl::StrCat("SGD in ", form, "'s form")));
    last.insert(nlohmann::json::parse(r.out)["losses"].back().get<double>());
    const Result verified = Run(
        absl::StrCat("verify --model=two_column --data=digits --width=0.25 --plan=hybrid --devices=4 --reduction=sharded "
                     "--kernels=reference --optimizer=",
                     form));
    EXPECT_EQ(verified.code, 0) << verified.out;
  }
  EXPECT_EQ(last.size(), 3u);
  ExpectError(Train("--optimizer=adam"), 2, {"--optimizer", "adam"});
}

TEST_F(LearningRateFlags, OptimisersAndWhatTheyObeyAreSaidAndVerified) {
  const std::pair<const char*, const char*> cases[] = {
      {"--optimizer=adamw", "AdamW: lr 0.001 (step:2,0.1), betas 0.9 and 0.999, epsilon 1e-08, weight decay 0.01, global"},
      {"--optimizer=adamw --betas=0,0.5 --weight-decay=0", "betas 0 and 0.5, epsilon 1e-08, weight decay 0, "},
      {"--optimizer=lars --lr=0.01 --trust=0.5 --decay=weights",
       "LARS: lr 0.01 (step:2,0.1), momentum 0.9, trust 0.5, weight decay "},
      {"--decay=weights --clip-norm=2", "of weights alone, clipped to norm 2, "},
      {"--on-not-finite=skip --head-lr-scale=0.5", "steps that are not finite skipped, rate of fc6 times 0.5, "}};
  for (const auto& [flags, said] : cases) {
    const Result r = Run(Train(absl::StrCat("--lr-policy=step:2,0.1 ", flags)));
    EXPECT_EQ(r.code, 0) << flags << r.err;
    EXPECT_THAT(r.err, HasSubstr(said));
    const Result verified =
        Run(absl::StrCat("verify --model=two_column --data=digits --width=0.25 --plan=hybrid --devices=4 "
                         "--reduction=sharded --kernels=reference ",
                         flags));
    EXPECT_EQ(verified.code, 0) << flags << verified.out << verified.err;
  }
  ExpectError(Train("--optimizer=adamw --betas=0.9,1"), 2, {"--betas", "1"});
  ExpectError(Train("--optimizer=adamw --betas=0.9"), 2, {"--betas"});
  ExpectError(Train("--optimizer=adamw --epsilon=0"), 2, {"--epsilon", "0"});
  ExpectError(Train("--clip-norm=-1"), 2, {"--clip-norm", "-1"});
  ExpectError(Train("--trust=0.1"), 2, {"--trust: expected --optimizer=lars", "krizhevsky"});
  ExpectError(Train("--betas=0.9,0.99"), 2, {"--betas: expected --optimizer=adamw"});
  ExpectError(Train("--optimizer=adamw --momentum=0.5"), 2, {"--momentum"});
}

// The model's rate, times a trust of 0.001, teaches nothing: 17 % after ten epochs.
TEST_F(LearningRateFlags, LarsHasARateOfItsOwnAndATrust) {
  const Result r = Run("train --model=two_column --data=digits --optimizer=lars --epochs=5");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("LARS: lr 1 "));
  const size_t at = r.out.find("top-1 ");
  ASSERT_NE(at, std::string::npos) << r.out;
  EXPECT_GT(std::stod(r.out.substr(at + 6)), 70) << r.out;
  ExpectError(Train("--optimizer=lars --lr=1 --trust=0"), 2, {"--trust: expected a number above 0, found 0"});
}

TEST_F(LearningRateFlags, FrozenLayersAreNamedByPatterns) {
  const Result r = Run(Train("--freeze=conv*,fc5"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("layers frozen"));
  ExpectError(Train("--freeze=cov1"), 2,
              {"--freeze: expected the name of a layer with parameters", "cov1", "did you mean \"conv1\"?"});
  ExpectError(Train("--freeze=*"), 2, {"--freeze: expected a layer that is left to train"});
  ExpectError(Train(absl::StrCat("--freeze=fc6 --replace-head --init=", In("none"))), 2,
              {"--replace-head", "fc6", "frozen"});
}

TEST_F(LearningRateFlags, OnlyAStarOfAPatternStandsForOtherText) {
  Write("net.json",
        R"({"colonnade_model": 1, "name": "n", "layers": [{"name": "images", "type": "Input", "sample_shape": [1, 8, 8]},
            {"name": "c[2]", "type": "Conv2d", "out_channels": 2}, {"name": "flatten", "type": "Flatten"},
            {"name": "fc?", "type": "FullyConnected", "out_features": 10},
            {"name": "loss", "type": "SoftmaxCrossEntropy"}]})");
  const auto train = [&](const char* freeze) {
    return absl::StrCat("train --data=digits --steps=1 --model=", In("net.json"), " --freeze=", freeze);
  };
  for (const char* pattern : {"c[2]", "c*", "*2]", "c*]", "*[*", "c[2]*", "*c*[*2*"}) {
    EXPECT_THAT(Run(train(pattern)).err, HasSubstr("1 layer frozen")) << pattern;
  }
  for (const char* pattern : {"c???", "c[[]2]", "c*2", "*c", "c[2]*]", "*2*[*", "c\\[2]"}) {
    ExpectError(train(pattern), 2, {"--freeze: expected the name of a layer", pattern});
  }
}

// Where no gradient is ever finite, a run does not end as if it had trained.
TEST_F(LearningRateFlags, ARunOfSkippedStepsAloneFails) {
  ExpectError(Train("--on-not-finite=skip --std=1e-39"), 21, {"all 8 steps were skipped"});
}

TEST_F(LearningRateFlags, ARunEndsWhereStepsAreSkippedThatLeaveTheStateAsItIs) {
  const std::string run = "train --model=two_column --data=digits --width=0.25 --on-not-finite=skip --std=1e-39";
  ExpectError(absl::StrCat(run, " --steps=120"), 21, {"the last 100 steps were skipped"});
  ExpectError(absl::StrCat(run, " --steps=99"), 21, {"all 99 steps were skipped"});
  ExpectError(absl::StrCat(run, " --steps=1"), 21, {"the only step was skipped: the "});
}

TEST_F(LearningRateFlags, MicroBatchesDivideTheBatch) {
  const Result whole = Run(Train("--batch=32 --json")), cut = Run(Train("--batch=32 --accumulate=4 --json"));
  EXPECT_EQ(cut.code, 0) << cut.err;
  EXPECT_NEAR(nlohmann::json::parse(cut.out)["losses"].back().get<double>(),
              nlohmann::json::parse(whole.out)["losses"].back().get<double>(), 1e-4);
  ExpectError(Train("--batch=32 --accumulate=5"), 2,
              {"--accumulate: expected a number of micro-batches that divides", "32", "5"});
  ExpectError("train --model=resnet20 --data=synthetic --steps=1 --accumulate=2 --batch=8", 2,
              {"bn1", "--batch-norm=ghost:N"});
  Write("resnet20.json", Run("models resnet20 --json").out);
  const Result of_file =
      Run(absl::StrCat("train --model=", In("resnet20.json"), " --data=synthetic --steps=1 --accumulate=2 --batch=8"));
  EXPECT_THAT(of_file.err, HasSubstr("set samples_per_group"));
  EXPECT_THAT(of_file.err, Not(HasSubstr("--batch-norm"))) << "no flag for a file, which says it itself";
}

TEST_F(LearningRateFlags, WhatCannotBeMeantIsRefused) {
  for (const char* bad : {"cosin", "step:5", "step:0,0.1", "step:5,0", "step:5,inf", "poly:inf", "poly:nan", "step:5,6,0.1",
                          "multistep:5,3,0.1", "multistep:0.1", "poly", "poly:0", "poly:1,2", "cosine:5", "constant:1",
                          "onecycle:2", "step:x,0.1", ":", ""}) {
    if (*bad == '\0') continue;
    ExpectError(Train(absl::StrCat("--lr-policy=", bad)), 2, {"--lr-policy: expected constant, step:N,F", bad});
  }
  ExpectError(Train("--lr-policy=cosin"), 2, {"found \"cosin\"; did you mean \"cosine\"?"});
  EXPECT_THAT(Run(Train("--lr-policy=step:5")).err, EndsWith("found \"step:5\"\n")) << "of which only the numbers are wrong";
  ExpectError(Train("--lr-policy=onecycle --warm-up=2"), 2, {"--warm-up", "onecycle"});
  ExpectError(Train("--lr-policy=cosine --warm-up=8"), 2, {"--warm-up: expected fewer steps than the run's 8, found 8"});
  EXPECT_EQ(Run(Train("--lr-policy=cosine --warm-up=7")).code, 0);
  constexpr char kNote[] = "note: --warm-up=9 is longer than the run of 8 steps";
  EXPECT_THAT(Run(Train("--lr-policy=step:4,0.1 --warm-up=9")).err, HasSubstr(kNote));
  EXPECT_THAT(Run(Train("--lr-policy=step:4,0.1 --warm-up=8")).err, Not(HasSubstr("note: --warm-up")));
}

TEST_F(LearningRateFlags, AFactorAboveOneIsNoted) {
  constexpr char kNote[] = "note: the factor 10 of --lr-policy makes the learning rate grow";
  EXPECT_THAT(Run(Train("--lr=1e-4 --lr-policy=multistep:4,6,10")).err, HasSubstr(kNote));
  EXPECT_THAT(Run(Train("--lr=1e-4 --lr-policy=step:4,10")).err, HasSubstr(kNote));
  for (const char* falls : {"multistep:4,6,0.1", "step:4,1", "poly:2", "cosine"}) {
    EXPECT_THAT(Run(Train(absl::StrCat("--lr-policy=", falls))).err, Not(HasSubstr("learning rate grow"))) << falls;
  }
}

// A run that is cut in two has the rates of the whole: the policy is over all steps.
TEST_F(LearningRateFlags, ARunThatIsCutInTwoHasTheRatesOfTheWhole) {
  const auto losses = [](const Result& r) { return nlohmann::json::parse(r.out)["losses"]; };
  const std::string policy = "--lr-policy=onecycle --lr=0.1 --json ";
  const nlohmann::json whole = losses(Run(Train(policy)));
  const std::string run = absl::StrCat(policy, "--checkpoint-every=1 --checkpoint-keep=100 --checkpoint=", In("run"));
  ASSERT_EQ(Run(Train(run)).code, 0);
  const nlohmann::json rest = losses(Run(Train(absl::StrCat(policy, "--resume=", In("run/step-000000003")))));
  ASSERT_EQ(rest.size(), 5u);
  EXPECT_EQ(rest.back(), whole.back());
  ExpectError(Train(absl::StrCat("--lr-policy=onecycle --lr=0.1 --epochs=1 --resume=", In("run/step-000000003"))), 2,
              {"--steps: expected this or --epochs"});
  ExpectError(
      absl::StrCat("train --model=two_column --data=digits --width=0.25 --steps=9 --lr-policy=onecycle --lr=0.1 --resume=",
                   In("run/step-000000003")),
      65, {"lr-policy: onecycle over 8 steps → onecycle over 9 steps"});
}

}  // namespace
}  // namespace colonnade::cli
