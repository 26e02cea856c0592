// Folders of image files: which are samples of which class, and what is said of folders that are not as they should be.

#include "data/image_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/sample_folder.h"
#include "tests/shared_data.h"

namespace colonnade::data {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ImageFolders : public SampleFolder {
 protected:
  ImageFolders() { ::setenv("XDG_CACHE_HOME", In(".cache").c_str(), 1); }
  ~ImageFolders() override { ::unsetenv("XDG_CACHE_HOME"); }

  void PutCatsAndDogs() const {
    for (const char* name : {"train/cat/2.jpg", "train/cat/1.PNG", "train/dog/a.JPEG", "val/cat/x.jpg", "val/dog/y.jpg"}) {
      Put(name, std::string("bytes of ") + name);
    }
  }
  std::vector<std::string> Names(const SampleSet& set) const {
    std::vector<std::string> names;
    for (int64_t i = 0; i < set.size(); ++i) names.push_back(set.sample_name(i).substr(path_.size() + 1));
    return names;
  }
};

// Takes the rights of the superuser from the test for a while, who may read whatever its mode.
class AsNobody {
 public:
  AsNobody() { Become(65534); }
  ~AsNobody() { Become(0); }

 private:
  void Become(uid_t user) const {
    if (is_root_) {
      EXPECT_EQ(::seteuid(user), 0);
    }
  }
  const bool is_root_ = ::getuid() == 0;
};

TEST_F(ImageFolders, ClassesAndFilesAreSortedByName) {
  PutCatsAndDogs();
  const Samples train = Opened(path_);
  EXPECT_EQ(train->name(), path_ + ": train");
  EXPECT_THAT(train->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(Names(*train), ElementsAre("train/cat/1.PNG", "train/cat/2.jpg", "train/dog/a.JPEG"));
  EXPECT_THAT(LabelsOf(*train), ElementsAre(0, 0, 1));
  EXPECT_EQ(BytesOf(*train, 1), "bytes of train/cat/2.jpg");
  EXPECT_THAT(train->notes(), IsEmpty());
  EXPECT_THAT(Names(*Opened(path_, SplitOf::kTest)), ElementsAre("val/cat/x.jpg", "val/dog/y.jpg"));
}

TEST_F(ImageFolders, SamplesAreFiles) {
  PutCatsAndDogs();
  std::string room;
  EXPECT_TRUE(Opened(path_)->Read(0, room)->is_encoded);
  EXPECT_FALSE(Opened(path_)->image_shape().has_value());
}

TEST_F(ImageFolders, FoldersInAClassAreWalkedThrough) {
  for (const char* name : {"train/c/b.jpg", "train/c/a/z.jpg", "train/c/a/deep/y.jpg"}) Put(name, "x");
  EXPECT_THAT(Names(*Opened(path_)), ElementsAre("train/c/b.jpg", "train/c/a/z.jpg", "train/c/a/deep/y.jpg"));
}

TEST_F(ImageFolders, OtherFilesAreLeftOutAndTold) {
  PutCatsAndDogs();
  Put("train/cat/notes.txt", "x");
  Put("train/dog/old/b.webp", "x");
  const Samples train = Opened(path_);
  EXPECT_EQ(train->size(), 3);
  EXPECT_THAT(train->notes(), ElementsAre(HasSubstr("2 files are left out, such as cat/notes.txt")));
}

TEST_F(ImageFolders, WhatIsHiddenIsNeitherClassNorImage) {
  PutCatsAndDogs();
  for (const char* name :
       {"train/.DS_Store", "train/cat/._a.jpg", "train/.ipynb_checkpoints/a.jpg", "train/dog/.git/b.png"}) {
    Put(name, "x");
  }
  const Samples train = Opened(path_);
  EXPECT_EQ(train->classes(), 2);
  EXPECT_EQ(train->size(), 3);
  EXPECT_THAT(train->notes(), testing::IsEmpty());
}

TEST_F(ImageFolders, ATestFolderStandsInForVal) {
  Put("train/a/1.jpg", "x");
  Put("test/a/2.jpg", "x");
  EXPECT_THAT(Names(*Opened(path_, SplitOf::kTest)), ElementsAre("test/a/2.jpg"));
  Put("val/a/3.jpg", "x");
  EXPECT_THAT(Names(*Opened(path_, SplitOf::kTest)), ElementsAre("val/a/3.jpg"));
}

TEST_F(ImageFolders, ValidAndValidationAreOfTheTestSetBesideTrainAlone) {
  Put("invalid/1.jpg", "x");
  Put("valid/2.jpg", "x");
  EXPECT_THAT(Names(*Opened(path_)), ElementsAre("invalid/1.jpg", "valid/2.jpg")) << "classes";
  Put("train/a/1.jpg", "x");
  Put("test/a/2.jpg", "x");
  Put("validation/a/3.jpg", "x");
  Put("valid/a/4.jpg", "x");
  std::filesystem::remove(In("valid/2.jpg"));
  EXPECT_THAT(Names(*Opened(path_)), ElementsAre("train/a/1.jpg"));
  EXPECT_THAT(Names(*Opened(path_, SplitOf::kTest)), ElementsAre("valid/a/4.jpg"));
  EXPECT_THAT(std::string(Error(In("valid"), SplitOf::kTest).message()), HasSubstr("the folder above, has both"));
  std::filesystem::remove_all(In("valid"));
  EXPECT_THAT(Names(*Opened(path_, SplitOf::kTest)), ElementsAre("validation/a/3.jpg"));
}

TEST_F(ImageFolders, ClassFoldersAloneAreATrainingSet) {
  Put("b/1.jpg", "x");
  Put("a/2.jpg", "x");
  EXPECT_THAT(Names(*Opened(path_)), ElementsAre("a/2.jpg", "b/1.jpg"));
  const absl::Status test = Error(path_, SplitOf::kTest);
  EXPECT_EQ(test.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(test.message()),
              HasSubstr("/val, valid, validation or test, found class folders of one set alone"));
}

TEST_F(ImageFolders, TheFolderAboveASetIsNoSet) {
  for (const char* name : {"up/ds/train/cat/1.jpg", "up/ds/val/cat/2.jpg"}) Put(name, "x");
  const auto expect_refused = [&](const std::string& holds) {
    for (const SplitOf split : {SplitOf::kTrain, SplitOf::kTest}) {
      const absl::Status status = Error(In("up/"), split);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_EQ(status.message(), absl::StrCat(In("up/"), ": expected folders of classes, found ", In("up/ds"),
                                               ", which holds ", holds, "; did you mean ", In("up/ds"), "?"));
    }
  };
  expect_refused("train and val");
  Put("up/other/a.jpg", "x");
  expect_refused("train and val");
  fs::remove_all(In("up/ds/val"));
  EXPECT_THAT(Names(*Opened(In("up"))), ElementsAre("up/ds/train/cat/1.jpg", "up/other/a.jpg")) << "of rails, it may be";
  fs::remove_all(In("up/other"));
  expect_refused("train");
  for (const char* name : {"two/a/train/1.jpg", "two/a/val/2.jpg", "two/b/train/3.jpg", "two/b/val/4.jpg"}) Put(name, "x");
  EXPECT_EQ((*Opened(In("two"))).class_names().size(), 2u) << "classes whose images lie in folders of splits";
}

TEST_F(ImageFolders, AnEmptyClassIsNamed) {
  PutCatsAndDogs();
  Put("train/bird/readme", "x");
  const absl::Status status = Error(path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(path_ + "/train: class \"bird\": expected images (.jpg, .jpeg or .png), found 1 other file alone"));
}

TEST_F(ImageFolders, NoClassesAreAnError) {
  Put("train/readme", "x");
  EXPECT_EQ(Error(path_).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Error(path_).message()), HasSubstr("/train: expected a folder for each class, found none"));
}

TEST_F(ImageFolders, TestImagesHaveTheClassesOfTraining) {
  PutCatsAndDogs();
  Put("train/bee/1.jpg", "x");
  const Samples test = Opened(path_, SplitOf::kTest);
  EXPECT_THAT(test->class_names(), ElementsAre("bee", "cat", "dog"));
  EXPECT_THAT(LabelsOf(*test), ElementsAre(1, 2));
  EXPECT_THAT(test->notes(), ElementsAre(HasSubstr("/val: no images of 1 of 3 classes: bee")));
  Put("val/cow/1.jpg", "x");
  const absl::Status status = Error(path_, SplitOf::kTest);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected classes of the training set, found class \"cow\""));
}

