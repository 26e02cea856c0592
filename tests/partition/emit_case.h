// For tests of EmitTasks: the tasks of a Program in words, and one resharding made by hand.
#ifndef COLONNADE_TESTS_PARTITION_EMIT_CASE_H_
#define COLONNADE_TESTS_PARTITION_EMIT_CASE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {

// "d0 comm all_gather read x write y[0:4,0:2]: 16 32 48", the numbers being bytes read, written and sent.
inline std::string Words(const program::Program& program, const program::Task& task) {
  std::string line = absl::StrCat("d", task.device, " ", program::Name(task.lane), " ", program::Name(task));
  for (const program::BufferUse& use : task.uses) {
    const program::Buffer& buffer = program.buffer(use.buffer);
    const bool whole = use.region == program::Region::Whole(buffer.shape);
    absl::StrAppend(&line, " ", program::Name(use.access), " ", buffer.name, whole ? "" : program::ToString(use.region));
  }
  return absl::StrCat(line, ": ", task.work.bytes_read, " ", task.work.bytes_written, " ", task.work.bytes_sent);
}

// The tasks that come of actions of `layer`.
inline std::vector<std::string> TasksOf(const program::Program& program, const std::string& layer) {
  std::vector<std::string> lines;
  for (const program::Task& task : program.tasks) {
    if (task.provenance.layer == layer && task.provenance.pass != program::Pass::kOutput)
      lines.push_back(Words(program, task));
  }
  return lines;
}

inline const program::Task& FirstOf(const program::Program& program, const std::string& layer) {
  for (const program::Task& task : program.tasks) {
    if (task.provenance.layer == layer) return task;
  }
  ADD_FAILURE() << "no task of " << layer;
  return program.tasks[0];
}

inline program::Program Emitted(const LoweringCase& c) {
  absl::StatusOr<program::Program> program = EmitTasks(c.lowering);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : program::Program{};
}

// x, by default [8,4], in one placement becomes y in another, on replicas x columns.
struct ReshardCase : LoweringCase {
  ReshardCase(int64_t replicas, int64_t columns, const ReshardEntry& entry, const TensorPlacement& from,
              const TensorPlacement& to, program::DType dtype = program::DType::kF32, const program::Shape& shape = {8, 4})
      : LoweringCase(TwoLayers(), PlanOf(TwoLayers(), replicas, columns, {kReplicate, kReplicate}),
                     {.mode = program::Mode::kEval, .global_batch = 8}) {
    const ValueId x = Add("x", shape, from), y = Add("y", shape, to);
    for (Value& value : lowering.values) value.dtype = dtype;
    if (entry.kind == ReshardKind::kAllReduce) lowering.values[y.value].in_place_of = x;
    // No action makes x here: a load stands in for it.
    lowering.values[x.value].role = HostInputPart{};
    Act(LoadInput{}, "images", program::Pass::kInput, {}, {x});
    Act(Reshard{entry}, "fc1", program::Pass::kForward, {{x, from}}, {y});
  }
};

inline ReshardEntry Entry(int axis, ReshardKind kind, layers::Placement from, layers::Placement to) {
  return {.axis = axis, .kind = kind, .from = from, .to = to};
}

}  // namespace colonnade::partition

#endif  // COLONNADE_TESTS_PARTITION_EMIT_CASE_H_
