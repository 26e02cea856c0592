// Convolutions made ready on GPUs: an engine of cuDNN for each, chosen by cuDNN's ranking or by a search that times
// them.
//
// Part of the driver module. Thread rule: one host thread.
#ifndef COLONNADE_CUDA_CONVOLUTIONS_H_
#define COLONNADE_CUDA_CONVOLUTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/calls.h"
#include "cuda/driver/convolution_graph.h"
#include "cuda/engine_choices.h"

namespace colonnade::cuda {

class ConvolutionRunner {
 public:
  // Seconds of one run of a plan; it may end early where they are many times `least`. Errors: ResourceExhausted if there is
  // no memory for it now, Unimplemented if it does not run.
  using Timer = std::function<absl::StatusOr<double>(const ConvolutionPlan&, double least)>;
  // A timer of one convolution on a GPU. ResourceExhausted if there is no memory for its tensors now.
  using TimerMaker = std::function<absl::StatusOr<Timer>(int gpu, const Convolution&)>;

  // The next GPU, by number. GPUs of one name take the same engines, so that they compute the same bits.
  void AddGpu(DnnGpu gpu) { gpus_.push_back(std::make_unique<DnnGpu>(std::move(gpu))); }

  // From now on, engines that `choices` does not know are timed and the fastest is added to it.
  void Search(EngineChoices choices, TimerMaker make) { choices_ = std::move(choices), make_timer_ = std::move(make); }

  // Calls::Prepare.
  absl::StatusOr<int64_t> Prepare(int gpu, Convolution& convolution);
  // Runs on the stream of the GPU's handle. Only the first run of a call makes new objects.
  absl::Status Run(int gpu, const Convolution& prepared);

 private:
  using Chosen = std::pair<Engine, ConvolutionPlan>;
  absl::StatusOr<Chosen> Choose(int gpu, const Convolution& convolution, const std::string& key);
  absl::StatusOr<Chosen> First(int gpu, const std::string& key, const ConvolutionGraph& graph,
                               const std::vector<Engine>& engines) const;
  absl::StatusOr<Chosen> Fastest(int gpu, const Convolution& convolution, const std::string& key,
                                 const ConvolutionGraph& graph, const std::vector<Engine>& engines);

  std::vector<std::unique_ptr<DnnGpu>> gpus_;
  std::optional<EngineChoices> choices_;
  TimerMaker make_timer_;
  std::vector<ConvolutionPlan> plans_;
  std::map<std::pair<int, std::string>, int> plan_of_;               // by GPU and KeyOf
  std::map<std::pair<std::string, std::string>, Engine> engine_of_;  // by the GPU's name and KeyOf
  // The key is the plan and the addresses of x, filter, y, bias and workspace.
  std::map<std::tuple<int, void*, void*, void*, const void*, void*>, Descriptor> addresses_;
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_CONVOLUTIONS_H_
