// A plan as a picture: devices are columns, replicas framed, and layers are rows; beside them how the network's branches
// run, between them what moves, and which gradients are reduced where. Laid out here, by no other program. Any thread.
#ifndef COLONNADE_TOOLS_DRAWING_H_
#define COLONNADE_TOOLS_DRAWING_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/graph.h"
#include "partition/plan.h"
#include "program/program.h"

namespace colonnade::tools {

inline constexpr int kMostDevicesShown = 16;  // one by one, in pictures and tables: of more they say less

struct DrawingOptions {
  bool folds_blocks = true;  // branches that part and join again are one box
};

struct PlanPicture {
  std::string svg;
  std::vector<double> cuts;  // heights at which paper may cut it: between rows, and through no text beside them
};

// Returns the first kMostDevicesShown devices, or what whole replicas these hold. Errors: those of a plan that is not the
// network's.
absl::StatusOr<PlanPicture> PictureOfPlan(const layers::LayerGraph& graph, const partition::Plan& plan,
                                          const program::Program& program, const DrawingOptions& options = {});
absl::StatusOr<std::string> PlanAsSvg(const layers::LayerGraph& graph, const partition::Plan& plan,
                                      const program::Program& program, const DrawingOptions& options = {});
// Returns a line for each layer: what the first device holds of it, and what it sends; then a line for each reduction.
absl::StatusOr<std::string> PlanAsText(const layers::LayerGraph& graph, const partition::Plan& plan,
                                       const program::Program& program);

// Returns FailedPrecondition where DrawPlan writes no file of this name: one that ends in .dot.
absl::Status CheckCanDraw(const std::string& path);

// Writes `path`: text in a file that ends in .txt, else SVG.
absl::Status DrawPlan(const layers::LayerGraph& graph, const partition::Plan& plan, const program::Program& program,
                      const std::string& path, const DrawingOptions& options = {});

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_DRAWING_H_
