// train --checkpoint and --resume, and the sub-command checkpoint, as a user meets them.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/training/checkpointing.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/checkpointed.h"

namespace colonnade::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(Checkpointed, AResumedRunIsTheRunThatNeverStopped) {
  const Result whole = Train(absl::StrCat("--steps=9 --json --save=", In("a")));
  ASSERT_EQ(whole.code, 0) << whole.err;
  ASSERT_EQ(Train(absl::StrCat("--steps=4 --checkpoint=", Run1())).code, 0);
  EXPECT_THAT(Steps(), ElementsAre(4));
  const Result rest = Train(absl::StrCat("--steps=9 --json --resume --checkpoint=", Run1(), " --save=", In("b")));
  ASSERT_EQ(rest.code, 0) << rest.err;
  const json a = json::parse(whole.out), b = json::parse(rest.out);
  EXPECT_EQ(b["first_step"], 4);
  EXPECT_EQ(b["losses"], std::vector<double>(a["losses"].begin() + 4, a["losses"].end()));
  EXPECT_EQ(b["test"], a["test"]);
  EXPECT_EQ(*engine::ReadFile(In("a")), *engine::ReadFile(In("b")));
  EXPECT_EQ(b["checkpoints"]["resumed_from"], At(4));
  EXPECT_EQ(b["checkpoints"]["last_step"], 9);
  EXPECT_THAT(rest.err, HasSubstr("resumed from"));
  EXPECT_THAT(Steps(), ElementsAre(4, 9));
}

TEST_F(Checkpointed, StepsAreCountedInAllAndSinceTheRunWasResumed) {
  ASSERT_EQ(Train(absl::StrCat("--steps=4 --checkpoint=", Run1())).code, 0);
  const Result rest = Train(absl::StrCat("--steps=9 --resume --checkpoint=", Run1(), " --report=", In("r.html")));
  EXPECT_THAT(rest.err, HasSubstr(", 9 steps in all, of which 4 are done\n"));
  EXPECT_THAT(rest.out, HasSubstr("steps 9, of which 5 since it was resumed  loss "));
  EXPECT_THAT(*engine::ReadFile(In("r.html")), HasSubstr("9, of which 5 since it was resumed"));
  const Result done = Train(absl::StrCat("--steps=2 --resume --checkpoint=", Run1()));
  EXPECT_THAT(done.err, HasSubstr(", 2 steps in all, 9 done\n"));
}

TEST_F(Checkpointed, AnotherPlanGoesOn) {
  const json whole = json::parse(Train("--steps=9 --json").out);
  ASSERT_EQ(Train(absl::StrCat("--steps=4 --checkpoint=", Run1())).code, 0);
  const Result rest = Train(absl::StrCat("--steps=9 --json --plan=hybrid --devices=4 --resume=", Run1()));
  ASSERT_EQ(rest.code, 0) << rest.err;
  const json losses = json::parse(rest.out)["losses"];
  ASSERT_EQ(losses.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(double(losses[i]) / double(whole["losses"][4 + i]), 1, 1e-4);
  EXPECT_TRUE(json::parse(rest.out)["checkpoints"].is_null());
  EXPECT_THAT(Steps(), ElementsAre(4)) << "--resume alone saves nothing";
}

TEST_F(Checkpointed, OneCommandLineBeginsAndGoesOn) {
  const std::string flags = absl::StrCat("--checkpoint=", Run1(), " --resume --steps=");
  const Result first = Train(absl::StrCat(flags, 3));
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("from the beginning"));
  EXPECT_EQ(Train(absl::StrCat(flags, 5)).code, 0);
  const Result done = Train(absl::StrCat(flags, 5));
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("5 steps are done, 5 asked for: nothing is left to do"));
  const Result last = Train(absl::StrCat(flags, "5 --json"));
  EXPECT_GT(json::parse(last.out)["checkpoints"]["bytes"], 1000) << last.err;
  const Result fewer = Train(absl::StrCat("--batch=1437 --steps=3 --checkpoint=", In("whole"))),
               epochs = Train(absl::StrCat("--batch=1437 --epochs=2 --resume --checkpoint=", In("whole")));
  EXPECT_EQ(fewer.code, 0) << fewer.err;
  EXPECT_THAT(epochs.err, HasSubstr("3 epochs are done, 2 asked for: nothing is left to do"));
  EXPECT_THAT(done.out, HasSubstr("test: top-1"));
  EXPECT_THAT(Steps(), ElementsAre(3, 5));
}

