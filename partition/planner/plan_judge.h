// Internal to partition/. What the planner's search has judged so far, and how much of its limits is spent.
#ifndef COLONNADE_PARTITION_PLANNER_PLAN_JUDGE_H_
#define COLONNADE_PARTITION_PLANNER_PLAN_JUDGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "partition/planner.h"

namespace colonnade::partition {

// Returns Cancelled where the search is to stop.
absl::Status CheckNotStopped(const PlannerOptions& options);

// Whether `a` fits and `b` does not; both fit and `a` is faster by more than rounding; or neither fits and `a` needs less
// memory.
bool FitsBetterOrIsFaster(const Candidate& a, const Candidate& b);

class PlanJudge {
 public:
  // Both must outlive the result.
  PlanJudge(const layers::LayerGraph& graph, const PlannerOptions& options)
      : graph_(graph), options_(options), samples_(options.lower.samples_at_once()) {}

  // Judges a plan with PlannerOptions::settings, or returns the judgement that was made before. Plans that differ in their
  // names alone are one.
  absl::StatusOr<Candidate> Judge(const Plan& plan);
  // Does the same for a plan that is never left out: it spends nothing.
  absl::StatusOr<Candidate> JudgeWithoutSpending(const Plan& plan);

  // Whether a plan moves buckets, so that kinds of reduction and sizes of buckets may differ. REQUIRES: it is the plan of a
  // candidate.
  bool ReducesBuckets(const Plan& plan) const { return by_key_.at(KeyOf(plan)).reduces_buckets; }

  // Whether at least `part`, from 0 to 1, of what may be spent has been.
  bool IsSpent(double part = 1) const;

  const std::vector<Candidate>& candidates() const { return candidates_; }  // in the order in which they were judged
  // Returns the candidates, the best first; of equal ones the first to be judged.
  std::vector<Candidate> Sorted() const;

 private:
  struct Judged {
    Candidate candidate;
    bool reduces_buckets = false;
    int64_t loaded_bytes = 0;  // of what the host gives to one device
    int64_t tasks = 0;         // of one of the devices that were lowered to judge it, on the average
  };
  static std::string KeyOf(Plan plan);
  absl::StatusOr<Judged> LowerAndJudge(const Plan& plan) const;
  absl::StatusOr<Judged> LowerAndJudgeIn(const Plan& plan, int64_t micro_batches) const;
  bool Fits(const Judgement& judgement) const;
  absl::StatusOr<Candidate> JudgeOnce(Plan plan, bool spends);
  double PartSpent() const;

  const layers::LayerGraph& graph_;
  const PlannerOptions& options_;
  const int64_t samples_;  // of a micro-batch
  std::vector<Candidate> candidates_;
  std::map<std::string, Judged> by_key_;
  int spent_judgements_ = 0;
  int64_t spent_tasks_ = 0;  // of the plans that were judged
};

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_PLANNER_PLAN_JUDGE_H_
