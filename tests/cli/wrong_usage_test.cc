// Command lines that say nothing: unknown words, missing ones, and too many of them. Each is answered by one message and
// exit code 2.

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Command, WrongUsageIs2WithOneMessage) {
  ExpectError("train --model=two_colum --data=digits", 2, {"two_colum", "did you mean \"two_column\"?"});
  ExpectError("train --model=two_column --data=digits --plan=hybird --devices=2", 2, {"hybird", "did you mean \"hybrid\"?"});
  ExpectError("train --model=two_column --divices=2", 2, {"--divices", "did you mean \"--devices\"?"});
  ExpectError("trian --model=two_column", 2, {"trian"});
  ExpectError("", 2, {});
  ExpectError("train --data=digits", 2, {"--model"});
  EXPECT_THAT(Run("bench step --model=two_column --steps=0").err, testing::Not(HasSubstr("did you mean")));
  EXPECT_THAT(Run(absl::StrCat(kTrainDigits, "--channels=3")).err, testing::EndsWith("has [1,8,8]; leave out --channels\n"));
  ExpectError(absl::StrCat(kTrainDigits, "--steps=0"), 2, {"--steps"});
  ExpectError(absl::StrCat(kTrainDigits, "--steps=2 --epochs=2"), 2, {"--steps: expected this or --epochs, found both"});
  ExpectError(absl::StrCat(kTrainDigits, "--batch=66 --devices=4 --plan=data"), 2, {"66", "64 or 68"});
  ExpectError(absl::StrCat(kTrainDigits, "--devices=3 --plan=hybrid"), 2, {"2 columns", "3 devices"});
  ExpectError(absl::StrCat(kTrainDigits, "--devices=7 --plan=model"), 2, {"split nothing"});
  ExpectError(absl::StrCat(kTrainDigits, "--lr-policy=stair"), 2, {"--lr-policy", "stair"});
  ExpectError(absl::StrCat(kTrainDigits, "--dtype=fp8"), 2, {"--dtype"});
  ExpectError(absl::StrCat(kTrainDigits, "--lr=nan"), 2, {"--lr", "0 or more", "found \"nan\""});
  ExpectError(absl::StrCat(kTrainDigits, "--lr=-1"), 2, {"--lr", "found \"-1\""});
  ExpectError(absl::StrCat(kTrainDigits, "--momentum=nan"), 2, {"--momentum", "from 0 to 1"});
  ExpectError(absl::StrCat(kTrainDigits, "--weight-decay=inf"), 2, {"--weight-decay"});
  ExpectError(absl::StrCat(kTrainDigits, "--mean=nan"), 2, {"--mean"});
  ExpectError(absl::StrCat(kTrainDigits, "--mean=0.1,0.2"), 2, {"mean", "1 channel,", "found 2"});
  ExpectError(absl::StrCat(kTrainDigits, "--std=0"), 2, {"--std", "from 1e-40"});
  ExpectError("train --model=two_column --data=digits --width=nan", 2, {"--width", "found \"nan\""});
  ExpectError(absl::StrCat(kTrainDigits, "--classes=5"), 2, {"5 classes", "--classes=10"});
  ExpectError(absl::StrCat(kTrainDigits, "--plan=data --devices=4 --columns=2"), 2, {"--columns", "expected 1", "found 2"});
  ExpectError("train --model=lenet --data=digits", 2, {"conv3", "[1,8,8]"});
}

TEST_F(Command, AWordThatNothingTakesIsNamedWhereAFlagIsMissing) {
  const std::string expected = ": expected a flag, found a word; ";
  ExpectError("train two_column", 2, {absl::StrCat("two_column", expected, "did you mean --model=two_column?; --help")});
  ExpectError("train model=x", 2, {absl::StrCat("model=x", expected, "did you mean --model=x?; --help")});
  ExpectError("train --data=digits x", 2, {absl::StrCat("x", expected, "--model is required")});
  ExpectError("train --divices=2", 2, {"unknown flag --divices=2; did you mean \"--devices\"?"});
}

TEST_F(Command, AMistypedSubCommandIs2BesideHelpToo) {
  for (const char* words : {"trian --help", "--help trian", "-h trian", "trian --version"}) {
    ExpectError(words, 2, {"unknown sub-command \"trian\", did you mean \"train\"?"});
  }
  for (const char* words : {"bench stp --help", "bench --help stp"}) {
    ExpectError(words, 2, {"bench: unknown sub-command \"stp\", did you mean \"step\"?"});
  }
  ExpectError("--batch 64 train", 2, {"expected the sub-command train first, and its flags after it"});
  for (const char* words : {"--help", "train --help", "--help train", "bench --help", "bench step --help",
                            "bench --help step", "--batch 64 train --help", "--version"}) {
    EXPECT_EQ(Run(words).code, 0) << words;
  }
}