TEST_F(Checkpointed, EveryNStepsTheLastAreKept) {
  const Result r =
      Train(absl::StrCat("--steps=11 --json --checkpoint-every=2 --checkpoint-keep=2 --lr=0 --checkpoint=", Run1()));
  ASSERT_EQ(r.code, 0) << r.err;
  const json saved = json::parse(r.out)["checkpoints"];
  EXPECT_EQ(saved["saved"], 6);
  EXPECT_EQ(saved["failed"], 0);
  const json shown = json::parse(Run(absl::StrCat("checkpoint show --json ", Run1())).out)["checkpoints"];
  EXPECT_EQ(saved["bytes"], shown.back()["bytes"]);
  const std::vector<int64_t> steps = Steps();
  EXPECT_GE(steps.size(), 2u);
  EXPECT_LE(steps.size(), 3u) << "the last two, and the best";
  EXPECT_EQ(steps.back(), 11);
  EXPECT_EQ(steps[steps.size() - 2], 10);
  ExpectAllGood();
}

// The four files of a data set: `count` images of 8x8 whose pixels are those of `seed`.
void WriteImages(const std::string& folder, unsigned seed, int count = 40) {
  const auto number = [](int n) {
    return std::string{static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8),
                       static_cast<char>(n)};
  };
  std::filesystem::create_directories(folder);
  for (const char* part : {"train", "t10k"}) {
    std::mt19937 random(seed);
    std::string images = number(0x803) + number(count) + number(8) + number(8), labels = number(0x801) + number(count);
    for (int i = 0; i < count * 64; ++i) images += static_cast<char>(random() % 256);
    for (int i = 0; i < count; ++i) labels += static_cast<char>(i % 10);
    ASSERT_TRUE(engine::ReplaceFile(absl::StrCat(folder, "/", part, "-images-idx3-ubyte"), images).ok());
    ASSERT_TRUE(engine::ReplaceFile(absl::StrCat(folder, "/", part, "-labels-idx1-ubyte"), labels).ok());
  }
}

TEST_F(Checkpointed, DataAreKnownByWhatTheyAreNotByWhereTheyLie) {
  WriteImages(In("a"), 1);
  WriteImages(In("b"), 1);
  WriteImages(In("c"), 2);
  const auto train = [&](const char* data, const std::string& more) {
    return absl::StrCat("train --model=two_column --width=0.25 --batch=8 --data=", In(data), more, Run1());
  };
  ASSERT_EQ(Run(train("a", " --steps=2 --checkpoint=")).code, 0);
  const Result moved = Run(train("b", " --steps=3 --resume="));
  EXPECT_EQ(moved.code, 0) << moved.err;
  ExpectError(train("c", " --steps=3 --resume="), 65, {"data: 40 images [1,8,8], 10 classes, XXH3 "});
}

// 40 images, 4 epochs: 10 steps of 8 make two of them, and 5 of 16 the others.
TEST_F(Checkpointed, EpochsAreCountedInSamplesWhereTheBatchChanges) {
  WriteImages(In("a"), 1);
  const std::string train = absl::StrCat("train --model=two_column --width=0.25 --epochs=4 --json --data=", In("a"), " ");
  ASSERT_EQ(Run(absl::StrCat(train, "--batch=8 --epochs=2 --checkpoint=", Run1())).code, 2) << "--epochs twice";
  ASSERT_EQ(Run(absl::StrCat("train --model=two_column --width=0.25 --epochs=2 --batch=8 --data=", In("a"),
                             " --checkpoint=", Run1()))
                .code,
            0);
  const Result r = Run(absl::StrCat(train, "--batch=16 --allow-change=batch --resume --checkpoint=", Run1()));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out)["first_step"], 10);
  EXPECT_EQ(json::parse(r.out)["steps"], 5);
  EXPECT_EQ(engine::ReadManifest(At(15))->position.sample, 160);
}

