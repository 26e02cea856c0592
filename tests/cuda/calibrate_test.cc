// A profile of GPUs is made as one of the CPU is; here of GPUs that the host plays.
#include <memory>

#include "cuda/backend.h"
#include "engine/machine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "models/models.h"
#include "tools/calibration.h"

namespace colonnade::tools {
namespace {

using testing::Contains;
using testing::Field;

TEST(CalibrationOfGpus, GivesAProfileThatCanBeReadAgain) {
  constexpr int kGpus = 2;
  const BackendMaker make = [](int devices) {
    return cuda::MakeCudaBackend({.devices = devices, .times_tasks = true},
                                 std::make_unique<cuda::HostCalls>(cuda::HostCallsOptions{.gpus = kGpus}));
  };
  CalibrationTarget target = CpuTarget(kGpus);
  target.dtype = program::DType::kBF16;
  target.make_backend = target.make_mover = make;
  const auto graph = models::BuildModel("two_column", {.width = 0.5});
  ASSERT_TRUE(graph.ok());
  Calibration calibration(target);
  for (const CalibrationPlan& plan : CalibrationPlans(kGpus)) {
    const absl::Status loaded = calibration.Load(*graph, plan, {4, 8});
    ASSERT_TRUE(loaded.ok()) << loaded;
    for (int p = 0; p < calibration.loaded(); ++p) {
      const absl::Status ran = calibration.Run(p, 1, absl::ZeroDuration());
      ASSERT_TRUE(ran.ok()) << ran;
    }
  }
  const absl::Status swept = calibration.SweepTransfers();
  ASSERT_TRUE(swept.ok()) << swept;
  const absl::StatusOr<engine::Machine> machine = engine::MachineFromJson(engine::MachineToJson(calibration.Result()));
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_THAT(machine->ops, Contains(Field(&engine::OpRate::op, "conv_backward_weights")));
  EXPECT_THAT(machine->ops, Contains(Field(&engine::OpRate::op, "copy"))) << "the rounding of weights to bf16";
  EXPECT_THAT(machine->transfers, Contains(Field(&engine::MeasuredTransfer::operation, "all_reduce")));
}

}  // namespace
}  // namespace colonnade::tools
