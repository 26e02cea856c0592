// --config: what a file may say, what wins, and that what is written down runs the same again.

#include "cli/command_line/config.h"

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"
#include "tests/cli/shell.h"

namespace colonnade::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr char kNarrowTraining[] = "train --model=two_column --data=digits --width=0.25";

class Config : public Command {
 protected:
  std::string Flag() const { return absl::StrCat("--config=", In("run.toml")); }
  json Train(const std::string& flags) const {
    const Result r = Run(absl::StrCat("train ", flags));
    EXPECT_EQ(r.code, 0) << r.err;
    return json::parse(r.out, nullptr, false);
  }
};

TEST_F(Config, GivesFlagsAndTheCommandLineWins) {
  Write("run.toml",
        "\xEF\xBB\xBF# a comment: ü 'ü\nmodel = \"two_column\"\ndata = \"digits\"\nwidth = 0.25\nsteps = 3\njson = "
        "true\nmean = [0.25]\n"
        "[train]  # alone\nbatch = 0x20\n[eval]\nbatch = 16\n");
  const json found = Train(Flag());
  const json same = Train("--model=two_column --data=digits --width=0.25 --steps=3 --json --mean=0.25 --batch=32");
  EXPECT_EQ(found["losses"], same["losses"]);
  EXPECT_EQ(found["global_batch"], 32);
  EXPECT_EQ(Train(Flag() + " --steps=2")["steps"], 2);
  EXPECT_EQ(Train(Flag() + " --epochs=1")["steps"], 45) << "1437 samples by batches of 32, whatever the file's steps";
  EXPECT_EQ(Train(absl::StrCat("--config ", In("run.toml"), " --batch 8"))["global_batch"], 8);
}

TEST_F(Config, ASwitchThatIsFalseIsAsIfItWereNotGiven) {
  const std::string narrow = "model = \"two_column\"\ndata = \"digits\"\nwidth = 0.25\nsteps = 2\njson = true\n";
  Write("run.toml", narrow + "replace-head = false\n");  // which needs --init
  EXPECT_EQ(Train(Flag())["flags"]["replace-head"], false);
  Write("run.toml", narrow + "replace-head = true\n");
  ExpectError(absl::StrCat("train ", Flag()), 65, {"run.toml: line 6: ", "--init"});
}

TEST_F(Config, AKeyOfAnotherSubCommandIsLeftOut) {
  Write("run.toml", "model = \"lenet\"\nsteps = 4\nlr = 0.5\nsave = \"w\"\n");
  const Result r = Run(absl::StrCat("plan ", Flag()));
  EXPECT_EQ(r.code, 0) << r.err;
}

// A key means the same to all that take it: averages and warm-up of a training are none of export and io-bench.
TEST_F(Config, OneFileIsOfATrainingItsCheckpointsAndItsData) {
  Write("run.toml",
        absl::StrCat("model = \"two_column\"\ndata = \"digits\"\nwidth = 0.25\nsteps = 3\nema = 0.5\nwarm-up = 2\n",
                     "json = true\ncheckpoint = \"", In("run"), "\"\n"));
  ASSERT_EQ(Train(Flag())["steps"], 3);
  for (const char* averages : {"", " --averages"}) {
    const Result r = Run(absl::StrCat("checkpoint export ", In("run"), " --out=", In("w"), " ", Flag(), averages));
    EXPECT_EQ(r.code, 0) << averages << r.err;
  }
  const Result bench = Run(absl::StrCat("io-bench --threads=1 ", Flag()));
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_EQ(json::parse(bench.out)["count"], 1437);
}

