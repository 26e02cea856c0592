#include "cpu/threads/core_waits.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace colonnade::cpu {
namespace {

constexpr const char* kName = "device ";

bool Computes(const std::filesystem::path& task) {
  std::ifstream file(task / "comm");
  std::string name;
  return std::getline(file, name) && absl::StartsWith(name, kName);
}

}  // namespace

void NameComputeThread(int device) { pthread_setname_np(pthread_self(), absl::StrCat(kName, device).substr(0, 15).c_str()); }

std::map<int, absl::Duration> CoreWaits(const std::string& tasks) {
  std::map<int, absl::Duration> waits;
  std::error_code error;
  for (std::filesystem::directory_iterator task(tasks, error), end; !error && task != end; task.increment(error)) {
    int number;
    if (!absl::SimpleAtoi(task->path().filename().string(), &number) || !Computes(task->path())) continue;
    std::ifstream file(task->path() / "schedstat");
    int64_t ran_ns, waited_ns;
    if (file >> ran_ns >> waited_ns) waits[number] = absl::Nanoseconds(waited_ns);
  }
  return waits;
}

absl::Duration LongestWait(const std::map<int, absl::Duration>& before, const std::map<int, absl::Duration>& after) {
  absl::Duration longest;
  for (const auto& [thread, waited] : after) {
    const auto it = before.find(thread);
    if (it != before.end()) longest = std::max(longest, waited - it->second);
  }
  return longest;
}

}  // namespace colonnade::cpu
