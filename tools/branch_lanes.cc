#include "tools/branch_lanes.h"

#include <algorithm>
#include <limits>

namespace colonnade::tools {
namespace {

// Rows at which lanes are taken.
class Taken {
 public:
  bool IsFree(int lane, int first, int last) const {
    if (lane >= count()) return true;
    for (int row = std::max(first, 0); row <= last && row < static_cast<int>(lanes_[lane].size()); ++row) {
      if (lanes_[lane][row]) return false;
    }
    return true;
  }
  int FirstFree(int first, int last) const {
    int lane = 0;
    while (!IsFree(lane, first, last)) ++lane;
    return lane;
  }
  void Take(int lane, int first, int last) {
    if (lane >= count()) lanes_.resize(lane + 1);
    if (last >= static_cast<int>(lanes_[lane].size())) lanes_[lane].resize(last + 1, false);
    for (int row = first; row <= last; ++row) lanes_[lane][row] = true;
  }
  int count() const { return static_cast<int>(lanes_.size()); }

 private:
  std::vector<std::vector<bool>> lanes_;  // by lane and row
};

}  // namespace

BranchLanes LayOutBranches(const std::vector<std::vector<int>>& inputs) {
  BranchLanes layout;
  Taken taken;
  for (int row = 0; row < static_cast<int>(inputs.size()); ++row) {
    // A row goes on with the lane of an input behind which nothing stands on it yet.
    int lane = std::numeric_limits<int>::max();
    for (int input : inputs[row]) {
      if (taken.IsFree(layout.lane_of[input], input + 1, row)) lane = std::min(lane, layout.lane_of[input]);
    }
    if (lane == std::numeric_limits<int>::max()) {
      const int first = inputs[row].empty() ? row : *std::max_element(inputs[row].begin(), inputs[row].end()) + 1;
      lane = taken.FirstFree(std::min(first, row), row);
    }
    layout.lane_of.push_back(lane);
    taken.Take(lane, row, row);
    for (int input : inputs[row]) {
      LaneEdge edge{input, row, lane};
      for (int candidate : {lane, layout.lane_of[input], -1}) {
        edge.lane = candidate >= 0 ? candidate : taken.FirstFree(input + 1, row - 1);
        if (taken.IsFree(edge.lane, input + 1, row - 1)) break;
      }
      if (input + 1 < row) taken.Take(edge.lane, input + 1, row - 1);
      layout.edges.push_back(edge);
    }
  }
  layout.count = std::max(taken.count(), 1);
  return layout;
}

}  // namespace colonnade::tools
