#include "engine/state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "engine/box_runs.h"
#include "program/formulas/philox.h"
#include "program/stream_id.h"
#include "program/visit_dtype.h"

namespace colonnade::engine {
namespace {

using program::Parameter;
using program::Piece;
using program::Program;
using program::Region;

double InitialValue(const program::Initializer& initializer, uint64_t seed, uint32_t stream, int64_t index) {
  constexpr auto kPurpose = program::RandomPurpose::kInitialWeights;
  const auto element = static_cast<uint64_t>(index);
  switch (initializer.kind) {
    case program::Initializer::Kind::kConstant:
      return initializer.value;
    case program::Initializer::Kind::kGaussian:
      return initializer.value * program::Gaussian(seed, kPurpose, stream, 0, element);
    case program::Initializer::Kind::kUniform: {
      const program::Philox4 r = program::RandomBlock(seed, kPurpose, stream, 0, element);
      return initializer.value * (2 * program::UniformDouble(r.v[0], r.v[1]) - 1);
    }
  }
  return 0;
}

bool Has(const Parameter& parameter, StateKind kind) { return !parameter.pieces(kind).empty(); }

absl::Status WritePieces(const Parameter& parameter, LoadedProgram& loaded, StateKind kind,
                         absl::Span<const double> values) {
  std::vector<double> local;
  for (const Piece& piece : parameter.pieces(kind)) {
    local.resize(piece.region.elements());
    ForEachElement(parameter.shape, piece.region, [&](int64_t g, int64_t l) { local[l] = values[g]; });
    RETURN_IF_ERROR(loaded.Write(piece.buffer, local));
  }
  return absl::OkStatus();
}

// "no such tensor", and the nearest of those that are of no parameter.
template <class Tensor>
std::string NoSuchTensor(const Program& program, const std::string& name, absl::Span<const Tensor> tensors) {
  absl::flat_hash_set<absl::string_view> parameters;
  for (const Parameter& parameter : program.parameters) parameters.insert(parameter.name);
  std::vector<std::string> others;
  for (const Tensor& tensor : tensors) {
    if (!parameters.contains(tensor.name)) others.push_back(tensor.name);
  }
  // "module.conv1.weight" of a wrapper, which is far from "conv1.weight" by letters.
  const auto prefixed = std::find_if(others.begin(), others.end(),
                                     [&](const std::string& other) { return absl::EndsWith(other, "." + name); });
  const std::string nearest = prefixed != others.end() ? *prefixed : base::NearestName(name, others);
  return nearest.empty() ? "no such tensor" : absl::StrFormat("no such tensor; the nearest name is \"%s\"", nearest);
}

// Of each of the Program's parameters its tensor of `tensors`; null where it has no such state, or is of one of
// `new_layers`.
template <class Tensor>
absl::StatusOr<std::vector<const Tensor*>> Match(const Program& program, StateKind kind, absl::Span<const Tensor> tensors,
                                                 const std::set<std::string>& new_layers = {}) {
  absl::flat_hash_map<absl::string_view, const Tensor*> by_name;
  for (const Tensor& tensor : tensors) {
    if (by_name.try_emplace(tensor.name, &tensor).second) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("tensor \"%s\": expected one of that name, found several; leave out all but one", tensor.name));
  }
  std::vector<const Tensor*> matched;
  for (const Parameter& parameter : program.parameters) {
    matched.push_back(nullptr);
    if (!Has(parameter, kind)) continue;
    const auto found = by_name.find(parameter.name);
    if (new_layers.contains(parameter.layer)) {
      if (found != by_name.end()) by_name.erase(found);
      continue;
    }
    if (found == by_name.end() || found->second->shape != parameter.shape) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tensor \"%s\": expected shape %s, found %s", parameter.name, program::ToString(parameter.shape),
                          found == by_name.end() ? NoSuchTensor(program, parameter.name, tensors)
                                                 : program::ToString(found->second->shape)));
    }
    matched.back() = found->second;
    by_name.erase(found);
  }
  for (const Tensor& tensor : tensors) {
    if (!by_name.contains(tensor.name)) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("tensor \"%s\": network \"%s\" has no such parameter", tensor.name, program.model));
  }
  return matched;
}

absl::Status CheckNewLayers(const Program& program, StateKind kind, const std::set<std::string>& new_layers) {
  std::set<std::string> layers;
  for (const Parameter& parameter : program.parameters) {
    if (Has(parameter, kind)) layers.insert(parameter.layer);
  }
  for (const std::string& layer : new_layers) {
    if (layers.contains(layer)) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("new layer \"%s\": network \"%s\" has no layer of that name with a %s%s", layer, program.model,
                        program::Name(kind), base::DidYouMean("; ", layer, {layers.begin(), layers.end()})));
  }
  return absl::OkStatus();
}

