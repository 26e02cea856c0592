#include "data/jpeg_index.h"

#define XXH_INLINE_ALL  // the header alone is needed
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>

#include "data/jpeg_layout.h"
#include "program/formulas/rounding.h"

namespace colonnade::data {
namespace {

constexpr int64_t kMostScanBytes = int64_t{1} << 25;  // whose bits an entry can name
constexpr int kBlockValues = 64, kMostDc = 2047, kMostDcBits = 11;
constexpr int kMostBitsOfACode = JpegHuffmanTable::kLongest + 15;  // with the value behind it

void FillForACode(JpegBitReader& reader) {
  if (!reader.holds(kMostBitsOfACode)) reader.Fill();
}

// A value of `bits` bits; those with a first bit of 0 are negative. Source: ITU-T T.81, section F.2.2.1.
int ValueOf(uint64_t bits, int count) {
  const int value = static_cast<int>(bits), behind = 1 << count;
  return value - (value < behind / 2 ? behind - 1 : 0);
}

// The first value of a block, less that of the block before.
std::optional<int> TakeDcDifference(const JpegHuffmanTable& table, JpegBitReader& reader) {
  FillForACode(reader);
  const JpegHuffmanTable::Code code = table.Next(reader);
  if (code.length == 0 || code.symbol > kMostDcBits) return std::nullopt;
  reader.Skip(code.length);
  return ValueOf(reader.Take(code.symbol), code.symbol);
}

bool PutDcDifference(const JpegHuffmanTable& table, int difference, JpegBitWriter& writer) {
  int bits = 0;
  while (std::abs(difference) >> bits != 0) ++bits;
  const JpegHuffmanTable::CodeBits code = table.CodeOf(static_cast<uint8_t>(bits));
  if (code.length == 0) return false;
  writer.Put(code.bits, code.length);
  if (bits == 0) return true;
  writer.Put(static_cast<uint64_t>(difference > 0 ? difference : difference + (1 << bits) - 1), bits);
  return true;
}

constexpr int kEndOfBlock = 0, kZeros = 0xf0;  // 16 of them; other symbols: a run of zeros and the bits of a value

bool IsOfAc(uint8_t symbol) { return (symbol & 15) != 0 || symbol == kEndOfBlock || symbol == kZeros; }

// A run of zeros and the value behind it.
int ValuesOf(uint8_t symbol) { return symbol == kEndOfBlock ? 0 : (symbol >> 4) + 1; }

// The codes of a block's values from the `next` on; `visit` takes the bits of each out of the reader.
template <typename Visit>
bool ReadAc(const JpegHuffmanTable& table, int next, JpegBitReader& reader, const Visit& visit) {
  while (next < kBlockValues) {
    FillForACode(reader);
    const JpegHuffmanTable::Code code = table.Next(reader);
    if (code.length == 0 || !IsOfAc(code.symbol)) return false;
    visit(code.length + (code.symbol & 15));
    if (code.symbol == kEndOfBlock) return true;
    next += ValuesOf(code.symbol);
  }
  return next == kBlockValues;
}

// The codes of a block's values other than the first, as many at once as begin and end within the next bits.
class AcSteps {
 public:
  explicit AcSteps(const JpegHuffmanTable& table) : table_(table) {
    for (uint32_t bits = 0; bits < steps_.size(); ++bits) steps_[bits] = StepOf(bits);
  }

  // Behind the block. False where no block is like that.
  bool SkipBlock(JpegBitReader& reader) const {
    for (int next = 1; next < kBlockValues;) {
      FillForACode(reader);
      const Step step = steps_[reader.Peek(kBits)];
      if (step.bits == 0 || next + step.values >= kBlockValues) return SkipOneByOne(next, reader);
      reader.Skip(step.bits);
      if (step.ends) return true;
      next += step.values;
    }
    return true;
  }

 private:
  static constexpr int kBits = 11;
  struct Step {
    uint8_t bits = 0;  // 0: no code ends within them
    uint8_t values : 7 = 0, ends : 1 = 0;
  };

  bool SkipOneByOne(int next, JpegBitReader& reader) const {
    return ReadAc(table_, next, reader, [&](int bits) { reader.Skip(bits); });
  }

  Step StepOf(uint32_t bits) const {
    Step step;
    while (step.bits < kBits && !step.ends) {
      const JpegHuffmanTable::Code code = table_.First(bits << (step.bits + kWordBits / 2 - kBits));
      if (code.length == 0 || step.bits + code.length > kBits || !IsOfAc(code.symbol)) break;
      const int values = ValuesOf(code.symbol);
      if (step.values + values >= kBlockValues) break;
      step.bits += code.length + (code.symbol & 15);
      step.values += values;
      step.ends = code.symbol == kEndOfBlock;
    }
    return step;
  }

