// The report that the library writes when its program ends, from records of a stand-in for CUPTI: functions of this program
// are found before those of libcupti.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "cupti.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace {

CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;

// A buffer that records are appended to, as CUPTI does it.
struct Buffer {
  uint8_t* data = nullptr;
  size_t capacity = 0, used = 0, most_records = 0;

  Buffer() { request(&data, &capacity, &most_records); }
  template <typename Record>
  void Append(const Record& record) {
    ASSERT_LE(used + sizeof record, capacity);
    std::memcpy(data + used, &record, sizeof record);
    used += sizeof record;
  }
};

size_t SizeOf(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    default:
      return sizeof(CUpti_ActivityMemory4);
  }
}

template <typename Record>
Record Activity(CUpti_ActivityKind kind, uint64_t start, uint64_t end) {
  Record record{};
  record.kind = kind;
  record.deviceId = 1;
  record.start = start;
  record.end = end;
  return record;
}

CUpti_ActivityKernel10 Kernel(const char* name, uint64_t start, uint64_t end) {
  auto kernel = Activity<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, start, end);
  kernel.name = name;
  return kernel;
}

CUpti_ActivityMemcpy6 Copy(uint8_t kind, uint64_t start, uint64_t end) {
  auto copy = Activity<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, start, end);
  copy.copyKind = kind;
  return copy;
}

CUpti_ActivityMemory4 Memory(CUpti_ActivityMemoryOperationType operation, CUpti_ActivityMemoryKind kind, uint64_t address,
                             uint64_t bytes, uint64_t time) {
  CUpti_ActivityMemory4 memory{};
  memory.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  memory.memoryOperationType = operation;
  memory.memoryKind = kind;
  memory.deviceId = 1;
  memory.address = address;
  memory.bytes = bytes;
  memory.timestamp = time;
  return memory;
}

}  // namespace

extern "C" {

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r, CUpti_BuffersCallbackCompleteFunc c) {
  request = r;
  complete = c;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind) { return CUPTI_SUCCESS; }

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes, CUpti_Activity** record) {
  uint8_t* next = buffer;
  if (*record != nullptr) next = reinterpret_cast<uint8_t*>(*record) + SizeOf(*record);
  if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = 3;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t) {
  Buffer times;
  times.Append(Kernel("warm_up", 1, 2));
  times.Append(Kernel("warm_up", 3, 4));
  times.Append(Kernel("warm_up", 5, 6));
  times.Append(Kernel("warm_up", 7, 8));
  times.Append(Kernel("_Z3addPfi", 100, 150));
  times.Append(Activity<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, 160, 170));
  times.Append(Copy(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 170, 200));
  times.Append(Copy(CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, 900, 990));
  times.Append(Activity<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, 180, 190));
  complete(nullptr, 0, times.data, times.capacity, times.used);
  Buffer memory;
  memory.Append(Memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, 0x100, 50, 1));
  memory.Append(Memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, 0x100, 50, 2));
  memory.Append(Memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, 0x200, 60, 3));
  memory.Append(Memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, CUPTI_ACTIVITY_MEMORY_KIND_PINNED, 0x300, 90, 4));
  complete(nullptr, 0, memory.data, memory.capacity, memory.used);
  return CUPTI_SUCCESS;
}

}  // extern "C"

namespace {

TEST(GpuActivityReport, IsWrittenWhenTheProgramEnds) {
  const std::string path = testing::TempDir() + "gpu_activity_report_" + std::to_string(getpid()) + ".json";
  const auto program = [&] {
    setenv("COLONNADE_GPU_ACTIVITY", path.c_str(), 1);
    void* library = dlopen(COLONNADE_GPU_ACTIVITY_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr || reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"))() != 1) std::exit(2);
    std::exit(0);
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "");
  std::ifstream file(path);
  const auto report = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report["records_lost"], 6);
  ASSERT_EQ(report["gpus"].size(), 1);
  const auto& gpu = report["gpus"][0];
  EXPECT_EQ(gpu["gpu"], 1);
  EXPECT_EQ(gpu["peak_allocated_bytes"], 60);
  EXPECT_EQ(gpu["activities"], 8);
  EXPECT_DOUBLE_EQ(gpu["steady"]["all"]["busy_share"], 0.9);
  EXPECT_DOUBLE_EQ(gpu["steady"]["without_host_copies"]["span_ms"], 90e-6);
  EXPECT_EQ(gpu["steady"]["without_host_copies"]["activities"], 3);
  EXPECT_EQ(gpu["steady"]["top"][0]["name"], "add(float*, int)");
  EXPECT_EQ(gpu["steady"]["top"][1]["name"], "copy from host");
  std::remove(path.c_str());
}

}  // namespace
