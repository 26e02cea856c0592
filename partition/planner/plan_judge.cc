#include "partition/planner/plan_judge.h"

#include <algorithm>
#include <map>
#include <variant>

#include "base/status_macros.h"

namespace colonnade::partition {
namespace {

constexpr double kFaster = 1 - 1e-6;  // a faster plan takes less than this part of the other's time

bool HasReducedBuckets(const program::Program& program) {
  return std::any_of(program.tasks.begin(), program.tasks.end(), [&](const program::Task& task) {
    const bool moves = !std::holds_alternative<program::Compute>(task.body);
    return moves &&
           std::holds_alternative<program::Bucket>(program.buffer(program::RootOf(program, task.uses[0].buffer)).storage);
  });
}

// Returns the bytes of what the host gives, on the device that has the most of it: it is there from the step before on.
int64_t LoadedBytes(const program::Program& program) {
  std::map<int, int64_t> bytes;  // by device
  int64_t most = 0;
  for (const program::Buffer& buffer : program.buffers) {
    if (buffer.slots == 1) continue;
    bytes[buffer.device] += buffer.slots * program::ElementCount(buffer.shape) * program::SizeInBytes(buffer.dtype);
    most = std::max(most, bytes[buffer.device]);
  }
  return most;
}

// Whether `a` fits better than `b` or, where both fit, takes less than `part` of its time.
bool FitsBetterOrTakesLess(const Candidate& a, const Candidate& b, double part) {
  if (a.fits != b.fits) return a.fits;
  if (!a.fits) return a.judgement.peak_memory_bytes < b.judgement.peak_memory_bytes;
  return a.judgement.step_sec < b.judgement.step_sec * part;
}

}  // namespace

absl::Status CheckNotStopped(const PlannerOptions& options) {
  if (!options.is_stopped || !options.is_stopped()) return absl::OkStatus();
  return absl::CancelledError("the search for a plan was stopped");
}

bool IsBefore(const Candidate& a, const Candidate& b) { return FitsBetterOrTakesLess(a, b, 1); }

bool FitsBetterOrIsFaster(const Candidate& a, const Candidate& b) { return FitsBetterOrTakesLess(a, b, kFaster); }

absl::StatusOr<Candidate> PlanJudge::Judge(const Plan& plan) { return JudgeOnce(plan, /*spends=*/true); }

absl::StatusOr<Candidate> PlanJudge::JudgeWithoutSpending(const Plan& plan) { return JudgeOnce(plan, /*spends=*/false); }

bool PlanJudge::IsSpent(double part) const {
  return spent_judgements_ >= part * options_.most_judgements ||
         static_cast<double>(spent_tasks_) >= part * static_cast<double>(options_.most_tasks);
}

std::vector<Candidate> PlanJudge::Sorted() const {
  std::vector<Candidate> sorted = candidates_;
  std::stable_sort(sorted.begin(), sorted.end(), IsBefore);
  return sorted;
}

std::string PlanJudge::KeyOf(Plan plan) {
  plan.name.clear();
  return PlanToJson(plan);
}

absl::StatusOr<Candidate> PlanJudge::JudgeOnce(Plan plan, bool spends) {
  options_.settings.ApplyTo(plan);
  const std::string key = KeyOf(plan);
  const auto known = by_key_.find(key);
  if (known != by_key_.end()) return known->second.candidate;
  RETURN_IF_ERROR(CheckNotStopped(options_));
  ASSIGN_OR_RETURN(const Judged judged, LowerAndJudge(plan));
  if (spends) {
    ++spent_judgements_;
    spent_tasks_ += judged.tasks;
  }
  by_key_.emplace(key, judged);
  candidates_.push_back(judged.candidate);
  if (options_.progress) options_.progress(static_cast<int>(candidates_.size()), PartSpent());
  return judged.candidate;
}

// Micro-batches are alike: where there are many, each takes as long as the third, and about as much memory beside its images
// and labels. What the input takes is in none of them, but of the whole step.
absl::StatusOr<PlanJudge::Judged> PlanJudge::LowerAndJudge(const Plan& plan) const {
  const int64_t micro_batches = options_.lower.micro_batches;
  if (micro_batches <= kMostMicroBatchesJudged) return LowerAndJudgeIn(plan, micro_batches);
  ASSIGN_OR_RETURN(const Judged of_two, LowerAndJudgeIn(plan, 2));
  ASSIGN_OR_RETURN(Judged of_all, LowerAndJudgeIn(plan, 3));
  of_all.tasks += of_two.tasks;
  const Judgement& two = of_two.candidate.judgement;
  Judgement& all = of_all.candidate.judgement;
  const auto more = static_cast<double>(micro_batches - 3);
  all.step_sec = std::max(all.step_sec + more * (all.step_sec - two.step_sec), options_.input_sec);
  all.least_step_sec += more * (all.least_step_sec - two.least_step_sec);
  all.peak_memory_bytes += (micro_batches - 3) * (of_all.loaded_bytes - of_two.loaded_bytes);
  of_all.candidate.fits = Fits(all);
  return of_all;
}

bool PlanJudge::Fits(const Judgement& judgement) const {
  return options_.memory_bytes == 0 || judgement.peak_memory_bytes <= options_.memory_bytes;
}

absl::StatusOr<PlanJudge::Judged> PlanJudge::LowerAndJudgeIn(const Plan& plan, int64_t micro_batches) const {
  LowerOptions lower = options_.lower;
  lower.micro_batches = micro_batches;
  lower.global_batch = samples_ * micro_batches;
  ASSIGN_OR_RETURN(const program::RepresentativeProgram lowered,
                   LowerRepresentatives(graph_, plan, lower, options_.classify_group));
  ASSIGN_OR_RETURN(const Judgement judgement, options_.judge(lowered));
  // Tasks are counted of one device, so that a search is as long where links tell devices apart.
  const auto standing = std::count_if(lowered.stands_for.begin(), lowered.stands_for.end(),
                                      [](const std::vector<int>& devices) { return !devices.empty(); });
  return Judged{.candidate = {.plan = plan, .judgement = judgement, .fits = Fits(judgement)},
                .reduces_buckets = HasReducedBuckets(lowered.program),
                .loaded_bytes = LoadedBytes(lowered.program),
                .tasks = static_cast<int64_t>(lowered.program.tasks.size()) / standing};
}

double PlanJudge::PartSpent() const {
  return std::min(1.0, std::max(static_cast<double>(spent_judgements_) / options_.most_judgements,
                                static_cast<double>(spent_tasks_) / static_cast<double>(options_.most_tasks)));
}

}  // namespace colonnade::partition
