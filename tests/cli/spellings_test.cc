// What users of other programs type is read as our flags, or answered.

#include "cli/command_line/spellings.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/command_line/flags.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"
#include "tests/cli/shell.h"

namespace colonnade::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The command line `words`, behind `train` with most of its flags.
class Spellings : public ::testing::Test {
 protected:
  Spellings() {
    CLI::App* train = app_.add_subcommand("train");
    AddSessionFlags(*train, flags_);
    AddOptimizerFlags(*train, flags_.optimizer);
    AddCheckpointFlags(*train, checkpoint_);
    train->add_option("--epochs", epochs_);
    app_.add_subcommand("eval");
    CLI::App* bench = app_.add_subcommand("io-bench");
    bench->add_option("--threads", threads_);
    bench->add_option("--warm-up-epochs", epochs_);
  }
  absl::StatusOr<OurWords> Read(const std::string& line) const { return InOurWords(absl::StrSplit(line, ' '), app_); }
  std::string Words(const std::string& line) const {
    const absl::StatusOr<OurWords> read = Read(line);
    return read.ok() ? absl::StrJoin(read->words, " ") : std::string(read.status().message());
  }
  std::string Train(const std::string& words) const {
    return std::string(absl::StripPrefix(Words(absl::StrCat("train ", words)), "train "));
  }

  SessionFlags flags_;
  CheckpointFlags checkpoint_;
  int64_t epochs_ = 0;
  int threads_ = 0;
  CLI::App app_{"test"};
};

TEST_F(Spellings, OfFlagsKeepTheirValues) {
  EXPECT_EQ(Train("--batch-size=32"), "--batch=32");
  EXPECT_EQ(Train("--batch_size 32"), "--batch 32");
  EXPECT_EQ(Train("-b 32 -a resnet18 -j 4"), "--batch 32 --model resnet18 --data-threads 4");
  EXPECT_EQ(Train("--learning-rate=0.1 --lr-scheduler=cosine"), "--lr=0.1 --lr-policy=cosine");
  EXPECT_EQ(Train("-np 4"), "--devices 4");
  EXPECT_EQ(Train("--max-grad-norm=1 --num-epochs=2"), "--clip-norm=1 --epochs=2");
  EXPECT_EQ(Train("--data-dir=a=b"), "--data=a=b");
}

TEST_F(Spellings, OfOurOwnFlagsDifferInDashesAndCapitals) {
  EXPECT_EQ(Train("--weight_decay=1 -lr 0.1 --Clip_Norm 2"), "--weight-decay=1 --lr 0.1 --clip-norm 2");
  EXPECT_THAT(Read("train --weight_decay=1")->notes, ElementsAre("read --weight_decay as --weight-decay"));
}

TEST_F(Spellings, ThatAreOursStayAsTheyAre) {
  EXPECT_EQ(Train("--model=lenet --mean -0.5,-.5 --lr=1 --resume -h --optimizer=pytorch --dtype bf16"),
            "--model=lenet --mean -0.5,-.5 --lr=1 --resume -h --optimizer=pytorch --dtype bf16");
  EXPECT_THAT(Read("train --model=lenet --mean -0.5,-.5 --batch=3")->notes, IsEmpty());
  EXPECT_EQ(Words("io-bench --threads=2"), "io-bench --threads=2");
  for (const char* words : {"--no-such-flag=1", "---", "--=5", "-", "--", "-=", "x"}) EXPECT_EQ(Train(words), words);
}

TEST_F(Spellings, AreReadAsTheFlagThatTheSubCommandHas) {
  EXPECT_EQ(Words("io-bench --num-workers=2"), "io-bench --threads=2");
  EXPECT_EQ(Words("io-bench --learning-rate=2"), "io-bench --learning-rate=2");
  EXPECT_EQ(Words("io-bench --warmup-epochs=2"), "io-bench --warm-up-epochs=2");
}

TEST_F(Spellings, OfSwitchesAndValues) {
  EXPECT_EQ(Train("--bf16 --no-cuda --nesterov"), "--dtype=bf16 --backend=cpu --optimizer=nesterov");
  EXPECT_EQ(Train("--precision bf16-mixed --device=cuda"), "--dtype=bf16 --backend=cuda");
  EXPECT_EQ(Train("--accelerator gpu --batch=2"), "--backend=cuda --batch=2");
  EXPECT_EQ(Train("--bf16=True --tf32=false"), "--dtype=bf16 --tf32=false");
  EXPECT_EQ(Train("--dtype=bfloat16"), "--dtype=bf16");
}

