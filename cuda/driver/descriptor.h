// Descriptors of cuDNN's backend: what owns one, and what sets the attributes of a new one.
//
// Part of the driver module. Thread rule: one host thread.
#ifndef COLONNADE_CUDA_DESCRIPTOR_H_
#define COLONNADE_CUDA_DESCRIPTOR_H_

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace colonnade::cuda {

// `status` with the call and cuDNN's own words for what was wrong.
absl::Status CheckCudnn(cudnnStatus_t status, const char* call);

// Owns a descriptor of cuDNN's backend.
struct DestroyDescriptor {
  void operator()(void* descriptor) const { cudnnBackendDestroyDescriptor(descriptor); }
};
using Descriptor = std::unique_ptr<void, DestroyDescriptor>;

using AttributeName = cudnnBackendAttributeName_t;

// cuDNN's word for the type of an attribute's values.
template <class T>
struct AttributeType;
#define COLONNADE_ATTRIBUTE_TYPE(type, name) \
  template <>                                \
  struct AttributeType<type> : std::integral_constant<cudnnBackendAttributeType_t, name> {}
COLONNADE_ATTRIBUTE_TYPE(bool, CUDNN_TYPE_BOOLEAN);
COLONNADE_ATTRIBUTE_TYPE(char, CUDNN_TYPE_CHAR);
COLONNADE_ATTRIBUTE_TYPE(float, CUDNN_TYPE_FLOAT);
COLONNADE_ATTRIBUTE_TYPE(int64_t, CUDNN_TYPE_INT64);
COLONNADE_ATTRIBUTE_TYPE(void*, CUDNN_TYPE_VOID_PTR);
COLONNADE_ATTRIBUTE_TYPE(cudnnHandle_t, CUDNN_TYPE_HANDLE);
COLONNADE_ATTRIBUTE_TYPE(cudnnDataType_t, CUDNN_TYPE_DATA_TYPE);
COLONNADE_ATTRIBUTE_TYPE(cudnnConvolutionMode_t, CUDNN_TYPE_CONVOLUTION_MODE);
COLONNADE_ATTRIBUTE_TYPE(cudnnPointwiseMode_t, CUDNN_TYPE_POINTWISE_MODE);
COLONNADE_ATTRIBUTE_TYPE(cudnnBackendHeurMode_t, CUDNN_TYPE_HEUR_MODE);
COLONNADE_ATTRIBUTE_TYPE(cudnnBackendKnobType_t, CUDNN_TYPE_KNOB_TYPE);
#undef COLONNADE_ATTRIBUTE_TYPE

// Sets attributes of a new descriptor; the first error stays, and Finish returns it.
class DescriptorBuilder {
 public:
  explicit DescriptorBuilder(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    status_ = CheckCudnn(cudnnBackendCreateDescriptor(type, &made), "cudnnBackendCreateDescriptor");
    descriptor_.reset(made);
  }
  template <class T>
  DescriptorBuilder& Set(AttributeName name, const T& value) {
    return Set(name, AttributeType<T>(), 1, &value);
  }
  template <class T>
  DescriptorBuilder& SetAll(AttributeName name, const T& values) {
    return Set(name, AttributeType<std::remove_cvref_t<decltype(*values.data())>>(), static_cast<int64_t>(values.size()),
               values.data());
  }
  DescriptorBuilder& Refer(AttributeName name, cudnnBackendDescriptor_t other) {
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other);
  }
  DescriptorBuilder& ReferToAll(AttributeName name, const std::vector<cudnnBackendDescriptor_t>& others) {
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(others.size()), others.data());
  }
  absl::StatusOr<Descriptor> Finish() {
    if (status_.ok()) status_ = CheckCudnn(cudnnBackendFinalize(descriptor_.get()), "cudnnBackendFinalize");
    if (!status_.ok()) return status_;
    return std::move(descriptor_);
  }
  // Owned by `parts` from now on; null after an error, which `status` keeps.
  cudnnBackendDescriptor_t FinishInto(std::vector<Descriptor>& parts, absl::Status& status) {
    absl::StatusOr<Descriptor> finished = Finish();
    if (!finished.ok()) {
      status.Update(finished.status());
      return nullptr;
    }
    parts.push_back(*std::move(finished));
    return parts.back().get();
  }

 private:
  DescriptorBuilder& Set(AttributeName name, cudnnBackendAttributeType_t type, int64_t count, const void* values) {
    if (!status_.ok()) return *this;
    status_ = CheckCudnn(cudnnBackendSetAttribute(descriptor_.get(), name, type, count, values), "cudnnBackendSetAttribute");
    return *this;
  }

  Descriptor descriptor_;
  absl::Status status_;
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_DESCRIPTOR_H_