// The policy is over the steps that the run has with its new batch, now and when it goes on once more.
TEST_F(Checkpointed, APolicyOverAllStepsEndsWithTheRunWhereTheBatchChanges) {
  WriteImages(In("a"), 1);
  const std::string train =
      absl::StrCat("train --model=two_column --width=0.25 --lr=0.5 --lr-policy=poly:1 --data=", In("a"), " ");
  const std::string saves = "--checkpoint-every=1 --checkpoint-keep=100 --checkpoint=";
  ASSERT_EQ(Run(absl::StrCat(train, "--epochs=4 --batch=8 ", saves, Run1())).code, 0);
  const std::string larger = absl::StrCat(train, "--epochs=4 --batch=16 ");
  ExpectError(absl::StrCat(larger, "--allow-change=batch --resume=", At(10)), 65,
              {"lr-policy: poly:1 over 20 steps → poly:1 over 15 steps"});
  const Result r = Run(absl::StrCat(larger, "--allow-change=batch,lr-policy --resume=", At(10), " ", saves, In("b"),
                                    " --log=", In("log.jsonl")));
  ASSERT_EQ(r.code, 0) << r.err;
  std::vector<double> rates;
  for (const absl::string_view line : absl::StrSplit(*engine::ReadFile(In("log.jsonl")), '\n', absl::SkipEmpty())) {
    const json record = json::parse(line);
    if (record.contains("lr") && record.contains("loss")) rates.push_back(record["lr"]);
  }
  ASSERT_EQ(rates.size(), 5u);
  for (size_t i = 0; i < rates.size(); ++i) EXPECT_NEAR(rates[i], 0.5 * (5 - static_cast<double>(i)) / 15, 1e-12);
  const Result again = Run(absl::StrCat(larger, "--resume=", In("b/step-000000012"), " --checkpoint=", In("c")));
  EXPECT_EQ(again.code, 0) << again.err;
  // A warm-up fits the steps that the run has, more than a run of such batches would have from its beginning.
  const std::string warm =
      absl::StrCat("train --model=two_column --width=0.25 --warm-up=11 --lr-policy=poly:1 --data=", In("a"), " --epochs=4 ");
  ASSERT_EQ(Run(absl::StrCat(warm, "--batch=8 ", saves, In("w"))).code, 0);
  const Result warmed =
      Run(absl::StrCat(warm, "--batch=16 --allow-change=batch,lr-policy --resume=", In("w/step-000000010")));
  EXPECT_EQ(warmed.code, 0) << warmed.err;
  ExpectError(absl::StrCat(warm, "--batch=16"), 2, {"--warm-up: expected fewer steps than the run's 10, found 11"});
}

TEST_F(Checkpointed, ARunThatHasNothingToDoLeavesItsFlagsAsTheyWere) {
  TrainSteps(3);
  const std::string config = *engine::ReadFile(Run1() + "/config.toml");
  const Result less = Train(absl::StrCat("--steps=2 --resume --checkpoint=", Run1()));
  EXPECT_EQ(less.code, 0) << less.err;
  EXPECT_THAT(less.err, HasSubstr("3 steps are done"));
  EXPECT_EQ(*engine::ReadFile(Run1() + "/config.toml"), config);
  const Result more = Train(absl::StrCat("--steps=4 --resume --checkpoint=", Run1()));
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_NE(*engine::ReadFile(Run1() + "/config.toml"), config);
  // A folder that is given the checkpoint of a run that has no steps left says what made it, too.
  ASSERT_EQ(Run(absl::StrCat(kTrainDigits, "--steps=1 --checkpoint=", In("old"))).code, 0);
  ASSERT_EQ(Run(absl::StrCat(kTrainDigits, "--steps=1 --checkpoint=", In("new"), " --resume=", In("old"))).code, 0);
  EXPECT_TRUE(std::filesystem::exists(In("new/config.toml")));
}

TEST_F(Checkpointed, AFolderMayBeNamedWithASlashBehindIt) {
  TrainSteps(2);
  const Result r = Train(absl::StrCat("--steps=3 --json --resume=", At(2), "/ --checkpoint=", Run1(), "/"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out)["first_step"], 2);
}

