#include "base/nearest_name.h"

#include "gtest/gtest.h"

namespace colonnade::base {
namespace {

TEST(NearestName, IsTheFirstOfTheFewestChanges) {
  EXPECT_EQ(NearestName("alexnt", {"lenet", "alexnet", "alexnet2"}), "alexnet");
  EXPECT_EQ(NearestName("dat", {"date", "data"}), "date");
  EXPECT_EQ(NearestName("dgx", {"dgx"}), "dgx");
}

TEST(NearestName, IsNotFurtherThanHalfTheLengthOfWhatIsNamed) {
  EXPECT_EQ(NearestName("abcd", {"abxy"}), "abxy") << "two of four letters";
  EXPECT_EQ(NearestName("abcd", {"axyz"}), "") << "three";
  EXPECT_EQ(NearestName("abcde", {"abcxy"}), "abcxy") << "two of five";
  EXPECT_EQ(NearestName("abcde", {"abxyz"}), "") << "three";
  EXPECT_EQ(NearestName("", {"a"}), "");
  EXPECT_EQ(NearestName("a", {}), "");
}

TEST(NearestName, IsNotLookedForWhereANameIsLong) {
  const std::string name(kLongestNameLookedFor, 'a');
  EXPECT_EQ(NearestName(name, {name + "b"}), name + "b");
  EXPECT_EQ(NearestName(name + "b", {name}), "");
}

TEST(DidYouMean, SaysNothingWhereNothingIsNear) {
  EXPECT_EQ(DidYouMean("; ", "conv", {"conv1"}), "; did you mean \"conv1\"?");
  EXPECT_EQ(DidYouMean("; ", "conv", {"pool"}), "");
}

}  // namespace
}  // namespace colonnade::base
