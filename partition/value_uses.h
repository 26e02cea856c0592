// Which action makes a value, and how many read it: what the passes that join actions ask.
#ifndef COLONNADE_PARTITION_VALUE_USES_H_
#define COLONNADE_PARTITION_VALUE_USES_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "partition/actions.h"

namespace colonnade::partition {

// As the actions were when it was made, but for what is told since.
class ValueUses {
 public:
  explicit ValueUses(const std::vector<Action>& actions) {
    for (size_t i = 0; i < actions.size(); ++i) {
      for (const ActionOperand& operand : actions[i].inputs) ++readers_[operand.value];
      for (ValueId output : actions[i].outputs) SetMaker(output, i);
    }
  }

  // Index of the action that makes `value`; absent for what is there before the step.
  std::optional<size_t> MakerOf(ValueId value) const {
    const auto made = maker_.find(value);
    return made != maker_.end() ? std::optional(made->second) : std::nullopt;
  }
  // The same, if one reader alone takes it.
  std::optional<size_t> MakerForOneReader(ValueId value) const {
    const auto readers = readers_.find(value);
    return readers != readers_.end() && readers->second == 1 ? MakerOf(value) : std::nullopt;
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

#endif  // COLONNADE_PARTITION_VALUE_USES_H_
