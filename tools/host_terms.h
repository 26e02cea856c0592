// What the host takes for the steps of some Programs, as the terms of engine::HostSeconds.
#ifndef COLONNADE_TOOLS_HOST_TERMS_H_
#define COLONNADE_TOOLS_HOST_TERMS_H_

#include "absl/types/span.h"

namespace colonnade::tools {

// A step of one Program: its devices, and its images and tasks over all of them, and the seconds that the host takes for it.
struct HostStep {
  double devices = 1, images = 0, tasks = 0;
  double seconds = 0;
};

// The seconds that the host takes for any step, and those that each task, device and image adds.
struct HostTerms {
  double step_sec = 0, sec_per_task = 0, sec_per_device = 0, sec_per_image = 0;
};

// The terms of a fit, and the standard error of each; the error of a term that is 0 is 0.
struct HostFit {
  HostTerms terms, standard_errors;
};

// Returns the terms that explain the steps best, by least squares of relative errors. A term is 0 unless it is above 0 by
// three standard errors beside the others, so that none stands for what others explain as well. Of sets of terms between
// which the steps do not decide it takes the one of the fewest terms, and prefers tasks to the step, devices and images, in
// this order. All terms are 0 where no step took time.
HostFit FitHostTerms(absl::Span<const HostStep> steps);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_HOST_TERMS_H_
