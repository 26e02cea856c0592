#include "cpu/ops/collective.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/status_macros.h"
#include "cpu/load/box.h"
#include "cpu/ops/copy.h"
#include "cpu/ops/sum_plan.h"
#include "program/collective_moves.h"
#include "program/visit_dtype.h"

namespace colonnade::cpu {

using program::Collective;
using program::CollectiveKind;
using program::DType;

namespace {

// A box of a member's operand; of an opaque operand its memory.
struct MemberBox {
  int member, use;
  View view;
};

// The sum of some operands, of each member or of one, and where it goes; one source is a plain copy.
struct Sum {
  DType dtype;
  std::vector<std::pair<int, int>> operands;  // (member, use), of the sources and then of the targets
  SumPlan plan;

  Sum(absl::Span<const MemberBox> from, absl::Span<const MemberBox> to)
      : dtype(from[0].view.dtype), plan(Views(from), Views(to)) {
    for (const absl::Span<const MemberBox> boxes : {from, to}) {
      for (const MemberBox& box : boxes) operands.emplace_back(box.member, box.use);
    }
  }

 private:
  static std::vector<View> Views(absl::Span<const MemberBox> boxes) {
    std::vector<View> views;
    for (const MemberBox& box : boxes) views.push_back(box.view);
    return views;
  }
};

// A range of rows of a sum, which other members may share.
struct Move {
  std::shared_ptr<const Sum> sum;
  int64_t begin, end;
};

Move AllRows(absl::Span<const MemberBox> from, absl::Span<const MemberBox> to) {
  auto sum = std::make_shared<const Sum>(from, to);
  const int64_t rows = sum->plan.boxes().rows();
  return {std::move(sum), 0, rows};
}

using MovesByMember = std::vector<std::vector<Move>>;
using MemberData = std::vector<absl::InlinedVector<char*, 4>>;  // by member, then use

// What the members of a transfer share.
struct TransferState {
  explicit TransferState(int members) : rendezvous(members), data(members) {}
  Rendezvous rendezvous;
  MemberData data;
};

void RunCopy(const Move& move, const MemberData& data) {
  const SumPlan& plan = move.sum->plan;
  const int64_t size = program::SizeInBytes(move.sum->dtype);
  const SumPlan::Location from = plan.sources()[0], to = plan.targets()[0];
  const auto at = [&](int i, int64_t offset) {
    const auto [member, use] = move.sum->operands[i];
    return data[member][use] + offset * size;
  };
  CopyRowRange(plan.boxes(), move.begin, move.end, size, at(0, from.offset), at(1, to.offset), from.layout, to.layout);
}

void RunMove(const Move& move, const MemberData& data) {
  const Sum& sum = *move.sum;
  if (sum.operands.size() == 2) return RunCopy(move, data);
  program::VisitDType(sum.dtype, [&]<class T>(T) {
    sum.plan.Run<T>(move.begin, move.end, [&](size_t i) {
      const auto [member, use] = sum.operands[i];
      return reinterpret_cast<T*>(data[member][use]);
    });
  });
}

class TransferKernel : public Kernel {
 public:
  TransferKernel(std::shared_ptr<TransferState> state, int member, std::vector<Move> moves)
      : state_(std::move(state)), member_(member), moves_(std::move(moves)) {}

  void Bind(absl::Span<char* const> data, char*) override { state_->data[member_].assign(data.begin(), data.end()); }

