// What cuDNN says of our convolutions on GPUs that are not there: every one must have an engine.
#include <cudnn.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/session/session.h"
#include "cuda/backend.h"
#include "cuda/driver/convolution_runner.h"
#include "cuda/load/space_to_depth.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "partition/lower.h"
#include "tests/cpu/op_case_run.h"
#include "tests/cpu/op_cases.h"
#include "tests/cuda/host_calls.h"

namespace colonnade::cuda {
namespace {

// The published figures; clocks are those under load.
constexpr char kA100[] = R"({"deviceVer": 800, "driverVer": 13000, "cudaDeviceId": 0, "deviceName": "A100",
  "totalGlobalMem": 85899345920, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "regsPerBlock": 65536, "multiProcessorCount": 108, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 166912, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
  "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
  "supportCoopLaunch": 1, "smClockRateKHz": 1410000, "memClockRateKHz": 1593000, "l2CacheSize": 41943040})";
constexpr char kH200[] = R"({"deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "deviceName": "H200",
  "totalGlobalMem": 151397597184, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
  "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
  "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "l2CacheSize": 62914560})";

struct KindOfGpu {
  std::string name;
  const char* json;
};
void PrintTo(const KindOfGpu& kind, std::ostream* out) { *out << kind.name; }
const KindOfGpu kKinds[] = {{"A100", kA100}, {"H200", kH200}};

DnnGpu GpuOf(const KindOfGpu& kind) {
  absl::StatusOr<Descriptor> properties = PropertiesFromJson(kind.json);
  EXPECT_TRUE(properties.ok()) << properties.status();
  return {.name = kind.name, .properties = properties.ok() ? *std::move(properties) : nullptr};
}

// Engines that write f32 from bf16 cuDNN compiles when asked, which takes a driver of CUDA: here it may have none.
struct Counts {
  int prepared = 0, fused = 0, refused = 0, summands_refused = 0;
  std::vector<std::string> without_engine;  // and with nothing fused to them
};

// Calls that run nothing, with cuDNN's own choices.
class DnnCalls : public HostCalls {
 public:
  DnnCalls(const KindOfGpu& kind, Counts& counts) : HostCalls({.has_memory = false}), counts_(counts) {
    convolutions_.AddGpu(GpuOf(kind));
  }
  absl::StatusOr<int64_t> Prepare(int gpu, Call& call) override {
    auto* convolution = std::get_if<Convolution>(&call);
    if (convolution == nullptr) return HostCalls::Prepare(gpu, call);
    const bool fuses = convolution->bias != nullptr || convolution->relu;
    absl::StatusOr<int64_t> bytes = convolutions_.Prepare(gpu, *convolution);
    if (convolution->writes_f32 && !bytes.ok()) {
      ++counts_.summands_refused;
      return bytes;
    }
    ++(bytes.ok() ? counts_.prepared : counts_.refused);
    if (bytes.ok() && fuses) ++counts_.fused;
    if (!bytes.ok() && !fuses) counts_.without_engine.push_back(bytes.status().ToString());
    return bytes;
  }

 private:
  Counts& counts_;
  ConvolutionRunner convolutions_;
};

Convolution Layer(program::DType dtype, Precision precision = Precision::kF32) {
  return {.n = 64,
          .c = 64,
          .h = 27,
          .w = 27,
          .k = 192,
          .p = 27,
          .q = 27,
          .window = {5, 5, 1, 1, 2, 2, 2, 2},
          .precision = precision,
          .dtype = dtype};
}

class Cudnn : public testing::TestWithParam<KindOfGpu> {
 protected:
  void SetUp() override {
    if (cudnnGetVersion() < 91100) GTEST_SKIP() << "cuDNN before 9.11 does not read properties of GPUs";
  }
};

