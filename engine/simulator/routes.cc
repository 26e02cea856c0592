#include "engine/simulator/routes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace colonnade::engine {
namespace {

constexpr int kMostLinksOfRoute = 64;

}  // namespace

// The link graph, nodes by number; devices come first, in their order.
class LinkGraph {
 public:
  explicit LinkGraph(const Machine& machine)
      : devices_(machine.device_count()), is_passed_over_(devices_, false), own_(devices_) {
    for (const std::string& device : machine.devices) NodeOf(device);
    for (const Link& link : machine.links) AddLink(link);
  }

  // No way is searched to these devices from now on.
  void PassOver(int device) { is_passed_over_[device] = true; }
  // The resources of a device's links, in the order of the links.
  const std::vector<int>& ResourcesOf(int device) const { return own_[device]; }
  // Equal for devices whose links lead to the same nodes, none of them a device, at the same rates.
  using Likeness = std::vector<std::tuple<int, int, double, double, double, Link::Duplex>>;
  std::optional<Likeness> LikenessOf(int device) const {
    const auto found = likeness_.find(device);
    if (found == likeness_.end() || is_linked_to_device_.contains(device)) return std::nullopt;
    return found->second;
  }

  std::optional<int> FindNode(const std::string& name) const {
    const auto it = nodes_.find(name);
    return it == nodes_.end() ? std::nullopt : std::optional<int>(it->second);
  }
  const std::vector<double>& capacities() const { return capacities_; }

  // The best ways from one node to every other of at most kMostLinksOfRoute links. A node knows the one before it alone, so
  // that a long chain of them takes no more than its length.
  class Ways {
   public:
    // Nothing where there is none.
    std::optional<Route> RouteTo(int node) const {
      if (node != start_ && reached_[node].links == 0) return std::nullopt;
      const Reached& end = reached_[node];
      Route route{.resources = {}, .engines = {}, .latency_sec = end.latency_sec, .bytes_per_sec = end.bytes_per_sec};
      for (int at = node; at != start_; at = reached_[at].before) {
        route.resources.push_back(reached_[at].resource);
        route.first_node = at;
      }
      std::reverse(route.resources.begin(), route.resources.end());
      return route;
    }

   private:
    friend class LinkGraph;
    struct Reached {
      int links = 0;  // 0: not reached, or the start
      int before = kNoNode, resource = -1;
      double latency_sec = 0, bytes_per_sec = 0;
    };
    int start_ = 0;
    std::vector<Reached> reached_;  // by node
  };

  // Widens by one link at a time: routes of fewer links are final before longer ones begin.
  Ways WaysFrom(int start) const {
    Ways ways;
    ways.start_ = start;
    ways.reached_.resize(edges_.size());
    ways.reached_[start].bytes_per_sec = std::numeric_limits<double>::infinity();
    std::vector<int> frontier = {start};
    for (int links = 1; links <= kMostLinksOfRoute && !frontier.empty(); ++links) {
      std::vector<int> next;
      for (int node : frontier) {
        if (node != start && node < devices_) continue;  // a device forwards nothing
        const Ways::Reached from = ways.reached_[node];
        for (const Edge& edge : edges_[node]) {
          Ways::Reached& to = ways.reached_[edge.to];
          const bool is_final = edge.to == start || (to.links > 0 && to.links < links);
          if (is_final || (edge.to < devices_ && is_passed_over_[edge.to])) continue;
          const double rate = std::min(from.bytes_per_sec, edge.max_rate);
          if (to.links == 0) {
            next.push_back(edge.to);
          } else if (rate <= to.bytes_per_sec) {
            continue;
          }
          to = {links, node, edge.resource, from.latency_sec + edge.latency_sec, rate};
        }
      }
      std::sort(next.begin(), next.end());
      frontier = std::move(next);
    }
    return ways;
  }

 private:
  struct Edge {
    int to, resource;
    double latency_sec;
    double max_rate;  // bytes per second that one transfer gets
  };

