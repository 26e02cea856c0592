// Which runs may go on from a checkpoint, and which flags are refused beside it.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/checkpointed.h"

namespace colonnade::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Checkpointed, AnotherRunIsRefusedByFieldUnlessItMayDiffer) {
  TrainSteps(2);
  const std::vector<std::pair<std::string, std::string>> changes = {{"--batch=32", "batch: 64 → 32"},
                                                                    {"--seed=2", "seed: 1 → 2"},
                                                                    {"--lr=0.5", "lr: "},
                                                                    {"--momentum=0.5", "momentum: "},
                                                                    {"--clip-norm=1", "clip-norm: (none) → 1"},
                                                                    {"--decay=weights", "decay: (none) → weights"},
                                                                    {"--weight-decay=0.25", "weight-decay: "},
                                                                    {"--lr-policy=step:5,0.5", "lr-policy: "},
                                                                    {"--dropout=off", "dropout: on → off"},
                                                                    {"--shuffle=off", "shuffle: on → off"},
                                                                    {"--augment=none", "augment: standard"},
                                                                    {"--label-smoothing=0.25", "label-smoothing: 0 → 0.25"},
                                                                    {"--kernels=reference", "dtype: fp32 → fp64"},
                                                                    {"--mean=0.25", "mean: of the data → 0.25"},
                                                                    {"--std=0.5", "std: of the data → 0.5"},
                                                                    {"--bad-sample=skip", "bad-sample: (none) → skip"}};
  for (const auto& [flag, difference] : changes) {
    const std::string field = difference.substr(0, difference.find(':'));
    const std::string flags = absl::StrCat(kTrainDigits, "--steps=3 ", flag, " --resume=", Run1());
    ExpectError(flags, 65, {At(2), difference, absl::StrCat("--allow-change=", field)});
    const Result allowed = Run(absl::StrCat(flags, " --allow-change=", field));
    EXPECT_EQ(allowed.code, 0) << allowed.err;
  }
  ExpectError(absl::StrCat("train --model=two_column --data=digits --width=0.5 --steps=3 --resume=", Run1()), 65,
              {"width: 0.25 → 0.5"});
  // What the saved run had beyond the defaults is not dropped in silence.
  const Result clipped = Run(absl::StrCat(kTrainDigits, "--steps=2 --clip-norm=1 --checkpoint=", In("clipped")));
  ASSERT_EQ(clipped.code, 0) << clipped.err;
  ExpectError(absl::StrCat(kTrainDigits, "--steps=3 --resume=", In("clipped")), 65, {"clip-norm: 1 → (none)"});
  ExpectError(absl::StrCat("train --model=lenet --data=digits --pad=12 --steps=3 --resume=", Run1()), 65,
              {"model: two_column → lenet"});
  ExpectError(absl::StrCat(kTrainDigits, "--pad=1 --input-size=10 --steps=3 --resume=", Run1()), 65,
              {"data: ", "input: [1,8,8] → [1,10,10]"});
  ExpectError(absl::StrCat(kTrainDigits, "--steps=3 --allow-change=bach --resume=", Run1()), 2,
              {"--allow-change", "did you mean \"batch\"?"});
}

TEST_F(Checkpointed, AFieldThatMakesTheStateAnotherIsNotAllowed) {
  TrainSteps(2);
  for (const std::string field : {"width", "classes", "freeze"}) {
    const std::string flags = absl::StrCat(kTrainDigits, "--steps=3 --resume=", Run1(), " --allow-change=");
    ExpectError(absl::StrCat(flags, "batch,", field), 2,
                {"--allow-change: expected fields that leave the state of a run as it is (model, input, dropout, ",
                 absl::StrCat("found \"", field, "\"; begin anew, with the weights of the checkpoint by --init")});
    ExpectError(absl::StrCat(flags, "foo"), 2, {"expected fields of a run (model, input, dropout, "});
  }
}

TEST_F(Checkpointed, AdviceNamesWhatIsAllowedAlreadyToo) {
  TrainSteps(2);
  const std::string flags = absl::StrCat(kTrainDigits, "--steps=3 --batch=32 --seed=2 --resume=", Run1());
  ExpectError(absl::StrCat(flags, " --allow-change=batch"), 65, {"seed: 1 → 2", "--allow-change=batch,seed goes on"});
  const Result r = Run(absl::StrCat(flags, " --allow-change=batch,seed"));
  EXPECT_EQ(r.code, 0) << r.err;
}

