// The loops of winograd_loops.h for each instruction set that this processor has, against direct sums in double: tests of
// ops run the widest alone.
#include "cpu/ops/winograd_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cpu/ops/instruction_set.h"

namespace colonnade::cpu {
namespace {

std::vector<std::pair<std::string, const WinogradLoops*>> LoopsHere() {
  std::vector<std::pair<std::string, const WinogradLoops*>> loops;
#if defined(__x86_64__)
  if (HasAvx2()) loops.push_back({"AVX2", &kWinogradLoopsAvx2});
  if (HasAvx512()) loops.push_back({"AVX-512", &kWinogradLoopsAvx512});
#endif
  return loops;
}

constexpr float kOutside = 1e9f;  // around images: what must not be read shows

// x [images, x_blocks, rows, columns, 16] and y [images, y_blocks, rows + …, …, 16], with tiles of y.
struct Case {
  int64_t window, taps;
  TiledImages x, y;
  int64_t images, tiles, room;

  int64_t x_floats() const { return images * x.blocks * x.rows * x.columns * 16; }
  int64_t y_floats() const { return images * y.blocks * y.rows * y.columns * 16; }
  // Pixel of channel `c`; zero outside of the image.
  static double At(const TiledImages& of, const std::vector<float>& data, int64_t n, int64_t c, int64_t row,
                   int64_t column) {
    if (row < 0 || row >= of.rows || column < 0 || column >= of.columns) return 0;
    return data[kGuard + (((n * of.blocks + c / 16) * of.rows + row) * of.columns + column) * 16 + c % 16];
  }
  static constexpr int64_t kGuard = 64;
};

class WinogradLoopsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (LoopsHere().empty()) GTEST_SKIP() << "this processor has neither AVX-512 nor AVX2 with FMA";
  }

