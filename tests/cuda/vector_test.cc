#include "cuda/kernels/vector.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cuda/backend.h"
#include "cuda/calls.h"
#include "engine/classification.h"
#include "engine/executor.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"

namespace colonnade::cuda {
namespace {

using program::DType;

bool AreVectors(const View& view, int lanes, uintptr_t address = 256) {
  const absl::StatusOr<Walk> walk = WalkOver({view});
  EXPECT_TRUE(walk.ok());
  return LieInVectors(*walk, {{reinterpret_cast<const void*>(address), program::SizeInBytes(view.dtype)}}, lanes);
}

TEST(LieInVectors, WhereNeighboursAreAligned) {
  const View image = Natural(DType::kF32, {2, 8, 3, 3});
  EXPECT_TRUE(AreVectors(image, 4));
  EXPECT_TRUE(AreVectors(image, 8)) << "two accesses of 16 bytes";
  EXPECT_TRUE(AreVectors(Slice(image, {{0, 4, 0, 0}, {2, 4, 3, 3}}), 4)) << "the second half of the channels";
  EXPECT_TRUE(AreVectors(RowMajor(DType::kF32, {144}), 4));
}

TEST(LieInVectors, NotElsewhere) {
  const View image = Natural(DType::kF32, {2, 8, 3, 3});
  EXPECT_FALSE(AreVectors(image, 4, 260)) << "an address between accesses";
  EXPECT_FALSE(AreVectors(Slice(image, {{0, 2, 0, 0}, {2, 4, 3, 3}}), 4)) << "an offset between accesses";
  EXPECT_FALSE(AreVectors(Slice(image, {{0, 0, 0, 0}, {2, 6, 3, 3}}), 4)) << "six channels";
  EXPECT_FALSE(AreVectors(Slice(Natural(DType::kF32, {2, 6, 3, 3}), {{0, 0, 0, 0}, {2, 4, 3, 3}}), 4))
      << "pixels six channels apart";
  View sparse = RowMajor(DType::kF32, {8});
  sparse.strides[0] = 2;
  EXPECT_FALSE(AreVectors(sparse, 4));
}

TEST(LieInVectors, EveryOperandCounts) {
  const View even = RowMajor(DType::kF32, {64});
  View odd = even;
  odd.offset = 1;
  const absl::StatusOr<Walk> walk = WalkOver({even, odd});
  ASSERT_TRUE(walk.ok());
  EXPECT_FALSE(LieInVectors(*walk, {{nullptr, 4}, {nullptr, 4}}, 4));
}

// What kernels of each width do, and how many vectors the longest thread of a reduction has.
class WidthCalls : public HostCalls {
 public:
  struct Counts {
    int64_t wide = 0, narrow = 0, longest = 0;
  };
  explicit WidthCalls(Counts& counts) : HostCalls({.has_memory = false}), counts_(counts) {}
  absl::Status Enqueue(const Stream& stream, const Call& call) override {
    if (const auto* kernel = std::get_if<Kernel>(&call)) std::visit([&](const auto& k) { Count(k); }, *kernel);
    return HostCalls::Enqueue(stream, call);
  }

 private:
  void Add(bool wide, int64_t elements) { (wide ? counts_.wide : counts_.narrow) += elements; }
  void AddThread(int64_t vectors) { counts_.longest = std::max(counts_.longest, vectors); }

