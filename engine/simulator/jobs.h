// Internal to engine/. What the tasks of a Program take of a machine: the simulator's input.
//
// A job is what starts and ends together: a computation, the sides of a meeting, the host's part of a step, or the making of
// a step's batch by the input. It takes seconds of its own and then legs, one after the other, each of flows over links.
// Where devices stand for others, a job is that of all for which its devices stand, so that it ends when the last of those
// would.
//
// Flows of a leg that have the same rate at all times are one (engine/simulator/alike_flows.h). Only copy engines, which
// serve one flow after the other, keep them apart.
#ifndef COLONNADE_ENGINE_SIMULATOR_JOBS_H_
#define COLONNADE_ENGINE_SIMULATOR_JOBS_H_

#include <vector>

#include "absl/container/inlined_vector.h"
#include "engine/machine.h"
#include "engine/simulator/fair_share.h"
#include "engine/simulator/routes.h"
#include "program/program.h"
#include "program/representative_program.h"

namespace colonnade::engine {

// A flow, with what it takes of its route.
struct FlowOnRoute {
  FairShare::Uses uses;
  absl::InlinedVector<int, 2> engines;
  double max_rate = 0;  // bytes per second that it gets with nothing beside it
  double bytes = 0;     // that it moves for each byte of its leg
};

// Flows that start together.
struct FlowSet {
  std::vector<FlowOnRoute> flows;
  // Lanes of devices, ascending, each of which is taken as long as the set runs; sets with one in common never run at once.
  std::vector<int> lanes;
};

struct Leg {
  double fixed_sec = 0;  // latency, and sums that hide behind nothing; before the flows
  int flows = -1;        // index in Jobs::flows; −1: none
  double bytes = 0;
};

// What starts and ends as one. A load begins when the input has made its batch.
struct Job {
  std::vector<int> tasks;
  double fixed_sec = 0;
  double cores = 1;  // that it takes where devices share cores
  enum class Kind { kOther, kLoad, kCompute, kTransfer };
  Kind kind = Kind::kOther;
  std::vector<Leg> legs;
};

inline constexpr int kBatchesAhead = 2;  // batches that the input makes beyond those of the steps that are enqueued

struct Jobs {
  std::vector<Job> all;
  int input = -1;   // index of the job that makes the batch of a step; −1: any number of batches are there
  int host = 0;     // index of the job that is the host's part of a step
  int batches = 0;  // how many the input has made at the start
  std::vector<FlowSet> flows;
  std::vector<double> capacities;  // by resource of FlowOnRoute::uses, bytes per second
};

// Returns the jobs of a whole Program.
Jobs MakeJobs(const program::Program& program, const Machine& machine, const Routes& routes);
// Returns the jobs of all devices, made from those of the devices that stand for them.
Jobs MakeJobs(const program::RepresentativeProgram& representatives, const Machine& machine, const Routes& routes);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_JOBS_H_
