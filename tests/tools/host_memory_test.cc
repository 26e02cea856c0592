// What is said of memory before anything is loaded: from files of /proc and of control groups made here.
#include "tools/host_memory.h"

#include <filesystem>
#include <limits>
#include <string>

#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/folder.h"
#include "tools/measure.h"

namespace colonnade::tools {
namespace {

using ::testing::HasSubstr;

class HostMemory : public Folder {
 protected:
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + path).parent_path());
    ASSERT_TRUE(engine::ReplaceFile(path_ + path, text).ok());
  }
};

TEST_F(HostMemory, WithoutControlGroupsIsWhatTheMachineHasAvailable) {
  EXPECT_EQ(AvailableMemory(path_), std::numeric_limits<int64_t>::max());
  Write("/proc/meminfo", "MemTotal:  4000 kB\nMemAvailable:    3000 kB\n");
  EXPECT_EQ(AvailableMemory(path_), 3000 * 1024);
}

TEST_F(HostMemory, IsNoMoreThanTheLimitOfAddressesLeaves) {
  Write("/proc/meminfo", "MemAvailable: 3000 kB\n");
  Write("/proc/self/status", "VmPeak:\t    900 kB\nVmSize:\t    500 kB\n");
  Write("/proc/self/limits",
        "Limit    Soft Limit    Hard Limit    Units\nMax address space     unlimited     unlimited     bytes\n");
  EXPECT_EQ(AvailableMemory(path_), 3000 * 1024);
  Write("/proc/self/limits", "Max data size    1    1    bytes\nMax address space     1024000     unlimited     bytes\n");
  EXPECT_EQ(AvailableMemory(path_), 500 * 1024);
  Write("/proc/self/limits", "Max address space     1     unlimited     bytes\n");
  EXPECT_EQ(AvailableMemory(path_), 0);
}

TEST_F(HostMemory, IsTheLeastThatTheGroupsAboveTheProcessLeave) {
  Write("/proc/meminfo", "MemAvailable: 3000 kB\n");
  Write("/proc/self/cgroup", "0::/jobs/one\n");
  Write("/sys/fs/cgroup/jobs/one/memory.max", "max\n");
  Write("/sys/fs/cgroup/jobs/one/memory.current", "100\n");
  EXPECT_EQ(AvailableMemory(path_), 3000 * 1024);
  Write("/sys/fs/cgroup/jobs/memory.max", "1000000\n");
  Write("/sys/fs/cgroup/jobs/memory.current", "700000\n");
  EXPECT_EQ(AvailableMemory(path_), 300000);
  Write("/sys/fs/cgroup/jobs/memory.stat", "anon 600000\ninactive_file 50000\n");
  EXPECT_EQ(AvailableMemory(path_), 350000) << "pages of files can be dropped";
  Write("/sys/fs/cgroup/jobs/one/memory.max", "20000\n");
  EXPECT_EQ(AvailableMemory(path_), 19900);
}

TEST_F(HostMemory, KnowsGroupsOfVersionOne) {
  Write("/proc/meminfo", "MemAvailable: 3000 kB\n");
  Write("/proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/job\n");
  Write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "500000\n");
  Write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "100000\n");
  EXPECT_EQ(AvailableMemory(path_), 400000);
}

