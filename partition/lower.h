// Lowering: a network under a plan becomes one Program. The passes, in order, stand in lower.cc.
#ifndef COLONNADE_PARTITION_LOWER_H_
#define COLONNADE_PARTITION_LOWER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/graph.h"
#include "partition/plan.h"
#include "program/optimizer.h"
#include "program/program.h"
#include "program/representative_program.h"

namespace colonnade::partition {

// How parameters are updated.
struct UpdateOptions {
  program::Optimizer optimizer = program::Sgd{};
  double weight_decay = 0;
  // true: weight decay, and LARS's factor on the rate, apply only to weights, not to biases nor to the scales and shifts of
  // normalisations.
  bool decays_weights_alone = false;
  double clip_norm = 0;      // gradients are scaled down so that the norm of all together is at most this; 0: they are not
  double average_decay = 0;  // decay of the moving average that is kept of each trained parameter; 0: none is kept
  bool skips_not_finite = false;                // a step whose gradients are not all finite leaves all state as it was
  std::set<std::string> frozen_layers{};        // their parameters have no gradient, and nothing goes back beyond them
  std::map<std::string, double> layer_rates{};  // factors of the rate of all parameters of a layer; others: 1

  // Returns InvalidArgument if `graph` lacks a layer with parameters that is named here, a number is out of range, or no
  // layer is left to train.
  absl::Status Check(const layers::LayerGraph& graph) const;

  // Whether updates wait for the norms of all gradients.
  bool is_gated() const { return clip_norm > 0 || skips_not_finite || std::holds_alternative<program::Lars>(optimizer); }
};

struct LowerOptions {
  program::Mode mode = program::Mode::kTrain;
  int64_t global_batch = 64;
  // The batch is computed in this many equal parts, one after the other; their gradients are added and then reduced.
  int64_t micro_batches = 1;
  program::DType dtype = program::DType::kF32;  // kF64: the whole Program in double; kBF16: with parameters in f32
  // Present: the host gives images as bytes [N,…,C], which the device scales; absent: as f32 [N,C,…], as the network reads
  // them.
  std::optional<program::PixelScaling> pixels{};
  UpdateOptions update{};
  bool expose_gradients = false;  // every reduced gradient is an output of the Program
  // Layers whose outputs the host gets each step, as activations (program::Output): the logits, or what a search by features
  // compares. Neither an input nor a loss may be among them.
  std::set<std::string> shown_layers{};
  bool reads_averages = false;  // an evaluation of the averages that training keeps, not of the parameters
  std::function<void(int done, int total)> progress{};  // called after each lowering pass

  int64_t samples_at_once() const { return global_batch / micro_batches; }
};

// Returns FailedPrecondition unless micro_batches is positive, divides the batch, and is 1 in evaluation.
absl::Status CheckMicroBatches(const LowerOptions& options);

// Returns the Program of one step, scheduled and verified. Train and eval Programs of one graph and plan share their
// persistent buffers by name. Errors: those of ValidatePlan and of UpdateOptions::Check; InvalidArgument where the element
// type is none of floating-point numbers; FailedPrecondition where the network has nothing to train, the batch has not so
// many micro-batches, `pixels` has not a number for each channel, a training is to read averages, or a layer to be shown is
// none that the step computes.
absl::StatusOr<program::Program> Lower(const layers::LayerGraph& graph, const Plan& plan, const LowerOptions& options);

// Maps the devices that meet in a transfer, in member order, or a single device, to a number. Equal numbers promise that
// they take equal time for equal work.
using GroupClassifier = std::function<int(const std::vector<int>& devices)>;

// Returns what planners and predictions simulate: the representative of each class of devices that do the same, with what it
// does in the Program of Lower; not verified. With `classify_group` (engine::Simulator::GroupClassifier) devices are of one
// class only where they, and the groups in which they meet, are. The cost does not grow with the number of devices, but for
// the lists in which the result names them and a few more.
absl::StatusOr<program::RepresentativeProgram> LowerRepresentatives(const layers::LayerGraph& graph, const Plan& plan,
                                                                    const LowerOptions& options,
                                                                    const GroupClassifier& classify_group = nullptr);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWER_H_
