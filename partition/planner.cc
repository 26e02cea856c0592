#include "partition/planner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "partition/additive_cost.h"
#include "partition/named_plans.h"
#include "partition/proposals.h"
#include "program/status_macros.h"

namespace colonnade::partition {
namespace {

using layers::LayerGraph;

constexpr int kWinnersToVary = 3;
constexpr size_t kMostExchanged = 3;   // neighbours that change together
constexpr int kMostCountsTried = 16;   // of devices, one by one
constexpr double kBetter = 1 - 1e-6;   // a change must gain so much
constexpr double kNearlyAsWell = 1.1;  // proposals are made for so many devices where a named plan on them takes no longer
constexpr int64_t kMostMicroBatchesJudged = 5;  // as many as the two and three that stand for more
constexpr double kProposalsPart = 0.5;          // of most_tasks and of most_judgements

// Whether gradients pass through buckets that are summed, so that kinds of reduction and sizes of buckets differ.
bool ReducesBuckets(const program::Program& program) {
  return std::any_of(program.tasks.begin(), program.tasks.end(), [&](const program::Task& task) {
    const bool moves = !std::holds_alternative<program::Compute>(task.what);
    return moves &&
           std::holds_alternative<program::Bucket>(program.buffer(program::RootOf(program, task.uses[0].buffer)).storage);
  });
}

class Search {
 public:
  Search(const LayerGraph& graph, const PlannerOptions& options)
      : graph_(graph),
        options_(options),
        micro_batches_(options.lower.micro_batches),
        samples_(options.lower.samples_at_once()) {}

