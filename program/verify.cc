#include "program/verify.h"

#include <algorithm>

#include "base/status_macros.h"
#include "program/verify/rules.h"

namespace colonnade::program {

absl::Status Verify(const Program& program) {
  for (const auto rule : {CheckStructure, CheckDeclarations, CheckArgmax, CheckWaits, CheckMessages, CheckCollectives,
                          CheckOverlap, CheckDeadlock, CheckInitialised, CheckOrder}) {
    RETURN_IF_ERROR(rule(program));
  }
  return absl::OkStatus();
}

bool IsSound(const Shape& shape) {
  if (shape.size() > kMaxRank) return false;
  int64_t elements = 1;
  for (int64_t extent : shape) {
    if (extent < 0 || extent > kMostElements || (extent > 0 && elements > kMostElements / extent)) return false;
    elements *= std::max<int64_t>(extent, 1);
  }
  return true;
}

bool Fits(const Region& region, const Shape& shape) {
  if (region.offset.size() != shape.size() || region.size.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (region.offset[d] < 0 || region.size[d] < 0 || region.offset[d] > shape[d]) return false;
    if (region.size[d] > shape[d] - region.offset[d]) return false;
  }
  return true;
}

Extents ExtentsOf(const Program& program, const BufferUse& use) {
  const Buffer& buffer = program.buffer(use.buffer);
  Extents extents{buffer.dtype, use.region.size, {}};
  if (const auto* bucket = std::get_if<Bucket>(&buffer.storage)) {
    for (BufferId member : bucket->members) extents.members.push_back(program.buffer(member).shape);
    extents.bucket_parts = bucket->parts;
    extents.equal_parts = bucket->equal_parts;
    if (!bucket->equal_parts) extents.first_part = use.region.offset[0];
  }
  return extents;
}

std::string Describe(const Buffer& buffer) { return absl::StrCat("buffer ", buffer.id.value, " \"", buffer.name, "\""); }

std::string Describe(const Extents& extents) {
  return absl::StrCat(Name(extents.dtype), " ", ToString(extents.size),
                      extents.bucket_parts == 0 ? "" : " parts of a bucket");
}

}  // namespace colonnade::program
