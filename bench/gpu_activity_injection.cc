// A library that records what GPUs do in any program, ours or not, and says so when the program ends:
//
//   CUDA_INJECTION64_PATH=$PWD/libcolonnade_gpu_activity.so COLONNADE_GPU_ACTIVITY=report.json PROGRAM …
//
// CUDA's driver loads the library that the first variable names, and calls InitializeInjection. The report, which
// gpu_activity.h describes, goes to the file that the second one names, else to stderr. Each kernel, copy and fill of a CUDA
// graph is recorded. Recording lengthens the gaps between kernels, so idle shares are upper bounds. Memory is device memory
// that was allocated by cudaMalloc and its like: without contexts and code.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "bench/gpu_activity.h"
#include "cupti.h"

namespace {

using colonnade::bench::ActivityLog;
using colonnade::bench::AllocationLog;

constexpr size_t kBufferBytes = size_t{8} << 20;

struct Recorder {
  std::mutex mutex;
  ActivityLog activities;
  AllocationLog allocations;
  uint64_t lost = 0;  // for which CUPTI had no room
  pid_t process = getpid();
};

// CUPTI's callbacks are given nothing of ours. Never freed: they may still come while destructors run.
Recorder* recorder = nullptr;

void Say(const char* what, CUptiResult result) {
  const char* text = nullptr;
  if (cuptiGetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "unknown error";
  std::fprintf(stderr, "gpu_activity: %s: %s\n", what, text);
}

void AddCopy(const CUpti_ActivityMemcpy6& copy) {
  const auto add = [&](const char* name, bool host_copy) {
    recorder->activities.Add(copy.deviceId, name, host_copy, copy.start, copy.end);
  };
  switch (copy.copyKind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return;  // no work of a GPU
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return add("copy from host", true);
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return add("copy to host", true);
    default:
      return add("copy on device", false);
  }
}

void AddMemory(const CUpti_ActivityMemory4& memory) {
  const bool is_device = memory.memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  if (memory.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION && is_device) {
    recorder->allocations.Allocate(memory.deviceId, memory.address, memory.bytes, memory.timestamp);
  } else if (memory.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE) {
    recorder->allocations.Release(memory.address, memory.timestamp);
  }
}

template <typename Record>
const Record& As(const CUpti_Activity* record) {
  return *reinterpret_cast<const Record*>(record);
}

void AddRecord(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = As<CUpti_ActivityKernel10>(record);
      const char* name = kernel.name == nullptr ? "(no name)" : kernel.name;
      recorder->activities.Add(kernel.deviceId, name, /*host_copy=*/false, kernel.start, kernel.end);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      AddCopy(As<CUpti_ActivityMemcpy6>(record));
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& copy = As<CUpti_ActivityMemcpyPtoP4>(record);
      recorder->activities.Add(copy.deviceId, "copy between devices", /*host_copy=*/false, copy.start, copy.end);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& fill = As<CUpti_ActivityMemset4>(record);
      recorder->activities.Add(fill.deviceId, "fill", /*host_copy=*/false, fill.start, fill.end);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      AddMemory(As<CUpti_ActivityMemory4>(record));
      break;
    default:
      break;
  }
}

void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::malloc(kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI TakeBuffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t valid_bytes) {
  const std::lock_guard lock(recorder->mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) AddRecord(record);
  size_t lost = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) recorder->lost += lost;
  std::free(buffer);
}

void WriteReport() {
  if (getpid() != recorder->process) return;  // a child that was forked
  const CUptiResult flushed = cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (flushed != CUPTI_SUCCESS) Say("the last records may be missing", flushed);
  const std::lock_guard lock(recorder->mutex);
  nlohmann::ordered_json report = recorder->activities.Report(recorder->allocations.PeakBytes());
  report["records_lost"] = recorder->lost;
  const std::string text = report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const char* path = std::getenv("COLONNADE_GPU_ACTIVITY");
  // If several processes write, the first to end gets the name; the others add their number to it.
  std::FILE* file = path == nullptr ? stderr : std::fopen(path, "wx");
  const std::string own = path == nullptr || file != nullptr ? "" : std::string(path) + "." + std::to_string(getpid());
  if (!own.empty()) file = std::fopen(own.c_str(), "w");
  if (file == nullptr) {
    std::perror(path);
    return;
  }
  std::fprintf(file, "%s\n", text.c_str());
  if (file != stderr) std::fclose(file);
}

}  // namespace

// Returns 1, as NVIDIA's samples do, so that the program runs on also where nothing can be recorded.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  if (recorder != nullptr) return 1;
  recorder = new Recorder;
  CUptiResult result = cuptiActivityRegisterCallbacks(GiveBuffer, TakeBuffer);
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
        CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMORY2}) {
    if (result == CUPTI_SUCCESS) result = cuptiActivityEnable(kind);
  }
  if (result != CUPTI_SUCCESS) {
    Say("nothing is recorded", result);
  } else {
    std::atexit(WriteReport);
  }
  return 1;
}
