// The command as a process: what it prints, its exit codes, what it leaves behind.

#include "tests/cli/command.h"

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cpu/threads/cores.h"
#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "engine/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/load_weights.h"

namespace colonnade::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Command, TrainPrintsOneJsonObjectWithTheNamesThatScriptsRelyOn) {
  const Result r = Run(absl::StrCat(kTrainDigits, "--plan=hybrid --devices=4 --steps=4 --batch=32 --json"));
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  for (const char* key : {"model", "plan", "mesh", "devices", "backend", "dtype", "global_batch", "steps", "losses",
                          "images_per_s", "step_ms", "breakdown", "peak_memory_bytes", "test", "seconds"}) {
    EXPECT_TRUE(j.contains(key)) << key;
  }
  EXPECT_EQ(j["losses"].size(), 4u);
  EXPECT_EQ(j["mesh"]["replicas"], 2);
  EXPECT_EQ(j["mesh"]["columns"], 2);
  EXPECT_EQ(j["breakdown"].size(), 4u);
  EXPECT_EQ(j["peak_memory_bytes"].size(), 4u);
  EXPECT_EQ(j["test"]["count"], 360);
  EXPECT_THAT(r.err, HasSubstr("lr 0.01"));
}

TEST_F(Command, VerifyAgreesAndSaysHowClosely) {
  for (const char* rest : {"--plan=hybrid --devices=4", "--plan=owt --devices=2 --reduction=sharded",
                           "--plan=data --devices=3 --batch=33 --reduction=master --overlap=off",
                           "--plan=model --devices=2 --kernels=reference --batch=4"}) {
    const Result r = Run(absl::StrCat("verify --model=two_column --data=digits --width=0.5 --json ", rest));
    ASSERT_EQ(r.code, 0) << rest << r.err << r.out;
    const json j = json::parse(r.out);
    EXPECT_EQ(j["ok"], true) << rest;
    EXPECT_EQ(j["steps"], 3);
    EXPECT_TRUE(j["training_program_agrees"]);
    EXPECT_LE(j["error"]["loss"], j["tolerance"]["loss"]) << rest;
  }
}

TEST_F(Command, VerifyWantsAPlanOfSeveralDevices) {
  const std::string verify = "verify --model=two_column --data=digits --width=0.25 --steps=1 ";
  for (const char* plan : {"", "--plan=single", "--plan=data --devices=1"}) {
    const Result one = Run(verify + plan);
    EXPECT_EQ(one.code, 2) << plan;
    EXPECT_THAT(one.err, HasSubstr("--devices: expected 2 or more, since a plan is compared with one device, found 1"));
  }
  EXPECT_EQ(Run(verify + "--plan=data --devices=2").code, 0);
  const std::string plan = "plan --model=two_column --batch=64 --save-plan=" + In("plan.json");
  ASSERT_EQ(Run(plan).code, 0);
  for (const char* devices : {"", " --devices=1"}) {
    ExpectError(
        absl::StrCat(verify, "--plan=", In("plan.json"), devices), 2,
        {"--plan: expected a plan of 2 devices or more", "plan.json, a plan of one device, with which there is nothing"});
  }
  ASSERT_EQ(Run(plan + " --plan=data --devices=2").code, 0);
  EXPECT_EQ(Run(verify + "--plan=" + In("plan.json")).code, 0) << "the file says how many";
  ExpectError(verify + "--plan=" + In("none.json"), 66, {In("none.json")});
  ExpectError(verify + "--plan=hybird", 2, {"unknown plan \"hybird\""});
}

TEST_F(Command, ProgramPrintsTextThatNamesTheModel) {
  const Result r = Run("program --model=two_column --plan=model --devices=2 --batch=4");
  EXPECT_EQ(r.code, 0);
  EXPECT_THAT(r.out, HasSubstr("program two_column train"));
  const Result summary = Run("program --model=alexnet2012 --plan=model --devices=2 --summary");
  EXPECT_THAT(summary.out, HasSubstr("conv3"));
  EXPECT_EQ(summary.out.find("conv4"), std::string::npos);
}

