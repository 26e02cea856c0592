// Runs a Program on a backend, step by step, exactly in the order that the Program holds; it decides nothing.
//
// Enqueue hands a whole step to the lanes and returns; steps overlap as far as the Program's waits allow, two at a time.
// Steps of several executors on one backend run in the order in which they were enqueued, and need not be collected between.
// One host thread drives all executors of a backend.
#ifndef COLONNADE_ENGINE_EXECUTOR_H_
#define COLONNADE_ENGINE_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/backend.h"
#include "engine/first_writes.h"
#include "engine/io/pages.h"
#include "program/program.h"

namespace colonnade::engine {

// What the host gives to one step beside the Program's other inputs.
struct StepInputs {
  double learning_rate = 0;
  uint64_t step = 0;  // keys the random numbers
  uint64_t seed = 1;  // < 2^53
};

// What one step returns.
struct StepResult {
  // The first value that was not finite: "loss", else "gradient of" a parameter; empty if all were finite.
  std::string not_finite;
  std::string not_finite_layer;
  int not_finite_device = -1;  // the lowest that made a gradient which is not finite; −1 where none did
  // Whether a gate was closed, so that the step left all state as it was. Each device's own gradients may be finite then,
  // where their sum over the devices is not: not_finite says so, and names no layer.
  bool is_gate_closed = false;
};

// An input of an executor's Program, of elements of T, found once so that steps look up no names.
template <class T>
struct InputOf {
  int index = 0;
};

class Executor {
 public:
  // Loads `program`, which must outlive the executor, on `backend`, which need not. InvalidArgument where its input
  // "scalars" is not program::StepScalar; FailedPrecondition where the backend has too few devices. REQUIRES:
  // program::Verify(program) is OK.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const program::Program& program, Backend& backend);
  static absl::StatusOr<std::unique_ptr<Executor>> Create(program::Program&&, Backend&) = delete;  // it would be gone

  // Finds the Program's input of that name. FailedPrecondition where there is none, or its elements are not T: float,
  // double, int32_t or uint8_t.
  template <class T>
  absl::StatusOr<InputOf<T>> FindInput(absl::string_view name) const {
    absl::StatusOr<int> index = IndexOfInput(name, program::DTypeOf<T>());
    if (!index.ok()) return index.status();
    return InputOf<T>{*index};
  }
  bool HasInput(absl::string_view name) const { return InputNamed(name) >= 0; }

  // Returns the host memory of an input in the next step to be enqueued: the global tensor, row-major. Fill all inputs but
  // "scalars", then Enqueue. Blocks until the step two before has ended.
  template <class T>
  absl::StatusOr<absl::Span<T>> NextInput(InputOf<T> input) {
    absl::StatusOr<absl::Span<std::byte>> bytes = NextBytes(input.index);
    if (!bytes.ok()) return bytes.status();
    return absl::MakeSpan(reinterpret_cast<T*>(bytes->data()), bytes->size() / sizeof(T));
  }
  // Calls FindInput and NextInput.
  template <class T>
  absl::StatusOr<absl::Span<T>> NextInput(absl::string_view name) {
    absl::StatusOr<InputOf<T>> input = FindInput<T>(name);
    if (!input.ok()) return input.status();
    return NextInput(*input);
  }

  // Launches the next step on what NextInput's memory holds, and returns without waiting for it. FailedPrecondition, and
  // nothing is launched, where two steps are in flight (Collect one first), seed or step is above kLargestScalar, or the
  // learning rate is not finite. What goes wrong in the step itself is returned by its Collect.
  absl::Status Enqueue(const StepInputs& inputs);

  // Launches the next step while the caller reads the state that the step before left. It calls `read` once for each
  // parameter, before it launches a task that changes what is kept of that parameter; `read` may Collect the steps before
  // and read that state, while the tasks launched so far run. The step is launched whole even where `read` fails. Returns
  // the first error of `read`, which is not called again after it; else errors as Enqueue.
  using ReadParameter = absl::FunctionRef<absl::Status(size_t parameter)>;
  absl::Status EnqueueWhileReading(const StepInputs& inputs, ReadParameter read);

