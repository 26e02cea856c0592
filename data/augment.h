// What happens to an image between its file and the network: which part of it is seen, at which size, and how its colours
// change. Pixels stay bytes; mean and deviation are taken off on the device (program::Normalise).
//
// Everything random is a function of (seed, epoch, sample) alone, so that neither threads, devices nor batches change it.
#ifndef COLONNADE_DATA_AUGMENT_H_
#define COLONNADE_DATA_AUGMENT_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "data/image.h"

namespace colonnade::data {

// Which part of an image is seen in training.
enum class Cropping {
  kWhole,          // all of it, resampled to the size asked for where it has another
  kPadded,         // the same, then `pad` zero pixels on each side, of which a part of the size asked for is cut
  kRandomResized,  // of a random area and aspect ratio, resampled. Source: Szegedy et al. 2015, section 6
  kScaledRandom,   // the shorter side scaled to `resize` (or a random length up to resize_max), a random part cut, on whole
                   // pixels of the scaled image.
                   // Sources: Krizhevsky et al. 2012, section 4.1; Simonyan & Zisserman 2015, section 3.1
  kCentre,         // the shorter side scaled to `resize`, the middle cut: for tests
};

struct AugmentOptions {
  int64_t height = 0, width = 0, channels = 3;  // of the image that comes out
  int64_t frame = 0;                            // pixels of value 0 on each side of it; what is seen takes the rest
  Cropping cropping = Cropping::kWhole;
  int64_t pad = 0;                                               // of kPadded
  int64_t resize = 256, resize_max = 0;                          // of kScaledRandom and kCentre; 0: as resize
  double least_area = 0.08, most_area = 1;                       // of kRandomResized: as parts of the image
  double least_aspect = 3.0 / 4, most_aspect = 4.0 / 3;          // likewise, width over height
  bool mirror = false;                                           // left and right are exchanged in one of two
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;  // of the colour jitter; 0: none
  double lighting = 0;  // deviation of AlexNet's PCA noise; its eigenvectors are those of ImageNet. 0.1 in the paper
  int64_t cutout = 0;   // side of a square that is set to `fill`. Source: DeVries & Taylor 2017
  uint8_t fill = 0;     // of cutout

  // Returns OK, or FailedPrecondition that names the field whose value is wrong.
  absl::Status Check() const;
};

// What is done to one image: DrawView draws it, Render carries it out.
struct View {
  Box box;  // in the full image without padding; only with kPadded may it reach beyond the image
  bool mirrored = false;
  // Colour: out = clamp(brightness·x), contrast about the mean grey, saturation about each pixel's grey, hue as a turn; in
  // that order (torchvision draws the order; here it is fixed); then light. Each step rounds to bytes. 1, 1, 1, 0 change
  // nothing.
  double brightness = 1, contrast = 1, saturation = 1, hue = 0;
  std::array<double, 3> light = {0, 0, 0};                           // added to R, G, B, in 0..255
  int64_t cut_top = 0, cut_left = 0, cut_height = 0, cut_width = 0;  // of what comes out
  bool operator==(const View&) const = default;
};

// Returns the options of what is inside the frame.
AugmentOptions Inside(AugmentOptions options);

// Draws the view of `sample` in `epoch`; its stored image has height x width pixels. A pure function.
View DrawView(const AugmentOptions& options, uint64_t seed, int64_t epoch, int64_t sample, int64_t height, int64_t width);

// Carries `view` out on `image` and writes out [height, width, channels]. `box` is view.box in pixels of `image`: what
// decoding made of it (decode.h), or view.box itself where `image` is whole. Resampling is by area where it shrinks and
// bilinear where it enlarges, with pixel centres at .5; a box of the size of `out` on whole pixels is copied. Outside of the
// image the nearest pixel counts, with kPadded zero. REQUIRES: options.frame is 0; image.channels == options.channels;
// options.Check(); with kPadded, the whole image and a box of its size.
void Render(const AugmentOptions& options, const View& view, const Image& image, const Box& box, absl::Span<uint8_t> out);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_AUGMENT_H_