  absl::StatusOr<std::vector<Candidate>> Run() {
    RETURN_IF_ERROR(JudgeNamedPlans());
    RETURN_IF_ERROR(JudgeProposals());
    if (candidates_.empty()) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "no plan splits network %s over %d devices at batch %d%s; %s", graph_.name, options_.devices,
          options_.lower.global_batch, micro_batches_ > 1 ? absl::StrFormat(" in micro-batches of %d", samples_) : "",
          refused_.message()));
    }
    RETURN_IF_ERROR(VaryNamedPlans());
    Sort();
    RETURN_IF_ERROR(VaryTheBest());
    RETURN_IF_ERROR(ExchangeLayers());
    Sort();
    return std::move(candidates_);
  }

 private:
  absl::Status JudgeNamedPlans() {
    spends_ = false;
    for (int devices : TriedDeviceCounts(options_.devices)) {
      for (const std::string& name : PlanNames()) {
        if ((name == "single") != (devices == 1)) continue;
        absl::StatusOr<Plan> plan = NamedPlan(name, graph_, {.devices = devices, .global_batch = samples_});
        if (!plan.ok()) {  // it does not split this network or batch
          refused_ = plan.status();
          continue;
        }
        RETURN_IF_ERROR(Judge(*plan));
      }
    }
    spends_ = true;
    named_ = candidates_;
    return absl::OkStatus();
  }

  struct Proposal {
    double additive_sec = 0;
    Plan plan;
  };

  // Of a step, in which all but reductions and updates are done for each micro-batch.
  struct StepCosts {
    CostFunctions cost;  // of transfers between layers
    std::vector<std::vector<StrategyOption>> options;
  };

  absl::Status CheckNotStopped() const {
    if (!options_.is_stopped || !options_.is_stopped()) return absl::OkStatus();
    return absl::CancelledError("the search for a plan was stopped");
  }

  absl::StatusOr<StepCosts> CostsOn(const Mesh& mesh) const {
    RETURN_IF_ERROR(CheckNotStopped());
    ASSIGN_OR_RETURN(CostFunctions once, options_.cost(mesh.device_count()));
    StepCosts costs{.cost = once, .options = LegalOptions(graph_, mesh, samples_, once)};
    const auto times = static_cast<double>(micro_batches_);
    costs.cost.transfer = [once, times](program::CollectiveKind kind, int members, double bytes) {
      return times * once.transfer(kind, members, bytes);
    };
    for (std::vector<StrategyOption>& of_node : costs.options) {
      for (StrategyOption& option : of_node) {
        LayerCost& cost = option.cost;
        cost.compute_sec = times * (cost.compute_sec - cost.update_sec) + cost.update_sec;
        cost.transfer_sec *= times;
      }
    }
    return costs;
  }

  // What the additive cost holds to be the best on `mesh`.
  absl::Status Propose(const Mesh& mesh, std::vector<Proposal>& proposals) const {
    ASSIGN_OR_RETURN(const StepCosts costs, CostsOn(mesh));
    const std::vector<std::vector<StrategyOption>>& options = costs.options;
    if (std::any_of(options.begin(), options.end(), [](const auto& o) { return o.empty(); })) return absl::OkStatus();
    for (double exposed : {0.0, 1.0}) {
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

  // Whether a named plan on so many devices is nearly as fast as the best.
  bool DoesNearlyAsWell(int devices) const {
    double best = std::numeric_limits<double>::infinity(), of_these = best;
    for (const Candidate& candidate : candidates_) {
      best = std::min(best, candidate.judgement.step_sec);
      if (candidate.plan.mesh.device_count() == devices) of_these = std::min(of_these, candidate.judgement.step_sec);
    }
    return of_these <= best * kNearlyAsWell;
  }

  absl::Status JudgeProposals() {
    std::vector<Proposal> proposals;
    for (int devices : TriedDeviceCounts(options_.devices)) {
      if (devices == 1 || (devices < options_.devices && !DoesNearlyAsWell(devices))) continue;
      for (const Mesh& mesh : MeshesOf(devices)) RETURN_IF_ERROR(Propose(mesh, proposals));
    }
    std::stable_sort(proposals.begin(), proposals.end(),
                     [](const Proposal& a, const Proposal& b) { return a.additive_sec < b.additive_sec; });
    for (const Proposal& proposal : proposals) {
      if (IsSpent(kProposalsPart)) break;
      RETURN_IF_ERROR(Judge(proposal.plan));
    }
    return absl::OkStatus();
  }

  // All that may be spent, or a part of it.
  bool IsSpent(double part = 1) const {
    return spent_judgements_ >= part * options_.most_judgements ||
           static_cast<double>(spent_tasks_) >= part * static_cast<double>(options_.most_tasks);
  }

  absl::Status VaryNamedPlans() {
    spends_ = false;
    for (const Candidate& named : named_) {
      const std::string key = KeyOf(named.plan);
      for (Reduction reduction : {Reduction::kAllReduce, Reduction::kSharded, Reduction::kMaster}) {
        for (int64_t bytes : kTriedBucketBytes) {
          const bool cannot_win = named.judgement.least_step_sec >= BestOf().judgement.step_sec && BestOf().fits;
          if (cannot_win || !reduces_buckets_.at(key)) break;
          Plan plan = named.plan;
          plan.reduction = reduction;
          plan.bucket_bytes = bytes;
          RETURN_IF_ERROR(Judge(plan));
        }
      }
    }
    spends_ = true;
    return absl::OkStatus();
  }

  // Reduction, overlap, buckets and places, each alone and then together with what was better before.
  absl::Status VaryTheBest() {
    const LowerOptions& lower = options_.lower;
    const size_t winners = std::min(candidates_.size(), static_cast<size_t>(kWinnersToVary));
    for (size_t w = 0; w < winners; ++w) {
      Candidate best = candidates_[w];
      if (best.plan.mesh.device_count() == 1) continue;
      auto keep_if_better = [&](Plan plan) -> absl::Status {
        if (w > 0 && IsSpent()) return absl::OkStatus();
        ASSIGN_OR_RETURN(Candidate candidate, Judged(std::move(plan)));
        if (IsBetter(candidate, best)) best = std::move(candidate);
        return absl::OkStatus();
      };
      if (reduces_buckets_.at(KeyOf(best.plan))) {
        for (Reduction reduction : {Reduction::kSharded, Reduction::kMaster}) {
          Plan plan = best.plan;
          plan.reduction = reduction;
          RETURN_IF_ERROR(keep_if_better(std::move(plan)));
        }
        for (int64_t bytes : kTriedBucketBytes) {
          Plan plan = best.plan;
          plan.bucket_bytes = bytes;
          RETURN_IF_ERROR(keep_if_better(std::move(plan)));
        }
      }
      for (int parts : kTriedTransferParts) {
        if (!MovesActivations(best.plan)) break;
        Plan plan = best.plan;
        plan.transfer_parts = parts;
        ASSIGN_OR_RETURN(plan.transfer_parts, TransferParts(graph_, plan, samples_, lower.mode, lower.micro_batches));
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

  // A change of the winner: the strategies of an option of the first node for it and those behind it.
  struct Exchange {
    double additive_sec = 0;
    size_t first = 0, length = 1;
    Strategies strategies;
  };

  static std::optional<int> OptionWith(const std::vector<StrategyOption>& options, const Strategies& strategies) {
    const auto found = std::find_if(options.begin(), options.end(),
                                    [&](const StrategyOption& option) { return option.strategies == strategies; });
    if (found == options.end()) return std::nullopt;
    return static_cast<int>(found - options.begin());
  }

  // All that change the plan, what the additive cost likes best first.
  std::vector<Exchange> ExchangesOf(const StepCosts& costs, const Plan& plan) const {
    const std::vector<std::vector<StrategyOption>>& options = costs.options;
    AdditiveCost cost(graph_, plan.mesh, samples_, options, costs.cost, /*exposed=*/1);
    Assignment before(graph_.nodes.size(), 0);
    for (size_t node = 0; node < graph_.nodes.size(); ++node) {
      const auto found = plan.layers.find(graph_.nodes[node].name);
      if (found != plan.layers.end()) before[node] = OptionWith(options[node], found->second).value_or(0);
    }
    std::vector<Exchange> exchanges;
    for (size_t first = 0; first < graph_.nodes.size(); ++first) {
      for (const StrategyOption& option : options[first]) {
        if (option.strategies.empty()) continue;
        Assignment after = before;
        std::set<int> terms;
        for (size_t length = 1; length <= kMostExchanged && first + length <= graph_.nodes.size(); ++length) {
          const size_t last = first + length - 1;
          const std::optional<int> same = OptionWith(options[last], option.strategies);
          if (!same.has_value()) break;
          after[last] = *same;
          terms.insert(cost.TermsOf(static_cast<int>(last)).begin(), cost.TermsOf(static_cast<int>(last)).end());
          if (after == before) continue;
          double seconds = 0;
          for (int term : terms) seconds += cost.OfTerm(term, after) - cost.OfTerm(term, before);
          exchanges.push_back({seconds, first, length, option.strategies});
        }
      }
    }
    std::stable_sort(exchanges.begin(), exchanges.end(),
                     [](const Exchange& a, const Exchange& b) { return a.additive_sec < b.additive_sec; });
    return exchanges;
  }

  // Single layers of the winner, and runs of neighbours that change alike, as long as a change helps.
  absl::Status ExchangeLayers() {
    Candidate best = candidates_[0];
    if (best.plan.mesh.device_count() == 1) return absl::OkStatus();
    ASSIGN_OR_RETURN(const StepCosts costs, CostsOn(best.plan.mesh));
    for (bool changed = true; changed && !IsSpent();) {
      changed = false;
      for (const Exchange& exchange : ExchangesOf(costs, best.plan)) {
        if (IsSpent()) return absl::OkStatus();
        Plan plan = best.plan;
        if (!Assign(exchange, plan)) continue;  // as it is since a change before this one
        ASSIGN_OR_RETURN(Candidate candidate, Judged(std::move(plan)));
        if (!IsBetter(candidate, best)) continue;
        best = std::move(candidate);
        changed = true;
      }
    }
    return absl::OkStatus();
  }

  // False where all layers have the strategies already.
  bool Assign(const Exchange& exchange, Plan& plan) const {
    bool changes = false;
    for (size_t node = exchange.first; node < exchange.first + exchange.length; ++node) {
      Strategies& of_layer = plan.layers[graph_.nodes[node].name];
      changes = changes || of_layer != exchange.strategies;
      of_layer = exchange.strategies;
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

  const Candidate& BestOf() const { return *std::min_element(candidates_.begin(), candidates_.end(), IsBetter); }

  absl::Status Judge(const Plan& plan) { return Judged(plan).status(); }

  static std::string KeyOf(Plan plan) {
    plan.name.clear();
    return PlanToJson(plan);
  }

  // Micro-batches are alike: where there are many, each takes as long as the third.
  absl::StatusOr<Judgement> JudgementOf(const Plan& plan, const std::string& key) {
    if (micro_batches_ <= kMostMicroBatchesJudged) return JudgementOf(plan, key, micro_batches_);
    ASSIGN_OR_RETURN(const Judgement two, JudgementOf(plan, key, 2));
    ASSIGN_OR_RETURN(Judgement all, JudgementOf(plan, key, 3));
    const auto more = static_cast<double>(micro_batches_ - 3);
    all.step_sec += more * (all.step_sec - two.step_sec);
    all.least_step_sec += more * (all.least_step_sec - two.least_step_sec);
    return all;
  }
  absl::StatusOr<Judgement> JudgementOf(const Plan& plan, const std::string& key, int64_t micro_batches) {
    LowerOptions lower = options_.lower;
    lower.micro_batches = micro_batches;
    lower.global_batch = samples_ * micro_batches;
    ASSIGN_OR_RETURN(const program::Representatives lowered, LowerToSimulate(graph_, plan, lower));
    if (spends_) spent_tasks_ += static_cast<int64_t>(lowered.program.tasks.size());
    reduces_buckets_[key] = ReducesBuckets(lowered.program);
    return options_.judge(lowered);
  }

  // The judgement of a plan that was judged before.
  absl::StatusOr<Candidate> Judged(Plan plan) {
    const std::string key = KeyOf(plan);
    const auto known = by_key_.find(key);
    if (known != by_key_.end()) return known->second;
    RETURN_IF_ERROR(CheckNotStopped());
    ASSIGN_OR_RETURN(Judgement judgement, JudgementOf(plan, key));
    if (spends_) ++spent_judgements_;
    Candidate candidate{.plan = std::move(plan), .judgement = judgement, .fits = Fits(judgement)};
    by_key_.emplace(key, candidate);
    candidates_.push_back(candidate);
    if (options_.progress) options_.progress(static_cast<int>(candidates_.size()), PartSpent());
    return candidate;
  }

  double PartSpent() const {
    return std::min(1.0, std::max(static_cast<double>(spent_judgements_) / options_.most_judgements,
                                  static_cast<double>(spent_tasks_) / static_cast<double>(options_.most_tasks)));
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
  const int64_t micro_batches_, samples_;  // of a micro-batch
  std::vector<Candidate> candidates_;
  std::vector<Candidate> named_;  // with the reduction and buckets that plans have by themselves
  absl::Status refused_;          // why the last named plan was
  std::map<std::string, Candidate> by_key_;
  std::map<std::string, bool> reduces_buckets_;
  bool spends_ = true;  // whether judgements count, as those do that may be left out
  int spent_judgements_ = 0;
  int64_t spent_tasks_ = 0;  // of what was judged
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
  RETURN_IF_ERROR(CheckBatch(graph, options.lower.global_batch));
  RETURN_IF_ERROR(CheckMicroBatches(options.lower));
  return Search(graph, options).Run();
}

}  // namespace colonnade::partition
