// Internal to models/. The functions that build each network. BuildModel (models.h) calls them, with options in which
// nothing is left to the model: extents and numbers of classes are above 0.
#ifndef COLONNADE_MODELS_ZOO_H_
#define COLONNADE_MODELS_ZOO_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "layers/graph.h"
#include "models/models.h"

namespace colonnade::models {

absl::StatusOr<layers::LayerGraph> Lenet(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> TwoColumn(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Alexnet2012(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Alexnet(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Vgg11(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Vgg16(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Vgg16Bn(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Googlenet(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> GooglenetBn(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Resnet18(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Resnet34(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Resnet50(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Resnet101(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Resnet152(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Resnext50_32x4d(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Resnet20(const ModelOptions& options);
absl::StatusOr<layers::LayerGraph> Resnet56(const ModelOptions& options);

// Returns `channels` times the width, to the nearest multiple of 8, at least 8; `channels` itself at width 1.
int64_t Widen(int64_t channels, double width);

}  // namespace colonnade::models

#endif  // COLONNADE_MODELS_ZOO_H_
