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
#include "tools/host_memory.h"

namespace colonnade::tools {

// exchange and channel_slice (between two), all_gather, reduce_scatter, all_reduce.
const std::vector<std::string>& MeasurableTransferNames();
bool IsBetweenTwo(const std::string& transfer);

struct TransferTime {
  std::string operation;
  int members = 2;
  double bytes = 0;  // of one member's operand
  double seconds = 0;
};

using BackendMaker = std::function<absl::StatusOr<std::unique_ptr<engine::Backend>>(int devices)>;
absl::StatusOr<std::unique_ptr<engine::Backend>> CpuDevices(int devices);  // of one thread each

// What is moved: `bytes` from or to each of `members` devices, or, of an exchange, between the devices `from` and `to` of
// them; with `one_way` from the first to the second alone.
struct TransferCase {
  std::string operation;
  int members = 2;
  // Of one member's operand, rounded down to elements of fp32 that the members can share, or to whole slices of an image,
  // of 8 KiB each; at least one.
  int64_t bytes = 0;
  int from = 0, to = 1;
  bool one_way = false;
};

// Returns `bytes` of a transfer as rounded.
int64_t RoundedBytes(const TransferCase& transfer);

struct TransferOptions {
  int checks = 1;  // runs before those that are timed, each of other data
  int warm_ups = 1, repeats = 5;
};

struct TransferRun {
  int64_t bytes = 0;            // as rounded
  std::vector<double> seconds;  // of each repeat, from when all sides were there
  int64_t wrong = 0;            // elements that were not what they must be, in all checks
  std::string first_wrong;      // where, what was expected and found; empty if none was

  double Mean() const;
  double Quantile(double fraction) const;  // of the repeats, linear between two of them
};

// Runs a Program that does this and nothing else. Before each check the operands get a pattern of the element, the device
// and the check, and the results something that no transfer brings, so that data which did not arrive, or which
// arrived at another place, are seen. `make_backend` makes one that times tasks. FailedPrecondition for a name that is not
// one of MeasurableTransferNames().
absl::StatusOr<TransferRun> RunTransfer(const TransferCase& transfer, const TransferOptions& options,
                                        const BackendMaker& make_backend = CpuDevices);

// Returns ResourceExhausted where CPU devices of `transfer` need more memory than this machine has free.
absl::Status CheckHostMemory(const TransferCase& transfer, int64_t available = AvailableMemory());

// Returns the median of `repeats`; Internal where a result is wrong.
absl::StatusOr<TransferTime> MeasureTransfer(const std::string& what, int members, int64_t bytes, int repeats,
                                             const BackendMaker& make_backend = CpuDevices);

// Return the size and the factor of bus bandwidth as nccl-tests defines them. The size is the bytes of a member's operand,
// of an all-gather those of all members together; algbw is that divided by the time. busbw is algbw times 2(n−1)/n for an
// all-reduce, (n−1)/n for the other collectives, 1 for an exchange.
int64_t SizeOf(const TransferCase& transfer, int64_t bytes);
double BusFactor(const std::string& what, int members);

// Returns what `colonnade bench transfers --json` has printed. InvalidArgument naming the entry and the field where
// something else is there, or a result was wrong.
absl::StatusOr<std::vector<TransferTime>> ReadTransfers(absl::string_view json);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_TRANSFERS_H_