TEST_F(Command, TheSummaryOfAProgramIsTheSameInJson) {
  const std::string summary = "program --model=alexnet2012 --plan=model --devices=2 --mode=eval --summary";
  const Result text = Run(summary), r = Run(absl::StrCat(summary, " --json"));
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_EQ(j["mode"], "eval");
  EXPECT_EQ(j["devices"], 2);
  ASSERT_EQ(j["per_device"].size(), 2);
  int64_t sent = 0, moved = 0;
  for (int d = 0; d < 2; ++d) {
    const json& device = j["per_device"][d];
    sent += device["sent_bytes"].get<int64_t>();
    EXPECT_THAT(text.out,
                HasSubstr(absl::StrFormat("\n%6d %8d %11.3f %11.3f\n", d, device["tasks"].get<int64_t>(),
                                          device["flops"].get<double>() / 1e9, device["sent_bytes"].get<double>() / 1e6)));
  }
  for (const json& move : j["moves"]) {
    moved += move["sent_bytes"].get<int64_t>();
    EXPECT_GT(move["tasks"], 0);
    EXPECT_THAT(text.out, HasSubstr(absl::StrFormat("\n%-9s %-20s %-15s %6.3f\n", move["pass"].get<std::string>(),
                                                    move["layer"].get<std::string>(), move["kind"].get<std::string>(),
                                                    move["sent_bytes"].get<double>() / 1e6)));
  }
  EXPECT_GT(moved, 0);
  EXPECT_EQ(moved, sent);
  ExpectError("program --model=lenet --json", 2, {"--json", "--summary"});
}

