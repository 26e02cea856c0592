// The order of the samples of an epoch: a permutation that is computed place by place, in constant memory.
//
// It is a function of (seed, epoch, size) alone, so each sample comes exactly once in an epoch, whatever threads, devices
// and batches cut it. A Feistel network on the bits of the place permutes the numbers below a power of two; a number that is
// not below `size` goes through it again until one is (cycle walking). Sources: Luby & Rackoff 1988; Black & Rogaway 2002,
// section 3. Thread rule: a value that any number of threads may read.
#ifndef COLONNADE_DATA_SAMPLE_ORDER_H_
#define COLONNADE_DATA_SAMPLE_ORDER_H_

#include <cstdint>

#include "program/formulas/philox.h"

namespace colonnade::data {

class SampleOrder {
 public:
  // REQUIRES: 1 <= size <= 2^62.
  SampleOrder(uint64_t seed, int64_t epoch, int64_t size);

  // REQUIRES: 0 <= place < size.
  int64_t At(int64_t place) const;

 private:
  uint64_t Permute(uint64_t number) const;
  uint64_t RoundOf(int round, uint64_t half) const;

  uint64_t size_;
  int low_bits_, high_bits_;
  program::Philox4 key_;
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_SAMPLE_ORDER_H_
