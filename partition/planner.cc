#include "partition/planner.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "partition/legality.h"
#include "partition/named_plans.h"
#include "partition/planner/plan_judge.h"
#include "partition/planner/proposals.h"
#include "partition/planner/step_costs.h"
#include "partition/planner/strategy_changes.h"

namespace colonnade::partition {
namespace {

using layers::LayerGraph;

constexpr size_t kWinnersToVary = 3;
constexpr int kMostCountsTried = 16;    // of devices, one by one
constexpr double kNearlyAsWell = 1.1;   // proposals are made for so many devices where a named plan on them takes no longer
constexpr double kProposalsPart = 0.5;  // of most_tasks and of most_judgements

// Neighbours along the last axis are near each other by default; here they are apart.
std::vector<std::vector<int>> DeviceOrders(const Mesh& mesh) {
  if (mesh.axis_count() < 2 || mesh.axes[0].size == 1 || mesh.axes[1].size == 1) return {};
  const int rows = static_cast<int>(mesh.axes[0].size), columns = static_cast<int>(mesh.axes[1].size);
  std::vector<int> turned(rows * columns);
  for (int position = 0; position < rows * columns; ++position)
    turned[position] = (position % columns) * rows + position / columns;
  return {turned};
}

// The phases of planner.h, in their order.
class Search {
 public:
  Search(const LayerGraph& graph, const PlannerOptions& options)
      : graph_(graph),
        options_(options),
        micro_batches_(options.lower.micro_batches),
        samples_(options.lower.samples_at_once()),
        judge_(graph, options) {}

