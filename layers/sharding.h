// How the tensors of one layer may lie on one mesh axis: legal shardings, as data.
//
// A layer states, for each strategy, what it needs of its inputs and what it makes; who holds which shard, and how data
// gets there, is partition/'s alone.
#ifndef COLONNADE_LAYERS_SHARDING_H_
#define COLONNADE_LAYERS_SHARDING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "program/types.h"

namespace colonnade::layers {

// How a layer is spread over one axis of the mesh.
enum class Strategy { kReplicate, kBatch, kColumn, kGroup, kRow };
// All of them: what files may name, and what a search tries.
inline constexpr Strategy kStrategies[] = {Strategy::kReplicate, Strategy::kBatch, Strategy::kColumn, Strategy::kGroup,
                                           Strategy::kRow};
const char* Name(Strategy strategy);       // "replicate", …
std::vector<std::string> StrategyNames();  // all of them
std::optional<Strategy> StrategyFromName(const std::string& name);

// How a tensor lies on one axis of M positions.
//   Replicated  every position holds all of it
//   Split(dim)  position m holds the m-th of M equal parts along dim
//   Partial     every position holds a summand of it
// With groups = G > 1 (G divides M), dimension 1 is first cut into G parts, one for each subgroup of M/G positions, and the
// kind (Replicated or Partial) holds within it. Grouped layers on more columns than groups need this.
// With sections, the dimension is first cut into these extents, and position m holds the m-th of M equal parts of each, side
// by side. The sections of a concatenation are the extents of its inputs, those of a batch that moves in parts its parts.
struct Placement {
  enum class Kind { kReplicated, kSplit, kPartial };
  Kind kind = Kind::kReplicated;
  int dim = 0;                      // of kSplit
  int64_t groups = 1;               // of kReplicated and kPartial
  std::vector<int64_t> sections{};  // of kSplit: none, or two or more

  static Placement Replicated(int64_t groups = 1) { return {Kind::kReplicated, 0, groups}; }
  static Placement Split(int dim) { return {Kind::kSplit, dim, 1}; }
  // Returns Split(dim), of each section.
  static Placement SplitSections(std::vector<int64_t> sections, int dim = 1);
  static Placement Partial(int64_t groups = 1) { return {Kind::kPartial, 0, groups}; }
  bool operator==(const Placement&) const = default;
  template <class H>
  friend H AbslHashValue(H h, const Placement& p) {
    return H::combine(std::move(h), p.kind, p.dim, p.groups, p.sections);
  }
};
// Returns "replicated", "split(1)", "partial", "replicated/2", "partial/2", "split(1: 64+128)" …
std::string ToString(const Placement& placement);

// How one stage of a layer makes a tensor, and how others need it.
struct InnerPlacement {
  Placement made, needed;
};

// One legal way to spread a layer over one axis. Vectors follow the layer's inputs, parameters, state and inner tensors.
struct Sharding {
  std::vector<Placement> inputs;  // needed of each input
  std::vector<Placement> parameters;
  Placement output;                            // made
  Placement output_gradient;                   // needed of dy in the backward pass
  std::vector<Placement> input_gradients;      // made
  std::vector<Placement> parameter_gradients;  // made
  std::vector<Placement> state;
  std::vector<InnerPlacement> inner;
};

// Extents of all tensors of a layer, with the batch: whole ones, or those that a device is left with where some axes have
// cut them.
struct LayerShapes {
  std::vector<program::Shape> inputs;  // for a loss, labels and their count stand behind them
  std::vector<program::Shape> parameters;
  std::vector<program::Shape> state, inner;
  program::Shape output;                      // for a loss: of the metrics
  std::vector<program::Shape> global_inputs;  // the whole ones
  // For a layer that keeps the channels of a concatenation: how many channels come from each input of that concatenation.
  std::vector<int64_t> sections;
};

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_SHARDING_H_