TEST_F(Config, WhatNoFlagIsCalledIsNamedWithTheFile) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"\n bach = 3\n", {"run.toml: line 2: ", "\"bach\"", "did you mean \"batch\"?"}},
      {"lr = 1\n[trian]\nbatch = 3\n", {"run.toml: line 2: ", "sub-commands", "\"trian\""}},
      {"batch = 4\n\n[train]  # alone\nbatch = 3\n", {"run.toml: line 4: ", "\"batch\" twice"}},
      {"warm-up = 4\n[train]\nwarm-up = 3\n", {"run.toml: line 3: ", "\"warm-up\" twice"}},
      {"'lr' = 1\nlr = 3\n", {"run.toml: line 2: ", "expected TOML", "redefine", "'lr'"}},
      {"lr = 1\nsave = \"a\n", {"run.toml: line 2: ", "expected TOML"}},
      {"lr = 1979-05-27\n", {"run.toml: line 1: ", "expected text, a number", "\"lr\", found 1979-05-27"}},
      {"mean = [0.5, [0.5]]\n", {"run.toml: line 1: ", "expected text, a number", "\"mean\""}},
      {"[train.eval]\nlr = 1\n", {"run.toml: line 1: ", "sub-commands", "\"train.eval\""}},
      {"[[train]]\nlr = 1\n", {"run.toml: line 1: ", "sub-commands", "\"[[train]]\""}},
      {"lr = 1\nmodel = ünet\n", {"run.toml: line 2: ", "text in quotes"}},
      {"# ü\nsave = \"ü\\\"ü\" ü\n", {"run.toml: line 2: ", "expected TOML"}},
      {"save = \"\"\"ü\n\"ü\"\"\"\"ü\n", {"run.toml: line 2: ", "expected TOML"}},
      {"save = 'ü\\'ü\n", {"run.toml: line 1: ", "expected TOML"}},
      {"[info]\nlr = 1\n", {"run.toml: line 1: ", "sub-commands", "\"info\""}},
      {"lr = 1\n[eval]\nlr = 3\n", {"run.toml: line 3: ", "the names of flags of eval", "\"lr\""}},
      {"json = 3\n", {"run.toml: line 1: ", "true or false", "\"json\"", "3"}},
      {"config = \"other\"\n", {"run.toml", "\"config\""}},
      {"help = true\n", {"run.toml", "\"help\""}}};
  for (const auto& [text, parts] : cases) {
    Write("run.toml", text);
    ExpectError(absl::StrCat("train ", Flag()), 65, parts);
  }
  ExpectError(absl::StrCat("train --config=", In("none")), 66, {In("none")});
  Write("run.toml", "model = \"lenet\"\nbatch = \"many\"\n");
  ExpectError(absl::StrCat("train ", Flag()), 65, {"run.toml: line 2: --batch", "many"});
  Write("run.toml", "model = \"lenet\"\ndata = \"digits\"\npad = 10\nlr-policy = \"frob\"\n");
  ExpectError(absl::StrCat("train ", Flag()), 65, {"run.toml: line 4: --lr-policy: ", "frob"});
  Write("machine.toml", "model = \"lenet\"\ndata = \"digits\"\npad = 10\nmachine = \"frob\"\n");
  ExpectError(absl::StrCat("train --config=", In("machine.toml")), 65,
              {"machine.toml: line 4: --machine: unknown machine", "frob"});
  ExpectError("train --model=lenet --data=digits --pad=10 --machine=frob", 2, {"--machine: unknown machine", "frob"});
  ExpectError(absl::StrCat("train --model=lenet --data=digits --pad=10 --machine=", In("no.json")), 66, {In("no.json")});
  ExpectError(absl::StrCat("train --lr-policy=frab ", Flag()), 2, {"--lr-policy: ", "frab"});
  for (const char* command : {"info ", "bench step ", "bench "}) {
    ExpectError(absl::StrCat(command, Flag()), 2, {"--config: expected one of the sub-commands train, ", ", found "});
  }
  Write("run.toml", "batch = 3\n");
  ExpectError(absl::StrCat("train ", Flag()), 2, {"--model is required"});
}

