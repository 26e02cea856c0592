// Describes a convolution, or one of its gradients, as a graph of cuDNN.
//
// Part of the driver module. Thread rule: one host thread.
#ifndef COLONNADE_CUDA_CONVOLUTION_GRAPH_BUILDER_H_
#define COLONNADE_CUDA_CONVOLUTION_GRAPH_BUILDER_H_

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "cuda/calls.h"
#include "cuda/driver/descriptor.h"
#include "cuda/engine_choices.h"

namespace colonnade::cuda {

// cuDNN's names of tensors, in the order in which AddressesOf gives their addresses.
enum GraphTensor : int64_t { kX = 1, kFilter, kY, kBias, kProduct, kSum };

// Tensors are dense and channels-last. What is made belongs to `parts`.
class ConvolutionGraphBuilder {
 public:
  ConvolutionGraphBuilder(const Convolution& convolution, cudnnHandle_t handle, std::vector<Descriptor>& parts)
      : c_(convolution), handle_(handle), alignment_(AlignmentOf(convolution)), parts_(parts) {}

  // The convolution in its direction, with its bias and ReLU, if it has them.
  void AddConvolution();
  // Makes the graph, the last of the parts. The first error of all that was added.
  absl::Status Finish();

 private:
  using Shape4 = std::array<int64_t, 4>;

  Shape4 ShapeOf(GraphTensor name) const;  // of kX, kFilter, kY
  cudnnBackendDescriptor_t Add(DescriptorBuilder& builder) { return builder.FinishInto(parts_, status_); }

  // kProduct and kSum are never stored, and not rounded.
  cudnnBackendDescriptor_t AddTensor(GraphTensor name, const Shape4& shape);
  // What is done with the convolution's result before it is rounded and stored: nothing, where it is not of its factors'
  // type, which cuDNN gives to results of point-by-point operations alone.
  void AddRest(cudnnBackendDescriptor_t product);
  void AddPointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                    cudnnBackendDescriptor_t y);

  const Convolution& c_;
  cudnnHandle_t handle_;
  int64_t alignment_;
  std::vector<Descriptor>& parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  absl::Status status_;
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_CONVOLUTION_GRAPH_BUILDER_H_
