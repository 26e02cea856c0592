// Longer than most sources: one class has all that is compared of a step, in each arithmetic, beside the bound of each.
#include "tools/verify_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cpu/backend.h"
#include "engine/classification.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "partition/named_plans.h"
#include "tools/verify_bounds.h"

namespace colonnade::tools {
namespace {

constexpr double kTf32Bound = 5e-3;
// Two bits of a number, at most; in bf16 a rounding.
constexpr double kLastBitsOfSingle = 1.0 / (1 << 21), kLastBitsOfDouble = 1.0 / (int64_t{1} << 50),
                 kRoundingOfBf16 = 1.0 / 512;
constexpr double kReferenceBound = 1e-10;
constexpr double kLeastBoundOfBf16 = 1.0 / 256;
// Sums of numbers of about 1 are exact to some roundings: hundreds in double, tens in f32, in which bf16 is summed.
constexpr double kLeastPartOfDouble = 1024 * std::numeric_limits<double>::epsilon() / kReferenceBound,
                 kLeastPartOfBf16 = 64 * std::numeric_limits<float>::epsilon() / kLeastBoundOfBf16;

using engine::NamedTensor;
using Tensors = std::vector<NamedTensor>;

// A Program on devices of its own.
struct Side {
  program::Program program;
  std::unique_ptr<engine::Backend> backend;
  std::unique_ptr<engine::Executor> executor;
};

struct State {
  Tensors parameters;
  std::map<engine::StateKind, Tensors> kept;  // beside them
};

struct StepOutcome {
  double loss = 0;
  Gradients gradients;
  State after;
};

// The element type and rounding in which a side computes.
enum class Arithmetic {
  kOwn,          // f32 or bf16, on VerifyOptions::make_backend
  kDouble,       // the reference's, in double
  kRoundedBf16,  // the reference's, rounding where a Program in bf16 stores
};

program::DType DTypeOf(const VerifyOptions& options) {
  return options.reference ? program::DType::kF64 : options.bf16 ? program::DType::kBF16 : program::DType::kF32;
}

absl::StatusOr<std::unique_ptr<Side>> MakeSide(const layers::LayerGraph& graph, const partition::Plan& plan,
                                               const VerifyOptions& options, bool expose_gradients, Arithmetic arithmetic,
                                               int64_t micro_batches) {
  auto side = std::make_unique<Side>();
  partition::LowerOptions lower = options.lower;
  lower.expose_gradients = expose_gradients;
  lower.micro_batches = micro_batches;
  const bool reference = arithmetic != Arithmetic::kOwn;
  lower.dtype = arithmetic == Arithmetic::kDouble        ? program::DType::kF64
                : arithmetic == Arithmetic::kRoundedBf16 ? program::DType::kBF16
                                                         : DTypeOf(options);
  ASSIGN_OR_RETURN(program::Program program, options.make_program(graph, plan, lower));
  side->program = std::move(program);
  const int devices = plan.mesh.device_count();
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   reference ? cpu::MakeCpuBackend({.devices = devices, .kernels = cpu::CpuOptions::Kernels::kReference})
                             : options.make_backend(devices));
  side->backend = std::move(backend);
  ASSIGN_OR_RETURN(side->executor, engine::Executor::Create(side->program, *side->backend));
  return side;
}

absl::StatusOr<State> StateOf(const Side& side) {
  ASSIGN_OR_RETURN(Tensors parameters, engine::ReadTensors(side.executor->loaded()));
  State state{std::move(parameters), {}};
  for (engine::StateKind kind : engine::kStateKinds) {
    if (kind == engine::StateKind::kValue) continue;
    ASSIGN_OR_RETURN(state.kept[kind], engine::ReadTensors(side.executor->loaded(), kind));
  }
  return state;
}

absl::Status SetState(const State& state, Side& side) {
  RETURN_IF_ERROR(engine::WriteTensors(side.executor->loaded(), state.parameters));
  for (const auto& [kind, tensors] : state.kept) {
    RETURN_IF_ERROR(engine::WriteTensors(side.executor->loaded(), tensors, kind));
  }
  return absl::OkStatus();
}

absl::StatusOr<StepOutcome> RunOnImages(Side& side, const State& from, absl::Span<const uint8_t> images,
                                        absl::Span<const int32_t> labels, const engine::StepInputs& inputs) {
  RETURN_IF_ERROR(SetState(from, side));
  ASSIGN_OR_RETURN(engine::ScoredStep result, engine::RunStepOnPixels(*side.executor, images, labels, inputs));
  if (!result.not_finite.empty()) {
    return absl::OutOfRangeError(absl::StrCat("step ", inputs.step + 1, ": the ", result.not_finite,
                                              " is not finite, in layer \"", result.not_finite_layer, "\" on device ",
                                              result.not_finite_device));
  }
  StepOutcome outcome{.loss = result.loss};
  for (const program::Output& output : side.program.outputs) {
    if (output.kind != program::Output::Kind::kGradient) continue;
    ASSIGN_OR_RETURN(std::vector<double> gradient, side.executor->ReadOutput(output));
    outcome.gradients[output.name] = std::move(gradient);
  }
  ASSIGN_OR_RETURN(State after, StateOf(side));
  for (const NamedTensor& tensor : after.parameters) {
    if (std::all_of(tensor.values.begin(), tensor.values.end(), [](double v) { return std::isfinite(v); })) continue;
    return absl::OutOfRangeError(
        absl::StrCat("step ", inputs.step + 1, ": ", tensor.name, " is not finite after the update"));
  }
  outcome.after = std::move(after);
  return outcome;
}

class Comparison {
 public:
  Comparison(const layers::LayerGraph& graph, const partition::Plan& plan, engine::DataSource& data,
             const VerifyOptions& options)
      : graph_(graph), plan_(plan), data_(data), options_(options) {}