  absl::StatusOr<std::vector<Candidate>> Run() {
    RETURN_IF_ERROR(JudgeNamedPlans());
    RETURN_IF_ERROR(JudgeProposals());
    if (judge_.candidates().empty()) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "no plan splits network %s over %s at batch %d%s; %s", graph_.name, base::Counted(options_.devices, "device"),
          options_.lower.global_batch, micro_batches_ > 1 ? absl::StrFormat(" in micro-batches of %d", samples_) : "",
          refused_.message()));
    }
    RETURN_IF_ERROR(VaryNamedPlans());
    RETURN_IF_ERROR(VaryTheBest());
    RETURN_IF_ERROR(ChangeStrategies());
    return judge_.Sorted();
  }

 private:
  absl::Status JudgeNamedPlans() {
    for (int devices : TriedDeviceCounts(options_.devices)) {
      for (const std::string& name : PlanNames()) {
        if ((name == "single") != (devices == 1)) continue;
        absl::StatusOr<Plan> plan = NamedPlan(name, graph_, {.devices = devices, .global_batch = samples_});
        if (!plan.ok()) {  // it does not split this network or batch
          refused_ = plan.status();
          continue;
        }
        RETURN_IF_ERROR(judge_.JudgeWithoutSpending(*plan).status());
      }
    }
    named_ = judge_.candidates();
    return absl::OkStatus();
  }

  struct Proposal {
    double additive_sec = 0;
    Plan plan;
  };

  absl::Status JudgeProposals() {
    std::vector<Proposal> proposals;
    for (int devices : TriedDeviceCounts(options_.devices)) {
      if (devices == 1 || (devices < options_.devices && !DoesNearlyAsWell(devices))) continue;
      for (const Mesh& mesh : MeshesOf(devices)) RETURN_IF_ERROR(Propose(mesh, proposals));
    }
    std::stable_sort(proposals.begin(), proposals.end(),
                     [](const Proposal& a, const Proposal& b) { return a.additive_sec < b.additive_sec; });
    for (const Proposal& proposal : proposals) {
      if (judge_.IsSpent(kProposalsPart)) break;
      RETURN_IF_ERROR(judge_.Judge(proposal.plan).status());
    }
    return absl::OkStatus();
  }

  // Whether a named plan on so many devices is nearly as fast as the best.
  bool DoesNearlyAsWell(int devices) const {
    double best = std::numeric_limits<double>::infinity(), of_these = best;
    for (const Candidate& candidate : named_) {
      best = std::min(best, candidate.judgement.step_sec);
      if (candidate.plan.mesh.device_count() == devices) of_these = std::min(of_these, candidate.judgement.step_sec);
    }
    return of_these <= best * kNearlyAsWell;
  }

  // What the additive cost holds to be the best on `mesh`.
  absl::Status Propose(const Mesh& mesh, std::vector<Proposal>& proposals) const {
    RETURN_IF_ERROR(CheckNotStopped(options_));
    ASSIGN_OR_RETURN(const StepCosts costs, StepCostsOn(mesh, graph_, options_));
    const std::vector<std::vector<StrategyOption>>& options = costs.options;
    if (std::any_of(options.begin(), options.end(), [](const auto& o) { return o.empty(); })) return absl::OkStatus();
    std::vector<double> parts = {0, 1};
    if (!options_.settings.overlap.value_or(true)) parts = {1};  // no transfer is hidden
    for (double exposed : parts) {
      const Proposals found =
          ProposeAssignments(graph_, mesh, samples_, options, costs.cost, exposed, options_.proposals_per_mesh);
      for (size_t i = 0; i < found.assignments.size(); ++i) {
        Plan plan{.name = kAutoPlan, .mesh = mesh};
        if (!found.not_exact.empty()) {
          plan.notes = {absl::StrCat("proposed by descent, not the best by additive cost: ", found.not_exact)};
        }
        for (size_t node = 0; node < graph_.nodes.size(); ++node) {
          const Strategies& strategies = options[node][found.assignments[i][node]].strategies;
          if (!strategies.empty()) plan.layers[graph_.nodes[node].name] = strategies;
        }
        proposals.push_back({found.additive_sec[i], std::move(plan)});
      }
    }
    return absl::OkStatus();
  }

  absl::Status VaryNamedPlans() {
    for (const Candidate& named : named_) {
      for (Reduction reduction : kReductions) {
        for (int64_t bytes : kTriedBucketBytes) {
          const Candidate& best = Best();
          const bool cannot_win = best.fits && named.judgement.least_step_sec >= best.judgement.step_sec;
          if (cannot_win || !judge_.ReducesBuckets(named.plan)) break;
          Plan plan = named.plan;
          plan.reduction = reduction;
          plan.bucket_bytes = bytes;
          RETURN_IF_ERROR(judge_.JudgeWithoutSpending(plan).status());
        }
      }
    }
    return absl::OkStatus();
  }

  const Candidate& Best() const {
    return *std::min_element(judge_.candidates().begin(), judge_.candidates().end(), FitsBetterOrIsFaster);
  }

  // One device has nothing to vary, and may be the best until others are varied.
  std::vector<Candidate> SortedOfSeveralDevices() const {
    std::vector<Candidate> sorted = judge_.Sorted();
    std::erase_if(sorted, [](const Candidate& candidate) { return candidate.plan.mesh.device_count() == 1; });
    return sorted;
  }

  // Each kind of variation alone, and then together with what was better before.
  absl::Status VaryTheBest() {
    const std::vector<Candidate> sorted = SortedOfSeveralDevices();
    for (size_t w = 0; w < std::min(sorted.size(), kWinnersToVary); ++w) {
      Candidate best = sorted[w];
      for (auto variants_of : {&Search::OtherReductions, &Search::OtherBucketSizes, &Search::OtherTransferParts,
                               &Search::WithoutOverlap, &Search::OtherDeviceOrders}) {
        ASSIGN_OR_RETURN(const std::vector<Plan> variants, (this->*variants_of)(best.plan));
        for (const Plan& variant : variants) {
          if (w > 0 && judge_.IsSpent()) continue;
          ASSIGN_OR_RETURN(Candidate candidate, judge_.Judge(variant));
          if (FitsBetterOrIsFaster(candidate, best)) best = std::move(candidate);
        }
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Plan>> OtherReductions(const Plan& plan) const {
    std::vector<Plan> plans;
    if (!judge_.ReducesBuckets(plan)) return plans;
    for (Reduction reduction : kReductions) {
      if (reduction != plan.reduction) plans.emplace_back(plan).reduction = reduction;
    }
    return plans;
  }

  absl::StatusOr<std::vector<Plan>> OtherBucketSizes(const Plan& plan) const {
    std::vector<Plan> plans;
    if (!judge_.ReducesBuckets(plan)) return plans;
    for (int64_t bytes : kTriedBucketBytes) plans.emplace_back(plan).bucket_bytes = bytes;
    return plans;
  }

  absl::StatusOr<std::vector<Plan>> OtherTransferParts(const Plan& plan) const {
    std::vector<Plan> plans;
    if (!MovesActivations(plan)) return plans;
    for (int parts : kTriedTransferParts) {
      Plan& cut = plans.emplace_back(plan);
      cut.transfer_parts = parts;
      ASSIGN_OR_RETURN(const GraphSharding sharding, ShardGraph(graph_, cut, samples_, options_.lower.mode, micro_batches_));
      cut.transfer_parts = sharding.transfer_parts;
    }
    return plans;
  }

  absl::StatusOr<std::vector<Plan>> WithoutOverlap(const Plan& plan) const {
    std::vector<Plan> plans = {plan};
    plans[0].overlap = false;
    return plans;
  }

  absl::StatusOr<std::vector<Plan>> OtherDeviceOrders(const Plan& plan) const {
    std::vector<Plan> plans;
    for (std::vector<int>& order : DeviceOrders(plan.mesh)) plans.emplace_back(plan).device_order = std::move(order);
    return plans;
  }

  // Single layers of the best plan of several devices, and runs of neighbours that change alike, as long as a change helps.
  absl::Status ChangeStrategies() {
    const std::vector<Candidate> sorted = SortedOfSeveralDevices();
    if (sorted.empty()) return absl::OkStatus();
    Candidate best = sorted[0];
    ASSIGN_OR_RETURN(const StepCosts costs, StepCostsOn(best.plan.mesh, graph_, options_));
    for (bool changed = true; changed && !judge_.IsSpent();) {
      changed = false;
      for (const StrategyChange& change : StrategyChangesOf(graph_, best.plan, samples_, costs)) {
        if (judge_.IsSpent()) return absl::OkStatus();
        Plan plan = best.plan;
        if (!Apply(change, graph_, plan)) continue;  // as it is since a change before this one
        ASSIGN_OR_RETURN(Candidate candidate, judge_.Judge(plan));
        if (!FitsBetterOrIsFaster(candidate, best)) continue;
        best = std::move(candidate);
        changed = true;
      }
    }
    return absl::OkStatus();
  }

  const LayerGraph& graph_;
  const PlannerOptions& options_;
  const int64_t micro_batches_, samples_;  // of a micro-batch
  PlanJudge judge_;
  std::vector<Candidate> named_;  // with the reduction and buckets that plans have by themselves
  absl::Status refused_;          // why the last named plan was
};

}  // namespace

std::vector<int> TriedDeviceCounts(int devices) {
  std::vector<int> counts;
  if (devices <= kMostCountsTried) {
    for (int count = devices; count >= 1; --count) counts.push_back(count);
    return counts;
  }
  for (int count = devices; count >= 1; count /= 2) counts.push_back(count);
  for (int power = 1; power < devices; power *= 2) counts.push_back(power);
  std::sort(counts.rbegin(), counts.rend());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

absl::StatusOr<std::vector<Candidate>> SearchPlans(const LayerGraph& graph, const PlannerOptions& options) {
  RETURN_IF_ERROR(CheckBatchSize(graph, options.lower.global_batch));
  RETURN_IF_ERROR(CheckMicroBatches(options.lower));
  if (!options.cost || !options.judge) {
    return absl::FailedPreconditionError(
        absl::StrFormat("PlannerOptions: expected cost and judge, found no %s", options.cost ? "judge" : "cost"));
  }
  return Search(graph, options).Run();
}

}  // namespace colonnade::partition
