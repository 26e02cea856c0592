// A folder of a test's own, removed behind it.
#ifndef COLONNADE_TESTS_FOLDER_H_
#define COLONNADE_TESTS_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include "gtest/gtest.h"

namespace colonnade {

class Folder : public ::testing::Test {
 protected:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "colonnade_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() override { std::filesystem::remove_all(path_); }
  std::string In(const std::string& name) const { return path_ + "/" + name; }
  size_t Count() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
  }
  std::string path_;
};

}  // namespace colonnade

#endif  // COLONNADE_TESTS_FOLDER_H_
