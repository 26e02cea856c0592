#include "cli/session.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/optimizer.h"
#include "cli/progress.h"
#include "cpu/about.h"
#include "cpu/backend.h"
#include "cuda/backend.h"
#include "engine/error_context.h"
#include "engine/io/file.h"
#include "engine/state.h"
#include "partition/named_plans.h"
#include "program/nearest_name.h"
#include "program/status_macros.h"
#include "tools/host_memory.h"
#include "tools/machines.h"
#include "tools/planning.h"

namespace colonnade::cli {
namespace {

constexpr int64_t kLargestPlanFile = int64_t{1} << 24;

absl::Status CheckFlagsOfCpu(const Flags& flags) {
  if (flags.kernels == "winograd" && !cpu::HasWinograd()) {
    return absl::FailedPreconditionError(
        "--kernels=winograd: expected a processor with AVX-512, or AVX2 and FMA; take --kernels=onednn");
  }
  if (flags.dtype == "tf32") {
    return absl::FailedPreconditionError("--dtype=tf32: tf32 needs --backend=cuda");
  }
  if (flags.collectives == "nccl") {
    return absl::FailedPreconditionError("--collectives=nccl: NCCL needs --backend=cuda");
  }
  if (!flags.search_algorithms.empty()) {
    return absl::FailedPreconditionError("--search-algorithms: algorithms are searched on GPUs (--backend=cuda)");
  }
  return absl::OkStatus();
}

cuda::Collectives CollectivesOf(const Flags& flags) {
  if (flags.collectives == "nccl") return cuda::Collectives::kNccl;
  return flags.collectives == "peer" ? cuda::Collectives::kPeer : cuda::Collectives::kAuto;
}

absl::Status NoCuda(const absl::Status& why) {
  return absl::UnavailableError(absl::StrCat("--backend=cuda: ", why.message(), "; use --backend=cpu"));
}

absl::StatusOr<partition::Plan> PlanFromFile(const Flags& flags, const layers::LayerGraph& graph) {
  ASSIGN_OR_RETURN(std::string json, engine::ReadFile(flags.plan, kLargestPlanFile));
  absl::StatusOr<partition::Plan> plan = partition::PlanFromJson(json);
  absl::Status status = plan.status();
  if (status.ok()) status = partition::ValidatePlan(*plan, graph, SamplesAtOnce(flags));
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat(flags.plan, ": ", status.message()));
  if (plan->name.empty()) plan->name = flags.plan;
  const int devices = plan->mesh.device_count();
  if (flags.devices != 0 && flags.devices != devices) {
    return absl::FailedPreconditionError(
        absl::StrFormat("--devices: expected %d, the mesh of %s, found %d", devices, flags.plan, flags.devices));
  }
  return plan;
}

absl::StatusOr<partition::Plan> PlanOf(const Flags& flags, const layers::LayerGraph& graph) {
  const int devices = std::max(flags.devices, 1);
  const std::string name = !flags.plan.empty() ? flags.plan : devices > 1 ? "data" : "single";
  const std::vector<std::string>& names = partition::PlanNames();
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    return partition::NamedPlan(name, graph,
                                {.devices = devices, .columns = flags.columns, .global_batch = SamplesAtOnce(flags)});
  }
  std::error_code error;
  const bool looks_like_a_file = name.find('/') != std::string::npos || name.find('.') != std::string::npos;
  if (looks_like_a_file || std::filesystem::exists(name, error)) return PlanFromFile(flags, graph);
  return partition::NamedPlan(name, graph, {});  // which names there are
}

// Bytes as values of 0..1.
program::PixelScaling PixelsOf(const layers::LayerGraph& graph) {
  const size_t channels = static_cast<size_t>(graph.nodes[0].sample_shape[0]);
  return {std::vector<double>(channels, 1.0 / 255), std::vector<double>(channels, 0)};
}

