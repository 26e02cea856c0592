// The loops of block_loops.h for each instruction set that this processor has, against direct sums in double: tests of ops
// run the widest alone.
#include "cpu/ops/block_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/ops/instruction_set.h"
#include "program/formulas/bfloat16.h"
#include "tests/cpu/guarded_images.h"
#include "tests/cpu/loops_fixture.h"
#include "tests/sanitized.h"

namespace colonnade::cpu {
namespace {

using program::BFloat16;

std::vector<const BlockLoops*> LoopsHere() {
#if defined(__x86_64__)
  return AllOf(&kBlockLoopsAvx512, &kBlockLoopsAvx2);
#else
  return {};
#endif
}

class BlockLoopsTest : public LoopsFixture {
 protected:
  PoolAxis DrawAxis() {
    PoolAxis axis = {.size = Between(1, 4), .stride = Between(1, 4)};
    axis.pad = Between(0, axis.size - 1);
    axis.cells = Between(std::max<int64_t>(1, axis.size - axis.pad), 9);
    const int64_t pad_end = Between(0, axis.size - 1);
    axis.windows = (axis.cells + axis.pad + pad_end - axis.size) / axis.stride + 1;
    return axis;
  }
};

// Some pixels, [first, first + pixels) of `image_pixels`, of a group of channels of the image [blocks, image_pixels, 16].
struct LrnCase {
  BlockedPixels of;
  FiveChannelLrn lrn;
  int64_t image_pixels, first;

