#include "cuda/driver/convolution_runner.h"

#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cuda/status.h"

namespace colonnade::cuda {
namespace {

// The most workspace of one convolution; engines that want more are passed over.
constexpr int64_t kMostWorkspace = int64_t{512} << 20;

// A search times the best so many of cuDNN's ranking, which lists an engine once for each of its settings, some 40 in all;
// of what comes after them each engine's best settings alone.
constexpr int kMostOfRanking = 8;

int64_t CudnnVersion() { return static_cast<int64_t>(cudnnGetVersion()); }

}  // namespace

absl::StatusOr<int64_t> ConvolutionRunner::Prepare(int gpu, Convolution& convolution) {
  addresses_.clear();  // of Programs that move, or are no more; the next run of others makes theirs anew
  std::pair<int, std::string> key(gpu, KeyOf(convolution));
  auto it = plan_of_.find(key);
  if (it == plan_of_.end()) {
    ASSIGN_OR_RETURN(auto chosen, Choose(gpu, convolution, key.second));
    engine_of_[{gpus_[gpu]->name, key.second}] = chosen.first;
    plans_.push_back(std::move(chosen.second));
    it = plan_of_.emplace(std::move(key), static_cast<int>(plans_.size()) - 1).first;
  }
  convolution.plan = it->second;
  return plans_[it->second].workspace_bytes;
}

absl::StatusOr<ConvolutionRunner::Chosen> ConvolutionRunner::Choose(int gpu, const Convolution& convolution,
                                                                    const std::string& key) {
  const std::string& name = gpus_[gpu]->name;
  ASSIGN_OR_RETURN(ConvolutionGraph graph, ConvolutionGraph::Make(convolution, *gpus_[gpu]));
  const auto of_name = engine_of_.find({name, key});
  const Engine* known = of_name != engine_of_.end() ? &of_name->second
                        : choices_                  ? choices_->Find(name, CudnnVersion(), key)
                                                    : nullptr;
  if (known != nullptr) {
    absl::StatusOr<ConvolutionPlan> plan = graph.Plan(*known);
    if (plan.ok()) return Chosen(*known, *std::move(plan));
  }
  ASSIGN_OR_RETURN(std::vector<Engine> engines, graph.Engines());
  return choices_ ? Fastest(gpu, convolution, key, graph, engines) : First(gpu, key, graph, engines);
}

// The first that serves.
absl::StatusOr<ConvolutionRunner::Chosen> ConvolutionRunner::First(int gpu, const std::string& key,
                                                                   const ConvolutionGraph& graph,
                                                                   const std::vector<Engine>& engines) const {
  absl::Status refused;
  for (const Engine& engine : engines) {
    absl::StatusOr<ConvolutionPlan> plan = graph.Plan(engine);
    refused.Update(plan.status());
    if (plan.ok() && plan->workspace_bytes <= kMostWorkspace) return Chosen(engine, *std::move(plan));
  }
  return absl::UnimplementedError(absl::StrCat("cuDNN ", CudnnVersion(), " has no engine on ", gpus_[gpu]->name,
                                               " for a convolution: ", key, refused.ok() ? "" : "; ", refused.message()));
}

absl::StatusOr<ConvolutionRunner::Chosen> ConvolutionRunner::Fastest(int gpu, const Convolution& convolution,
                                                                     const std::string& key, const ConvolutionGraph& graph,
                                                                     const std::vector<Engine>& engines) {
  const absl::StatusOr<Timer> timer = make_timer_(gpu, convolution);
  if (absl::IsResourceExhausted(timer.status())) return First(gpu, key, graph, engines);
  if (!timer.ok()) return WithContext(timer.status(), absl::StrCat("a timer for ", key));
  std::optional<Chosen> fastest;
  double least = std::numeric_limits<double>::infinity();
  bool had_memory = true;
  int timed = 0;
  std::set<int64_t> timed_engines;
  for (const Engine& engine : engines) {
    if (timed >= kMostOfRanking && timed_engines.contains(engine.index)) continue;
    absl::StatusOr<ConvolutionPlan> plan = graph.Plan(engine);
    if (!plan.ok() || plan->workspace_bytes > kMostWorkspace) continue;
    const absl::StatusOr<double> seconds = (*timer)(*plan, least);
    had_memory = had_memory && !absl::IsResourceExhausted(seconds.status());
    if (absl::IsResourceExhausted(seconds.status()) || absl::IsUnimplemented(seconds.status())) continue;
    if (!seconds.ok()) {
      return WithContext(seconds.status(), absl::StrCat("engine ", engine.index, " of cuDNN, timed for ", key));
    }
    ++timed, timed_engines.insert(engine.index);
    if (*seconds < least) fastest.emplace(engine, *std::move(plan)), least = *seconds;
  }
  if (!fastest) return First(gpu, key, graph, engines);
  // A choice among those alone that want little memory is none to keep.
  if (had_memory) RETURN_IF_ERROR(choices_->Add(gpus_[gpu]->name, CudnnVersion(), key, fastest->first, least));
  return *std::move(fastest);
}

absl::Status ConvolutionRunner::Run(int gpu, const Convolution& c) {
  Descriptor& addresses = addresses_[{c.plan, c.x, c.filter, c.y, c.bias, c.workspace}];
  if (addresses == nullptr) {
    ASSIGN_OR_RETURN(addresses, AddressesOf(c));
  }
  return Execute(gpus_[gpu]->handle, plans_[c.plan], addresses);
}

}  // namespace colonnade::cuda
