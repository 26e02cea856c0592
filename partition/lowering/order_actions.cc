#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "partition/lowering/passes.h"
#include "program/op_traits.h"

namespace colonnade::partition {
namespace {

// Nominal costs on one device: 10 Tflop/s, 10 GB/s between devices, 1 TB/s of memory. Only their ratio matters, and only for
// which transfers go first and where an update stands among the backward actions. Whole picoseconds, so that every build of
// every process finds one order.
constexpr int64_t kFlopsPerPicosecond = 10;
constexpr int64_t kPicosecondsPerCommByte = 100;
constexpr int64_t kPicosecondsPerMemoryByte = 1;
constexpr int64_t kBytesPerElement = sizeof(float);

// By what factor the time that an update allows for its reduction is longer than the nominal time. If the update comes too
// early, compute waits for the reduction. If it comes too late, a gradient keeps its memory longer, and parameters that are
// gathered after their update are gathered at the end of the step, beside no compute. Where none are gathered, only memory
// is lost, so there the factor is ten.
constexpr int64_t kPatienceWithoutGather = 10;

class Orderer {
 public:
  explicit Orderer(Lowering& lowering)
      : lowering_(lowering),
        read_by_the_host_alone_(ReadByTheHostAlone(lowering)),
        patient_comm_{.times = GathersParameters(lowering.plan) ? 1 : kPatienceWithoutGather},
        reduced_(lowering.buckets.size(), 0) {}

  void Run() {
    for (Action& action : lowering_.actions) Place(action);
    while (!late_.empty()) EmitLate();
    for (Action& action : for_the_host_) out_.push_back(std::move(action));
    lowering_.actions = std::move(out_);
  }

 private:
  struct Late {
    Action action;
    int bucket;
  };
  // When the transfers so far are expected to have ended, if each takes `times` as long as it nominally does.
  struct CommLane {
    int64_t times = 1, end = 0;
    // Returns when the transfer begins.
    int64_t Add(int64_t made, int64_t picoseconds) {
      const int64_t start = std::max(end, made);
      end = start + times * picoseconds;
      return start;
    }
  };
  // A transfer of gradients that stands in out_[at], and when it is expected to begin on both lanes.
  struct GradientTransfer {
    size_t at;
    int bucket;
    int64_t made, start, patient_start;
  };

  void Place(Action& action) {
    if (const auto* reduce = std::get_if<ReduceGradients>(&action.body))
      return TransferGradients(action, reduce->bucket, compute_);
    if (const auto* gather = std::get_if<GatherGradients>(&action.body))
      return TransferGradients(action, gather->bucket, compute_);
    if (const auto* measure = std::get_if<MeasureGradients>(&action.body)) {
      if (reduced_[measure->bucket] > 0) return late_.push_back({std::move(action), measure->bucket});
    } else if (std::holds_alternative<SumNorms>(action.body) || std::holds_alternative<OpenGate>(action.body)) {
      while (!late_.empty()) EmitLate();
    } else if (const auto* update = std::get_if<UpdateParameters>(&action.body)) {
      if (reduced_[update->bucket] > 0) return late_.push_back({std::move(action), update->bucket});
    } else if (const auto* gather = std::get_if<GatherParameters>(&action.body)) {
      return late_.push_back({std::move(action), gather->bucket});
    } else if (const auto* average = std::get_if<AverageParameters>(&action.body)) {
      return late_.push_back({std::move(action), average->bucket});
    } else if (IsForTheHost(action)) {
      return for_the_host_.push_back(std::move(action));
    } else if (std::holds_alternative<ReduceStatistics>(action.body)) {
      return Transfer(action);
    } else if (const auto* reshard = std::get_if<Reshard>(&action.body); reshard && CollectiveOf(reshard->entry.kind)) {
      return TransferValue(action);
    } else {
      for (const ActionOperand& operand : action.inputs) AwaitValue(operand.value, action.batch_part);
      while (!late_.empty() && reduced_[late_.front().bucket] <= compute_) EmitLate();
      compute_ += ComputePicoseconds(action);
    }
    out_.push_back(std::move(action));
  }

  // No device waits for what the host gets: it goes behind all that devices wait for.
  bool IsForTheHost(const Action& action) const {
    if (std::holds_alternative<Report>(action.body)) return true;
    return ForwardsInput(action) && read_by_the_host_alone_[action.outputs[0].value];
  }

  void TransferGradients(Action& action, int bucket, int64_t made) {
    const int64_t picoseconds = BucketBytes(bucket) / lowering_.buckets[bucket].reduction_parts * kPicosecondsPerCommByte;
    const int64_t start = comm_.Add(made, picoseconds), patient_start = patient_comm_.Add(made, picoseconds);
    transfers_.push_back({out_.size(), bucket, made, start, patient_start});
    reduced_[bucket] = patient_comm_.end;
    out_.push_back(std::move(action));
  }

