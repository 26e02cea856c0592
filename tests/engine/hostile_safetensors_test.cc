// Safetensors files that lie, and tensors that the format cannot hold.

#include <cstring>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocations.h"
#include "tests/engine/load_weights.h"
#include "tests/engine/safetensors_bytes.h"
#include "tests/folder.h"
#include "tests/read_file.h"
#include "tests/sanitized.h"

namespace colonnade::engine {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

// An error, found without memory beyond what the file has and a MiB.
std::string ErrorWithinMemoryOf(const std::string& file) {
  absl::Status status;
  const size_t largest = LargestAllocationIn([&] { status = ParseTensors(file).status(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_LE(largest, file.size() + kMiB);
  return std::string(status.message());
}

std::string Tensor(const std::string& name, const std::string& fields) {
  return absl::StrCat("{\"", name, "\":{", fields, "}}");
}

TEST(HostileSafetensors, EveryTruncationIsRefused) {
  const std::string file = File(kGood, 8);
  ASSERT_TRUE(ParseTensors(file).ok());
  for (size_t length = 0; length < file.size(); ++length) ErrorWithinMemoryOf(file.substr(0, length));
  EXPECT_THAT(ErrorWithinMemoryOf(file + "x"), HasSubstr("expected 8 bytes of data, found 9"));
}

TEST(HostileSafetensors, FilesOfOtherProgramsAreTold) {
  EXPECT_THAT(ErrorWithinMemoryOf(std::string("PK\x03\x04\0\0\x08\x08", 8) + "archive/data.pkl"),
              HasSubstr("it looks like a file of torch.save: save the tensors by safetensors.torch.save_file"));
  EXPECT_THAT(ErrorWithinMemoryOf("\x89HDF\r\n\x1a\n of Keras"), HasSubstr("it looks like an HDF5 file of Keras"));
  EXPECT_THAT(ErrorWithinMemoryOf("\x80\x02\x8a\nl\xfc\x9c\x46\xf9"),
              HasSubstr("it looks like a pickle, such as of torch.save: save the tensors by safetensors.torch.save_file"));
  EXPECT_THAT(ErrorWithinMemoryOf("{\"colonnade_model\": 1, \"name\""),
              HasSubstr("it looks like a network file; --model takes it"));
}

TEST(HostileSafetensors, EveryFlippedByteOfTheHeaderIsAnErrorOrHarmless) {
  const std::string file = File(kGood, 8);
  for (size_t i = 0; i < file.size() - 8; ++i) {
    for (char flip : {'\x01', '\x20', '\x80', '\xff'}) {
      std::string damaged = file;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      absl::StatusOr<std::vector<NamedTensor>> tensors = ParseTensors(damaged);
      if (!tensors.ok()) {
        EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument) << tensors.status();
        continue;
      }
      ASSERT_EQ(tensors->size(), 1u);
      EXPECT_EQ((*tensors)[0].values.size(), static_cast<size_t>(program::ElementCount((*tensors)[0].shape)));
    }
  }
}

TEST(HostileSafetensors, LengthsThatTheFileHasNotAreRefused) {
  const std::string good = File(kGood, 8);
  for (uint64_t length :
       {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{100'000'001}, uint64_t{good.size()}, uint64_t{good.size() - 7}}) {
    std::string file = good;
    std::memcpy(file.data(), &length, 8);
    EXPECT_THAT(ErrorWithinMemoryOf(file), HasSubstr("header"));
  }
}

TEST(HostileSafetensors, NestingIsRefusedWhereItBegins) {
  for (const char* opening : {"[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += opening;
    EXPECT_THAT(ErrorWithinMemoryOf(File("{\"a\":" + deep, 0)), HasSubstr("tensor \"a\": expected dtype"));
  }
  EXPECT_THAT(ErrorWithinMemoryOf(File(Tensor("a", R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"), 8)),
              HasSubstr("\"a\""));
  EXPECT_THAT(ErrorWithinMemoryOf(File(R"({"__metadata__":{"k":{"l":"m"}}})", 0)), HasSubstr("text"));
}

TEST(HostileSafetensors, FieldsOfATensorMustBeWhatTheyAreNamed) {
  for (const char* fields : {
           R"("dtype":"F32","shape":[2])",
           R"("dtype":"F32","data_offsets":[0,8])",
           R"("shape":[2],"data_offsets":[0,8])",
           "",
           R"("dtype":1,"shape":[2],"data_offsets":[0,8])",
           R"("dtype":"F32","shape":2,"data_offsets":[0,8])",
           R"("dtype":"F32","shape":"2","data_offsets":[0,8])",
           R"("dtype":"F32","shape":[2],"data_offsets":[0])",
           R"("dtype":"F32","shape":[2],"data_offsets":[0,4,8])",
           R"("dtype":"F32","shape":[2],"data_offsets":[0,8.0])",
           R"("dtype":"F32","shape":[2],"data_offsets":[-1,7])",
           R"("dtype":"F32","shape":[2],"data_offsets":null)",
           R"("dtype":["F32"],"shape":[2],"data_offsets":[0,8])",
           R"("dtype":"F32","shape":[true],"data_offsets":[0,8])",
           R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])",
           R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])",
           R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"order":"C")",
       }) {
    EXPECT_THAT(ErrorWithinMemoryOf(File(Tensor("a.b", fields), 8)), HasSubstr("tensor \"a.b\": expected")) << fields;
  }
  for (const char* header : {R"({"a":1})", R"({"a":null})", R"({"a":"F32"})", R"({"a":[]})"}) {
    EXPECT_THAT(ErrorWithinMemoryOf(File(header, 0)), HasSubstr("tensor \"a\": expected")) << header;
  }
  for (const char* header : {R"({"__metadata__":null})", R"({"__metadata__":[]})", R"({"__metadata__":"x"})"}) {
    EXPECT_THAT(ErrorWithinMemoryOf(File(header, 0)), HasSubstr("text")) << header;
  }
}

TEST(HostileSafetensors, NumbersThatNoIntegerHoldsAreRefused) {
  for (const char* number : {"1e999", "NaN", "-0.5", "1e2", "18446744073709551616", "9223372036854775808"}) {
    ErrorWithinMemoryOf(File(Tensor("a", absl::StrCat(R"("dtype":"F32","data_offsets":[0,8],"shape":[)", number, "]")), 8));
    ErrorWithinMemoryOf(File(Tensor("a", absl::StrCat(R"("dtype":"F32","shape":[2],"data_offsets":[0,)", number, "]")), 8));
  }
  // 2^62 elements of 4 bytes: the product is 0 if it wraps around.
  EXPECT_THAT(
      ErrorWithinMemoryOf(File(Tensor("a", R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])"), 0)),
      HasSubstr("too large"));
  EXPECT_THAT(
      ErrorWithinMemoryOf(File(Tensor("a", R"("dtype":"F64","shape":[2147483648,1073741824],"data_offsets":[0,0])"), 0)),
      HasSubstr("too large"));
}

TEST(HostileSafetensors, KeysThatStandTwiceAreRefusedEverywhere) {
  const std::string empty = R"({"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  for (const std::string& header : {
           absl::StrCat(R"({"a":)", empty, R"(,"b":)", empty, R"(,"a":)", empty, "}"),
           absl::StrCat(R"({"a":)", empty, R"(,"\u0061":)", empty, "}"),  // the same name, escaped
           std::string(R"({"a":{"dtype":"F32","dtype":"F32","shape":[0],"data_offsets":[0,0]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"shape":[0]}})"),
           std::string(R"({"__metadata__":{},"__metadata__":{}})"),
           std::string(R"({"__metadata__":{"k":"1","l":"2","k":"3"}})"),
       }) {
    EXPECT_THAT(ErrorWithinMemoryOf(File(header, 0)), HasSubstr("twice")) << header;
  }
}

TEST(HostileSafetensors, WhatIsNoJsonIsRefusedWithItsPlace) {
  const std::string good = kGood;
  for (const std::string& header :
       {std::string("{"), std::string("{\"a\""), std::string("{\"a\":\xff}"), std::string("{\"\xc3\x28\":1}"), good + "}",
        good + ",", std::string("{,}"), std::string("{'a':1}")}) {
    EXPECT_THAT(ErrorWithinMemoryOf(File(header, 8)), HasSubstr("not JSON at its byte")) << header;
  }
  for (const char* header : {"", "   ", "[]", "null", "\t{}", "7"}) {
    EXPECT_THAT(ErrorWithinMemoryOf(File(header, 0)), HasSubstr("begins with {")) << header;
  }
}

TEST(HostileSafetensors, NamesArePrintedEscapedAndOtherwiseLeftAlone) {
  EXPECT_THAT(ErrorWithinMemoryOf(File(Tensor("a\\n\\u0007", R"("dtype":"I8","shape":[],"data_offsets":[0,1])"), 1)),
              HasSubstr(R"(tensor "a\n\007": expected dtype F32 or F64, found "I8")"));
  absl::StatusOr<std::vector<NamedTensor>> tensors =
      ParseTensors(File(Tensor("../x", R"("dtype":"F32","shape":[0],"data_offsets":[0,0])"), 0));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ((*tensors)[0].name, "../x");
}

TEST(HostileSafetensors, PyTorchsCountersOfBatchesAreLeftOutAndOtherIntegersRefused) {
  const std::string counter = R"("dtype":"I64","shape":[],"data_offsets":[0,8])";
  for (const char* name : {"num_batches_tracked", "bn1.num_batches_tracked"}) {
    absl::StatusOr<std::vector<NamedTensor>> tensors = ParseTensors(File(Tensor(name, counter), 8));
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    EXPECT_TRUE(tensors->empty());
  }
  EXPECT_THAT(ErrorWithinMemoryOf(File(Tensor("bn1.weight", counter), 8)), HasSubstr("found \"I64\""));
  EXPECT_THAT(ErrorWithinMemoryOf(File(Tensor("num_batches_tracked", counter), 4)), HasSubstr("within 4 bytes of data"));
}

TEST(HostileSafetensors, TensorsMayStandInAnyOrderAndAreGivenInThatOfTheirBytes) {
  std::string file =
      File(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"n":{"shape":[0,3],"data_offsets":[8,8],)"
           R"("dtype":"F64"},"a":{"data_offsets":[0,8],"dtype":"F64","shape":[]}})",
           12);
  const double eight = 8;
  const float twelve = 12;
  std::memcpy(file.data() + file.size() - 12, &eight, 8);
  std::memcpy(file.data() + file.size() - 4, &twelve, 4);
  absl::StatusOr<std::vector<NamedTensor>> tensors = ParseTensors(file);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].values, std::vector<double>{8});
  EXPECT_EQ((*tensors)[1].name, "n");
  EXPECT_EQ((*tensors)[2].values, std::vector<double>{12});
}

std::string ManyTensors(int count, int name_step) {
  std::string header = "{";
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&header, i == 0 ? "" : ",", "\"t", i * name_step,
                    R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})");
  }
  return header + "}";
}

