// The rule `overlap`: what a task writes, no other operand of it holds, so that no kernel need care in which order it reads
// and writes. The one exception is what collectives do in place: the member's own part of an all-gather's result or of a
// reduce-scatter's operand, which no other member touches.

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "program/location.h"
#include "program/meetings.h"
#include "program/verify/rules.h"

namespace colonnade::program {
namespace {

// The operands of one task, by root, then by where they begin, so that those that meet stand near each other.
class Operands {
 public:
  Operands(const Program& program, const Task& task) : task_(task) {
    for (const BufferUse& use : task.uses) {
      order_.push_back(order_.size());
      places_.push_back(Locate(program, use));
    }
    std::sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return KeyOf(a) < KeyOf(b); });
    next_write_.assign(order_.size() + 1, order_.size());
    for (size_t i = order_.size(); i-- > 0;) next_write_[i] = IsWritten(i) ? i : next_write_[i + 1];
  }

  const Location& place(size_t use) const { return places_[use]; }

  // Two operands that share an element, one of them written, the first in the task first; empty if there are none. What is
  // read is compared with what is written alone: a sum may read one tensor any number of times.
  std::optional<std::pair<size_t, size_t>> Clash() const {
    for (size_t i = 0; i < order_.size(); ++i) {
      const auto next = [&](size_t j) { return IsWritten(i) ? j : next_write_[j]; };
      for (size_t j = next(i + 1); j < order_.size() && MayMeet(places_[order_[i]], places_[order_[j]]); j = next(j + 1)) {
        const auto [first, second] = std::minmax(order_[i], order_[j]);
        if (ShareElements(places_[first], places_[second])) return std::pair(first, second);
      }
    }
    return std::nullopt;
  }

 private:
  bool IsWritten(size_t i) const { return Writes(task_.uses[order_[i]].access); }
  static int64_t Begin(const Location& place) { return place.region.offset.empty() ? 0 : place.region.offset[0]; }
  static int64_t End(const Location& place) {
    return place.region.size.empty() ? 1 : place.region.offset[0] + place.region.size[0];
  }
  // A bucket's parts come before its members.
  std::tuple<BufferId, int, int64_t> KeyOf(size_t use) const {
    return {places_[use].root, places_[use].member, Begin(places_[use])};
  }
  // False if neither `b` nor any that comes after it meets `a`, which comes before it.
  static bool MayMeet(const Location& a, const Location& b) {
    if (a.root != b.root) return false;
    if (a.member == Location::kParts) return true;  // members come after all parts
    return a.member == b.member && Begin(b) < End(a);
  }

  const Task& task_;
  std::vector<Location> places_;    // by use
  std::vector<size_t> order_;       // uses, sorted
  std::vector<size_t> next_write_;  // by place in `order_`, that behind the last included: the first one from there
};

// What collectives do in place.
class InPlace {
 public:
  explicit InPlace(const Program& program) : program_(program), meetings_(program), begin_(program.tasks.size(), kUnknown) {}

  bool Is(const Task& task, const Operands& operands) {
    const auto* collective = std::get_if<Collective>(&task.body);
    if (collective == nullptr) return false;
    if (collective->kind == CollectiveKind::kAllGather) return IsOwnPart(task, operands, 0, 1);
    if (collective->kind == CollectiveKind::kReduceScatter) return IsOwnPart(task, operands, 1, 0);
    return false;
  }

 private:
  static constexpr int64_t kUnknown = -1;

  // True if operand `part` is the member's own part of operand `joined`, where it lies in the same memory.
  bool IsOwnPart(const Task& task, const Operands& operands, int part, int joined) {
    if (begin_[task.id.value] == kUnknown) FindParts(task, part);
    const int dim = std::get<Collective>(task.body).dim_to;
    Location own = operands.place(joined);
    own.region.offset[dim] += begin_[task.id.value];
    own.region.size[dim] = task.uses[part].region.size[dim];
    const Location& found = operands.place(part);
    return own.root == found.root && own.member == found.member && own.region == found.region;
  }

  // Finds the parts of all members at once, which stand side by side.
  void FindParts(const Task& task, int part) {
    const int dim = std::get<Collective>(task.body).dim_to;
    int64_t begin = 0;
    for (TaskId member : ByMember(program_, meetings_.SidesOf(task.id))) {
      begin_[member.value] = begin;
      begin += program_.task(member).uses[part].region.size[dim];
    }
  }

  const Program& program_;
  const Meetings meetings_;
  std::vector<int64_t> begin_;  // by task: where its part begins in what is joined
};

}  // namespace

absl::Status CheckOverlap(const Program& program) {
  InPlace in_place(program);
  for (const Task& task : program.tasks) {
    const Operands operands(program, task);
    const auto clash = operands.Clash();
    if (!clash.has_value() || in_place.Is(task, operands)) continue;
    const auto describe = [&](size_t i) {
      const BufferUse& use = task.uses[i];
      return absl::StrCat("operand ", i, " (", Name(use.access), " ", ToString(use.region), " of ",
                          Describe(program.buffer(use.buffer)), ")");
    };
    return RuleBroken(
        "overlap", Describe(task), " has ", describe(clash->first), " and ", describe(clash->second),
        ", which share elements; expected boxes apart, or in an all-gather or a reduce-scatter the member's own "
        "part");
  }
  return absl::OkStatus();
}

}  // namespace colonnade::program
