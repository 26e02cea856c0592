#include "engine/state.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "engine/pieces.h"
#include "program/philox.h"
#include "program/status_macros.h"
#include "program/stream_id.h"

namespace colonnade::engine {
namespace {

using program::Parameter;
using program::Piece;
using program::Program;
using Pieces = std::vector<Piece> Parameter::*;

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

// Statistics have no momentum.
bool Has(const Parameter& parameter, Pieces pieces) {
  return pieces == &Parameter::value || parameter.role == program::StateRole::kTrained;
}

absl::StatusOr<NamedTensor> ReadOne(const Parameter& parameter, const LoadedProgram& loaded, Pieces pieces) {
  NamedTensor tensor{parameter.name, parameter.shape, {}};
  tensor.values.resize(program::ElementCount(parameter.shape));
  std::vector<double> local;
  for (const Piece& piece : parameter.*pieces) {
    // What a device does not hold of a piece is left as another device gave it.
    local.resize(piece.region.elements());
    ForEachElement(parameter.shape, piece.region, [&](int64_t g, int64_t l) { local[l] = tensor.values[g]; });
    RETURN_IF_ERROR(loaded.Read(piece.buffer, absl::MakeSpan(local)));
    ForEachElement(parameter.shape, piece.region, [&](int64_t g, int64_t l) { tensor.values[g] = local[l]; });
  }
  return tensor;
}

absl::StatusOr<std::vector<NamedTensor>> ReadAll(const Program& program, const LoadedProgram& loaded, Pieces pieces) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : program.parameters) {
    if (!Has(parameter, pieces)) continue;
    ASSIGN_OR_RETURN(NamedTensor tensor, ReadOne(parameter, loaded, pieces));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::Status WritePieces(const Parameter& parameter, LoadedProgram& loaded, Pieces pieces, absl::Span<const double> values) {
  std::vector<double> local;
  for (const Piece& piece : parameter.*pieces) {
    local.resize(piece.region.elements());
    ForEachElement(parameter.shape, piece.region, [&](int64_t g, int64_t l) { local[l] = values[g]; });
    RETURN_IF_ERROR(loaded.Write(piece.buffer, local));
  }
  return absl::OkStatus();
}

absl::Status WriteAll(const Program& program, LoadedProgram& loaded, Pieces pieces, absl::Span<const NamedTensor> tensors) {
  auto find = [&](const std::string& name) {
    return std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor& t) { return t.name == name; });
  };
  for (const Parameter& parameter : program.parameters) {
    if (!Has(parameter, pieces)) continue;
    auto tensor = find(parameter.name);
    if (tensor == tensors.end()) {
      return absl::InvalidArgumentError(absl::StrFormat("tensor \"%s\": expected shape %s, found no such tensor",
                                                        parameter.name, program::ToString(parameter.shape)));
    }
    if (tensor->shape != parameter.shape) {
      return absl::InvalidArgumentError(absl::StrFormat("tensor \"%s\": expected shape %s, found %s", parameter.name,
                                                        program::ToString(parameter.shape),
                                                        program::ToString(tensor->shape)));
    }
    if (static_cast<int64_t>(tensor->values.size()) != program::ElementCount(parameter.shape)) {
      return absl::InvalidArgumentError(absl::StrFormat("tensor \"%s\": expected %d values, found %d", parameter.name,
                                                        program::ElementCount(parameter.shape), tensor->values.size()));
    }
  }
  for (const NamedTensor& tensor : tensors) {
    const bool known = std::any_of(program.parameters.begin(), program.parameters.end(),
                                   [&](const Parameter& p) { return p.name == tensor.name && Has(p, pieces); });
    if (!known) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tensor \"%s\": network \"%s\" has no such parameter", tensor.name, program.model));
    }
  }
  for (const Parameter& parameter : program.parameters) {
    if (!Has(parameter, pieces)) continue;
    RETURN_IF_ERROR(WritePieces(parameter, loaded, pieces, find(parameter.name)->values));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InitializeParameters(const Program& program, LoadedProgram& loaded, uint64_t seed) {
  std::vector<double> values;
  for (const Parameter& parameter : program.parameters) {
    const uint32_t stream = program::StreamOfName(parameter.name);
    values.resize(program::ElementCount(parameter.shape));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(InitialValue(parameter.initializer, seed, stream, static_cast<int64_t>(i)));
    }
    RETURN_IF_ERROR(WritePieces(parameter, loaded, &Parameter::value, values));
    std::fill(values.begin(), values.end(), 0.0);
    RETURN_IF_ERROR(WritePieces(parameter, loaded, &Parameter::momentum, values));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NamedTensor>> ReadParameters(const Program& program, const LoadedProgram& loaded) {
  return ReadAll(program, loaded, &Parameter::value);
}
absl::StatusOr<std::vector<NamedTensor>> ReadMomenta(const Program& program, const LoadedProgram& loaded) {
  return ReadAll(program, loaded, &Parameter::momentum);
}
absl::Status WriteParameters(const Program& program, LoadedProgram& loaded, absl::Span<const NamedTensor> tensors) {
  return WriteAll(program, loaded, &Parameter::value, tensors);
}
absl::Status WriteMomenta(const Program& program, LoadedProgram& loaded, absl::Span<const NamedTensor> tensors) {
  return WriteAll(program, loaded, &Parameter::momentum, tensors);
}

absl::Status CheckFinite(absl::Span<const NamedTensor> tensors) {
  for (const NamedTensor& tensor : tensors) {
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      if (std::isfinite(static_cast<float>(tensor.values[i]))) continue;
      return absl::InvalidArgumentError(absl::StrFormat("tensor \"%s\": expected finite values, found %g as element %d",
                                                        tensor.name, tensor.values[i], i));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFinite(const Program& program, const LoadedProgram& loaded) {
  for (const Parameter& parameter : program.parameters) {
    ASSIGN_OR_RETURN(NamedTensor tensor, ReadOne(parameter, loaded, &Parameter::value));
    RETURN_IF_ERROR(CheckFinite(absl::MakeConstSpan(&tensor, 1)));
  }
  return absl::OkStatus();
}

absl::Status CheckCopies(const Program& program, const LoadedProgram& loaded) {
  struct Copy {
    int device;
    std::vector<double> values;
  };
  const auto same_bits = [](double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); };
  for (const Parameter& parameter : program.parameters) {
    std::map<std::pair<program::Shape, program::Shape>, Copy> first;  // of each box
    for (const Piece& piece : parameter.value) {
      const int device = program.buffer(piece.buffer).device;
      std::vector<double> values(piece.region.elements());
      RETURN_IF_ERROR(loaded.Read(piece.buffer, absl::MakeSpan(values)));
      const auto& [box, copy] = *first.try_emplace({piece.region.offset, piece.region.size}, Copy{device, values}).first;
      const auto differ = std::mismatch(values.begin(), values.end(), copy.values.begin(), same_bits);
      if (differ.first == values.end()) continue;
      return absl::InternalError(absl::StrFormat(
          "\"%s\": devices %d and %d hold copies that differ, %.17g and %.17g as element %d of their part", parameter.name,
          copy.device, device, *differ.second, *differ.first, differ.first - values.begin()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInitialized(const Program& program, const LoadedProgram& loaded) {
  const Parameter* smallest = nullptr;
  for (const Parameter& parameter : program.parameters) {
    const bool drawn =
        parameter.initializer.kind != program::Initializer::Kind::kConstant && parameter.initializer.value > 0;
    if (!drawn) continue;
    const bool smaller =
        smallest == nullptr || program::ElementCount(parameter.shape) < program::ElementCount(smallest->shape);
    if (smaller) smallest = &parameter;
  }
  if (smallest == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(NamedTensor tensor, ReadOne(*smallest, loaded, &Parameter::value));
  if (std::any_of(tensor.values.begin(), tensor.values.end(), [](double v) { return v != 0; })) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "parameter \"%s\": expected initial values, found zeros alone; call InitializeParameters or WriteParameters first",
      smallest->name));
}

}  // namespace colonnade::engine