int64_t BytesOf(const Program& program, const Parameter& parameter) {
  return program::ElementCount(parameter.shape) * program::SizeInBytes(program::MasterType(program.dtype));
}

// Makes `tensor` one for state of a parameter. Its memory is used again where it fits.
void MakeTensor(const Program& program, size_t index, StateKind kind, StateCopy::Tensor& tensor) {
  const Parameter& parameter = program.parameters[index];
  tensor.name = parameter.name;
  tensor.parameter = index;
  tensor.kind = kind;
  tensor.dtype = program::MasterType(program.dtype);
  tensor.shape = parameter.shape;
  tensor.bytes.resize(BytesOf(program, parameter));
}

TensorView ViewOf(const StateCopy::Tensor& tensor) { return {tensor.name, tensor.dtype, tensor.shape, tensor.bytes}; }

// Calls f(address in the tensor, address in the box, bytes) for each run of bytes that lie side by side in both.
template <class F>
void ForEachRunOfBytes(StateCopy::Tensor& tensor, const Region& region, std::vector<char>& box, F f) {
  const int64_t size = program::SizeInBytes(tensor.dtype);
  ForEachRun(tensor.shape, region, [&](int64_t global, int64_t local, int64_t count) {
    f(tensor.bytes.data() + global * size, box.data() + local * size, static_cast<size_t>(count * size));
  });
}

double ElementAt(const TensorView& tensor, size_t i) {
  return program::VisitDType(tensor.dtype, [&]<class T>(T value) {
    std::memcpy(&value, tensor.bytes.data() + i * sizeof(T), sizeof(T));
    return static_cast<double>(value);
  });
}

// The kinds of state that are written where `kind` is: an average of values that are no more would mean nothing.
std::vector<StateKind> WrittenWith(StateKind kind) {
  if (kind == StateKind::kValue) return {kind, StateKind::kAverage};
  return {kind};
}

// Compares what a device holds of a box with what `other` gave of it.
absl::Status CompareBox(const LoadedProgram& loaded, const Piece& piece, int other, StateCopy::Tensor& tensor,
                        std::vector<char>& box) {
  const size_t size = program::SizeInBytes(tensor.dtype);
  box.resize(piece.region.elements() * size);
  RETURN_IF_ERROR(loaded.ReadBytes(piece.buffer, absl::MakeSpan(box)));
  size_t element = box.size();  // the first that differs, if any
  const char* others = nullptr;
  ForEachRunOfBytes(tensor, piece.region, box, [&](const char* in_tensor, const char* in_box, size_t bytes) {
    if (others != nullptr || std::memcmp(in_tensor, in_box, bytes) == 0) return;
    const size_t run = (std::mismatch(in_box, in_box + bytes, in_tensor).first - in_box) / size;
    element = (in_box - box.data()) / size + run;
    others = in_tensor + run * size;
  });
  if (others == nullptr) return absl::OkStatus();
  const auto value = [&](const char* bytes) { return ElementAt({.dtype = tensor.dtype, .bytes = {bytes, size}}, 0); };
  return absl::InternalError(absl::StrFormat(
      "%s of \"%s\": devices %d and %d hold copies that differ, %.17g and %.17g as element %d of their part, though both "
      "are made of the same values",
      program::Name(tensor.kind), tensor.name, other, loaded.program().buffer(piece.buffer).device, value(others),
      value(box.data() + element * size), element));
}

// Copies one box of a tensor, all at once where its elements lie side by side. What the device does not hold of the box is
// left as it was. `box` is scratch.
absl::Status ReadBox(const LoadedProgram& loaded, const Piece& piece, StateCopy::Tensor& tensor, std::vector<char>& box) {
  const int64_t size = program::SizeInBytes(tensor.dtype), bytes = piece.region.elements() * size;
  if (const std::optional<int64_t> begin = BeginOfSingleRun(tensor.shape, piece.region); begin.has_value()) {
    return loaded.ReadBytes(piece.buffer, absl::MakeSpan(tensor.bytes).subspan(*begin * size, bytes));
  }
  box.resize(bytes);
  if (program::IsPartlyHeld(loaded.program(), piece.buffer)) {
    ForEachRunOfBytes(tensor, piece.region, box,
                      [](char* in_tensor, char* in_box, size_t n) { std::memcpy(in_box, in_tensor, n); });
  }
  RETURN_IF_ERROR(loaded.ReadBytes(piece.buffer, absl::MakeSpan(box)));
  ForEachRunOfBytes(tensor, piece.region, box,
                    [](char* in_tensor, char* in_box, size_t n) { std::memcpy(in_tensor, in_box, n); });
  return absl::OkStatus();
}

