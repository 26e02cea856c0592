// Programs whose times on a machine one can compute by hand.
#ifndef COLONNADE_TESTS_ENGINE_SIMULATED_CASE_H_
#define COLONNADE_TESTS_ENGINE_SIMULATED_CASE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "engine/simulator.h"
#include "gtest/gtest.h"
#include "program/builder.h"

namespace colonnade::engine {

// Tasks that move a given number of bytes through memory, or between devices.
class Case {
 public:
  explicit Case(int devices) : builder_("case", program::Mode::kTrain, 1, program::DType::kF32, {{"data", devices}}) {}

  program::BufferId Bytes(int device, int64_t bytes, const std::string& name = "x") {
    return builder_.AddBuffer(device, name, program::DType::kF32, {bytes / 4});
  }
  void Compute(int device, program::BufferId buffer, int64_t bytes, program::Lane lane = program::Lane::kCompute) {
    const program::TaskId task = builder_.AddCompute(device, lane, program::ActivationForward{program::Activation::kRelu},
                                                     {builder_.Accumulate(buffer)}, 0, {"layer"});
    work_.emplace_back(task, program::Work{.bytes_read = bytes});
  }
  // Bytes from the host for a computation of 5 ms, on the lanes given.
  void LoadAndCompute(program::BufferId x, program::Lane lane) {
    builder_.AddCompute(0, lane, program::Load{0}, {builder_.Write(x)}, 0, {"x", program::Pass::kInput});
    const program::BufferId y = Bytes(0, 4, "y");
    work_.emplace_back(
        builder_.AddCompute(0, program::Lane::kCompute, program::ActivationForward{program::Activation::kRelu},
                            {builder_.Read(x), builder_.Write(y)}, 0, {"layer"}),
        program::Work{.bytes_read = 5'000'000});
  }
  program::BufferId Loaded(int64_t bytes) { return builder_.AddLoaded(0, "x", program::DType::kF32, {bytes / 4}); }
  void Send(int from, program::BufferId x, int to, program::BufferId y) {
    const int64_t bytes = program::ElementCount(builder_.shape(x)) * 4;
    builder_.AddExchange(from, {{builder_.Read(x)}, {.bytes_sent = bytes}}, to, {{builder_.Write(y)}, {}},
                         program::Lane::kComm, {"send"});
  }
  void AllReduce(const std::vector<program::BufferId>& xs) {
    std::vector<int> devices;
    std::vector<program::Member> members;
    for (size_t d = 0; d < xs.size(); ++d) {
      devices.push_back(static_cast<int>(d));
      members.push_back({{builder_.Accumulate(xs[d])}, {}});
    }
    builder_.AddCollective(builder_.AddGroup(devices), {.kind = program::CollectiveKind::kAllReduce}, std::move(members),
                           program::Lane::kComm, {"sum"});
  }
  program::Program Build() {
    program::Program program = std::move(builder_).Build();
    for (const auto& [task, work] : work_) program.tasks[task.value].work = work;
    return program;
  }

 private:
  program::Builder builder_;
  std::vector<std::pair<program::TaskId, program::Work>> work_;  // whatever the extents of what they use
};

inline Simulation Of(const program::Program& program, const Machine& machine) {
  absl::StatusOr<Simulation> simulation = Simulate(program, machine);
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  return *std::move(simulation);
}

inline double Ms(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }
inline constexpr double kExact = 1e-9;

}  // namespace colonnade::engine

#endif  // COLONNADE_TESTS_ENGINE_SIMULATED_CASE_H_