// Time grows with the number of tensors, not with its square, which would be hours.
TEST(HostileSafetensors, AMillionTensorsAreReadOrRefusedInSeconds) {
  const int many = Draws(1'000'000);
  const std::clock_t begin = std::clock();  // of this process: the machine may have other work
  absl::StatusOr<std::vector<NamedTensor>> tensors = ParseTensors(File(ManyTensors(many, 1), 0));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->size(), static_cast<size_t>(many));
  EXPECT_THAT(std::string(ParseTensors(File(ManyTensors(many, 0), 0)).status().message()), HasSubstr("\"t0\" stands twice"));
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 30);
}

class SaveTensorsTest : public Folder {
 protected:
  const std::string file_ = In("w.safetensors");
};

TEST_F(SaveTensorsTest, WhatTheFormatCannotHoldIsRefusedAndTheOldFileStays) {
  ASSERT_TRUE(SaveTensors(file_, std::vector<NamedTensor>{{"a", {1}, {1}}}).ok());
  const std::string before = *ReadFile(file_);
  const NamedTensor good = {"a", {1}, {1}}, no_text = {"\xff", {1}, {1}}, reserved = {"__metadata__", {1}, {1}};
  const NamedTensor too_few = {"a", {2, 2}, {1, 2, 3}}, other = {"b", {1}, {1}};
  const std::vector<std::vector<NamedTensor>> wrong = {{good, other, good}, {no_text}, {reserved}, {too_few}};
  for (const std::vector<NamedTensor>& tensors : wrong) {
    EXPECT_EQ(SaveTensors(file_, tensors).code(), absl::StatusCode::kInvalidArgument) << tensors[0].name;
    EXPECT_EQ(*ReadFile(file_), before);
  }
}

