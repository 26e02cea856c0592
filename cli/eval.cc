#include <cstdio>

#include "absl/strings/str_format.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/test_json.h"
#include "engine/error_context.h"
#include "engine/io/weights.h"
#include "engine/state.h"
#include "program/status_macros.h"

namespace colonnade::cli {

absl::Status RunEval(const Flags& flags, const std::atomic<bool>& stop, Outcome& outcome) {
  ASSIGN_OR_RETURN(engine::MappedWeights weights, engine::MapWeights(flags.init));
  ASSIGN_OR_RETURN(data::ImageSet images, OpenImages(flags, false));
  if (flags.mean.empty() || flags.std.empty()) {
    // Mean and deviation are those of the training set, as in training.
    ASSIGN_OR_RETURN(data::ImageSet train_images, OpenImages(flags, true));
    images.mean = train_images.mean;
    images.std = train_images.std;
  }
  ASSIGN_OR_RETURN(Session session, OpenSession(flags, &images));
  const std::string normalisation = NormalisationOf(flags, images);
  ASSIGN_OR_RETURN(data::SampleStream stream, OpenStream(flags, session, std::move(images), false));
  ASSIGN_OR_RETURN(program::Program program,
                   partition::Lower(session.graph, session.plan, LowerOptionsOf(flags, session, program::Mode::kEval)));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   OpenBackend(flags, session.plan.mesh.device_count(), session.threads_per_device));
  if (backend->name() == "cpu") {
    RETURN_IF_ERROR(CheckMemory(flags, session, {&program}));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> executor, engine::Executor::Create(program, *backend));
  RETURN_IF_ERROR(engine::WithContext(
      engine::WriteState(program, executor->loaded(), engine::StateKind::kValue, weights.tensors), flags.init));
  PrintSession(flags, session, backend->name());
  std::fprintf(stderr, "data %s, %s\n", stream.description().c_str(), normalisation.c_str());
  ASSIGN_OR_RETURN(engine::EvalReport report, engine::Evaluate(*executor, stream, &stop));
  outcome.interrupted = stop.load();
  const double images_per_s = static_cast<double>(report.count) / absl::ToDoubleSeconds(report.elapsed);
  if (flags.json) {
    PrintJson({{"model", session.graph.name},
               {"data", flags.data},
               {"stopped", outcome.interrupted},
               {"test", TestJson(report)},
               {"images_per_s", images_per_s}});
  } else if (report.count > 0) {
    std::printf("%s\n", absl::StrFormat("top-1 %.2f %%, top-5 %.2f %%, loss %.6f, %d samples, %.0f images/s",
                                        100 * report.top1(), 100 * report.top5(), report.loss, report.count, images_per_s)
                            .c_str());
  }
  return absl::OkStatus();
}

}  // namespace colonnade::cli