// From step 12 on the rate is so high that tests become worse.
TEST_F(Checkpointed, TheBestTestIsSavedAtOnceKeptAndStated) {
  const std::string train = absl::StrCat(
      "train --model=two_column --data=digits --batch=32 --lr-policy=multistep:12,20 "
      "--eval-every=3 --checkpoint-every=1000 --checkpoint-keep=1 --json --checkpoint=",
      Run1());
  const Result r = Run(absl::StrCat(train, " --steps=16"));
  ASSERT_EQ(r.code, 0) << r.err;
  const json trained = json::parse(r.out);
  json best = trained["evaluations"][0];
  for (const json& e : trained["evaluations"]) {
    if (e["test"]["top1"] > best["test"]["top1"]) best = e;
  }
  const int64_t best_step = best["step"];
  ASSERT_LE(best_step, 12);
  EXPECT_THAT(Steps(), ElementsAre(best_step, 16));
  const json shown = json::parse(Run(absl::StrCat("checkpoint show --json ", Run1())).out)["checkpoints"];
  EXPECT_EQ(shown[0]["test"]["top1"], best["test"]["top1"]);
  EXPECT_EQ(shown[0]["test"]["loss"], best["test"]["loss"]);
  EXPECT_EQ(shown[1]["test"]["loss"], trained["test"]["loss"]);
  // Tests of the run that goes on are worse than that one, though better than the one from which it goes on.
  const Result again = Run(absl::StrCat(train, " --steps=19 --resume"));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["checkpoints"]["saved"], 1);
  EXPECT_THAT(Steps(), ElementsAre(best_step, 19));
}

TEST_F(Checkpointed, AnUntestedOneFromWhichARunGoesOnGetsItsTestAndMayBeTheBest) {
  constexpr char kStill[] =
      "--optimizer=pytorch ";  // its rate stands outside of the momentum, so that with almost none nothing moves
  ASSERT_EQ(Train(absl::StrCat(kStill, "--steps=6 --checkpoint-every=1 --checkpoint=", Run1())).code, 0);
  std::filesystem::remove_all(At(6));  // the others were not tested
  const auto shown = [&] { return json::parse(Run(absl::StrCat("checkpoint show --json ", Run1())).out)["checkpoints"]; };
  ASSERT_TRUE(shown()[1]["test"].is_null());
  const std::string resume =
      absl::StrCat(kStill, "--json --resume --checkpoint-every=1000 --checkpoint-keep=1 --checkpoint=", Run1());
  const Result none = Train(absl::StrCat("--steps=5 ", resume));  // are left
  ASSERT_EQ(none.code, 0) << none.err;
  EXPECT_EQ(shown()[1]["test"]["loss"], json::parse(none.out)["test"]["loss"]);
  ExpectAllGood();
  // Later tests are no better than the one of the state from which the run goes on.
  std::filesystem::remove_all(At(5));
  const Result more =
      Train(absl::StrCat("--steps=7 --lr=1e-30 --allow-change=lr --eval-every=1 --until=top1:0.999 ", resume));
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_THAT(Steps(), ElementsAre(4, 7));
  EXPECT_EQ(shown()[0]["test"]["loss"], json::parse(more.out)["evaluations"][0]["test"]["loss"]);
}