TEST_F(SaveTensorsTest, BytesAreThoseOfTheFormat) {
  ASSERT_TRUE(SaveTensors(file_, std::vector<NamedTensor>{{"w", {2}, {1, -0.5}}, {"ü", {}, {2}}}).ok());
  // CRC-32 of "w F32[2]", its bytes, "ü F32[]", its bytes, as Python's zlib gives it.
  const std::string header =
      R"({"__metadata__":{"colonnade_crc32":"c9ff442c"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"ü":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})";
  const std::string spaces((8 - header.size() % 8) % 8, ' ');
  std::string expected(8, '\0');
  expected[0] = static_cast<char>(header.size() + spaces.size());
  expected += header + spaces;
  for (float value : {1.0f, -0.5f, 2.0f}) expected.append(reinterpret_cast<const char*>(&value), 4);
  EXPECT_EQ(*ReadFile(file_), expected);
}

TEST_F(SaveTensorsTest, EachTensorIsSavedInItsOwnTypeAndSinglesAsBefore) {
  const float singles[] = {1, -0.5f};
  const double doubles[] = {0.1};
  const auto view = [](const std::string& name, program::DType dtype, int64_t count, const void* bytes) {
    return TensorView{
        name, dtype, {count}, {static_cast<const char*>(bytes), static_cast<size_t>(count * program::SizeInBytes(dtype))}};
  };
  const TensorView w = view("w", program::DType::kF32, 2, singles), v = view("v", program::DType::kF64, 1, doubles);
  ASSERT_TRUE(SaveTensors(file_, std::vector<TensorView>{w}).ok());
  const std::string as_views = *ReadFile(file_);
  ASSERT_TRUE(SaveTensors(file_, std::vector<NamedTensor>{{"w", {2}, {1, -0.5}}}).ok());
  EXPECT_EQ(as_views, *ReadFile(file_));
  ASSERT_TRUE(SaveTensors(file_, std::vector<TensorView>{w, v}).ok());
  EXPECT_THAT(*ReadFile(file_), HasSubstr(R"("v":{"dtype":"F64","shape":[1],"data_offsets":[8,16]})"));
  EXPECT_EQ((*LoadWeights(file_))[1].values, std::vector<double>{0.1});
}

