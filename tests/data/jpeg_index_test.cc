// Parts of JPEGs by an index: the pixels are those that decoding without one gives.

#include "data/jpeg_index.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/decode.h"
#include "data/jpeg_bits.h"
#include "data/jpeg_layout.h"
#include "gtest/gtest.h"
#include "tests/data/image_files.h"
#include "tests/data/whole_file.h"
#include "tests/sanitized.h"
#include "tests/shared_data.h"

namespace colonnade::data {
namespace {

JpegLook BaselineLook(std::mt19937& random, int64_t channels) {
  constexpr std::pair<int, int> kSamplings[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}};
  JpegLook look = {.quality = Drawn(random, 30, 100), .optimised = Drawn(random, 0, 3) == 0};
  if (channels == 1 && Drawn(random, 0, 1) == 0) look.sampling = {{2, 2}};
  if (channels == 3) look.sampling = {kSamplings[Drawn(random, 0, 7)], {1, 1}, {1, 1}};
  if (channels == 3 && Drawn(random, 0, 7) == 0) look.sampling = {{2, 2}, {2, 1}, {1, 2}};
  if (channels == 3 && Drawn(random, 0, 15) == 0) look.rgb_file = true;
  return look;
}

// Whether the index was of use.
bool ExpectTheSame(const std::string& file, int64_t channels, const Box& box, int64_t height, int64_t width,
                   const JpegIndex& index) {
  const absl::StatusOr<DecodedBox> without = DecodeBox(file, channels, box, height, width);
  const absl::StatusOr<DecodedBox> by_index = DecodeBox(file, channels, box, height, width, {}, &index);
  EXPECT_TRUE(without.ok() && by_index.ok()) << without.status() << by_index.status();
  if (!without.ok() || !by_index.ok()) return false;
  EXPECT_FALSE(without->by_index);
  EXPECT_EQ(by_index->box, without->box);
  EXPECT_EQ(by_index->image.height, without->image.height);
  EXPECT_EQ(by_index->image.width, without->image.width);
  EXPECT_TRUE(by_index->image.pixels == without->image.pixels);
  return by_index->by_index;
}

TEST(JpegIndex, PartsHaveThePixelsThatTheyHaveWithoutIt) {
  std::mt19937 random(11);
  int cuts = 0;
  for (int i = 0; i < Draws(2000) && !HasFailure(); ++i) {
    const int64_t stored = Drawn(random, 0, 3) == 0 ? 1 : 3, channels = Drawn(random, 0, 3) == 0 ? 1 : 3;
    const int64_t height = Drawn(random, 1, 200), width = Drawn(random, 1, 300);
    const JpegLook look = BaselineLook(random, stored);
    const std::string file = JpegOf(Pattern(height, width, stored, i), look);
    const std::optional<JpegIndex> index = JpegIndex::Of(file);
    ASSERT_TRUE(index) << i;
    const Box box = DrawnBox(random, height, width);
    cuts += ExpectTheSame(file, channels, box, Drawn(random, 1, 64), Drawn(random, 1, 64), *index);
    if (HasFailure()) {
      std::string sampling;
      for (auto [across, down] : look.sampling) sampling += absl::StrCat(across, "x", down, " ");
      ADD_FAILURE() << i << ": " << height << " x " << width << " x " << stored << ", " << sampling << "optimised "
                    << look.optimised << ", box " << box.top << " " << box.left << " " << box.height << " " << box.width;
    }
  }
  EXPECT_GT(cuts, Draws(2000) / 2);
}

// Black and white in turn: differences of brightness as large as they become.
TEST(JpegIndex, TheBrightestBehindTheDarkestIsToldAsItIs) {
  Image image{.height = 64, .width = 160, .channels = 1, .pixels = std::vector<uint8_t>(64 * 160)};
  std::mt19937 random(5);
  for (int64_t block = 0; block < 8 * 20; ++block) {
    const uint8_t value = Drawn(random, 0, 1) == 0 ? 0 : 255;
    for (int64_t y = 0; y < 8; ++y)
      std::fill_n(image.pixels.begin() + (block / 20 * 8 + y) * 160 + block % 20 * 8, 8, value);
  }
  const std::string file = JpegOf(image, {.quality = 100});
  const std::optional<JpegIndex> index = JpegIndex::Of(file);
  ASSERT_TRUE(index);
  int cuts = 0;
  for (int i = 0; i < 200; ++i) cuts += ExpectTheSame(file, 1, DrawnBox(random, 64, 160), 64, 160, *index);
  EXPECT_GT(cuts, 100);
}

// Of one column of MCUs that the image ends in, chroma would not be interpolated.
TEST(JpegIndex, ANarrowPartAtTheRightEdgeHasThePixelsThatItHasWithoutIt) {
  const auto expect = [](std::pair<int, int> sampling, int64_t image_width, const Box& box, int64_t width) {
    const std::string file = JpegOf(Pattern(64, image_width, 3), {.sampling = {sampling, {1, 1}, {1, 1}}});
    EXPECT_TRUE(ExpectTheSame(file, 3, box, 1, width, *JpegIndex::Of(file))) << image_width;
  };
  expect({2, 2}, 100, {0, 99, 64, 1}, 1);
  expect({2, 1}, 104, {0, 102, 64, 2}, 1);
  expect({2, 1}, 112, {0, 108, 64, 4}, 1);
}

TEST(JpegIndex, ACutIsOfTheMcusAroundAPart) {
  const std::string file = JpegOf(Pattern(200, 300, 3), {.sampling = {{2, 2}, {1, 1}, {1, 1}}});  // 13 x 19 MCUs
  const std::optional<JpegIndex> index = JpegIndex::Of(file);
  const auto extents = [&](const Part& part) {
    const std::optional<JpegIndex::Cut> cut = index->CutOut(file, part);
    if (!cut) return std::vector<int64_t>();
    const ImageHeader header = *ReadImageHeader(cut->jpeg);
    return std::vector<int64_t>{cut->top, cut->left, header.height, header.width};
  };
  EXPECT_EQ(extents({100, 100, 101, 101}), (std::vector<int64_t>{96, 96, 16, 48}));  // column 6 of every third
  EXPECT_EQ(extents({95, 95, 112, 96}), (std::vector<int64_t>{80, 48, 32, 48}));
  EXPECT_EQ(extents({95, 95, 113, 97}), (std::vector<int64_t>{80, 48, 48, 96}));
  EXPECT_EQ(extents({-2, -2, 3, 3}), (std::vector<int64_t>{0, 0, 16, 48}));
  EXPECT_EQ(extents({199, 299, 203, 303}), (std::vector<int64_t>{192, 240, 8, 60}));  // at the image's edge a stride more
  // Of the first row all but three of 19 MCUs (0.84), and all of them.
  EXPECT_EQ(extents({0, 48, 1, 300}), (std::vector<int64_t>{0, 48, 16, 252}));
  EXPECT_EQ(extents({0, 0, 1, 300}), std::vector<int64_t>());
  EXPECT_EQ(extents({0, 0, 200, 300}), std::vector<int64_t>());
}

TEST(JpegIndex, IsOfOneFileAlone) {
  const std::string file = JpegOf(Pattern(200, 300, 3)), other = JpegOf(Pattern(200, 300, 3, 2));
  const std::optional<JpegIndex> index = JpegIndex::Of(file);
  EXPECT_TRUE(index->CutOut(file, {100, 100, 120, 120}));
  EXPECT_FALSE(index->CutOut(other, {100, 100, 120, 120}));
  ExpectTheSame(other, 3, {100, 100, 20, 20}, 20, 20, *index);
}

TEST(JpegIndex, TakesLittleMemory) {
  const std::string file = JpegOf(Pattern(500, 667, 3), {.sampling = {{2, 2}, {1, 1}, {1, 1}}});
  EXPECT_LT(JpegIndex::Of(file)->bytes(), 32 * 14 * 8 + 100);  // rows of MCUs, and a third of their columns
}

TEST(JpegIndex, OfOtherKindsThereIsNone) {
  const Image image = Pattern(40, 50, 3);
  EXPECT_TRUE(JpegIndex::Of(JpegOf(image)));
  EXPECT_FALSE(JpegIndex::Of(JpegOf(image, {.progressive = true})));
  EXPECT_FALSE(JpegIndex::Of(JpegOf(image, {.arithmetic = true})));
  EXPECT_FALSE(JpegIndex::Of(JpegOf(image, {.restart_rows = 1})));
  EXPECT_FALSE(JpegIndex::Of(JpegOf(Pattern(40, 50, 4))));
  EXPECT_FALSE(JpegIndex::Of(PngOf(image)));
  EXPECT_FALSE(JpegIndex::Of(""));
}

// `file` with the bytes at `offset` behind the two of its first `marker` set to others.
std::string With(std::string file, unsigned char marker, size_t offset, const std::string& bytes) {
  return file.replace(file.find({'\xff', static_cast<char>(marker)}) + 2 + offset, bytes.size(), bytes);
}

// `file` with a segment of these contents behind its first two bytes.
std::string Behind(const std::string& file, unsigned char marker, const std::string& contents) {
  const size_t length = contents.size() + 2;
  return file.substr(0, 2) + '\xff' + static_cast<char>(marker) + static_cast<char>(length >> 8) +
         static_cast<char>(length) + contents + file.substr(2);
}

TEST(JpegIndex, OfMarkersThatSayMoreThereIsNone) {
  const std::string file = JpegOf(Pattern(40, 50, 3));
  EXPECT_FALSE(JpegIndex::Of(With(file, 0xc0, 2, "\x0c")));                // 12 bits
  EXPECT_FALSE(JpegIndex::Of(With(file, 0xda, 9, std::string(2, '\0'))));  // of the first value alone
  EXPECT_TRUE(JpegIndex::Of(Behind(file, 0xdd, std::string("\0\0", 2))));
  EXPECT_FALSE(JpegIndex::Of(Behind(file, 0xdd, "\x7f\xff")));                // restarts, which do not come in so few MCUs
  EXPECT_FALSE(JpegIndex::Of(Behind(file, 0xdc, std::string("\0\x28", 2))));  // the number of lines
  const size_t frame = file.find("\xff\xc0");
  EXPECT_FALSE(JpegIndex::Of(file.substr(0, frame) + file.substr(frame, 19) + file.substr(frame)));
}

TEST(JpegIndex, WhatApplicationsWroteIsLeftOut) {
  const std::string file = JpegOf(Pattern(200, 300, 3));
  const std::string more = Behind(Behind(file, 0xe1, std::string(60000, 'x')), 0xfe, std::string(60000, 'y'));
  const Part part = {100, 100, 120, 120};
  EXPECT_EQ(JpegIndex::Of(more)->CutOut(more, part)->jpeg, JpegIndex::Of(file)->CutOut(file, part)->jpeg);
  EXPECT_FALSE(JpegIndex::Of(Behind(Behind(file, 0xe0, std::string(33000, 'x')), 0xe0, std::string(33000, 'y'))));
}

// RGB as it is, which Adobe's marker alone says where components have the names of YCbCr's.
TEST(JpegIndex, AdobesMarkerIsKept) {
  std::string file = JpegOf(Pattern(200, 300, 3), {.adobe = true, .rgb_file = true});
  for (int i = 0; i < 3; ++i) {
    file = With(With(file, 0xc0, 8 + 3 * i, std::string(1, static_cast<char>(i + 1))), 0xda, 3 + 2 * i,
                std::string(1, static_cast<char>(i + 1)));
  }
  ASSERT_EQ(DecodeImage(file, 3)->pixels, DecodeImage(JpegOf(Pattern(200, 300, 3), {.rgb_file = true}), 3)->pixels);
  EXPECT_TRUE(ExpectTheSame(file, 3, {100, 100, 20, 20}, 20, 20, *JpegIndex::Of(file)));
}

// Grey blocks side by side, whose codes a test writes.
class CodedBlocks {
 public:
  explicit CodedBlocks(int64_t blocks)
      : file_(JpegOf(Uniform(8, 8 * blocks, {128}))), layout_(*ReadJpegLayout(file_)), writer_(scan_) {}

