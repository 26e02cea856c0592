#include "models/models.h"

#include <cstdio>

#include "absl/strings/str_format.h"
#include "cli/commands.h"
#include "layers/layer.h"
#include "program/status_macros.h"
#include "program/types.h"

namespace colonnade::cli {

absl::Status ListModels() {
  for (const models::ModelInfo& model : models::AllModels()) {
    ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel(model.name, {}));
    std::printf("%s\n", absl::StrFormat("%-12s %11d parameters %9.3f Gflop  %dx%dx%d  %s", model.name,
                                        graph.ParameterCount(), static_cast<double>(graph.ForwardFlops(1)) / 1e9,
                                        model.input_channels, model.input_size, model.input_size, model.description)
                            .c_str());
  }
  return absl::OkStatus();
}

absl::Status RunModels(const Flags& flags) {
  if (flags.model.empty()) return ListModels();
  ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel(flags.model, {}));
  std::printf("%-20s %-22s %-18s %12s %9s\n", "layer", "type", "output", "parameters", "Gflop");
  for (const layers::LayerNode& node : graph.nodes) {
    int64_t parameters = 0;
    for (const layers::ParameterSpec& parameter : node.parameters) parameters += program::ElementCount(parameter.shape);
    std::printf("%s\n", absl::StrFormat("%-20s %-22s %-18s %12d %9.3f", node.name, layers::TypeName(node.layer),
                                        program::ToString(node.sample_shape), parameters,
                                        static_cast<double>(layers::ForwardFlops(node, 1)) / 1e9)
                            .c_str());
  }
  std::printf("%s\n", absl::StrFormat("%-62s %12d %9.3f", "in all, Gflop of one image's forward pass",
                                      graph.ParameterCount(), static_cast<double>(graph.ForwardFlops(1)) / 1e9)
                          .c_str());
  return absl::OkStatus();
}

}  // namespace colonnade::cli