TEST_F(Spellings, OfGpusAreDevicesOnThem) {
  EXPECT_EQ(Train("--gpus=2"), "--devices=2 --backend=cuda");
  EXPECT_EQ(Train("--num_gpus 2 --epochs=1"), "--devices=2 --backend=cuda --epochs=1");
  EXPECT_EQ(Train("--gpus=2 --backend=cpu"), "--devices=2 --backend=cpu");
  EXPECT_THAT(Train("--gpus=0,1"), HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(Train("--gpus=all"), HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(Train("--gpus=0"), HasSubstr("--backend=cpu"));
  EXPECT_THAT(Train("--gpus"), HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(Read("train --gpus=2")->notes, ElementsAre("read --gpus=2 as --devices=2 --backend=cuda"));
}

TEST_F(Spellings, AreNotedOnceAndWithWhatOurFlagMeans) {
  EXPECT_THAT(Read("train --batch-size=2 --batch-size=3")->notes,
              ElementsAre("read --batch-size as --batch (the global batch, of all devices together)"));
}

TEST_F(Spellings, ThatMeanAnotherThingAreAnswered) {
  const std::map<std::string, std::string> answers = {{"--ddp", "--plan=data"},
                                                      {"--strategy=ddp", "--plan=data"},
                                                      {"--strategy fsdp", "--reduction=sharded"},
                                                      {"--fsdp", "--reduction=sharded"},
                                                      {"--amp", "--dtype=bf16"},
                                                      {"--precision=16-mixed", "--dtype=bf16"},
                                                      {"--dtype=fp16", "--dtype=bf16"},
                                                      {"--optimizer=sgd", "--optimizer=pytorch"},
                                                      {"--optimizer adam", "--weight-decay=0"},
                                                      {"--opt=Adam", "--weight-decay=0"},
                                                      {"--device=mps", "devices are the processor (--backend=cpu)"},
                                                      {"--per_device_train_batch_size=8", "global batch"},
                                                      {"--gradient-accumulation-steps=4", "multiply --batch by K"},
                                                      {"--nnodes=2", "one process"},
                                                      {"--rdzv-backend=c10d", "one process"},
                                                      {"-gpu 0", "CUDA_VISIBLE_DEVICES"},
                                                      {"--warmup-epochs=5", "--warm-up=N counts steps"},
                                                      {"--threads=4", "--data-threads"}};
  for (const auto& [words, part] : answers) {
    const absl::StatusOr<OurWords> read = Read(absl::StrCat("train ", words));
    ASSERT_TRUE(absl::IsFailedPrecondition(read.status())) << words;
    EXPECT_TRUE(absl::StartsWith(read.status().message(), words.substr(0, words.find_first_of(" =")))) << read.status();
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(part)) << words;
  }
}

TEST_F(Spellings, OfSubCommands) {
  EXPECT_EQ(Words("evaluate --model=x"), "eval --model=x");
  EXPECT_EQ(Words("fit --batch-size=2"), "train --batch=2");
  EXPECT_THAT(Read("fit --batch=2")->notes, ElementsAre("read fit as train"));
  EXPECT_EQ(Words("help train"), "train --help");
  EXPECT_EQ(Words("help"), "--help");
  EXPECT_EQ(Words("help nix"), "nix") << "which is an error as nix alone is";
  for (const char* words : {"version", "-v", "-V"}) EXPECT_EQ(Words(words), "--version");
}

// The tables against the command itself: a flag that is misspelt there would never be read.
TEST_F(Command, WhatASpellingIsReadAsIsAFlagAndNoFlagIsASpelling) {
  std::set<std::string> flags;
  for (const std::string& name : AllCommands()) {
    const std::set<std::string> more = FlagsOfHelp(Run(absl::StrCat(name, " --help")).out);
    flags.insert(more.begin(), more.end());
  }
  ASSERT_GT(flags.size(), 80u);
  std::set<std::string> understood, answered;
  for (const auto& [theirs, ours] : AllSpellings()) {
    if (!ours.empty()) {
      EXPECT_TRUE(flags.contains(ours.substr(0, ours.find('=')))) << theirs << " is read as " << ours;
    }
    // Of these, a value alone is a spelling; and io-bench has --threads, bench transfers --iterations.
    if (theirs.find('=') == std::string::npos && theirs != "threads" && theirs != "iterations") {
      EXPECT_FALSE(flags.contains(absl::StrCat("--", theirs))) << theirs;
    }
    (ours.empty() ? answered : understood).insert(theirs);
  }
  // io-bench alone counts epochs before.
  answered.erase("warmup-epochs");
  for (const std::string& spelling : answered) EXPECT_FALSE(understood.contains(spelling)) << spelling;
}

TEST_F(Command, SpellingsOfSubCommandsStandOnThePageOfTheCommandLine) {
  const std::vector<std::string> commands = AllCommands();
  const std::vector<std::string> page =
      absl::StrSplit(*engine::ReadFile(std::string(kSourceDir) + "/docs/command_line.md"), '\n');
  for (const auto& [theirs, ours] : AllSpellingsOfCommands()) {
    if (!absl::StartsWith(ours, "--")) {
      EXPECT_THAT(commands, Contains(ours)) << theirs;
    }
    const auto says = [&, theirs = theirs, ours = ours](const std::string& line) {
      const bool has = absl::StrContains(line, absl::StrCat("`", theirs, "`")) ||
                       absl::StrContains(line, absl::StrCat("`colonnade ", theirs, "`"));
      return absl::StartsWith(line, "| `colonnade ") && has && absl::StrContains(line, absl::StrCat("`", ours, "`"));
    };
    EXPECT_TRUE(absl::c_any_of(page, says)) << theirs << " as " << ours;
  }
}

TEST_F(Command, SpellingsOfOthersTrainAndAreNotInHelp) {
  const std::string rest = " --model=two_column --data=digits --width=0.25 --steps=2 --json";
  const Result theirs = Run(absl::StrCat("train --batch_size=16 --learning-rate 0.02 -np 2", rest)),
               ours = Run(absl::StrCat("train --batch=16 --lr 0.02 --devices 2", rest));
  ASSERT_EQ(theirs.code, 0) << theirs.err;
  EXPECT_EQ(nlohmann::json::parse(theirs.out)["losses"], nlohmann::json::parse(ours.out)["losses"]);
  EXPECT_THAT(theirs.err, HasSubstr("note: read --batch_size as --batch (the global batch, of all devices together)\n"));
  EXPECT_THAT(ours.err, Not(HasSubstr("note: read")));
  EXPECT_THAT(Run("train --help").out, Not(HasSubstr("batch-size")));
  ExpectError(absl::StrCat("train --ddp", rest), 2, {"--ddp", "--plan=data"});
  ExpectError(absl::StrCat("train --batch-size=2 --batch=3", rest), 2, {"--batch"});
  EXPECT_EQ(Run("help train").out, Run("train --help").out);
}

}  // namespace
}  // namespace colonnade::cli
