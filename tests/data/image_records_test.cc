// Images in record files: real ones, splits, indices, labels.

#include "data/image_records.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/no_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/record_writer.h"
#include "tests/data/sample_folder.h"
#include "tests/shared_data.h"

namespace colonnade::data {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string FloatBytes(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  std::string bytes;
  for (int shift : {0, 8, 16, 24}) bytes.push_back(static_cast<char>(bits >> shift & 0xff));
  return bytes;
}

std::string ImagePayload(float label, const std::string& image, const std::vector<float>& extra = {}) {
  std::string payload(1, static_cast<char>(extra.size()));
  payload.append(3, '\0');
  payload += FloatBytes(label) + std::string(16, '\0');
  for (float value : extra) payload += FloatBytes(value);
  return payload + image;
}

std::string ImageRecordOf(float label, const std::string& image) { return RecordOf(ImagePayload(label, image)); }

std::string Records(int count) {
  std::string records;
  for (int i = 0; i < count; ++i) records += ImageRecordOf(0, "yes");
  return records;
}

class RecordFiles : public SampleFolder {
 protected:
  // Three records of 36 bytes.
  void PutThree(const std::string& name) const {
    Put(name, ImageRecordOf(2, "one") + ImageRecordOf(0, "two") + ImageRecordOf(1, "six"));
  }
};

TEST(RecordSamples, AllOfTheRealFilesAreRead) {
  SKIP_WITHOUT_SHARED_DATA("recordio-samples");
  const std::string path = SharedData("recordio-samples");
  for (const std::string& spec : {path, path + "/cgzzt_train.rec"}) {
    const Samples train = Opened(spec), test = Opened(spec, SplitOf::kTest);
    EXPECT_EQ(train->size(), 1380);
    EXPECT_EQ(train->classes(), 35);
    EXPECT_EQ(ChecksumOf(*train), 1108938939u);
    EXPECT_EQ(test->size(), 392);
    EXPECT_EQ(ChecksumOf(*test), 865883110u);
  }
  EXPECT_EQ(ChecksumOf(*Opened(path + "/dmlc_sample.rec")), 4007729895u);
}

TEST_F(RecordFiles, AreSamplesInTheOrderOfTheFile) {
  PutThree("train.rec");
  const Samples train = Opened(path_);
  EXPECT_THAT(LabelsOf(*train), ElementsAre(2, 0, 1));
  EXPECT_EQ(BytesOf(*train, 2), "six");
  EXPECT_EQ(train->sample_name(1), In("train.rec") + ": record 1 at offset 36");
  EXPECT_THAT(train->class_names(), ElementsAre("0", "1", "2"));
  EXPECT_THAT(train->notes(), IsEmpty());
  std::string room;
  EXPECT_TRUE(train->Read(0, room)->is_encoded);
}

TEST_F(RecordFiles, TestImagesStandBesideTheTrainingImages) {
  PutThree("a_train.rec");
  EXPECT_EQ(Error(path_, SplitOf::kTest).code(), absl::StatusCode::kNotFound);
  Put("a_test.rec", ImageRecordOf(0, "test"));
  EXPECT_EQ(BytesOf(*Opened(path_, SplitOf::kTest), 0), "test");
  Put("a_val.rec", ImageRecordOf(0, "val"));
  EXPECT_EQ(BytesOf(*Opened(In("a_train.rec"), SplitOf::kTest), 0), "val");
}

TEST_F(RecordFiles, AFileOfAnotherNameHasTrainingImagesAlone) {
  PutThree("images.rec");
  EXPECT_EQ(Opened(path_)->size(), 3);
  EXPECT_EQ(Error(In("images.rec"), SplitOf::kTest).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Error(In("images.rec"), SplitOf::kTest).message()), HasSubstr("training images alone"));
}

