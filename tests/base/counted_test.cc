#include "base/counted.h"

#include "gtest/gtest.h"

namespace colonnade::base {
namespace {

TEST(Counted, IsOfOneOrOfSeveral) {
  EXPECT_EQ(Counted(0, "image"), "0 images");
  EXPECT_EQ(Counted(1, "image"), "1 image");
  EXPECT_EQ(Counted(2, "image file"), "2 image files");
  EXPECT_EQ(Counted(-1, "step"), "-1 steps");
  EXPECT_EQ(Counted(int64_t{1} << 40, "value"), "1099511627776 values");
}

TEST(Counted, HasThePluralOfTheNounsEnding) {
  EXPECT_EQ(Counted(2, "class"), "2 classes");
  EXPECT_EQ(Counted(2, "box"), "2 boxes");
  EXPECT_EQ(Counted(2, "batch"), "2 batches");
  EXPECT_EQ(Counted(2, "mesh"), "2 meshes");
  EXPECT_EQ(Counted(2, "entry"), "2 entries");
  EXPECT_EQ(Counted(2, "day"), "2 days");
  EXPECT_EQ(Counted(2, "key"), "2 keys");
  EXPECT_EQ(Counted(2, "epoch"), "2 epochs");
  EXPECT_EQ(Counted(1, "class"), "1 class");
}

TEST(Counted, HasAVerbThatAgrees) {
  EXPECT_EQ(Counted(0, "file", "is", "are"), "0 files are");
  EXPECT_EQ(Counted(1, "file", "is", "are"), "1 file is");
  EXPECT_EQ(Counted(2, "file", "is", "are"), "2 files are");
}

}  // namespace
}  // namespace colonnade::base
