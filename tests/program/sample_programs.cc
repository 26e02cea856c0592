#include "tests/program/sample_programs.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "program/dag.h"
#include "program/formulas/philox.h"

namespace colonnade::program {
namespace {

constexpr Lane kCompute = Lane::kCompute;
const Shape kScalarsShape = {StepScalar::kCount};
const Shape kMetricsShape = {Metric::kCount};

// The buffers of one of the two columns.
struct Column {
  BufferId images, labels, label_count, scalars, whole, dwhole, flat, logits, p, metrics, dlogits, dflat, dy, flags;
  BufferId weights, gradients, momenta;  // buckets
  std::vector<BufferId> w, dw, v;        // members: conv.w, conv.b, fc.w
};

class TwoColumnsMaker {
 public:
  Program Make() {
    for (int d = 0; d < 2; ++d) AddBuffers(d);
    Declare();
    for (int d = 0; d < 2; ++d) Forward(d);
    b_.AddExchange(0, Side(0), 1, Side(1), Lane::kComm, {"conv", Pass::kForward});
    for (int d = 0; d < 2; ++d) RestOfForwardAndBackward(d);
    b_.AddCollective(b_.AddGroup({0, 1}), {.kind = CollectiveKind::kAllReduce},
                     {{{b_.Accumulate(columns_[0].gradients)}}, {{b_.Accumulate(columns_[1].gradients)}}}, Lane::kComm,
                     {"bucket 0", Pass::kBackward});
    for (int d = 0; d < 2; ++d) Update(d);
    return std::move(b_).Build();
  }

 private:
  void AddBuffers(int d) {
    Column& c = columns_[d];
    c.images = b_.AddBuffer(d, "images", DType::kF32, {2, 1, 4, 4});
    c.labels = b_.AddBuffer(d, "labels", DType::kI32, {2});
    c.scalars = b_.AddBuffer(d, "scalars", DType::kF64, kScalarsShape);
    c.whole = b_.AddBuffer(d, "conv.whole", DType::kF32, {2, 4, 2, 2});
    c.dwhole = b_.AddBuffer(d, "conv.dwhole", DType::kF32, {2, 4, 2, 2});
    c.flat = b_.AddBuffer(d, "flat", DType::kF32, {2, 16});
    c.logits = b_.AddBuffer(d, "logits", DType::kF32, {2, 3});
    c.p = b_.AddBuffer(d, "p", DType::kF32, {2, 3});
    c.metrics = b_.AddBuffer(d, "metrics", DType::kF64, kMetricsShape);
    c.dlogits = b_.AddBuffer(d, "dlogits", DType::kF32, {2, 3});
    c.dflat = b_.AddBuffer(d, "dflat", DType::kF32, {2, 16});
    c.dy = b_.AddBuffer(d, "conv.dy", DType::kF32, {2, 2, 2, 2});
    c.flags = b_.AddBuffer(d, "finite", DType::kI32, {3});
    c.weights = AddBucket(d, "bucket0", Lifetime::kPersistent, {}, c.w);
    c.gradients = AddBucket(d, "bucket0.gradient", Lifetime::kStep, c.w, c.dw);
    c.momenta = AddBucket(d, "bucket0.momentum", Lifetime::kPersistent, c.w, c.v);
    c.label_count = b_.AddBuffer(d, "label_count", DType::kF64, {1});
  }

  // The channels that device `d` makes of an image of all.
  static BufferUse Columns(BufferId whole, int d, Access access) {
    return {whole, {{0, 2 * d, 0, 0}, {2, 2, 2, 2}}, access};
  }

  BufferId AddBucket(int d, const std::string& name, Lifetime lifetime, const std::vector<BufferId>& layout_as,
                     std::vector<BufferId>& members) {
    const BufferId id = b_.AddBucket({.device = d,
                                      .name = name,
                                      .lifetime = lifetime,
                                      .parts = 2,
                                      .held_parts = 2,
                                      .member_names = {name + ".conv.w", name + ".conv.b", name + ".fc.w"},
                                      .member_shapes = {{2, 1, 3, 3}, {2}, {3, 16}},
                                      .member_layout_as = layout_as});
    members = std::get<Bucket>(b_.buffer(id).storage).members;
    return id;
  }