absl::StatusOr<partition::Plan> AutomaticPlan(const Flags& flags, const layers::LayerGraph& graph,
                                              std::vector<partition::Candidate>& candidates) {
  ASSIGN_OR_RETURN(engine::Machine machine, OpenMachine(flags));
  CountProgress progress("planning:");
  absl::StatusOr<std::vector<partition::Candidate>> found = tools::SearchPlansOn(
      machine, graph, {.global_batch = SamplesAtOnce(flags), .dtype = DTypeOf(flags), .pixels = PixelsOf(graph)},
      std::max(flags.devices, 1), [&](int judgements, double part) {
        progress.Show(static_cast<int64_t>(part * 100), 100, absl::StrFormat("%% of the search, %d plans", judgements));
      });
  if (!found.ok()) return FieldAsFlag(found.status(), "devices");
  candidates = *std::move(found);
  partition::Plan plan = candidates.front().plan;
  if (!candidates.front().fits) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "no plan fits on %d devices of machine %s: the smallest needs %.0f MB, a device has %.0f MB; use more devices or a "
        "smaller --batch",
        std::max(flags.devices, 1), machine.Title(),
        static_cast<double>(candidates.front().judgement.peak_memory_bytes) / 1e6, machine.memory_bytes.value / 1e6));
  }
  if (plan.name != partition::kAutoPlan)
    plan.notes.push_back(absl::StrFormat("auto on machine %s: plan %s; no other is faster by more than the simulator errs",
                                         machine.Title(), plan.name));
  if (flags.dtype == "auto")
    plan.notes.push_back("the plan was searched for steps in fp32; --dtype=auto compares the types under this plan only");
  plan.name = partition::kAutoPlan;
  return plan;
}

void ApplyOverrides(const Flags& flags, partition::Plan& plan) {
  plan.reduction = partition::ReductionFromName(flags.reduction).value_or(plan.reduction);
  if (!flags.overlap.empty()) plan.overlap = flags.overlap == "on";
  if (flags.bucket_bytes > 0) plan.bucket_bytes = flags.bucket_bytes;
  if (flags.piece_bytes > 0) plan.piece_bytes = flags.piece_bytes;
  if (flags.transfer_parts > 0) plan.transfer_parts = flags.transfer_parts;
}

// Where the batch does not divide into as many parts as the plan has.
void NoteFewerParts(const Flags& flags, const layers::LayerGraph& graph, partition::Plan& plan) {
  if (!partition::MovesActivations(plan)) return;
  const absl::StatusOr<int> parts = partition::TransferParts(graph, plan, SamplesAtOnce(flags));
  if (!parts.ok() || *parts == plan.transfer_parts) return;  // lowering says what is wrong
  plan.notes.push_back(
      absl::StrFormat("activations move in %d part%s of the batch, not %d: what a device holds of it does not "
                      "divide into more",
                      *parts, *parts == 1 ? "" : "s", plan.transfer_parts));
}

int64_t ClassesOf(const Flags& flags, const models::ModelInfo& model) {
  return flags.classes > 0 ? flags.classes : model.classes;
}

// The size of the axis that is named "model"; all other axes count as replicas.
int64_t ColumnsOf(const partition::Mesh& mesh) {
  for (const program::MeshAxis& axis : mesh.axes) {
    if (axis.name == "model") return axis.size;
  }
  return 1;
}
int64_t ReplicasOf(const partition::Mesh& mesh) { return mesh.device_count() / ColumnsOf(mesh); }

models::ModelOptions OptionsOf(const Flags& flags) {
  return {.input_channels = flags.input_channels,
          .input_size = flags.input_size,
          .classes = flags.classes,
          .width = flags.width,
          .dropout = flags.dropout == "on",
          .samples_per_group = SamplesPerGroup(flags.batch_norm),
          .zero_init_residual = flags.zero_init_residual == "on",
          .auxiliary_heads = flags.auxiliary_heads == "on",
          .label_smoothing = flags.label_smoothing};
}

// The flag among those that shape networks of the zoo which asks a file for what it is not; empty if none does.
std::string FlagAgainst(const Flags& flags, const tools::Network& network) {
  const models::ModelOptions asked = OptionsOf(flags), left;
  const program::Shape& image = network.graph.nodes[0].sample_shape;
  const auto differs = [](int64_t flag, int64_t own) { return flag != 0 && flag != own; };
  const std::pair<const char*, bool> all[] = {
      {"--channels", differs(asked.input_channels, image[0])},
      {"--input-size", differs(asked.input_size, image[1]) || differs(asked.input_size, image[2])},
      {"--classes", differs(asked.classes, network.graph.classes())},
      {"--width", asked.width != left.width},
      {"--dropout", asked.dropout != left.dropout},
      {"--batch-norm", asked.samples_per_group != left.samples_per_group},
      {"--zero-init-residual", asked.zero_init_residual != left.zero_init_residual},
      {"--auxiliary-heads", asked.auxiliary_heads != left.auxiliary_heads},
      {"--label-smoothing", asked.label_smoothing != left.label_smoothing}};
  for (const auto& [flag, is_against] : all) {
    if (is_against) return flag;
  }
  return "";
}

