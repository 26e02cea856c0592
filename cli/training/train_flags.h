// The flags of `train`.
#ifndef COLONNADE_CLI_TRAINING_TRAIN_FLAGS_H_
#define COLONNADE_CLI_TRAINING_TRAIN_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command_line/flags.h"

namespace colonnade::cli {

struct TrainFlags : SessionFlags {
  CheckpointFlags checkpoint;
  RecordFlags record;
  int64_t steps = 0, epochs = 0;       // 0: not given
  std::string save, save_ema;          // files of weights
  std::string trace, report, config;   // files
  std::vector<ResolvedFlag> resolved;  // every flag, which records and reports hold
  bool json = false;
};

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TRAINING_TRAIN_FLAGS_H_
