// The roofline of hand-made tasks, read back from its picture; ceilings on devices whose speed is known.
#include "tools/roofline.h"

#include <cmath>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/builder.h"
#include "tools/ceilings.h"

namespace colonnade::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Ceilings kCeilings = {.flops_per_sec = 100e9, .bytes_per_sec = 10e9};

// Tasks of a layer each, on one device, which read and write 4 kB.
class Step {
 public:
  void Add(const program::Op& op, const std::string& layer, int64_t flops, double task_seconds) {
    const program::BufferId x = builder_.AddBuffer(0, "x", program::DType::kF32, {512}),
                            y = builder_.AddBuffer(0, "y", program::DType::kF32, {512});
    builder_.AddCompute(0, program::Lane::kCompute, op, {builder_.Read(x), builder_.Write(y)}, flops, {layer});
    seconds_.push_back(task_seconds);
  }
  std::string Draw() && {
    const program::Program program = std::move(builder_).Build();
    return RooflineAsSvg("a step", program, seconds_, kCeilings);
  }

 private:
  program::Builder builder_{"step", program::Mode::kTrain, 1, program::DType::kF32, {{"data", 1}}};
  std::vector<double> seconds_;
};

struct Point {
  double x = 0, y = 0, radius = 0;
};

std::vector<std::vector<double>> Numbers(const std::string& svg, const std::string& pattern) {
  std::vector<std::vector<double>> found;
  const std::regex expression(pattern);
  for (std::sregex_iterator it(svg.begin(), svg.end(), expression), end; it != end; ++it) {
    std::vector<double>& numbers = found.emplace_back();
    for (size_t group = 1; group < it->size(); ++group) numbers.push_back(std::stod((*it)[group]));
  }
  return found;
}

// In the order of the picture.
std::vector<Point> Marks(const std::string& svg) {
  std::vector<Point> marks;
  for (const auto& circle : Numbers(svg, "<circle cx=\"([^\"]*)\" cy=\"([^\"]*)\" r=\"([^\"]*)\"")) {
    marks.push_back({circle[0], circle[1], circle[2]});
  }
  return marks;
}

struct Line {
  Point from, to;
};
// Those of the ceilings, the only ones so wide.
std::vector<Line> CeilingLines(const std::string& svg) {
  std::vector<Line> lines;
  for (const auto& line : Numbers(
           svg,
           "<line x1=\"([^\"]*)\" y1=\"([^\"]*)\" x2=\"([^\"]*)\" y2=\"([^\"]*)\" class=\"[^\"]*\" stroke-width=\"1.6\"")) {
    lines.push_back({{line[0], line[1]}, {line[2], line[3]}});
  }
  return lines;
}

TEST(Roofline, AMarkSaysWhatItsTaskReaches) {
  Step step;
  step.Add(program::ConvForward{}, "conv1", 4096000, 1e-3);  // of 4,096 bytes: 1,000 flop a byte
  EXPECT_THAT(std::move(step).Draw(),
              HasSubstr("<title>conv1 conv_forward, device 0: 1.000 ms, 4.10 GFLOP/s, 0.00 GB/s</title>"));
}

TEST(Roofline, TasksThatComputeNothingHaveNoMark) {
  Step step;
  step.Add(program::ConvForward{}, "conv1", 4096, 1e-3);
  step.Add(program::Copy{}, "flatten", 0, 1e-3);
  step.Add(program::ConvForward{}, "conv2", 4096, 0);  // no time was taken of it
  const std::string svg = std::move(step).Draw();
  EXPECT_EQ(Marks(svg).size(), 1u);
  EXPECT_THAT(svg, Not(HasSubstr("flatten")));
}

TEST(Roofline, PowersOfTenLieEquallyFarApart) {
  Step step;
  for (int64_t intensity : {1, 10, 100}) step.Add(program::ConvForward{}, "conv", 4096 * intensity, 1e-3);
  const std::vector<Point> marks = Marks(std::move(step).Draw());
  ASSERT_EQ(marks.size(), 3u);
  EXPECT_GT(marks[1].x, marks[0].x + 10);
  EXPECT_NEAR(marks[1].x - marks[0].x, marks[2].x - marks[1].x, 0.3);
  EXPECT_LT(marks[1].y, marks[0].y - 10) << "higher is less in SVG";
  EXPECT_NEAR(marks[1].y - marks[0].y, marks[2].y - marks[1].y, 0.3);
}

