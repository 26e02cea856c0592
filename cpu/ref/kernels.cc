#include "cpu/ref/kernels.h"

#include <variant>

namespace colonnade::cpu::ref {
namespace {

absl::Status Run(const program::Load&, absl::Span<const Tensor>) { return absl::InternalError("load is not a kernel"); }
absl::Status Run(const program::Store&, absl::Span<const Tensor>) { return absl::InternalError("store is not a kernel"); }

}  // namespace

absl::Status Run(const program::Op& op, absl::Span<const Tensor> operands) {
  return std::visit([operands](const auto& o) { return Run(o, operands); }, op);
}

}  // namespace colonnade::cpu::ref
