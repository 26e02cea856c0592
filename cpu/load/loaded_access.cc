// Logical reads and writes of buffers, through whatever layout they have.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "cpu/load/loaded.h"
#include "cpu/ops/copy.h"
#include "cpu/status.h"

namespace colonnade::cpu {

using program::BufferId;

CpuProgram::HeldMember CpuProgram::Held(BufferId buffer) const {
  const auto& member = std::get<program::BucketMember>(program_.buffer(buffer).storage);
  const auto& bucket = std::get<program::Bucket>(program_.buffer(member.bucket).storage);
  const engine::BucketLayout& layout = layouts_.buckets[member.bucket.value];
  HeldMember held{.view = layouts_.views[buffer.value], .bytes = layout.member_bytes[member.index]};
  const int64_t first_byte = layout.member_begin[member.index] - layout.held_begin(bucket);
  held.view.offset = 0;
  held.held = engine::HeldBytesOf(first_byte, held.bytes, layout.held_bytes(bucket));
  if (held.held.size() > 0) held.data = memory_.BaseOf(member.bucket) + first_byte + held.held.begin;
  return held;
}

// Conversions run on the compute lane, which has the device's number of threads.
absl::Status CpuProgram::ReadBytes(BufferId buffer, absl::Span<char> bytes) const {
  absl::Status status = engine::CheckLogicalAccess(program_, buffer, bytes.size());
  if (!status.ok()) return status;
  const auto read = [&]() -> absl::Status {
    if (!program::IsPartlyHeld(program_, buffer))
      return ReadLogical(layouts_.views[buffer.value], memory_.BaseOf(buffer), resources_.engine, bytes);
    const HeldMember member = Held(buffer);
    const int64_t begin = member.held.begin, held_bytes = member.held.size();
    std::vector<char> copy(member.bytes), mask(member.bytes);
    if (held_bytes > 0) std::memcpy(copy.data() + begin, member.data, held_bytes);
    std::fill_n(mask.begin() + begin, held_bytes, char{1});
    std::vector<char> all(bytes.size()), is_held(bytes.size());
    absl::Status result = ReadLogical(member.view, copy.data(), resources_.engine, absl::MakeSpan(all));
    result.Update(ReadLogical(member.view, mask.data(), resources_.engine, absl::MakeSpan(is_held)));
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (is_held[i] != 0) bytes[i] = all[i];
    }
    return result;
  };
  resources_.devices[program_.buffer(buffer).device]->lane(program::Lane::kCompute).queue->Call([&] {
    status = CatchErrors(read);
  });
  return WithContext(status, absl::StrCat("reading ", program_.buffer(buffer).name));
}

absl::Status CpuProgram::WriteBytes(BufferId buffer, absl::Span<const char> bytes) {
  absl::Status status = engine::CheckLogicalAccess(program_, buffer, bytes.size());
  if (!status.ok()) return status;
  const auto write = [&]() -> absl::Status {
    if (!program::IsPartlyHeld(program_, buffer))
      return WriteLogical(layouts_.views[buffer.value], memory_.BaseOf(buffer), resources_.engine, bytes);
    const HeldMember member = Held(buffer);
    std::vector<char> copy(member.bytes);
    absl::Status result = WriteLogical(member.view, copy.data(), resources_.engine, bytes);
    if (member.held.size() > 0) std::memcpy(member.data, copy.data() + member.held.begin, member.held.size());
    return result;
  };
  resources_.devices[program_.buffer(buffer).device]->lane(program::Lane::kCompute).queue->Call([&] {
    status = CatchErrors(write);
  });
  return WithContext(status, absl::StrCat("writing ", program_.buffer(buffer).name));
}

}  // namespace colonnade::cpu
