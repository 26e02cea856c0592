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

// How its kernels multiply numbers in bf16 here: "AMX", "avx512_core_bf16", "avx512_core, emulated", or "in fp32" where it
// has none and f32 kernels work on copies.
std::string Bf16Products();

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_ABOUT_H_
