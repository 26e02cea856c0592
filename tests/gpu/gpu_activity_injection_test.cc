// CUDA's driver loads the library and calls its entry as is done here.
#include <dlfcn.h>

#include <string>

#include "gtest/gtest.h"

namespace {

TEST(GpuActivityInjection, LoadsAndLeavesTheProgramAlone) {
  void* library = dlopen(COLONNADE_GPU_ACTIVITY_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  ASSERT_NE(initialize, nullptr) << dlerror();
  testing::internal::CaptureStderr();
  EXPECT_EQ(initialize(), 1);
  EXPECT_EQ(initialize(), 1);
  const std::string said = testing::internal::GetCapturedStderr();
  if (said.empty()) return;  // on a machine with a driver
  EXPECT_EQ(said.rfind("gpu_activity: nothing is recorded: ", 0), 0) << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
}

}  // namespace
