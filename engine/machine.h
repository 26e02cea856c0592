// A machine profile: what the simulator must know of a machine, every number with where it comes from.
//
// File form (version 1). A number is {"value": 5.8e9, "from": "published", "source": "where", "within": 1.2}; `from` is
// spec, measured, published, fitted or guess; `within` says that it is right within this factor. Unknown fields are errors.
// docs/simulator.md describes each field.
#ifndef COLONNADE_ENGINE_MACHINE_H_
#define COLONNADE_ENGINE_MACHINE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/precision.h"
#include "program/task.h"

namespace colonnade::engine {

class JsonFields;

// kFitted: chosen so that the simulator reproduces a measured step. kMeasured of an OpRate says that its rate holds all that
// the op takes, its memory traffic included.
enum class Origin { kSpec, kMeasured, kPublished, kFitted, kGuess };
inline constexpr const char* kOriginNames[] = {"spec", "measured", "published", "fitted", "guess"};
const char* Name(Origin origin);

struct Quantity {
  double value = 0;
  Origin origin = Origin::kGuess;
  std::string source;
  double within = 0;  // the true value lies from value / within to value · within; 0: not stated (engine/uncertainty.h)
};

// The local shape of an op, as far as its speed depends on it. Convolution: n images, c input channels and k filters of one
// group, r×s filter, p output rows, groups. Matrix product: n rows, c inputs, k outputs. All else: n images, c channels, p
// rows.
struct OpShape {
  double n = 1, c = 1, k = 1, r = 1, p = 1, groups = 1;
};

// The name of the entry for all ops that have none of their own.
inline constexpr char kAllOtherOps[] = "*";

// How fast one kind of op runs: measured or published points, between which the logarithm of the rate is interpolated.
struct OpRate {
  enum class Unit { kFlops, kBytes };  // per second: of the op's flops, or of the bytes that it reads and writes
  struct Point {
    OpShape shape;
    int devices = 0;  // measured with so many devices at work; 0: any
    double rate = 0;
  };
  std::string op;  // program::Name(op), or kAllOtherOps
  Unit unit = Unit::kFlops;
  std::vector<Point> points;                           // at least one
  std::vector<std::pair<double, double>> batch_curve;  // (local n from 1, factor on the rate), by n; empty: 1
  Origin origin = Origin::kGuess;
  std::string source;
  double within = 0;              // of the rates of all points together; 0: not stated
  double batch_curve_within = 0;  // of the factors below 1 of the curve; 0: they are certain
};

// A connection between two nodes of the link graph. With full duplex each direction has the rate for itself.
struct Link {
  std::string a, b;
  Quantity bytes_per_sec;
  Quantity latency_sec;
  Quantity one_transfer_bytes_per_sec;          // the most that one transfer gets; 0: all
  enum class Duplex { kFull, kHalf, kOneWay };  // one-way: a to b
  Duplex duplex = Duplex::kFull;
};

// The seconds that a transfer between `members` devices took, by the bytes of one member's operand. They stand instead of
// what the links say.
struct MeasuredTransfer {
  std::string operation;  // "exchange" or a collective's name
  int members = 2;
  std::vector<std::pair<double, double>> points;  // (bytes above 0, seconds), by bytes; at least one
  Origin origin = Origin::kMeasured;
  std::string source;
  double within = 0;  // of all seconds together; 0: not stated
};

// kFastest takes the quickest of ring, tree and direct for the bytes at hand, as libraries choose; direct, in which each
// member sends to every other, only for up to kMostMembersOfDirect members.
inline constexpr size_t kMostMembersOfDirect = 16;
// kServer: a node of the link graph adds, and sends the sum to all: a process on the CPU, or a switch.
enum class CollectiveAlgorithm { kRing, kTree, kDirect, kMaster, kServer, kFastest };
inline constexpr const char* kAlgorithmNames[] = {"ring", "tree", "direct", "master", "server", "fastest"};
const char* Name(CollectiveAlgorithm algorithm);

// A step of a network on one device that somebody measured, to which a profile was fitted.
struct FittedStep {
  std::string model;  // empty: the profile was fitted to nothing
  int64_t batch = 0;  // 0: not stated, so that the fit cannot be repeated
  double step_sec = 0;
  bool has_f32_pixels = false;  // its images came from the host in f32, else as bytes
};

// A device that computes slower than the profile says.
struct SlowerDevice {
  std::string device;
  double factor = 1;  // times as long, launches included
  Origin origin = Origin::kGuess;
  std::string source;
};

// Kernels of CPU devices: names of --kernels.
inline constexpr const char* kTimedKernels[] = {"onednn", "winograd"};

struct Machine {
  std::string name, description;
  std::string file{};       // the one that it was read from; empty where the name says which profile it is
  std::string precision{};  // of the kernels whose rates it states, one of kPrecisions; empty: not stated
  std::string kernels{};    // the kernels whose rates it states, one of kTimedKernels; empty: not stated
  // Values that hold for each device; all devices are alike but for `slower`.
  std::vector<std::string> devices;  // names of nodes of the link graph; Program device d runs on devices[d]
  std::vector<SlowerDevice> slower;
  Quantity memory_bytes;
  Quantity flops_per_sec;                // peak in fp32
  Quantity memory_bytes_per_sec;         // achieved by one device at work
  Quantity peak_memory_bytes_per_sec;    // what it cannot exceed, by its data sheet; 0: unknown
  Quantity shared_memory_bytes_per_sec;  // by all together; 0: each has its own
  Quantity launch_sec;                   // added to each task
  Quantity handoff_sec;                  // extra launch delay when a task's lane was idle and it waited for another lane
  // At least 0: the slower of two devices takes (1 + skew) times as long as one on the average, and devices that meet wait
  // for it; of more devices, see cost_model.h.
  Quantity skew;
  // At least 0: compute, launches included, takes (1 + overlap_slowdown) times as long beside a transfer of its device.
  Quantity overlap_slowdown;
  std::vector<OpRate> ops;
  // Between devices.
  std::vector<Link> links;
  bool peer_access = true;  // false: transfers are staged through the node "host", one half after the other
  std::vector<std::pair<std::string, std::string>> staged;  // pairs without peer access
  Quantity staging_piece_bytes;  // > 0: the second half of a staged transfer follows the first by a piece
  int copy_engines = 0;          // of each device, one copy at a time each: 1, or 2 (one sends, one receives); 0: kernels
                                 // or threads copy, any number at once
  CollectiveAlgorithm collectives = CollectiveAlgorithm::kRing;
  Quantity switch_bytes_per_sec;  // rate to and from each device where a switch adds (NVLink SHARP); 0: no switch adds
  std::string server = "host";    // the node that adds where collectives are kServer
  Quantity server_bytes_per_sec;  // rate at which it adds what all devices send; 0: as fast as it comes
  std::vector<MeasuredTransfer> transfers;
  Quantity cores;  // > 0: devices are threads on so many cores, which transfers take too
  // Time of the host in each step.
  Quantity step_sec;                  // fixed, whatever the plan
  Quantity step_sec_per_device;       // added by each device
  Quantity step_sec_per_image;        // added by each image of the batch
  Quantity step_sec_per_task;         // added by each task, which the host launches
  int devices_per_host = 0;           // how many one host drives; 0: all
  Quantity input_images_per_sec;      // rate at which all hosts together read, decode and augment; 0: no limit
  FittedStep fitted_to;               // what step_sec was fitted to; for other networks it is wrong
  std::vector<std::string> timed;     // networks at whose shapes alone the rates were measured; empty: no matter which
  int steps_in_flight = 2;            // 1: the host's part is not hidden behind the devices'
  std::vector<std::string> warnings;  // made by reading: what is surprising but possible

