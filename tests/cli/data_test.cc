// Data as users have them: sets without a test part, classes and augmentation that do not fit, by the command.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"
#include "tests/data/image_files.h"

namespace colonnade::cli {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class Data : public Command {
 protected:
  // A folder of JPEGs of 16 x 16, eight of each class.
  std::string Folder(const std::string& name, const std::vector<std::string>& parts,
                     const std::vector<std::string>& classes) const {
    for (const std::string& part : parts) {
      for (const std::string& of : classes) {
        const std::string folder = In(absl::StrCat(name, "/", part, "/", of));
        std::filesystem::create_directories(folder);
        for (int i = 0; i < 8; ++i) {
          std::ofstream(absl::StrCat(folder, "/", i, ".jpg"), std::ios::binary) << data::JpegOf(data::Pattern(16, 16, 3));
        }
      }
    }
    return In(name);
  }
  static std::string Train(const std::string& data, const std::string& flags) {
    return absl::StrCat("train --model=resnet20 --width=0.25 --input-size=16 --batch=8 --steps=2 --data=", data, " ", flags);
  }
};

TEST_F(Data, WithoutTestImagesARunTrainsAndSaysThatThereIsNoTest) {
  const std::string folder = Folder("one", {"train"}, {"cat", "dog"});
  const Result r = Run(Train(folder, absl::StrCat("--classes=2 --ema=0.9 --json --save=", In("w"))));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("note: no test at the end: "));
  EXPECT_THAT(r.err, HasSubstr("expected test images in"));
  const Json report = Json::parse(r.out);
  EXPECT_EQ(report["steps"], 2);
  EXPECT_TRUE(report["evaluations"].empty());
  EXPECT_TRUE(report["test"].is_null());
  EXPECT_TRUE(std::filesystem::exists(In("w")));
  for (const char* test : {"--eval-every=1", "--until=top1:0.9"}) {
    ExpectError(Train(folder, absl::StrCat("--classes=2 ", test)), 66,
                {std::string(test).substr(0, 6), "expected test images"});
  }
}

// As where a disk is not mounted, or half of a set was copied.
TEST_F(Data, ATestSetThatIsHalfThereEndsTheRunBeforeItTrains) {
  const std::string folder = Folder("one", {"train"}, {"cat", "dog"});
  std::filesystem::create_directory_symlink(In("gone"), folder + "/val");
  ExpectError(Train(folder, "--classes=2"), 66, {folder + "/val"});
  std::filesystem::create_directory(In("idx"));
  Write("idx/train-images-idx3-ubyte",
        std::string("\0\0\x08\x03\0\0\0\x01\0\0\0\x08\0\0\0\x08", 16) + std::string(64, '\1'));
  Write("idx/train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x01\3", 9));
  const std::string train = absl::StrCat("train --model=two_column --width=0.25 --batch=4 --steps=1 --data=", In("idx"));
  EXPECT_EQ(Run(train).code, 0);
  Write("idx/t10k-images-idx3-ubyte", "");
  ExpectError(train, 66, {"t10k-labels-idx1-ubyte"});
}

// Three epochs of two steps were wanted; the second step's batch cannot be read.
TEST_F(Data, WhatWasTrainedBeforeTheInputFailedIsKept) {
  const std::string folder = Folder("set", {"train"}, {"a", "b"});
  std::ofstream(folder + "/train/b/3.jpg", std::ios::binary | std::ios::trunc) << "no JPEG";
  const std::string train = absl::StrReplaceAll(
      Train(folder,
            absl::StrCat("--shuffle=off --mean=0.5 --std=0.25 --classes=2 --checkpoint=", In("run"), " --save=", In("w"))),
      {{"--steps=2", "--steps=6"}});
  const Result r = Run(train);
  EXPECT_EQ(r.code, 65) << r.err;
  EXPECT_THAT(r.err, HasSubstr("a checkpoint of step 1 is saved; --resume goes on"));
  EXPECT_THAT(r.err, HasSubstr("the weights of 1 step are saved"));
  EXPECT_THAT(r.err, HasSubstr("colonnade: " + folder + "/train/b/3.jpg: "));
  EXPECT_TRUE(std::filesystem::exists(In("run/step-000000001/manifest.json")));
  EXPECT_TRUE(std::filesystem::exists(In("w")));
  std::filesystem::remove_all(In("run"));
  std::ofstream(folder + "/train/a/3.jpg", std::ios::binary | std::ios::trunc) << "no JPEG";
  EXPECT_THAT(Run(train).err, Not(HasSubstr("saved"))) << "no step was done";
}

