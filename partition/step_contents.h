// Which nodes of a network a step runs, and which gradients it makes: what lowering does and the planner's costs count.
#ifndef COLONNADE_PARTITION_STEP_CONTENTS_H_
#define COLONNADE_PARTITION_STEP_CONTENTS_H_

#include <set>
#include <string>
#include <vector>

#include "layers/graph.h"
#include "partition/shardings.h"
#include "program/program.h"

namespace colonnade::partition {

// Worked out once for a network, in time in proportion to its edges. It keeps a reference to the graph.
class StepContents {
 public:
  StepContents(const layers::LayerGraph& graph, program::Mode mode, const std::set<std::string>& frozen_layers);

  // Whether anything of a node runs: evaluation leaves auxiliary losses out, and what is there for them alone.
  bool Runs(int node) const { return runs_[node]; }
  // Whether the parameters of a node are updated.
  bool Trains(int node) const { return trains_[node]; }
  // Whether what a node makes has a gradient: parameters of it, or of a node before it, are trained.
  bool HasGradient(int node) const { return has_gradient_[node]; }

  // Which stages of a node run, and which of its inner tensors are read.
  WantedStages Wanted(int node, const layers::LayerStages& stages) const;
  // Whether a stage that runs makes `slot`, one of those that it writes. A stage of backward that runs for one output also
  // makes its inner tensors and all gradients of parameters, even if nobody reads them.
  bool Makes(int node, const layers::Stage& stage, layers::Slot slot, const WantedStages& wanted) const;

 private:
  bool IsWanted(int node, layers::Slot slot) const;

  const layers::LayerGraph& graph_;
  std::vector<bool> runs_, trains_, has_gradient_;  // by node
};

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_STEP_CONTENTS_H_
