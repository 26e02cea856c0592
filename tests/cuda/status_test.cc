#include "cuda/status.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "cuda/about.h"
#include "gtest/gtest.h"

namespace colonnade::cuda {
namespace {

using absl::StatusCode;

StatusCode CodeOf(Failure failure) { return StatusOf(failure, "call", "words").code(); }

TEST(Status, LibrariesCodesKeepTheirMeaning) {
  EXPECT_EQ(CodeOf(FailureOfCuda(0)), StatusCode::kOk);
  EXPECT_EQ(CodeOf(FailureOfCuda(2)), StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOf(FailureOfCuda(35)), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(FailureOfCuda(100)), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(FailureOfCuda(34)), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(FailureOfCuda(802)), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(FailureOfCuda(803)), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(FailureOfCuda(209)), StatusCode::kUnimplemented);
  EXPECT_EQ(CodeOf(FailureOfCuda(900)), StatusCode::kUnimplemented) << "a call that cannot be captured";
  EXPECT_EQ(CodeOf(FailureOfCuda(908)), StatusCode::kUnimplemented);
  EXPECT_EQ(CodeOf(FailureOfCuda(1)), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(FailureOfCuda(700)), StatusCode::kInternal);
  EXPECT_EQ(CodeOf(FailureOfCudnn(0)), StatusCode::kOk);
  EXPECT_EQ(CodeOf(FailureOfCudnn(2003)), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(FailureOfCudnn(3004)), StatusCode::kUnimplemented);
  EXPECT_EQ(CodeOf(FailureOfCudnn(4004)), StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOf(FailureOfCudnn(5000)), StatusCode::kInternal);
  EXPECT_EQ(CodeOf(FailureOfCublas(3)), StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOf(FailureOfCublas(15)), StatusCode::kUnimplemented);
  EXPECT_EQ(CodeOf(FailureOfCublas(13)), StatusCode::kInternal);
  EXPECT_EQ(CodeOf(FailureOfNccl(0)), StatusCode::kOk);
  EXPECT_EQ(CodeOf(FailureOfNccl(7)), StatusCode::kOk);
  EXPECT_EQ(CodeOf(FailureOfNccl(6)), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(FailureOfNccl(5)), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(FailureOfNccl(1)), StatusCode::kInternal);
}

// Without a GPU's file a module that cannot be loaded is no fault.
TEST(Status, AGpusFileIsNumberedOrWindows) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "gpu_files";
  for (const auto& [file, is_gpu] : {std::pair("nvidiactl", false),
                                     {"nvidia-uvm", false},
                                     {"nvidia", false},
                                     {"nvidia0x", false},
                                     {"nvidia0", true},
                                     {"nvidia12", true},
                                     {"dxg", true}}) {
    std::filesystem::remove_all(folder);
    EXPECT_FALSE(HasGpuFile(folder)) << "no folder";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "null"), std::ofstream(folder / file);
    EXPECT_EQ(HasGpuFile(folder), is_gpu) << file;
  }
  std::filesystem::remove_all(folder);
}

TEST(Status, AFaultOfWorkBeforeSaysSo) {
  for (int fault : {214, 700, 719}) {
    for (const char* word : {"CUDA_LAUNCH_BLOCKING=1", "--cuda-graphs=off", "--collectives=peer"}) {
      EXPECT_NE(HintOfCuda(fault).find(word), absl::string_view::npos) << fault;
    }
  }
  for (int other : {1, 2, 711, 712, 713, 801, 900}) EXPECT_EQ(HintOfCuda(other), "") << other;
}

TEST(Status, MessagesNameCallTaskAndDevice) {
  program::Task task;
  task.id = program::TaskId{17};
  task.device = 2;
  task.body = program::Compute{program::ConvForward{}};
  task.provenance.layer = "conv1";
  EXPECT_EQ(InTask(StatusOf(FailureOfCuda(2), "cudaMalloc", "out of memory"), task).message(),
            "task 17 (conv_forward of conv1, device 2): cudaMalloc: out of memory");
}

}  // namespace
}  // namespace colonnade::cuda