  int NodeOf(const std::string& name) {
    const auto [it, added] = nodes_.emplace(name, static_cast<int>(edges_.size()));
    if (added) edges_.emplace_back();
    return it->second;
  }
  int AddResource(double capacity) {
    capacities_.push_back(capacity);
    return static_cast<int>(capacities_.size()) - 1;
  }
  void AddLink(const Link& link) {
    const int a = NodeOf(link.a), b = NodeOf(link.b);
    const double rate = link.bytes_per_sec.value, latency = link.latency_sec.value;
    const double cap = link.one_transfer_bytes_per_sec.value, max_rate = cap > 0 ? std::min(cap, rate) : rate;
    const int there = AddResource(rate);
    Note(link, a, b, there);
    edges_[a].push_back({b, there, latency, max_rate});
    if (link.duplex == Link::Duplex::kOneWay) return;
    const int back = link.duplex == Link::Duplex::kFull ? AddResource(rate) : there;
    Note(link, b, a, back);
    edges_[b].push_back({a, back, latency, max_rate});
  }
  // What a link is to the devices at its ends.
  void Note(const Link& link, int from, int to, int resource) {
    const auto note = [&](int device, int other, int way) {
      if (device >= devices_) return;
      own_[device].push_back(resource);
      likeness_[device].emplace_back(other, way, link.bytes_per_sec.value, link.latency_sec.value,
                                     link.one_transfer_bytes_per_sec.value, link.duplex);
      if (other < devices_) is_linked_to_device_.insert(device);
    };
    note(from, to, 0);
    note(to, from, 1);
  }

  const int devices_;
  std::vector<bool> is_passed_over_;   // by device
  std::vector<std::vector<int>> own_;  // by device
  std::map<int, Likeness> likeness_;   // by device
  std::set<int> is_linked_to_device_;  // devices
  std::map<std::string, int> nodes_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<double> capacities_;
};

namespace {

constexpr char kHost[] = "host";
constexpr int kNoDevice = -1;

constexpr int kMostClasses = 1024;  // of devices: there is a route for each pair
constexpr size_t kMostDevicesOfTriedRing = 16;

// Pairs without peer access.
class Staged {
 public:
  explicit Staged(const Machine& machine) : machine_(machine), pairs_(machine.staged.begin(), machine.staged.end()) {}

  bool Is(int from, int to) const {
    if (!machine_.peer_access) return true;
    const std::string &a = machine_.devices[from], &b = machine_.devices[to];
    return pairs_.contains({a, b}) || pairs_.contains({b, a});
  }

 private:
  const Machine& machine_;
  const std::set<std::pair<std::string, std::string>> pairs_;
};

Route WithoutEngines(Route route) {
  route.engines.clear();
  return route;
}

// Both halves of a staged transfer as one: the second follows the first by a piece.
Route InPieces(const Route& first, const Route& second, double piece_bytes) {
  Route route = first;
  route.resources.insert(route.resources.end(), second.resources.begin(), second.resources.end());
  route.latency_sec += second.latency_sec;
  route.bytes_per_sec = std::min(first.bytes_per_sec, second.bytes_per_sec);
  if (std::find_first_of(first.resources.begin(), first.resources.end(), second.resources.begin(), second.resources.end()) !=
      first.resources.end()) {
    return route;  // the halves take turns on a link, so that one piece more or less in between does not matter
  }
  route.piece_bytes = piece_bytes;
  route.piece_bytes_per_sec = std::max(first.bytes_per_sec, second.bytes_per_sec);
  return route;
}

// Returns how near two ends are, the greater the nearer: the rate over all legs and, negated, their latency.
std::pair<double, double> Nearness(const std::vector<Route>& legs) {
  double rate = std::numeric_limits<double>::infinity(), latency = 0;
  for (const Route& leg : legs) {
    rate = std::min(rate, leg.bytes_per_sec);
    latency += leg.latency_sec;
  }
  return {rate, -latency};
}

absl::Status NoRoute(const std::string& from, const std::string& to) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "links: expected a way from \"%s\" to \"%s\", found none; add the links between them (a way may have at most %d; "
      "devices forward nothing)",
      from, to, kMostLinksOfRoute));
}

// The class of each device. Those that are staged with some others alone are like no other.
std::vector<int> ClassesOf(const Machine& machine, const LinkGraph& graph, int devices) {
  std::set<std::string> staged;
  for (const auto& [a, b] : machine.staged) staged.insert({a, b});
  std::map<LinkGraph::Likeness, int> known;
  std::vector<int> classes;
  int count = 0;
  for (int device = 0; device < devices; ++device) {
    const std::optional<LinkGraph::Likeness> likeness = graph.LikenessOf(device);
    if (!likeness || staged.contains(machine.devices[device])) {
      classes.push_back(count++);
      continue;
    }
    const auto [it, added] = known.emplace(*likeness, count);
    if (added) ++count;
    classes.push_back(it->second);
  }
  return classes;
}

}  // namespace

int Routes::ToOf(int from_class, int to_class) const {
  return from_class == to_class ? ends_[to_class].second : ends_[to_class].first;
}

