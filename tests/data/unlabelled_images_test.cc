#include "data/unlabelled_images.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "tests/data/sample_folder.h"

namespace colonnade::data {
namespace {

using ::testing::HasSubstr;

using UnlabelledImagesTest = SampleFolder;

TEST_F(UnlabelledImagesTest, AreFilesInTheirOrderAndImagesOfFoldersByPath) {
  for (const char* name : {"b.png", "f/z.JPG", "f/a/y.jpeg", "f/notes.txt", "f/.hidden.png", "f/.cache/x.png", "named"}) {
    Put(name, name);
  }
  const Samples set = UnlabelledImages(ListImageFiles({In("named"), In("f"), In("b.png")}).value(), {"cat", "dog"});
  EXPECT_EQ(set->name(), "4 image files");
  std::vector<std::string> names;
  for (int64_t i = 0; i < set->size(); ++i) names.push_back(set->sample_name(i));
  EXPECT_THAT(names, ::testing::ElementsAre(In("named"), In("f/a/y.jpeg"), In("f/z.JPG"), In("b.png")));
  EXPECT_THAT(LabelsOf(*set), ::testing::Each(-1));
  EXPECT_EQ(set->classes(), 2);
  EXPECT_EQ(BytesOf(*set, 1), "f/a/y.jpeg");
}

TEST_F(UnlabelledImagesTest, WhatIsMissingIsNamed) {
  Put("f/notes.txt", "");
  const auto error = [](const std::string& path) { return ListImageFiles({path}).status(); };
  EXPECT_EQ(error(In("g")).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(error(In("g")).message(), HasSubstr(In("g")));
  Put("a.png", "x");
  EXPECT_THAT(ListImageFiles({In("g"), In("a.png")}).value(), ::testing::ElementsAre(In("g"), In("a.png")));
  EXPECT_EQ(error(In("f")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(error(In("f")).message(), HasSubstr("expected images (.jpg, .jpeg or .png)"));
}

TEST_F(UnlabelledImagesTest, LinksToFoldersAreFollowedAndOneThatLeadsBackIsNamed) {
  Put("elsewhere/a.png", "x");
  std::filesystem::create_directory(In("f"));
  std::filesystem::create_directory_symlink(In("elsewhere"), In("f/link"));
  EXPECT_THAT(ListImageFiles({In("f")}).value(), ::testing::ElementsAre(In("f/link/a.png")));
  std::filesystem::create_directory_symlink(In("elsewhere"), In("elsewhere/again"));
  const absl::Status circle = ListImageFiles({In("f")}).status();
  EXPECT_EQ(circle.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(circle.message(), HasSubstr(In("f/link/again") + ": expected each folder once"));
}

TEST_F(UnlabelledImagesTest, ALinkToNothingThatIsCalledOtherwiseThanAnImageIsNoMatter) {
  Put("photos/a.jpg", "x");
  std::filesystem::create_symlink(In("gone"), In("photos/notes.txt"));
  EXPECT_THAT(*ListImageFiles({In("photos")}), testing::ElementsAre(In("photos/a.jpg")));
}

TEST_F(UnlabelledImagesTest, AFileThatHasGoneIsNamedWhenItIsRead) {
  Put("a.png", "x");
  const Samples set = UnlabelledImages({In("a.png")}, {});
  std::filesystem::remove(In("a.png"));
  std::string room;
  EXPECT_EQ(set->Read(0, room).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace colonnade::data
