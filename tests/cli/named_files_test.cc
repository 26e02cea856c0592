// Files that flags name: none is written over another, by whatever path, nor over a checkpoint.

#include "cli/session/named_files.h"

#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/io/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using ::testing::HasSubstr;

class NamedFiles : public Command {
 protected:
  // What CheckWrittenFiles says of two files that are written.
  std::string Of(const std::string& a, const std::string& b) const {
    return std::string(CheckWrittenFiles({{"--a", a}, {"--b", b}}).message());
  }
};

TEST_F(NamedFiles, OnePathSpeltInTwoWaysIsOneFile) {
  std::filesystem::create_directory(In("sub"));
  std::filesystem::create_directory_symlink(In("sub"), In("link"));
  EXPECT_EQ(Of(In("x"), In("y")), "");
  EXPECT_EQ(Of(In("x"), ""), "");
  EXPECT_EQ(Of("", ""), "");
  EXPECT_THAT(Of(In("x"), In("x")), HasSubstr("--b: expected a file of its own, found"));
  EXPECT_THAT(Of(In("x"), In("sub/../x")), HasSubstr("sub/../x, which is that of --a"));
  EXPECT_THAT(Of(In("sub/x"), In("link/x")), HasSubstr("link/x, which is that of --a"));
  Write("x", "");
  std::filesystem::create_symlink(In("x"), In("to_x"));
  EXPECT_THAT(Of(In("to_x"), In("x")), HasSubstr("which is that of --a"));
  std::filesystem::create_symlink("not_there_yet", In("to_it"));
  EXPECT_THAT(Of(In("to_it"), In("not_there_yet")), HasSubstr("which is that of --a"));
}

TEST_F(NamedFiles, WhatIsReadAndFoldersAreNotWrittenOver) {
  const NamedFile read{"--config", In("c.toml")}, folder{"--tensorboard", In("events/")};
  EXPECT_THAT(std::string(CheckWrittenFiles({{"--a", In("./c.toml")}}, {read, folder}).message()), HasSubstr("of --config"));
  EXPECT_THAT(std::string(CheckWrittenFiles({{"--a", In("events")}}, {read, folder}).message()),
              HasSubstr("of --tensorboard"));
  EXPECT_TRUE(CheckWrittenFiles({{"--a", In("a")}}, {read, read, folder}).ok()) << "what is read may be read twice";
}

TEST_F(NamedFiles, OfTrainAreCheckedBeforeTheFirstStep) {
  const std::string train = "train --model=two_column --data=digits --steps=100000000 ";
  ExpectError(absl::StrCat(train, "--ema=0.9 --save=", In("w"), " --save-ema=", In("./w")), 2, {"--save-ema", "of --save"});
  ExpectError(absl::StrCat(train, "--tensorboard=", In("t"), " --save=", In("t")), 2, {"--save", "of --tensorboard"});
  ExpectError(absl::StrCat(train, "--checkpoint=", In("t"), " --trace=", In("t")), 2, {"--trace", "of --checkpoint"});
  Write("c.toml", "seed = 2\n");
  ExpectError(absl::StrCat(train, "--config=", In("c.toml"), " --save=", In("c.toml")), 2, {"--save", "of --config"});
  ExpectError(absl::StrCat("plan --model=lenet --machine=titan-2013 --trace=", In("p"), " --drawing=", In("p.svg"),
                           " --report=", In("p")),
              2, {"--report", "of --trace"});
}

TEST_F(NamedFiles, OfPlanAreNotWrittenOverWhatItReads) {
  const std::string plan = "plan --model=lenet --machine=titan-2013 --devices=2 ";
  ASSERT_EQ(Run(absl::StrCat(plan, "--plan=data --save-plan=", In("p.json"))).code, 0);
  ExpectError(absl::StrCat(plan, "--plan=", In("p.json"), " --trace=", In("./p.json")), 2, {"--trace", "of --plan"});
  EXPECT_EQ(Run(absl::StrCat(plan, "--plan=", In("p.json"), " --save-plan=", In("p.json"))).code, 0);
}

TEST_F(NamedFiles, NoneIsWhereTheStandardOutputGoes) {
  const Result r = Run("train --model=two_column --data=digits --steps=1 --log=/dev/stdout");
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, HasSubstr("--log: expected another file than the standard output goes to, found /dev/stdout"));
}