  const JpegHuffmanTable& table_;
  std::array<Step, 1 << kBits> steps_;
};

bool SkipMcu(const JpegLayout& layout, const std::array<AcSteps, 2>& ac, JpegBitReader& reader, JpegDcs& dcs) {
  for (size_t i = 0; i < layout.components.size(); ++i) {
    const JpegComponent& component = layout.components[i];
    for (int block = component.across * component.down; block > 0; --block) {
      const std::optional<int> difference = TakeDcDifference(layout.dc[component.dc], reader);
      if (!difference || std::abs(dcs[i] + *difference) > kMostDc) return false;
      dcs[i] = static_cast<int16_t>(dcs[i] + *difference);
      if (!ac[component.ac].SkipBlock(reader)) return false;
    }
  }
  return true;
}

void CopyBits(JpegBitReader& reader, int64_t count, JpegBitWriter& writer) {
  while (count > 0) {
    const int now = static_cast<int>(std::min<int64_t>(count, JpegBitReader::kMost));
    reader.Fill();
    writer.Put(reader.Take(now), now);
    count -= now;
  }
}

bool CopyAc(const JpegHuffmanTable& table, JpegBitReader& reader, JpegBitWriter& writer) {
  return ReadAc(table, 1, reader, [&](int bits) { writer.Put(reader.Take(bits), bits); });
}

// An MCU, whose DC predictors are `file_dcs` in the file and `cut_dcs` in the cut.
bool CopyMcu(const JpegLayout& layout, const JpegDcs& file_dcs, const JpegDcs& cut_dcs, JpegBitReader& reader,
             JpegBitWriter& writer) {
  for (size_t i = 0; i < layout.components.size(); ++i) {
    const JpegComponent& component = layout.components[i];
    int correction = file_dcs[i] - cut_dcs[i];  // of the first block alone: the others follow it in both
    for (int block = component.across * component.down; block > 0; --block, correction = 0) {
      const JpegHuffmanTable& dc = layout.dc[component.dc];
      const std::optional<int> difference = TakeDcDifference(dc, reader);
      if (!difference || !PutDcDifference(dc, *difference + correction, writer)) return false;
      if (!CopyAc(layout.ac[component.ac], reader, writer)) return false;
    }
  }
  return true;
}

// Whether fewer than 8 bits are left, and then the image ends.
bool EndsAt(const JpegLayout& layout, int64_t place) {
  const auto next = static_cast<size_t>(program::CeilDiv(place, kByteBits));
  constexpr absl::string_view kEnd = "\xff\xd9", kStuffedEnd("\xff\0\xff\xd9", 4);
  const absl::string_view rest = layout.scan.substr(std::min(next, layout.scan.size()));
  return rest.substr(0, kEnd.size()) == kEnd ||
         (next > 0 && layout.scan.substr(next - 1, kStuffedEnd.size()) == kStuffedEnd);
}

uint64_t DigestOfFile(absl::string_view file) { return XXH3_64bits(file.data(), file.size()); }

void PutExtents(int64_t height, int64_t width, char* frame) {
  for (int64_t extent : {height, width}) {
    *frame++ = static_cast<char>(extent >> kByteBits);
    *frame++ = static_cast<char>(extent);
  }
}

}  // namespace

JpegIndex::Entry::Entry(int64_t place, const JpegDcs& dcs) : packed_(static_cast<uint64_t>(place)) {
  for (int16_t dc : dcs) packed_ = packed_ << kDcBits | static_cast<uint64_t>(dc + kMostDc);
}

JpegDcs JpegIndex::Entry::dcs() const {
  constexpr uint64_t kMask = (1 << kDcBits) - 1;
  JpegDcs dcs;
  uint64_t packed = packed_;
  for (int i = static_cast<int>(dcs.size()) - 1; i >= 0; --i, packed >>= kDcBits) {
    dcs[i] = static_cast<int16_t>(static_cast<int>(packed & kMask) - kMostDc);
  }
  return dcs;
}

std::optional<JpegIndex> JpegIndex::Of(absl::string_view file) {
  const std::optional<JpegLayout> layout = ReadJpegLayout(file);
  if (!layout || std::ssize(layout->scan) > kMostScanBytes) return std::nullopt;
  JpegIndex index;
  index.digest_ = DigestOfFile(file);
  index.scan_bytes_ = std::ssize(layout->scan);
  index.rows_ = layout->rows();
  index.columns_ = layout->columns();
  if (!index.ReadScan(*layout)) return std::nullopt;
  return index;
}

// Extents, too, since a digest of so few bits can be forged.
bool JpegIndex::IsOf(absl::string_view file, const JpegLayout& layout) const {
  return std::ssize(layout.scan) == scan_bytes_ && layout.rows() == rows_ && layout.columns() == columns_ &&
         DigestOfFile(file) == digest_;
}

bool JpegIndex::ReadScan(const JpegLayout& layout) {
  const std::array<AcSteps, 2> ac = {AcSteps(layout.ac[0]), AcSteps(layout.ac[1])};
  JpegBitReader reader(layout.scan, 0);
  JpegDcs dcs = {};
  for (int64_t row = 0; row < rows_; ++row) {
    for (int64_t column = 0; column < columns_; ++column) {
      if (column % kStride == 0) entries_.emplace_back(reader.place(), dcs);
      if (!SkipMcu(layout, ac, reader, dcs) || reader.is_past_end()) return false;
    }
  }
  entries_.emplace_back(reader.place(), dcs);
  entries_.shrink_to_fit();
  return EndsAt(layout, entries_.back().place());
}

// REQUIRES: column is one of kStride's, or the last column of all, behind which the next row begins.
const JpegIndex::Entry& JpegIndex::Before(int64_t row, int64_t column) const {
  const int64_t per_row = program::CeilDiv(columns_, kStride);
  return entries_[row * per_row + program::CeilDiv(column, kStride)];
}

JpegIndex::Mcus JpegIndex::McusOf(const JpegLayout& layout, const Part& part) const {
  constexpr int64_t kLeastColumns = 2;  // libjpeg-turbo interpolates chroma of three samples or more alone
  const int64_t width = kStride * layout.mcu_width;
  Mcus mcus = {.top = std::max<int64_t>(part.top, 0) / layout.mcu_height,
               .left = std::max<int64_t>(part.left, 0) / width * kStride,
               .bottom = program::CeilDiv(std::min(part.bottom, layout.height), layout.mcu_height),
               .right = std::min(program::CeilDiv(std::min(part.right, layout.width), width) * kStride, columns_)};
  if (mcus.right - mcus.left < kLeastColumns && mcus.left > 0) mcus.left -= kStride;
  return mcus;
}

// Without a cut the codes of all rows down to the last one are read. Cutting costs about a tenth of that.
bool JpegIndex::IsWorthIt(const Mcus& mcus) const {
  constexpr double kMostOfAll = 0.85;
  const int64_t cut = (mcus.bottom - mcus.top) * (mcus.right - mcus.left);
  return static_cast<double>(cut) <= kMostOfAll * static_cast<double>(mcus.bottom * columns_);
}

bool JpegIndex::CopyRow(const JpegLayout& layout, const Mcus& mcus, int64_t row, JpegDcs& dcs, JpegBitWriter& writer) const {
  constexpr int64_t kMostAdded = std::tuple_size_v<JpegDcs> * kMostBitsOfACode;
  const Entry &first = Before(row, mcus.left), &behind = Before(row, mcus.right);
  JpegBitReader reader(layout.scan, first.place());
  writer.Reserve(behind.place() - first.place() + kMostAdded);
  if (!CopyMcu(layout, first.dcs(), dcs, reader, writer) || reader.is_past_end()) return false;
  CopyBits(reader, BitsBetween(layout.scan, reader.place(), behind.place()), writer);
  dcs = behind.dcs();
  return true;
}

std::optional<JpegIndex::Cut> JpegIndex::CutOut(absl::string_view file, const Part& part) const {
  const std::optional<JpegLayout> layout = ReadJpegLayout(file);
  if (!layout || !IsOf(file, *layout)) return std::nullopt;
  const Mcus mcus = McusOf(*layout, part);
  if (!IsWorthIt(mcus)) return std::nullopt;
  Cut cut{.jpeg = layout->header, .top = mcus.top * layout->mcu_height, .left = mcus.left * layout->mcu_width};
  PutExtents(std::min(mcus.bottom * layout->mcu_height, layout->height) - cut.top,
             std::min(mcus.right * layout->mcu_width, layout->width) - cut.left, cut.jpeg.data() + layout->frame_at);
  JpegBitWriter writer(cut.jpeg);
  JpegDcs dcs = {};
  for (int64_t row = mcus.top; row < mcus.bottom; ++row) {
    if (!CopyRow(*layout, mcus, row, dcs, writer)) return std::nullopt;
  }
  writer.Finish();
  cut.jpeg.append("\xff\xd9");
  return cut;
}

}  // namespace colonnade::data