TEST_F(RecordFiles, AFolderOfTestImagesAloneHasThose) {
  PutThree("val.rec");
  EXPECT_EQ(Opened(path_, SplitOf::kTest)->size(), 3);
  EXPECT_TRUE(IsNoSplit(Error(path_))) << "what is tested is not trained on";
  EXPECT_THAT(std::string(Error(path_).message()), HasSubstr("found test images alone"));
  Put("a_test.rec", ImageRecordOf(0, "test"));
  EXPECT_EQ(Opened(path_, SplitOf::kTest)->size(), 3) << "of both that for validation";
  PutThree("a_val.rec");
  EXPECT_THAT(std::string(Error(path_, SplitOf::kTest).message()), HasSubstr("expected one file of test images, found "));
}

TEST_F(RecordFiles, AFileThatIsNamedHasTheImagesOfItsName) {
  PutThree("a_train.rec");
  Put("a_val.rec", ImageRecordOf(0, "val"));
  EXPECT_EQ(BytesOf(*Opened(In("a_val.rec"), SplitOf::kTest), 0), "val");
  EXPECT_TRUE(IsNoSplit(Error(In("a_val.rec")))) << "what is tested is not trained on";
  EXPECT_EQ(Opened(In("a_train.rec"))->size(), 3);
}

TEST_F(RecordFiles, AFolderWithAFileOfAnotherNameHasTrainingImagesAlone) {
  PutThree("images.rec");
  EXPECT_EQ(Opened(path_)->size(), 3);
  EXPECT_TRUE(IsNoSplit(Error(path_, SplitOf::kTest)));
  Put("a_val.rec", ImageRecordOf(0, "val"));
  EXPECT_EQ(Opened(path_)->size(), 3);
  EXPECT_EQ(BytesOf(*Opened(path_, SplitOf::kTest), 0), "val");
}

TEST_F(RecordFiles, OneOfSeveralMustBeNamed) {
  PutThree("a_train.rec");
  PutThree("b_train.rec");
  EXPECT_EQ(Error(path_).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Error(path_).message()), HasSubstr("a_train.rec, "));
}

TEST_F(RecordFiles, AnIndexChoosesRecordsInAnyOrder) {
  PutThree("train.rec");
  Put("train.idx", "7\t72\n3\t0\n");
  const Samples train = Opened(path_);
  EXPECT_THAT(LabelsOf(*train), ElementsAre(2, 1));
  EXPECT_EQ(BytesOf(*train, 1), "six");
  EXPECT_THAT(train->notes(), ElementsAre(HasSubstr("the index has 2 records, in 72 of 108 bytes")));
  Put("train.idx", "one\t36\ntwo\t72\n2\t0\n\n");
  EXPECT_THAT(LabelsOf(*Opened(path_)), ElementsAre(2, 0, 1));
  EXPECT_THAT(Opened(path_)->notes(), IsEmpty());
}

TEST_F(RecordFiles, AWrongLineOfAnIndexIsNamed) {
  PutThree("train.rec");
  for (const auto& [line, expected] : {std::pair{"1\t108", "an offset in a file of 108 bytes"},
                                       {"1\t-4", "an offset in a file of 108 bytes"},
                                       {"1\t99999999999999999999", "a number, a tab and an offset"},
                                       {"1 36", "a number, a tab and an offset"},
                                       {"\t36", "a number, a tab and an offset"},
                                       {"00\t36", "a number that no line before has"},
                                       {"1\t0", "an offset that no line before has"}}) {
    Put("train.idx", absl::StrCat("0\t0\n", line, "\n"));
    EXPECT_EQ(Error(path_).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(Error(path_).message()),
                HasSubstr(absl::StrCat("train.idx: line 2: expected ", expected, ", found")));
  }
}

TEST_F(RecordFiles, AnIndexThatPointsBetweenRecordsIsAnError) {
  PutThree("train.rec");
  Put("train.idx", "0\t0\n1\t40\n");
  EXPECT_THAT(std::string(Error(path_).message()), HasSubstr("train.rec: record 1 at offset 40: expected the magic"));
}

