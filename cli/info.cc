#include "cli/info.h"

#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/counted.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cpu/threads/cores.h"
#include "tools/host_memory.h"
#include "tools/machines.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;

// ---- Reading

std::string FirstLine(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return std::string(absl::StripAsciiWhitespace(line));
}

// What stands behind the first `key` and `separator` of a file of such lines; empty where there is none.
std::string ValueOf(const std::string& path, absl::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(separator, 1));
    if (absl::StripAsciiWhitespace(parts.first) == key) return std::string(absl::StripAsciiWhitespace(parts.second));
  }
  return "";
}

std::vector<std::string> InstructionSets(const std::string& cpuinfo) {
  // x86's flags, and arm64's features.
  const std::string flags = absl::StrCat(ValueOf(cpuinfo, "flags", ':'), " ", ValueOf(cpuinfo, "Features", ':'));
  const std::vector<std::string> there = absl::StrSplit(flags, ' ', absl::SkipEmpty());
  std::vector<std::string> sets;
  for (const char* set : {"sse4_1", "avx", "avx2", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16",
                          "amx_tile", "amx_bf16", "amx_fp16", "asimd", "bf16", "sve", "sve2"}) {
    if (std::find(there.begin(), there.end(), set) != there.end()) sets.emplace_back(set);
  }
  return sets;
}

std::optional<int> NumberIn(const std::string& path) {
  int number = 0;
  return absl::SimpleAtoi(FirstLine(path), &number) ? std::optional(number) : std::nullopt;
}

