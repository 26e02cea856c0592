// Passes of convolutions as graphs of cuDNN: the engines that can compute one, and plans that do.
//
// cuDNN knows a GPU by a handle where it is at hand, else by its properties: so choices can be tested on machines without
// that GPU. Part of the driver module. Thread rule: one host thread.
#ifndef COLONNADE_CUDA_CONVOLUTION_GRAPH_H_
#define COLONNADE_CUDA_CONVOLUTION_GRAPH_H_

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cuda/calls.h"
#include "cuda/driver/descriptor.h"
#include "cuda/engine_choices.h"

namespace colonnade::cuda {

struct DnnGpu {
  std::string name;
  cudnnHandle_t handle = nullptr;   // null: it is not at hand
  Descriptor properties = nullptr;  // then
};
// From cuDNN's own JSON.
absl::StatusOr<Descriptor> PropertiesFromJson(absl::string_view json);

using Parts = std::shared_ptr<std::vector<Descriptor>>;  // what other descriptors refer to

struct ConvolutionPlan {
  Parts graph, engine;
  Descriptor plan;
  int64_t workspace_bytes = 0;
};

class ConvolutionGraph {
 public:
  // Describes all of `convolution` but its addresses, which must be aligned alike in every run. `gpu` must outlive the
  // graph. Unimplemented where cuDNN does not know such a graph.
  static absl::StatusOr<ConvolutionGraph> Make(const Convolution& convolution, const DnnGpu& gpu);

  // Returns the engines that compute it as asked, quickest first by cuDNN's ranking: products in f32 are exact or, in tf32,
  // rounded as tensor cores do; sums are f32; none works in another domain (FFT, Winograd), where integers would not stay
  // exact; all of them deterministic where that is asked for.
  absl::StatusOr<std::vector<Engine>> Engines() const;

  // Returns the plan of an engine; an error where it does not fit this convolution after all.
  absl::StatusOr<ConvolutionPlan> Plan(const Engine& engine) const;

 private:
  explicit ConvolutionGraph(const DnnGpu& gpu) : gpu_(&gpu) {}

  absl::Status AddEngines(cudnnBackendHeurMode_t mode, std::vector<Engine>& engines) const;
  bool Serves(const std::vector<cudnnBackendNumericalNote_t>& notes) const;
  bool IsInexact(const Engine& engine) const;  // though no note says so

  const DnnGpu* gpu_;
  Convolution::Direction direction_ = Convolution::Direction::kForward;
  bool full_precision_ = false, deterministic_ = false;
  Parts parts_ = std::make_shared<std::vector<Descriptor>>();  // tensors, operations, and the graph, which is the last
};

// Returns the addresses of `convolution`, for any number of runs.
absl::StatusOr<Descriptor> AddressesOf(const Convolution& convolution);
// Runs on the stream of `handle`, which belongs to a GPU of the plan's kind.
absl::Status Execute(cudnnHandle_t handle, const ConvolutionPlan& plan, const Descriptor& addresses);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_CONVOLUTION_GRAPH_H_