absl::StatusOr<tools::Network> NetworkOfFile(const Flags& flags) {
  ASSIGN_OR_RETURN(tools::Network network, tools::OpenNetwork(flags.model));
  const layers::LayerNode& images = network.graph.nodes[0];
  if (images.sample_shape.size() != 3) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: layer \"%s\", sample_shape: expected images [C,H,W], found %s",
                                                      flags.model, images.name, program::ToString(images.sample_shape)));
  }
  const std::string flag = FlagAgainst(flags, network);
  if (flag.empty()) return network;
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: expected none, since %s says what the network is; change the file, or write one of the zoo's: "
                      "colonnade models NAME %s=… --json",
                      flag, flags.model, flag));
}

// "; use another --width", where a flag makes the network another than the zoo's.
std::string FlagsThatShape(const Flags& flags) {
  std::vector<std::string> names;
  if (flags.width != 1) names.emplace_back("--width");
  if (flags.input_size != 0) names.emplace_back("--input-size");
  if (flags.input_channels != 0) names.emplace_back("--channels");
  if (flags.classes != 0) names.emplace_back("--classes");
  return names.empty() ? "" : absl::StrCat("; use another ", absl::StrJoin(names, " or "));
}

// "; --model=two_column takes such images", where models of the zoo do.
std::string ModelsFor(const program::Shape& shape) {
  std::vector<std::string> names;
  for (const models::ModelInfo& model : models::AllModels()) {
    if (shape == program::Shape{model.input_channels, model.input_size, model.input_size}) {
      names.push_back("--model=" + model.name);
    }
  }
  return names.empty()
             ? ""
             : absl::StrCat("; ", absl::StrJoin(names, " or "), names.size() > 1 ? " take" : " takes", " such images");
}

// "; --pad=2 makes such images of them", where zeros around the data's images do.
std::string PadFor(const Flags& flags, const program::Shape& expected, const program::Shape& found) {
  const int64_t rows = expected[1] - found[1], columns = expected[2] - found[2];
  const int64_t pad = flags.pad + rows / 2;
  if (expected[0] != found[0] || rows != columns || rows % 2 != 0 || pad < 0 || rows == 0 || pad > kMostPad) return "";
  return absl::StrFormat("; --pad=%d makes such images of them", pad);
}

absl::Status CheckImages(const Flags& flags, const Session& session, const data::SampleSet& samples) {
  const program::Shape& expected = session.graph.nodes[0].sample_shape;
  const program::Shape found = samples.image_shape().value_or(expected);
  const bool is_file = tools::IsNetworkFile(flags.model);
  if (found != expected) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "model \"%s\" takes images %s, %s has %s; set %s, or use other data%s%s", flags.model, program::ToString(expected),
        samples.name(), program::ToString(found), is_file ? "sample_shape in the file" : "--input-size and --channels",
        PadFor(flags, expected, found), ModelsFor(found)));
  }
  if (expected.size() != 3 || (expected[0] != 1 && expected[0] != 3 && !samples.image_shape().has_value())) {
    return absl::FailedPreconditionError(
        absl::StrFormat("model \"%s\" takes images %s, the files of %s give 1 or 3 channels", flags.model,
                        program::ToString(expected), samples.name()));
  }
  const int64_t classes = ClassesOf(flags, session.model);
  if (samples.classes() <= classes) return absl::OkStatus();
  const std::string remedy =
      is_file ? "change the last layer before the loss in the file" : absl::StrFormat("set --classes=%d", samples.classes());
  return absl::FailedPreconditionError(absl::StrFormat("model \"%s\" has %d classes, %s has %d; %s", flags.model, classes,
                                                       samples.name(), samples.classes(), remedy));
}