// Copies each box of one tensor from one device, unless devices hold ranges of its bytes, and compares what the others hold.
// Errors as CopyState.
absl::Status ReadAndCompareBoxes(const LoadedProgram& loaded, absl::Span<const Piece> pieces, StateCopy::Tensor& tensor) {
  absl::flat_hash_map<std::pair<program::Shape, program::Shape>, int> read;  // from which device
  std::vector<char> box;
  for (const Piece& piece : pieces) {
    const int device = loaded.program().buffer(piece.buffer).device;
    const auto& [it, is_new] = read.try_emplace({piece.region.offset, piece.region.size}, device);
    if (!is_new && !program::IsPartlyHeld(loaded.program(), piece.buffer)) {
      RETURN_IF_ERROR(CompareBox(loaded, piece, it->second, tensor, box));
    } else {
      RETURN_IF_ERROR(ReadBox(loaded, piece, tensor, box));
    }
  }
  return absl::OkStatus();
}

// Returns one kind of state of a parameter as its last devices hold it; copies are not compared.
absl::StatusOr<NamedTensor> ReadDoubles(const LoadedProgram& loaded, size_t parameter, StateKind kind) {
  StateCopy::Tensor tensor;
  MakeTensor(loaded.program(), parameter, kind, tensor);
  std::vector<char> box;
  for (const Piece& piece : loaded.program().parameters[parameter].pieces(kind)) {
    RETURN_IF_ERROR(ReadBox(loaded, piece, tensor, box));
  }
  return AsDoubles(ViewOf(tensor));
}

absl::Status WriteBoxes(LoadedProgram& loaded, absl::Span<const Piece> pieces, const TensorView& tensor) {
  const int64_t size = program::SizeInBytes(tensor.dtype);
  std::vector<char> box;
  for (const Piece& piece : pieces) {
    box.resize(piece.region.elements() * size);
    ForEachRun(tensor.shape, piece.region, [&](int64_t global, int64_t local, int64_t count) {
      std::memcpy(box.data() + local * size, tensor.bytes.data() + global * size, count * size);
    });
    RETURN_IF_ERROR(loaded.WriteBytes(piece.buffer, box));
  }
  return absl::OkStatus();
}

// The first element that is no finite f32, if any; a block of them at a time.
template <class T>
std::optional<size_t> FirstNotFinite(absl::Span<const char> bytes) {
  const auto is_finite = [&](size_t i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    return std::abs(static_cast<float>(value)) <= std::numeric_limits<float>::max();
  };
  constexpr size_t kBlock = 4096;
  const size_t count = bytes.size() / sizeof(T);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    bool all = true;
    for (size_t i = begin; i < std::min(begin + kBlock, count); ++i) all &= is_finite(i);
    if (all) continue;
    while (is_finite(begin)) ++begin;
    return begin;
  }
  return std::nullopt;
}

std::optional<size_t> FirstNotFinite(const TensorView& tensor) {
  return program::VisitDType(tensor.dtype, [&]<class T>(T) { return FirstNotFinite<T>(tensor.bytes); });
}

}  // namespace

NamedTensor AsDoubles(const TensorView& tensor) {
  NamedTensor doubles{tensor.name, tensor.shape, std::vector<double>(program::ElementCount(tensor.shape))};
  for (size_t i = 0; i < doubles.values.size(); ++i) doubles.values[i] = ElementAt(tensor, i);
  return doubles;
}

absl::Status InitializeParameters(LoadedProgram& loaded, uint64_t seed) {
  std::vector<double> values;
  for (const Parameter& parameter : loaded.program().parameters) {
    const uint32_t stream = program::StreamOfName(parameter.name);
    values.resize(program::ElementCount(parameter.shape));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(InitialValue(parameter.initializer, seed, stream, static_cast<int64_t>(i)));
    }
    for (StateKind kind : {StateKind::kValue, StateKind::kAverage}) {
      RETURN_IF_ERROR(WritePieces(parameter, loaded, kind, values));
    }
    std::fill(values.begin(), values.end(), 0.0);
    for (StateKind kind : {StateKind::kMomentum, StateKind::kSecondMoment}) {
      RETURN_IF_ERROR(WritePieces(parameter, loaded, kind, values));
    }
  }
  return absl::OkStatus();
}

