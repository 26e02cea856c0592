// Sets of boxes: what is left of a tensor when boxes are taken away. Internal to program/. Pure functions.
#ifndef COLONNADE_PROGRAM_BOXES_H_
#define COLONNADE_PROGRAM_BOXES_H_

#include <vector>

#include "program/types.h"

namespace colonnade::program {

// Replaces `boxes` by disjoint boxes of those of their elements that are not in `hole`. REQUIRES: equal ranks.
void Subtract(const Region& hole, std::vector<Region>& boxes);

// The elements of `whole` that no box of `covers` holds, as disjoint boxes.
std::vector<Region> Uncovered(const Region& whole, const std::vector<Region>& covers);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_BOXES_H_
