#include <malloc.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/command_line/config.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/session/devices.h"
#include "cli/session/learning_rate.h"
#include "cli/session/named_files.h"
#include "cli/session/session.h"
#include "data/no_split.h"
#include "tools/verify_plan.h"

namespace colonnade::cli {
namespace {

struct VerifyFlags : SessionFlags {
  int64_t steps = 3;
  std::string config;
  bool json = false;
};

nlohmann::ordered_json ErrorsJson(const tools::VerifyErrors& e) {
  return {{"loss", e.loss}, {"gradient", e.gradient}, {"parameter", e.parameter}};
}

void PrintReport(const tools::VerifyReport& report) {
  std::printf("                      error   bound, of the tensor nearest its bound\n");
  auto line = [](const char* what, double error, double bound) {
    std::printf("  %-10s  %13.3g   %.3g\n", what, error, bound);
  };
  line("loss", report.error.loss, report.tolerance.loss);
  line("gradient", report.error.gradient, report.tolerance.gradient);
  line("parameter", report.error.parameter, report.tolerance.parameter);
  PrintLine(absl::StrFormat("worst: %s, %.3g of %.3g granted", report.worst_tensor, report.worst_error, report.worst_bound));
  if (!report.training_program_agrees) std::printf("the Program without gradient outputs gives other weights\n");
  if (!report.differing_copies.empty()) PrintLine(report.differing_copies);
  std::printf("%s\n", report.ok ? "the plan computes what one device computes"
                                : "THE PLAN DOES NOT COMPUTE WHAT ONE DEVICE COMPUTES");
}

// Copies of a network's state come and go all the time: to get their pages from the system anew takes longer than to fill
// them.
void KeepFreedPages() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}

// Checks that the host has room for the plan's two Programs, each on a backend of its own, and for its own copies; what the
// single device takes comes on top.
absl::Status CheckMemoryOfVerify(const SessionFlags& flags, const Session& session) {
  ASSIGN_OR_RETURN(program::Program program,
                   partition::Lower(session.graph, session.plan, LowerOptionsOf(flags, session, program::Mode::kTrain)));
  return CheckMemory(flags, session, {&program}, /*backends=*/2,
                     {.bytes = tools::HostBytesOfVerify(program),
                      .purpose = "copies of the state in double, which are compared",
                      .samples_ahead = flags.data.prefetch * flags.plan.batch});
}

nlohmann::ordered_json VerifyJson(const SessionFlags& flags, const Session& session, const tools::VerifyReport& report) {
  return {{"ok", report.ok},
          {"model", session.graph.name},
          {"plan", session.plan.name},
          {"devices", session.plan.mesh.device_count()},
          {"steps", report.steps},
          {"kernels", flags.backend.kernels},
          {"dtype", DTypeName(flags.backend)},
          {"tolerance", ErrorsJson(report.tolerance)},
          {"error", ErrorsJson(report.error)},
          {"max_relative_error", ErrorsJson(report.largest)},
          {"training_program_agrees", report.training_program_agrees},
          {"differing_copies", report.differing_copies},
          {"worst", {{"tensor", report.worst_tensor}, {"error", report.worst_error}, {"bound", report.worst_bound}}}};
}

// Refuses a plan of one device, unless a search of several found it.
absl::Status CheckOneDevice(const PlanFlags& flags) {
  if (flags.devices > 1) {
    Warn("the plan that was found has one device, so that nothing is split");
    return absl::OkStatus();
  }
  if (!IfFile(flags.name).empty()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "--plan: expected a plan of 2 devices or more, since it is compared with one device, found %s, a plan "
        "of one device, with which there is nothing to compare",
        flags.name));
  }
  return absl::FailedPreconditionError(
      "--devices: expected 2 or more, since a plan is compared with one device, found 1; --plan says how they share the "
      "work");
}

