#include <dlfcn.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cuda/backend.h"

namespace colonnade::cuda {

// The module is never unloaded: libraries in it have destructors of their own.
absl::StatusOr<std::unique_ptr<Calls>> OpenCuda(const std::string& engines_file) {
  using Open = void (*)(const std::string*, absl::StatusOr<std::unique_ptr<Calls>>*);
  void* module = ::dlopen("libcolonnade_cuda_driver.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  Open open = module == nullptr ? nullptr : reinterpret_cast<Open>(::dlsym(module, "colonnade_open_cuda"));
  if (open == nullptr) {
    return absl::UnavailableError(absl::StrCat("the CUDA driver module cannot be loaded (", ::dlerror(),
                                               "); it is built where nvcc, cuDNN and cuBLAS are found"));
  }
  absl::StatusOr<std::unique_ptr<Calls>> calls = absl::UnknownError("");
  open(&engines_file, &calls);
  return calls;
}

}  // namespace colonnade::cuda
