// What a Program declares, broken in each way: ids, devices, groups, buffers and their slots, inputs, outputs, parameters.
#include "gtest/gtest.h"
#include "program/verify.h"
#include "tests/program/breakages.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {
namespace {

const Breakage kStructure[] = {
    {"task_id", "structure", "has id 7", [](Program& p) { p.tasks[0].id.value = 7; }},
    {"buffer_id", "structure", "has id 9", [](Program& p) { p.buffers[3].id.value = 9; }},
    {"task_device", "structure", "device 5", [](Program& p) { p.tasks[0].device = 5; }},
    {"buffer_device", "structure", "device -1", [](Program& p) { p.buffers[0].device = -1; }},
    {"device_count", "structure", "device_count", [](Program& p) { p.device_count = 3; }},
    {"mesh", "structure", "a mesh of 0", [](Program& p) { p.mesh[0].size = 0; }},
    {"group_device", "structure", "group 0",
     [](Program& p) {
       p.groups[0] = {0, 2};
     }},
    {"group_twice", "structure", "group 0",
     [](Program& p) {
       p.groups[0] = {1, 1};
     }},
    {"foreign_buffer", "structure", "of device 1",
     [](Program& p) { Find(p, "copy").uses[0].buffer = FindBuffer(p, "conv.whole", 1).id; }},
    {"no_such_buffer", "structure", "uses buffer 1000", [](Program& p) { Find(p, "copy").uses[0].buffer.value = 1000; }},
    {"region_outside", "structure", "uses the box", [](Program& p) { Find(p, "copy").uses[0].region.offset[0] = 1; }},
    {"region_overflow", "structure", "uses the box",
     [](Program& p) { Find(p, "copy").uses[0].region.offset[0] = std::numeric_limits<int64_t>::max(); }},
    {"region_rank", "structure", "uses the box", [](Program& p) { Find(p, "copy").uses[0].region = Region::Whole({2}); }},
    {"shape_overflow", "structure", "shape",
     [](Program& p) {
       FindBuffer(p, "flat").shape = {int64_t{1} << 40, 1 << 30};
     }},
    {"negative_extent", "structure", "shape",
     [](Program& p) {
       FindBuffer(p, "flat").shape = {-1, 2};
     }},
    {"too_many_extents", "structure", "expected at most 8 extents",
     [](Program& p) { FindBuffer(p, "flat").shape = Shape(9, 1); }},
    {"bucket_of_too_many_elements", "structure", "has more than 2^48 elements",
     [](Program& p) {
       for (const char* member : {"bucket0.conv.w", "bucket0.conv.b"}) FindBuffer(p, member).shape = {int64_t{1} << 48};
     }},
    {"negative_batch", "structure", "the global batch is -1", [](Program& p) { p.global_batch = -1; }},
    {"negative_work", "structure", "work", [](Program& p) { p.tasks[0].work.flops = -1; }},
    {"member_list", "structure", "member",
     [](Program& p) {
       std::swap(std::get<Bucket>(FindBuffer(p, "bucket0").storage).members[0],
                 std::get<Bucket>(FindBuffer(p, "bucket0").storage).members[1]);
     }},
    {"member_unlisted", "structure", "does not list it",
     [](Program& p) { std::get<Bucket>(FindBuffer(p, "bucket0").storage).members.pop_back(); }},
    {"equal_parts", "structure", "that are not alike",
     [](Program& p) { std::get<Bucket>(FindBuffer(p, "bucket0.gradient").storage).equal_parts = true; }},
    {"bucket_parts", "structure", "parts",
     [](Program& p) { std::get<Bucket>(FindBuffer(p, "bucket0").storage).held_parts = 3; }},
    {"parts_not_held", "structure", "holds only parts",
     [](Program& p) { std::get<Bucket>(FindBuffer(p, "bucket0.momentum").storage).held_parts = 1; }},
    {"member_of_parts_not_held", "structure", "holds only parts",
     [](Program& p) { std::get<Bucket>(FindBuffer(p, "bucket0").storage).held_parts = 1; }},
    {"layout_as", "structure", "layout", [](Program& p) { FindBuffer(p, "flat").layout_as = FindBuffer(p, "labels").id; }},
    {"persistent_name", "structure", "only persistent buffer",
     [](Program& p) { FindBuffer(p, "bucket0.conv.b").name = "bucket0.conv.w"; }},
};

// "mean", which nobody writes.
void AddStatistic(Program& p, StateRole role = StateRole::kStatistic) {
  Buffer mean{.id = {static_cast<int32_t>(p.buffers.size())},
              .name = "mean",
              .dtype = DType::kF32,
              .shape = {3},
              .lifetime = Lifetime::kPersistent};
  mean.layout_as = mean.id;
  p.buffers.push_back(mean);
  p.parameters.push_back(
      {.name = "mean", .layer = "norm", .role = role, .shape = {3}, .state = {{{{mean.id, Region::Whole({3})}}}}});
}

const Breakage kDeclarations[] = {
    {"fewer_flags_than_parameters", "outputs", "one flag for each trained parameter",
     [](Program& p) { AddStatistic(p, StateRole::kTrained); }},
    {"two_parameters_in_one_buffer", "outputs",
     "parameter \"more\" has a piece in buffer 15 \"bucket0.conv.b\", which holds a piece of parameter \"conv.b\"",
     [](Program& p) {
       p.parameters.push_back(p.parameters[1]);
       p.parameters.back().name = "more";
     }},
    {"value_and_momentum_in_one_buffer", "outputs", "the momentum of parameter \"conv.b\" has a piece in buffer",
     [](Program& p) { p.parameters[1].pieces(StateKind::kMomentum) = p.parameters[1].value(); }},
    {"flag_of_a_statistic", "outputs", "has shape [3]; expected [2], one flag for each trained parameter",
     [](Program& p) {
       p.parameters.back().role = StateRole::kStatistic;
       p.parameters.back().pieces(StateKind::kMomentum).clear();
     }},
    {"statistic_before_trained", "outputs", "\"fc.w\" is trained and stands behind what is not; expected trained parameters",
     [](Program& p) {
       p.parameters[1].role = StateRole::kStatistic;
       p.parameters[1].pieces(StateKind::kMomentum).clear();
     }},
    {"statistic_with_momentum", "outputs", "parameter \"fc.w\" is not trained and has a momentum",
     [](Program& p) { p.parameters[2].role = StateRole::kStatistic; }},
    {"statistic_lies_in_step", "outputs", "persistent",
     [](Program& p) {
       AddStatistic(p);
       p.buffer(p.parameters.back().value()[0].buffer).lifetime = Lifetime::kStep;
     }},
    {"statistic_not_covered", "outputs", "no piece",
     [](Program& p) {
       AddStatistic(p);
       p.parameters.back().shape = {4};
     }},
    {"flags_in_pieces", "outputs", "expected all of",
     [](Program& p) {
       const int64_t parameters = p.outputs[1].shape[0];
       p.outputs[1].pieces.clear();
       for (const Region& box : {Region{{0}, {1}}, Region{{1}, {parameters - 1}}}) {
         Buffer piece = FindBuffer(p, "finite");
         piece.id = piece.layout_as = BufferId{static_cast<int32_t>(p.buffers.size())};
         piece.shape = box.size;
         p.outputs[1].pieces.push_back({piece.id, box});
         p.buffers.push_back(piece);
       }
     }},
    {"metrics_shape", "outputs", "one sum for each metric",
     [](Program& p) {
       p.outputs[0].shape = {8};
       p.outputs[0].pieces.push_back({p.outputs[0].pieces[0].buffer, {{4}, {4}}});
     }},
    {"metrics_of_two_devices", "outputs", "has 2 pieces; expected one, of one device",
     [](Program& p) {
       p.outputs[0].pieces.push_back({FindBuffer(p, "metrics", 1).id, p.outputs[0].pieces[0].region});
     }},
    {"count_shape", "structure", "of shape [2]; expected [1]",
     [](Program& p) {
       FindBuffer(p, "label_count").shape = {2};
       Find(p, "count_labels").uses.back().region = {{0}, {2}};
     }},
    {"input_twice", "outputs", "\"images\" is declared twice", [](Program& p) { p.inputs[1].name = "images"; }},
    {"output_twice", "outputs", "is declared twice", [](Program& p) { p.outputs.push_back(p.outputs[0]); }},

    {"parameter_lies_in_step", "outputs", "persistent",
     [](Program& p) { p.parameters[1].value()[0].buffer = FindBuffer(p, "bucket0.gradient.conv.b").id; }},
    {"parameter_not_covered", "outputs", "no piece", [](Program& p) { p.parameters[0].value().pop_back(); }},
    {"parameter_twice", "outputs", "declared twice", [](Program& p) { p.parameters[1].name = "conv.w"; }},
    {"momentum_not_covered", "outputs", "momentum",
     [](Program& p) { p.parameters[0].pieces(StateKind::kMomentum).pop_back(); }},
    {"piece_shape", "outputs", "extents", [](Program& p) { p.parameters[0].value()[0].region.size[0] = 1; }},
    {"piece_outside", "outputs", "not inside", [](Program& p) { p.parameters[0].value()[0].region.offset[0] = 3; }},
    {"input_type", "outputs", "loaded into", [](Program& p) { p.inputs[1].host_dtype = DType::kU8; }},
    {"input_not_loaded", "outputs", "no task loads",
     [](Program& p) {
       Buffer extra = FindBuffer(p, "images");
       extra.id = extra.layout_as = BufferId{static_cast<int32_t>(p.buffers.size())};
       p.inputs[0].pieces.push_back({extra.id, Region::Whole(extra.shape)});
       p.buffers.push_back(extra);
     }},
    {"loads_other_buffer", "outputs", "not a whole piece",
     [](Program& p) { p.inputs[0].pieces[0].buffer = p.inputs[0].pieces[1].buffer; }},
    {"output_type", "outputs", "metrics", [](Program& p) { p.outputs[0].kind = Output::Kind::kFinite; }},
    {"gate_shape", "outputs", "whether the gate is open", [](Program& p) { p.outputs[0].kind = Output::Kind::kGate; }},
    {"activation_type", "outputs", "f32, bf16 or f64 for activations",
     [](Program& p) { p.outputs[1].kind = Output::Kind::kActivation; }},
    {"gate_type", "outputs", "f64 for metrics and gates", [](Program& p) { p.outputs[1].kind = Output::Kind::kGate; }},
    {"gate_of_two_devices", "outputs", "has 2 pieces",
     [](Program& p) {
       Output gate{.kind = Output::Kind::kGate, .name = "gate", .shape = {Gate::kCount}};
       for (int d = 0; d < 2; ++d) {
         Buffer buffer = FindBuffer(p, "metrics", d);
         buffer.id = buffer.layout_as = BufferId{static_cast<int32_t>(p.buffers.size())};
         buffer.shape = gate.shape;
         p.buffers.push_back(buffer);
         gate.pieces.push_back({buffer.id, Region::Whole(gate.shape)});
       }
       p.outputs.push_back(gate);
     }},
    {"output_stored_twice", "outputs", "2 tasks store",
     [](Program& p) {
       Task again = Find(p, "store");
       again.id.value = static_cast<int32_t>(p.tasks.size());
       p.tasks.push_back(again);
     }},
};

// Buffers of two slots.
Buffer& BytesOf(Program& p) { return FindBuffer(p, "bytes"); }
const Breakage kSlots[] = {
    {"three_slots", "structure", "has 3 slots", [](Program& p) { BytesOf(p).slots = 3; }, EveryOp},
    {"no_slot", "structure", "has 0 slots", [](Program& p) { BytesOf(p).slots = 0; }, EveryOp},
    {"persistent_slots", "structure", "2 slots; expected 1", [](Program& p) { BytesOf(p).lifetime = Lifetime::kPersistent; },
     EveryOp},
    {"slots_of_a_bucket", "structure", "2 slots; expected 1",
     [](Program& p) { FindBuffer(p, "bucket0.gradient").slots = 2; }},
    {"computes_on_load", "slots", "on lane load; expected a load",
     [](Program& p) { Find(p, "conv_forward").lane = Lane::kLoad; }},
    {"loads_one_slot", "slots", "expected a buffer of two slots", [](Program& p) { Find(p, "load").lane = Lane::kLoad; }},
    {"loads_two_on_another_lane", "slots", "expected a load on lane load",
     [](Program& p) { Find(p, "load").lane = Lane::kCopy; }, EveryOp},
    {"sends_slots", "slots", "of two slots; expected a load on lane load, or a computation that reads it",
     [](Program& p) { p.buffer(RootOf(p, Find(p, "exchange").uses[0].buffer)).slots = 2; }},
};

INSTANTIATE_TEST_SUITE_P(Structure, VerifyFinds, ::testing::ValuesIn(kStructure), NameOf);
INSTANTIATE_TEST_SUITE_P(Declarations, VerifyFinds, ::testing::ValuesIn(kDeclarations), NameOf);
INSTANTIATE_TEST_SUITE_P(Slots, VerifyFinds, ::testing::ValuesIn(kSlots), NameOf);

TEST(Verify, AcceptsStatisticsBehindTrainedParametersWithoutAFlag) {
  Program program = TwoColumns();
  AddStatistic(program);
  ExpectVerified(program);
  EXPECT_EQ(TrainedCount(program), 3);
  EXPECT_EQ(program.parameters.size(), 4u);
}

}  // namespace
}  // namespace colonnade::program
