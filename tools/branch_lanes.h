// Where the branches of a network run beside its rows: each row on a lane, and each edge on one until it reaches its row.
// No two things that are side by side share a lane. Any thread.
#ifndef COLONNADE_TOOLS_BRANCH_LANES_H_
#define COLONNADE_TOOLS_BRANCH_LANES_H_

#include <vector>

namespace colonnade::tools {

struct LaneEdge {
  int from = 0, to = 0;  // rows
  int lane = 0;          // between them
};

struct BranchLanes {
  std::vector<int> lane_of;  // by row
  std::vector<LaneEdge> edges;
  int count = 1;
};

// `inputs`: by row, the rows before it that it reads.
BranchLanes LayOutBranches(const std::vector<std::vector<int>>& inputs);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_BRANCH_LANES_H_
