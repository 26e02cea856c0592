#include "cuda/ops/nccl.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/status_macros.h"
#include "cuda/ops/copy.h"

namespace colonnade::cuda {

using program::Collective;
using program::CollectiveKind;
using program::Region;

namespace {

int64_t Elements(const View& view) { return program::ElementCount(view.shape); }

// The parts of `whole` along `dimension`, one for each of `members`.
std::vector<Operand> PartsOf(const Operand& whole, int dimension, int members) {
  std::vector<Operand> parts;
  const int64_t size = whole.view.shape[dimension] / members;
  for (int m = 0; m < members; ++m) {
    Region box = Region::Whole(whole.view.shape);
    box.offset[dimension] = m * size;
    box.size[dimension] = size;
    parts.push_back({Slice(whole.view, box), whole.base});
  }
  return parts;
}

// True if the parts are dense and lie one after the other.
bool LieInTurn(const std::vector<Operand>& parts) {
  for (size_t m = 0; m < parts.size(); ++m) {
    const View& view = parts[m].view;
    if (!IsDense(view) || view.offset != parts[0].view.offset + static_cast<int64_t>(m) * Elements(view)) return false;
  }
  return true;
}

char* AddressOf(const Operand& operand) {
  return operand.base + operand.view.offset * program::SizeInBytes(operand.view.dtype);
}

// One member's phases: what packs, the call of NCCL, what unpacks.
class Member {
 public:
  explicit Member(const TaskContext& context) : context_(context), workspace_(context), phases_(3) {}

  // The place where the elements of `parts` lie one after the other: where they are, or packed in the workspace.
  absl::StatusOr<char*> Read(const std::vector<Operand>& parts) { return Lay(parts, /*packs=*/true, /*unpacks=*/false); }
  absl::StatusOr<char*> Write(const std::vector<Operand>& parts) { return Lay(parts, false, true); }
  absl::StatusOr<char*> Update(const std::vector<Operand>& parts) { return Lay(parts, true, true); }

  MemberCalls Finish(const RankCall& call) {
    phases_[1].push_back(call);
    return {.phases = std::move(phases_), .workspace_bytes = workspace_.bytes(), .meets = false};
  }

 private:
  absl::StatusOr<char*> Lay(const std::vector<Operand>& parts, bool packs, bool unpacks) {
    if (LieInTurn(parts)) return AddressOf(parts[0]);
    const program::DType dtype = parts[0].view.dtype;
    const int64_t count = Elements(parts[0].view);
    char* packed = workspace_.Take<char>(static_cast<int64_t>(parts.size()) * count * program::SizeInBytes(dtype));
    for (size_t m = 0; m < parts.size(); ++m) {
      Operand place = {Natural(dtype, parts[m].view.shape), packed};
      place.view.offset = static_cast<int64_t>(m) * count;
      if (packs) {
        ASSIGN_OR_RETURN(Call call, CopyCall(parts[m], place, context_.gpu, context_.gpu));
        phases_[0].push_back(std::move(call));
      }
      if (unpacks) {
        ASSIGN_OR_RETURN(Call call, CopyCall(place, parts[m], context_.gpu, context_.gpu));
        phases_[2].push_back(std::move(call));
      }
    }
    return packed;
  }

