// Where a run stands: what a training begins at and ends with, and a checkpoint holds.
#ifndef COLONNADE_ENGINE_RUN_POSITION_H_
#define COLONNADE_ENGINE_RUN_POSITION_H_

#include <cstdint>
#include <limits>

namespace colonnade::engine {

// Where a run stands between two steps.
struct RunPosition {
  int64_t step = 0;    // steps done
  int64_t sample = 0;  // position in the stream of the next step's first sample
  // The mean loss of the steps since the position before that was kept; not a number where there was none.
  double loss = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_RUN_POSITION_H_
