// On a GPU: every engine that may compute a convolution in f32 gives exact integers, whichever is chosen later.
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda/driver/convolution_graph.h"
#include "cuda/engine_choices.h"
#include "gtest/gtest.h"

namespace colonnade::cuda {
namespace {

constexpr int64_t kMostWorkspace = int64_t{512} << 20;

struct Free {
  void operator()(void* data) const { cudaFree(data); }
};
using DeviceMemory = std::unique_ptr<void, Free>;

DeviceMemory Allocate(int64_t bytes) {
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, bytes), cudaSuccess);
  return DeviceMemory(data);
}

using Numbers = std::vector<float>;

// A convolution on the host, by its definition; and the numbers of x, filter and y as channels-last tensors.
class HostConvolution {
 public:
  explicit HostConvolution(const Convolution& c) : c_(c) {
    const program::Window& window = c.window;
    const std::array<int64_t, 3> sizes = {c.n * c.h * c.w * c.c, c.k * window.size_h * window.size_w * (c.c / c.groups),
                                          c.n * c.p * c.q * c.k};
    for (int tensor = 0; tensor < 3; ++tensor) {
      tensors_[tensor].resize(sizes[tensor]);
      if (tensor != written()) Fill(tensor == (written() == 2 ? 0 : 2), tensors_[tensor]);
    }
    expected_.resize(tensors_[written()].size());
    ForEachProduct([&](int64_t x, int64_t filter, int64_t y) {
      const std::array<int64_t, 3> at = {x, filter, y};
      double product = 1;
      for (int tensor = 0; tensor < 3; ++tensor) product *= tensor == written() ? 1 : tensors_[tensor][at[tensor]];
      expected_[at[written()]] += product;
    });
  }
  int written() const {
    return c_.direction == Convolution::Direction::kForward           ? 2
           : c_.direction == Convolution::Direction::kBackwardWeights ? 1
                                                                      : 0;
  }
  const std::array<Numbers, 3>& tensors() const { return tensors_; }
  const std::vector<double>& expected() const { return expected_; }

 private:
  // One factor is odd numbers of 12 bits, which tf32 and bf16 round, the other −1, 0 and 1: sums of 4096 products are exact
  // in f32.
  void Fill(bool is_wide, Numbers& numbers) {
    for (float& number : numbers) {
      const int drawn = static_cast<int>(random_() % 4096);
      number = static_cast<float>(is_wide ? 2 * drawn - 4095 : drawn % 3 - 1);
    }
  }

  // f(element of x, of filter, of y)
  template <class F>
  void ForEachProduct(F f) const {
    const program::Window& window = c_.window;
    const int64_t group_c = c_.c / c_.groups, group_k = c_.k / c_.groups, outputs = c_.n * c_.p * c_.q * c_.k;
    for (int64_t y = 0; y < outputs; ++y) {
      const int64_t k = y % c_.k, q = y / c_.k % c_.q, p = y / c_.k / c_.q % c_.p, n = y / c_.k / c_.q / c_.p;
      for (int64_t r = 0; r < window.size_h; ++r) {
        for (int64_t s = 0; s < window.size_w; ++s) {
          const int64_t h = p * window.stride_h + r - window.pad_top, w = q * window.stride_w + s - window.pad_left;
          if (h < 0 || w < 0 || h >= c_.h || w >= c_.w) continue;
          for (int64_t c = 0; c < group_c; ++c) {
            f(((n * c_.h + h) * c_.w + w) * c_.c + k / group_k * group_c + c,
              ((k * window.size_h + r) * window.size_w + s) * group_c + c, y);
          }
        }
      }
    }
  }

  const Convolution c_;
  std::minstd_rand random_;
  std::array<Numbers, 3> tensors_;
  std::vector<double> expected_;
};