// vgg16 and its gradients, momenta and activations do not fit into a GTX Titan; what evaluation keeps does.
TEST_F(Command, AnAutomaticPlanIsForTheModeThatIsAskedFor) {
  const char kAuto[] = "program --model=vgg16 --batch=128 --plan=auto --machine=titan-2013 --summary --mode=";
  ExpectError(absl::StrCat(kAuto, "train"), 12, {"no plan fits on 1 device of machine"});
  const Result r = Run(absl::StrCat(kAuto, "eval"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("nothing moves between devices"));
}

// No flag of what runs it: nothing of it would be seen.
TEST_F(Command, AProgramTakesTheFlagsThatAreSeenInIt) {
  EXPECT_THAT(Run("program --model=lenet --batch=4 --dtype=bf16").out, HasSubstr("dtype=bf16"));
  EXPECT_THAT(Run("program --model=lenet --batch=4 --kernels=reference").out, HasSubstr("dtype=f64"));
  for (const char* flag : {"--backend=cpu", "--threads-per-device=1", "--deterministic"}) {
    ExpectError(absl::StrCat("program --model=lenet --batch=4 ", flag), 2, {flag});
  }
}

TEST_F(Command, ModelListNamesThemWithParameters) {
  const Result r = Run("train --model=list");
  EXPECT_EQ(r.code, 0);
  EXPECT_THAT(r.out, HasSubstr("alexnet2012"));
  EXPECT_THAT(r.out, HasSubstr("60965224"));
  EXPECT_EQ(Run("eval --model=list").code, 0) << "without the weights that eval needs";
  ExpectError("eval --model=list --nonsense=3", 2, {"--nonsense"});
}

// Notes that need no answer, and that no other test waits for.
TEST_F(Command, WhatMayNotBeMeantIsNoted) {
  const Result trained = Run(absl::StrCat(kTrainDigits, "--steps=1 --save=", In("w")));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Result eval = Run(absl::StrCat("eval --model=two_column --data=digits --width=0.25 --batch=2000 --init=", In("w")));
  EXPECT_THAT(eval.err, HasSubstr("note: a batch of 2000 is computed for 360 images"));
  std::filesystem::copy_file(absl::StrCat(kSourceDir, "/bench/machines/cpu-2core.json"), In("m.json"));
  const std::string two = absl::StrCat(kTrainDigits, "--steps=1 --threads-per-device=2 --machine=", In("m.json"));
  const int core = cpu::CoresOfProcess().front();
  EXPECT_THAT(Wait(Start(two, [&] { cpu::KeepToCores({core}); })).err,
              AllOf(HasSubstr("note: a device's 2 threads share 1 usable core and"),
                    HasSubstr("no predicted times: profiles are of --threads-per-device=")));
  const std::string plan = "plan --model=lenet --machine=titan-2013 --draws=";
  EXPECT_THAT(Run(plan + "10").out, HasSubstr("10 draws (too few for an interval of 90 %)"));
  EXPECT_THAT(Run(plan + "20").out, HasSubstr("90 % of 20 draws"));
}

TEST_F(Command, AMeanOf0To255IsRefused) {
  for (const char* mean : {"123.7", "1.5", "-1.01"}) {
    ExpectError(
        absl::StrCat(kTrainDigits, "--steps=1 --mean=", mean), 2,
        {"--mean: expected a number from -1 to 1, since pixels are scaled to 0..1", "divide what is of 0..255 by 255"});
  }
  for (const char* mean : {"1", "-1", "0.485"}) {
    EXPECT_EQ(Run(absl::StrCat(kTrainDigits, "--steps=1 --mean=", mean)).code, 0) << mean;
  }
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --mean=inf"), 2, {"--mean: expected a number from -1 to 1, found"});
}

TEST_F(Command, HelpEndsWithTwoExamples) {
  for (const std::string& sub : AllCommands()) {
    const Result r = Run(absl::StrCat(sub, " --help"));
    EXPECT_EQ(r.code, 0) << sub;
    const std::set<std::string> flags = FlagsOfHelp(r.out);
    const std::vector<std::string> examples = ExamplesOfHelp(r.out);
    for (const std::string& line : examples) {
      EXPECT_EQ(line.rfind(absl::StrCat("  colonnade ", sub), 0), 0u) << line;
      for (const std::string& word : std::vector<std::string>(absl::StrSplit(line, ' ', absl::SkipEmpty()))) {
        if (word.rfind("--", 0) != 0) continue;
        EXPECT_THAT(flags, ::testing::Contains(word.substr(0, word.find('=')))) << "a flag of an example of " << sub;
      }
    }
    EXPECT_GE(examples.size(), 2u) << sub;
  }
}

TEST_F(Command, VersionIsPrinted) {
  const Result r = Run("--version");
  EXPECT_EQ(r.code, 0);
  if (std::filesystem::exists("/dev/full")) {
    for (const char* words : {"--version", "models"}) {
      const auto onto_full_disk = [] { (void)std::freopen("/dev/full", "w", stdout); };
      const Result full = Wait(Start(words, onto_full_disk));
      EXPECT_EQ(full.code, 74) << words;
      EXPECT_THAT(full.err, HasSubstr("cannot write the results to the standard output: No space left on device\n"));
    }
  }
  EXPECT_THAT(r.out, ::testing::MatchesRegex("colonnade [0-9]+\\.[0-9]+\\.[0-9]+( \\([-.0-9a-z]+\\))?\n"));
}

TEST_F(Command, SuggestionsAreWhatWasMeantOrNone) {
  const std::vector<std::pair<std::string, std::string>> meant = {{"plan --model=lenet --save=x", "--save-plan"},
                                                                  {"train --model=lenet --divices=2", "--devices"},
                                                                  {"train --model=lenet --eval=2", "--eval-every"}};
  for (const auto& [command, flag] : meant) ExpectError(command, 2, {absl::StrCat("did you mean \"", flag, "\"?")});
  const Result none = Run("plan --model=lenet --data=digits");
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err.find("did you mean"), std::string::npos) << none.err;
  ExpectError("--model=lenet train", 2, {"sub-command train first", "--model=lenet"});
  ExpectError("train --model=lenet --data=digits", 2,
              {"--model=two_column takes such images; --pad=10 makes such images of them"});
  ExpectError("train --model=two_column --backend=cuda --cuda-graphs=on --trace=t.json", 2,
              {"--trace: tasks of steps that are CUDA graphs are not timed; take --cuda-graphs=auto"});
}

