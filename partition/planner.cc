#include "partition/planner.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "partition/named_plans.h"
#include "partition/proposals.h"
#include "program/status_macros.h"

namespace colonnade::partition {
namespace {

using layers::LayerGraph;

constexpr int kWinnersToVary = 3;
constexpr int64_t kBucketBytes[] = {1 << 20, 8 << 20, 32 << 20, 128 << 20};
constexpr double kBetter = 1 - 1e-6;  // a change must gain so much

class Search {
 public:
  Search(const LayerGraph& graph, const PlannerOptions& options) : graph_(graph), options_(options) {}

  absl::StatusOr<std::vector<Candidate>> Run() {
    RETURN_IF_ERROR(JudgeNamedPlans());
    for (const Mesh& mesh : Meshes()) {
      RETURN_IF_ERROR(JudgeProposals(mesh));
    }
    if (candidates_.empty()) {
      return absl::FailedPreconditionError(absl::StrFormat("no plan splits network %s over %d devices at batch %d",
                                                           graph_.name, options_.devices, options_.lower.global_batch));
    }
    Sort();
    RETURN_IF_ERROR(VaryTheBest());
    RETURN_IF_ERROR(ExchangeLayers());
    Sort();
    return std::move(candidates_);
  }

 private:
  // One axis of all devices, and every cut into replicas and columns.
  std::vector<Mesh> Meshes() const {
    std::vector<Mesh> meshes = {Mesh::ReplicasByColumns(options_.devices, 1)};
    for (int columns = 2; columns < options_.devices; ++columns) {
      if (options_.devices % columns == 0) meshes.push_back(Mesh::ReplicasByColumns(options_.devices / columns, columns));
    }
    return meshes;
  }

  absl::Status JudgeNamedPlans() {
    for (const std::string& name : PlanNames()) {
      // One device is always among the choices.
      const int devices = name == "single" ? 1 : options_.devices;
      absl::StatusOr<Plan> plan = NamedPlan(name, graph_, {.devices = devices, .global_batch = options_.lower.global_batch});
      if (!plan.ok()) continue;  // it does not split this network or batch
      RETURN_IF_ERROR(Judge(*plan));
    }
    return absl::OkStatus();
  }

  absl::Status JudgeProposals(const Mesh& mesh) {
    if (mesh.device_count() == 1) return absl::OkStatus();
    const auto options = LegalOptions(graph_, mesh, options_.lower.global_batch, options_.cost);
    if (std::any_of(options.begin(), options.end(), [](const auto& o) { return o.empty(); })) return absl::OkStatus();
    for (double exposed : {0.0, 1.0}) {
      const Proposals proposals = ProposeAssignments(graph_, mesh, options_.lower.global_batch, options, options_.cost,
                                                     exposed, options_.proposals_per_mesh);
      for (const Assignment& assignment : proposals.assignments) {
        Plan plan{.name = kAutoPlan, .mesh = mesh};
        if (!proposals.not_exact.empty()) {
          plan.notes = {absl::StrCat("proposed by descent, not the best by additive cost: ", proposals.not_exact)};
        }
        for (size_t node = 0; node < graph_.nodes.size(); ++node) {
          const Strategies& strategies = options[node][assignment[node]].strategies;
          if (!strategies.empty()) plan.layers[graph_.nodes[node].name] = strategies;
        }
        RETURN_IF_ERROR(Judge(plan));
      }
    }
    return absl::OkStatus();
  }

  // Reduction, overlap, buckets and places, each alone and then together with what was better before.
  absl::Status VaryTheBest() {
    const size_t winners = std::min(candidates_.size(), static_cast<size_t>(kWinnersToVary));
    for (size_t w = 0; w < winners; ++w) {
      Candidate best = candidates_[w];
      if (best.plan.mesh.device_count() == 1) continue;
      auto keep_if_better = [&](Plan plan) -> absl::Status {
        ASSIGN_OR_RETURN(Candidate candidate, Judged(std::move(plan)));
        if (IsBetter(candidate, best)) best = std::move(candidate);
        return absl::OkStatus();
      };
      for (Reduction reduction : {Reduction::kSharded, Reduction::kMaster}) {
        Plan plan = best.plan;
        plan.reduction = reduction;
        RETURN_IF_ERROR(keep_if_better(std::move(plan)));
      }
      for (int64_t bytes : kBucketBytes) {
        Plan plan = best.plan;
        plan.bucket_bytes = bytes;
        RETURN_IF_ERROR(keep_if_better(std::move(plan)));
      }
      Plan in_line = best.plan;
      in_line.overlap = false;
      RETURN_IF_ERROR(keep_if_better(std::move(in_line)));
      for (std::vector<int>& order : DeviceOrders(best.plan.mesh)) {
        Plan plan = best.plan;
        plan.device_order = std::move(order);
        RETURN_IF_ERROR(keep_if_better(std::move(plan)));
      }
    }
    Sort();
    return absl::OkStatus();
  }

