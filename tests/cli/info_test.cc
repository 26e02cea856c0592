// `colonnade info` as a process, and its text and JSON of machines that are not at hand.

#include "cli/info.h"

#include <sched.h>
#include <utime.h>

#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using OrderedJson = nlohmann::ordered_json;

class Info : public Command {
 protected:
  std::string Profile() const { return In("colonnade/machine.json"); }
  void WriteProfile(const std::string& contents, absl::Duration age) const {
    std::filesystem::create_directory(In("colonnade"));
    Write("colonnade/machine.json", contents);
    const std::time_t then = std::time(nullptr) - absl::ToInt64Seconds(age);
    const utimbuf times = {then, then};
    ASSERT_EQ(::utime(Profile().c_str(), &times), 0);
  }
};

cuda::GpuFacts H100(const std::string& pci) {
  return {.name = "NVIDIA H100 80GB HBM3",
          .compute_capability = "9.0",
          .pci = pci,
          .memory_bytes = int64_t{80} << 30,
          .multiprocessors = 132};
}

// A machine of two GPUs that reach each other by NVLink.
Facts TwoGpus() {
  const cuda::PeerAccess nvlink{.possible = true, .atomics = true, .rank = 0};
  cuda::CudaFacts cuda{.runtime = "13.0",
                       .cudnn = "9.19.0",
                       .cublas = "13.1.0",
                       .nccl = "2.28.9",
                       .supported = "13.1",
                       .gpus = {H100("0000:0a:00.0"), H100("0000:18:00.0")},
                       .peers = {{{}, nvlink}, {nvlink, {}}}};
  return {
      .build = {.version = "1.2.3",
                .commit = "abc",
                .type = "Release",
                .compiler = "GNU 12.2.0",
                .standard = 202002,
                .cuda = true},
      .host = {.system = "Debian GNU/Linux 12 (bookworm)",
               .kernel = "Linux 6.1.0-40-amd64",
               .architecture = "x86_64",
               .libc = "glibc 2.36",
               .memory_bytes = int64_t{512} << 30,
               .available_bytes = int64_t{500} << 30,
               .processor = "Intel(R) Xeon(R) Platinum 8480C",
               .instruction_sets = {"avx2", "avx512_bf16", "amx_bf16"},
               .cores = 16,
               .affinity = {0, 1, 2, 3, 8, 10, 11},
               .granted_cores = 4.5,
               .usable_cores = 4,
               .nvidia_driver = "580.82.07",
               .environment = {{"NCCL_DEBUG", "INFO"}, {"OMP_NUM_THREADS", "4"}}},
      .onednn = {"2.6.3", "avx512_core_amx", "OpenMP"},
      .cuda = cuda,
      .pci_links =
          {{.speed = "2.5 GT/s PCIe", .most_speed = "32.0 GT/s PCIe", .width = 16, .most_width = 16, .numa_node = 0}, {}},
      .profiles = {
          {.path = "/home/me/machine.json", .age = absl::Hours(72), .description = "two GPUs"},
          {.of = {.precision = "bf16"}, .path = "/home/me/machine-bf16.json"},
          {.of = {.kernels = "winograd"}, .path = "/home/me/w.json", .age = absl::Hours(30), .description = "one CPU"}}};
}

TEST_F(Info, HasAFactOnEachLineAndFitsATerminal) {
  const Result r = RunHere("info");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  std::vector<std::string> names;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(r.out, '\n', absl::SkipEmpty()))) {
    ASSERT_GT(line.size(), 15u) << line;
    EXPECT_NE(line[15], ' ') << "facts begin in one column: " << line;
    // A variable's value may be one long word.
    if (names.empty() || names.back() != "environment") {
      EXPECT_LE(line.size(), 80u) << line;
    }
    const std::string name(absl::StripAsciiWhitespace(line.substr(0, 15)));
    if (!name.empty()) names.push_back(name);
  }
  for (const char* name : {"colonnade", "build", "system", "memory", "processor", "cores", "oneDNN", "CUDA", "profile"}) {
    EXPECT_THAT(names, ::testing::Contains(name));
  }
}

