// Transfers between the devices of a backend, each alone: how long they take.
#ifndef COLONNADE_TOOLS_TRANSFERS_H_
#define COLONNADE_TOOLS_TRANSFERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/backend.h"

namespace colonnade::tools {

// exchange and channel_slice (between two), all_gather, reduce_scatter, all_reduce.
const std::vector<std::string>& TransferNames();

struct TransferTime {
  std::string what;
  int members = 2;
  double bytes = 0;  // of one member's operand
  double seconds = 0;
};

using BackendMaker = std::function<absl::StatusOr<std::unique_ptr<engine::Backend>>(int devices)>;
absl::StatusOr<std::unique_ptr<engine::Backend>> CpuDevices(int devices);  // of one thread each

// A Program that moves `bytes` from or to each of `members` devices once, and how long it took: the median of `repeats`,
// from when all sides were there. The result is compared with what it must be first; Internal where it is wrong.
// `make_backend` makes one that times tasks.
absl::StatusOr<TransferTime> MeasureTransfer(const std::string& what, int members, int64_t bytes, int repeats,
                                             const BackendMaker& make_backend = CpuDevices);

// What bench/transfers has printed with --benchmark_format=json or written with --benchmark_out. InvalidArgument naming the
// benchmark and the field where something else is there, or a benchmark has ended with an error.
absl::StatusOr<std::vector<TransferTime>> ReadTransfers(absl::string_view json);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_TRANSFERS_H_
