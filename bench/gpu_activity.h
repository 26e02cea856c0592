// What GPUs did while a program ran: their busy and idle time, the kernels that took most of it, the most memory allocated.
//
// Arithmetic on records, which gpu_activity_injection.cc gets from CUPTI. That is loaded into programs that are not ours,
// hence no Abseil here.
#ifndef COLONNADE_BENCH_GPU_ACTIVITY_H_
#define COLONNADE_BENCH_GPU_ACTIVITY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nlohmann/json.hpp"

namespace colonnade::bench {

struct Interval {
  uint64_t begin_ns = 0, end_ns = 0;
};

// From the first begin to the last end: span = busy + short gaps + long gaps.
struct Occupancy {
  uint64_t span_ns = 0;
  uint64_t busy_ns = 0;        // of the union of all intervals
  uint64_t short_gaps_ns = 0;  // of gaps shorter than the limit
  uint64_t long_gaps_ns = 0;   // of the others
};
Occupancy OccupancyOf(std::vector<Interval> intervals, uint64_t gap_limit_ns);

// Shorter gaps are taken as between kernels, others as waits for the host: between steps, or while it launches.
inline constexpr uint64_t kGapLimitNs = 50'000;

// The most bytes allocated at once on each GPU. Events may come late, by up to `pending_events` others.
class AllocationLog {
 public:
  explicit AllocationLog(size_t pending_events = size_t{1} << 20) : pending_events_(pending_events) {}

  void Allocate(uint32_t gpu, uint64_t address, uint64_t bytes, uint64_t time_ns);
  void Release(uint64_t address, uint64_t time_ns);  // of nothing that was allocated: no effect
  std::map<uint32_t, uint64_t> PeakBytes();          // by GPU

 private:
  struct Event {
    uint64_t time_ns, address, bytes;
    uint32_t gpu;
    bool release;
  };
  struct Block {
    uint32_t gpu = 0;
    uint64_t bytes = 0;
  };
  void Add(const Event& event);
  void Replay(size_t count);  // the earliest `count` events
  void Free(uint64_t address);

  size_t pending_events_;
  std::vector<Event> events_;
  std::unordered_map<uint64_t, Block> live_;  // by address; GPUs share one address space
  std::map<uint32_t, uint64_t> bytes_, peak_bytes_;
};

// Kernels, copies and fills of all GPUs. Of more than `capacity` the earlier half is dropped: reports are about the last.
class ActivityLog {
 public:
  explicit ActivityLog(size_t capacity = size_t{1} << 22) : capacity_(capacity) {}

  // `name` may be mangled; `host_copy`: from or to host memory. Without a begin, or with an end before it: time unknown.
  void Add(uint32_t gpu, std::string_view name, bool host_copy, uint64_t begin_ns, uint64_t end_ns);

  // {"gap_limit_us", "gpus": [{"gpu", "peak_allocated_bytes", "activities", "activities_without_times", "steady": {…}}]}.
  // `steady` is about the last half of a GPU's activities in order of their begin, or as many of them as are kept:
  //   all                   with copies from and to the host, which may hide gaps between kernels
  //   without_host_copies   kernels, fills and copies on or between GPUs
  //   top                   the 40 names that took most time, as shares of the busy time of `all`; overlaps count twice
  nlohmann::ordered_json Report(const std::map<uint32_t, uint64_t>& peak_allocated_bytes) const;

 private:
  struct Activity {
    uint64_t begin_ns, end_ns;
    uint32_t gpu;
    uint32_t name : 31;
    uint32_t host_copy : 1;
  };
  struct Counts {
    uint64_t all = 0, without_times = 0;
  };
  nlohmann::ordered_json SteadyReport(std::vector<Activity> activities, uint64_t all) const;

  size_t capacity_;
  std::vector<Activity> activities_;
  uint64_t kept_from_ns_ = 0;  // what began earlier is dropped
  std::map<uint32_t, Counts> counts_;
  std::unordered_map<std::string, uint32_t> name_ids_;
  std::vector<std::string> names_;
};

}  // namespace colonnade::bench

#endif  // COLONNADE_BENCH_GPU_ACTIVITY_H_
