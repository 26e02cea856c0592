// How a view changes colours. Internal to data/: augment.h says what each change is.
#ifndef COLONNADE_DATA_COLOUR_H_
#define COLONNADE_DATA_COLOUR_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "data/augment.h"

namespace colonnade::data {

// Changes brightness, contrast, saturation, hue and light in place; after each step values are bytes. Saturation, hue and
// light are for three channels.
void ChangeColours(const View& view, int64_t channels, absl::Span<uint8_t> pixels);

// Returns the noise that `alphas` along the three principal components of ImageNet's colours add to R, G and B, in 0..255.
// Source: Krizhevsky et al. 2012, section 4.1.
std::array<double, 3> LightOf(const std::array<double, 3>& alphas);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_COLOUR_H_
