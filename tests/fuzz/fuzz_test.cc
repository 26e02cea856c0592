// Every target on its corpus and on mutations of it: tests/fuzz.sh goes on from there with a fuzzer.

#include <filesystem>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/io/file.h"
#include "gtest/gtest.h"
#include "tests/allocations.h"
#include "tests/fuzz/targets.h"
#include "tests/paths.h"
#include "tests/read_file.h"
#include "tests/sanitized.h"

namespace colonnade::fuzz {

void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

namespace {

constexpr int kMutations = Draws(2000);           // of each file of a corpus
constexpr size_t kMostMemory = size_t{32} << 20;  // in one piece: no file of a corpus has more than some kB

// Changes bytes here and there: one, a run of them, or what stands elsewhere.
class ByteMutator {
 public:
  explicit ByteMutator(uint32_t seed) : random_(seed) {}

  std::string Change(std::string bytes) {
    for (size_t changes = 1 + Below(4); changes > 0 && !bytes.empty(); --changes) {
      const size_t at = Below(bytes.size()), count = 1 + Below(std::min<size_t>(16, bytes.size() - at));
      switch (Below(6)) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8)));
          break;
        case 1:
          bytes[at] = static_cast<char>(Below(256));
          break;
        case 2:
          bytes.erase(at, count);
          break;
        case 3:
          bytes.insert(at, bytes.substr(Below(bytes.size()), count));
          break;
        case 4:
          bytes.replace(at, count, bytes.substr(Below(bytes.size()), count));
          break;
        case 5:
          bytes[at] = "0123456789-\"[]{}"[Below(16)];
          break;
      }
    }
    return bytes;
  }

 private:
  size_t Below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }

  std::mt19937 random_;
};

std::vector<std::string> CorpusOf(const Target& target) {
  std::vector<std::string> paths, corpus;
  const std::string folder = absl::StrCat(kSourceDir, "/tests/fuzz/corpus/", target.name);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) corpus.push_back(*engine::ReadFile(path));
  return corpus;
}

class FuzzTarget : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzTarget, TakesItsCorpusAndSurvivesMutationsOfIt) {
  const std::vector<std::string> corpus = CorpusOf(GetParam());
  ASSERT_FALSE(corpus.empty());
  ByteMutator mutator(1);
  int taken = 0;
  const size_t largest = LargestAllocationIn([&] {
    for (const std::string& file : corpus) {
      EXPECT_TRUE(GetParam().reads(file)) << "a file of the corpus is refused:\n" << file.substr(0, 200);
      for (int i = 0; i < kMutations; ++i) taken += GetParam().reads(mutator.Change(file)) ? 1 : 0;
    }
  });
  EXPECT_LE(largest, kMostMemory);
  RecordProperty("taken", taken);
}

INSTANTIATE_TEST_SUITE_P(All, FuzzTarget, ::testing::ValuesIn(AllTargets()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace colonnade::fuzz