TEST_F(Config, FlagsThatDoNotGoTogetherAreOfTheFile) {
  const std::string narrow = "model = \"two_column\"\ndata = \"digits\"\n";
  Write("run.toml", narrow + "steps = 3\nepochs = 3\n");
  ExpectError(absl::StrCat("train ", Flag()), 65, {"run.toml: line 3: --steps: expected this or --epochs, found both"});
  Write("run.toml", narrow + "resume = 5\n");
  ExpectError(absl::StrCat("train ", Flag()), 66,
              {"run.toml: line 3: --resume: cannot read 5: expected a folder of checkpoints"});
  std::filesystem::create_directory(In("empty"));
  Write("run.toml", absl::StrCat(narrow, "resume = \"", In("empty"), "\"\n"));
  ExpectError(absl::StrCat("train ", Flag()), 66, {"run.toml: line 3: --resume: expected a checkpoint in ", In("empty")});
}

TEST_F(Config, WhatOtherProgramsCallItIsAnsweredWithOurs) {
  const std::pair<const char*, const char*> cases[] = {
      {"batch-size = 4", "found \"batch-size\"; did you mean \"batch\"?"},
      {"learning_rate = 0.1", "did you mean \"lr\"?"},
      {"num-workers = 4", "did you mean \"data-threads\"?"},
      {"lr_policy = \"poly\"", "did you mean \"lr-policy\"?"},
      {"bf16 = true", "did you mean dtype = \"bf16\"?"},
      {"gpus = 2", "did you mean \"devices\" and backend = \"cuda\"?"},
      {"pin-memory = true", "found \"pin-memory\"; batches are always pinned"},
      {"dtype = \"bfloat16\"", "--dtype, found \"bfloat16\"; did you mean dtype = \"bf16\"?"},
      {"optimizer = \"adam\"", "--optimizer, found \"adam\"; --optimizer=adamw --weight-decay=0 is Adam"}};
  for (const auto& [line, answer] : cases) {
    Write("run.toml", absl::StrCat("model = \"two_column\"\n", line, "\n"));
    ExpectError(absl::StrCat("train ", Flag()), 65, {"run.toml: line 2: expected ", answer});
  }
  Write("run.toml", "num-epochs = 2\n");
  ExpectError(absl::StrCat("plan ", Flag()), 65, {"did you mean \"epochs\"?"});
}

TEST_F(Config, ANameThatIsUnknownIsOneOfTheFile) {
  Write("run.toml", "model = \"lenet\"\nplan = \"dta\"\nmachine = \"titn\"\n");
  ExpectError(absl::StrCat("train --data=synthetic --machine=local ", Flag()), 65,
              {"run.toml: line 2: unknown plan \"dta\", did you mean"});
  ExpectError(absl::StrCat("plan --plan=single ", Flag()), 65, {"run.toml: line 3: unknown machine \"titn\""});
  ExpectError(absl::StrCat("plan --plan=dta --machine=titan-2013 ", Flag()), 2, {"colonnade: unknown plan \"dta\""});
  Write("run.toml", "\nmodel = \"lent\"\n");
  ExpectError(absl::StrCat("plan ", Flag()), 65, {"run.toml: line 2: unknown model \"lent\""});
}

TEST_F(Config, WhatIsWrongInAFileThatItNamesIsOfItsLine) {
  Write("net.json", "{}");
  Write("bad.safetensors", "x");
  Write("run.toml", absl::StrFormat("lr = 0.1\nmodel = \"%s\"\ninit = \"%s\"\ndata = \"%s\"\nplan = \"%s\"\n",
                                    In("net.json"), In("bad.safetensors"), In("none"), In("none/plan.json")));
  const std::string net = absl::StrCat(In("net.json"), ": colonnade_model: expected 1");
  ExpectError(absl::StrCat("plan --plan=single ", Flag()), 65, {absl::StrCat("run.toml: line 2: ", net)});
  ExpectError(absl::StrCat("plan ", Flag(), " --plan=single --model=", In("net.json")), 65,
              {absl::StrCat("colonnade: ", net)});
  ExpectError(absl::StrCat("eval --model=lenet ", Flag()), 65,
              {absl::StrCat("run.toml: line 3: ", In("bad.safetensors"), ": safetensors: expected")});
  ExpectError(absl::StrCat("train --model=lenet ", Flag()), 66,
              {absl::StrCat("run.toml: line 4: data \"", In("none"), "\"")});
  ExpectError(absl::StrCat("plan --model=lenet ", Flag()), 66, {"run.toml: line 5: cannot read ", In("none/plan.json")});
  ExpectError("plan --model=lenet --batch=0.1 " + Flag(), 2, {"colonnade: --batch"});
  Write("run.toml", absl::StrFormat("data = \"%s\"\nsave = \"%s\"\n", In("photos/"), In("w")));
  std::filesystem::create_directories(In("photos/train/cat"));
  Write("photos/train/cat/1.png", "no PNG");
  ExpectError(absl::StrCat("train --model=lenet --steps=1 --batch=1 ", Flag()), 65, {"run.toml: line 1: ", In("photos")});
  ExpectError(absl::StrCat("eval --model=lenet --data=digits --init=", In("w"), " ", Flag()), 66,
              {"colonnade: cannot read"});
}

