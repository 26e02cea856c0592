// Which boxes a collective moves between its members, and which of them it sums: its meaning, for the backends that do it by
// copies and sums. Pure functions.
#ifndef COLONNADE_PROGRAM_COLLECTIVE_MOVES_H_
#define COLONNADE_PROGRAM_COLLECTIVE_MOVES_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "program/task.h"
#include "program/types.h"

namespace colonnade::program {

// A box of an operand, `use` of a member; offsets count from the operand's first element.
struct OperandBox {
  int member = 0, use = 0;
  Region region;
};

// target = Σ sources, in their order; one source is a copy.
struct BoxMove {
  std::vector<OperandBox> sources;
  OperandBox target;
};

// The shape of operand `use` of a member.
using OperandShape = absl::FunctionRef<const Shape&(int member, int use)>;

// Returns the moves of a collective of so many members, by target and then by source. All of them may run at once. REQUIRES:
// no all-reduce, in which each element is summed once and copied to all; who sums what is up to the backend.
std::vector<BoxMove> MovesOf(const Collective& collective, int members, OperandShape shape_of);

// Orders the moves of members that all run theirs one after the other, at the same time, so that they do not all begin with
// the same source. Copies to each target come from the member after it, then from the next, and last from itself. Sums keep
// the order of their sources.
void TakeSourcesInTurn(std::vector<BoxMove>& moves, int members);

// Returns all of an operand.
OperandBox WholeOperand(int member, int use, OperandShape shape_of);

// Returns [begin, begin + size) of one dimension of an operand.
OperandBox PartOfOperand(int member, int use, OperandShape shape_of, int dimension, int64_t begin, int64_t size);

// Returns whether members exchange parts of their operands, so that a part must be a box in memory.
bool CutsOperands(CollectiveKind kind);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_COLLECTIVE_MOVES_H_