absl::StatusOr<Routes> Routes::Create(const Machine& machine, int devices) {
  LinkGraph graph(machine);
  Routes routes;
  routes.copy_engines_ = machine.copy_engines;
  routes.engine_count_ = devices * machine.copy_engines;
  routes.staging_piece_bytes_ = machine.staging_piece_bytes.value;
  routes.capacities_ = graph.capacities();
  const std::vector<int> class_of = ClassesOf(machine, graph, devices);
  for (int device = devices; device < machine.device_count(); ++device) graph.PassOver(device);
  routes.Attach(class_of, graph);
  RETURN_IF_ERROR(routes.CheckClassCount());
  if (graph.FindNode(kHost)) {
    ASSIGN_OR_RETURN(routes.host_, routes.RoutesOfNode(machine, kHost, graph, class_of));
  }
  RETURN_IF_ERROR(routes.FindPatterns(machine, graph));
  if (machine.collectives == CollectiveAlgorithm::kServer) RETURN_IF_ERROR(routes.AddServer(machine, graph, class_of));
  return routes;
}

void Routes::Attach(const std::vector<int>& class_of, LinkGraph& graph) {
  for (int device = 0; device < static_cast<int>(class_of.size()); ++device) {
    const size_t of_class = static_cast<size_t>(class_of[device]);
    attachments_.push_back({class_of[device], graph.ResourcesOf(device)});
    if (of_class == ends_.size()) {
      ends_.push_back({.first = device});
    } else if (ends_[of_class].second < 0) {
      ends_[of_class].second = device;
    } else {
      graph.PassOver(device);
    }
  }
}

absl::Status Routes::CheckClassCount() const {
  if (ends_.size() <= kMostClasses) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("links: expected devices of at most %d kinds by their links, found %d; like links make like devices",
                      kMostClasses, ends_.size()));
}

