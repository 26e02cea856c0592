#include "program/boxes.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::program {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(Uncovered, OverlappingBoxesOfAsManyElementsAreNoTiling) {
  const Region whole{{0}, {8}};
  EXPECT_THAT(Uncovered(whole, {{{0}, {4}}, {{0}, {4}}}), ElementsAre(Region{{4}, {4}}));
  EXPECT_THAT(Uncovered(whole, {{{0}, {4}}, {{4}, {4}}}), IsEmpty());
  EXPECT_THAT(Uncovered({{0, 0}, {4, 4}}, {{{0, 0}, {4, 2}}, {{2, 0}, {2, 4}}}), ElementsAre(Region{{0, 2}, {2, 2}}));
}

TEST(Uncovered, WhatOverlapsAndYetHoldsAllLeavesNothing) {
  EXPECT_THAT(Uncovered({{0}, {8}}, {{{0}, {6}}, {{2}, {6}}}), IsEmpty());
  EXPECT_THAT(Uncovered({{2}, {4}}, {{{0}, {8}}}), IsEmpty());
  EXPECT_THAT(Uncovered({{0}, {0}}, {}), IsEmpty());
}

TEST(Uncovered, OneElementWithoutDimensionsIsCoveredByAnyBox) {
  EXPECT_THAT(Uncovered({{}, {}}, {{{}, {}}}), IsEmpty());
  EXPECT_THAT(Uncovered({{}, {}}, {}), ElementsAre(Region{{}, {}}));
}

TEST(Subtract, LeavesWhatLiesBeforeAndBehindTheHole) {
  std::vector<Region> boxes = {{{0, 0}, {4, 4}}, {{8, 0}, {1, 4}}, {{0, 0}, {0, 4}}};
  Subtract({{1, 1}, {2, 2}}, boxes);
  EXPECT_THAT(boxes, UnorderedElementsAre(Region{{0, 0}, {1, 4}}, Region{{3, 0}, {1, 4}}, Region{{1, 0}, {2, 1}},
                                          Region{{1, 3}, {2, 1}}, Region{{8, 0}, {1, 4}}));
}

}  // namespace
}  // namespace colonnade::program
