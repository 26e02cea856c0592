#include "data/sample_order.h"

#include <algorithm>
#include <bit>

namespace colonnade::data {
namespace {

// With fewer bits the network has too few functions to choose from: some orders of few samples would never come.
constexpr int kFewestBits = 8;
constexpr int kRounds = 8;

constexpr uint64_t LowBits(int bits) { return (uint64_t{1} << bits) - 1; }

}  // namespace

SampleOrder::SampleOrder(uint64_t seed, int64_t epoch, int64_t size)
    : size_(static_cast<uint64_t>(size)),
      key_(program::RandomBlock(seed, program::RandomPurpose::kSampleOrder, 0, static_cast<uint64_t>(epoch), 0)) {
  const int bits = std::max(static_cast<int>(std::bit_width(size_ - 1)), kFewestBits);
  high_bits_ = bits / 2;
  low_bits_ = bits - high_bits_;
}

int64_t SampleOrder::At(int64_t place) const {
  uint64_t number = Permute(static_cast<uint64_t>(place));
  while (number >= size_) number = Permute(number);
  return static_cast<int64_t>(number);
}

uint64_t SampleOrder::Permute(uint64_t number) const {
  uint64_t low = number & LowBits(low_bits_), high = number >> low_bits_;
  for (int round = 0; round < kRounds; round += 2) {
    high ^= RoundOf(round, low) & LowBits(high_bits_);
    low ^= RoundOf(round + 1, high) & LowBits(low_bits_);
  }
  return high << low_bits_ | low;
}

uint64_t SampleOrder::RoundOf(int round, uint64_t half) const {
  const program::Philox4 counter{{static_cast<uint32_t>(half), static_cast<uint32_t>(round), key_.v[2], key_.v[3]}};
  return program::PhiloxRounds(counter, key_.v[0], key_.v[1]).v[0];
}

}  // namespace colonnade::data
