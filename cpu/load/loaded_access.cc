// Logical reads and writes of buffers, through whatever layout they have.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
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

// What the device does not hold keeps its place in `bytes` on its way through the layout of the buffer.
absl::Status CpuProgram::ReadHeld(BufferId buffer, absl::Span<char> bytes) const {
  const HeldMember member = Held(buffer);
  if (member.held.size() == 0) return absl::OkStatus();
  const bool row_major = member.view.kind == View::Kind::kAffine && IsDense(member.view);
  if (row_major) {
    const int64_t begin = std::min<int64_t>(member.held.begin, bytes.size());
    const int64_t end = std::min<int64_t>(member.held.end, bytes.size());
    std::copy(member.data, member.data + (end - begin), bytes.begin() + begin);
    return absl::OkStatus();
  }
  std::vector<char> copy(member.bytes);
  RETURN_IF_ERROR(WriteLogical(member.view, copy.data(), resources_.engine, bytes));
  std::memcpy(copy.data() + member.held.begin, member.data, member.held.size());
  return ReadLogical(member.view, copy.data(), resources_.engine, bytes);
}

// Reads on a thread of its own, since the lanes of the device may be at work.
absl::Status CpuProgram::ReadBytes(BufferId buffer, absl::Span<char> bytes) const {
  absl::Status status = engine::CheckLogicalAccess(program_, buffer, bytes.size());
  if (!status.ok()) return status;
  resources_.reader->Call([&] {
    status = CatchErrors([&] {
      return program::IsPartlyHeld(program_, buffer)
                 ? ReadHeld(buffer, bytes)
                 : ReadLogical(layouts_.views[buffer.value], memory_.BaseOf(buffer), resources_.engine, bytes);
    });
  });
  return WithContext(status, absl::StrCat("reading ", program_.buffer(buffer).name));
}

// Conversions run on the compute lane, which has the device's number of threads.
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