// A state that is not saved in the folder makes no later one the worse for it.
TEST_F(Checkpointed, TheBestOfAFolderIsOneThatIsInIt) {
  ASSERT_EQ(Train(absl::StrCat("--optimizer=pytorch --steps=2 --checkpoint=", Run1())).code, 0);
  const Result r = Train(absl::StrCat(
      "--optimizer=pytorch --steps=5 --lr=1e-30 --allow-change=lr --eval-every=1 --until=top1:0.999 --resume=", Run1(),
      " --checkpoint-every=1000 --checkpoint-keep=1 --checkpoint=", In("other")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(*engine::CheckpointSteps(In("other")), ElementsAre(3, 5));
}

TEST(RoomNote, IsThereWhereNotAllThatMayBeAddedFit) {
  EXPECT_EQ(RoomNote(10'000'000, 50'000'000, 5), "");
  EXPECT_THAT(RoomNote(10'000'000, 49'999'999, 5),
              HasSubstr("room for 4 checkpoints of 10.0 MB more, but the run may add 5"));
  EXPECT_EQ(RoomNote(0, 0, 5), "");
}

TEST_F(Checkpointed, WhereFoldersAreNamedForWeightsTheFileIsSaid) {
  TrainSteps(2);
  const std::string eval = "eval --model=two_column --data=digits --width=0.25 --init=";
  ExpectError(absl::StrCat(eval, At(1)), 65, {absl::StrCat("--init=", At(1), "/weights.safetensors takes")});
  ExpectError(absl::StrCat("train --model=two_column --data=digits --width=0.25 --init=", Run1(), "/"), 65,
              {absl::StrCat("--init=", At(2), "/weights.safetensors takes the weights of its newest checkpoint")});
  EXPECT_EQ(Run(absl::StrCat(eval, At(2), "/weights.safetensors")).code, 0);
}

TEST_F(Checkpointed, MomentsAreNoWeights) {
  ASSERT_EQ(Train(absl::StrCat("--steps=1 --optimizer=adamw --checkpoint=", Run1())).code, 0);
  const auto is_refused = [&](const char* file, const std::string& what) {
    for (const char* command : {"eval", "train"}) {
      ExpectError(
          absl::StrCat(command, " --model=two_column --data=digits --width=0.25 --init=", At(1), "/", file), 65,
          {absl::StrCat(file, ": expected weights, found ", what, "; ", At(1), "/weights.safetensors has the weights")});
    }
  };
  is_refused("momentum.safetensors", "momenta");
  is_refused("second_moment.safetensors", "second moments");
}

TEST_F(Checkpointed, ShowVerifyAndExport) {
  TrainSteps(3);
  const Result show = Run(absl::StrCat("checkpoint show ", Run1()));
  EXPECT_EQ(show.code, 0) << show.err;
  EXPECT_THAT(show.out, HasSubstr(absl::StrCat(At(3), ": step 3, sample 192, mean loss ")));
  EXPECT_THAT(show.out, HasSubstr(" since the checkpoint before or the run's start, "));
  EXPECT_THAT(show.out, HasSubstr("written under single on 1 device"));
  const json all = json::parse(Run(absl::StrCat("checkpoint verify --json ", Run1())).out)["checkpoints"];
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2]["step"], 3);
  EXPECT_EQ(all[2]["good"], true);
  EXPECT_EQ(all[2]["run"]["batch"], "64");
  const json shown = json::parse(Run(absl::StrCat("checkpoint show --json ", Run1())).out)["checkpoints"];
  EXPECT_TRUE(shown[2]["good"].is_null()) << "nobody has looked";
  for (const char* own : {"/lock", "/config.toml"}) {
    ExpectError(absl::StrCat("checkpoint export ", Run1(), " --out=", Run1(), own), 2, {"--out", own});
  }
  const Result exported = Run(absl::StrCat("checkpoint export ", Run1(), " --out=", In("w.safetensors")));
  EXPECT_EQ(exported.code, 0) << exported.err;
  const json told = json::parse(Run(absl::StrCat("checkpoint export --json ", Run1(), " --out=", In("w.safetensors"))).out);
  EXPECT_EQ(told["step"], 3);
  EXPECT_EQ(told["out"], In("w.safetensors"));
  EXPECT_EQ(Run(absl::StrCat("eval --model=two_column --data=digits --width=0.25 --init=", In("w.safetensors"))).code, 0);
  ASSERT_TRUE(engine::ReplaceFile(At(2) + "/weights.safetensors", "x").ok());
  EXPECT_EQ(Run(absl::StrCat("checkpoint show ", Run1())).code, 0) << "manifests alone are read";
  const Result bad = Run(absl::StrCat("checkpoint verify ", Run1()));
  EXPECT_EQ(bad.code, 65);
  EXPECT_THAT(bad.out, HasSubstr(absl::StrCat(At(3), ": step 3")));
  EXPECT_THAT(bad.err, HasSubstr(At(2) + "/weights.safetensors"));
  const auto without_reader = [] {
    int ends[2];
    if (::pipe(ends) != 0 || ::dup2(ends[1], STDOUT_FILENO) < 0) std::_Exit(97);
    for (int end : ends) ::close(end);
  };
  EXPECT_THAT(Wait(Start(absl::StrCat("checkpoint verify ", Run1()), without_reader)).err,
              HasSubstr(At(2) + "/weights.safetensors"));
  if (std::filesystem::exists("/dev/full")) {
    const auto onto_full_disk = [] { (void)std::freopen("/dev/full", "w", stdout); };
    const Result lost = Wait(Start(absl::StrCat("checkpoint verify ", Run1()), onto_full_disk));
    EXPECT_EQ(lost.code, 65);
    EXPECT_THAT(lost.err, HasSubstr(At(2) + "/weights.safetensors"));
    EXPECT_THAT(lost.err,
                HasSubstr("\ncolonnade: cannot write the results to the standard output: No space left on device\n"));
  }
  ExpectError(absl::StrCat("checkpoint show ", In("none")), 66, {In("none")});
  ExpectError(absl::StrCat("checkpoint export ", Run1()), 2, {"--out"});
  ExpectError(absl::StrCat("checkpoint export --averages ", Run1(), " --out=", In("e")), 2,
              {"--averages", "found none in", "leave --averages out"});
  const std::string good = *engine::ReadFile(At(3) + "/weights.safetensors", int64_t{1} << 20);
  std::string damaged = good;
  damaged.back() ^= 1;
  const std::string of_another = *engine::ReadFile(At(1) + "/weights.safetensors", int64_t{1} << 20);
  for (const auto& [weights, why] :
       {std::pair{damaged, "safetensors: expected tensors of checksum"}, {of_another, "expected XXH3"}}) {
    ASSERT_TRUE(engine::ReplaceFile(At(3) + "/weights.safetensors", weights).ok());
    ExpectError(absl::StrCat("eval --model=two_column --data=digits --width=0.25 --init=", At(3), "/weights.safetensors"),
                65, {At(3) + "/weights.safetensors: ", why});
  }
  ASSERT_TRUE(engine::ReplaceFile(At(3) + "/weights.safetensors", good).ok());
  std::string manifest = *engine::ReadFile(At(3) + "/manifest.json", int64_t{1} << 20);
  manifest[manifest.find("\"sample\"") + 1] ^= 1;
  ASSERT_TRUE(engine::ReplaceFile(At(3) + "/manifest.json", manifest).ok());
  std::filesystem::create_symlink(At(3) + "/weights.safetensors", In("link"));
  ExpectError(absl::StrCat("eval --model=two_column --data=digits --width=0.25 --init=", In("link")), 65,
              {At(3) + "/manifest.json: "});
}

