// Passes of convolutions as graphs of cuDNN: the engines that can compute one, and plans that do.
//
// cuDNN is asked about a GPU by its properties alone, so that choices are made, and tested, on machines without that GPU;
// only Execute needs it. Part of the driver module. Thread rule: one host thread.
#ifndef COLONNADE_CUDA_CONVOLUTION_GRAPH_H_
#define COLONNADE_CUDA_CONVOLUTION_GRAPH_H_

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cuda/calls.h"
#include "cuda/engine_choices.h"

namespace colonnade::cuda {

// `status` with the call and cuDNN's own words for what was wrong.
absl::Status CheckCudnn(cudnnStatus_t status, const char* call);

// Owns a descriptor of cuDNN's backend.
struct DestroyDescriptor {
  void operator()(void* descriptor) const { cudnnBackendDestroyDescriptor(descriptor); }
};
using Descriptor = std::unique_ptr<void, DestroyDescriptor>;

// What cuDNN wants to know about a GPU: of the one that a handle is for, and from cuDNN's own JSON.
absl::StatusOr<Descriptor> PropertiesOf(cudnnHandle_t handle);
absl::StatusOr<Descriptor> PropertiesFromJson(absl::string_view json);

using Parts = std::shared_ptr<std::vector<Descriptor>>;  // what other descriptors refer to

struct ConvolutionPlan {
  Parts graph, engine;
  Descriptor plan;
  int64_t workspace_bytes = 0;
};

class ConvolutionGraph {
 public:
  // Of all of `convolution` but its addresses, which are taken to be aligned alike in every run. `properties` must outlive
  // the graph. Unimplemented where cuDNN does not know such a graph.
  static absl::StatusOr<ConvolutionGraph> Make(const Convolution& convolution, const Descriptor& properties);

  // Engines that compute it as it asks: products in f32 are exact or, in tf32, rounded as tensor cores do; sums are f32;
  // none works in another domain (FFT, Winograd), where integers would not stay exact; all of them deterministic where that
  // is asked for. By cuDNN's ranking, quickest first.
  absl::StatusOr<std::vector<Engine>> Engines() const;

  // Unimplemented where the engine does not fit this convolution after all.
  absl::StatusOr<ConvolutionPlan> Plan(const Engine& engine) const;

 private:
  explicit ConvolutionGraph(const Descriptor& properties) : properties_(properties.get()) {}

  bool Serves(const std::vector<cudnnBackendNumericalNote_t>& notes) const;

  cudnnBackendDescriptor_t properties_;
  bool full_precision_ = false, deterministic_ = false;
  Parts parts_ = std::make_shared<std::vector<Descriptor>>();  // tensors, operations, and the graph, which is the last
};

// On the stream of `handle`, which is for a GPU as the plan's.
absl::Status Execute(cudnnHandle_t handle, const ConvolutionPlan& plan, const Convolution& convolution);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_CONVOLUTION_GRAPH_H_
