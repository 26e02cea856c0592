#include "data/jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

// It takes FILE and size_t to be known.
#include <jpeglib.h>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace colonnade::data {
namespace {

constexpr int64_t kBlockBytes = DCTSIZE2 * sizeof(JCOEF);

// Errors of the library, and its warnings, leave it by a jump: it cannot go on, and it knows no exceptions.
struct JpegErrors {
  jpeg_error_mgr manager = {};  // the first member: the library knows no more than its address
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = "";
};

JpegErrors* ErrorsOf(j_common_ptr info) { return reinterpret_cast<JpegErrors*>(info->err); }

[[noreturn]] void Leave(j_common_ptr info) {
  JpegErrors* errors = ErrorsOf(info);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->jump, 1);
}

void LeaveOnWarning(j_common_ptr info, int level) {
  if (level < 0) Leave(info);
}

// What the scans read so far have visited.
struct Visited {
  jpeg_progress_mgr manager{};  // first: the library hands it back
  int scan = 0;
  int64_t blocks = 0;
};

void CountBlocksOfScan(const jpeg_decompress_struct& info, Visited& visited) {
  if (info.input_scan_number == visited.scan) return;
  visited.scan = info.input_scan_number;
  for (int i = 0; i < info.comps_in_scan; ++i) {
    visited.blocks += int64_t{info.cur_comp_info[i]->width_in_blocks} * info.cur_comp_info[i]->height_in_blocks;
  }
}

void LimitScans(j_common_ptr common) {
  const auto& info = *reinterpret_cast<j_decompress_ptr>(common);
  auto& visited = *reinterpret_cast<Visited*>(common->progress);
  CountBlocksOfScan(info, visited);
  if (visited.scan <= kMostScans && visited.blocks <= kMostBlocksOfScans) return;
  JpegErrors* errors = ErrorsOf(common);
  std::snprintf(errors->message, sizeof(errors->message), "more than %d scans, or %lld blocks in %d scans", kMostScans,
                static_cast<long long>(kMostBlocksOfScans), visited.scan);
  std::longjmp(errors->jump, 1);
}

class JpegDecoder {
 public:
  JpegDecoder() {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = Leave;
    errors_.manager.emit_message = LeaveOnWarning;
    visited_.manager.progress_monitor = LimitScans;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Runs `steps` up to the first error. They own nothing that needs releasing, since the jump passes by destructors.
  template <typename Steps>
  absl::Status Run(const Steps& steps) {
    if (setjmp(errors_.jump) == 0) {
      steps(&info_);
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrFormat("expected a whole JPEG, found: %s", errors_.message));
  }

  absl::Status ReadHeader(absl::string_view file) {
    RETURN_IF_ERROR(Run([&](j_decompress_ptr info) {
      jpeg_create_decompress(info);
      info->progress = &visited_.manager;
      jpeg_mem_src(info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
      jpeg_read_header(info, TRUE);
    }));
    return CheckExtents(info_.image_height, info_.image_width);
  }

  const jpeg_decompress_struct& info() const { return info_; }

 private:
  jpeg_decompress_struct info_ = {};
  JpegErrors errors_;
  Visited visited_;
};

bool IsCmyk(const jpeg_decompress_struct& info) {
  return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
}

int64_t BlocksOf(const jpeg_decompress_struct& info) {
  int64_t blocks = 0;
  for (int i = 0; i < info.num_components; ++i) {
    blocks += int64_t{info.comp_info[i].width_in_blocks} * info.comp_info[i].height_in_blocks;
  }
  return blocks;
}

// A block takes a bit or more of Huffman's code, so that a header cannot ask for work that the file does not hold.
// Arithmetic code of one colour takes less, and is held to as much: nobody makes such files of that size.
absl::Status CheckBlocks(const jpeg_decompress_struct& info, size_t file_bytes) {
  const int64_t blocks = BlocksOf(info);
  if (blocks <= static_cast<int64_t>(file_bytes) * 8) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("expected a whole JPEG, found %d bytes for %d x %d pixels", file_bytes,
                                                    info.image_height, info.image_width));
}

absl::Status CheckColours(const jpeg_decompress_struct& info) {
  if (info.jpeg_color_space != JCS_UNKNOWN) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("expected 1, 3 or 4 components of a JPEG, found %d", info.num_components));
}

// The coefficients of all scans are kept until the last of them is read.
absl::Status CheckJpegMemory(JpegDecoder& decoder, const Part& part, int64_t channels) {
  bool all_scans = false;
  RETURN_IF_ERROR(decoder.Run([&](j_decompress_ptr info) { all_scans = jpeg_has_multiple_scans(info) != FALSE; }));
  const int64_t coefficients = all_scans ? BlocksOf(decoder.info()) * kBlockBytes : 0;
  return CheckMemory((part.bottom - part.top) * (part.right - part.left) * channels + coefficients);
}

void SetOutput(j_decompress_ptr info, int64_t channels, int eighths) {
  info->scale_num = static_cast<unsigned>(eighths);
  info->scale_denom = kEighths;
  info->out_color_space = IsCmyk(*info) ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  // It would guess at coefficients that no scan gives, from blocks that a part does not have.
  info->do_block_smoothing = FALSE;
  jpeg_calc_output_dimensions(info);
}

