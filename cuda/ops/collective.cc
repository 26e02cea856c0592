#include "cuda/ops/collective.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cuda/ops/copy.h"
#include "cuda/ops/elementwise.h"
#include "program/collective_moves.h"
#include "program/strides.h"

namespace colonnade::cuda {

using program::BoxMove;
using program::Collective;
using program::CollectiveKind;
using program::OperandBox;
using program::Shape;

namespace {

// Whether two operands are the same memory, in one order: a member's own part of what it gathers, where it makes it there.
bool AreOne(const Operand& a, const Operand& b) {
  return a.base == b.base && a.view.offset == b.view.offset && a.view.shape == b.view.shape &&
         program::StrideAlike(a.view.strides, b.view.strides, a.view.shape);
}

int64_t BytesOf(const View& view) { return program::ElementCount(view.shape) * program::SizeInBytes(view.dtype); }

// Turns moves into calls, phase by phase.
class Meeting {
 public:
  Meeting(absl::Span<const TaskContext> members, const Reach& can_reach) : members_(members), can_reach_(can_reach) {
    ready_.resize(members.size());
    for (const TaskContext& member : members) workspaces_.emplace_back(member);
  }

  int size() const { return static_cast<int>(members_.size()); }
  const Shape& shape(int member, int use) const { return members_[member].view(use).shape; }
  const View& view(int member) const { return members_[member].view(0); }
  auto shapes() const {
    return [this](int member, int use) -> const Shape& { return shape(member, use); };
  }
  Operand At(const OperandBox& box) const {
    Operand operand = members_[box.member].operands[box.use];
    operand.view = Slice(operand.view, box.region);
    return operand;
  }

  // Appends a phase; what must first be packed for members that do not reach it takes one more before.
  absl::Status AddPhase(const std::vector<BoxMove>& moves) {
    Calls packs(size()), calls(size());
    for (const BoxMove& move : moves) RETURN_IF_ERROR(AddMove(move, packs, calls));
    const bool packs_any = std::any_of(packs.begin(), packs.end(), [](const auto& of_member) { return !of_member.empty(); });
    for (int m = 0; m < size(); ++m) {
      if (packs_any) ready_[m].phases.push_back(std::move(packs[m]));
      ready_[m].phases.push_back(std::move(calls[m]));
    }
    return absl::OkStatus();
  }

  // Appends two phases: each member sums all of every operand 0, in a workspace since others still read what is there, and
  // then puts the sum in its place.
  absl::Status AddSumsByEach() {
    std::vector<Operand> sources;
    for (const TaskContext& member : members_) sources.push_back(member.operands[0]);
    for (int m = 0; m < size(); ++m) {
      const View& view = sources[m].view;
      const Operand sum = {Natural(view.dtype, view.shape), workspaces_[m].Take<char>(BytesOf(view))};
      std::vector<Call> adds;
      RETURN_IF_ERROR(AppendSum(sources, sum, workspaces_[m], adds));
      ASSIGN_OR_RETURN(Call put, CopyCall(sum, sources[m], GpuOf(m), GpuOf(m)));
      ready_[m].phases.push_back(std::move(adds));
      ready_[m].phases.push_back({std::move(put)});
    }
    return absl::OkStatus();
  }

  bool AllReachEachOther() const {
    for (const TaskContext& a : members_) {
      for (const TaskContext& b : members_) {
        if (!can_reach_(a.gpu, b.gpu)) return false;
      }
    }
    return true;
  }

  std::vector<MemberCalls> Finish() {
    for (int m = 0; m < size(); ++m) ready_[m].workspace_bytes = workspaces_[m].bytes();
    return std::move(ready_);
  }

 private:
  using Calls = std::vector<std::vector<Call>>;  // by member

  int GpuOf(int member) const { return members_[member].gpu; }

  bool Reaches(const OperandBox& source, int member) const { return can_reach_(GpuOf(member), GpuOf(source.member)); }

  absl::Status AddMove(const BoxMove& move, Calls& packs, Calls& calls) {
    const int member = move.target.member;
    const Operand target = At(move.target);
    if (program::ElementCount(target.view.shape) == 0) return absl::OkStatus();
    const OperandBox& first = move.sources[0];
    const bool is_copy = move.sources.size() == 1, reaches = Reaches(first, member);
    if (is_copy && first.member == member && AreOne(At(first), target)) return absl::OkStatus();
    // What is copied alone lands where it belongs, if that is one range.
    if (is_copy && !reaches && IsDense(target.view)) return Fetch(first, member, &target, packs, calls).status();
    std::vector<Operand> near;
    for (const OperandBox& source : move.sources) {
      ASSIGN_OR_RETURN(Operand operand, Fetch(source, member, nullptr, packs, calls));
      near.push_back(std::move(operand));
    }
    if (!is_copy) return AppendSum(near, target, workspaces_[member], calls[member]);
    const int from_gpu = reaches ? GpuOf(first.member) : GpuOf(member);
    ASSIGN_OR_RETURN(Call call, CopyCall(near[0], target, from_gpu, GpuOf(member)));
    calls[member].push_back(std::move(call));
    return absl::OkStatus();
  }

