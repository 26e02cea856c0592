// Batch normalisation by the kernels of cuda/, on the host, against the oracle.
#include "cuda/ops/batch_norm.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/ref/kernels.h"
#include "gtest/gtest.h"
#include "program/formulas/bfloat16.h"
#include "run_kernel.h"
#include "tests/cpu/op_case_run.h"

namespace colonnade::cuda {
namespace {

using conformance::RelativeDistance;
using program::DType;
using program::Shape;

// A tensor in memory of its own, in the layout that it has on a GPU; or a box of a larger one that begins between accesses.
class Tensor {
 public:
  Tensor(DType dtype, const Shape& shape, bool in_box = false) : view_(Natural(dtype, shape)) {
    Shape whole = shape;
    if (in_box) {
      program::Region box{Shape(shape.size(), 1), shape};
      for (int64_t& extent : whole) extent += 2;
      view_ = Slice(Natural(dtype, whole), box);
    }
    bytes_.resize(program::ElementCount(whole) * program::SizeInBytes(dtype), '\x55');
  }

  Operand operand() { return {view_, bytes_.data()}; }
  cpu::ref::Tensor for_oracle() {
    return {bytes_.data() + view_.offset * program::SizeInBytes(view_.dtype), view_.dtype, view_.shape, view_.strides};
  }

  // f(i) of each element's number in row-major order.
  void Fill(const std::function<double(int64_t)>& f) {
    ForEachOffset([&](int64_t i, int64_t at) {
      if (view_.dtype == DType::kBF16) Put(at, static_cast<program::BFloat16>(static_cast<float>(f(i))));
      if (view_.dtype == DType::kF32) Put(at, static_cast<float>(f(i)));
      if (view_.dtype == DType::kF64) Put(at, f(i));
    });
  }
  std::vector<double> values() const {
    std::vector<double> values(program::ElementCount(view_.shape));
    ForEachOffset([&](int64_t i, int64_t at) {
      if (view_.dtype == DType::kBF16) values[i] = float{Get<program::BFloat16>(at)};
      if (view_.dtype == DType::kF32) values[i] = static_cast<double>(Get<float>(at));
      if (view_.dtype == DType::kF64) values[i] = Get<double>(at);
    });
    return values;
  }

 private:
  template <class F>
  void ForEachOffset(const F& f) const {
    for (int64_t i = 0; i < program::ElementCount(view_.shape); ++i) {
      std::vector<int64_t> index(view_.shape.size());
      for (int64_t d = static_cast<int64_t>(index.size()) - 1, rest = i; d >= 0; --d) {
        index[d] = rest % view_.shape[d];
        rest /= view_.shape[d];
      }
      f(i, OffsetOf(view_, index));
    }
  }
  template <class T>
  void Put(int64_t at, T value) {
    std::memcpy(bytes_.data() + at * sizeof(T), &value, sizeof(T));
  }
  template <class T>
  T Get(int64_t at) const {
    T value;
    std::memcpy(&value, bytes_.data() + at * sizeof(T), sizeof(T));
    return value;
  }

  View view_;
  std::vector<char> bytes_;
};

// Prepares and runs as a GPU does, in a workspace that holds no numbers before. 0 threads: one for a few elements.
template <class Op>
void RunKernels(const Op& op, const std::vector<Tensor*>& tensors, int64_t threads = 0) {
  const program::Program program;
  const program::Task task;
  TaskContext context{.program = program, .task = task, .operands = {}};
  for (Tensor* tensor : tensors) context.operands.push_back(tensor->operand());
  const PreparedTask sizes = Prepare(op, context);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  std::vector<char> workspace(sizes->workspace_bytes, '\xff');
  context.workspace = workspace.data();
  const PreparedTask ready = Prepare(op, context);
  ASSERT_TRUE(ready.ok()) << ready.status();
  for (const Call& call : ready->calls) {
    const Kernel& kernel = std::get<Kernel>(call);
    threads > 0 ? RunKernelOnHost(kernel, threads) : RunKernelOnHost(kernel);
  }
}
template <class Op>
void RunOracle(const Op& op, const std::vector<Tensor*>& tensors) {
  std::vector<cpu::ref::Tensor> operands;
  for (Tensor* tensor : tensors) operands.push_back(tensor->for_oracle());
  const absl::Status status = cpu::ref::Run(op, operands);
  ASSERT_TRUE(status.ok()) << status;
}

struct Setting {
  Shape shape;
  int64_t groups = 1;
  DType dtype = DType::kF32;
  bool in_box = false, relu = false;
};
std::string ToString(const Setting& s) {
  return absl::StrCat(program::ToString(s.shape), " in ", s.groups, " groups of ", program::Name(s.dtype),
                      s.in_box ? ", in boxes" : "", s.relu ? ", relu" : "");
}

// The operands of all ops, and the ops in their order.
struct Layer {
  Setting of;
  int64_t channels, count;
  Tensor x, dy, sums, totals, w, b, y, dsums, dw, db, dx, mean, var, recalled;
  Tensor addend, more, dz, z;  // of the ops that do more

