#include "cli/trained_weights.h"

#include "cli/devices.h"
#include "engine/error_context.h"
#include "engine/state.h"
#include "program/status_macros.h"

namespace colonnade::cli {

absl::StatusOr<std::unique_ptr<engine::Executor>> LoadTrained(const Flags& flags, const Session& session,
                                                              const program::Program& program,
                                                              const engine::MappedWeights& weights) {
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   OpenBackend(flags, session.plan.mesh.device_count(), session.threads_per_device));
  if (backend->name() == "cpu") {
    RETURN_IF_ERROR(CheckMemory(flags, session, {&program}));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> executor, engine::Executor::Create(program, *backend));
  RETURN_IF_ERROR(
      engine::WithContext(engine::WriteState(executor->loaded(), engine::StateKind::kValue, weights.tensors), flags.init));
  PrintSession(flags, session, backend->name());
  return executor;
}

}  // namespace colonnade::cli
