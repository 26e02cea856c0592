#include "cuda/driver/convolution_graph.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/status.h"
#include "program/status_macros.h"

namespace colonnade::cuda {
namespace {

using AttributeName = cudnnBackendAttributeName_t;
using Shape4 = std::array<int64_t, 4>;

#define COLONNADE_CHECK(call)                 \
  do {                                        \
    RETURN_IF_ERROR(CheckCudnn(call, #call)); \
  } while (false)

// cuDNN's names of tensors, in the order in which Execute gives their addresses.
enum Tensor : int64_t { kX = 1, kFilter, kY, kBias, kProduct, kSum };

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
class Builder {
 public:
  explicit Builder(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    status_ = CheckCudnn(cudnnBackendCreateDescriptor(type, &made), "cudnnBackendCreateDescriptor");
    descriptor_.reset(made);
  }
  template <class T>
  Builder& Set(AttributeName name, const T& value) {
    return Set(name, AttributeType<T>(), 1, &value);
  }
  template <class T>
  Builder& SetAll(AttributeName name, const T& values) {
    return Set(name, AttributeType<std::remove_cvref_t<decltype(*values.data())>>(), static_cast<int64_t>(values.size()),
               values.data());
  }
  Builder& Refer(AttributeName name, cudnnBackendDescriptor_t other) {
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other);
  }
  Builder& ReferToAll(AttributeName name, const std::vector<cudnnBackendDescriptor_t>& others) {
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
  Builder& Set(AttributeName name, cudnnBackendAttributeType_t type, int64_t count, const void* values) {
    if (!status_.ok()) return *this;
    status_ = CheckCudnn(cudnnBackendSetAttribute(descriptor_.get(), name, type, count, values), "cudnnBackendSetAttribute");
    return *this;
  }

  Descriptor descriptor_;
  absl::Status status_;
};

// Descriptors that `of` refers to, as new ones of `type`.
absl::StatusOr<std::vector<Descriptor>> Referred(cudnnBackendDescriptor_t of, AttributeName name,
                                                 cudnnBackendDescriptorType_t type) {
  int64_t count = 0;
  COLONNADE_CHECK(cudnnBackendGetAttribute(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<Descriptor> descriptors;
  std::vector<cudnnBackendDescriptor_t> bare;
  for (int64_t i = 0; i < count; ++i) {
    cudnnBackendDescriptor_t made = nullptr;
    COLONNADE_CHECK(cudnnBackendCreateDescriptor(type, &made));
    descriptors.emplace_back(made);
    bare.push_back(made);
  }
  if (count > 0) {
    COLONNADE_CHECK(cudnnBackendGetAttribute(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, bare.data()));
    descriptors.resize(count);
  }
  return descriptors;
}

template <class T>
absl::StatusOr<T> Attribute(cudnnBackendDescriptor_t of, AttributeName name) {
  T value{};
  int64_t count = 0;
  COLONNADE_CHECK(cudnnBackendGetAttribute(of, name, AttributeType<T>(), 1, &count, &value));
  return value;
}

// cuDNN refuses those that it has no convolutions of.
cudnnDataType_t TypeOf(program::DType dtype) {
  switch (dtype) {
    case program::DType::kF32:
      return CUDNN_DATA_FLOAT;
    case program::DType::kF64:
      return CUDNN_DATA_DOUBLE;
    case program::DType::kI32:
      return CUDNN_DATA_INT32;
    case program::DType::kU8:
      return CUDNN_DATA_UINT8;
    case program::DType::kBF16:
      return CUDNN_DATA_BFLOAT16;
  }
  return CUDNN_DATA_FLOAT;
}

// cuDNN's words for a pass and its operands.
struct PassNames {
  cudnnBackendDescriptorType_t operation;
  AttributeName x, filter, y, convolution, alpha, beta;
};
PassNames NamesOf(Convolution::Pass pass) {
  switch (pass) {
    case Convolution::Pass::kForward:
      break;
    case Convolution::Pass::kBackwardData:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Convolution::Pass::kBackwardWeights:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

// What one graph is put together from; dense and channels-last.
class GraphBuilder {
 public:
  GraphBuilder(const Convolution& convolution, cudnnHandle_t handle, std::vector<Descriptor>& parts)
      : c_(convolution), handle_(handle), alignment_(AlignmentOf(convolution)), parts_(parts) {}

  void AddConvolution() {
    const bool fuses = c_.bias != nullptr || c_.relu;
    const auto x = AddTensor(kX, {c_.n, c_.c, c_.h, c_.w});
    const auto filter = AddTensor(kFilter, {c_.k, c_.c / c_.groups, c_.window.size_h, c_.window.size_w});
    const auto product = AddTensor(fuses ? kProduct : kY, Y());
    const std::array<int64_t, 2> pads = {c_.window.pad_h, c_.window.pad_w};
    const auto convolution = Add(
        Builder(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
            .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
            .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
            .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
            .SetAll(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::array<int64_t, 2>{1, 1})
            .SetAll(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::array<int64_t, 2>{c_.window.stride_h, c_.window.stride_w})
            .SetAll(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pads)
            .SetAll(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pads));
    const PassNames names = NamesOf(c_.pass);
    operations_.push_back(Add(Builder(names.operation)
                                  .Refer(names.x, x)
                                  .Refer(names.filter, filter)
                                  .Refer(names.y, product)
                                  .Refer(names.convolution, convolution)
                                  .Set(names.alpha, 1.0f)
                                  .Set(names.beta, 0.0f)));
    if (!fuses) return;
    cudnnBackendDescriptor_t last = product;
    if (c_.bias != nullptr) {
      const auto bias = AddTensor(kBias, {1, c_.k, 1, 1});
      const auto sum = AddTensor(c_.relu ? kSum : kY, Y());
      AddPointwise(Builder(CUDNN_BACKEND_POINTWISE_DESCRIPTOR).Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD), last,
                   bias, sum);
      last = sum;
    }
    // max(NaN, 0) is 0, as in program/math.h.
    if (c_.relu) {
      AddPointwise(Builder(CUDNN_BACKEND_POINTWISE_DESCRIPTOR).Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_RELU_FWD),
                   last, nullptr, AddTensor(kY, Y()));
    }
  }

  absl::Status Finish() {
    Builder graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (handle_ != nullptr) graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle_);
    Add(graph.ReferToAll(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_));
    return status_;
  }

 private:
  Shape4 Y() const { return {c_.n, c_.k, c_.p, c_.q}; }

  cudnnBackendDescriptor_t Add(Builder& builder) { return builder.FinishInto(parts_, status_); }

  // kProduct and kSum are never stored, and not rounded.
  cudnnBackendDescriptor_t AddTensor(Tensor name, const Shape4& shape) {
    const bool is_virtual = name == kProduct || name == kSum;
    const auto& [n, c, h, w] = shape;
    return Add(Builder(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
                   .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t{name})
                   .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, is_virtual ? CUDNN_DATA_FLOAT : TypeOf(c_.dtype))
                   .SetAll(CUDNN_ATTR_TENSOR_DIMENSIONS, shape)
                   .SetAll(CUDNN_ATTR_TENSOR_STRIDES, Shape4{h * w * c, 1, w * c, c})
                   .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment_)
                   .Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual));
  }

  void AddPointwise(Builder& mode, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y) {
    const auto what = Add(mode.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT));
    Builder operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.Refer(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what)
        .Refer(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
        .Refer(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    if (b != nullptr) operation.Refer(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    operations_.push_back(Add(operation));
  }

  const Convolution& c_;
  cudnnHandle_t handle_;
  int64_t alignment_;
  std::vector<Descriptor>& parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  absl::Status status_;
};

absl::StatusOr<Engine> EngineOf(cudnnBackendDescriptor_t config, cudnnBackendDescriptor_t engine) {
  Engine result;
  ASSIGN_OR_RETURN(int64_t index, Attribute<int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  result.index = index;
  ASSIGN_OR_RETURN(std::vector<Descriptor> knobs,
                   Referred(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
  for (const Descriptor& knob : knobs) {
    const auto type = Attribute<cudnnBackendKnobType_t>(knob.get(), CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
    const auto value = Attribute<int64_t>(knob.get(), CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
    if (!type.ok()) return type.status();
    if (!value.ok()) return value.status();
    result.knobs.emplace_back(*type, *value);
  }
  return result;
}

absl::StatusOr<std::vector<cudnnBackendNumericalNote_t>> NotesOf(cudnnBackendDescriptor_t engine) {
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  int64_t count = 0;
  COLONNADE_CHECK(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                           static_cast<int64_t>(notes.size()), &count, notes.data()));
  notes.resize(count);
  return notes;
}

}  // namespace

absl::Status CheckCudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  std::array<char, 512> words = {};
  cudnnGetLastErrorString(words.data(), words.size());
  return StatusOf(FailureOfCudnn(status), call, absl::StrCat(cudnnGetErrorString(status), " ", words.data()));
}

absl::StatusOr<Descriptor> PropertiesFromJson(absl::string_view json) {
  return Builder(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR).SetAll(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json).Finish();
}

absl::StatusOr<ConvolutionGraph> ConvolutionGraph::Make(const Convolution& convolution, const DnnGpu& gpu) {
  ConvolutionGraph graph(gpu);
  graph.full_precision_ = convolution.dtype == program::DType::kF32 && convolution.precision == Precision::kF32;
  graph.deterministic_ = convolution.deterministic;
  GraphBuilder builder(convolution, gpu.handle, *graph.parts_);
  builder.AddConvolution();
  RETURN_IF_ERROR(builder.Finish());
  return graph;
}

bool ConvolutionGraph::Serves(const std::vector<cudnnBackendNumericalNote_t>& notes) const {
  return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return full_precision_;
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        return deterministic_;
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
        return false;
      default:
        return true;
    }
  });
}

absl::Status ConvolutionGraph::AddEngines(cudnnBackendHeurMode_t mode, std::vector<Engine>& engines) const {
  Builder builder(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  builder.Refer(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, parts_->back().get()).Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (gpu_->handle == nullptr) builder.Refer(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, gpu_->properties.get());
  ASSIGN_OR_RETURN(Descriptor heuristics, builder.Finish());
  ASSIGN_OR_RETURN(std::vector<Descriptor> configs,
                   Referred(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  for (const Descriptor& config : configs) {
    ASSIGN_OR_RETURN(std::vector<Descriptor> engine,
                     Referred(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
    if (engine.empty()) continue;
    ASSIGN_OR_RETURN(std::vector<cudnnBackendNumericalNote_t> notes, NotesOf(engine.front().get()));
    if (!Serves(notes)) continue;
    ASSIGN_OR_RETURN(Engine found, EngineOf(config.get(), engine.front().get()));
    if (std::find(engines.begin(), engines.end(), found) == engines.end()) engines.push_back(std::move(found));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Engine>> ConvolutionGraph::Engines() const {
  std::vector<Engine> engines;
  absl::Status status = AddEngines(CUDNN_HEUR_MODE_A, engines);
  status.Update(AddEngines(CUDNN_HEUR_MODE_FALLBACK, engines));
  // A mode that knows nothing of the graph may say so by an error.
  if (engines.empty() && !status.ok() && !absl::IsUnimplemented(status)) return status;
  return engines;
}

absl::StatusOr<ConvolutionPlan> ConvolutionGraph::Plan(const Engine& engine) const {
  ConvolutionPlan plan{.graph = parts_, .engine = std::make_shared<std::vector<Descriptor>>(), .plan = nullptr};
  absl::Status status;
  std::vector<cudnnBackendDescriptor_t> knobs;
  for (const auto& [type, value] : engine.knobs) {
    knobs.push_back(Builder(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
                        .Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type))
                        .Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value)
                        .FinishInto(*plan.engine, status));
  }
  Builder chooser(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  chooser.Refer(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, parts_->back().get()).Set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, engine.index);
  if (gpu_->handle == nullptr) chooser.Refer(CUDNN_ATTR_ENGINE_DEVICEPROP, gpu_->properties.get());
  const auto chosen = chooser.FinishInto(*plan.engine, status);
  if (!status.ok()) return status;
  Builder config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.Refer(CUDNN_ATTR_ENGINECFG_ENGINE, chosen);
  if (!knobs.empty()) config.ReferToAll(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs);
  const auto configured = config.FinishInto(*plan.engine, status);
  if (!status.ok()) return status;
  Builder planner(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  planner.Refer(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configured);
  if (gpu_->handle != nullptr) {
    planner.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, gpu_->handle);
  } else {
    planner.Refer(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, gpu_->properties.get());
  }
  ASSIGN_OR_RETURN(plan.plan, planner.Finish());
  ASSIGN_OR_RETURN(int64_t bytes, Attribute<int64_t>(plan.plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  plan.workspace_bytes = bytes;
  return plan;
}

absl::StatusOr<Descriptor> AddressesOf(const Convolution& c) {
  std::vector<int64_t> names = {kX, kFilter, kY};
  std::vector<void*> addresses = {c.x, c.filter, c.y};
  if (c.bias != nullptr) {
    names.push_back(kBias);
    addresses.push_back(const_cast<void*>(c.bias));
  }
  return Builder(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
      .SetAll(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, names)
      .SetAll(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses)
      .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, c.workspace)
      .Finish();
}

absl::Status Execute(cudnnHandle_t handle, const ConvolutionPlan& plan, const Descriptor& addresses) {
  return CheckCudnn(cudnnBackendExecute(handle, plan.plan.get(), addresses.get()), "cudnnBackendExecute");
}

#undef COLONNADE_CHECK

}  // namespace colonnade::cuda
