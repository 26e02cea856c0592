#include "cli/session/session.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/counted.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "cli/command_line/config.h"
#include "cli/command_line/errors.h"
#include "cli/output/progress.h"
#include "cli/session/devices.h"
#include "cli/session/network.h"
#include "cli/session/optimizer.h"
#include "cpu/backend.h"
#include "cpu/threads/cores.h"
#include "engine/error_context.h"
#include "engine/io/file.h"
#include "engine/precision.h"
#include "nlohmann/json.hpp"
#include "partition/legality.h"
#include "partition/named_plans.h"
#include "tools/host_memory.h"
#include "tools/measure.h"
#include "tools/planning.h"

namespace colonnade::cli {
namespace {

// The plan that the record of a run holds, as text; nothing where `json` is no record.
std::optional<std::string> PlanInRecord(const std::string& json) {
  const auto object = base::ParseJson<nlohmann::json>(json, kDeepestRecord);
  const bool is_record = object.ok() && object->is_object() && object->contains("flags") && object->contains(kPlanInRecord);
  return is_record ? std::optional((*object)[kPlanInRecord].dump()) : std::nullopt;
}

// A plan, and whether a record of a run holds it.
struct PlanInFile {
  partition::Plan plan;
  bool is_of_record = false;
};

absl::StatusOr<PlanInFile> ReadPlan(const std::string& path) {
  ASSIGN_OR_RETURN(std::string json, engine::ReadFile(path, kMostRecordBytes));
  const std::optional<std::string> of_record = PlanInRecord(json);
  absl::StatusOr<partition::Plan> plan = partition::PlanFromJson(of_record.value_or(json));
  RETURN_IF_ERROR(engine::WithContext(plan.status(), path));
  return PlanInFile{*std::move(plan), of_record.has_value()};
}

bool LooksLikeAFile(const std::string& plan) {
  std::error_code error;
  return plan.find('/') != std::string::npos || plan.find('.') != std::string::npos || std::filesystem::exists(plan, error);
}

// A plan, and whether a search has made it.
struct ChosenPlan {
  partition::Plan plan;
  bool was_searched = false;
};

absl::StatusOr<ChosenPlan> PlanFromFile(const SessionFlags& flags, const layers::LayerGraph& graph) {
  ASSIGN_OR_RETURN(PlanInFile file, ReadPlan(flags.plan.name));
  partition::Plan& plan = file.plan;
  RETURN_IF_ERROR(engine::WithContext(partition::ValidatePlan(plan, graph, SamplesAtOnce(flags)), flags.plan.name));
  if (plan.name.empty()) plan.name = flags.plan.name;
  const int devices = plan.mesh.device_count();
  const bool was_searched = file.is_of_record && plan.name == partition::kAutoPlan;
  const bool has_left_some_out = was_searched && devices < flags.plan.devices;  // of the devices that the search was given
  if (flags.plan.devices != 0 && flags.plan.devices != devices && !has_left_some_out) {
    return absl::FailedPreconditionError(
        absl::StrFormat("--devices: expected %d, the mesh of %s, found %d", devices, flags.plan.name, flags.plan.devices));
  }
  return ChosenPlan{std::move(plan), was_searched};
}

absl::StatusOr<ChosenPlan> PlanOf(const SessionFlags& flags, const layers::LayerGraph& graph) {
  const int devices = std::max(flags.plan.devices, 1);
  const std::string name = !flags.plan.name.empty() ? flags.plan.name : devices > 1 ? "data" : "single";
  if (!partition::IsNamedPlan(name) && LooksLikeAFile(name)) return PlanFromFile(flags, graph);
  ChosenPlan chosen;  // or which names there are
  ASSIGN_OR_RETURN(
      chosen.plan,
      partition::NamedPlan(name, graph,
                           {.devices = devices, .columns = flags.plan.columns, .global_batch = SamplesAtOnce(flags)}));
  return chosen;
}

// A plan splits a micro-batch, of which messages about the batch know nothing but its size; and what a network file says is
// a flag for one of the zoo.
absl::Status NoteMicroBatches(const SessionFlags& flags, const absl::Status& status) {
  if (status.ok() || flags.optimizer.accumulate == 1) return status;
  if (absl::StrContains(status.message(), "set samples_per_group") && !tools::IsNetworkFile(flags.network.model)) {
    return absl::Status(status.code(), absl::StrCat(status.message(), " (--batch-norm=ghost:N)"));
  }
  if (!absl::StrContains(status.message(), "global batch")) return status;
  return absl::Status(
      status.code(),
      absl::StrFormat("%s; these numbers are of micro-batches: --accumulate cuts the batch of %d into %d, so a --batch is "
                      "%d times as large",
                      status.message(), flags.plan.batch, flags.optimizer.accumulate, flags.optimizer.accumulate));
}

absl::StatusOr<ChosenPlan> AutomaticPlan(const SessionFlags& flags, const Session& session, program::Mode mode,
                                         std::vector<partition::Candidate>& candidates) {
  ASSIGN_OR_RETURN(engine::Machine machine, OpenMachine(flags.profile, flags.backend));
  CountProgress progress("planning:");
  absl::StatusOr<std::vector<partition::Candidate>> found =
      tools::SearchPlansOn(machine, session.graph, LowerOptionsOf(flags, session, mode), std::max(flags.plan.devices, 1),
                           {.settings = PlanSettingsOf(flags.plan), .progress = [&](int judgements, double part) {
                              progress.Show(static_cast<int64_t>(part * 100), 100,
                                            absl::StrCat(" of the search, ", base::Counted(judgements, "plan")));
                            }});
  if (!found.ok()) return FieldAsFlag(found.status(), "devices");
  candidates = *std::move(found);
  partition::Plan plan = candidates.front().plan;
  if (!candidates.front().fits) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "no plan fits on %s of machine %s: the smallest needs %.7g MB, a device has %.7g MB; use more devices or a "
        "smaller --batch",
        base::Counted(std::max(flags.plan.devices, 1), "device"), machine.Title(),
        static_cast<double>(candidates.front().judgement.peak_memory_bytes) / 1e6, machine.memory_bytes.value / 1e6));
  }
  if (plan.name != partition::kAutoPlan) {
    plan.notes.push_back(
        absl::StrFormat("auto chose %s, judged on machine %s: no other plan is faster by more than the simulator errs",
                        plan.name, machine.Title()));
  }
  if (flags.backend.dtype == "auto")
    plan.notes.push_back("the plan was searched for steps in fp32; --dtype=auto compares the types under this plan only");
  plan.name = partition::kAutoPlan;
  return ChosenPlan{std::move(plan), /*was_searched=*/true};
}

