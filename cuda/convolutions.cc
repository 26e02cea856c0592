#include "cuda/convolutions.h"

#include "absl/strings/str_cat.h"

namespace colonnade::cuda {
namespace {

// Of one convolution; engines that want more are left to others.
constexpr int64_t kMostWorkspace = int64_t{512} << 20;

}  // namespace

absl::StatusOr<int64_t> Convolutions::Prepare(int gpu, Convolution& convolution) {
  std::pair<int, std::string> key(gpu, KeyOf(convolution));
  auto it = plan_of_.find(key);
  if (it == plan_of_.end()) {
    absl::StatusOr<ConvolutionPlan> plan = Choose(gpu, convolution, key.second);
    if (!plan.ok()) return plan.status();
    plans_.push_back(*std::move(plan));
    it = plan_of_.emplace(std::move(key), static_cast<int>(plans_.size()) - 1).first;
  }
  convolution.plan = it->second;
  return plans_[it->second].workspace_bytes;
}

absl::StatusOr<ConvolutionPlan> Convolutions::Choose(int gpu, const Convolution& convolution, const std::string& key) {
  const auto& [name, properties] = gpus_[gpu];
  const int64_t version = static_cast<int64_t>(cudnnGetVersion());
  absl::StatusOr<ConvolutionGraph> graph = ConvolutionGraph::Make(convolution, properties);
  if (!graph.ok()) return graph.status();
  if (const Engine* known = choices_ ? choices_->Find(name, version, key) : nullptr; known != nullptr) {
    absl::StatusOr<ConvolutionPlan> plan = graph->Plan(*known);
    if (plan.ok()) return plan;
  }
  absl::StatusOr<std::vector<Engine>> engines = graph->Engines();
  if (!engines.ok()) return engines.status();
  std::optional<Engine> first;  // by cuDNN's ranking
  std::optional<ConvolutionPlan> fastest;
  Engine fastest_engine;
  double least = 0;
  for (const Engine& engine : *engines) {
    absl::StatusOr<ConvolutionPlan> plan = graph->Plan(engine);
    if (!plan.ok() || plan->workspace_bytes > kMostWorkspace) continue;
    if (!choices_) return plan;
    if (!first) first = engine;
    absl::StatusOr<double> seconds = timer_(gpu, *plan, convolution);
    if (!seconds.ok() || (fastest && *seconds >= least)) continue;
    fastest = *std::move(plan), fastest_engine = engine, least = *seconds;
  }
  if (!first) {
    return absl::UnimplementedError(
        absl::StrCat("cuDNN ", version, " has no engine on ", name, " for a convolution: ", key));
  }
  if (!fastest) return graph->Plan(*first);  // there is no memory to time any
  if (absl::Status s = choices_->Add(name, version, key, fastest_engine, least); !s.ok()) return s;
  return *std::move(fastest);
}

}  // namespace colonnade::cuda
