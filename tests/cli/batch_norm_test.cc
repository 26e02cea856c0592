// --batch-norm and --zero-init-residual, and running statistics between a training, its file and an evaluation.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "engine/io/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"
#include "tests/engine/load_weights.h"

namespace colonnade::cli {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

using BatchNormFlags = Command;

const char kTrainResnet[] = "train --model=resnet20 --data=digits --width=0.5 --steps=6 --batch=24 --lr=0.05 --json ";
const char kEvalResnet[] = "eval --model=resnet20 --data=digits --width=0.5 --json ";
const char kProgram[] = "program --model=resnet20 --width=0.5 --input-size=8 --batch=24 ";

TEST_F(BatchNormFlags, ValuesThatAreNeitherSyncNorGroupsAre2) {
  for (const char* value : {"x", "Sync", "ghost", "ghost:", "ghost:0", "ghost:-4", "ghost:4.5", "ghost:4x", "ghost:1048577",
                            "ghost:99999999999999999999", "8"}) {
    ExpectError(absl::StrCat("models resnet20 --batch-norm=", value), 2,
                {"--batch-norm: expected sync, or ghost:N with N samples from 1 to 2^20, found \"", value});
  }
  ExpectError("models resnet20 --zero-init-residual=yes", 2, {"--zero-init-residual", "yes", "on", "off"});
}

TEST_F(BatchNormFlags, GroupsThatDoNotDivideTheBatchAre2WithTheNearestBatches) {
  ExpectError("train --model=two_column --data=digits --steps=1 --batch-norm=ghost:8", 2,
              {"--batch-norm: expected a network with batch normalisation, found two_column, which has none"});
  ExpectError(absl::StrCat(kTrainResnet, "--batch-norm=ghost:5"), 2,
              {"layer \"bn1\": a global batch of 24 is not cut into groups of 5 samples; nearest that work: 20 or 25"});
  ExpectError(absl::StrCat(kTrainResnet, "--batch-norm=ghost:32"), 2,
              {"a global batch of 24 is not cut into groups of 32 samples; nearest that work: 32"});
}

// Images of 8 x 8 are 1 x 1 behind three halvings and one of the window.
TEST_F(BatchNormFlags, OverOneValueOfEachChannelIsWarnedOf) {
  const std::string train = "train --model=resnet18 --width=0.0625 --data=synthetic --input-size=32 --classes=4 --steps=1 ";
  constexpr char kWarning[] = "over one value of each channel makes constants of what it reads";
  EXPECT_THAT(Run(train + "--batch=1").err, HasSubstr(kWarning));
  EXPECT_THAT(Run(train + "--batch=2 --batch-norm=ghost:1").err, HasSubstr(kWarning));
  EXPECT_THAT(Run(train + "--batch=2").err, Not(HasSubstr(kWarning)));
}

TEST_F(BatchNormFlags, ALayerNormalisationOverOneChannelIsWarnedOf) {
  const std::string layers =
      R"({"colonnade_model": 1, "name": "n", "layers": [{"name": "images", "type": "Input", "sample_shape": [1, 8, 8]},
          {"name": "conv", "type": "Conv2d", "out_channels": $0}, {"name": "norm", "type": "LayerNorm"},
          {"name": "flatten", "type": "Flatten"}, {"name": "fc", "type": "FullyConnected", "out_features": 10},
          {"name": "loss", "type": "SoftmaxCrossEntropy"}]})";
  constexpr char kWarning[] = "layer \"norm\": a layer normalisation over one channel makes a constant of what it reads";
  for (const char* channels : {"1", "2"}) Write(absl::StrCat(channels, ".json"), absl::Substitute(layers, channels));
  const std::string train = "train --data=digits --steps=1 --model=";
  EXPECT_THAT(Run(absl::StrCat(train, In("1.json"))).err, HasSubstr(kWarning));
  EXPECT_THAT(Run(absl::StrCat(train, In("2.json"))).err, Not(HasSubstr("a layer normalisation")));
}

TEST_F(BatchNormFlags, NotesThatHoldForManyLayersAreSaidOnce) {
  const Result r = Run("program --summary --model=resnet20 --plan=data --devices=4 --batch=8 --batch-norm=ghost:4");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err,
              ContainsRegex("note: [0-9]+ layers such as layer \".*\" on axis \"data\": strategy batch over 4 positions"));
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
}