  // Waits for the oldest step that was enqueued and not yet collected. FailedPrecondition if there is none. After a step
  // that failed, as on a label that is no class, the executor runs no more: this error is returned for the steps in flight,
  // and by NextInput, Enqueue, EnqueueWhileReading, ReadOutput and ReadActivation. What the devices keep may be read once
  // all steps are collected, and another executor be made for them.
  absl::StatusOr<StepResult> Collect();
  int64_t in_flight() const { return enqueued_ - collected_; }

  // Returns the values of Program::outputs[output] in the latest collected step. REQUIRES: the output is of kMetrics; a step
  // has been collected, and none enqueued since.
  absl::Span<const double> LatestSums(size_t output) const { return DoublesIn(slots_[(collected_ - 1) % 2], output); }
  // Returns the global tensor of a kGradient or kActivation output in the latest collected step, row-major.
  // FailedPrecondition where it is none such of this Program, or no step has been collected. One step may be in flight.
  absl::StatusOr<std::vector<double>> ReadOutput(const program::Output& output) const;
  // Does the same with the activation of `layer`, [samples, …]. FailedPrecondition, too, where the Program does not show it.
  absl::StatusOr<std::vector<double>> ReadActivation(absl::string_view layer) const;

  // Returns the times of all tasks in the latest two collected steps (one, where there was one), the older first. REQUIRES:
  // none in flight.
  std::vector<std::vector<TaskTime>> LastTimes() const;
  // Returns the times of the latest collected step; the next one may be in flight. REQUIRES: one has been collected.
  std::vector<TaskTime> LatestTimes() const { return loaded_->Times(collected_ - 1); }
  // Returns how long EnqueueWhileReading held up the latest collected step; nothing where the backend does not time tasks.
  std::optional<absl::Duration> LatestHeldUp() const;

  LoadedProgram& loaded() { return *loaded_; }
  const program::Program& program() const { return program_; }

 private:
  explicit Executor(const program::Program& program);
  int InputNamed(absl::string_view name) const;  // −1 if there is none
  absl::StatusOr<int> IndexOfInput(absl::string_view name, program::DType dtype) const;
  absl::StatusOr<absl::Span<std::byte>> NextBytes(int input);
  absl::Status WriteScalars(const StepInputs& inputs);
  absl::Span<const double> DoublesIn(const HostSlot& slot, size_t output) const;
  StepResult ReadResult(const HostSlot& slot) const;
  void NameGradientThatIsNotFinite(const HostSlot& slot, StepResult& result) const;

  // One Launch or Await call of a step; commands_ holds them in an order in which they can be enqueued.
  struct Command {
    enum class Kind { kLaunch, kAwait, kAwaitPrevious };  // a task of this step, or of the step before
    Kind kind = Kind::kLaunch;
    program::TaskId task;  // to launch, or to wait for
    int device = 0;        // whose `lane` launches it or waits
    program::Lane lane = program::Lane::kCompute;
  };

  // Issues the command to the backend, as part of the step that is being enqueued.
  void Issue(const Command& command);

  const program::Program& program_;
  std::vector<Command> commands_;
  std::vector<FirstWrite> first_writes_;
  const int scalars_;  // of the inputs; −1 if there is none
  // Host memory behind the two slots.
  struct Staging {
    std::vector<PageVector<std::byte>> inputs;
    std::vector<std::vector<std::vector<std::byte>>> outputs;
  };
  Staging staging_[2];
  HostSlot slots_[2];
  std::unique_ptr<LoadedProgram> loaded_;
  int64_t enqueued_ = 0, collected_ = 0;
  absl::Status failure_;  // of the first step that failed
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_EXECUTOR_H_
