// A layer as a list of stages: what each reads and writes, and the ops of one shard.
//
// A stage runs on every device by itself; lowering puts the communication that its operands need between stages. Most layers
// have one stage forward and one backward. A layer with a sum over devices in the middle has two: one that makes the partial
// sum, and one that reads the whole.
#ifndef COLONNADE_LAYERS_STAGE_H_
#define COLONNADE_LAYERS_STAGE_H_

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "layers/emit.h"
#include "layers/sharding.h"
#include "program/formulas/activation.h"
#include "program/types.h"

namespace colonnade::layers {

// A tensor of a layer, by what it is to the layer.
struct Slot {
  enum class Kind { kInput, kParameter, kState, kInner, kOutput };
  static constexpr int kKinds = 5;
  Kind kind = Kind::kInput;
  int index = 0;
  bool gradient = false;
  bool operator==(const Slot&) const = default;
};
// Returns the k-th input. A loss has labels and their count (f64 [1], how many of the step's batch are ≥ 0) behind its own
// inputs.
constexpr Slot X(int k = 0) { return {Slot::Kind::kInput, k}; }
constexpr Slot Parameter(int p) { return {Slot::Kind::kParameter, p}; }
// The parameters of every layer that has these.
inline constexpr Slot kWeight = Parameter(0), kBias = Parameter(1);
constexpr Slot State(int s) { return {Slot::Kind::kState, s}; }
constexpr Slot Inner(int v = 0) { return {Slot::Kind::kInner, v}; }
constexpr Slot Y() { return {Slot::Kind::kOutput}; }  // for a loss: the metrics
// Returns the gradient of the loss with respect to a slot.
constexpr Slot D(Slot slot) { return {slot.kind, slot.index, true}; }

// A tensor that one stage makes and others read: what forward leaves for backward, or what stands between two stages.
struct InnerSpec {
  std::string name;                     // "argmax"
  program::Shape shape;                 // global
  std::optional<program::DType> dtype;  // absent: that of activations, or of `in_master_type`
  bool in_master_type = false;          // f32 or f64, also where activations are bf16
  bool required = false;                // made even where no stage reads it
};

// An operand that a stage has, beside what it reads and writes by itself, where lowering fused it with other stages.
enum class Fused {
  kAddend,  // read: added to Y before the epilogue
  // Where a ReLU, z = max(y, 0), follows, a stage of backward masks by itself what it reads (FuseMasks):
  //   before   sum = dz + more;   dy = sum where z > 0, else 0;   the stage reads dy
  //   after    the stage reads dz, z and more, and writes dy, for others, beside what it made before
  kMaskSource,      // read: z
  kGradientAddend,  // read: more, where a sum of two gradients was fused, too
  kMaskedGradient,  // written: dy

  kWeight,        // read: of the product before, to be folded
  kBias,          // read: likewise; of a product, what it adds where it has no bias of its own
  kFoldedWeight,  // written
  kFoldedBias,    // written
};

// Whether a tensor of a stage that is `by_sample` has a row for each sample.
constexpr bool HasRows(Slot slot) { return slot.kind != Slot::Kind::kParameter && slot.kind != Slot::Kind::kState; }
constexpr bool HasRows(Fused which) {
  switch (which) {
    case Fused::kAddend:
    case Fused::kMaskSource:
    case Fused::kGradientAddend:
    case Fused::kMaskedGradient:
      return true;
    case Fused::kWeight:
    case Fused::kBias:
    case Fused::kFoldedWeight:
    case Fused::kFoldedBias:
      return false;
  }
  return false;
}

// The operands of one stage on one device.
class StageShard {
 public:
  // Whether the stage has the operand: false for a gradient that nobody reads and for an absent bias.
  bool has(Slot slot) const { return Find(slot) != nullptr; }
  // REQUIRES: has(slot).
  const Operand& operator[](Slot slot) const { return *Find(slot); }
  // REQUIRES: !has(slot).
  void Put(Slot slot, Operand operand) {
    Places& places = places_[static_cast<int>(slot.kind)][slot.gradient ? 1 : 0];
    if (static_cast<int>(places.size()) <= slot.index) places.resize(slot.index + 1, kNoPlace);
    places[slot.index] = static_cast<int>(operands_.size());
    operands_.push_back(std::move(operand));
  }
  // Returns null if the stage has no such operand.
  const Operand* fused(Fused which) const {
    for (const auto& [of, operand] : fused_) {
      if (of == which) return &operand;
    }
    return nullptr;
  }
  void Put(Fused which, Operand operand) { fused_.emplace_back(which, std::move(operand)); }