TEST_F(Data, WhatWasTrainedBeforeATestFailedIsKept) {
  const std::string folder = Folder("set", {"train", "val"}, {"a", "b"});
  std::ofstream(folder + "/val/b/3.jpg", std::ios::binary | std::ios::trunc) << "no JPEG";
  const Result r = Run(Train(folder, absl::StrCat("--classes=2 --eval-every=1 --checkpoint=", In("run"))));
  EXPECT_EQ(r.code, 65) << r.err;
  EXPECT_THAT(r.err, HasSubstr("a checkpoint of step 1 is saved; --resume goes on"));
  EXPECT_TRUE(std::filesystem::exists(In("run/step-000000001/manifest.json")));
}

// Files are known by names and labels, and by what was measured of their pixels.
TEST_F(Data, FilesWithOtherPixelsAreAnotherSet) {
  const auto draw = [&](int light) {
    for (const char* of : {"cat", "dog"}) {
      const std::string folder = In(absl::StrCat("set/train/", of));
      std::filesystem::create_directories(folder);
      for (int i = 0; i < 8; ++i) {
        const auto shade = static_cast<uint8_t>(light + 5 * i);
        ASSERT_TRUE(engine::ReplaceFile(absl::StrCat(folder, "/", i, ".jpg"),
                                        data::JpegOf(data::Uniform(16, 16, {shade, shade, shade})))
                        .ok());
      }
    }
  };
  const std::string train =
      absl::StrCat("train --model=resnet20 --width=0.25 --input-size=16 --classes=2 --batch=8 --data=", In("set"),
                   " --checkpoint=", In("run"));
  draw(20);
  ASSERT_EQ(Run(absl::StrCat(train, " --steps=1")).code, 0);
  draw(20);
  EXPECT_EQ(Run(absl::StrCat(train, " --steps=2 --resume")).code, 0);
  draw(150);
  ExpectError(absl::StrCat(train, " --steps=3 --resume"), 65,
              {"data: 16 images in files, 2 classes, XXH3 ", "mean 0.", " → "});
  EXPECT_EQ(Run(absl::StrCat(train, " --steps=3 --resume --allow-change=data")).code, 0);
}

// The files of each class have the same names.
TEST_F(Data, ClassesThatChangedPlacesAreAnotherSet) {
  const std::string set = Folder("set", {"train"}, {"cat", "dog"});
  const std::string train =
      Train(set, absl::StrCat("--classes=2 --mean=0.5,0.5,0.5 --std=0.5,0.5,0.5 --checkpoint=", In("run")));
  ASSERT_EQ(Run(train).code, 0);
  std::filesystem::rename(In("set/train/cat"), In("set/train/zebra"));
  ExpectError(absl::StrCat(train, " --resume --allow-change=batch"), 65, {"data: 16 images in files, 2 classes, XXH3 "});
}

TEST_F(Data, WithoutTrainingImagesEvalSaysWhichFlagsStandForThem) {
  const std::string both = Folder("both", {"train", "val"}, {"cat", "dog"});
  ASSERT_EQ(Run(Train(both, absl::StrCat("--classes=2 --save=", In("w")))).code, 0);
  const std::string eval = absl::StrCat("eval --model=resnet20 --width=0.25 --input-size=16 --classes=2 --init=", In("w"),
                                        " --data=", Folder("test", {"val"}, {"cat", "dog"}));
  const Result stated = Run(eval);
  EXPECT_EQ(stated.code, 0) << stated.err;
  ForgetTraining(In("w"));
  ExpectError(eval, 66, {"expected training images", "--mean and --std"});
  EXPECT_EQ(Run(absl::StrCat(eval, " --mean=0.5,0.5,0.5 --std=0.25,0.25,0.25")).code, 0);
}

// Tests and predictions normalise as the training of the weights did, whatever the training images are by now.
TEST_F(Data, MeanAndDeviationAreThoseThatTheWeightsState) {
  const std::string set = Folder("set", {"train", "val"}, {"cat", "dog"});
  ASSERT_EQ(Run(Train(set, absl::StrCat("--classes=2 --mean=0.5,0.4,0.3 --std=0.25,0.2,0.3 --save=", In("w")))).code, 0);
  const std::string eval = absl::StrCat(
      "eval --model=resnet20 --width=0.25 --input-size=16 --classes=2 --json --init=", In("w"), " --data=", set);
  constexpr char kStated[] = "mean 0.5,0.4,0.3, std 0.25,0.2,0.3\n";
  const auto test_of = [](const Result& r) { return nlohmann::json::parse(r.out)["test"]; };
  const Result stated = Run(eval), own = Run(absl::StrCat(eval, " --mean=0.1,0.1,0.1"));
  EXPECT_THAT(stated.err, HasSubstr(kStated));
  EXPECT_THAT(own.err, HasSubstr("mean 0.1,0.1,0.1, std 0.25,0.2,0.3\n")) << "a flag wins over the weights";
  ForgetTraining(In("w"));
  const Result measured = Run(eval), said = Run(absl::StrCat(eval, " --mean=0.5,0.4,0.3 --std=0.25,0.2,0.3"));
  EXPECT_THAT(measured.err, Not(HasSubstr(kStated)));
  EXPECT_EQ(test_of(stated), test_of(said));
  EXPECT_NE(test_of(stated), test_of(measured));
}

