#include "program/device_classes.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/builder.h"

namespace colonnade::program {
namespace {

using ::testing::ElementsAre;

constexpr int kDevices = 3, kBuffers = 5, kTasks = 3;

// Three devices that do alike: on each two tensors and a bucket of two; three tasks on two lanes.
Program Alike() {
  Builder b("alike", Mode::kTrain, 1, DType::kF32, {{"data", kDevices}});
  std::vector<BufferId> x(kDevices), y(kDevices);
  for (int d = 0; d < kDevices; ++d) {
    x[d] = b.AddBuffer(d, "x", DType::kF32, {8});
    y[d] = b.AddBuffer(d, "y", DType::kF32, {8});
    b.AddBucket({.device = d,
                 .name = "bucket",
                 .parts = 2,
                 .held_parts = 2,
                 .member_names = {"v", "w"},
                 .member_shapes = {{4}, {4}}});
  }
  for (int d = 0; d < kDevices; ++d) b.AddCompute(d, Lane::kCopy, Load{0}, {b.Write(x[d])}, {}, {});
  for (int d = 0; d < kDevices; ++d) b.AddCompute(d, Lane::kCompute, Copy{}, {b.Read(x[d]), b.Write(y[d])}, {}, {});
  for (int d = 0; d < kDevices; ++d) {
    const Region half = {{0}, {4}};
    b.AddCompute(d, Lane::kCompute, Copy{}, {{x[d], half, Access::kRead}, {y[d], half, Access::kWrite}}, {}, {});
  }
  Program program = std::move(b).Build();
  for (int d = 0; d < kDevices; ++d) program.tasks[kDevices + d].waits = {TaskId{d}};
  return program;
}

Buffer& BufferOf(Program& program, int device, int index) { return program.buffers[device * kBuffers + index]; }
Task& TaskOf(Program& program, int device, int index) { return program.tasks[index * kDevices + device]; }

TEST(DeviceClasses, DevicesThatDoAlikeAreOneClass) {
  Program program = Alike();
  // What is computed, where it comes from and what things are called makes no difference.
  BufferOf(program, 1, 0).name = "other";
  TaskOf(program, 1, 2).body = Compute{Sum{}};
  TaskOf(program, 1, 2).provenance.layer = "other";
  const DeviceClasses classes(program);
  EXPECT_EQ(classes.RepresentativeOf(1), 0);
  EXPECT_EQ(classes.RepresentativeOf(2), 0);
  EXPECT_TRUE(classes.IsRepresentative(0));
  EXPECT_THAT(classes.TasksOf(1), ElementsAre(TaskId{1}, TaskId{4}, TaskId{7}));
  EXPECT_EQ(classes.PairOf(TaskId{7}, 0), TaskId{6});
  EXPECT_EQ(classes.PairOf(BufferId{kBuffers + 2}, 2), BufferId{2 * kBuffers + 2});
}

struct Difference {
  std::string name;
  std::function<void(Program&)> make;  // on device 1

  friend void PrintTo(const Difference& difference, std::ostream* out) { *out << difference.name; }
};

class DeviceClassesTell : public ::testing::TestWithParam<Difference> {};

TEST_P(DeviceClassesTell, ADeviceThatDiffersFromTheOthers) {
  Program program = Alike();
  GetParam().make(program);
  const DeviceClasses classes(program);
  EXPECT_TRUE(classes.IsRepresentative(1));
  EXPECT_EQ(classes.RepresentativeOf(2), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Each, DeviceClassesTell,
    ::testing::Values(
        Difference{"type", [](Program& p) { BufferOf(p, 1, 0).dtype = DType::kF64; }},
        Difference{"shape", [](Program& p) { BufferOf(p, 1, 0).shape = {9}; }},
        Difference{"lifetime", [](Program& p) { BufferOf(p, 1, 0).lifetime = Lifetime::kPersistent; }},
        Difference{"slots", [](Program& p) { BufferOf(p, 1, 0).slots = 2; }},
        Difference{"storage", [](Program& p) { BufferOf(p, 1, 3).storage = Root{}; }},
        Difference{"parts", [](Program& p) { std::get<Bucket>(BufferOf(p, 1, 2).storage).held_parts = 1; }},
        Difference{"all_parts", [](Program& p) { std::get<Bucket>(BufferOf(p, 1, 2).storage).parts = 4; }},
        Difference{"first_part", [](Program& p) { std::get<Bucket>(BufferOf(p, 1, 2).storage).first_part = 1; }},
        Difference{"equal_parts", [](Program& p) { std::get<Bucket>(BufferOf(p, 1, 2).storage).equal_parts ^= true; }},
        Difference{"bucket_of_member",
                   [](Program& p) { std::get<BucketMember>(BufferOf(p, 1, 3).storage).bucket.value += 1; }},
        Difference{"members", [](Program& p) { std::get<Bucket>(BufferOf(p, 1, 2).storage).members.pop_back(); }},
        Difference{"member", [](Program& p) { std::get<BucketMember>(BufferOf(p, 1, 3).storage).index = 1; }},
        Difference{"lane", [](Program& p) { TaskOf(p, 1, 2).lane = Lane::kCopy; }},
        Difference{"buffer", [](Program& p) { TaskOf(p, 1, 2).uses[0].buffer = BufferOf(p, 1, 1).id; }},
        Difference{"box", [](Program& p) { TaskOf(p, 1, 2).uses[0].region.size = {3}; }},
        Difference{"access", [](Program& p) { TaskOf(p, 1, 2).uses[1].access = Access::kAccumulate; }},
        Difference{"uses", [](Program& p) { TaskOf(p, 1, 2).uses.pop_back(); }},
        Difference{"no_wait", [](Program& p) { TaskOf(p, 1, 1).waits.clear(); }},
        Difference{"wait", [](Program& p) { TaskOf(p, 1, 1).waits = {TaskOf(p, 1, 2).id}; }},
        Difference{"wait_on_step_before", [](Program& p) { TaskOf(p, 1, 0).waits_previous = {TaskOf(p, 1, 1).id}; }},
        Difference{"a_task_less",
                   [](Program& p) {
                     p.tasks.erase(p.tasks.begin() + 2 * kDevices + 1);
                     p.tasks.back().id.value = 2 * kDevices + 1;
                   }}),
    [](const auto& info) { return info.param.name; });

TEST(DeviceClasses, ApartEachIsTheFirstOfItsOwn) {
  const DeviceClasses classes = DeviceClasses::EachApart(Alike());
  for (int d = 0; d < kDevices; ++d) EXPECT_TRUE(classes.IsRepresentative(d));
}

}  // namespace
}  // namespace colonnade::program
