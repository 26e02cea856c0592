// The ways that data takes through a machine's link graph.
//
// A resource is one direction of a link, or both of a half-duplex link; a transfer takes a part of the rate of every
// resource on its route while it lasts. A copy engine of a device serves one transfer after the other: it is held whole.
//
// Devices with like links to the same nodes form a class: routes from or to them differ in the devices' own links alone, so
// that routes are found once for each pair of classes.
#ifndef COLONNADE_ENGINE_SIMULATOR_ROUTES_H_
#define COLONNADE_ENGINE_SIMULATOR_ROUTES_H_

#include <optional>
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
  // For a transfer that is staged in pieces whose halves pass different links: the second half begins when the first has
  // moved piece_bytes, at the rate of the faster half; else 0.
  double piece_bytes = 0, piece_bytes_per_sec = 0;
};

// The node that adds, where collectives go through one (Machine::server), in the place of a device.
inline constexpr int kServer = -2;

class LinkGraph;

class Routes {
 public:
  // Finds the route of fewest links, at most 64, then of the greatest rate, between each two devices; none leads through a
  // device. InvalidArgument where a device has no route to another.
  static absl::StatusOr<Routes> Create(const Machine& machine) { return Create(machine, machine.device_count()); }
  // Finds the routes between the machine's first `devices` alone. REQUIRES: 1 <= devices <= machine.device_count().
  static absl::StatusOr<Routes> Create(const Machine& machine, int devices);

  // Returns the legs of a transfer: one; or two, to the node "host" and from there, where the pair has no peer access, of
  // which the second starts when the first has ended; or one that joins these two, where transfers are staged in pieces.
  // Either end may be kServer where collectives go through it; its adding is a resource of what is sent to it.
  // REQUIRES: from ≠ to.
  std::vector<Route> Between(int from, int to) const;
  // Returns the rate that one transfer between two devices gets alone: that of the slower of two legs. REQUIRES: from ≠ to.
  double BytesPerSec(int from, int to) const;
  // Returns the same where the route is a single link; 0 where it has more than one link, or copy engines.
  double LinkBytesPerSec(int from, int to) const;
  // Returns the number of the node between two devices that are joined by two links; kNoNode where they are joined by more,
  // by fewer, or by two legs. REQUIRES: from ≠ to.
  int NodeBetween(int from, int to) const;
  // Returns the number of the device's class.
  int ClassOf(int device) const { return attachments_[device].of_class; }
  // Whether collectives go through one.
  bool has_server() const { return !server_.from.empty(); }
  // Returns `devices` in an order to pass data on. It begins with the first of them. After each comes, of those that are
  // left, the one to which it has the best rate; among equals, the one of the least latency, then the first.
  std::vector<int> ChainOf(std::vector<int> devices) const;
  // Returns `devices` in the order of a ring: of the chains that begin with each of them (of those that are alike, with the
  // first), the one whose slowest step, that from the last to the first included, is fastest; of equals the first. Of more
  // than 16 devices, the chain of the first.
  std::vector<int> RingOf(std::vector<int> devices) const;
  // Return null where the machine has no node "host".
  const Route* FromHost(int device) const { return host_.from.empty() ? nullptr : &host_.from[device]; }
  const Route* ToHost(int device) const { return host_.to.empty() ? nullptr : &host_.to[device]; }

  int engine_count() const { return engine_count_; }
  // Returns the bytes per second of each resource.
  const std::vector<double>& capacities() const { return capacities_; }

 private:
  // How a device is attached: its class, and the resources of its links, in the order of the links.
  struct Attachment {
    int of_class = 0;
    std::vector<int> resources;
  };
  // The devices that stand for a class in routes: its first, and its second as the other end of routes within the class.
  struct ClassEnds {
    int first = -1, second = -1;
  };
  int FromOf(int of_class) const { return ends_[of_class].first; }
  int ToOf(int from_class, int to_class) const;
  const std::vector<Route>& Pattern(int from_class, int to_class) const {
    return patterns_[from_class * static_cast<int>(ends_.size()) + to_class];
  }
  // Replaces `resource`, which belongs to a link of `model`, by that of the same link of `device`, which is of the same
  // class.
  void Adapt(int model, int device, int& resource) const;
  Route WithEngines(Route route, int from, int to) const;
  // Returns the rate of the slowest step of a ring. REQUIRES: at least two devices, none of them twice.
  double SlowestOf(const std::vector<int>& ring) const;

  // The routes to and from a node, by device.
  struct NodeRoutes {
    std::vector<Route> to, from;
  };
  absl::StatusOr<NodeRoutes> RoutesOfNode(const Machine& machine, const std::string& node, const LinkGraph& graph,
                                          const std::vector<int>& class_of) const;
  // Makes the attachments of `class_of`'s devices and the ends of its classes. `graph` passes over all other devices from
  // then on.
  void Attach(const std::vector<int>& class_of, LinkGraph& graph);
  absl::Status CheckClassCount() const;
  // Finds the patterns. Where some pairs are staged, the routes of the host have been found before, if there is one.
  absl::Status FindPatterns(const Machine& machine, const LinkGraph& graph);
  // Returns the legs between two devices, of which `direct` is the route, if there is one.
  absl::StatusOr<std::vector<Route>> LegsBetween(const Machine& machine, int from, int to, bool is_staged,
                                                 const std::optional<Route>& direct) const;
  absl::Status AddServer(const Machine& machine, const LinkGraph& graph, const std::vector<int>& class_of);

  int copy_engines_ = 0, engine_count_ = 0;
  double staging_piece_bytes_ = 0;
  std::vector<Attachment> attachments_;       // by device
  std::vector<ClassEnds> ends_;               // by class
  std::vector<std::vector<Route>> patterns_;  // by pair of classes: between their representatives, without engines
  NodeRoutes host_, server_;
  std::vector<double> capacities_;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_ROUTES_H_