// The kernel counts the two at different moments; version 1 writes no limit as the largest multiple of a page.
TEST_F(HostMemory, PagesThatCanBeDroppedAreNoMoreThanWhatIsUsed) {
  Write("/proc/meminfo", "MemAvailable: 3000 kB\n");
  Write("/proc/self/cgroup", "4:memory:/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
  Write("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 9000000\n");
  EXPECT_EQ(AvailableMemory(path_), 3000 * 1024);
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
  EXPECT_EQ(AvailableMemory(path_), 2000000);
}

program::Program Lowered(int64_t batch, partition::Reduction reduction = partition::Reduction::kAllReduce,
                         int64_t bucket_bytes = 8 << 20) {
  const layers::LayerGraph graph = *models::BuildModel("two_column", {});
  partition::Plan plan = *partition::NamedPlan("hybrid", graph, {.devices = 4, .global_batch = batch});
  plan.reduction = reduction;
  plan.bucket_bytes = bucket_bytes;
  return *partition::Lower(graph, plan, {.global_batch = batch});
}

int64_t BytesAt(int64_t batch) {
  const program::Program program = Lowered(batch);
  return LeastBytesOf({&program});
}

TEST(LeastBytes, AreNearAndNotAboveWhatTheBackendSays) {
  constexpr int64_t kOnHost =
      2 * 4 * (256 * 64 + 256) + 2 * 8 * program::StepScalar::kCount;  // the slots of images, labels and scalars
  for (partition::Reduction reduction : {partition::Reduction::kAllReduce, partition::Reduction::kSharded}) {
    const program::Program program = Lowered(256, reduction);
    int64_t says = kOnHost;
    const absl::StatusOr<std::vector<engine::DeviceMemory>> memory = PredictCpuMemory(program);
    ASSERT_TRUE(memory.ok()) << memory.status();
    for (const engine::DeviceMemory& device : *memory) says += device.total_bytes();
    EXPECT_LE(LeastBytesOf({&program}), says);
    EXPECT_GE(LeastBytesOf({&program}), says / 2) << "layouts and workspaces less than double it";
    EXPECT_EQ(LeastBytesOf({&program, &program}), LeastBytesOf({&program}) + kOnHost) << "Programs share what is on devices";
  }
}

// What Programs share is counted once, in whatever buckets it lies.
TEST(LeastBytes, CountATensorOnceInWhateverBuckets) {
  const program::Program one = Lowered(64), other = Lowered(64, partition::Reduction::kAllReduce, 1);
  EXPECT_EQ(LeastBytesOf({&other, &one}), LeastBytesOf({&one, &one}));
}

TEST(CheckHostMemory, SaysWhatIsNeededWhatThereIsAndTheLargestBatchThatFits) {
  const int64_t available = BytesAt(100) + BytesAt(100) / 1000;
  EXPECT_TRUE(CheckHostMemory(BytesAt(100), 100, 4, BytesAt, available).ok());
  const absl::Status status = CheckHostMemory(BytesAt(1000), 1000, 4, BytesAt, available);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("batch: 1000 needs at least "));
  int64_t fits = 0;
  ASSERT_EQ(
      std::sscanf(std::string(status.message()).c_str() + status.message().find("a batch of "), "a batch of %ld", &fits), 1)
      << status;
  EXPECT_EQ(fits % 4, 0);
  EXPECT_LE(fits, 100);
  EXPECT_GE(fits, 80) << "the search gives up a tenth at a time";
}

// Each look at a batch lowers the network.
TEST(CheckHostMemory, LooksAtFewBatches) {
  int looks = 0;
  const auto count = [&looks](int64_t batch) -> absl::StatusOr<int64_t> { return ++looks, 1000 * batch; };
  EXPECT_TRUE(CheckHostMemory(100000, 100, 4, count, 100000).ok());
  EXPECT_EQ(looks, 0);
  EXPECT_FALSE(CheckHostMemory(1000000000, 1000000, 4, count, 100000).ok());
  EXPECT_LE(looks, 2);
  looks = 0;
  const auto steep = [&looks](int64_t batch) -> absl::StatusOr<int64_t> {
    return ++looks, batch == 4 ? 1 : int64_t{1} << 40;
  };
  EXPECT_FALSE(CheckHostMemory(200000, 1000000, 4, steep, 100000).ok());
  EXPECT_LE(looks, 5);
}

TEST(CheckHostMemory, OfAPlanIsThatOfItsProgram) {
  const layers::LayerGraph graph = *models::BuildModel("two_column", {});
  const partition::Plan plan = *partition::NamedPlan("hybrid", graph, {.devices = 4, .global_batch = 256});
  const partition::LowerOptions lower{.global_batch = 256, .micro_batches = 2};
  const program::Program program = *partition::Lower(graph, plan, lower);
  const int64_t needed = LeastBytesOf({&program});
  EXPECT_TRUE(CheckHostMemory(graph, plan, lower, needed).ok());
  const absl::Status status = CheckHostMemory(graph, plan, lower, needed - 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("batch: 256 needs at least "));
  EXPECT_THAT(std::string(status.message()), ::testing::ContainsRegex("a batch of (224|232|240|248) would fit"))
      << "of two micro-batches on 4 devices";
}

TEST(CheckHostMemory, SaysSoWhereNoBatchFits) {
  const absl::Status status = CheckHostMemory(BytesAt(64), 64, 4, BytesAt, BytesAt(4) - 1);
  EXPECT_THAT(std::string(status.message()), HasSubstr("use a smaller network"));
}

}  // namespace
}  // namespace colonnade::tools
