#include "engine/simulator/leg_maker.h"

#include <algorithm>

namespace colonnade::engine {
namespace {

FlowOnRoute FlowOn(const Route& route, double bytes) {
  FlowOnRoute flow{.uses = {}, .engines = route.engines, .max_rate = route.bytes_per_sec, .bytes = bytes};
  for (int resource : route.resources) flow.uses.push_back({resource});
  return flow;
}

// Adds the first piece of what is staged in pieces, and nothing for what is not.
void AddFirstPiece(const Route& route, double bytes, LegPerByte& per_byte) {
  if (route.piece_bytes <= 0) return;
  const LegPerByte::FirstPiece piece{bytes / route.piece_bytes_per_sec, route.piece_bytes / route.piece_bytes_per_sec};
  std::vector<LegPerByte::FirstPiece>& known = per_byte.first_pieces;
  if (std::find(known.begin(), known.end(), piece) == known.end()) known.push_back(piece);
}

double SecondsOfFirstPiece(const LegPerByte& per_byte, double bytes) {
  double longest = 0;
  for (const LegPerByte::FirstPiece& piece : per_byte.first_pieces) {
    longest = std::max(longest, std::min(piece.sec_per_byte * bytes, piece.most_sec));
  }
  return longest;
}

}  // namespace

void AddLegs(const LegsPerByte& legs, double bytes, Job& job) {
  for (const LegPerByte& per_byte : legs) {
    Leg& leg = job.legs.emplace_back(per_byte.leg);
    leg.fixed_sec += per_byte.summed_sec * bytes + SecondsOfFirstPiece(per_byte, bytes);
    leg.bytes = bytes;
  }
}

Leg LegMaker::HostLeg(absl::Span<const int> devices, bool from_host) {
  const auto [known, is_new] = of_host_.try_emplace({Devices(devices.begin(), devices.end()), from_host});
  if (!is_new) return known->second;
  std::vector<FlowOnRoute> flows;
  for (int device : devices) {
    const Route& route = *(from_host ? routes_.FromHost(device) : routes_.ToHost(device));
    flows.push_back(FlowOn(route, 1));
    known->second.fixed_sec = std::max(known->second.fixed_sec, route.latency_sec);
  }
  known->second.flows = AddFlows(std::move(flows));
  return known->second;
}

const LegsPerByte& LegMaker::ExchangeLegs(absl::Span<const Devices> pairs, double first_sends, double second_sends) {
  const auto [known, is_new] = of_exchanges_.try_emplace({pairs[0], first_sends, second_sends});
  if (!is_new) return known->second;
  Phase phase;
  for (const Devices& pair : pairs) {
    if (first_sends > 0) phase.flows.push_back({pair[0], pair[1], first_sends});
    if (second_sends > 0) phase.flows.push_back({pair[1], pair[0], second_sends});
  }
  return known->second = MakeLegs({phase});
}

const LegsPerByte& LegMaker::CollectiveLegs(const program::Collective& collective,
                                            const CostModel::CollectiveSchedule& schedule,
                                            absl::Span<const Devices> groups) {
  const auto [known, is_new] =
      of_collectives_.try_emplace({collective.kind, collective.group, collective.root, static_cast<int>(schedule.algorithm),
                                   static_cast<int>(schedule.form)});
  if (!is_new) return known->second;
  std::vector<Phase> phases;
  for (const Devices& group : groups) {
    const std::vector<Phase> more = cost_.PhasesPerByte(routes_, collective.kind, schedule, group, collective.root);
    for (size_t i = 0; i < more.size(); ++i) {
      if (i < phases.size()) {
        AddFlowsOf(more[i], phases[i]);
      } else {
        phases.push_back(more[i]);
      }
    }
  }
  return known->second = MakeLegs(phases);
}

// Phases that run at once make one leg, or two where flows are staged whole in the host, and one more if something is summed
// after them. Where the host stages in pieces, all these phases together wait for one first piece.
LegsPerByte LegMaker::MakeLegs(const std::vector<Phase>& phases) {
  LegsPerByte legs;
  for (absl::Span<const Phase> at_once : PhasesAtOnce(phases)) {
    LegPerByte first, second;
    std::vector<FlowOnRoute> first_flows, second_flows;
    double summed_bytes = 0;
    for (const Phase& phase : at_once) {
      double first_sec = 0, second_sec = 0;
      for (const Flow& flow : phase.flows) {
        const std::vector<Route> route = routes_.Between(flow.from, flow.to);
        first_flows.push_back(FlowOn(route[0], flow.bytes));
        first_flows.back().max_rate = std::min(first_flows.back().max_rate, flow.max_rate);
        first_sec = std::max(first_sec, route[0].latency_sec * phase.hops);
        AddFirstPiece(route[0], flow.bytes, first);
        if (route.size() == 1) continue;
        second_flows.push_back(FlowOn(route[1], flow.bytes));
        second_sec = std::max(second_sec, route[1].latency_sec * phase.hops);
      }
      first.leg.fixed_sec += first_sec;
      second.leg.fixed_sec += second_sec;
      summed_bytes += phase.summed_bytes;
    }
    first.leg.flows = AddFlows(std::move(first_flows));
    legs.push_back(std::move(first));
    if (!second_flows.empty()) {
      second.leg.flows = AddFlows(std::move(second_flows));
      legs.push_back(std::move(second));
    }
    if (summed_bytes > 0) legs.push_back({.summed_sec = cost_.MemorySeconds(3 * summed_bytes)});
  }
  return legs;
}

int LegMaker::AddFlows(std::vector<FlowOnRoute> flows) {
  flows_.push_back({.flows = std::move(flows), .lanes = {}});
  return static_cast<int>(flows_.size()) - 1;
}

}  // namespace colonnade::engine
