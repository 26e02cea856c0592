// Whole images: equal to libjpeg-turbo's own program, of all the kinds that there are.

#include "data/decode.h"

#include <png.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/image_files.h"
#include "tests/data/whole_file.h"
#include "tests/folder.h"
#include "tests/shared_data.h"

namespace colonnade::data {
namespace {

using ::testing::ElementsAre;

Image Decoded(const std::string& file, int64_t channels) {
  absl::StatusOr<Image> image = DecodeImage(file, channels);
  EXPECT_TRUE(image.ok()) << image.status();
  return image.ok() ? *image : Image();
}

std::vector<std::string> FilesOf(const std::string& name) {
  const absl::StatusOr<std::string> tar = ReadWholeFile(SharedData(std::string(name)));
  return tar.ok() ? FilesOfTar(*tar) : std::vector<std::string>();
}

// Files of all kinds that djpeg decodes to the same colours as training does.
std::vector<std::string> JpegsOfAllKinds() {
  std::vector<std::string> files;
  for (const auto& [height, width] : {std::pair{1, 1}, {8, 8}, {37, 53}, {64, 31}, {200, 150}}) {
    files.push_back(JpegOf(Pattern(height, width, 1)));
    for (const std::pair<int, int>& luma : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}}) {
      const Image image = Pattern(height, width, 3);
      const std::vector<std::pair<int, int>> sampling = {luma, {1, 1}, {1, 1}};
      files.push_back(JpegOf(image, {.quality = 60, .sampling = sampling}));
      files.push_back(JpegOf(image, {.sampling = sampling, .progressive = true}));
      files.push_back(JpegOf(image, {.sampling = sampling, .arithmetic = true}));
      files.push_back(JpegOf(image, {.sampling = sampling, .restart_rows = 1}));
    }
    files.push_back(JpegOf(Pattern(height, width, 3), {.rgb_file = true}));
  }
  return files;
}

class Djpeg : public Folder {
 protected:
  // What the program writes behind its header, with the header checked; nothing where it fails.
  std::string Pixels(const std::string& file, const std::string& flags, const std::string& header) const {
    std::ofstream(In("in.jpg"), std::ios::binary) << file;
    const std::string command = "djpeg " + flags + " -outfile " + In("out.pnm") + " " + In("in.jpg");
    if (std::system(command.c_str()) != 0) return "djpeg failed";
    const std::string out = *ReadWholeFile(In("out.pnm"));
    EXPECT_EQ(out.substr(0, header.size()), header);
    return out.substr(header.size());
  }

  void ExpectSame(const std::string& file, int64_t channels) const {
    const Image image = Decoded(file, channels);
    const std::string header = absl::StrFormat("P%d\n%d %d\n255\n", channels == 1 ? 5 : 6, image.width, image.height);
    const std::string pixels = Pixels(file, channels == 1 ? "-grayscale" : "-rgb", header);
    EXPECT_EQ(std::string(image.pixels.begin(), image.pixels.end()) == pixels, true)
        << image.height << " x " << image.width << " x " << channels;
  }

  void SetUp() override {
    if (std::system("djpeg -version >/dev/null 2>&1") != 0) GTEST_SKIP() << "skipped: no djpeg here (libjpeg-turbo-progs)";
  }
};

TEST_F(Djpeg, DecodesFilesOfAllKindsTheSame) {
  for (const std::string& file : JpegsOfAllKinds()) {
    ExpectSame(file, 1);
    ExpectSame(file, 3);
  }
}

TEST_F(Djpeg, DecodesPhotographsTheSame) {
  const std::vector<std::string> files = FilesOf("imagenet-samples/imagenet-samples.tar");
  if (files.empty()) GTEST_SKIP() << "skipped: no shared data here";
  for (size_t i = 0; i < files.size(); i += 6) {
    ExpectSame(files[i], 1);
    ExpectSame(files[i], 3);
  }
}

// Of the pixels of all files as RGB: asserted numbers, so that a decoder that changes is seen where there is no djpeg.
TEST(DecodeImage, GivesThePixelsOfAllKindsThatItAlwaysGave) {
  uint64_t sum = ChecksumOf("");
  for (const std::string& file : JpegsOfAllKinds()) sum = ChecksumOf(Decoded(file, 3), sum);
  EXPECT_EQ(sum, 2979444311694219038u);
}

struct SharedSet {
  const char* file;
  size_t images, grey;
  uint64_t checksum;
};

void ExpectSet(const SharedSet& expected) {
  const std::vector<std::string> files = FilesOf(expected.file);
  if (files.empty()) GTEST_SKIP() << "skipped: no shared data here";
  EXPECT_EQ(files.size(), expected.images);
  size_t grey = 0;
  uint64_t sum = ChecksumOf("");
  for (const std::string& file : files) {
    const Image image = Decoded(file, 3);
    const ImageHeader header = *ReadImageHeader(file);
    EXPECT_EQ(std::pair(header.height, header.width), std::pair(image.height, image.width));
    grey += header.channels == 1 ? 1 : 0;
    sum = ChecksumOf(image, sum);
  }
  EXPECT_EQ(grey, expected.grey);
  EXPECT_EQ(sum, expected.checksum);
}

