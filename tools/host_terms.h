// What the host takes for the steps of some Programs, as the terms of engine::HostSeconds.
#ifndef COLONNADE_TOOLS_HOST_TERMS_H_
#define COLONNADE_TOOLS_HOST_TERMS_H_

#include "absl/types/span.h"

namespace colonnade::tools {

// A step of one Program: what it counts, over all devices, and what the host takes for it.
struct HostStep {
  double devices = 1, images = 0, tasks = 0;
  double seconds = 0;
};

// Of a step, and what each task, device and image adds.
struct HostTerms {
  double step_sec = 0, sec_per_task = 0, sec_per_device = 0, sec_per_image = 0;
};

// The terms of a fit, and the standard error of each: 0 of those that are 0.
struct HostFit {
  HostTerms terms, standard_errors;
};

// The terms that explain the steps best, by least squares of relative errors. A term is 0 unless it is above 0 by three
// standard errors beside the others, so that none stands for what others explain as well. Of sets of terms between which the
// steps do not decide, the one of the fewest, and tasks before the step, devices and images. All 0 where no step took time.
HostFit FitHostTerms(absl::Span<const HostStep> steps);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_HOST_TERMS_H_
