#include "partition/lowering/representative_positions.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>

#include "partition/reshard.h"

namespace colonnade::partition {
namespace {

using GroupOf = std::function<std::vector<int>(int)>;

// Equal things get one number, from 0 on in the order of their first use.
template <typename What>
class Numbers {
 public:
  int operator[](What what) { return known_.try_emplace(std::move(what), static_cast<int>(known_.size())).first->second; }
  size_t size() const { return known_.size(); }

 private:
  std::map<What, int> known_;
};

class Classifier {
 public:
  Classifier(const Lowering& lowering, const GroupClassifier& classify_group)
      : lowering_(lowering),
        classify_group_(classify_group),
        mesh_(lowering.plan.mesh),
        class_of_(mesh_.device_count(), 0) {}

  std::vector<int> Run() {
    DivideByRoots();
    DivideByParts();
    const std::vector<GroupOf> meetings = Meetings();
    DivideByMachine(meetings);
    if (count_ > 1) {
      for (size_t before = 0; before != count_;) {
        before = count_;
        for (const GroupOf& group_of : meetings) DivideByMembers(group_of);
      }
    }
    std::vector<int> first_of(count_, -1), first;
    for (size_t p = 0; p < class_of_.size(); ++p) {
      int& known = first_of[class_of_[p]];
      if (known < 0) known = static_cast<int>(p);
      first.push_back(known);
    }
    return first;
  }

 private:
  // A value made in several tasks, and a slice of it: local shapes.
  struct Slicing {
    ReshardEntry gather, slice;
    program::Shape whole, part;
    bool operator==(const Slicing&) const = default;
  };

  // Divides each class by what `mark_of` says of its positions.
  void Divide(const std::function<int(int)>& mark_of) {
    Numbers<std::pair<int, int>> numbers;
    for (size_t p = 0; p < class_of_.size(); ++p) class_of_[p] = numbers[{class_of_[p], mark_of(static_cast<int>(p))}];
    count_ = numbers.size();
  }

  void DivideByRoots() {
    if (lowering_.plan.reduction != Reduction::kMaster) return;
    for (const std::vector<int>& axes : ReducedAxes()) {
      Divide([&](int p) { return static_cast<int>(mesh_.IndexInGroup(p, axes) == 0); });
    }
  }

  void DivideByParts() {
    for (const Action& action : lowering_.actions) {
      if (const auto* reshard = std::get_if<Reshard>(&action.body)) {
        DivideByReshard(reshard->entry, action);
      } else if (const layers::Stage* stage = lowering_.StageOf(action)) {
        DivideByStage(*stage, action);
      }
    }
  }

  void DivideByReshard(const ReshardEntry& entry, const Action& action) {
    const bool slices = entry.kind == ReshardKind::kSlice;
    const ReshardEntry* gather = MadeBy(action.inputs[0].value);
    if (slices && gather != nullptr) DivideBySlice(*gather, entry, action);
    if (!slices && IsSeveralTasks(entry, action)) made_by_[action.outputs[0].value] = &entry;
  }

  void DivideByStage(const layers::Stage& stage, const Action& action) {
    if (!stage.reads_parts) return;
    for (const ActionOperand& input : action.inputs) {
      const ReshardEntry* gather = MadeBy(input.value);
      if (gather != nullptr && IsExchange(mesh_, *gather)) DivideByHalves(*gather);
    }
  }

  // Who reads one half waits for itself or for the other.
  void DivideByHalves(const ReshardEntry& exchange) {
    Divide([&](int p) { return static_cast<int>(IsFirst(exchange, p)); });
  }

  // What makes a value, where that is several tasks; else null.
  const ReshardEntry* MadeBy(ValueId value) const {
    const auto found = made_by_.find(value.value);
    return found == made_by_.end() ? nullptr : found->second;
  }

  bool IsFirst(const ReshardEntry& exchange, int position) const {
    return ReshardGroup(mesh_, exchange, position)[0] == position;
  }

  bool IsSeveralTasks(const ReshardEntry& entry, const Action& action) const {
    return IsExchange(mesh_, entry) || SectionsOf(entry, lowering_.LocalShape(action.outputs[0])).size() > 1;
  }

  // A slice waits for the tasks that wrote what it reads.
  void DivideBySlice(const ReshardEntry& gather, const ReshardEntry& slice, const Action& action) {
    Slicing slicing{gather, slice, lowering_.LocalShape(action.inputs[0].value), lowering_.LocalShape(action.outputs[0])};
    if (std::find(known_.begin(), known_.end(), slicing) != known_.end()) return;
    Numbers<std::vector<bool>> numbers;
    Divide([&](int p) { return numbers[WaitedFor(slicing, p)]; });
    known_.push_back(std::move(slicing));
  }