TEST(DecodeImage, GivesThePixelsOfImagenetsSamples) {
  ExpectSet({"imagenet-samples/imagenet-samples.tar", 146, 23, 11674390255653701052u});
}

TEST(DecodeImage, GivesThePixelsOfImagenettesSubset) {
  ExpectSet({"imagenette224-subset/imagenette224-subset.tar", 2500, 43, 1831924420737164169u});
}

TEST(DecodeImage, InkBecomesLightWithAndWithoutAdobesMarker) {
  // With the marker a byte is light: 201 of red under 128 of black are 100.9.
  const std::string light = JpegOf(Uniform(16, 16, {201, 100, 50, 128}), {.quality = 100});
  EXPECT_THAT(PartOf(Decoded(light, 3), 5, 5, 1, 1).pixels, ElementsAre(101, 50, 25));
  const std::string ink = JpegOf(Uniform(16, 16, {55, 155, 205, 127}), {.quality = 100, .adobe = false});
  EXPECT_THAT(PartOf(Decoded(ink, 3), 5, 5, 1, 1).pixels, ElementsAre(100, 50, 25));
  EXPECT_THAT(PartOf(Decoded(ink, 1), 5, 5, 1, 1).pixels, ElementsAre(62));  // 0.299 · 100 + 0.587 · 50 + 0.114 · 25
}

TEST(DecodeImage, YcckIsTakenForWhatItWasMadeOf) {
  const std::string file = JpegOf(Uniform(16, 16, {200, 100, 50, 255}), {.quality = 100, .ycck = true});
  const Image image = Decoded(file, 3);
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(image.pixels[c], (std::vector<int>{200, 100, 50})[c], 2);
  EXPECT_EQ(ReadImageHeader(file)->channels, 4);
}

TEST(DecodeImage, TakesOverMemoryOfAnImageBefore) {
  const Image image = Pattern(23, 17, 3);
  for (const std::string& file : {JpegOf(image), PngOf(image)}) {
    std::vector<uint8_t> room(5000, 255);
    const uint8_t* place = room.data();
    const Image decoded = *DecodeImage(file, 3, std::move(room));
    EXPECT_EQ(decoded.pixels.data(), place);
    EXPECT_EQ(decoded.pixels, Decoded(file, 3).pixels);
  }
}

TEST(DecodePng, GivesBackWhatWasWritten) {
  for (int64_t channels : {1, 3}) {
    const Image image = Pattern(23, 17, channels);
    EXPECT_EQ(Decoded(PngOf(image), channels).pixels, image.pixels);
  }
}

TEST(DecodePng, DropsAlphaAndMakesGreyOfColoursAndColoursOfGrey) {
  const Image with_alpha{1, 2, 4, {10, 20, 30, 0, 40, 50, 60, 255}}, grey_alpha{1, 2, 2, {7, 0, 9, 255}};
  EXPECT_THAT(Decoded(PngOf(with_alpha), 3).pixels, ElementsAre(10, 20, 30, 40, 50, 60));
  EXPECT_THAT(Decoded(PngOf(with_alpha), 1).pixels, ElementsAre(18, 48));
  EXPECT_THAT(Decoded(PngOf(grey_alpha), 3).pixels, ElementsAre(7, 7, 7, 9, 9, 9));
  EXPECT_EQ(ReadImageHeader(PngOf(with_alpha))->channels, 4);
  EXPECT_EQ(ReadImageHeader(PngOf(grey_alpha))->channels, 2);
}

TEST(DecodePng, ReadsSamplesOf1To16Bits) {
  const std::string bits = PngOf(1, 8, {0b10100001}, {.bits = 1, .color_type = PNG_COLOR_TYPE_GRAY});
  EXPECT_THAT(Decoded(bits, 1).pixels, ElementsAre(255, 0, 255, 0, 0, 0, 0, 255));
  const std::string wide = PngOf(1, 2, {0x12, 0x34, 0xff, 0xfe}, {.bits = 16, .color_type = PNG_COLOR_TYPE_GRAY});
  EXPECT_THAT(Decoded(wide, 1).pixels, ElementsAre(0x12, 0xff));
}

TEST(DecodePng, LooksColoursUpInThePalette) {
  const std::string file = PngOf(1, 3, {5, 0, 200}, {.color_type = PNG_COLOR_TYPE_PALETTE});
  EXPECT_THAT(Decoded(file, 3).pixels, ElementsAre(5, 250, 10, 0, 255, 0, 200, 55, 144));
  EXPECT_EQ(ReadImageHeader(file)->channels, 3);
}

TEST(DecodePng, InterlacedRowsAreTheSame) {
  const Image image = Pattern(29, 13, 3);
  const PngLook look = {.color_type = PNG_COLOR_TYPE_RGB, .interlaced = true};
  EXPECT_EQ(Decoded(PngOf(29, 13, image.pixels, look), 3).pixels, image.pixels);
}

}  // namespace
}  // namespace colonnade::data
