#include "engine/simulator/device_group_classes.h"

#include <utility>

namespace colonnade::engine {
namespace {

constexpr double kEnd = -1;  // of a list; no number of a route is negative

// Routes as numbers, in which resources are numbered by their first use.
class Description {
 public:
  explicit Description(const Routes& routes) : routes_(routes) {}

  void Add(double number) { numbers_.push_back(number); }

  void Add(const Route& route) {
    numbers_.insert(numbers_.end(), {route.latency_sec, route.bytes_per_sec, route.piece_bytes, route.piece_bytes_per_sec});
    for (int resource : route.resources) {
      const auto [known, is_new] = numbered_.try_emplace(resource, static_cast<int>(numbered_.size()));
      Add(known->second);
      if (is_new) Add(routes_.capacities()[resource]);
    }
    Add(kEnd);
  }

  void AddBothWays(int a, int b) {
    for (const Route& leg : routes_.Between(a, b)) Add(leg);
    for (const Route& leg : routes_.Between(b, a)) Add(leg);
    Add(kEnd);
  }

  std::vector<double> Numbers() && { return std::move(numbers_); }

 private:
  const Routes& routes_;
  std::map<int, int> numbered_;
  std::vector<double> numbers_;
};

}  // namespace

int DeviceGroupClasses::ClassOf(const std::vector<int>& devices) {
  std::vector<std::pair<int, double>> classes;
  for (int device : devices) classes.emplace_back(routes_.ClassOf(device), slowness_[device]);
  const auto [known, is_new] = by_classes_.try_emplace(std::move(classes), 0);
  if (is_new) known->second = by_description_.try_emplace(Describe(devices), by_description_.size()).first->second;
  return known->second;
}

// Devices of one class have like routes, so the first two of each class stand for the others.
std::vector<double> DeviceGroupClasses::Describe(const std::vector<int>& devices) const {
  Description description(routes_);
  std::map<int, int> numbered;     // classes, by their first use
  std::vector<int> first, second;  // by number of a class; of a class with one member its second is its first
  for (int device : devices) {
    const auto [known, is_new] = numbered.try_emplace(routes_.ClassOf(device), static_cast<int>(first.size()));
    const int number = known->second;
    description.Add(number);
    description.Add(slowness_[device]);
    if (is_new) {
      first.push_back(device);
      second.push_back(device);
    } else if (second[number] == first[number]) {
      second[number] = device;
    }
  }
  for (size_t a = 0; a < first.size(); ++a) {
    if (routes_.FromHost(first[a]) != nullptr) description.Add(*routes_.FromHost(first[a]));
    if (routes_.ToHost(first[a]) != nullptr) description.Add(*routes_.ToHost(first[a]));
    if (routes_.has_server()) description.AddBothWays(first[a], kServer);
    if (second[a] != first[a]) description.AddBothWays(first[a], second[a]);
    for (size_t b = 0; b < a; ++b) description.AddBothWays(first[a], first[b]);
  }
  return std::move(description).Numbers();
}

}  // namespace colonnade::engine
