#include "cpu/ops/collective.h"

#include <array>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cpu/load/box.h"
#include "cpu/ops/copy.h"
#include "program/bfloat16.h"
#include "program/status_macros.h"

namespace colonnade::cpu {

using program::Collective;
using program::CollectiveKind;
using program::DType;
using program::Region;
using program::Shape;

namespace {

// An operand of one member, or a box of it.
struct Place {
  int member, use;
  View view;
};

// Each target = Σ sources, over a range of rows; one source is a plain copy.
struct Move {
  std::vector<Place> sources, targets;
  BoxPlan plan;
  int64_t begin = 0, end = 0;

  Move(std::vector<Place> from, std::vector<Place> to) : sources(std::move(from)), targets(std::move(to)) {
    std::vector<View> views;
    for (const Place& place : sources) views.push_back(place.view);
    for (const Place& place : targets) views.push_back(place.view);
    plan = BoxPlan(views);
    end = plan.rows();
  }
  // The share of member m of M of the rows.
  Move Share(int m, int members) && {
    begin = plan.rows() * m / members;
    end = plan.rows() * (m + 1) / members;
    return std::move(*this);
  }
};

// What the members of a transfer share.
struct Meeting {
  explicit Meeting(int members) : rendezvous(members), data(members) {}
  Rendezvous rendezvous;
  std::vector<absl::InlinedVector<char*, 4>> data;  // by member, then use
};

template <class T>
void SumRows(const Move& move, const std::vector<absl::InlinedVector<char*, 4>>& data) {
  const int sources = static_cast<int>(move.sources.size()), targets = static_cast<int>(move.targets.size());
  const auto base = [&](const Place& place) { return reinterpret_cast<T*>(data[place.member][place.use]); };
  using Sum = std::conditional_t<std::is_same_v<T, program::BFloat16>, float, T>;
  move.plan.ForRows(move.begin, move.end, [&](const Row& row) {
    std::array<Sum, BoxPlan::kMaxRow> sum;
    for (int j = 0; j < sources; ++j) {
      const T* x = base(move.sources[j]) + row.offset[j];
      const int64_t stride = row.stride[j];
      if (j == 0) {
        for (int64_t i = 0; i < row.size; ++i) sum[i] = x[i * stride];
      } else if (stride == 1) {
        for (int64_t i = 0; i < row.size; ++i) sum[i] += x[i];
      } else {
        for (int64_t i = 0; i < row.size; ++i) sum[i] += x[i * stride];
      }
    }
    for (int j = 0; j < targets; ++j) {
      T* y = base(move.targets[j]) + row.offset[sources + j];
      const int64_t stride = row.stride[sources + j];
      for (int64_t i = 0; i < row.size; ++i) y[i * stride] = static_cast<T>(sum[i]);
    }
  });
}

void RunMove(const Move& move, const std::vector<absl::InlinedVector<char*, 4>>& data) {
  const DType dtype = move.sources[0].view.dtype;
  if (move.sources.size() == 1 && move.targets.size() == 1) {
    const Place &from = move.sources[0], &to = move.targets[0];
    CopyRowRange(move.plan, move.begin, move.end, program::SizeInBytes(dtype), data[from.member][from.use],
                 data[to.member][to.use]);
    return;
  }
  switch (dtype) {
    case DType::kF32:
      return SumRows<float>(move, data);
    case DType::kF64:
      return SumRows<double>(move, data);
    case DType::kI32:
      return SumRows<int32_t>(move, data);
    case DType::kU8:
      return SumRows<uint8_t>(move, data);
    case DType::kBF16:
      return SumRows<program::BFloat16>(move, data);
  }
}

class TransferKernel : public Kernel {
 public:
  TransferKernel(std::shared_ptr<Meeting> meeting, int member, std::vector<Move> moves)
      : meeting_(std::move(meeting)), member_(member), moves_(std::move(moves)) {}

  void Bind(absl::Span<char* const> data, char*) override { meeting_->data[member_].assign(data.begin(), data.end()); }

  absl::Status Run(int64_t) override {
    if (!meeting_->rendezvous.Meet()) return absl::CancelledError("the transfer was broken off");
    for (const Move& move : moves_) RunMove(move, meeting_->data);
    if (!meeting_->rendezvous.Meet()) return absl::CancelledError("the transfer was broken off");
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<Meeting> meeting_;
  int member_;
  std::vector<Move> moves_;
};

PreparedTransfer MakeTransfer(std::vector<std::vector<Move>> moves) {
  const int members = static_cast<int>(moves.size());
  auto meeting = std::make_shared<Meeting>(members);
  PreparedTransfer transfer;
  for (int m = 0; m < members; ++m) {
    transfer.kernels.push_back(std::make_unique<TransferKernel>(meeting, m, std::move(moves[m])));
  }
  transfer.rendezvous = std::shared_ptr<Rendezvous>(meeting, &meeting->rendezvous);
  return transfer;
}

// Operand `use` of each member; opaque ones as flat memory.
class Places {
 public:
  explicit Places(absl::Span<const TaskContext> members) : members_(members) {}

  int size() const { return static_cast<int>(members_.size()); }
  const Shape& shape(int member, int use) const { return members_[member].view(use).shape; }