  int64_t elements() const { return of.blocks * image_pixels * 16; }
  int64_t channels() const { return of.blocks * 16; }
  int64_t At(int64_t channel, int64_t pixel) const { return (channel / 16 * image_pixels + pixel) * 16 + channel % 16; }
  bool Works(int64_t i) const { return i / 16 % image_pixels >= first && i / 16 % image_pixels < first + of.pixels; }
  // Σ f(j) over the channels of the window of element `i`, of which f gets the elements.
  template <class F>
  double SumWindow(int64_t i, const F& f) const {
    const int64_t pixel = i / 16 % image_pixels, channel = i / 16 / image_pixels * 16 + i % 16;
    double sum = 0;
    for (int64_t c = std::max<int64_t>(0, channel - 2); c < std::min(channels(), channel + 3); ++c) sum += f(At(c, pixel));
    return sum;
  }
  double Scale(const Images& x, int64_t i) const {
    return lrn.k + lrn.alpha_over_size * SumWindow(i, [&](int64_t j) { return static_cast<double>(x[j]) * x[j]; });
  }
  double Forward(const Images& x, int64_t i) const { return x[i] * std::pow(Scale(x, i), -0.75); }
  double Backward(const Images& x, const Images& dy, int64_t i) const {
    const double sum =
        SumWindow(i, [&](int64_t j) { return static_cast<double>(dy[j]) * x[j] * std::pow(Scale(x, j), -1.75); });
    return dy[i] * std::pow(Scale(x, i), -0.75) - 2 * lrn.alpha_over_size * 0.75 * x[i] * sum;
  }
  double Allowed(double expected) const { return 2e-6 + (of.bf16 ? std::ldexp(std::abs(expected), -8) : 0); }
};

TEST_F(BlockLoopsTest, NormaliseSomePixelsOfAGroupOfChannels) {
  for (int round = 0; round < Draws(48); ++round) {
    const int64_t image_pixels = Between(1, 13), first = Between(0, image_pixels - 1);
    LrnCase of = {.lrn = {0.5F, static_cast<float>(Between(1, 2))}, .image_pixels = image_pixels, .first = first};
    of.of = {Between(0, 1) == 0, Between(1, 4), Between(1, image_pixels - first), image_pixels * 16};
    Images x(of.of.bf16, Floats(of.elements())), dy(of.of.bf16, Floats(of.elements()));
    const int64_t begin = first * 16 * (of.of.bf16 ? 2 : 4);  // byte
    for (const BlockLoops* loops : LoopsHere()) {
      const std::vector<float> before = std::vector<float>(of.elements(), 0.5F);
      Images y(of.of.bf16, before), dx(of.of.bf16, before);
      std::vector<float> scratch(LrnScratchFloats(of.of) + 16, kOutside);
      const auto at = [&](Images& images) { return static_cast<char*>(images.data()) + begin; };
      loops->lrn_forward(of.of, of.lrn, at(x), at(y));
      loops->lrn_backward(of.of, of.lrn, at(x), at(dy), scratch.data(), at(dx));
      for (int64_t i = 0; i < of.elements(); ++i) {
        const double forward = of.Works(i) ? of.Forward(x, i) : 0.5, backward = of.Works(i) ? of.Backward(x, dy, i) : 0.5;
        ASSERT_NEAR(y[i], forward, of.Allowed(forward)) << loops->vectors << " element " << i;
        ASSERT_NEAR(dx[i], backward, of.Allowed(backward)) << loops->vectors << " element " << i;
      }
      EXPECT_TRUE(y.GuardsHold(of.elements()) && dx.GuardsHold(of.elements()))
          << loops->vectors << ": written beside the images";
      EXPECT_EQ(std::count(scratch.end() - 16, scratch.end(), kOutside), 16)
          << loops->vectors << ": written behind the scratch";
    }
  }
}

// Calls f(h, w, place) for the cells of window (p, q) in row-major order.
template <class F>
void ForEachCell(const BlockPooling& of, int64_t p, int64_t q, const F& f) {
  for (int64_t place = 0; place < of.rows.size * of.columns.size; ++place) {
    const int64_t h = p * of.rows.stride - of.rows.pad + place / of.columns.size;
    const int64_t w = q * of.columns.stride - of.columns.pad + place % of.columns.size;
    if (h >= 0 && h < of.rows.cells && w >= 0 && w < of.columns.cells) f(h, w, place);
  }
}

TEST_F(BlockLoopsTest, PoolMaximaAndGiveTheirGradients) {
  for (int round = 0; round < Draws(96); ++round) {
    const BlockPooling of = {.rows = DrawAxis(), .columns = DrawAxis()};
    const int64_t planes = Between(1, 3), in = planes * of.x_plane(), out = planes * of.y_plane();
    std::vector<float> values = Floats(in);
    if (round % 2 == 0) {  // equal values and such as compare with nothing
      for (float& value : values) {
        value = Between(0, 5) == 0 ? std::numeric_limits<float>::quiet_NaN() : std::round(2 * value);
      }
    }
    const Images x(true, values), dy(true, Floats(out));
    std::vector<double> maxima(out), gradients(in);
    std::vector<int64_t> places(out);
    for (int64_t i = 0; i < out; ++i) {
      const int64_t plane = i / of.y_plane(), q = i / 16 % of.columns.windows,
                    p = i / 16 / of.columns.windows % of.rows.windows;
      int64_t largest = -1;
      ForEachCell(of, p, q, [&](int64_t h, int64_t w, int64_t place) {
        const int64_t cell = plane * of.x_plane() + h * of.x_row() + w * 16 + i % 16;
        if (largest < 0 || x[cell] > x[largest]) largest = cell, places[i] = place;
      });
      maxima[i] = x[largest];
      gradients[largest] += dy[i];
    }
    for (const BlockLoops* loops : LoopsHere()) {
      const auto halves = [](const Images& images) { return static_cast<const uint16_t*>(images.data()); };
      Images y(true, Floats(out)), evaluated(true, Floats(out)), dx(true, Floats(in));
      std::vector<uint8_t> argmax(out + 16, 77);
      std::vector<float> sums(of.x_row() + 16, kOutside);
      loops->take_maxima(of, planes, halves(x), static_cast<uint16_t*>(y.data()), argmax.data());
      loops->take_maxima(of, planes, halves(x), static_cast<uint16_t*>(evaluated.data()), nullptr);
      loops->give_gradients(of, planes, argmax.data(), halves(dy), sums.data(), static_cast<uint16_t*>(dx.data()));
      for (int64_t i = 0; i < out; ++i) {
        ASSERT_EQ(argmax[i], places[i]) << loops->vectors << " element " << i;
        ASSERT_EQ(BFloat16(y[i]).bits, BFloat16(static_cast<float>(maxima[i])).bits) << loops->vectors << " element " << i;
        ASSERT_EQ(BFloat16(evaluated[i]).bits, BFloat16(y[i]).bits) << loops->vectors << " element " << i;
      }
      for (int64_t i = 0; i < in; ++i)
        ASSERT_NEAR(dx[i], gradients[i], 1e-6 + std::ldexp(std::abs(gradients[i]), -8)) << loops->vectors;
      EXPECT_TRUE(y.GuardsHold(out) && evaluated.GuardsHold(out) && dx.GuardsHold(in)) << loops->vectors;
      EXPECT_EQ(std::count(argmax.end() - 16, argmax.end(), 77), 16) << loops->vectors << ": written behind argmax";
      EXPECT_EQ(std::count(sums.end() - 16, sums.end(), kOutside), 16) << loops->vectors << ": written behind the sums";
    }
  }
}

}  // namespace
}  // namespace colonnade::cpu