std::vector<std::pair<std::string, std::string>> Environment() {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(*variable, absl::MaxSplits('=', 1));
    for (const char* prefix : {"OMP_", "KMP_", "DNNL_", "ONEDNN_", "CUDA_", "CUDNN_", "CUBLAS_", "NCCL_", "COLONNADE_"}) {
      if (absl::StartsWith(parts.first, prefix)) found.push_back(parts);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// ---- Text

constexpr size_t kColumns = 80, kIndent = 15;

// Words of `text` in lines of at most `columns`.
Lines Wrapped(absl::string_view text, size_t columns) {
  Lines lines;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!lines.empty() && lines.back().size() + 1 + word.size() <= columns) {
      absl::StrAppend(&lines.back(), " ", word);
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

// Appends a fact of one or more lines under its name. Nothing is appended of an empty fact.
void Append(std::string& text, absl::string_view name, const Lines& facts) {
  for (const std::string& fact : facts) {
    if (fact.empty()) continue;
    for (const std::string& line : Wrapped(fact, kColumns - kIndent)) {
      absl::StrAppendFormat(&text, "%-*s%s\n", static_cast<int>(kIndent), name, line);
      name = "";
    }
  }
}

std::string Gib(int64_t bytes) { return absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / (1 << 30)); }

// "3 days"
std::string InWords(absl::Duration age) {
  if (age < absl::Minutes(1)) return base::Counted(age / absl::Seconds(1), "second");
  if (age < absl::Hours(1)) return base::Counted(age / absl::Minutes(1), "minute");
  if (age < absl::Hours(48)) return base::Counted(age / absl::Hours(1), "hour");
  return base::Counted(age / absl::Hours(24), "day");
}

// "0-3,8"
std::string Ranges(const std::vector<int>& numbers) {
  Lines ranges;
  for (size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    ranges.push_back(end == begin + 1 ? absl::StrCat(numbers[begin]) : absl::StrCat(numbers[begin], "-", numbers[end - 1]));
  }
  return absl::StrJoin(ranges, ",");
}

std::string BuildText(const BuildFacts& build) {
  std::string text = absl::StrFormat("%s, %s, C++%d, %s CUDA", build.type, build.compiler, build.standard / 100 % 100,
                                     build.cuda ? "with" : "without");
  if (!build.sanitizer.empty()) absl::StrAppend(&text, ", -fsanitize=", build.sanitizer);
  return text;
}

std::string CoresText(const HostFacts& host) {
  std::string text = absl::StrFormat("%d usable of %d", host.usable_cores, host.cores);
  if (!host.affinity.empty()) absl::StrAppend(&text, "; affinity ", Ranges(host.affinity));
  if (host.granted_cores.has_value()) {
    absl::StrAppendFormat(&text, "; control groups grant the time of %.3g", *host.granted_cores);
  }
  return text;
}

Lines CudaLines(const Facts& facts) {
  if (!facts.build.cuda) return {"none: this program was built without CUDA"};
  if (!facts.cuda.ok()) return {absl::StrCat("none: ", facts.cuda.status().message())};
  const cuda::CudaFacts& cuda = *facts.cuda;
  const std::string driver = !facts.host.nvidia_driver.empty() ? facts.host.nvidia_driver : "not found";
  return {absl::StrCat("runtime ", cuda.runtime, ", NVIDIA driver ", driver,
                       cuda.supported.empty() ? "" : absl::StrCat(", which runs CUDA up to ", cuda.supported)),
          absl::StrCat("cuDNN ", cuda.cudnn, ", cuBLAS ", cuda.cublas, ", ",
                       cuda.nccl.empty() ? absl::StrCat("no NCCL: ", cuda.no_nccl) : absl::StrCat("NCCL ", cuda.nccl)),
          cuda.status.ok() ? "" : absl::StrCat("no usable GPU: ", cuda.status.message())};
}

std::string PciText(const std::string& pci, const PciLink& link) {
  const auto rate = [](const std::string& speed, const std::optional<int>& width) {
    return absl::StrCat(speed, width.has_value() ? absl::StrCat(" x", *width) : "");
  };
  std::string text = absl::StrCat("at ", pci);
  if (!link.most_speed.empty()) absl::StrAppend(&text, ", up to ", rate(link.most_speed, link.most_width));
  if (!link.speed.empty()) absl::StrAppend(&text, ", now ", rate(link.speed, link.width));
  if (link.numa_node.has_value()) absl::StrAppend(&text, ", NUMA node ", *link.numa_node);
  return text;
}

const char* Name(const cuda::PeerAccess& access) {
  return !access.possible ? "none" : access.atomics ? "atomics" : "access";
}

// One line where all pairs are alike; else a row for each GPU.
Lines PeerLines(const cuda::CudaFacts& cuda) {
  constexpr int kWidth = 9;
  const int gpus = static_cast<int>(cuda.gpus.size());
  std::string header = std::string(6, ' ');
  Lines rows, names;
  for (int from = 0; from < gpus; ++from) {
    absl::StrAppendFormat(&header, "%*d", kWidth, from);
    std::string row = absl::StrFormat("GPU %-2d", from);
    for (int to = 0; to < gpus; ++to) {
      absl::StrAppendFormat(&row, "%*s", kWidth, to == from ? "-" : Name(cuda.peers[from][to]));
      if (to != from) names.emplace_back(Name(cuda.peers[from][to]));
    }
    rows.push_back(row);
  }
  if (names.empty()) return {};
  if (std::equal(names.begin() + 1, names.end(), names.begin())) {
    if (names[0] == "none") return {"between no two GPUs: copies pass through the host"};
    return {names[0] == "atomics" ? "between all GPUs, with native atomics, as over NVLink" : "between all GPUs"};
  }
  rows.insert(rows.begin(), header);
  return rows;
}

void AppendGpus(std::string& text, const Facts& facts) {
  const std::vector<cuda::GpuFacts>& gpus = facts.cuda->gpus;
  for (size_t g = 0; g < gpus.size(); ++g) {
    const cuda::GpuFacts& gpu = gpus[g];
    Append(text, absl::StrCat("GPU ", g),
           {absl::StrFormat("%s, compute capability %s, %s, %d multiprocessors", gpu.name, gpu.compute_capability,
                            Gib(gpu.memory_bytes), gpu.multiprocessors),
            PciText(gpu.pci, facts.pci_links[g])});
  }
  // Rows of a table are not wrapped.
  absl::string_view name = "peer access";
  for (const std::string& line : PeerLines(*facts.cuda)) {
    absl::StrAppendFormat(&text, "%-*s%s\n", static_cast<int>(kIndent), name, line);
    name = "";
  }
}

std::string ProfileText(const ProfileFacts& profile) {
  if (!profile.age.has_value()) return "none; `colonnade calibrate` measures this machine and writes one";
  const std::string file = absl::StrFormat("%s old, %s", InWords(*profile.age), profile.path);
  if (!profile.status.ok()) return absl::StrCat(file, ", which cannot be read: ", profile.status.message());
  return profile.description.empty() ? file : absl::StrCat(file, ": ", profile.description);
}

// The usual profile, and which others there are.
Lines ProfileLines(const std::vector<ProfileFacts>& profiles) {
  Lines lines;
  for (const ProfileFacts& profile : profiles) {
    if (lines.empty()) {
      lines.push_back(ProfileText(profile));
    } else if (profile.age.has_value()) {
      lines.push_back(absl::StrFormat("%s, %s: %s", profile.of.kernels, profile.of.precision, ProfileText(profile)));
    }
  }
  return lines;
}

// ---- JSON

Json GpusJson(const Facts& facts) {
  Json gpus = Json::array();
  for (size_t g = 0; g < facts.cuda->gpus.size(); ++g) {
    const cuda::GpuFacts& gpu = facts.cuda->gpus[g];
    const PciLink& link = facts.pci_links[g];
    Json peers = Json::array();
    for (size_t to = 0; to < facts.cuda->gpus.size(); ++to) {
      const cuda::PeerAccess& access = facts.cuda->peers[g][to];
      if (to == g) continue;
      peers.push_back({{"gpu", to}, {"access", access.possible}, {"atomics", access.atomics}, {"rank", access.rank}});
    }
    gpus.push_back({{"name", gpu.name},
                    {"compute_capability", gpu.compute_capability},
                    {"memory_bytes", gpu.memory_bytes},
                    {"multiprocessors", gpu.multiprocessors},
                    {"pci",
                     {{"address", gpu.pci},
                      {"speed", OrNull(link.speed)},
                      {"width", OrNull(link.width)},
                      {"most_speed", OrNull(link.most_speed)},
                      {"most_width", OrNull(link.most_width)}}},
                    {"numa_node", OrNull(link.numa_node)},
                    {"peers", std::move(peers)}});
  }
  return gpus;
}

Json CudaJson(const Facts& facts) {
  const std::string error = !facts.build.cuda  ? "built without CUDA"
                            : !facts.cuda.ok() ? std::string(facts.cuda.status().message())
                                               : std::string(facts.cuda->status.message());
  Json json = {{"usable", error.empty()}, {"error", OrNull(error)}, {"driver", OrNull(facts.host.nvidia_driver)}};
  if (!facts.build.cuda || !facts.cuda.ok()) return json;
  json.update({{"driver_supports", OrNull(facts.cuda->supported)},
               {"runtime", facts.cuda->runtime},
               {"cudnn", facts.cuda->cudnn},
               {"cublas", facts.cuda->cublas},
               {"nccl", OrNull(facts.cuda->nccl)},
               {"gpus", GpusJson(facts)}});
  return json;
}

Json ProfileJson(const ProfileFacts& profile) {
  return {{"kernels", profile.of.kernels},
          {"dtype", profile.of.precision},
          {"path", OrNull(profile.path)},
          {"age_s", profile.age.has_value() ? Json(absl::ToInt64Seconds(*profile.age)) : Json()},
          {"description", OrNull(profile.description)},
          {"error", OrNull(std::string(profile.status.message()))}};
}

}  // namespace

std::string VersionText(const BuildFacts& build) {
  return build.commit.empty() ? build.version : absl::StrFormat("%s (%s)", build.version, build.commit);
}

HostFacts ReadHost(const std::string& root) {
  HostFacts host;
  utsname name = {};
  ::uname(&name);
  const std::string cpuinfo = root + "/proc/cpuinfo";
  host.system = std::string(absl::StripPrefix(ValueOf(root + "/etc/os-release", "PRETTY_NAME", '='), "\""));
  host.system = std::string(absl::StripSuffix(host.system, "\""));
  host.kernel = absl::StrCat(name.sysname, " ", name.release);
  host.architecture = name.machine;
  host.libc = absl::StrCat("glibc ", ::gnu_get_libc_version());
  int64_t kilobytes = 0;
  const std::string total = ValueOf(root + "/proc/meminfo", "MemTotal", ':');
  if (absl::SimpleAtoi(absl::StripSuffix(total, " kB"), &kilobytes)) host.memory_bytes = kilobytes * 1024;
  const int64_t available = tools::AvailableMemory(root);
  if (available != tools::kUnlimitedMemory) host.available_bytes = available;
  host.processor = ValueOf(cpuinfo, "model name", ':');
  host.instruction_sets = InstructionSets(cpuinfo);
  host.cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  host.affinity = cpu::CoresOfProcess();
  host.granted_cores = cpu::CoresGrantedToProcess();
  host.usable_cores = cpu::UsableCores();
  host.nvidia_driver = FirstLine(root + "/sys/module/nvidia/version");
  host.environment = Environment();
  return host;
}

PciLink ReadPciLink(const std::string& pci, const std::string& root) {
  const std::string folder = absl::StrCat(root, "/sys/bus/pci/devices/", pci);
  PciLink link{.speed = FirstLine(folder + "/current_link_speed"),
               .most_speed = FirstLine(folder + "/max_link_speed"),
               .width = NumberIn(folder + "/current_link_width"),
               .most_width = NumberIn(folder + "/max_link_width")};
  int node = -1;  // what the system says where there is one node alone
  if (absl::SimpleAtoi(FirstLine(folder + "/numa_node"), &node) && node >= 0) link.numa_node = node;
  return link;
}

ProfileFacts ReadProfile(const tools::KernelChoice& of, absl::Time now) {
  const std::string path = tools::LocalMachinePath(of);
  ProfileFacts profile{.of = of, .path = path};
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path, error);
  if (error) return profile;
  const auto since_epoch = std::chrono::file_clock::to_sys(written).time_since_epoch();
  profile.age = std::max(now - absl::FromUnixSeconds(std::chrono::duration_cast<std::chrono::seconds>(since_epoch).count()),
                         absl::ZeroDuration());
  const absl::StatusOr<engine::Machine> machine = tools::OpenMachine(path);
  profile.status = machine.status();
  if (machine.ok()) profile.description = machine->description;
  return profile;
}