TEST(ConfiguredWords, AMessageNamesTheFileNotItsFolder) {
  const ConfiguredWords words{.words = {}, .places = {}, .path_places = {{"a", "1"}, {"a/b", "2"}}};
  EXPECT_EQ(words.PlaceOf("cannot read a/b: no such file"), "2");
  EXPECT_EQ(words.PlaceOf("data \"a\": no such folder"), "1");
  EXPECT_EQ(words.PlaceOf("a/bc: safetensors"), "1");
  EXPECT_EQ(words.PlaceOf("cannot read aa/b: no such file"), "");
  EXPECT_EQ(words.PlaceOf("--lr: wrong in a"), "");
}

TEST_F(Config, WhatIsPrintedIsAFileAndEmptyTextIsText) {
  Write("run.toml", "model = \"two_column\"\ndata = \"digits\"\nsave = \"\"\nsteps = 2\nmomentum = 0.9\n");
  const Result first = Run(absl::StrCat("train ", Flag(), " --batch=32"));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("momentum = 0.9\n"));
  EXPECT_FALSE(std::filesystem::exists("--batch=32"));
  Write("run.toml", first.err.substr(0, first.err.find("model two_column")));
  const Result again = Run(absl::StrCat("train ", Flag(), " --json"));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["global_batch"], 32);
}

TEST_F(Config, WhatACheckpointHasRunsTheSameAgain) {
  Write("run.toml", "model = \"two_column\"\ndata = \"digits\"\nwidth = 0.25\nlr-policy = \"multistep:2,3,0.5\"\n");
  const Result first =
      Run(absl::StrCat("train ", Flag(), " --steps=4 --mean=0.25 --json --resume --checkpoint=", In("run")));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("lr-policy = \"multistep:2,3,0.5\""));
  EXPECT_THAT(first.err, HasSubstr("steps = 4"));
  const absl::StatusOr<std::string> resolved = engine::ReadFile(In("run/config.toml"));
  ASSERT_TRUE(resolved.ok());
  EXPECT_THAT(*resolved, HasSubstr("batch = 64")) << "defaults, too";
  const json again = Train(absl::StrCat("--config=", In("run/config.toml"), " --checkpoint=", In("other")));
  EXPECT_EQ(again["losses"], json::parse(first.out)["losses"]);
}