  absl::StatusOr<VerifyReport> Run() {
    RETURN_IF_ERROR(Prepare());
    RETURN_IF_ERROR(engine::InitializeParameters(one_->executor->loaded(), options_.seed));
    ASSIGN_OR_RETURN(State state, StateOf(*one_));
    for (int64_t step = 0; step < options_.steps; ++step) {
      RETURN_IF_ERROR(Step(step, state));
    }
    for (const Side* side : {one_.get(), many_.get(), training_.get()}) {
      for (std::string& note : side->executor->loaded().Notes()) report_.notes.insert(std::move(note));
    }
    return report_;
  }

 private:
  absl::Status Prepare() {
    ASSIGN_OR_RETURN(partition::Plan single,
                     partition::NamedPlan("single", graph_, {.devices = 1, .global_batch = options_.lower.global_batch}));
    single_ = std::move(single);
    auto make = [&](const partition::Plan& plan, bool expose_gradients, std::unique_ptr<Side>& side) -> absl::Status {
      const Arithmetic arithmetic = options_.reference ? Arithmetic::kDouble : Arithmetic::kOwn;
      // What it is compared with has the batch whole.
      const int64_t micro_batches = &plan == &single_ ? 1 : options_.lower.micro_batches;
      ASSIGN_OR_RETURN(side, MakeSide(graph_, plan, options_, expose_gradients, arithmetic, micro_batches));
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(make(single_, true, one_));
    RETURN_IF_ERROR(make(plan_, true, many_));
    RETURN_IF_ERROR(make(plan_, false, training_));
    for (const auto& [arithmetic, side] : {std::pair(Arithmetic::kDouble, &exact_), {Arithmetic::kRoundedBf16, &rounded_}}) {
      if (!options_.bf16) continue;
      ASSIGN_OR_RETURN(*side, MakeSide(graph_, single_, options_, true, arithmetic, /*micro_batches=*/1));
    }
    const int64_t batch = options_.lower.global_batch;
    images_.resize(batch * program::ElementCount(data_.sample_shape()));
    labels_.resize(batch);
    return absl::OkStatus();
  }

  absl::StatusOr<StepOutcome> RunOn(Side& side, const State& from, const engine::StepInputs& inputs) {
    const int64_t sides = options_.bf16 ? 5 : 3;
    if (options_.progress) options_.progress(runs_, std::max(sides * options_.steps, runs_ + 1));
    ++runs_;
    return RunOnImages(side, from, images_, labels_, inputs);
  }

  // One step on all sides from `state`, which becomes the single device's state after it.
  absl::Status Step(int64_t step, State& state) {
    const int64_t batch = options_.lower.global_batch;
    RETURN_IF_ERROR(data_.Read(step * batch, absl::MakeSpan(images_), absl::MakeSpan(labels_)));
    const engine::StepInputs inputs{.learning_rate = engine::LearningRateAt(options_.learning_rate, step),
                                    .step = static_cast<uint64_t>(step),
                                    .seed = options_.seed};
    ASSIGN_OR_RETURN(StepOutcome one, RunOn(*one_, state, inputs));
    ASSIGN_OR_RETURN(StepOutcome many, RunOn(*many_, state, inputs));
    ASSIGN_OR_RETURN(StepOutcome training, RunOn(*training_, state, inputs));

    if (absl::Status s = options_.bf16 ? JudgeBf16(state, inputs, many) : JudgeStep(state, inputs, one, many); !s.ok()) {
      return s;
    }
    for (const Side* side : {many_.get(), training_.get()}) {
      const absl::Status copies = engine::CheckCopies(side->executor->loaded());
      if (copies.ok() || !report_.differing_copies.empty()) continue;
      if (!absl::IsInternal(copies)) return copies;
      report_.differing_copies = std::string(copies.message());
      report_.ok = false;
    }
    for (size_t p = 0; p < state.parameters.size() && training_->executor->loaded().GivesEqualBits(); ++p) {
      if (training.after.parameters[p].values != many.after.parameters[p].values) {
        report_.training_program_agrees = report_.ok = false;
      }
    }
    own_errors_.reset();
    ++report_.steps;
    state = std::move(one.after);
    return absl::OkStatus();
  }

  // Norms below which tensors are compared as if they had these. A gradient may be zero but for roundings, as that of a bias
  // before a normalisation is: they are those of the numbers that it is summed of, which the norm of all gradients is taken
  // for. Of f32 the distance from double tells as much.
  struct Scales {
    double gradients = 0, changes = 0, statistics = 0;
  };
  Scales ScalesOf(const State& state, const engine::StepInputs& inputs, const StepOutcome& one) const {
    const double least_part = options_.reference ? kLeastPartOfDouble : options_.bf16 ? kLeastPartOfBf16 : 0;
    double changes = 0, statistics = 0;  // squares of norms
    for (size_t p = 0; p < state.parameters.size(); ++p) {
      const double change = Squares(Change(one.after.parameters[p].values, state.parameters[p].values));
      (one.gradients.contains(state.parameters[p].name) ? changes : statistics) += change;
    }
    constexpr double kLeastNorm = 1;
    const double of_gradients = std::max(Norm(one.gradients), kLeastNorm);
    return {.gradients = least_part * of_gradients,
            .changes = least_part * std::max(std::sqrt(changes), inputs.learning_rate * of_gradients),
            .statistics = least_part * std::max(std::sqrt(statistics), kLeastNorm)};
  }

  // How far a tensor is from what one device computes in double.
  enum class Compared { kLoss, kGradient, kChange, kAverage };
  struct DistanceOfTensor {
    Compared compared;
    size_t index;      // of a change by parameter, of an average by average
    std::string name;  // of the parameter
    double distance;

    std::string tensor() const {
      constexpr const char* kOf[] = {"loss", "gradient of ", "change of ", "average of "};
      return absl::StrCat(kOf[static_cast<int>(compared)], name);
    }
    double VerifyErrors::*what() const {
      return compared == Compared::kLoss       ? &VerifyErrors::loss
             : compared == Compared::kGradient ? &VerifyErrors::gradient
                                               : &VerifyErrors::parameter;
    }
  };

  // A step and the state that it was from.
  struct Taken {
    const State& from;
    const StepOutcome& to;
    std::vector<double> ChangeOf(size_t p) const { return Change(to.after.parameters[p].values, from.parameters[p].values); }
  };

  // Returns the distances of the loss, every gradient, every parameter's change and every average, always in this order.
  static std::vector<DistanceOfTensor> DistancesOf(const Taken& of, const Taken& exact, const Scales& scales) {
    std::vector<DistanceOfTensor> distances = {{Compared::kLoss, 0, "", LossDistance(of.to.loss, exact.to.loss)}};
    for (size_t p = 0; p < exact.from.parameters.size(); ++p) {
      const std::string& name = exact.from.parameters[p].name;
      const auto gradient = exact.to.gradients.find(name);
      const bool trained = gradient != exact.to.gradients.end();  // else a running statistic
      if (trained) {
        const auto own = of.to.gradients.find(name);
        distances.push_back({Compared::kGradient, p, name,
                             own != of.to.gradients.end() ? Distance(own->second, gradient->second, scales.gradients)
                                                          : std::numeric_limits<double>::infinity()});
      }
      distances.push_back({Compared::kChange, p, name,
                           Distance(of.ChangeOf(p), exact.ChangeOf(p), trained ? scales.changes : scales.statistics)});
    }
    for (size_t k = 0; k < Averages(exact.to).size(); ++k) {
      distances.push_back({Compared::kAverage, k, Averages(exact.to)[k].name,
                           Distance(Averages(of.to)[k].values, Averages(exact.to)[k].values)});
    }
    return distances;
  }

  static void KeepLargest(const std::vector<DistanceOfTensor>& distances, std::vector<double>& largest) {
    largest.resize(distances.size());
    for (size_t i = 0; i < distances.size(); ++i) largest[i] = std::max(largest[i], distances[i].distance);
  }

  absl::Status JudgeBf16(const State& state, const engine::StepInputs& inputs, const StepOutcome& many) {
    constexpr double kTimesReference = 1.5, kNoDigitIsRight = 0.5;
    ASSIGN_OR_RETURN(const StepOutcome exact, RunOn(*exact_, state, inputs));
    const Scales scales = ScalesOf(state, inputs, exact);
    // The largest that roundings alone have made, relative to a tensor's own norm and to the least norms.
    std::vector<double> of_roundings, of_roundings_scaled;
    const auto round = [&](const State& from) -> absl::Status {
      ASSIGN_OR_RETURN(const StepOutcome rounded, RunOn(*rounded_, from, inputs));
      KeepLargest(DistancesOf({from, rounded}, {state, exact}, {}), of_roundings);
      KeepLargest(DistancesOf({from, rounded}, {state, exact}, scales), of_roundings_scaled);
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(round(state));
    Neighbours neighbours(state.parameters, exact.gradients, kRoundingOfBf16, options_.seed);
    const std::vector<DistanceOfTensor> found = DistancesOf({state, many}, {state, exact}, {}),
                                        found_scaled = DistancesOf({state, many}, {state, exact}, scales);
    // Of a change also where that holds of its gradient, which stands before it: weight decay alone may make the change.
    const auto no_digit_is_right = [&](size_t i) {
      const bool has_gradient = i > 0 && found[i - 1].compared == Compared::kGradient;
      return of_roundings[i] >= kNoDigitIsRight || (has_gradient && of_roundings[i - 1] >= kNoDigitIsRight);
    };
    std::map<std::string, double> granted;  // of a parameter, as it is after the step
    for (size_t i = 0; i < found.size(); ++i) {
      const std::vector<double> own = OwnValuesOf(found[i], {state, exact});
      const double besides = GrantedBesides(found[i], {state, many}, {state, exact}, inputs.learning_rate, granted);
      const auto bound = [&](const std::vector<double>& roundings, double least) {
        return std::max({kTimesReference * roundings[i], kLeastBoundOfBf16, besides / NormOrOne(own, least)});
      };
      while (found[i].distance > bound(of_roundings, 0) && !neighbours.AllDrawn()) {
        RETURN_IF_ERROR(round({neighbours.Next(), state.kept}));
      }
      const bool is_scaled = found[i].distance > bound(of_roundings, 0) && no_digit_is_right(i);
      const double least = !is_scaled ? 0 : exact.gradients.contains(found[i].name) ? scales.changes : scales.statistics;
      const double allowed = bound(is_scaled ? of_roundings_scaled : of_roundings, least);
      Judge(found[i].tensor(), (is_scaled ? found_scaled : found)[i].distance, allowed, found[i].what());
      if (found[i].compared == Compared::kChange) granted[found[i].name] = allowed * NormOrOne(own, least);
    }
    return absl::OkStatus();
  }

  // Returns a change or an average as one device in double makes it; of all else nothing, which GrantedBesides grants
  // nothing.
  static std::vector<double> OwnValuesOf(const DistanceOfTensor& of, const Taken& exact) {
    if (of.compared == Compared::kChange) return exact.ChangeOf(of.index);
    if (of.compared == Compared::kAverage) return Averages(exact.to)[of.index].values;
    return {};
  }

  // Returns the norm that a tensor may differ by whatever roundings make of it: of an average what its parameter may, of a
  // change by AdamW what that makes of gradients that have few digits in common.
  double GrantedBesides(const DistanceOfTensor& of, const Taken& many, const Taken& exact, double learning_rate,
                        const std::map<std::string, double>& granted) const {
    if (of.compared == Compared::kAverage) return (1 - options_.lower.update.average_decay) * granted.at(of.name);
    const auto by_many = many.to.gradients.find(of.name), by_one = exact.to.gradients.find(of.name);
    const bool have_gradients = by_many != many.to.gradients.end() && by_one != exact.to.gradients.end();
    if (of.compared != Compared::kChange || !IsAdamW() || !have_gradients) return 0;
    const std::vector<double> change = exact.ChangeOf(of.index), changed_by_many = many.ChangeOf(of.index);
    return NormOfUnsureSteps({change, by_one->second}, {changed_by_many, by_many->second},
                             LargestStepOfAdamW(options_.lower.update, learning_rate));
  }

  absl::Status JudgeStep(const State& state, const engine::StepInputs& inputs, const StepOutcome& one,
                         const StepOutcome& many) {
    constexpr double kTimesClipping = 2;
    Judge("loss", LossDistance(many.loss, one.loss),
          options_.reference ? kReferenceBound
          : options_.tf32    ? kTf32Bound
                             : 1e-5,
          &VerifyErrors::loss);
    const Scales scales = ScalesOf(state, inputs, one);
    const double clip_norm = options_.lower.update.clip_norm;
    const bool is_clipped = IsClipped(one.gradients, clip_norm) || IsClipped(many.gradients, clip_norm);
    const double of_clipping = is_clipped ? DistanceOfNorms(many.gradients, one.gradients) : 0;
    std::map<std::string, double> granted;  // of a parameter, as it is after the step
    for (size_t p = 0; p < state.parameters.size(); ++p) {
      const std::string& name = state.parameters[p].name;
      const bool trained = one.gradients.contains(name);  // else a running statistic
      const double gradient = trained ? Distance(many.gradients.at(name), one.gradients.at(name), scales.gradients) : 0;
      const std::vector<double>& before = state.parameters[p].values;
      const std::vector<double> change = Change(one.after.parameters[p].values, before),
                                changed_by_many = Change(many.after.parameters[p].values, before);
      const double least = trained ? scales.changes : scales.statistics;
      const double parameter = Distance(changed_by_many, change, least);
      ASSIGN_OR_RETURN(double bound, BoundOf(name, std::max(gradient, parameter), state, inputs, one, scales));
      if (trained) Judge(absl::StrCat("gradient of ", name), gradient, bound, &VerifyErrors::gradient);
      if (trained) bound = std::max(bound, kTimesClipping * of_clipping);
      if (!options_.reference) bound = std::max(bound, TwoRoundings(before, change));
      if (trained && IsAdamW()) {
        const double unsure = NormOfUnsureSteps({change, one.gradients.at(name)}, {changed_by_many, many.gradients.at(name)},
                                                LargestStepOfAdamW(options_.lower.update, inputs.learning_rate));
        bound = std::max(bound, unsure / NormOrOne(change, least));
      }
      Judge(absl::StrCat("change of ", name), parameter, bound, &VerifyErrors::parameter);
      granted[name] = bound * std::max(Norm(change), least);
    }
    const double bound = options_.reference ? kReferenceBound : 1e-4;
    const double of_average = 1 - options_.lower.update.average_decay;  // a ← decay·a + (1 − decay)·w
    JudgeAverages(many, one, bound, [&](const std::string& name) { return of_average * granted[name] / bound; });
    return absl::OkStatus();
  }

  static const Tensors& Averages(const StepOutcome& of) { return of.after.kept.at(engine::StateKind::kAverage); }

  // They change too little for their change to be judged in f32: as they are after the step.
  void JudgeAverages(const StepOutcome& many, const StepOutcome& one, double bound,
                     const std::function<double(const std::string&)>& least_norm_of) {
    for (size_t k = 0; k < Averages(one).size(); ++k) {
      const NamedTensor& average = Averages(one)[k];
      Judge(absl::StrCat("average of ", average.name),
            Distance(Averages(many)[k].values, average.values, least_norm_of(average.name)), bound,
            &VerifyErrors::parameter);
    }
  }

  bool IsAdamW() const { return std::holds_alternative<program::AdamW>(options_.lower.update.optimizer); }

  void Judge(const std::string& tensor, double error, double bound, double VerifyErrors::*what) {
    report_.largest.*what = std::max(report_.largest.*what, error);
    const bool agrees = error <= bound;  // not where it is no number
    report_.ok = report_.ok && agrees;
    const double part = error == 0 ? 0 : agrees || error / bound > 1 ? error / bound : HUGE_VAL;
    if (part > worst_part_.*what) {
      worst_part_.*what = part;
      report_.error.*what = error;
      report_.tolerance.*what = bound;
    }
    if (part > worst_part_of_all_) {
      worst_part_of_all_ = part;
      report_.worst_error = error;
      report_.worst_tensor = tensor;
      report_.worst_bound = bound;
    }
  }

  // Double-precision kernels and neighbours are slow, so they run only where the plain bound is passed.
  absl::StatusOr<double> BoundOf(const std::string& name, double error, const State& state, const engine::StepInputs& inputs,
                                 const StepOutcome& one, const Scales& scales) {
    constexpr double kSingleBound = 1e-4, kTimesOwnError = 4, kLeastOfRoundings = 1.0 / 1024;
    const double least = options_.reference ? kReferenceBound : options_.tf32 ? kTf32Bound : kSingleBound;
    if (error <= least || (options_.reference && !one.gradients.contains(name))) return least;
    if (!own_errors_) {
      own_errors_.emplace(state.parameters, one.gradients, options_.reference ? kLastBitsOfDouble : kLastBitsOfSingle,
                          options_.seed);
      RETURN_IF_ERROR(RunExact(state, inputs, one));
      for (const auto& [of, values] : WhatIsOffByItself(state, one)) {
        own_errors_->least_norm_of[of] = std::max(scales.gradients, kLeastOfRoundings * Norm(values));
      }
      AddOwnErrors(state, one);
    }
    const auto bound = [&] { return std::max(least, kTimesOwnError * own_errors_->of_tensor.at(name)); };
    while (error > bound() && !own_errors_->neighbours.AllDrawn()) {
      const State neighbour{own_errors_->neighbours.Next(), state.kept};
      ASSIGN_OR_RETURN(const StepOutcome off, RunOn(*one_, neighbour, inputs));
      AddOwnErrors(neighbour, off);
    }
    return bound();
  }

  // What the single device's gradients, and the changes of its running statistics, are off by themselves. One of roundings
  // alone may be off by any multiple of what it is in double, but not of what it is in f32: another order of the sum makes
  // other roundings, not larger numbers.
  struct OwnErrors {
    OwnErrors(const Tensors& parameters, const Gradients& of, double bits, uint64_t seed)
        : neighbours(parameters, of, bits, seed) {}
    Neighbours neighbours;
    Gradients exact;                              // in double; where all is in double, the single device's
    std::map<std::string, double> least_norm_of;  // by tensor: below it that of the exact one counts as so much
    std::map<std::string, double> of_tensor;      // the largest found
  };

  // Returns the gradients; in f32 also the changes of running statistics, which may be zero but for roundings as those may
  // (the mean behind a normalisation and a padded convolution is). In double Scales grants those what roundings make.
  Gradients WhatIsOffByItself(const State& before, const StepOutcome& outcome) const {
    Gradients all = outcome.gradients;
    for (size_t p = 0; p < before.parameters.size() && !options_.reference; ++p) {
      const NamedTensor& tensor = before.parameters[p];
      if (!all.contains(tensor.name)) all[tensor.name] = Change(outcome.after.parameters[p].values, tensor.values);
    }
    return all;
  }

  absl::Status RunExact(const State& state, const engine::StepInputs& inputs, const StepOutcome& one) {
    if (options_.reference) {
      own_errors_->exact = one.gradients;
      return absl::OkStatus();
    }
    if (reference_ == nullptr) {
      ASSIGN_OR_RETURN(reference_, MakeSide(graph_, single_, options_, true, Arithmetic::kDouble, /*micro_batches=*/1));
    }
    ASSIGN_OR_RETURN(const StepOutcome outcome, RunOn(*reference_, state, inputs));
    own_errors_->exact = WhatIsOffByItself(state, outcome);
    return absl::OkStatus();
  }

  void AddOwnErrors(const State& before, const StepOutcome& outcome) {
    for (const auto& [name, values] : WhatIsOffByItself(before, outcome)) {
      double& error = own_errors_->of_tensor[name];
      error = std::max(error, Distance(values, own_errors_->exact.at(name), own_errors_->least_norm_of.at(name)));
    }
  }

  const layers::LayerGraph& graph_;
  const partition::Plan& plan_;
  engine::DataSource& data_;
  const VerifyOptions& options_;
  partition::Plan single_;
  std::unique_ptr<Side> one_, many_, training_, reference_;
  std::unique_ptr<Side> exact_, rounded_;  // in bf16
  std::optional<OwnErrors> own_errors_;    // of the step at hand
  std::vector<uint8_t> images_;
  std::vector<int32_t> labels_;
  int64_t runs_ = 0;                     // of steps, on all sides
  VerifyErrors worst_part_{-1, -1, -1};  // of its bound, that an error was
  double worst_part_of_all_ = -1;
  VerifyReport report_;
};

absl::Status CheckOptions(const layers::LayerGraph& graph, const engine::DataSource& data, const VerifyOptions& options) {
  if (graph.nodes.empty()) return absl::FailedPreconditionError("expected a network, found one without layers");
  if (graph.nodes[0].sample_shape != data.sample_shape()) {
    return absl::FailedPreconditionError(absl::StrFormat("%s: expected images %s, as the network takes, found %s",
                                                         data.description(), program::ToString(graph.nodes[0].sample_shape),
                                                         program::ToString(data.sample_shape())));
  }
  if (options.steps < 1) {
    return absl::FailedPreconditionError(absl::StrFormat("steps: expected at least 1, found %d", options.steps));
  }
  if (!options.make_backend || !options.make_program) {
    return absl::FailedPreconditionError(
        absl::StrFormat("VerifyOptions: expected make_backend and make_program, found no %s",
                        options.make_backend ? "make_program" : "make_backend"));
  }
  if (options.lower.mode != program::Mode::kTrain) {
    return absl::FailedPreconditionError("lower.mode: expected training, whose gradients are compared; found evaluation");
  }
  if (options.reference && options.bf16) {
    return absl::FailedPreconditionError("expected reference or bf16, found both");
  }
  const program::DType found = options.lower.dtype, expected = DTypeOf(options);
  if (found != expected && found != partition::LowerOptions().dtype) {
    return absl::FailedPreconditionError(absl::StrFormat("lower.dtype: expected %s, as `reference` and `bf16` say, found %s",
                                                         program::Name(expected), program::Name(found)));
  }
  return engine::CheckPolicy(options.learning_rate);
}

}  // namespace

int64_t HostBytesOfVerify(const program::Program& program) {
  const int64_t element = program::SizeInBytes(program::MasterType(program.dtype)), number = sizeof(double);
  const int64_t state = engine::StateBytes(program) / element * number;
  int64_t gradients = 0;
  for (const program::Parameter& parameter : program.parameters) {
    if (parameter.role == program::StateRole::kTrained) gradients += program::ElementCount(parameter.shape) * number;
  }
  const int64_t before = state, of_one = state + gradients, of_many = state + gradients, of_training = state;
  const int64_t of_references = program.dtype == program::DType::kBF16 ? 2 * (state + gradients) : 0;
  return before + of_one + of_many + of_training + of_references;
}

absl::StatusOr<VerifyReport> VerifyPlan(const layers::LayerGraph& graph, const partition::Plan& plan,
                                        engine::DataSource& data, const VerifyOptions& options) {
  RETURN_IF_ERROR(CheckOptions(graph, data, options));
  VerifyOptions of_data = options;
  of_data.lower.pixels = data.scaling();
  return Comparison(graph, plan, data, of_data).Run();
}

}  // namespace colonnade::tools
