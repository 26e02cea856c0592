#include "program/device_classes.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"

namespace colonnade::program {
namespace {

template <class Id, class Items, class Numbers>
void Number(const Items& items, int devices, Numbers& numbers) {
  numbers.of_device.resize(devices);
  numbers.index.reserve(items.size());
  for (const auto& item : items) {
    std::vector<Id>& of_device = numbers.of_device[item.device];
    numbers.index.push_back(static_cast<int>(of_device.size()));
    of_device.push_back(item.id);
  }
}

}  // namespace

DeviceClasses::DeviceClasses(const Program& program, Apart) : representative_(program.device_count) {
  std::iota(representative_.begin(), representative_.end(), 0);
}

DeviceClasses DeviceClasses::EachApart(const Program& program) { return {program, Apart{}}; }

DeviceClasses::DeviceClasses(const Program& program) : DeviceClasses(program, Apart{}) {
  Number<TaskId>(program.tasks, program.device_count, tasks_);
  Number<BufferId>(program.buffers, program.device_count, buffers_);
  FindCandidates(program);
  SetApartWhatDiffers(program);
}

// Devices whose hashes are equal.
void DeviceClasses::FindCandidates(const Program& program) {
  std::vector<size_t> hash(program.device_count);
  for (const Buffer& buffer : program.buffers) {
    size_t& sum = hash[buffer.device];
    sum = absl::HashOf(sum, buffer.shape, buffer.lifetime, buffer.slots, buffer.storage.index());
    if (const auto* bucket = std::get_if<Bucket>(&buffer.storage)) sum = absl::HashOf(sum, bucket->first_part);
  }
  for (const Task& task : program.tasks) {
    size_t& sum = hash[task.device];
    sum = absl::HashOf(sum, task.lane, task.waits.size(), task.waits_previous.size());
    for (const BufferUse& use : task.uses) {
      sum = absl::HashOf(sum, buffers_.index[use.buffer.value], use.access, use.region.offset, use.region.size);
    }
  }
  absl::flat_hash_map<size_t, int> first;
  for (int device = 0; device < program.device_count; ++device) {
    representative_[device] = first.try_emplace(hash[device], device).first->second;
  }
}

void DeviceClasses::SetApartWhatDiffers(const Program& program) {
  std::vector<bool> differs(program.device_count);
  for (int device = 0; device < program.device_count; ++device) {
    const int first = representative_[device];
    differs[device] = TasksOf(device).size() != TasksOf(first).size() || BuffersOf(device).size() != BuffersOf(first).size();
  }
  for (const Buffer& buffer : program.buffers) {
    const int device = buffer.device, first = representative_[device];
    if (first == device || differs[device]) continue;
    differs[device] = !AreAlike(buffer, program.buffer(PairOf(buffer.id, first)));
  }
  for (const Task& task : program.tasks) {
    const int device = task.device, first = representative_[device];
    if (first == device || differs[device]) continue;
    differs[device] = !AreAlike(task, program.task(PairOf(task.id, first)));
  }
  for (int device = 0; device < program.device_count; ++device) {
    if (differs[device]) SetApart(device);
  }
}

bool DeviceClasses::AreAlike(const Buffer& a, const Buffer& b) const {
  if (a.dtype != b.dtype || a.shape != b.shape || a.lifetime != b.lifetime || a.slots != b.slots) return false;
  if (a.storage.index() != b.storage.index()) return false;
  if (const auto* member = std::get_if<BucketMember>(&a.storage)) {
    const auto& other = std::get<BucketMember>(b.storage);
    return ArePaired(buffers_, member->bucket, other.bucket) && member->index == other.index;
  }
  if (const auto* bucket = std::get_if<Bucket>(&a.storage)) {
    const auto& other = std::get<Bucket>(b.storage);
    return bucket->parts == other.parts && bucket->first_part == other.first_part &&
           bucket->held_parts == other.held_parts && bucket->equal_parts == other.equal_parts &&
           std::equal(bucket->members.begin(), bucket->members.end(), other.members.begin(), other.members.end(),
                      [&](BufferId m, BufferId n) { return ArePaired(buffers_, m, n); });
  }
  return true;
}

bool DeviceClasses::AreAlike(const Task& a, const Task& b) const {
  const auto same_use = [&](const BufferUse& u, const BufferUse& v) {
    return ArePaired(buffers_, u.buffer, v.buffer) && u.access == v.access && u.region == v.region;
  };
  const auto same_wait = [&](TaskId t, TaskId u) { return ArePaired(tasks_, t, u); };
  return a.lane == b.lane && std::equal(a.uses.begin(), a.uses.end(), b.uses.begin(), b.uses.end(), same_use) &&
         std::equal(a.waits.begin(), a.waits.end(), b.waits.begin(), b.waits.end(), same_wait) &&
         std::equal(a.waits_previous.begin(), a.waits_previous.end(), b.waits_previous.begin(), b.waits_previous.end(),
                    same_wait);
}

}  // namespace colonnade::program
