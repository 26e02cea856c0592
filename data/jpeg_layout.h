// What the markers of a baseline JPEG say of its scan. Internal to data/.
#ifndef COLONNADE_DATA_JPEG_LAYOUT_H_
#define COLONNADE_DATA_JPEG_LAYOUT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/jpeg_bits.h"
#include "program/formulas/rounding.h"

namespace colonnade::data {

// A Huffman table, as a DHT segment gives it. Source: ITU-T T.81, annex C.
class JpegHuffmanTable {
 public:
  struct Code {
    uint8_t length = 0;  // 0: there is none
    uint8_t symbol = 0;
  };
  struct CodeBits {
    uint16_t bits = 0;
    uint8_t length = 0;  // likewise
  };

  // Sets the codes. `counts`: how many have 1 to 16 bits; `symbols`: as many as that is in all. Returns false where bits do
  // not suffice for so many codes.
  bool Set(absl::string_view counts, absl::string_view symbols);

  static constexpr int kLongest = 16;

  // Returns the code that comes next. REQUIRES: the reader holds kLongest bits.
  Code Next(const JpegBitReader& reader) const { return First(static_cast<uint32_t>(reader.Peek(kWordBits / 2))); }
  // Returns the code that `bits` begin with, from the highest on.
  Code First(uint32_t bits) const {
    const Code code = short_[bits >> (kWordBits / 2 - kShort)];
    return code.length > 0 ? code : FirstLong(bits);
  }
  CodeBits CodeOf(uint8_t symbol) const { return codes_[symbol]; }

 private:
  static constexpr int kShort = 10;

  void Add(uint32_t code, uint8_t length, uint8_t symbol);
  Code FirstLong(uint32_t bits) const;

  std::array<Code, 1 << kShort> short_ = {};       // by the next bits
  std::array<uint32_t, kLongest + 1> ends_ = {};   // the code behind the last one of a length, or 0 where it has none
  std::array<int32_t, kLongest + 1> places_ = {};  // of a length: where its symbols lie, less its first code
  std::array<uint8_t, 256> symbols_ = {};
  std::array<CodeBits, 256> codes_ = {};  // by symbol
};

struct JpegComponent {
  int across = 1, down = 1;  // blocks of an MCU
  int dc = 0, ac = 0;        // its tables, of those of the layout
};

// A baseline JPEG of 8 bits whose one scan holds all of its 1 or 3 components, without restart markers: what most files are.
struct JpegLayout {
  int64_t height = 0, width = 0;
  int64_t mcu_height = 0, mcu_width = 0;  // pixels
  std::vector<JpegComponent> components;
  std::array<JpegHuffmanTable, 2> dc, ac;
  // The segments up to the first bit of the scan, without comments and what applications wrote but JFIF and Adobe. The
  // frame's height stands at frame_at, its width behind it.
  std::string header;
  size_t frame_at = 0;
  absl::string_view scan;  // and all that comes behind it

  int64_t rows() const { return program::CeilDiv(height, mcu_height); }  // of MCUs
  int64_t columns() const { return program::CeilDiv(width, mcu_width); }
};

// Reads the layout; nothing where `file` is no such JPEG, or where those segments have more than 64 KiB.
std::optional<JpegLayout> ReadJpegLayout(absl::string_view file);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_JPEG_LAYOUT_H_