TEST_F(Command, AFlagOfOtherSubCommandsNamesThem) {
  ExpectError("simulate --model=lenet --resume", 2, {"unknown flag --resume; simulate has none, train has; --help"});
  ExpectError("plan --model=resnet20 --data=digits", 2,
              {"unknown flag --data=digits; plan has none, train, eval, predict, verify, calibrate, io-bench have; "
               "--input-size, --channels and --classes say what images are like; --help"});
  ExpectError("", 2, {"expected a sub-command, one of train, eval,", "found none; --help"});
  ExpectError("--model=lenet", 2, {"expected a sub-command, one of train, eval,", "found \"--model=lenet\"; --help"});
  ExpectError("--Version", 2, {"found \"--Version\"; did you mean \"--version\"?"});
  ExpectError("train --data=digits --model=lenett", 2, {"unknown model \"lenett\"", ", or a network file"});
  ExpectError("plan --model=lenet --plan=single --devices=2", 2,
              {"uses 1 device, found 2 devices; plan data is for several"});
  ExpectError("plan --model=lenett", 2, {"unknown model \"lenett\", did you mean \"lenet\"", ", or a network file"});
}

TEST_F(Command, WrongNumbersOfValuesAndUnknownWordsAreSaidInOurWords) {
  ExpectError("plan --model=lenet --batch=1 --batch=2", 2, {"--batch: expected one value, found 2;"});
  ExpectError(absl::StrCat(kTrainDigits, "--optimizer=adamw --betas=0.9"), 2, {"--betas: expected 2 values, found 1;"});
  ExpectError(absl::StrCat(kTrainDigits, "--optimizer=adamw --betas=0.9,0.9,0.9"), 2,
              {"--betas: expected 2 values, found 3;"});
  ExpectError("man frob", 2, {"SUBCOMMAND: expected one of train, eval, ", "found \"frob\"; --help"});
  ExpectError("checkpoint frob x", 2, {"ACTION: expected one of show, verify, export, found \"frob\"; --help"});
  ExpectError("checkpoint shw x", 2,
              {"ACTION: expected one of show, verify, export, found \"shw\"; did you mean \"show\"?"});
  ExpectError("train --optimizer=AdamW", 2, {"lars, adamw, found \"AdamW\"; did you mean \"adamw\"?"});
  ExpectError("models lenet alexnet", 2, {"expected nothing more, found \"alexnet\";"});
  ExpectError("train --model=two_column --divices=2", 2, {"unknown flag --divices=2; did you mean \"--devices\"?"});
  ExpectError("train --model=two_column --divices 2", 2, {"unknown flag --divices; did you mean \"--devices\"?"});
  ExpectError("train --model=two_column --dry --fooo=1", 2, {"unknown flag --dry"});
  ExpectError("checkpoint show a b c", 2, {"expected nothing more, found \"b c\""});
}

TEST_F(Command, OnlyFlagsThatNoOneTakesHaveAdvice) {
  const std::string no_bytes = "--min-bytes: expected bytes from 4 to 16G, as in 512, 4K or 64M, found \"1\"; --help lists";
  ExpectError("bench transfers -b 1", 2, {no_bytes});
  ExpectError("bench transfers --min-bytes=1", 2, {no_bytes});
  ExpectError("plan --model lenet --draws trace", 2, {"from 0 to 10000, found \"trace\"; --help lists"});
  ExpectError("train -w 1 --model=lenet", 2, {"unknown flag -w; train has none, bench transfers has; --help lists"});
  ExpectError("train --model=lenet batch=32", 2, {"found \"batch=32\"; did you mean \"--batch\"?"});
}

// As a shell makes of photos/*.jpg. A message is matched character by character, each of which takes a part of the stack.
TEST_F(Command, WordsAndValuesOfAnyLengthAreRefusedInAShortMessage) {
  std::string files;
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&files, " photos/", i, ".jpg");
  ExpectError(absl::StrCat("train --model=lenet --data", files), 2,
              {"expected nothing more, found \"photos/1.jpg photos/2.jpg photos/3.jpg\" and 19996 more;"});
  const Result r = Run(absl::StrCat("train --model=lenet --steps=", std::string(100000, '9')));
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, HasSubstr("--steps: expected a whole number from"));
  EXPECT_LT(r.err.size(), 3000u);
}

}  // namespace
}  // namespace colonnade::cli
