#include "cpu/threads/cores.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <set>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cpu/threads/team.h"
#include "engine/control_groups.h"

namespace colonnade::cpu {

namespace {

std::string FirstLine(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

// Time that one folder of a control group grants: "200000 100000" in cpu.max (version 2), or the same in two files (version
// 1), in microseconds in each period; "max" or -1 is no limit.
std::optional<double> CoresGrantedToGroup(const std::string& folder) {
  std::string quota = FirstLine(folder + "/cpu.cfs_quota_us"), period = FirstLine(folder + "/cpu.cfs_period_us");
  const std::vector<std::string> both = absl::StrSplit(FirstLine(folder + "/cpu.max"), ' ');
  if (both.size() == 2) {
    quota = both[0];
    period = both[1];
  }
  double granted, of;
  if (!absl::SimpleAtod(quota, &granted) || !absl::SimpleAtod(period, &of) || granted <= 0 || of <= 0) return std::nullopt;
  return granted / of;
}

// Of all of OpenMP's places.
std::vector<int> CoresOfPlaces() {
  std::set<int> cores;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> of_place(omp_get_place_num_procs(place));
    omp_get_place_proc_ids(place, of_place.data());
    cores.insert(of_place.begin(), of_place.end());
  }
  return {cores.begin(), cores.end()};
}

}  // namespace

std::vector<int> CoresOfProcess() {
  if (TeamsAreBound()) return CoresOfPlaces();
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

std::optional<double> CoresGrantedToProcess(const std::string& groups, const std::string& root) {
  std::optional<double> least;
  for (const std::string& folder : engine::ControlGroupFolders("cpu", groups, root)) {
    const std::optional<double> time = CoresGrantedToGroup(folder);
    if (time.has_value()) least = std::min(least.value_or(*time), *time);
  }
  return least;
}

int UsableCores() {
  const size_t listed = CoresOfProcess().size();
  const double cores = listed > 0 ? static_cast<double>(listed) : std::thread::hardware_concurrency();
  return std::max(1, static_cast<int>(std::min(cores, CoresGrantedToProcess().value_or(cores))));
}

std::vector<int> ByProcessorCore(std::vector<int> cores, const std::string& root) {
  // Of each: its package, the first thread of its processor core, and itself.
  std::vector<std::array<int, 3>> places;
  for (int core : cores) {
    const std::string folder = absl::StrCat(root, "/cpu", core, "/topology/");
    const std::string siblings = FirstLine(folder + "thread_siblings_list");  // "0,8" or "0-1"
    auto& [package, first, own] = places.emplace_back();
    own = core;
    if (!absl::SimpleAtoi(FirstLine(folder + "physical_package_id"), &package)) return cores;
    if (!absl::SimpleAtoi(siblings.substr(0, siblings.find_first_of(",-")), &first)) return cores;
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 0; i < cores.size(); ++i) cores[i] = places[i][2];
  return cores;
}

std::vector<int> CoresOfDevice(absl::Span<const int> cores, int device, int devices) {
  const size_t begin = cores.size() * device / devices, end = cores.size() * (device + 1) / devices;
  if (cores.size() < static_cast<size_t>(devices)) return {};
  return {cores.begin() + begin, cores.begin() + end};
}

void KeepToCores(absl::Span<const int> cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace colonnade::cpu