  void Declare() {
    const Shape shapes[] = {{4, 1, 3, 3}, {4}, {3, 16}};
    const char* names[] = {"conv.w", "conv.b", "fc.w"};
    for (int i = 0; i < 3; ++i) {
      Parameter p{.name = names[i],
                  .layer = i < 2 ? "conv" : "fc",
                  .shape = shapes[i],
                  .initializer = {Initializer::Kind::kGaussian, 0.01}};
      for (int d = 0; d < 2; ++d) {
        Region region = Region::Whole(b_.shape(columns_[d].w[i]));
        if (i < 2) region.offset[0] = 2 * d;
        p.value().push_back({columns_[d].w[i], region});
        p.pieces(StateKind::kMomentum).push_back({columns_[d].v[i], region});
      }
      b_.AddParameter(std::move(p));
    }
    Input images{"images", DType::kF32, {2, 1, 4, 4}, {}}, labels{"labels", DType::kI32, {2}, {}};
    Input scalars{"scalars", DType::kF64, kScalarsShape, {}};
    Output metrics{Output::Kind::kMetrics, "metrics", "softmax", kMetricsShape, {}};
    Output finite{Output::Kind::kFinite, "finite", "", {3}, {}};
    metrics.pieces = {{columns_[0].metrics, Region::Whole(kMetricsShape)}};
    for (const Column& c : columns_) {
      images.pieces.push_back({c.images, Region::Whole(images.shape)});
      labels.pieces.push_back({c.labels, Region::Whole(labels.shape)});
      scalars.pieces.push_back({c.scalars, Region::Whole(scalars.shape)});
      finite.pieces.push_back({c.flags, Region::Whole(finite.shape)});
    }
    b_.AddInput(images);
    b_.AddInput(labels);
    b_.AddInput(scalars);
    b_.AddOutput(metrics);
    b_.AddOutput(finite);
  }

  void Add(int d, Lane lane, Op op, Uses uses, const char* layer, Pass pass) {
    b_.AddCompute(d, lane, std::move(op), std::move(uses), 10, {layer, pass});
  }

  void Forward(int d) {
    const Column& c = columns_[d];
    Add(d, Lane::kCopy, Load{0}, {b_.Write(c.images)}, "images", Pass::kInput);
    Add(d, Lane::kCopy, Load{1}, {b_.Write(c.labels)}, "labels", Pass::kInput);
    Add(d, Lane::kCopy, Load{2}, {b_.Write(c.scalars)}, "scalars", Pass::kInput);
    Add(d, kCompute, ConvForward{.window = {3, 3}, .bias = true, .relu = true},
        {b_.Read(c.images), b_.Read(c.w[0]), b_.Read(c.w[1]), Columns(c.whole, d, Access::kWrite)}, "conv", Pass::kForward);
  }

  Member Side(int d) {
    const Column& c = columns_[d];
    return {{Columns(c.whole, d, Access::kRead), Columns(c.whole, 1 - d, Access::kWrite)}, {.bytes_sent = 64}};
  }