// One at the bandwidth of memory, one at a tenth of it, one at the peak.
TEST(Roofline, CeilingsAreWhereTasksReachThem) {
  Step step;
  step.Add(program::ConvForward{}, "slope", 4096, 4096 / kCeilings.bytes_per_sec);
  step.Add(program::ConvForward{}, "below", 4096, 10 * 4096 / kCeilings.bytes_per_sec);
  step.Add(program::ConvForward{}, "roof", 40960000, 40960000 / kCeilings.flops_per_sec);
  const std::string svg = std::move(step).Draw();
  EXPECT_THAT(svg, HasSubstr(">10 GB/s<"));
  EXPECT_THAT(svg, HasSubstr(">100 GFLOP/s<"));
  const std::vector<Line> lines = CeilingLines(svg);
  ASSERT_EQ(lines.size(), 2u);
  const Line slope = lines[0], roof = lines[1];
  std::vector<Point> marks = Marks(svg);  // the longest first: roof, below, slope
  ASSERT_EQ(marks.size(), 3u);
  const auto slope_at = [&](double x) {
    return slope.from.y + (slope.to.y - slope.from.y) * (x - slope.from.x) / (slope.to.x - slope.from.x);
  };
  EXPECT_NEAR(marks[2].y, slope_at(marks[2].x), 0.3);
  EXPECT_GT(marks[1].y, slope_at(marks[1].x) + 10);
  EXPECT_NEAR(roof.from.y, roof.to.y, 0.1);
  EXPECT_NEAR(marks[0].y, roof.from.y, 0.3);
  EXPECT_NEAR(slope.to.x, roof.from.x, 0.1) << "they meet";
  EXPECT_GE(roof.to.x, marks[0].x - 0.1) << "and reach as far as the marks";
}

TEST(Roofline, AreaIsTimeAndTheLongestLieBelow) {
  Step step;
  step.Add(program::ConvForward{}, "short", 4096, 1e-3);
  step.Add(program::ConvForward{}, "long", 4096, 100e-3);
  step.Add(program::ConvForward{}, "middle", 4096, 25e-3);
  const std::vector<Point> marks = Marks(std::move(step).Draw());
  ASSERT_EQ(marks.size(), 3u);
  // Beside what is added so that the shortest are seen, at 2.
  EXPECT_NEAR(marks[1].radius - 2, (marks[0].radius - 2) / 2, 1e-2);
  EXPECT_NEAR(marks[2].radius - 2, (marks[0].radius - 2) / 10, 1e-2);
}

