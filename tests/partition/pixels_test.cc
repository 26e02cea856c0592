// Images that the host gives as bytes: under every plan a network computes what it computes of their values.

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/partition/random_run.h"
#include "tests/sanitized.h"

namespace colonnade::partition {
namespace {

absl::StatusOr<std::unique_ptr<engine::Backend>> OracleOn(int devices) {
  return cpu::MakeCpuBackend({.devices = devices, .threads_per_device = 1, .kernels = cpu::CpuOptions::Kernels::kReference});
}

// Random bytes [n,H,W,C] and their values [n,C,H,W].
Batch DrawPixels(Random& random, const RandomNetwork& network, int64_t n) {
  Batch batch = DrawBatch(random, network, n, /*exact=*/false);
  const program::PixelScaling scaling = PixelsFor(network.graph);
  const program::Shape& sample = network.graph.nodes[0].sample_shape;
  const int64_t channels = sample[0], plane = sample[1] * sample[2];
  batch.pixels.resize(batch.images.size());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t at = 0; at < plane; ++at) {
      for (int64_t c = 0; c < channels; ++c) {
        const auto byte = static_cast<uint8_t>(random());
        batch.pixels[(i * plane + at) * channels + c] = byte;
        batch.images[(i * channels + c) * plane + at] = static_cast<float>(scaling.scale[c] * byte + scaling.shift[c]);
      }
    }
  }
  return batch;
}

TEST(Pixels, BytesUnderRandomPlansGiveTheBitsOfTheirValues) {
  Random random(1912);
  for (int i = 0; i < Draws(40); ++i) {
    const Drawn drawn = DrawCase(random, /*exact=*/false);
    const Batch batch = DrawPixels(random, drawn.network, drawn.batch);
    LowerOptions options{.global_batch = drawn.batch, .dtype = program::DType::kF64, .expose_gradients = true};
    Tensors parameters;
    const auto values =
        RunSteps(drawn.network.graph, drawn.plan, options, OracleOn, batch, nullptr, random, false, 3, &parameters);
    ASSERT_TRUE(values.ok()) << values.status() << "\n" << Describe(drawn, i);
    options.pixels = PixelsFor(drawn.network.graph);
    const auto bytes =
        RunSteps(drawn.network.graph, drawn.plan, options, OracleOn, batch, &parameters, random, false, 3, nullptr);
    ASSERT_TRUE(bytes.ok()) << bytes.status() << "\n" << Describe(drawn, i);
    EXPECT_EQ(bytes->losses, values->losses) << Describe(drawn, i);
    EXPECT_EQ(bytes->gradients, values->gradients) << Describe(drawn, i);
    EXPECT_EQ(bytes->parameters, values->parameters) << Describe(drawn, i);
  }
}

TEST(Pixels, AreScaledByNumbersThatF32Holds) {
  Random random(3);
  const Drawn drawn = DrawCase(random, /*exact=*/false);
  for (double number : {std::nan(""), 1e39}) {
    program::PixelScaling pixels = PixelsFor(drawn.network.graph);
    pixels.shift[0] = number;
    const auto program = Lower(drawn.network.graph, drawn.plan, {.global_batch = drawn.batch, .pixels = pixels});
    EXPECT_EQ(program.status().code(), absl::StatusCode::kFailedPrecondition) << number;
  }
}

TEST(Pixels, WantANumberForEachChannel) {
  Random random(3);
  const Drawn drawn = DrawCase(random, /*exact=*/false);
  for (int missing : {0, 1}) {
    program::PixelScaling pixels = PixelsFor(drawn.network.graph);
    (missing == 0 ? pixels.scale : pixels.shift).push_back(1);
    const auto program = Lower(drawn.network.graph, drawn.plan, {.global_batch = drawn.batch, .pixels = pixels});
    EXPECT_EQ(program.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(program.status().message().find("pixels: expected a scale and a shift for each of"), std::string::npos);
  }
}

}  // namespace
}  // namespace colonnade::partition