  int device_count() const { return static_cast<int>(devices.size()); }
  // Returns how many times as long each device computes.
  std::vector<double> Slowness() const;
  // Returns the name with the file behind it, since an edited copy of a profile keeps its name.
  std::string Title() const { return file.empty() ? name : name + " (" + file + ")"; }
};

// Reads a profile. InvalidArgument, with field, expected and found, for unknown fields and names, numbers without origin or
// beyond what any machine could have, fractions of what is counted, two values for one point, a memory faster than its peak,
// links to unknown nodes, devices that no path connects.
absl::StatusOr<Machine> MachineFromJson(absl::string_view json);
// Returns a profile as MachineFromJson reads it; devices and links that were given once for many are written one by one.
std::string MachineToJson(const Machine& machine);

// Returns what `ops` and `transfers` of a profile may name.
const std::vector<std::string>& OpNames();
const std::vector<std::string>& ProfiledTransferNames();

// Reads the field `pixels`, where it is there: what the host sends of images, "uint8" or "fp32".
void ReadPixelType(JsonFields& fields, bool& is_f32);

// Lowers rates to the most that a profile may state, since a clock too coarse for what it times measures infinite ones.
void LimitRates(Machine& machine);

// Returns InvalidArgument, with the field, where a step could not be simulated: a rate of compute, of memory, of an op, of a
// link that is not above 0, a time below 0, a number that is not finite, a count out of its range. MachineFromJson is
// stricter; this is for machines that are made in C++.
absl::Status CheckNumbers(const Machine& machine);

// Returns InvalidArgument where memory is faster than its peak.
absl::Status CheckMemoryPeak(const Machine& machine);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_MACHINE_H_
