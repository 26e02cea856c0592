// The loops of row_loops.h for each instruction set that this processor has, against sums in double: tests of ops run the
// widest alone.
#include "cpu/ops/row_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cpu/ops/instruction_set.h"
#include "tests/cpu/loops_fixture.h"

namespace colonnade::cpu {
namespace {

std::vector<const RowLoops*> LoopsHere() {
#if defined(__x86_64__)
  return AllOf(&kRowLoopsAvx512, &kRowLoopsAvx2);
#else
  return {};
#endif
}

class RowLoopsTest : public LoopsFixture {
 protected:
  int64_t Below(int64_t bound) { return Between(0, bound - 1); }
  RowConvolution Draw() {
    RowConvolution of = {.inputs = 1 + Below(5), .outputs = 1 + Below(19), .rows = 1 + Below(6), .columns = 8 + Below(30)};
    of.window_rows = 1 + Below(4);
    of.window_columns = Below(2) == 0 ? 3 : 5;
    of.pitch = (of.columns + 15) / 16 * 16 + of.window_columns - 1;
    of.plane = (of.rows + of.window_rows - 1) * of.pitch;
    return of;
  }
};

std::string Describe(const RowConvolution& of, int64_t tile) {
  return testing::PrintToString(
      std::vector<int64_t>{of.inputs, of.outputs, of.rows, of.columns, of.window_rows, of.window_columns, tile});
}

TEST_F(RowLoopsTest, ConvolveSumsTapsAndBias) {
  for (int round = 0; round < 60; ++round) {
    const RowConvolution of = Draw();
    const int64_t taps = of.inputs * of.window_rows * of.window_columns, plane = of.rows * of.columns;
    const std::vector<float> x = Floats(of.inputs * of.plane + 16), w = Floats(of.outputs * taps), bias = Floats(of.outputs);
    const bool relu = Below(2) == 0, has_bias = Below(2) == 0;
    for (const RowLoops* loops : LoopsHere()) {
      const int64_t tile = 1 + Below(loops->outputs);
      std::vector<float> packed;
      for (int64_t first = 0; first < of.outputs; first += tile) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          for (int64_t k = first; k < std::min(first + tile, of.outputs); ++k) packed.push_back(w[k * taps + tap]);
        }
      }
      std::vector<float> y(of.outputs * plane + 16, 7.0f);
      loops->convolve(of, tile, x.data(), packed.data(), has_bias ? bias.data() : nullptr, relu, y.data());
      for (int64_t i = 0; i < of.outputs * plane; ++i) {
        const int64_t k = i / plane, row = i % plane / of.columns, column = i % of.columns;
        double sum = has_bias ? bias[k] : 0;
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t c = tap / (of.window_rows * of.window_columns), r = tap / of.window_columns % of.window_rows;
          sum += static_cast<double>(w[k * taps + tap]) *
                 x[c * of.plane + (row + r) * of.pitch + column + tap % of.window_columns];
        }
        ASSERT_NEAR(y[i], relu ? std::max(sum, 0.0) : sum, 1e-5) << Describe(of, tile) << " lanes " << loops->lanes;
      }
      EXPECT_EQ(std::count(y.end() - 16, y.end(), 7.0f), 16) << "written beyond y: " << Describe(of, tile);
    }
  }
}

TEST_F(RowLoopsTest, AddGradientAddsProductsOfAllImages) {
  for (int round = 0; round < 60; ++round) {
    const RowConvolution of = Draw();
    RowGradient over = {.images = 1 + Below(3), .dy_pitch = (of.columns + 15) / 16 * 16};
    over.x_image = of.inputs * of.plane;
    over.dy_plane = of.rows * over.dy_pitch;
    over.dy_image = of.outputs * over.dy_plane;
    const std::vector<float> x = Floats(over.images * over.x_image + 16);
    std::vector<float> dy = Floats(over.images * over.dy_image);
    for (size_t i = 0; i < dy.size(); ++i) {
      if (static_cast<int64_t>(i) % over.dy_pitch >= of.columns) dy[i] = 0;
    }
    for (const RowLoops* loops : LoopsHere()) {
      const int64_t tile = 1 + Below(loops->accumulators / of.window_columns);
      std::vector<float> sums(of.outputs * of.inputs * of.window_rows * of.window_columns * loops->lanes, 0.25f);
      loops->add_gradient(of, over, tile, x.data(), dy.data(), sums.data());
      const float* at = sums.data();
      for (int64_t first = 0; first < of.outputs; first += tile) {
        for (int64_t c = 0; c < of.inputs; ++c) {
          for (int64_t r = 0; r < of.window_rows; ++r) {
            for (int64_t k = first; k < std::min(first + tile, of.outputs); ++k) {
              for (int64_t s = 0; s < of.window_columns; ++s, at += loops->lanes) {
                double expected = 0, found = 0;
                for (int64_t lane = 0; lane < loops->lanes; ++lane) found += at[lane] - 0.25;
                for (int64_t n = 0; n < over.images; ++n) {
                  for (int64_t p = 0; p < of.rows; ++p) {
                    for (int64_t q = 0; q < of.columns; ++q) {
                      expected += static_cast<double>(x[n * over.x_image + c * of.plane + (p + r) * of.pitch + q + s]) *
                                  dy[n * over.dy_image + k * over.dy_plane + p * over.dy_pitch + q];
                    }
                  }
                }
                ASSERT_NEAR(found, expected, 2e-5) << Describe(of, tile) << " lanes " << loops->lanes;
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(RowLoopsTest, TakeCellsKeepsTheFirstLargest) {
  for (int round = 0; round < 100; ++round) {
    const int64_t stride = 1 + Below(2), begin = Below(16), end = begin + Below(17 - begin);
    std::vector<float> x = Floats(16 * stride), before = Floats(16);
    x[Below(x.size())] = NAN;
    for (int64_t i = 0; i < 16; i += 3) before[i] = x[i * stride];  // equal: the first counts
    std::vector<int32_t> places(16);
    for (int32_t& place : places) place = Below(2) == 0 ? kNowhere : 3;
    for (const RowLoops* loops : LoopsHere()) {
      std::vector<float> value = before;
      std::vector<int32_t> place = places;
      loops->take_cells(x.data(), stride, 9, begin, end, value.data(), place.data());
      for (int64_t i = 0; i < 16; ++i) {
        const bool takes = i >= begin && i < end && (places[i] == kNowhere || x[i * stride] > before[i]);
        EXPECT_EQ(place[i], takes ? 9 : places[i]) << i << " of [" << begin << ", " << end << ")";
        const float expected = takes ? x[i * stride] : before[i];
        EXPECT_TRUE(value[i] == expected || (std::isnan(value[i]) && std::isnan(expected))) << i;
      }
    }
  }
}

TEST_F(RowLoopsTest, AddRowAddsByLane) {
  const std::vector<float> row = Floats(64);
  for (const RowLoops* loops : LoopsHere()) {
    std::vector<float> sums(16, 1.0f);
    loops->add_row(row.data(), 64, sums.data());
    for (int64_t i = 0; i < 16; ++i) EXPECT_FLOAT_EQ(sums[i], 1 + row[i] + row[i + 16] + row[i + 32] + row[i + 48]);
  }
}

}  // namespace
}  // namespace colonnade::cpu
