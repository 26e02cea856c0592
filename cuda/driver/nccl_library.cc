#include "cuda/driver/nccl_library.h"

#include "absl/status/status.h"

#if COLONNADE_NCCL

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cuda/status.h"

namespace colonnade::cuda {
namespace {

constexpr int kLeastNccl = NCCL_VERSION(2, 22, 0);  // which aborts ranks as a group
static_assert(NCCL_VERSION_CODE >= kLeastNccl, "ranks cannot be aborted as a group");

template <class Function>
absl::Status FindInNccl(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function != nullptr) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("NCCL's library has no ", name, "; install NCCL ", VersionOfLibrary(kLeastNccl), " or newer"));
}

}  // namespace

absl::StatusOr<NcclLibrary> LoadNccl(const char* library) {
  void* loaded = ::dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (loaded == nullptr) return absl::UnavailableError(absl::StrCat("NCCL cannot be loaded (", ::dlerror(), ")"));
  NcclLibrary nccl;
#define COLONNADE_FIND_IN_NCCL(name) RETURN_IF_ERROR(FindInNccl(loaded, "nccl" #name, nccl.name));
  COLONNADE_NCCL_FUNCTIONS(COLONNADE_FIND_IN_NCCL)
#undef COLONNADE_FIND_IN_NCCL
  if (nccl.GetVersion(&nccl.version) != ncclSuccess || nccl.version < kLeastNccl) {
    return absl::UnavailableError(absl::StrCat("ncclGetVersion: expected ", VersionOfLibrary(kLeastNccl),
                                               " or newer, found ", VersionOfLibrary(nccl.version)));
  }
  return nccl;
}

}  // namespace colonnade::cuda

#else

namespace colonnade::cuda {

absl::StatusOr<NcclLibrary> LoadNccl(const char*) {
  return absl::UnimplementedError("NCCL's header was not found when this was built");
}

}  // namespace colonnade::cuda

#endif
