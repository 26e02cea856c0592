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
  partition::LowerOptions lower;  // `pixels` become those of the data
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
  VerifyErrors tolerance;        // the largest that was granted
  VerifyErrors error;            // the largest that was found, relative
  std::string worst_tensor;      // whose error is the largest part of what it was granted
  double worst_error = 0, worst_bound = 0;
  int64_t steps = 0;
  std::set<std::string> notes;  // of its Programs (engine::LoadedProgram::Notes)
};

// Runs `options.steps` steps on one device and under `plan`, each from the single device's state, and compares relative
// norms.
//
// A loss below 0.1 is compared as if it were 0.1. Bounds: 1e-10 with reference kernels; there a gradient whose norm is
// below 2.3e-3 (1024·2⁻⁵² / 1e-10) of that of all gradients together, or of 1, is compared as if it had that norm, since one
// that is zero but for roundings is as inexact as what it is summed of, and so is a parameter's change among all changes,
// and a running statistic's. Where 1e-10 is passed, too, four times what the single device's gradients differ by from
// parameters of which each is off by its last two bits: a normalisation of two values makes much of roundings. In f32, loss
// 1e-5; a gradient 1e-4, or four times the distance of the single device's own gradient from that of double-precision
// kernels, whichever is larger. Where that is passed, too, the single device's gradients from parameters of which each is
// off by its last two bits count as its own: a ReLU or a pooling whose values nearly tie may fall on either side, wherever a
// plan adds in another order. A parameter's change has the bound of its gradient, or two roundings of the parameter,
// 2⁻²³·‖w‖ / ‖Δw‖, if that is larger. An average of parameters may differ by 1e-4, or by what its parameter may. In tf32
// 5e-3 takes the place of 1e-5 and 1e-4. In bf16 everything is compared with one device in double: 1.5 times the distance of
// one device whose reference kernels round where the Program stores bf16, or one rounding (2⁻⁸) if that is larger. Where
// that is passed, what those kernels make of parameters that are each off by up to half of one counts as well: of a tensor
// of few elements one step shows one draw of its roundings.
// OutOfRange where a loss, a gradient or a parameter is not finite.
absl::StatusOr<VerifyReport> VerifyPlan(const layers::LayerGraph& graph, const partition::Plan& plan,
                                        engine::DataSource& data, const VerifyOptions& options);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_VERIFY_PLAN_H_
