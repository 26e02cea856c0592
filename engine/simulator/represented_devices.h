// Internal to engine/. The devices for which a task or a meeting of a Program stands, where representatives stand for all.
#ifndef COLONNADE_ENGINE_SIMULATOR_REPRESENTED_DEVICES_H_
#define COLONNADE_ENGINE_SIMULATOR_REPRESENTED_DEVICES_H_

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "program/program.h"
#include "program/representative_program.h"

namespace colonnade::engine {

class RepresentedDevices {
 public:
  using Devices = program::RepresentativeProgram::Devices;

  // `representatives` is null where each device stands for itself. Both must outlive the result.
  RepresentedDevices(const program::Program& program, const program::RepresentativeProgram* representatives)
      : program_(program), representatives_(representatives) {}

  bool each_for_itself() const { return representatives_ == nullptr; }
  // Returns the devices that do what a computation does, its own first. Metrics and the gate are equal on all devices; one
  // device stores them, so for their Store this is that device alone.
  absl::Span<const int> DoneBy(const program::Task& task) const;
  // Returns the devices that take part in a computation, or in the meetings that are like a task's; ascending. REQUIRES: not
  // each_for_itself().
  const Devices& TakingPartIn(const program::Task& task);
  // Returns the devices of each meeting that is like that of `devices`, which must outlive the result.
  absl::Span<const Devices> MeetingsLike(const Devices& devices) const;
  // Returns the devices of an exchange in the order in which meetings that are alike have them.
  Devices InMemberOrder(int device, int peer) const;
  // Returns the number of tasks of all devices.
  double TaskCount() const;

 private:
  bool StoresForAll(const program::Task& task) const;

  const program::Program& program_;
  const program::RepresentativeProgram* const representatives_;
  absl::flat_hash_map<Devices, Devices> taking_part_;  // by the devices of a meeting, or the one of a computation
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_REPRESENTED_DEVICES_H_