// What stands behind the kernels in the first lines: how they multiply in bf16.
std::string PrecisionOnCpu(const Flags& flags) {
  if (flags.dtype != "bf16") return "";
  if (flags.kernels == "reference") return ", bf16 (rounded doubles)";
  const std::string by_winograd = flags.kernels == "winograd" ? cpu::Bf16WinogradProducts() : "";
  const std::string first = by_winograd.empty() ? "" : absl::StrCat("convolutions by Winograd ", by_winograd, "; else ");
  return absl::StrCat(", bf16 (", first, cpu::Bf16Products(), ")");
}

}  // namespace

absl::StatusOr<tools::Network> OpenNetwork(const Flags& flags, const data::SampleSet* samples) {
  if (tools::IsNetworkFile(flags.model)) return NetworkOfFile(flags);
  const std::optional<program::Shape> shape = samples != nullptr ? samples->image_shape() : std::nullopt;
  models::ModelOptions options = OptionsOf(flags);
  if (shape.has_value() && options.input_channels == 0) options.input_channels = (*shape)[0];
  if (shape.has_value() && options.input_size == 0) options.input_size = (*shape)[1];
  absl::StatusOr<tools::Network> network = tools::OpenNetwork(flags.model, options);
  if (network.ok()) return network;
  options.input_channels = options.input_size = 0;
  const bool images_are_wrong = shape.has_value() && flags.input_size == 0 && tools::OpenNetwork(flags.model, options).ok();
  const std::string advice = images_are_wrong
                                 ? absl::StrFormat(" (built for the images %s of %s)%s", program::ToString(*shape),
                                                   samples->name(), ModelsFor(*shape))
                                 : FlagsThatShape(flags);
  return absl::FailedPreconditionError(absl::StrCat(network.status().message(), advice));
}

absl::StatusOr<layers::LayerGraph> BuildNetwork(const Flags& flags, const data::SampleSet* samples) {
  ASSIGN_OR_RETURN(tools::Network network, OpenNetwork(flags, samples));
  return std::move(network.graph);
}

absl::StatusOr<Session> OpenSession(const Flags& flags, const data::SampleSet* samples,
                                    std::vector<partition::Candidate>* candidates) {
  Session session;
  ASSIGN_OR_RETURN(tools::Network network, OpenNetwork(flags, samples));
  session.model = std::move(network.info);
  session.graph = std::move(network.graph);
  if (samples != nullptr) RETURN_IF_ERROR(CheckImages(flags, session, *samples));
  session.pixels = PixelsOf(session.graph);
  RETURN_IF_ERROR(FieldAsFlag(partition::CheckBatch(session.graph, flags.batch), "batch"));
  RETURN_IF_ERROR(CheckUpdate(flags, session.graph));
  if (flags.batch % flags.accumulate != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("--accumulate: expected a number of micro-batches that divides the batch of %d, found %d",
                        flags.batch, flags.accumulate));
  }
  std::vector<partition::Candidate> judged;
  ASSIGN_OR_RETURN(partition::Plan plan,
                   flags.plan == partition::kAutoPlan
                       ? AutomaticPlan(flags, session.graph, candidates != nullptr ? *candidates : judged)
                       : PlanOf(flags, session.graph));
  session.plan = std::move(plan);
  const int64_t columns = ColumnsOf(session.plan.mesh);
  if (flags.columns != 0 && flags.columns != columns) {
    return absl::FailedPreconditionError(absl::StrFormat("--columns: expected %d, which is what plan \"%s\" has, found %d",
                                                         columns, session.plan.name, flags.columns));
  }
  ApplyOverrides(flags, session.plan);
  NoteFewerParts(flags, session.graph, session.plan);
  session.threads_per_device = flags.threads_per_device > 0 ? flags.threads_per_device
                                                            : cpu::DefaultThreadsPerDevice(session.plan.mesh.device_count());
  return session;
}