TEST_F(Config, WhatACheckpointHasIsReadFromAnotherFolder) {
  for (const char* folder : {"here", "there"}) std::filesystem::create_directory(In(folder));
  Write("here/m.json", Run("models two_column --width=0.25 --json").out);
  ASSERT_EQ(Run(absl::StrCat("plan --model=two_column --devices=2 --save-plan=", In("here/digits"))).code, 0);
  const auto train_in = [&](const char* folder, const std::string& flags) {
    const Result r = Wait(Start(absl::StrCat("train --steps=", flags), [&] { std::filesystem::current_path(In(folder)); }));
    EXPECT_EQ(r.code, 0) << r.err;
    return r.err;
  };
  train_in("here", "1 --model=m.json --data=digits --lr-policy=constant --checkpoint=run --save=w --resume");
  const std::string config = *engine::ReadFile(In("here/run/config.toml"));
  for (const char* flag : {"model = \"", "checkpoint = \"", "save = \""})
    EXPECT_THAT(config, HasSubstr(absl::StrCat(flag, path_)));
  for (const char* line : {"data = \"digits\"\n", "resume = \"\"\n", "machine = \"local\"\n"}) {
    EXPECT_THAT(config, HasSubstr(line)) << "a file of that name is there, or none is named";
  }
  EXPECT_THAT(train_in("there", "2 --config=../here/run/config.toml"), HasSubstr("1 step and 64 images are done"));
  EXPECT_TRUE(std::filesystem::is_empty(In("there")));
  std::filesystem::rename(In("here/run"), In("moved"));
  const std::string again = absl::StrCat("train --steps=3 --config=", In("moved/config.toml"));
  ExpectError(
      again, 65,
      {"config.toml: line ", "--checkpoint: expected ", In("moved"), "found ", In("here/run"), "which is not there"});
  EXPECT_FALSE(std::filesystem::exists(In("here/run")));
  const Result named = Run(absl::StrCat(again, " --checkpoint=", In("moved")));
  EXPECT_THAT(named.err, HasSubstr("2 steps and 128 images are done"));
}

// What --json prints is all that repeats a run: flags that were given, those that the model, the data and the machine chose,
// and those that have a default.
TEST_F(Config, ARecordAloneRunsTheSameAgain) {
  for (const char* flags :
       {"--steps=4 --mean=0.25 --freeze=conv1,fc* --lr-policy=multistep:2,3,0.5 --accumulate=2 --plan=hybrid --devices=4",
        "--steps=4 --optimizer=adamw --weight-decay=0.1 --seed=7 --shuffle=off --deterministic --base-batch=128",
        "--width=0.25 --plan=auto --devices=2 --machine=cpu-2core --optimizer=lars --lr=1 --batch=512"}) {
    const json first = Train(absl::StrCat("--model=two_column --data=digits --json ", flags));
    Write("run.json", first.dump());
    const json again = Train(absl::StrCat("--config=", In("run.json")));
    EXPECT_EQ(again["losses"], first["losses"]) << flags;
    EXPECT_EQ(again["flags"], first["flags"]) << flags;
    EXPECT_EQ(first["stopped"], false);
  }
}

// What a search finds depends on settings that it chose itself and on the profile, so a record has its plan.
TEST_F(Config, ARecordHasThePlanThatWasFoundOrThatWasInAFile) {
  const std::string run =
      "--model=lenet --data=digits --pad=10 --batch=16 --accumulate=2 --steps=1 --devices=2 --threads-per-device=1 --json ";
  const auto expect_again = [&](const json& first) {
    Write("run.json", first.dump());
    const json again = Train(absl::StrCat("--config=", In("run.json")));
    EXPECT_EQ(again["losses"], first["losses"]);
    EXPECT_EQ(again["plan_file"], first["plan_file"]);
    return again;
  };
  json found = Train(run + "--plan=auto --machine=cpu-2core");
  ASSERT_NE(found["plan_file"]["bucket_bytes"], 1 << 16);
  found["plan_file"]["bucket_bytes"] = 1 << 16;  // which no search finds
  found["flags"]["bucket-bytes"] = nullptr;
  Write("run.json", found.dump());
  const json taken = Train(absl::StrCat("--config=", In("run.json")));
  EXPECT_EQ(taken["plan_file"], found["plan_file"]);
  EXPECT_EQ(taken["flags"]["plan"], "auto");
  EXPECT_NE(Train(absl::StrCat("--config=", In("run.json"), " --plan=auto"))["plan_file"], found["plan_file"]);
  const json on_one = Train(absl::StrCat("--config=", In("run.json"), " --devices=1"));
  EXPECT_EQ(on_one["devices"], 1) << "the search is made again";
  ASSERT_EQ(Run(absl::StrCat("train --config=", In("run.json"), " --checkpoint=", In("ck"))).code, 0);
  EXPECT_THAT(*engine::ReadFile(In("ck/config.toml"), 1 << 20), HasSubstr("plan = \"auto\""));
  found["flags"]["devices"] = 4;  // of which the search took two
  expect_again(found);
  json plan = taken["plan_file"];
  Write("saved.json", plan.dump());  // as `plan --plan=auto --save-plan` writes it
  EXPECT_EQ(Train(absl::StrCat(run, "--plan=", In("saved.json")))["flags"]["plan"], In("saved.json"))
      << "nothing was searched";
  plan["name"] = "mine";
  Write("mine.json", plan.dump());
  const json of_file = Train(absl::StrCat(run, "--plan=", In("mine.json")));
  std::filesystem::remove(In("mine.json"));
  expect_again(of_file);
  expect_again(taken);
}