TEST_F(BatchNormFlags, GroupsReachTheProgramAndTheGlobalBatchIsOne) {
  const Result sync = Run(absl::StrCat(kProgram, "--batch-norm=sync")), own = Run(kProgram),
               ghost = Run(absl::StrCat(kProgram, "--batch-norm=ghost:8"));
  ASSERT_EQ(sync.code, 0) << sync.err;
  ASSERT_EQ(ghost.code, 0) << ghost.err;
  EXPECT_EQ(sync.out, own.out) << "sync is the default";
  // bn1 of 8 channels on images of 8x8: 24 samples, or 3 groups of 8.
  EXPECT_THAT(sync.out, HasSubstr("f64 [1,2,8] \"bn1.sums\""));
  EXPECT_THAT(sync.out, HasSubstr("batch_norm_forward{count=1536 "));
  EXPECT_THAT(ghost.out, HasSubstr("f64 [3,2,8] \"bn1.sums\""));
  EXPECT_THAT(ghost.out, HasSubstr("batch_norm_forward{count=512 "));
  EXPECT_THAT(ghost.out, HasSubstr("batch_norm_track{count=1536 ")) << "statistics are of the whole batch";
  EXPECT_THAT(Run(absl::StrCat(kProgram, "--batch-norm=ghost:1048576")).err, HasSubstr("groups of 1048576 samples"));
}

TEST_F(BatchNormFlags, ZeroInitResidualBeginsTheLastNormalisationOfEachBranchAtZero) {
  const Result off = Run(kProgram), on = Run(absl::StrCat(kProgram, "--zero-init-residual=on"));
  ASSERT_EQ(on.code, 0) << on.err;
  for (const auto& [result, last] : {std::pair(&off, "1"), {&on, "0"}}) {
    EXPECT_THAT(result->out, ContainsRegex("\"layer1\\.0\\.bn1\\.weight\" [^\n]* constant 1 "));
    EXPECT_THAT(result->out, ContainsRegex(absl::StrCat("\"layer1\\.0\\.bn2\\.weight\" [^\n]* constant ", last, " ")));
  }
}

bool IsStatistic(const engine::NamedTensor& tensor) { return absl::StrContains(tensor.name, ".running_"); }

json TestOf(const Result& r) {
  EXPECT_EQ(r.code, 0) << r.err;
  return r.code == 0 ? json::parse(r.out).at("test") : json();
}

// A test after training normalises by the running means and variances, as an evaluation of the saved file does.
TEST_F(BatchNormFlags, AnEvaluationOfWhatWasSavedIsTheTestAtTheEndOfTraining) {
  for (const char* rest : {"", "--plan=data --devices=2 ", "--plan=data --devices=2 --batch-norm=ghost:12 "}) {
    const json trained = TestOf(Run(absl::StrCat(kTrainResnet, rest, "--save=", In("w.safetensors"))));
    const json evaluated = TestOf(Run(absl::StrCat(kEvalResnet, rest, "--batch=24 --init=", In("w.safetensors"))));
    EXPECT_EQ(trained, evaluated) << rest;
    EXPECT_EQ(evaluated.at("count"), 360);
  }
}

// 1e-4: the order of sums differs between plans.
TEST_F(BatchNormFlags, AnEvaluationHasOneResultUnderEveryPlanAndEveryBatch) {
  const json trained = TestOf(Run(absl::StrCat(kTrainResnet, "--save=", In("w.safetensors"))));
  for (const char* rest : {"--batch=40", "--plan=data --devices=4 --batch=8", "--plan=model --devices=2 --batch=24"}) {
    const json evaluated = TestOf(Run(absl::StrCat(kEvalResnet, rest, " --init=", In("w.safetensors"))));
    EXPECT_NEAR(evaluated.at("loss").get<double>(), trained.at("loss").get<double>(), 1e-4) << rest;
  }
}

// Running statistics ask for no groups: neither must they divide the batch, nor devices the groups.
TEST_F(BatchNormFlags, AnEvaluationHasNoGhostBatches) {
  const json trained = TestOf(Run(absl::StrCat(kTrainResnet, "--batch-norm=ghost:12 --save=", In("w.safetensors"))));
  for (const char* rest : {"--batch=64", "--batch=1", "--plan=data --devices=4 --batch=12"}) {
    const json evaluated =
        TestOf(Run(absl::StrCat(kEvalResnet, rest, " --batch-norm=ghost:12 --init=", In("w.safetensors"))));
    EXPECT_NEAR(evaluated.at("loss").get<double>(), trained.at("loss").get<double>(), 1e-4) << rest;
  }
}