TEST_F(Data, ClassesWithOtherNamesThanInTrainingAreNoted) {
  const std::string pets = Folder("pets", {"train", "val"}, {"cat", "dog"}), fish = Folder("fish", {"val"}, {"cat", "eel"});
  ASSERT_EQ(Run(Train(pets, absl::StrCat("--classes=2 --save=", In("w")))).code, 0);
  const std::string net = absl::StrCat(" --model=resnet20 --width=0.25 --input-size=16 --classes=2 --init=", In("w"));
  const std::string image = std::filesystem::directory_iterator(In("pets/val/cat"))->path().string();
  for (const std::string& command : {absl::StrCat("eval", net), absl::StrCat("predict ", image, net)}) {
    const Result other = Run(absl::StrCat(command, " --data=", fish));
    EXPECT_EQ(other.code, 0) << other.err;
    EXPECT_THAT(other.err, HasSubstr(absl::StrCat("warning: class 1 was \"dog\" when these weights were trained, in ", fish,
                                                  ": test it is \"eel\"\n")));
    EXPECT_THAT(Run(absl::StrCat(command, " --data=", pets)).err, Not(HasSubstr("warning: class ")));
  }
}

// Of three classes a test set alone has two: the second is the third of the weights.
TEST_F(Data, ATestSetAloneHasTheClassesThatTheWeightsState) {
  const std::string all = Folder("all", {"train", "val"}, {"cat", "dog", "eel"}),
                    two = Folder("two", {"val"}, {"cat", "eel"});
  ASSERT_EQ(Run(Train(all, absl::StrCat("--classes=3 --save=", In("w")))).code, 0);
  const std::string eval = absl::StrCat("eval --model=resnet20 --width=0.25 --batch=8 --init=", In("w"), " --data=");
  const Result alone = Run(absl::StrCat(eval, two));
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(alone.err, Not(HasSubstr("warning: ")));
  EXPECT_THAT(alone.err, HasSubstr("no images of 1 of 3 classes: dog"));
  const Result whole = Run(absl::StrCat(eval, all));
  EXPECT_THAT(whole.err, Not(AnyOf(HasSubstr("warning: "), HasSubstr("note: "))));
  EXPECT_THAT(whole.err, HasSubstr("[3,16,16]")) << "the size of images that the weights state";
}

TEST_F(Data, WhereOneSplitIsNamedTheFolderAboveIsAdvised) {
  const std::string both = Folder("both", {"train", "val"}, {"cat", "dog"}), one = Folder("one", {"val"}, {"cat", "dog"});
  ASSERT_EQ(Run(Train(both, absl::StrCat("--classes=2 --save=", In("w")))).code, 0);
  const std::string eval = absl::StrCat("eval --model=resnet20 --width=0.25 --input-size=16 --classes=2 --init=", In("w"));
  for (const char* split : {"/val", "/val/", "/train"}) {
    ExpectError(absl::StrCat(eval, " --data=", both, split), 66,
                {"expected test images in", absl::StrCat("; ", both, ", the folder above, has both: name that one")});
  }
  const Result alone = Run(absl::StrCat(eval, " --data=", one, "/val"));
  EXPECT_THAT(alone.err, AllOf(HasSubstr("expected test images in"), Not(HasSubstr("the folder above"))));
}

TEST_F(Data, OfFewerOrMoreClassesThanTheNetworkTheFlagIsNamed) {
  const std::string folder = Folder("two", {"train", "val"}, {"cat", "dog"});
  const Result fewer = Run(Train(folder, ""));
  EXPECT_EQ(fewer.code, 0) << fewer.err;
  EXPECT_THAT(fewer.err, HasSubstr("note: the network has 10 classes, the data set 2; --classes=2 makes one of as many"));
  const Result noise = Run("train --model=two_column --input-size=256 --classes=600 --width=0.25 --batch=4 --steps=1");
  EXPECT_EQ(noise.code, 0) << noise.err;
  EXPECT_THAT(noise.err, HasSubstr("512 images [1,256,256], 600 classes"));
  EXPECT_THAT(noise.err, Not(HasSubstr("the data set")));
  EXPECT_THAT(Run(Train(folder, "--classes=2")).err, Not(HasSubstr("note: the network has")));
  std::vector<std::string> many;
  for (int i = 0; i < 11; ++i) many.push_back(absl::StrCat("class", i));
  ExpectError(Train(Folder("many", {"train", "val"}, many), ""), 65,
              {"expected at most 10 classes, found 11", "--classes says how many resnet20 is to have"});
}

