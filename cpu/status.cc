#include "cpu/status.h"

#include <new>

#include "absl/strings/str_cat.h"
#include "cpu/onednn.h"

namespace colonnade::cpu {

absl::Status StatusOf(const std::exception& error) {
  if (const auto* dnnl_error = dynamic_cast<const dnnl::error*>(&error)) {
    const std::string message = absl::StrCat("oneDNN: ", dnnl_error->what());
    switch (dnnl_error->status) {
      case dnnl_out_of_memory:
        return absl::ResourceExhaustedError(message);
      case dnnl_invalid_arguments:
        return absl::InvalidArgumentError(message);
      case dnnl_unimplemented:
        return absl::UnimplementedError(message);
      default:
        return absl::InternalError(message);
    }
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return absl::ResourceExhaustedError("out of memory");
  return absl::InternalError(error.what());
}

}  // namespace colonnade::cpu
