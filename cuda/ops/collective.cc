#include "cuda/ops/collective.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/ops/copy.h"
#include "cuda/ops/elementwise.h"
#include "program/status_macros.h"

namespace colonnade::cuda {

using program::Collective;
using program::CollectiveKind;
using program::Region;
using program::Shape;

namespace {

// An operand of one member, or a box of it.
struct Place {
  int member = 0;
  Operand what;
};

// A member's target = Σ sources, in their order; one source is a copy.
struct Move {
  std::vector<Place> sources;
  Place target;
};

// Turns moves into calls, phase by phase.
class Meeting {
 public:
  Meeting(absl::Span<const TaskContext> members, const Reach& can_reach) : members_(members), can_reach_(can_reach) {
    ready_.resize(members.size());
    for (const TaskContext& member : members) workspaces_.emplace_back(member);
  }

  int size() const { return static_cast<int>(members_.size()); }
  const Shape& shape(int member, int use) const { return members_[member].view(use).shape; }
  Place Whole(int member, int use) const { return {member, members_[member].operands[use]}; }
  // [begin, begin + size) of one dimension.
  Place Part(int member, int use, int dimension, int64_t begin, int64_t size) const {
    Place place = Whole(member, use);
    Region box = Region::Whole(place.what.view.shape);
    box.offset[dimension] = begin;
    box.size[dimension] = size;
    place.what.view = Slice(place.what.view, box);
    return place;
  }
  // Σ extents along `dimension` of operand `use` of the members before `member`.
  int64_t Before(int member, int use, int dimension) const {
    int64_t sum = 0;
    for (int m = 0; m < member; ++m) sum += shape(m, use)[dimension];
    return sum;
  }

  // Appends a phase; what must first be packed for members that do not reach it takes one more before.
  absl::Status AddPhase(const std::vector<Move>& moves) {
    std::vector<std::vector<Call>> packs(size()), calls(size());
    bool packs_any = false;
    for (const Move& move : moves) {
      if (program::ElementCount(move.target.what.view.shape) == 0) continue;
      std::vector<Operand> near;
      for (const Place& source : move.sources) {
        // What is copied alone lands where it belongs, if that is one range.
        const bool lands =
            move.sources.size() == 1 && !Reaches(source, move.target.member) && IsDense(move.target.what.view);
        ASSIGN_OR_RETURN(Operand operand,
                         Fetch(source, move.target.member, lands ? &move.target.what : nullptr, packs, calls));
        if (!lands) near.push_back(std::move(operand));
      }
      if (near.empty()) continue;
      const int target = GpuOf(move.target.member), source = GpuOf(move.sources[0].member);
      const bool is_near = !Reaches(move.sources[0], move.target.member);  // Fetch has brought it
      ASSIGN_OR_RETURN(Call call, near.size() == 1 ? CopyCall(near[0], move.target.what, is_near ? target : source, target)
                                                   : SumCall(near, move.target.what));
      calls[move.target.member].push_back(std::move(call));
    }
    for (const std::vector<Call>& of_member : packs) packs_any = packs_any || !of_member.empty();
    for (int m = 0; m < size(); ++m) {
      if (packs_any) ready_[m].phases.push_back(std::move(packs[m]));
      ready_[m].phases.push_back(std::move(calls[m]));
    }
    return absl::OkStatus();
  }

  std::vector<MemberCalls> Finish() {
    for (int m = 0; m < size(); ++m) ready_[m].workspace_bytes = workspaces_[m].bytes();
    return std::move(ready_);
  }

 private:
  int GpuOf(int member) const { return members_[member].gpu; }

  bool Reaches(const Place& source, int member) const { return can_reach_(GpuOf(member), GpuOf(source.member)); }

  // `source` where kernels of `member` can read it: where it is, or copied to `landing`, or else into the member's
  // workspace.
  absl::StatusOr<Operand> Fetch(const Place& source, int member, const Operand* landing,
                                std::vector<std::vector<Call>>& packs, std::vector<std::vector<Call>>& calls) {
    if (Reaches(source, member)) return source.what;
    const View &view = source.what.view, natural = Natural(view.dtype, view.shape);
    const int64_t bytes = program::ElementCount(view.shape) * program::SizeInBytes(view.dtype);
    Operand dense = source.what;
    if (!IsDense(view)) {
      dense = {natural, workspaces_[source.member].Take<char>(bytes)};
      ASSIGN_OR_RETURN(Call pack, CopyCall(source.what, dense, GpuOf(source.member), GpuOf(source.member)));
      packs[source.member].push_back(std::move(pack));
    }
    const Operand landed = landing != nullptr ? *landing : Operand{natural, workspaces_[member].Take<char>(bytes)};
    ASSIGN_OR_RETURN(Call copy, CopyCall(dense, landed, GpuOf(source.member), GpuOf(member)));
    calls[member].push_back(std::move(copy));
    return landed;
  }

