#include "cli/training/evaluations.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cli/output/progress.h"

namespace colonnade::cli {
namespace {

double MetricOf(const engine::EvalReport& test, Target::Metric metric) {
  switch (metric) {
    case Target::Metric::kTop1:
      return test.top1();
    case Target::Metric::kTop5:
      return test.top5();
    case Target::Metric::kLoss:
      break;
  }
  return test.loss;
}

const char* MetricName(Target::Metric metric) {
  switch (metric) {
    case Target::Metric::kTop1:
      return "top1";
    case Target::Metric::kTop5:
      return "top5";
    case Target::Metric::kLoss:
      break;
  }
  return "loss";
}

std::string DescribeMetric(Target::Metric metric, double value) {
  if (metric == Target::Metric::kLoss) return absl::StrFormat("loss %.4f", value);
  return absl::StrFormat("%s %.2f %%", metric == Target::Metric::kTop1 ? "top-1" : "top-5", 100 * value);
}

}  // namespace

bool IsEvaluationDue(const EvaluationInterval& interval, const RunCourse& course, int64_t step) {
  if (interval.steps > 0) return step % interval.steps == 0;
  const auto intervals_after = [&](int64_t steps) { return course.SamplesAfter(steps) / course.samples / interval.epochs; };
  return intervals_after(step) > intervals_after(step - 1);
}

bool Reaches(const engine::EvalReport& test, const Target& target) {
  const double value = MetricOf(test, target.metric);
  return target.metric == Target::Metric::kLoss ? value <= target.value : value >= target.value;
}

std::string Describe(const engine::EvalReport& test, Target::Metric metric) {
  return DescribeMetric(metric, MetricOf(test, metric));
}

std::string Describe(const Target& target) { return DescribeMetric(target.metric, target.value); }

std::string Describe(const engine::EvalReport& test) {
  return absl::StrFormat("%s, %s, %s, %s", Describe(test, Target::Metric::kTop1), Describe(test, Target::Metric::kTop5),
                         Describe(test, Target::Metric::kLoss), base::Counted(test.count, "image"));
}

absl::StatusOr<engine::EvalReport> EvaluateAndShow(absl::string_view what, engine::Executor& executor,
                                                   engine::DataSource& samples, const std::atomic<bool>& stop) {
  CountProgress progress{std::string(what)};
  const auto show = [&](int64_t done) { progress.Show(done, samples.size(), " images"); };
  return engine::Evaluate(executor, samples, {.stop = &stop, .on_batch = show});
}

Evaluations::Evaluations(const RecordFlags& flags, const RunCourse& course, engine::Executor& executor,
                         engine::DataSource* test, const std::atomic<bool>& stop, RunLog& log)
    : interval_(ParseEvaluationInterval(flags.eval_every)),
      target_(ParseTarget(flags.until)),
      course_(course),
      executor_(executor),
      test_(test),
      stop_(stop),
      log_(log) {
  if (!interval_.has_value() && has_target()) interval_ = EvaluationInterval{.epochs = 1};
}

bool Evaluations::IsDue(int64_t steps_done) const {
  return interval_.has_value() && IsEvaluationDue(*interval_, course_, steps_done);
}

absl::Status Evaluations::Evaluate(int64_t steps_done) {
  if (test_ == nullptr || (!all_.empty() && all_.back().step == steps_done)) return absl::OkStatus();
  ASSIGN_OR_RETURN(engine::EvalReport test, EvaluateAndShow("testing:", executor_, *test_, stop_));
  if (stop_) return absl::OkStatus();
  all_.push_back(log_.AddEvaluation(steps_done, test));
  if (has_target() && !reached() && Reaches(test, *target_)) reached_ = all_.back();
  return absl::OkStatus();
}

std::string Evaluations::TargetText() const {
  const std::string target = Describe(*target_);
  if (reached()) {
    return absl::StrFormat("%s is reached: %s after %s, %.1f s", target, Describe(reached_->test, target_->metric),
                           base::Counted(reached_->step, "step"), reached_->seconds);
  }
  if (all_.empty()) return absl::StrCat(target, " is not reached: there was no test");
  const auto better = [&](const EvaluationRecord& a, const EvaluationRecord& b) {
    const double x = MetricOf(a.test, target_->metric), y = MetricOf(b.test, target_->metric);
    return target_->metric == Target::Metric::kLoss ? x < y : x > y;
  };
  const EvaluationRecord& best = *std::min_element(all_.begin(), all_.end(), better);
  return absl::StrFormat("%s is not reached: the best was %s after %s", target, Describe(best.test, target_->metric),
                         base::Counted(best.step, "step"));
}

nlohmann::ordered_json Evaluations::Json() const {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const EvaluationRecord& evaluation : all_) json.push_back(EvaluationJson(evaluation));
  return json;
}

nlohmann::ordered_json Evaluations::TargetJson() const {
  if (!has_target()) return nullptr;
  const nlohmann::ordered_json none;
  return {{"metric", MetricName(target_->metric)},
          {"target", target_->value},
          {"reached", reached()},
          {"value", reached() ? nlohmann::ordered_json(MetricOf(reached_->test, target_->metric)) : none},
          {"step", reached() ? nlohmann::ordered_json(reached_->step) : none},
          {"seconds", reached() ? nlohmann::ordered_json(reached_->seconds) : none}};
}

}  // namespace colonnade::cli
