#include "fixture.h"

#include <utility>

#include "gtest/gtest.h"
#include "program/dag.h"

namespace colonnade::cpu {

program::Program Scheduled(program::Program program) {
  const program::Dependencies dependencies = program::DeriveDependencies(program);
  for (program::Task& task : program.tasks) {
    for (program::TaskId before : dependencies.within[task.id.value]) {
      if (program.task(before).lane != task.lane) task.waits.push_back(before);
    }
    for (program::TaskId before : dependencies.carried[task.id.value]) {
      if (program.task(before).lane != task.lane) task.waits_previous.push_back(before);
    }
  }
  return program;
}

program::Builder MakeBuilder(int devices, program::DType dtype) {
  return program::Builder("test", program::Mode::kTrain, 4, dtype, {{"data", devices}});
}

std::vector<double> Integers(int64_t count, int seed, int range) {
  std::vector<double> values(count);
  uint32_t state = 12345u + 977u * seed;
  for (double& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<int>((state >> 8) % (2 * range + 1)) - range;
  }
  return values;
}

Fed AddFed(program::Builder& builder, int device, const std::string& name, program::DType dtype,
           const program::Shape& shape) {
  const Fed fed{builder.AddBuffer(device, name + ".host", dtype, shape, program::Lifetime::kPersistent),
                builder.AddBuffer(device, name, dtype, shape)};
  builder.AddCompute(device, program::Lane::kCopy, program::Copy{}, {builder.Read(fed.host), builder.Write(fed.step)}, {},
                     {name});
  return fed;
}

Session::Session(program::Program program, CpuOptions options) : program_(Scheduled(std::move(program))) {
  for (engine::HostSlot& slot : slots_) {
    slot.inputs.resize(program_.inputs.size());
    for (const program::Output& output : program_.outputs) slot.outputs.emplace_back(output.pieces.size());
  }
  options.devices = program_.device_count;
  auto backend = MakeCpuBackend(options);
  EXPECT_TRUE(backend.ok()) << backend.status();
  backend_ = *std::move(backend);
  auto loaded = backend_->Load(program_, slots_);
  status_ = loaded.status();
  if (loaded.ok()) loaded_ = *std::move(loaded);
}

void Session::Launch(int64_t step) {
  for (const program::Task& task : program_.tasks) {
    for (program::TaskId before : task.waits) loaded_->Await(task.device, task.lane, before, step);
    for (program::TaskId before : task.waits_previous) loaded_->Await(task.device, task.lane, before, step - 1);
    loaded_->Launch(task.id, step);
  }
}

std::vector<double> Session::Read(program::BufferId buffer) {
  std::vector<double> values(program::ElementCount(program_.buffer(buffer).shape), -999);
  const absl::Status status = loaded_->Read(buffer, absl::MakeSpan(values));
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

void Session::Write(program::BufferId buffer, const std::vector<double>& values) {
  const absl::Status status = loaded_->Write(buffer, values);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace colonnade::cpu
