// The ways that data takes through a machine's link graph.
//
// A resource is one direction of a link, or both of a half-duplex link; a transfer takes a part of the rate of every
// resource on its route while it lasts. A copy engine of a device serves one transfer after the other: it is held whole.
//
// Devices with like links to the same nodes form a class: ways between two of them, or to others, differ in their own links
// alone, so that they are found once for each pair of classes.
#ifndef COLONNADE_ENGINE_ROUTES_H_
#define COLONNADE_ENGINE_ROUTES_H_

#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "engine/machine.h"

namespace colonnade::engine {

inline constexpr int kNoNode = -1;

struct Route {
  absl::InlinedVector<int, 6> resources;
  absl::InlinedVector<int, 2> engines;  // of the devices at its ends
  int first_node = kNoNode;             // to which the first link leads
  double latency_sec = 0;
  double bytes_per_sec = 0;  // that one transfer gets alone
  // Of a staged transfer in pieces: the first half of so many bytes is over before the second begins.
  double piece_bytes = 0, piece_bytes_per_sec = 0;
};

// The node that adds, where collectives go through one (Machine::server), in the place of a device.
inline constexpr int kServer = -1;

class LinkGraph;

class Routes {
 public:
  // Fewest links, then the greatest rate; no route leads through a device. InvalidArgument where a device has no way to
  // another.
  static absl::StatusOr<Routes> Create(const Machine& machine) { return Create(machine, machine.device_count()); }
  // Between the machine's first `devices` alone.
  static absl::StatusOr<Routes> Create(const Machine& machine, int devices);

  // One leg; two, to the node "host" and from there, where the pair has no peer access: the second starts when the first has
  // ended; one of both where they are staged in pieces. Either may be kServer where collectives go through it; its adding is
  // a resource of what is sent to it. REQUIRES: from ≠ to.
  std::vector<Route> Between(int from, int to) const;
  // That one transfer between devices gets alone, the slower of two legs. REQUIRES: from ≠ to.
  double BytesPerSec(int from, int to) const;
  // The same where a link alone is the route; 0 where more than one is, or a copy engine.
  double LinkBytesPerSec(int from, int to) const;
  // The number of the node between two devices that two links join; kNoNode where more or fewer do, or two legs.
  // REQUIRES: from ≠ to.
  int NodeBetween(int from, int to) const;
  // Devices in the order of a ring: after each comes, of those that are left, the one to which it has the best rate; of
  // equal ones that of the least latency, then the first. Begins with the first of `devices`.
  std::vector<int> RingOf(std::vector<int> devices) const;
  // Null where the machine has no node "host".
  const Route* FromHost(int device) const { return host_.from.empty() ? nullptr : &host_.from[device]; }
  const Route* ToHost(int device) const { return host_.to.empty() ? nullptr : &host_.to[device]; }

  int engine_count() const { return engine_count_; }
  // Bytes per second of each resource.
  const std::vector<double>& capacities() const { return capacities_; }

 private:
  // Of a device: its class, and the resources of its links, in the order of the links.
  struct Attachment {
    int of_class = 0;
    std::vector<int> resources;
  };
  // What stands for a class in routes: its first device, and where both ends are of the class its second.
  struct Representatives {
    int first = -1, second = -1;
  };
  int FromOf(int of_class) const { return representatives_[of_class].first; }
  int ToOf(int from_class, int to_class) const;
  const std::vector<Route>& Pattern(int from_class, int to_class) const {
    return patterns_[from_class * static_cast<int>(representatives_.size()) + to_class];
  }
  // A route whose first or last link is that of `model`, with that of `device`, which is of the same class, instead.
  void Adapt(int model, int device, int& resource) const;
  Route WithEngines(Route route, int from, int to) const;

  // To and from a node, by device.
  struct NodeRoutes {
    std::vector<Route> to, from;
  };
  absl::StatusOr<NodeRoutes> RoutesOfNode(const Machine& machine, const std::string& node, const LinkGraph& graph,
                                          const std::vector<int>& class_of) const;
  absl::Status AddServer(const Machine& machine, const LinkGraph& graph, const std::vector<int>& class_of);

  int copy_engines_ = 0, engine_count_ = 0;
  double staging_piece_bytes_ = 0;
  std::vector<Attachment> attachments_;           // by device
  std::vector<Representatives> representatives_;  // by class
  std::vector<std::vector<Route>> patterns_;      // by pair of classes: between their representatives, without engines
  NodeRoutes host_, server_;
  std::vector<double> capacities_;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_ROUTES_H_
