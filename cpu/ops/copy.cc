#include "cpu/ops/copy.h"

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cpu/ops/clones.h"
#include "cpu/ops/primitive.h"
#include "cpu/ops/staging.h"
#include "program/strides.h"
#include "program/visit_dtype.h"

namespace colonnade::cpu {

using program::DType;
using program::Region;
using program::SizeInBytes;

namespace {

template <class T>
void CopyStrided(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t size) {
  const T* source = reinterpret_cast<const T*>(from);
  T* target = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < size; ++i) target[i * to_stride] = source[i * from_stride];
}

// to[i] = from[i], converted.
template <class From, class To>
COLONNADE_VECTOR_CLONES void Convert(const From* __restrict from, int64_t size, To* __restrict to) {
  for (int64_t i = 0; i < size; ++i) to[i] = static_cast<To>(from[i]);
}

// Rows [begin, end) of operand `from_operand`, of From, to the other, of To.
template <class From, class To>
void ConvertRowRange(const BoxPlan& plan, int64_t begin, int64_t end, int from_operand, const char* from, char* to) {
  plan.ForRows(begin, end, [&](const Row& row) {
    const int to_operand = 1 - from_operand;
    const From* source = reinterpret_cast<const From*>(from) + row.offset[from_operand];
    To* target = reinterpret_cast<To*>(to) + row.offset[to_operand];
    if (row.contiguous) return Convert(source, row.size, target);
    const int64_t from_stride = row.stride[from_operand], to_stride = row.stride[to_operand];
    for (int64_t i = 0; i < row.size; ++i) target[i * to_stride] = static_cast<To>(source[i * from_stride]);
  });
}

// A copy between two affine or blocked views of equal element count and type, whose shapes match in row-major order.
PreparedKernel PrepareBoxCopy(const TaskContext& context, const View& from, const View& to) {
  const int threads = context.threads;
  const int64_t size = SizeInBytes(from.dtype);
  std::optional<View> reshaped_from = from.shape == to.shape ? from : Reshape(from, to.shape);
  std::optional<View> reshaped_to = reshaped_from.has_value() ? to : Reshape(to, from.shape);
  if (!reshaped_from.has_value()) reshaped_from = from;
  if (reshaped_to.has_value()) {
    return MakeKernel([plan = BoxPlan({*reshaped_from, *reshaped_to}), threads, size](const RunArguments& run) {
      CopyRows(plan, threads, size, run.data[0], run.data[1]);
      return absl::OkStatus();
    });
  }
  const View dense_from = RowMajor(from.dtype, from.shape), dense_to = RowMajor(to.dtype, to.shape);
  const int64_t bytes = MemoryElements(dense_from) * size;
  context.added_reorders->push_back({context.task.id, "flatten through row-major memory", 2 * bytes});
  return MakeKernel(
      [gather = BoxPlan({from, dense_from}), scatter = BoxPlan({dense_to, to}), threads, size](const RunArguments& run) {
        CopyRows(gather, threads, size, run.data[0], run.workspace);
        CopyRows(scatter, threads, size, run.workspace, run.data[1]);
        return absl::OkStatus();
      },
      bytes);
}

}  // namespace

void CopyRowRange(const BoxPlan& plan, int64_t begin, int64_t end, int64_t element_bytes, const char* from, char* to,
                  int from_operand, int to_operand) {
  plan.ForRows(begin, end, [&](const Row& row) {
    const char* source = from + row.offset[from_operand] * element_bytes;
    char* target = to + row.offset[to_operand] * element_bytes;
    if (source == target) return;
    if (row.contiguous) {
      std::memcpy(target, source, row.size * element_bytes);
      return;
    }
    const int64_t from_stride = row.stride[from_operand], to_stride = row.stride[to_operand];
    switch (element_bytes) {
      case 1:
        return CopyStrided<uint8_t>(source, from_stride, target, to_stride, row.size);
      case 2:
        return CopyStrided<uint16_t>(source, from_stride, target, to_stride, row.size);
      case 4:
        return CopyStrided<uint32_t>(source, from_stride, target, to_stride, row.size);
      default:
        return CopyStrided<uint64_t>(source, from_stride, target, to_stride, row.size);
    }
  });
}

