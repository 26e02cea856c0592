#include "program/verify.h"

#include <algorithm>
#include <vector>

#include "program/memory_order.h"
#include "program/status_macros.h"
#include "program/verify_rules.h"

namespace colonnade::program {
namespace {

// Two roots of one arena whose bytes overlap.
absl::Status CheckShared(const Program& program, const MemoryOrder& order, BufferId a, BufferId b) {
  const Buffer& buffer_a = program.buffer(a);
  const Buffer& buffer_b = program.buffer(b);
  if (buffer_a.lifetime == Lifetime::kPersistent) {
    return Broken("placement", Describe(buffer_a), " and ", Describe(buffer_b), " of device ", buffer_a.device,
                  " share bytes, but both outlive the step; place them apart");
  }
  if (order.Apart(a, b)) return absl::OkStatus();
  const auto clash = order.Clash(a, b);
  return Broken("placement", Describe(buffer_a), " and ", Describe(buffer_b), " of device ", buffer_a.device,
                " share bytes, but ", Describe(program.task(clash->first)), " is not known to have ended when ",
                Describe(program.task(clash->second)), " starts; place them apart or add a wait");
}

}  // namespace

absl::Status Verify(const Program& program) {
  for (const auto rule : {CheckStructure, CheckDeclarations, CheckArgmax, CheckWaits, CheckMessages, CheckCollectives,
                          CheckOverlap, CheckDeadlock, CheckInitialised, CheckOrder}) {
    RETURN_IF_ERROR(rule(program));
  }
  return absl::OkStatus();
}

absl::Status VerifyMemoryMap(const Program& program, const MemoryMap& map) {
  if (map.offset.size() != program.buffers.size() || map.size.size() != program.buffers.size()) {
    return Broken("placement", "expected a place for each of ", program.buffers.size(), " buffers, found ",
                  map.offset.size(), " offsets and ", map.size.size(), " sizes");
  }
  std::vector<BufferId> roots;
  for (const Buffer& buffer : program.buffers) {
    if (RootOf(program, buffer.id) != buffer.id) continue;
    if (map.offset[buffer.id.value] < 0) return Broken("placement", Describe(buffer), " has no place");
    if (map.size[buffer.id.value] > 0) roots.push_back(buffer.id);
  }
  const auto arena = [&](BufferId id) { return std::pair(program.buffer(id).device, program.buffer(id).lifetime); };
  const auto begin = [&](BufferId id) { return map.offset[id.value]; };
  std::sort(roots.begin(), roots.end(),
            [&](BufferId a, BufferId b) { return std::pair(arena(a), begin(a)) < std::pair(arena(b), begin(b)); });
  const MemoryOrder order(program, DeviceClasses::EachApart(program));
  for (size_t i = 0; i < roots.size(); ++i) {
    const int64_t end = begin(roots[i]) + map.size[roots[i].value];
    for (size_t j = i + 1; j < roots.size() && arena(roots[j]) == arena(roots[i]) && begin(roots[j]) < end; ++j) {
      RETURN_IF_ERROR(CheckShared(program, order, roots[i], roots[j]));
    }
  }
  return absl::OkStatus();
}

bool IsSound(const Shape& shape) {
  if (shape.size() > kMaxRank) return false;
  int64_t elements = 1;
  for (int64_t extent : shape) {
    if (extent < 0 || extent > kMaxElements || (extent > 0 && elements > kMaxElements / extent)) return false;
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
