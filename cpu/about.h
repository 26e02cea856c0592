// What a bug report needs to know of oneDNN. Any thread.
#ifndef COLONNADE_CPU_ABOUT_H_
#define COLONNADE_CPU_ABOUT_H_

#include <string>

namespace colonnade::cpu {

struct OneDnn {
  std::string version;          // of the library that is loaded: "2.6.3"
  std::string instruction_set;  // the largest that its kernels use here, in its own word: "avx512_core_bf16"
  std::string threads;          // what runs them: "OpenMP"
};
OneDnn AboutOneDnn();

// How oneDNN's kernels multiply numbers in bf16 on this processor. kNone: it has no such kernels, so f32 ones run on copies.
enum class Bf16Kernels { kNone, kEmulated, kAvx512, kAmx };
Bf16Kernels Bf16KernelsHere();

// Returns Bf16KernelsHere in words: "AMX", "avx512_core_bf16", "avx512_core, emulated", or "in fp32" for kNone.
std::string Bf16Products();

// Returns how Winograd's kernels multiply numbers in bf16: "in fp32", "in fp32, of many channels in bf16", or "" where
// direct kernels are always faster.
std::string Bf16WinogradProducts();

// Whether there are kernels of Winograd's algorithm for this processor: it has AVX-512, or AVX2 and FMA.
bool HasWinograd();

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_ABOUT_H_
