// Internal to engine/. The legs of jobs: what a transfer takes of a machine's links, one part after the other.
#ifndef COLONNADE_ENGINE_SIMULATOR_LEG_MAKER_H_
#define COLONNADE_ENGINE_SIMULATOR_LEG_MAKER_H_

#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "engine/simulator/cost_model.h"
#include "engine/simulator/jobs.h"
#include "engine/simulator/routes.h"
#include "engine/simulator/transfer_phases.h"
#include "program/program.h"

namespace colonnade::engine {

// A leg whose flows, sums and first pieces are stated per byte of the transfer. Only `leg.fixed_sec` and a piece's most_sec
// are the same for any number of bytes.
struct LegPerByte {
  Leg leg;
  double summed_sec = 0;  // seconds for each byte, before the flows
  // The time of the first half of one kind of flow that is staged in pieces: for each byte, and at most for a piece.
  struct FirstPiece {
    double sec_per_byte = 0, most_sec = 0;
    bool operator==(const FirstPiece&) const = default;
  };
  std::vector<FirstPiece> first_pieces = {};
};
using LegsPerByte = std::vector<LegPerByte>;

// Appends to `job` what `bytes` take of these legs.
void AddLegs(const LegsPerByte& legs, double bytes, Job& job);

// Legs are stated per byte, and made once for all transfers that differ in bytes alone.
class LegMaker {
 public:
  using Devices = std::vector<int>;

  // All must outlive the result; `flows` is where the flows of legs are kept.
  LegMaker(const Routes& routes, const CostModel& cost, std::vector<FlowSet>& flows)
      : routes_(routes), cost_(cost), flows_(flows) {}

  // Returns the leg between the host and each of `devices`.
  Leg HostLeg(absl::Span<const int> devices, bool from_host);
  // Returns the legs, per byte that the larger side sends, of exchanges between these pairs. `first_sends` and
  // `second_sends` are what each member sends of such a byte, from 0 to 1.
  const LegsPerByte& ExchangeLegs(absl::Span<const Devices> pairs, double first_sends, double second_sends);
  // Returns the legs of a collective of each of these groups, of which the first is that of the Program's task.
  const LegsPerByte& CollectiveLegs(const program::Collective& collective, const CostModel::CollectiveSchedule& schedule,
                                    absl::Span<const Devices> groups);

 private:
  LegsPerByte MakeLegs(const std::vector<Phase>& phases);
  int AddFlows(std::vector<FlowOnRoute> flows);

  const Routes& routes_;
  const CostModel& cost_;
  std::vector<FlowSet>& flows_;
  // What was made before. Groups by their index.
  absl::flat_hash_map<std::pair<Devices, bool>, Leg> of_host_;
  absl::flat_hash_map<std::tuple<Devices, double, double>, LegsPerByte> of_exchanges_;
  absl::flat_hash_map<std::tuple<program::CollectiveKind, int, int, int, int>, LegsPerByte> of_collectives_;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_LEG_MAKER_H_