TEST_F(ImageFolders, MoreClassesThanAskedForAreAnError) {
  PutCatsAndDogs();
  EXPECT_THAT(std::string(Error(path_, SplitOf::kTrain, {.classes = 1}).message()),
              HasSubstr("/train: expected at most 1 class, found 2"));
  EXPECT_EQ(Opened(path_, SplitOf::kTrain, {.classes = 5})->classes(), 5);
}

TEST_F(ImageFolders, NamesNeedNotBeUtf8) {
  Put("train/caf\xe9/\xff\xfe.jpg", "latin");
  Put("train/\xc3\xa9t\xc3\xa9/a.jpg", "x");
  const Samples train = Opened(path_);
  EXPECT_THAT(train->class_names(), ElementsAre("caf\xe9", "\xc3\xa9t\xc3\xa9"));
  EXPECT_EQ(BytesOf(*train, 0), "latin");
}

TEST_F(ImageFolders, ALinkInACircleIsNamed) {
  PutCatsAndDogs();
  fs::create_directory_symlink("..", In("train/cat/loop"));
  const absl::Status status = Error(path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("links lead in a circle"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("class \"cat\""));
}

TEST_F(ImageFolders, LinksThatFanOutDoNotTakeForEver) {
  Put("train/c/0/a.jpg", "x");
  for (int i = 0; i < 60; ++i) {
    fs::create_directories(In(absl::StrCat("deep/", i)));
    for (const char* name : {"left", "right"}) {
      fs::create_directory_symlink(In(absl::StrCat("deep/", i + 1)), In(absl::StrCat("deep/", i, "/", name)));
    }
  }
  fs::create_directories(In("deep/60"));
  fs::create_directory_symlink(In("deep/0"), In("train/c/links"));
  EXPECT_THAT(std::string(Error(path_).message()), HasSubstr("twice to one folder"));
}

TEST_F(ImageFolders, LinksToFilesAndFoldersElsewhereAreFollowed) {
  Put("store/1.jpg", "far");
  fs::create_directories(In("set/train/near"));
  fs::create_symlink(In("store/1.jpg"), In("set/train/near/a.jpg"));
  fs::create_directory_symlink(In("store"), In("set/train/far"));
  const Samples train = Opened(In("set"));
  EXPECT_THAT(Names(*train), ElementsAre("set/train/far/1.jpg", "set/train/near/a.jpg"));
  EXPECT_EQ(BytesOf(*train, 1), "far");
}

TEST_F(ImageFolders, AClassWithoutANameIsCalledByItsNumberUnlessThatIsTheNameOfAnother) {
  Put("1/a.jpg", "x");
  Put("3/a.jpg", "x");
  EXPECT_THAT(Opened(path_, SplitOf::kTrain, {.classes = 5})->class_names(), ElementsAre("1", "3", "2", "class 3", "4"));
}

// The classes behind one that is not there would get other numbers, and a kept listing would hold them.
TEST_F(ImageFolders, AClassOrAFolderThatIsALinkToNothingIsNamed) {
  PutCatsAndDogs();
  for (const char* link : {"train/cow", "train/cat/more"}) {
    fs::create_symlink(In("disk"), In(link));
    const absl::Status status = Error(path_);
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(status.message(), In(link) + ": expected a folder or a file, found a link to " + In("disk") +
                                    ", which is not there; bring it back, or remove the link");
    fs::remove(In(link));
  }
  fs::create_symlink(In("disk/a.jpg"), In("train/cat/a.jpg"));
  EXPECT_EQ(Opened(path_)->size(), 4) << "reading an image says so, and may skip it";
}

TEST_F(ImageFolders, AFileThatVanishesIsNotFoundAndNamed) {
  PutCatsAndDogs();
  const Samples train = Opened(path_);
  fs::remove(In("train/cat/2.jpg"));
  std::string room;
  const absl::Status status = train->Read(1, room).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(In("train/cat/2.jpg")));
  EXPECT_TRUE(train->Read(0, room).ok());
}

