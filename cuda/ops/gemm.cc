#include "cuda/ops/gemm.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cuda/ops/elementwise.h"
#include "program/product_uses.h"

namespace colonnade::cuda {
namespace {

// A matrix whose columns are neighbours, by its first element and the distance of its rows.
struct Matrix {
  char* data = nullptr;
  int64_t row = 0;
};

absl::StatusOr<Matrix> MatrixOf(const TaskContext& context, int use) {
  const View& view = context.view(use);
  if (view.shape[1] > 1 && view.strides[1] != 1) {
    return absl::UnimplementedError(absl::StrCat("operand ", use, ": a matrix whose columns are not neighbours"));
  }
  // One row may stand at any distance; libraries want it to be at least the row.
  return Matrix{context.operands[use].base + view.offset * program::SizeInBytes(view.dtype),
                std::max(view.strides[0], view.shape[1])};
}

// The product c = A·B of three operands; rows and columns are c's.
absl::StatusOr<MatrixProduct> Product(const TaskContext& context, int a, int b, int c, int64_t depth) {
  absl::StatusOr<Matrix> left = MatrixOf(context, a), right = MatrixOf(context, b), result = MatrixOf(context, c);
  for (const auto* matrix : {&left, &right, &result}) {
    if (!matrix->ok()) return matrix->status();
  }
  const program::Shape& shape = context.view(c).shape;
  return MatrixProduct{.rows = shape[0],
                       .columns = shape[1],
                       .depth = depth,
                       .dtype = context.view(a).dtype,
                       .c_dtype = context.view(c).dtype,
                       .a = left->data,
                       .b = right->data,
                       .lda = left->row,
                       .ldb = right->row,
                       .ldc = result->row,
                       .c = result->data,
                       .precision = context.precision};
}

PreparedTask Finish(const TaskContext& context, const MatrixProduct& product, Workspace& workspace,
                    std::vector<Call> after) {
  Call call(product);
  ASSIGN_OR_RETURN(int64_t bytes, context.choose(call));
  auto& chosen = std::get<MatrixProduct>(call);
  chosen.workspace_bytes = bytes;
  chosen.workspace = workspace.Take<char>(bytes);
  TaskCalls ready;
  ready.calls.push_back(std::move(call));
  for (Call& next : after) ready.calls.push_back(std::move(next));
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

}  // namespace

// y [n, O] = x [n, I]·Wᵀ.
PreparedTask Prepare(const program::FullyConnectedForward& op, const TaskContext& context) {
  const program::ProductUses uses = program::ForwardUses(op.bias);
  ASSIGN_OR_RETURN(MatrixProduct product, Product(context, uses.x, uses.w, uses.y, context.view(uses.x).shape[1]));
  product.transpose_b = true;
  MatrixProduct fused = product;
  fused.relu = op.relu;
  if (op.bias) {
    fused.bias = context.operands[uses.bias].base +
                 context.view(uses.bias).offset * program::SizeInBytes(context.view(uses.bias).dtype);
  }
  Workspace workspace(context);
  PreparedTask ready = Finish(context, fused, workspace, {});
  if (ready.ok() || !absl::IsUnimplemented(ready.status()) || !(op.bias || op.relu)) return ready;
  ASSIGN_OR_RETURN(Call rest,
                   BiasAndReluCall(context.operands[uses.y], op.bias ? &context.operands[uses.bias] : nullptr, op.relu));
  return Finish(context, product, workspace, {std::move(rest)});
}

// dx [n, I] = dy [n, O]·W.
PreparedTask Prepare(const program::FullyConnectedBackwardData&, const TaskContext& context) {
  ASSIGN_OR_RETURN(MatrixProduct product, Product(context, 0, 1, 2, context.view(0).shape[1]));
  Workspace workspace(context);
  return Finish(context, product, workspace, {});
}

// dW [O, I] = dyᵀ·x.
PreparedTask Prepare(const program::FullyConnectedBackwardWeights& op, const TaskContext& context) {
  ASSIGN_OR_RETURN(MatrixProduct product, Product(context, 1, 0, 2, context.view(0).shape[0]));
  product.transpose_a = true;
  Workspace workspace(context);
  std::vector<Call> after;
  if (op.bias) {
    absl::Status status = AppendChannelSums(context.operands[1], context.operands[3], workspace, after);
    if (!status.ok()) return status;
  }
  return Finish(context, product, workspace, std::move(after));
}

}  // namespace colonnade::cuda