// Where the batch does not divide into as many parts as the plan has.
void NoteFewerParts(const SessionFlags& flags, const layers::LayerGraph& graph, partition::Plan& plan) {
  if (!partition::MovesActivations(plan)) return;
  const auto sharding = partition::ShardGraph(graph, plan, SamplesAtOnce(flags));
  if (!sharding.ok() || sharding->transfer_parts == plan.transfer_parts) return;  // lowering says what is wrong
  const int parts = sharding->transfer_parts;
  plan.notes.push_back(
      absl::StrFormat("activations move in %s of the batch, not %d: what a device holds of it does not "
                      "divide into more",
                      base::Counted(parts, "part"), plan.transfer_parts));
}

}  // namespace

partition::PlanSettings PlanSettingsOf(const PlanFlags& flags) {
  partition::PlanSettings settings{.reduction = partition::ReductionFromName(flags.reduction)};
  if (!flags.overlap.empty()) settings.overlap = flags.overlap == "on";
  if (flags.bucket_bytes > 0) settings.bucket_bytes = flags.bucket_bytes;
  if (flags.piece_bytes > 0) settings.piece_bytes = flags.piece_bytes;
  if (flags.transfer_parts > 0) settings.transfer_parts = flags.transfer_parts;
  return settings;
}

int DeviceCount(const PlanFlags& flags) {
  const bool is_file =
      flags.name != partition::kAutoPlan && !partition::IsNamedPlan(flags.name) && LooksLikeAFile(flags.name);
  if (flags.devices > 0 || !is_file) return std::max(flags.devices, 1);
  const absl::StatusOr<PlanInFile> file = ReadPlan(flags.name);
  return file.ok() ? file->plan.mesh.device_count() : 1;
}

