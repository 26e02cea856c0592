// The loops of winograd_loops.h for each instruction set that this processor has, against direct sums in double: tests of
// ops run the widest alone.
#include "cpu/ops/winograd_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "cpu/ops/instruction_set.h"
#include "program/formulas/bfloat16.h"
#include "tests/cpu/guarded_images.h"
#include "tests/cpu/loops_fixture.h"
#include "tests/sanitized.h"

namespace colonnade::cpu {
namespace {

template <class Factor>
std::vector<const WinogradLoops<Factor>*> LoopsHere(int64_t window);
#if defined(__x86_64__)
template <>
std::vector<const WinogradLoops<float>*> LoopsHere<float>(int64_t window) {
  return window == 3 ? AllOf(&kWinograd3Avx512, &kWinograd3Avx2) : AllOf(&kWinograd5Avx512, &kWinograd5Avx2);
}
template <>
std::vector<const WinogradLoops<Bf16>*> LoopsHere<Bf16>(int64_t) {
  return HasAvx512Bf16() ? std::vector{&kWinograd3Avx512Bf16} : std::vector<const WinogradLoops<Bf16>*>{};
}
#else
template <class Factor>
std::vector<const WinogradLoops<Factor>*> LoopsHere(int64_t) {
  return {};
}
#endif

// x [images, x_blocks, rows, columns, 16] and y [images, y_blocks, rows + …, …, 16], with tiles of y.
struct Case {
  int64_t window, taps, points;
  TiledImages x, y;
  int64_t images, tiles, room;

  int64_t x_floats() const { return images * x.blocks * x.rows * x.columns * (x.stride == 1 ? 16 : 1); }
  int64_t y_floats() const { return images * y.blocks * y.rows * y.columns * 16; }
  // Pixel of channel `c`; zero outside of the image.
  static double At(const TiledImages& of, const Images& data, int64_t n, int64_t c, int64_t row, int64_t column) {
    if (row < 0 || row >= of.rows || column < 0 || column >= of.columns) return 0;
    return data[(((n * of.blocks + c / 16) * of.rows + row) * of.columns + column) * 16 + c % 16];
  }
  // What the first tap of an output at (row, column) reads of channel `c`; others lie behind it.
  double InputAt(const Images& data, int64_t n, int64_t c, int64_t row, int64_t column) const {
    if (x.stride == 1) return At(x, data, n, c, row - x.top, column - x.left);
    const int64_t of_square = c % 16, image_row = row * x.stride - x.top + of_square / x.stride,
                  image_column = column * x.stride - x.left + of_square % x.stride;
    if (image_row < 0 || image_row >= x.rows || image_column < 0 || image_column >= x.columns) return 0;
    return data[((n * x.blocks + c / 16) * x.rows + image_row) * x.columns + image_column];
  }
};

// Of loops that multiply `Factor`s.
template <class Factor>
class WinogradLoopsTest : public LoopsFixture {
 protected:
  static constexpr bool kIsBf16 = kFactorsOfSum<Factor> == 2;

  void SetUp() override {
    LoopsFixture::SetUp();
    if (kIsBf16 && LoopsHere<Factor>(3).empty()) GTEST_SKIP() << "skipped: this processor has no AVX512_BF16";
  }

  // Whole numbers where they are rounded to bf16: sums of few of them are not rounded then.
  std::vector<float> Numbers(int64_t count) {
    std::vector<float> numbers = Floats(count);
    for (float& number : numbers) number = kIsBf16 ? std::round(number * 4) : number;
    return numbers;
  }

