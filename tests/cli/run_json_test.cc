// What all objects of --json say of a plan and of a run.
#include "cli/session/run_json.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::ordered_json;

std::vector<std::string> KeysOf(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST_F(Command, ARunAndAPlanAreSaidAlikeBySubCommands) {
  const std::string plan = "--model=two_column --plan=hybrid --devices=4 --batch=32 --json ";
  const auto json_of = [&](const std::string& words) {
    const Result r = Run(absl::StrCat(words, " ", plan));
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out);
  };
  const Json trained = json_of("train --data=digits --steps=1"), step = json_of("bench step --steps=1"),
             planned = json_of("plan --machine=dgx1-v100 --draws=0");
  const Json of_run = {{"model", "two_column"}, {"plan", "hybrid"}, {"mesh", {{"replicas", 2}, {"columns", 2}}},
                       {"devices", 4},          {"backend", "cpu"}, {"dtype", "fp32"},
                       {"global_batch", 32}};
  for (const auto& [key, value] : of_run.items()) {
    EXPECT_EQ(trained[key], value) << key;
    EXPECT_EQ(step[key], value) << key;
    if (key == "backend") continue;  // nothing runs
    EXPECT_EQ(planned[key], value) << key;
  }
  EXPECT_THAT(KeysOf(PlanJson(partition::Plan{})), ElementsAre("plan", "mesh", "devices"));
}

}  // namespace
}  // namespace colonnade::cli
