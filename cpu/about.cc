#include "cpu/about.h"

#include "absl/strings/str_format.h"
#include "cpu/onednn.h"
#include "cpu/ops/winograd_loops.h"

namespace colonnade::cpu {
namespace {

// Those that both series of oneDNN name; others as numbers.
std::string Name(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return absl::StrFormat("isa 0x%x", static_cast<unsigned>(isa));
  }
}

std::string NameOfThreads(unsigned runtime) {
  switch (runtime) {
    case DNNL_RUNTIME_SEQ:
      return "one thread";
    case DNNL_RUNTIME_OMP:
      return "OpenMP";
    case DNNL_RUNTIME_TBB:
      return "TBB";
    default:
      return absl::StrFormat("runtime %u", runtime);
  }
}

}  // namespace

OneDnn AboutOneDnn() {
  const dnnl_version_t& version = *dnnl_version();
  return {absl::StrFormat("%d.%d.%d", version.major, version.minor, version.patch), Name(dnnl::get_effective_cpu_isa()),
          NameOfThreads(version.cpu_runtime)};
}

Bf16Kernels Bf16KernelsHere() {
  const auto has = [isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa())](dnnl::cpu_isa set) {
    return (isa & static_cast<unsigned>(set)) == static_cast<unsigned>(set);
  };
  if (has(dnnl::cpu_isa::avx512_core_amx)) return Bf16Kernels::kAmx;
  if (has(dnnl::cpu_isa::avx512_core_bf16)) return Bf16Kernels::kAvx512;
  return has(dnnl::cpu_isa::avx512_core) ? Bf16Kernels::kEmulated : Bf16Kernels::kNone;
}

std::string Bf16Products() {
  switch (Bf16KernelsHere()) {
    case Bf16Kernels::kAmx:
      return "AMX";
    case Bf16Kernels::kAvx512:
      return "avx512_core_bf16";
    case Bf16Kernels::kEmulated:
      return "avx512_core, emulated";
    case Bf16Kernels::kNone:
      break;
  }
  return "in fp32";
}

std::string Bf16WinogradProducts() {
  const Bf16Kernels direct = Bf16KernelsHere();
  if (direct == Bf16Kernels::kAmx) return "";
  const bool multiplies_bf16 = direct == Bf16Kernels::kAvx512 && FindWinogradLoops<Bf16>(3) != nullptr;
  return multiplies_bf16 ? "in fp32, of many channels in bf16" : "in fp32";
}

bool HasWinograd() { return FindWinogradLoops<float>(3) != nullptr; }

}  // namespace colonnade::cpu