  explicit Layer(const Setting& s)
      : of(s),
        channels(s.shape[1]),
        count(program::ElementCount(s.shape) / channels / s.groups),
        x(s.dtype, s.shape, s.in_box),
        dy(s.dtype, s.shape, s.in_box),
        sums(DType::kF64, {s.groups, 2, channels}, s.in_box),
        totals(DType::kF64, {1, 2, channels}, s.in_box),
        w(DType::kF32, {channels}, s.in_box),
        b(DType::kF32, {channels}, s.in_box),
        y(s.dtype, s.shape, s.in_box),
        dsums(DType::kF64, {s.groups, 2, channels}, s.in_box),
        dw(DType::kF32, {channels}, s.in_box),
        db(DType::kF32, {channels}, s.in_box),
        dx(s.dtype, s.shape, s.in_box),
        mean(DType::kF32, {channels}, s.in_box),
        var(DType::kF32, {channels}, s.in_box),
        recalled(DType::kF64, {1, 2, channels}, s.in_box),
        addend(s.dtype, s.shape, s.in_box),
        more(s.dtype, s.shape, s.in_box),
        dz(s.dtype, s.shape, s.in_box),
        z(s.dtype, s.shape, s.in_box) {}

  void FillWithNumbers(double mean_of_x) {
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    x.Fill([&](int64_t) { return mean_of_x + normal(random); });
    for (Tensor* tensor : {&dy, &w, &b, &mean, &addend, &more}) tensor->Fill([&](int64_t) { return normal(random); });
    var.Fill([&](int64_t) { return std::exp(normal(random)); });
  }

  template <class F>
  void RunSums(const F& run) {
    run(program::BatchNormSums{}, {&x, &sums, &totals});
  }
  template <class F>
  void RunAll(const F& run) {
    RunSums(run);
    run(program::BatchNormForward{.count = count, .epsilon = 1e-3, .relu = of.relu}, {&x, &sums, &w, &b, &y});
    run(program::BatchNormBackwardSums{.count = count, .epsilon = 1e-3}, {&x, &dy, &sums, &dsums, &dw, &db});
    run(program::BatchNormBackward{.count = count, .epsilon = 1e-3}, {&x, &dy, &sums, &dsums, &w, &dx});
    run(program::BatchNormRecall{}, {&mean, &var, &recalled});
    run(program::BatchNormTrack{.count = count * of.groups, .momentum = 0.25}, {&totals, &mean, &var});
  }
  // A summand and a ReLU, whose gradient is masked by what forward left.
  template <class F>
  void RunMasked(const F& run, bool adds_gradients) {
    RunSums(run);
    run(program::BatchNormForward{count, 1e-3, true}, {&x, &sums, &w, &b, &addend, &z});
    if (adds_gradients) {
      run(program::BatchNormMaskedSums{count, 1e-3}, {&x, &z, &dy, &sums, &more, &dz, &dsums, &dw, &db});
    } else {
      run(program::BatchNormMaskedSums{count, 1e-3}, {&x, &z, &dy, &sums, &dz, &dsums, &dw, &db});
    }
  }
  // A ReLU, whose gradient is masked by what is worked out anew.
  template <class F>
  void RunRecalled(const F& run) {
    RunSums(run);
    run(program::BatchNormForward{count, 1e-3, true}, {&x, &sums, &w, &b, &y});
    run(program::BatchNormBackwardSums{count, 1e-3}, {&x, &dy, &sums, &w, &b, &dsums, &dw, &db});
    run(program::BatchNormBackward{count, 1e-3}, {&x, &dy, &sums, &dsums, &w, &b, &dx});
  }
};
const auto kKernels = [](const auto& op, const std::vector<Tensor*>& tensors) { RunKernels(op, tensors); };
const auto kOracle = [](const auto& op, const std::vector<Tensor*>& tensors) { RunOracle(op, tensors); };

// Shapes with several parts of positions and with one, of few channels and many, in whole vectors and not, of every rank.
std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  const auto add = [&](const Shape& shape, std::vector<int64_t> group_counts) {
    for (int64_t groups : group_counts) {
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        for (bool in_box : {false, true}) settings.push_back({shape, groups, dtype, in_box, /*relu=*/in_box});
      }
    }
  };
  add({32, 64, 8, 8}, {1, 4});
  add({8, 136, 7, 7}, {2});
  add({6, 3, 5, 5}, {3, 6});
  add({2, 520, 3, 3}, {1});
  add({32, 40}, {2});
  add({4, 10, 7}, {2});
  return settings;
}