TEST_F(Config, ARecordStatesEveryFlagAndOnWhatItRan) {
  const json record = Train("--model=two_column --data=digits --json --steps=2");
  const std::vector<std::pair<const char*, json>> expected = {{"model", "two_column"},
                                                              {"data", "digits"},
                                                              {"batch", 64},
                                                              {"seed", 1},
                                                              {"steps", 2},
                                                              {"epochs", nullptr},
                                                              {"classes", 10},
                                                              {"channels", 1},
                                                              {"input-size", 8},
                                                              {"plan", "single"},
                                                              {"devices", 1},
                                                              {"backend", "cpu"},
                                                              {"kernels", "onednn"},
                                                              {"lr", 0.01},
                                                              {"momentum", 0.9},
                                                              {"weight-decay", 5e-4},
                                                              {"save", nullptr},
                                                              {"deterministic", false},
                                                              {"json", true}};
  for (const auto& [flag, value] : expected) EXPECT_EQ(record["flags"].value(flag, json("absent")), value) << flag;
  std::set<std::string> help = FlagsOfHelp(Run("train --help").out), flags;
  for (const auto& [flag, value] : record["flags"].items()) flags.insert(absl::StrCat("--", flag));
  help.erase("--help");
  help.erase("--config");
  EXPECT_EQ(flags, help);
  EXPECT_EQ(record["seed"], 1);
  EXPECT_EQ(record["data"], "digits");
  EXPECT_THAT(record["data_identity"].get<std::string>(), HasSubstr("1437 images"));
  EXPECT_THAT(Run("--version").out, HasSubstr(record["version"].get<std::string>()));
  EXPECT_EQ(record["machine"]["kernels"], "onednn");
  EXPECT_GE(record["machine"]["cores"], 1);
  EXPECT_FALSE(record["plan_file"]["layers"].empty());
}

// The record of a million steps, which has the loss of each.
TEST_F(Config, TheRecordOfALongRunIsRead) {
  json record = Train("--model=two_column --data=digits --json --steps=2 --plan=single");
  record["losses"] = std::vector<double>(1'000'000, 0.12345678901234567);
  Write("run.json", record.dump());
  for (const char* flag : {"--config=", "--model=two_column --data=digits --batch=64 --steps=2 --plan="}) {
    const Result r = Run(absl::StrCat("train ", flag, In("run.json")));
    EXPECT_EQ(r.code, 0) << r.err;
  }
}

TEST_F(Config, WhatIsNoRecordIsNamed) {
  Write("run.json", "{\"losses\": []}");
  ExpectError(absl::StrCat("train --config=", In("run.json")), 65, {"run.json", "train --json", "\"flags\""});
  Write("run.json", "{\"flags\": {\"bach\": 3}}");
  ExpectError(absl::StrCat("train --config=", In("run.json")), 65, {"run.json", "\"bach\"", "did you mean \"batch\"?"});
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  Write("run.json", absl::StrCat(R"({"flags": {"lr": )", deep, "}}"));
  ExpectError(absl::StrCat("train --config=", In("run.json")), 65,
              {"run.json", "train --json", "as JSON: ", "nested deeper"});
  Write("run.json", absl::StrCat(R"({"flags": {}, "plan_file": )", deep, "}"));
  ExpectError(absl::StrCat("plan --model=lenet --machine=dgx1-v100 --plan=", In("run.json")), 65,
              {"run.json", "nested deeper"});
}