// As scripts write numbers of one width; C reads them in base 8.
TEST_F(Command, NumbersWithZerosBeforeThemAreDecimal) {
  const std::string train = "train --model=two_column --data=digits --json --steps=002 --batch=";
  const json report = json::parse(Run(train + "0100").out);
  EXPECT_EQ(report["global_batch"], 100);
  EXPECT_EQ(report["steps"], 2);
  for (const char* seed : {"0", "00", "08"}) EXPECT_EQ(Run(absl::StrCat(train, "16 --seed=", seed)).code, 0) << seed;
  ExpectError(train + "0.5", 2, {"--batch: expected a whole number from 1", "found \"0.5\""});
  ExpectError(train + "00x10", 2, {"in decimal digits, found \"00x10\""});
  ExpectError(train + "0x10", 2, {"--batch: expected a whole number in decimal digits, found \"0x10\""});
  ExpectError(train + "-01", 2, {"--batch: expected a whole number from 1", "found \"-1\""});
}

TEST_F(Command, ValuesThatAreNoneAreAnsweredWithWhatIsExpected) {
  ExpectError("train --model=lenet --batch=1e3", 2,
              {"--batch: expected a whole number from 1 to 1073741824, found \"1e3\""});
  ExpectError("train --model=lenet --mean= --steps=1", 2, {"--mean=: expected a value behind it, found none"});
  ExpectError("train --model=lenet --dropout=0.5", 2, {"--dropout: expected one of on, off, found \"0.5\""});
  ExpectError("train --model=lenet --deterministic=maybe", 2,
              {"--deterministic: expected another kind of value, found \"maybe\""});
  ExpectError("train --model=lenet --label-smoothing", 2, {"--label-smoothing: expected a value behind it, found none"});
  ExpectError("train --model=two_column --data=digits --mean=0.5,0.5", 2, {"--mean: expected one number"});
  ExpectError(
      "models vgg16_bn --zero-init-residual=on --width=0.5", 2,
      {"--zero-init-residual: expected a network whose residual branches end in batch normalisation, found vgg16_bn, "
       "which has none"});
  EXPECT_THAT(Run("models vgg16_bn --zero-init-residual=on --width=0.5").err, Not(HasSubstr("use another")));
  ExpectError(
      "train --model=two_column --data=digits --batch=64 --accumulate=64 --devices=2", 2,
      {"a global batch of 1",
       "these numbers are of micro-batches: --accumulate cuts the batch of 64 into 64, so a --batch is 64 times as large"});
  EXPECT_THAT(Run("train --model=two_column --data=digits --plan=dta --accumulate=2").err, Not(HasSubstr("micro-batches")));
  ExpectError("plan --model=alexnet --devices=4 --batch=64 --plan=auto --columns=2 --machine=dgx1-v100", 2,
              {"--columns: expected none beside --plan=auto"});
  Write("wrong.toml", "steps = \"1_0\"\n");
  ExpectError(absl::StrCat("train --model=lenet --config=", In("wrong.toml")), 65,
              {absl::StrCat(In("wrong.toml"), ": line 1: --steps: expected a whole number"), "1_0"});
  ExpectError("train --model=lenet --std=0", 2, {"--std: expected a number from 1e-40", "found \"0\""});
  ExpectError("train --model=two_column --data=digits --devices=1 --plan=hybrid", 2,
              {"found 2 columns on 1 device; use another number of either"});
}

TEST_F(Command, TwoRunsGiveEqualBits) {
  for (const char* plan : {"--plan=single", "--plan=model --devices=2", "--plan=hybrid --devices=4"}) {
    const Result a = Run(absl::StrCat(kTrainDigits, plan, " --steps=12 --json --save=", In("a.safetensors")));
    const Result b = Run(absl::StrCat(kTrainDigits, plan, " --steps=12 --json --save=", In("b.safetensors")));
    ASSERT_EQ(a.code, 0) << a.err;
    ASSERT_EQ(b.code, 0) << b.err;
    EXPECT_EQ(json::parse(a.out)["losses"], json::parse(b.out)["losses"]) << plan;
    EXPECT_EQ(*engine::ReadFile(In("a.safetensors")), *engine::ReadFile(In("b.safetensors"))) << plan;
  }
}