  template <template <class, int> class K, class T, int lanes>
  void Count(const K<T, lanes>& kernel) {
    Add(lanes > 1, kernel.count() * lanes);
  }
  template <template <class, class, int> class K, class A, class B, int lanes>
  void Count(const K<A, B, lanes>& kernel) {
    Add(lanes > 1, kernel.count() * lanes);
  }
  template <int lanes>
  void Count(const SgdElements<lanes>& kernel) {
    Add(lanes > 1, kernel.count() * lanes);
  }
  template <int lanes>
  void Count(const AdamWElements<lanes>& kernel) {
    Add(lanes > 1, kernel.count() * lanes);
  }
  template <int lanes>
  void Count(const AverageElements<lanes>& kernel) {
    Add(lanes > 1, kernel.count() * lanes);
  }
  // Of gates and norms alone, which no network of these tests has.
  void Count(const SquareRanges&) {}
  void Count(const SumSquares&) {}
  void Count(const OpenGate&) {}
  void Count(const CopyElements& kernel) {
    const bool wide = kernel.element_bytes == kWidestAccess;
    Add(wide, kernel.count() * (wide ? 4 : 1));
  }
  template <class T, int lanes>
  void Count(const ChannelSums<T, lanes>& kernel) {
    Add(lanes > 1, kernel.walk.count * kernel.channels);
    AddThread(kernel.walk.count / kernel.parts / (kThreadsOfBlock / kernel.columns()));
  }
  template <class Terms>
  void Count(const PairSums<Terms>& kernel) {
    Add(Terms::kLanes > 1, kernel.positions.count * kernel.groups * kernel.channels);
    AddThread(kernel.positions.count / kernel.parts / (kThreadsOfBlock / kernel.columns()));
  }
  template <class T, int lanes>
  void Count(const LayerNormMoments<T, lanes>& kernel) {
    CountColumns(kernel.over);
  }
  template <class T, int lanes>
  void Count(const LayerNormGradientMeans<T, lanes>& kernel) {
    CountColumns(kernel.over);
  }
  template <int lanes>
  void CountColumns(const PositionColumns<lanes>& over) {
    Add(lanes > 1, over.positions() * over.image.c);
    AddThread(over.image.c / lanes / (kThreadsOfBlock / over.positions_of_block));
  }
  void Count(const SumPairParts& kernel) { AddThread(kernel.parts / (kThreadsOfBlock / kernel.columns())); }
  void Count(const SumChannelParts& kernel) { AddThread(kernel.parts / (kThreadsOfBlock / kernel.columns())); }
  void Count(const FiniteTensors& kernel) {
    for (int t = 0; t < kernel.count; ++t) {
      const CheckedTensor& tensor = kernel.tensors[t];
      Add(true, tensor.elements);
      AddThread(tensor.elements / FiniteTensors::kLanes / tensor.blocks / kThreadsOfBlock);
    }
  }
  void Count(const FlagTensors& kernel) {
    for (int t = 0; t < kernel.of.count; ++t) AddThread(kernel.of.tensors[t].blocks / kThreadsOfBlock);
  }
  // Softmax and folding. A kernel in vectors that nothing above counts does not compile.
  template <template <class...> class K, class... T>
  void Count(const K<T...>&) {}
  void Count(const SumMetrics&) {}
  void Count(const CountOfLabels&) {}
  // Of channels, not elements.
  void Count(const SumGroups&) {}
  void Count(const FinishGradientSums&) {}
  void Count(const ForwardCoefficients&) {}
  void Count(const BackwardCoefficients&) {}
  void Count(const TrackChannels&) {}
  void Count(const RecallChannels&) {}
  void Count(const PutSumPairs&) {}

  Counts& counts_;
};

// Where the speed of our own kernels comes from: but for the three channels of the input, all of the zoo lies in vectors,
// and no thread of a reduction, for which a GPU would wait, has much to do.
TEST(Vectors, MoveNearlyAllElementsOfTheZoo) {
  constexpr int64_t kBatch = 256, kLongestThread = 80;
  for (const std::string model : {"alexnet2012", "alexnet"}) {
    for (const std::string plan_name : {"single", "hybrid", "data"}) {
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        SCOPED_TRACE(model + " " + plan_name + " " + program::Name(dtype));
        const int devices = plan_name == "single" ? 1 : plan_name == "hybrid" ? 4 : 3;
        const int64_t batch = kBatch / devices * devices;
        const auto graph = models::BuildModel(model, {});
        ASSERT_TRUE(graph.ok());
        const auto plan = partition::NamedPlan(plan_name, *graph, {.devices = devices, .global_batch = batch});
        ASSERT_TRUE(plan.ok()) << plan.status();
        const auto program = partition::Lower(*graph, *plan, {.global_batch = batch, .dtype = dtype});
        ASSERT_TRUE(program.ok()) << program.status();
        WidthCalls::Counts counts;
        auto backend = MakeCudaBackend({.devices = devices}, std::make_unique<WidthCalls>(counts));
        ASSERT_TRUE(backend.ok());
        auto executor = engine::Executor::Create(*program, **backend);
        ASSERT_TRUE(executor.ok()) << executor.status();
        ASSERT_TRUE((*executor)->NextInput<float>(engine::kImages).ok());
        ASSERT_TRUE((*executor)->Enqueue({.step = 0}).ok());
        ASSERT_TRUE((*executor)->Collect().ok());
        EXPECT_GT(counts.wide, 0);
        const double narrow = static_cast<double>(counts.narrow) / static_cast<double>(counts.wide + counts.narrow);
        // In f32 images are loaded as they are, three channels to a pixel: a larger share than at small batches.
        EXPECT_LT(narrow, dtype == DType::kBF16 ? 0.02 : 0.10)
            << counts.narrow << " of " << counts.wide + counts.narrow << " elements one by one";
        EXPECT_LE(counts.longest, kLongestThread) << "vectors that one thread adds up in turn";
        const std::string name = absl::StrCat(model, "_", plan_name, "_", program::Name(dtype));
        RecordProperty(name + "_narrow", std::to_string(narrow));
        RecordProperty(name + "_longest", std::to_string(counts.longest));
      }
    }
  }
}

}  // namespace
}  // namespace colonnade::cuda