  // Neighbours along the last axis are near each other by default; here they are apart.
  static std::vector<std::vector<int>> DeviceOrders(const Mesh& mesh) {
    if (mesh.axis_count() < 2 || mesh.axes[0].size == 1 || mesh.axes[1].size == 1) return {};
    const int rows = static_cast<int>(mesh.axes[0].size), columns = static_cast<int>(mesh.axes[1].size);
    std::vector<int> turned(rows * columns);
    for (int position = 0; position < rows * columns; ++position)
      turned[position] = (position % columns) * rows + position / columns;
    return {turned};
  }

  // Single layers of the winner, and runs of neighbours that change alike, as long as a change helps.
  absl::Status ExchangeLayers() {
    Candidate best = candidates_[0];
    if (best.plan.mesh.device_count() == 1) return absl::OkStatus();
    const auto options = LegalOptions(graph_, best.plan.mesh, options_.lower.global_batch, options_.cost);
    for (bool changed = true; changed && judgements_ < options_.most_judgements;) {
      changed = false;
      for (size_t first = 0; first < graph_.nodes.size(); ++first) {
        for (size_t length = 1; length <= 3 && first + length <= graph_.nodes.size(); ++length) {
          for (const StrategyOption& option : options[first]) {
            if (judgements_ >= options_.most_judgements) return absl::OkStatus();
            Plan plan = best.plan;
            if (!Assign(options, first, length, option.strategies, plan)) continue;
            ASSIGN_OR_RETURN(Candidate candidate, Judged(std::move(plan)));
            if (!IsBetter(candidate, best)) continue;
            best = std::move(candidate);
            changed = true;
          }
        }
      }
    }
    return absl::OkStatus();
  }

  // False where a layer may not have the strategies, or all have them already. The others of a run follow the first as far
  // as they can.
  bool Assign(const std::vector<std::vector<StrategyOption>>& options, size_t first, size_t length,
              const Strategies& strategies, Plan& plan) const {
    if (strategies.empty()) return false;
    bool changes = false;
    for (size_t node = first; node < first + length; ++node) {
      const bool legal = std::any_of(options[node].begin(), options[node].end(),
                                     [&](const StrategyOption& option) { return option.strategies == strategies; });
      if (!legal) return false;
      Strategies& of_layer = plan.layers[graph_.nodes[node].name];
      changes = changes || of_layer != strategies;
      of_layer = strategies;
    }
    if (changes) plan.name = kAutoPlan;
    return changes;
  }

  bool Fits(const Judgement& judgement) const {
    return options_.memory_bytes == 0 || judgement.peak_memory_bytes <= options_.memory_bytes;
  }
  static bool IsBetter(const Candidate& a, const Candidate& b) {
    if (a.fits != b.fits) return a.fits;
    if (!a.fits) return a.judgement.peak_memory_bytes < b.judgement.peak_memory_bytes;
    return a.judgement.step_sec < b.judgement.step_sec * kBetter;
  }

  absl::Status Judge(const Plan& plan) { return Judged(plan).status(); }

  // The judgement of a plan that was judged before.
  absl::StatusOr<Candidate> Judged(Plan plan) {
    std::string name = std::exchange(plan.name, "");
    const std::string key = PlanToJson(plan);
    plan.name = std::move(name);
    const auto known = by_key_.find(key);
    if (known != by_key_.end()) return known->second;
    ASSIGN_OR_RETURN(program::Program program, Lower(graph_, plan, options_.lower));
    ASSIGN_OR_RETURN(Judgement judgement, options_.judge(program));
    ++judgements_;
    Candidate candidate{.plan = std::move(plan), .judgement = judgement, .fits = Fits(judgement)};
    by_key_.emplace(key, candidate);
    candidates_.push_back(candidate);
    return candidate;
  }

  void Sort() {
    std::stable_sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      if (a.fits != b.fits) return a.fits;
      return a.fits ? a.judgement.step_sec < b.judgement.step_sec
                    : a.judgement.peak_memory_bytes < b.judgement.peak_memory_bytes;
    });
  }

  const LayerGraph& graph_;
  const PlannerOptions& options_;
  std::vector<Candidate> candidates_;
  std::map<std::string, Candidate> by_key_;
  int judgements_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<Candidate>> SearchPlans(const LayerGraph& graph, const PlannerOptions& options) {
  return Search(graph, options).Run();
}

}  // namespace colonnade::partition