absl::StatusOr<Session> OpenSession(const SessionFlags& flags, const data::SampleSet* samples, program::Mode mode,
                                    std::vector<partition::Candidate>* candidates) {
  Session session;
  ASSIGN_OR_RETURN(tools::Network network, OpenNetwork(flags.network, samples, flags.data.pad));
  if (samples != nullptr) RETURN_IF_ERROR(CheckImages(flags.network, flags.data.pad, network, *samples));
  session.model = std::move(network.info);
  session.graph = mode == program::Mode::kEval ? layers::InEvaluation(std::move(network.graph)) : std::move(network.graph);
  session.pixels = tools::PixelsFromBytes(session.graph);
  RETURN_IF_ERROR(FieldAsFlag(partition::CheckBatchSize(session.graph, flags.plan.batch), "batch"));
  RETURN_IF_ERROR(CheckUpdate(flags, session.graph));
  if (flags.plan.batch % flags.optimizer.accumulate != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("--accumulate: expected a number of micro-batches that divides the batch of %d, found %d",
                        flags.plan.batch, flags.optimizer.accumulate));
  }
  std::vector<partition::Candidate> judged;
  const bool is_auto = flags.plan.name == partition::kAutoPlan;
  if (is_auto && flags.plan.columns != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("--columns: expected none beside --plan=auto, which chooses them itself, found %d; name another "
                        "plan, or leave it out",
                        flags.plan.columns));
  }
  absl::StatusOr<ChosenPlan> chosen = is_auto
                                          ? AutomaticPlan(flags, session, mode, candidates != nullptr ? *candidates : judged)
                                          : PlanOf(flags, session.graph);
  if (!chosen.ok()) return NoteMicroBatches(flags, chosen.status());
  session.plan = std::move(chosen->plan);
  session.plan_was_searched = chosen->was_searched;
  RETURN_IF_ERROR(NoteMicroBatches(
      flags, partition::ValidatePlan(session.plan, session.graph, SamplesAtOnce(flags), mode, flags.optimizer.accumulate)));
  const int64_t columns = ColumnsOf(session.plan.mesh);
  if (flags.plan.columns != 0 && flags.plan.columns != columns) {
    return absl::FailedPreconditionError(absl::StrFormat("--columns: expected %d, which is what plan \"%s\" has, found %d",
                                                         columns, session.plan.name, flags.plan.columns));
  }
  PlanSettingsOf(flags.plan).ApplyTo(session.plan);
  NoteFewerParts(flags, session.graph, session.plan);
  session.threads_per_device = flags.backend.threads_per_device > 0
                                   ? flags.backend.threads_per_device
                                   : cpu::DefaultThreadsPerDevice(session.plan.mesh.device_count());
  return session;
}

