// Weights in one file and in several that an index names.

#include "engine/io/weights.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/load_weights.h"
#include "tests/engine/safetensors_bytes.h"
#include "tests/folder.h"

namespace colonnade::engine {
namespace {

using ::testing::HasSubstr;

constexpr char kTwoShards[] =
    R"({"metadata":{"total_size":20},"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"1.safetensors"}})";

class Weights : public Folder {
 protected:
  Weights() {
    EXPECT_TRUE(SaveTensors(In("1.safetensors"), std::vector<NamedTensor>{{"c", {1}, {1}}, {"a", {2}, {2, 3}}}).ok());
    EXPECT_TRUE(SaveTensors(In("2.safetensors"), std::vector<NamedTensor>{{"b", {2}, {4, 5}}}).ok());
  }
  absl::StatusOr<std::vector<NamedTensor>> Load(const std::string& index) const {
    EXPECT_TRUE(ReplaceFile(In("model.safetensors.index.json"), index).ok());
    return LoadWeights(In("model.safetensors.index.json"));
  }
  void ExpectRefused(const std::string& index, const std::string& file, const std::string& why,
                     absl::StatusCode code = absl::StatusCode::kInvalidArgument) const {
    const absl::Status status = Load(index).status();
    EXPECT_EQ(status.code(), code) << index << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(In("model.safetensors.index.json") + ": ")) << index;
    EXPECT_THAT(std::string(status.message()), HasSubstr(file)) << index;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << index;
  }
};

TEST_F(Weights, OfSeveralFilesAreThoseOfOne) {
  const absl::StatusOr<std::vector<NamedTensor>> tensors = Load(kTwoShards);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[0].name, "c");
  EXPECT_EQ((*tensors)[1].values, (std::vector<double>{2, 3}));
  EXPECT_EQ((*tensors)[2].values, (std::vector<double>{4, 5}));
  EXPECT_EQ(LoadWeights(In("2.safetensors"))->size(), 1u);
}

// The bytes of a file of one tensor "h", whose elements have these bits.
std::string HalvesOf(const std::string& dtype, const std::vector<uint16_t>& bits) {
  const std::string file = File(
      absl::StrFormat(R"({"h":{"dtype":"%s","shape":[%d],"data_offsets":[0,%d]}})", dtype, bits.size(), 2 * bits.size()), 0);
  return absl::StrCat(file, absl::string_view(reinterpret_cast<const char*>(bits.data()), 2 * bits.size()));
}

TEST_F(Weights, InHalvesAreTheirNumbers) {
  const auto expect = [&](const std::string& dtype, const std::vector<std::pair<uint16_t, double>>& numbers) {
    std::vector<uint16_t> bits;
    std::vector<double> values;
    for (const auto& [stored, value] : numbers) {
      bits.push_back(stored);
      values.push_back(value);
    }
    ASSERT_TRUE(ReplaceFile(In("halves"), HalvesOf(dtype, bits)).ok());
    const absl::StatusOr<std::vector<NamedTensor>> read = LoadWeights(In("halves"));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->at(0).values, values) << dtype;
  };
  expect("F16", {{0x3c00, 1},
                 {0xc000, -2},
                 {0x3555, 0.333251953125},
                 {0x7bff, 65504},
                 {0x0400, std::ldexp(1, -14)},
                 {0x03ff, std::ldexp(1023, -24)},
                 {0x8001, -std::ldexp(1, -24)}});
  expect("BF16",
         {{0x3f80, 1}, {0xc000, -2}, {0x3eab, 0.333984375}, {0x7f7f, std::ldexp(255, 120)}, {0x8001, -std::ldexp(1, -133)}});
  ASSERT_TRUE(ReplaceFile(In("zero"), HalvesOf("F16", {0x8000})).ok());
  EXPECT_TRUE(std::signbit(LoadWeights(In("zero"))->at(0).values[0]));
}

