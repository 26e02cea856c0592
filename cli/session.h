// What a sub-command works with: the network, the plan and the devices that the flags ask for.
#ifndef COLONNADE_CLI_SESSION_H_
#define COLONNADE_CLI_SESSION_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/data.h"
#include "cli/flags.h"
#include "data/pipeline.h"
#include "data/sample_set.h"
#include "engine/backend.h"
#include "engine/machine.h"
#include "engine/trainer.h"
#include "models/models.h"
#include "nlohmann/json.hpp"
#include "partition/lower.h"
#include "partition/plan.h"
#include "partition/planner.h"
#include "tools/gpus.h"
#include "tools/network_file.h"

namespace colonnade::cli {

// Tables of devices have a row for each of up to so many; of more they say less.
constexpr size_t kMostDevicesOneByOne = 16;

struct Session {
  models::ModelInfo model;  // its own shape and recipe
  layers::LayerGraph graph;
  partition::Plan plan;
  int threads_per_device = 1;
  // What the device makes of the data's bytes; where there are no data, what it would cost.
  program::PixelScaling pixels;
};

// What --model names: a network of the zoo as the flags ask for it (where they leave channels and size open, those of the
// data's images, if all are alike; `samples` may be null), or a file as it stands.
absl::StatusOr<tools::Network> OpenNetwork(const Flags& flags, const data::SampleSet* samples);
absl::StatusOr<layers::LayerGraph> BuildNetwork(const Flags& flags, const data::SampleSet* samples);
// That model and its plan: with --plan=auto the planner's choice for --machine; `candidates`, if not null, gets all that it
// judged.
absl::StatusOr<Session> OpenSession(const Flags& flags, const data::SampleSet* samples,
                                    std::vector<partition::Candidate>* candidates = nullptr);

// A stream of `samples` for the session's network, whose scaling becomes the session's. Mean and deviation are those of the
// flags, else those given, else measured.
absl::StatusOr<std::unique_ptr<data::Pipeline>> OpenStream(const Flags& flags, Session& session, Samples samples, bool train,
                                                           const data::Moments& moments = {});

// Samples that are computed at once: the batch, or one of the micro-batches of --accumulate.
int64_t SamplesAtOnce(const Flags& flags);
program::DType DTypeOf(const Flags& flags);  // of the Program
partition::LowerOptions LowerOptionsOf(const Flags& flags, const Session& session, program::Mode mode);
// --backend. Unavailable if it is cuda and there is none. With `times_tasks` a GPU times them too; a CPU always does.
absl::StatusOr<std::unique_ptr<engine::Backend>> OpenBackend(const Flags& flags, int devices, int threads_per_device,
                                                             bool times_tasks = false);
// ResourceExhausted, naming a --batch that would fit, where `programs` of the session need more memory than this machine has
// free. For the CPU backend, before anything is loaded.
absl::Status CheckMemory(const Flags& flags, const Session& session, absl::Span<const program::Program* const> programs,
                         int backends = 1);
// Whether OpenBackend would find what --backend and --dtype ask for.
absl::Status CheckBackend(const Flags& flags);
// The GPUs that --backend=cuda finds, at least one; else Unavailable.
absl::StatusOr<tools::Gpus> FindGpus();
// The profile that --machine names, for steps in --dtype; where auto has yet to choose, in fp32. Notes about it go to
// stderr.
absl::StatusOr<engine::Machine> OpenMachine(const Flags& flags);
// Warns on stderr where the profile was fitted to another network.
// What --machine read the profile from; null where its name says which it is.
nlohmann::ordered_json MachineFileJson(const engine::Machine& machine);
void WarnOfFit(const engine::Machine& machine, const layers::LayerGraph& graph);
// Names the flag --FIELD where the message of a library begins with "field: ".
absl::Status FieldAsFlag(const absl::Status& status, absl::string_view field);

// The first lines of a command, on stderr: model, plan and what it could not split, mesh, devices of `backend`
// (Backend::name).
void PrintSession(const Flags& flags, const Session& session, const std::string& backend);

// {"replicas": R, "columns": M}
nlohmann::ordered_json MeshJson(const partition::Mesh& mesh);

// One line on stdout; bytes of file names that are no UTF-8 are replaced.
void PrintJson(const nlohmann::ordered_json& json);

// 0 ok, 1 unexpected, 2 usage, 12 does not fit, 21 not finite, 65 wrong contents, 66 missing, 69 no device, 74 cannot write.
int ExitCodeOf(const absl::Status& status);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SESSION_H_
