// Tar archives as sets of samples: by key, by class folder, in shards.

#include "data/web_dataset.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/no_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/sample_folder.h"
#include "tests/data/tar_writer.h"
#include "tests/sanitized.h"
#include "tests/shared_data.h"

namespace colonnade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Tars : public SampleFolder {
 protected:
  using Files = std::vector<std::pair<std::string, std::string>>;
  void PutTar(const std::string& name, const Files& files) const { Put(name, TarOf(files)); }
  void PutShards() const {
    PutTar("train-000001.tar", {{"c.png", "see"}, {"c.cls", "4"}});
    PutTar("train-000000.tar",
           {{"a.jpg", "eh"}, {"a.cls", "1\n"}, {"d/b.json", "{}"}, {"d/b.cls", "0"}, {"d/b.JPEG", "be"}});
    PutTar("val-000000.tar", {{"v.jpg", "vee"}, {"v.cls", "2"}});
  }
  std::string TarError(const Files& files, const DatasetOptions& options = {}) const {
    PutTar("one.tar", files);
    const absl::Status status = Error(In("one.tar"), SplitOf::kTrain, options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }
};

TEST_F(Tars, ShardsAreSamplesByKeyInTheOrderOfTheirNames) {
  PutShards();
  const Samples train = Opened(path_), test = Opened(path_, SplitOf::kTest, {.classes = 5});
  EXPECT_THAT(LabelsOf(*train), ElementsAre(1, 0, 4));
  EXPECT_EQ(BytesOf(*train, 1), "be");
  EXPECT_EQ(BytesOf(*train, 2), "see");
  EXPECT_EQ(train->sample_name(1), In("train-000000.tar") + ": d/b");
  EXPECT_EQ(train->classes(), 5);
  EXPECT_THAT(LabelsOf(*test), ElementsAre(2));
  EXPECT_EQ(test->classes(), 5);
}

TEST_F(Tars, ShardsOfATestSetMayBeCalledSo) {
  PutShards();
  std::filesystem::rename(In("val-000000.tar"), In("test-0.tar"));
  EXPECT_EQ(BytesOf(*Opened(path_, SplitOf::kTest), 0), "vee");
  std::filesystem::remove(In("test-0.tar"));
  EXPECT_EQ(Error(path_, SplitOf::kTest).code(), absl::StatusCode::kNotFound);
}

TEST_F(Tars, ValidIsOfTheTestSetBesideTrainAlone) {
  PutShards();
  std::filesystem::rename(In("val-000000.tar"), In("valid-0.tar"));
  EXPECT_EQ(BytesOf(*Opened(path_, SplitOf::kTest), 0), "vee");
  PutTar("set.tar", {{"train/a/1.jpg", "1"}, {"valid/a/2.jpg", "2"}});
  EXPECT_EQ(BytesOf(*Opened(In("set.tar")), 0), "1");
  EXPECT_EQ(BytesOf(*Opened(In("set.tar"), SplitOf::kTest), 0), "2");
  PutTar("set.tar", {{"invalid/1.jpg", "1"}, {"valid/2.jpg", "2"}});
  EXPECT_THAT(Opened(In("set.tar"))->class_names(), ElementsAre("invalid", "valid"));
}

TEST_F(Tars, OneArchiveWithClassesIsATrainingSet) {
  PutTar("one.tar", {{"./x.jpg", "ex"}, {"./x.cls", "3"}});
  EXPECT_THAT(LabelsOf(*Opened(In("one.tar"))), ElementsAre(3));
  EXPECT_EQ(Error(In("one.tar"), SplitOf::kTest).code(), absl::StatusCode::kNotFound);
}

TEST_F(Tars, TheKeyEndsAtTheFirstDotOfTheName) {
  PutTar("one.tar", {{"v1.0/a.b.jpg", "a second image, left out"}, {"v1.0/a.jpg", "A"}, {"v1.0/a.cls", "1"}});
  EXPECT_EQ(Opened(In("one.tar"))->size(), 1);
  EXPECT_EQ(BytesOf(*Opened(In("one.tar")), 0), "A");
}

TEST_F(Tars, ASampleThatLacksImageOrClassIsNamed) {
  EXPECT_THAT(TarError({{"a.jpg", "A"}, {"a.cls", "1"}, {"b.jpg", "B"}}),
              HasSubstr("one.tar: sample \"b\": expected its class"));
  EXPECT_THAT(TarError({{"a.cls", "1"}}), HasSubstr("sample \"a\": expected an image"));
  EXPECT_THAT(TarError({{"a.jpg", "A"}, {"a.png", "B"}, {"a.cls", "1"}}),
              HasSubstr("expected one image, found a.jpg and a.png"));
}

TEST_F(Tars, AClassIsANumberInDigits) {
  EXPECT_THAT(TarError({{"a.jpg", "A"}, {"a.cls", "cat\1"}}),
              HasSubstr("a.cls: expected a number in digits, found \"cat\\x01\""));
  EXPECT_THAT(TarError({{"a.jpg", "A"}, {"a.cls", std::string(99, '1')}}), HasSubstr("found 99 bytes"));
  EXPECT_THAT(TarError({{"a.jpg", "A"}, {"a.cls", "-1"}}), HasSubstr("found -1"));
  EXPECT_THAT(TarError({{"a.jpg", "A"}, {"a.cls", "7"}}, {.classes = 7}), HasSubstr("below 7 classes, found 7"));
}

TEST_F(Tars, FoldersOfClassesMayLieInSplits) {
  PutTar("set.tar",
         {{"set/val/dog/1.jpg", "D"}, {"set/train/dog/1.jpg", "d"}, {"set/train/cat/2.PNG", "c"}, {"set/readme", "x"}});
  const Samples train = Opened(In("set.tar")), test = Opened(In("set.tar"), SplitOf::kTest);
  EXPECT_THAT(train->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(LabelsOf(*train), ElementsAre(1, 0));
  EXPECT_EQ(BytesOf(*train, 1), "c");
  EXPECT_THAT(test->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(LabelsOf(*test), ElementsAre(1));
}

TEST_F(Tars, TestImagesAloneAreNumberedAsInTrainingWhereAllClassesAreKnown) {
  PutTar("set.tar", {{"val/eel/1.jpg", "1"}, {"val/cat/2.jpg", "2"}});
  const Samples known = Opened(In("set.tar"), SplitOf::kTest, {.class_names = {"cat", "dog", "eel"}});
  EXPECT_THAT(LabelsOf(*known), ElementsAre(2, 0));
  EXPECT_THAT(known->notes(), ElementsAre(HasSubstr("no images of 1 of 3 classes: dog")));
  const Samples unknown = Opened(In("set.tar"), SplitOf::kTest, {.class_names = {"cat", "dog"}});
  EXPECT_THAT(LabelsOf(*unknown), ElementsAre(1, 0));
  EXPECT_THAT(unknown->notes(), ElementsAre(HasSubstr("its own folders are the classes: there is no train/ in it")));
  PutTar("set.tar", {{"val/cat/2.jpg", "2"}, {"train/cat/1.jpg", "1"}});
  EXPECT_THAT(LabelsOf(*Opened(In("set.tar"), SplitOf::kTest, {.class_names = {"ant", "cat"}})), ElementsAre(0));
}

TEST_F(Tars, WhatIsLeftOutAndWhatIsNotThereIsNoted) {
  PutTar("set.tar", {{"top/train/a/1.jpg", "1"},
                     {"top/train/b/1.jpg", "1"},
                     {"top/train/b/read.me", "left out"},
                     {"top/train/b/.hidden", "by a system"},
                     {"top/readme", "in no split"},
                     {"top/train/readme", "in no class"},
                     {"top/val/a/1.jpg", "1"},
                     {"top/val/a/1.txt", "left out"},
                     {"top/val/a/2.txt", "left out"}});
  EXPECT_THAT(Opened(In("set.tar"))->notes(), ElementsAre(HasSubstr("1 file is left out, such as top/train/b/read.me: ")));
  EXPECT_THAT(Opened(In("set.tar"), SplitOf::kTest)->notes(),
              ElementsAre(HasSubstr("no images of 1 of 2 classes: b"),
                          HasSubstr("2 files are left out, such as top/val/a/1.txt: expected .jpg, .jpeg or .png")));
}

TEST_F(Tars, FoldersOfClassesAloneAreATrainingSet) {
  PutTar("set.tar", {{"top/b/1.jpg", "1"}, {"top/a/deep/2.jpg", "2"}, {"top/a/._2.jpg", "left by a system"}});
  EXPECT_THAT(LabelsOf(*Opened(In("set.tar"))), ElementsAre(1, 0));
  EXPECT_TRUE(IsNoSplit(Error(In("set.tar"), SplitOf::kTest))) << "a set without test images is trained on all the same";
  PutTar("set.tar", {{"top/a/1.jpg", "1"}, {"top/a/2.jpg", "2"}});
  EXPECT_THAT(Opened(In("set.tar"))->class_names(), ElementsAre("a"));
}

TEST_F(Tars, APathThatComesTwiceIsNamed) {
  PutTar("set.tar", {{"a/1.jpg", "1"}, {"b/1.jpg", "2"}, {"./a/1.jpg", "3"}});
  const absl::Status status = Error(In("set.tar"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("set.tar: ./a/1.jpg: expected a path once, found it twice"));
}

// As in a folder (ImageFolders.WhatIsHiddenIsNeitherClassNorImage). "./" hides nothing, nor does what leads to all.
TEST_F(Tars, WhatIsHiddenIsNeitherClassNorImage) {
  PutTar("set.tar", {{"./train/.ipynb_checkpoints/x.jpg", "x"},
                     {"./train/cat/.ipynb_checkpoints/1-checkpoint.jpg", "x"},
                     {"./train/cat/1.jpg", "c"},
                     {"./train/dog/2.jpg", "d"}});
  const Samples train = Opened(In("set.tar"));
  EXPECT_THAT(train->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(LabelsOf(*train), ElementsAre(0, 1));
  PutTar("set.tar", {{"home/.cache/set/b/1.jpg", "b"}, {"home/.cache/set/a/2.jpg", "a"}, {"home/.cache/set/.c/3.jpg", "c"}});
  EXPECT_THAT(Opened(In("set.tar"))->class_names(), ElementsAre("a", "b"));
}

TEST_F(Tars, ImagesWithoutClassesAreNamed) {
  EXPECT_THAT(TarError({{"1.jpg", "1"}, {"2.jpg", "2"}}),
              HasSubstr("1.jpg: expected an image with a member .cls, or in the folder of its class, found neither"));
  EXPECT_THAT(TarError({{"notes.txt", "1"}}), HasSubstr("expected images (.jpg, .jpeg or .png), found none"));
}

TEST_F(Tars, ATestClassThatTrainingLacksIsNamed) {
  PutTar("set.tar", {{"train/a/1.jpg", "1"}, {"val/b/1.jpg", "1"}});
  EXPECT_THAT(std::string(Error(In("set.tar"), SplitOf::kTest).message()),
              HasSubstr("val/b/1.jpg: expected a class of the training images, found \"b\""));
}

TEST_F(Tars, PackedArchivesAreToBeUnpacked) {
  Put("set.tar.gz", "\x1f\x8b");
  EXPECT_EQ(Error(In("set.tar.gz")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Error(In("set.tar.gz")).message()), HasSubstr("unpack it"));
}

TEST_F(Tars, ADamagedShardIsNamed) {
  PutShards();
  Put("train-000001.tar", "nothing");
  EXPECT_THAT(std::string(Error(path_).message()), HasSubstr("train-000001.tar: at offset 0: expected a header"));
}

TEST_F(Tars, LinksAreToldAbout) {
  Put("set.tar", TarMemberOf("a/link.jpg", "", '2') + TarOf({{"a/1.jpg", "1"}, {"b/2.jpg", "2"}}));
  EXPECT_THAT(Opened(In("set.tar"))->notes(), ElementsAre(HasSubstr("set.tar: links and devices passed over: 1")));
}

TEST_F(Tars, MoreShardsThanMayBeOpenAreRead) {
  for (int i = 0; i < 300; ++i) {
    PutTar(absl::StrFormat("train-%06d.tar", i), {{"k.jpg", absl::StrCat("image ", i)}, {"k.cls", absl::StrCat(i % 10)}});
  }
  const Samples train = Opened(path_);
  ASSERT_EQ(train->size(), 300);
  EXPECT_EQ(BytesOf(*train, 271), "image 271");
  Put("train-000271.tar", std::string(1 << 16, 'x'));
  std::string room;
  EXPECT_EQ(train->Read(271, room).status().code(), absl::StatusCode::kInvalidArgument);
  std::filesystem::remove(In("train-000271.tar"));
  EXPECT_EQ(train->Read(271, room).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(Tars, AnyNumberOfThreadsReadAtOnce) {
  Files files;
  for (int i = 0; i < 200; ++i)
    files.emplace_back(absl::StrCat("c", i % 7, "/", i, ".jpg"), std::string(100 + i, static_cast<char>(i)));
  PutTar("set.tar", files);
  const Samples set = Opened(In("set.tar"));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i)
        wrong[t] += BytesOf(*set, (i + 50 * t) % 200) != files[(i + 50 * t) % 200].second ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

// Each folder that all images lie in was looked for by all of each path: minutes for two names of 60 kB.
TEST_F(Tars, FoldersThatAllImagesLieInMayBeMany) {
  std::string top;
  for (int depth = 0; depth < 30'000; ++depth) top += "d/";
  std::string archive;
  for (const char* name : {"b/1.jpg", "a/2.jpg"}) {
    archive += TarMemberOf("././@LongLink", top + name + std::string(1, '\0'), 'L') + TarMemberOf("cut", name);
  }
  Put("deep.tar", archive + kTarEnd);
  const auto begin = std::chrono::steady_clock::now();
  const Samples samples = Opened(In("deep.tar"));
  EXPECT_THAT(samples->class_names(), ElementsAre("a", "b"));
  EXPECT_THAT(LabelsOf(*samples), ElementsAre(1, 0));
  EXPECT_EQ(BytesOf(*samples, 1), "a/2.jpg");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(kSanitized ? 60 : 5));
}

TEST_F(Tars, AnImageOfMoreThan1GiBIsNotRead) {
  std::string header = TarMemberOf("a/1.jpg", "").substr(0, 512);
  header.replace(124, 11, "10000000004");  // octal: 4 bytes more
  PutChecksum(header, 0);
  Put("large.tar", header);
  std::filesystem::resize_file(In("large.tar"), (int64_t{1} << 30) + 4096);
  std::string room;
  const absl::Status status = Opened(In("large.tar"))->Read(0, room).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a/1.jpg: expected at most 1073741824 bytes, found 1073741828"));
}

TEST(RealTars, AreImageFoldersWithoutUnpacking) {
  SKIP_WITHOUT_SHARED_DATA("imagenette224-subset");
  const std::string path = SharedData("imagenette224-subset/imagenette224-subset.tar");
  EXPECT_EQ(ChecksumOf(*Opened(path)), 1771507882u);
  EXPECT_EQ(ChecksumOf(*Opened(path, SplitOf::kTest)), 3546653633u);
}

TEST(RealTars, TheSamplesOfImageNetHave146Classes) {
  SKIP_WITHOUT_SHARED_DATA("imagenet-samples");
  const Samples samples = Opened(SharedData("imagenet-samples/imagenet-samples.tar"));
  EXPECT_EQ(samples->size(), 146);
  EXPECT_EQ(samples->classes(), 146);
  EXPECT_EQ(ChecksumOf(*samples), 3740770158u);
}

}  // namespace
}  // namespace colonnade::data
