#include "engine/simulator/rings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace colonnade::engine {
namespace {

using Ring = std::vector<int>;

constexpr int kMostTries = 10'000;      // to lengthen paths, in the search for all cycles of a group
constexpr double kMostCycles = 64;      // over one link
constexpr double kClearlySlower = 0.9;  // than links inside a node, which may be measured apart

// Cycles through all devices over links between them.
class LinkedRings {
 public:
  LinkedRings(const Routes& routes, const std::vector<int>& devices)
      : devices_(devices), count_(static_cast<int>(devices.size())), left_(count_, std::vector<int>(count_)) {
    double slowest = std::numeric_limits<double>::infinity();
    const auto rate = [&](int a, int b) {
      return a == b
                 ? 0
                 : std::min(routes.LinkBytesPerSec(devices[a], devices[b]), routes.LinkBytesPerSec(devices[b], devices[a]));
    };
    for (int a = 0; a < count_; ++a) {
      for (int b = 0; b < count_; ++b) {
        if (rate(a, b) > 0) slowest = std::min(slowest, rate(a, b));
      }
    }
    for (int a = 0; a < count_; ++a) {
      for (int b = 0; b < count_; ++b)
        left_[a][b] = static_cast<int>(std::round(std::min(rate(a, b) / slowest, kMostCycles)));
    }
  }

  std::vector<Ring> All() {
    std::vector<Ring> rings;
    while (Lengthen()) {
      Ring ring;
      for (int at : path_) ring.push_back(devices_[at]);
      for (int i = 0; i < count_; ++i) Take(path_[i], path_[(i + 1) % count_]);
      rings.push_back(ring);
      std::reverse(ring.begin() + 1, ring.end());
      rings.push_back(std::move(ring));
      path_ = {0};
    }
    return rings;
  }

 private:
  bool IsOnPath(int device) const { return std::find(path_.begin(), path_.end(), device) != path_.end(); }
  void Take(int a, int b) { --left_[a][b], --left_[b][a]; }

  // Lengthens the path to a cycle, if it can be.
  bool Lengthen() {
    const std::vector<int>& left = left_[path_.back()];
    if (static_cast<int>(path_.size()) == count_) return left[path_.front()] > 0;
    std::vector<int> next;
    for (int device = 0; device < count_; ++device) {
      if (left[device] > 0 && !IsOnPath(device)) next.push_back(device);
    }
    std::stable_sort(next.begin(), next.end(), [&](int a, int b) { return left[a] > left[b]; });
    for (int device : next) {
      if (++tries_ > kMostTries) return false;
      path_.push_back(device);
      if (Lengthen()) return true;
      path_.pop_back();
    }
    return false;
  }

  const std::vector<int>& devices_;
  const int count_;
  std::vector<std::vector<int>> left_;  // by pair of places in devices_: cycles that its link still carries
  std::vector<int> path_ = {0};         // places in devices_
  int tries_ = 0;
};

bool AreLinked(const Routes& routes, const Ring& ring) {
  for (size_t i = 0; i < ring.size(); ++i) {
    if (routes.LinkBytesPerSec(ring[i], ring[(i + 1) % ring.size()]) == 0) return false;
  }
  return true;
}

// Devices of a node, where the ring leads through nodes of equal size one after the other; else 0.
size_t NodeSize(const Routes& routes, const Ring& ring) {
  std::vector<double> rates;
  for (size_t i = 0; i < ring.size(); ++i) rates.push_back(routes.BytesPerSec(ring[i], ring[(i + 1) % ring.size()]));
  const double best = *std::max_element(rates.begin(), rates.end());
  const size_t size = std::find_if(rates.begin(), rates.end(), [&](double rate) { return rate < kClearlySlower * best; }) -
                      rates.begin() + 1;
  if (size >= ring.size() || ring.size() % size != 0) return 0;
  for (size_t i = 0; i < rates.size(); ++i) {
    if ((rates[i] < kClearlySlower * best) != ((i + 1) % size == 0)) return 0;
  }
  return size;
}

}  // namespace

std::vector<std::vector<int>> FindRings(const Routes& routes, const std::vector<int>& devices) {
  const Ring ring = routes.RingOf(devices);
  if (ring.size() < 3) return {ring};
  if (AreLinked(routes, ring)) {
    std::vector<Ring> rings = LinkedRings(routes, devices).All();
    return rings.empty() ? std::vector<Ring>{ring} : rings;
  }
  const size_t size = NodeSize(routes, ring);
  std::vector<Ring> rings = {ring};
  for (size_t turn = 1; turn < size; ++turn) {
    rings.push_back(rings.back());
    for (auto node = rings.back().begin(); node != rings.back().end(); node += size)
      std::rotate(node, node + 1, node + size);
  }
  return rings;
}

std::vector<std::vector<int>> NodesOf(const Routes& routes, const std::vector<int>& devices) {
  const Ring ring = routes.RingOf(devices);
  if (ring.size() < 3 || AreLinked(routes, ring)) return {};
  std::vector<std::vector<int>> nodes;
  const size_t size = NodeSize(routes, ring);
  for (size_t first = 0; size > 0 && first < ring.size(); first += size) {
    nodes.emplace_back(ring.begin() + static_cast<int>(first), ring.begin() + static_cast<int>(first + size));
  }
  return nodes;
}

}  // namespace colonnade::engine
