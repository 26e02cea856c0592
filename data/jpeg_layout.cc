#include "data/jpeg_layout.h"

#include <utility>

namespace colonnade::data {
namespace {

constexpr int kMarkerBytes = 2, kLengthBytes = 2;
constexpr size_t kMostHeaderBytes = 1 << 16;
// Source: ITU-T T.81, table B.1.
constexpr uint8_t kSof0 = 0xc0, kDht = 0xc4, kSoi = 0xd8, kSos = 0xda, kDqt = 0xdb, kDri = 0xdd, kApp0 = 0xe0, kApp14 = 0xee,
                  kApp15 = 0xef, kCom = 0xfe;

int ByteAt(absl::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }
int WordAt(absl::string_view bytes, size_t at) { return ByteAt(bytes, at) << kByteBits | ByteAt(bytes, at + 1); }

class LayoutReader {
 public:
  explicit LayoutReader(absl::string_view file) : file_(file) {}

  std::optional<JpegLayout> Read() {
    if (file_.size() < kMarkerBytes || ByteAt(file_, 0) != 0xff || ByteAt(file_, 1) != kSoi) return std::nullopt;
    layout_.header = std::string(file_.substr(0, kMarkerBytes));
    for (size_t at = kMarkerBytes; layout_.scan.empty();) {
      if (at + kMarkerBytes + kLengthBytes > file_.size() || ByteAt(file_, at) != 0xff) return std::nullopt;
      const size_t end = at + kMarkerBytes + static_cast<size_t>(WordAt(file_, at + kMarkerBytes));
      if (end < at + kMarkerBytes + kLengthBytes || end >= file_.size()) return std::nullopt;
      if (!ReadSegment(file_.substr(at, end - at))) return std::nullopt;
      at = end;
    }
    return std::move(layout_);
  }

 private:
  // `segment` begins with its marker.
  bool ReadSegment(absl::string_view segment) {
    const absl::string_view contents = segment.substr(kMarkerBytes + kLengthBytes);
    const int marker = ByteAt(segment, 1);
    const bool is_of_application = marker > kApp0 && marker <= kApp15 && marker != kApp14;
    if (is_of_application || marker == kCom) return true;
    if (layout_.header.size() + segment.size() > kMostHeaderBytes) return false;
    if (marker == kSof0) layout_.frame_at = layout_.header.size() + kMarkerBytes + kLengthBytes + 1;
    layout_.header.append(segment.data(), segment.size());
    switch (marker) {
      case kApp0:   // JFIF
      case kApp14:  // Adobe
      case kDqt:
        return true;
      case kSof0:
        return ReadFrame(contents);
      case kDht:
        return ReadTables(contents);
      case kDri:
        return contents.size() == 2 && WordAt(contents, 0) == 0;
      case kSos:
        layout_.scan = file_.substr(static_cast<size_t>(segment.data() + segment.size() - file_.data()));
        return ReadScan(contents);
      default:
        return false;
    }
  }

  bool ReadFrame(absl::string_view frame) {
    constexpr size_t kBefore = 6, kEach = 3;
    if (frame.size() < kBefore || !layout_.components.empty() || ByteAt(frame, 0) != 8) return false;
    layout_.height = WordAt(frame, 1);
    layout_.width = WordAt(frame, 3);
    const auto count = static_cast<size_t>(ByteAt(frame, 5));
    if (layout_.height == 0 || layout_.width == 0 || (count != 1 && count != 3)) return false;
    if (frame.size() != kBefore + count * kEach) return false;
    for (size_t at = kBefore; at < frame.size(); at += kEach) {
      ids_.push_back(ByteAt(frame, at));
      layout_.components.push_back({.across = ByteAt(frame, at + 1) >> 4, .down = ByteAt(frame, at + 1) & 15});
    }
    return SetMcu();
  }

