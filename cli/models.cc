#include "models/models.h"

#include <cstdio>

#include "absl/strings/str_format.h"
#include "cli/commands.h"
#include "program/status_macros.h"

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

}  // namespace colonnade::cli
