// Searches for the plan that trains fastest (`--plan=auto`).
//
// The makespan of a step is not additive, so `judge`, which the caller makes of a simulator, ranks:
//
//   1. every named plan, on all devices and on fewer (TriedDeviceCounts);
//   2. for every mesh of all devices, and of as many fewer as a named plan does nearly as well on, the assignments of
//      strategies to layers that an additive cost (additive_cost.h) holds to be the best (proposals.h), the best first;
//   3. every named plan with every kind of reduction and size of buckets, where that can be faster than the best so far;
//   4. variants of the three best (reduction, bucket size, overlap, parts of transfers, which device sits where);
//   5. the winner with the strategies of single layers, or of neighbours, changed as long as that helps, by additive cost.
//
// Judging takes time in proportion to a Program's tasks, so the search is limited by tasks and by judgements: 2 ends where
// half of `most_tasks` or of `most_judgements` is spent, 4 (but for the best) and 5 where all of one is. 1 and 3 are never
// left out, so the result is no worse than any of them.
//
// With more than five micro-batches, steps of two and of three are judged; their difference is the time of each further
// one, and its images and labels are the memory. Their input is left out of that; where it takes longer, a step takes as
// long as the input.
//
// Deterministic: a function of its arguments alone. Representatives are judged, which stand for a whole Program
// (LowerRepresentatives); whoever lowers the chosen plan verifies that Program.
#ifndef COLONNADE_PARTITION_PLANNER_H_
#define COLONNADE_PARTITION_PLANNER_H_

#include <cstdint>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "partition/lower.h"
#include "partition/plan.h"

namespace colonnade::partition {

// Seconds on some machine. All devices are alike.
struct CostFunctions {
  std::function<double(const program::Task&)> compute;  // of a Compute task; its uses have shapes, not buffers
  // Returns the seconds of a collective between `members`, each with `bytes` of operand.
  std::function<double(program::CollectiveKind kind, int members, double bytes)> transfer;
  // Of LowerOptions:
  program::DType dtype = program::DType::kF32;
  program::Mode mode = program::Mode::kTrain;
  std::set<std::string> frozen_layers{};
};

struct Judgement {
  double step_sec = 0;
  int64_t peak_memory_bytes = 0;  // of the fullest device
  // Seconds of step_sec that no reduction, size of buckets or overlap can save: compute that does not depend on them.
  double least_step_sec = 0;
};

struct PlannerOptions {
  int devices = 1;
  LowerOptions lower;
  PlanSettings settings{};  // what every plan gets; the search tries no other values of these
  std::function<absl::StatusOr<CostFunctions>(int devices)> cost;  // of steps on so many devices
  // With more than kMostMicroBatchesJudged it leaves out how long the input takes, of which input_sec is that of a step.
  std::function<absl::StatusOr<Judgement>(const program::RepresentativeProgram&)> judge;
  double input_sec = 0;
  GroupClassifier classify_group = nullptr;  // absent: all are alike
  int64_t memory_bytes = 0;                  // of each device; 0: no limit
  int proposals_per_mesh = 6;
  int most_judgements = 400;  // how many plans phases 2, 4 and 5 may judge; phase 2 ends at half of it
  // How many tasks of one device these plans may have, counted together; phase 2 ends at half of it. Phase 4 judges all
  // variants of the best plan whatever is spent.
  int64_t most_tasks = 200'000;
  std::function<bool()> is_stopped = nullptr;  // asked before what takes long: the search then ends with Cancelled
  // Called after each judgement with their number and the part of the search that is spent, from 0 to 1.
  std::function<void(int judgements, double part)> progress = nullptr;
};

// Bucket sizes that the search tries.
inline constexpr int64_t kTriedBucketBytes[] = {1 << 20, 8 << 20, 32 << 20, 128 << 20};

// Parts of transfers that the search tries, or as many fewer as a plan's batch splits into.
inline constexpr int kTriedTransferParts[] = {2, 4, 8};

// With more micro-batches than this the search judges plans by two and three of them: the peak memory of more is about
// right, and whoever chooses a plan asks for its own.
inline constexpr int64_t kMostMicroBatchesJudged = 5;

// Returns the numbers of devices that the search tries, the most first: all, where there are up to 16; else `devices` halved
// again and again, and every power of two.
std::vector<int> TriedDeviceCounts(int devices);

struct Candidate {
  Plan plan;
  Judgement judgement;
  bool fits = true;
};

// Whether `a` comes before `b` among the plans that SearchPlans returns.
bool IsBefore(const Candidate& a, const Candidate& b);

// Searches, and returns all judged plans: those that fit, the fastest first, then those that do not fit, the smallest first;
// never empty. Errors: those of the network, batch and judge; FailedPrecondition where not even one plan can be made.
absl::StatusOr<std::vector<Candidate>> SearchPlans(const layers::LayerGraph& graph, const PlannerOptions& options);

// Returns a time that no plan with at most so many parts of transfers beats: how far a search may still be from the best. It
// is that of the forward and backward products with weights that a step of `lower` has, one after the other, each split over
// the devices, and into parts, as well as it can be. All else is left out: transfers, updates, and layers that others may
// take into their own kernels. `cost` needs its functions alone.
double LowerBoundSeconds(const layers::LayerGraph& graph, int devices, const LowerOptions& lower, const CostFunctions& cost,
                         int most_transfer_parts = std::end(kTriedTransferParts)[-1]);

// Returns by what strategies, by axis, a layer of the network may be spread over a mesh; of an axis of one position it is
// only replicate.
std::vector<std::vector<layers::Strategy>> LegalStrategies(const layers::LayerGraph& graph, layers::LayerId layer,
                                                           const Mesh& mesh, int64_t global_batch);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_PLANNER_H_