TEST_F(Weights, InHalvesMayStandInSeveralFiles) {
  for (const auto& [file, name] : {std::pair("1.safetensors", "F16"), std::pair("2.safetensors", "BF16")}) {
    std::string bytes = HalvesOf(name, {0x3f80, 0x3f80});
    if (file[0] == '2') bytes[bytes.find("\"h\"") + 1] = 'i';
    ASSERT_TRUE(ReplaceFile(In(file), bytes).ok());
  }
  const auto read = Load(R"({"weight_map":{"h":"1.safetensors","i":"2.safetensors"}})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->at(0).values, (std::vector<double>{1.875, 1.875}));
  EXPECT_EQ(read->at(1).values, (std::vector<double>{1, 1}));
}

TEST_F(Weights, InHalvesAreRefusedWhereTheyAreNotFiniteOrNotAskedFor) {
  for (const auto& [dtype, infinite] : {std::pair("F16", 0x7c00), std::pair("F16", 0xfc01), std::pair("BF16", 0x7f80)}) {
    const std::string bytes = HalvesOf(dtype, {0, static_cast<uint16_t>(infinite)});
    ASSERT_TRUE(ReplaceFile(In("halves"), bytes).ok());
    EXPECT_THAT(std::string(LoadWeights(In("halves")).status().message()), HasSubstr("element 1")) << dtype;
    EXPECT_EQ(ViewFile(bytes).status().message(),
              absl::StrFormat(R"(safetensors: tensor "h": expected dtype F32 or F64, found "%s")", dtype));
  }
}

// Of a key that both have, the text of the first.
TEST_F(Weights, OfSeveralFilesHaveTheMetadataOfAll) {
  const std::vector<std::pair<std::string, Metadata>> files = {
      {"1.safetensors", {{"colonnade_a", "1"}, {"colonnade_b", "1"}}},
      {"2.safetensors", {{"colonnade_b", "2"}, {"colonnade_c", "2"}}}};
  for (const auto& [file, metadata] : files) {
    const MappedWeights weights = *MapWeights(In(file));
    ASSERT_TRUE(SaveTensors(In(file), weights.tensors, metadata).ok());
  }
  ASSERT_TRUE(Load(kTwoShards).ok());
  EXPECT_EQ(MapWeights(In("model.safetensors.index.json"))->metadata,
            (Metadata{{"colonnade_a", "1"}, {"colonnade_b", "1"}, {"colonnade_c", "2"}}));
}

TEST_F(Weights, VariancesBelow0AreDamage) {
  const auto save = [&](double variance) {
    const std::vector<NamedTensor> tensors = {{"bn.running_mean", {2}, {-1, -1}}, {"bn.running_var", {2}, {0, variance}}};
    EXPECT_TRUE(SaveTensors(In("f"), tensors).ok());
    return MapWeights(In("f")).status();
  };
  EXPECT_TRUE(save(0).ok());
  EXPECT_EQ(save(-5), absl::InvalidArgumentError(
                          In("f") + ": tensor \"bn.running_var\": expected variances of at least 0, found -5 as element 1"));
}

TEST_F(Weights, AMissingFileIsNamed) {
  std::filesystem::remove(In("2.safetensors"));
  ExpectRefused(kTwoShards, In("2.safetensors"), "No such file", absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadWeights(In("none.index.json")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(Weights, FilesAndIndexMustHaveTheSameTensors) {
  ExpectRefused(R"({"weight_map":{"a":"1.safetensors","b":"1.safetensors","c":"1.safetensors"}})", In("1.safetensors"),
                "expected tensor \"b\", which the index names for it, found none");
  ExpectRefused(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})", In("1.safetensors"), "found \"c\" besides");
}

TEST_F(Weights, OfAShardAreDamagedAndNotFiniteByItsName) {
  const NamedTensor nan{"b", {2}, {4, std::numeric_limits<double>::quiet_NaN()}};
  ASSERT_TRUE(SaveTensors(In("2.safetensors"), std::vector<NamedTensor>{nan}).ok());
  ExpectRefused(kTwoShards, In("2.safetensors"), "tensor \"b\": expected finite values, found nan as element 1");
  ASSERT_TRUE(ReplaceFile(In("2.safetensors"), "short").ok());
  ExpectRefused(kTwoShards, In("2.safetensors"), "safetensors: expected at least 8 bytes");
}

TEST_F(Weights, ACounterOfBatchesMayStandInTheIndex) {
  const std::string header = R"({"bn.num_batches_tracked":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                             R"("w":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})";
  ASSERT_TRUE(ReplaceFile(In("3.safetensors"), File(header, 12)).ok());
  const auto tensors = Load(R"({"weight_map":{"w":"3.safetensors","bn.num_batches_tracked":"3.safetensors"}})");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->size(), 1u);
}

TEST_F(Weights, AnIndexThatIsNoneIsRefused) {
  for (const char* json : {"", "[]", "{", "null", "{}", R"({"weight_map":[]})", R"({"weight_map":{"a":"1.safetensors"})",
                           R"({"weight_map":{"a":1}})", R"({"weight_map":{"a":{"b":{"c":"d"}}}})", R"({"a":1e999})"}) {
    ExpectRefused(json, "", "expected");
  }
  ExpectRefused(R"({"weight_map":{"a":["1.safetensors"]}})", "tensor \"a\"", "found a JSON array");
  for (const char* json : {R"({"weight_map":{"a":"1.safetensors","b":"1.safetensors","a":"2.safetensors"}})",
                           R"({"weight_map":{},"weight_map":{}})", R"({"weight_map":{"a":"x","\u0061":"y"}})"}) {
    ExpectRefused(json, "", "twice in one object");
  }
  ExpectRefused("{\"metadata\":" + std::string(20, '[') + std::string(20, ']') + "}", "", "nested deeper than 8");
  EXPECT_TRUE(WeightMapFromJson(R"({"metadata":{"a":{"a":1}},"weight_map":{"a":"1"},"more":[[[{}]]]})").ok());
}

TEST_F(Weights, AFileElsewhereIsNotRead) {
  for (const char* name :
       {"/etc/hostname", "sub/1.safetensors", "../1.safetensors", "..", ".", "", "1\\u0000.safetensors"}) {
    ExpectRefused(absl::StrCat(R"({"weight_map":{"a":")", name, "\"}}"), "tensor \"a\"",
                  "expected the name of a file beside the index, found \"");
  }
}

TEST_F(Weights, AnIndexOfMoreThan16MiBIsNotRead) {
  ASSERT_TRUE(Load(kTwoShards).ok());
  const std::string index = In("model.safetensors.index.json");
  std::filesystem::resize_file(index, 1 << 24);  // zeros behind the JSON end it
  EXPECT_TRUE(LoadWeights(index).ok()) << LoadWeights(index).status();
  std::filesystem::resize_file(index, (1 << 24) + 1);
  const absl::Status status = LoadWeights(index).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected at most 16777216 bytes"));
}

}  // namespace
}  // namespace colonnade::engine
