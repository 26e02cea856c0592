#include "cuda/engine_choices.h"

#include <cstdint>
#include <string>

#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/folder.h"
#include "tests/read_file.h"

namespace colonnade::cuda {
namespace {

using testing::HasSubstr;

class Choices : public Folder {
 protected:
  const std::string file_ = In("engines.json");
};

TEST_F(Choices, WhatIsAddedIsReadAgain) {
  const Engine one = {.index = 41, .knobs = {{2, 7}, {27, 1}}}, two = {.index = 3};
  {
    auto choices = EngineChoices::Read(file_);
    ASSERT_TRUE(choices.ok()) << choices.status();
    EXPECT_EQ(choices->Find("H200", 91900, "forward"), nullptr);
    ASSERT_TRUE(choices->Add("H200", 91900, "forward", two, 2e-3).ok());
    ASSERT_TRUE(choices->Add("H200", 91900, "forward", one, 1e-3).ok());  // instead
    ASSERT_TRUE(choices->Add("A100", 91900, "forward", two, 3e-3).ok());
  }
  const auto choices = EngineChoices::Read(file_);
  ASSERT_TRUE(choices.ok()) << choices.status();
  ASSERT_NE(choices->Find("H200", 91900, "forward"), nullptr);
  EXPECT_EQ(*choices->Find("H200", 91900, "forward"), one);
  EXPECT_EQ(*choices->Find("A100", 91900, "forward"), two);
  EXPECT_EQ(choices->Find("H200", 91800, "forward"), nullptr) << "another version of cuDNN";
  EXPECT_EQ(choices->Find("H200", 91900, "backward_data"), nullptr);
}

TEST_F(Choices, OtherFilesAreRefusedAndStayAsTheyAre) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  const auto with = [](const std::string& found) { return R"({"colonnade_engines": 2, "found": )" + found + "}"; };
  const std::string texts[] = {
      "not JSON",
      "[]",
      deep,
      R"({"found": []})",
      R"({"colonnade_engines": 1, "found": []})",
      with("3"),
      with("[3]"),
      with(R"([{"gpu": "H200", "cudnn": 1, "convolution": "c", "engine": "4", "knobs": [], "seconds": 1}])"),
      with(R"([{"gpu": "H200", "cudnn": 1, "convolution": "c", "engine": 4, "knobs": [[1]], "seconds": 1}])"),
      with(R"([{"gpu": "H200", "cudnn": 1, "convolution": "c", "engine": 4, "knobs": []}])")};
  for (const std::string& text : texts) {
    SCOPED_TRACE(text.substr(0, 100));
    ASSERT_TRUE(engine::ReplaceFile(file_, text).ok());
    const absl::Status status = EngineChoices::Read(file_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(file_));
    EXPECT_EQ(*engine::ReadFile(file_), text);
  }
}

TEST_F(Choices, TwoThatAddKeepEachOthers) {
  auto one = EngineChoices::Read(file_), two = EngineChoices::Read(file_);
  ASSERT_TRUE(one.ok() && two.ok());
  ASSERT_TRUE(one->Add("H200", 91900, "forward", {.index = 1}, 1e-3).ok());
  ASSERT_TRUE(two->Add("H200", 91900, "backward_data", {.index = 2}, 1e-3).ok());
  EXPECT_NE(two->Find("H200", 91900, "forward"), nullptr);
  const auto all = EngineChoices::Read(file_);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_NE(all->Find("H200", 91900, "forward"), nullptr);
  EXPECT_NE(all->Find("H200", 91900, "backward_data"), nullptr);
}

TEST_F(Choices, AFileThatCannotBeWrittenIsRefusedAtOnce) {
  EXPECT_EQ(EngineChoices::Read("/nowhere/at/all.json").status().code(), absl::StatusCode::kDataLoss);
}

TEST(KeyOf, NamesAllThatTheChoiceDependsOn) {
  const auto at = [](uintptr_t address) { return reinterpret_cast<void*>(address); };
  const Convolution base = {.n = 2,
                            .c = 4,
                            .h = 6,
                            .w = 7,
                            .k = 8,
                            .p = 6,
                            .q = 7,
                            .window = {3, 3, 1, 1, 1, 1, 1, 1},
                            .x = at(64),
                            .filter = at(128),
                            .y = at(256)};
  EXPECT_EQ(KeyOf(base), "forward f32 n2 c4 h6 w7 k8 p6 q7 window 3x3 stride 1x1 pad 1x1 groups 1 align 16");
  Convolution four_pads = base;
  four_pads.window.pad_right = 2;
  EXPECT_EQ(KeyOf(four_pads), "forward f32 n2 c4 h6 w7 k8 p6 q7 window 3x3 stride 1x1 pad 1x1:1x2 groups 1 align 16");
  const auto differs = [&](auto change) {
    Convolution other = base;
    change(other);
    return KeyOf(other) != KeyOf(base);
  };
  EXPECT_TRUE(differs([](Convolution& c) { c.direction = Convolution::Direction::kBackwardData; }));
  EXPECT_TRUE(differs([](Convolution& c) { c.n = 3; }));
  EXPECT_TRUE(differs([](Convolution& c) { c.window.pad_right = 0; }));
  EXPECT_TRUE(differs([](Convolution& c) { c.groups = 2; }));
  EXPECT_TRUE(differs([](Convolution& c) { c.precision = Precision::kTf32; }));
  EXPECT_TRUE(differs([](Convolution& c) { c.dtype = program::DType::kBF16; }));
  EXPECT_TRUE(differs([](Convolution& c) { c.writes_f32 = true; }));
  EXPECT_TRUE(differs([](Convolution& c) { c.deterministic = true; }));
  EXPECT_TRUE(differs([](Convolution& c) { c.relu = true; }));
  EXPECT_TRUE(differs([&](Convolution& c) { c.bias = at(64); }));
  EXPECT_TRUE(differs([&](Convolution& c) { c.x = at(68); })) << "aligned otherwise";
  EXPECT_FALSE(differs([&](Convolution& c) { c.x = at(96); }));
  Convolution four = base;
  four.filter = at(132);
  EXPECT_EQ(AlignmentOf(four), 4);
}

}  // namespace
}  // namespace colonnade::cuda
