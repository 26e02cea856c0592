#include "tools/error_curve.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "cpu/backend.h"
#include "data/formats.h"
#include "data/pipeline.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "engine/trainer.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"

namespace colonnade::tools {

absl::StatusOr<std::vector<ErrorPoint>> ErrorByUpdate(const std::string& plan_name, int devices, int64_t steps,
                                                      int64_t every, int64_t batch) {
  ASSIGN_OR_RETURN(const models::ModelInfo* model, models::FindModel("two_column"));
  ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel("two_column", {}));
  ASSIGN_OR_RETURN(partition::Plan plan,
                   partition::NamedPlan(plan_name, graph, {.devices = devices, .global_batch = batch}));
  ASSIGN_OR_RETURN(std::unique_ptr<data::SampleSet> train_set, data::OpenSamples("digits", data::SplitOf::kTrain, {}));
  ASSIGN_OR_RETURN(std::unique_ptr<data::SampleSet> test_set, data::OpenSamples("digits", data::SplitOf::kTest, {}));
  ASSIGN_OR_RETURN(
      std::unique_ptr<data::Pipeline> samples,
      data::Pipeline::Create(std::move(train_set), {.augment = {.cropping = data::Cropping::kPadded, .pad = 1}}));
  ASSIGN_OR_RETURN(
      std::unique_ptr<data::Pipeline> tests,
      data::Pipeline::Create(std::move(test_set), {.shuffle = false, .once = true, .moments = samples->moments()}));
  partition::LowerOptions lower{
      .global_batch = batch,
      .pixels = samples->scaling(),
      .update = {.optimizer = program::Sgd{.momentum = model->momentum}, .weight_decay = model->weight_decay}};
  ASSIGN_OR_RETURN(program::Program train_program, partition::Lower(graph, plan, lower));
  lower.mode = program::Mode::kEval;
  ASSIGN_OR_RETURN(program::Program eval_program, partition::Lower(graph, plan, lower));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend, cpu::MakeCpuBackend({.devices = devices}));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> train, engine::Executor::Create(train_program, *backend));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> eval, engine::Executor::Create(eval_program, *backend));
  RETURN_IF_ERROR(engine::InitializeParameters(train->loaded(), 1));
  std::vector<ErrorPoint> errors;
  ErrorPoint point;
  engine::RunPosition at;
  for (int64_t step = 0;; step = std::min(step + every, steps)) {
    ASSIGN_OR_RETURN(engine::EvalReport tested, engine::Evaluate(*eval, *tests));
    point.epochs = static_cast<double>(step * batch) / static_cast<double>(samples->size());
    point.error = 1 - tested.top1();
    errors.push_back(point);
    if (step == steps) break;
    ASSIGN_OR_RETURN(engine::TrainReport report, engine::Train(*train, *samples,
                                                               {.start = at,
                                                                .steps = std::min(every, steps - step),
                                                                .learning_rate = {.base = model->learning_rate}}));
    at = report.end;
    point.seconds += absl::ToDoubleSeconds(report.elapsed);
  }
  return errors;
}

}  // namespace colonnade::tools