Facts ReadFacts() {
  Facts facts{.build = ThisBuild(), .host = ReadHost(), .onednn = cpu::AboutOneDnn(), .cuda = cuda::AboutCuda()};
  if (facts.cuda.ok()) {
    for (const cuda::GpuFacts& gpu : facts.cuda->gpus) facts.pci_links.push_back(ReadPciLink(gpu.pci));
  }
  for (const tools::KernelChoice& choice : tools::TimedKernelChoices()) {
    facts.profiles.push_back(ReadProfile(choice, absl::Now()));
  }
  return facts;
}

std::string InfoText(const Facts& facts) {
  const HostFacts& host = facts.host;
  std::string text;
  Append(text, "colonnade", {VersionText(facts.build)});
  Append(text, "build", {BuildText(facts.build)});
  Append(text, "system", {absl::StrJoin({host.system, host.kernel, host.libc, host.architecture}, ", ")});
  Append(
      text, "memory",
      {absl::StrCat(Gib(host.memory_bytes), host.available_bytes.has_value()
                                                ? absl::StrCat(", of which ", Gib(*host.available_bytes), " are available")
                                                : "")});
  Append(text, "processor", {host.processor, absl::StrJoin(host.instruction_sets, ", ")});
  Append(text, "cores", {CoresText(host)});
  Append(text, "oneDNN",
         {absl::StrFormat("%s, kernels up to %s, %s", facts.onednn.version, facts.onednn.instruction_set,
                          facts.onednn.threads)});
  Append(text, "CUDA", CudaLines(facts));
  if (facts.build.cuda && facts.cuda.ok()) AppendGpus(text, facts);
  Append(text, "profile", ProfileLines(facts.profiles));
  Lines variables;
  for (const auto& [name, value] : host.environment) variables.push_back(absl::StrCat(name, "=", value));
  Append(text, "environment", variables);
  return text;
}

