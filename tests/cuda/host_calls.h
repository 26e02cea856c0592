// The CUDA backend's thin layer on the host, for machines without a GPU: calls run in the order in which they are enqueued.
//
// Our own kernels run as they are, thread by thread; convolutions and products as plain loops in double. Each "GPU" is
// memory of the host; GPUs reach each other or not, as one asks. Every command is noted, so that tests can run them again in
// any order that streams and events allow.
#ifndef COLONNADE_TESTS_CUDA_HOST_CALLS_H_
#define COLONNADE_TESTS_CUDA_HOST_CALLS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda/calls.h"

namespace colonnade::cuda {

struct HostCallsOptions {
  int gpus = 1;
  bool reach = true;    // between different GPUs
  bool unlike = false;  // GPUs are of different models
  bool nccl = false;
  bool captures = true;                                               // false: no capture can be made into a graph
  int fail_capture_at = -1;                                           // the capture that cannot, counted from 0; −1: none
  absl::StatusCode capture_fault = absl::StatusCode::kUnimplemented;  // of one that cannot
  bool fuses = true;                                                  // convolutions and products with what follows them
  bool has_memory = true;       // false: addresses without memory, and calls are noted but not run
  int fail_at = -1;             // the call that fails, counted from 0; −1: none
  int fail_allocation_at = -1;  // likewise
  int hang_from = -1;           // the wait from which on none ends, counted from 0; −1: none
  bool pins = true;             // the host's memory
};

// What was enqueued on a stream, in the host's order.
struct Noted {
  enum class Kind { kRecord, kWait, kCall };
  Kind kind = Kind::kCall;
  int stream = 0;     // by creation
  int event = 0;      // kRecord, kWait: by creation
  std::string range;  // kCall: what it is part of
  int group = -1;     // kCall: of a collective of NCCL, whose calls start together
};

class HostCalls : public Calls {
 public:
  explicit HostCalls(const HostCallsOptions& options = {}) : options_(options) {}
  ~HostCalls() override;

  int gpu_count() const override { return options_.gpus; }
  std::string GpuName(int gpu) const override { return options_.unlike ? "host " + std::to_string(gpu) : "host"; }
  int64_t GpuMemoryBytes(int) const override { return int64_t{1} << 30; }
  bool CanReach(int gpu, int other) const override { return gpu == other || options_.reach; }
  absl::Status HasNccl() const override {
    return options_.nccl ? absl::OkStatus() : absl::UnavailableError("NCCL cannot be loaded (none on the host)");
  }
  absl::StatusOr<void*> Allocate(int gpu, int64_t bytes) override;
  void Free(int gpu, void* data) override;
  absl::StatusOr<bool> Register(void*, int64_t) override { return options_.pins; }
  void Unregister(void*) override {}
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override;
  void FreeHost(void* host) override;
  absl::StatusOr<Stream> MakeStream(int gpu, bool goes_first) override;
  absl::StatusOr<Event> MakeEvent(int gpu, bool timed) override;
  void Destroy(const Stream&) override {}
  void Destroy(int, Event) override { --events_alive_; }
  absl::Status Record(Event event, const Stream& stream) override;
  absl::Status Wait(const Stream& stream, Event event) override;
  absl::Status Enqueue(const Stream& stream, const Call& call) override;
  absl::Status BeginGroup() override;
  absl::Status EndGroup() override;
  absl::StatusOr<int> MakeCommunicator(absl::Span<const int> gpus) override;
  absl::Status BeginCapture(const Stream& stream) override;
  absl::StatusOr<Graph> EndCapture(const Stream& stream) override;
  absl::Status Launch(Graph graph, const Stream& stream) override;
  void Destroy(Graph) override { --graphs_alive_; }
  void BeginRange(const std::string& name) override { range_ = name; }
  void EndRange() override { range_.clear(); }
  absl::Status Synchronize(Event event) override;
  absl::StatusOr<double> SecondsBetween(Event, Event) override { return 0.0; }
  absl::StatusOr<int64_t> Prepare(int gpu, Call& call) override;

  bool convolutions_are_deterministic() const { return convolutions_are_deterministic_; }  // all that were prepared
  const std::vector<Noted>& noted() const { return noted_; }
  int stream_count() const { return stream_count_; }
  const std::vector<bool>& goes_first() const { return goes_first_; }  // by stream that was made
  int64_t allocated_bytes() const { return allocated_bytes_; }
  int allocations() const { return allocations_; }  // of GPUs' memory, freed or not
  int events_alive() const { return events_alive_; }
  int graphs_alive() const { return graphs_alive_; }
  int64_t graph_launches() const { return graph_launches_; }
  int64_t rank_calls() const { return rank_calls_; }
  // The last command that the host has waited for; −1: none.
  int64_t waited_for() const { return waited_for_; }
  int waits() const { return waits_; }  // of the host, so far

 private:
  static int Number(const void* handle) { return static_cast<int>(reinterpret_cast<intptr_t>(handle)); }
  // Kernels of a GPU that does not reach another must not touch its memory; copies of bytes may.
  absl::Status CheckReach(int gpu, const void* data) const;
  int GpuWith(const void* data) const;  // −1: the host's

  struct Block {
    char* begin = nullptr;
    int64_t bytes = 0;
    int gpu = 0;
  };
  // The calls of all ranks of a communicator, by rank.
  absl::Status RunRanks(const std::vector<RankCall>& ranks) const;

  HostCallsOptions options_;
  std::vector<std::vector<int>> communicators_;     // the GPU of each rank
  std::vector<std::pair<int, RankCall>> in_group_;  // with the GPU on which it was enqueued
  int group_count_ = 0;
  bool in_group_now_ = false;
  int64_t rank_calls_ = 0, waited_for_ = -1;
  std::vector<Block> blocks_;
  std::vector<Noted> noted_;
  std::string range_;
  // A command of a capture: what was noted, and the call.
  struct Captured {
    Noted noted;
    std::optional<Call> call;
    int gpu = 0;
  };
  void Add(const Noted& noted, const Call* call, int gpu);
  absl::Status RunNow(int gpu, const Call& call);

  std::optional<std::vector<Captured>> capture_;  // while there is one
  std::set<int> in_captures_;                     // events that were last recorded in a capture
  int capture_stream_ = 0;
  std::vector<std::vector<Captured>> graphs_;
  int graphs_alive_ = 0;
  int64_t graph_launches_ = 0;
  std::map<int, int> gpu_of_event_;
  std::vector<bool> goes_first_;
  bool convolutions_are_deterministic_ = true;
  int stream_count_ = 0, event_count_ = 0, events_alive_ = 0;
  int calls_ = 0, allocations_ = 0, capture_count_ = 0, waits_ = 0;
  int64_t allocated_bytes_ = 0;
  char* next_address_ = nullptr;  // without memory
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_TESTS_CUDA_HOST_CALLS_H_