TEST(Roofline, KindsThatNoColourIsLeftForAreOne) {
  Step step;
  const std::vector<program::Op> ops = {program::ConvForward{},
                                        program::ConvBackwardData{},
                                        program::ConvBackwardWeights{},
                                        program::FullyConnectedForward{},
                                        program::FullyConnectedBackwardData{},
                                        program::FullyConnectedBackwardWeights{},
                                        program::Sum{},
                                        program::BiasForward{},
                                        program::BiasBackward{}};
  double task_seconds = 1e-2;
  for (const program::Op& op : ops) step.Add(op, "layer", 4096, task_seconds /= 2);
  const std::string svg = std::move(step).Draw();
  EXPECT_EQ(Marks(svg).size(), 9u);
  EXPECT_THAT(svg, HasSubstr(">sum</text>"));
  EXPECT_THAT(svg, HasSubstr(">others</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">bias_forward</text>")));
  EXPECT_THAT(svg, HasSubstr("<title>layer bias_backward"));
}

// Devices that compute at a known rate: products of other than 1,024 rows at half of it, the first of two devices, too.
constexpr double kFlopsPerSec = 80e9, kBytesPerSec = 20e9;

class KnownSpeed : public engine::LoadedProgram {
 public:
  KnownSpeed(const program::Program& program, std::set<int32_t>& not_filled)
      : LoadedProgram(program), not_filled_(not_filled) {
    for (const program::Buffer& buffer : program.buffers) not_filled_.insert(buffer.id.value);
  }
  void Fence() override {}
  void Launch(program::TaskId, int64_t) override {}
  void Await(int, program::Lane, program::TaskId, int64_t) override {}
  absl::Status Synchronize(int64_t) override { return absl::OkStatus(); }
  std::vector<engine::TaskTime> Times(int64_t step) const override {
    std::vector<engine::TaskTime> times;
    for (const program::Task& task : program_.tasks) {
      const absl::Duration noise = step == 3 ? absl::ZeroDuration() : absl::Milliseconds(1);
      times.push_back({absl::Seconds(step), absl::Seconds(step) + absl::Seconds(SecondsOf(task)) + noise});
    }
    return times;
  }
  absl::Status ReadBytes(program::BufferId, absl::Span<char>) const override { return absl::OkStatus(); }
  absl::Status WriteBytes(program::BufferId buffer, absl::Span<const char>) override {
    not_filled_.erase(buffer.value);
    return absl::OkStatus();
  }
  engine::DeviceMemory Memory(int) const override { return {}; }
  const std::vector<engine::AddedReorder>& added_reorders() const override { return none_; }

 private:
  double SecondsOf(const program::Task& task) const {
    const bool is_sum = program::Name(task) == "sum";
    const auto bytes = static_cast<double>(task.work.bytes_read + task.work.bytes_written);
    const auto rows = static_cast<double>(program_.buffer(task.uses[0].buffer).shape[0]);
    const double seconds =
        is_sum ? bytes / kBytesPerSec : static_cast<double>(task.work.flops) / (kFlopsPerSec * (rows == 1024 ? 1 : 0.5));
    return program_.device_count > 1 && task.device == 0 ? 2 * seconds : seconds;
  }

  std::set<int32_t>& not_filled_;
  const std::vector<engine::AddedReorder> none_;
};

class KnownSpeedBackend : public engine::Backend {
 public:
  explicit KnownSpeedBackend(int devices) : devices_(devices) {}
  std::string name() const override { return "known"; }
  int device_count() const override { return devices_; }
  absl::StatusOr<std::unique_ptr<engine::LoadedProgram>> Load(const program::Program& program,
                                                              const engine::HostSlot (&)[2]) override {
    return {std::make_unique<KnownSpeed>(program, not_filled_)};
  }
  absl::StatusOr<std::vector<engine::DeviceMemory>> MemoryOf(const program::Program&) override {
    return std::vector<engine::DeviceMemory>(devices_);
  }
  int64_t TakenBytes(int) const override { return 0; }
  const std::set<int32_t>& not_filled() const { return not_filled_; }

 private:
  const int devices_;
  std::set<int32_t> not_filled_;
};

TEST(MeasureCeilings, AreTheFastestProductAndTheSum) {
  KnownSpeedBackend backend(1);
  const absl::StatusOr<Ceilings> ceilings = MeasureCeilings(backend, program::DType::kF32);
  ASSERT_TRUE(ceilings.ok()) << ceilings.status();
  EXPECT_NEAR(ceilings->flops_per_sec, kFlopsPerSec, 1e-6 * kFlopsPerSec);
  EXPECT_EQ(ceilings->side, 1024);
  EXPECT_NEAR(ceilings->bytes_per_sec, kBytesPerSec, 1e-6 * kBytesPerSec);
  EXPECT_GE(ceilings->array_bytes, 32 << 20);
  EXPECT_TRUE(backend.not_filled().empty()) << "pages that nothing was written to are one page of zeros";
}

TEST(MeasureCeilings, AreThoseOfTheSlowestDevice) {
  KnownSpeedBackend backend(2);
  const absl::StatusOr<Ceilings> ceilings = MeasureCeilings(backend, program::DType::kF32);
  ASSERT_TRUE(ceilings.ok()) << ceilings.status();
  EXPECT_NEAR(ceilings->flops_per_sec, kFlopsPerSec / 2, 1e-6 * kFlopsPerSec);
  EXPECT_NEAR(ceilings->bytes_per_sec, kBytesPerSec / 2, 1e-6 * kBytesPerSec);
}

}  // namespace
}  // namespace colonnade::tools