Json InfoJson(const Facts& facts) {
  const HostFacts& host = facts.host;
  Json profiles = Json::array();
  for (const ProfileFacts& profile : facts.profiles) profiles.push_back(ProfileJson(profile));
  Json environment = Json::object();
  for (const auto& [name, value] : host.environment) environment[name] = value;
  return {{"version", facts.build.version},
          {"commit", OrNull(facts.build.commit)},
          {"build",
           {{"type", facts.build.type},
            {"compiler", facts.build.compiler},
            {"standard", facts.build.standard},
            {"sanitizer", OrNull(facts.build.sanitizer)},
            {"cuda", facts.build.cuda}}},
          {"system",
           {{"name", OrNull(host.system)},
            {"kernel", host.kernel},
            {"libc", host.libc},
            {"architecture", host.architecture},
            {"memory_bytes", host.memory_bytes},
            {"available_bytes", OrNull(host.available_bytes)}}},
          {"processor",
           {{"model", OrNull(host.processor)},
            {"instruction_sets", host.instruction_sets},
            {"cores", host.cores},
            {"affinity", host.affinity},
            {"granted_cores", OrNull(host.granted_cores)},
            {"usable_cores", host.usable_cores}}},
          {"onednn",
           {{"version", facts.onednn.version},
            {"instruction_set", facts.onednn.instruction_set},
            {"threads", facts.onednn.threads}}},
          {"cuda", CudaJson(facts)},
          {"profiles", std::move(profiles)},
          {"environment", std::move(environment)}};
}

SubCommand AddInfo(CLI::App& app) {
  CLI::App* info =
      app.add_subcommand("info", "Version, build, processor, GPUs, libraries and machine profile: what a bug report needs.");
  const auto json = std::make_shared<bool>(false);
  AddJsonFlag(*info, *json);
  info->footer("Examples:\n  colonnade info\n  colonnade info --json");
  return {info, [=] {
            const Facts facts = ReadFacts();
            if (*json) {
              PrintJson(InfoJson(facts));
            } else {
              std::fputs(PrintableLines(InfoText(facts)).c_str(), stdout);
            }
            return absl::OkStatus();
          }};
}

}  // namespace colonnade::cli
