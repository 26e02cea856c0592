// The Program: the explicit tasks of each device of one training or evaluation step, with buffers and their uses.
//
// It is the one waist of Colonnade: lowering makes it, and executor, simulator and printer read it. It knows nothing of the
// graph, the plan, times or physical layouts. It is a loop body: step t+1 runs the same tasks on the same buffers.
//
// Invariants (Verify in verify.h checks them):
//  1. tasks[i].id == i. The subsequence of one device and lane is the order in which that lane runs; the subsequence of one
//     device has the meaning of the step run one task after the other.
//  2. A task uses buffers of its own device only; data moves between devices in exchanges and collectives alone.
//  3. What the host gives is in buffers of two slots (Buffer::slots), as the host's own memory is.
//  4. Persistent buffers outlive the step. Their tensors, which are roots and members of buckets, are matched between
//     Programs by (device, name), whatever buckets they lie in.
#ifndef COLONNADE_PROGRAM_PROGRAM_H_
#define COLONNADE_PROGRAM_PROGRAM_H_

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "program/task.h"
#include "program/types.h"

namespace colonnade::program {

// How a buffer gets its bytes.
struct Root {  // memory of its own
  bool operator==(const Root&) const = default;
};
// Tensors packed one after the other in the backend's own layout, padding included, and cut into `parts` ranges of bytes, of
// which this device holds [first_part, first_part + held_parts). Its shape is {parts}; a use's region counts parts. A
// sharded optimiser holds one part only.
// With equal_parts the last tensor is padded until the ranges are equal, as joining them into a whole requires. Without, the
// ranges are as equal as the backend's alignment allows, and nothing is behind the last tensor, if no range would be empty:
// tensors of several such buckets could lie in one.
struct Bucket {
  std::vector<BufferId> members;
  int64_t parts = 1, first_part = 0, held_parts = 1;
  bool equal_parts = false;
  bool operator==(const Bucket&) const = default;
};
struct BucketMember {  // the index-th tensor of `bucket`
  BufferId bucket;
  int index = 0;
  bool operator==(const BucketMember&) const = default;
};

enum class Lifetime { kStep, kPersistent };

struct Buffer {
  BufferId id;
  int device = 0;
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  Lifetime lifetime = Lifetime::kStep;
  // 2: a root that Loads on lane kLoad fill. Step s uses copy s % 2 of it, so that the next step's copy may be filled
  // meanwhile. A step with such buffers begins when the step two before has ended: the host fills its memory no sooner.
  int slots = 1;
  std::variant<Root, Bucket, BucketMember> storage;
  BufferId layout_as;  // buffers that name the same one share a physical layout (weight, gradient, momentum); own id alone
  bool operator==(const Buffer&) const = default;
};

// The box of a global tensor that one buffer holds.
struct Piece {
  BufferId buffer;
  Region region;
  bool operator==(const Piece&) const = default;
};

// Returns the index of the piece that `buffer` holds; −1 if it holds none of them.
int FindPiece(const std::vector<Piece>& pieces, BufferId buffer);

struct Initializer {
  enum class Kind { kConstant, kGaussian, kUniform };
  Kind kind = Kind::kConstant;
  double value = 0;  // the constant, the standard deviation, or the bound of [−value, value)
  bool operator==(const Initializer&) const = default;
};

// The role in training of a tensor that outlives the steps.
enum class StateRole {
  kTrained,    // has a gradient and is updated
  kStatistic,  // written by training, read by evaluation: a running mean
  kFrozen,     // a parameter that this run does not train
};

// The tensors that are kept of a parameter: its value, what the optimiser keeps beside it (optimizer.h), and a moving
// average of it.
enum class StateKind { kValue, kMomentum, kSecondMoment, kAverage };
inline constexpr StateKind kStateKinds[] = {StateKind::kValue, StateKind::kMomentum, StateKind::kSecondMoment,
                                            StateKind::kAverage};
inline constexpr size_t kStateKindCount = std::size(kStateKinds);
const char* Name(StateKind kind);  // "momentum": the word in the Program text and in checkpoints

// A tensor of the network that outlives the steps. Those that are trained come first.
struct Parameter {
  std::string name;
  std::string layer;
  StateRole role = StateRole::kTrained;
  Shape shape;  // global
  Initializer initializer;
  // By StateKind; replicas repeat a region. A statistic has a value alone, and so has everything in an evaluation Program. A
  // piece in a sharded bucket of what the optimiser keeps holds only the device's byte range of it.
  std::array<std::vector<Piece>, kStateKindCount> state;