absl::Status RunVerify(const VerifyFlags& flags, Outcome& outcome) {
  KeepFreedPages();
  CountProgress progress("verifying:");
  absl::StatusOr<Samples> opened = OpenSamples(flags, data::SplitOf::kTrain);
  if (data::IsNoSplit(opened.status())) opened = OpenSamples(flags, data::SplitOf::kTest);
  ASSIGN_OR_RETURN(const Samples samples, std::move(opened));
  ASSIGN_OR_RETURN(Session session, OpenSession(flags, samples.get()));
  if (session.plan.mesh.device_count() == 1) RETURN_IF_ERROR(CheckOneDevice(flags.plan));
  ASSIGN_OR_RETURN(std::unique_ptr<data::Pipeline> stream, OpenStream(flags, session, samples, data::SplitOf::kTrain));
  ASSIGN_OR_RETURN(engine::LearningRatePolicy rate, LearningRateOf(flags, session, flags.steps));
  RETURN_IF_ERROR(CheckWarmUp(rate));
  auto print = [&, printed = false](const std::string& backend) mutable {
    if (std::exchange(printed, true)) return;
    SaySession(flags.backend, session, backend);
    Say(absl::StrFormat("data %s, %s", stream->description(), ToString(stream->moments())));
  };
  if (DTypeOf(flags.backend) == program::DType::kF64) {
    print("cpu");
    RETURN_IF_ERROR(CheckMemoryOfVerify(flags, session));
  }
  // The first backend says what it is.
  const auto make_backend = [&](int devices) -> absl::StatusOr<std::unique_ptr<engine::Backend>> {
    ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                     OpenBackend(flags.backend, devices, flags.backend.threads_per_device));
    print(backend->name());
    if (devices == 1 && backend->name() == "cpu") {
      RETURN_IF_ERROR(CheckMemoryOfVerify(flags, session));
    }
    return backend;
  };
  const tools::VerifyOptions options{
      .steps = flags.steps,
      .seed = flags.seed,
      .reference = DTypeOf(flags.backend) == program::DType::kF64,
      .bf16 = DTypeOf(flags.backend) == program::DType::kBF16,
      .tf32 = flags.backend.dtype == "tf32",
      .make_backend = make_backend,
      .progress = [&](int64_t done, int64_t all) { progress.Show(done, all, " runs of a step"); },
      .learning_rate = rate,
      .lower = LowerOptionsOf(flags, session, program::Mode::kTrain)};
  ASSIGN_OR_RETURN(tools::VerifyReport report, tools::VerifyPlan(session.graph, session.plan, *stream, options));
  WipeOut();
  for (const std::string& note : report.notes) Warn(note);
  outcome.disagrees = !report.ok;
  if (!flags.json) {
    PrintReport(report);
    return absl::OkStatus();
  }
  PrintJson(VerifyJson(flags, session, report));
  return absl::OkStatus();
}

}  // namespace

SubCommand AddVerify(CLI::App& app, Outcome& outcome) {
  CLI::App* verify = app.add_subcommand(
      "verify", "Runs the same steps on one device and under a plan, and compares loss, gradients and weights.");
  const auto flags = std::make_shared<VerifyFlags>();
  AddSessionFlags(*verify, *flags);
  AddOptimizerFlags(*verify, flags->optimizer);
  verify->add_option("--steps", flags->steps, "steps to compare")
      ->check(CLI::Range(int64_t{1}, kMostSteps))
      ->capture_default_str();
  AddSeedFlag(*verify, flags->seed, "seed of all random numbers, below 2^53");
  AddJsonFlag(*verify, flags->json);
  AddConfigFlag(*verify, flags->config);
  verify->footer(
      "Examples:\n  colonnade verify --model=two_column --plan=hybrid --devices=4\n"
      "  colonnade verify --model=lenet --plan=owt --devices=2 --kernels=reference --json");
  return {verify, [=, &outcome] { return RunVerify(*flags, outcome); }};
}

}  // namespace colonnade::cli
