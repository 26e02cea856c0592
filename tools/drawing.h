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
// A line for each layer: what the first device holds of it, and the bytes that it sends forward and backward.
std::string PlanAsText(const layers::LayerGraph& graph, const partition::Plan& plan, const program::Program& program);

// Whether DrawPlan can write a file of this name: one that ends in .dot or .txt always, another where graphviz' `dot` is
// installed. Else Unavailable, which says what to do.
absl::Status CheckCanDraw(const std::string& path);

// Writes `path`: the language of graphviz in a file that ends in .dot, text in one that ends in .txt, else SVG.
// Unavailable where graphviz' `dot` is not installed, Internal where it fails.
absl::Status DrawPlan(const layers::LayerGraph& graph, const partition::Plan& plan, const program::Program& program,
                      const std::string& path);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_DRAWING_H_