TEST(BatchNorm, SumsOfIntegersAreExact) {
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(ToString(setting));
    Layer kernels(setting);
    kernels.x.Fill([](int64_t i) { return static_cast<double>((i * 7 + i / 5) % 7 - 2); });
    Layer oracle = kernels;
    kernels.RunSums(kKernels);
    oracle.RunSums(kOracle);
    EXPECT_EQ(kernels.sums.values(), oracle.sums.values());
    EXPECT_EQ(kernels.totals.values(), oracle.totals.values());
  }
}

// What is f32 comes of a handful of roundings to 2⁻²⁴. Sums in double differ by the order of adding, and those of x̂ by what
// Σx² loses where the mean is far larger than the deviation.
void ExpectAlike(const Layer& kernels, const Layer& oracle, double of_elements) {
  EXPECT_LE(RelativeDistance(kernels.sums.values(), oracle.sums.values()), 1e-14);
  EXPECT_LE(RelativeDistance(kernels.totals.values(), oracle.totals.values()), 1e-14);
  EXPECT_LE(RelativeDistance(kernels.y.values(), oracle.y.values()), of_elements);
  EXPECT_LE(RelativeDistance(kernels.dsums.values(), oracle.dsums.values()), 1e-7);
  EXPECT_LE(RelativeDistance(kernels.dw.values(), oracle.dw.values()), 1e-7);
  EXPECT_LE(RelativeDistance(kernels.db.values(), oracle.db.values()), 1e-7);
  EXPECT_LE(RelativeDistance(kernels.dx.values(), oracle.dx.values()), of_elements);
  EXPECT_LE(RelativeDistance(kernels.recalled.values(), oracle.recalled.values()), 1e-14);
  EXPECT_LE(RelativeDistance(kernels.mean.values(), oracle.mean.values()), 1e-7);
  EXPECT_LE(RelativeDistance(kernels.var.values(), oracle.var.values()), 1e-7);
}

TEST(BatchNorm, IsTheOraclesInEveryGroupAndLayout) {
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(ToString(setting));
    Layer kernels(setting);
    kernels.FillWithNumbers(0.5);
    Layer oracle = kernels;
    kernels.RunAll(kKernels);
    oracle.RunAll(kOracle);
    ExpectAlike(kernels, oracle, setting.dtype == DType::kBF16 ? 1.0 / 256 : 5e-7);
  }
}

TEST(BatchNorm, AddsASummandAndMasksItsGradientAsTheOracleDoes) {
  for (const Setting& setting : Settings()) {
    for (bool adds_gradients : {false, true}) {
      SCOPED_TRACE(ToString(setting));
      Layer kernels(setting);
      kernels.FillWithNumbers(0.5);
      Layer oracle = kernels;
      kernels.RunMasked(kKernels, adds_gradients);
      oracle.RunMasked(kOracle, adds_gradients);
      const double of_elements = setting.dtype == DType::kBF16 ? 1.0 / 256 : 5e-7;
      EXPECT_LE(RelativeDistance(kernels.z.values(), oracle.z.values()), of_elements);
      EXPECT_LE(RelativeDistance(kernels.dz.values(), oracle.dz.values()), of_elements);
      // A sum of two of bf16 may be rounded the other way where double and float differ: in 2⁻⁹ of one in 2¹⁵.
      EXPECT_LE(RelativeDistance(kernels.dsums.values(), oracle.dsums.values()),
                setting.dtype == DType::kBF16 ? 1e-5 : 1e-6);
    }
  }
}

