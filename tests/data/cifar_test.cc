// CIFAR's binary files: real records, and files that are not what their names say.

#include "data/cifar.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/no_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/sample_folder.h"
#include "tests/data/whole_file.h"
#include "tests/shared_data.h"

namespace colonnade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSample[] = "cifar10-jpeg/data_batch_1.first258.bin";

// A record whose red pixels are `red`, whose others are one and two more.
std::string Record(const std::string& labels, char red) {
  std::string record = labels;
  for (int channel = 0; channel < 3; ++channel) record.append(1024, static_cast<char>(red + channel));
  return record;
}

class CifarFolder : public SampleFolder {
 protected:
  void PutCifar10() const {
    Put("data_batch_2.bin", Record("\x9", 'd'));
    Put("data_batch_1.bin", Record(std::string(1, '\0'), 'a') + Record("\x1", 'p'));
    Put("test_batch.bin", Record("\x5", 't'));
  }
  void PutCifar100() const {
    Put("train.bin", Record("\x13\x63", 'a'));
    Put("test.bin", Record("\x2\x7", 't'));
  }
};

TEST(CifarSample, Has258RecordsOfAllClasses) {
  SKIP_WITHOUT_SHARED_DATA(kSample);
  const Samples samples = Opened(SharedData(kSample));
  ASSERT_EQ(samples->size(), 258);
  std::vector<int> count(10);
  for (int32_t label : LabelsOf(*samples)) ++count[label];
  EXPECT_THAT(count, ElementsAre(18, 38, 23, 27, 21, 22, 33, 25, 22, 29));
  EXPECT_EQ(ChecksumOf(*samples), 336431254u);
}

TEST(CifarSample, OneByteMoreOrLessIsNoFileOfRecords) {
  SKIP_WITHOUT_SHARED_DATA(kSample);
  const std::string file = *ReadWholeFile(SharedData(kSample));
  ImageSet set;
  for (const auto& [bytes, found] : {std::pair{file + "x", "found 792835 bytes: 258 records and 1 more"},
                                     {file.substr(1), "found 792833 bytes: 257 records and 3072 more"}}) {
    const absl::Status status = AppendCifar(bytes, "batch", kCifar10, set);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("batch: expected records of 3073 bytes, ") + found));
    EXPECT_EQ(set.size(), 0);
  }
}

TEST_F(CifarFolder, TrainingFilesAreReadInTheOrderOfTheirNames) {
  PutCifar10();
  const Samples train = Opened(path_), test = Opened(path_, SplitOf::kTest);
  EXPECT_THAT(LabelsOf(*train), ElementsAre(0, 1, 9));
  EXPECT_THAT(LabelsOf(*test), ElementsAre(5));
  EXPECT_EQ(train->image_shape(), (program::Shape{3, 32, 32}));
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(BytesOf(*train, 2).substr(0, 6), "defdef");
  EXPECT_THAT(train->notes(), ElementsAre(HasSubstr("2 of CIFAR-10's 5 files")));
}

TEST_F(CifarFolder, TheFineLabelOfCifar100Counts) {
  PutCifar100();
  const Samples train = Opened(path_), test = Opened(path_, SplitOf::kTest);
  EXPECT_THAT(LabelsOf(*train), ElementsAre(99));
  EXPECT_THAT(LabelsOf(*test), ElementsAre(7));
  EXPECT_EQ(train->classes(), 100);
  EXPECT_EQ(BytesOf(*train, 0).substr(3066), "abcabc");
}

TEST_F(CifarFolder, ClassesHaveTheNamesOfTheirFileOrNumbers) {
  PutCifar10();
  EXPECT_EQ(Opened(path_)->class_names()[3], "3");
  Put("batches.meta.txt", "airplane\nautomobile\nbird\ncat\r\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  EXPECT_EQ(Opened(path_)->class_names()[3], "cat");
  Put("batches.meta.txt", "airplane\ncat\n");
  EXPECT_THAT(std::string(Error(path_).message()),
              HasSubstr("batches.meta.txt: expected the names of 10 classes, one on each line, found 2"));
}

TEST_F(CifarFolder, ALabelThatIsNoneNamesFileRecordAndLabel) {
  PutCifar10();
  Put("data_batch_2.bin", Record("\x9", 'a') + Record("\xa", 'a'));
  const absl::Status status = Error(path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("data_batch_2.bin: record 1: expected a label from 0 and below 10 classes, found 10"));
}

TEST_F(CifarFolder, LabelsAreBelowTheClassesAskedFor) {
  PutCifar10();
  EXPECT_THAT(std::string(Error(path_, SplitOf::kTrain, {.classes = 9}).message()), HasSubstr("below 9 classes, found 9"));
  EXPECT_EQ(Opened(path_, SplitOf::kTrain, {.classes = 12})->classes(), 12);
}

TEST_F(CifarFolder, AMissingSplitIsNotFound) {
  Put("test_batch.bin", Record("\x5", 't'));
  EXPECT_EQ(Error(path_).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Error(path_, SplitOf::kTest).ok());
  std::filesystem::remove(In("test_batch.bin"));
  for (const char* training : {"data_batch_1.bin", "train.bin"}) {
    SCOPED_TRACE(training);
    Put(training, Record("\x5", 't'));
    EXPECT_TRUE(IsNoSplit(Error(path_, SplitOf::kTest))) << "a set without test images is trained on all the same";
    std::filesystem::remove(In(training));
  }
  Put("one.bin", Record("\x5", 't'));
  EXPECT_EQ(Error(In("one.bin"), SplitOf::kTest).code(), absl::StatusCode::kNotFound);
}

TEST_F(CifarFolder, AnEmptyFileIsAnError) {
  PutCifar10();
  Put("data_batch_2.bin", "");
  EXPECT_THAT(std::string(Error(path_).message()), HasSubstr("data_batch_2.bin: expected records of 3073 bytes, found 0"));
}

TEST_F(CifarFolder, AFileOfMoreThan2GiBIsNotRead) {
  PutCifar100();
  std::filesystem::resize_file(In("train.bin"), (int64_t{1} << 31) + 1);
  EXPECT_EQ(Error(path_).message(), In("train.bin") + ": expected at most 2147483648 bytes, found 2147483649");
}

TEST_F(CifarFolder, ImagesArePadded) {
  PutCifar10();
  const Samples padded = Opened(path_, SplitOf::kTrain, {.pad = 4});
  EXPECT_EQ(padded->image_shape(), (program::Shape{3, 40, 40}));
  EXPECT_EQ(BytesOf(*padded, 2).substr((4 * 40 + 3) * 3, 6), std::string("\0\0\0def", 6));
}

TEST(KindOfCifar, IsToldBySizeAndWhereBothFitByLabels) {
  EXPECT_EQ(KindOfCifar(Record("\x1", 'a'), "f")->classes, 10);
  EXPECT_EQ(KindOfCifar(Record("\x1\x1", 'a'), "f")->classes, 100);
  std::string both;
  for (int i = 0; i < 3073; ++i) both += Record("\x1\x11", 'a');
  EXPECT_EQ(KindOfCifar(both, "f")->classes, 100);
  for (size_t i = 0; i < both.size(); ++i) both[i] = 1;
  EXPECT_EQ(KindOfCifar(both, "f")->classes, 10);
  EXPECT_THAT(std::string(KindOfCifar("few", "f").status().message()), HasSubstr("found 3 bytes"));
}

}  // namespace
}  // namespace colonnade::data