  absl::Span<const TaskContext> members_;
  const Reach& can_reach_;
  std::vector<Workspace> workspaces_;
  std::vector<MemberCalls> ready_;
};

// Share m of M of operand 0, along its longest dimension.
Place ShareOf(const Meeting& meeting, int member, int share) {
  const Shape& shape = meeting.shape(member, 0);
  const int longest = static_cast<int>(std::max_element(shape.begin(), shape.end()) - shape.begin());
  const int64_t begin = shape[longest] * share / meeting.size(), end = shape[longest] * (share + 1) / meeting.size();
  return meeting.Part(member, 0, longest, begin, end - begin);
}

// Whether two operands are the same memory, in one order: a member's own part of what it gathers, where it makes it there.
bool AreOne(const Operand& a, const Operand& b) {
  if (a.base != b.base || a.view.offset != b.view.offset || a.view.shape != b.view.shape) return false;
  for (size_t d = 0; d < a.view.shape.size(); ++d) {
    if (a.view.shape[d] > 1 && a.view.strides[d] != b.view.strides[d]) return false;
  }
  return true;
}

std::vector<Move> AllGather(const Meeting& meeting, const Collective& what) {
  std::vector<Move> moves;
  for (int m = 0; m < meeting.size(); ++m) {
    for (int j = 0; j < meeting.size(); ++j) {
      const int64_t size = meeting.shape(j, 0)[what.dim_to];
      const Place source = meeting.Whole(j, 0),
                  target = meeting.Part(m, 1, what.dim_to, meeting.Before(j, 0, what.dim_to), size);
      if (!AreOne(source.what, target.what)) moves.push_back({{source}, target});
    }
  }
  return moves;
}

std::vector<Move> ReduceScatter(const Meeting& meeting, const Collective& what) {
  std::vector<Move> moves;
  for (int m = 0; m < meeting.size(); ++m) {
    const int64_t begin = meeting.Before(m, 1, what.dim_to), size = meeting.shape(m, 1)[what.dim_to];
    Move move{{}, meeting.Whole(m, 1)};
    for (int j = 0; j < meeting.size(); ++j) move.sources.push_back(meeting.Part(j, 0, what.dim_to, begin, size));
    moves.push_back(std::move(move));
  }
  return moves;
}

std::vector<Move> AllToAll(const Meeting& meeting, const Collective& what) {
  std::vector<Move> moves;
  for (int m = 0; m < meeting.size(); ++m) {
    int64_t begin = 0;
    for (int j = 0; j < meeting.size(); ++j) {
      const int64_t part = meeting.shape(j, 0)[what.dim_from] / meeting.size();
      const Place from = meeting.Part(j, 0, what.dim_from, m * part, part);
      const int64_t size = from.what.view.shape[what.dim_to];
      moves.push_back({{from}, meeting.Part(m, 1, what.dim_to, begin, size)});
      begin += size;
    }
  }
  return moves;
}

// What `member` has of the sum of all operands.
Move SumAll(const Meeting& meeting, int member, const std::function<Place(int)>& operand_of) {
  Move move{{}, operand_of(member)};
  for (int j = 0; j < meeting.size(); ++j) move.sources.push_back(operand_of(j));
  return move;
}

absl::Status AddMoves(const Collective& what, Meeting& meeting) {
  std::vector<Move> moves;
  switch (what.kind) {
    case CollectiveKind::kAllGather:
      return meeting.AddPhase(AllGather(meeting, what));
    case CollectiveKind::kReduceScatter:
      return meeting.AddPhase(ReduceScatter(meeting, what));
    case CollectiveKind::kAllToAll:
      return meeting.AddPhase(AllToAll(meeting, what));
    case CollectiveKind::kReduce:
      return meeting.AddPhase({SumAll(meeting, what.root, [&](int j) { return meeting.Whole(j, 0); })});
    case CollectiveKind::kBroadcast:
      for (int m = 0; m < meeting.size(); ++m) {
        if (m != what.root) moves.push_back({{meeting.Whole(what.root, 0)}, meeting.Whole(m, 0)});
      }
      return meeting.AddPhase(moves);
    case CollectiveKind::kAllReduce: {
      // Each member sums its share, then fetches those of the others.
      for (int m = 0; m < meeting.size(); ++m) {
        moves.push_back(SumAll(meeting, m, [&](int j) { return ShareOf(meeting, j, m); }));
      }
      RETURN_IF_ERROR(meeting.AddPhase(moves));
      moves.clear();
      for (int m = 0; m < meeting.size(); ++m) {
        for (int j = 0; j < meeting.size(); ++j) {
          if (j != m) moves.push_back({{ShareOf(meeting, j, j)}, ShareOf(meeting, m, j)});
        }
      }
      return meeting.AddPhase(moves);
    }
  }
  return absl::InternalError("a collective of no kind");
}

}  // namespace

absl::StatusOr<std::vector<MemberCalls>> PrepareExchange(absl::Span<const TaskContext> sides, const Reach& can_reach) {
  Meeting meeting(sides, can_reach);
  std::vector<Move> moves;
  for (int receiver = 0; receiver < 2; ++receiver) {
    const auto& what = std::get<program::Exchange>(sides[receiver].task.what);
    if (what.receives) moves.push_back({{meeting.Whole(1 - receiver, 0)}, meeting.Whole(receiver, what.sends ? 1 : 0)});
  }
  RETURN_IF_ERROR(meeting.AddPhase(moves));
  return meeting.Finish();
}

absl::StatusOr<std::vector<MemberCalls>> PrepareCollective(absl::Span<const TaskContext> members, const Reach& can_reach) {
  Meeting meeting(members, can_reach);
  absl::Status status = AddMoves(std::get<Collective>(members[0].task.what), meeting);
  if (!status.ok()) return status;
  return meeting.Finish();
}

}  // namespace colonnade::cuda