TEST_F(RecordFiles, LabelsAreWholeNumbersOfAClass) {
  for (const auto& [label, found] : {std::pair{1.5f, "expected a whole number from 0 as its label, found 1.5"},
                                     {-1.0f, "found -1"},
                                     {7.0f, "expected a label from 0 and below 7 classes, found 7"}}) {
    Put("train.rec", ImageRecordOf(3, "good") + ImageRecordOf(label, "wrong"));
    const absl::Status status = Error(path_, SplitOf::kTrain, {.classes = 7});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("train.rec: record 1 at offset 36: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(found));
  }
}

TEST_F(RecordFiles, TheFirstOfSeveralLabelsCounts) {
  Put("train.rec", RecordOf(ImagePayload(9, "one", {1})) + RecordOf(ImagePayload(9, "two", {2, 5})));
  const Samples train = Opened(path_);
  EXPECT_THAT(LabelsOf(*train), ElementsAre(1, 2));
  EXPECT_EQ(BytesOf(*train, 1), "two");
  EXPECT_THAT(train->notes(), ElementsAre(HasSubstr("1 record has more than one label")));
}

TEST_F(RecordFiles, RecordsTooShortForWhatTheyStateAreNamed) {
  Put("train.rec", RecordOf("short"));
  EXPECT_THAT(std::string(Error(path_).message()),
              HasSubstr("record 0 at offset 0: expected a header of 24 bytes and an image, found 5"));
  Put("train.rec", RecordOf("\xff" + ImagePayload(0, "image").substr(1)));
  EXPECT_THAT(std::string(Error(path_).message()), HasSubstr("expected 255 labels behind the header, found 5 bytes"));
}

TEST_F(RecordFiles, AMagicInLabelOrImageIsNoMatter) {
  const std::string magic("\x0a\x23\xd7\xce", 4);
  std::string payload = ImagePayload(1, "abcd" + magic + "efg");
  payload.replace(8, 4, magic);
  Put("train.rec", RecordOf(payload));
  const Samples train = Opened(path_);
  EXPECT_THAT(LabelsOf(*train), ElementsAre(1));
  EXPECT_EQ(BytesOf(*train, 0), "abcd" + magic + "efg");
}

TEST_F(RecordFiles, DamageIsAnErrorOrIsLeftOutAndCounted) {
  std::string file = ImageRecordOf(2, "one") + ImageRecordOf(0, "two") + ImageRecordOf(1.5, "odd") + ImageRecordOf(1, "six");
  file[37] ^= 1;
  Put("train.rec", file + Records(200));
  EXPECT_THAT(std::string(Error(path_).message()), HasSubstr("train.rec: record 1 at offset 36: expected the magic"));
  const Samples train = Opened(path_, SplitOf::kTrain, {.skip_damaged = true});
  EXPECT_EQ(train->label(0), 2);
  EXPECT_EQ(train->label(1), 1);
  EXPECT_EQ(BytesOf(*train, 1), "six");
  EXPECT_THAT(train->notes(),
              ElementsAre(HasSubstr("damaged: 36 bytes in 1 place are no records, and 1 record has no header "
                                    "of an image; 202 records are left")));
}

// Of 300 records 3 may be damaged, in one place or in several, and labels that the network does not have count as well.
TEST_F(RecordFiles, AtMostOneIn100MayBeLeftOut) {
  const auto error = [&](const std::string& file, int64_t classes = 0) {
    Put("train.rec", file);
    return std::string(OpenSamples(path_, SplitOf::kTrain, {.classes = classes, .skip_damaged = true}).status().message());
  };
  std::string file = Records(300);
  for (int record = 10; record < 13; ++record) file[record * 36] ^= 1;
  EXPECT_EQ(error(file), "");
  file[13 * 36] ^= 1;
  EXPECT_THAT(error(file),
              HasSubstr("train.rec: expected at most 1 in 100 of 300 records that cannot be used, found about 4, "
                        "such as: 144 bytes in 1 place are no records"));
  file = Records(297);
  for (int record = 0; record < 3; ++record) file += ImageRecordOf(7, "yes");
  EXPECT_EQ(error(file, 7), "");
  EXPECT_THAT(
      error(ImageRecordOf(7, "yes") + file, 7),
      HasSubstr("found about 4, such as: the record at offset 0: expected a label from 0 and below 7 classes, found 7"));
}

TEST_F(RecordFiles, OfADamagedFileTheIndexChoosesAmongTheUndamagedRecords) {
  std::string file = ImageRecordOf(2, "one") + ImageRecordOf(0, "two") + ImageRecordOf(1.5, "odd") +
                     ImageRecordOf(1, "not") + ImageRecordOf(3, "six") + ImageRecordOf(4, "cut");
  file[37] ^= 1;
  file.replace(180, 36, "");                           // the last of the index is not there
  std::string index = "0\t0\n1\t36\n2\t72\n4\t144\n";  // not the one at 108
  for (int record = 5; record < 405; ++record) index += absl::StrFormat("%d\t%d\n", record, record * 36);
  Put("train.rec", file + Records(399));
  Put("train.idx", index);
  const Samples train = Opened(path_, SplitOf::kTrain, {.skip_damaged = true});
  EXPECT_EQ(train->label(0), 2);
  EXPECT_EQ(train->label(1), 3);
  EXPECT_EQ(BytesOf(*train, 1), "six");
  EXPECT_THAT(train->notes(), ElementsAre(HasSubstr("1 record is left out: not in the index"),
                                          HasSubstr("damaged: 2 of 404 records in the index are not there, and 1 record has "
                                                    "no header of an image; 401 records are left")));
}

// Nothing is damaged, so what the index says is not there never was.
TEST_F(RecordFiles, TheIndexOfAnotherFileIsAnErrorAlsoWhereDamageIsSkipped) {
  PutThree("train.rec");
  Put("train.idx", "0\t0\n1\t40\n");
  EXPECT_THAT(std::string(OpenSamples(path_, SplitOf::kTrain, {.skip_damaged = true}).status().message()),
              HasSubstr("record 1 at offset 40"));
}

TEST_F(RecordFiles, AFileThatChangesIsAnErrorThatNamesTheSample) {
  PutThree("train.rec");
  const Samples train = Opened(path_);
  std::filesystem::resize_file(In("train.rec"), 80);
  std::string room;
  EXPECT_TRUE(train->Read(1, room).ok());
  const absl::Status status = train->Read(2, room).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("train.rec: record 2 at offset 72"));
}

