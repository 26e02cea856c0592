#include "bench/gpu_activity.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

namespace colonnade::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kTopNames = 40;

double Ms(uint64_t ns) { return 1e-6 * static_cast<double>(ns); }
double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string Demangle(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

Json OccupancyReport(std::vector<Interval> intervals) {
  const size_t count = intervals.size();
  const Occupancy o = OccupancyOf(std::move(intervals), kGapLimitNs);
  return {{"activities", count},
          {"span_ms", Ms(o.span_ns)},
          {"busy_share", Share(o.busy_ns, o.span_ns)},
          {"idle_share_short_gaps", Share(o.short_gaps_ns, o.span_ns)},
          {"idle_share_long_gaps", Share(o.long_gaps_ns, o.span_ns)}};
}

}  // namespace

Occupancy OccupancyOf(std::vector<Interval> intervals, uint64_t gap_limit_ns) {
  Occupancy o;
  if (intervals.empty()) return o;
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
  uint64_t covered_to = intervals.front().begin_ns;
  for (const Interval& i : intervals) {
    if (i.begin_ns > covered_to) {
      const uint64_t gap = i.begin_ns - covered_to;
      (gap < gap_limit_ns ? o.short_gaps_ns : o.long_gaps_ns) += gap;
    }
    if (i.end_ns > covered_to) {
      o.busy_ns += i.end_ns - std::max(i.begin_ns, covered_to);
      covered_to = i.end_ns;
    }
  }
  o.span_ns = covered_to - intervals.front().begin_ns;
  return o;
}

void AllocationLog::Allocate(uint32_t gpu, uint64_t address, uint64_t bytes, uint64_t time_ns) {
  Add({time_ns, address, bytes, gpu, /*release=*/false});
}

void AllocationLog::Release(uint64_t address, uint64_t time_ns) { Add({time_ns, address, 0, 0, /*release=*/true}); }

std::map<uint32_t, uint64_t> AllocationLog::PeakBytes() {
  Replay(events_.size());
  return peak_bytes_;
}

void AllocationLog::Add(const Event& event) {
  events_.push_back(event);
  if (events_.size() >= 2 * pending_events_) Replay(pending_events_);
}

void AllocationLog::Replay(size_t count) {
  std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) { return a.time_ns < b.time_ns; });
  for (size_t i = 0; i < count; ++i) {
    const Event& event = events_[i];
    Free(event.address);  // also before an allocation: the release of a block that was there is then missing
    if (event.release) continue;
    live_[event.address] = {event.gpu, event.bytes};
    uint64_t& bytes = bytes_[event.gpu];
    bytes += event.bytes;
    peak_bytes_[event.gpu] = std::max(peak_bytes_[event.gpu], bytes);
  }
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count));
}

void AllocationLog::Free(uint64_t address) {
  const auto block = live_.find(address);
  if (block == live_.end()) return;
  bytes_[block->second.gpu] -= block->second.bytes;
  live_.erase(block);
}

void ActivityLog::Add(uint32_t gpu, std::string_view name, bool host_copy, uint64_t begin_ns, uint64_t end_ns) {
  Counts& counts = counts_[gpu];
  if (begin_ns == 0 || end_ns < begin_ns) {
    ++counts.without_times;
    return;
  }
  ++counts.all;
  if (begin_ns < kept_from_ns_) return;
  const auto [entry, is_new] = name_ids_.try_emplace(std::string(name), static_cast<uint32_t>(names_.size()));
  if (is_new) names_.emplace_back(name);
  activities_.push_back({begin_ns, end_ns, gpu, entry->second, host_copy});
  if (activities_.size() <= capacity_) return;
  const auto middle = activities_.begin() + static_cast<std::ptrdiff_t>(activities_.size() / 2);
  std::nth_element(activities_.begin(), middle, activities_.end(),
                   [](const Activity& a, const Activity& b) { return a.begin_ns < b.begin_ns; });
  kept_from_ns_ = middle->begin_ns;
  activities_.erase(activities_.begin(), middle);
}

Json ActivityLog::Report(const std::map<uint32_t, uint64_t>& peak_allocated_bytes) const {
  std::map<uint32_t, std::vector<Activity>> by_gpu;
  for (const auto& [gpu, bytes] : peak_allocated_bytes) by_gpu[gpu];
  for (const auto& [gpu, counts] : counts_) by_gpu[gpu];
  for (const Activity& activity : activities_) by_gpu[activity.gpu].push_back(activity);
  Json gpus = Json::array();
  for (auto& [gpu, activities] : by_gpu) {
    const auto peak = peak_allocated_bytes.find(gpu);
    const auto found = counts_.find(gpu);
    const Counts counts = found == counts_.end() ? Counts{} : found->second;
    gpus.push_back({{"gpu", gpu},
                    {"peak_allocated_bytes", peak == peak_allocated_bytes.end() ? 0 : peak->second},
                    {"activities", counts.all},
                    {"activities_without_times", counts.without_times},
                    {"steady", SteadyReport(std::move(activities), counts.all)}});
  }
  return {{"gap_limit_us", 1e-3 * static_cast<double>(kGapLimitNs)}, {"gpus", std::move(gpus)}};
}

Json ActivityLog::SteadyReport(std::vector<Activity> activities, uint64_t all) const {
  std::sort(activities.begin(), activities.end(),
            [](const Activity& a, const Activity& b) { return a.begin_ns < b.begin_ns; });
  const size_t count = std::min<size_t>(activities.size(), (all + 1) / 2);
  activities.erase(activities.begin(), activities.end() - static_cast<std::ptrdiff_t>(count));

  struct Total {
    uint32_t name = 0;
    uint64_t count = 0, ns = 0;
  };
  std::vector<Total> totals(names_.size());
  std::vector<Interval> intervals, without_host_copies;
  for (const Activity& activity : activities) {
    const Interval interval{activity.begin_ns, activity.end_ns};
    intervals.push_back(interval);
    if (!activity.host_copy) without_host_copies.push_back(interval);
    Total& total = totals[activity.name];
    total.name = activity.name;
    ++total.count;
    total.ns += interval.end_ns - interval.begin_ns;
  }
  std::erase_if(totals, [](const Total& total) { return total.count == 0; });
  std::sort(totals.begin(), totals.end(),
            [](const Total& a, const Total& b) { return std::pair(b.ns, a.name) < std::pair(a.ns, b.name); });
  if (totals.size() > kTopNames) totals.resize(kTopNames);
  const uint64_t busy_ns = OccupancyOf(intervals, kGapLimitNs).busy_ns;
  Json top = Json::array();
  for (const Total& total : totals) {
    top.push_back({{"name", Demangle(names_[total.name])},
                   {"count", total.count},
                   {"total_ms", Ms(total.ns)},
                   {"share_of_busy", Share(total.ns, busy_ns)}});
  }
  return {{"part", "the last half of the activities by begin"},
          {"all", OccupancyReport(std::move(intervals))},
          {"without_host_copies", OccupancyReport(std::move(without_host_copies))},
          {"top", std::move(top)}};
}

}  // namespace colonnade::bench