TEST_F(Command, ImagesThatZerosWouldMakeLargeEnoughNameThePadding) {
  ExpectError("train --model=two_column --data=digits --input-size=12", 2,
              {"takes images [1,12,12]", "has [1,8,8]", "; --pad=2 makes such images of them"});
  ExpectError("verify --model=two_column --devices=2 --data=digits --input-size=12 --pad=5", 2,
              {"digits train padded by 5 has [1,18,18]", "; --pad=2 makes such images of them"});
  for (const char* other : {"--input-size=11", "--input-size=12 --channels=3", "--input-size=6"}) {
    const Result r = Run(absl::StrCat("train --model=two_column --data=digits ", other));
    EXPECT_EQ(r.code, 2) << other;
    EXPECT_EQ(r.err.find("--pad"), std::string::npos) << r.err;
  }
}

TEST_F(Command, PaddedImagesAreTrainedTestedAndVerified) {
  const std::string padded = "--model=two_column --data=digits --width=0.25 --input-size=12 --pad=2 --batch=60 ";
  const Result trained =
      Run(absl::StrCat("train ", padded, "--plan=model --devices=2 --steps=4 --json --save=", In("w.safetensors")));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("data digits train padded by 2: 1437 images [1,12,12]"));
  const Result tested = Run(absl::StrCat("eval ", padded, "--plan=model --devices=2 --json --init=", In("w.safetensors")));
  ASSERT_EQ(tested.code, 0) << tested.err;
  EXPECT_EQ(json::parse(tested.out)["test"], json::parse(trained.out)["test"]);
  const Result verified = Run(absl::StrCat("verify ", padded, "--plan=data --devices=2 --steps=1"));
  EXPECT_EQ(verified.code, 0) << verified.err;
}

TEST_F(Command, SavedWeightsTestAlikeUnderAnotherPlan) {
  const Result trained =
      Run(absl::StrCat(kTrainDigits, "--plan=hybrid --devices=4 --epochs=1 --json --save=", In("w.safetensors")));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const json expected = json::parse(trained.out)["test"];
  for (const char* plan : {"--plan=single", "--plan=model --devices=2 --batch=50"}) {
    const Result r = Run(
        absl::StrCat("eval --model=two_column --data=digits --width=0.25 --json --init=", In("w.safetensors"), " ", plan));
    ASSERT_EQ(r.code, 0) << r.err;
    const json j = json::parse(r.out);
    EXPECT_EQ(j["test"]["count"], 360);
    EXPECT_NEAR(j["test"]["top1"].get<double>(), expected["top1"].get<double>(), 1.0 / 360);
    EXPECT_GT(j["images_per_s"].get<double>(), 0);
    EXPECT_THAT(r.err, HasSubstr(absl::StrCat("weights ", In("w.safetensors"), "\n")));
  }
  ExpectError(absl::StrCat("eval --model=two_column --data=digits --init=", In("w.safetensors")), 65,
              {"w.safetensors", "expected shape"});
}