absl::StatusOr<std::unique_ptr<data::Pipeline>> OpenStream(const Flags& flags, Session& session, Samples samples, bool train,
                                                           const data::Moments& moments) {
  const program::Shape& shape = session.graph.nodes[0].sample_shape;
  ASSIGN_OR_RETURN(data::AugmentOptions augment, RecipeFor(flags, *samples, shape, train, session.model.shifts_images));
  data::PipelineOptions options{.seed = flags.seed,
                                .shuffle = train && flags.shuffle == "on",
                                .once = !train,
                                .augment = augment,
                                .threads = DataThreads(flags),
                                .prefetch = flags.prefetch,
                                .jpeg_index_bytes = JpegIndexBytes(flags),
                                .bad_sample = flags.bad_sample == "skip" ? data::BadSample::kSkip : data::BadSample::kError,
                                .moments = moments,
                                .border = flags.pad};
  if (!flags.mean.empty()) options.moments.mean = flags.mean;
  if (!flags.std.empty()) options.moments.std = flags.std;
  absl::StatusOr<std::unique_ptr<data::Pipeline>> stream = data::Pipeline::Create(std::move(samples), std::move(options));
  if (stream.ok()) session.pixels = (*stream)->scaling();
  return stream;
}

int64_t SamplesAtOnce(const Flags& flags) { return flags.batch / flags.accumulate; }

program::DType DTypeOf(const Flags& flags) {
  if (flags.dtype == "bf16") return program::DType::kBF16;
  return flags.kernels == "reference" ? program::DType::kF64 : program::DType::kF32;
}

partition::LowerOptions LowerOptionsOf(const Flags& flags, const Session& session, program::Mode mode) {
  const bool train = mode == program::Mode::kTrain;
  return {.mode = mode,
          .global_batch = train ? flags.batch : SamplesAtOnce(flags),
          .micro_batches = train ? flags.accumulate : 1,
          .dtype = DTypeOf(flags),
          .pixels = session.pixels,
          .update = UpdateOptionsOf(flags, session)};
}

absl::Status CheckBackend(const Flags& flags) {
  return flags.backend == "cpu" ? CheckFlagsOfCpu(flags) : flags.backend == "cuda" ? FindGpus().status() : absl::OkStatus();
}

absl::StatusOr<tools::Gpus> FindGpus() {
  absl::StatusOr<tools::Gpus> gpus = tools::FindGpus();
  return gpus.ok() ? gpus : NoCuda(gpus.status());
}

absl::StatusOr<engine::Machine> OpenMachine(const Flags& flags) {
  std::vector<std::string> notes;
  const std::string precision = flags.dtype == "auto" ? tools::kUsualPrecision : flags.dtype;
  absl::StatusOr<engine::Machine> machine = tools::OpenMachine(flags.machine, &notes, precision);
  for (const std::string& note : notes) std::fprintf(stderr, "%s\n", note.c_str());
  if (machine.ok() && flags.input_rate > 0) {
    machine->input_images_per_sec = {flags.input_rate, engine::Origin::kMeasured, "--input-rate"};
  }
  return machine;
}

nlohmann::ordered_json MachineFileJson(const engine::Machine& machine) {
  return machine.file.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(machine.file);
}

void WarnOfFit(const engine::Machine& machine, const layers::LayerGraph& graph) {
  const std::string warning = tools::FitWarning(machine, graph);
  if (!warning.empty()) std::fprintf(stderr, "warning: %s\n", warning.c_str());
}

absl::Status FieldAsFlag(const absl::Status& status, absl::string_view field) {
  if (!absl::StartsWith(status.message(), absl::StrCat(field, ": "))) return status;
  const std::string flag = absl::StrReplaceAll(field, {{"_", "-"}});
  return absl::Status(status.code(), absl::StrCat("--", flag, status.message().substr(field.size())));
}

absl::StatusOr<std::unique_ptr<engine::Backend>> OpenBackend(const Flags& flags, int devices, int threads_per_device,
                                                             bool times_tasks) {
  if (flags.backend != "cpu") {
    absl::StatusOr<std::unique_ptr<cuda::Calls>> calls = cuda::OpenCuda(flags.search_algorithms);
    if (calls.ok()) {
      return cuda::MakeCudaBackend({.devices = devices,
                                    .precision = flags.dtype == "tf32" ? cuda::Precision::kTf32 : cuda::Precision::kF32,
                                    .deterministic = flags.deterministic,
                                    .collectives = CollectivesOf(flags),
                                    .graphs = flags.cuda_graphs == "on",
                                    .times_tasks = times_tasks},
                                   *std::move(calls));
    }
    const bool of_file = absl::IsInvalidArgument(calls.status()) || absl::IsDataLoss(calls.status());
    if (of_file && !flags.search_algorithms.empty()) return calls.status();
    if (flags.backend == "cuda") return NoCuda(calls.status());
  }
  RETURN_IF_ERROR(CheckFlagsOfCpu(flags));
  const std::map<std::string, cpu::CpuOptions::Kernels> kernels = {{"onednn", cpu::CpuOptions::Kernels::kOneDnn},
                                                                   {"winograd", cpu::CpuOptions::Kernels::kWinograd},
                                                                   {"reference", cpu::CpuOptions::Kernels::kReference}};
  return cpu::MakeCpuBackend(
      {.devices = devices, .threads_per_device = threads_per_device, .kernels = kernels.at(flags.kernels)});
}