  Case Draw() {
    constexpr int64_t kTile = kTileSize<Factor>;
    const int64_t window = kIsBf16 || Between(0, 1) == 0 ? 3 : 5, most_pad = window - 1;
    Case drawn = {.window = window, .taps = window * window, .points = Points(kTile, window), .images = Between(1, 3)};
    const int64_t pad_top = Between(0, most_pad), pad_left = Between(0, most_pad);
    drawn.x = {.tile = kTile,
               .bf16 = Between(0, 1) == 0,
               .blocks = Between(1, 3),
               .rows = Between(5, 11),
               .columns = Between(5, 11)};
    drawn.y = {.tile = kTile,
               .bf16 = Between(0, 1) == 0,
               .blocks = Between(1, 2),
               .rows = drawn.x.rows + pad_top + Between(0, most_pad) - most_pad,
               .columns = drawn.x.columns + pad_left + Between(0, most_pad) - most_pad};
    if (Between(0, 2) == 0) {
      const int64_t taps_behind = (window - 1) * kSquareSize;
      drawn.x.stride = kSquareSize;
      drawn.x.rows = drawn.y.rows * kSquareSize + Between(-3, taps_behind);
      drawn.x.columns = drawn.y.columns * kSquareSize + Between(-3, taps_behind);
    }
    drawn.y.down = (drawn.y.rows + kTile - 1) / kTile, drawn.y.across = (drawn.y.columns + kTile - 1) / kTile;
    drawn.x.down = drawn.y.down, drawn.x.across = drawn.y.across;
    drawn.x.top = pad_top, drawn.x.left = pad_left;  // pixels, also of squares
    drawn.tiles = drawn.images * drawn.y.down * drawn.y.across;
    drawn.room = (drawn.tiles + kSpareTiles + 1) / 2 * 2;
    return drawn;
  }
  // What is fetched ahead changes nothing.
  Ahead SomeAhead(const Case& of, Images& x, Images& y) {
    return {TilesAhead{of.x, x.data(), 0, of.x.stride == 1 ? Between(0, of.tiles) : 0, 0, of.x.blocks},
            TilesAhead{of.y, y.data(), 0, Between(0, of.tiles), of.y.blocks - 1, 1}};
  }
  // Joins the rows of all points and blocks.
  static void JoinTiles(const WinogradLoops<Factor>& loops, int64_t points, int64_t blocks, int64_t room,
                        std::vector<Factor>& tiles) {
    for (int64_t p = 0; p < points; ++p) loops.join_rows(blocks * room, &tiles[p * PointSize<Factor>(blocks, room)]);
  }
};
using AllFactors = testing::Types<float, Bf16>;
class NamesOfFactors {
 public:
  template <class Factor>
  static std::string GetName(int) {
    return kFactorsOfSum<Factor> == 2 ? "Bf16" : "F32";
  }
};
TYPED_TEST_SUITE(WinogradLoopsTest, AllFactors, NamesOfFactors);

TYPED_TEST(WinogradLoopsTest, ConvolveAsDirectSumsDo) {
  using Factor = TypeParam;
  for (int round = 0; round < Draws(32); ++round) {
    const Case of = this->Draw();
    const int64_t inputs = of.x.blocks * 16, outputs = of.y.blocks * 16, points = of.points;
    const int64_t v_point = PointSize<Factor>(of.x.blocks, of.room), m_point = PointSize<float>(1, of.room);
    Images x(of.x.bf16, this->Numbers(of.x_floats()));
    std::vector<float> w = this->Numbers(outputs * inputs * of.taps);
    if (this->kIsBf16) absl::c_for_each(w, [](float& weight) { weight *= 4; });  // which G divides by 4
    const std::vector<float> bias = this->Numbers(outputs);
    const bool relu = this->Between(0, 1) == 0, has_bias = this->Between(0, 1) == 0;
    for (const WinogradLoops<Factor>* loops : LoopsHere<Factor>(of.window)) {
      std::vector<Factor> u(outputs * inputs * points), v(points * v_point);
      std::vector<float> m(of.y.blocks * points * m_point);
      Images y(of.y.bf16, this->Numbers(of.y_floats()));
      for (int64_t k = 0; k < outputs; k += 16) {
        for (int64_t c = 0; c < inputs; ++c) {
          std::vector<float> taps(of.taps * 16);
          for (int64_t i = 0; i < of.taps * 16; ++i) taps[i] = w[((k + i % 16) * inputs + c) * of.taps + i / 16];
          loops->transform_weights(taps.data(), inputs * 16, u.data() + k * points * inputs + c * 16);
        }
      }
      loops->join_rows(of.y.blocks * points * inputs, u.data());
      const int64_t half = of.tiles / 2;  // in two parts, as a thread does
      loops->read_patches(of.x, x.data(), 0, half, of.room, v.data());
      loops->read_patches(of.x, x.data(), half, of.tiles - half, of.room, v.data() + half * 16);
      loops->multiply(of.tiles, of.x.blocks, of.y.blocks, of.room, v.data(), v_point, u.data(), m.data(),
                      this->SomeAhead(of, x, y));
      for (int64_t k = 0; k < of.y.blocks; ++k) {
        loops->write_tiles(of.y, m.data() + k * points * m_point, k, 0, of.tiles, of.room,
                           has_bias ? bias.data() + k * 16 : nullptr, relu, y.data());
      }
      for (int64_t i = 0; i < of.y_floats(); ++i) {
        const int64_t pixels = of.y.rows * of.y.columns, k = i / 16 / pixels % of.y.blocks * 16 + i % 16;
        const int64_t n = i / 16 / pixels / of.y.blocks, row = i / 16 % pixels / of.y.columns,
                      column = i / 16 % of.y.columns;
        double sum = has_bias ? bias[k] : 0;
        for (int64_t c = 0; c < inputs; ++c) {
          for (int64_t tap = 0; tap < of.taps; ++tap) {
            sum +=
                w[(k * inputs + c) * of.taps + tap] * of.InputAt(x, n, c, row + tap / of.window, column + tap % of.window);
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
TYPED_TEST(WinogradLoopsTest, RoundToBf16AsOthersDo) {
  using Factor = TypeParam;
  const std::vector<float> bias = {
      0.0f,     -0.0f,     1.0f, 1.00390625f, 1.01171875f, 1.0039064f,   1.0039062f, -1.5e-38f,
      INFINITY, -INFINITY, NAN,  3.4e38f,     1e-45f,      -1.01171875f, 65280.5f,   std::bit_cast<float>(0x7fffffffu)};
  constexpr int64_t kTile = kTileSize<Factor>, kTiles = 4 / kTile;
  const TiledImages of = {.tile = kTile, .bf16 = true, .blocks = 1, .rows = 3, .columns = 2, .down = kTiles, .across = 1};
  const int64_t room = kTiles + kSpareTiles;
  const std::vector<float> m(Points(kTile, 3) * PointSize<float>(1, room));
  for (const WinogradLoops<Factor>* loops : LoopsHere<Factor>(3)) {
    std::vector<program::BFloat16> y(6 * 16);
    loops->write_tiles(of, m.data(), 0, 0, kTiles, room, bias.data(), /*relu=*/false, y.data());
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(y[i].bits, program::BFloat16::BitsOf(bias[i % 16] + 0.0f)) << loops->vectors << ": " << bias[i % 16];
    }
  }
}

TYPED_TEST(WinogradLoopsTest, GradientsOfWeightsAreAdded) {
  using Factor = TypeParam;
  for (int round = 0; round < Draws(32); ++round) {
    const Case of = this->Draw();
    const int64_t inputs = of.x.blocks * 16, outputs = of.y.blocks * 16, points = of.points;
    const int64_t v_point = PointSize<Factor>(of.x.blocks, of.room), z_point = PointSize<Factor>(of.y.blocks, of.room);
    Images x(of.x.bf16, this->Numbers(of.x_floats())), dy(of.y.bf16, this->Numbers(of.y_floats()));
    for (const WinogradLoops<Factor>* loops : LoopsHere<Factor>(of.window)) {
      std::vector<Factor> v(points * v_point), z(points * z_point);
      std::vector<float> s(points * 16 * outputs), dw(of.taps * inputs * outputs, 0.5f), db(outputs, 0.5f);
      loops->read_patches(of.x, x.data(), 0, of.tiles, of.room, v.data());
      loops->read_tiles(of.y, dy.data(), 0, of.tiles, of.room, z.data(), db.data());
      this->JoinTiles(*loops, points, of.x.blocks, of.room, v);
      this->JoinTiles(*loops, points, of.y.blocks, of.room, z);
      for (int64_t c = 0; c < inputs; c += 16) {
        loops->sum_products(of.tiles, of.y.blocks, of.room, v.data() + c * of.room, v_point, z.data(), z_point, s.data(),
                            this->SomeAhead(of, x, dy));
        for (int64_t i = 0; i < 16; ++i) {
          for (int64_t k = 0; k < outputs; k += 16) {
            loops->add_weights(s.data() + i * outputs + k, 16 * outputs, inputs * outputs,
                               dw.data() + (c + i) * outputs + k);
          }
        }
      }
      for (int64_t k = 0; k < outputs; ++k) {
        double sum = 0.5;
        for (int64_t n = 0; n < of.images; ++n) {
          for (int64_t pixel = 0; pixel < of.y.rows * of.y.columns; ++pixel) {
            sum += Case::At(of.y, dy, n, k, pixel / of.y.columns, pixel % of.y.columns);
          }
        }
        ASSERT_NEAR(db[k], sum, 5e-4) << loops->vectors << " output " << k;
      }
      for (int64_t i = 0; i < of.taps * inputs * outputs; ++i) {
        const int64_t tap = i / outputs / inputs, c = i / outputs % inputs, k = i % outputs;
        double sum = 0.5;
        for (int64_t n = 0; n < of.images; ++n) {
          for (int64_t pixel = 0; pixel < of.y.rows * of.y.columns; ++pixel) {
            const int64_t row = pixel / of.y.columns, column = pixel % of.y.columns;
            sum +=
                Case::At(of.y, dy, n, k, row, column) * of.InputAt(x, n, c, row + tap / of.window, column + tap % of.window);
          }
        }
        ASSERT_NEAR(dw[i], sum, 5e-4) << loops->vectors << " element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace colonnade::cpu
