#include "engine/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/pieces.h"
#include "program/status_macros.h"

namespace colonnade::engine {
namespace {

using program::Output;
using program::Program;

constexpr double kLargestSeed = 0x1p53;

const program::Input* FindInput(const Program& program, absl::string_view name) {
  for (const program::Input& input : program.inputs) {
    if (input.name == name) return &input;
  }
  return nullptr;
}
int64_t BytesOfInput(const Program& program, absl::string_view name) {
  const program::Input* input = FindInput(program, name);
  return input == nullptr ? 0 : program::ElementCount(input->shape) * program::SizeInBytes(input->host_dtype);
}

// Images, labels and step scalars, each of the type that the host's memory has.
absl::Status CheckInputs(const Program& program) {
  const std::pair<const char*, program::DType> known[] = {{"images", program::DType::kF32},
                                                          {"images", program::DType::kU8},
                                                          {"labels", program::DType::kI32},
                                                          {"scalars", program::DType::kF64}};
  for (const program::Input& input : program.inputs) {
    const bool fits = std::any_of(std::begin(known), std::end(known), [&](const auto& k) {
      return input.name == k.first && input.host_dtype == k.second &&
             (input.name != "scalars" || program::ElementCount(input.shape) == program::kStepScalarCount);
    });
    if (!fits) {
      return absl::InvalidArgumentError(
          absl::StrFormat("input \"%s\" %s of %s: expected images f32 or u8, labels i32 and scalars f64 [%d]", input.name,
                          program::ToString(input.shape), program::Name(input.host_dtype), int{program::kStepScalarCount}));
    }
  }
  return absl::OkStatus();
}

template <class T>
T At(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// The loss whose hits and labels count.
absl::string_view LastLoss(const Program& program) {
  absl::string_view last;
  for (const Output& output : program.outputs) {
    if (output.kind == Output::Kind::kMetrics) last = output.layer;
  }
  return last;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Program& program, Backend& backend) {
  RETURN_IF_ERROR(CheckInputs(program));
  if (program.device_count > backend.device_count()) {
    return absl::FailedPreconditionError(absl::StrFormat("the Program uses %d devices, the %s backend has %d",
                                                         program.device_count, backend.name(), backend.device_count()));
  }
  auto executor = std::unique_ptr<Executor>(new Executor(program));
  ASSIGN_OR_RETURN(executor->loaded_, backend.Load(program, executor->slots_));
  return executor;
}

Executor::Executor(const Program& program) : program_(program), first_writes_(FirstWrites(program)) {
  for (const program::Task& task : program.tasks) {
    for (program::TaskId wait : task.waits) {
      commands_.push_back({.task = wait, .device = task.device, .lane = task.lane, .is_wait = true});
    }
    for (program::TaskId wait : task.waits_previous) {
      commands_.push_back({.task = wait, .device = task.device, .lane = task.lane, .is_wait = true, .previous_step = true});
    }
    commands_.push_back({.task = task.id, .device = task.device, .lane = task.lane});
  }
  for (int slot = 0; slot < 2; ++slot) {
    Staging& staging = staging_[slot];
    staging.images.resize(BytesOfInput(program, "images"));
    staging.labels.resize(BytesOfInput(program, "labels") / static_cast<int64_t>(sizeof(int32_t)));
    staging.scalars.resize(program::kStepScalarCount);
    for (const program::Input& input : program.inputs) {
      void* data = staging.scalars.data();
      if (input.name == "images") data = staging.images.data();
      if (input.name == "labels") data = staging.labels.data();
      slots_[slot].inputs.push_back(data);
    }
    for (const Output& output : program.outputs) {
      std::vector<std::vector<std::byte>>& pieces = staging.outputs.emplace_back();
      std::vector<void*>& pointers = slots_[slot].outputs.emplace_back();
      for (const program::Piece& piece : output.pieces) {
        const int64_t bytes = piece.region.elements() * program::SizeInBytes(program.buffer(piece.buffer).dtype);
        pieces.emplace_back(bytes);
        pointers.push_back(pieces.back().data());
      }
    }
  }
}

template <class T>
absl::StatusOr<absl::Span<T>> Executor::NextImagesOf(program::DType dtype) {
  const program::Input* input = FindInput(program_, "images");
  if (input != nullptr && input->host_dtype != dtype) {
    return absl::FailedPreconditionError(absl::StrFormat("network \"%s\": its images are %s %s, found %s", program_.model,
                                                         program::Name(input->host_dtype), program::ToString(input->shape),
                                                         program::Name(dtype)));
  }
  if (enqueued_ >= 2) {
    RETURN_IF_ERROR(loaded_->Synchronize(enqueued_ - 2));
  }
  PageVector<std::byte>& images = staging_[enqueued_ % 2].images;
  return absl::MakeSpan(reinterpret_cast<T*>(images.data()), images.size() / sizeof(T));
}

absl::StatusOr<absl::Span<float>> Executor::NextImages() { return NextImagesOf<float>(program::DType::kF32); }
absl::StatusOr<absl::Span<uint8_t>> Executor::NextPixels() { return NextImagesOf<uint8_t>(program::DType::kU8); }

absl::Span<int32_t> Executor::NextLabels() { return absl::MakeSpan(staging_[enqueued_ % 2].labels); }

absl::Status Executor::WriteInputs(const StepInputs& inputs) {
  if (in_flight() >= 2) return absl::FailedPreconditionError("two steps are in flight; collect one before the next");
  if (static_cast<double>(inputs.seed) >= kLargestSeed || static_cast<double>(inputs.step) >= kLargestSeed) {
    return absl::FailedPreconditionError("expected a seed and a step below 2^53");
  }
  Staging& staging = staging_[enqueued_ % 2];
  const int64_t labels =
      std::count_if(staging.labels.begin(), staging.labels.end(), [](int32_t label) { return label >= 0; });
  staging.scalars[program::kLearningRate] = inputs.learning_rate;
  staging.scalars[program::kLabelCount] = static_cast<double>(std::max<int64_t>(labels, 1));
  staging.scalars[program::kStep] = static_cast<double>(inputs.step);
  staging.scalars[program::kSeed] = static_cast<double>(inputs.seed);
  return absl::OkStatus();
}

void Executor::Give(const Command& command) {
  if (command.is_wait) {
    loaded_->Await(command.device, command.lane, command.task, enqueued_ - (command.previous_step ? 1 : 0));
  } else {
    loaded_->Launch(command.task, enqueued_);
  }
}

absl::Status Executor::Enqueue(const StepInputs& inputs) {
  RETURN_IF_ERROR(WriteInputs(inputs));
  loaded_->Fence();
  for (const Command& command : commands_) Give(command);
  ++enqueued_;
  return absl::OkStatus();
}

absl::Status Executor::EnqueueAround(const StepInputs& inputs, Look look) {
  RETURN_IF_ERROR(WriteInputs(inputs));
  loaded_->Fence();
  loaded_->LaunchInParts(enqueued_);
  absl::Status status;
  auto write = first_writes_.begin();
  const auto look_before = [&](size_t task) {
    for (; write != first_writes_.end() && write->task <= task; ++write) {
      if (status.ok()) status = look(write->parameter);
    }
  };
  for (const Command& command : commands_) {
    if (!command.is_wait) look_before(command.task.value);
    Give(command);
  }
  look_before(program_.tasks.size());
  ++enqueued_;
  return status;
}

std::optional<absl::Duration> Executor::LatestHeldUp() const {
  const std::vector<TaskTime> times = LatestTimes();
  const bool timed = std::any_of(times.begin(), times.end(), [](const TaskTime& t) { return t.end > absl::ZeroDuration(); });
  if (!timed) return std::nullopt;
  return HeldUp(program_, first_writes_, times);
}

absl::StatusOr<StepResult> Executor::Collect() {
  if (in_flight() == 0) return absl::FailedPreconditionError("no step is in flight");
  RETURN_IF_ERROR(loaded_->Synchronize(collected_));
  StepResult result = ReadResult(slots_[collected_ % 2]);
  ++collected_;
  return result;
}

StepResult Executor::ReadResult(const HostSlot& slot) const {
  StepResult result;
  double loss_sum = 0;
  // The message names the loss first, then gradients in the order of outputs; of several devices the lowest.
  using Rank = std::tuple<bool, size_t, int>;
  std::optional<Rank> first;
  auto note = [&](const Rank& rank, const std::string& what, const std::string& layer) {
    if (first.has_value() && *first <= rank) return;
    first = rank;
    result.not_finite = what;
    result.not_finite_layer = layer;
    result.not_finite_device = std::get<int>(rank);
  };
  const absl::string_view last_loss = LastLoss(program_);
  for (size_t o = 0; o < program_.outputs.size(); ++o) {
    const Output& output = program_.outputs[o];
    const bool of_last_loss = output.layer == last_loss;
    for (size_t p = 0; p < output.pieces.size(); ++p) {
      const void* data = slot.outputs[o][p];
      const int device = program_.buffer(output.pieces[p].buffer).device;
      if (output.kind == Output::Kind::kMetrics) {
        const double loss = At<double>(data, program::kLossSum);
        loss_sum += loss;
        if (!std::isfinite(loss)) note({false, o, device}, "loss", output.layer);
        if (!of_last_loss) continue;
        result.top1_hits += std::llround(At<double>(data, program::kTop1Hits));
        result.top5_hits += std::llround(At<double>(data, program::kTop5Hits));
        result.labels += std::llround(At<double>(data, program::kLabels));
      } else if (output.kind == Output::Kind::kFinite) {
        for (int64_t i = 0; i < output.shape[0]; ++i) {
          if (At<int32_t>(data, i) != 0) continue;
          const program::Parameter& parameter = program_.parameters[i];
          note({true, o, device}, absl::StrCat("gradient of ", parameter.name), parameter.layer);
        }
      }
    }
  }
  result.loss = loss_sum / static_cast<double>(std::max<int64_t>(result.labels, 1));
  return result;
}

absl::StatusOr<StepResult> Executor::RunStep(absl::Span<const float> images, absl::Span<const int32_t> labels,
                                             const StepInputs& inputs) {
  if (in_flight() != 0) return absl::FailedPreconditionError("RunStep needs that no step is in flight");
  ASSIGN_OR_RETURN(absl::Span<float> next_images, NextImages());
  return RunStepOn(next_images, images, labels, inputs);
}

absl::StatusOr<StepResult> Executor::RunStepOnPixels(absl::Span<const uint8_t> pixels, absl::Span<const int32_t> labels,
                                                     const StepInputs& inputs) {
  if (in_flight() != 0) return absl::FailedPreconditionError("RunStep needs that no step is in flight");
  ASSIGN_OR_RETURN(absl::Span<uint8_t> next_pixels, NextPixels());
  return RunStepOn(next_pixels, pixels, labels, inputs);
}

template <class T>
absl::StatusOr<StepResult> Executor::RunStepOn(absl::Span<T> next_images, absl::Span<const T> images,
                                               absl::Span<const int32_t> labels, const StepInputs& inputs) {
  if (images.size() != next_images.size() || labels.size() != NextLabels().size()) {
    return absl::FailedPreconditionError(absl::StrFormat("expected %d image values and %d labels, found %d and %d",
                                                         next_images.size(), NextLabels().size(), images.size(),
                                                         labels.size()));
  }
  std::copy(images.begin(), images.end(), next_images.begin());
  std::copy(labels.begin(), labels.end(), NextLabels().begin());
  RETURN_IF_ERROR(Enqueue(inputs));
  return Collect();
}

std::vector<std::vector<TaskTime>> Executor::LastTimes() const {
  std::vector<std::vector<TaskTime>> times;
  for (int64_t step = std::max<int64_t>(collected_ - 2, 0); step < collected_; ++step) times.push_back(loaded_->Times(step));
  return times;
}

absl::StatusOr<std::vector<double>> Executor::ReadGradient(const Output& output) const {
  // Compared one by one: the difference of pointers into different arrays is undefined.
  size_t index = 0;
  while (index < program_.outputs.size() && &program_.outputs[index] != &output) ++index;
  if (index == program_.outputs.size() || output.kind != Output::Kind::kGradient) {
    return absl::FailedPreconditionError("expected a gradient output of this executor's Program");
  }
  if (collected_ == 0) return absl::FailedPreconditionError("no step has been collected");
  std::vector<double> values(program::ElementCount(output.shape));
  for (size_t p = 0; p < output.pieces.size(); ++p) {
    const void* data = slots_[(collected_ - 1) % 2].outputs[index][p];
    const program::DType dtype = program_.buffer(output.pieces[p].buffer).dtype;
    if (!program::IsMaster(dtype)) {
      return absl::InvalidArgumentError(
          absl::StrCat("gradient ", output.name, " is of ", program::Name(dtype), "; expected f32 or f64"));
    }
    const bool f64 = dtype == program::DType::kF64;
    ForEachElement(output.shape, output.pieces[p].region, [&](int64_t global, int64_t local) {
      values[global] = f64 ? At<double>(data, local) : At<float>(data, local);
    });
  }
  return values;
}

}  // namespace colonnade::engine
