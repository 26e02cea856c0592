// The last pass but one: from actions, which are the same for every position, to the tasks of each device.
//
// Internal to partition/. Buffers are made when a value is first made; a bucket's buffers when the emitter is.
#ifndef COLONNADE_PARTITION_EMITTER_H_
#define COLONNADE_PARTITION_EMITTER_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/emit.h"
#include "partition/actions.h"
#include "program/builder.h"
#include "program/representatives.h"

namespace colonnade::partition {

class Emitter {
 public:
  // Emits what all devices have and do.
  explicit Emitter(const Lowering& lowering);
  // What those at positions p have and do of which first_alike[p] is p; they stand for others.
  Emitter(const Lowering& lowering, std::vector<int> first_alike);
  program::Program Run() &&;
  program::Representatives RunRepresentatives() &&;

 private:
  using ByPosition = std::vector<program::BufferId>;  // invalid where nothing is emitted
  using Group = std::vector<int>;                     // positions, in member order
  // The buffers of one bucket at each position; what the optimiser keeps is absent in evaluation, and where a position
  // updates nothing.
  struct BucketBuffers {
    ByPosition weights, gradients;
    std::vector<ByPosition> kept;  // in the order of program::StateOf
    ByPosition averages;
  };
  // In what a bucket of weights, of gradients and of momenta differ.
  struct BucketRole {
    std::string suffix;  // of names
    program::Lifetime lifetime;
    bool laid_out_as_weights = false;  // member by member
    bool updated_parts_alone = false;  // holds no parts of the bucket but those that its position updates
  };

  // emitter.cc
  // Before anything is emitted: memory for what all devices have and do.
  void Reserve();
  ByPosition Nowhere() const { return ByPosition(emits_.size()); }
  std::vector<int> DevicesAt(const Group& group) const;
  // Calls `emit` for each group with a position that is emitted; group_of(p) is that of position p.
  void ForGroups(const std::function<Group(int)>& group_of, const std::function<void(const Group&)>& emit);
  bool AreAlike(const Group& a, const Group& b) const;
  void NoteAlike(const Group& group, const std::function<Group(int)>& group_of);
  void AddScalarsAndFlags();
  // Gives values that are state, parameters or gradients of these the memory that they have.
  void PlaceWhatIsThere();
  // A buffer for a value that has none.
  program::BufferId Make(ValueId value, int position);
  void MakeOutputs(const Action& action);
  // Gives what the action makes the buffers of what it reads.
  void ShareOutputs(const Action& action);
  program::BufferId At(ValueId value, int position) const { return buffers_[value.value][position]; }
  layers::Operand OperandAt(ValueId value, int position) const;
  // The rows of a part of the batch; without one, all.
  layers::Operand RowsAt(ValueId value, int position, std::optional<int> part) const;
  void Cut(std::optional<int> part, program::Region& rows) const;
  // Which sample of the batch stands in a row of what a position holds.
  int64_t SampleAt(const Value& value, int position, int64_t row) const;
  void AddCompute(int position, layers::EmittedOp op, program::Lane lane, const program::Provenance& from);
  void Emit(const Action& action, const LoadInput&);
  // Consecutive samples, as rows from `row` on of what the action makes; labels without it are all there is.
  void LoadImages(const Action& action, int position, const Samples& samples, int64_t row);
  void LoadLabels(const Action& action, int position, const Samples& samples, std::optional<int64_t> row);
  program::BufferId AddLoaded(const Action& action, int position, std::string name, const Samples& samples);
  // What makes of loaded images the box `local` of what the network reads.
  program::Op ConvertImages(const program::Region& local) const;
  void AddLoad(int position, int input, program::BufferId loaded, program::Region box, const program::Provenance& from);
  void Emit(const Action& action, const RunStage& run);
  void Emit(const Action& action, const Round&);
  void Emit(const Action& action, const SumGradients&);
  void Emit(const Action& action, const SumMicroBatches&) { EmitSum(action); }
  void EmitSum(const Action& action);
  void Emit(const Action& action, const CountLabels&);
  program::DType MasterType() const { return program::MasterType(lowering_.options.dtype); }

  // emit_reshard.cc
  void Emit(const Action& action, const Reshard& reshard);
  program::BufferUse InputAt(const Action& action, int position, const ReshardEntry& entry, size_t section,
                             program::Access access) const;
  program::BufferUse OutputAt(const Action& action, int position, const ReshardEntry& entry, size_t section) const;
  program::BufferUse SectionAt(const Action& action, ValueId value, int position, const ReshardEntry& entry, size_t section,
                               program::Access access) const;
  void EmitSlice(const Action& action, const ReshardEntry& entry, size_t section);
  void EmitTransfers(const Action& action, const ReshardEntry& entry, size_t section);
  void EmitPair(const Action& action, const ReshardEntry& entry, size_t section, const Group& group);
  void EmitCollective(const Action& action, const ReshardEntry& entry, size_t section, const Group& group);

  // emit_buckets.cc
  void AddBuckets();
  void AddState();
  program::BufferId AddBucket(int bucket, int position, const BucketRole& role);
  int64_t PartsOf(int bucket) const;
  bool Updates(int bucket, int position) const;
  int MemberIndex(int bucket, int position) const;
  program::Region UpdatedParts(int bucket, int position) const;
  program::BufferId MemberBuffer(program::BufferId bucket, int member) const;
  void Emit(const Action& action, const CheckGradients& check);
  void Emit(const Action& action, const ReduceGradients& reduce);
  void Emit(const Action& action, const GatherParameters& gather);
  void Emit(const Action& action, const GatherGradients& gather);
  void EmitBucketCollective(const Action& action, int bucket, const ByPosition& buffers, program::CollectiveKind kind,
                            std::optional<int> piece = std::nullopt);

  // emit_updates.cc
  void AddGates();
  program::Factors FactorsOf(int bucket, double (Emitter::*of)(int parameter) const) const;
  double RateOf(int parameter) const;
  double DecayOf(int parameter) const;
  std::vector<program::Factors> CountedBy(int bucket) const;
  program::Op UpdateOp(int bucket) const;
  int64_t UpdatedElements(int bucket) const;
  void Emit(const Action& action, const MeasureGradients& measure);
  void Emit(const Action& action, const SumNorms&);
  void Emit(const Action& action, const OpenGate&);
  void Emit(const Action& action, const UpdateParameters& what);
  void Emit(const Action& action, const AverageParameters& what);

  // emit_outputs.cc
  void AddParameters();
  void AddOutputs();
  void Emit(const Action& action, const ReportMetrics&);
  void AddGradientOutput(int parameter);
  void AddStored(program::Output output, const std::string& from);

  const UpdateOptions& update() const { return lowering_.options.update; }

  const Lowering& lowering_;
  const Mesh& mesh_;
  const std::vector<int> first_alike_;  // by position; empty: nobody stands for others
  std::vector<int> positions_;          // that are emitted, 0 among them
  std::vector<bool> emits_;             // by position
  const program::Lane comm_lane_, copy_lane_;
  program::Builder builder_;
  std::vector<ByPosition> buffers_;  // by value
  std::vector<BucketBuffers> buckets_;
  std::vector<ByPosition> state_;
  ByPosition scalars_, flags_;
  ByPosition norms_, gates_, trusts_;  // norms and trusts: of bucket after bucket, member after member
  std::vector<int64_t> first_norm_;    // by bucket
  std::vector<program::Input> inputs_;
  program::Representatives::Alike alike_;
};

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_EMITTER_H_
