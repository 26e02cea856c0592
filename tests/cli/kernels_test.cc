// Kernels and element types that a backend has or has not.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using ::testing::HasSubstr;

TEST_F(Command, Bf16OnTheCpuIsOfReferenceKernels) {
  const std::string command =
      "verify --model=two_column --data=digits --plan=model --devices=2 --batch=8 --steps=1 --backend=cpu ";
  const Result run = Run(command + "--dtype=bf16 --kernels=reference --json");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\"dtype\":\"bf16\""));
  ExpectError(command + "--dtype=bf16", 2, {"--dtype=bf16", "--kernels=reference"});
}

TEST_F(Command, WinogradKernelsAgreeOrTheMessageSaysWhyTheyAreNotThere) {
  const std::string command =
      "verify --model=vgg11 --width=0.125 --input-size=32 --classes=4 --plan=data --devices=2 --batch=4 ";
  const Result run = Run(command + "--steps=1 --backend=cpu --kernels=winograd --json");
  if (run.code == 2) {
    EXPECT_THAT(run.err, AllOf(HasSubstr("--kernels=winograd: oneDNN"), HasSubstr("take the direct ones")));
  } else {
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("\"kernels\":\"winograd\""));
  }
}

TEST_F(Command, Tf32IsOfGpus) {
  const Result r = Run("train --model=lenet --steps=1 --backend=cpu --dtype=tf32");
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, HasSubstr("--dtype=tf32: tf32 needs --backend=cuda"));
}

}  // namespace
}  // namespace colonnade::cli
