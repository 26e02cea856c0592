#include "cli/trained_weights.h"

#include "absl/strings/str_cat.h"
#include "cli/devices.h"
#include "cli/network.h"
#include "engine/state.h"
#include "program/status_macros.h"

namespace colonnade::cli {

absl::Status TakeWeights(const Flags& flags, absl::Span<const engine::TensorView> weights, engine::LoadedProgram& loaded) {
  const absl::Status written = engine::WriteState(loaded, engine::StateKind::kValue, weights);
  if (written.ok()) return written;
  return absl::Status(written.code(),
                      absl::StrCat(flags.init, ": ", written.message(), AdviceOnHeads(flags, written.message())));
}

absl::StatusOr<std::unique_ptr<engine::Executor>> LoadTrained(const Flags& flags, const Session& session,
                                                              const program::Program& program,
                                                              const engine::MappedWeights& weights) {
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   OpenBackend(flags, session.plan.mesh.device_count(), session.threads_per_device));
  if (backend->name() == "cpu") {
    RETURN_IF_ERROR(CheckMemory(flags, session, {&program}));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> executor, engine::Executor::Create(program, *backend));
  RETURN_IF_ERROR(TakeWeights(flags, weights.tensors, executor->loaded()));
  PrintSession(flags, session, backend->name());
  return executor;
}

}  // namespace colonnade::cli
