#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST_F(Command, ModelsListsTheZoo) {
  const Result r = Run("models");
  EXPECT_EQ(r.code, 0) << r.err;
  for (const char* name : {"two_column", "lenet", "alexnet2012", "alexnet"}) EXPECT_THAT(r.out, HasSubstr(name));
}

TEST_F(Command, ModelsOfANameShowsItsLayers) {
  const Result r = Run("models alexnet");
  EXPECT_EQ(r.code, 0) << r.err;
  // 64 filters of 3 x 11 x 11 and their biases; 2 x 64 x 363 x 55 x 55 flop.
  EXPECT_THAT(r.out, ContainsRegex("features\\.0 +Conv2d +\\[64,55,55\\] +23296 +0\\.141\n"));
  EXPECT_THAT(r.out, ContainsRegex("in all, .* 61100840 +"));
}

TEST_F(Command, ModelsOfAnUnknownNameIsRefused) { ExpectError("models alexnett", 2, {"alexnett", "alexnet"}); }

}  // namespace
}  // namespace colonnade::cli
