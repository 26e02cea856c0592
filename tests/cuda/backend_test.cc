// What of the CUDA backend needs no GPU and no numbers: memory, errors, and what it gives back.
#include "cuda/backend.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cuda/load/loaded.h"
#include "engine/box_runs.h"
#include "engine/classification.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "made_backend.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "program/builder.h"
#include "tests/open_stream.h"
#include "tools/verify_plan.h"

namespace colonnade::cuda {
namespace {

TEST(CudaBackend, TransfersGoFirstOnAGpu) {
  const Made made = MakeBackend({.devices = 2});
  const std::vector<bool>& goes_first = made.calls->goes_first();
  for (int device = 0; device < 2; ++device) {
    using program::Lane;
    for (Lane lane : {Lane::kCompute, Lane::kComm, Lane::kCopy, Lane::kLoad}) {
      EXPECT_EQ(goes_first.at(device * program::kLaneCount + static_cast<int>(lane)),
                lane == Lane::kComm || lane == Lane::kCopy)
          << program::Name(lane);
    }
  }
}

TEST(CudaBackend, TakesWhatMemoryOfSaysAndGivesItBack) {
  const program::Program program = Lowered("two_column", "hybrid", 4, 16);
  Made made = MakeBackend({.devices = 4}, {.gpus = 2});
  const auto memory = made.backend->MemoryOf(program);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(made.calls->allocated_bytes(), 0);
  const int before = made.calls->events_alive();
  {
    auto executor = engine::Executor::Create(program, *made.backend);
    ASSERT_TRUE(executor.ok()) << executor.status();
    int64_t total = 0, persistent = 0;
    for (int d = 0; d < 4; ++d) {
      EXPECT_EQ((*executor)->loaded().Memory(d).total_bytes(), (*memory)[d].total_bytes());
      total += (*memory)[d].total_bytes();
      persistent += (*memory)[d].persistent_bytes;
    }
    EXPECT_EQ(made.calls->allocated_bytes(), total);
    (*executor).reset();
    EXPECT_EQ(made.calls->allocated_bytes(), persistent);  // shared by Programs to come
  }
  EXPECT_EQ(made.calls->events_alive(), before);
}

// Copies of parameters whose gradients are not reduced would drift apart.
TEST(CudaBackend, DevicesOnUnlikeGpusAreRefused) {
  const auto open = [](int devices) {
    return MakeCudaBackend({.devices = devices}, std::make_unique<HostCalls>(HostCallsOptions{.gpus = 2, .unlike = true}));
  };
  EXPECT_TRUE(open(1).ok());
  const absl::Status refused = open(2).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.message().find("found host 0 and host 1"), absl::string_view::npos) << refused;
}

// Its calls see that nothing is left when the last executor goes.
TEST(CudaBackend, MayGoBeforeItsExecutors) {
  const program::Program program = Lowered("two_column", "hybrid", 4, 16);
  Made made = MakeBackend({.devices = 4});
  auto executor = engine::Executor::Create(program, *made.backend), other = engine::Executor::Create(program, *made.backend);
  ASSERT_TRUE(executor.ok() && other.ok());
  made.backend.reset();
  executor->reset();
  ASSERT_TRUE((*other)->NextInput<float>(engine::kImages).ok());
  ASSERT_TRUE((*other)->Enqueue({}).ok());
  EXPECT_TRUE((*other)->Collect().ok());
}

// Eager steps, the captures of both slots, and graphs.
TEST(CudaBackend, AStepTakesNoMemoryOfAGpuAndMakesNoEvent) {
  const program::Program program = Lowered("two_column", "hybrid", 4, 16);
  Made made = MakeBackend({.devices = 4});
  auto executor = engine::Executor::Create(program, *made.backend);
  ASSERT_TRUE(executor.ok());
  const int64_t bytes = made.calls->allocated_bytes();
  const int events = made.calls->events_alive();
  const int allocations = made.calls->allocations();
  for (int step = 0; step < 6; ++step) {
    ASSERT_TRUE((*executor)->NextInput<float>(engine::kImages).ok());
    ASSERT_TRUE((*executor)->Enqueue({.step = static_cast<uint64_t>(step)}).ok());
    ASSERT_TRUE((*executor)->Collect().ok());
    EXPECT_EQ(made.calls->allocated_bytes(), bytes) << "step " << step;
    EXPECT_EQ(made.calls->events_alive(), events) << "step " << step;
  }
  EXPECT_EQ(made.calls->allocations(), allocations);
  EXPECT_EQ(made.calls->graph_launches(), 4);
}

TEST(CudaBackend, CollectingAStepDoesNotWaitForTheNext) {
  const program::Program program = Lowered("two_column", "hybrid", 4, 16);
  for (const bool times : {false, true}) {
    Made made = MakeBackend({.devices = 4, .times_tasks = times});
    auto executor = engine::Executor::Create(program, *made.backend);
    ASSERT_TRUE(executor.ok());
    const auto enqueue = [&](uint64_t step) {
      ASSERT_TRUE((*executor)->NextInput<float>(engine::kImages).ok());
      ASSERT_TRUE((*executor)->Enqueue({.step = step}).ok());
    };
    enqueue(0);
    for (uint64_t step = 1; step < 4; ++step) {
      const auto before = static_cast<int64_t>(made.calls->noted().size());
      enqueue(step);
      ASSERT_TRUE((*executor)->Collect().ok());
      EXPECT_LT(made.calls->waited_for(), before);
      EXPECT_GE(made.calls->waited_for(), 0);
    }
  }
}

TEST(StepMode, TheFirstTwoStepsAreEagerThenEachSlotIsCapturedOnce) {
  EXPECT_EQ(ModeOfStep(true, 0, false), StepMode::kEager);
  EXPECT_EQ(ModeOfStep(true, 1, false), StepMode::kEager);
  EXPECT_EQ(ModeOfStep(true, 2, false), StepMode::kCapture);
  EXPECT_EQ(ModeOfStep(true, 4, true), StepMode::kLaunch);
  EXPECT_EQ(ModeOfStep(false, 4, true), StepMode::kEager);
}

// Six steps, and the weights after them.
std::vector<std::vector<double>> Trained(const program::Program& program, Made& made) {
  auto executor = engine::Executor::Create(program, *made.backend);
  EXPECT_TRUE(executor.ok()) << executor.status();
  EXPECT_TRUE(engine::InitializeParameters((*executor)->loaded(), 3).ok());
  for (uint64_t step = 0; step < 6; ++step) {
    const auto images = (*executor)->NextInput<float>(engine::kImages);
    EXPECT_TRUE(images.ok()) << images.status();
    for (size_t i = 0; i < images->size(); ++i) (*images)[i] = static_cast<float>((i * 37 + step * 11) % 64) / 64;
    const absl::Span<int32_t> labels = *(*executor)->NextInput<int32_t>(engine::kLabels);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>((i + step) % 10);
    EXPECT_TRUE((*executor)->Enqueue({.learning_rate = 0.01 / static_cast<double>(step + 1), .step = step}).ok());
    if (step == 0) continue;  // two in flight
    const auto result = (*executor)->Collect();
    EXPECT_TRUE(result.ok()) << result.status();
  }
  EXPECT_TRUE((*executor)->Collect().ok());
  const auto parameters = engine::ReadTensors((*executor)->loaded());
  EXPECT_TRUE(parameters.ok());
  std::vector<std::vector<double>> values;
  for (const engine::NamedTensor& tensor : *parameters) values.push_back(tensor.values);
  return values;
}

TEST(CudaBackend, StepsThatAreGraphsComputeWhatEagerOnesDo) {
  for (const std::string plan : {"hybrid", "data"}) {
    for (const bool nccl : {false, true}) {
      const program::Program program = Lowered("two_column", plan, 4, 4, /*width=*/0.25);
      Made eager = MakeBackend({.devices = 4, .graphs = Graphs::kOff}, {.gpus = 4, .nccl = nccl});
      const auto expected = Trained(program, eager);
      EXPECT_EQ(eager.calls->graph_launches(), 0);
      Made graphs = MakeBackend({.devices = 4}, {.gpus = 4, .nccl = nccl});
      EXPECT_EQ(Trained(program, graphs), expected);
      EXPECT_EQ(graphs.calls->graph_launches(), nccl ? 0 : 4);
      EXPECT_EQ(graphs.calls->graphs_alive(), 0);
      Made refused = MakeBackend({.devices = 4}, {.gpus = 4, .nccl = nccl, .captures = false});
      EXPECT_EQ(Trained(program, refused), expected);
      EXPECT_EQ(refused.calls->graph_launches(), 0);
    }
  }
}

// The status of four steps, and what is noted of them.
std::pair<absl::Status, std::vector<std::string>> FourSteps(const program::Program& program, Made& made) {
  auto executor = engine::Executor::Create(program, *made.backend);
  if (!executor.ok()) return {executor.status(), {}};
  absl::Status status = engine::InitializeParameters((*executor)->loaded(), 1);
  for (uint64_t step = 0; step < 4 && status.ok(); ++step) {
    std::fill_n((*executor)->NextInput<float>(engine::kImages)->data(),
                (*executor)->NextInput<float>(engine::kImages)->size(), 0.5f);
    status = (*executor)->Enqueue({.step = step});
    if (status.ok()) status = (*executor)->Collect().status();
  }
  return {status, (*executor)->loaded().Notes()};
}

TEST(CudaBackend, AStepThatCannotBeAGraphIsNotedOrIsAnErrorWhereItMustBe) {
  const program::Program program = Lowered("two_column", "hybrid", 4, 4, /*width=*/0.25);
  for (const bool captures : {true, false}) {
    for (const bool must : {true, false}) {
      SCOPED_TRACE(absl::StrCat("captures ", captures, " must ", must));
      Made made =
          MakeBackend({.devices = 4, .collectives = Collectives::kPeer, .graphs = must ? Graphs::kOn : Graphs::kAuto},
                      {.gpus = 4, .captures = captures});
      const auto [status, notes] = FourSteps(program, made);
      EXPECT_EQ(made.calls->graph_launches(), captures ? 2 : 0);
      EXPECT_EQ(status.ok(), captures || !must) << status;
      const bool is_noted = !captures && !must;
      EXPECT_EQ(notes.size(), is_noted ? 1 : 0);
      const std::string said = is_noted ? notes[0] : std::string(status.message());
      if (!captures) {
        EXPECT_THAT(said, testing::HasSubstr("step 2 could not be captured as a CUDA graph: cudaStreamEndCapture"));
      }
    }
  }
  for (const auto& [fault, expected] : {std::pair{absl::StatusCode::kUnimplemented, absl::StatusCode::kFailedPrecondition},
                                        {absl::StatusCode::kInternal, absl::StatusCode::kInternal},
                                        {absl::StatusCode::kResourceExhausted, absl::StatusCode::kResourceExhausted}}) {
    Made made = MakeBackend({.devices = 4, .graphs = Graphs::kOn}, {.gpus = 4, .captures = false, .capture_fault = fault});
    EXPECT_EQ(FourSteps(program, made).first.code(), expected);
  }
  Made nccl = MakeBackend({.devices = 4, .graphs = Graphs::kOn}, {.gpus = 4, .nccl = true});
  const absl::Status refused = FourSteps(program, nccl).first;
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("collectives of NCCL"));
  EXPECT_EQ(MakeCudaBackend({.graphs = Graphs::kOn, .times_tasks = true}, std::make_unique<HostCalls>()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Images of the next step are loaded while this one computes: nothing that they wait for is part of this one, be it a graph
// or not.
TEST(CudaBackend, TheNextBatchIsLoadedUnderThisStep) {
  const program::Program program = Lowered("lenet", "single", 1, 64);
  Made made = MakeBackend({.devices = 1}, {.has_memory = false});
  auto executor = engine::Executor::Create(program, *made.backend);
  ASSERT_TRUE(executor.ok());
  const std::vector<Noted>& noted = made.calls->noted();
  std::vector<size_t> begins;
  int loads = 0;
  for (uint64_t step = 0; step < 6; ++step) {
    begins.push_back(noted.size());
    ASSERT_TRUE((*executor)->NextInput<float>(engine::kImages).ok());
    ASSERT_TRUE((*executor)->Enqueue({.step = step}).ok());
    const int input_stream = static_cast<int>(program::Lane::kLoad);  // the device has a stream for each lane, in order
    for (size_t i = begins.back(); i < noted.size() && step > 0; ++i) {
      if (noted[i].stream != input_stream) continue;
      if (noted[i].kind == Noted::Kind::kCall) ++loads;
      for (size_t j = begins[step - 1]; j < i && noted[i].kind == Noted::Kind::kWait; ++j) {
        EXPECT_FALSE(noted[j].kind == Noted::Kind::kRecord && noted[j].event == noted[i].event) << "step " << step;
      }
    }
    if (step == 0) continue;
    ASSERT_TRUE((*executor)->Collect().ok());
  }
  EXPECT_EQ(loads, 5 * 3) << "scalars, images and labels";
}

// Eager steps and graphs alike: what was loaded stays, and is trained on again.
TEST(CudaBackend, ImagesThatAreKeptComeNoMoreFromTheHost) {
  const program::Program program = OfLargeImages(64);
  for (bool graphs : {false, true}) {
    std::vector<double> losses[2];
    for (bool keeps : {false, true}) {
      Made made = MakeBackend({.devices = 1, .graphs = graphs ? Graphs::kOn : Graphs::kOff}, {});
      auto executor = engine::Executor::Create(program, *made.backend);
      ASSERT_TRUE(executor.ok());
      ASSERT_TRUE(engine::InitializeParameters((*executor)->loaded(), 1).ok());
      const int input_stream = static_cast<int>(program::Lane::kLoad);
      for (uint64_t step = 0; step < 6; ++step) {
        if (keeps) {
          EXPECT_EQ((*executor)->loaded().KeepImages().ok(), step >= 2);
        }
        absl::StatusOr<absl::Span<float>> images = (*executor)->NextInput<float>(engine::kImages);
        ASSERT_TRUE(images.ok());
        // Kept ones hide what the host writes.
        const bool hidden = keeps && step >= 2;
        for (size_t i = 0; i < images->size(); ++i) (*images)[i] = hidden ? 9.0f : static_cast<float>((i + step % 2) % 7);
        const absl::Span<int32_t> labels = *(*executor)->NextInput<int32_t>(engine::kLabels);
        for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i % 10);
        const size_t before = made.calls->noted().size();
        ASSERT_TRUE((*executor)->Enqueue({.learning_rate = 0.01, .step = step}).ok());
        absl::StatusOr<engine::ScoredStep> result = engine::CollectScored(**executor);
        ASSERT_TRUE(result.ok());
        losses[keeps].push_back(result->loss);
        const std::vector<Noted>& noted = made.calls->noted();
        const auto loads = std::count_if(noted.begin() + static_cast<int64_t>(before), noted.end(), [&](const Noted& n) {
          return n.stream == input_stream && n.kind == Noted::Kind::kCall;
        });
        EXPECT_EQ(loads, hidden ? 2 : 3) << "labels and scalars come always";
      }
    }
    EXPECT_EQ(losses[0], losses[1]);
  }
}

TEST(CudaBackend, MemoryThatTheSystemDoesNotPinIsNoted) {
  const program::Program program = Lowered("two_column", "single", 1, 4);
  for (const bool pins : {true, false}) {
    Made made = MakeBackend({}, {.has_memory = false, .pins = pins});
    const auto executor = engine::Executor::Create(program, *made.backend);
    ASSERT_TRUE(executor.ok()) << executor.status();
    const std::vector<std::string> notes = (*executor)->loaded().Notes();
    if (pins) {
      EXPECT_THAT(notes, testing::IsEmpty());
    } else {
      EXPECT_THAT(notes, testing::ElementsAre(testing::HasSubstr("the system did not pin 0.0 MB")));
    }
  }
}

TEST(CudaBackend, NcclThatIsMissingIsNotedWhereItWouldHaveServed) {
  const auto notes_of = [](const char* plan, Collectives collectives, const HostCallsOptions& host) {
    const program::Program program = Lowered("two_column", plan, 2, 4);
    Made made = MakeBackend({.devices = 2, .collectives = collectives}, host);
    const auto executor = engine::Executor::Create(program, *made.backend);
    EXPECT_TRUE(executor.ok()) << executor.status();
    return executor.ok() ? (*executor)->loaded().Notes() : std::vector<std::string>{};
  };
  EXPECT_THAT(notes_of("data", Collectives::kAuto, {.gpus = 2, .has_memory = false}),
              testing::ElementsAre("NCCL cannot be loaded (none on the host); GPUs add and gather by copies between each "
                                   "other"));
  EXPECT_THAT(notes_of("data", Collectives::kPeer, {.gpus = 2, .has_memory = false}), testing::IsEmpty());
  EXPECT_THAT(notes_of("data", Collectives::kAuto, {.gpus = 1, .has_memory = false}), testing::IsEmpty()) << "one GPU";
  EXPECT_THAT(notes_of("data", Collectives::kAuto, {.gpus = 2, .nccl = true, .has_memory = false}), testing::IsEmpty());
}

TEST(CudaBackend, MemoryThatIsMissingLeavesTheBooksInOrder) {
  const program::Program program = Lowered("two_column", "single", 1, 4);
  const auto memory = MakeBackend({.devices = 1}).backend->MemoryOf(program);
  ASSERT_TRUE(memory.ok()) << memory.status();
  // A backend with room for the Program once.
  const CudaOptions options{.devices = 1, .memory_limit_bytes = (*memory)[0].total_bytes()};
  const auto create = [&](engine::Backend& backend) { return engine::Executor::Create(program, backend); };
  int refusals = 0;
  for (;; ++refusals) {
    Made made = MakeBackend(options, {.has_memory = false, .fail_allocation_at = refusals});
    const absl::Status refused = create(*made.backend).status();
    if (refused.ok()) break;
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(made.calls->allocated_bytes(), 0) << refused;
    EXPECT_EQ(made.backend->TakenBytes(0), 0) << "after refusal " << refusals;
    const auto once = create(*made.backend);
    ASSERT_TRUE(once.ok()) << once.status();
    EXPECT_EQ(made.backend->TakenBytes(0), made.calls->allocated_bytes()) << "after refusal " << refusals;
  }
  EXPECT_GE(refusals, 4);  // of step buffers, a workspace and a persistent buffer at least
}

TEST(CudaBackend, NcclWantsAGpuForEachDevice) {
  const auto make = [](int devices, const HostCallsOptions& host) {
    return MakeCudaBackend({.devices = devices, .collectives = Collectives::kNccl}, std::make_unique<HostCalls>(host))
        .status();
  };
  EXPECT_TRUE(make(2, {.gpus = 2, .nccl = true}).ok());
  EXPECT_EQ(make(2, {.gpus = 1, .nccl = true}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(make(2, {.gpus = 2, .nccl = false}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(CudaBackend, CollectivesAreByNcclWhereItServesAndIsWanted) {
  const program::Program program = Lowered("two_column", "data", 2, 16);
  const auto rank_calls = [&](const CudaOptions& options, int gpus) {
    Made made = MakeBackend(options, {.gpus = gpus, .nccl = true});
    auto executor = engine::Executor::Create(program, *made.backend);
    EXPECT_TRUE(executor.ok()) << executor.status();
    EXPECT_TRUE((*executor)->NextInput<float>(engine::kImages).ok());
    EXPECT_TRUE((*executor)->Enqueue({}).ok());
    EXPECT_TRUE((*executor)->Collect().ok());
    return made.calls->rank_calls();
  };
  EXPECT_GT(rank_calls({.devices = 2}, 2), 0);
  EXPECT_EQ(rank_calls({.devices = 2}, 1), 0);  // two ranks on one GPU
  EXPECT_EQ(rank_calls({.devices = 2, .collectives = Collectives::kPeer}, 2), 0);
  EXPECT_EQ(rank_calls({.devices = 2, .deterministic = true}, 2), 0);  // all are sums
}

TEST(CudaBackend, ALimitIsRefusedBeforeAnythingIsTaken) {
  const program::Program program = Lowered("two_column", "single", 1, 16);
  Made made = MakeBackend({.devices = 1, .memory_limit_bytes = 1 << 16});
  const auto executor = engine::Executor::Create(program, *made.backend);
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(executor.status().message(), "its limit is 65536")) << executor.status();
  EXPECT_EQ(made.calls->allocated_bytes(), 0);
}

TEST(CudaBackend, AFailingCallPoisonsTheProgramAndNamesItsTask) {
  const program::Program program = Lowered("two_column", "data", 2, 16);
  for (int fail_at : {0, 7, 40}) {
    Made made = MakeBackend({.devices = 2}, {.has_memory = false, .fail_at = fail_at});
    auto executor = engine::Executor::Create(program, *made.backend);
    ASSERT_TRUE(executor.ok()) << executor.status();
    ASSERT_TRUE((*executor)->NextInput<float>(engine::kImages).ok());
    ASSERT_TRUE((*executor)->Enqueue({}).ok());
    const absl::Status status = (*executor)->Collect().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << fail_at;
    EXPECT_TRUE(absl::StrContains(status.message(), "task ")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "cudaLaunchKernel: an illegal memory access")) << status;
  }
}

TEST(CudaBackend, RefusesProgramsInDouble) {
  const absl::StatusOr<layers::LayerGraph> graph = models::BuildModel("two_column", {});
  const auto plan = partition::NamedPlan("single", *graph, {.devices = 1, .global_batch = 4});
  const auto program = partition::Lower(*graph, *plan, {.global_batch = 4, .dtype = program::DType::kF64});
  ASSERT_TRUE(program.ok());
  Made made = MakeBackend({});
  EXPECT_EQ(engine::Executor::Create(*program, *made.backend).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CudaBackend, DevicesShareGpusInTurn) {
  Made made = MakeBackend({.devices = 5}, {.gpus = 2});
  EXPECT_EQ(made.backend->device_count(), 5);
  EXPECT_EQ(made.calls->stream_count(), 5 * program::kLaneCount);
  EXPECT_EQ(MakeCudaBackend({.devices = 0}, std::make_unique<HostCalls>()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CudaBackend, GivesEqualBitsWhereItIsAskedForOrNeedsThem) {
  struct Case {
    int devices = 1;
    bool nccl = false, deterministic = false, equal = false;
    Collectives collectives = Collectives::kAuto;
  };
  // Of several devices the engines always give equal bits, but sums of NCCL need not.
  for (const Case& c : {Case{.devices = 1},
                        {.devices = 1, .deterministic = true, .equal = true},
                        {.devices = 2, .equal = true},
                        {.devices = 2, .nccl = true},
                        {.devices = 2, .nccl = true, .deterministic = true, .equal = true},
                        {.devices = 2, .nccl = true, .equal = true, .collectives = Collectives::kPeer}}) {
    SCOPED_TRACE(absl::StrCat(c.devices, " devices, NCCL ", c.nccl, ", deterministic ", c.deterministic));
    const program::Program program = Lowered("two_column", c.devices == 1 ? "single" : "data", c.devices, 4, /*width=*/0.25);
    Made made = MakeBackend({.devices = c.devices, .deterministic = c.deterministic, .collectives = c.collectives},
                            {.gpus = c.devices, .nccl = c.nccl});
    const auto executor = engine::Executor::Create(program, *made.backend);
    ASSERT_TRUE(executor.ok()) << executor.status();
    EXPECT_EQ((*executor)->loaded().GivesEqualBits(), c.equal);
    EXPECT_EQ(made.calls->convolutions_are_deterministic(), c.deterministic || c.devices > 1);
  }
}

// A convolution that is not fused is placed twice, and runs once.
TEST(CudaBackend, ReordersOfConvolutionsThatAreRefusedAreNotNoted) {
  const program::Program program = Lowered("alexnet", "single", 1, 4, /*width=*/0.25);
  std::vector<std::pair<int, std::string>> noted[2];
  for (const bool fuses : {true, false}) {
    Made made = MakeBackend({.precision = Precision::kTf32}, {.fuses = fuses, .has_memory = false});
    const auto executor = engine::Executor::Create(program, *made.backend);
    ASSERT_TRUE(executor.ok()) << executor.status();
    for (const engine::AddedReorder& added : (*executor)->loaded().added_reorders()) {
      noted[fuses].emplace_back(added.task.value, added.description);
    }
  }
  EXPECT_THAT(noted[true], testing::Contains(testing::Pair(testing::_, "operand 1 folded")));
  EXPECT_EQ(noted[false], noted[true]);
}

TEST(CudaBackend, AComparisonOfPlansTellsWhatIsNotedOfTheirSteps) {
  const absl::StatusOr<layers::LayerGraph> graph = models::BuildModel("two_column", {.width = 0.25});
  const auto plan = partition::NamedPlan("data", *graph, {.devices = 2, .global_batch = 4});
  const auto digits = OpenStream("digits");
  for (const bool captures : {true, false}) {
    const auto report =
        tools::VerifyPlan(*graph, *plan, *digits,
                          {.steps = 4,
                           .make_backend = [&](int devices) -> absl::StatusOr<std::unique_ptr<engine::Backend>> {
                             return MakeBackend({.devices = devices, .collectives = Collectives::kPeer},
                                                {.gpus = devices, .captures = captures})
                                 .backend;
                           },
                           .lower = {.global_batch = 4}});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->ok) << report->worst_tensor;
    const auto not_captured = testing::Contains(testing::HasSubstr("could not be captured"));
    if (captures) {
      EXPECT_THAT(report->notes, testing::IsEmpty());
    } else {
      EXPECT_THAT(report->notes, not_captured);
    }
  }
}

}  // namespace
}  // namespace colonnade::cuda