TEST_F(RecordFiles, AnEmptyOrMissingFileIsAnError) {
  Put("train.rec", "");
  EXPECT_THAT(std::string(Error(path_).message()), HasSubstr("train.rec: expected records, found none"));
  EXPECT_EQ(Error(In("none.rec")).code(), absl::StatusCode::kNotFound);
}

// One record in three parts, of which only the headers and 28 bytes are no holes.
TEST_F(RecordFiles, ARecordOfMoreThan1GiBIsNotRead) {
  constexpr int64_t kPart = (int64_t{1} << 29) - 4, kTotal = kPart + 8;
  const auto header = [](uint32_t kind) {
    std::string bytes("\x0a\x23\xd7\xce", 4);
    const uint32_t length = kind << 29 | static_cast<uint32_t>(kPart);
    for (int shift : {0, 8, 16, 24}) bytes.push_back(static_cast<char>(length >> shift & 0xff));
    return bytes;
  };
  Put("train.rec", "");
  fs::resize_file(In("train.rec"), 3 * kTotal);
  std::fstream file(In("train.rec"), std::ios::binary | std::ios::in | std::ios::out);
  for (int part = 0; part < 3; ++part) {
    file.seekp(part * kTotal);
    file << header(static_cast<uint32_t>(part + 1)) << (part == 0 ? ImagePayload(3, "") : "");
  }
  file.close();
  const Samples train = Opened(path_);
  EXPECT_THAT(LabelsOf(*train), ElementsAre(3));
  std::string room;
  const absl::Status status = train->Read(0, room).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("record 0 at offset 0: expected at most 1073741824 bytes, found 16"));
}

}  // namespace
}  // namespace colonnade::data