  Place Whole(int member, int use) const {
    const View& view = members_[member].view(use);
    return {member, use, view.kind == View::Kind::kOpaque ? Flat(view) : view};
  }
  // [begin, begin + size) of one dimension.
  Place Part(int member, int use, int dimension, int64_t begin, int64_t size) const {
    Region box = Region::Whole(shape(member, use));
    box.offset[dimension] = begin;
    box.size[dimension] = size;
    return {member, use, Slice(members_[member].view(use), box)};
  }
  std::vector<Place> WholeOfAll(int use) const {
    std::vector<Place> all;
    for (int m = 0; m < size(); ++m) all.push_back(Whole(m, use));
    return all;
  }
  // Σ extents along `dimension` of operand `use` of the members before `member`.
  int64_t Before(int member, int use, int dimension) const {
    int64_t sum = 0;
    for (int m = 0; m < member; ++m) sum += shape(m, use)[dimension];
    return sum;
  }

 private:
  absl::Span<const TaskContext> members_;
};

std::vector<Move> AllGatherTo(int m, const Places& places, const Collective& what) {
  std::vector<Move> moves;
  for (int j = 0; j < places.size(); ++j) {
    const int64_t size = places.shape(j, 0)[what.dim_to];
    moves.push_back(Move({places.Whole(j, 0)}, {places.Part(m, 1, what.dim_to, places.Before(j, 0, what.dim_to), size)}));
  }
  return moves;
}

std::vector<Move> ReduceScatterTo(int m, const Places& places, const Collective& what) {
  std::vector<Place> sources;
  const int64_t begin = places.Before(m, 1, what.dim_to), size = places.shape(m, 1)[what.dim_to];
  for (int j = 0; j < places.size(); ++j) sources.push_back(places.Part(j, 0, what.dim_to, begin, size));
  std::vector<Move> moves;
  moves.push_back(Move(std::move(sources), {places.Whole(m, 1)}));
  return moves;
}

std::vector<Move> AllToAllTo(int m, const Places& places, const Collective& what) {
  std::vector<Move> moves;
  int64_t begin = 0;
  for (int j = 0; j < places.size(); ++j) {
    const int64_t part = places.shape(j, 0)[what.dim_from] / places.size();
    const Place from = places.Part(j, 0, what.dim_from, m * part, part);
    const int64_t size = from.view.shape[what.dim_to];
    moves.push_back(Move({from}, {places.Part(m, 1, what.dim_to, begin, size)}));
    begin += size;
  }
  return moves;
}

std::vector<Move> MovesOf(int m, const Places& places, const Collective& what) {
  std::vector<Move> moves;
  switch (what.kind) {
    case CollectiveKind::kAllGather:
      return AllGatherTo(m, places, what);
    case CollectiveKind::kReduceScatter:
      return ReduceScatterTo(m, places, what);
    case CollectiveKind::kAllToAll:
      return AllToAllTo(m, places, what);
    case CollectiveKind::kAllReduce:
      moves.push_back(Move(places.WholeOfAll(0), places.WholeOfAll(0)).Share(m, places.size()));
      return moves;
    case CollectiveKind::kReduce:
      moves.push_back(Move(places.WholeOfAll(0), {places.Whole(what.root, 0)}).Share(m, places.size()));
      return moves;
    case CollectiveKind::kBroadcast:
      if (m != what.root) moves.push_back(Move({places.Whole(what.root, 0)}, {places.Whole(m, 0)}));
      return moves;
  }
  return moves;
}

// Opaque operands must be alike on all members, and are moved whole.
absl::Status CheckOpaque(absl::Span<const TaskContext> members, const Collective& what) {
  const bool cuts = what.kind == CollectiveKind::kAllGather || what.kind == CollectiveKind::kReduceScatter ||
                    what.kind == CollectiveKind::kAllToAll;
  for (const TaskContext& member : members) {
    for (size_t use = 0; use < member.operands.size(); ++use) {
      const View &view = member.view(use), &first = members[0].view(use);
      if (view.kind != View::Kind::kOpaque && first.kind != View::Kind::kOpaque) continue;
      if (cuts) return absl::UnimplementedError("this collective cuts weights in a layout of oneDNN");
      if (!SameLayout(view, first)) return absl::InternalError("members hold their operands in different layouts of oneDNN");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PreparedTransfer> PrepareExchange(absl::Span<const TaskContext> sides) {
  std::vector<std::vector<Move>> moves(2);
  for (int receiver = 0; receiver < 2; ++receiver) {
    const auto& what = std::get<program::Exchange>(sides[receiver].task.what);
    if (!what.receives) continue;
    const int to = what.sends ? 1 : 0;
    const View from_view = sides[1 - receiver].view(0), to_view = sides[receiver].view(to);
    const bool opaque = from_view.kind == View::Kind::kOpaque || to_view.kind == View::Kind::kOpaque;
    if (opaque && !SameLayout(from_view, to_view)) {
      return absl::InternalError("the sides of an exchange hold it in different layouts of oneDNN");
    }
    moves[receiver].push_back(
        Move({{1 - receiver, 0, opaque ? Flat(from_view) : from_view}}, {{receiver, to, opaque ? Flat(to_view) : to_view}}));
  }
  return MakeTransfer(std::move(moves));
}

absl::StatusOr<PreparedTransfer> PrepareCollective(absl::Span<const TaskContext> members) {
  const auto& what = std::get<Collective>(members[0].task.what);
  const int size = static_cast<int>(members.size());
  if (2 * size > BoxPlan::kMaxOperands) {
    return absl::UnimplementedError(absl::StrCat("a collective of ", size, " members; at most ", BoxPlan::kMaxOperands / 2));
  }
  RETURN_IF_ERROR(CheckOpaque(members, what));
  const Places places(members);
  std::vector<std::vector<Move>> moves;
  for (int m = 0; m < size; ++m) moves.push_back(MovesOf(m, places, what));
  return MakeTransfer(std::move(moves));
}

}  // namespace colonnade::cpu