// PyTorch's momentum is a sum of gradients, Krizhevsky's a change of weights: 100 times as small, and of the other sign.
TEST_F(Checkpointed, AnOptimizerWhoseMomentumMeansTheSameMayBeAllowed) {
  ASSERT_EQ(Run(absl::StrCat(kTrainDigits, "--optimizer=pytorch --steps=2 --checkpoint=", Run1())).code, 0);
  const auto flags = [&](const char* optimizer) {
    return absl::StrCat(kTrainDigits, "--allow-change=optimizer --steps=3 --resume=", Run1(), " --optimizer=", optimizer);
  };
  const Result r = Run(flags("nesterov"));
  EXPECT_EQ(r.code, 0) << r.err;
  ExpectError(flags("krizhevsky"), 65, {"optimizer: pytorch → krizhevsky", "--init="});
}

// What cannot go on is not told to be allowed.
TEST_F(Checkpointed, OfAnotherStateOnlyTheWeightsAreOffered) {
  TrainSteps(2);
  for (const char* flags : {"--width=0.5", "--freeze=conv1", "--optimizer=adamw", "--optimizer=pytorch", "--classes=12",
                            "--optimizer=adamw --allow-change=optimizer"}) {
    const Result r = Run(absl::StrCat("train --model=two_column --data=digits ",
                                      absl::StartsWith(flags, "--width") ? "" : "--width=0.25 ", "--steps=3 ", flags,
                                      " --resume=", Run1()));
    EXPECT_EQ(r.code, 65) << flags;
    EXPECT_THAT(r.err, HasSubstr(absl::StrCat("--init=", At(2), "/weights.safetensors"))) << flags;
    EXPECT_THAT(r.err, Not(HasSubstr("--allow-change"))) << flags;
  }
}

TEST_F(Checkpointed, ARefusedRunLeavesTheFolderAsItWas) {
  TrainSteps(2);
  const std::string config = *engine::ReadFile(Run1() + "/config.toml");
  ExpectError(absl::StrCat(kTrainDigits, "--steps=3 --batch=32 --resume --checkpoint=", Run1()), 65, {"batch"});
  EXPECT_EQ(*engine::ReadFile(Run1() + "/config.toml"), config);
  // Checkpoints of another run may not stand beside these.
  ASSERT_EQ(Run(absl::StrCat(kTrainDigits, "--steps=4 --checkpoint=", In("other"))).code, 0);
  ExpectError(absl::StrCat(kTrainDigits, "--steps=5 --resume=", In("other"), " --checkpoint=", Run1()), 2,
              {"--checkpoint: expected a folder without checkpoints"});
}

TEST_F(Checkpointed, FlagsThatContradictEachOtherOrTheFolder) {
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --resume"), 2, {"--resume", "--checkpoint=DIR"});
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --checkpoint-every=3"), 2, {"--checkpoint"});
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --allow-change=lr"), 2, {"--allow-change", "--resume"});
  for (const char* bad : {"0", "x", "3s", "0m", "-1", "1.5m"}) {
    ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --checkpoint=c --checkpoint-every=", bad), 2,
                {"--checkpoint-every", bad});
  }
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --resume=", In("none")), 66, {In("none")});
  std::filesystem::create_directory(In("empty"));
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --resume=", In("empty")), 66, {In("empty"), "found none"});
  TrainSteps(2);
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --checkpoint=", Run1()), 2, {"--checkpoint", "step 2", "--resume"});
  for (const char* resume : {"", " --resume"}) {
    ExpectError(
        absl::StrCat(kTrainDigits, "--steps=3 --checkpoint=", At(2), resume), 2,
        {"--checkpoint: expected the folder of a run", absl::StrCat("--resume=", At(2), " goes on from this checkpoint")});
  }
  EXPECT_FALSE(std::filesystem::exists(At(2) + "/lock"));
  Write("empty/manifest.json", R"({"name": "a page"})");
  EXPECT_EQ(Run(absl::StrCat(kTrainDigits, "--steps=1 --checkpoint=", In("empty"))).code, 0) << "another program's";
  // To turn back in the same folder would leave later checkpoints of a run that is no more.
  const std::string back = absl::StrCat(kTrainDigits, "--steps=3 --resume=", At(1), " --checkpoint=");
  ExpectError(absl::StrCat(back, Run1()), 2, {"later than step 1", "step 2"});
  EXPECT_EQ(Run(absl::StrCat(back, In("other"))).code, 0);
  EXPECT_THAT(*engine::CheckpointSteps(In("other")), ElementsAre(3));
}

}  // namespace
}  // namespace colonnade::cli
