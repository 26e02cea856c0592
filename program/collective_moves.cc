#include "program/collective_moves.h"

#include <algorithm>
#include <utility>

namespace colonnade::program {
namespace {

class Moves {
 public:
  Moves(const Collective& collective, int members, OperandShape shape_of)
      : collective_(collective), members_(members), shape_of_(shape_of) {}

  std::vector<BoxMove> Of(int target) const {
    switch (collective_.kind) {
      case CollectiveKind::kAllGather:
        return Gather(target);
      case CollectiveKind::kReduceScatter:
        return {SumOfPart(target)};
      case CollectiveKind::kAllToAll:
        return CollectParts(target);
      case CollectiveKind::kReduce:
        if (target == collective_.root) return {SumOfWholes(target)};
        return {};
      case CollectiveKind::kBroadcast:
        if (target != collective_.root) return {{{Whole(collective_.root, 0)}, Whole(target, 0)}};
        return {};
      case CollectiveKind::kAllReduce:
        break;
    }
    return {};
  }

 private:
  OperandBox Whole(int member, int use) const { return WholeOperand(member, use, shape_of_); }
  OperandBox Part(int member, int use, int dimension, int64_t begin, int64_t size) const {
    return PartOfOperand(member, use, shape_of_, dimension, begin, size);
  }

  std::vector<BoxMove> Gather(int target) const {
    std::vector<BoxMove> moves;
    int64_t begin = 0;
    for (int source = 0; source < members_; ++source) {
      const int64_t size = shape_of_(source, 0)[collective_.dim_to];
      moves.push_back({{Whole(source, 0)}, Part(target, 1, collective_.dim_to, begin, size)});
      begin += size;
    }
    return moves;
  }

  BoxMove SumOfPart(int target) const {
    const int dimension = collective_.dim_to;
    int64_t begin = 0;
    for (int before = 0; before < target; ++before) begin += shape_of_(before, 1)[dimension];
    BoxMove sum{{}, Whole(target, 1)};
    for (int source = 0; source < members_; ++source) {
      sum.sources.push_back(Part(source, 0, dimension, begin, shape_of_(target, 1)[dimension]));
    }
    return sum;
  }

  BoxMove SumOfWholes(int target) const {
    BoxMove sum{{}, Whole(target, 0)};
    for (int source = 0; source < members_; ++source) sum.sources.push_back(Whole(source, 0));
    return sum;
  }

  // Each source is cut along dim_from, one part for each target, which joins its parts along dim_to.
  std::vector<BoxMove> CollectParts(int target) const {
    std::vector<BoxMove> moves;
    int64_t begin = 0;
    for (int source = 0; source < members_; ++source) {
      const int64_t size = shape_of_(source, 0)[collective_.dim_from] / members_;
      OperandBox part = Part(source, 0, collective_.dim_from, target * size, size);
      const int64_t joined = part.region.size[collective_.dim_to];
      moves.push_back({{std::move(part)}, Part(target, 1, collective_.dim_to, begin, joined)});
      begin += joined;
    }
    return moves;
  }

  const Collective& collective_;
  const int members_;
  const OperandShape shape_of_;
};

}  // namespace

std::vector<BoxMove> MovesOf(const Collective& collective, int members, OperandShape shape_of) {
  const Moves moves(collective, members, shape_of);
  std::vector<BoxMove> all;
  for (int target = 0; target < members; ++target) {
    for (BoxMove& move : moves.Of(target)) all.push_back(std::move(move));
  }
  return all;
}

void TakeSourcesInTurn(std::vector<BoxMove>& moves, int members) {
  const auto turn_of = [members](const BoxMove& move) {
    const int target = move.target.member;
    const int turn = move.sources.size() == 1 ? (move.sources[0].member - target - 1 + members) % members : 0;
    return std::pair(target, turn);
  };
  std::stable_sort(moves.begin(), moves.end(), [&](const BoxMove& a, const BoxMove& b) { return turn_of(a) < turn_of(b); });
}

OperandBox WholeOperand(int member, int use, OperandShape shape_of) {
  return {member, use, Region::Whole(shape_of(member, use))};
}

OperandBox PartOfOperand(int member, int use, OperandShape shape_of, int dimension, int64_t begin, int64_t size) {
  OperandBox part = WholeOperand(member, use, shape_of);
  part.region.offset[dimension] = begin;
  part.region.size[dimension] = size;
  return part;
}

bool CutsOperands(CollectiveKind kind) {
  return kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll;
}

}  // namespace colonnade::program