  std::vector<Piece>& pieces(StateKind kind) { return state[static_cast<size_t>(kind)]; }
  const std::vector<Piece>& pieces(StateKind kind) const { return state[static_cast<size_t>(kind)]; }
  std::vector<Piece>& value() { return pieces(StateKind::kValue); }
  const std::vector<Piece>& value() const { return pieces(StateKind::kValue); }
  bool operator==(const Parameter&) const = default;
};

// The first inputs of a Program that lowering makes: images (u8 [N,…,C], which Normalise makes [N,C,…] of, or f32 [N,C,…]),
// labels (i32 [N], −1 for padding) and the step scalars (f64, StepScalar).
struct HostInput {
  enum Index : int { kImages, kLabels, kScalars };
};
inline constexpr const char* kHostInputNames[] = {"images", "labels", "scalars"};

// A global tensor that the host provides before each step, cut into pieces that Load tasks copy in.
struct Input {
  std::string name;
  DType host_dtype = DType::kF32;
  Shape shape;
  std::vector<Piece> pieces;
  bool operator==(const Input&) const = default;
};

// A result that Store tasks copy out each step. kMetrics: of one loss, over the batch, f64 [Metric::kCount], from one
// device; the loss of a step is the sum over all of them, hits and labels are those of the last. kFinite: each piece is one
// device's flags, i32 [number of trained parameters], 1 where its gradient of that parameter is finite. kGate: what the
// updates of all devices obeyed, Gate, f64 [Gate::kCount], from one device. kGradient, kActivation: a global tensor, `name`
// names the parameter, or the layer that makes it.
struct Output {
  enum class Kind { kMetrics, kFinite, kGate, kGradient, kActivation };
  Kind kind = Kind::kMetrics;
  std::string name;
  std::string layer;
  Shape shape;
  std::vector<Piece> pieces;
  bool operator==(const Output&) const = default;
};

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis&) const = default;
};
// Returns the number of devices of a mesh with these axes; nothing where it is not from 1 to kMostDevices.
std::optional<int> DeviceCount(absl::Span<const MeshAxis> mesh);

enum class Mode { kTrain, kEval };

struct Program {
  std::string model;
  Mode mode = Mode::kTrain;
  int64_t global_batch = 0;
  DType dtype = DType::kF32;  // of activations; parameters are of its MasterType
  std::vector<MeshAxis> mesh;
  int device_count = 1;

  std::vector<Buffer> buffers;
  std::vector<std::vector<int>> groups;  // devices of each collective group, in member order
  std::vector<Task> tasks;
  std::vector<Parameter> parameters;
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  const Buffer& buffer(BufferId id) const { return buffers[id.value]; }
  Buffer& buffer(BufferId id) { return buffers[id.value]; }
  const Task& task(TaskId id) const { return tasks[id.value]; }
  bool operator==(const Program&) const = default;
};

// Whether a buffer has memory of its own: it is a root or a bucket.
bool HasMemory(const Buffer& buffer);

// Returns the buffer that holds the memory of `id`: itself, or the bucket of which it is a member.
BufferId RootOf(const Program& program, BufferId id);

// Whether a task uses a buffer of two slots, of which odd and even steps use different ones.
bool UsesSlots(const Program& program, const Task& task);

// Whether a buffer is a member of a bucket of which its device holds only some parts.
bool IsPartlyHeld(const Program& program, BufferId id);

// Returns how many parameters are trained.
int TrainedCount(const Program& program);

// Returns the tasks of `device` on `lane`, in the order in which they run.
std::vector<TaskId> LaneOrder(const Program& program, int device, Lane lane);
// Returns, by task, the task before it on its lane; an invalid id for the first of a lane.
std::vector<TaskId> PreviousInLane(const Program& program);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_PROGRAM_H_
