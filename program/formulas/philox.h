// Counter-based random numbers: the value depends on (seed, purpose, step, element index) alone, so every plan draws the
// same.
//
// Philox4x32-10. Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
#ifndef COLONNADE_PROGRAM_FORMULAS_PHILOX_H_
#define COLONNADE_PROGRAM_FORMULAS_PHILOX_H_

#include <array>
#include <cmath>
#include <cstdint>

#include "program/formulas/host_device.h"

namespace colonnade::program {

// What random numbers are for: numbers of different purposes never meet.
enum class RandomPurpose : uint32_t {
  kInitialWeights = 1,
  kDropout = 2,
  kSampleOrder = 3,
  kAugmentation = 4,
  kSyntheticData = 5,
  kMachineProfile = 6
};

struct Philox4 {
  uint32_t v[4];
};

// Returns the ten rounds on counter c and key k.
COLONNADE_HOST_DEVICE inline Philox4 PhiloxRounds(Philox4 c, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c.v[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c.v[2];
    c = {{static_cast<uint32_t>(p1 >> 32) ^ c.v[1] ^ k0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c.v[3] ^ k1, static_cast<uint32_t>(p0)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Stream (seed, purpose, stream, step) of random words, in blocks of four. Streams: a layer, a parameter, an epoch. The
// counter is (index, step mixed with stream); the key is (seed, purpose).
class RandomStream {
 public:
  COLONNADE_HOST_DEVICE RandomStream(uint64_t seed, RandomPurpose purpose, uint32_t stream, uint64_t step)
      : key_(PhiloxRounds(
            {{static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32), stream, static_cast<uint32_t>(purpose)}},
            static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32))) {}

  COLONNADE_HOST_DEVICE Philox4 Block(uint64_t index) const {
    return PhiloxRounds({{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), key_.v[2], key_.v[3]}},
                        key_.v[0], key_.v[1]);
  }

 private:
  Philox4 key_;
};

// Block `index` of a stream.
COLONNADE_HOST_DEVICE inline Philox4 RandomBlock(uint64_t seed, RandomPurpose purpose, uint32_t stream, uint64_t step,
                                                 uint64_t index) {
  return RandomStream(seed, purpose, stream, step).Block(index);
}

// Uniform in [0, 1) with 24 random bits, exact in float.
COLONNADE_HOST_DEVICE inline float UniformFloat(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// Uniform in [0, 1) with 53 random bits.
COLONNADE_HOST_DEVICE inline double UniformDouble(uint32_t high, uint32_t low) {
  return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

// Returns the element `index` of a stream of standard normal numbers (Box and Muller 1958); elements 2i and 2i+1 share one
// block.
inline double Gaussian(uint64_t seed, RandomPurpose purpose, uint32_t stream, uint64_t step, uint64_t index) {
  const Philox4 r = RandomBlock(seed, purpose, stream, step, index / 2);
  const double radius = std::sqrt(-2.0 * std::log1p(-UniformDouble(r.v[0], r.v[1])));
  const double angle = 6.283185307179586476925 * UniformDouble(r.v[2], r.v[3]);
  return index % 2 == 0 ? radius * std::cos(angle) : radius * std::sin(angle);
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_FORMULAS_PHILOX_H_