  int64_t Between(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  std::vector<float> Floats(int64_t count) {
    std::vector<float> floats(count);
    std::generate(floats.begin(), floats.end(), [&] { return std::uniform_real_distribution<float>(-1, 1)(random_); });
    return floats;
  }
  // Between guards.
  std::vector<float> Images(int64_t count) {
    std::vector<float> floats = Floats(count);
    floats.insert(floats.begin(), Case::kGuard, kOutside);
    floats.insert(floats.end(), Case::kGuard, kOutside);
    return floats;
  }
  Case Draw() {
    const int64_t window = Between(0, 1) == 0 ? 3 : 5, size = TileSize(window), most_pad = window - 1;
    Case drawn = {.window = window, .taps = window * window, .images = Between(1, 3)};
    const int64_t pad_top = Between(0, most_pad), pad_left = Between(0, most_pad);
    drawn.x = {.size = size, .blocks = Between(1, 3), .rows = Between(5, 11), .columns = Between(5, 11)};
    drawn.y = {.size = size,
               .blocks = Between(1, 2),
               .rows = drawn.x.rows + pad_top + Between(0, most_pad) - most_pad,
               .columns = drawn.x.columns + pad_left + Between(0, most_pad) - most_pad};
    drawn.y.down = (drawn.y.rows + size - 1) / size, drawn.y.across = (drawn.y.columns + size - 1) / size;
    drawn.x.down = drawn.y.down, drawn.x.across = drawn.y.across;
    drawn.x.top = pad_top, drawn.x.left = pad_left;
    drawn.tiles = drawn.images * drawn.y.down * drawn.y.across;
    drawn.room = drawn.tiles + kSpareTiles;
    return drawn;
  }
  // What is fetched ahead changes nothing.
  Ahead SomeAhead(const Case& of, const std::vector<float>& x, const std::vector<float>& y) {
    return {TilesAhead{of.x, x.data() + Case::kGuard, 0, Between(0, of.tiles), 0, of.x.blocks},
            TilesAhead{of.y, y.data() + Case::kGuard, 0, Between(0, of.tiles), of.y.blocks - 1, 1}};
  }

  std::mt19937 random_{20261125};
};

TEST_F(WinogradLoopsTest, ConvolveAsDirectSumsDo) {
  for (int round = 0; round < 30; ++round) {
    const Case of = Draw();
    const int64_t inputs = of.x.blocks * 16, outputs = of.y.blocks * 16;
    const std::vector<float> x = Images(of.x_floats()), w = Floats(outputs * inputs * of.taps), bias = Floats(outputs);
    const bool relu = Between(0, 1) == 0, has_bias = Between(0, 1) == 0;
    for (const auto& [name, loops] : LoopsHere()) {
      std::vector<float> u(outputs * inputs * kPoints), v(kPoints * PointFloats(of.x.blocks, of.room));
      std::vector<float> m(of.y.blocks * kPoints * PointFloats(1, of.room)), y(of.y_floats() + 2 * Case::kGuard, kOutside);
      for (int64_t k = 0; k < outputs; k += 16) {
        for (int64_t c = 0; c < inputs; ++c) {
          std::vector<float> taps(of.taps * 16);
          for (int64_t i = 0; i < of.taps * 16; ++i) taps[i] = w[((k + i % 16) * inputs + c) * of.taps + i / 16];
          loops->transform_weights(of.window, taps.data(), inputs * 16, u.data() + k * kPoints * inputs + c * 16);
        }
      }
      const int64_t half = of.tiles / 2;  // in two parts, as a thread does
      loops->read_patches(of.x, x.data() + Case::kGuard, 0, half, of.room, v.data());
      loops->read_patches(of.x, x.data() + Case::kGuard, half, of.tiles - half, of.room, v.data() + half * 16);
      loops->multiply(of.tiles, of.x.blocks, of.y.blocks, of.room, v.data(), PointFloats(of.x.blocks, of.room), u.data(),
                      m.data(), SomeAhead(of, x, y));
      for (int64_t k = 0; k < of.y.blocks; ++k) {
        loops->write_tiles(of.y, m.data() + k * kPoints * PointFloats(1, of.room), k, 0, of.tiles, of.room,
                           has_bias ? bias.data() + k * 16 : nullptr, relu, y.data() + Case::kGuard);
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
        ASSERT_NEAR(y[Case::kGuard + i], relu ? std::max(sum, 0.0) : sum, 5e-4) << name << " element " << i;
      }
      EXPECT_EQ(std::count(y.begin(), y.begin() + Case::kGuard, kOutside), Case::kGuard) << name << ": written before y";
      EXPECT_EQ(std::count(y.end() - Case::kGuard, y.end(), kOutside), Case::kGuard) << name << ": written behind y";
    }
  }
}

TEST_F(WinogradLoopsTest, GradientsOfWeightsAreAdded) {
  for (int round = 0; round < 30; ++round) {
    const Case of = Draw();
    const int64_t inputs = of.x.blocks * 16, outputs = of.y.blocks * 16;
    const std::vector<float> x = Images(of.x_floats()), dy = Images(of.y_floats());
    for (const auto& [name, loops] : LoopsHere()) {
      const int64_t v_point = PointFloats(of.x.blocks, of.room), z_point = PointFloats(of.y.blocks, of.room);
      std::vector<float> v(kPoints * v_point), z(kPoints * z_point), s(kPoints * 16 * outputs),
          dw(of.taps * inputs * outputs, 0.5f);
      loops->read_patches(of.x, x.data() + Case::kGuard, 0, of.tiles, of.room, v.data());
      loops->read_tiles(of.y, dy.data() + Case::kGuard, 0, of.tiles, of.room, z.data());
      for (int64_t c = 0; c < inputs; c += 16) {
        loops->sum_products(of.tiles, of.y.blocks, of.room, v.data() + c * of.room, v_point, z.data(), z_point, s.data(),
                            SomeAhead(of, x, dy));
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
        ASSERT_NEAR(dw[i], sum, 5e-4) << name << " element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace colonnade::cpu