  CodedBlocks& Dc(int bits, int value) { return Put(layout_.dc[0], static_cast<uint8_t>(bits)).Bits(bits, value); }
  CodedBlocks& Ac(int zeros, int bits, int value) {
    return Put(layout_.ac[0], static_cast<uint8_t>(zeros << 4 | bits)).Bits(bits, value);
  }
  CodedBlocks& EndOfBlock() { return Ac(0, 0, 0); }
  std::string Jpeg() {
    writer_.Finish();
    return layout_.header + scan_ + "\xff\xd9";
  }

 private:
  CodedBlocks& Put(const JpegHuffmanTable& table, uint8_t symbol) {
    return Bits(table.CodeOf(symbol).length, table.CodeOf(symbol).bits);
  }
  CodedBlocks& Bits(int count, int bits) {
    writer_.Reserve(count);
    if (count > 0) writer_.Put(static_cast<uint64_t>(bits), count);
    return *this;
  }

  std::string file_, scan_;
  JpegLayout layout_;
  JpegBitWriter writer_;
};

TEST(JpegIndex, ADcBeyondThoseOfEightBitsHasNone) {
  const auto last = [](int bits, int value) {
    const int first = value >> (bits - 1) != 0 ? 1024 : 1023;  // of 11 bits: 1024 or -1024
    return CodedBlocks(2).Dc(11, first).EndOfBlock().Dc(bits, value).EndOfBlock().Jpeg();
  };
  EXPECT_TRUE(JpegIndex::Of(last(10, 1023)));  // 1024 + 1023
  EXPECT_FALSE(JpegIndex::Of(last(11, 1024)));
  EXPECT_TRUE(JpegIndex::Of(last(10, 0)));  // -1024 - 1023
  EXPECT_FALSE(JpegIndex::Of(last(11, 1023)));
}

TEST(JpegIndex, ABlockEndsWithItsLastValue) {
  const auto block = [](int runs_of_16, int zeros) {
    CodedBlocks blocks(2);
    blocks.Dc(3, 5);
    for (int i = 0; i < runs_of_16; ++i) blocks.Ac(15, 0, 0);
    return blocks.Ac(zeros, 1, 1).Dc(2, 3).EndOfBlock().Jpeg();
  };
  EXPECT_TRUE(JpegIndex::Of(block(3, 14)));  // 48 zeros, 14 and a value
  EXPECT_FALSE(JpegIndex::Of(block(3, 15)));
  EXPECT_FALSE(JpegIndex::Of(block(4, 0)));
  EXPECT_FALSE(JpegIndex::Of(block(3, 13)));  // a value is missing, so that the next code is taken for it
  EXPECT_TRUE(DecodeImage(block(3, 14), 1).ok());
}

TEST(JpegHuffmanTable, OfMoreCodesThanTheirBitsCanTellThereIsNone) {
  std::string counts(16, '\0'), symbols("\0\1\2\3", 4);
  JpegHuffmanTable table;
  counts[0] = 2;
  EXPECT_TRUE(table.Set(counts, symbols.substr(0, 2)));
  EXPECT_EQ(table.CodeOf(1).bits, 1);
  counts[0] = 3;
  EXPECT_FALSE(table.Set(counts, symbols.substr(0, 3)));
  counts[0] = 1, counts[1] = 3;
  EXPECT_FALSE(table.Set(counts, symbols));
  counts[1] = 0, counts[15] = 3;
  EXPECT_TRUE(table.Set(counts, symbols));
  EXPECT_EQ(table.CodeOf(3).length, 16);
  EXPECT_EQ(table.First(0x8002'0000u).symbol, 3);
  EXPECT_EQ(table.First(0x8003'0000u).length, 0);
  EXPECT_EQ(table.CodeOf(4).length, 0);
}

// From grey to white, so slowly that no code of the file tells white behind nothing.
TEST(JpegIndex, WithoutACodeForADifferenceThereIsNoCut) {
  Image image{.height = 160, .width = 800, .channels = 1, .pixels = std::vector<uint8_t>(160 * 800)};
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(128 + i / 800 * 127 / 159);
  const std::string file = JpegOf(image, {.quality = 100, .optimised = true});
  const std::optional<JpegIndex> index = JpegIndex::Of(file);
  ASSERT_TRUE(index);
  EXPECT_FALSE(index->CutOut(file, {150, 300, 160, 320}));
  EXPECT_FALSE(ExpectTheSame(file, 1, {150, 300, 10, 20}, 10, 20, *index));
}

TEST(JpegIndex, OfADamagedFileThereIsNone) {
  const std::string file = JpegOf(Pattern(120, 160, 3));
  for (size_t i = 0; i < 256; ++i) EXPECT_FALSE(JpegIndex::Of(file.substr(0, file.size() * i / 256))) << i;
  EXPECT_FALSE(JpegIndex::Of(file.substr(0, file.size() - 1)));
  std::string with_more = file;
  with_more.insert(file.size() - 2, "xy");
  EXPECT_FALSE(JpegIndex::Of(with_more));
  EXPECT_TRUE(JpegIndex::Of(file + "xy"));  // behind the image
}

// What has an index decodes by it as without it, or not at all.
TEST(JpegIndex, FlippedBitsChangeNothingOfThat) {
  std::mt19937 random(3);
  int indexed = 0, cuts = 0;
  for (int i = 0; i < Draws(4000) && !HasFailure(); ++i) {
    std::string file = JpegOf(Pattern(60, 90, 3), {.quality = 50, .optimised = i % 2 == 0});
    const size_t bit = random() % (file.size() * 8);
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << bit % 8));
    const std::optional<JpegIndex> index = JpegIndex::Of(file);
    if (!index) continue;
    const absl::StatusOr<ImageHeader> header = ReadImageHeader(file);
    if (!header.ok()) continue;
    ++indexed;
    const Box box = DrawnBox(random, header->height, header->width);
    const int64_t side = Drawn(random, 1, 64);
    const absl::StatusOr<DecodedBox> without = DecodeBox(file, 3, box, side, side);
    const absl::StatusOr<DecodedBox> by_index = DecodeBox(file, 3, box, side, side, {}, &*index);
    ASSERT_EQ(by_index.status(), without.status()) << i << " bit " << bit;
    if (!without.ok()) continue;
    cuts += by_index->by_index;
    EXPECT_TRUE(by_index->image.pixels == without->image.pixels) << i << " bit " << bit;
  }
  EXPECT_GT(indexed, Draws(4000) / 4);
  EXPECT_GT(cuts, indexed / 4);
}

TEST(JpegIndex, PhotographsHaveOneAndThePixelsThatTheyHaveWithoutIt) {
  SKIP_WITHOUT_SHARED_DATA("imagenet-samples");
  std::mt19937 random(13);
  int indexed = 0, files = 0, cuts = 0;
  for (const std::string& file : FilesOfTar(*ReadWholeFile(SharedData("imagenet-samples/imagenet-samples.tar")))) {
    const ImageHeader header = *ReadImageHeader(file);
    const std::optional<JpegIndex> index = JpegIndex::Of(file);
    ++files;
    if (!index) continue;
    ++indexed;
    for (int i = 0; i < 4; ++i) {
      cuts += ExpectTheSame(file, 3, DrawnBox(random, header.height, header.width), 224, 224, *index);
    }
  }
  EXPECT_GT(indexed, files * 9 / 10);
  EXPECT_GT(cuts, 2 * indexed);
}

}  // namespace
}  // namespace colonnade::data