// Of numbers with spaces around them, too, as a fuzzer found. What is not UTF-8 stands in a record.
TEST(ConfigText, HoldsEachValueSoThatItIsReadAsTheSame) {
  CLI::App app;
  std::string save, file;
  std::vector<double> mean;
  app.add_option("--save", save);
  app.add_option("--mean", mean)->delimiter(',');
  app.parse(std::vector<std::string>{"--mean=[0.5, 0.25]"});
  EXPECT_EQ(ConfigText(ResolvedFlags(app)), "mean = [0.5, 0.25]\n");
  for (const std::string odd : {"a\nb", "a\\b", "h#1", "\"q\"", "it's", "'''", "a\n'''\"", "\x01", "1.10", "inf", "ü"}) {
    app.parse(std::vector<std::string>{absl::StrCat("--save=", odd), "--mean=1e-3"});
    const std::string text = ConfigText(ResolvedFlags(app));
    EXPECT_THAT(text, HasSubstr("mean = 0.001\n"));
    CLI::App command;
    command.add_subcommand("train")->add_option("--save", save);
    command.get_subcommand("train")->add_option("--mean", mean);
    AddConfigFlag(*command.get_subcommand("train"), file);
    absl::StatusOr<ConfiguredWords> found = ConfigWords(text, "f", {"train"}, command);
    ASSERT_TRUE(found.ok()) << found.status();
    std::erase(found->words, "");
    EXPECT_THAT(found->words, UnorderedElementsAre("--mean=0.001", absl::StrCat("--save=", odd))) << text;
  }
  app.parse(std::vector<std::string>{"--save=a\xff"});
  EXPECT_TRUE(json::accept(ConfigText(ResolvedFlags(app))));
}

TEST_F(Config, ARunInAFolderOfAnOddNameGoesOnByItsOwnFile) {
  const std::string folder = In("h#1");
  ASSERT_EQ(Run(absl::StrCat(kNarrowTraining, " --steps=2 --checkpoint=", folder)).code, 0);
  const Result r = Run(absl::StrCat("train --config=", folder, "/config.toml --resume --steps=3"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("2 steps"));
}

// A folder may be called as a number is.
TEST_F(Config, ARecordGoesOnWithItsOwnRun) {
  const Result first = Run(absl::StrCat(kNarrowTraining, " --steps=2 --json --checkpoint=", In("1.10")));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(nlohmann::json::parse(first.out)["flags"]["checkpoint"], In("1.10"));
  Write("run.json", first.out);
  const Result r = Run(absl::StrCat("train --config=", In("run.json"), " --resume --steps=3"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("2 steps"));
}

TEST(FlagJson, OnlyOfFlagsThatTakeNumbersIsANumber) {
  EXPECT_EQ(FlagJson({.name = "checkpoint", .values = {"1.10"}}), "1.10");
  EXPECT_EQ(FlagJson({.name = "lr", .values = {"1e-3"}, .is_number = true}), 0.001);
  EXPECT_EQ(FlagJson({.name = "mean", .values = {"0.5", "x"}, .is_list = true, .is_number = true}),
            (nlohmann::ordered_json{0.5, "x"}));
}

TEST_F(Config, ResumeIsThereOrNot) {
  Write("c.toml", absl::StrCat("checkpoint = \"", In("run"), "\"\nresume = true\n"));
  const std::string train = absl::StrCat(kNarrowTraining, " --config=", In("c.toml"));
  ASSERT_EQ(Run(train + " --steps=2").code, 0);
  EXPECT_THAT(Run(train + " --steps=3").err, HasSubstr("2 steps"));
  Write("c.toml", absl::StrCat("checkpoint = \"", In("run"), "\"\nresume = false\n"));
  ExpectError(train + " --steps=4", 65, {"c.toml: line 1: --checkpoint: ", "--resume"});
}

}  // namespace
}  // namespace colonnade::cli
