#include "cpu/ops/elementwise.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cpu/load/box.h"
#include "cpu/ops/clones.h"
#include "cpu/ops/element.h"
#include "cpu/ops/sum_plan.h"
#include "program/formulas/math.h"

namespace colonnade::cpu {

using program::DType;
using program::Shape;

namespace {

// y[i] = formula(a[i]) for a row of operands (a, y).
template <class A, class Y, class Formula>
COLONNADE_VECTOR_CLONES void MapRow(const Row& row, const A* a, Y* y, const Formula& formula) {
  a += row.offset[0];
  y += row.offset[1];
  if (row.contiguous) {
#pragma omp simd
    for (int64_t i = 0; i < row.size; ++i) Put(formula(a[i]), y[i]);
  } else {
    for (int64_t i = 0; i < row.size; ++i) Put(formula(a[i * row.stride[0]]), y[i * row.stride[1]]);
  }
}

// y[i] = formula(a[i], b[i]) for a row of operands (a, b, y).
template <class A, class B, class Y, class Formula>
COLONNADE_VECTOR_CLONES void MapRow(const Row& row, const A* a, const B* b, Y* y, const Formula& formula) {
  a += row.offset[0];
  b += row.offset[1];
  y += row.offset[2];
  if (row.contiguous) {
#pragma omp simd
    for (int64_t i = 0; i < row.size; ++i) Put(formula(a[i], b[i]), y[i]);
  } else {
    for (int64_t i = 0; i < row.size; ++i) Put(formula(a[i * row.stride[0]], b[i * row.stride[1]]), y[i * row.stride[2]]);
  }
}

template <class T, class Formula>
PreparedKernel MapOne(const TaskContext& context, Formula formula) {
  const auto views = ElementwiseViews(context, 0, 2);
  if (!views.ok()) return views.status();
  return MakeKernel([plan = BoxPlan(*views), threads = context.threads, formula](const RunArguments& run) {
    const T* a = run.as<const T>(0);
    T* y = run.as<T>(1);
    plan.ForAllRows(threads, [&](const Row& row) { MapRow(row, a, y, formula); });
    return absl::OkStatus();
  });
}

template <class A, class B, class Y, class Formula>
PreparedKernel MapTwo(BoxPlan plan, int threads, Formula formula) {
  return MakeKernel([plan = std::move(plan), threads, formula](const RunArguments& run) {
    const A* a = run.as<const A>(0);
    const B* b = run.as<const B>(1);
    Y* y = run.as<Y>(2);
    plan.ForAllRows(threads, [&](const Row& row) { MapRow(row, a, b, y, formula); });
    return absl::OkStatus();
  });
}

// The last operand = the sum of those before it.
template <class T>
PreparedKernel SumRows(absl::Span<const View> views, int threads) {
  SumPlan plan(views.first(views.size() - 1), views.last(1));
  return MakeKernel([plan = std::move(plan), threads](const RunArguments& run) {
    ParallelFor(threads, plan.boxes().rows(), [&](int64_t begin, int64_t end) {
      plan.Run<T>(begin, end, [&](size_t i) { return run.as<T>(static_cast<int>(i)); });
    });
    return absl::OkStatus();
  });
}

// Numbers whose exponent is all ones are not finite.
COLONNADE_VECTOR_CLONES bool AreFinite(const float* x, int64_t count) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t not_finite = 0;
  for (int64_t i = 0; i < count; ++i) not_finite |= (std::bit_cast<uint32_t>(x[i]) & kExponent) == kExponent ? 1u : 0u;
  return not_finite == 0;
}
bool AreFinite(const float* x, int64_t stride, int64_t count) {
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) finite &= program::IsFinite(x[i * stride]);
  return finite;
}

}  // namespace

absl::StatusOr<std::vector<View>> ElementwiseViews(const TaskContext& context, int first_use, int count) {
  std::vector<View> views;
  for (int use = first_use; use < first_use + count; ++use) {
    const View& view = context.view(use);
    const View& first = context.view(first_use);
    const bool opaque = view.kind == View::Kind::kOpaque || first.kind == View::Kind::kOpaque;
    if (view.shape != first.shape || view.dtype != first.dtype || (opaque && !SameLayout(view, first))) {
      return absl::InvalidArgumentError(absl::StrCat("operands ", first_use, " and ", use, " differ in shape or layout"));
    }
    views.push_back(opaque ? Flat(view) : view);
  }
  return views;
}