TEST_F(Command, TraceIsChromeJson) {
  const Result r = Run(absl::StrCat(kTrainDigits, "--plan=model --devices=2 --steps=3 --trace=", In("t.json")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(json::parse(*engine::ReadFile(In("t.json"))).contains("traceEvents"));
}

TEST_F(Command, ATraceOfNoStepIsANote) {
  const std::string train = absl::StrCat(kTrainDigits, "--steps=1 --resume --checkpoint=", In("run"));
  ASSERT_EQ(Run(train).code, 0);
  const Result r = Run(absl::StrCat(train, " --trace=", In("t.json")));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("note: --trace: no timeline is written, since no step was made"));
}

TEST_F(Command, InterruptEndsAfterTheStepWithWhatIsKnown) {
  const pid_t child = Start(absl::StrCat(kTrainDigits, "--epochs=100000 --json --save=", In("w.safetensors")));
  AwaitMessage("step ");
  ::kill(child, SIGINT);
  const Result r = Wait(child);
  EXPECT_EQ(r.code, 130) << r.err;
  EXPECT_GT(json::parse(r.out)["losses"].size(), 0u);
  EXPECT_TRUE(engine::LoadWeights(In("w.safetensors")).ok());
}

TEST_F(Command, InterruptEndsVerifyAtOnce) {
  const pid_t child = Start("verify --model=two_column --data=digits --plan=hybrid --devices=4 --steps=100000000 --json");
  AwaitMessage("data ");
  ::kill(child, SIGINT);
  const Result r = Wait(child);
  EXPECT_EQ(r.code, 130);
  EXPECT_EQ(r.out, "");
}

TEST_F(Command, WhatOverflowsInTheLastUpdateIs21AndSavesNothing) {
  ExpectError(absl::StrCat(kTrainDigits, "--lr=1e38 --steps=1 --save=", In("w.safetensors")), 21, {"not finite"});
  EXPECT_FALSE(std::filesystem::exists(In("w.safetensors")));
}

TEST_F(Command, FirstLinesSayWhatIsTrainedOnWhatAndHow) {
  const Result r = Run(absl::StrCat(kTrainDigits, "--plan=hybrid --devices=4 --steps=2 --mean=0.25 --lr-policy=step:5,0.5"));
  ASSERT_EQ(r.code, 0) << r.err;
  for (const char* part :
       {"model two_column", "plan hybrid: 2 x 2", "4 CPU devices", "digits train: 1437 images", "mean 0.25, std 0.3",
        "shifted", "lr 0.01 (step:5,0.5)", "momentum 0.9", "global batch 64", "2 steps"}) {
    EXPECT_THAT(r.err, HasSubstr(part));
  }
}

TEST_F(Command, NotFiniteIs21AndSavesNothing) {
  ExpectError(absl::StrCat(kTrainDigits, "--plan=data --devices=2 --lr=1e30 --steps=50 --save=", In("w.safetensors")), 21,
              {"step ", "not finite", "layer", "device"});
  EXPECT_FALSE(std::filesystem::exists(In("w.safetensors")));
}

TEST_F(Command, ATrainingThatFailsPrintsWhatThereIsOfIt) {
  const Result r =
      Run(absl::StrCat(kTrainDigits, "--lr=0.01 --lr-policy=multistep:6,1e30 --steps=50 --json --report=", In("r.html")));
  EXPECT_EQ(r.code, 21) << r.err;
  const json found = json::parse(r.out);
  EXPECT_THAT(found["error"].get<std::string>(), AllOf(HasSubstr("step "), HasSubstr("not finite")));
  EXPECT_GE(found["steps"], 6);
  EXPECT_LT(found["steps"], 20);
  EXPECT_EQ(found["losses"].size(), found["steps"]);
  EXPECT_GT(found["images_per_s"], 0);
  EXPECT_THAT(*engine::ReadFile(In("r.html")), AllOf(HasSubstr("not finite"), HasSubstr("training loss")));
  const Result good = Run(absl::StrCat(kTrainDigits, "--steps=1 --json"));
  EXPECT_TRUE(json::parse(good.out)["error"].is_null()) << good.out;
}

// Random images test as random guesses do, and what is not kept is gone.
TEST_F(Command, NotesSayWhatIsNoiseAndWhatIsNotKept) {
  const std::string noise = "synthetic images are noise, so that accuracies mean nothing", gone = "is trained here is kept";
  const std::string train = "train --model=two_column --width=0.25 --steps=1 ", save = "--save=" + In("w");
  EXPECT_THAT(Run(train).err, AllOf(HasSubstr(noise), Not(HasSubstr(gone))));
  EXPECT_THAT(Run(train + "--data=digits").err, AllOf(Not(HasSubstr(noise)), HasSubstr(gone)));
  EXPECT_THAT(Run(train + "--data=digits " + save).err, Not(HasSubstr(gone)));
  const std::string eval = "eval --model=two_column --width=0.25 --init=" + In("w");
  EXPECT_THAT(Run(eval).err, HasSubstr(noise));
  EXPECT_THAT(Run(eval + " --data=digits").err, Not(HasSubstr(noise)));
}

TEST_F(Command, NamesThatATerminalWouldObeyAreEscaped) {
  const std::string file = In("a\x1b[2Jb\ncolonnade:ok"), shown = In(R"(a\033[2Jb\ncolonnade:ok)");
  ExpectError(absl::StrCat("eval --model=lenet --init=", file), 66, {shown});
  ExpectError("train --model=lenet --steps=\x1b[2J", 2, {R"(\033[2J)"});
  ExpectError("train --model=le\x1b[2Jnet", 2, {R"(\033[2J)"});
  ExpectError("tra\x1bin", 2, {R"(\033)"});
  const std::string machine = In("m\x1b[2J.json");
  std::filesystem::copy_file(absl::StrCat(kSourceDir, "/bench/machines/titan-2013.json"), machine);
  const Result r = Run(absl::StrCat("plan --draws=0 --model=lenet --machine=", machine));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr(R"(m\033[2J.json): )"));
  EXPECT_THAT(absl::StrCat(r.out, r.err), Not(HasSubstr("\x1b")));
}

