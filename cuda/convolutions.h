// Convolutions made ready on GPUs: an engine of cuDNN for each, chosen by cuDNN's ranking or by a search that times them.
//
// Part of the driver module. Thread rule: one host thread.
#ifndef COLONNADE_CUDA_CONVOLUTIONS_H_
#define COLONNADE_CUDA_CONVOLUTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/calls.h"
#include "cuda/convolution_graph.h"
#include "cuda/engine_choices.h"

namespace colonnade::cuda {

class Convolutions {
 public:
  // Seconds of one run of a plan on a GPU; an error if it cannot run.
  using Timer = std::function<absl::StatusOr<double>(int gpu, const ConvolutionPlan&, const Convolution&)>;

  // The next GPU, by number. GPUs of one name take the same engines.
  void AddGpu(std::string name, Descriptor properties) { gpus_.push_back({std::move(name), std::move(properties)}); }

  // From now on, engines that `choices` does not know are timed and the fastest is added to it.
  void Search(EngineChoices choices, Timer timer) { choices_ = std::move(choices), timer_ = std::move(timer); }

  // Calls::Prepare.
  absl::StatusOr<int64_t> Prepare(int gpu, Convolution& convolution);
  const ConvolutionPlan& plan(const Convolution& prepared) const { return plans_[prepared.plan]; }

 private:
  struct Gpu {
    std::string name;
    Descriptor properties;
  };

  absl::StatusOr<ConvolutionPlan> Choose(int gpu, const Convolution& convolution, const std::string& key);

  std::vector<Gpu> gpus_;
  std::optional<EngineChoices> choices_;
  Timer timer_;
  std::vector<ConvolutionPlan> plans_;
  std::map<std::pair<int, std::string>, int> plan_of_;  // by GPU and KeyOf
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_CONVOLUTIONS_H_