void CopyRows(const BoxPlan& plan, int threads, int64_t element_bytes, char* operand0, char* operand1, bool backwards) {
  ParallelFor(threads, plan.rows(), [&](int64_t begin, int64_t end) {
    if (backwards) {
      CopyRowRange(plan, begin, end, element_bytes, operand1, operand0, /*from_operand=*/1, /*to_operand=*/0);
    } else {
      CopyRowRange(plan, begin, end, element_bytes, operand0, operand1);
    }
  });
}

void ConvertRows(const BoxPlan& plan, int threads, DType type0, char* operand0, DType type1, char* operand1,
                 bool backwards) {
  program::VisitDType(type0, [&]<class T0>(T0) {
    program::VisitDType(type1, [&]<class T1>(T1) {
      ParallelFor(threads, plan.rows(), [&](int64_t begin, int64_t end) {
        if (backwards) {
          ConvertRowRange<T1, T0>(plan, begin, end, /*from_operand=*/1, operand1, operand0);
        } else {
          ConvertRowRange<T0, T1>(plan, begin, end, /*from_operand=*/0, operand0, operand1);
        }
      });
    });
  });
}

PreparedKernel Prepare(const program::Copy&, const TaskContext& context) {
  const View& from = context.view(0);
  const View& to = context.view(1);
  const bool opaque = from.kind == View::Kind::kOpaque || to.kind == View::Kind::kOpaque;
  if (!opaque && from.dtype != to.dtype) {
    if (from.shape != to.shape) return absl::UnimplementedError("a conversion between these layouts");
    return MakeKernel([plan = BoxPlan({from, to}), from_type = from.dtype, to_type = to.dtype,
                       threads = context.threads](const RunArguments& run) {
      ConvertRows(plan, threads, from_type, run.data[0], to_type, run.data[1]);
      return absl::OkStatus();
    });
  }
  if (!opaque) return PrepareBoxCopy(context, from, to);
  const auto is_bytes = [](const View& view) { return view.kind == View::Kind::kOpaque && view.desc == nullptr; };
  if (from.dtype != to.dtype && (is_bytes(from) || is_bytes(to))) {
    return absl::UnimplementedError("a conversion of what is the backend's own");
  }
  if (SameLayout(from, to)) return PrepareBoxCopy(context, Flat(from), Flat(to));
  const bool blocked = from.kind == View::Kind::kBlocked || to.kind == View::Kind::kBlocked;
  if (blocked || !IsDense(from) || !IsDense(to) || from.shape != to.shape) {
    return absl::UnimplementedError("copy between a part of a tensor and weights in a layout of oneDNN");
  }
  const auto desc = [&](const View& view, const View& other) {  // a grouped convolution's weights have a dimension more
    return view.kind == View::Kind::kOpaque ? DescOf(view) : PlainDescLike(DescOf(other), TypeOf(DescOf(view)));
  };
  auto kernel = std::make_unique<PrimitiveKernel>(context);
  kernel->SetReorder(0, desc(from, to), 1, desc(to, from));
  context.added_reorders->push_back(
      {context.task.id, "weights between layouts",
       MemoryElements(from) * SizeInBytes(from.dtype) + MemoryElements(to) * SizeInBytes(to.dtype)});
  return {std::move(kernel)};
}

namespace {

// Rows of one channel of images, of bytes x to y: by a table, as a byte has few values.
template <class T>
void ScaleRows(const BoxPlan& plan, int64_t begin, int64_t end, double scale, double shift, const char* x, char* y) {
  std::array<T, 256> scaled;
  for (size_t byte = 0; byte < scaled.size(); ++byte)
    scaled[byte] = static_cast<T>(scale * static_cast<double>(byte) + shift);
  plan.ForRows(begin, end, [&](const Row& row) {
    const uint8_t* from = reinterpret_cast<const uint8_t*>(x) + row.offset[0];
    T* to = reinterpret_cast<T*>(y) + row.offset[1];
    const int64_t from_stride = row.stride[0], to_stride = row.stride[1];
    for (int64_t i = 0; i < row.size; ++i) to[i * to_stride] = scaled[from[i * from_stride]];
  });
}

Region OfChannel(Region box, int64_t channel) {
  box.offset[1] = channel;
  box.size[1] = 1;
  return box;
}

}  // namespace

