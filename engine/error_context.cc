#include "engine/error_context.h"

namespace colonnade::engine {

absl::Status InTask(const absl::Status& status, const program::Task& task) {
  if (status.ok()) return status;
  return WithContext(status, program::Describe(task));
}

}  // namespace colonnade::engine
