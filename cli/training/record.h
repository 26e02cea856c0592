// What `train --json` says of a run so that it can be repeated: on what it ran, and every flag with the value that it had.
#ifndef COLONNADE_CLI_TRAINING_RECORD_H_
#define COLONNADE_CLI_TRAINING_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/session/session.h"
#include "cli/training/train_flags.h"
#include "data/moments.h"
#include "nlohmann/json.hpp"

namespace colonnade::cli {

// Where flags leave something to model, data or machine, what that came to.
struct RunFacts {
  std::string backend;  // Backend::name
  data::Moments moments;
  std::string data_identity;  // IdentityOf
};

// Returns the flags of a run as they were parsed. A plan that was found is `auto` though it may come from the record of the
// run that found it, which need not stay where it is.
std::vector<ResolvedFlag> FlagsThatRepeat(const TrainFlags& flags, const Session& session);

// Returns {"version", "commit", "machine", "data", "data_identity", "seed", "flags", "plan_file"}. --config takes the
// object; what has no value in "flags" is null, and plan_file is what --plan takes as a file: --config takes a plan from
// there that was found, or that was in a file.
nlohmann::ordered_json RecordJson(const TrainFlags& flags, const Session& session, const RunFacts& facts);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TRAINING_RECORD_H_