TEST_F(Data, TestImagesOfClassesWithoutTrainingImagesAreNoted) {
  const auto idx = [&](const std::string& part, const std::string& labels) {
    const char count = static_cast<char>(labels.size());
    Write(absl::StrCat("idx/", part, "-images-idx3-ubyte"), std::string("\0\0\x08\x03\0\0\0", 7) + count +
                                                                std::string("\0\0\0\x08\0\0\0\x08", 8) +
                                                                std::string(64 * labels.size(), '\1'));
    Write(absl::StrCat("idx/", part, "-labels-idx1-ubyte"), std::string("\0\0\x08\x01\0\0\0", 7) + count + labels);
  };
  std::filesystem::create_directory(In("idx"));
  idx("train", "\1\2");
  const std::string train = absl::StrCat("train --model=two_column --width=0.25 --batch=2 --steps=1 --data=", In("idx"));
  idx("t10k", std::string("\1\0\7", 3));
  EXPECT_THAT(Run(train).err, HasSubstr(": 2 of 3 images are of classes without images in training, such as 0\n"));
  idx("t10k", "\2\1\2");
  EXPECT_THAT(Run(train).err, Not(HasSubstr("of classes without images in training")));
}

TEST_F(Data, CifarWithAPadIsAugmentedAsCifarIs) {
  std::filesystem::create_directory(In("cifar"));
  for (const char* file : {"cifar/data_batch_1.bin", "cifar/test_batch.bin"}) Write(file, std::string(2 * 3073, '\1'));
  const Result r =
      Run(absl::StrCat("train --model=resnet20 --width=0.125 --channels=3 --input-size=40 --pad=4 --batch=2 "
                       "--steps=1 --data=",
                       In("cifar")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("[3,40,40]"));
  EXPECT_THAT(r.err, HasSubstr("mirrored"));
}

// What compares or measures takes what images there are.
TEST_F(Data, TestImagesAloneAreReadByVerifyAndIoBench) {
  const std::string folder = Folder("alone", {"val"}, {"a", "b"});
  EXPECT_EQ(Run(absl::StrCat("io-bench --input-size=16 --epochs=1 --data=", folder)).code, 0);
  EXPECT_EQ(Run(absl::StrCat("verify --model=resnet20 --width=0.125 --input-size=16 --batch=4 --steps=1 --plan=data "
                             "--devices=2 --data=",
                             folder))
                .code,
            0);
}

TEST_F(Data, SyntheticImagesHaveOneOrThreeChannels) {
  ExpectError("train --model=resnet18 --channels=64 --input-size=4096 --batch=1 --steps=1", 2,
              {"--channels: expected 1 or 3, found 64"});
}

TEST_F(Data, WordsOfAugmentThatContradictEachOtherAreRefused) {
  const std::string folder = Folder("two", {"train", "val"}, {"cat", "dog"});
  for (const char* words : {"pad:2,resized", "resized,pad:2", "pad:2,pad:4", "scaled:32,resized:0.5", "mirror,mirror"}) {
    ExpectError(Train(folder, absl::StrCat("--augment=", words)), 2,
                {"--augment: expected ", "once, found a second", words});
  }
  for (const char* word : {"pad:99999", "flip", "resized:2"}) {
    ExpectError(Train(folder, absl::StrCat("--augment=", word)), 2,
                {"--augment: expected standard, none", "from 1 to 4096", word});
  }
  ExpectError(Train(folder, "--augment=scaled:480-32"), 2,
              {"--augment: expected scaled:N-M with N up to M, found \"scaled:480"});
  ExpectError(Train(folder, "--augment=standard,mirror"), 2,
              {"expected standard and none to stand alone, found \"standard,m"});
  ExpectError(Train(folder, "--augment=mirror,none"), 2, {"expected standard and none to stand alone, found \"mirror,none"});
  ExpectError(Train(folder, "--augment=scaled:8"), 2, {"--augment=scaled:N: expected at least 16", "found 8"});
  ExpectError("train --model=two_column --data=digits --batch=32 --steps=1 --augment=lighting:0.1", 2,
              {"--augment: lighting: expected 0, since the images are grey, found 0.1"});
  EXPECT_EQ(Run(Train(folder, "--classes=2 --augment=scaled:16,mirror,jitter:0.1")).code, 0);
}

}  // namespace
}  // namespace colonnade::cli
