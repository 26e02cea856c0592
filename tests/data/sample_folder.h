// A folder of a test's own with files in it, and what tests ask of any set of samples.
#ifndef COLONNADE_TESTS_DATA_SAMPLE_FOLDER_H_
#define COLONNADE_TESTS_DATA_SAMPLE_FOLDER_H_

#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "data/formats.h"
#include "gtest/gtest.h"
#include "tests/folder.h"

namespace colonnade::data {

class SampleFolder : public Folder {
 protected:
  // Writes a file, and the folders above it.
  void Put(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(std::filesystem::path(In(name)).parent_path());
    std::ofstream(In(name), std::ios::binary) << bytes;
  }
  static absl::Status Error(const std::string& path, SplitOf split = SplitOf::kTrain, const DatasetOptions& options = {}) {
    return OpenSamples(path, split, options).status();
  }
};

using Samples = std::unique_ptr<SampleSet>;

// The set; throws where there is none, so that the test ends.
inline Samples Opened(const std::string& spec, SplitOf split = SplitOf::kTrain, const DatasetOptions& options = {}) {
  return OpenSamples(spec, split, options).value();
}

inline std::string BytesOf(const SampleSet& set, int64_t sample) {
  std::string room;
  absl::StatusOr<StoredImage> image = set.Read(sample, room);
  EXPECT_TRUE(image.ok()) << image.status();
  return image.ok() ? std::string(image->bytes) : "";
}

inline std::vector<int32_t> LabelsOf(const SampleSet& set) {
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < set.size(); ++i) labels.push_back(set.label(i));
  return labels;
}

// CRC-32 of every label, as four bytes with the lowest first, and of the bytes of its sample. What tests expect of real data
// was computed by a program of few lines in another language.
inline uint32_t ChecksumOf(const SampleSet& set) {
  uLong sum = crc32(0, nullptr, 0);
  for (int64_t i = 0; i < set.size(); ++i) {
    const auto label = static_cast<uint32_t>(set.label(i));
    std::string bytes;
    for (int shift : {0, 8, 16, 24}) bytes.push_back(static_cast<char>(label >> shift & 0xff));
    bytes += BytesOf(set, i);
    sum = crc32(sum, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
  }
  return static_cast<uint32_t>(sum);
}

}  // namespace colonnade::data

#endif  // COLONNADE_TESTS_DATA_SAMPLE_FOLDER_H_
