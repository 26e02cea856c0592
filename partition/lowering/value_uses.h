// Which action makes a value, and how many read it, for the passes that join actions.
#ifndef COLONNADE_PARTITION_LOWERING_VALUE_USES_H_
#define COLONNADE_PARTITION_LOWERING_VALUE_USES_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "partition/lowering/lowering.h"

namespace colonnade::partition {

// Holds for the actions as they were when it was made, changed by what it has been told since.
class ValueUses {
 public:
  explicit ValueUses(const std::vector<Action>& actions) {
    for (size_t i = 0; i < actions.size(); ++i) {
      for (const ActionOperand& operand : actions[i].inputs) ++readers_[operand.value];
      for (ValueId output : actions[i].outputs) SetMaker(output, i);
    }
  }

  // Returns the index of the action that makes `value`; absent for a value that is there before the step.
  std::optional<size_t> MakerOf(ValueId value) const {
    const auto made = maker_.find(value);
    return made != maker_.end() ? std::optional(made->second) : std::nullopt;
  }
  int ReadersOf(ValueId value) const {
    const auto readers = readers_.find(value);
    return readers != readers_.end() ? readers->second : 0;
  }
  // Returns the index of that action if the value has exactly one reader; else absent.
  std::optional<size_t> MakerForOneReader(ValueId value) const {
    return ReadersOf(value) == 1 ? MakerOf(value) : std::nullopt;
  }

  void SetMaker(ValueId value, size_t action) {
    if (value.valid()) maker_[value] = action;
  }
  void AddReaders(ValueId value, int count) { readers_[value] += count; }

 private:
  absl::flat_hash_map<ValueId, int> readers_;
  absl::flat_hash_map<ValueId, size_t> maker_;
};

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWERING_VALUE_USES_H_