TEST_P(Cudnn, EveryConvolutionOfTheZooHasAnEngine) {
  for (const std::string dtype : {"fp32", "tf32", "bf16"}) {
    for (const auto& [model, plan, devices] :
         std::vector<std::tuple<std::string, std::string, int>>{{"two_column", "hybrid", 4},
                                                                {"lenet", "owt", 4},
                                                                {"alexnet2012", "single", 1},
                                                                {"alexnet2012", "model", 2},
                                                                {"alexnet2012", "model", 4},
                                                                {"alexnet", "single", 1},
                                                                {"alexnet", "model", 2}}) {
      SCOPED_TRACE(dtype + " " + model + " " + plan);
      const cli::SessionFlags flags{.network = {.model = model},
                                    .plan = {.batch = 256, .devices = devices, .name = plan},
                                    .backend = {.dtype = dtype}};
      const auto session = cli::OpenSession(flags, nullptr);
      ASSERT_TRUE(session.ok()) << session.status();
      const auto lowered =
          partition::Lower(session->graph, session->plan, cli::LowerOptionsOf(flags, *session, program::Mode::kTrain));
      ASSERT_TRUE(lowered.ok()) << lowered.status();
      Counts counts;
      auto backend = MakeCudaBackend({.devices = devices, .precision = dtype == "tf32" ? Precision::kTf32 : Precision::kF32},
                                     std::make_unique<DnnCalls>(GetParam(), counts));
      ASSERT_TRUE(backend.ok()) << backend.status();
      const auto memory = (*backend)->MemoryOf(*lowered);
      ASSERT_TRUE(memory.ok()) << memory.status();
      RecordProperty(absl::StrCat(model, "_", plan, "_", dtype, "_bytes"), std::to_string(memory->front().total_bytes()));
      EXPECT_THAT(counts.without_engine, testing::IsEmpty());
      EXPECT_EQ(counts.refused, 0) << "of " << counts.prepared + counts.refused << ", " << counts.fused << " fused";
      EXPECT_GT(counts.fused, 0);
    }
  }
}

TEST_P(Cudnn, EveryOpCaseHasAnEngine) {
  for (const conformance::OpCase& op_case : conformance::AllOpCases()) {
    for (program::DType dtype : {program::DType::kF32, program::DType::kBF16}) {
      if (dtype == program::DType::kBF16 && !conformance::Bf16Tolerance(op_case).has_value()) continue;
      for (conformance::Home home : {conformance::Home::kPersistent, conformance::Home::kBox}) {
        SCOPED_TRACE(op_case.name + " " + program::Name(dtype) + " " + conformance::Name(home));
        Counts counts;
        auto backend = MakeCudaBackend({}, std::make_unique<DnnCalls>(GetParam(), counts));
        ASSERT_TRUE(backend.ok()) << backend.status();
        EXPECT_TRUE(conformance::LoadedCase::Load(**backend, op_case, dtype, home).ok());
        EXPECT_THAT(counts.without_engine, testing::IsEmpty());
      }
    }
  }
}

// Engine numbers say nothing here, but that a question was asked must show in the answer.
TEST_P(Cudnn, PrecisionAndDeterminismNarrowTheChoice) {
  const DnnGpu gpu = GpuOf(GetParam());
  const auto count = [&](Convolution c) {
    const auto graph = ConvolutionGraph::Make(c, gpu);
    EXPECT_TRUE(graph.ok()) << graph.status();
    const auto engines = graph->Engines();
    EXPECT_TRUE(engines.ok()) << engines.status();
    return engines->size();
  };
  for (auto direction :
       {Convolution::Direction::kForward, Convolution::Direction::kBackwardData, Convolution::Direction::kBackwardWeights}) {
    Convolution exact = Layer(program::DType::kF32), tf32 = Layer(program::DType::kF32, Precision::kTf32);
    exact.direction = tf32.direction = direction;
    EXPECT_GT(count(exact), 0);
    EXPECT_LT(count(exact), count(tf32));
    if (direction == Convolution::Direction::kForward) continue;
    Convolution deterministic = exact;
    deterministic.deterministic = true;
    EXPECT_GT(count(deterministic), 0);
    EXPECT_LT(count(deterministic), count(exact));
  }
}