TEST_F(ImageFolders, UnreadableFilesAndFoldersAreNamed) {
  PutCatsAndDogs();
  ::chmod(path_.c_str(), 0755);
  const Samples train = Opened(path_);
  ::chmod(In("train/cat/2.jpg").c_str(), 0);
  ::chmod(In("val/dog").c_str(), 0);
  std::string room;
  absl::Status file, folder;
  {
    const AsNobody nobody;
    if (::eaccess(path_.c_str(), X_OK) == 0) {
      file = train->Read(1, room).status();
      folder = Error(path_, SplitOf::kTest);
    }
  }
  ::chmod(In("val/dog").c_str(), 0755);
  if (file.ok()) GTEST_SKIP() << "skipped: another user cannot enter " << path_;
  EXPECT_EQ(file.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(file.message()), HasSubstr(In("train/cat/2.jpg") + ": Permission denied"));
  EXPECT_EQ(folder.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(folder.message()), HasSubstr(In("val/dog") + ": Permission denied"));
}

TEST_F(ImageFolders, AFolderWithTestImagesAloneHasTheirClasses) {
  Put("val/b/1.jpg", "x");
  EXPECT_EQ(Error(path_).code(), absl::StatusCode::kNotFound);
  const Samples test = Opened(path_, SplitOf::kTest);
  EXPECT_THAT(test->class_names(), ElementsAre("b"));
  EXPECT_THAT(test->notes(), ElementsAre(HasSubstr("its own folders are the classes")));
}

