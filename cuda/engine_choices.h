// Which of cuDNN's engines computes a convolution fastest, kept in a file from run to run.
//
// A search times them (driver/convolution_runner.h); what it finds holds for one convolution on one kind of GPU with one
// version of cuDNN.
#ifndef COLONNADE_CUDA_ENGINE_CHOICES_H_
#define COLONNADE_CUDA_ENGINE_CHOICES_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cuda/calls.h"

namespace colonnade::cuda {

// An engine of cuDNN and its settings, by cuDNN's numbers for them.
struct Engine {
  int64_t index = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs;  // (type, value)
  friend bool operator==(const Engine&, const Engine&) = default;
};

// Returns all that the choice of an engine depends on, but for the GPU: "forward bf16 n64 c3 h32 …".
std::string KeyOf(const Convolution& convolution);

// Returns the largest power of two up to 16 that divides the addresses of x, filter, y and bias.
int64_t AlignmentOf(const Convolution& convolution);

class EngineChoices {
 public:
  // Reads the choices in the file; none if there is no file yet. InvalidArgument naming the file if it is another kind of
  // file, DataLoss if it could not be replaced.
  static absl::StatusOr<EngineChoices> Read(const std::string& path);

  // Returns the engine for that convolution; null where none was found yet.
  const Engine* Find(const std::string& gpu, int64_t cudnn_version, const std::string& key) const;
  // Replaces the file. What else it holds by then stays, and is known from then on, but for what another process adds while
  // this one writes: that process finds its engine anew the next time.
  absl::Status Add(const std::string& gpu, int64_t cudnn_version, const std::string& key, const Engine& engine,
                   double seconds);

 private:
  struct Choice {
    Engine engine;
    double seconds = 0;
  };

  absl::Status Parse(absl::string_view text);

  std::string path_;
  std::map<std::tuple<std::string, int64_t, std::string>, Choice> choices_;
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_ENGINE_CHOICES_H_