// In a process of another user, since root may write everything.
TEST_F(NamedFiles, WhatIsWriteProtectedStays) {
  Write("best", "weights");
  std::filesystem::permissions(In("best"), std::filesystem::perms::owner_read);
  std::filesystem::permissions(path_, std::filesystem::perms::all);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::chown(In("best").c_str(), 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0)) {
      std::_Exit(99);
    }
    const bool refused = absl::IsDataLoss(CheckWrittenFiles({{"--save", In("best")}}));
    std::_Exit(refused && CheckWrittenFiles({{"--save", In("other")}}).ok() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(NamedFiles, OfCalibrateAndBenchStepAreNotWrittenOverWhatTheyRead) {
  const std::string network = Run("models two_column --json").out;
  Write("mine.json", network);
  Write("t.json", R"({"transfers": [{"operation": "all_reduce", "devices": 2, "size_bytes": 4096, "p50_us": 7}]})");
  Write("c.toml", "batch = 16\n");
  const std::string mine = In("mine.json");
  ExpectError(absl::StrCat("calibrate --model=", mine, " --out=", mine), 2, {"--out", "of --model"});
  ExpectError(absl::StrCat("calibrate --transfers=", In("t.json"), " --out=", In("./t.json")), 2,
              {"--out", "of --transfers"});
  ExpectError(absl::StrCat("calibrate --config=", In("c.toml"), " --out=", In("c.toml")), 2, {"--out", "of --config"});
  Write("net", network);
  const std::string net = In("./net");
  ExpectError(absl::StrCat("bench step --model=", net, " --roofline=", In("net")), 2, {"--roofline", "of --model"});
  ASSERT_EQ(Run(absl::StrCat("plan --model=two_column --machine=titan-2013 --save-plan=", In("plan"))).code, 0);
  ExpectError(absl::StrCat("bench step --model=two_column --plan=", In("plan"), " --roofline=", In("plan")), 2,
              {"--roofline", "of --plan"});
  EXPECT_EQ(*engine::ReadFile(mine), network);
}

// One beginning of each kind.
const std::map<FileKind, std::string> kBeginnings = {
    {FileKind::kDrawing, "<svg xmlns='…'></svg>"},
    {FileKind::kTextDrawing, "lenet under single, batch 64, 1 device; what device 0 holds\n"},
    {FileKind::kPage, "<!DOCTYPE html>\n<html>"},
    {FileKind::kTimeline, "{\"traceEvents\":[]}"},
    {FileKind::kWeights, std::string("\x12\0\0\0\0\0\0\0{\"__metadata__\":{}}", 26)},
    {FileKind::kPlan, "{\n  \"colonnade_plan\": 1}"},
    {FileKind::kProfile, "{\n \"colonnade_machine\": 1}"},
    {FileKind::kTable, "format,threads\n"},
    {FileKind::kManPage, ".TH \"COLONNADE\" 1"},
};

TEST_F(NamedFiles, EachKindReplacesItsOwnAlone) {
  for (const auto& [kind, name] : kBeginnings) {
    const NamedFile file{.flag = "--a", .path = In("c"), .kind = kind};
    std::filesystem::remove(In("c"));
    EXPECT_TRUE(CheckWrittenFiles({file}).ok()) << NameOf(kind);
    Write("c", "");
    EXPECT_TRUE(CheckWrittenFiles({file}).ok()) << NameOf(kind);
    for (const auto& [other, beginning] : kBeginnings) {
      Write("c", beginning);
      EXPECT_EQ(CheckWrittenFiles({file}).ok(), other == kind) << NameOf(kind) << " over " << NameOf(other);
    }
    for (const char* photo : {"\xff\xd8\xff\xe0", "{}", "x", "{\"flags\": {}}"}) {
      Write("c", photo);
      EXPECT_THAT(std::string(CheckWrittenFiles({file}).message()),
                  HasSubstr(absl::StrCat("--a: expected a new file or ", NameOf(kind), ", found ", In("c"))));
      EXPECT_TRUE(CheckWrittenFiles({{"--any", In("c")}}).ok());
    }
  }
  EXPECT_TRUE(BeginsAs(FileKind::kDrawing, "<?xml version='1.0'?><svg/>"));
  EXPECT_TRUE(BeginsAs(FileKind::kPlan, "\n{\"name\": \"mine\", \"colonnade_plan\": 1}")) << "people sort their keys";
  EXPECT_FALSE(BeginsAs(FileKind::kPlan, "my \"colonnade_plan\""));
}

TEST_F(NamedFiles, TwoFlagsOfOneFileAreToldBeforeWhatItHolds) {
  Write("c", "mine");
  EXPECT_THAT(std::string(CheckWrittenFiles({{"--a", In("c"), FileKind::kPage}, {"--b", In("c")}}).message()),
              HasSubstr("--b: expected a file of its own"));
}

TEST_F(NamedFiles, ADashIsNone) {
  for (const char* flag : {"--log", "--report", "--save", "--trace", "--curves"}) {
    ExpectError(absl::StrCat("train --model=two_column --data=digits --steps=1 ", flag, "=-"), 2,
                {absl::StrCat(flag, ": expected the name of a file, found -")});
  }
  EXPECT_TRUE(CheckWrittenFiles({{"--log", In("-")}}).ok());
}

// Every flag that writes a file, before and after it has written one.
class WritingFlags : public NamedFiles {
 protected:
  void ExpectToReplaceItsKind(const std::string& command, const std::string& flag, const std::string& file) const {
    const std::string all = absl::StrCat(command, " ", flag, "=", In(file));
    Write(file, "mine");
    ExpectError(all, 2, {absl::StrCat(flag, ": expected a new file or "), "which is something else; name another file"});
    EXPECT_EQ(*engine::ReadFile(In(file)), "mine") << all;
    std::filesystem::remove(In(file));
    for (const char* time : {"first", "second"}) {
      const Result r = Run(all);
      EXPECT_EQ(r.code, 0) << all << ", the " << time << " time\n" << r.err;
    }
  }
};

TEST_F(WritingFlags, OfTrainReplaceTheirKind) {
  const std::string train = "train --model=two_column --data=digits --width=0.25 --steps=1 --ema=0.9";
  for (const char* flag : {"--save", "--save-ema", "--trace", "--curves", "--report"}) {
    ExpectToReplaceItsKind(train, flag, "f");
  }
}

TEST_F(WritingFlags, OfPlanAndSimulateReplaceTheirKind) {
  const std::string plan = "plan --model=lenet --machine=titan-2013 --devices=2 --draws=0";
  for (const char* flag : {"--save-plan", "--trace", "--report"}) ExpectToReplaceItsKind(plan, flag, "f");
  ExpectToReplaceItsKind(plan, "--drawing", "d.svg");
  ExpectToReplaceItsKind(plan, "--drawing", "d.txt");
  for (const char* flag : {"--trace", "--report"}) {
    ExpectToReplaceItsKind("simulate --model=lenet --machine=titan-2013 --devices=2 --draws=0", flag, "s");
  }
}

TEST_F(WritingFlags, OfOtherSubCommandsReplaceTheirKind) {
  ExpectToReplaceItsKind("bench step --model=two_column --steps=2", "--roofline", "f.svg");
  ExpectToReplaceItsKind("io-bench --data=digits --epochs=1", "--csv", "f.csv");
  const std::string run = In("run");
  ASSERT_EQ(Run(absl::StrCat("train --model=two_column --data=digits --width=0.25 --steps=1 --checkpoint=", run)).code, 0);
  ExpectToReplaceItsKind(absl::StrCat("checkpoint export ", run), "--out", "w");
  ExpectToReplaceItsKind("table --draws=0", "--report", "t.html");
  Write("p", "mine");
  ExpectError(absl::StrCat("calibrate --out=", In("p")), 2, {"--out: expected a new file or a machine profile"});
  ExpectError(absl::StrCat("table --out=", In("p")), 2, {"--out: expected a new file or a machine profile"});
  Write("p-speedup.svg", "mine");
  ExpectError(absl::StrCat("table --plots=", In("p")), 2, {"--plots: expected a new file or an SVG"});
}

TEST_F(WritingFlags, OfManReplacePagesAlone) {
  const std::string man = absl::StrCat("man --out=", In("man1"));
  ASSERT_EQ(Run(man).code, 0);
  EXPECT_EQ(Run(man).code, 0);
  Write("man1/colonnade-eval.1", "mine");
  ExpectError(man, 2, {"--out: expected a new file or a manual page", "colonnade-eval.1"});
}

TEST_F(NamedFiles, RoomIsLookedForBeforeTheFirstStep) {
  EXPECT_TRUE(CheckRoomFor({"--save", In("w")}, 1).ok());
  const absl::Status status = CheckRoomFor({"--save", In("w")}, int64_t{1} << 60);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--save: expected room for 1152921504606.8 MB beside "));
}

TEST_F(NamedFiles, NoneIsPartOfACheckpoint) {
  const std::string run = In("run"), weights = run + "/step-000000002/weights.safetensors";
  ASSERT_EQ(Run(absl::StrCat("train --model=two_column --data=digits --width=0.25 --steps=2 --checkpoint=", run)).code, 0);
  ExpectError(absl::StrCat("checkpoint export ", run, " --out=", weights), 2,
              {"--out: expected a file outside of checkpoints", "would damage that in"});
  ExpectError(absl::StrCat("train --model=two_column --data=digits --steps=1 --save=", weights), 2,
              {"--save: expected a file"});
  EXPECT_EQ(Run(absl::StrCat("checkpoint verify ", run)).code, 0);
  for (const char* file : {"lock", "config.toml"}) {
    ExpectError(absl::StrCat("train --model=two_column --data=digits --steps=1 --checkpoint=", run, " --resume --save=", run,
                             "/", file),
                2, {"--save: expected a file of its own", "of --checkpoint"});
  }
  EXPECT_EQ(Run(absl::StrCat("checkpoint export ", run, " --out=", run, "/w")).code, 0)
      << "beside them is a place like others";
}

}  // namespace
}  // namespace colonnade::cli