absl::Status Routes::FindPatterns(const Machine& machine, const LinkGraph& graph) {
  const int classes = static_cast<int>(ends_.size());
  patterns_.resize(ends_.size() * ends_.size());
  const Staged staged(machine);
  for (int a = 0; a < classes; ++a) {
    const int from = FromOf(a);
    const LinkGraph::Ways ways = graph.WaysFrom(from);
    for (int b = 0; b < classes; ++b) {
      const int to = ToOf(a, b);
      if (to < 0) continue;  // a class of one device
      ASSIGN_OR_RETURN(patterns_[a * classes + b], LegsBetween(machine, from, to, staged.Is(from, to), ways.RouteTo(to)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Route>> Routes::LegsBetween(const Machine& machine, int from, int to, bool is_staged,
                                                       const std::optional<Route>& direct) const {
  if (is_staged) {
    if (host_.to.empty()) return NoRoute(machine.devices[from], kHost);
    return std::vector<Route>{WithoutEngines(host_.to[from]), WithoutEngines(host_.from[to])};
  }
  if (!direct) return NoRoute(machine.devices[from], machine.devices[to]);
  return std::vector<Route>{*direct};
}

absl::StatusOr<Routes::NodeRoutes> Routes::RoutesOfNode(const Machine& machine, const std::string& node,
                                                        const LinkGraph& graph, const std::vector<int>& class_of) const {
  NodeRoutes routes;
  const std::optional<int> number = graph.FindNode(node);
  if (!number) return NoRoute(machine.devices[0], node);
  const LinkGraph::Ways from_node = graph.WaysFrom(*number);
  std::vector<std::optional<Route>> to_node;  // by class
  for (const ClassEnds& of_class : ends_) to_node.push_back(graph.WaysFrom(of_class.first).RouteTo(*number));
  for (int device = 0; device < static_cast<int>(class_of.size()); ++device) {
    const int model = FromOf(class_of[device]);
    if (!to_node[class_of[device]]) return NoRoute(machine.devices[model], node);
    std::optional<Route> from_there = from_node.RouteTo(model);
    if (!from_there) return NoRoute(node, machine.devices[model]);
    Route to = *to_node[class_of[device]], from = *std::move(from_there);
    Adapt(model, device, to.resources.front());
    Adapt(model, device, from.resources.back());
    routes.to.push_back(WithEngines(std::move(to), device, kNoDevice));
    routes.from.push_back(WithEngines(std::move(from), kNoDevice, device));
  }
  return routes;
}

absl::Status Routes::AddServer(const Machine& machine, const LinkGraph& graph, const std::vector<int>& class_of) {
  ASSIGN_OR_RETURN(server_, RoutesOfNode(machine, machine.server, graph, class_of));
  const double rate = machine.server_bytes_per_sec.value;
  if (rate == 0) return absl::OkStatus();
  const int adding = static_cast<int>(capacities_.size());
  capacities_.push_back(rate);
  for (Route& route : server_.to) {
    route.resources.push_back(adding);
    route.bytes_per_sec = std::min(route.bytes_per_sec, rate);
  }
  return absl::OkStatus();
}

std::vector<Route> Routes::Between(int from, int to) const {
  if (from == kServer) return {server_.from[to]};
  if (to == kServer) return {server_.to[from]};
  const int a = attachments_[from].of_class, b = attachments_[to].of_class;
  std::vector<Route> legs = Pattern(a, b);
  Adapt(FromOf(a), from, legs.front().resources.front());
  Adapt(ToOf(a, b), to, legs.back().resources.back());
  if (legs.size() == 1) return {WithEngines(std::move(legs[0]), from, to)};
  if (staging_piece_bytes_ > 0) return {WithEngines(InPieces(legs[0], legs[1], staging_piece_bytes_), from, to)};
  return {WithEngines(std::move(legs[0]), from, kNoDevice), WithEngines(std::move(legs[1]), kNoDevice, to)};
}

double Routes::BytesPerSec(int from, int to) const {
  return Nearness(Pattern(attachments_[from].of_class, attachments_[to].of_class)).first;
}

int Routes::NodeBetween(int from, int to) const {
  const std::vector<Route>& legs = Pattern(attachments_[from].of_class, attachments_[to].of_class);
  return legs.size() == 1 && legs[0].resources.size() == 2 ? legs[0].first_node : kNoNode;
}

double Routes::LinkBytesPerSec(int from, int to) const {
  const std::vector<Route>& legs = Pattern(attachments_[from].of_class, attachments_[to].of_class);
  return copy_engines_ == 0 && legs.size() == 1 && legs[0].resources.size() == 1 ? legs[0].bytes_per_sec : 0;
}

void Routes::Adapt(int model, int device, int& resource) const {
  if (model == device) return;
  const std::vector<int>& of_model = attachments_[model].resources;
  const auto found = std::find(of_model.begin(), of_model.end(), resource);
  resource = attachments_[device].resources[found - of_model.begin()];
}

// The route with the engines of the devices at its ends: of two, one sends and one receives.
Route Routes::WithEngines(Route route, int from, int to) const {
  if (copy_engines_ == 0) return route;
  if (from != kNoDevice) route.engines.push_back(from * copy_engines_);
  if (to != kNoDevice) route.engines.push_back(to * copy_engines_ + copy_engines_ - 1);
  return route;
}

std::vector<int> Routes::ChainOf(std::vector<int> devices) const {
  if (devices.empty()) return {};
  std::map<int, std::set<int>> left;  // by class; the first of each is the nearest of its class
  for (size_t i = 1; i < devices.size(); ++i) left[attachments_[devices[i]].of_class].insert(devices[i]);
  for (auto last = devices.begin(); !left.empty(); ++last) {
    const int from = attachments_[*last].of_class;
    const auto nearness = [&](const auto& candidates) {
      return std::pair(Nearness(Pattern(from, candidates.first)), -*candidates.second.begin());
    };
    const auto nearest =
        std::max_element(left.begin(), left.end(), [&](const auto& a, const auto& b) { return nearness(a) < nearness(b); });
    *(last + 1) = *nearest->second.begin();
    nearest->second.erase(nearest->second.begin());
    if (nearest->second.empty()) left.erase(nearest);
  }
  return devices;
}

double Routes::SlowestOf(const std::vector<int>& ring) const {
  double slowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < ring.size(); ++i) slowest = std::min(slowest, BytesPerSec(ring[i], ring[(i + 1) % ring.size()]));
  return slowest;
}

std::vector<int> Routes::RingOf(std::vector<int> devices) const {
  std::vector<int> best = ChainOf(devices);
  // Of three, another start gives the other direction at most; of many, trying takes too long.
  if (best.size() < 4 || best.size() > kMostDevicesOfTriedRing) return best;
  double slowest_of_best = SlowestOf(best);
  std::set<int> tried = {ClassOf(devices[0])};
  for (size_t start = 1; start < devices.size(); ++start) {
    if (!tried.insert(ClassOf(devices[start])).second) continue;  // devices that are alike begin like rings
    std::swap(devices[0], devices[start]);
    std::vector<int> ring = ChainOf(devices);
    const double slowest = SlowestOf(ring);
    if (slowest <= slowest_of_best) continue;
    best = std::move(ring);
    slowest_of_best = slowest;
  }
  return best;
}

}  // namespace colonnade::engine
