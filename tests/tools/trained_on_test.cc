// What weights state of their training: that it is read as it was written, and what is said where it is damaged.
#include "tools/trained_on.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kKey[] = "colonnade_trained_on";
constexpr char kPets[] = R"({"image":[1,8,9],"class_names":["cat","dog"],"mean":[0.3],"std":[0.1]})";

std::string ErrorOf(const std::string& text) {
  const absl::Status status = TrainedOnFromMetadata({{kKey, text}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_THAT(std::string(status.message()), StartsWith(absl::StrCat(kKey, ": "))) << text;
  return std::string(status.message());
}

std::string With(const std::string& was, const std::string& is) { return absl::StrReplaceAll(kPets, {{was, is}}); }

TEST(TrainedOn, IsReadAsItWasWritten) {
  const TrainedOn written{.image = {3, 32, 30},
                          .class_names = {"cat", "d\"o\ng", "\xc3\xa9"},
                          .moments = {.mean = {1.0 / 3, 0, -1}, .std = {1e-40, 0.1, 1e6}},
                          .pad = 14,
                          .view = TestView::kMiddle};
  const engine::Metadata metadata = ToMetadata(written);
  ASSERT_EQ(metadata.size(), 1u);
  EXPECT_THAT(metadata.begin()->first, StartsWith("colonnade_"));
  const std::optional<TrainedOn> read = *TrainedOnFromMetadata(metadata);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->image, written.image);
  EXPECT_EQ(read->class_names, written.class_names);
  EXPECT_EQ(read->moments, written.moments) << "with all their bits";
  EXPECT_EQ(read->pad, 14);
  EXPECT_EQ(read->view, TestView::kMiddle);
}

TEST(TrainedOn, PadAndViewMayBeAbsent) {
  const TrainedOn old = **TrainedOnFromMetadata({{kKey, kPets}});
  EXPECT_EQ(old.pad, 0);
  EXPECT_EQ(old.view, std::nullopt);
  EXPECT_EQ((*TrainedOnFromMetadata({{kKey, With("{", R"({"view":"whole",)")}}))->view, TestView::kWhole);
  EXPECT_THAT(ErrorOf(With("{", R"({"view":"half",)")), HasSubstr("view: unknown name \"half\""));
  EXPECT_EQ((*TrainedOnFromMetadata({{kKey, With("{", R"({"pad":3,)")}}))->pad, 3);
  EXPECT_THAT(ErrorOf(With("{", R"({"pad":4,)")), HasSubstr("pad: expected less than half of an image of 8 x 9, found 4"));
  EXPECT_THAT(ErrorOf(With("{", R"({"pad":-1,)")), HasSubstr("pad: expected "));
}

TEST(TrainedOn, IsAbsentInFilesOfOthers) {
  EXPECT_FALSE(TrainedOnFromMetadata({{"format", "pt"}})->has_value());
  EXPECT_FALSE(TrainedOnFromMetadata({})->has_value());
}

TEST(TrainedOn, AClassWhoseNameIsNotUtf8HasItsLabel) {
  const engine::Metadata metadata =
      ToMetadata({.image = {1, 8, 8}, .class_names = {"a", "\xff", "b"}, .moments = {.mean = {0}, .std = {1}}});
  EXPECT_THAT((*TrainedOnFromMetadata(metadata))->class_names, ElementsAre("a", "1", "b"));
}

TEST(TrainedOn, WhatLaterVersionsStateBesidesIsNotAFault) {
  EXPECT_TRUE(TrainedOnFromMetadata({{kKey, With("{", R"({"zoom":2,"crop":{"of":[[1]]},)")}})->has_value());
}

TEST(TrainedOn, DamageIsNamed) {
  ASSERT_TRUE(TrainedOnFromMetadata({{kKey, kPets}})->has_value());
  EXPECT_THAT(ErrorOf("{"), HasSubstr("expected JSON"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(ErrorOf(With(R"("mean":[0.3],)", "")), HasSubstr("mean: missing"));
  EXPECT_THAT(ErrorOf(With(R"("dog")", "7")), HasSubstr("class_names[1]: expected a text, found 7"));
  EXPECT_THAT(ErrorOf(With(R"("cat","dog")", "")), HasSubstr("class_names: expected 1 to 1000000, found 0"));
  EXPECT_THAT(ErrorOf(With("[1,8,9]", "[1,8]")), HasSubstr("image: expected channels, rows and columns, found 2 numbers"));
  EXPECT_THAT(ErrorOf(With("[1,8,9]", "[3,8,9]")),
              HasSubstr("mean and std: expected one number for each of 3 channels, found 1 and 1"));
  EXPECT_THAT(ErrorOf(With("[0.1]", "[0.1,0.1]")), HasSubstr("found 1 and 2"));
  std::string many = R"("0")";
  for (int i = 1; i <= 1000000; ++i) absl::StrAppend(&many, R"(,"x")");
  EXPECT_THAT(ErrorOf(With(R"("cat","dog")", many)), HasSubstr("class_names: expected 1 to 1000000, found 1000001"));
}

TEST(TrainedOn, NumbersAreThoseThatFlagsTake) {
  for (const char* good : {"-1", "1", "0"})
    EXPECT_TRUE(TrainedOnFromMetadata({{kKey, With("[0.3]", absl::StrCat("[", good, "]"))}}).ok());
  for (const char* good : {"1e-40", "1e6"})
    EXPECT_TRUE(TrainedOnFromMetadata({{kKey, With("[0.1]", absl::StrCat("[", good, "]"))}}).ok());
  for (const char* bad : {"-1.1", "1.1", "null", R"("0")"}) {
    EXPECT_THAT(ErrorOf(With("[0.3]", absl::StrCat("[", bad, "]"))), HasSubstr("mean[0]: expected a number from -1 to 1"));
  }
  for (const char* bad : {"0", "9e-41", "1.1e6"}) {
    EXPECT_THAT(ErrorOf(With("[0.1]", absl::StrCat("[", bad, "]"))), HasSubstr("std[0]: expected a number from 1e-40"));
  }
  for (const char* bad : {"0", "1000000001", "1.5"}) {
    EXPECT_THAT(ErrorOf(With("[1,8,9]", absl::StrCat("[1,8,", bad, "]"))), HasSubstr("image[2]: expected a whole number"))
        << bad;
  }
  EXPECT_TRUE(TrainedOnFromMetadata({{kKey, With("[1,8,9]", "[1,1000000000,1]")}}).ok());
}

TEST(FirstOtherClass, IsThatOfTwoNames) {
  EXPECT_EQ(FirstOtherClass({"cat", "dog"}, {"cat", "dog", "eel"}), std::nullopt);
  EXPECT_EQ(FirstOtherClass({"cat", "dog"}, {"cat", "eel"}), 1u);
  EXPECT_EQ(FirstOtherClass({"0", "dog"}, {"cat", "1"}), std::nullopt) << "numbers are no names";
  EXPECT_EQ(FirstOtherClass({"0", "1"}, {"1", "3"}), 0u) << "one says that 1 is of label 1, one that it is of label 0";
  EXPECT_EQ(FirstOtherClass({"1", "3"}, {"0", "1"}), 0u);
  EXPECT_EQ(FirstOtherClass({"1", "class 1"}, {"1", "dog"}), std::nullopt) << "nor is what stands for a taken number";
  EXPECT_EQ(FirstOtherClass({"1"}, {"cat"}), 0u) << "the number of another class counts as a name";
}

}  // namespace
}  // namespace colonnade::tools