PreparedKernel Prepare(const program::Sum&, const TaskContext& context) {
  const int inputs = static_cast<int>(context.operands.size()) - 1;
  const auto views = ElementwiseViews(context, 0, inputs + 1);
  if (!views.ok()) return views.status();
  const DType dtype = context.view(0).dtype;
  if (dtype == DType::kF64) return SumRows<double>(*views, context.threads);
  if (dtype != DType::kF32 && dtype != DType::kBF16) {
    return absl::InvalidArgumentError(absl::StrCat("a sum of ", program::Name(dtype), "; expected f32, f64 or bf16"));
  }
  return WithElement(dtype, [&]<class T>(T) {
    if (inputs == 2) return MapTwo<T, T, T>(BoxPlan(*views), context.threads, [](float a, float b) { return a + b; });
    return SumRows<T>(*views, context.threads);
  });
}

PreparedKernel Prepare(const program::BiasForward&, const TaskContext& context) {
  const View& y = context.view(2);
  return WithElement(y.dtype, [&]<class T>(T) {
    return MapTwo<float, T, T>(BoxPlan({context.view(0), engine::RepeatOverImages(context.view(1), y.shape), y}),
                               context.threads, [](float x, float b) { return x + b; });
  });
}

namespace {

// Sums in double, channel by channel: each in one order whatever the number of threads. The gradient dy is of T.
template <class T>
PreparedKernel SumOverChannels(T, const TaskContext& context) {
  const View& dy = context.view(0);
  const View& db = context.view(1);
  const int64_t channels = dy.shape[1];
  std::vector<BoxPlan> plans;  // of each block of channels of dy, with the index of the channel in it
  for (int64_t c = 0; c < channels; c += kChannelBlock) {
    program::Region box = program::Region::Whole(dy.shape);
    box.offset[1] = c;
    box.size[1] = std::min(kChannelBlock, channels - c);
    const View block = Slice(dy, box);
    plans.push_back(BoxPlan({block, engine::RepeatOverImages(RowMajor(DType::kF64, {box.size[1]}), block.shape)}));
  }
  return MakeKernel([plans = std::move(plans), channels, threads = context.threads, db](const RunArguments& run) {
    const T* dy = run.as<const T>(0);
    ParallelFor(threads, static_cast<int64_t>(plans.size()), [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        std::array<double, kChannelBlock> sums = {};
        plans[block].ForRows(0, plans[block].rows(), [&](const Row& row) {
          const T* x = dy + row.offset[0];
          double* sum = sums.data() + row.offset[1];
          if (row.stride[1] == 0) {
            double total = 0;
            for (int64_t i = 0; i < row.size; ++i) total += x[i * row.stride[0]];
            *sum += total;
          } else {
            for (int64_t i = 0; i < row.size; ++i) sum[i] += x[i * row.stride[0]];
          }
        });
        for (int64_t c = block * kChannelBlock; c < std::min(channels, (block + 1) * kChannelBlock); ++c) {
          run.as<float>(1)[OffsetOf(db, {c})] = static_cast<float>(sums[c % kChannelBlock]);
        }
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

PreparedKernel Prepare(const program::BiasBackward&, const TaskContext& context) {
  return WithElement(context.view(0).dtype, [&](auto zero) { return SumOverChannels(zero, context); });
}

PreparedKernel Prepare(const program::ActivationForward& op, const TaskContext& context) {
  return WithElement(context.view(0).dtype, [&]<class T>(T) {
    return program::WithFormula(
        op.activation, [&](auto formula) { return MapOne<T>(context, [formula](float x) { return formula.Value(x); }); });
  });
}

PreparedKernel Prepare(const program::ActivationBackward& op, const TaskContext& context) {
  const auto views = ElementwiseViews(context, 0, 3);
  if (!views.ok()) return views.status();
  return WithElement(context.view(0).dtype, [&]<class T>(T) {
    return program::WithFormula(op.activation, [&](auto formula) {
      return MapTwo<T, T, T>(BoxPlan(*views), context.threads,
                             [formula](float kept, float dy) { return formula.Gradient(kept, dy); });
    });
  });
}

namespace {

constexpr uint64_t kWordsOfBlock = 4;
constexpr int64_t kBlocksAtOnce = 64;

// What dropout makes of a row; element i is `first` + i·`step` of the global tensor.
struct DropoutRow {
  const program::RandomStream& stream;
  double rate;
  uint64_t first, step;
};

// Drops elements that lie side by side. Up to 64 blocks of words are drawn at a time, so that both loops are vectors.
template <class T>
COLONNADE_VECTOR_CLONES void DropNeighbours(const DropoutRow& row, int64_t count, const T* x, T* y) {
  const float scale = static_cast<float>(1.0 / (1.0 - row.rate));
  uint32_t words[kBlocksAtOnce][kWordsOfBlock];
  for (int64_t i = 0; i < count;) {
    const uint64_t element = row.first + i, block = element / kWordsOfBlock;
    const int64_t skipped = element % kWordsOfBlock;
    const int64_t size = std::min<int64_t>(count - i, kBlocksAtOnce * kWordsOfBlock - skipped);
    const int64_t blocks = (skipped + size - 1) / static_cast<int64_t>(kWordsOfBlock) + 1;
#pragma omp simd
    for (int64_t b = 0; b < blocks; ++b) {
      const program::Philox4 drawn = row.stream.Block(block + b);
      for (uint64_t w = 0; w < kWordsOfBlock; ++w) words[b][w] = drawn.v[w];
    }
    const uint32_t* word = &words[0][0] + skipped;
#pragma omp simd
    for (int64_t j = 0; j < size; ++j) {
      const float value = x[i + j];
      Put(program::IsKeptByDropout(word[j], row.rate) ? value * scale : 0.0f, y[i + j]);
    }
    i += size;
  }
}

template <class T>
void DropApart(const DropoutRow& row, int64_t count, const T* x, int64_t x_stride, T* y, int64_t y_stride) {
  const float scale = static_cast<float>(1.0 / (1.0 - row.rate));
  uint64_t block = ~uint64_t{0};
  program::Philox4 drawn = {};
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t element = row.first + i * row.step;
    if (element / kWordsOfBlock != block) drawn = row.stream.Block(block = element / kWordsOfBlock);
    const uint32_t word = drawn.v[element % kWordsOfBlock];
    Put(program::IsKeptByDropout(word, row.rate) ? x[i * x_stride] * scale : 0.0f, y[i * y_stride]);
  }
}

// A third operand walks along that is no memory: its offset is the element's index in the global tensor. x and y are of T.
template <class T>
PreparedKernel PrepareDropout(T, const program::Dropout& op, const TaskContext& context) {
  const View index = Slice(RowMajor(DType::kF64, op.global_shape), {op.offset, context.view(1).shape});
  const int64_t scalars_offset = context.view(0).offset;
  return MakeKernel([plan = BoxPlan({context.view(1), context.view(2), index}), op, scalars_offset,
                     threads = context.threads](const RunArguments& run) {
    const double* scalars = run.as<const double>(0) + scalars_offset;
    const program::RandomStream stream(static_cast<uint64_t>(scalars[program::StepScalar::kSeed]),
                                       program::RandomPurpose::kDropout, op.stream,
                                       static_cast<uint64_t>(scalars[program::StepScalar::kStep]));
    plan.ForAllRows(threads, [&](const Row& row) {
      const T* x = run.as<T>(1) + row.offset[0];
      T* y = run.as<T>(2) + row.offset[1];
      const DropoutRow what = {stream, op.rate, static_cast<uint64_t>(row.offset[2]), static_cast<uint64_t>(row.stride[2])};
      if (row.contiguous) {
        DropNeighbours(what, row.size, x, y);
      } else {
        DropApart(what, row.size, x, row.stride[0], y, row.stride[1]);
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

PreparedKernel Prepare(const program::Dropout& op, const TaskContext& context) {
  return WithElement(context.view(1).dtype, [&](auto zero) { return PrepareDropout(zero, op, context); });
}

PreparedKernel Prepare(const program::CheckFinite&, const TaskContext& context) {
  struct Tensor {
    BoxPlan plan;
    int operand;
    int64_t flag_offset;
  };
  std::vector<Tensor> tensors;
  for (int i = 0; i < static_cast<int>(context.task.uses.size()); i += 2) {
    const auto views = ElementwiseViews(context, i, 1);
    if (!views.ok()) return views.status();
    tensors.push_back({BoxPlan(*views), i, context.view(i + 1).offset});
  }
  return MakeKernel([tensors = std::move(tensors), threads = context.threads](const RunArguments& run) {
    const auto flag = [&](const Tensor& of) -> int32_t& { return run.as<int32_t>(of.operand + 1)[of.flag_offset]; };
    for (const Tensor& tensor : tensors) flag(tensor) = 1;
    ForAllRowsOf(tensors, threads, [&](const Tensor& tensor, const Row& row) {
      const float* from = run.as<const float>(tensor.operand) + row.offset[0];
      const bool all = row.contiguous ? AreFinite(from, row.size) : AreFinite(from, row.stride[0], row.size);
      if (!all) std::atomic_ref<int32_t>(flag(tensor)).store(0, std::memory_order_relaxed);
    });
    return absl::OkStatus();
  });
}

}  // namespace colonnade::cpu
