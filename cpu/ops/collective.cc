#include "cpu/ops/collective.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "cpu/load/box.h"
#include "cpu/ops/copy.h"
#include "cpu/ops/sum_plan.h"
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

// The sum of some operands, of each member or of one, and where it goes; one source is a plain copy.
struct Sum {
  DType dtype;
  std::vector<std::pair<int, int>> operands;  // (member, use), of the sources and then of the targets
  SumPlan plan;

  Sum(absl::Span<const Place> from, absl::Span<const Place> to) : dtype(from[0].view.dtype), plan(Views(from), Views(to)) {
    for (const absl::Span<const Place> places : {from, to}) {
      for (const Place& place : places) operands.emplace_back(place.member, place.use);
    }
  }

 private:
  static std::vector<View> Views(absl::Span<const Place> places) {
    std::vector<View> views;
    for (const Place& place : places) views.push_back(place.view);
    return views;
  }
};

// A range of rows of a sum, which other members may share.
struct Move {
  std::shared_ptr<const Sum> sum;
  int64_t begin, end;
};

Move WholeOf(absl::Span<const Place> from, absl::Span<const Place> to) {
  auto sum = std::make_shared<const Sum>(from, to);
  const int64_t rows = sum->plan.boxes().rows();
  return {std::move(sum), 0, rows};
}

using MemberData = std::vector<absl::InlinedVector<char*, 4>>;  // by member, then use

// What the members of a transfer share.
struct Meeting {
  explicit Meeting(int members) : rendezvous(members), data(members) {}
  Rendezvous rendezvous;
  MemberData data;
};

void RunCopy(const Move& move, const MemberData& data) {
  const SumPlan& plan = move.sum->plan;
  const int64_t size = program::SizeInBytes(move.sum->dtype);
  const SumPlan::Operand from = plan.sources()[0], to = plan.targets()[0];
  const auto at = [&](int i, int64_t offset) {
    const auto [member, use] = move.sum->operands[i];
    return data[member][use] + offset * size;
  };
  CopyRowRange(plan.boxes(), move.begin, move.end, size, at(0, from.offset), at(1, to.offset), from.layout, to.layout);
}

void RunMove(const Move& move, const MemberData& data) {
  const Sum& sum = *move.sum;
  if (sum.operands.size() == 2) return RunCopy(move, data);
  const auto run = [&]<class T>(T) {
    sum.plan.Run<T>(move.begin, move.end, [&](size_t i) {
      const auto [member, use] = sum.operands[i];
      return reinterpret_cast<T*>(data[member][use]);
    });
  };
  switch (sum.dtype) {
    case DType::kF32:
      return run(float());
    case DType::kF64:
      return run(double());
    case DType::kI32:
      return run(int32_t());
    case DType::kU8:
      return run(uint8_t());
    case DType::kBF16:
      return run(program::BFloat16());
  }
}

class TransferKernel : public Kernel {
 public:
  TransferKernel(std::shared_ptr<Meeting> meeting, int member, std::vector<Move> moves)
      : meeting_(std::move(meeting)), member_(member), moves_(std::move(moves)) {}

  void Bind(absl::Span<char* const> data, char*) override { meeting_->data[member_].assign(data.begin(), data.end()); }

  absl::Status Run(int64_t) override {
    if (!meeting_->rendezvous.Meet()) return absl::CancelledError("the transfer was broken off");
    // A member that has met must also part, even where a move finds no memory and throws: the others wait for it.
    const absl::Cleanup part = [this] { meeting_->rendezvous.Part(); };
    for (const Move& move : moves_) RunMove(move, meeting_->data);
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
  int64_t begin = 0;
  for (int j = 0; j < places.size(); ++j) {
    const int64_t size = places.shape(j, 0)[what.dim_to];
    moves.push_back(WholeOf({places.Whole(j, 0)}, {places.Part(m, 1, what.dim_to, begin, size)}));
    begin += size;
  }
  return moves;
}

std::vector<Move> ReduceScatterTo(int m, const Places& places, const Collective& what) {
  std::vector<Place> sources;
  const int64_t begin = places.Before(m, 1, what.dim_to), size = places.shape(m, 1)[what.dim_to];
  for (int j = 0; j < places.size(); ++j) sources.push_back(places.Part(j, 0, what.dim_to, begin, size));
  return {WholeOf(sources, {places.Whole(m, 1)})};
}

std::vector<Move> AllToAllTo(int m, const Places& places, const Collective& what) {
  std::vector<Move> moves;
  int64_t begin = 0;
  for (int j = 0; j < places.size(); ++j) {
    const int64_t part = places.shape(j, 0)[what.dim_from] / places.size();
    const Place from = places.Part(j, 0, what.dim_from, m * part, part);
    const int64_t size = from.view.shape[what.dim_to];
    moves.push_back(WholeOf({from}, {places.Part(m, 1, what.dim_to, begin, size)}));
    begin += size;
  }
  return moves;
}

// The moves of each member of a reduction, which shares its rows with the others.
std::vector<std::vector<Move>> Shares(const Places& places, absl::Span<const Place> to) {
  const auto sum = std::make_shared<const Sum>(places.WholeOfAll(0), to);
  const int64_t rows = sum->plan.boxes().rows(), members = places.size();
  std::vector<std::vector<Move>> moves;
  for (int64_t m = 0; m < members; ++m) moves.push_back({{sum, rows * m / members, rows * (m + 1) / members}});
  return moves;
}

// Returns the moves of a collective, by member.
std::vector<std::vector<Move>> MovesOf(const Places& places, const Collective& what) {
  const auto of_each = [&](const auto& moves_of) {
    std::vector<std::vector<Move>> moves;
    for (int m = 0; m < places.size(); ++m) moves.push_back(moves_of(m));
    return moves;
  };
  switch (what.kind) {
    case CollectiveKind::kAllGather:
      return of_each([&](int m) { return AllGatherTo(m, places, what); });
    case CollectiveKind::kReduceScatter:
      return of_each([&](int m) { return ReduceScatterTo(m, places, what); });
    case CollectiveKind::kAllToAll:
      return of_each([&](int m) { return AllToAllTo(m, places, what); });
    case CollectiveKind::kAllReduce:
      return Shares(places, places.WholeOfAll(0));
    case CollectiveKind::kReduce:
      return Shares(places, {places.Whole(what.root, 0)});
    case CollectiveKind::kBroadcast:
      return of_each([&](int m) {
        if (m == what.root) return std::vector<Move>();
        return std::vector<Move>{WholeOf({places.Whole(what.root, 0)}, {places.Whole(m, 0)})};
      });
  }
  return {};
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
    moves[receiver].push_back(WholeOf({{1 - receiver, 0, opaque ? Flat(from_view) : from_view}},
                                      {{receiver, to, opaque ? Flat(to_view) : to_view}}));
  }
  return MakeTransfer(std::move(moves));
}

absl::StatusOr<PreparedTransfer> PrepareCollective(absl::Span<const TaskContext> members) {
  const auto& what = std::get<Collective>(members[0].task.what);
  RETURN_IF_ERROR(CheckOpaque(members, what));
  return MakeTransfer(MovesOf(Places(members), what));
}

}  // namespace colonnade::cpu
