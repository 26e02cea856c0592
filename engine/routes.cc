#include "engine/routes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"

namespace colonnade::engine {
namespace {

constexpr char kHost[] = "host";

// The link graph, nodes by number; devices come first, in their order.
class Graph {
 public:
  explicit Graph(const Machine& machine) : devices_(machine.device_count()), copy_engines_(machine.copy_engines) {
    for (const std::string& device : machine.devices) NodeOf(device);
    for (const Link& link : machine.links) AddLink(link);
  }

  std::optional<int> FindNode(const std::string& name) const {
    const auto it = nodes_.find(name);
    return it == nodes_.end() ? std::nullopt : std::optional<int>(it->second);
  }
  const std::vector<double>& capacities() const { return capacities_; }

  // The best route from `start` to every node; nothing where there is none.
  std::vector<std::optional<Route>> RoutesFrom(int start) const {
    std::vector<std::optional<Route>> best(edges_.size());
    best[start] = Route{.resources = {}, .engines = {}, .bytes_per_sec = std::numeric_limits<double>::infinity()};
    // Widens by one link at a time: routes of fewer links are final before longer ones begin.
    std::vector<int> frontier = {start};
    while (!frontier.empty()) {
      std::map<int, Route> next;
      for (int node : frontier) {
        if (node != start && node < devices_) continue;  // a device forwards nothing
        for (const Edge& edge : edges_[node]) {
          if (best[edge.to]) continue;
          Route route = *best[node];
          route.resources.push_back(edge.resource);
          route.latency_sec += edge.latency_sec;
          route.bytes_per_sec = std::min(route.bytes_per_sec, edge.most);
          const auto [it, added] = next.emplace(edge.to, route);
          if (!added && it->second.bytes_per_sec < route.bytes_per_sec) it->second = route;
        }
      }
      frontier.clear();
      for (auto& [node, route] : next) {
        best[node] = std::move(route);
        frontier.push_back(node);
      }
    }
    return best;
  }

  // The route with the engines of the devices at its ends: of two, one sends and one receives.
  Route WithEngines(Route route, int from, int to) const {
    if (copy_engines_ == 0) return route;
    if (from < devices_) route.engines.push_back(from * copy_engines_);
    if (to < devices_) route.engines.push_back(to * copy_engines_ + copy_engines_ - 1);
    return route;
  }

 private:
  struct Edge {
    int to, resource;
    double latency_sec;
    double most;  // bytes per second that one transfer gets
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
    const double cap = link.one_transfer_bytes_per_sec.value, most = cap > 0 ? std::min(cap, rate) : rate;
    const int there = AddResource(rate);
    edges_[a].push_back({b, there, latency, most});
    if (link.duplex == Link::Duplex::kOneWay) return;
    edges_[b].push_back({a, link.duplex == Link::Duplex::kFull ? AddResource(rate) : there, latency, most});
  }
  const int devices_, copy_engines_;
  std::map<std::string, int> nodes_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<double> capacities_;
};

bool IsStaged(const Machine& machine, int from, int to) {
  if (!machine.peer_access) return true;
  const std::string &a = machine.devices[from], &b = machine.devices[to];
  return std::any_of(machine.staged.begin(), machine.staged.end(), [&](const auto& pair) {
    return (pair.first == a && pair.second == b) || (pair.first == b && pair.second == a);
  });
}

// Of one transfer, over all legs: rate and, negated, latency; the greater is the nearer.
std::pair<double, double> Nearness(const std::vector<Route>& legs) {
  double rate = std::numeric_limits<double>::infinity(), latency = 0;
  for (const Route& leg : legs) rate = std::min(rate, leg.bytes_per_sec), latency += leg.latency_sec;
  return {rate, -latency};
}

absl::Status NoRoute(const std::string& from, const std::string& to) {
  return absl::InvalidArgumentError(
      absl::StrFormat("links: expected a way from \"%s\" to \"%s\", found none; add the links between them", from, to));
}

}  // namespace

absl::StatusOr<Routes> Routes::Create(const Machine& machine) {
  const Graph graph(machine);
  const int devices = machine.device_count();
  Routes routes;
  routes.devices_ = devices;
  routes.engine_count_ = devices * machine.copy_engines;
  routes.capacities_ = graph.capacities();
  routes.between_.resize(devices * devices);
  const std::optional<int> host = graph.FindNode(kHost);
  std::vector<std::optional<Route>> from_host;
  if (host) from_host = graph.RoutesFrom(*host);
  for (int from = 0; from < devices; ++from) {
    const std::vector<std::optional<Route>> best = graph.RoutesFrom(from);
    if (host) {
      if (!best[*host]) return NoRoute(machine.devices[from], kHost);
      if (!from_host[from]) return NoRoute(kHost, machine.devices[from]);
      routes.to_host_.push_back(graph.WithEngines(*best[*host], from, *host));
      routes.from_host_.push_back(graph.WithEngines(*from_host[from], *host, from));
    }
    for (int to = 0; to < devices; ++to) {
      if (from == to) continue;
      std::vector<Route>& legs = routes.between_[from * devices + to];
      if (IsStaged(machine, from, to)) {
        if (!host) return NoRoute(machine.devices[from], kHost);
        if (!from_host[to]) return NoRoute(kHost, machine.devices[to]);
        legs = {graph.WithEngines(*best[*host], from, *host), graph.WithEngines(*from_host[to], *host, to)};
      } else if (best[to]) {
        legs = {graph.WithEngines(*best[to], from, to)};
      } else {
        return NoRoute(machine.devices[from], machine.devices[to]);
      }
    }
  }
  return routes;
}

std::vector<int> Routes::RingOf(std::vector<int> devices) const {
  for (auto last = devices.begin(); last != devices.end() && last + 1 != devices.end(); ++last) {
    const auto nearest = std::max_element(last + 1, devices.end(), [&](int a, int b) {
      return std::pair(Nearness(Between(*last, a)), -a) < std::pair(Nearness(Between(*last, b)), -b);
    });
    std::rotate(last + 1, nearest, nearest + 1);
  }
  return devices;
}

}  // namespace colonnade::engine
