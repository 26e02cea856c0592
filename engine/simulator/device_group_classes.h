// Tells devices apart, and groups of them, by how they lie on a machine's links and by how fast they compute.
#ifndef COLONNADE_ENGINE_SIMULATOR_DEVICE_GROUP_CLASSES_H_
#define COLONNADE_ENGINE_SIMULATOR_DEVICE_GROUP_CLASSES_H_

#include <map>
#include <utility>
#include <vector>

#include "engine/machine.h"
#include "engine/simulator/routes.h"

namespace colonnade::engine {

class DeviceGroupClasses {
 public:
  // Classifies groups of the devices between which `routes` are, which must outlive the result.
  DeviceGroupClasses(const Machine& machine, const Routes& routes) : slowness_(machine.Slowness()), routes_(routes) {}

  // Returns a number that is equal for groups whose members, one by one, compute as fast and have like routes: those between
  // two members, and between one and the host or the server, pass as many links of the same rates in the same time, and
  // share them as those of the other group do. Links that groups share with each other are not looked at. Takes time in
  // proportion to the members; where it has not seen such a group, also to the square of the classes of devices (Routes).
  int ClassOf(const std::vector<int>& devices);

 private:
  std::vector<double> Describe(const std::vector<int>& devices) const;

  const std::vector<double> slowness_;  // by device
  const Routes& routes_;
  std::map<std::vector<std::pair<int, double>>, int> by_classes_;  // and slowness, of the members, in order
  std::map<std::vector<double>, int> by_description_;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_DEVICE_GROUP_CLASSES_H_
