#include <dlfcn.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cuda/about.h"
#include "cuda/backend.h"

namespace colonnade::cuda {
namespace {

// The module is never unloaded: libraries in it have destructors of their own.
template <class Function>
absl::StatusOr<Function> FindInDriver(const char* name) {
  void* module = ::dlopen("libcolonnade_cuda_driver.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  void* function = module == nullptr ? nullptr : ::dlsym(module, name);
  if (function == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("the CUDA driver module cannot be loaded (", ::dlerror(),
                     "); it is built where nvcc, cuDNN and cuBLAS are found, and is in the package colonnade-cuda"));
  }
  return reinterpret_cast<Function>(function);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Calls>> OpenCuda(const std::string& engines_file, int most_gpus) {
  using Open = void (*)(const std::string*, int, absl::StatusOr<std::unique_ptr<Calls>>*);
  ASSIGN_OR_RETURN(const Open open, FindInDriver<Open>("colonnade_open_cuda"));
  absl::StatusOr<std::unique_ptr<Calls>> calls = absl::UnknownError("");
  open(&engines_file, most_gpus, &calls);
  return calls;
}

absl::StatusOr<CudaFacts> AboutCuda() {
  using About = void (*)(CudaFacts*);
  ASSIGN_OR_RETURN(const About about, FindInDriver<About>("colonnade_about_cuda"));
  CudaFacts facts;
  about(&facts);
  return facts;
}

}  // namespace colonnade::cuda
