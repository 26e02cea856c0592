// The bits of a JPEG's entropy-coded scan, read and written. Internal to data/.
//
// The highest bit of a byte comes first. Behind each byte 0xff stands a zero byte that carries no bits; 0xff and anything
// else is a marker, at which the bits end. Source: ITU-T T.81, section F.1.2.3.
#ifndef COLONNADE_DATA_JPEG_BITS_H_
#define COLONNADE_DATA_JPEG_BITS_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace colonnade::data {

inline constexpr int kByteBits = 8, kWordBits = 64;

static_assert(std::endian::native == std::endian::little);
inline uint64_t FromBigEndian(uint64_t word) { return __builtin_bswap64(word); }

inline bool HasByteOfOnes(uint64_t word) {
  constexpr uint64_t kLowest = 0x0101010101010101, kHighest = 0x8080808080808080;
  return (((~word - kLowest) & word) & kHighest) != 0;
}

// Reads from a place within `scan`, which is a number of bits from its first byte; bytes that carry none count, too. Behind
// the last bit it reads zeros.
class JpegBitReader {
 public:
  static constexpr int kMost = 56;  // bits of one Peek or Take

  JpegBitReader(absl::string_view scan, int64_t place)
      : begin_(reinterpret_cast<const uint8_t*>(scan.data())), end_(begin_ + scan.size()), at_(begin_ + place / kByteBits) {
    Fill();
    Skip(static_cast<int>(place % kByteBits));
  }

  // Reads on until at least kMost bits are held: Peek, Skip and Take may use that many before the next Fill.
  void Fill() {
    if (end_ - at_ >= 8) {
      uint64_t next;
      std::memcpy(&next, at_, sizeof(next));
      if (!HasByteOfOnes(next)) return Hold(FromBigEndian(next));
    }
    FillByBytes();
  }
  bool holds(int count) const { return held_ >= count; }

  // REQUIRES: 0 <= count <= kMost, and as many are held.
  uint64_t Peek(int count) const { return bits_ >> 1 >> (kWordBits - 1 - count); }
  void Skip(int count) {
    bits_ <<= count;
    held_ -= count;
  }
  uint64_t Take(int count) {
    const uint64_t taken = Peek(count);
    Skip(count);
    return taken;
  }

  bool is_past_end() const { return held_ < zeros_; }

  // Returns where the next bit lies. REQUIRES: !is_past_end().
  int64_t place() const {
    const uint8_t* at = at_;
    int64_t unread = held_ - zeros_;
    for (; unread >= kByteBits; unread -= kByteBits) at = Before(at);
    if (unread == 0) return (at - begin_) * kByteBits;
    return (Before(at) - begin_) * kByteBits + kByteBits - unread;
  }

 private:
  // Below the held bits, bits_ has those of the next byte or zeros already: setting them again changes nothing.
  void Hold(uint64_t next) {
    bits_ |= next >> held_;
    const int bytes = (kWordBits - 1 - held_) / kByteBits;
    at_ += bytes;
    held_ += bytes * kByteBits;
  }

  void FillByBytes() {
    while (held_ < kMost) {
      const bool is_stuffed = at_ < end_ && *at_ == 0xff;
      if (at_ >= end_ || (is_stuffed && (at_ + 1 == end_ || at_[1] != 0))) {
        zeros_ += kByteBits;
      } else {
        bits_ |= uint64_t{*at_} << (kMost - held_);
        at_ += is_stuffed ? 2 : 1;
      }
      held_ += kByteBits;
    }
  }

  const uint8_t* Before(const uint8_t* at) const {
    return at - begin_ >= 2 && at[-1] == 0 && at[-2] == 0xff ? at - 2 : at - 1;
  }

  const uint8_t *begin_, *end_, *at_;
  uint64_t bits_ = 0;  // the next one is the highest
  int held_ = 0;       // bits of bits_
  int64_t zeros_ = 0;  // bits that were added behind the end, with those taken since
};

// Appends bits to a string, and the zero bytes behind 0xff.
class JpegBitWriter {
 public:
  explicit JpegBitWriter(std::string& out) : out_(out), size_(out.size()) {}

  // Makes room for as many bits more, whatever they are.
  void Reserve(int64_t bits) { out_.resize(size_ + 2 * static_cast<size_t>(bits / kByteBits + 2 * sizeof(bits_))); }

  // Appends the lowest `count` bits of `bits`. REQUIRES: 1 <= count <= JpegBitReader::kMost, no others are set, and Reserve
  // was asked for them.
  void Put(uint64_t bits, int count) {
    held_ += count;
    bits_ |= bits << (kWordBits - held_);
    const int bytes = held_ / kByteBits;
    if (HasByteOfOnes(bits_)) {
      PutBytes(bytes);
    } else {
      const uint64_t word = FromBigEndian(bits_);
      std::memcpy(out_.data() + size_, &word, sizeof(word));
      size_ += bytes;
    }
    bits_ <<= bytes * kByteBits;
    held_ %= kByteBits;
  }

  // Fills the last byte with ones, as JPEG does, and gives back the room that is left.
  void Finish() {
    if (held_ > 0) Put((1 << (kByteBits - held_)) - 1, kByteBits - held_);
    out_.resize(size_);
  }

 private:
  void PutBytes(int count) {
    for (int i = 0; i < count; ++i) {
      const auto byte = static_cast<uint8_t>(bits_ >> (kWordBits - (i + 1) * kByteBits));
      out_[size_++] = static_cast<char>(byte);
      if (byte == 0xff) out_[size_++] = 0;
    }
  }

  std::string& out_;
  size_t size_;
  uint64_t bits_ = 0;  // not yet written; the first one is the highest
  int held_ = 0;       // below 8 between calls
};

// Returns the bits that lie between two places of a scan.
inline int64_t BitsBetween(absl::string_view scan, int64_t from, int64_t to) {
  const absl::string_view bytes =
      scan.substr(static_cast<size_t>(from / kByteBits), static_cast<size_t>(to / kByteBits - from / kByteBits));
  return to - from - kByteBits * std::count(bytes.begin(), bytes.end(), '\xff');
}

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_JPEG_BITS_H_
