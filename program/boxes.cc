#include "program/boxes.h"

#include <algorithm>
#include <utility>

namespace colonnade::program {

void Subtract(const Region& hole, std::vector<Region>& boxes) {
  std::vector<Region> left;
  left.reserve(boxes.size());
  for (Region& box : boxes) {
    if (box.elements() == 0) continue;
    if (!Overlaps(box, hole)) {
      left.push_back(std::move(box));
      continue;
    }
    // Cut off, dimension by dimension, what lies before and after the hole; the core that remains is inside it.
    for (size_t d = 0; d < box.size.size(); ++d) {
      const int64_t begin = box.offset[d], end = begin + box.size[d];
      const int64_t hole_begin = hole.offset[d], hole_end = hole_begin + hole.size[d];
      if (begin < hole_begin) {
        Region before = box;
        before.size[d] = hole_begin - begin;
        left.push_back(before);
        box.offset[d] = hole_begin;
      }
      if (hole_end < end) {
        Region after = box;
        after.offset[d] = hole_end;
        after.size[d] = end - hole_end;
        left.push_back(after);
      }
      box.size[d] = std::min(end, hole_end) - box.offset[d];
    }
  }
  boxes = std::move(left);
}

std::vector<Region> Uncovered(const Region& whole, const std::vector<Region>& covers) {
  std::vector<Region> left;
  if (whole.elements() > 0) left.push_back(whole);
  for (const Region& box : covers) {
    if (left.empty()) break;
    Subtract(box, left);
  }
  return left;
}

}  // namespace colonnade::program