  // Returns `source` where kernels of `member` can read it: where it is, or copied to `landing`, or else into the member's
  // workspace.
  absl::StatusOr<Operand> Fetch(const OperandBox& source, int member, const Operand* landing, Calls& packs, Calls& calls) {
    const Operand there = At(source);
    if (Reaches(source, member)) return there;
    const View &view = there.view, natural = Natural(view.dtype, view.shape);
    const int64_t bytes = BytesOf(view);
    Operand dense = there;
    if (!IsDense(view)) {
      dense = {natural, workspaces_[source.member].Take<char>(bytes)};
      ASSIGN_OR_RETURN(Call pack, CopyCall(there, dense, GpuOf(source.member), GpuOf(source.member)));
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

// Share m of M of operand 0, along its longest dimension; those of a range of memory begin at multiples of a vector.
OperandBox ShareOf(const Meeting& meeting, int member, int share) {
  const Shape& shape = meeting.shape(member, 0);
  const int longest = static_cast<int>(std::max_element(shape.begin(), shape.end()) - shape.begin());
  const int64_t extent = shape[longest];
  const int64_t unit = shape.size() == 1 ? kWidestAccess / program::SizeInBytes(meeting.view(member).dtype) : 1;
  const auto begin_of = [&](int s) { return s == meeting.size() ? extent : extent * s / meeting.size() / unit * unit; };
  const int64_t begin = begin_of(share), end = begin_of(share + 1);
  return program::PartOfOperand(member, 0, meeting.shapes(), longest, begin, end - begin);
}

// The most that each member of an all-reduce sums by itself. It then reads M − 1 times as many bytes as there are in place
// of twice as many, by two calls in place of M: what 64 KiB take is less than what launching a call takes.
constexpr int64_t kFewBytes = int64_t{64} << 10;

// Each member sums its share, then fetches those of the others.
absl::Status AddAllReduce(Meeting& meeting) {
  if (meeting.size() > 2 && BytesOf(meeting.view(0)) <= kFewBytes && meeting.AllReachEachOther()) {
    return meeting.AddSumsByEach();
  }
  std::vector<BoxMove> sums, copies;
  for (int m = 0; m < meeting.size(); ++m) {
    BoxMove& sum = sums.emplace_back(BoxMove{{}, ShareOf(meeting, m, m)});
    for (int j = 0; j < meeting.size(); ++j) {
      sum.sources.push_back(ShareOf(meeting, j, m));
      if (j != m) copies.push_back({{ShareOf(meeting, j, j)}, ShareOf(meeting, m, j)});
    }
  }
  RETURN_IF_ERROR(meeting.AddPhase(sums));
  program::TakeSourcesInTurn(copies, meeting.size());
  return meeting.AddPhase(copies);
}

}  // namespace

absl::StatusOr<std::vector<MemberCalls>> PrepareExchange(absl::Span<const TaskContext> sides, const Reach& can_reach) {
  Meeting meeting(sides, can_reach);
  std::vector<BoxMove> moves;
  for (int receiver = 0; receiver < 2; ++receiver) {
    const auto& exchange = std::get<program::Exchange>(sides[receiver].task.body);
    if (!exchange.receives) continue;
    moves.push_back({{program::WholeOperand(1 - receiver, 0, meeting.shapes())},
                     program::WholeOperand(receiver, exchange.sends ? 1 : 0, meeting.shapes())});
  }
  RETURN_IF_ERROR(meeting.AddPhase(moves));
  return meeting.Finish();
}

absl::StatusOr<std::vector<MemberCalls>> PrepareCollective(absl::Span<const TaskContext> members, const Reach& can_reach) {
  Meeting meeting(members, can_reach);
  const auto& collective = std::get<Collective>(members[0].task.body);
  if (collective.kind == CollectiveKind::kAllReduce) {
    RETURN_IF_ERROR(AddAllReduce(meeting));
  } else {
    std::vector<BoxMove> moves = program::MovesOf(collective, meeting.size(), meeting.shapes());
    program::TakeSourcesInTurn(moves, meeting.size());
    RETURN_IF_ERROR(meeting.AddPhase(moves));
  }
  return meeting.Finish();
}

}  // namespace colonnade::cuda
