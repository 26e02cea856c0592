#include "program/location.h"

namespace colonnade::program {

Location Locate(const Program& program, BufferId buffer, const Region& region) {
  const auto& storage = program.buffer(buffer).storage;
  if (const auto* member = std::get_if<BucketMember>(&storage)) return {member->bucket, member->index, region};
  return {buffer, std::holds_alternative<Bucket>(storage) ? Location::kParts : Location::kWhole, region};
}

bool ShareElements(const Location& a, const Location& b) {
  if (a.root != b.root) return false;
  if (a.member == b.member) return Overlaps(a.region, b.region);
  return a.member == Location::kParts || b.member == Location::kParts;
}

bool Covers(const Program& program, const Location& outer, const Location& inner) {
  if (outer.root != inner.root) return false;
  if (outer.member == inner.member) return Contains(outer.region, inner.region);
  if (outer.member != Location::kParts) return false;
  const auto& bucket = std::get<Bucket>(program.buffer(outer.root).storage);
  return outer.region.offset[0] <= bucket.first_part &&
         outer.region.offset[0] + outer.region.size[0] >= bucket.first_part + bucket.held_parts;
}

}  // namespace colonnade::program