class CudnnEngines : public testing::TestWithParam<Convolution> {
 protected:
  void SetUp() override {
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) GTEST_SKIP() << "skipped: no CUDA device";
    ASSERT_EQ(cudnnCreate(&gpu_.handle), CUDNN_STATUS_SUCCESS);
  }
  void TearDown() override {
    if (gpu_.handle != nullptr) cudnnDestroy(gpu_.handle);
  }

  void Check(Convolution c) {
    const HostConvolution host(c);
    std::array<DeviceMemory, 3> tensors;
    for (int tensor = 0; tensor < 3; ++tensor) tensors[tensor] = Allocate(host.tensors()[tensor].size() * sizeof(float));
    const DeviceMemory workspace = Allocate(kMostWorkspace);
    c.x = tensors[0].get(), c.filter = tensors[1].get(), c.y = tensors[2].get(), c.workspace = workspace.get();
    const auto graph = ConvolutionGraph::Make(c, gpu_);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto engines = graph->Engines();
    ASSERT_TRUE(engines.ok()) << engines.status();
    const auto addresses = AddressesOf(c);
    ASSERT_TRUE(addresses.ok()) << addresses.status();
    int ran = 0;
    for (const Engine& engine : *engines) {
      std::string settings;
      for (const auto& [type, value] : engine.knobs) settings += " " + std::to_string(type) + "=" + std::to_string(value);
      SCOPED_TRACE("engine " + std::to_string(engine.index) + settings + " for " + KeyOf(c));
      const auto plan = graph->Plan(engine);
      if (!plan.ok() || plan->workspace_bytes > kMostWorkspace) continue;
      for (int tensor = 0; tensor < 3; ++tensor) {
        const Numbers& numbers = host.tensors()[tensor];
        ASSERT_EQ(cudaMemcpy(tensors[tensor].get(), numbers.data(), numbers.size() * sizeof(float), cudaMemcpyHostToDevice),
                  cudaSuccess);
      }
      const absl::Status executed = Execute(gpu_.handle, *plan, *addresses);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      ASSERT_TRUE(executed.ok()) << executed;
      Numbers found(host.expected().size());
      ASSERT_EQ(
          cudaMemcpy(found.data(), tensors[host.written()].get(), found.size() * sizeof(float), cudaMemcpyDeviceToHost),
          cudaSuccess);
      int64_t off = 0;
      for (size_t i = 0; i < found.size(); ++i) off += found[i] != host.expected()[i];
      EXPECT_EQ(off, 0) << "of " << found.size();
      ++ran;
    }
    EXPECT_GT(ran, 0);
  }

 private:
  DnnGpu gpu_{.name = "GPU 0"};
};

TEST_P(CudnnEngines, GiveExactIntegersInF32) {
  for (auto direction :
       {Convolution::Direction::kForward, Convolution::Direction::kBackwardData, Convolution::Direction::kBackwardWeights}) {
    Convolution c = GetParam();
    c.direction = direction;
    Check(c);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, CudnnEngines,
    testing::Values(
        Convolution{.n = 48, .c = 2, .h = 8, .w = 8, .k = 12, .p = 8, .q = 8, .window = {3, 3, 1, 1, 1, 1, 1, 1}},
        Convolution{.n = 3, .c = 16, .h = 9, .w = 9, .k = 32, .p = 9, .q = 9, .window = {3, 3, 1, 1, 1, 1, 1, 1}},
        Convolution{.n = 4, .c = 64, .h = 14, .w = 14, .k = 64, .p = 14, .q = 14, .window = {3, 3, 1, 1, 1, 1, 1, 1}},
        Convolution{
            .n = 4, .c = 24, .h = 6, .w = 6, .k = 12, .p = 6, .q = 6, .groups = 2, .window = {3, 3, 1, 1, 1, 1, 1, 1}},
        Convolution{.n = 5, .c = 8, .h = 13, .w = 13, .k = 16, .p = 13, .q = 13, .window = {5, 5, 1, 1, 2, 2, 2, 2}},
        Convolution{.n = 2, .c = 3, .h = 31, .w = 31, .k = 16, .p = 7, .q = 7, .window = {11, 11, 4, 4, 2, 2, 2, 2}},
        Convolution{.n = 4, .c = 32, .h = 7, .w = 7, .k = 64, .p = 7, .q = 7, .window = {1, 1, 1, 1, 0, 0, 0, 0}}),
    [](const auto& info) {
      const Convolution& c = info.param;
      return std::to_string(c.c) + "_to_" + std::to_string(c.k) + "_of_" + std::to_string(c.window.size_h) + "_" +
             std::to_string(info.index);
    });

}  // namespace
}  // namespace colonnade::cuda
