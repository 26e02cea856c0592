// One task of one device: what it does, what it touches, how much work it is, and what it waits for.
//
// `uses` is the only statement of data access; every ordering is derived from it (dag.h). `waits` are written by the
// last lowering pass alone (partition/lowering/assign_waits.cc).
#ifndef COLONNADE_PROGRAM_TASK_H_
#define COLONNADE_PROGRAM_TASK_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "absl/container/inlined_vector.h"
#include "program/op.h"
#include "program/types.h"

namespace colonnade::program {

enum class Access { kRead, kWrite, kAccumulate };  // kAccumulate reads and writes
inline bool Reads(Access access) { return access != Access::kWrite; }
inline bool Writes(Access access) { return access != Access::kRead; }

// A box, in the logical coordinates of `buffer`, that a task touches. For a bucket the coordinates are its parts.
struct BufferUse {
  BufferUse() = default;
  BufferUse(BufferId of, Region box, Access how = Access::kRead) : buffer(of), access(how), region(std::move(box)) {}

  BufferId buffer;
  Access access = Access::kRead;  // placed after the id to fill padding: a Program may have millions of uses
  Region region;
  bool operator==(const BufferUse&) const = default;
};

// What a task costs, from shapes alone; never measured. bytes_sent is what leaves this device.
struct Work {
  int64_t flops = 0, bytes_read = 0, bytes_written = 0, bytes_sent = 0;
  int64_t bytes_moved() const { return bytes_read + bytes_written; }
  bool operator==(const Work&) const = default;
};

// An in-order queue of a device: a CUDA stream, a CPU worker, a resource of the simulator. On kLoad run Loads into buffers
// of two slots and nothing else, so that it may be ahead of the others by what two slots allow.
enum class Lane { kCompute = 0, kComm = 1, kCopy = 2, kLoad = 3 };
inline constexpr int kLaneCount = 4;

enum class Pass { kInput, kForward, kBackward, kUpdate, kOutput };

// Where a task comes from: for messages, traces and reports.
struct Provenance {
  std::string layer;  // a layer's name, or that of a bucket of gradients or statistics
  Pass pass = Pass::kForward;
  bool operator==(const Provenance&) const = default;
};

struct Compute {
  Op op;
  bool operator==(const Compute&) const = default;
};

// One side of a transfer between two devices. Uses: the box that is sent (read), then the box that is received (write);
// one of them may be absent, as `sends` and `receives` say. Both sides carry the same `message`, start together and end
// together. Sent and received boxes match in extents and element type; layouts may differ.
struct Exchange {
  int32_t message = 0;
  int peer = 0;
  bool sends = false, receives = false;
  bool operator==(const Exchange&) const = default;
};

// One member's part in a collective over Program::groups[group]; all members carry the same `instance` and start together.
// Member m is the m-th device of the group, M their number; sums are taken in member order.
enum class CollectiveKind {
  kAllGather,      // x → y: y is the members' x side by side along dim_to
  kReduceScatter,  // x → y: y is part m of Σ x along dim_to
  kAllReduce,      // x (accumulated): x = Σ x
  kAllToAll,   // x → y: x is cut along dim_from into M parts, part j goes to member j; y joins the received along dim_to
  kReduce,     // x: at the root accumulated to Σ x, elsewhere read
  kBroadcast,  // x: at the root read, elsewhere written
};
// All kinds.
inline constexpr CollectiveKind kCollectiveKinds[] = {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
                                                      CollectiveKind::kAllReduce, CollectiveKind::kAllToAll,
                                                      CollectiveKind::kReduce,    CollectiveKind::kBroadcast};
struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int32_t instance = 0;
  int32_t group = 0;
  int dim_from = 0, dim_to = 0;  // dimensions, where the kind has them
  int root = 0;                  // member index, for kReduce and kBroadcast
  bool operator==(const Collective&) const = default;
};

struct Task {
  TaskId id;
  int device = 0;
  Lane lane = Lane::kCompute;
  std::variant<Compute, Exchange, Collective> body;
  absl::InlinedVector<BufferUse, 4> uses;
  Work work;
  Provenance provenance;
  absl::InlinedVector<TaskId, 4> waits;           // tasks of other lanes of this device, in this step
  absl::InlinedVector<TaskId, 2> waits_previous;  // tasks of other lanes of this device, in the step before
  bool operator==(const Task&) const = default;
};

const char* Name(Lane lane);
const char* Name(Pass pass);
const char* Name(CollectiveKind kind);
const char* Name(Access access);
std::string Name(const Task& task);      // "conv_forward", "exchange", "all_gather": the word of what it does
std::string Describe(const Task& task);  // "task 17 (conv_forward of conv1, device 0)", for messages

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_TASK_H_