absl::Status CheckMemory(const Flags& flags, const Session& session, absl::Span<const program::Program* const> programs,
                         int backends) {
  const int64_t copied = flags.checkpoint.empty() ? 0 : engine::StateBytes(*programs[0]);  // of checkpoints
  const auto bytes_of = [&](int64_t batch) -> absl::StatusOr<int64_t> {
    std::vector<program::Program> smaller;
    std::vector<const program::Program*> pointers;
    for (const program::Program* program : programs) {
      partition::LowerOptions options = LowerOptionsOf(flags, session, program->mode);
      options.global_batch = std::max<int64_t>(batch / flags.accumulate, 1) * options.micro_batches;
      ASSIGN_OR_RETURN(program::Program lowered, partition::Lower(session.graph, session.plan, options));
      smaller.push_back(std::move(lowered));
    }
    for (const program::Program& program : smaller) pointers.push_back(&program);
    return backends * tools::LeastBytesOf(pointers) + copied;
  };
  const absl::Status fits = FieldAsFlag(tools::CheckHostMemory(backends * tools::LeastBytesOf(programs) + copied,
                                                               flags.batch, session.plan.mesh.device_count(), bytes_of),
                                        "batch");
  if (fits.ok() || copied == 0) return fits;
  return absl::ResourceExhaustedError(
      absl::StrFormat("%s; %.1f GB of what is needed are the copy of the state for --checkpoint", fits.message(),
                      static_cast<double>(copied) / 1e9));
}

void PrintSession(const Flags& flags, const Session& session, const std::string& backend) {
  const partition::Mesh& mesh = session.plan.mesh;
  const char* const plural = mesh.device_count() > 1 ? "s" : "";
  const std::string devices =
      backend == "cuda" ? absl::StrFormat("%d CUDA device%s, %s", mesh.device_count(), plural, flags.dtype)
                        : absl::StrFormat("%d CPU device%s of %d thread%s, %s kernels%s", mesh.device_count(), plural,
                                          session.threads_per_device, session.threads_per_device > 1 ? "s" : "",
                                          flags.kernels, PrecisionOnCpu(flags));
  const auto flops = static_cast<double>(session.graph.ForwardFlops(1));
  Say(absl::StrFormat(
      "model %s: %d parameters, %s forward per image", session.graph.name, session.graph.ParameterCount(),
      flops < 1e8 ? absl::StrFormat("%.3g Mflop", flops / 1e6) : absl::StrFormat("%.3g Gflop", flops / 1e9)));
  Say(absl::StrFormat("plan %s: %d x %d (replicas x columns), %s, overlap %s; %s", session.plan.name, ReplicasOf(mesh),
                      ColumnsOf(mesh), partition::Name(session.plan.reduction), session.plan.overlap ? "on" : "off",
                      devices));
  for (const std::string& note : session.plan.notes) Say(absl::StrCat("note: ", note));
}

nlohmann::ordered_json MeshJson(const partition::Mesh& mesh) {
  return {{"replicas", ReplicasOf(mesh)}, {"columns", ColumnsOf(mesh)}};
}

void PrintJson(const nlohmann::ordered_json& json) {
  std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:  // what was asked for is more than this program can do
      return 2;
    case absl::StatusCode::kResourceExhausted:
      return 12;
    case absl::StatusCode::kOutOfRange:
      return 21;
    case absl::StatusCode::kInvalidArgument:
      return 65;
    case absl::StatusCode::kNotFound:
      return 66;
    case absl::StatusCode::kUnavailable:
      return 69;
    case absl::StatusCode::kDataLoss:
      return 74;
    default:
      return 1;
  }
}

}  // namespace colonnade::cli