// What --save-ema writes is what a checkpoint of the last step has, whoever averaged on the way, and is what was tested.
TEST_F(Checkpointed, AveragesAreKeptTestedAndExported) {
  const std::string averaged = "--ema=0.5 --json ";
  const Result whole =
      Train(absl::StrCat(averaged, "--steps=6 --save=", In("raw"), " --save-ema=", In("whole"), " --checkpoint=", In("w")));
  ASSERT_EQ(whole.code, 0) << whole.err;
  ASSERT_EQ(Train(absl::StrCat(averaged, "--steps=3 --checkpoint=", Run1())).code, 0);
  const Result rest = Train(absl::StrCat(averaged, "--steps=6 --resume --checkpoint=", Run1()));
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(json::parse(rest.out)["test_ema"], json::parse(whole.out)["test_ema"]);
  EXPECT_NE(json::parse(whole.out)["test_ema"]["loss"], json::parse(whole.out)["test"]["loss"]);
  ASSERT_EQ(Run(absl::StrCat("checkpoint export --averages ", Run1(), " --out=", In("rest"))).code, 0);
  EXPECT_EQ(*engine::ReadFile(In("rest")), *engine::ReadFile(In("whole")));
  EXPECT_NE(*engine::ReadFile(In("raw")), *engine::ReadFile(In("whole")));
  const Result eval = Run(absl::StrCat("eval --model=two_column --data=digits --width=0.25 --json --init=", In("rest")));
  EXPECT_EQ(json::parse(eval.out)["test"]["top1"], json::parse(whole.out)["test_ema"]["top1"]) << eval.out;

  ExpectError(absl::StrCat(kTrainDigits, "--steps=7 --resume=", Run1()), 65, {"ema: 0.5 → (none)"});
  const Result without = Train(absl::StrCat("--steps=7 --json --allow-change=ema --resume --checkpoint=", Run1()));
  ASSERT_EQ(without.code, 0) << without.err;
  EXPECT_TRUE(json::parse(without.out)["test_ema"].is_null());
  const std::string saves = absl::StrCat(" --save=", In("a"), " --save-ema=", In("b"));
  const Result with = Train(absl::StrCat("--steps=7 --ema=0.25 --allow-change=ema --resume --checkpoint=", Run1(), saves));
  ASSERT_EQ(with.code, 0) << with.err;
  EXPECT_EQ(*engine::ReadFile(In("a")), *engine::ReadFile(In("b"))) << "averages begin with what was restored";
  const Result still = Train(absl::StrCat("--steps=2 --lr=0 --momentum=0 --ema=0.5 --init=", In("raw"), saves));
  ASSERT_EQ(still.code, 0) << still.err;
  EXPECT_EQ(*engine::ReadFile(In("a")), *engine::ReadFile(In("b"))) << "averages begin with what --init had";
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --save-ema=", In("x")), 2, {"--save-ema", "--ema"});
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --ema=1"), 2, {"--ema", "1"});
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --ema=0.5 --save=", In("x"), " --save-ema=", In("x")), 2,
              {"--save-ema"});
}

}  // namespace
}  // namespace colonnade::cli
