#include "data/decode.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "data/jpeg.h"
#include "data/jpeg_index.h"
#include "data/part.h"
#include "data/png.h"

namespace colonnade::data {
namespace {

constexpr absl::string_view kJpegStart = "\xff\xd8\xff", kPngStart = "\x89PNG\r\n\x1a\n";

bool IsText(absl::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](unsigned char c) { return absl::ascii_isprint(c) || absl::ascii_isspace(c); });
}

// What a file is that is neither of the two, as its first bytes tell.
std::string KindOf(absl::string_view file) {
  constexpr std::pair<absl::string_view, absl::string_view> kKinds[] = {{"GIF8", "GIF"},
                                                                        {"BM", "BMP"},
                                                                        {absl::string_view("II*\0", 4), "TIFF"},
                                                                        {absl::string_view("MM\0*", 4), "TIFF"},
                                                                        {"RIFF", "RIFF or WebP"},
                                                                        {"\x1f\x8b", "gzip"},
                                                                        {"PK\x03\x04", "zip"}};
  if (file.empty()) return "nothing: 0 bytes";
  for (const auto& [start, name] : kKinds) {
    if (absl::StartsWith(file, start)) return std::string(name);
  }
  const absl::string_view start = file.substr(0, 64);
  if (IsText(start)) return "text";
  std::string bytes = "bytes";
  for (unsigned char c : start.substr(0, 4)) absl::StrAppendFormat(&bytes, " %02x", c);
  return bytes;
}

absl::StatusOr<ImageFormat> FormatOf(absl::string_view file) {
  if (absl::StartsWith(file, kJpegStart)) return ImageFormat::kJpeg;
  if (absl::StartsWith(file, kPngStart)) return ImageFormat::kPng;
  return absl::InvalidArgumentError(absl::StrFormat("expected JPEG or PNG, found %s", KindOf(file)));
}

absl::StatusOr<Image> DecodePart(ImageFormat format, absl::string_view file, int64_t channels, int eighths, const Part& part,
                                 std::vector<uint8_t> room) {
  if (channels != 1 && channels != 3) {
    return absl::FailedPreconditionError(
        absl::StrFormat("channels: expected 1 or 3, as images have that are read or made up, found %d; other networks can "
                        "be planned and simulated",
                        channels));
  }
  return format == ImageFormat::kJpeg ? DecodeJpeg(file, channels, eighths, part, std::move(room))
                                      : DecodePng(file, channels, part, std::move(room));
}

// The smallest scale at which `box` is still as large as asked for, or the full one; of those for which libjpeg-turbo has
// vector code: 3/8 takes longer than 4/8, and 5/8 to 7/8 take longer than the full scale.
int ScaleFor(const Box& box, int64_t height, int64_t width) {
  int eighths = 1;
  while (eighths < kEighths && (box.height * eighths < static_cast<double>(height * kEighths) ||
                                box.width * eighths < static_cast<double>(width * kEighths))) {
    eighths *= 2;
  }
  return eighths;
}

// The cut that DecodeJpeg can decode `part` of at that scale: with a pixel around it, of which the chroma may differ.
std::optional<JpegIndex::Cut> CutAround(const Part& part, int eighths, absl::string_view file, const JpegIndex& index) {
  constexpr int64_t kMargin = 1;
  const int64_t grown = kEighths / eighths;
  return index.CutOut(file, {(part.top - kMargin) * grown, (part.left - kMargin) * grown, (part.bottom + kMargin) * grown,
                             (part.right + kMargin) * grown});
}

Part PartOfCut(const Part& part, int eighths, const JpegIndex::Cut& cut) {
  const int64_t top = cut.top * eighths / kEighths, left = cut.left * eighths / kEighths;
  return {part.top - top, part.left - left, part.bottom - top, part.right - left};
}

// The pixels that `box` touches, and one more on each side.
Part Around(const Box& box) {
  return {static_cast<int64_t>(std::floor(box.top)) - 1, static_cast<int64_t>(std::floor(box.left)) - 1,
          static_cast<int64_t>(std::ceil(box.top + box.height)) + 1,
          static_cast<int64_t>(std::ceil(box.left + box.width)) + 1};
}

}  // namespace

absl::StatusOr<ImageHeader> ReadImageHeader(absl::string_view file) {
  ASSIGN_OR_RETURN(const ImageFormat format, FormatOf(file));
  return format == ImageFormat::kJpeg ? ReadJpegHeader(file) : ReadPngHeader(file);
}

absl::StatusOr<Image> DecodeImage(absl::string_view file, int64_t channels, std::vector<uint8_t> room) {
  ASSIGN_OR_RETURN(const ImageFormat format, FormatOf(file));
  return DecodePart(format, file, channels, kEighths, Part(), std::move(room));
}

absl::StatusOr<DecodedBox> DecodeBox(absl::string_view file, int64_t channels, const Box& box, int64_t height, int64_t width,
                                     std::vector<uint8_t> room, const JpegIndex* index) {
  ASSIGN_OR_RETURN(const ImageFormat format, FormatOf(file));
  const int eighths = format == ImageFormat::kJpeg ? ScaleFor(box, height, width) : kEighths;
  const double scale = static_cast<double>(eighths) / kEighths;
  DecodedBox decoded{.box = {box.top * scale, box.left * scale, box.height * scale, box.width * scale}};
  const Part part = Around(decoded.box);
  std::optional<JpegIndex::Cut> cut;
  if (index != nullptr) cut = CutAround(part, eighths, file, *index);
  decoded.by_index = cut.has_value();
  const Part placed = cut ? PartOfCut(part, eighths, *cut) : part;
  ASSIGN_OR_RETURN(decoded.image, DecodePart(format, cut ? cut->jpeg : file, channels, eighths, placed, std::move(room)));
  decoded.box.top -= static_cast<double>(std::max<int64_t>(part.top, 0));
  decoded.box.left -= static_cast<double>(std::max<int64_t>(part.left, 0));
  return decoded;
}

}  // namespace colonnade::data
