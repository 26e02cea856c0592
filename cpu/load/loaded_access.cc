// Logical reads and writes of buffers, through whatever layout they have.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "cpu/load/loaded.h"
#include "cpu/ops/copy.h"
#include "cpu/status.h"

namespace colonnade::cpu {

using program::BufferId;

namespace {

// 1 in every element of `count` from `data`.
void FillOnes(program::DType dtype, char* data, int64_t count) {
  const View ones = RowMajor(dtype, {count});
  View one = RowMajor(program::DType::kU8, {count});
  one.strides = {0};
  const char value = 1;
  ConvertRows(BoxPlan({one, ones}), program::DType::kU8, &value, dtype, data);
}

}  // namespace

bool CpuProgram::IsPartlyHeld(BufferId buffer) const {
  const auto* member = std::get_if<program::BucketMember>(&program_.buffer(buffer).storage);
  if (member == nullptr) return false;
  const auto& bucket = std::get<program::Bucket>(program_.buffer(member->bucket).storage);
  return bucket.held_parts < bucket.parts;
}

CpuProgram::HeldMember CpuProgram::Held(BufferId buffer) const {
  const auto& member = std::get<program::BucketMember>(program_.buffer(buffer).storage);
  const auto& bucket = std::get<program::Bucket>(program_.buffer(member.bucket).storage);
  const BucketImage& image = layouts_.buckets[member.bucket.value];
  const int64_t member_begin = image.member_begin[member.index];
  const int64_t held_begin = bucket.first_part * image.part_bytes;
  const int64_t held_end = held_begin + bucket.held_parts * image.part_bytes;
  HeldMember held;
  held.view = layouts_.views[buffer.value];
  held.view.offset = 0;
  held.bytes = image.member_bytes[member.index];
  held.begin = std::clamp(held_begin - member_begin, int64_t{0}, held.bytes);
  held.end = std::clamp(held_end - member_begin, held.begin, held.bytes);
  if (held.begin < held.end) held.data = BaseOf(member.bucket) + (member_begin + held.begin - held_begin);
  return held;
}

absl::Status CpuProgram::CheckLogicalAccess(BufferId buffer, size_t values) const {
  const program::Buffer& what = program_.buffer(buffer);
  if (std::holds_alternative<program::Bucket>(what.storage)) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", what.name, " is a bucket; its members have logical content"));
  }
  if (static_cast<int64_t>(values) != program::ElementCount(what.shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", what.name, " has ", program::ElementCount(what.shape), " elements, not ", values));
  }
  return absl::OkStatus();
}

// Conversions run on the compute lane, which has the device's number of threads.
absl::Status CpuProgram::Read(BufferId buffer, absl::Span<double> values) const {
  absl::Status status = CheckLogicalAccess(buffer, values.size());
  if (!status.ok()) return status;
  const auto read = [&]() -> absl::Status {
    if (!IsPartlyHeld(buffer)) return ReadLogical(layouts_.views[buffer.value], BaseOf(buffer), resources_.engine, values);
    const HeldMember held = Held(buffer);
    const int64_t size = program::SizeInBytes(held.view.dtype), held_bytes = held.end - held.begin;
    std::vector<char> image(held.bytes), mask(held.bytes);
    if (held_bytes > 0) std::memcpy(image.data() + held.begin, held.data, held_bytes);
    FillOnes(held.view.dtype, mask.data() + held.begin, held_bytes / size);
    std::vector<double> all(values.size()), is_held(values.size());
    absl::Status result = ReadLogical(held.view, image.data(), resources_.engine, absl::MakeSpan(all));
    result.Update(ReadLogical(held.view, mask.data(), resources_.engine, absl::MakeSpan(is_held)));
    for (size_t i = 0; i < values.size(); ++i) {
      if (is_held[i] != 0) values[i] = all[i];
    }
    return result;
  };
  resources_.devices[program_.buffer(buffer).device]->lane(program::Lane::kCompute).queue->Call([&] {
    status = CatchErrors(read);
  });
  return WithContext(status, absl::StrCat("reading ", program_.buffer(buffer).name));
}

absl::Status CpuProgram::Write(BufferId buffer, absl::Span<const double> values) {
  absl::Status status = CheckLogicalAccess(buffer, values.size());
  if (!status.ok()) return status;
  const auto write = [&]() -> absl::Status {
    if (!IsPartlyHeld(buffer)) return WriteLogical(layouts_.views[buffer.value], BaseOf(buffer), resources_.engine, values);
    const HeldMember held = Held(buffer);
    std::vector<char> image(held.bytes);
    absl::Status result = WriteLogical(held.view, image.data(), resources_.engine, values);
    if (held.begin < held.end) std::memcpy(held.data, image.data() + held.begin, held.end - held.begin);
    return result;
  };
  resources_.devices[program_.buffer(buffer).device]->lane(program::Lane::kCompute).queue->Call([&] {
    status = CatchErrors(write);
  });
  return WithContext(status, absl::StrCat("writing ", program_.buffer(buffer).name));
}

}  // namespace colonnade::cpu
