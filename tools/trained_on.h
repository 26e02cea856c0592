// What weights were trained on, as far as those who use them have to know it. A file of weights states it in its metadata,
// under "colonnade_trained_on":
//
//   {"image": [3, 224, 224], "class_names": ["cat", "dog"], "mean": [0.48, 0.45, 0.41], "std": [0.23, 0.22, 0.23],
//    "pad": 0, "view": "middle"}
#ifndef COLONNADE_TOOLS_TRAINED_ON_H_
#define COLONNADE_TOOLS_TRAINED_ON_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/moments.h"
#include "engine/io/safetensors.h"
#include "program/types.h"

namespace colonnade::tools {

// What tests saw of an image beside its pad: all of it, or the middle.
enum class TestView { kWhole, kMiddle };

struct TrainedOn {
  program::Shape image;                  // [C, H, W], as the network takes them
  std::vector<std::string> class_names;  // of all classes of the network; one without a name is called by its label: "7"
  data::Moments moments;                 // by which pixels are normalised, one number for each channel
  int64_t pad = 0;                       // pixels of value 0 on each side of `image`
  std::optional<TestView> view;          // absent in older files
};

// A class whose name is not UTF-8 gets its label for a name.
engine::Metadata ToMetadata(const TrainedOn& trained_on);

// Returns nothing where the metadata do not state it, as those of other programs. InvalidArgument with place, expected and
// found where what they state is not as above.
absl::StatusOr<std::optional<TrainedOn>> TrainedOnFromMetadata(const engine::Metadata& metadata);

// Returns the first label whose class has one name in `a` and another in `b`; nothing where there is none.
// What is no name (data::IsNoName) is one where the other list gives it to another label.
std::optional<size_t> FirstOtherClass(const std::vector<std::string>& a, const std::vector<std::string>& b);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_TRAINED_ON_H_
