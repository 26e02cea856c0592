// The Program of one device of each class of devices that do the same: what is predicted for a representative holds for all
// of its class.
//
// Devices and groups are numbered as in the whole Program; tasks, buffers, messages and instances are numbered among those
// that are kept. The sides of a meeting on other devices are left out, so that Verify does not accept the Program and no
// backend runs it: a planner judges it, and the simulator runs it.
#ifndef COLONNADE_PROGRAM_REPRESENTATIVE_PROGRAM_H_
#define COLONNADE_PROGRAM_REPRESENTATIVE_PROGRAM_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "program/program.h"

namespace colonnade::program {

struct RepresentativeProgram {
  using Devices = std::vector<int>;
  using Alike = absl::flat_hash_map<Devices, std::vector<Devices>>;

  Program program;
  // By device: its class, itself first, if it is a representative; else nothing.
  std::vector<Devices> stands_for;
  // By the devices of a meeting, in member order: the devices of each meeting that is like it, itself among them.
  Alike alike;
};

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_REPRESENTATIVE_PROGRAM_H_
