#ifndef COLONNADE_TESTS_OPEN_STREAM_H_
#define COLONNADE_TESTS_OPEN_STREAM_H_

#include <memory>
#include <string>

#include "data/formats.h"
#include "data/pipeline.h"

namespace colonnade {

// A stream of the training set `name`; of its test set where that is read once. REQUIRES: it is there.
inline std::unique_ptr<data::Pipeline> OpenStream(const std::string& name, const data::PipelineOptions& options = {},
                                                  const data::DatasetOptions& set = {}) {
  const data::SplitOf split = options.once ? data::SplitOf::kTest : data::SplitOf::kTrain;
  return *data::Pipeline::Create(*data::OpenSamples(name, split, set), options);
}

inline constexpr data::AugmentOptions kShiftedByAPixel{.cropping = data::Cropping::kPadded, .pad = 1};

}  // namespace colonnade

#endif  // COLONNADE_TESTS_OPEN_STREAM_H_