// Without its settings (tile, split of the sum) an engine runs by defaults, up to five times as long.
TEST_P(Cudnn, EnginesComeWithTheSettingsThatCudnnRanks) {
  const DnnGpu gpu = GpuOf(GetParam());
  for (auto direction :
       {Convolution::Direction::kForward, Convolution::Direction::kBackwardData, Convolution::Direction::kBackwardWeights}) {
    Convolution layer = Layer(program::DType::kBF16);
    layer.direction = direction;
    const auto graph = ConvolutionGraph::Make(layer, gpu);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto engines = graph->Engines();
    ASSERT_TRUE(engines.ok()) << engines.status();
    ASSERT_FALSE(engines->empty());
    EXPECT_FALSE(engines->front().knobs.empty());
    std::map<int64_t, int> settings_of;
    for (const Engine& engine : *engines) ++settings_of[engine.index];
    EXPECT_GT(settings_of[engines->front().index], 1);
  }
}

TEST_P(Cudnn, PlansOfAnEngineWantEqualWorkspaces) {
  const DnnGpu gpu = GpuOf(GetParam());
  const auto graph = ConvolutionGraph::Make(Layer(program::DType::kBF16), gpu);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto engines = graph->Engines();
  ASSERT_TRUE(engines.ok()) << engines.status();
  ASSERT_GT(engines->size(), 1);
  for (const Engine& engine : *engines) {
    const auto one = graph->Plan(engine), two = graph->Plan(engine);
    ASSERT_TRUE(one.ok()) << one.status();
    ASSERT_TRUE(two.ok()) << two.status();
    EXPECT_EQ(one->workspace_bytes, two->workspace_bytes);
  }
}

// Why images are folded when they are loaded (space_to_depth.h): else cuDNN pads or turns them around in every pass.
TEST_P(Cudnn, FoldedImagesNeedNoCopy) {
  const DnnGpu gpu = GpuOf(GetParam());
  const auto workspace = [&](Convolution c) -> int64_t {
    const auto graph = ConvolutionGraph::Make(c, gpu);
    EXPECT_TRUE(graph.ok()) << graph.status();
    const auto engines = graph->Engines();
    EXPECT_TRUE(engines.ok() && !engines->empty());
    const auto plan = graph->Plan(engines->front());
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan->workspace_bytes;
  };
  for (const auto& [dtype, precision] :
       {std::pair(program::DType::kF32, Precision::kTf32), {program::DType::kBF16, Precision::kF32}}) {
    for (const auto& [direction, deterministic] : {std::pair(Convolution::Direction::kForward, false),
                                                   {Convolution::Direction::kBackwardWeights, false},
                                                   {Convolution::Direction::kBackwardWeights, true}}) {
      Convolution c = Layer(dtype, precision);
      c.deterministic = deterministic;
      alignas(16) const float bias = 0;
      if (direction == Convolution::Direction::kForward) c.bias = &bias, c.relu = true;
      c.direction = direction, c.n = 256, c.c = 3, c.h = c.w = 224, c.k = 64, c.p = c.q = 55,
      c.window = {11, 11, 4, 4, 2, 2, 2, 2};
      const int64_t as_it_is = workspace(c);
      const auto fold = FoldOfImages(c.window, {c.n, c.c, c.h, c.w}, {c.n, c.k, c.p, c.q}, dtype, precision);
      ASSERT_TRUE(fold.has_value());
      c.window = FoldedWindow(c.window, *fold);
      c.c = fold->channels, c.h = fold->rows, c.w = fold->columns;
      const std::string name = KeyOf(c);
      RecordProperty(name + ", as it is", std::to_string(as_it_is));
      RecordProperty(name + ", folded", std::to_string(workspace(c)));
      EXPECT_GE(as_it_is, int64_t{100} << 20);
      // cuDNN 9.19 has such engines for f32 on Hopper alone.
      const bool is_expected = dtype == program::DType::kBF16 || GetParam().name == "H200";
      if (is_expected) {
        EXPECT_LT(workspace(c), int64_t{10} << 20);
      }
    }
  }
}