// CRC-32 of "colonnade_a=1", "colonnade_b=x", "w F32[1]" and the bytes, as Python's zlib gives it.
TEST_F(SaveTensorsTest, MetadataAreReadAsTheyWereWrittenAndThoseOfOthersAreNot) {
  const float one = 1;
  const TensorView w{"w", program::DType::kF32, {1}, {reinterpret_cast<const char*>(&one), 4}};
  const Metadata metadata = {{"colonnade_b", "x"}, {"colonnade_a", "1"}};
  ASSERT_TRUE(SaveTensors(file_, {w}, metadata).ok());
  EXPECT_EQ(MapWeights(file_)->metadata, metadata);
  EXPECT_THAT(*ReadFile(file_), HasSubstr("\"colonnade_crc32\":\"e25e9db6\""));
  EXPECT_EQ(ViewFile(File(R"({"__metadata__":{"format":"pt","colonnade_c":""}})", 0))->metadata,
            (Metadata{{"colonnade_c", ""}}));
  EXPECT_EQ(SaveTensors(file_, {w}, {{"colonnade_a", "\xff"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MapWeights(file_)->metadata, metadata);
}

TEST_F(SaveTensorsTest, MetadataAreViewedWithoutALookAtTheTensors) {
  const float one = 1;
  const TensorView w{"w", program::DType::kF32, {1}, {reinterpret_cast<const char*>(&one), 4}};
  const Metadata metadata = {{"colonnade_a", "1"}};
  ASSERT_TRUE(SaveTensors(file_, {w}, metadata).ok());
  std::string bytes = *ReadFile(file_);
  bytes.back() = static_cast<char>(~bytes.back());
  EXPECT_FALSE(ViewFile(bytes).ok());
  const absl::StatusOr<Metadata> viewed = ViewMetadata(bytes);
  ASSERT_TRUE(viewed.ok()) << viewed.status();
  EXPECT_EQ(*viewed, metadata);
  EXPECT_TRUE(LooksLikeSafetensors(bytes));
  EXPECT_FALSE(ViewMetadata(bytes.substr(0, 12)).ok());
  for (const char* other : {"", "{}", "{\"a\": 1}{", "PK\x03\x04----{"}) EXPECT_FALSE(LooksLikeSafetensors(other)) << other;
}

TEST_F(SaveTensorsTest, EveryFlippedBitIsRefusedOrChangesNothing) {
  const std::vector<NamedTensor> tensors = {
      {"conv.weight", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"none", {0}, {}}, {"b", {2}, {7, 8}}};
  const Metadata metadata = {{"colonnade_a", "text"}};
  std::vector<std::string> bytes;
  std::vector<TensorView> views;
  for (const NamedTensor& tensor : tensors) {
    const std::vector<float> floats(tensor.values.begin(), tensor.values.end());
    bytes.emplace_back(reinterpret_cast<const char*>(floats.data()), 4 * floats.size());
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    views.push_back({tensors[i].name, program::DType::kF32, tensors[i].shape, {bytes[i].data(), bytes[i].size()}});
  }
  ASSERT_TRUE(SaveTensors(file_, views, metadata).ok());
  const std::string file = *ReadFile(file_);
  ASSERT_TRUE(ParseTensors(file).ok());
  const size_t data = file.size() - 8 * sizeof(float);
  int harmless = 0;
  for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    absl::StatusOr<std::vector<NamedTensor>> read = ParseTensors(damaged);
    if (!read.ok()) continue;
    EXPECT_LT(bit / 8, data) << "a value is another";
    EXPECT_TRUE(ViewFile(damaged)->metadata.contains("colonnade_a")) << bit;
    EXPECT_EQ(ViewFile(damaged)->metadata["colonnade_a"], "text") << bit;
    ++harmless;
    ASSERT_EQ(read->size(), tensors.size()) << bit;
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ((*read)[i].name, tensors[i].name) << bit;
      EXPECT_EQ((*read)[i].shape, tensors[i].shape) << bit;
      EXPECT_EQ((*read)[i].values, tensors[i].values) << bit;
    }
  }
  EXPECT_LT(harmless, 8 * 20) << "only the checksum's own name and spaces may be others";
}

TEST_F(SaveTensorsTest, AFileOfAnotherHandNeedsNoChecksumAndAWrongOneIsNamed) {
  EXPECT_TRUE(ParseTensors(File(R"({"__metadata__":{"format":"pt"}})", 0)).ok());
  EXPECT_TRUE(ParseTensors(File(R"({"__metadata__":{"colonnade_crc32":"00000000"}})", 0)).ok());
  EXPECT_THAT(ErrorWithinMemoryOf(File(R"({"__metadata__":{"colonnade_crc32":"0000000A"}})", 0)),
              HasSubstr("expected tensors of checksum \"0000000A\", as colonnade_crc32 says, found 00000000"));
}

TEST_F(SaveTensorsTest, EveryFloatComesBackWithItsBits) {
  const std::vector<double> values = {0.0,
                                      -0.0,
                                      double{std::numeric_limits<float>::denorm_min()},
                                      double{std::numeric_limits<float>::max()},
                                      std::numeric_limits<double>::infinity(),
                                      double{0.1f}};
  ASSERT_TRUE(SaveTensors(file_, std::vector<NamedTensor>{{"w", {6}, values}}).ok());
  const std::vector<double> read = (*ParseTensors(*ReadFile(file_)))[0].values;
  EXPECT_EQ(std::memcmp(read.data(), values.data(), 6 * sizeof(double)), 0);
}

TEST_F(SaveTensorsTest, ErrorsOfLoadingNameTheFile) {
  EXPECT_EQ(LoadWeights(file_).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(ReplaceFile(file_, "short").ok());
  EXPECT_EQ(LoadWeights(file_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(LoadWeights(file_).status().message()), HasSubstr(file_));
}

TEST_F(SaveTensorsTest, BytesThatAreNoWholeNumberOfElementsAreRefused) {
  const std::string bytes(5, 'x');
  const TensorView view{"a", program::DType::kF32, {1}, {bytes.data(), bytes.size()}};
  const absl::Status status = SaveTensors(file_, {view});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"a\": expected 4 bytes, as shape [1] has, found 5"));
}

}  // namespace
}  // namespace colonnade::engine
