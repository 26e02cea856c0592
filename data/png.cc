#include "data/png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "data/gzip.h"

namespace colonnade::data {
namespace {

struct PngErrors {
  char message[256] = "";
};

[[noreturn]] void LeavePng(png_structp png, png_const_charp message) {
  auto* errors = static_cast<PngErrors*>(png_get_error_ptr(png));
  std::snprintf(errors->message, sizeof(errors->message), "%s", message);
  png_longjmp(png, 1);
}

// Of what does not touch the pixels: damaged pixels are errors.
void PassWarning(png_structp, png_const_charp) {}

void ReadPngBytes(png_structp png, png_bytep to, size_t count) {
  auto* left = static_cast<absl::string_view*>(png_get_io_ptr(png));
  if (count > left->size()) png_error(png, "data that end early");
  std::memcpy(to, left->data(), count);
  left->remove_prefix(count);
}

class PngDecoder {
 public:
  explicit PngDecoder(absl::string_view file)
      : left_(file),
        png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors_, LeavePng, PassWarning)),
        info_(png_ == nullptr ? nullptr : png_create_info_struct(png_)) {}
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  // Runs `steps` up to the first error. They own nothing that needs releasing, since the jump passes by destructors.
  template <typename Steps>
  absl::Status Run(const Steps& steps) {
    if (setjmp(png_jmpbuf(png_)) == 0) {
      steps(png_, info_);
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrFormat("expected a whole PNG, found: %s", errors_.message));
  }

  absl::Status ReadHeader() {
    if (info_ == nullptr) return absl::ResourceExhaustedError("libpng cannot be started");
    RETURN_IF_ERROR(Run([this](png_structp png, png_infop info) {
      png_set_read_fn(png, &left_, ReadPngBytes);
      png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
      png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // texts and profiles are not even unpacked
      png_read_info(png, info);
    }));
    return CheckExtents(height(), width());
  }

  int64_t height() const { return png_get_image_height(png_, info_); }
  int64_t width() const { return png_get_image_width(png_, info_); }
  bool is_interlaced() const { return png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE; }
  int64_t row_bytes() const { return static_cast<int64_t>(png_get_rowbytes(png_, info_)); }
  // Behind SetPixels: 1 or 3, of 8 bits each. Before: those that are stored, a palette's colours being 3.
  int64_t channels() const {
    const bool has_palette = png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE;
    return has_palette ? 3 : png_get_channels(png_, info_);
  }

 private:
  absl::string_view left_;
  PngErrors errors_;
  png_structp png_;
  png_infop info_;
};

// Deflate packs no tighter, so that a header cannot ask for memory and work that the file does not hold.
absl::Status CheckPngSize(const PngDecoder& decoder, size_t file_bytes) {
  if (decoder.row_bytes() * decoder.height() <= static_cast<int64_t>(file_bytes) * kLargestDeflateRatio)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("expected a whole PNG, found %d bytes for %d x %d pixels", file_bytes,
                                                    decoder.height(), decoder.width()));
}

// Everything as grey or RGB of 8 bits.
void SetPixels(png_structp png, png_infop info) {
  png_set_expand_gray_1_2_4_to_8(png);
  png_set_palette_to_rgb(png);
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
}

class PngRows {
 public:
  PngRows(PngDecoder& decoder, const Part& part, Image& image)
      : decoder_(decoder),
        part_(part),
        image_(image),
        stored_(decoder.channels()),
        row_bytes_(decoder.row_bytes()),
        passes_(decoder.is_interlaced() ? PNG_INTERLACE_ADAM7_PASSES : 1) {
    rows_.resize(static_cast<size_t>(row_bytes_ * (passes_ > 1 ? decoder.height() : 1)));
  }

  absl::Status Read() {
    return decoder_.Run([this](png_structp png, png_infop) {
      const int64_t height = decoder_.height();
      for (int pass = 1; pass < passes_; ++pass) {
        for (int64_t y = 0; y < height; ++y) png_read_row(png, Row(y), nullptr);
      }
      for (int64_t y = 0; y < part_.bottom; ++y) {
        png_read_row(png, Row(y), nullptr);
        if (y >= part_.top) Copy(Row(y) + part_.left * stored_, image_.pixels.data() + (y - part_.top) * Stride());
      }
      if (part_.bottom == height) png_read_end(png, nullptr);
    });
  }

 private:
  int64_t Stride() const { return image_.width * image_.channels; }
  uint8_t* Row(int64_t y) { return rows_.data() + (passes_ > 1 ? y : 0) * row_bytes_; }

  void Copy(const uint8_t* from, uint8_t* to) const {
    if (stored_ == image_.channels) {
      std::memcpy(to, from, static_cast<size_t>(Stride()));
    } else if (stored_ == 1) {
      GreyToRgb(from, image_.width, to);
    } else {
      RgbToGrey(from, image_.width, to);
    }
  }

  PngDecoder& decoder_;
  const Part& part_;
  Image& image_;
  const int64_t stored_, row_bytes_;
  const int passes_;
  std::vector<uint8_t> rows_;  // one, or where they are interlaced all
};

}  // namespace

absl::StatusOr<ImageHeader> ReadPngHeader(absl::string_view file) {
  PngDecoder decoder(file);
  RETURN_IF_ERROR(decoder.ReadHeader());
  return ImageHeader{ImageFormat::kPng, decoder.height(), decoder.width(), decoder.channels()};
}

absl::StatusOr<Image> DecodePng(absl::string_view file, int64_t channels, const Part& part, std::vector<uint8_t> room) {
  PngDecoder decoder(file);
  RETURN_IF_ERROR(decoder.ReadHeader());
  RETURN_IF_ERROR(CheckPngSize(decoder, file.size()));
  RETURN_IF_ERROR(decoder.Run(SetPixels));
  ASSIGN_OR_RETURN(const Part clipped, ClipTo(part, decoder.height(), decoder.width()));
  const int64_t kept_rows = decoder.is_interlaced() ? decoder.height() : 1;
  RETURN_IF_ERROR(CheckMemory((clipped.bottom - clipped.top) * (clipped.right - clipped.left) * channels +
                              kept_rows * decoder.row_bytes()));
  Image image = EmptyImage(clipped, channels, std::move(room));
  RETURN_IF_ERROR(PngRows(decoder, clipped, image).Read());
  return image;
}

}  // namespace colonnade::data
