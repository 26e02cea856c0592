// Listings of folders that are kept: used while they hold, and never believed when they do not.

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/image_listing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/sample_folder.h"
#include "tests/data/whole_file.h"

namespace colonnade::data {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;

class ListingCache : public SampleFolder {
 protected:
  ListingCache() {
    Put("set/a/1.jpg", "x");
    Put("set/b/in/2.jpg", "x");
    Put("set/b/left.txt", "x");
    Settle();
  }
  // All folders were last changed a minute ago.
  void Settle() const {
    const auto then = fs::file_time_type::clock::now() - std::chrono::minutes(1);
    for (const char* folder : {"set", "set/a", "set/b", "set/b/in"}) fs::last_write_time(In(folder), then);
  }
  std::vector<std::string> List() const {
    std::vector<std::string> paths;
    const absl::StatusOr<ImageListing> listing = ListImagesOnce(In("set"), In("cache"));
    if (!listing.ok()) return {std::string(listing.status().message())};
    for (size_t i = 0; i < listing->files.size(); ++i) paths.push_back(listing->PathOf(static_cast<int64_t>(i)));
    return paths;
  }
  std::string KeptPath() const {
    const fs::directory_iterator it(In("cache"));
    return it == fs::directory_iterator() ? "" : it->path().string();
  }
};

TEST_F(ListingCache, AKeptListingIsUsedWhileNoFolderChanges) {
  EXPECT_THAT(List(), ElementsAre("a/1.jpg", "b/in/2.jpg"));
  const std::string root = fs::canonical(In("set")).string();
  std::optional<ImageListing> kept = UnpackListing(*ReadWholeFile(KeptPath()), root);
  ASSERT_TRUE(kept.has_value());
  kept->Add(static_cast<int32_t>(kept->folders.size()) - 1, "3.jpg");
  Put("cache/" + fs::path(KeptPath()).filename().string(), PackListing(*kept, root));
  EXPECT_THAT(List(), ElementsAre("a/1.jpg", "b/in/2.jpg", "b/in/3.jpg"));
}

TEST_F(ListingCache, ATimeThatIsSetBackHidesNoChange) {
  EXPECT_EQ(List().size(), 2u);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // clocks of file systems tick
  const fs::file_time_type time = fs::last_write_time(In("set/a"));
  Put("set/a/3.jpg", "x");
  fs::last_write_time(In("set/a"), time);
  EXPECT_EQ(List().size(), 3u);
}

// As where an archive is unpacked again that keeps the times of its folders.
TEST_F(ListingCache, AFolderThatWasMadeAnewIsListedAgain) {
  EXPECT_EQ(List().size(), 2u);
  const fs::file_time_type time = fs::last_write_time(In("set/a"));
  fs::remove_all(In("set/a"));
  Put("set/a/3.jpg", "x");
  Put("set/a/4.jpg", "x");
  fs::last_write_time(In("set/a"), time);
  fs::last_write_time(In("set"), fs::last_write_time(In("set/b")));
  EXPECT_THAT(List(), ElementsAre("a/3.jpg", "a/4.jpg", "b/in/2.jpg"));
}

TEST_F(ListingCache, ImagesBesideTheClassesAreCountedAsLeftOut) {
  Put("set/0.PNG", "x");
  Put("set/labels.csv", "x");
  const absl::StatusOr<ImageListing> listing = ListImages(In("set"));
  ASSERT_TRUE(listing.ok());
  EXPECT_EQ(listing->left_out, 2) << "b/left.txt, too";
  EXPECT_EQ(listing->left_out_path, "0.PNG");
}

TEST_F(ListingCache, AnyChangedFolderIsListedAgain) {
  for (const std::string name : {"set/a/3.jpg", "set/b/in/4.jpg", "set/c/5.jpg"}) {
    const size_t before = List().size();
    Put(name, "x");
    EXPECT_EQ(List().size(), before + 1) << name;
  }
}

TEST_F(ListingCache, AFolderThatHasJustChangedIsNotKept) {
  Put("set/a/3.jpg", "x");
  EXPECT_EQ(List().size(), 3u);
  EXPECT_FALSE(fs::exists(In("cache")));
}

TEST_F(ListingCache, EveryDamagedByteAndEveryCutIsNoticed) {
  List();
  const std::string packed = *ReadWholeFile(KeptPath()), root = fs::canonical(In("set")).string();
  ASSERT_TRUE(UnpackListing(packed, root).has_value());
  for (size_t i = 0; i < packed.size(); ++i) {
    std::string damaged = packed;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_FALSE(UnpackListing(damaged, root).has_value()) << i;
    EXPECT_FALSE(UnpackListing(packed.substr(0, i), root).has_value()) << i;
  }
}

TEST_F(ListingCache, ADamagedFileIsWrittenAnew) {
  const std::vector<std::string> first = List();
  const std::string path = KeptPath(), packed = *ReadWholeFile(path);
  Put("cache/" + fs::path(path).filename().string(), "damaged");
  EXPECT_EQ(List(), first);
  EXPECT_EQ(*ReadWholeFile(path), packed);
}

TEST_F(ListingCache, AListingOfAnotherFolderIsNotTaken) {
  List();
  EXPECT_FALSE(UnpackListing(*ReadWholeFile(KeptPath()), "/elsewhere").has_value());
}

TEST_F(ListingCache, APlaceThatCannotBeWrittenToIsDoneWithout) {
  Put("file", "x");
  EXPECT_EQ(ListImagesOnce(In("set"), In("file/cache"))->files.size(), 2u);
  EXPECT_EQ(ListImagesOnce(In("set"), "")->files.size(), 2u);
}

TEST_F(ListingCache, NothingIsLeftBesideIt) {
  List();
  const std::string name = fs::path(KeptPath()).filename().string();
  Put("cache/" + name + ".colonnade-1-0.tmp", "half");  // by a run that was killed
  Put("cache/" + name, "damaged");
  List();
  EXPECT_EQ(std::distance(fs::directory_iterator(In("cache")), fs::directory_iterator()), 1);
}

TEST_F(ListingCache, WhatWasLeftOutIsKept) {
  List();
  EXPECT_EQ(ListImagesOnce(In("set"), In("cache"))->left_out, 1);
  EXPECT_EQ(ListImagesOnce(In("set"), In("cache"))->left_out_path, "b/left.txt");
}

// As by one who writes the file: the checksum is right.
TEST_F(ListingCache, WhatNoListingCanBeIsNotTaken) {
  const ImageListing good = *ListImages(In("set"));
  const auto is_taken = [&](const std::function<void(ImageListing&)>& change) {
    ImageListing listing = good;
    change(listing);
    return UnpackListing(PackListing(listing, "/set"), "/set").has_value();
  };
  EXPECT_TRUE(is_taken([](ImageListing&) {}));
  EXPECT_FALSE(is_taken([](ImageListing& listing) { listing.folders[1].label = -1; })) << "its files are of no class";
  EXPECT_FALSE(is_taken([](ImageListing& listing) { listing.folders[0].label = 0; }));
  EXPECT_FALSE(is_taken([](ImageListing& listing) { listing.folders[0].path = "a"; }));
  EXPECT_FALSE(is_taken([](ImageListing& listing) {
    listing.files = {{0, 0}};
    listing.names = std::string("1.jpg", 6);
  })) << "a file of the root is of no class";
  EXPECT_FALSE(is_taken([](ImageListing& listing) { listing.folders[1].label = 2; }));
  EXPECT_FALSE(is_taken([](ImageListing& listing) { std::swap(listing.classes[0], listing.classes[1]); }));
  EXPECT_FALSE(is_taken([](ImageListing& listing) { listing.classes[1] = listing.classes[0]; }));
  EXPECT_FALSE(is_taken([](ImageListing& listing) {
    listing.folders.clear();
    listing.files.clear();
  })) << "nothing would ever be found changed";
}

}  // namespace
}  // namespace colonnade::data
