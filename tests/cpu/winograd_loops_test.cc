// The loops of winograd_loops.h for each instruction set that this processor has, against direct sums in double: tests of
// ops run the widest alone.
#include "cpu/ops/winograd_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "cpu/ops/instruction_set.h"
#include "program/bfloat16.h"
#include "tests/cpu/guarded_images.h"
#include "tests/cpu/loops_fixture.h"
#include "tests/sanitized.h"

namespace colonnade::cpu {
namespace {

std::vector<const WinogradLoops*> LoopsHere() {
#if defined(__x86_64__)
  return AllOf(&kWinogradLoopsAvx512, &kWinogradLoopsAvx2);
#else
  return {};
#endif
}

// x [images, x_blocks, rows, columns, 16] and y [images, y_blocks, rows + …, …, 16], with tiles of y.
struct Case {
  int64_t window, taps;
  TiledImages x, y;
  int64_t images, tiles, room;

  int64_t x_floats() const { return images * x.blocks * x.rows * x.columns * 16; }
  int64_t y_floats() const { return images * y.blocks * y.rows * y.columns * 16; }
  // Pixel of channel `c`; zero outside of the image.
  static double At(const TiledImages& of, const Images& data, int64_t n, int64_t c, int64_t row, int64_t column) {
    if (row < 0 || row >= of.rows || column < 0 || column >= of.columns) return 0;
    return data[(((n * of.blocks + c / 16) * of.rows + row) * of.columns + column) * 16 + c % 16];
  }
};

class WinogradLoopsTest : public LoopsFixture {
 protected:
  Case Draw() {
    const int64_t window = Between(0, 1) == 0 ? 3 : 5, most_pad = window - 1;
    Case drawn = {.window = window, .taps = window * window, .images = Between(1, 3)};
    const int64_t pad_top = Between(0, most_pad), pad_left = Between(0, most_pad);
    drawn.x = {.window = window,
               .bf16 = Between(0, 1) == 0,
               .blocks = Between(1, 3),
               .rows = Between(5, 11),
               .columns = Between(5, 11)};
    drawn.y = {.window = window,
               .bf16 = Between(0, 1) == 0,
               .blocks = Between(1, 2),
               .rows = drawn.x.rows + pad_top + Between(0, most_pad) - most_pad,
               .columns = drawn.x.columns + pad_left + Between(0, most_pad) - most_pad};
    drawn.y.down = (drawn.y.rows + 3) / 4, drawn.y.across = (drawn.y.columns + 3) / 4;
    drawn.x.down = drawn.y.down, drawn.x.across = drawn.y.across;
    drawn.x.top = pad_top, drawn.x.left = pad_left;
    drawn.tiles = drawn.images * drawn.y.down * drawn.y.across;
    drawn.room = drawn.tiles + kSpareTiles;
    return drawn;
  }
  // What is fetched ahead changes nothing.
  Ahead SomeAhead(const Case& of, Images& x, Images& y) {
    return {TilesAhead{of.x, x.data(), 0, Between(0, of.tiles), 0, of.x.blocks},
            TilesAhead{of.y, y.data(), 0, Between(0, of.tiles), of.y.blocks - 1, 1}};
  }
};

TEST_F(WinogradLoopsTest, ConvolveAsDirectSumsDo) {
  for (int round = 0; round < Draws(32); ++round) {
    const Case of = Draw();
    const int64_t inputs = of.x.blocks * 16, outputs = of.y.blocks * 16, points = Points(of.window);
    Images x(of.x.bf16, Floats(of.x_floats()));
    const std::vector<float> w = Floats(outputs * inputs * of.taps), bias = Floats(outputs);
    const bool relu = Between(0, 1) == 0, has_bias = Between(0, 1) == 0;
    for (const WinogradLoops* loops : LoopsHere()) {
      std::vector<float> u(outputs * inputs * points), v(points * PointFloats(of.x.blocks, of.room));
      std::vector<float> m(of.y.blocks * points * PointFloats(1, of.room));
      Images y(of.y.bf16, Floats(of.y_floats()));
      for (int64_t k = 0; k < outputs; k += 16) {
        for (int64_t c = 0; c < inputs; ++c) {
          std::vector<float> taps(of.taps * 16);
          for (int64_t i = 0; i < of.taps * 16; ++i) taps[i] = w[((k + i % 16) * inputs + c) * of.taps + i / 16];
          loops->transform_weights(of.window, taps.data(), inputs * 16, u.data() + k * points * inputs + c * 16);
        }
      }
      const int64_t half = of.tiles / 2;  // in two parts, as a thread does
      loops->read_patches(of.x, x.data(), 0, half, of.room, v.data());
      loops->read_patches(of.x, x.data(), half, of.tiles - half, of.room, v.data() + half * 16);
      loops->multiply(of.window, of.tiles, of.x.blocks, of.y.blocks, of.room, v.data(), PointFloats(of.x.blocks, of.room),
                      u.data(), m.data(), SomeAhead(of, x, y));
      for (int64_t k = 0; k < of.y.blocks; ++k) {
        loops->write_tiles(of.y, m.data() + k * points * PointFloats(1, of.room), k, 0, of.tiles, of.room,
                           has_bias ? bias.data() + k * 16 : nullptr, relu, y.data());
      }
      for (int64_t i = 0; i < of.y_floats(); ++i) {
        const int64_t pixels = of.y.rows * of.y.columns, k = i / 16 / pixels % of.y.blocks * 16 + i % 16;
        const int64_t n = i / 16 / pixels / of.y.blocks, row = i / 16 % pixels / of.y.columns,
                      column = i / 16 % of.y.columns;
        double sum = has_bias ? bias[k] : 0;
        for (int64_t c = 0; c < inputs; ++c) {
          for (int64_t tap = 0; tap < of.taps; ++tap) {
            sum += w[(k * inputs + c) * of.taps + tap] *
                   Case::At(of.x, x, n, c, row - of.x.top + tap / of.window, column - of.x.left + tap % of.window);
          }
        }
        const double expected = relu ? std::max(sum, 0.0) : sum;
        ASSERT_NEAR(y[i], expected, 5e-4 + (of.y.bf16 ? std::ldexp(std::abs(expected), -8) : 0))
            << loops->vectors << " element " << i;
      }
      EXPECT_TRUE(y.GuardsHold(of.y_floats())) << loops->vectors << ": written beside y";
    }
  }
}

// Each lane's bias, as no product is added to it.
TEST_F(WinogradLoopsTest, RoundToBf16AsOthersDo) {
  const std::vector<float> bias = {
      0.0f,     -0.0f,     1.0f, 1.00390625f, 1.01171875f, 1.0039064f,   1.0039062f, -1.5e-38f,
      INFINITY, -INFINITY, NAN,  3.4e38f,     1e-45f,      -1.01171875f, 65280.5f,   std::bit_cast<float>(0x7fffffffu)};
  const TiledImages of = {.window = 3, .bf16 = true, .blocks = 1, .rows = 3, .columns = 2, .down = 1, .across = 1};
  const int64_t room = 1 + kSpareTiles;
  const std::vector<float> m(Points(3) * PointFloats(1, room));
  for (const WinogradLoops* loops : LoopsHere()) {
    std::vector<program::BFloat16> y(6 * 16);
    loops->write_tiles(of, m.data(), 0, 0, 1, room, bias.data(), /*relu=*/false, y.data());
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(y[i].bits, program::BFloat16::BitsOf(bias[i % 16] + 0.0f)) << loops->vectors << ": " << bias[i % 16];
    }
  }
}

TEST_F(WinogradLoopsTest, GradientsOfWeightsAreAdded) {
  for (int round = 0; round < Draws(32); ++round) {
    const Case of = Draw();
    const int64_t inputs = of.x.blocks * 16, outputs = of.y.blocks * 16, points = Points(of.window);
    Images x(of.x.bf16, Floats(of.x_floats())), dy(of.y.bf16, Floats(of.y_floats()));
    for (const WinogradLoops* loops : LoopsHere()) {
      const int64_t v_point = PointFloats(of.x.blocks, of.room), z_point = PointFloats(of.y.blocks, of.room);
      std::vector<float> v(points * v_point), z(points * z_point), s(points * 16 * outputs),
          dw(of.taps * inputs * outputs, 0.5f);
      loops->read_patches(of.x, x.data(), 0, of.tiles, of.room, v.data());
      loops->read_tiles(of.y, dy.data(), 0, of.tiles, of.room, z.data());
      for (int64_t c = 0; c < inputs; c += 16) {
        loops->sum_products(of.window, of.tiles, of.y.blocks, of.room, v.data() + c * of.room, v_point, z.data(), z_point,
                            s.data(), SomeAhead(of, x, dy));
        for (int64_t i = 0; i < 16; ++i) {
          for (int64_t k = 0; k < outputs; k += 16) {
            loops->add_weights(of.window, s.data() + i * outputs + k, 16 * outputs, inputs * outputs,
                               dw.data() + (c + i) * outputs + k);
          }
        }
      }
      for (int64_t i = 0; i < of.taps * inputs * outputs; ++i) {
        const int64_t tap = i / outputs / inputs, c = i / outputs % inputs, k = i % outputs;
        double sum = 0.5;
        for (int64_t n = 0; n < of.images; ++n) {
          for (int64_t pixel = 0; pixel < of.y.rows * of.y.columns; ++pixel) {
            const int64_t row = pixel / of.y.columns, column = pixel % of.y.columns;
            sum += Case::At(of.y, dy, n, k, row, column) *
                   Case::At(of.x, x, n, c, row - of.x.top + tap / of.window, column - of.x.left + tap % of.window);
          }
        }
        ASSERT_NEAR(dw[i], sum, 5e-4) << loops->vectors << " element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace colonnade::cpu
