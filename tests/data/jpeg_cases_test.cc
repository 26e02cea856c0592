// Image files as they are found: cut, damaged, of another kind, of rare kinds, or made to cost memory and time. Each ends
// with an image or with InvalidArgument, within a second.

#include <png.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "data/decode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocations.h"
#include "tests/data/image_files.h"
#include "tests/data/whole_file.h"
#include "tests/paths.h"
#include "tests/sanitized.h"

namespace colonnade::data {
namespace {

using ::testing::HasSubstr;

constexpr double kMostSeconds = kSanitized ? 10 : 1;
constexpr int kFlips = Draws(1000);
constexpr size_t kMostAllocated = size_t{64} << 20;
constexpr int64_t kMostGrown = int64_t{512} << 20;  // libjpeg's own memory, too

// The most memory that the process has had since this was made, beside what it had then; 0 where that cannot be said.
class PeakMemory {
 public:
  PeakMemory() : is_counted_(!kSanitized && (std::ofstream("/proc/self/clear_refs") << 5 << std::flush)), before_(Peak()) {}
  int64_t grown() const { return is_counted_ ? Peak() - before_ : 0; }

 private:
  static int64_t Peak() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (absl::StartsWith(line, "VmHWM:")) return int64_t{1024} * std::atoll(line.c_str() + 6);
    }
    return 0;
  }

  bool is_counted_;
  int64_t before_;
};

// Decoded as a whole and in part, with time and memory checked, and with errors of no other kind.
absl::Status Outcome(const std::string& file) {
  absl::Status whole, part;
  const PeakMemory memory;
  const auto begin = std::chrono::steady_clock::now();
  const size_t largest = LargestAllocationIn([&] {
    whole = DecodeImage(file, 3).status();
    part = DecodeBox(file, 1, {0, 0, 1, 1}, 1, 1).status();
  });
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), kMostSeconds);
  EXPECT_LT(largest, kMostAllocated);
  EXPECT_LT(memory.grown(), kMostGrown);
  for (const absl::Status& status : {whole, part, ReadImageHeader(file).status()}) {
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
  }
  return whole;
}

void ExpectRefused(const std::string& file, const std::string& message) {
  const absl::Status status = Outcome(file);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

std::string Photograph(bool progressive) { return JpegOf(Pattern(120, 160, 3), {.progressive = progressive}); }

// `bytes` with two of them changed, from `at` on.
std::string With(std::string bytes, size_t at, int high, int low) {
  bytes[at] = static_cast<char>(high);
  bytes[at + 1] = static_cast<char>(low);
  return bytes;
}

// Where a marker's two bytes are followed by its contents.
size_t Behind(const std::string& file, unsigned char marker) { return file.find({'\xff', static_cast<char>(marker)}) + 2; }

TEST(ImageCases, AJpegThatIsCutAnywhereIsAnError) {
  for (bool progressive : {false, true}) {
    const std::string file = Photograph(progressive);
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(Outcome(file.substr(0, file.size() * i / 64)).code(), absl::StatusCode::kInvalidArgument) << i << "/64";
    }
    ExpectRefused(file.substr(0, file.size() - 1), "expected a whole JPEG, found: Premature end of JPEG file");
  }
}

TEST(ImageCases, OtherDataBehindThePixelsOfAJpegAreAnError) {
  std::string file = Photograph(false);
  file.insert(file.size() - 2, 20, 'x');
  ExpectRefused(file, "extraneous bytes before marker 0xd9");
}

TEST(ImageCases, APngThatIsCutAnywhereIsAnError) {
  const std::string file = PngOf(Pattern(120, 160, 3));
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(Outcome(file.substr(0, file.size() * i / 64)).code(), absl::StatusCode::kInvalidArgument) << i << "/64";
  }
  ExpectRefused(file.substr(0, file.size() - 1), "expected a whole PNG, found: data that end early");
}

TEST(ImageCases, FlippedBitsNeverHarm) {
  std::mt19937 random(3);
  const std::string interlaced =
      PngOf(30, 40, Pattern(30, 40, 3).pixels, {.color_type = PNG_COLOR_TYPE_RGB, .interlaced = true});
  for (const std::string& file : {Photograph(false), Photograph(true), PngOf(Pattern(30, 40, 3)), interlaced}) {
    for (int i = 0; i < kFlips; ++i) {
      std::string damaged = file;
      const size_t bit = random() % (file.size() * 8);
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      (void)Outcome(damaged);
    }
  }
}

TEST(ImageCases, WhatIsNoImageIsNamed) {
  ExpectRefused("", "expected JPEG or PNG, found nothing: 0 bytes");
  ExpectRefused("GIF89a\1\0\1\0", "found GIF");
  ExpectRefused("<html><body>404 Not Found</body></html>\n", "found text");
  ExpectRefused(std::string("RIFF\x10\0\0\0WEBPVP8 ", 16), "found RIFF or WebP");
  ExpectRefused(std::string("\0\1\2\3\4", 5), "found bytes 00 01 02 03");
  ExpectRefused("\xff\xd8\xff", "expected a whole JPEG");
  ExpectRefused("\x89PNG\r\n\x1a\n", "expected a whole PNG");
}

TEST(ImageCases, APngUnderTheNameOfAJpegIsAnImage) {
  EXPECT_EQ(Outcome(PngOf(Pattern(3, 4, 3))), absl::OkStatus());  // names are not looked at
}

