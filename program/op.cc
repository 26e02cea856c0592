#include "program/op.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "program/op_table.h"

namespace colonnade::program {
namespace {

template <class O>
constexpr bool kHasSeveralNames = requires {
  OpTraits<O>::Each();
};

template <class O>
const char* NameOf(const O& op) {
  if constexpr (kHasSeveralNames<O>) {
    return OpTraits<O>::NameOf(op);
  } else {
    return OpTraits<O>::kName;
  }
}

template <size_t index = 0>
void AppendOps(std::vector<Op>& ops) {
  if constexpr (index < std::variant_size_v<Op>) {
    using O = std::variant_alternative_t<index, Op>;
    if constexpr (kHasSeveralNames<O>) {
      for (const O& op : OpTraits<O>::Each()) ops.push_back(op);
    } else {
      ops.push_back(O{});
    }
    AppendOps<index + 1>(ops);
  }
}

// Which of the operands in a row of the table are there.
struct Row {
  absl::Span<const OperandTrait> operands;
  bool has_bias = false;
};

Row RowOf(const Op& op) {
  return std::visit(
      []<class O>(const O& attributes) {
        Row row{OpTraits<O>::kOperands};
        if constexpr (requires { attributes.bias; }) row.has_bias = attributes.bias;
        return row;
      },
      op);
}

}  // namespace

const char* Name(const Op& op) {
  return std::visit([](const auto& attributes) { return NameOf(attributes); }, op);
}

std::vector<Op> AllOps() {
  std::vector<Op> ops;
  AppendOps(ops);
  return ops;
}

CostClass CostClassOf(const Op& op) {
  return std::visit([]<class O>(const O&) { return OpTraits<O>::kCost; }, op);
}

LayoutRule LayoutRuleOf(const Op& op) {
  return std::visit([]<class O>(const O&) { return OpTraits<O>::kLayout; }, op);
}

std::optional<CostClass> CostClassOf(absl::string_view name) {
  for (const Op& op : AllOps()) {
    if (Name(op) == name) return CostClassOf(op);
  }
  return std::nullopt;
}

std::optional<OperandTraits> TraitsOfOperands(const Op& op, size_t count) {
  const Row row = RowOf(op);
  size_t fixed = 0, repeating = 0, optional = 0;
  for (const OperandTrait& operand : row.operands) {
    switch (operand.occurs) {
      case Occurs::kOnce:
        ++fixed;
        break;
      case Occurs::kIfBias:
        fixed += row.has_bias ? 1 : 0;
        break;
      case Occurs::kAllOrNone:
        ++optional;
        break;
      case Occurs::kOnceOrMore:
        ++repeating;
        break;
    }
  }
  if (count < fixed) return std::nullopt;
  const size_t more = count - fixed;
  if (repeating > 0 ? more == 0 || more % repeating != 0 : more != 0 && more != optional) return std::nullopt;
  OperandTraits traits;
  for (size_t i = 0; i < row.operands.size(); ++i) {
    const OperandTrait& operand = row.operands[i];
    if (operand.occurs == Occurs::kIfBias && !row.has_bias) continue;
    if (operand.occurs == Occurs::kAllOrNone && more == 0) continue;
    if (operand.occurs != Occurs::kOnceOrMore) {
      traits.push_back(&operand);
      continue;
    }
    for (size_t j = 0; j < more; ++j) traits.push_back(&row.operands[i + j % repeating]);
    i += repeating - 1;
  }
  return traits;
}

bool HasOptionalOperands(const Op& op, size_t count) {
  const std::optional<OperandTraits> traits = TraitsOfOperands(op, count);
  return traits.has_value() &&
         absl::c_any_of(*traits, [](const OperandTrait* operand) { return operand->occurs == Occurs::kAllOrNone; });
}

absl::Status CheckTensorTypes(const Program& program, const Task& task, const Op& op, absl::Span<const DType> types) {
  const std::optional<OperandTraits> traits = TraitsOfOperands(op, task.uses.size());
  for (size_t i = 0; traits.has_value() && i < traits->size(); ++i) {
    const DType dtype = program.buffer(task.uses[i].buffer).dtype;
    if (!IsTensor((*traits)[i]->role) || absl::c_linear_search(types, dtype)) continue;
    const auto name = [](std::string* out, DType type) { out->append(Name(type)); };
    return absl::InvalidArgumentError(absl::StrCat("operand ", i, " (", (*traits)[i]->name, ") of ", Name(dtype),
                                                   "; expected ", absl::StrJoin(types, " or ", name)));
  }
  return absl::OkStatus();
}

std::string DescribeOperands(const Op& op) {
  const Row row = RowOf(op);
  std::string text;
  for (const OperandTrait& operand : row.operands) {
    if (operand.occurs == Occurs::kIfBias && !row.has_bias) continue;
    const bool maybe = operand.occurs == Occurs::kAllOrNone, often = operand.occurs == Occurs::kOnceOrMore;
    absl::StrAppend(&text, text.empty() ? "" : ", ", maybe ? "[" : "", operand.name, " ", Name(operand.access),
                    maybe ? "]" : "", often ? " …" : "");
  }
  return text;
}

int OperandOf(const Op& op, size_t count, Role role) {
  const std::optional<OperandTraits> traits = TraitsOfOperands(op, count);
  for (size_t i = 0; traits.has_value() && i < traits->size(); ++i) {
    if ((*traits)[i]->role == role) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace colonnade::program
