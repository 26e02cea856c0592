#include <dlfcn.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
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
    const absl::StatusCode code = HasGpuFile() ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kUnavailable;
    return absl::Status(
        code, absl::StrCat("the CUDA driver module cannot be loaded (", ::dlerror(),
                           "); it is built where nvcc, cuDNN and cuBLAS are found, and is in the package colonnade-cuda"));
  }
  return reinterpret_cast<Function>(function);
}

}  // namespace

bool HasGpuFile(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator file(folder, error), end; !error && file != end; file.increment(error)) {
    const std::string name = file->path().filename();
    absl::string_view number = name;
    const bool is_numbered = absl::ConsumePrefix(&number, "nvidia") && !number.empty() &&
                             number.find_first_not_of("0123456789") == absl::string_view::npos;
    if (is_numbered || name == "dxg") return true;
  }
  return false;
}

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
