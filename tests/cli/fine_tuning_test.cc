// --init --replace-head: the weights of a network for other classes.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "engine/io/weights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"
#include "tests/engine/load_weights.h"

namespace colonnade::cli {
namespace {

class FineTuning : public Command {
 protected:
  std::vector<engine::NamedTensor> Weights(const std::string& file, const std::string& flags) const {
    const Result r = Run(absl::StrCat("train --model=two_column --data=synthetic --channels=1 --input-size=8 --width=0.25 ",
                                      flags, " --save=", In(file)));
    EXPECT_EQ(r.code, 0) << r.err;
    return *engine::LoadWeights(In(file));
  }
};

TEST_F(FineTuning, AllButTheLastLayerIsTakenAndThatIsBegunAnew) {
  const std::vector<engine::NamedTensor> ten = Weights("ten", "--classes=10 --steps=3");
  const std::string other = "--classes=4 --seed=5 --steps=1 --lr=0 ";  // nothing is learned
  const std::vector<engine::NamedTensor> fresh = Weights("fresh", other);
  const std::vector<engine::NamedTensor> tuned = Weights("tuned", absl::StrCat(other, "--replace-head --init=", In("ten")));
  ASSERT_EQ(tuned.size(), ten.size());
  ExpectError(absl::StrCat("train --model=two_column --data=synthetic --channels=1 --input-size=8 --width=0.25 ", other,
                           "--init=", In("ten")),
              65, {In("ten"), "expected shape", "--replace-head begins with a new last layer"});
  int anew = 0;
  for (size_t i = 0; i < tuned.size(); ++i) {
    const bool is_head = ten[i].shape != tuned[i].shape;
    anew += is_head ? 1 : 0;
    EXPECT_EQ(tuned[i].values, (is_head ? fresh : ten)[i].values) << tuned[i].name;
    if (i == 0) {
      EXPECT_NE(ten[i].values, fresh[i].values) << "the seeds differ";
    }
  }
  EXPECT_EQ(anew, 2) << "weights and bias";
  ExpectError(absl::StrCat("train --model=two_column --data=synthetic --channels=1 --input-size=8 --width=0.25 ", other,
                           "--init=", In("ten")),
              65, {In("ten"), "expected shape [4,"});
  ExpectError(absl::StrCat("train --model=two_column --data=digits --steps=1 --replace-head"), 2,
              {"--replace-head", "--init"});
}

TEST_F(FineTuning, ANormalisationOfLogitsIsBegunAnewWithWhatItReads) {
  const std::string layers =
      R"({"colonnade_model": 1, "name": "n", "layers": [{"name": "images", "type": "Input", "sample_shape": [1, 8, 8]},
          {"name": "flatten", "type": "Flatten"}, {"name": "fc", "type": "FullyConnected", "out_features": $0},
          {"name": "bn", "type": "BatchNorm"}, {"name": "loss", "type": "SoftmaxCrossEntropy"}]})";
  for (const char* classes : {"10", "12"}) Write(absl::StrCat(classes, ".json"), absl::Substitute(layers, classes));
  const auto train = [&](const char* classes) {
    return absl::StrCat("train --data=digits --steps=1 --model=", In(classes), ".json ");
  };
  ASSERT_EQ(Run(absl::StrCat(train("10"), "--save=", In("ten"))).code, 0);
  ExpectError(absl::StrCat(train("12"), "--init=", In("ten")), 65, {"\"fc.weight\"", "--replace-head begins"});
  const Result tuned = Run(absl::StrCat(train("12"), "--replace-head --head-lr-scale=2 --init=", In("ten")));
  EXPECT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_THAT(tuned.err, ::testing::HasSubstr("rate of bn times 2, rate of fc times 2, "));
}

TEST_F(Command, ANetworkOfMoreClassesThanTheDataIsTrainedWithANote) {
  const std::string train = "train --model=two_column --data=digits --width=0.25 --steps=1";
  EXPECT_THAT(Run(absl::StrCat(train, " --classes=12")).err,
              ::testing::HasSubstr("note: the network has 12 classes, the data set 10\n"));
  EXPECT_THAT(Run(train).err, ::testing::Not(::testing::HasSubstr("classes, the data set")));
}

}  // namespace
}  // namespace colonnade::cli
