// What a drawing of a plan shows, before it has a place on a page: rows of layers or of blocks, what each device holds of
// them, and what moves between devices. Any thread.
#ifndef COLONNADE_TOOLS_DRAWING_ROWS_H_
#define COLONNADE_TOOLS_DRAWING_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/graph.h"
#include "partition/plan.h"
#include "program/program.h"

namespace colonnade::tools {

// Transfers of one kind in one pass.
struct Move {
  program::Pass pass = program::Pass::kForward;
  std::string kind;  // "all-gather"
  // Bytes that a device sends, of those that send the least and the most.
  int64_t least_bytes = 0, most_bytes = 0;
  int64_t all_bytes = 0;
  std::vector<std::vector<int>> groups;  // devices that meet, sorted; where exchanges join pairs, all that hang together
};

struct DrawnCell {
  std::string output, weights;  // shapes that the device holds; of a block the weights' bytes. Empty: none
  int part = 0, parts = 1;      // which part of the layer's channels or weights, of how many that are different
};

struct DrawnRow {
  std::string name, description;  // "conv1", "conv2d"; "layer1.0", "block of 10 layers"
  std::string strategies;
  std::vector<int> inputs;       // rows
  std::vector<DrawnCell> cells;  // by mesh position
  std::vector<Move> moves;       // of the layer, or within the block
};

// Buckets of gradients, or of statistics, that are reduced alike.
struct DrawnReduction {
  bool of_gradients = true;
  std::vector<std::string> buckets;
  std::vector<int> rows;  // whose parameters' gradients, or whose statistics, are in them
  std::vector<Move> moves;
};

struct DrawnPlan {
  std::vector<DrawnRow> rows;
  std::vector<DrawnReduction> reductions;
};

// With `folds_blocks` a block is one row: the layers of branches that part and join again, with those behind that only
// change values, such as activations. FailedPrecondition or InvalidArgument where the plan is not one of the network.
absl::StatusOr<DrawnPlan> RowsOfPlan(const layers::LayerGraph& graph, const partition::Plan& plan,
                                     const program::Program& program, bool folds_blocks);

// By node: the row in which it is.
std::vector<int> RowOfEachNode(const layers::LayerGraph& graph, bool folds_blocks);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_DRAWING_ROWS_H_
