#include "data/resample_avx2.h"

#include <cstring>

#if defined(__x86_64__)

#include <immintrin.h>

// Made for AVX2 whatever the rest is built for, and called only where the machine has it: bytes in vectors of the baseline
// took as long as decoding does.
#define COLONNADE_AVX2 __attribute__((target("avx2")))

namespace colonnade::data {
namespace {

constexpr size_t kPixels = 8;  // that are summed at once: the first four in the lower halves of vectors
constexpr size_t kVectors = kPixels / 2;

bool HasAvx2() { return __builtin_cpu_supports("avx2") != 0; }

COLONNADE_AVX2 inline __m128i Load16(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
COLONNADE_AVX2 inline __m256i Load32(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

int32_t PairAt(const int16_t* weight) {
  int32_t pair;
  std::memcpy(&pair, weight, sizeof(pair));
  return pair;
}

// The sums of 16 columns; kPairs of rows, or any number where that is 0. Of an odd number the last has a partner of weight
// 0.
template <int kPairs>
COLONNADE_AVX2 int64_t SumRowsOf(const uint8_t* pixels, int64_t stride, const int16_t* weight, int64_t taps, int64_t count,
                                 int16_t* out) {
  const int64_t pairs = kPairs == 0 ? (taps + 1) / 2 : kPairs;
  const __m256i half = _mm256_set1_epi32(Axis::kHalfBetween);
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m256i low = half, high = half;
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const uint8_t* upper = pixels + 2 * pair * stride + i;
      const uint8_t* lower = 2 * pair + 1 < taps ? upper + stride : upper;
      const __m256i a = _mm256_cvtepu8_epi16(Load16(upper)), b = _mm256_cvtepu8_epi16(Load16(lower));
      const __m256i weights = _mm256_set1_epi32(PairAt(weight + 2 * pair));
      low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), weights));
      high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), weights));
    }
    low = _mm256_srai_epi32(low, Axis::kToBetween);
    high = _mm256_srai_epi32(high, Axis::kToBetween);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_packs_epi32(low, high));
  }
  return i;
}

// Three channels of two pixels, whose values begin at `left` and `right`: [r g b · | r g b ·].
template <int kPairs>
COLONNADE_AVX2 inline __m256i SumTwo(const int16_t* left, const int16_t* right, const int32_t* weight, int64_t pairs) {
  // Of r g b r g b, two taps: r r g g b b.
  const __m256i taps_together = _mm256_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1,  //
                                                 0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1);
  __m256i sums = _mm256_set1_epi32(Axis::kHalfByte);
  for (int64_t pair = 0; pair < (kPairs == 0 ? pairs : kPairs); ++pair) {
    const __m256i values =
        _mm256_inserti128_si256(_mm256_castsi128_si256(Load16(left + 6 * pair)), Load16(right + 6 * pair), 1);
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_shuffle_epi8(values, taps_together), Load32(weight + 8 * pair)));
  }
  return _mm256_srai_epi32(sums, Axis::kToByte);
}

template <int kPairs>
COLONNADE_AVX2 size_t SumColumnsOf(const int16_t* row, const std::vector<int32_t>& offset, const int32_t* weight,
                                   int64_t pairs, uint8_t* out) {
  // Of r g b ·, four pixels: without the fourth bytes.
  const __m256i three_of_four = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,  //
                                                 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  size_t x = 0;
  for (; x + kPixels <= offset.size(); x += kPixels, out += 3 * kPixels) {
    __m256i sums[kVectors];
    for (size_t i = 0; i < kVectors; ++i, weight += 8 * pairs) {
      sums[i] = SumTwo<kPairs>(row + offset[x + i], row + offset[x + i + kVectors], weight, pairs);
    }
    const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(sums[0], sums[1]), _mm256_packs_epi32(sums[2], sums[3]));
    const __m256i dense = _mm256_shuffle_epi8(bytes, three_of_four);
    const __m128i upper = _mm256_extracti128_si256(dense, 1);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(dense));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + 12), upper);
    const int32_t last = _mm_extract_epi32(upper, 2);
    std::memcpy(out + 20, &last, sizeof(last));
  }
  return x;
}

}  // namespace

int64_t SumRowsByVectors(const uint8_t* pixels, int64_t stride, const int16_t* weight, int64_t taps, int64_t count,
                         int16_t* out) {
  if (!HasAvx2()) return 0;
  if (taps <= 2) return SumRowsOf<1>(pixels, stride, weight, taps, count, out);
  if (taps <= 4) return SumRowsOf<2>(pixels, stride, weight, taps, count, out);
  return SumRowsOf<0>(pixels, stride, weight, taps, count, out);
}

ColumnVectors::ColumnVectors(const Axis& columns) : pairs_(columns.stride() / 2) {
  if (!HasAvx2()) return;
  const size_t stride = static_cast<size_t>(columns.stride());
  for (int64_t first : columns.first) offset_.push_back(static_cast<int32_t>(3 * first));
  weight_.reserve(columns.first.size() * stride * 2);
  for (size_t x = 0; x + kPixels <= columns.first.size(); x += kPixels) {
    for (size_t i = x; i < x + kVectors; ++i) {
      for (size_t k = 0; k < stride; k += 2) {
        weight_.insert(weight_.end(), 4, PairAt(&columns.weight[i * stride + k]));
        weight_.insert(weight_.end(), 4, PairAt(&columns.weight[(i + kVectors) * stride + k]));
      }
    }
  }
}

size_t ColumnVectors::Sum(const int16_t* row, uint8_t* out) const {
  if (pairs_ == 1) return SumColumnsOf<1>(row, offset_, weight_.data(), pairs_, out);
  if (pairs_ == 2) return SumColumnsOf<2>(row, offset_, weight_.data(), pairs_, out);
  return SumColumnsOf<0>(row, offset_, weight_.data(), pairs_, out);
}

}  // namespace colonnade::data

#else

namespace colonnade::data {

int64_t SumRowsByVectors(const uint8_t*, int64_t, const int16_t*, int64_t, int64_t, int16_t*) { return 0; }
ColumnVectors::ColumnVectors(const Axis&) {}
size_t ColumnVectors::Sum(const int16_t*, uint8_t*) const { return 0; }

}  // namespace colonnade::data

#endif