TEST_F(Info, IsOneJsonObjectWithTheKeysThatTheDocumentationNames) {
  const Result r = RunHere("info --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const OrderedJson info = OrderedJson::parse(r.out);
  std::vector<std::string> keys;
  for (const auto& [key, value] : info.items()) keys.push_back(key);
  EXPECT_THAT(keys,
              ElementsAre("version", "commit", "build", "system", "processor", "onednn", "cuda", "profiles", "environment"));
  EXPECT_EQ(info["version"], ThisBuild().version);
  EXPECT_GE(info["system"]["memory_bytes"], info["system"]["available_bytes"]);
  EXPECT_EQ(info["cuda"]["usable"], info["cuda"]["error"].is_null());
  if (!info["build"]["cuda"]) {
    EXPECT_EQ(info["cuda"]["error"], "built without CUDA");
  }
  const std::string page = *engine::ReadFile(absl::StrCat(kSourceDir, "/docs/command_line.md"));
  for (const std::string& key : keys) EXPECT_THAT(page, HasSubstr(absl::StrCat("`", key, "`"))) << key;
}

TEST_F(Info, CoresAreThoseOfTheProcess) {
  const int last = ReadHost().affinity.back();
  const Result r = Wait(Start("info --json", [&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    if (::sched_setaffinity(0, sizeof(one), &one) != 0) std::_Exit(97);
  }));
  ASSERT_EQ(r.code, 0) << r.err;
  const OrderedJson processor = OrderedJson::parse(r.out)["processor"];
  EXPECT_EQ(processor["affinity"], OrderedJson({last}));
  EXPECT_EQ(processor["usable_cores"], 1);
  EXPECT_GE(processor["cores"], 1);
}

TEST_F(Info, SaysHowOldTheProfileOfThisMachineIs) {
  EXPECT_THAT(RunHere("info").out, HasSubstr("profile        none; `colonnade calibrate` measures this machine"));
  const std::string shipped = *engine::ReadFile(absl::StrCat(kSourceDir, "/bench/machines/cpu-2core.json"));
  WriteProfile(shipped, absl::Hours(75));
  EXPECT_THAT(RunHere("info").out, HasSubstr("profile        3 days old, "));
  const OrderedJson profile = OrderedJson::parse(RunHere("info --json").out)["profiles"][0];
  EXPECT_EQ(profile["path"], Profile());
  EXPECT_NEAR(profile["age_s"].get<double>(), 75 * 3600, 60);
  EXPECT_EQ(profile["description"], OrderedJson::parse(shipped)["description"]);
  EXPECT_TRUE(profile["error"].is_null());
}

TEST_F(Info, HasALineForEachProfileOfOtherKernelsThatThereIs) {
  EXPECT_THAT(RunHere("info").out, Not(HasSubstr("onednn, bf16")));
  const OrderedJson before = OrderedJson::parse(RunHere("info --json").out)["profiles"];
  ASSERT_EQ(before.size(), 4u);
  for (const OrderedJson& profile : before) EXPECT_TRUE(profile["age_s"].is_null());
  WriteProfile(*engine::ReadFile(absl::StrCat(kSourceDir, "/bench/machines/cpu-2core.json")), absl::Hours(75));
  const std::string in_bf16 = In("colonnade/machine-bf16.json"), both = In("colonnade/machine-winograd-bf16.json");
  std::filesystem::copy(Profile(), in_bf16);
  std::filesystem::copy(Profile(), both);
  const std::string text = RunHere("info").out;
  EXPECT_THAT(text, ::testing::ContainsRegex("\n {15}onednn, bf16: [0-9]+ second"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\n {15}winograd, bf16: [0-9]+ second"));
  EXPECT_THAT(text, Not(HasSubstr("winograd, fp32")));
  const OrderedJson profiles = OrderedJson::parse(RunHere("info --json").out)["profiles"];
  EXPECT_EQ(profiles[1]["path"], in_bf16);
  EXPECT_EQ(profiles[3]["path"], both);
  EXPECT_EQ(profiles[3]["kernels"], "winograd");
  EXPECT_EQ(profiles[3]["dtype"], "bf16");
}

TEST_F(Info, AProfileThatCannotBeReadIsAFactAndNoError) {
  WriteProfile("{\"name\": 1}", absl::Seconds(0));
  const Result r = RunHere("info");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("cannot be read"));
  EXPECT_THAT(OrderedJson::parse(RunHere("info --json").out)["profiles"][0]["error"].get<std::string>(),
              HasSubstr("missing"));
}

TEST_F(Info, ReadsTheFilesOfTheSystem) {
  for (const char* folder : {"proc", "etc", "sys/module/nvidia", "sys/bus/pci/devices/0000:0a:00.0"}) {
    std::filesystem::create_directories(In(folder));
  }
  Write("proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Some CPU @ 2: GHz\nflags\t\t: fpu avx2 amx_bf16 avx512f avx512vl\n\n"
        "processor\t: 1\nmodel name\t: another\nflags\t\t: fpu\n");
  Write("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:  1024 kB\n");
  Write("etc/os-release", "NAME=\"x\"\nPRETTY_NAME=\"Some Linux 7\"\n");
  Write("sys/module/nvidia/version", "580.82.07\n");
  const std::string pci = "sys/bus/pci/devices/0000:0a:00.0/";
  Write(pci + "current_link_speed", "2.5 GT/s PCIe\n");
  Write(pci + "max_link_speed", "32.0 GT/s PCIe\n");
  Write(pci + "current_link_width", "8\n");
  Write(pci + "max_link_width", "16\n");
  Write(pci + "numa_node", "1\n");
  const HostFacts host = ReadHost(path_);
  EXPECT_EQ(host.processor, "Some CPU @ 2: GHz");
  EXPECT_THAT(host.instruction_sets, ElementsAre("avx2", "avx512f", "amx_bf16"));
  EXPECT_EQ(host.memory_bytes, 2048 * 1024);
  EXPECT_EQ(host.available_bytes, 1024 * 1024);
  EXPECT_EQ(host.system, "Some Linux 7");
  EXPECT_EQ(host.nvidia_driver, "580.82.07");
  const PciLink link = ReadPciLink("0000:0a:00.0", path_), none = ReadPciLink("0000:0b:00.0", path_);
  EXPECT_EQ(link.speed, "2.5 GT/s PCIe");
  EXPECT_EQ(link.most_speed, "32.0 GT/s PCIe");
  EXPECT_EQ(link.width, 8);
  EXPECT_EQ(link.most_width, 16);
  EXPECT_EQ(link.numa_node, 1);
  EXPECT_EQ(none.speed, "");
  EXPECT_FALSE(none.width.has_value());
  EXPECT_FALSE(none.numa_node.has_value());
}

TEST_F(Info, OfTwoGpus) {
  EXPECT_EQ(InfoText(TwoGpus()),
            "colonnade      1.2.3 (abc)\n"
            "build          Release, GNU 12.2.0, C++20, with CUDA\n"
            "system         Debian GNU/Linux 12 (bookworm), Linux 6.1.0-40-amd64, glibc 2.36,\n"
            "               x86_64\n"
            "memory         512.0 GiB, of which 500.0 GiB are available\n"
            "processor      Intel(R) Xeon(R) Platinum 8480C\n"
            "               avx2, avx512_bf16, amx_bf16\n"
            "cores          4 usable of 16; affinity 0-3,8,10-11; control groups grant the\n"
            "               time of 4.5\n"
            "oneDNN         2.6.3, kernels up to avx512_core_amx, OpenMP\n"
            "CUDA           runtime 13.0, NVIDIA driver 580.82.07, which runs CUDA up to 13.1\n"
            "               cuDNN 9.19.0, cuBLAS 13.1.0, NCCL 2.28.9\n"
            "GPU 0          NVIDIA H100 80GB HBM3, compute capability 9.0, 80.0 GiB, 132\n"
            "               multiprocessors\n"
            "               at 0000:0a:00.0, up to 32.0 GT/s PCIe x16, now 2.5 GT/s PCIe x16,\n"
            "               NUMA node 0\n"
            "GPU 1          NVIDIA H100 80GB HBM3, compute capability 9.0, 80.0 GiB, 132\n"
            "               multiprocessors\n"
            "               at 0000:18:00.0\n"
            "peer access    between all GPUs, with native atomics, as over NVLink\n"
            "profile        3 days old, /home/me/machine.json: two GPUs\n"
            "               winograd, fp32: 30 hours old, /home/me/w.json: one CPU\n"
            "environment    NCCL_DEBUG=INFO\n"
            "               OMP_NUM_THREADS=4\n");
  const OrderedJson gpu = InfoJson(TwoGpus())["cuda"]["gpus"][0];
  EXPECT_EQ(gpu["pci"], OrderedJson::parse(R"({"address": "0000:0a:00.0", "speed": "2.5 GT/s PCIe", "width": 16,
                                        "most_speed": "32.0 GT/s PCIe", "most_width": 16})"));
  EXPECT_EQ(gpu["peers"], OrderedJson::parse(R"([{"gpu": 1, "access": true, "atomics": true, "rank": 0}])"));
  EXPECT_EQ(gpu["numa_node"], 0);
}

TEST_F(Info, PairsOfGpusThatAreNotAlikeAreATable) {
  Facts facts = TwoGpus();
  facts.cuda->gpus.push_back(H100("0000:2a:00.0"));
  facts.pci_links.emplace_back();
  const cuda::PeerAccess none, pci{.possible = true, .rank = 1};
  facts.cuda->peers[0].push_back(pci);
  facts.cuda->peers[1].push_back(none);
  facts.cuda->peers.push_back({pci, none, {}});
  EXPECT_THAT(InfoText(facts), HasSubstr("peer access                  0        1        2\n"
                                         "               GPU 0         -  atomics   access\n"
                                         "               GPU 1   atomics        -     none\n"
                                         "               GPU 2    access     none        -\n"));
  facts.cuda->peers = {{{}, none, none}, {none, {}, none}, {none, none, {}}};
  EXPECT_THAT(InfoText(facts), HasSubstr("peer access    between no two GPUs: copies pass through the host\n"));
}

TEST_F(Info, WithoutAUsableGpuTheRuntimesOwnErrorIsThere) {
  Facts facts = TwoGpus();
  facts.cuda->gpus.clear();
  facts.cuda->peers.clear();
  facts.pci_links.clear();
  facts.cuda->supported = facts.cuda->nccl = facts.host.nvidia_driver = "";
  facts.cuda->no_nccl = "NCCL cannot be loaded";
  facts.cuda->status = absl::UnavailableError("cudaGetDeviceCount(&count): driver too old");
  const std::string text = InfoText(facts);
  EXPECT_THAT(text, HasSubstr("CUDA           runtime 13.0, NVIDIA driver not found\n"
                              "               cuDNN 9.19.0, cuBLAS 13.1.0, no NCCL: NCCL cannot be loaded\n"
                              "               no usable GPU: cudaGetDeviceCount(&count): driver too old\n"
                              "profile"));
  EXPECT_THAT(text, Not(HasSubstr("peer access")));
  EXPECT_EQ(InfoJson(facts)["cuda"]["error"], "cudaGetDeviceCount(&count): driver too old");
  facts.cuda = absl::UnavailableError("no module");
  EXPECT_THAT(InfoText(facts), HasSubstr("CUDA           none: no module\n"));
  EXPECT_EQ(InfoJson(facts)["cuda"]["error"], "no module");
}

}  // namespace
}  // namespace colonnade::cli