PreparedKernel Prepare(const program::Normalise& op, const TaskContext& context) {
  if (context.view(0).kind != View::Kind::kAffine) return absl::UnimplementedError("bytes of images in this layout");
  View x = context.view(0);
  x.shape = program::ChannelsFirst(x.shape);
  x.strides = program::ChannelsFirst(x.strides);
  const View& y = context.view(1);
  std::vector<BoxPlan> plans;
  for (int64_t c = 0; c < y.shape[1]; ++c) {
    const Region box = OfChannel(Region::Whole(y.shape), c);
    plans.push_back(BoxPlan({Slice(x, box), Slice(y, box)}));
  }
  return MakeKernel([plans = std::move(plans), op, dtype = y.dtype, threads = context.threads](const RunArguments& run) {
    for (size_t c = 0; c < plans.size(); ++c) {
      ParallelFor(threads, plans[c].rows(), [&](int64_t begin, int64_t end) {
        program::VisitDType(dtype, [&]<class T>(T) {
          ScaleRows<T>(plans[c], begin, end, op.scale[c], op.shift[c], run.data[0], run.data[1]);
        });
      });
    }
    return absl::OkStatus();
  });
}

PreparedKernel Prepare(const program::Load& op, const TaskContext& context) {
  const program::Input& input = context.program.inputs[op.input];
  const int piece = program::FindPiece(input.pieces, context.operands[0].buffer);
  if (piece < 0) return absl::InvalidArgumentError(absl::StrCat("no piece of input ", input.name, " is for this buffer"));
  const View& to = context.view(0);
  const View from = Slice(RowMajor(input.host_dtype, input.shape), input.pieces[piece].region);
  return MakeKernel([plan = BoxPlan({from, to}), slots = context.slots, index = op.input, size = SizeInBytes(to.dtype),
                     threads = context.threads](const RunArguments& run) {
    CopyRows(plan, threads, size, static_cast<char*>(slots[run.step % 2].inputs[index]), run.data[0]);
    return absl::OkStatus();
  });
}

PreparedKernel Prepare(const program::Store& op, const TaskContext& context) {
  if (context.view(0).kind == View::Kind::kOpaque) {
    return PrepareInRows(context, [&op](const TaskContext& rows) { return Prepare(op, rows); });
  }
  const program::Output& output = context.program.outputs[op.output];
  const int piece = program::FindPiece(output.pieces, context.operands[0].buffer);
  if (piece < 0) return absl::InvalidArgumentError(absl::StrCat("no piece of output ", output.name, " is in this buffer"));
  const View& from = context.view(0);
  const View plain = RowMajor(from.dtype, from.shape);
  const int64_t size = SizeInBytes(from.dtype);
  const auto host = [slots = context.slots, index = op.output, piece](int64_t step) {
    return static_cast<char*>(slots[step % 2].outputs[index][piece]);
  };
  return MakeKernel([plan = BoxPlan({from, plain}), host, size, threads = context.threads](const RunArguments& run) {
    CopyRows(plan, threads, size, run.data[0], host(run.step));
    return absl::OkStatus();
  });
}

absl::Status ReadLogical(const View& view, const char* base, const dnnl::engine& engine, absl::Span<char> bytes) {
  if (view.kind != View::Kind::kOpaque) {
    const BoxPlan plan({view, RowMajor(view.dtype, view.shape)});
    CopyRowRange(plan, 0, plan.rows(), SizeInBytes(view.dtype), base, bytes.data());
    return absl::OkStatus();
  }
  if (view.desc == nullptr) return absl::InvalidArgumentError("the content of this buffer is the backend's own");
  Reorder(engine, *view.desc, base + view.offset * SizeInBytes(view.dtype), PlainDescLike(*view.desc), bytes.data());
  return absl::OkStatus();
}

absl::Status WriteLogical(const View& view, char* base, const dnnl::engine& engine, absl::Span<const char> bytes) {
  if (view.kind != View::Kind::kOpaque) {
    const BoxPlan plan({RowMajor(view.dtype, view.shape), view});
    CopyRowRange(plan, 0, plan.rows(), SizeInBytes(view.dtype), bytes.data(), base);
    return absl::OkStatus();
  }
  if (view.desc == nullptr) return absl::InvalidArgumentError("the content of this buffer is the backend's own");
  Reorder(engine, PlainDescLike(*view.desc), bytes.data(), *view.desc, base + view.offset * SizeInBytes(view.dtype));
  return absl::OkStatus();
}

}  // namespace colonnade::cpu
