// Exchanges and collectives, their order, and the waits between tasks, broken in each way.
#include "gtest/gtest.h"
#include "tests/program/breakages.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {
namespace {

// Moves the task at `from` to `to`; ids and waits follow.
void MoveTask(Program& program, int from, int to) {
  std::vector<int> order(program.tasks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  std::vector<int> new_id(order.size());
  for (size_t i = 0; i < order.size(); ++i) new_id[order[i]] = static_cast<int>(i);
  std::vector<Task> tasks;
  for (int old : order) {
    Task& task = tasks.emplace_back(program.tasks[old]);
    task.id.value = new_id[old];
    for (TaskId& wait : task.waits) wait.value = new_id[wait.value];
    for (TaskId& wait : task.waits_previous) wait.value = new_id[wait.value];
  }
  program.tasks = std::move(tasks);
}

const Breakage kMeetings[] = {
    {"one_side", "messages", "1 side", [](Program& p) { WhatOf<Exchange>(Find(p, "exchange", 1)).message = 9; }},
    {"peer", "messages", "peers", [](Program& p) { WhatOf<Exchange>(Find(p, "exchange", 1)).peer = 1; }},
    {"direction", "messages", "does not receive",
     [](Program& p) {
       Task& task = Find(p, "exchange", 1);
       WhatOf<Exchange>(task).sends = false;
       task.uses.erase(task.uses.begin());
     }},
    {"message_extents", "messages", "sends f32 [1,2,2,2]",
     [](Program& p) { Find(p, "exchange", 0).uses[0].region.size[0] = 1; }},
    {"missing_member", "collectives", "exactly one on each device",
     [](Program& p) { WhatOf<Collective>(Find(p, "all_reduce", 1)).instance = 5; }},
    {"attributes", "collectives", "differ in kind",
     [](Program& p) { WhatOf<Collective>(Find(p, "all_gather", 1)).dim_to = 0; }, EveryCollective},
    {"collective_extents", "collectives", "brings", [](Program& p) { Find(p, "all_reduce", 1).uses[0].region.size[0] = 1; }},
    {"gather_extents", "collectives", "brings",
     [](Program& p) {
       for (int d : {0, 1}) WhatOf<Collective>(Find(p, "all_gather", d)).dim_to = 0;
     },
     EveryCollective},
    {"gather_dimension", "collectives", "dimension 3",
     [](Program& p) {
       for (int d : {0, 1}) WhatOf<Collective>(Find(p, "all_gather", d)).dim_to = 3;
     },
     EveryCollective},
    {"cut", "collectives", "into 2 parts",
     [](Program& p) {
       for (int d : {0, 1}) WhatOf<Collective>(Find(p, "all_to_all", d)).dim_from = 1;
     },
     EveryCollective},
    {"all_to_all_extents", "collectives", "brings f64 [1,5]",
     [](Program& p) {
       for (int d : {0, 1}) Find(p, "all_to_all", d).uses[1].region.size[1] = 5;
     },
     EveryCollective},
    {"root_access", "collectives", "must write",
     [](Program& p) {
       for (int d : {0, 1}) WhatOf<Collective>(Find(p, "broadcast", d)).root = 1;
     },
     EveryCollective},
    {"instance_order", "collectives", "one order",
     [](Program& p) { MoveTask(p, Find(p, "all_gather", 1).id.value, Find(p, "reduce_scatter", 1).id.value); },
     EveryCollective},
    {"lanes_of_collectives", "collectives", "one lane", [](Program& p) { Find(p, "broadcast", 1).lane = Lane::kCopy; },
     EveryCollective},
    {"rendezvous_cycle", "deadlock", "exchange",
     [](Program& p) {  // device 1 has its exchange after the all-reduce, device 0 before
       MoveTask(p, Find(p, "exchange", 1).id.value, Find(p, "all_reduce", 1).id.value);
     },
     TwoColumnsUnscheduled},
};

const Breakage kData[] = {
    {"never_written", "initialised", "conv.dwhole",
     [](Program& p) {
       Task& copy = Find(p, "copy");
       copy.uses[0].buffer = FindBuffer(p, "conv.dwhole").id;
     }},
    {"half_written", "initialised", "[0:2,2:4,0:2,0:2]",
     [](Program& p) { Find(p, "exchange", 0).uses[1].buffer = FindBuffer(p, "conv.dwhole").id; }},
    {"member_not_written", "initialised", "\"bucket0.gradient\"",
     [](Program& p) {
       Task& weights = Find(p, "conv_backward_weights");
       OpOf<ConvBackwardWeights>(weights).bias = false;
       weights.uses.pop_back();
     }},
    {"state_not_declared", "initialised", "\"bucket0.momentum\", but no task before it writes [0:2]; it persists",
     [](Program& p) { p.parameters[1].pieces(StateKind::kMomentum).clear(); }},
    {"waits_same_lane", "waits", "another lane",
     [](Program& p) { Find(p, "relu_backward").waits.push_back(Find(p, "conv_forward").id); }},
    {"waits_other_device", "waits", "another lane",
     [](Program& p) { Find(p, "relu_backward").waits.push_back(Find(p, "exchange", 1).id); }},
    {"waits_later", "waits", "later in the step",
     [](Program& p) { Find(p, "conv_forward").waits.push_back(Find(p, "exchange").id); }},
    {"waits_nowhere", "waits", "task 999", [](Program& p) { Find(p, "exchange").waits_previous.push_back(TaskId{999}); }},
    {"no_waits", "order", "but nothing orders them; add a wait", [](Program&) {}, TwoColumnsUnscheduled},
    {"no_wait_within", "order", "reads buffer 3 \"conv.whole\" that task",
     [](Program& p) { Find(p, "copy").waits.clear(); }},
    {"no_wait_carried", "order", "in the step before",
     [](Program& p) {  // of the step scalars, which the update of the step before reads
       ASSERT_EQ(p.tasks[2].provenance.layer, "scalars");
       p.tasks[2].waits_previous.clear();
     }},
};

INSTANTIATE_TEST_SUITE_P(Meetings, VerifyFinds, ::testing::ValuesIn(kMeetings), NameOf);
INSTANTIATE_TEST_SUITE_P(Data, VerifyFinds, ::testing::ValuesIn(kData), NameOf);

}  // namespace
}  // namespace colonnade::program
