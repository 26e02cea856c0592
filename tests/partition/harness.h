// One network under one plan, for tests: lower, load, run steps, read global tensors.
#ifndef COLONNADE_TESTS_PARTITION_HARNESS_H_
#define COLONNADE_TESTS_PARTITION_HARNESS_H_

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cpu/backend.h"
#include "engine/executor.h"
#include "partition/lower.h"

namespace colonnade::partition {

using Tensors = std::map<std::string, std::vector<double>>;  // by name, global and row-major

// Calls f(global element index, element index in the piece) for each element of a piece.
template <class F>
void ForEachElement(const program::Shape& shape, const program::Region& region, F f) {
  program::Shape index = region.offset;
  for (int64_t local = 0; local < region.elements(); ++local) {
    int64_t flat = 0;
    for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
    f(flat, local);
    for (int d = static_cast<int>(index.size()) - 1; d >= 0; --d) {
      if (++index[d] < region.offset[d] + region.size[d]) break;
      index[d] = region.offset[d];
    }
  }
}

class PlannedRun {
 public:
  static absl::StatusOr<std::unique_ptr<PlannedRun>> Create(const layers::LayerGraph& graph, const Plan& plan,
                                                            const LowerOptions& options, cpu::CpuOptions::Kernels kernels) {
    auto backend = cpu::MakeCpuBackend({.devices = plan.mesh.device_count(), .threads_per_device = 1, .kernels = kernels});
    if (!backend.ok()) return backend.status();
    return Create(graph, plan, options, *std::move(backend));
  }
  static absl::StatusOr<std::unique_ptr<PlannedRun>> Create(const layers::LayerGraph& graph, const Plan& plan,
                                                            const LowerOptions& options,
                                                            std::unique_ptr<engine::Backend> backend) {
    absl::StatusOr<program::Program> program = Lower(graph, plan, options);
    if (!program.ok()) return program.status();
    return Create(*std::move(program), std::move(backend));
  }
  static absl::StatusOr<std::unique_ptr<PlannedRun>> Create(program::Program program,
                                                            std::unique_ptr<engine::Backend> backend) {
    auto run = std::make_unique<PlannedRun>();
    run->program = std::move(program);
    run->backend = std::move(backend);
    auto executor = engine::Executor::Create(run->program, *run->backend);
    if (!executor.ok()) return executor.status();
    run->executor = *std::move(executor);
    return run;
  }

  // Every copy of every parameter, and what the optimiser keeps zero.
  absl::Status SetParameters(const Tensors& values) {
    for (const program::Parameter& parameter : program.parameters) {
      if (absl::Status s = WritePieces(parameter.shape, parameter.value(), values.at(parameter.name)); !s.ok()) return s;
      const std::vector<double> zero(program::ElementCount(parameter.shape));
      for (program::StateKind kind : program::kStateKinds) {
        if (kind == program::StateKind::kValue) continue;
        if (absl::Status s = WritePieces(parameter.shape, parameter.pieces(kind), zero); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

  // The parameters, and under "average of NAME" their averages; Internal if two devices hold different values of one
  // element.
  absl::StatusOr<Tensors> Parameters() const {
    Tensors tensors;
    for (const program::Parameter& parameter : program.parameters) {
      absl::StatusOr<std::vector<double>> value = Whole(parameter, program::StateKind::kValue);
      if (!value.ok()) return value.status();
      tensors[parameter.name] = *std::move(value);
      if (parameter.pieces(program::StateKind::kAverage).empty()) continue;
      absl::StatusOr<std::vector<double>> average = Whole(parameter, program::StateKind::kAverage);
      if (!average.ok()) return average.status();
      tensors["average of " + parameter.name] = *std::move(average);
    }
    return tensors;
  }

  absl::StatusOr<std::vector<double>> Whole(const program::Parameter& parameter, program::StateKind kind) const {
    std::vector<double> global(program::ElementCount(parameter.shape), NAN);
    for (const program::Piece& piece : parameter.pieces(kind)) {
      std::vector<double> local(piece.region.elements());
      if (absl::Status s = executor->loaded().Read(piece.buffer, absl::MakeSpan(local)); !s.ok()) return s;
      bool equal = true;
      ForEachElement(parameter.shape, piece.region, [&](int64_t g, int64_t l) {
        equal = equal && (std::isnan(global[g]) || global[g] == local[l]);
        global[g] = local[l];
      });
      if (!equal) return absl::InternalError("replicas differ in " + parameter.name);
    }
    return global;
  }

  absl::StatusOr<Tensors> Gradients() const {
    Tensors tensors;
    for (const program::Output& output : program.outputs) {
      if (output.kind != program::Output::Kind::kGradient) continue;
      absl::StatusOr<std::vector<double>> values = executor->ReadOutput(output);
      if (!values.ok()) return values.status();
      tensors[output.name] = *std::move(values);
    }
    return tensors;
  }

  program::Program program;
  std::unique_ptr<engine::Backend> backend;
  std::unique_ptr<engine::Executor> executor;

 private:
  absl::Status WritePieces(const program::Shape& shape, const std::vector<program::Piece>& pieces,
                           const std::vector<double>& global) {
    for (const program::Piece& piece : pieces) {
      std::vector<double> local(piece.region.elements());
      ForEachElement(shape, piece.region, [&](int64_t g, int64_t l) { local[l] = global[g]; });
      if (absl::Status s = executor->loaded().Write(piece.buffer, local); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
};

inline double Norm(const std::vector<double>& x) {
  double sum = 0;
  for (double v : x) sum += v * v;
  return std::sqrt(sum);
}

// ‖a − b‖ / ‖b‖; 0 where both are zero.
inline double RelativeDistance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  const double norm = Norm(b);
  return sum == 0 ? 0 : std::sqrt(sum) / (norm > 0 ? norm : 1);
}

}  // namespace colonnade::partition

#endif  // COLONNADE_TESTS_PARTITION_HARNESS_H_
