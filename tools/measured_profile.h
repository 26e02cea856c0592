// Makes a machine profile of what was observed.
#ifndef COLONNADE_TOOLS_MEASURED_PROFILE_H_
#define COLONNADE_TOOLS_MEASURED_PROFILE_H_

#include <optional>
#include <string>

#include "engine/machine.h"
#include "tools/observations.h"

namespace colonnade::tools {

// How fast training's input makes images of some data, and how long the host takes to hand one to a step.
struct InputSpeed {
  double images_per_sec = 0, host_sec_per_image = 0;
  std::string source;  // of which data
  double within = 0;   // the factor within which the rate is right; 0: not known
};

// Returns `known`, whose devices and links are those of the machine, with all numbers that runs on it have shown, of origin
// "measured". Ops and transfers that were not seen have the rates of the fastest that were, or a guess where there were
// none.
engine::Machine MeasuredProfile(engine::Machine known, const Observations& seen,
                                const std::optional<InputSpeed>& input = {});

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_MEASURED_PROFILE_H_