TEST_P(Cudnn, AnUnknownEngineIsRefused) {
  const DnnGpu gpu = GpuOf(GetParam());
  const auto graph = ConvolutionGraph::Make(Layer(program::DType::kF32), gpu);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_FALSE(graph->Plan({.index = 100000}).ok());
}

// For every convolution the same.
ConvolutionRunner::TimerMaker AlwaysBy(ConvolutionRunner::Timer timer) {
  return [timer = std::move(timer)](int, const Convolution&) { return timer; };
}

// The timer is the test's: the third engine that it sees is the fastest.
TEST_P(Cudnn, ASearchKeepsTheFastestEngineInItsFile) {
  const std::string path = testing::TempDir() + "engines_" + GetParam().name + ".json";
  std::filesystem::remove(path);
  int timed = 0;
  const auto prepare = [&](Convolution c) {
    ConvolutionRunner convolutions;
    convolutions.AddGpu(GpuOf(GetParam()));
    auto choices = EngineChoices::Read(path);
    EXPECT_TRUE(choices.ok()) << choices.status();
    const ConvolutionRunner::Timer timer = [&](const ConvolutionPlan&, double least) -> absl::StatusOr<double> {
      if (++timed == 2) return absl::UnimplementedError("this one does not run");
      EXPECT_EQ(least, timed == 1 ? std::numeric_limits<double>::infinity() : timed == 3 ? 3 : 1);
      return timed == 3 ? 1.0 : 2.0 + timed;
    };
    int timers = 0;
    convolutions.Search(*std::move(choices), [&](int, const Convolution&) {
      EXPECT_EQ(++timers, 1) << "one makes its tensors for all engines";
      return timer;
    });
    const auto bytes = convolutions.Prepare(0, c);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.value_or(-1);
  };
  const Convolution layer = Layer(program::DType::kF32, Precision::kTf32);
  const int64_t bytes = prepare(layer);
  EXPECT_GT(timed, 3);
  const DnnGpu gpu = GpuOf(GetParam());
  const auto graph = ConvolutionGraph::Make(layer, gpu);
  const auto choices = EngineChoices::Read(path);
  ASSERT_TRUE(choices.ok()) << choices.status();
  const Engine* found = choices->Find(GetParam().name, static_cast<int64_t>(cudnnGetVersion()), KeyOf(layer));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(graph->Plan(*found)->workspace_bytes, bytes);
  // Limits of the engines that are timed.
  const auto engines = graph->Engines();
  ASSERT_TRUE(engines.ok()) << engines.status();
  std::vector<Engine> timed_engines;
  for (const Engine& engine : *engines) {
    const auto plan = graph->Plan(engine);
    if (plan.ok() && plan->workspace_bytes <= int64_t{512} << 20) timed_engines.push_back(engine);
  }
  ASSERT_GT(timed_engines.size(), 3);
  EXPECT_EQ(*found, timed_engines[2]);

  timed = 0;
  EXPECT_EQ(prepare(layer), bytes);
  EXPECT_EQ(timed, 0) << "it was in the file";
  Convolution other = layer;
  other.n = 32;
  prepare(other);
  EXPECT_GT(timed, 0) << "another shape is another search";
  std::filesystem::remove(path);
}

