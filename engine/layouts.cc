#include "engine/layouts.h"

#include <algorithm>

#include "program/formulas/rounding.h"

namespace colonnade::engine {

using program::Bucket;
using program::Program;

bool IsPersistentTensor(const program::Buffer& buffer) {
  return buffer.lifetime == program::Lifetime::kPersistent &&
         (std::holds_alternative<program::Root>(buffer.storage) ||
          std::holds_alternative<program::BucketMember>(buffer.storage));
}

BucketLayout LayOutBucket(const Bucket& bucket, std::vector<int64_t> member_bytes, int64_t alignment) {
  BucketLayout layout{.alignment = alignment, .parts = bucket.parts, .member_bytes = std::move(member_bytes)};
  int64_t total = 0;
  for (int64_t bytes : layout.member_bytes) {
    layout.member_begin.push_back(total);
    total += program::RoundUp(bytes, alignment);
  }
  layout.units = std::max(total / alignment, bucket.parts);
  if (bucket.equal_parts) layout.units = program::RoundUp(layout.units, bucket.parts);
  return layout;
}

std::vector<ByteRange> PaddingBehind(const Program& program, const std::vector<BucketLayout>& buckets,
                                     const program::Task& task) {
  std::vector<ByteRange> ranges;
  for (const program::BufferUse& use : task.uses) {
    const auto* member = std::get_if<program::BucketMember>(&program.buffer(use.buffer).storage);
    if (member == nullptr || use.access != program::Access::kWrite) continue;
    const auto& bucket = std::get<Bucket>(program.buffer(member->bucket).storage);
    const BucketLayout& layout = buckets[member->bucket.value];
    const int64_t held_begin = layout.held_begin(bucket), held_end = held_begin + layout.held_bytes(bucket);
    const bool last = member->index + 1 == static_cast<int>(bucket.members.size());
    const int64_t begin = std::max(held_begin, layout.member_begin[member->index] + layout.member_bytes[member->index]);
    const int64_t end = std::min(held_end, last ? held_end : layout.member_begin[member->index + 1]);
    if (begin < end) ranges.push_back({member->bucket, begin - held_begin, end - begin});
  }
  return ranges;
}

std::vector<MemberRange> MembersOf(const Program& program, const std::vector<BucketLayout>& buckets,
                                   const program::BufferUse& use) {
  const program::Buffer& buffer = program.buffer(use.buffer);
  if (!std::holds_alternative<Bucket>(buffer.storage)) return {{0, 0, use.region.elements()}};
  const BucketLayout& layout = buckets[use.buffer.value];
  const int64_t size = program::SizeInBytes(buffer.dtype), count = static_cast<int64_t>(layout.member_begin.size());
  const int64_t first = layout.part_begin(use.region.offset[0]);
  const int64_t end = layout.part_begin(use.region.offset[0] + use.region.size[0]);
  std::vector<MemberRange> ranges;
  for (int64_t m = 0; m < count; ++m) {
    const int64_t from = std::max(first, layout.member_begin[m]);
    const int64_t to = m + 1 < count ? std::min(end, layout.member_begin[m + 1]) : end;
    if (from < to) ranges.push_back({static_cast<int>(m), (from - first) / size, (to - first) / size});
  }
  return ranges;
}

std::vector<UpdateRange> UpdateRangesOf(const std::vector<MemberRange>& members, const program::Factors& rates,
                                        const program::Factors& decays, double weight_decay, bool by_member) {
  std::vector<UpdateRange> ranges;
  for (const MemberRange& member : members) {
    const UpdateRange one{.member = member.member,
                          .begin = member.begin,
                          .end = member.end,
                          .rate = static_cast<float>(program::FactorOf(rates, member.member)),
                          .weight_decay = static_cast<float>(weight_decay * program::FactorOf(decays, member.member))};
    const bool is_alike =
        !by_member && !ranges.empty() && ranges.back().rate == one.rate && ranges.back().weight_decay == one.weight_decay;
    if (is_alike) {
      ranges.back().end = one.end;
    } else {
      ranges.push_back(one);
    }
  }
  return ranges;
}

HeldBytes HeldBytesOf(int64_t first_byte, int64_t bytes, int64_t root_bytes) {
  const int64_t begin = std::clamp<int64_t>(-first_byte, 0, bytes);
  return {begin, std::clamp<int64_t>(root_bytes - first_byte, begin, bytes)};
}

}  // namespace colonnade::engine