namespace {

absl::StatusOr<data::PipelineOptions> PipelineOptionsOf(const SessionFlags& flags, const Session& session,
                                                        const data::SampleSet& samples, data::SplitOf split,
                                                        const data::Moments& moments) {
  const program::Shape& shape = session.graph.nodes[0].sample_shape;
  ASSIGN_OR_RETURN(data::AugmentOptions augment,
                   RecipeFor(flags.data, samples, shape, split, session.model.shifts_images, session.test_view));
  ASSIGN_OR_RETURN(data::AugmentOptions test_recipe,
                   RecipeFor(flags.data, samples, shape, data::SplitOf::kTest, /*shifts=*/false));
  test_recipe.frame = 0;  // which is not measured
  const bool train = split == data::SplitOf::kTrain;
  data::PipelineOptions options{
      .seed = flags.seed,
      .shuffle = train && flags.data.shuffle == "on",
      .once = !train,
      .augment = augment,
      .threads = DataThreads(flags.data),
      .prefetch = flags.data.prefetch,
      .jpeg_index_bytes = JpegIndexBytes(flags.data),
      .bad_sample = flags.data.bad_sample == "skip" ? data::BadSample::kSkip : data::BadSample::kError,
      .moments = moments,
      .test_view = test_recipe,
      .border = flags.data.pad};
  if (!flags.data.mean.empty()) options.moments.mean = flags.data.mean;
  if (!flags.data.std.empty()) options.moments.std = flags.data.std;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<data::Pipeline>> OpenStream(
    const SessionFlags& flags, Session& session, Samples samples, data::SplitOf split, const data::Moments& moments,
    std::function<void(int64_t position, const absl::Status& why)> on_padded) {
  ASSIGN_OR_RETURN(data::PipelineOptions options, PipelineOptionsOf(flags, session, *samples, split, moments));
  if (on_padded) {
    options.bad_sample = data::BadSample::kPad;
    options.on_padded = std::move(on_padded);
  }
  absl::StatusOr<std::unique_ptr<data::Pipeline>> stream = data::Pipeline::Create(std::move(samples), std::move(options));
  if (!stream.ok()) return FieldAsFlag(FieldAsFlag(stream.status(), "mean"), "std");
  session.pixels = (*stream)->scaling();
  return stream;
}

bool MeasuresPixels(const DataFlags& flags) { return flags.mean.empty() || flags.std.empty(); }

absl::StatusOr<data::Moments> MeasureMoments(const SessionFlags& flags, Session& session, const Samples& train) {
  if (!MeasuresPixels(flags.data)) return data::Moments();
  ASSIGN_OR_RETURN(const std::unique_ptr<data::Pipeline> stream, OpenStream(flags, session, train, data::SplitOf::kTrain));
  return stream->moments();
}

int64_t SamplesAtOnce(const SessionFlags& flags) { return flags.plan.batch / flags.optimizer.accumulate; }

program::DType DTypeOf(const BackendFlags& flags) {
  const program::DType dtype = engine::DTypeOf(flags.dtype);
  return dtype == program::DType::kF32 && flags.kernels == "reference" ? program::DType::kF64 : dtype;
}

std::string DTypeName(const BackendFlags& flags) { return DTypeOf(flags) == program::DType::kF64 ? "fp64" : flags.dtype; }

partition::LowerOptions LowerOptionsOf(const SessionFlags& flags, const Session& session, program::Mode mode) {
  const bool train = mode == program::Mode::kTrain;
  return {.mode = mode,
          .global_batch = train ? flags.plan.batch : SamplesAtOnce(flags),
          .micro_batches = train ? flags.optimizer.accumulate : 1,
          .dtype = DTypeOf(flags.backend),
          .pixels = session.pixels,
          .update = UpdateOptionsOf(flags.optimizer, session)};
}

absl::Status CheckMemory(const SessionFlags& flags, const Session& session,
                         absl::Span<const program::Program* const> programs, int backends, const HostUse& beside) {
  const int64_t sample_bytes = program::ElementCount(session.graph.nodes[0].sample_shape);
  const auto read_ahead = [&](int64_t batch) { return beside.samples_ahead * batch / flags.plan.batch * sample_bytes; };
  const auto bytes_of = [&](int64_t batch) -> absl::StatusOr<int64_t> {
    std::vector<program::Program> smaller;
    std::vector<const program::Program*> pointers;
    for (const program::Program* program : programs) {
      partition::LowerOptions options = LowerOptionsOf(flags, session, program->mode);
      options.global_batch = std::max<int64_t>(batch / flags.optimizer.accumulate, 1) * options.micro_batches;
      ASSIGN_OR_RETURN(program::Program lowered, partition::Lower(session.graph, session.plan, options));
      smaller.push_back(std::move(lowered));
    }
    for (const program::Program& program : smaller) pointers.push_back(&program);
    return backends * tools::LeastBytesOf(pointers) + beside.bytes + read_ahead(batch);
  };
  const int64_t splits = session.plan.mesh.device_count() * flags.optimizer.accumulate;  // into which a batch divides
  const absl::Status fits = FieldAsFlag(
      tools::CheckHostMemory(backends * tools::LeastBytesOf(programs) + beside.bytes + read_ahead(flags.plan.batch),
                             flags.plan.batch, splits, bytes_of),
      "batch");
  if (fits.ok() || beside.bytes == 0) return fits;
  return absl::ResourceExhaustedError(absl::StrFormat("%s; %.1f GB of what is needed are %s", fits.message(),
                                                      static_cast<double>(beside.bytes) / 1e9, beside.purpose));
}

void SaySession(const BackendFlags& flags, const Session& session, const std::string& backend) {
  const partition::Mesh& mesh = session.plan.mesh;
  const std::string devices =
      backend == "cuda"
          ? absl::StrFormat("%s, %s", base::Counted(mesh.device_count(), "CUDA device"), flags.dtype)
          : absl::StrFormat("%s of %s, %s kernels%s", base::Counted(mesh.device_count(), "CPU device"),
                            base::Counted(session.threads_per_device, "thread"), flags.kernels, ProductsOnCpu(flags));
  if (backend == "cpu" && session.threads_per_device > cpu::UsableCores()) {
    Say(absl::StrFormat("note: a device's %d threads share %s and wait for each other: steps take many times as long",
                        session.threads_per_device, base::Counted(cpu::UsableCores(), "usable core")));
  }
  const auto flops = static_cast<double>(session.graph.ForwardFlops(1));
  Say(absl::StrFormat(
      "model %s: %d parameters, %s forward per image", session.graph.name, session.graph.ParameterCount(),
      flops < 1e8 ? absl::StrFormat("%.3g Mflop", flops / 1e6) : absl::StrFormat("%.3g Gflop", flops / 1e9)));
  Say(absl::StrFormat("plan %s: %d x %d (replicas x columns), %s, overlap %s; %s", session.plan.name, ReplicasOf(mesh),
                      ColumnsOf(mesh), partition::Name(session.plan.reduction), session.plan.overlap ? "on" : "off",
                      devices));
  SayNotes(session.plan);
}

void SayNotes(const partition::Plan& plan) {
  constexpr absl::string_view kLayer = "layer \"";
  constexpr size_t kFew = 2;
  struct Alike {
    std::string name;  // of the first layer
    size_t count = 0;
  };
  std::map<std::string, Alike> layers;  // by the note behind the layer's name
  const auto rest_of = [&](absl::string_view note) -> absl::string_view {
    const size_t end = absl::StartsWith(note, kLayer) ? note.find('"', kLayer.size()) : absl::string_view::npos;
    return end == absl::string_view::npos ? absl::string_view() : note.substr(end + 1);
  };
  for (const std::string& note : plan.notes) {
    const absl::string_view rest = rest_of(note);
    Alike& alike = layers[std::string(rest)];
    if (alike.count++ == 0) alike.name = note.substr(0, note.size() - rest.size());
  }
  for (const std::string& note : plan.notes) {
    const absl::string_view rest = rest_of(note);
    const Alike& alike = layers.at(std::string(rest));
    if (rest.empty() || alike.count <= kFew) {
      Say(absl::StrCat("note: ", note));
    } else if (absl::StartsWith(note, alike.name)) {
      Say(absl::StrFormat("note: %d layers such as %s%s", alike.count, alike.name, rest));
    }
  }
}

int64_t ColumnsOf(const partition::Mesh& mesh) {
  for (const program::MeshAxis& axis : mesh.axes) {
    if (axis.name == "model") return axis.size;
  }
  return 1;
}

int64_t ReplicasOf(const partition::Mesh& mesh) { return mesh.device_count() / ColumnsOf(mesh); }

}  // namespace colonnade::cli
