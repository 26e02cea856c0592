// What a sub-command works with: the network and the plan that the flags ask for, and the data for it.
#ifndef COLONNADE_CLI_SESSION_SESSION_H_
#define COLONNADE_CLI_SESSION_SESSION_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command_line/flags.h"
#include "cli/session/data.h"
#include "data/pipeline.h"
#include "data/sample_set.h"
#include "engine/trainer.h"
#include "models/models.h"
#include "nlohmann/json.hpp"
#include "partition/lower.h"
#include "partition/plan.h"
#include "partition/planner.h"
#include "tools/trained_on.h"

namespace colonnade::cli {

struct Session {
  models::ModelInfo model;  // its own shape and recipe
  layers::LayerGraph graph;
  partition::Plan plan;
  bool plan_was_searched = false;  // by --plan=auto, in this run or in that of a record
  int threads_per_device = 1;
  // What the device makes of the data's bytes; where there are no data, what it would cost.
  program::PixelScaling pixels;
  std::optional<tools::TestView> test_view;  // of images in files, where weights state it
};

// Returns what the flags set of plans, whatever made them.
partition::PlanSettings PlanSettingsOf(const PlanFlags& flags);

// Returns how many devices the flags ask for: --devices, or the mesh of a plan file, of which what is wrong is said when the
// session is opened.
int DeviceCount(const PlanFlags& flags);

// Returns the network of --model, as steps of `mode` compute it, and its plan: with --plan=auto the planner's choice for
// such steps on --machine; `candidates`, if not null, gets all that it judged.
absl::StatusOr<Session> OpenSession(const SessionFlags& flags, const data::SampleSet* samples,
                                    program::Mode mode = program::Mode::kTrain,
                                    std::vector<partition::Candidate>* candidates = nullptr);

// Returns a stream of `samples` for the session's network, whose scaling becomes the session's. Mean and deviation are those
// of the flags, else those given, else measured. With `on_padded` padding stands for what cannot be read (BadSample::kPad),
// whatever --bad-sample says.
absl::StatusOr<std::unique_ptr<data::Pipeline>> OpenStream(
    const SessionFlags& flags, Session& session, Samples samples, data::SplitOf split, const data::Moments& moments = {},
    std::function<void(int64_t position, const absl::Status& why)> on_padded = {});

// Whether mean and deviation of the pixels are to be measured on the training set, since a flag that says them is not given.
bool MeasuresPixels(const DataFlags& flags);
// Returns those of `train` where MeasuresPixels, as the session's network sees its images; else none.
absl::StatusOr<data::Moments> MeasureMoments(const SessionFlags& flags, Session& session, const Samples& train);

// Samples that are computed at once: the batch, or one of the micro-batches of --accumulate.
int64_t SamplesAtOnce(const SessionFlags& flags);
program::DType DTypeOf(const BackendFlags& flags);  // of the Program
std::string DTypeName(const BackendFlags& flags);   // "fp64" where --kernels=reference computes in it, else --dtype
partition::LowerOptions LowerOptionsOf(const SessionFlags& flags, const Session& session, program::Mode mode);
// Memory of the host beside that of the devices.
struct HostUse {
  int64_t bytes = 0;
  std::string purpose;        // "the copy of the state for --checkpoint"
  int64_t samples_ahead = 0;  // that streams read ahead (--prefetch), all together
};
// Returns ResourceExhausted, naming a --batch that would fit, where `programs` of the session, on each of so many backends,
// and `beside` need more memory than this machine has free. For the CPU backend, before anything is loaded.
absl::Status CheckMemory(const SessionFlags& flags, const Session& session,
                         absl::Span<const program::Program* const> programs, int backends = 1, const HostUse& beside = {});
// Says on stderr what is to be known of a plan; what is true of many layers, once.
void SayNotes(const partition::Plan& plan);
// The first lines of a command, on stderr: model, plan and what it could not split, mesh, devices of `backend`
// (Backend::name).
void SaySession(const BackendFlags& flags, const Session& session, const std::string& backend);

int64_t ColumnsOf(const partition::Mesh& mesh);   // the size of its axis "model"; 1 where it has none
int64_t ReplicasOf(const partition::Mesh& mesh);  // groups of so many devices

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SESSION_SESSION_H_
