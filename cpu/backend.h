// The CPU backend: N virtual devices in one process, each with four lanes, as a GPU has streams.
//
// A device's compute lane runs kernels on threads_per_device threads, on oneDNN or on the plain loops of cpu/ref; the others
// move data. Memory, layouts and kernels of a loaded Program are cpu/load/loaded.h's. Thread rule: that of engine::Backend.
#ifndef COLONNADE_CPU_BACKEND_H_
#define COLONNADE_CPU_BACKEND_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/backend.h"

namespace colonnade::cpu {

struct CpuOptions {
  int devices = 1;
  int threads_per_device = 0;  // 0: DefaultThreadsPerDevice
  // kWinograd: as kOneDnn, but convolutions of 3 x 3 and 5 x 5 by our own kernels of Winograd's algorithm (Lavin and Gray
  // 2015) where that takes less time. They multiply 4 and 6.25 times less often, their relative error is some 1e-6 where a
  // direct one's is 1e-7, and exact data do not give equal bits under all plans. In bf16 they compute in float, or
  // many channels in bf16, with an error of some 4e-3 (conv_winograd.h). On an x86 both flush denormals: what is below
  // 2^-126 counts as zero. kReference: plain loops, for f32, bf16 and f64 Programs, which flush nothing.
  enum class Kernels { kOneDnn, kWinograd, kReference };
  Kernels kernels = Kernels::kOneDnn;
  int64_t memory_limit_bytes = 0;  // of each device; 0: none
};

// Returns the kernels that "onednn", "winograd" or "reference" names; nothing for any other name.
std::optional<CpuOptions::Kernels> KernelsFromName(absl::string_view name);

// Returns a device's share of the cores that the process may use (by affinity mask and control groups), at most what
// OMP_NUM_THREADS and OMP_THREAD_LIMIT allow; at least 1.
int DefaultThreadsPerDevice(int devices);

// Makes the backend. InvalidArgument if an option is out of range, FailedPrecondition if OpenMP does not give a device its
// threads, or would bind those of several devices to the same cores (OMP_PROC_BIND), or the Winograd kernels are not made
// for this processor: they need AVX-512, or AVX2 and FMA.
absl::StatusOr<std::unique_ptr<engine::Backend>> MakeCpuBackend(const CpuOptions& options);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_BACKEND_H_
