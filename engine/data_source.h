// Where samples come from: one continuous stream that batches cut into pieces; an epoch may end inside a batch.
//
// Position p of the stream is sample Order(epoch = p / size, p % size); the order is a function of (seed, epoch) alone, so
// the stream does not depend on plan, batch or number of devices. Implementations may be read by one thread at a time.
#ifndef COLONNADE_ENGINE_DATA_SOURCE_H_
#define COLONNADE_ENGINE_DATA_SOURCE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "program/op.h"
#include "program/types.h"

namespace colonnade::engine {

class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual std::string description() const = 0;  // "digits, 1437 samples, shifts by one pixel": for the first lines
  virtual int64_t size() const = 0;             // samples in one epoch
  virtual const program::Shape& sample_shape() const = 0;  // {C, H, W}
  virtual int64_t classes() const = 0;

  // Returns what the device makes of a byte of each channel, so that the network reads normalised values.
  virtual const program::PixelScaling& scaling() const = 0;

  // Reads samples [position, position + labels.size()) of the stream. images: bytes [count, H, W, C]; labels: −1 for
  // padding.
  virtual absl::Status Read(int64_t position, absl::Span<uint8_t> images, absl::Span<int32_t> labels) = 0;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_DATA_SOURCE_H_
