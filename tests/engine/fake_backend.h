// A backend that computes what a test tells it to, and writes down each call that it gets.
//
// Launch and Await only queue; tasks run in the order of their launch when Synchronize asks for their step. So a test sees
// what an executor may rely on before that: nothing.
#ifndef COLONNADE_TESTS_ENGINE_FAKE_BACKEND_H_
#define COLONNADE_TESTS_ENGINE_FAKE_BACKEND_H_

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/backend.h"
#include "engine/box_runs.h"

namespace colonnade::engine {

class FakeLoaded : public LoadedProgram {
 public:
  // What a task that is neither Load nor Store does to `memory`.
  using Meaning = std::function<void(const program::Task& task, FakeLoaded& loaded)>;

  FakeLoaded(const program::Program& program, const HostSlot* slots, Meaning meaning)
      : LoadedProgram(program), slots_(slots), meaning_(std::move(meaning)) {
    for (const program::Buffer& buffer : program.buffers) memory.emplace_back(program::ElementCount(buffer.shape));
  }

  std::vector<std::vector<double>> memory;                      // by buffer
  std::map<program::BufferId, std::pair<size_t, size_t>> held;  // the range of elements that a buffer holds, if not all
  std::vector<std::string> calls;
  std::vector<size_t> fenced_at;          // how many calls came before each fence
  std::map<int64_t, absl::Status> fails;  // by step

  void Fence() override { fenced_at.push_back(calls.size()); }
  void LaunchInParts(int64_t step) override { calls.push_back(absl::StrFormat("step %d in parts", step)); }
  void Launch(program::TaskId task, int64_t step) override {
    calls.push_back(absl::StrFormat("launch %d of step %d", task.value, step));
    queue_.push_back({task, step});
  }
  void Await(int device, program::Lane lane, program::TaskId task, int64_t step) override {
    calls.push_back(absl::StrFormat("d%d %s awaits %d of step %d", device, program::Name(lane), task.value, step));
  }
  absl::Status Synchronize(int64_t step) override {
    calls.push_back(absl::StrFormat("synchronize %d", step));
    while (!queue_.empty() && queue_.front().second <= step) {
      Run(program_.task(queue_.front().first), slots_[queue_.front().second % 2]);
      queue_.erase(queue_.begin());
    }
    const auto fail = fails.find(step);
    return fail == fails.end() ? absl::OkStatus() : fail->second;
  }
  std::vector<TaskTime> Times(int64_t) const override { return std::vector<TaskTime>(program_.tasks.size()); }

  // Memory holds doubles, and what is read and written are f32 or f64.
  absl::Status ReadBytes(program::BufferId buffer, absl::Span<char> bytes) const override {
    return program_.buffer(buffer).dtype == program::DType::kF64 ? ReadAs<double>(buffer, bytes)
                                                                 : ReadAs<float>(buffer, bytes);
  }
  absl::Status WriteBytes(program::BufferId buffer, absl::Span<const char> bytes) override {
    return program_.buffer(buffer).dtype == program::DType::kF64 ? WriteAs<double>(buffer, bytes)
                                                                 : WriteAs<float>(buffer, bytes);
  }
  DeviceMemory Memory(int) const override { return {}; }
  const std::vector<AddedReorder>& added_reorders() const override { return added_reorders_; }

 private:
  template <class T>
  absl::Status ReadAs(program::BufferId buffer, absl::Span<char> bytes) const {
    if (bytes.size() != memory[buffer.value].size() * sizeof(T)) return absl::InternalError("wrong size");
    for (size_t i = 0; i < memory[buffer.value].size(); ++i) {
      const T value = static_cast<T>(memory[buffer.value][i]);
      if (Holds(buffer, i)) std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
    return absl::OkStatus();
  }
  template <class T>
  absl::Status WriteAs(program::BufferId buffer, absl::Span<const char> bytes) {
    if (bytes.size() != memory[buffer.value].size() * sizeof(T)) return absl::InternalError("wrong size");
    for (size_t i = 0; i < memory[buffer.value].size(); ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      if (Holds(buffer, i)) memory[buffer.value][i] = value;
    }
    return absl::OkStatus();
  }
  bool Holds(program::BufferId buffer, size_t element) const {
    const auto range = held.find(buffer);
    return range == held.end() || (element >= range->second.first && element < range->second.second);
  }

  void Run(const program::Task& task, const HostSlot& slot) {
    const program::Op& op = std::get<program::Compute>(task.body).op;
    if (const auto* load = std::get_if<program::Load>(&op)) return CopyIn(task, slot, load->input);
    if (const auto* store = std::get_if<program::Store>(&op)) return CopyOut(task, slot, store->output);
    meaning_(task, *this);
  }

  void CopyIn(const program::Task& task, const HostSlot& slot, int index) {
    const program::Input& input = program_.inputs[index];
    const void* data = slot.inputs[index];
    for (const program::Piece& piece : input.pieces) {
      if (piece.buffer != task.uses[0].buffer) continue;
      ForEachElement(input.shape, piece.region, [&](int64_t global, int64_t local) {
        double& to = memory[piece.buffer.value][local];
        if (input.host_dtype == program::DType::kF32) to = static_cast<const float*>(data)[global];
        if (input.host_dtype == program::DType::kI32) to = static_cast<const int32_t*>(data)[global];
        if (input.host_dtype == program::DType::kF64) to = static_cast<const double*>(data)[global];
      });
    }
  }

  void CopyOut(const program::Task& task, const HostSlot& slot, int index) {
    const program::Output& output = program_.outputs[index];
    for (size_t p = 0; p < output.pieces.size(); ++p) {
      const program::BufferId buffer = output.pieces[p].buffer;
      if (buffer != task.uses[0].buffer) continue;
      const std::vector<double>& values = memory[buffer.value];
      for (size_t i = 0; i < values.size(); ++i) {
        void* to = slot.outputs[index][p];
        if (program_.buffer(buffer).dtype == program::DType::kF32)
          static_cast<float*>(to)[i] = static_cast<float>(values[i]);
        if (program_.buffer(buffer).dtype == program::DType::kI32)
          static_cast<int32_t*>(to)[i] = static_cast<int32_t>(values[i]);
        if (program_.buffer(buffer).dtype == program::DType::kF64) static_cast<double*>(to)[i] = values[i];
      }
    }
  }

  const HostSlot* slots_;
  Meaning meaning_;
  std::vector<std::pair<program::TaskId, int64_t>> queue_;
  std::vector<AddedReorder> added_reorders_;
};

class FakeBackend : public Backend {
 public:
  explicit FakeBackend(int devices, FakeLoaded::Meaning meaning = nullptr)
      : devices_(devices), meaning_(std::move(meaning)) {}

  std::string name() const override { return "fake"; }
  int device_count() const override { return devices_; }
  absl::StatusOr<std::unique_ptr<LoadedProgram>> Load(const program::Program& program, const HostSlot (&slots)[2]) override {
    if (!refusal.ok()) return refusal;
    auto loaded = std::make_unique<FakeLoaded>(program, slots, meaning_);
    latest = loaded.get();
    return loaded;
  }

  absl::StatusOr<std::vector<DeviceMemory>> MemoryOf(const program::Program& program) override {
    return std::vector<DeviceMemory>(program.device_count);
  }

  int64_t TakenBytes(int) const override { return 0; }

  absl::Status refusal;
  FakeLoaded* latest = nullptr;  // of the latest Load

 private:
  const int devices_;
  FakeLoaded::Meaning meaning_;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_TESTS_ENGINE_FAKE_BACKEND_H_