TEST(ImageCases, RareKindsAreImages) {
  EXPECT_EQ(Outcome(JpegOf(Pattern(40, 50, 4))), absl::OkStatus());
  EXPECT_EQ(Outcome(JpegOf(Pattern(40, 50, 4), {.ycck = true})), absl::OkStatus());
  EXPECT_EQ(Outcome(JpegOf(Pattern(1, 1, 3))), absl::OkStatus());
  EXPECT_EQ(Outcome(JpegOf(Pattern(40, 50, 3), {.arithmetic = true})), absl::OkStatus());
  EXPECT_EQ(Outcome(JpegOf(Pattern(40, 50, 3), {.progressive = true, .arithmetic = true})), absl::OkStatus());
}

// Exif with one entry: orientation 6, to be turned by 90 degrees to the right.
std::string ExifOfATurn() {
  const std::string tiff("MM\0*\0\0\0\x8\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0", 26);
  const std::string contents = std::string("Exif\0\0", 6) + tiff;
  return std::string("\xff\xe1\0", 3) + static_cast<char>(contents.size() + 2) + contents;
}

TEST(ImageCases, AFileThatExifTurnsReadsAsItIsStored) {
  const std::string file = Photograph(false), turned = file.substr(0, 2) + ExifOfATurn() + file.substr(2);
  EXPECT_EQ(Outcome(turned), absl::OkStatus());
  const Image image = *DecodeImage(turned, 3);
  EXPECT_EQ(std::pair(image.height, image.width), std::pair(int64_t{120}, int64_t{160}));
  EXPECT_EQ(image.pixels, DecodeImage(file, 3)->pixels);
  const std::string page = *ReadWholeFile(absl::StrCat(kSourceDir, "/docs/data.md"));
  EXPECT_THAT(absl::StrReplaceAll(page, {{"\n", " "}}), HasSubstr("EXIF's orientation is not applied"));
}

TEST(ImageCases, TwoComponentsAreNoColours) {
  std::string file = JpegOf(Pattern(16, 16, 3), {.sampling = {{1, 1}, {1, 1}, {1, 1}}});
  // Both headers, of the frame and of its scan, without their third component.
  for (const auto& [marker, count_at, each] : {std::tuple{0xc0, 7, 3}, {0xda, 2, 2}}) {
    const size_t at = Behind(file, static_cast<unsigned char>(marker));
    file[at + 1] = static_cast<char>(file[at + 1] - each);
    file[at + count_at] = 2;
    file.erase(at + count_at + 1 + 2 * each, each);
  }
  ExpectRefused(file, "expected 1, 3 or 4 components of a JPEG, found 2");
}

TEST(ImageCases, AHeaderThatClaimsTooManyPixelsIsRefused) {
  const std::string file = Photograph(false);
  const size_t height_at = Behind(file, 0xc0) + 3;
  const std::string large = With(With(file, height_at, 0xff, 0xdc), height_at + 2, 0xff, 0xdc);
  ExpectRefused(large, "expected an image of 1 to 178000000 pixels, at most 65535 to a side, found 65500 x 65500");
}

TEST(ImageCases, AHeaderThatClaimsMoreThanTheFileCanHoldAllocatesNothing) {
  const std::string file = Photograph(false);
  const size_t height_at = Behind(file, 0xc0) + 3;
  const std::string large = With(With(file, height_at, 0x30, 0), height_at + 2, 0x30, 0);
  ExpectRefused(large, "bytes for 12288 x 12288 pixels");
}

TEST(ImageCases, APngThatClaimsMoreThanTheFileCanHoldAllocatesNothing) {
  std::string file = PngOf(13000, 13000, std::vector<uint8_t>(size_t{13000} * 13000 / 8), {.bits = 1, .color_type = 0});
  file.resize(200);
  ExpectRefused(file, "found 200 bytes for 13000 x 13000 pixels");
}

// A progressive image whose first scan comes `count` times.
std::string OfScans(const Image& image, int count) {
  const std::string file = JpegOf(image, {.progressive = true});
  // The first scan has the upper bits of the constant parts; without an approximation it may come again.
  const size_t scan = Behind(file, 0xda) - 2, next = file.find("\xff\xc4", scan + 2);
  EXPECT_NE(next, std::string::npos);
  std::string once = file.substr(scan, next - scan);
  once[9] = 0;  // all bits at once
  std::string many = file.substr(0, scan);
  for (int i = 0; i < count; ++i) many += once;
  return many + "\xff\xd9";
}

TEST(ImageCases, AProgressiveJpegOfTenThousandScansIsRefusedInTime) {
  ExpectRefused(OfScans(Pattern(64, 64, 1), 10000), "expected a whole JPEG, found: more than 500 scans");
}

// Each scan of one component visits all of an image, a million blocks of this one: 34 make more than 32 Mi.
TEST(ImageCases, OfALargeProgressiveJpegFewerScansAreRead) {
  const Image blank{.height = 8000, .width = 8000, .channels = 1, .pixels = std::vector<uint8_t>(size_t{8000} * 8000, 128)};
  EXPECT_EQ(DecodeImage(OfScans(blank, 33), 1).status(), absl::OkStatus());
  EXPECT_THAT(std::string(DecodeImage(OfScans(blank, 34), 1).status().message()),
              HasSubstr("or 33554432 blocks in 34 scans"));
}

TEST(ImageCases, AJpegWhoseCoefficientsTakeTooMuchMemoryIsRefused) {
  // 13,000 x 13,000 pixels of three components at full size: 1 GB of coefficients.
  std::string file = JpegOf(Pattern(16, 16, 3), {.sampling = {{1, 1}, {1, 1}, {1, 1}}, .progressive = true});
  const size_t height_at = Behind(file, 0xc2) + 3;
  file = With(With(file, height_at, 0x32, 0xc8), height_at + 2, 0x32, 0xc8);
  file.resize(size_t{2} << 20);
  ExpectRefused(file, "expected an image that is decoded in at most 536870912 bytes, found one that needs ");
}

}  // namespace
}  // namespace colonnade::data
