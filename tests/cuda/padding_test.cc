// Images of bf16 in whole vectors of channels.
#include <cmath>
#include <memory>
#include <vector>

#include "cuda/backend.h"
#include "cuda/copy.h"
#include "cuda/layout.h"
#include "engine/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "run_kernel.h"

namespace colonnade::cuda {
namespace {

using program::BFloat16;
using program::DType;

TEST(Padding, ViewsOfWholePixelsArePadded) {
  const View image = PaddedImage(DType::kBF16, {4, 3, 5, 6}, 8);
  EXPECT_EQ(image.strides, (program::Shape{5 * 6 * 8, 1, 6 * 8, 8}));
  EXPECT_EQ(PaddedChannels(image), 8);
  EXPECT_FALSE(IsDense(image));
  EXPECT_EQ(PaddedChannels(Slice(image, {{1, 0, 0, 0}, {2, 3, 5, 6}})), 8) << "some samples";
  EXPECT_EQ(PaddedChannels(Slice(image, {{0, 0, 0, 0}, {4, 2, 5, 6}})), 0) << "some channels: the third is no zero";
  EXPECT_EQ(PaddedChannels(Slice(image, {{0, 0, 1, 0}, {4, 3, 2, 6}})), 0) << "some rows: not one range";
  EXPECT_EQ(PaddedChannels(Slice(Natural(DType::kBF16, {4, 8, 5, 6}), {{0, 0, 0, 0}, {4, 3, 5, 6}})), 0)
      << "a box of an image of eight channels, whose others hold numbers";
}

TEST(Padding, EveryElementAndEveryZeroIsWritten) {
  for (int64_t channels : {1, 3, 7, 11}) {
    SCOPED_TRACE(channels);
    const program::Shape shape = {2, channels, 3, 5};
    const int64_t room = (channels + 7) / 8 * 8, pixels = 2 * 3 * 5;
    std::vector<float> x(program::ElementCount(shape));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97);
    std::vector<Vector<BFloat16, 8>> vectors(pixels * room / 8);
    BFloat16* y = vectors[0].of;
    std::fill_n(y, pixels * room, BFloat16(NAN));  // what others left there
    const View from = RowMajor(DType::kF32, shape), to = PaddedImage(DType::kBF16, shape, room);
    RunKernelOnHost(std::get<Kernel>(PadCall({from, reinterpret_cast<char*>(x.data())}, {to, reinterpret_cast<char*>(y)})));
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t c = 0; c < room; ++c) {
        for (int64_t p = 0; p < 15; ++p) {
          const float expected = c < channels ? x[(n * channels + c) * 15 + p] : 0;
          EXPECT_EQ(static_cast<float>(y[(n * 15 + p) * room + c]), expected);
        }
      }
    }
  }
}

// Notes the convolutions that run.
class ConvolutionCalls : public HostCalls {
 public:
  explicit ConvolutionCalls(std::vector<Convolution>& seen) : HostCalls({.has_memory = false}), seen_(seen) {}
  absl::Status Enqueue(const Stream& stream, const Call& call) override {
    if (const auto* convolution = std::get_if<Convolution>(&call)) seen_.push_back(*convolution);
    return HostCalls::Enqueue(stream, call);
  }

 private:
  std::vector<Convolution>& seen_;
};

TEST(Padding, ConvolutionsOfTheZooReadWholeVectorsInBf16) {
  const auto graph = models::BuildModel("alexnet2012", {});
  ASSERT_TRUE(graph.ok());
  for (const auto& [dtype, first_channels] : {std::pair(DType::kBF16, 8), {DType::kF32, 3}}) {
    for (int devices : {1, 2}) {
      const auto plan =
          partition::NamedPlan(devices > 1 ? "model" : "single", *graph, {.devices = devices, .global_batch = 4});
      ASSERT_TRUE(plan.ok()) << plan.status();
      const auto program = partition::Lower(*graph, *plan, {.global_batch = 4, .dtype = dtype});
      ASSERT_TRUE(program.ok()) << program.status();
      std::vector<Convolution> seen;
      auto backend = MakeCudaBackend({.devices = devices}, std::make_unique<ConvolutionCalls>(seen));
      ASSERT_TRUE(backend.ok());
      auto executor = engine::Executor::Create(*program, **backend);
      ASSERT_TRUE(executor.ok()) << executor.status();
      ASSERT_TRUE((*executor)->NextImages().ok());
      ASSERT_TRUE((*executor)->Enqueue({.step = 0}).ok());
      ASSERT_TRUE((*executor)->Collect().ok());
      int first = 0;
      for (const Convolution& convolution : seen) {
        if (convolution.h != 227) continue;
        ++first;
        EXPECT_EQ(convolution.c, first_channels);
      }
      EXPECT_EQ(first, 2 * devices) << "forward, and the gradient of weights";
    }
  }
}

}  // namespace
}  // namespace colonnade::cuda