  // Returns, for each task that made a part of the whole, whether the slice of this position reads some of it.
  std::vector<bool> WaitedFor(const Slicing& slicing, int position) const {
    const std::vector<program::Region> slices = SlicesAt(slicing, position);
    std::vector<bool> waited_for;
    for (const program::Region& made : MadeAt(slicing, position)) {
      waited_for.push_back(
          std::any_of(slices.begin(), slices.end(), [&](const program::Region& read) { return Overlaps(made, read); }));
    }
    return waited_for;
  }

  std::vector<program::Region> SlicesAt(const Slicing& slicing, int position) const {
    const int dim = DimOf(slicing.slice.to);
    std::vector<program::Region> slices = SectionsOf(slicing.slice, slicing.whole);
    const std::vector<program::Region> kept = SectionsOf(slicing.slice, slicing.part);
    for (size_t section = 0; section < slices.size(); ++section) {
      slices[section] =
          PartOfBox(std::move(slices[section]), dim, kept[section].size[dim], SlicedPart(mesh_, slicing.slice, position));
    }
    return slices;
  }

  // Returns of each section the box that one task wrote, or the two that the position copied itself and received.
  std::vector<program::Region> MadeAt(const Slicing& slicing, int position) const {
    std::vector<program::Region> made;
    for (const program::Region& box : SectionsOf(slicing.gather, slicing.whole)) {
      if (!IsExchange(mesh_, slicing.gather)) {
        made.push_back(box);
        continue;
      }
      const int dim = DimOf(slicing.gather.from), own = IsFirst(slicing.gather, position) ? 0 : 1;
      for (int half : {own, 1 - own}) made.push_back(PartOfBox(box, dim, box.size[dim] / 2, half));
    }
    return made;
  }

  // Tells each position by what `mark_of` says of its group.
  void DivideByGroups(const GroupOf& group_of, const std::function<int(const std::vector<int>&)>& mark_of) {
    std::vector<int> marks(class_of_.size(), -1);  // by position
    for (size_t p = 0; p < class_of_.size(); ++p) {
      if (marks[p] >= 0) continue;
      const std::vector<int> group = group_of(static_cast<int>(p));
      const int mark = mark_of(group);
      for (int member : group) marks[member] = mark;
    }
    Divide([&](int p) { return marks[p]; });
  }

  void DivideByMembers(const GroupOf& group_of) {
    Numbers<std::vector<int>> numbers;
    DivideByGroups(group_of, [&](const std::vector<int>& group) {
      std::vector<int> members;
      for (int member : group) members.push_back(class_of_[member]);
      return numbers[std::move(members)];
    });
  }

  void DivideByMachine(const std::vector<GroupOf>& meetings) {
    if (classify_group_ == nullptr) return;
    const auto kind_of = [this](const std::vector<int>& positions) {
      std::vector<int> devices;
      for (int position : positions) devices.push_back(lowering_.plan.device_at(position));
      return classify_group_(devices);
    };
    Divide([&](int p) { return kind_of({p}); });
    for (const GroupOf& group_of : meetings) DivideByGroups(group_of, kind_of);
  }

  std::set<std::vector<int>> ReducedAxes() const {
    std::set<std::vector<int>> reduced;
    for (const GradientBucket& bucket : lowering_.buckets) reduced.insert(bucket.axes);
    return reduced;
  }

  // The groups in which positions meet, each once.
  std::vector<GroupOf> Meetings() const {
    std::vector<GroupOf> meetings;
    std::set<std::vector<int>> reduced = ReducedAxes();
    for (const StatisticsBucket& bucket : lowering_.statistics) reduced.insert(bucket.axes);
    for (const std::vector<int>& axes : reduced) {
      meetings.push_back([this, axes](int p) { return mesh_.AxesGroup(p, axes); });
    }
    std::set<std::tuple<int, int64_t, bool>> known;
    for (const Action& action : lowering_.actions) {
      const auto* reshard = std::get_if<Reshard>(&action.body);
      if (reshard == nullptr || reshard->entry.kind == ReshardKind::kSlice) continue;
      const ReshardEntry* entry = &reshard->entry;
      const int64_t groups = std::max(entry->from.groups, entry->to.groups);
      if (!known.insert({entry->axis, groups, entry->kind == ReshardKind::kGatherAcrossSubgroups}).second) continue;
      meetings.push_back([this, entry](int p) { return ReshardGroup(mesh_, *entry, p); });
    }
    return meetings;
  }

  const Lowering& lowering_;
  const GroupClassifier& classify_group_;  // may be absent
  const Mesh& mesh_;
  std::unordered_map<int32_t, const ReshardEntry*> made_by_;
  std::vector<int> class_of_;   // by position: the number of its class
  std::vector<Slicing> known_;  // by which positions have been told apart
  size_t count_ = 1;
};

}  // namespace

std::vector<int> RepresentativePositions(const Lowering& lowering, const GroupClassifier& classify_group) {
  return Classifier(lowering, classify_group).Run();
}

}  // namespace colonnade::partition
