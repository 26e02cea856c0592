#include "tests/data/image_files.h"

#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/paths.h"

namespace colonnade::data {
namespace {

void SetComponents(j_compress_ptr info, const JpegLook& look) {
  if (info->input_components == 4) jpeg_set_colorspace(info, look.ycck ? JCS_YCCK : JCS_CMYK);
  if (info->input_components == 3 && look.rgb_file) jpeg_set_colorspace(info, JCS_RGB);
  if (!look.adobe) info->write_Adobe_marker = FALSE;
  for (size_t i = 0; i < look.sampling.size(); ++i) {
    info->comp_info[i].h_samp_factor = look.sampling[i].first;
    info->comp_info[i].v_samp_factor = look.sampling[i].second;
  }
}

void WriteToString(png_structp png, png_bytep bytes, size_t count) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), count);
}

int ChannelsOf(int color_type) {
  return 1 + (color_type & PNG_COLOR_MASK_COLOR && color_type != PNG_COLOR_TYPE_PALETTE ? 2 : 0) +
         (color_type & PNG_COLOR_MASK_ALPHA ? 1 : 0);
}

int64_t OctalOf(absl::string_view field) { return std::strtoll(std::string(field).c_str(), nullptr, 8); }

}  // namespace

Image Pattern(int64_t height, int64_t width, int64_t channels, uint32_t seed) {
  Image image{height, width, channels, {}};
  std::mt19937 random(seed);
  const double across = 0.05 + random() % 100 * 0.01, down = 0.05 + random() % 100 * 0.01;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        const double wave = std::sin(across * x + c) * std::cos(down * y - 2.0 * c), edge = (x / 7 + y / 5 + c) % 3;
        image.pixels.push_back(static_cast<uint8_t>(100 + 60 * wave + 30 * edge + random() % 20));
      }
    }
  }
  return image;
}

Image Uniform(int64_t height, int64_t width, const std::vector<uint8_t>& pixel) {
  Image image{height, width, static_cast<int64_t>(pixel.size()), {}};
  for (int64_t i = 0; i < height * width; ++i) image.pixels.insert(image.pixels.end(), pixel.begin(), pixel.end());
  return image;
}

std::string JpegOf(const Image& image, const JpegLook& look) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT: as the library has it
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.input_components = static_cast<int>(image.channels);
  info.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : image.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  SetComponents(&info, look);
  jpeg_set_quality(&info, look.quality, TRUE);
  if (look.progressive) jpeg_simple_progression(&info);
  info.arith_code = look.arithmetic ? TRUE : FALSE;
  info.restart_in_rows = look.restart_rows;
  info.optimize_coding = look.optimised ? TRUE : FALSE;
  jpeg_start_compress(&info, TRUE);
  for (int64_t y = 0; y < image.height; ++y) {
    JSAMPROW row = const_cast<uint8_t*>(image.pixels.data()) + y * image.width * image.channels;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const std::string file(reinterpret_cast<const char*>(bytes), size);
  std::free(bytes);
  return file;
}

std::string PngOf(int64_t height, int64_t width, const std::vector<uint8_t>& pixels, const PngLook& look) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &file, WriteToString, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), look.bits, look.color_type,
               look.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (int i = 0; i < 1 << std::min(look.bits, 8); ++i) {
    palette.push_back({static_cast<png_byte>(i), static_cast<png_byte>(255 - i), static_cast<png_byte>(2 * i)});
  }
  if (look.color_type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  std::vector<png_bytep> rows;
  const int64_t stride = (width * ChannelsOf(look.color_type) * look.bits + 7) / 8;
  for (int64_t y = 0; y < height; ++y) rows.push_back(const_cast<uint8_t*>(pixels.data()) + y * stride);
  png_set_rows(png, info, rows.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

std::string PngOf(const Image& image) {
  constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
  return PngOf(image.height, image.width, image.pixels, {.color_type = kTypes[image.channels - 1]});
}

int Drawn(std::mt19937& random, int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); }

Box DrawnBox(std::mt19937& random, int64_t height, int64_t width) {
  const int rows = Drawn(random, 1, static_cast<int>(height)), columns = Drawn(random, 1, static_cast<int>(width));
  return {static_cast<double>(Drawn(random, 0, static_cast<int>(height) - rows)),
          static_cast<double>(Drawn(random, 0, static_cast<int>(width) - columns)), static_cast<double>(rows),
          static_cast<double>(columns)};
}

uint64_t ChecksumOf(absl::string_view bytes, uint64_t start) {
  for (unsigned char byte : bytes) start = (start ^ byte) * 0x100000001b3;
  return start;
}

uint64_t ChecksumOf(const Image& image, uint64_t start) {
  return ChecksumOf({reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size()}, start);
}

Image PartOf(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  Image part{height, width, image.channels, {}};
  for (int64_t y = top; y < top + height; ++y) {
    const auto row = image.pixels.begin() + (y * image.width + left) * image.channels;
    part.pixels.insert(part.pixels.end(), row, row + width * image.channels);
  }
  return part;
}

std::vector<std::string> FilesOfTar(absl::string_view tar) {
  constexpr size_t kTarBlock = 512, kSizeField = 124, kTypeField = 156;
  std::vector<std::string> files;
  while (tar.size() >= kTarBlock && tar[0] != '\0') {
    const size_t size = static_cast<size_t>(OctalOf(tar.substr(kSizeField, 12)));
    if (tar[kTypeField] == '0') files.emplace_back(tar.substr(kTarBlock, size));
    tar.remove_prefix(std::min(tar.size(), kTarBlock + (size + kTarBlock - 1) / kTarBlock * kTarBlock));
  }
  return files;
}

}  // namespace colonnade::data
