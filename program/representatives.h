// A Program of a few devices that stand for all others: what is predicted for these devices holds for the others, too.
//
// Devices and groups are numbered as in the whole Program; tasks, buffers, messages and instances are numbered among those
// that are kept. The sides of a meeting on other devices are left out, so that Verify does not accept the Program and no
// backend runs it: a planner judges it, and the simulator runs it.
#ifndef COLONNADE_PROGRAM_REPRESENTATIVES_H_
#define COLONNADE_PROGRAM_REPRESENTATIVES_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "program/program.h"

namespace colonnade::program {

struct Representatives {
  using Devices = std::vector<int>;
  using Alike = absl::flat_hash_map<Devices, std::vector<Devices>>;

  Program program;
  // By device: the devices for which it stands, itself first; none where another stands for it.
  std::vector<Devices> stands_for;
  // By the devices of a meeting, in member order: the devices of each meeting that is like it, itself among them.
  Alike alike;
};

// Makes Representatives of a whole Program, in which each device stands for itself.
Representatives EachForItself(Program program);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_REPRESENTATIVES_H_
