#include "engine/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "engine/box_runs.h"
#include "engine/error_context.h"
#include "program/visit_dtype.h"

namespace colonnade::engine {
namespace {

using program::Output;
using program::Program;

constexpr const char* kScalars = program::kHostInputNames[program::HostInput::kScalars];

absl::Status CheckScalars(const program::Input& input) {
  const program::Shape expected = {program::StepScalar::kCount};
  if (input.host_dtype == program::DType::kF64 && input.shape == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("input \"%s\" %s of %s: expected f64 %s", input.name,
                                                    program::ToString(input.shape), program::Name(input.host_dtype),
                                                    program::ToString(expected)));
}

template <class T>
T At(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Program& program, Backend& backend) {
  auto executor = std::unique_ptr<Executor>(new Executor(program));
  if (executor->scalars_ >= 0) RETURN_IF_ERROR(CheckScalars(program.inputs[executor->scalars_]));
  if (program.device_count > backend.device_count()) {
    return absl::FailedPreconditionError(absl::StrFormat("the Program uses %d devices, the %s backend has %d",
                                                         program.device_count, backend.name(), backend.device_count()));
  }
  ASSIGN_OR_RETURN(executor->loaded_, backend.Load(program, executor->slots_));
  return executor;
}

Executor::Executor(const Program& program)
    : program_(program), first_writes_(FirstWrites(program)), scalars_(InputNamed(kScalars)) {
  for (const program::Task& task : program.tasks) {
    const auto add = [&](Command::Kind kind, program::TaskId of) {
      commands_.push_back({kind, of, task.device, task.lane});
    };
    for (program::TaskId wait : task.waits) add(Command::Kind::kAwait, wait);
    for (program::TaskId wait : task.waits_previous) add(Command::Kind::kAwaitPrevious, wait);
    add(Command::Kind::kLaunch, task.id);
  }
  for (int slot = 0; slot < 2; ++slot) {
    Staging& staging = staging_[slot];
    for (const program::Input& input : program.inputs) {
      staging.inputs.emplace_back(program::ElementCount(input.shape) * program::SizeInBytes(input.host_dtype));
      slots_[slot].inputs.push_back(staging.inputs.back().data());
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

int Executor::InputNamed(absl::string_view name) const {
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    if (program_.inputs[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

absl::StatusOr<int> Executor::IndexOfInput(absl::string_view name, program::DType dtype) const {
  const int index = InputNamed(name);
  if (index >= 0 && program_.inputs[index].host_dtype == dtype) return index;
  std::string found;
  if (index >= 0) {
    const program::Input& input = program_.inputs[index];
    found = absl::StrCat(program::Name(input.host_dtype), " ", program::ToString(input.shape));
  } else {
    std::vector<std::string> names;
    for (const program::Input& input : program_.inputs) names.push_back(input.name);
    found = absl::StrCat("none", base::DidYouMean("; ", name, names));
  }
  return absl::FailedPreconditionError(absl::StrFormat("network \"%s\": expected an input \"%s\" of %s, found %s",
                                                       program_.model, base::Legible(name), program::Name(dtype), found));
}

absl::StatusOr<absl::Span<std::byte>> Executor::NextBytes(int input) {
  RETURN_IF_ERROR(failure_);
  if (enqueued_ >= 2) {
    RETURN_IF_ERROR(loaded_->Synchronize(enqueued_ - 2));
  }
  return absl::MakeSpan(staging_[enqueued_ % 2].inputs[input]);
}

absl::Status Executor::WriteScalars(const StepInputs& inputs) {
  RETURN_IF_ERROR(failure_);
  if (in_flight() >= 2) return absl::FailedPreconditionError("two steps are in flight; collect one before the next");
  if (std::max(inputs.seed, inputs.step) > program::kLargestScalar) {
    return absl::FailedPreconditionError(absl::StrFormat("expected a seed and a step of at most %d, found seed %d, step %d",
                                                         program::kLargestScalar, inputs.seed, inputs.step));
  }
  if (!std::isfinite(inputs.learning_rate)) {
    return absl::FailedPreconditionError(absl::StrFormat("expected a finite learning rate, found %g", inputs.learning_rate));
  }
  if (scalars_ < 0) return absl::OkStatus();
  // At most one step is in flight here, and it reads the other slot.
  auto* scalars = reinterpret_cast<double*>(staging_[enqueued_ % 2].inputs[scalars_].data());
  scalars[program::StepScalar::kLearningRate] = inputs.learning_rate;
  scalars[program::StepScalar::kStep] = static_cast<double>(inputs.step);
  scalars[program::StepScalar::kSeed] = static_cast<double>(inputs.seed);
  return absl::OkStatus();
}

void Executor::Issue(const Command& command) {
  switch (command.kind) {
    case Command::Kind::kLaunch:
      return loaded_->Launch(command.task, enqueued_);
    case Command::Kind::kAwait:
      return loaded_->Await(command.device, command.lane, command.task, enqueued_);
    case Command::Kind::kAwaitPrevious:
      return loaded_->Await(command.device, command.lane, command.task, enqueued_ - 1);
  }
}

absl::Status Executor::Enqueue(const StepInputs& inputs) {
  RETURN_IF_ERROR(WriteScalars(inputs));
  loaded_->Fence();
  for (const Command& command : commands_) Issue(command);
  ++enqueued_;
  return absl::OkStatus();
}

absl::Status Executor::EnqueueWhileReading(const StepInputs& inputs, ReadParameter read) {
  RETURN_IF_ERROR(WriteScalars(inputs));
  loaded_->Fence();
  loaded_->LaunchInParts(enqueued_);
  absl::Status status;
  auto write = first_writes_.begin();
  const auto read_before = [&](size_t task) {
    for (; write != first_writes_.end() && write->task <= task; ++write) {
      if (status.ok()) status = read(write->parameter);
    }
  };
  for (const Command& command : commands_) {
    if (command.kind == Command::Kind::kLaunch) read_before(command.task.value);
    Issue(command);
  }
  read_before(program_.tasks.size());
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
  const int64_t step = collected_++;
  const absl::Status status = loaded_->Synchronize(step);  // after a failure, too: nothing runs once all are collected
  RETURN_IF_ERROR(failure_);
  if (!status.ok()) {
    failure_ = WithContext(status, "an earlier step of this executor failed, and another executor is needed");
    return status;
  }
  return ReadResult(slots_[step % 2]);
}

absl::Span<const double> Executor::DoublesIn(const HostSlot& slot, size_t output) const {
  return absl::MakeConstSpan(static_cast<const double*>(slot.outputs[output][0]),
                             program::ElementCount(program_.outputs[output].shape));
}

StepResult Executor::ReadResult(const HostSlot& slot) const {
  StepResult result;
  for (size_t o = 0; o < program_.outputs.size(); ++o) {
    const Output& output = program_.outputs[o];
    if (output.kind == Output::Kind::kGate) result.is_gate_closed = DoublesIn(slot, o)[program::Gate::kIsOpen] == 0;
    if (output.kind != Output::Kind::kMetrics) continue;
    const absl::Span<const double> sums = DoublesIn(slot, o);
    const bool finite = std::all_of(sums.begin(), sums.end(), [](double sum) { return std::isfinite(sum); });
    if (finite || !result.not_finite.empty()) continue;
    result.not_finite = "loss";
    result.not_finite_layer = output.layer;
  }
  NameGradientThatIsNotFinite(slot, result);
  if (result.is_gate_closed && result.not_finite.empty()) result.not_finite = "norm of the gradients' sums over all devices";
  return result;
}

// Notes the lowest device that has a gradient that is not finite, and names its first such gradient unless a loss that is
// not finite has been named already.
void Executor::NameGradientThatIsNotFinite(const HostSlot& slot, StepResult& result) const {
  const program::Parameter* found = nullptr;
  for (size_t o = 0; o < program_.outputs.size(); ++o) {
    const Output& output = program_.outputs[o];
    if (output.kind != Output::Kind::kFinite) continue;
    for (size_t p = 0; p < output.pieces.size(); ++p) {
      const int device = program_.buffer(output.pieces[p].buffer).device;
      if (found != nullptr && device >= result.not_finite_device) continue;
      const int64_t flags = output.shape[0];
      int64_t first = 0;
      while (first < flags && At<int32_t>(slot.outputs[o][p], first) != 0) ++first;
      if (first == flags) continue;
      found = &program_.parameters[first];
      result.not_finite_device = device;
    }
  }
  if (found == nullptr || !result.not_finite.empty()) return;
  result.not_finite = absl::StrCat("gradient of ", found->name);
  result.not_finite_layer = found->layer;
}

std::vector<std::vector<TaskTime>> Executor::LastTimes() const {
  std::vector<std::vector<TaskTime>> times;
  for (int64_t step = std::max<int64_t>(collected_ - 2, 0); step < collected_; ++step) times.push_back(loaded_->Times(step));
  return times;
}

absl::StatusOr<std::vector<double>> Executor::ReadOutput(const Output& output) const {
  // Compared one by one: the difference of pointers into different arrays is undefined.
  size_t index = 0;
  while (index < program_.outputs.size() && &program_.outputs[index] != &output) ++index;
  const bool is_tensor = output.kind == Output::Kind::kGradient || output.kind == Output::Kind::kActivation;
  if (index == program_.outputs.size() || !is_tensor) {
    return absl::FailedPreconditionError(
        "expected a gradient or an activation among the outputs of this executor's Program");
  }
  if (collected_ == 0) return absl::FailedPreconditionError("no step has been collected");
  RETURN_IF_ERROR(failure_);
  std::vector<double> values(program::ElementCount(output.shape));
  for (size_t p = 0; p < output.pieces.size(); ++p) {
    const void* data = slots_[(collected_ - 1) % 2].outputs[index][p];
    program::VisitDType(program_.buffer(output.pieces[p].buffer).dtype, [&]<class T>(T) {
      ForEachElement(output.shape, output.pieces[p].region,
                     [&](int64_t global, int64_t local) { values[global] = static_cast<double>(At<T>(data, local)); });
    });
  }
  return values;
}

absl::StatusOr<std::vector<double>> Executor::ReadActivation(absl::string_view layer) const {
  std::vector<std::string> shown;
  for (const Output& output : program_.outputs) {
    if (output.kind != Output::Kind::kActivation) continue;
    if (output.name == layer) return ReadOutput(output);
    shown.push_back(output.name);
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("expected a layer that the Program of \"%s\" shows, found \"%s\"%s", program_.model, layer,
                      shown.empty() ? "; it shows none: name the layer in LowerOptions::shown_layers"
                                    : base::DidYouMean("; ", std::string(layer), shown)));
}

}  // namespace colonnade::engine
