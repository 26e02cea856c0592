#include "cuda/driver/convolution_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cuda/driver/convolution_graph_builder.h"

namespace colonnade::cuda {
namespace {

#define COLONNADE_CHECK_CUDNN(call)           \
  do {                                        \
    RETURN_IF_ERROR(CheckCudnn(call, #call)); \
  } while (false)

// An engine of weight gradients that no note describes: of integers whose sums are exact in f32 it gives others, off by 1e-6
// to 6e-6 of the largest, in 62 of 62 convolutions (cuDNN 9.19 on an H200), as Winograd's algorithm does.
constexpr int64_t kSilentWinograd = 17;

constexpr int64_t kMostConfigs = 256;  // of one ranking

// Descriptors that `of` refers to, at most `most`, as new ones of `type`. cuDNN is not asked how many there are: of an
// engine's knobs it says none.
absl::StatusOr<std::vector<Descriptor>> Referred(cudnnBackendDescriptor_t of, AttributeName name,
                                                 cudnnBackendDescriptorType_t type, int64_t most) {
  std::vector<Descriptor> descriptors;
  std::vector<cudnnBackendDescriptor_t> bare;
  for (int64_t i = 0; i < most; ++i) {
    cudnnBackendDescriptor_t made = nullptr;
    COLONNADE_CHECK_CUDNN(cudnnBackendCreateDescriptor(type, &made));
    descriptors.emplace_back(made);
    bare.push_back(made);
  }
  int64_t count = 0;
  COLONNADE_CHECK_CUDNN(cudnnBackendGetAttribute(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count, bare.data()));
  descriptors.resize(std::min(count, most));
  return descriptors;
}

template <class T>
absl::StatusOr<T> Attribute(cudnnBackendDescriptor_t of, AttributeName name) {
  T value{};
  int64_t count = 0;
  COLONNADE_CHECK_CUDNN(cudnnBackendGetAttribute(of, name, AttributeType<T>(), 1, &count, &value));
  return value;
}

absl::StatusOr<Engine> EngineOf(cudnnBackendDescriptor_t config, cudnnBackendDescriptor_t engine) {
  Engine result;
  ASSIGN_OR_RETURN(int64_t index, Attribute<int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  result.index = index;
  ASSIGN_OR_RETURN(std::vector<Descriptor> knobs, Referred(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                           CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS));
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
  COLONNADE_CHECK_CUDNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                                 static_cast<int64_t>(notes.size()), &count, notes.data()));
  notes.resize(count);
  return notes;
}

}  // namespace

absl::StatusOr<Descriptor> PropertiesFromJson(absl::string_view json) {
  return DescriptorBuilder(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
      .SetAll(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json)
      .Finish();
}

absl::StatusOr<ConvolutionGraph> ConvolutionGraph::Make(const Convolution& convolution, const DnnGpu& gpu) {
  ConvolutionGraph graph(gpu);
  graph.full_precision_ = convolution.dtype == program::DType::kF32 && convolution.precision == Precision::kF32;
  graph.deterministic_ = convolution.deterministic;
  graph.direction_ = convolution.direction;
  ConvolutionGraphBuilder builder(convolution, gpu.handle, *graph.parts_);
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

bool ConvolutionGraph::IsInexact(const Engine& engine) const {
  return full_precision_ && direction_ == Convolution::Direction::kBackwardWeights && engine.index == kSilentWinograd;
}

absl::Status ConvolutionGraph::AddEngines(cudnnBackendHeurMode_t mode, std::vector<Engine>& engines) const {
  DescriptorBuilder builder(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  builder.Refer(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, parts_->back().get()).Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (gpu_->handle == nullptr) builder.Refer(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, gpu_->properties.get());
  ASSIGN_OR_RETURN(Descriptor heuristics, builder.Finish());
  ASSIGN_OR_RETURN(std::vector<Descriptor> configs, Referred(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                             CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMostConfigs));
  for (const Descriptor& config : configs) {
    ASSIGN_OR_RETURN(std::vector<Descriptor> engine,
                     Referred(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1));
    if (engine.empty()) continue;
    ASSIGN_OR_RETURN(std::vector<cudnnBackendNumericalNote_t> notes, NotesOf(engine.front().get()));
    if (!Serves(notes)) continue;
    ASSIGN_OR_RETURN(Engine found, EngineOf(config.get(), engine.front().get()));
    if (IsInexact(found)) continue;
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
  if (IsInexact(engine)) return absl::UnimplementedError(absl::StrCat("engine ", engine.index, " is not exact in f32"));
  ConvolutionPlan plan{.graph = parts_, .engine = std::make_shared<std::vector<Descriptor>>(), .plan = nullptr};
  absl::Status status;
  std::vector<cudnnBackendDescriptor_t> knobs;
  for (const auto& [type, value] : engine.knobs) {
    knobs.push_back(DescriptorBuilder(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
                        .Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type))
                        .Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value)
                        .FinishInto(*plan.engine, status));
  }
  DescriptorBuilder chooser(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  chooser.Refer(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, parts_->back().get()).Set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, engine.index);
  if (gpu_->handle == nullptr) chooser.Refer(CUDNN_ATTR_ENGINE_DEVICEPROP, gpu_->properties.get());
  const auto chosen = chooser.FinishInto(*plan.engine, status);
  if (!status.ok()) return status;
  DescriptorBuilder config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.Refer(CUDNN_ATTR_ENGINECFG_ENGINE, chosen);
  if (!knobs.empty()) config.ReferToAll(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs);
  const auto configured = config.FinishInto(*plan.engine, status);
  if (!status.ok()) return status;
  DescriptorBuilder planner(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
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
  return DescriptorBuilder(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
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