  const TaskContext& context_;
  Workspace workspace_;
  std::vector<std::vector<Call>> phases_;
};

absl::StatusOr<MemberCalls> PrepareMember(const TaskContext& context, const Collective& what, int rank, int ranks,
                                          int communicator) {
  Member member(context);
  RankCall call{.kind = what.kind,
                .dtype = context.view(0).dtype,
                .count = Elements(context.view(0)),
                .root = what.root,
                .communicator = communicator,
                .rank = rank};
  absl::StatusOr<char*> from = nullptr, to = nullptr;
  switch (what.kind) {
    case CollectiveKind::kAllReduce:
      from = to = member.Update({context.operands[0]});
      break;
    case CollectiveKind::kReduce:
      from = to = rank == what.root ? member.Update({context.operands[0]}) : member.Read({context.operands[0]});
      break;
    case CollectiveKind::kBroadcast:
      from = to = rank == what.root ? member.Read({context.operands[0]}) : member.Write({context.operands[0]});
      break;
    case CollectiveKind::kAllGather:
      from = member.Read({context.operands[0]});
      to = member.Write(PartsOf(context.operands[1], what.dim_to, ranks));
      break;
    case CollectiveKind::kReduceScatter:
      from = member.Read(PartsOf(context.operands[0], what.dim_to, ranks));
      to = member.Write({context.operands[1]});
      call.count = Elements(context.view(1));
      break;
    case CollectiveKind::kAllToAll:
      return absl::InternalError("NCCL has no all-to-all");
  }
  if (!from.ok()) return from.status();
  if (!to.ok()) return to.status();
  call.from = *from;
  call.to = *to;
  return member.Finish(call);
}

}  // namespace

bool Sums(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce || kind == CollectiveKind::kReduceScatter;
}

bool EveryCopyHasOneSum(const program::Program& program) {
  // Which devices hold the same box of a parameter, by the layout that weight and gradient share.
  std::map<int32_t, std::set<int>> holders;
  for (const program::Parameter& parameter : program.parameters) {
    if (parameter.role == program::StateRole::kFrozen) continue;  // nothing writes it
    for (const program::Piece& piece : parameter.value()) {
      for (const program::Piece& other : parameter.value()) {
        if (!(other.region == piece.region)) continue;
        holders[program.buffer(piece.buffer).layout_as.value].insert(program.buffer(other.buffer).device);
      }
    }
  }
  std::set<int32_t> summed;
  for (const program::Task& task : program.tasks) {
    const auto* what = std::get_if<Collective>(&task.body);
    if (what == nullptr || !Sums(what->kind)) continue;
    const std::vector<int>& group = program.groups[what->group];
    const program::BufferId root = program::RootOf(program, task.uses[0].buffer);
    const auto* bucket = std::get_if<program::Bucket>(&program.buffer(root).storage);
    for (program::BufferId buffer : bucket != nullptr ? bucket->members : std::vector<program::BufferId>{root}) {
      const auto found = holders.find(program.buffer(buffer).layout_as.value);
      if (found == holders.end()) continue;
      for (int device : found->second) {
        if (std::find(group.begin(), group.end(), device) == group.end()) return false;
      }
      summed.insert(found->first);
    }
  }
  return std::all_of(holders.begin(), holders.end(),
                     [&](const auto& one) { return one.second.size() == 1 || summed.contains(one.first); });
}

bool NcclServes(absl::Span<const TaskContext> members, bool sums) {
  const auto& what = std::get<Collective>(members[0].task.body);
  if (what.kind == CollectiveKind::kAllToAll) return false;
  if (Sums(what.kind) && !sums) return false;
  std::set<int> gpus;
  // The operand that is a part, of those kinds that have one.
  const int part = what.kind == CollectiveKind::kReduceScatter ? 1 : 0;
  for (const TaskContext& member : members) {
    gpus.insert(member.gpu);
    if (member.view(part).shape != members[0].view(part).shape) return false;
  }
  return gpus.size() == members.size();
}

absl::StatusOr<std::vector<MemberCalls>> PrepareNccl(absl::Span<const TaskContext> members, int communicator) {
  const auto& what = std::get<Collective>(members[0].task.body);
  std::vector<MemberCalls> ready;
  for (size_t m = 0; m < members.size(); ++m) {
    ASSIGN_OR_RETURN(MemberCalls member,
                     PrepareMember(members[m], what, static_cast<int>(m), static_cast<int>(members.size()), communicator));
    ready.push_back(std::move(member));
  }
  return ready;
}

}  // namespace colonnade::cuda
