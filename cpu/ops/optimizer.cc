#include "cpu/ops/optimizer.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/status_macros.h"
#include "cpu/load/box.h"
#include "cpu/ops/clones.h"
#include "cpu/ops/elementwise.h"
#include "program/formulas/update_gate.h"

namespace colonnade::cpu {
namespace {

using engine::MemberRange;
using engine::UpdateRange;

// Elements of one rate and decay: those of a member, or of several where no factor tells them apart.
struct Segment {
  BoxPlan plan;  // gradient, what is kept, weights
  float rate = 1, weight_decay = 0;
  int member = 0;
};

// The elements of all `views` that `range` has; of tensors that are no buckets, all.
BoxPlan PlanOf(absl::Span<const View> views, const UpdateRange& range, bool all) {
  if (all) return BoxPlan(views);
  std::vector<View> parts;
  for (const View& view : views) parts.push_back(Slice(view, {{range.begin}, {range.end - range.begin}}));
  return BoxPlan(parts);
}

// An update whose gradient is the operand `gradient`; before it, behind the scalars, stand gate and trust, if any.
struct Update {
  std::vector<Segment> segments;
  int gradient = 1;
  int threads = 1;
  int64_t scalars = 0, gate = 0, trust = 0;  // where they begin

  bool gated() const { return gradient > 1; }
  double Scalar(const RunArguments& run, int index) const { return run.as<const double>(0)[scalars + index]; }
  bool IsClosed(const RunArguments& run) const {
    return gated() && run.as<const double>(1)[gate + program::Gate::kIsOpen] == 0;
  }
  float GradientScale(const RunArguments& run) const {
    return gated() ? static_cast<float>(run.as<const double>(1)[gate + program::Gate::kGradientScale]) : 1;
  }
  float RateOf(const RunArguments& run, const Segment& segment) const {
    const double factor = gated() ? run.as<const double>(2)[trust + segment.member] : 1;
    return static_cast<float>(Scalar(run, program::StepScalar::kLearningRate) * segment.rate * factor);
  }
  template <int operand>
  float* At(const RunArguments& run, const Row& row) const {
    return run.as<float>(gradient + operand) + row.offset[operand];
  }
};

template <class Op>
absl::StatusOr<Update> UpdateOf(const Op& op, const TaskContext& context, int moments) {
  const int gradient = static_cast<int>(context.operands.size()) - moments - 2;
  ASSIGN_OR_RETURN(const std::vector<View> views, ElementwiseViews(context, gradient, moments + 2));
  Update update{.gradient = gradient, .threads = context.threads, .scalars = context.view(0).offset};
  if (update.gated()) {
    update.gate = context.view(1).offset;
    update.trust = context.view(2).offset;
  }
  const std::vector<UpdateRange> ranges =
      engine::UpdateRangesOf(context.operands[gradient].members, op.rates, op.decays, op.weight_decay, update.gated());
  for (const UpdateRange& range : ranges) {
    update.segments.push_back({.plan = PlanOf(views, range, ranges.size() == 1),
                               .rate = range.rate,
                               .weight_decay = range.weight_decay,
                               .member = range.member});
  }
  return update;
}

constexpr int64_t kChunk = 1 << 14;  // elements of a sum of squares that one thread adds up

// A chunk of a member.
struct NormChunk {
  int member = 0;
  BoxPlan plan;
};

std::vector<NormChunk> ChunksOf(const View& view, const std::vector<MemberRange>& members, bool is_bucket,
                                const program::Factors& counted) {
  std::vector<NormChunk> chunks;
  for (const MemberRange& range : members) {
    if (program::FactorOf(counted, range.member) == 0) continue;
    if (!is_bucket) {
      chunks.push_back({range.member, BoxPlan({view})});
      continue;
    }
    for (int64_t begin = range.begin; begin < range.end; begin += kChunk) {
      const int64_t size = std::min(kChunk, range.end - begin);
      chunks.push_back({range.member, BoxPlan({Slice(view, {{begin}, {size}})})});
    }
  }
  return chunks;
}

// In a few sums side by side, so that the processor adds several at once.
double SquaresOf(const NormChunk& chunk, const float* x) {
  constexpr int kSums = 16;
  std::array<double, kSums> sums = {};
  const auto add = [](double& sum, double value) { sum += value * value; };
  chunk.plan.ForRows(0, chunk.plan.rows(), [&](const Row& row) {
    const float* of_row = x + row.offset[0];
    const int64_t stride = row.contiguous ? 1 : row.stride[0], whole = row.size / kSums * kSums;
    for (int64_t i = 0; i < whole; i += kSums) {
      for (int k = 0; k < kSums; ++k) add(sums[k], of_row[(i + k) * stride]);
    }
    for (int64_t i = whole; i < row.size; ++i) add(sums[i - whole], of_row[i * stride]);
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

struct SgdFactors {
  float lr, momentum, decay, scale;
};

// Elements that are neighbours in memory.
template <program::SgdForm kForm>
COLONNADE_VECTOR_CLONES void SgdSteps(SgdFactors by, int64_t count, const float* g, float* v, float* w) {
  for (int64_t i = 0; i < count; ++i) program::SgdStep(kForm, by.lr, by.momentum, by.decay, by.scale * g[i], v[i], w[i]);
}

struct AdamWFactors {
  float lr, decay, scale;
};
struct AdamWState {
  float *m, *v, *w;
};
COLONNADE_VECTOR_CLONES void AdamWSteps(const program::AdamWStep<float>& step, AdamWFactors by, int64_t count,
                                        const float* g, AdamWState of) {
  for (int64_t i = 0; i < count; ++i) step(by.lr, by.decay, by.scale * g[i], of.m[i], of.v[i], of.w[i]);
}

COLONNADE_VECTOR_CLONES void AverageSteps(float rest, int64_t count, const float* w, float* average) {
  for (int64_t i = 0; i < count; ++i) average[i] += rest * (w[i] - average[i]);
}

}  // namespace

PreparedKernel Prepare(const program::SgdUpdate& op, const TaskContext& context) {
  ASSIGN_OR_RETURN(Update made, UpdateOf(op, context, /*moments=*/1));
  return MakeKernel(
      [update = std::move(made), form = op.form, momentum = static_cast<float>(op.momentum)](const RunArguments& run) {
        if (update.IsClosed(run)) return absl::OkStatus();
        const float scale = update.GradientScale(run);
        program::WithForm(form, [&](auto known) {
          ForAllRowsOf(update.segments, update.threads, [&](const Segment& segment, const Row& row) {
            const float lr = update.RateOf(run, segment), decay = segment.weight_decay;
            const float* g = update.At<0>(run, row);
            float *v = update.At<1>(run, row), *w = update.At<2>(run, row);
            if (row.contiguous) {
              SgdSteps<decltype(known)::value>({lr, momentum, decay, scale}, row.size, g, v, w);
            } else {
              for (int64_t i = 0; i < row.size; ++i) {
                program::SgdStep(known(), lr, momentum, decay, scale * g[i * row.stride[0]], v[i * row.stride[1]],
                                 w[i * row.stride[2]]);
              }
            }
          });
        });
        return absl::OkStatus();
      });
}

PreparedKernel Prepare(const program::AdamWUpdate& op, const TaskContext& context) {
  ASSIGN_OR_RETURN(Update made, UpdateOf(op, context, /*moments=*/2));
  return MakeKernel([update = std::move(made), adam = op.adam](const RunArguments& run) {
    if (update.IsClosed(run)) return absl::OkStatus();
    const program::AdamWStep<float> step(adam, update.Scalar(run, program::StepScalar::kStep) + 1);
    const float scale = update.GradientScale(run);
    ForAllRowsOf(update.segments, update.threads, [&](const Segment& segment, const Row& row) {
      const float lr = update.RateOf(run, segment), decay = segment.weight_decay;
      const float* g = update.At<0>(run, row);
      float *m = update.At<1>(run, row), *v = update.At<2>(run, row), *w = update.At<3>(run, row);
      if (row.contiguous) {
        AdamWSteps(step, {lr, decay, scale}, row.size, g, {m, v, w});
      } else {
        for (int64_t i = 0; i < row.size; ++i) {
          step(lr, decay, scale * g[i * row.stride[0]], m[i * row.stride[1]], v[i * row.stride[2]], w[i * row.stride[3]]);
        }
      }
    });
    return absl::OkStatus();
  });
}

PreparedKernel Prepare(const program::AverageUpdate& op, const TaskContext& context) {
  const int w = static_cast<int>(context.operands.size()) - 2;
  ASSIGN_OR_RETURN(const std::vector<View> views, ElementwiseViews(context, w, 2));
  const int64_t gate = w > 0 ? context.view(0).offset : 0;
  return MakeKernel([plan = BoxPlan(views), w, gate, threads = context.threads,
                     rest = static_cast<float>(1 - op.decay)](const RunArguments& run) {
    if (w > 0 && run.as<const double>(0)[gate + program::Gate::kIsOpen] == 0) return absl::OkStatus();
    plan.ForAllRows(threads, [&](const Row& row) {
      const float* from = run.as<const float>(w) + row.offset[0];
      float* average = run.as<float>(w + 1) + row.offset[1];
      if (row.contiguous) return AverageSteps(rest, row.size, from, average);
      for (int64_t i = 0; i < row.size; ++i) {
        average[i * row.stride[1]] += rest * (from[i * row.stride[0]] - average[i * row.stride[1]]);
      }
    });
    return absl::OkStatus();
  });
}

PreparedKernel Prepare(const program::SquaredNorms& op, const TaskContext& context) {
  const int tensors = static_cast<int>(context.operands.size()) - 1;
  ASSIGN_OR_RETURN(const std::vector<View> views, ElementwiseViews(context, 0, tensors));
  std::vector<std::vector<NormChunk>> chunks;
  size_t most = 0;
  for (int k = 0; k < tensors; ++k) {
    const Operand& of = context.operands[k];
    const bool is_bucket = std::holds_alternative<program::Bucket>(context.program.buffer(of.buffer).storage);
    most = std::max(most, chunks.emplace_back(ChunksOf(views[k], of.members, is_bucket, op.counted)).size());
  }
  const auto run_kernel = [chunks = std::move(chunks), norms = context.view(tensors), tensors,
                           threads = context.threads](const RunArguments& run) {
    double* sums = run.as<double>(tensors) + norms.offset;
    for (int64_t m = 0; m < norms.shape[0]; ++m) {
      for (int64_t k = 0; k < 2; ++k) sums[m * norms.strides[0] + k * norms.strides[1]] = 0;
    }
    auto* partial = reinterpret_cast<double*>(run.workspace);
    for (int k = 0; k < tensors; ++k) {
      const std::vector<NormChunk>& of = chunks[k];
      ParallelFor(threads, static_cast<int64_t>(of.size()), [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) partial[c] = SquaresOf(of[c], run.as<const float>(k));
      });
      for (size_t c = 0; c < of.size(); ++c) sums[of[c].member * norms.strides[0] + k * norms.strides[1]] += partial[c];
    }
    return absl::OkStatus();
  };
  return MakeKernel(run_kernel, static_cast<int64_t>(most * sizeof(double)));
}

PreparedKernel Prepare(const program::UpdateGate& op, const TaskContext& context) {
  return MakeKernel([op, context, strides = context.view(0).strides](const RunArguments& run) {
    const double* norms = DataOf<const double>(run, context, 0);
    double *gate = DataOf<double>(run, context, 1), *trust = DataOf<double>(run, context, 2);
    const int64_t count = context.view(2).shape[0];
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += norms[i * strides[0]];
    gate[program::Gate::kIsOpen] = program::IsFinite(total) ? 1 : 0;
    gate[program::Gate::kGradientScale] = program::ClipScale(op.clip_norm, total);
    for (int64_t i = 0; i < count; ++i) {
      trust[i] = program::FactorOf(op.adapted, i) == 0
                     ? 1
                     : program::TrustRatio(op.trust, op.weight_decay * program::FactorOf(op.decays, i),
                                           gate[program::Gate::kGradientScale], norms[i * strides[0]],
                                           norms[i * strides[0] + strides[1]]);
    }
    return absl::OkStatus();
  });
}

}  // namespace colonnade::cpu
