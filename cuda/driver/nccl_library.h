// The functions of NCCL, found in its library when they are wanted: NCCL is optional, so the module is not linked to it.
//
// Any thread. Built without NCCL's header, LoadNccl returns Unimplemented.
#ifndef COLONNADE_CUDA_NCCL_LIBRARY_H_
#define COLONNADE_CUDA_NCCL_LIBRARY_H_

#if COLONNADE_NCCL
#include <nccl.h>
#endif

#include "absl/status/statusor.h"

namespace colonnade::cuda {

constexpr char kNcclLibrary[] = "libnccl.so.2";

#if COLONNADE_NCCL

#define COLONNADE_NCCL_FUNCTIONS(F) \
  F(GetVersion)                     \
  F(GetErrorString)                 \
  F(GetUniqueId)                    \
  F(GroupStart)                     \
  F(GroupEnd)                       \
  F(CommInitRankConfig)             \
  F(CommGetAsyncError)              \
  F(CommFinalize)                   \
  F(CommDestroy)                    \
  F(CommAbort)                      \
  F(AllReduce)                      \
  F(Reduce)                         \
  F(Broadcast)                      \
  F(AllGather)                      \
  F(ReduceScatter)

// Each by its name without "nccl".
struct NcclLibrary {
#define COLONNADE_NCCL_MEMBER(name) decltype(&::nccl##name) name = nullptr;
  COLONNADE_NCCL_FUNCTIONS(COLONNADE_NCCL_MEMBER)
#undef COLONNADE_NCCL_MEMBER
  int version = 0;  // of the library, as NCCL_VERSION makes it
};

#else

struct NcclLibrary {
  int version = 0;
};

#endif

// Loads `library`, or looks in this program where it is null; it is never unloaded. Unavailable where it cannot be loaded,
// lacks a function or is too old.
absl::StatusOr<NcclLibrary> LoadNccl(const char* library = kNcclLibrary);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_NCCL_LIBRARY_H_
