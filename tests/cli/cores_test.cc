// What a run computes is a function of its devices and their threads, not of the cores that the machine has for them.
#include <sched.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/io/file.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

class Cores : public Command {
 protected:
  // The weights after some steps.
  std::string Trained(const std::string& flags) const {
    const Result r =
        Run(absl::StrCat("train --backend=cpu --devices=4 --threads-per-device=2 --batch=16 --steps=5 --lr=0.1 ", flags,
                         " --save=", In("weights")));
    EXPECT_EQ(r.code, 0) << r.err;
    return *engine::ReadFile(In("weights"));
  }

  std::string TrainedOnOneCore(const std::string& flags) const {
    cpu_set_t all, one;
    EXPECT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (int core = 0; CPU_COUNT(&one) == 0; ++core) {
      if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
    }
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);  // of this thread, and so of what it starts
    std::string weights = Trained(flags);
    EXPECT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
    return weights;
  }

  static bool HasOne() {
    cpu_set_t all;
    return sched_getaffinity(0, sizeof(all), &all) == 0 && CPU_COUNT(&all) == 1;
  }
};

TEST_F(Cores, OneGivesTheBitsOfAll) {
  if (HasOne()) GTEST_SKIP() << "skipped: this process may use one core alone: there is nothing to compare with";
  for (const std::string flags :
       {"--model=lenet --data=synthetic --plan=hybrid", "--model=two_column --data=digits --plan=data",
        "--model=resnet20 --width=0.25 --data=synthetic --plan=hybrid"}) {
    EXPECT_EQ(TrainedOnOneCore(flags), Trained(flags)) << flags;
  }
}

}  // namespace
}  // namespace colonnade::cli
