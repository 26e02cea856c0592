// `bench step --against`: figures of other programs, in turn with the step.
#include "cli/peer.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kStep[] = "bench step --model=two_column --batch=32 --steps=2";

TEST(FindImagesPerSecond, IsThatOfJsonOrOfWords) {
  const std::vector<std::pair<std::string, double>> cases = {
      {R"({"net": "alexnet", "images_per_s": 52.5})", 52.5},
      {"warming up\n  {\"images_per_s\": 7}\ndone\n", 7},
      {"{\n  \"images_per_s\": 1e3\n}\n", 1000},
      {"  total 904.1 ms, 70.8 images/s\n", 70.8},
      {"speed: (70.8 images/s)\n", 70.8},
      {"images/s: 41.25\n", 41.25},
      {"images/s = 12, 3 ms\n", 12},
      {"70.8images/s", 70.8},
      {"step 1: 10 images/s\nstep 2: 20 images/s\nbye", 20},
  };
  for (const auto& [output, expected] : cases) {
    const std::optional<double> found = FindImagesPerSecond(output);
    ASSERT_TRUE(found.has_value()) << output;
    EXPECT_EQ(*found, expected) << output;
  }
}

TEST(FindImagesPerSecond, IsNothingWhereNoneIsStated) {
  for (const char* output :
       {"", "images/s", "many images/s", "12.5k images/s", "0 images/s", "-3 images/s", "nan images/s", "70.8 ms",
        R"({"images_per_s": "fast"})", R"({"images_per_s": 0})", R"({"images_per_s": 3)", R"([{"images_per_s": 3}])"}) {
    EXPECT_FALSE(FindImagesPerSecond(output).has_value()) << output;
  }
}

class Peer : public Command {
 protected:
  // The flag that runs a script of the shell.
  std::string Against(const std::string& script) const {
    Write("peer", absl::StrCat("#!/bin/sh\n", script));
    std::filesystem::permissions(In("peer"), std::filesystem::perms::owner_all);
    return absl::StrCat(" --against=", In("peer"));
  }
};

TEST_F(Peer, TakesTurnsWithTheStep) {
  // The first time 100, then 200 and so on.
  const std::string script =
      absl::StrCat("echo x >> ", In("runs"), "\necho \"loading\"\necho \"$(wc -l < ", In("runs"), ")00 images/s\"\n");
  const Result r = Run(absl::StrCat(kStep, " --pairs=3 --json", Against(script)));
  ASSERT_EQ(r.code, 0) << r.err;
  const json step = json::parse(r.out), against = step["against"];
  EXPECT_EQ(against["command"], In("peer"));
  ASSERT_EQ(against["pairs"].size(), 3u);
  EXPECT_EQ(step["steps"], 3 * 2) << "so many in each pair";
  std::vector<double> ratios;
  for (size_t i = 0; i < 3; ++i) {
    const json& pair = against["pairs"][i];
    EXPECT_EQ(pair["peer_images_per_s"], 100.0 * static_cast<double>(i + 1));
    EXPECT_GT(pair["images_per_s"], 0);
    const double ratio = pair["images_per_s"].get<double>() / pair["peer_images_per_s"].get<double>();
    EXPECT_NEAR(pair["ratio"], ratio, 1e-9 * ratio);
    ratios.push_back(ratio);
  }
  std::sort(ratios.begin(), ratios.end());
  EXPECT_NEAR(against["ratio"]["median"], ratios[1], 1e-9 * ratios[1]);
  EXPECT_NEAR(against["ratio"]["spread"], (ratios[2] - ratios[0]) / ratios[1], 1e-6);
}

TEST_F(Peer, IsNamedInTheTextWithEachPair) {
  const Result r = Run(absl::StrCat(kStep, " --pairs=2", Against("echo '{\"images_per_s\": 64}'\n")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr(absl::StrCat("in turn with: ", In("peer"), "\n")));
  EXPECT_THAT(r.out, ::testing::ContainsRegex("\n     2 +[0-9.]+ +64\\.0 +[0-9.]+\nratio [0-9.]+ \\(median; "));
}

TEST_F(Peer, ThatFailsIsNamedWithItsLastWords) {
  ExpectError(absl::StrCat(kStep, Against("echo '50 images/s'\necho 'out of luck' >&2\nexit 3\n")), 65,
              {"--against: expected", "to succeed, found exit code 3", "\"out of luck\""});
  ExpectError(absl::StrCat(kStep, Against("kill -9 $$\n")), 65, {"found exit code 137"});
  ExpectError(absl::StrCat(kStep, " --against=kill\t-9\t$$"), 65, {"found exit code 137"});  // the shell itself
  ExpectError(absl::StrCat(kStep, Against("exit 4\n")), 65, {"found exit code 4 and at the end of what it printed nothing"});
  ExpectError(absl::StrCat(kStep, " --against=./no_such_peer"), 65, {"found exit code 127", "not found"});
}

TEST_F(Peer, ThatStatesNoFigureIsNamedWithWhatWasExpected) {
  ExpectError(absl::StrCat(kStep, Against("echo 'all is well'\n")), 65,
              {"{\"images_per_s\": N} or N images/s", "\"all is well\""});
}

// Who measures PyTorch wants PyTorch's own waiting, and no question may hold up the pairs.
TEST_F(Peer, HasTheUsersEnvironmentAndNoInput) {
  const std::string script =
      absl::StrCat("read line\necho \"${GOMP_SPINCOUNT-none}$line\" >> ", In("spins"), "\necho 5 images/s\n");
  Write("typed", " and what was typed\n");
  const auto type = [this] { return std::freopen(In("typed").c_str(), "r", stdin); };
  const std::string step = absl::StrCat(kStep, " --pairs=1", Against(script));
  const Result r = Wait(Start(step, [&] { type(), ::unsetenv("GOMP_SPINCOUNT"); }));
  ASSERT_EQ(r.code, 0) << r.err;
  const Result own = Wait(Start(step, [&] { type(), ::setenv("GOMP_SPINCOUNT", "77", 1); }));
  ASSERT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(*engine::ReadFile(In("spins")), "none\n77\n");
}

TEST_F(Peer, PairsAreOfACommand) {
  ExpectError(absl::StrCat(kStep, " --pairs=2"), 2, {"--pairs", "--against"});
  ExpectError(absl::StrCat(kStep, " --pairs=0", Against("echo 1 images/s\n")), 2, {"--pairs"});
}

}  // namespace
}  // namespace colonnade::cli
