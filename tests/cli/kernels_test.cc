// Kernels and element types that a backend has or has not.
#include <regex>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "cpu/about.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

TEST_F(Command, Bf16OnTheCpuAgreesWithEachKernels) {
  const std::string command =
      "verify --model=two_column --data=digits --plan=model --devices=2 --batch=8 --steps=1 --backend=cpu --dtype=bf16 ";
  for (const char* kernels : {"reference", "onednn", "winograd"}) {
    const Result run = Run(absl::StrCat(command, "--json --kernels=", kernels));
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("\"dtype\":\"bf16\""));
  }
}

// Both types are measured, and the first lines say which was taken and how it is computed.
TEST_F(Command, TheTypeThatATrainingTakesIsSaid) {
  const std::string command = "train --model=two_column --data=digits --batch=8 --steps=2 --backend=cpu --json ";
  const Result bf16 = Run(command + "--dtype=bf16");
  EXPECT_EQ(bf16.code, 0) << bf16.err;
  EXPECT_THAT(bf16.err, HasSubstr(absl::StrCat("onednn kernels, bf16 (", cpu::Bf16Products(), ")")));
  const Result chosen = Run(command + "--dtype=auto");
  EXPECT_EQ(chosen.code, 0) << chosen.err;
  std::smatch measured;
  ASSERT_TRUE(std::regex_search(
      chosen.err, measured, std::regex("takes ([0-9.e+]+) ms in fp32 and ([0-9.e+]+) ms in bf16 .*: --dtype=(fp32|bf16)")))
      << chosen.err;
  const double fp32_ms = std::stod(measured[1]), bf16_ms = std::stod(measured[2]);
  const std::string expected = bf16_ms < fp32_ms ? "bf16" : "fp32";
  EXPECT_TRUE(measured[3] == expected || bf16_ms == fp32_ms) << chosen.err;
  const Json record = Json::parse(chosen.out);
  EXPECT_EQ(record["dtype"], measured[3].str());
  EXPECT_EQ(record["flags"]["dtype"], measured[3].str());
}

// What runs it again, or goes on with it, does not choose anew.
TEST_F(Command, ATypeThatWasChosenIsKeptWithTheRun) {
  const std::string kept = In("kept"), train = "train --model=two_column --data=digits --batch=8 --backend=cpu --steps=";
  const Result chosen = Run(absl::StrCat(train, "2 --dtype=auto --json --checkpoint=", kept));
  ASSERT_EQ(chosen.code, 0) << chosen.err;
  Write("run.json", chosen.out);
  const Result again = Run(absl::StrCat("train --json --config=", In("run.json"), " --checkpoint=", In("again")));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(Json::parse(again.out)["losses"], Json::parse(chosen.out)["losses"]);
  EXPECT_THAT(again.err, Not(HasSubstr("--dtype=auto")));
  const Result resumed = Run(absl::StrCat("train --config=", kept, "/config.toml --resume --steps=3"));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

TEST_F(Command, APlanThatIsSearchedBeforeTheTypeIsChosenSaysSo) {
  const std::string command =
      "train --model=two_column --data=digits --batch=8 --steps=1 --backend=cpu --plan=auto --devices=2 ";
  EXPECT_THAT(Run(command + "--machine=cpu-2core --dtype=auto").err, HasSubstr("the plan was searched for steps in fp32"));
  EXPECT_THAT(Run(command + "--machine=cpu-2core").err, Not(HasSubstr("was searched for steps")));
}

TEST_F(Command, ADtypeThatCannotBeChosenIsRefused) {
  ExpectError("train --model=lenet --steps=1 --dtype=auto --kernels=reference", 2, {"--dtype=auto", "--kernels=onednn"});
  ExpectError("train --model=lenet --steps=1 --dtype=auto --checkpoint=" + In("none") + " --resume", 2,
              {"--dtype=auto", "--resume"});
  ExpectError("verify --model=lenet --steps=1 --dtype=auto", 2, {"--dtype"});
  ExpectError("calibrate --dtype=tf32 --backend=cpu --out=" + In("profile.json"), 2, {"--dtype=tf32", "--backend=cuda"});
}

TEST_F(Command, WinogradKernelsAgreeOrTheMessageSaysWhyTheyAreNotThere) {
  const std::string command =
      "verify --model=vgg11 --width=0.125 --input-size=32 --classes=4 --plan=data --devices=2 --batch=4 ";
  const Result run = Run(command + "--steps=1 --backend=cpu --kernels=winograd --json");
  if (!cpu::HasWinograd()) {
    EXPECT_EQ(run.code, 2);
    EXPECT_THAT(run.err,
                HasSubstr("--kernels=winograd: expected a processor with AVX-512, or AVX2 and FMA; take --kernels=onednn"));
  } else {
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("\"kernels\":\"winograd\""));
    const std::string words = cpu::Bf16WinogradProducts();
    EXPECT_THAT(
        Run(command + "--steps=1 --backend=cpu --kernels=winograd --dtype=bf16").err,
        HasSubstr(absl::StrCat("bf16 (", words.empty() ? "" : absl::StrCat("convolutions by Winograd ", words, "; else "),
                               cpu::Bf16Products(), ")")));
  }
}

// The profile states rates of oneDNN's kernels.
TEST_F(Command, PredictedMemoryIsWhatTheKernelsTakeThatAreAskedFor) {
  if (!cpu::HasWinograd()) GTEST_SKIP() << "skipped: this processor has no Winograd kernels";
  std::set<int64_t> bytes;
  for (const char* kernels : {"onednn", "winograd"}) {
    const std::string flags = absl::StrCat(" --model=resnet20 --batch=32 --json --kernels=", kernels);
    const Result took = Run(absl::StrCat("bench step --backend=cpu --steps=1", flags));
    ASSERT_EQ(took.code, 0) << took.err;
    bytes.insert(Json::parse(took.out)["peak_memory_bytes"][0].get<int64_t>());
    for (const char* command : {"plan", "simulate"}) {
      const Result predicted = Run(absl::StrCat(command, " --machine=cpu-2core --draws=0", flags));
      ASSERT_EQ(predicted.code, 0) << predicted.err;
      const Json json = Json::parse(predicted.out)["predicted"]["per_device"][0];
      EXPECT_EQ(json["peak_memory_bytes"], Json::parse(took.out)["peak_memory_bytes"][0]) << command << " " << kernels;
    }
  }
  EXPECT_EQ(bytes.size(), 2u) << "the case is none any more";
}

TEST_F(Command, Tf32IsOfGpus) {
  const Result r = Run("train --model=lenet --steps=1 --backend=cpu --dtype=tf32");
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, HasSubstr("--dtype=tf32: tf32 needs --backend=cuda"));
}

}  // namespace
}  // namespace colonnade::cli
