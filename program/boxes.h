// Sets of boxes: what is left of a tensor when boxes are taken away. Internal to program/. Pure functions.
#ifndef COLONNADE_PROGRAM_BOXES_H_
#define COLONNADE_PROGRAM_BOXES_H_

#include <vector>

#include "program/types.h"

namespace colonnade::program {

// Replaces `boxes` by disjoint boxes of those of their elements that are not in `hole`. REQUIRES: equal ranks.
void Subtract(const Region& hole, std::vector<Region>& boxes);

// Uncovered stops once it holds more boxes than this.
inline constexpr size_t kMostBoxesLeft = 2048;

// Returns the elements of `whole` that no box of `covers` holds, as disjoint boxes; empty if there are none. Where boxes
// overlap and cut what is left into more than kMostBoxesLeft, it ends with those, and so may name what a later box holds:
// time does not grow with the number of ways in which boxes of many dimensions can overlap.
std::vector<Region> Uncovered(const Region& whole, const std::vector<Region>& covers);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_BOXES_H_