absl::Status StartAverages(LoadedProgram& loaded) {
  StateCopy::Tensor tensor;
  for (size_t p = 0; p < loaded.program().parameters.size(); ++p) {
    const Parameter& parameter = loaded.program().parameters[p];
    if (!Has(parameter, StateKind::kAverage)) continue;
    MakeTensor(loaded.program(), p, StateKind::kValue, tensor);
    RETURN_IF_ERROR(ReadAndCompareBoxes(loaded, parameter.value(), tensor));
    RETURN_IF_ERROR(WriteBoxes(loaded, parameter.pieces(StateKind::kAverage), ViewOf(tensor)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NamedTensor>> ReadTensors(const LoadedProgram& loaded, StateKind kind) {
  std::vector<NamedTensor> tensors;
  for (size_t p = 0; p < loaded.program().parameters.size(); ++p) {
    if (!Has(loaded.program().parameters[p], kind)) continue;
    ASSIGN_OR_RETURN(NamedTensor tensor, ReadDoubles(loaded, p, kind));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::Status WriteTensors(LoadedProgram& loaded, absl::Span<const NamedTensor> tensors, StateKind kind) {
  const Program& program = loaded.program();
  ASSIGN_OR_RETURN(std::vector<const NamedTensor*> matched, Match(program, kind, tensors));
  for (const NamedTensor* tensor : matched) {
    if (tensor == nullptr || static_cast<int64_t>(tensor->values.size()) == program::ElementCount(tensor->shape)) continue;
    return absl::InvalidArgumentError(absl::StrFormat("tensor \"%s\": expected %s, found %d", tensor->name,
                                                      base::Counted(program::ElementCount(tensor->shape), "value"),
                                                      tensor->values.size()));
  }
  for (size_t p = 0; p < matched.size(); ++p) {
    if (matched[p] == nullptr) continue;
    for (StateKind written : WrittenWith(kind)) {
      RETURN_IF_ERROR(WritePieces(program.parameters[p], loaded, written, matched[p]->values));
    }
  }
  return absl::OkStatus();
}

int64_t StateBytes(const Program& program) {
  int64_t bytes = 0;
  for (StateKind kind : kStateKinds) {
    for (const Parameter& parameter : program.parameters) {
      if (Has(parameter, kind)) bytes += BytesOf(program, parameter);
    }
  }
  return bytes;
}

int64_t StateCopy::bytes() const {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.bytes.size());
  return bytes;
}

std::vector<TensorView> StateCopy::views(StateKind kind) const {
  std::vector<TensorView> views;
  for (const Tensor& tensor : tensors) {
    if (tensor.kind == kind) views.push_back(ViewOf(tensor));
  }
  return views;
}

void ReserveState(const Program& program, StateCopy& copy, absl::Span<const StateKind> kinds) {
  size_t next = 0;
  for (StateKind kind : kinds) {
    for (size_t p = 0; p < program.parameters.size(); ++p) {
      if (!Has(program.parameters[p], kind)) continue;
      if (next == copy.tensors.size()) copy.tensors.emplace_back();
      MakeTensor(program, p, kind, copy.tensors[next++]);
    }
  }
  copy.tensors.resize(next);
}

absl::Status CopyParameter(const LoadedProgram& loaded, size_t parameter, StateCopy& copy) {
  for (StateCopy::Tensor& tensor : copy.tensors) {
    if (tensor.parameter != parameter) continue;
    RETURN_IF_ERROR(ReadAndCompareBoxes(loaded, loaded.program().parameters[parameter].pieces(tensor.kind), tensor));
  }
  return absl::OkStatus();
}

absl::Status CopyState(const LoadedProgram& loaded, StateCopy& copy, absl::Span<const StateKind> kinds) {
  ReserveState(loaded.program(), copy, kinds);
  for (size_t p = 0; p < loaded.program().parameters.size(); ++p) RETURN_IF_ERROR(CopyParameter(loaded, p, copy));
  return absl::OkStatus();
}

namespace {

absl::StatusOr<std::vector<const TensorView*>> MatchState(const Program& program, StateKind kind,
                                                          absl::Span<const TensorView> tensors,
                                                          const std::set<std::string>& new_layers) {
  RETURN_IF_ERROR(CheckNewLayers(program, kind, new_layers));
  ASSIGN_OR_RETURN(std::vector<const TensorView*> matched, Match(program, kind, tensors, new_layers));
  for (const TensorView* tensor : matched) {
    if (tensor == nullptr) continue;
    if (!program::IsFloat(tensor->dtype)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tensor \"%s\": expected f32, f64 or bf16, found %s", tensor->name, program::Name(tensor->dtype)));
    }
    const int64_t expected = program::ElementCount(tensor->shape) * program::SizeInBytes(tensor->dtype);
    if (std::ssize(tensor->bytes) == expected) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("tensor \"%s\": expected %d bytes, found %d", tensor->name, expected, tensor->bytes.size()));
  }
  return matched;
}

}  // namespace

absl::Status CheckState(const Program& program, StateKind kind, absl::Span<const TensorView> tensors) {
  return MatchState(program, kind, tensors, {}).status();
}

absl::Status WriteState(LoadedProgram& loaded, StateKind kind, absl::Span<const TensorView> tensors,
                        const std::set<std::string>& new_layers) {
  const Program& program = loaded.program();
  ASSIGN_OR_RETURN(std::vector<const TensorView*> matched, MatchState(program, kind, tensors, new_layers));
  for (size_t p = 0; p < matched.size(); ++p) {
    if (matched[p] == nullptr) continue;
    const TensorView& tensor = *matched[p];
    const Parameter& parameter = program.parameters[p];
    for (StateKind written : WrittenWith(kind)) {
      if (!Has(parameter, written)) continue;
      RETURN_IF_ERROR(tensor.dtype == program::MasterType(program.dtype)
                          ? WriteBoxes(loaded, parameter.pieces(written), tensor)
                          : WritePieces(parameter, loaded, written, AsDoubles(tensor).values));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFinite(absl::Span<const TensorView> tensors) {
  for (const TensorView& tensor : tensors) {
    const std::optional<size_t> bad = FirstNotFinite(tensor);
    if (!bad.has_value()) continue;
    return absl::InvalidArgumentError(absl::StrFormat("tensor \"%s\": expected finite values, found %g as element %d",
                                                      tensor.name, ElementAt(tensor, *bad), *bad));
  }
  return absl::OkStatus();
}

absl::Status CheckFiniteState(const StateCopy& copy) {
  for (StateKind kind : kStateKinds) RETURN_IF_ERROR(CheckFinite(copy.views(kind)));
  return absl::OkStatus();
}

absl::Status CheckFiniteParameters(const LoadedProgram& loaded) {
  StateCopy::Tensor tensor;
  for (size_t p = 0; p < loaded.program().parameters.size(); ++p) {
    MakeTensor(loaded.program(), p, StateKind::kValue, tensor);
    RETURN_IF_ERROR(ReadAndCompareBoxes(loaded, loaded.program().parameters[p].value(), tensor));
    RETURN_IF_ERROR(CheckFinite({ViewOf(tensor)}));
  }
  return absl::OkStatus();
}

absl::Status NotFiniteAfter(int64_t step, const absl::Status& found) {
  return absl::OutOfRangeError(
      absl::StrFormat("after step %d: %s; a smaller learning rate may help", step, found.message()));
}

absl::Status CheckCopies(const LoadedProgram& loaded) {
  StateCopy::Tensor tensor;
  for (size_t p = 0; p < loaded.program().parameters.size(); ++p) {
    for (StateKind kind : kStateKinds) {
      MakeTensor(loaded.program(), p, kind, tensor);
      RETURN_IF_ERROR(ReadAndCompareBoxes(loaded, loaded.program().parameters[p].pieces(kind), tensor));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInitialized(const LoadedProgram& loaded) {
  const std::vector<Parameter>& parameters = loaded.program().parameters;
  const auto elements = [&](size_t p) { return program::ElementCount(parameters[p].shape); };
  std::optional<size_t> smallest;
  for (size_t p = 0; p < parameters.size(); ++p) {
    const program::Initializer& initializer = parameters[p].initializer;
    const bool may_draw_zeros = static_cast<float>(initializer.value) <= 0;
    if (initializer.kind == program::Initializer::Kind::kConstant || may_draw_zeros) continue;
    if (!smallest.has_value() || elements(p) < elements(*smallest)) smallest = p;
  }
  if (!smallest.has_value()) return absl::OkStatus();
  const auto is_written = [&](StateKind kind) -> absl::StatusOr<bool> {
    if (!Has(parameters[*smallest], kind)) return true;
    ASSIGN_OR_RETURN(const NamedTensor tensor, ReadDoubles(loaded, *smallest, kind));
    return std::any_of(tensor.values.begin(), tensor.values.end(), [](double v) { return v != 0; });
  };
  ASSIGN_OR_RETURN(const bool has_values, is_written(StateKind::kValue));
  ASSIGN_OR_RETURN(const bool has_averages, is_written(StateKind::kAverage));
  if (has_values && has_averages) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "parameter \"%s\": expected initial values%s, found zeros alone; call %s first", parameters[*smallest].name,
      has_values ? " of its average" : "", has_values ? "StartAverages" : "InitializeParameters or WriteTensors"));
}

}  // namespace colonnade::engine
