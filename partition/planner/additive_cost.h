// The cost of an assignment of strategies to layers as a sum of terms over few layers each.
//
// One term for each layer: its compute, what moves between its stages, and the reduction of its gradients. One for each
// value that layers read, of the layer that makes it and all that read it: the value goes once to each placement that they
// need, and of its gradient the contributions that lie alike are added where they are and go back once. Images cost nothing:
// they are loaded as each layer needs them.
#ifndef COLONNADE_PARTITION_PLANNER_ADDITIVE_COST_H_
#define COLONNADE_PARTITION_PLANNER_ADDITIVE_COST_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "partition/planner/elimination.h"
#include "partition/planner/proposals.h"

namespace colonnade::partition {

class AdditiveCost {
 public:
  // `exposed`, from 0 to 1, is the part of the reductions' time that counts. REQUIRES: the arguments passed by reference
  // outlive this object; each node has an option.
  AdditiveCost(const layers::LayerGraph& graph, const Mesh& mesh, int64_t global_batch,
               const std::vector<std::vector<StrategyOption>>& options, const CostFunctions& cost, double exposed);

  // Returns, for each term, the nodes that it depends on, ascending.
  const std::vector<std::vector<int>>& scopes() const { return scopes_; }
  // Returns the terms that depend on a node.
  const std::vector<int>& TermsOf(int node) const { return terms_of_[node]; }
  double TermCost(int term, const Assignment& assignment);
  double TotalCost(const Assignment& assignment);
  // Returns the cost of moving values and gradients from layer to layer.
  double TransferCost(const Assignment& assignment);
  // Returns every term as a table.
  std::vector<Factor> Factors();

 private:
  // A value that is read, and what each option of its layers makes and needs of it. Its placements are numbers, so that
  // costs are looked up.
  struct ValueChoices {
    int producer = 0;
    bool has_gradient = false;
    program::Shape shape;
    std::vector<std::pair<int, size_t>> readers;          // node and which of its inputs
    std::vector<TensorPlacement> placements;              // all that there are
    std::vector<int> made, gradient_needed;               // by the producer's option
    std::vector<std::vector<int>> needed, gradient_made;  // by reader and its option
    std::map<std::vector<int>, double> forward;           // made, needed…
    std::map<std::pair<int, int>, double> backward;       // made, needed
    int Number(const TensorPlacement& placement);
  };

  void AddTerm(std::vector<int> scope);
  void AddValue(int producer, std::vector<std::pair<int, size_t>> readers);
  double OfNode(int node, int option) const;
  double OfValue(ValueChoices& value, const Assignment& assignment);
  double Forward(ValueChoices& value, const Assignment& assignment);
  double Backward(ValueChoices& value, const Assignment& assignment);

  const layers::LayerGraph& graph_;
  const Mesh& mesh_;
  const int64_t batch_;
  const std::vector<std::vector<StrategyOption>>& options_;
  const CostFunctions& cost_;
  const StepContents contents_;
  const double exposed_;
  std::vector<std::vector<int>> scopes_;  // of the nodes, then of values_
  std::vector<std::vector<int>> terms_of_;
  std::vector<ValueChoices> values_;
};

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_PLANNER_ADDITIVE_COST_H_