// In whatever way the gradient of a ReLU is masked, it is by the bits that forward left.
TEST(BatchNorm, AReluThatIsRecalledMasksWhatForwardCut) {
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(ToString(setting));
    Layer recalled(setting);
    // Integers, so that many results are zero or next to it.
    recalled.x.Fill([](int64_t i) { return static_cast<double>((i * 7 + i / 5) % 7 - 2); });
    recalled.w.Fill([](int64_t i) { return static_cast<double>(i % 5 - 2); });
    recalled.b.Fill([](int64_t i) { return static_cast<double>(i % 3 - 1); });
    recalled.dy.Fill([](int64_t i) { return static_cast<double>(i % 11 - 5); });
    recalled.RunRecalled(kKernels);
    Layer apart = recalled;
    const std::vector<double> y = apart.y.values(), dy = apart.dy.values();
    apart.dy.Fill([&](int64_t i) { return y[i] > 0 ? dy[i] : 0; });
    kKernels(program::BatchNormBackwardSums{apart.count, 1e-3},
             std::vector<Tensor*>{&apart.x, &apart.dy, &apart.sums, &apart.dsums, &apart.dw, &apart.db});
    kKernels(program::BatchNormBackward{apart.count, 1e-3},
             std::vector<Tensor*>{&apart.x, &apart.dy, &apart.sums, &apart.dsums, &apart.w, &apart.dx});
    EXPECT_EQ(recalled.dsums.values(), apart.dsums.values());
    EXPECT_EQ(recalled.dw.values(), apart.dw.values());
    EXPECT_EQ(recalled.dx.values(), apart.dx.values());
  }
}

// Whether a thread's elements all have the same channels, as with 4 threads here, or other ones each time, as with 5.
TEST(BatchNorm, GivesTheSameBitsOnAnyNumberOfThreads) {
  for (int64_t groups : {1, 2}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      Layer usual({.shape = {4, 16, 5, 5}, .groups = groups, .dtype = dtype});
      usual.FillWithNumbers(0.5);
      usual.RunRecalled(kKernels);
      for (int64_t threads : {1, 2, 3, 4, 5, 8, 100, 1000}) {
        SCOPED_TRACE(absl::StrCat(ToString(usual.of), ", ", threads, " threads"));
        Layer layer({.shape = usual.of.shape, .groups = groups, .dtype = dtype});
        layer.FillWithNumbers(0.5);
        layer.RunRecalled([&](const auto& op, const std::vector<Tensor*>& tensors) { RunKernels(op, tensors, threads); });
        EXPECT_EQ(layer.y.values(), usual.y.values());
        EXPECT_EQ(layer.dx.values(), usual.dx.values());
      }
    }
  }
}

// The mean rounded to f32 alone would be off by 10⁻⁴ of a deviation.
TEST(BatchNorm, KeepsItsDigitsWhereTheMeanIsThousandsOfDeviations) {
  Layer kernels({.shape = {16, 8, 6, 6}, .groups = 2});
  kernels.FillWithNumbers(3000.37);
  Layer oracle = kernels;
  kernels.RunAll(kKernels);
  oracle.RunAll(kOracle);
  ExpectAlike(kernels, oracle, 5e-7);
}

// So that one device with two groups computes what two devices with one group each do.
TEST(BatchNorm, AGroupHasTheBitsThatItHasAlone) {
  Layer both({.shape = {32, 16, 16, 16}, .groups = 2});
  both.FillWithNumbers(0.5);
  both.RunAll(kKernels);
  Layer second({.shape = {16, 16, 16, 16}, .groups = 1});
  const auto half = [](const Tensor& all, Tensor& of) {
    const std::vector<double> values = all.values();
    of.Fill([&](int64_t i) { return values[values.size() / 2 + i]; });
  };
  half(both.x, second.x);
  half(both.dy, second.dy);
  second.w = both.w;
  second.b = both.b;
  second.RunAll(kKernels);
  const auto expect_half = [](const Tensor& all, const Tensor& of) {
    const std::vector<double> values = all.values();
    EXPECT_EQ(std::vector<double>(values.begin() + values.size() / 2, values.end()), of.values());
  };
  expect_half(both.sums, second.sums);
  expect_half(both.dsums, second.dsums);
  expect_half(both.y, second.y);
  expect_half(both.dx, second.dx);
}

}  // namespace
}  // namespace colonnade::cuda