  // An action waits for this value, whereas nothing waits for gradients. So transfers of gradients that would begin now or
  // later are put behind it.
  void TransferValue(Action& action) {
    std::vector<std::pair<Action, GradientTransfer>> put_off;
    while (!transfers_.empty() && transfers_.back().start >= compute_) {
      const GradientTransfer transfer = transfers_.back();
      transfers_.pop_back();
      comm_.end = transfer.start;
      patient_comm_.end = transfer.patient_start;
      put_off.emplace_back(std::move(out_[transfer.at]), transfer);
      out_.erase(out_.begin() + static_cast<std::ptrdiff_t>(transfer.at));
    }
    Transfer(action);
    for (auto next = put_off.rbegin(); next != put_off.rend(); ++next) {
      TransferGradients(next->first, next->second.bucket, next->second.made);
    }
  }

  // Places a transfer of values behind all transfers so far.
  void Transfer(Action& action) {
    int64_t bytes = 0;
    for (ValueId output : action.outputs) bytes += ValueBytes(output);
    const int64_t picoseconds = bytes / PartsOf(action) * kPicosecondsPerCommByte;
    comm_.Add(compute_, picoseconds);
    patient_comm_.Add(compute_, picoseconds);
    for (ValueId output : action.outputs) moved_[{output, action.batch_part.value_or(kWhole)}] = comm_.end;
    out_.push_back(std::move(action));
  }

  // Lets compute wait for a value: for the given part of it, or for all.
  void AwaitValue(ValueId value, std::optional<int> part) {
    for (int p : {part.value_or(lowering_.batch_parts - 1), kWhole}) {
      const auto moved = moved_.find({value, p});
      if (moved != moved_.end()) compute_ = std::max(compute_, moved->second);
    }
  }

  // Returns into how many parts its values are cut, of which the action moves or computes one.
  int64_t PartsOf(const Action& action) const { return action.batch_part.has_value() ? lowering_.batch_parts : 1; }

  void EmitLate() {
    compute_ = std::max(compute_, reduced_[late_.front().bucket]);
    out_.push_back(std::move(late_.front().action));
    late_.pop_front();
  }

  int64_t ValueBytes(ValueId id) const { return lowering_.LocalElements(id) * kBytesPerElement; }
  int64_t BucketBytes(int bucket) const { return lowering_.LocalElements(lowering_.buckets[bucket]) * kBytesPerElement; }

  int64_t ComputePicoseconds(const Action& action) { return PicosecondsOfWhole(action) / PartsOf(action); }

  // Products take the time of their arithmetic; besides, each value that is made is moved once.
  int64_t PicosecondsOfWhole(const Action& action) {
    const layers::Stage* stage = lowering_.StageOf(action);
    if (stage != nullptr && !stage->emit) return 0;
    int64_t picoseconds = 0;
    for (ValueId output : action.outputs) {
      if (output.valid() && !lowering_.value(output).Is<ParameterGradient>()) {
        picoseconds += 2 * ValueBytes(output) * kPicosecondsPerMemoryByte;
      }
    }
    const auto* run = std::get_if<RunStage>(&action.body);
    return run != nullptr ? picoseconds + ProductFlops(*run) / kFlopsPerPicosecond : picoseconds;
  }

  // Returns the flop of a product's stage on one device, as if every gradient were wanted; they are worked out once for all
  // parts and micro-batches.
  int64_t ProductFlops(const RunStage& run) {
    const auto [known, is_new] = flops_.try_emplace({run.node, run.stage}, 0);
    int64_t& flops = known->second;
    if (!is_new) return flops;
    for (const layers::EmittedOp& op : EmitOnOneDevice(lowering_.plan.mesh, lowering_.shardings[run.node], run.stage)) {
      if (program::IsTimedByFlops(program::CostClassOf(op.op))) flops += op.flops;
    }
    return flops;
  }

  static constexpr int kWhole = -1;  // no part

  Lowering& lowering_;
  const std::vector<bool> read_by_the_host_alone_;           // by value
  absl::flat_hash_map<std::pair<int, int>, int64_t> flops_;  // by node and stage

  CommLane comm_, patient_comm_;
  std::vector<int64_t> reduced_;  // by bucket: when its reduction is expected to have ended by the patient lane, or 0
  // By value that moves, and part of it: when its transfer is expected to end.
  absl::flat_hash_map<std::pair<ValueId, int>, int64_t> moved_;
  std::vector<GradientTransfer> transfers_;  // in the order of the lane
  std::deque<Late> late_;
  std::vector<Action> for_the_host_;
  std::vector<Action> out_;
  int64_t compute_ = 0;  // picoseconds from the beginning of the step
};

}  // namespace

absl::Status OrderActions(Lowering& lowering) {
  const size_t count = lowering.actions.size();
  if (lowering.plan.overlap) Orderer(lowering).Run();
  if (lowering.actions.size() != count) return absl::InternalError("OrderActions: actions were lost");
  return absl::OkStatus();
}

}  // namespace colonnade::partition