// Files of other samplings are rare, and columns of some of them (4 x 2) come out wrong: of these all columns are decoded.
bool HasUsualSampling(const jpeg_decompress_struct& info) {
  const jpeg_component_info& first = info.comp_info[0];
  if (first.h_samp_factor * first.v_samp_factor > 4) return false;
  for (int i = 1; i < info.num_components; ++i) {
    const jpeg_component_info& other = info.comp_info[i];
    const bool single = other.h_samp_factor == 1 && other.v_samp_factor == 1;
    const bool like_first = other.h_samp_factor == first.h_samp_factor && other.v_samp_factor == first.v_samp_factor;
    if (!single && !(i == 3 && like_first)) return false;  // black is sampled as luma
  }
  return true;
}

// Starts at the first row of `part`. Returns the column at which rows begin. Interpolated chroma of an outermost column
// differs where the image goes on beyond it, so that a column more is decoded on each side.
int64_t StartAt(j_decompress_ptr info, const Part& part) {
  jpeg_start_decompress(info);
  JDIMENSION left = 0;
  if (HasUsualSampling(*info)) {
    const int64_t wide_left = part.left > 0 ? part.left - 1 : 0;
    left = static_cast<JDIMENSION>(wide_left);
    JDIMENSION width = static_cast<JDIMENSION>(std::min<int64_t>(part.right + 1, info->output_width) - wide_left);
    if (width < info->output_width) jpeg_crop_scanline(info, &left, &width);
  }
  if (part.top > 0) jpeg_skip_scanlines(info, static_cast<JDIMENSION>(part.top));
  return left;
}

uint8_t Product(uint8_t a, uint8_t b) { return static_cast<uint8_t>((a * b + 127) / 255); }

// What Adobe writes is the light that a colour of ink lets through; others write the ink.
void CmykToRgb(const uint8_t* cmyk, int64_t count, bool is_light, uint8_t* rgb) {
  const uint8_t flip = is_light ? 0 : 255;
  for (int64_t i = 0; i < count; ++i, cmyk += 4, rgb += 3) {
    for (int c = 0; c < 3; ++c) rgb[c] = Product(cmyk[c] ^ flip, cmyk[3] ^ flip);
  }
}

class JpegRows {
 public:
  JpegRows(JpegDecoder& decoder, const Part& part, Image& image) : decoder_(decoder), part_(part), image_(image) {
    room_.resize(size_t{decoder.info().output_width} * decoder.info().output_components + kVectorBytes);
    row_ = room_.data() + BytesToOddPlace(room_.data());
    if (IsCmyk(decoder.info()) && image.channels == 1) rgb_.resize(static_cast<size_t>(image.width) * 3);
  }

  absl::Status Read() {
    return decoder_.Run([this](j_decompress_ptr info) {
      const int64_t first = StartAt(info, part_);
      for (int64_t y = 0; y < image_.height; ++y) {
        jpeg_read_scanlines(info, &row_, 1);
        Copy(row_ + (part_.left - first) * info->output_components, image_.pixels.data() + y * Stride());
      }
      if (info->output_scanline == info->output_height) jpeg_finish_decompress(info);
    });
  }

 private:
  static constexpr size_t kVectorBytes = 32;

  // To where no vector of AVX2 begins: rows that do begin at one the library writes past the caches, and reading them at
  // once then waits for memory, which took a third of all decoding.
  static size_t BytesToOddPlace(const uint8_t* room) {
    return (kVectorBytes + kVectorBytes / 2 - reinterpret_cast<uintptr_t>(room) % kVectorBytes) % kVectorBytes;
  }

  int64_t Stride() const { return image_.width * image_.channels; }

  void Copy(const uint8_t* from, uint8_t* to) {
    if (!IsCmyk(decoder_.info())) {
      std::memcpy(to, from, static_cast<size_t>(Stride()));
    } else if (image_.channels == 3) {
      CmykToRgb(from, image_.width, decoder_.info().saw_Adobe_marker, to);
    } else {
      CmykToRgb(from, image_.width, decoder_.info().saw_Adobe_marker, rgb_.data());
      RgbToGrey(rgb_.data(), image_.width, to);
    }
  }

  JpegDecoder& decoder_;
  const Part& part_;
  Image& image_;
  std::vector<uint8_t> room_, rgb_;
  JSAMPROW row_;
};

}  // namespace

absl::StatusOr<ImageHeader> ReadJpegHeader(absl::string_view file) {
  JpegDecoder decoder;
  RETURN_IF_ERROR(decoder.ReadHeader(file));
  return ImageHeader{ImageFormat::kJpeg, decoder.info().image_height, decoder.info().image_width,
                     decoder.info().num_components};
}

absl::StatusOr<Image> DecodeJpeg(absl::string_view file, int64_t channels, int eighths, const Part& part,
                                 std::vector<uint8_t> room) {
  JpegDecoder decoder;
  RETURN_IF_ERROR(decoder.ReadHeader(file));
  RETURN_IF_ERROR(CheckColours(decoder.info()));
  RETURN_IF_ERROR(CheckBlocks(decoder.info(), file.size()));
  RETURN_IF_ERROR(decoder.Run([&](j_decompress_ptr info) { SetOutput(info, channels, eighths); }));
  ASSIGN_OR_RETURN(const Part clipped, ClipTo(part, decoder.info().output_height, decoder.info().output_width));
  RETURN_IF_ERROR(CheckJpegMemory(decoder, clipped, channels));
  Image image = EmptyImage(clipped, channels, std::move(room));
  RETURN_IF_ERROR(JpegRows(decoder, clipped, image).Read());
  return image;
}

}  // namespace colonnade::data