TEST_P(Cudnn, ASearchTimesTheBestOfTheRankingAndEveryEngineOnce) {
  const std::string path = testing::TempDir() + "ranked_engines_" + GetParam().name + ".json";
  std::filesystem::remove(path);
  ConvolutionRunner convolutions;
  convolutions.AddGpu(GpuOf(GetParam()));
  int timed = 0;
  convolutions.Search(*EngineChoices::Read(path), AlwaysBy([&](const ConvolutionPlan&, double) { return 1.0 + ++timed; }));
  Convolution layer = Layer(program::DType::kBF16);
  layer.direction = Convolution::Direction::kBackwardWeights;
  ASSERT_TRUE(convolutions.Prepare(0, layer).ok());
  const DnnGpu gpu = GpuOf(GetParam());
  const auto graph = ConvolutionGraph::Make(layer, gpu);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto engines = graph->Engines();
  ASSERT_TRUE(engines.ok()) << engines.status();
  int expected = 0, served = 0;
  std::set<int64_t> seen;
  for (const Engine& engine : *engines) {
    const auto plan = graph->Plan(engine);
    if (!plan.ok() || plan->workspace_bytes > int64_t{512} << 20) continue;
    ++served;
    if (seen.insert(engine.index).second || expected < 8) ++expected;
  }
  EXPECT_EQ(timed, expected);
  EXPECT_GT(expected, 8);
  EXPECT_LT(expected, served);
  std::filesystem::remove(path);
}

TEST_P(Cudnn, ASearchThatCannotTimeTakesTheFirstEngine) {
  const std::string path = testing::TempDir() + "no_engines_" + GetParam().name + ".json";
  std::filesystem::remove(path);
  const auto prepare = [&](bool searches, const ConvolutionRunner::TimerMaker& make) {
    ConvolutionRunner convolutions;
    convolutions.AddGpu(GpuOf(GetParam()));
    if (searches) {
      convolutions.Search(*EngineChoices::Read(path), make);
    }
    Convolution layer = Layer(program::DType::kBF16);
    return convolutions.Prepare(0, layer);
  };
  const absl::Status none = absl::ResourceExhaustedError("cudaMalloc: out of memory");
  const int64_t first = *prepare(false, nullptr);
  // Memory is short for the tensors, or for each engine's workspace.
  EXPECT_EQ(*prepare(true, [&](int, const Convolution&) { return none; }), first);
  EXPECT_EQ(*prepare(true, AlwaysBy([&](const ConvolutionPlan&, double) { return none; })), first);
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing was found";
}

TEST_P(Cudnn, AnEngineThatFaultsEndsTheSearch) {
  const std::string path = testing::TempDir() + "faulty_engines_" + GetParam().name + ".json";
  std::filesystem::remove(path);
  ConvolutionRunner convolutions;
  convolutions.AddGpu(GpuOf(GetParam()));
  convolutions.Search(*EngineChoices::Read(path), AlwaysBy([](const ConvolutionPlan&, double) {
    return absl::StatusOr<double>(absl::InternalError("an illegal memory access"));
  }));
  Convolution layer = Layer(program::DType::kBF16);
  const absl::Status status = convolutions.Prepare(0, layer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("engine "), testing::HasSubstr(KeyOf(layer))));
  EXPECT_FALSE(std::filesystem::exists(path));
}

// Where memory was short the choice is not kept for other runs, but GPUs of one name take the same.
TEST_P(Cudnn, GpusOfOneNameTakeTheSameEngine) {
  const std::string path = testing::TempDir() + "short_of_memory_" + GetParam().name + ".json";
  std::filesystem::remove(path);
  ConvolutionRunner convolutions;
  for (int gpu = 0; gpu < 2; ++gpu) convolutions.AddGpu(GpuOf(GetParam()));
  int timed = 0;
  convolutions.Search(*EngineChoices::Read(path), AlwaysBy([&](const ConvolutionPlan&, double) {
    return ++timed < 3 ? absl::StatusOr<double>(absl::ResourceExhaustedError("cudaMalloc: out of memory")) : 1.0 / timed;
  }));
  Convolution layer = Layer(program::DType::kF32, Precision::kTf32);
  const auto first = convolutions.Prepare(0, layer);
  ASSERT_TRUE(first.ok()) << first.status();
  const int of_first = timed;
  EXPECT_GT(of_first, 3);
  EXPECT_EQ(*convolutions.Prepare(1, layer), *first);
  EXPECT_EQ(timed, of_first);
  EXPECT_FALSE(std::filesystem::exists(path));
}

INSTANTIATE_TEST_SUITE_P(OnGpusThatAreNotThere, Cudnn, testing::ValuesIn(kKinds),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace colonnade::cuda
