// `colonnade info`: the facts of this build and this machine that a bug report needs, as text for a terminal and as JSON.
#ifndef COLONNADE_CLI_INFO_H_
#define COLONNADE_CLI_INFO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/build_facts.h"
#include "cpu/about.h"
#include "cuda/about.h"
#include "nlohmann/json.hpp"
#include "tools/machines.h"

namespace colonnade::cli {

struct HostFacts {
  std::string system, kernel, architecture, libc;  // "Debian GNU/Linux 12 (bookworm)", "Linux 6.1.0", "x86_64", "glibc 2.36"
  int64_t memory_bytes = 0;
  std::optional<int64_t> available_bytes;
  std::string processor;                      // empty: the system does not say
  std::vector<std::string> instruction_sets;  // of those that kernels are written for, as /proc/cpuinfo names them
  int cores = 0;                              // of the machine
  std::vector<int> affinity;                  // cores that the process may use
  std::optional<double> granted_cores;        // cores' worth of time that control groups grant; none: no limit
  int usable_cores = 0;                       // what all of that comes to
  std::string nvidia_driver;                  // empty: not loaded
  std::vector<std::pair<std::string, std::string>> environment;  // what changes threads, kernels or GPUs
};

// The slot of a GPU, as far as the system says; idle GPUs may run their link slower than it can be.
struct PciLink {
  std::string speed, most_speed;  // "32.0 GT/s PCIe"
  std::optional<int> width, most_width;
  std::optional<int> numa_node;
};

// A profile that --machine=local reads for steps of some kernels.
struct ProfileFacts {
  tools::KernelChoice of;
  std::string path;
  std::optional<absl::Duration> age;  // none: there is no such file
  std::string description;
  absl::Status status;  // of reading it
};

struct Facts {
  BuildFacts build;
  HostFacts host;
  cpu::OneDnn onednn;
  absl::StatusOr<cuda::CudaFacts> cuda;
  std::vector<PciLink> pci_links;      // of each GPU
  std::vector<ProfileFacts> profiles;  // first the one for the usual kernels
};

// The files of the system lie under `root`.
HostFacts ReadHost(const std::string& root = "");
PciLink ReadPciLink(const std::string& pci, const std::string& root = "");
ProfileFacts ReadProfile(const tools::KernelChoice& of, absl::Time now);
Facts ReadFacts();

// Lines of a name and a fact, no wider than 80 columns unless a word is.
std::string InfoText(const Facts& facts);
nlohmann::ordered_json InfoJson(const Facts& facts);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_INFO_H_
