#include "program/boxes.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

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

namespace {

// The dimension in which the boxes begin at the most places. REQUIRES: rank > 0.
size_t WidestDimension(const std::vector<Region>& boxes) {
  size_t widest = 0, most = 0;
  for (size_t d = 0; d < boxes[0].offset.size(); ++d) {
    absl::flat_hash_set<int64_t> begins;
    for (const Region& box : boxes) begins.insert(box.offset[d]);
    if (begins.size() > most) {
      widest = d;
      most = begins.size();
    }
  }
  return widest;
}

bool AreApart(std::vector<Region> boxes) {
  if (boxes.size() < 2) return true;
  if (boxes[0].offset.empty()) return false;
  const size_t d = WidestDimension(boxes);
  std::sort(boxes.begin(), boxes.end(), [&](const Region& a, const Region& b) { return a.offset[d] < b.offset[d]; });
  for (size_t i = 0; i < boxes.size(); ++i) {
    const int64_t end = boxes[i].offset[d] + boxes[i].size[d];
    for (size_t j = i + 1; j < boxes.size() && boxes[j].offset[d] < end; ++j) {
      if (Overlaps(boxes[i], boxes[j])) return false;
    }
  }
  return true;
}

// True if the boxes are apart and fill `whole`, as those that a tensor is cut into do. False says nothing.
bool Tile(const Region& whole, const std::vector<Region>& boxes) {
  std::vector<Region> inside;
  int64_t elements = 0;
  for (const Region& box : boxes) {
    inside.push_back(Intersection(whole, box));
    const int64_t more = inside.back().elements();
    if (more == 0) inside.pop_back();
    elements += more;
    if (elements > whole.elements()) return false;
  }
  return elements == whole.elements() && AreApart(std::move(inside));
}

}  // namespace

std::vector<Region> Uncovered(const Region& whole, const std::vector<Region>& covers) {
  std::vector<Region> left;
  if (whole.elements() == 0 || Tile(whole, covers)) return left;
  left.push_back(whole);
  for (const Region& box : covers) {
    if (left.empty() || left.size() > kMostBoxesLeft) break;
    Subtract(box, left);
  }
  return left;
}

}  // namespace colonnade::program