  // An MCU of one component is a block, whatever its sampling says. Source: ITU-T T.81, section A.2.2.
  bool SetMcu() {
    constexpr int kMostFactor = 4, kBlock = 8;
    std::vector<JpegComponent>& components = layout_.components;
    if (components.size() == 1) components[0] = {};
    int down = 0, across = 0;
    for (const JpegComponent& one : components) {
      if (one.across < 1 || one.across > kMostFactor || one.down < 1 || one.down > kMostFactor) return false;
      down = std::max(down, one.down);
      across = std::max(across, one.across);
    }
    layout_.mcu_height = down * kBlock;
    layout_.mcu_width = across * kBlock;
    return true;
  }

  bool ReadTables(absl::string_view tables) {
    while (!tables.empty()) {
      if (tables.size() < 1 + JpegHuffmanTable::kLongest) return false;
      const int kind = ByteAt(tables, 0) >> 4, place = ByteAt(tables, 0) & 15;
      if (kind > 1 || place > 1) return false;
      const absl::string_view counts = tables.substr(1, JpegHuffmanTable::kLongest);
      size_t count = 0;
      for (char one : counts) count += static_cast<uint8_t>(one);
      tables.remove_prefix(1 + JpegHuffmanTable::kLongest);
      if (tables.size() < count) return false;
      if (!(kind == 0 ? layout_.dc : layout_.ac)[place].Set(counts, tables.substr(0, count))) return false;
      tables.remove_prefix(count);
    }
    return true;
  }

  bool ReadScan(absl::string_view scan) {
    const size_t count = layout_.components.size();
    if (count == 0 || scan.size() != 4 + 2 * count || ByteAt(scan, 0) != static_cast<int>(count)) return false;
    for (size_t i = 0; i < count; ++i) {
      const int tables = ByteAt(scan, 2 + 2 * i);
      if (ByteAt(scan, 1 + 2 * i) != ids_[i] || (tables >> 4) > 1 || (tables & 15) > 1) return false;
      layout_.components[i].dc = tables >> 4;
      layout_.components[i].ac = tables & 15;
    }
    constexpr absl::string_view kAllCoefficients("\0\x3f\0", 3);
    return scan.substr(1 + 2 * count) == kAllCoefficients;
  }

  absl::string_view file_;
  JpegLayout layout_;
  std::vector<int> ids_;
};

}  // namespace

bool JpegHuffmanTable::Set(absl::string_view counts, absl::string_view symbols) {
  *this = {};
  if (symbols.size() > symbols_.size()) return false;
  uint32_t code = 0;
  size_t at = 0;
  for (int length = 1; length <= kLongest; ++length, code <<= 1) {
    places_[length] = static_cast<int32_t>(at) - static_cast<int32_t>(code);
    for (int left = ByteAt(counts, length - 1); left > 0; --left, ++code, ++at) {
      if (code >= 1U << length) return false;
      Add(code, static_cast<uint8_t>(length), static_cast<uint8_t>(symbols[at]));
      symbols_[at] = static_cast<uint8_t>(symbols[at]);
      ends_[length] = code + 1;
    }
  }
  return true;
}

void JpegHuffmanTable::Add(uint32_t code, uint8_t length, uint8_t symbol) {
  codes_[symbol] = {static_cast<uint16_t>(code), length};
  if (length > kShort) return;
  const int free = kShort - length;
  std::fill_n(short_.begin() + (code << free), size_t{1} << free, Code{length, symbol});
}

JpegHuffmanTable::Code JpegHuffmanTable::FirstLong(uint32_t bits) const {
  for (int length = kShort + 1; length <= kLongest; ++length) {
    const uint32_t code = bits >> (kWordBits / 2 - length);
    if (code < ends_[length]) return {static_cast<uint8_t>(length), symbols_[static_cast<int32_t>(code) + places_[length]]};
  }
  return {};
}

std::optional<JpegLayout> ReadJpegLayout(absl::string_view file) { return LayoutReader(file).Read(); }

}  // namespace colonnade::data