  void RestOfForwardAndBackward(int d) {
    const Column& c = columns_[d];
    Add(d, kCompute, Copy{}, {b_.Read(c.whole), b_.Write(c.flat)}, "flatten", Pass::kForward);
    Add(d, kCompute, FullyConnectedForward{}, {b_.Read(c.flat), b_.Read(c.w[2]), b_.Write(c.logits)}, "fc", Pass::kForward);
    Add(d, kCompute, SoftmaxCrossEntropyForward{},
        {b_.Read(c.logits), b_.Read(c.labels), b_.Write(c.p), b_.Write(c.metrics)}, "softmax", Pass::kForward);
    Add(d, kCompute, CountLabels{}, {b_.Read(c.labels), b_.Write(c.label_count)}, "softmax", Pass::kForward);
    Add(d, kCompute, SoftmaxCrossEntropyBackward{},
        {b_.Read(c.label_count), b_.Read(c.p), b_.Read(c.labels), b_.Write(c.dlogits)}, "softmax", Pass::kBackward);
    Add(d, kCompute, FullyConnectedBackwardWeights{}, {b_.Read(c.flat), b_.Read(c.dlogits), b_.Write(c.dw[2])}, "fc",
        Pass::kBackward);
    Add(d, kCompute, FullyConnectedBackwardData{}, {b_.Read(c.dlogits), b_.Read(c.w[2]), b_.Write(c.dflat)}, "fc",
        Pass::kBackward);
    Add(d, kCompute, Copy{}, {b_.Read(c.dflat), b_.Write(c.dwhole)}, "flatten", Pass::kBackward);
    const BufferUse y = Columns(c.whole, d, Access::kRead), dcolumn = Columns(c.dwhole, d, Access::kRead);
    Add(d, kCompute, ActivationBackward{Activation::kRelu}, {y, dcolumn, b_.Write(c.dy)}, "conv", Pass::kBackward);
    Add(d, kCompute, ConvBackwardWeights{.window = {3, 3}, .bias = true},
        {b_.Read(c.images), b_.Read(c.dy), b_.Write(c.dw[0]), b_.Write(c.dw[1])}, "conv", Pass::kBackward);
  }

  void Update(int d) {
    const Column& c = columns_[d];
    for (int i = 0; i < 3; ++i) {
      Add(d, kCompute, CheckFinite{}, {b_.Read(c.dw[i]), {c.flags, {{i}, {1}}, Access::kWrite}}, "bucket 0", Pass::kUpdate);
    }
    Add(d, kCompute, SgdUpdate{.weight_decay = 0.0005},
        {b_.Read(c.scalars), b_.Read(c.gradients), b_.Accumulate(c.momenta), b_.Accumulate(c.weights)}, "bucket 0",
        Pass::kUpdate);
    if (d == 0) Add(d, Lane::kCopy, Store{0}, {b_.Read(c.metrics)}, "metrics", Pass::kOutput);
    Add(d, Lane::kCopy, Store{1}, {b_.Read(c.flags)}, "finite", Pass::kOutput);
  }

  Builder b_{"two_columns", Mode::kTrain, 2, DType::kF32, {{"data", 1}, {"model", 2}}};
  std::array<Column, 2> columns_;
};

// Adds tasks with fresh outputs to one device.
class OneDevice {
 public:
  BufferId New(DType dtype, Shape shape) {
    return b.AddBuffer(0, absl::StrCat("buffer", count_++), dtype, std::move(shape));
  }
  BufferId State(DType dtype, Shape shape) {
    return b.AddBuffer(0, absl::StrCat("state", count_++), dtype, std::move(shape), Lifetime::kPersistent);
  }
  // Reads `inputs`, writes new f32 buffers of `outputs`.
  std::vector<BufferId> Do(Op op, const std::vector<BufferId>& inputs, const std::vector<Shape>& outputs) {
    Uses uses;
    std::vector<BufferId> written;
    for (BufferId input : inputs) uses.push_back(b.Read(input));
    for (const Shape& shape : outputs) {
      written.push_back(New(DType::kF32, shape));
      uses.push_back(b.Write(written.back()));
    }
    b.AddCompute(0, kCompute, std::move(op), std::move(uses), {}, {"layer with spaces", Pass::kForward});
    return written;
  }
  Builder b{"every op", Mode::kTrain, 2, DType::kF32, {}};