TEST_F(ImageFolders, TestImagesAloneAreNumberedAsInTrainingWhereAllClassesAreKnown) {
  for (const char* image : {"val/eel/1.jpg", "val/cat/1.jpg"}) Put(image, "x");
  const Samples known = Opened(path_, SplitOf::kTest, {.class_names = {"eel", "dog", "cat", "3"}});
  EXPECT_THAT(known->class_names(), ElementsAre("eel", "dog", "cat", "3"));
  EXPECT_EQ(known->label(0), 2) << known->sample_name(0);
  EXPECT_EQ(known->label(1), 0) << known->sample_name(1);
  EXPECT_THAT(known->notes(), ElementsAre(HasSubstr("no images of 2 of 4 classes: dog, 3")));
  const Samples others = Opened(path_, SplitOf::kTest, {.class_names = {"cat", "dog"}});
  EXPECT_THAT(others->class_names(), ElementsAre("cat", "eel"));
  Put("train/eel/1.jpg", "x");
  Put("train/cat/1.jpg", "x");
  EXPECT_THAT(Opened(path_, SplitOf::kTest, {.class_names = {"eel", "cat"}})->class_names(), ElementsAre("cat", "eel"))
      << "those of the training set beside it";
}

TEST_F(ImageFolders, AreNotPaddedHere) {
  PutCatsAndDogs();
  EXPECT_EQ(Error(path_, SplitOf::kTrain, {.pad = 2}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ImageFolders, TheSubsetOfImagenetteIsComplete) {
  constexpr char kArchive[] = "imagenette224-subset/imagenette224-subset.tar";
  SKIP_WITHOUT_SHARED_DATA(kArchive);
  ASSERT_EQ(std::system(absl::StrCat("tar -xf '", SharedData(kArchive), "' -C '", path_, "'").c_str()), 0);
  const Samples train = Opened(In("imagenette224-subset")), test = Opened(In("imagenette224-subset"), SplitOf::kTest);
  EXPECT_EQ(train->size(), 2000);
  EXPECT_EQ(test->size(), 500);
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(train->class_names().front(), "n01440764");
  EXPECT_EQ(ChecksumOf(*train), 1771507882u);
  EXPECT_EQ(ChecksumOf(*test), 3546653633u);
}

TEST_F(ImageFolders, AFileOfMoreThan1GiBIsNotRead) {
  PutCatsAndDogs();
  fs::resize_file(In("train/cat/2.jpg"), (int64_t{1} << 30) + 1);
  const Samples train = Opened(path_);
  std::string room;
  const absl::Status status = train->Read(1, room).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("train/cat/2.jpg: expected at most 1073741824 bytes, found 1073741825"));
}

}  // namespace
}  // namespace colonnade::data
