// A plan as a picture: layers from top to bottom, columns and replicas side by side in colours, arrows as thick as what they
// carry.
#ifndef COLONNADE_TOOLS_DRAWING_H_
#define COLONNADE_TOOLS_DRAWING_H_

#include <string>

#include "absl/status/status.h"
#include "layers/graph.h"
#include "partition/plan.h"
#include "program/program.h"

namespace colonnade::tools {

// In the language of graphviz.
std::string PlanAsDot(const layers::LayerGraph& graph, const partition::Plan& plan, const program::Program& program);
// A line for each layer: what each device holds of it, and the bytes that it sends forward and backward.
std::string PlanAsText(const layers::LayerGraph& graph, const partition::Plan& plan, const program::Program& program);

// Writes `path`: SVG where graphviz' `dot` is installed, else text, and says so on stderr.
absl::Status DrawPlan(const layers::LayerGraph& graph, const partition::Plan& plan, const program::Program& program,
                      const std::string& path);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_DRAWING_H_
