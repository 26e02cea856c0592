// Whether a plan computes what one device computes: loss, every gradient and every parameter's change, step by step.
#ifndef COLONNADE_TOOLS_VERIFY_PLAN_H_
#define COLONNADE_TOOLS_VERIFY_PLAN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "cpu/backend.h"
#include "engine/data_source.h"
#include "engine/trainer.h"
#include "partition/lower.h"
#include "partition/plan.h"

namespace colonnade::tools {

struct VerifyOptions {
  int64_t steps = 3;
  uint64_t seed = 1;
  bool reference = false;  // Programs in double on reference kernels, on the CPU
  bool bf16 = false;       // Programs in bf16, on `make_backend`
  bool tf32 = false;       // `make_backend` rounds the factors of products to 2⁻¹¹
  // Makes the devices for all kernels but the reference ones.
  std::function<absl::StatusOr<std::unique_ptr<engine::Backend>>(int devices)> make_backend = [](int devices) {
    return cpu::MakeCpuBackend({.devices = devices, .threads_per_device = 1});
  };
  // Called before each training step of a Program, with how many there have been and how many there will be; more where
  // double-precision kernels are asked, too.
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
  engine::LearningRatePolicy learning_rate;
  partition::LowerOptions lower;  // `pixels` become those of the data, `dtype` what `reference` and `bf16` say
  // What makes the Programs that are compared; a test of the comparison puts a wrong one here.
  std::function<absl::StatusOr<program::Program>(const layers::LayerGraph&, const partition::Plan&,
                                                 const partition::LowerOptions&)>
      make_program = partition::Lower;
};

struct VerifyErrors {
  double loss = 0, gradient = 0, parameter = 0;
};

struct VerifyReport {
  bool ok = true;
  // The Program that shows no gradients gives the same weights, bit for bit, or its backend gives no equal bits
  // (engine::LoadedProgram::GivesEqualBits).
  bool training_program_agrees = true;
  std::string differing_copies;  // of which tensor two devices hold copies that are not equal bits; else empty
  // Of each kind the tensor whose error is the largest part of its bound: the error, relative, and the bound.
  VerifyErrors error, tolerance;
  VerifyErrors largest;      // errors, of whatever bounds
  std::string worst_tensor;  // whose error is the largest part of what it was granted
  double worst_error = 0, worst_bound = 0;
  int64_t steps = 0;
  std::set<std::string> notes;  // of its Programs (engine::LoadedProgram::Notes)
};

// Returns the bytes of host memory that VerifyPlan takes at least beside its devices: numbers in double of the state before
// a step, and of what each of its Programs makes of it. `program` trains under the plan, in the element type that is
// verified.
int64_t HostBytesOfVerify(const program::Program& program);

// Runs `options.steps` steps on one device and under `plan`, each from the single device's state, and compares relative
// norms. The bounds are
//
//   kernels    compared with                         loss             gradient
//   reference  the single device, which is in double 1e-10            max(1e-10, 4 D)
//   f32        the single device                     1e-5             max(1e-4, 4 D)
//   tf32       the single device                     5e-3             max(5e-3, 4 D)
//   bf16       one device in double                  max(1.5 R, 2⁻⁸)  max(1.5 R, 2⁻⁸)
//
// where D is the distance of the single device's gradient from that of double-precision kernels, and R that of one device
// whose reference kernels round where the Program stores bf16. Where a bound is passed, D and R are the largest over
// neighbours as well. Those of D are steps from parameters of which each is off by its last two bits: a ReLU or a pooling
// whose values nearly tie may fall on either side, wherever a plan adds in another order, and a normalisation of two values
// makes much of roundings. Those of R are off by up to half a rounding: of a tensor of few elements one step shows one draw
// of its roundings.
//
// A parameter's change has the bound of its gradient, or two roundings of the parameter, 2⁻²³·‖w‖ / ‖Δw‖, if that is larger.
// Where gradients are clipped, it may be twice the part by which the norms of all gradients differ, since that scales it.
// Under AdamW, which divides each element of a gradient by its size, an element's two changes may differ by 4 times the part
// by which its two gradients do, of both changes together, or by that part of the largest step: where a gradient is
// roundings alone, each device moves by the whole rate.
//
// An average of parameters, decay·a + (1 − decay)·w, may differ by 1e-4, or by 1 − decay of what its parameter may. A loss
// below 0.1 is compared as if it were 0.1.
//
// What is zero but for roundings is as inexact as what it is summed of. With reference kernels a gradient whose norm is
// below 2.3e-3 (1024·2⁻⁵² / 1e-10) of that of all gradients together, or of 1, is compared as if it had that norm; and so is
// a parameter's change among all changes, and a running statistic's. In f32 D says as much; it is relative to at least 2⁻¹⁰
// of the single device's own, since what is zero in double has no norm. In bf16, where R is at least 1/2, which is no digit,
// and exceeded, it is compared, and R taken, as if it had 2.0e-3 (64·2⁻²³ / 2⁻⁸) of the norm of all, or of 1.
//
// OutOfRange where a loss, a gradient or a parameter is not finite. FailedPrecondition where no training step is asked for,
// options contradict each other, or the data's images are none of the network's.
absl::StatusOr<VerifyReport> VerifyPlan(const layers::LayerGraph& graph, const partition::Plan& plan,
                                        engine::DataSource& data, const VerifyOptions& options);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_VERIFY_PLAN_H_
