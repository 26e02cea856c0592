// What Verify accepts can be run: real Programs changed at random, printed, parsed, and, where Parse takes them, run on the
// CPU backend as it runs any Program and once more one task after the other, with equal bits.
//
// COLONNADE_MUTATIONS says how many (1,000), COLONNADE_MUTATIONS_FROM which is the first (0). The case that runs stands in
// COLONNADE_MUTATIONS_FILE, where that is set, so that a crash can be run again. tests/mutations.sh runs very many.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cpu/backend.h"
#include "engine/classification.h"
#include "engine/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "program/meetings.h"
#include "program/op_traits.h"
#include "program/text.h"
#include "program/verify.h"
#include "tests/cpu/fixture.h"
#include "tests/environment.h"
#include "tests/program/mutate.h"
#include "tests/program/sample_programs.h"
#include "tests/sanitized.h"

namespace colonnade::cpu {
namespace {

using program::Program;
using program::Task;

constexpr int kSteps = 2;
constexpr int64_t kMostBytes = 64 << 20;         // larger ones are not run
constexpr int kChanges = 8;                      // of one seed, in one case
constexpr double kMostProducts = 200e6;          // of a task: an upper bound of its inner loops
constexpr unsigned kSecondsBeforeItHangs = 120;  // no case takes one

Program Lowered(const char* plan, int devices, program::DType dtype) {
  auto graph = models::BuildModel("two_column", {.width = 0.1});
  EXPECT_TRUE(graph.ok()) << graph.status();
  auto named = partition::NamedPlan(plan, *graph, {.devices = devices, .global_batch = 2 * devices});
  EXPECT_TRUE(named.ok()) << named.status();
  auto program = partition::Lower(*graph, *named, {.global_batch = 2 * devices, .dtype = dtype});
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

// The same with step buffers that persist, so that the host sees all that tasks write.
Program Watched(Program program) {
  for (program::Buffer& buffer : program.buffers) {
    if (!program::IsFloat(buffer.dtype) || std::holds_alternative<program::Bucket>(buffer.storage)) continue;
    if (std::holds_alternative<program::BucketMember>(buffer.storage)) continue;
    buffer.lifetime = program::Lifetime::kPersistent;
    buffer.name += absl::StrCat(" ", buffer.id.value);
  }
  program::AddAllWaits(program);
  const absl::Status status = program::Verify(program);
  EXPECT_TRUE(status.ok()) << status;
  return program;
}

std::vector<Program> Seeds() {
  return {program::TwoColumns(),
          Watched(program::TwoColumns()),
          Watched(program::EveryOp()),
          Watched(program::EveryCollective()),
          program::EveryOp(),
          program::EveryCollective(),
          Lowered("hybrid", 2, program::DType::kF32),
          Lowered("hybrid", 4, program::DType::kF32),
          Lowered("owt", 2, program::DType::kF32),
          Lowered("data", 3, program::DType::kF32),
          Lowered("data", 2, program::DType::kF64)};
}

// True if running it takes neither much memory nor much time, which Verify does not bound.
bool IsSmall(const Program& program) {
  double bytes = 0;
  for (const program::Buffer& buffer : program.buffers) {
    bytes += static_cast<double>(program::ElementCount(buffer.shape)) * 8;
    if (const auto* bucket = std::get_if<program::Bucket>(&buffer.storage); bucket != nullptr && bucket->parts > 1000) {
      return false;
    }
  }
  for (const program::Input& input : program.inputs) bytes += static_cast<double>(program::ElementCount(input.shape)) * 8;
  for (const Task& task : program.tasks) {
    double products = 1;  // of the two largest operands
    std::vector<int64_t> sizes;
    for (const program::BufferUse& use : task.uses) sizes.push_back(use.region.elements());
    std::sort(sizes.rbegin(), sizes.rend());
    for (size_t i = 0; i < std::min<size_t>(2, sizes.size()); ++i) products *= static_cast<double>(sizes[i]);
    if (products > kMostProducts) return false;
  }
  return bytes < static_cast<double>(kMostBytes);
}

// One Program on a backend of its own with inputs and state that depend on nothing but it.
class Execution {
 public:
  Execution(const Program& program, CpuOptions::Kernels kernels) : program_(program) {
    for (engine::HostSlot& slot : slots_) {
      for (const program::Input& input : program.inputs) {
        std::vector<double>& memory = inputs_.emplace_back(program::ElementCount(input.shape));
        Fill(input, memory);
        slot.inputs.push_back(memory.data());
      }
      for (const program::Output& output : program.outputs) {
        std::vector<void*>& pieces = slot.outputs.emplace_back();
        for (const program::Piece& piece : output.pieces) {
          pieces.push_back(outputs_.emplace_back(piece.region.elements()).data());
        }
      }
    }
    auto backend = MakeCpuBackend({.devices = program.device_count, .threads_per_device = 1, .kernels = kernels});
    EXPECT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    auto loaded = backend_->Load(program, slots_);
    status_ = loaded.status();
    if (!loaded.ok()) return;
    loaded_ = *std::move(loaded);
    for (const program::Buffer& buffer : program.buffers) {
      if (!IsState(buffer)) continue;
      std::vector<double> values = Integers(program::ElementCount(buffer.shape), buffer.id.value);
      for (double& value : values) value /= 16;
      EXPECT_TRUE(loaded_->Write(buffer.id, values).ok());
    }
  }

  const absl::Status& status() const { return status_; }

  // Everything that the host can see, step by step. `one_by_one`: nothing is launched before all that was has ended, except
  // between the first side of a meeting and the last.
  std::vector<double> Result(bool one_by_one) {
    const program::Meetings meetings(program_);
    std::vector<double> result;
    for (int64_t step = 0; step < kSteps; ++step) {
      size_t absent = 0;  // sides of meetings that have begun
      std::vector<bool> begun(meetings.all().size());
      for (const Task& task : program_.tasks) {
        for (program::TaskId wait : task.waits) loaded_->Await(task.device, task.lane, wait, step);
        for (program::TaskId wait : task.waits_previous) loaded_->Await(task.device, task.lane, wait, step - 1);
        loaded_->Launch(task.id, step);
        if (const int m = meetings.IndexOf(task.id); m >= 0) {
          if (!begun[m]) absent += meetings.all()[m].sides.size();
          begun[m] = true;
          --absent;
        }
        if (one_by_one && absent == 0) Synchronize(step);
      }
      if (step > 0) Append(step - 1, result);
    }
    Append(kSteps - 1, result);
    if (!status_.ok()) return {};
    std::vector<double> values;
    for (const program::Buffer& buffer : program_.buffers) {
      if (!IsState(buffer)) continue;
      values.assign(program::ElementCount(buffer.shape), 0);
      EXPECT_TRUE(loaded_->Read(buffer.id, absl::MakeSpan(values)).ok());
      result.insert(result.end(), values.begin(), values.end());
    }
    return result;
  }

 private:
  // Data may be wrong, such as a label that is none of the classes, and then there is no result.
  void Synchronize(int64_t step) {
    const absl::Status status = loaded_->Synchronize(step);
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
    status_.Update(status);
  }

  static bool IsState(const program::Buffer& buffer) {
    return buffer.lifetime == program::Lifetime::kPersistent && program::IsFloat(buffer.dtype) &&
           !std::holds_alternative<program::Bucket>(buffer.storage);
  }

  // In the element type that the input has on the host.
  static void Fill(const program::Input& input, std::vector<double>& memory) {
    const std::vector<double> values = Integers(static_cast<int64_t>(memory.size()), 1, 4);
    auto* f32 = reinterpret_cast<float*>(memory.data());
    auto* i32 = reinterpret_cast<int32_t*>(memory.data());
    for (size_t i = 0; i < values.size(); ++i) {
      if (input.host_dtype == program::DType::kF32) f32[i] = static_cast<float>(values[i] / 4);
      if (input.host_dtype == program::DType::kI32) i32[i] = static_cast<int32_t>(std::abs(values[i])) % 3;
      if (input.host_dtype == program::DType::kF64) memory[i] = std::abs(values[i]) / 8;
    }
  }

  void Append(int64_t step, std::vector<double>& result) {
    Synchronize(step);
    const size_t half = outputs_.size() / 2;
    for (size_t i = half * (step % 2); i < half * (step % 2 + 1); ++i) {
      result.insert(result.end(), outputs_[i].begin(), outputs_[i].end());
    }
  }

  const Program& program_;
  std::vector<std::vector<double>> inputs_, outputs_;  // of both slots; large enough for any element type
  engine::HostSlot slots_[2];
  std::unique_ptr<engine::Backend> backend_;
  std::unique_ptr<engine::LoadedProgram> loaded_;
  absl::Status status_;
};

// The same Program, in which each task reads copies of its own of what it only reads (loads, stores, whole buckets and the
// notes of max poolings aside): what it writes then lies apart from what it reads, whatever the rule `overlap` would let
// through.
Program ReadingCopies(const Program& program) {
  Program result = program;
  result.tasks.clear();
  const auto add = [&](Task task) {
    task.id.value = static_cast<int32_t>(result.tasks.size());
    task.waits.clear();
    task.waits_previous.clear();
    result.tasks.push_back(std::move(task));
  };
  for (Task task : program.tasks) {
    const bool of_host = program::Name(task) == "load" || program::Name(task) == "store";
    const auto* compute = std::get_if<program::Compute>(&task.body);
    const int argmax = compute == nullptr ? -1 : program::OperandOf(compute->op, task.uses.size(), program::Role::kArgmax);
    for (program::BufferUse& use : task.uses) {
      const program::Buffer& from = program.buffer(use.buffer);
      if (&use - task.uses.data() == argmax) continue;
      if (of_host || use.access != program::Access::kRead || std::holds_alternative<program::Bucket>(from.storage)) continue;
      program::Buffer copy{.id = {static_cast<int32_t>(result.buffers.size())}, .device = task.device, .name = "copy"};
      copy.dtype = from.dtype;
      copy.shape = use.region.size;
      copy.layout_as = copy.id;
      const program::BufferUse whole{copy.id, program::Region::Whole(copy.shape), program::Access::kWrite};
      Task reading = task;
      reading.body = program::Compute{program::Copy{}};
      reading.uses = {use, whole};
      add(std::move(reading));
      use = {copy.id, whole.region, program::Access::kRead};
      result.buffers.push_back(std::move(copy));
    }
    add(std::move(task));
  }
  program::AddAllWaits(result);
  return result;
}

// The executor takes it or says why not; it never reads or writes past an end.
void RunInExecutor(const Program& program, CpuOptions::Kernels kernels) {
  auto backend = MakeCpuBackend({.devices = program.device_count, .threads_per_device = 1, .kernels = kernels});
  auto executor = engine::Executor::Create(program, **backend);
  if (!executor.ok()) return;
  const auto pixels = (*executor)->NextInput<uint8_t>(engine::kImages);
  if (pixels.ok()) std::fill(pixels->begin(), pixels->end(), uint8_t{3});
  const auto images = (*executor)->NextInput<float>(engine::kImages);
  if (images.ok()) std::fill(images->begin(), images->end(), 0.5f);
  const auto labels = (*executor)->NextInput<int32_t>(engine::kLabels);
  if (labels.ok()) std::fill(labels->begin(), labels->end(), 1);
  ASSERT_TRUE((*executor)->Enqueue({.learning_rate = 0.1}).ok());
  ASSERT_TRUE((*executor)->Collect().ok());
}

// True if the lanes end, each of which takes its tasks in order, once what they wait for has ended and all sides of their
// meeting are there.
bool LanesEnd(const Program& program) {
  const program::Meetings meetings(program);
  std::vector<std::vector<program::TaskId>> before(program.tasks.size());  // by task
  for (const Task& task : program.tasks) before[task.id.value].assign(task.waits.begin(), task.waits.end());
  for (int lane = 0; lane < program.device_count * program::kLaneCount; ++lane) {
    const auto order =
        program::LaneOrder(program, lane / program::kLaneCount, static_cast<program::Lane>(lane % program::kLaneCount));
    for (size_t i = 1; i < order.size(); ++i) before[order[i].value].push_back(order[i - 1]);
  }
  std::vector<bool> ended(program.tasks.size());
  const auto can_start = [&](program::TaskId task) {
    return std::all_of(before[task.value].begin(), before[task.value].end(),
                       [&](program::TaskId other) { return ended[other.value]; });
  };
  for (size_t left = program.tasks.size(), left_before = left + 1; left < left_before;) {
    left_before = left;
    for (const Task& task : program.tasks) {
      const auto sides = meetings.SidesOf(task.id);
      if (ended[task.id.value] || !std::all_of(sides.begin(), sides.end(), can_start)) continue;
      for (program::TaskId side : sides) ended[side.value] = true;
      left -= sides.size();
    }
  }
  return std::find(ended.begin(), ended.end(), false) == ended.end();
}

bool SameBits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

// What became of the changes and of the cases.
struct Counts {
  int parse_refused = 0, verify_refused = 0, large = 0, unchanged = 0, not_loaded = 0, run = 0;
  int wrong_data = 0;                // of those that ran
  std::map<std::string, int> rules;  // of Verify that refused

  void Refuse(const absl::Status& status) {
    const std::string message(status.message());
    if (absl::StartsWith(message, "line ")) {
      ++parse_refused;
    } else {
      ++verify_refused;
      ++rules[message.substr(0, message.find(':'))];
    }
  }
};

// Takes back what Verify refuses, so that what is accepted adds up.
void ChangeWithinTheRules(program::Mutator& mutator, Program& program, Counts& counts) {
  Program changed = program;
  mutator.Change(changed);
  absl::Status status = program::Verify(changed);
  // Where the change is sound but for its order, dependencies that have changed want other waits.
  if (absl::StartsWith(status.message(), "order:")) {
    program::AddAllWaits(changed);
    status = program::Verify(changed);
  }
  if (!status.ok()) {
    counts.Refuse(status);
  } else if (!IsSmall(changed)) {
    ++counts.large;
  } else {
    program = std::move(changed);
  }
}

// One case: a seed Program changed, or a text that is the same.
std::optional<Program> MutantOf(const std::vector<Program>& seeds, int64_t number, Counts& counts) {
  program::Mutator mutator(static_cast<uint32_t>(number));
  const Program& seed = seeds[number % seeds.size()];
  Program changed = seed;
  for (int i = 0; i < kChanges; ++i) ChangeWithinTheRules(mutator, changed, counts);
  std::string text = program::Print(changed);
  if (number % 5 == 4) text = mutator.Change(text);
  absl::StatusOr<Program> parsed = program::Parse(text);
  if (!parsed.ok()) {
    counts.Refuse(parsed.status());
    return std::nullopt;
  }
  if (*parsed == seed) {
    ++counts.unchanged;
    return std::nullopt;
  }
  if (!IsSmall(*parsed)) {
    ++counts.large;
    return std::nullopt;
  }
  return *std::move(parsed);
}

// oneDNN's in every second case, but where the Program computes in f64, which they do not.
CpuOptions::Kernels KernelsFor(const Program& program, int64_t number) {
  const bool f32 = program.dtype == program::DType::kF32;
  return f32 && number % 2 == 0 ? CpuOptions::Kernels::kOneDnn : CpuOptions::Kernels::kReference;
}

void Note(int64_t number, const Program& program) {
  const char* path = std::getenv("COLONNADE_MUTATIONS_FILE");
  if (path != nullptr) std::ofstream(path) << "# case " << number << "\n" << program::Print(program);
}

TEST(Mutation, WhatVerifyAcceptsRunsAsIfInSequence) {
  const std::vector<Program> seeds = Seeds();
  const int64_t cases = FromEnvironment("COLONNADE_MUTATIONS", Draws(1000)),
                first = FromEnvironment("COLONNADE_MUTATIONS_FROM", 0);
  Counts counts;
  for (int64_t number = first; number < first + cases; ++number) {
    const std::optional<Program> program = MutantOf(seeds, number, counts);
    if (!program.has_value()) continue;
    Note(number, *program);
    ASSERT_TRUE(LanesEnd(*program)) << "case " << number << " would hang\n" << program::Print(*program);
    alarm(kSecondsBeforeItHangs);  // ends the test program
    const auto kernels = KernelsFor(*program, number);
    Execution in_lanes(*program, kernels);
    if (!in_lanes.status().ok()) {
      ++counts.not_loaded;
      EXPECT_NE(in_lanes.status().code(), absl::StatusCode::kInternal) << "case " << number << ": " << in_lanes.status();
      continue;
    }
    ++counts.run;
    const std::vector<double> found = in_lanes.Result(false);
    counts.wrong_data += !in_lanes.status().ok();
    if (number % 4 == 0) RunInExecutor(*program, kernels);
    if (kThreadSanitized) continue;  // tasks one after the other cannot race
    const std::vector<double> expected = Execution(*program, kernels).Result(true);
    EXPECT_TRUE(SameBits(found, expected)) << "case " << number << "\n" << program::Print(*program);
    // Copies may have another layout, and then oneDNN computes in another order.
    if (kernels == CpuOptions::Kernels::kReference) {
      const Program apart = ReadingCopies(*program);
      EXPECT_TRUE(program::Verify(apart).ok()) << program::Verify(apart);
      EXPECT_TRUE(SameBits(Execution(apart, kernels).Result(true), expected))
          << "with operands apart, case " << number << "\n"
          << program::Print(*program);
    }
    if (::testing::Test::HasFailure()) break;
  }
  alarm(0);
  std::printf(
      "%lld cases: Parse refused %d changes and Verify %d; %d made a Program too large to run\n"
      "%d cases unchanged, %d not loaded, %d run, %d of them on data that a task refused\n",
      static_cast<long long>(cases), counts.parse_refused, counts.verify_refused, counts.large, counts.unchanged,
      counts.not_loaded, counts.run, counts.wrong_data);
  for (const auto& [rule, count] : counts.rules) std::printf("  %s %d\n", rule.c_str(), count);
  EXPECT_GE(counts.rules["deadlock"] * 100, cases) << "deadlock hardly ever is the rule that refuses";
  EXPECT_GE(counts.run * 10, cases * 3) << "fewer than three in ten were run: the test says little";
}

// Found by the test above: the LRN's scratch was as large as its window.
TEST(Mutation, ALrnsWindowWiderThanItsChannelsTakesNoMemory) {
  Program program = program::EveryOp();
  constexpr int64_t kWide = int64_t{1} << 40;
  for (const char* pass : {"lrn_forward", "lrn_backward"}) {
    program::Compute& compute = std::get<program::Compute>(program::Find(program, pass).body);
    if (auto* forward = std::get_if<program::LrnForward>(&compute.op)) forward->size = kWide;
    if (auto* backward = std::get_if<program::LrnBackward>(&compute.op)) backward->size = kWide;
  }
  ASSERT_TRUE(program::Verify(program).ok()) << program::Verify(program);
  Execution wide(program, CpuOptions::Kernels::kOneDnn);
  ASSERT_TRUE(wide.status().ok()) << wide.status();
  EXPECT_FALSE(wide.Result(true).empty());
}

// Found by the test above: oneDNN sized the argmax for half of the batch, and wrote past its end.
TEST(Mutation, OneDnnRefusesABoxOfAnArgmax) {
  Program program = program::EveryOp();
  for (const char* pass : {"max_pool_forward", "max_pool_backward"}) {
    for (program::BufferUse& use : program::Find(program, pass).uses) use.region.offset[0] = use.region.size[0] /= 2;
  }
  ASSERT_TRUE(program::Verify(program).ok()) << program::Verify(program);
  const Execution refused(program, CpuOptions::Kernels::kOneDnn);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("used in boxes or by poolings of different sizes"));
  EXPECT_TRUE(Execution(program, CpuOptions::Kernels::kReference).status().ok());
}

}  // namespace
}  // namespace colonnade::cpu