TEST_F(Command, AReportIsNoFileOfAnotherKind) {
  for (const char* name : {"r.pdf", "r.json", "r.PNG"}) {
    ExpectError(absl::StrCat("plan --model=lenet --report=", In(name)), 2, {"--report: expected the name of an HTML file"});
  }
}

TEST_F(Command, NoCudaIs69) {
  ExpectError("table --dtype=tf32", 2, {"--dtype=tf32", "--backend=cuda"});
  ExpectError("table --collectives=nccl", 2, {"--collectives=nccl", "--backend=cuda"});
  ExpectError(absl::StrCat(kTrainDigits, "--backend=cpu --search-algorithms=", In("found.json")), 2,
              {"--search-algorithms", "--backend=cuda"});
  ExpectError("calibrate --backend=cuda", 2, {"--out=FILE"});
  if (Run(absl::StrCat(kTrainDigits, "--backend=cuda --steps=1")).code == 0) GTEST_SKIP() << "there is a GPU";
  ExpectError(absl::StrCat(kTrainDigits, "--backend=cuda"), 69, {"CUDA", "use --backend=cpu"});
  ExpectError("table --backend=cuda", 69, {"CUDA", "use --backend=cpu"});
  ExpectError(absl::StrCat("calibrate --backend=cuda --out=", In("gpus.json")), 69, {"CUDA", "use --backend=cpu"});
}

TEST_F(Command, MissingFilesAre66) {
  ExpectError("train --model=lenet --data=no/such/folder", 66, {"no/such/folder"});
  ExpectError(absl::StrCat("train --model=lenet --data=", path_), 66, {"train-images-idx3-ubyte", ".gz"});
  ExpectError(absl::StrCat(kTrainDigits, "--plan=", In("none.json")), 66, {"none.json"});
  ExpectError(absl::StrCat(kTrainDigits, "--init=", In("none.safetensors")), 66, {"none.safetensors"});
}

std::string Word(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

TEST_F(Command, WrongDataIs65) {
  const std::string images = Word(0x803) + Word(4) + Word(8) + Word(8) + std::string(4 * 64, 'x');
  auto labels = [](char last) { return Word(0x801) + Word(4) + std::string({0, 1, 2, last}); };
  auto with = [&](const std::string& i, const std::string& l, const std::vector<std::string>& parts) {
    for (const char* prefix : {"train", "t10k"}) {
      Write(absl::StrCat(prefix, "-images-idx3-ubyte"), i);
      Write(absl::StrCat(prefix, "-labels-idx1-ubyte"), l);
    }
    ExpectError(absl::StrCat("train --model=two_column --steps=1 --batch=4 --data=", path_), 65, parts);
  };
  with(images.substr(0, images.size() - 1), labels(3), {"images-idx3-ubyte", "expected 256 bytes", "found 255"});
  with("not an IDX file at all", labels(3), {"expected an IDX file", "magic"});
  with(images, labels(10), {"labels-idx1-ubyte", "sample 3", "10 classes", "found 10"});
  with(images, Word(0x801) + Word(3) + std::string(3, '\0'), {"expected 4 labels"});
}

TEST_F(Command, AnUnwritableOutputIs74BeforeAnythingIsTrained) {
  Write("file", "x");
  for (const char* flag : {"--save=", "--trace="}) {
    const Result r = Run(absl::StrCat(kTrainDigits, "--steps=100000000 ", flag, In("file"), "/below"));
    EXPECT_EQ(r.code, 74) << r.err;
    EXPECT_THAT(r.err, HasSubstr("cannot write"));
  }
}

}  // namespace
}  // namespace colonnade::cli
