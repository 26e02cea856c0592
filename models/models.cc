#include "models/models.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace colonnade::models {
namespace {

// Levenshtein's distance between two words.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

int64_t Widen(int64_t channels, double width) {
  if (width == 1.0) return channels;
  return std::max<int64_t>(8, 8 * std::llround(static_cast<double>(channels) * width / 8));
}

const std::vector<ModelInfo>& AllModels() {
  static const auto& models = *new std::vector<ModelInfo>{
      {.name = "lenet", .description = "LeNet-5 (LeCun et al. 1998) with ReLU and max pooling", .input_channels = 1,
       .input_size = 28, .classes = 10, .learning_rate = 0.02, .weight_decay = 5e-4, .build = Lenet},
      {.name = "two_column", .description = "two columns with a cross connection, for 8x8 digits", .input_channels = 1,
       .input_size = 8, .classes = 10, .learning_rate = 0.03, .weight_decay = 5e-4, .build = TwoColumn},
      {.name = "alexnet2012", .description = "AlexNet of two columns (Krizhevsky, Sutskever, Hinton 2012)", .input_size = 227,
       .classes = 1000, .learning_rate = 0.01, .weight_decay = 5e-4, .build = Alexnet2012},
      {.name = "alexnet", .description = "AlexNet of one column (Krizhevsky 2014), torchvision's layer names", .input_size = 224,
       .classes = 1000, .learning_rate = 0.01, .weight_decay = 5e-4, .build = Alexnet},
  };
  return models;
}

absl::StatusOr<const ModelInfo*> FindModel(absl::string_view name) {
  const ModelInfo* nearest = nullptr;
  for (const ModelInfo& model : AllModels()) {
    if (name == absl::string_view(model.name)) return &model;
    if (!nearest || EditDistance(name, model.name) < EditDistance(name, nearest->name)) nearest = &model;
  }
  const bool close = EditDistance(name, nearest->name) <= 3;
  return absl::FailedPreconditionError(absl::StrFormat(
      "unknown model \"%s\"%s; expected one of %s", name,
      close ? absl::StrFormat(", did you mean \"%s\"?", nearest->name) : "",
      absl::StrJoin(AllModels(), ", ", [](std::string* out, const ModelInfo& model) { out->append(model.name); })));
}

absl::StatusOr<layers::LayerGraph> BuildModel(absl::string_view name, const ModelOptions& options) {
  absl::StatusOr<const ModelInfo*> model = FindModel(name);
  if (!model.ok()) return model.status();
  if (!(options.width > 0) || options.width > 64) {
    return absl::FailedPreconditionError(absl::StrFormat("width: expected a number above 0 and up to 64, found %g", options.width));
  }
  ModelOptions complete = options;
  if (complete.input_channels == 0) complete.input_channels = (*model)->input_channels;
  if (complete.input_size == 0) complete.input_size = (*model)->input_size;
  if (complete.classes == 0) complete.classes = (*model)->classes;
  return (*model)->build(complete);
}

}  // namespace colonnade::models
