#include "data/idx.h"

#include <zlib.h>

#include <string>

#include "data/gzip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::data {
namespace {

using ::testing::HasSubstr;

std::string Word(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

std::string Images(uint32_t n, uint32_t h, uint32_t w) {
  std::string file = Word(0x803) + Word(n) + Word(h) + Word(w);
  for (uint32_t i = 0; i < n * h * w; ++i) file.push_back(static_cast<char>(i));
  return file;
}

std::string Labels(const std::vector<int>& labels) {
  std::string file = Word(0x801) + Word(static_cast<uint32_t>(labels.size()));
  for (int label : labels) file.push_back(static_cast<char>(label));
  return file;
}

std::string Gzipped(const std::string& bytes) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(bytes.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

std::string ErrorOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(Idx, ReadsPlainAndGzippedAlike) {
  const std::string images = Images(3, 4, 5), labels = Labels({0, 2, 1});
  for (const bool packed : {false, true}) {
    absl::StatusOr<ImageSet> set =
        ParseIdxPair(packed ? Gzipped(images) : images, "i", packed ? Gzipped(labels) : labels, "l", 0);
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_EQ(set->sample_shape, (program::Shape{1, 4, 5}));
    EXPECT_EQ(set->pixels[17], 17);
    EXPECT_THAT(set->labels, ::testing::ElementsAre(0, 2, 1));
    EXPECT_EQ(set->classes, 3);
  }
}

TEST(Idx, EveryTruncationAndOneByteTooManyAreRefused) {
  const std::string file = Images(2, 3, 3), packed = Gzipped(file);
  for (size_t length = 0; length < file.size(); ++length) ErrorOf(ParseIdx(file.substr(0, length), "f", 3).status());
  for (size_t length = 0; length < packed.size(); ++length) ErrorOf(ParseIdx(packed.substr(0, length), "f", 3).status());
  EXPECT_THAT(ErrorOf(ParseIdx(file + "x", "f", 3).status()), HasSubstr("expected 18 bytes after the header"));
  EXPECT_THAT(ErrorOf(ParseIdx(packed + "x", "f", 3).status()), HasSubstr("after it"));
}

TEST(Idx, WrongMagicTypeRankAndProductAreNamed) {
  EXPECT_THAT(ErrorOf(ParseIdx("GIF89a and more", "f.idx", 3).status()), HasSubstr("f.idx: expected an IDX file"));
  EXPECT_THAT(ErrorOf(ParseIdx(Word(0x0d03) + Word(0) + Word(0) + Word(0), "f", 3).status()), HasSubstr("0x00000d03"));
  EXPECT_THAT(ErrorOf(ParseIdx(Labels({1}), "f", 3).status()), HasSubstr("0x00000801"));
  EXPECT_THAT(ErrorOf(ParseIdx(Word(0x803) + Word(~0u) + Word(~0u) + Word(~0u), "f", 3).status()), HasSubstr("product"));
}

TEST(Idx, CountsAndLabelsMustFit) {
  EXPECT_THAT(ErrorOf(ParseIdxPair(Images(3, 2, 2), "i", Labels({1, 2}), "l", 0).status()), HasSubstr("expected 3 labels"));
  EXPECT_THAT(ErrorOf(ParseIdxPair(Images(2, 2, 2), "i", Labels({1, 10}), "l", 10).status()),
              HasSubstr("label of sample 1: expected below 10 classes, found 10"));
  EXPECT_THAT(ErrorOf(ParseIdxPair(Images(0, 2, 2), "i", Labels({}), "l", 10).status()), HasSubstr("expected images"));
}

TEST(Unpack, StopsAtItsLimit) {
  const std::string bomb = Gzipped(std::string(4 << 20, '\0'));
  EXPECT_THAT(ErrorOf(Unpack(bomb, 1 << 20).status()), HasSubstr("at most"));
}

}  // namespace
}  // namespace colonnade::data
