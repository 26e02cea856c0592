// Machines whose times one can compute by hand.
#ifndef COLONNADE_TESTS_ENGINE_ON_A_SWITCH_H_
#define COLONNADE_TESTS_ENGINE_ON_A_SWITCH_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/machine.h"

namespace colonnade::engine {

inline constexpr double kMs = 1e-3;

// Adds devices d0, d1 …, each with a link of 1 GB/s each way to one switch: a route between two has the latency of two
// links.
inline void AddDevicesOnASwitch(Machine& machine, int devices, double latency_sec) {
  for (int d = 0; d < devices; ++d) {
    machine.devices.push_back(absl::StrCat("d", d));
    machine.links.push_back({.a = machine.devices[d], .b = "switch", .bytes_per_sec = {1e9}, .latency_sec = {latency_sec}});
  }
}

// Makes a machine of such devices, each with 1 GB/s of memory, 1 MB/ms.
inline Machine OnASwitch(int devices, double latency_sec = 0) {
  Machine machine;
  machine.name = "test";
  machine.flops_per_sec.value = 1e12;
  machine.memory_bytes_per_sec.value = 1e9;
  AddDevicesOnASwitch(machine, devices, latency_sec);
  return machine;
}

// Makes a machine of nodes of eight devices, each node with a link of 2 GB/s each way to a network switch.
inline Machine InNodes(int devices) {
  Machine machine;
  machine.name = "nodes";
  machine.flops_per_sec.value = 1e12;
  machine.memory_bytes_per_sec.value = 1e9;
  for (int d = 0; d < devices; ++d) {
    const std::string node = absl::StrCat("node", d / 8);
    machine.devices.push_back(absl::StrCat("d", d));
    machine.links.push_back({.a = machine.devices[d], .b = node, .bytes_per_sec = {1e9}, .latency_sec = {1e-6}});
    if (d % 8 == 0) machine.links.push_back({.a = node, .b = "network", .bytes_per_sec = {2e9}, .latency_sec = {1e-6}});
  }
  return machine;
}

}  // namespace colonnade::engine

#endif  // COLONNADE_TESTS_ENGINE_ON_A_SWITCH_H_
