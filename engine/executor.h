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
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/backend.h"
#include "engine/first_writes.h"
#include "engine/io/pages.h"
#include "program/program.h"

namespace colonnade::engine {

// What the host gives to one step beside images and labels.
struct StepInputs {
  double learning_rate = 0;
  uint64_t step = 0;  // keys the random numbers
  uint64_t seed = 1;  // < 2^53
};

// What one step returns.
struct StepResult {
  double loss = 0;  // Σ over the losses, each a mean over the labels ≥ 0, weighted in training
  int64_t top1_hits = 0, top5_hits = 0, labels = 0;
  // The first thing that was not finite, empty if all was: "loss", else "gradient of" a parameter; on the lowest such
  // device.
  std::string not_finite;
  std::string not_finite_layer;
  int not_finite_device = -1;
};

class Executor {
 public:
  // Loads `program` on `backend`; both must outlive the executor. InvalidArgument where the Program's inputs are not images,
  // labels and scalars; FailedPrecondition where the backend has too few devices.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const program::Program& program, Backend& backend);

  // Host memory of the next step to be enqueued: fill it, then Enqueue. Images come first, as the Program's input states
  // them: f32 [N, C, …] (NextImages) or bytes [N, …, C] (NextPixels); FailedPrecondition where they are the other. Either
  // blocks until the step two before has ended. Labels [N], −1 for padding. Empty where the Program has no such input.
  absl::StatusOr<absl::Span<float>> NextImages();
  absl::StatusOr<absl::Span<uint8_t>> NextPixels();
  absl::Span<int32_t> NextLabels();

  // Launches the next step with what images and labels were filled with. Never blocks.
  absl::Status Enqueue(const StepInputs& inputs);

  // The same, while the state after the step before is read: `look` is called once for each parameter, before anything is
  // launched that changes what is kept of it, and may Collect the steps before and read that; what was launched until then
  // runs meanwhile. The step is launched whole even where `look` fails; its first error, after which it is not called again.
  using Look = absl::FunctionRef<absl::Status(size_t parameter)>;
  absl::Status EnqueueAround(const StepInputs& inputs, Look look);

  // Waits for the oldest step that was enqueued and not yet collected. FailedPrecondition if there is none.
  absl::StatusOr<StepResult> Collect();
  int64_t in_flight() const { return enqueued_ - collected_; }

  // NextImages or NextPixels … Collect for one step.
  absl::StatusOr<StepResult> RunStep(absl::Span<const float> images, absl::Span<const int32_t> labels,
                                     const StepInputs& inputs);
  absl::StatusOr<StepResult> RunStepOnPixels(absl::Span<const uint8_t> pixels, absl::Span<const int32_t> labels,
                                             const StepInputs& inputs);

  // The global tensor of a kGradient output in the latest collected step.
  absl::StatusOr<std::vector<double>> ReadGradient(const program::Output& output) const;

  // Times of all tasks in the latest collected steps, two where there were two, the older first. REQUIRES: none in flight.
  std::vector<std::vector<TaskTime>> LastTimes() const;
  // The times of the latest collected step; the next one may be in flight. REQUIRES: one has been collected.
  std::vector<TaskTime> LatestTimes() const { return loaded_->Times(collected_ - 1); }
  // How long EnqueueAround held up the latest collected step; nothing where the backend does not time tasks.
  std::optional<absl::Duration> LatestHeldUp() const;

  LoadedProgram& loaded() { return *loaded_; }
  const program::Program& program() const { return program_; }

 private:
  explicit Executor(const program::Program& program);
  template <class T>
  absl::StatusOr<absl::Span<T>> NextImagesOf(program::DType dtype);
  template <class T>
  absl::StatusOr<StepResult> RunStepOn(absl::Span<T> next_images, absl::Span<const T> images,
                                       absl::Span<const int32_t> labels, const StepInputs& inputs);
  absl::Status WriteInputs(const StepInputs& inputs);
  StepResult ReadResult(const HostSlot& slot) const;

  // Launch and Await calls of a step, in an order in which they can be enqueued.
  struct Command {
    program::TaskId task;  // to launch, or to wait for
    int device = 0;
    program::Lane lane = program::Lane::kCompute;
    bool is_wait = false;
    bool previous_step = false;
  };

  void Give(const Command& command);  // to the backend, as part of the step that is being enqueued

  const program::Program& program_;
  std::vector<Command> commands_;
  std::vector<FirstWrite> first_writes_;
  // Host memory behind the two slots.
  struct Staging {
    PageVector<std::byte> images;
    PageVector<int32_t> labels;
    PageVector<double> scalars;
    std::vector<std::vector<std::vector<std::byte>>> outputs;
  };
  Staging staging_[2];
  HostSlot slots_[2];
  std::unique_ptr<LoadedProgram> loaded_;
  int64_t enqueued_ = 0, collected_ = 0;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_EXECUTOR_H_
