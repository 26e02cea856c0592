// What a machine must provide to run Programs: memory with layouts of its own, in-order lanes, and events between them.
//
// A Backend owns the devices; a LoadedProgram is one Program made ready on them: layouts and algorithms chosen, buffers
// placed, kernels and communicators made. No memory of a device is taken, and nothing is looked up by name, between Load and
// the last step.
//
// Programs loaded on one backend share memory: persistent tensors, matched by (device, name), and the memory of step buffers
// and workspaces, which has the size of the largest of them. What keeps them apart is the Fence between steps of different
// Programs. It orders each device by itself, and that is enough: the memory of a device is touched by tasks of that device,
// or by another side of a meeting while this device's own side is not over. Nor does a step rely on what step memory held
// before it: Verify's rule `initialised`, and backends clear whatever padding they read.
//
// Thread rule: one host thread drives a backend. Launch and Await return without waiting for devices, as long as no more
// than two steps are in flight: a backend may block them beyond that. They take no memory of a device; the host's they may
// take in the first steps, while queues and recordings grow to the length of a step.
#ifndef COLONNADE_ENGINE_BACKEND_H_
#define COLONNADE_ENGINE_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "program/program.h"

namespace colonnade::engine {

// Host memory that Load tasks read and Store tasks write, two slots of it: step s uses slot s % 2, so that the host fills
// one while devices work on the other. Plain row-major tensors of the element type that Program::inputs states. Inputs in
// pages of their own (pages.h) are copied without blocking the host.
struct HostSlot {
  std::vector<void*> inputs;                // by Program::inputs: the global tensor
  std::vector<std::vector<void*>> outputs;  // by Program::outputs, by piece: the piece's box, in its buffer's dtype
};

// When a task of a step ran, since an origin that all tasks of a LoadedProgram share.
struct TaskTime {
  absl::Duration start, end;
};

// Bytes that one Program needs on one device.
struct DeviceMemory {
  int64_t step_arena_bytes = 0, persistent_bytes = 0, workspace_bytes = 0;
  int64_t total_bytes() const { return step_arena_bytes + persistent_bytes + workspace_bytes; }
};

// A conversion between layouts that the backend runs as part of a task, beyond what the Program says.
struct AddedReorder {
  program::TaskId task;
  std::string description;  // "weights to backward layout", …
  int64_t bytes = 0;
};

class LoadedProgram {
 public:
  explicit LoadedProgram(const program::Program& program) : program_(program) {}
  virtual ~LoadedProgram() = default;

  const program::Program& program() const { return program_; }
  // Keeps `what`, of which the Program is made, until the Program is gone.
  void Hold(std::shared_ptr<const void> what) { held_ = std::move(what); }

  // Orders the next step, on each device of the Program, behind all that was launched before on any lane, if steps of
  // another Program were launched since this one's last; else it does nothing, and the Program's own waits say how far its
  // steps overlap. Is called before anything of a step is launched or awaited. Does not block. REQUIRES: steps before were
  // launched whole.
  virtual void Fence() = 0;
  // Announces that the host will call Synchronize of earlier steps, and ReadBytes, between the launches of `step`, the next
  // one; tasks that were launched run meanwhile. To be called before the step's first launch.
  virtual void LaunchInParts(int64_t step) { (void)step; }
  // Appends `task`, as part of step `step`, to its lane.
  virtual void Launch(program::TaskId task, int64_t step) = 0;
  // Makes `lane` of `device` wait, before what is launched on it next, until `task` of step `step` has ended. A step before
  // the first one launched counts as ended. Steps are those of this Program, whatever ran between them.
  virtual void Await(int device, program::Lane lane, program::TaskId task, int64_t step) = 0;
  // Blocks until all that was launched up to and with step `step` has ended. Returns the first error of any task, which
  // names task and device.
  virtual absl::Status Synchronize(int64_t step) = 0;

  // Returns start and end of each task, by task index, in `step`, one of the last two launched. REQUIRES: synchronized.
  virtual std::vector<TaskTime> Times(int64_t step) const = 0;

  // Copy the logical content of one buffer, row-major, in the buffer's own element type. For a member of a bucket of which
  // this device holds a part, elements outside the part are left as they are (ReadBytes) or ignored (WriteBytes).
  // InvalidArgument where the buffer is a bucket or has another number of bytes. REQUIRES: every step, of whatever Program
  // of the backend, with a launched task that writes to the buffer (for WriteBytes: uses it) is synchronized; for a step
  // buffer, also neither Load nor a step of another Program since then.
  virtual absl::Status ReadBytes(program::BufferId buffer, absl::Span<char> bytes) const = 0;
  virtual absl::Status WriteBytes(program::BufferId buffer, absl::Span<const char> bytes) = 0;
  // Do the same with elements converted from or to double.
  absl::Status Read(program::BufferId buffer, absl::Span<double> values) const;
  absl::Status Write(program::BufferId buffer, absl::Span<const double> values);

  // Lets steps launched from now on compute on the images of the step two before, and copy none from the host: for
  // benchmarks that time only what a step computes. Where another Program may have overwritten them (a Load, or a step of
  // it, since), the next two steps copy theirs again, so the host leaves its slots filled. A backend that has no copies to
  // leave out does nothing, which is the default. FailedPrecondition before two steps have been launched.
  virtual absl::Status KeepImages() { return absl::OkStatus(); }

  // Returns whether two runs of a step from one state give equal bits.
  virtual bool GivesEqualBits() const { return true; }

  virtual DeviceMemory Memory(int device) const = 0;
  virtual const std::vector<AddedReorder>& added_reorders() const = 0;
  // Returns what a person may want to know of how the steps ran, each a sentence.
  virtual std::vector<std::string> Notes() const { return {}; }

 protected:
  const program::Program& program_;

 private:
  std::shared_ptr<const void> held_;  // what derives from this goes before it
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  // "cpu", "cuda"
  virtual int device_count() const = 0;

  // Makes `program` ready; it and `slots` must outlive the result, the backend need not. Blocks until steps that were
  // launched have ended. Errors: what the machine or a library refuses, naming the task; ResourceExhausted if a device's
  // memory is too small. REQUIRES: program::Verify(program) is OK.
  virtual absl::StatusOr<std::unique_ptr<LoadedProgram>> Load(const program::Program& program,
                                                              const HostSlot (&slots)[2]) = 0;

  // Returns the bytes that Load would take on each device, layouts and workspaces included; nothing is taken. Errors: those
  // of Load. REQUIRES: as Load.
  virtual absl::StatusOr<std::vector<DeviceMemory>> MemoryOf(const program::Program& program) = 0;

  // Returns the bytes of `device` that all loaded Programs take now: less than their sum, since they share memory.
  // Persistent buffers stay when a Program goes; all other memory stays until the last one goes.
  virtual int64_t TakenBytes(int device) const = 0;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_BACKEND_H_
