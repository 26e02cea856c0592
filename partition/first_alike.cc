#include "partition/first_alike.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "partition/reshard.h"

namespace colonnade::partition {
namespace {

using Kinds = std::vector<int>;  // by position: which other positions have been found to be of the same kind
using GroupOf = std::function<std::vector<int>(int)>;

// Numbers what is met, in the order in which it is.
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
  explicit Classifier(const Lowering& lowering)
      : lowering_(lowering), mesh_(lowering.plan.mesh), kinds_(mesh_.device_count(), 0) {}

  std::vector<int> Run() {
    DivideByRoots();
    DivideBySlices();
    if (count_ > 1) {
      const std::vector<GroupOf> meetings = Meetings();
      for (size_t before = 0; before != count_;) {
        before = count_;
        for (const GroupOf& group_of : meetings) DivideByMembers(group_of);
      }
    }
    std::vector<int> first_of(count_, -1), first;
    for (size_t p = 0; p < kinds_.size(); ++p) {
      int& known = first_of[kinds_[p]];
      if (known < 0) known = static_cast<int>(p);
      first.push_back(known);
    }
    return first;
  }

 private:
  // Divides each kind by what `mark_of` says of its positions.
  void Divide(const std::function<int(int)>& mark_of) {
    Numbers<std::pair<int, int>> numbers;
    for (size_t p = 0; p < kinds_.size(); ++p) kinds_[p] = numbers[{kinds_[p], mark_of(static_cast<int>(p))}];
    count_ = numbers.size();
  }

  void DivideByRoots() {
    if (lowering_.plan.reduction != Reduction::kMaster) return;
    for (const std::vector<int>& axes : ReducedAxes()) {
      Divide([&](int p) { return static_cast<int>(mesh_.IndexInGroup(p, axes) == 0); });
    }
  }

  void DivideBySlices() {
    std::unordered_map<int32_t, const ReshardEntry*> exchanged;  // by the value that two have gathered
    for (const Action& action : lowering_.actions) {
      const auto* reshard = std::get_if<Reshard>(&action.what);
      if (reshard == nullptr) continue;
      if (IsExchange(reshard->entry)) exchanged[action.outputs[0].value] = &reshard->entry;
      if (reshard->entry.kind != ReshardKind::kSlice) continue;
      const auto gather = exchanged.find(action.inputs[0].value.value);
      if (gather != exchanged.end()) DivideBySlice(*gather->second, reshard->entry, action);
    }
  }

  void DivideBySlice(const ReshardEntry& gather, const ReshardEntry& slice, const Action& action) {
    const int dim = DimOf(slice.to);
    if (DimOf(gather.from) != dim) return;  // all slice something of both halves
    const program::Shape whole = LocalShapeOf(action.inputs[0].value), part = LocalShapeOf(action.outputs[0]);
    const std::vector<program::Region> gathered = SectionsOf(gather, whole), read = SectionsOf(slice, whole),
                                       kept = SectionsOf(slice, part);
    for (size_t section = 0; section < read.size(); ++section) {
      const int64_t size = kept[section].size[dim];
      Divide([&](int p) {
        const int64_t begin = read[section].offset[dim] + SlicedPart(mesh_, slice, p) * size, end = begin + size;
        const int64_t other = ReshardGroup(mesh_, gather, p)[0] == p ? 1 : 0;
        const auto is_read = [&](const program::Region& box) {
          const int64_t half = box.size[dim] / 2, first = box.offset[dim] + other * half;
          return begin < first + half && first < end;
        };
        return static_cast<int>(std::any_of(gathered.begin(), gathered.end(), is_read));
      });
    }
  }

  program::Shape LocalShapeOf(ValueId id) const {
    const Value& value = lowering_.value(id);
    return RegionOn(mesh_, value.placement, value.shape, 0).size;
  }

  void DivideByMembers(const GroupOf& group_of) {
    Numbers<std::vector<int>> numbers;
    std::vector<int> met(kinds_.size(), -1);
    for (size_t p = 0; p < kinds_.size(); ++p) {
      if (met[p] >= 0) continue;
      const std::vector<int> group = group_of(static_cast<int>(p));
      std::vector<int> members;
      for (int member : group) members.push_back(kinds_[member]);
      const int number = numbers[std::move(members)];
      for (int member : group) met[member] = number;
    }
    Divide([&](int p) { return met[p]; });
  }

  bool IsExchange(const ReshardEntry& entry) const {
    return CollectiveOf(entry.kind) == program::CollectiveKind::kAllGather && ReshardGroup(mesh_, entry, 0).size() == 2;
  }

  std::set<std::vector<int>> ReducedAxes() const {
    std::set<std::vector<int>> reduced;
    for (const GradientBucket& bucket : lowering_.buckets) reduced.insert(bucket.axes);
    return reduced;
  }

  // The groups in which positions meet, each once.
  std::vector<GroupOf> Meetings() const {
    std::vector<GroupOf> meetings;
    for (const std::vector<int>& axes : ReducedAxes()) {
      meetings.push_back([this, axes](int p) { return mesh_.AxesGroup(p, axes); });
    }
    std::set<std::tuple<int, int64_t, bool>> known;
    for (const Action& action : lowering_.actions) {
      const auto* reshard = std::get_if<Reshard>(&action.what);
      if (reshard == nullptr || reshard->entry.kind == ReshardKind::kSlice) continue;
      const ReshardEntry* entry = &reshard->entry;
      const int64_t groups = std::max(entry->from.groups, entry->to.groups);
      if (!known.insert({entry->axis, groups, entry->kind == ReshardKind::kGatherRuns}).second) continue;
      meetings.push_back([this, entry](int p) { return ReshardGroup(mesh_, *entry, p); });
    }
    return meetings;
  }

  const Lowering& lowering_;
  const Mesh& mesh_;
  Kinds kinds_;
  size_t count_ = 1;
};

}  // namespace

std::vector<int> FirstAlike(const Lowering& lowering) { return Classifier(lowering).Run(); }

}  // namespace colonnade::partition