 private:
  int count_ = 0;
};

struct NormOperands {
  BufferId sums, dsums, w, b, dw, db;
};

// What BatchNormOps does, with more operands.
void FusedBatchNormOps(OneDevice& d, BufferId images, BufferId y, const NormOperands& n) {
  constexpr int64_t kCount = 36;
  constexpr double kEpsilon = 0.25;
  const Shape image = d.b.shape(images);
  const auto run = [&](Op op, Uses uses) {
    for (BufferId written : {n.dsums, n.dw, n.db}) uses.push_back(d.b.Write(written));
    d.b.AddCompute(0, kCompute, std::move(op), std::move(uses), {}, {"batch norm"});
  };
  const BufferId z = d.Do(BatchNormForward{kCount, kEpsilon, true}, {images, n.sums, n.w, n.b, y}, {image})[0];
  run(BatchNormBackwardSums{kCount, kEpsilon},
      {d.b.Read(images), d.b.Read(z), d.b.Read(n.sums), d.b.Read(n.w), d.b.Read(n.b)});
  const BufferId masked = d.New(DType::kF32, image);
  run(BatchNormMaskedSums{kCount, kEpsilon},
      {d.b.Read(images), d.b.Read(z), d.b.Read(y), d.b.Read(n.sums), d.b.Write(masked)});
  run(BatchNormMaskedSums{kCount, kEpsilon},
      {d.b.Read(images), d.b.Read(z), d.b.Read(y), d.b.Read(n.sums), d.b.Read(images), d.b.Write(masked)});
  d.Do(BatchNormBackward{kCount, kEpsilon}, {images, masked, n.sums, n.dsums, n.w, n.b}, {image});
}

// Batch normalisation in two groups of one sample.
void BatchNormOps(OneDevice& d, BufferId images) {
  constexpr int64_t kCount = 36;
  const double epsilon = 0.1 + 0.2;
  const Shape image = d.b.shape(images);
  const BufferId w = d.State(DType::kF32, {4}), b = d.State(DType::kF32, {4});
  const BufferId mean = d.State(DType::kF32, {4}), var = d.State(DType::kF32, {4});
  const BufferId sums = d.New(DType::kF64, {2, 2, 4}), totals = d.New(DType::kF64, {1, 2, 4});
  const BufferId dsums = d.New(DType::kF64, {2, 2, 4}), recalled = d.New(DType::kF64, {1, 2, 4});
  const BufferId dw = d.New(DType::kF32, {4}), db = d.New(DType::kF32, {4});
  const auto run = [&](Op op, Uses uses) {
    d.b.AddCompute(0, kCompute, std::move(op), std::move(uses), {}, {"batch norm"});
  };
  run(BatchNormSums{}, {d.b.Read(images), d.b.Write(sums), d.b.Write(totals)});
  const BufferId y = d.Do(BatchNormForward{kCount, epsilon, true}, {images, sums, w, b}, {image})[0];
  run(BatchNormTrack{2 * kCount, 1.0 / 3}, {d.b.Read(totals), d.b.Accumulate(mean), d.b.Accumulate(var)});
  run(BatchNormRecall{}, {d.b.Read(mean), d.b.Read(var), d.b.Write(recalled)});
  const BufferId filters = d.State(DType::kF32, {4, 2, 3, 3});
  d.Do(BatchNormFold{epsilon}, {filters, mean, var, w, b}, {{4, 2, 3, 3}, {4}});
  d.Do(BatchNormFold{epsilon}, {filters, mean, var, w, b, b}, {{4, 2, 3, 3}, {4}});
  run(BatchNormBackwardSums{kCount, epsilon},
      {d.b.Read(images), d.b.Read(y), d.b.Read(sums), d.b.Write(dsums), d.b.Write(dw), d.b.Write(db)});
  d.Do(BatchNormBackward{kCount, epsilon}, {images, y, sums, dsums, w}, {image});
  FusedBatchNormOps(d, images, y, {sums, dsums, w, b, dw, db});
}

void LayerNormOps(OneDevice& d, BufferId images) {
  const Shape image = d.b.shape(images);
  const BufferId w = d.State(DType::kF32, {4}), b = d.State(DType::kF32, {4});
  const auto forward = d.Do(LayerNormForward{1.0 / 3}, {images, w, b}, {image, {2, 3, 6, 6}});
  d.Do(LayerNormBackwardData{}, {images, forward[0], forward[1], w}, {image});
  d.Do(LayerNormBackwardWeights{}, {images, forward[0], forward[1]}, {{4}, {4}});
}

// The ops on images; returns images [2,4,6,6].
BufferId ImageOps(OneDevice& d, BufferId images, BufferId scalars) {
  const Window same{3, 3, 1, 1, 1, 1, 1, 1}, half{2, 2, 2, 2};
  const Shape image = {2, 4, 6, 6}, small = {2, 4, 3, 3};
  const BufferId w = d.State(DType::kF32, {4, 2, 3, 3}), bias = d.State(DType::kF32, {4});
  const BufferId y = d.Do(ConvForward{same, 2, true, true}, {images, w, bias}, {image})[0];
  d.Do(ConvBackwardData{same, 2}, {y, w}, {image});
  d.Do(ConvBackwardWeights{same, 2, true}, {images, y}, {{4, 2, 3, 3}, {4}});
  d.Do(BiasForward{}, {y, bias}, {image});
  d.Do(BiasBackward{}, {y}, {{4}});
  const BufferId r = d.Do(ActivationForward{Activation::kRelu}, {y}, {image})[0];
  d.Do(ActivationBackward{Activation::kRelu}, {r, y}, {image});
  d.Do(ActivationForward{Activation::kGelu}, {y}, {image});
  d.Do(ActivationBackward{Activation::kGelu}, {y, r}, {image});
  const BufferId pooled = d.New(DType::kF32, small), argmax = d.New(DType::kU8, small);
  d.b.AddCompute(0, kCompute, MaxPoolForward{half}, {d.b.Read(y), d.b.Write(pooled), d.b.Write(argmax)}, {}, {"pool"});
  d.Do(MaxPoolBackward{half}, {argmax, pooled}, {image});
  const BufferId mean = d.Do(AvgPoolForward{half, false}, {y}, {small})[0];
  d.Do(AvgPoolBackward{half, false}, {mean}, {image});
  const LrnForward lrn{.size = 3, .groups = 2, .alpha = 0.1 + 0.2, .beta = 1.0 / 3, .k = 1};
  const BufferId normal = d.Do(lrn, {y}, {image})[0];
  d.Do(LrnBackward{lrn.size, lrn.groups, lrn.alpha, lrn.beta, lrn.k}, {y, normal}, {image});
  BatchNormOps(d, y);
  LayerNormOps(d, y);
  return d.Do(Dropout{0.25, 7, {4, 4, 6, 6}, {2, 0, 0, 0}}, {scalars, y}, {image})[0];
}

}  // namespace

Program TwoColumnsUnscheduled() { return TwoColumnsMaker().Make(); }

Program TwoColumns() {
  Program program = TwoColumnsUnscheduled();
  AddAllWaits(program);
  return program;
}

Program EveryOp() {
  OneDevice d;
  const BufferId bytes = d.b.AddLoaded(0, "bytes", DType::kU8, {2, 6, 6, 4}), scalars = d.New(DType::kF64, kScalarsShape);
  const BufferId labels = d.New(DType::kI32, {2}), metrics = d.New(DType::kF64, kMetricsShape);
  const std::pair<const char*, BufferId> inputs[] = {{"images", bytes}, {"labels", labels}, {"scalars", scalars}};
  for (const auto& [name, buffer] : inputs) {
    const Shape shape = d.b.shape(buffer);
    const int input = d.b.AddInput({name, d.b.buffer(buffer).dtype, shape, {{buffer, Region::Whole(shape)}}});
    d.b.AddCompute(0, buffer == bytes ? Lane::kLoad : kCompute, Load{input}, {d.b.Write(buffer)}, {}, {name, Pass::kInput});
  }
  const BufferId images = d.Do(Normalise{{0.5, 1, 2, 0}, {0, -1, 0.25, 3}}, {bytes}, {{2, 4, 6, 6}})[0];
  const BufferId x = ImageOps(d, images, scalars);
  const BufferId total = d.Do(Sum{}, {x, images}, {{2, 4, 6, 6}})[0];
  const BufferId flat = d.Do(Copy{}, {total}, {{2, 144}})[0];
  const BufferId w = d.State(DType::kF32, {10, 144}), bias = d.State(DType::kF32, {10}), v = d.State(DType::kF32, {10, 144});
  const BufferId logits = d.Do(FullyConnectedForward{true, true}, {flat, w, bias}, {{2, 10}})[0];
  const BufferId p = d.New(DType::kF32, {2, 10});
  d.b.AddCompute(0, kCompute, SoftmaxCrossEntropyForward{},
                 {d.b.Read(logits), d.b.Read(labels), d.b.Write(p), d.b.Write(metrics)}, {}, {"loss"});
  const BufferId count = d.New(DType::kF64, {1});
  d.b.AddCompute(0, kCompute, CountLabels{}, {d.b.Read(labels), d.b.Read(labels), d.b.Write(count)}, {}, {"loss"});
  const BufferId dlogits = d.Do(SoftmaxCrossEntropyBackward{}, {count, p, labels}, {{2, 10}})[0];
  d.Do(FullyConnectedBackwardData{}, {dlogits, w}, {{2, 144}});
  const BufferId dw = d.Do(FullyConnectedBackwardWeights{true}, {flat, dlogits}, {{10, 144}, {10}})[0];
  const BufferId flag = d.New(DType::kI32, {1});
  d.b.AddCompute(0, kCompute, CheckFinite{}, {d.b.Read(dw), d.b.Write(flag)}, {}, {"fc", Pass::kUpdate});
  d.b.AddCompute(0, kCompute, SgdUpdate{0.9, 5e-4, SgdForm::kNesterov},
                 {d.b.Read(scalars), d.b.Read(dw), d.b.Accumulate(v), d.b.Accumulate(w)}, {}, {"fc", Pass::kUpdate});
  const BufferId norms = d.New(DType::kF64, {1, 2}), gate = d.New(DType::kF64, {Gate::kCount}),
                 trust = d.New(DType::kF64, {1});
  const BufferId second = d.State(DType::kF32, {10, 144});
  d.b.AddCompute(0, kCompute, SquaredNorms{}, {d.b.Read(dw), d.b.Write(norms)}, {}, {"fc", Pass::kUpdate});
  d.b.AddCompute(0, kCompute, SquaredNorms{{1}}, {d.b.Read(dw), d.b.Read(w), d.b.Write(norms)}, {}, {"fc", Pass::kUpdate});
  d.b.AddCompute(0, kCompute, UpdateGate{1.5, 1e-3, 5e-4, {0}, {1}}, {d.b.Read(norms), d.b.Write(gate), d.b.Write(trust)},
                 {}, {"gate", Pass::kUpdate});
  d.b.AddCompute(0, kCompute, AdamWUpdate{{0.9, 0.999, 1e-8}, 0.01, {0.5}, {0}},
                 {d.b.Read(scalars), d.b.Read(gate), d.b.Read(trust), d.b.Read(dw), d.b.Accumulate(v),
                  d.b.Accumulate(second), d.b.Accumulate(w)},
                 {}, {"fc", Pass::kUpdate});
  const BufferId mean = d.State(DType::kF32, {4}), var = d.State(DType::kF32, {4}), totals = d.New(DType::kF64, {1, 2, 4});
  d.b.AddCompute(0, kCompute, BatchNormRecall{}, {d.b.Read(mean), d.b.Read(var), d.b.Write(totals)}, {}, {"batch norm"});
  d.b.AddCompute(0, kCompute, BatchNormTrack{72, 0.1},
                 {d.b.Read(totals), d.b.Accumulate(mean), d.b.Accumulate(var), d.b.Read(gate)}, {}, {"batch norm"});
  const BufferId average = d.State(DType::kF32, {10, 144});
  d.b.AddCompute(0, kCompute, AverageUpdate{0.999}, {d.b.Read(gate), d.b.Read(w), d.b.Accumulate(average)}, {},
                 {"fc", Pass::kUpdate});
  d.b.AddCompute(0, kCompute, AverageUpdate{0.5}, {d.b.Read(w), d.b.Accumulate(average)}, {}, {"fc", Pass::kUpdate});
  d.b.AddParameter({.name = "fc \"w\"\n",
                    .layer = "fc",
                    .shape = {10, 144},
                    .initializer = {Initializer::Kind::kUniform, 1.0 / 3},
                    .state = {{{{w, Region::Whole({10, 144})}}}}});
  const int output = d.b.AddOutput({Output::Kind::kGradient, "fc.w", "fc", {10, 144}, {{dw, Region::Whole({10, 144})}}});
  d.b.AddCompute(0, kCompute, Store{output}, {d.b.Read(dw)}, {}, {"fc", Pass::kOutput});
  const int shown = d.b.AddOutput({Output::Kind::kActivation, "fc", "fc", {2, 10}, {{logits, Region::Whole({2, 10})}}});
  d.b.AddCompute(0, kCompute, Store{shown}, {d.b.Read(logits)}, {}, {"fc", Pass::kOutput});
  Program program = std::move(d.b).Build();
  DeclareState(program);
  for (Task& task : program.tasks) {
    if (UsesSlots(program, task) && task.lane == kCompute) task.waits.push_back(TaskId{0});
  }
  return program;
}

Program EveryCollective() {
  Builder b("collectives", Mode::kEval, 4, DType::kF64, {{"all", 2}});
  const int group = b.AddGroup({1, 0});
  const auto add = [&](Collective attributes, const Shape& x, const Shape& y, Access first, Access other) {
    std::vector<Member> members;
    for (int device : {1, 0}) {
      Member member;
      const bool root = members.empty();
      member.uses.push_back(
          {b.AddBuffer(device, absl::StrCat(Name(attributes.kind), ".x"), DType::kF64, x, Lifetime::kPersistent),
           Region::Whole(x), root ? first : other});
      if (!y.empty()) member.uses.push_back(b.Write(b.AddBuffer(device, "y", DType::kF64, y)));
      members.push_back(std::move(member));
    }
    b.AddCollective(group, attributes, std::move(members), Lane::kComm, {"reshard"});
  };
  constexpr Access kR = Access::kRead, kW = Access::kWrite, kA = Access::kAccumulate;
  add({.kind = CollectiveKind::kAllGather, .dim_to = 1}, {2, 3, 4}, {2, 6, 4}, kR, kR);
  add({.kind = CollectiveKind::kReduceScatter, .dim_to = 2}, {2, 3, 4}, {2, 3, 2}, kR, kR);
  add({.kind = CollectiveKind::kAllReduce}, {5}, {}, kA, kA);
  add({.kind = CollectiveKind::kAllToAll, .dim_from = 0, .dim_to = 1}, {2, 3}, {1, 6}, kR, kR);
  add({.kind = CollectiveKind::kReduce, .root = 0}, {5}, {}, kA, kR);
  add({.kind = CollectiveKind::kBroadcast, .root = 0}, {5}, {}, kR, kW);
  Program program = std::move(b).Build();
  DeclareState(program);
  return program;
}

Program RandomLifetimes(uint32_t seed, int buffers) {
  Builder b("random", Mode::kTrain, 1, DType::kF32, {});
  std::vector<BufferId> written;
  for (int i = 0; i < buffers; ++i) {
    const Philox4 r = RandomBlock(seed, RandomPurpose::kSyntheticData, 0, 0, i);
    const bool is_ahead = i == 0 && seed % 2 == 1;  // loaded into two slots
    const Shape shape = {1 + r.v[0] % 500};
    const BufferId y =
        is_ahead ? b.AddLoaded(0, "b0", DType::kF32, shape) : b.AddBuffer(0, absl::StrCat("b", i), DType::kF32, shape);
    const Lane lane = is_ahead ? Lane::kLoad : static_cast<Lane>(r.v[1] % static_cast<int>(Lane::kLoad));
    if (written.empty()) {
      b.AddInput({"x", DType::kF32, b.shape(y), {{y, Region::Whole(b.shape(y))}}});
      b.AddCompute(0, lane, Load{0}, {b.Write(y)}, {}, {"x"});
    } else {
      // Reads one element of a buffer written not long before, so that lifetimes are short and differ.
      const BufferId x = written[written.size() - 1 - r.v[2] % std::min<size_t>(written.size(), 4)];
      BufferUse element{x, {{0}, {1}}, Access::kRead};
      BufferUse first{y, {{0}, {1}}, Access::kWrite};
      b.AddCompute(0, lane, Copy{}, {element, first}, {}, {"copy"});
    }
    written.push_back(y);
  }
  Program program = std::move(b).Build();
  AddAllWaits(program);
  return program;
}

void AddAllWaits(Program& program) {
  const Dependencies dependencies = DeriveDependencies(program);
  for (Task& task : program.tasks) {
    for (TaskId before : dependencies.within[task.id.value]) {
      if (program.task(before).lane != task.lane) task.waits.push_back(before);
    }
    for (TaskId before : dependencies.carried[task.id.value]) {
      if (program.task(before).lane != task.lane) task.waits_previous.push_back(before);
    }
  }
}

void DeclareState(Program& program) {
  std::set<BufferId> declared;
  for (const Parameter& parameter : program.parameters) {
    for (const std::vector<Piece>& pieces : parameter.state) {
      for (const Piece& piece : pieces) declared.insert(piece.buffer);
    }
  }
  for (const Buffer& buffer : program.buffers) {
    if (buffer.lifetime != Lifetime::kPersistent || std::holds_alternative<Bucket>(buffer.storage)) continue;
    if (declared.contains(buffer.id)) continue;
    program.parameters.push_back({.name = absl::StrCat(buffer.name, " ", buffer.id.value),
                                  .role = StateRole::kFrozen,
                                  .shape = buffer.shape,
                                  .state = {{{{buffer.id, Region::Whole(buffer.shape)}}}}});
  }
}

Task& Find(Program& program, absl::string_view word, int device) {
  for (Task& task : program.tasks) {
    if (Name(task) == word && task.device == device) return task;
  }
  ADD_FAILURE() << "no task " << word << " on device " << device;
  return program.tasks[0];
}

Buffer& FindBuffer(Program& program, absl::string_view name, int device) {
  for (Buffer& buffer : program.buffers) {
    if (buffer.name == name && buffer.device == device) return buffer;
  }
  ADD_FAILURE() << "no buffer " << name << " on device " << device;
  return program.buffers[0];
}

Program PartsOfBuckets() {
  Builder b("parts", Mode::kTrain, 1, DType::kF32, {});
  std::vector<BufferId> buckets;
  for (const char* name : {"from", "more", "to", "sum"}) {
    buckets.push_back(b.AddBucket({.name = name,
                                   .lifetime = Lifetime::kPersistent,
                                   .parts = 2,
                                   .held_parts = 2,
                                   .member_names = {absl::StrCat(name, ".m")},
                                   .member_shapes = {{8}}}));
  }
  const auto part = [&](int bucket, int index, Access access) { return BufferUse{buckets[bucket], {{index}, {1}}, access}; };
  for (int i : {0, 1}) {
    b.AddCompute(0, Lane::kCompute, Copy{}, {part(0, i, Access::kRead), part(2, i, Access::kWrite)}, {}, {"copy"});
    b.AddCompute(0, Lane::kCompute, Sum{},
                 {part(0, i, Access::kRead), part(1, i, Access::kRead), part(3, i, Access::kWrite)}, {}, {"sum"});
  }
  Program program = std::move(b).Build();
  DeclareState(program);
  return program;
}

}  // namespace colonnade::program