  absl::Status Run(int64_t) override {
    if (!state_->rendezvous.Meet()) return absl::CancelledError("the transfer was broken off");
    // A member that has met must also part, even where a move finds no memory and throws: the others wait for it.
    const absl::Cleanup part = [this] { state_->rendezvous.Part(); };
    for (const Move& move : moves_) RunMove(move, state_->data);
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<TransferState> state_;
  int member_;
  std::vector<Move> moves_;
};

PreparedTransfer MakeTransfer(MovesByMember moves) {
  const int members = static_cast<int>(moves.size());
  auto state = std::make_shared<TransferState>(members);
  PreparedTransfer transfer;
  for (int m = 0; m < members; ++m) {
    transfer.kernels.push_back(std::make_unique<TransferKernel>(state, m, std::move(moves[m])));
  }
  transfer.rendezvous = std::shared_ptr<Rendezvous>(state, &state->rendezvous);
  return transfer;
}

MemberBox BoxOf(absl::Span<const TaskContext> members, const program::OperandBox& box) {
  View view = Slice(members[box.member].view(box.use), box.region);
  if (view.kind == View::Kind::kOpaque) view = Flat(view);
  return {box.member, box.use, std::move(view)};
}

std::vector<MemberBox> BoxesOf(absl::Span<const TaskContext> members, absl::Span<const program::OperandBox> boxes) {
  std::vector<MemberBox> of_members;
  for (const program::OperandBox& box : boxes) of_members.push_back(BoxOf(members, box));
  return of_members;
}

// Each member sums a range of rows.
MovesByMember ShareRows(const std::shared_ptr<const Sum>& sum, int64_t members) {
  const int64_t rows = sum->plan.boxes().rows();
  MovesByMember moves;
  for (int64_t m = 0; m < members; ++m) moves.push_back({{sum, rows * m / members, rows * (m + 1) / members}});
  return moves;
}

MovesByMember MovesOf(absl::Span<const TaskContext> members, const Collective& collective) {
  const int count = static_cast<int>(members.size());
  const auto shape_of = [&](int member, int use) -> const program::Shape& { return members[member].view(use).shape; };
  if (collective.kind == CollectiveKind::kAllReduce || collective.kind == CollectiveKind::kReduce) {
    std::vector<MemberBox> all;
    for (int m = 0; m < count; ++m) all.push_back(BoxOf(members, program::WholeOperand(m, 0, shape_of)));
    const bool to_all = collective.kind == CollectiveKind::kAllReduce;
    return ShareRows(std::make_shared<const Sum>(all, to_all ? all : std::vector{all[collective.root]}), count);
  }
  MovesByMember moves(count);
  for (const program::BoxMove& move : program::MovesOf(collective, count, shape_of)) {
    moves[move.target.member].push_back(AllRows(BoxesOf(members, move.sources), {BoxOf(members, move.target)}));
  }
  return moves;
}

// Opaque operands must be alike on all members, and are moved whole.
absl::Status CheckOpaque(absl::Span<const TaskContext> members, CollectiveKind kind) {
  for (const TaskContext& member : members) {
    for (size_t use = 0; use < member.operands.size(); ++use) {
      const View &view = member.view(use), &first = members[0].view(use);
      if (view.kind != View::Kind::kOpaque && first.kind != View::Kind::kOpaque) continue;
      if (program::CutsOperands(kind)) return absl::UnimplementedError("this collective cuts weights in a layout of oneDNN");
      if (!SameLayout(view, first)) return absl::InternalError("members hold their operands in different layouts of oneDNN");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PreparedTransfer> PrepareExchange(absl::Span<const TaskContext> sides) {
  MovesByMember moves(2);
  const auto shape_of = [&](int side, int use) -> const program::Shape& { return sides[side].view(use).shape; };
  for (int receiver = 0; receiver < 2; ++receiver) {
    const auto& exchange = std::get<program::Exchange>(sides[receiver].task.body);
    if (!exchange.receives) continue;
    const int to = exchange.sends ? 1 : 0;
    const View &from_view = sides[1 - receiver].view(0), &to_view = sides[receiver].view(to);
    const bool opaque = from_view.kind == View::Kind::kOpaque || to_view.kind == View::Kind::kOpaque;
    if (opaque && !SameLayout(from_view, to_view)) {
      return absl::InternalError("the sides of an exchange hold it in different layouts of oneDNN");
    }
    moves[receiver].push_back(AllRows({BoxOf(sides, program::WholeOperand(1 - receiver, 0, shape_of))},
                                      {BoxOf(sides, program::WholeOperand(receiver, to, shape_of))}));
  }
  return MakeTransfer(std::move(moves));
}

absl::StatusOr<PreparedTransfer> PrepareCollective(absl::Span<const TaskContext> members) {
  const auto& collective = std::get<Collective>(members[0].task.body);
  RETURN_IF_ERROR(CheckOpaque(members, collective.kind));
  return MakeTransfer(MovesOf(members, collective));
}

}  // namespace colonnade::cpu