  Operand scalars;              // program::StepScalar
  std::optional<Operand> gate;  // program::Gate, which updates of state obey
  // How many samples the step's batch has, and which of them is the first of the micro-batch; batch 0: it is all of it.
  int64_t batch = 0, first_sample = 0;
  // Forward: the activation to apply to what the stage writes, if it takes one. Backward: D(Y) must still be masked as that
  // activation masked Y.
  std::optional<program::Activation> epilogue;

 private:
  // By Slot::index: where the operand stands in `operands_`.
  using Places = absl::InlinedVector<int, 2>;
  static constexpr int kNoPlace = -1;

  // Takes the same time however many inputs a layer has.
  const Operand* Find(Slot slot) const {
    const Places& places = places_[static_cast<int>(slot.kind)][slot.gradient ? 1 : 0];
    if (slot.index >= static_cast<int>(places.size()) || places[slot.index] == kNoPlace) return nullptr;
    return &operands_[places[slot.index]];
  }
  absl::InlinedVector<Operand, 6> operands_;
  std::array<std::array<Places, 2>, Slot::kKinds> places_;  // by Slot::kind, then those of values and of gradients
  absl::InlinedVector<std::pair<Fused, Operand>, 3> fused_;
};

// What a stage computes, where lowering makes use of that.
struct Addition {};        // Y is the sum of the inputs
struct ChannelScaling {};  // Y is X scaled and shifted by channel; with kWeight it makes a product do that, and no Y
struct Masking {};         // D(X) is D(Y) where Y is above zero, and zero elsewhere
struct Routing {};         // D(X) is D(Y) at the largest element of each window of X, Y
// An activation: Y is that of X, and the stage before may apply it.
using StageMeaning = std::variant<std::monostate, program::Activation, Addition, ChannelScaling, Masking, Routing>;

// What lowering may fuse with a stage.
struct Accepted {
  bool epilogue = false;       // an activation of what it writes
  bool addend = false;         // a tensor to add to Y, before the epilogue
  bool mask = false;           // of D(Y), or of its sum with another; the stage leaves it masked for others
  bool recalled_mask = false;  // of D(Y), by Y as the epilogue left it, which the stage need not read
  // Folded parameters, in place of its own: Y is X times Parameter(0), which has a row for each channel of Y, plus
  // Parameter(1) if it reads that.
  bool folded = false;
};

struct Stage {
  program::Pass pass = program::Pass::kForward;
  std::vector<Slot> reads, writes;  // a state that is read may be updated
  // Returns the ops, with operands in the order that program/op_table.h gives. The shard has all that the stage reads (but X
  // where it folds) and, of what it writes, whatever is read. A stage without ops passes what it reads on as all that it
  // writes, and costs nothing.
  std::function<std::vector<EmittedOp>(const StageShard&)> emit;

  bool by_sample = false;      // each sample's row of what it makes follows from that sample's rows alone
  bool draws = false;          // draws random numbers, by the places of elements in the whole tensor
  bool reads_masters = false;  // reads its parameters in f32 or f64, also where activations are bf16
  bool reads_parts = false;    // some op reads some of the channels of what the stage reads, and not all

  StageMeaning meaning;
  Accepted accepts;

  template <class Meaning>
  bool Means() const {
    return std::holds_alternative<Meaning>(meaning);
  }
};

// The stages of a layer in the order in which they run: forward's, then backward's.
struct LayerStages {
  std::vector<ParameterSpec> state;  // what training writes and evaluation reads, beside parameters: running means
  std::vector<InnerSpec> inner;
  std::vector<Stage> stages;
};

// What a layer's stages depend on beside its shapes.
struct StageOptions {
  bool train = true;
  int64_t micro_batches = 1;       // in a step; shapes are those of one
  bool makes_partial_sum = false;  // a product is split along what it sums over, so that a device makes a summand of it
};

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_STAGE_H_