TEST_F(BatchNormFlags, TheFileHoldsRunningStatisticsAndEvaluationReadsThem) {
  const json trained = TestOf(Run(absl::StrCat(kTrainResnet, "--save=", In("w.safetensors"))));
  absl::StatusOr<std::vector<engine::NamedTensor>> tensors = engine::LoadWeights(In("w.safetensors"));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  int statistics = 0;
  for (engine::NamedTensor& tensor : *tensors) {
    if (!IsStatistic(tensor)) continue;
    ++statistics;
    const double initial = absl::EndsWith(tensor.name, ".running_mean") ? 0 : 1;
    EXPECT_TRUE(std::any_of(tensor.values.begin(), tensor.values.end(), [&](double v) { return v != initial; }))
        << tensor.name << " was not trained";
    std::fill(tensor.values.begin(), tensor.values.end(), initial);
  }
  EXPECT_EQ(statistics, 2 * 19);
  ASSERT_TRUE(engine::SaveTensors(In("forgotten.safetensors"), *tensors).ok());
  const json forgotten = TestOf(Run(absl::StrCat(kEvalResnet, "--batch=24 --init=", In("forgotten.safetensors"))));
  EXPECT_NE(forgotten.at("loss"), trained.at("loss"));
  tensors->pop_back();
  ASSERT_TRUE(engine::SaveTensors(In("fewer.safetensors"), *tensors).ok());
  ExpectError(absl::StrCat(kEvalResnet, "--init=", In("fewer.safetensors")), 65,
              {"fewer.safetensors", "found no such tensor"});
}

// One step that learns nothing, from two files of the same weights: r ← 0.9·r + 0.1·(of the batch), with one batch.
TEST_F(BatchNormFlags, TrainingGoesOnFromTheStatisticsOfTheFile) {
  const auto one_step = [this](const std::string& from) {
    const std::string after = In(absl::StrCat("after_", from));
    const Result r =
        Run(absl::StrCat("train --model=resnet20 --data=digits --width=0.5 --steps=1 --batch=24 --lr=0 --init=", In(from),
                         " --save=", after));
    EXPECT_EQ(r.code, 0) << r.err;
    return *engine::LoadWeights(after);
  };
  ASSERT_EQ(Run(absl::StrCat(kTrainResnet, "--save=", In("w.safetensors"))).code, 0);
  const std::vector<engine::NamedTensor> trained = *engine::LoadWeights(In("w.safetensors"));
  std::vector<engine::NamedTensor> forgotten = trained;
  for (engine::NamedTensor& tensor : forgotten) {
    if (IsStatistic(tensor)) std::fill(tensor.values.begin(), tensor.values.end(), 0);
  }
  ASSERT_TRUE(engine::SaveTensors(In("forgotten.safetensors"), forgotten).ok());
  const std::vector<engine::NamedTensor> a = one_step("w.safetensors"), b = one_step("forgotten.safetensors");
  ASSERT_EQ(a.size(), trained.size());
  for (size_t t = 0; t < a.size(); ++t) {
    for (size_t i = 0; i < a[t].values.size(); ++i) {
      const double before = trained[t].values[i], found = a[t].values[i] - b[t].values[i];
      // f32: three roundings of what a[t] is.
      const double tolerance = 3 * 0x1p-24 * (std::abs(a[t].values[i]) + std::abs(before));
      EXPECT_NEAR(found, IsStatistic(a[t]) ? 0.9 * before : 0, tolerance) << a[t].name << " " << i;
    }
  }
}

TEST_F(BatchNormFlags, ModelsOfResnet20ShowsNormalisationsAndNarrowSums) {
  const Result r = Run("models resnet20");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, ContainsRegex("\nbn1 +BatchNorm +\\[16,32,32\\] +32 +0\\.000\n"));
  EXPECT_THAT(r.out, ContainsRegex("\nlayer2\\.0\\.add +AddNarrow +\\[32,16,16\\] +0 "));
  EXPECT_THAT(r.out, ContainsRegex("\nlayer3\\.2\\.add +Add +\\[64,8,8\\] +0 "));
  EXPECT_THAT(r.out, ContainsRegex("\nin all +269722 "));
}

}  // namespace
}  // namespace colonnade::cli
