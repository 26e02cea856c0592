// The part of the rule `structure` that looks at one task: its operands' number, access, element types and extents.
// It has one overload for each op, in one file, so that one sees what is checked of which.

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>

#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "program/epsilon.h"
#include "program/op_traits.h"
#include "program/optimizer.h"
#include "program/product_uses.h"
#include "program/strides.h"
#include "program/verify/rules.h"

namespace colonnade::program {
namespace {

constexpr Access kR = Access::kRead, kW = Access::kWrite, kA = Access::kAccumulate;

// Of a max pooling that notes its maxima: a byte numbers the cells.
constexpr int64_t kMostWindowCells = 256;

// Visits what a task does. Each overload fills `problem_` with the first thing that does not fit, and returns early where
// later checks would read operands that are not there.
class OperandCheck {
 public:
  OperandCheck(const Program& program, const Task& task) : program_(program), task_(task) {}

  absl::Status Run() {
    std::visit(*this, task_.body);
    return problem_.empty() ? absl::OkStatus() : RuleBroken("structure", Describe(task_), " ", problem_);
  }

  void operator()(const Compute& compute) {
    if (OperandsFit(compute.op)) std::visit(*this, compute.op);
  }

  void operator()(const Exchange& exchange) {
    if (exchange.peer < 0 || exchange.peer >= program_.device_count) return Fail("names the peer ", exchange.peer);
    if (!exchange.sends && !exchange.receives) return Fail("neither sends nor receives");
    if (exchange.sends && exchange.receives) {
      HasAccesses({kR, kW});
    } else {
      HasAccesses({exchange.sends ? kR : kW});
    }
  }

  void operator()(const Collective& collective) {
    if (collective.group < 0 || static_cast<size_t>(collective.group) >= program_.groups.size()) {
      return Fail("names group ", collective.group, " of ", program_.groups.size());
    }
    const int members = static_cast<int>(program_.groups[collective.group].size());
    switch (collective.kind) {
      case CollectiveKind::kAllGather:
      case CollectiveKind::kAllToAll:
        HasAccesses({kR, kW});
        return;
      case CollectiveKind::kReduceScatter:
        if (HasAccesses({kR, kW})) SumsMasters();
        return;
      case CollectiveKind::kAllReduce:
        if (HasAccesses({kA})) SumsMasters();
        return;
      case CollectiveKind::kReduce:
      case CollectiveKind::kBroadcast:  // which member has which access is a matter of the whole instance
        if (task_.uses.size() != 1) return Fail("has ", task_.uses.size(), " operands; expected 1");
        if (collective.kind == CollectiveKind::kReduce) SumsMasters();
        if (collective.root < 0 || collective.root >= members) {
          return Fail("names root ", collective.root, " of ", members, " members");
        }
        return;
    }
  }

  void operator()(const Load& op) {
    if (op.input < 0 || static_cast<size_t>(op.input) >= program_.inputs.size()) Fail("names input ", op.input);
  }
  void operator()(const Store& op) {
    if (op.output < 0 || static_cast<size_t>(op.output) >= program_.outputs.size()) Fail("names output ", op.output);
  }
  void operator()(const Copy&) {
    if (!(IsFloat(Type(0)) && IsFloat(Type(1))) && !SameTypes({0, 1})) return;
    if (IsBucket(0) != IsBucket(1)) return Fail("copies between a bucket's parts and a tensor");
    if (IsBucket(0)) return (void)SameBuckets({0, 1});
    if (Count(0) != Count(1)) Fail("copies ", base::Counted(Count(0), "element"), " to ", Count(1));
  }
  void operator()(const Normalise& op) {
    if (Size(0).size() < 2 || Size(1).size() != Size(0).size()) {
      return Fail("makes ", ToString(Size(1)), " of ", ToString(Size(0)), "; expected [n,C,…] of [n,…,C]");
    }
    if (!Shaped(1, ChannelsFirst(Size(0)))) return;
    for (const std::vector<double>* numbers : {&op.scale, &op.shift}) {
      if (static_cast<int64_t>(numbers->size()) != Size(1)[1]) {
        return Fail("has ", base::Counted(numbers->size(), "number"), " for ", base::Counted(Size(1)[1], "channel"));
      }
      for (double number : *numbers) {
        if (!FitsF32(number)) return Fail("has the number ", number, "; expected numbers that f32 holds");
      }
    }
  }
  void operator()(const Sum&) {
    for (size_t i = 0; i < task_.uses.size(); ++i) {
      if (!SameShapes({0, i}) || !SameTypes({0, i})) return;
      if (IsBucket(0) != IsBucket(i)) return Fail("adds a bucket's parts to a tensor");
      if (IsBucket(0) && !SameBuckets({0, i})) return;
    }
  }

  void operator()(const ConvForward& op) {
    const ProductUses uses = ForwardUses(op.bias);
    if (!Conv(op.window, op.groups, uses)) return;
    FitsBias(uses);
    MakesSummand(op, uses.y);
  }
  void operator()(const ConvBackwardData& op) { Conv(op.window, op.groups, BackwardDataUses()); }
  void operator()(const ConvBackwardWeights& op) {
    const ProductUses uses = BackwardWeightsUses(op.bias);
    if (Conv(op.window, op.groups, uses)) FitsBias(uses);
  }

  void operator()(const FullyConnectedForward& op) {
    const ProductUses uses = ForwardUses(op.bias);
    if (!FullyConnected(uses)) return;
    FitsBias(uses);
    MakesSummand(op, uses.y);
  }
  void operator()(const FullyConnectedBackwardData&) { FullyConnected(BackwardDataUses()); }
  void operator()(const FullyConnectedBackwardWeights& op) {
    const ProductUses uses = BackwardWeightsUses(op.bias);
    if (FullyConnected(uses)) FitsBias(uses);
  }

  void operator()(const BiasForward&) {
    if (SameShapes({0, 2}) && Channels(0)) Shaped(1, {Size(0)[1]});
  }
  void operator()(const BiasBackward&) {
    if (Channels(0)) Shaped(1, {Size(0)[1]});
  }
  void operator()(const ActivationForward&) { SameShapes({0, 1}); }
  void operator()(const ActivationBackward&) { SameShapes({0, 1, 2}); }

  void operator()(const MaxPoolForward& op) {
    if (Pool(op.window, 0, 1) && HasOptional(op) && SameShapes({1, 2})) FitsArgmax(op.window);
  }
  void operator()(const MaxPoolBackward& op) {
    if (Pool(op.window, 2, 1) && SameShapes({0, 1})) FitsArgmax(op.window);
  }
  void operator()(const AvgPoolForward& op) { Pool(op.window, 0, 1); }
  void operator()(const AvgPoolBackward& op) { Pool(op.window, 1, 0); }

  void operator()(const LrnForward& op) {
    if (SameShapes({0, 1})) Lrn(op);
  }
  void operator()(const LrnBackward& op) {
    if (SameShapes({0, 1, 2})) Lrn(op);
  }

  void operator()(const BatchNormSums& op) {
    if (HasSumsOf(0, 1) && HasOptional(op)) Shaped(2, {1, 2, Size(0)[1]});
  }
  void operator()(const BatchNormForward& op) {
    const size_t y = task_.uses.size() - 1;
    if (!HasCount(op.count) || !SameShapes({0, 4, y}) || !HasSumsOf(0, 1)) return;
    Channelwise({2, 3}, Size(0)[1]);
    FitsEpsilon(op.epsilon);
  }
  void operator()(const BatchNormTrack& op) {
    if (!HasCount(op.count) || !Ranked({1}, 1) || !Shaped(0, {1, 2, Size(1)[0]})) return;
    Channelwise({2}, Size(1)[0]);
    IsFromZeroToOne("momentum", op.momentum);
    if (HasOptional(op)) Shaped(3, {Gate::kCount});
  }
  void operator()(const BatchNormRecall&) {
    if (Ranked({0}, 1) && SameShapes({0, 1})) Shaped(2, {1, 2, Size(0)[0]});
  }
  void operator()(const BatchNormFold& op) {
    const size_t folded = task_.uses.size() - 2;
    if (!Channels(0) || !SameShapes({0, folded})) return;
    Channelwise({1, 2, 3, 4, folded - 1, folded + 1}, Size(0)[0]);
    FitsEpsilon(op.epsilon);
  }
  void operator()(const BatchNormBackwardSums& op) {
    const size_t dsums = task_.uses.size() - 3;
    if (!HasCount(op.count) || !SameShapes({0, 1}) || !HasSumsOf(0, 2) || !SameShapes({2, dsums})) return;
    if (HasOptional(op)) Channelwise({3, 4}, Size(0)[1]);
    Channelwise({dsums + 1, dsums + 2}, Size(0)[1]);
    FitsEpsilon(op.epsilon);
  }
  void operator()(const BatchNormMaskedSums& op) {
    const size_t dz = task_.uses.size() - 4, dsums = dz + 1;
    if (!HasCount(op.count) || !SameShapes({0, 1, 2, dz}) || !HasSumsOf(0, 3) || !SameShapes({3, dsums})) return;
    if (HasOptional(op)) SameShapes({0, 4});
    Channelwise({dsums + 1, dsums + 2}, Size(0)[1]);
    FitsEpsilon(op.epsilon);
  }
  void operator()(const BatchNormBackward& op) {
    const size_t dx = task_.uses.size() - 1;
    if (!HasCount(op.count) || !SameShapes({0, 1, dx}) || !HasSumsOf(0, 2) || !SameShapes({2, 3})) return;
    Channelwise({4, dx - 1}, Size(0)[1]);
    FitsEpsilon(op.epsilon);
  }

  void operator()(const LayerNormForward& op) {
    if (!SameShapes({0, 3}) || !HasMoments(0, 4)) return;
    Channelwise({1, 2}, Size(0)[1]);
    FitsEpsilon(op.epsilon);
  }
  void operator()(const LayerNormBackwardData&) {
    if (SameShapes({0, 1, 4}) && HasMoments(0, 2)) Channelwise({3}, Size(0)[1]);
  }
  void operator()(const LayerNormBackwardWeights&) {
    if (SameShapes({0, 1}) && HasMoments(0, 2)) Channelwise({3, 4}, Size(0)[1]);
  }

  void operator()(const Dropout& op) {
    if (!SameShapes({1, 2})) return;
    if (!(op.rate >= 0 && op.rate < 1)) return Fail("has rate ", op.rate, "; expected [0, 1)");
    if (!IsSound(op.global_shape)) {
      return Fail("has the global tensor ", ToString(op.global_shape), "; expected at most ", kMaxRank,
                  " extents, none negative, and at most 2^48 elements");
    }
    if (!Fits({op.offset, Size(1)}, op.global_shape)) {
      Fail("holds ", ToString(Size(1)), " at ", ToString(op.offset), ", which is not inside the global tensor ",
           ToString(op.global_shape));
    }
  }

  void operator()(const SoftmaxCrossEntropyForward& op) {
    if (SameShapes({0, 2}) && Labels(1, 0)) CheckLoss(op);
  }
  void operator()(const CountLabels&) {
    for (size_t i = 0; i + 1 < task_.uses.size(); ++i) Ranked({i}, 1);
  }
  void operator()(const SoftmaxCrossEntropyBackward& op) {
    if (SameShapes({1, 3}) && Labels(2, 1)) CheckLoss(op);
  }
  void operator()(const CheckFinite&) {}
  void operator()(const SgdUpdate& op) {
    IsFromZeroToOne("momentum", op.momentum);
    Updates(op, 1);
  }
  void operator()(const AdamWUpdate& op) {
    if (const absl::Status adam = CheckOptimizer(op.adam); !adam.ok()) Fail("has ", adam.message());
    Updates(op, 2);
  }
  void operator()(const AverageUpdate& op) {
    IsFromZeroToOne("decay", op.decay);
    const size_t w = task_.uses.size() - 2;
    if (AreAlike({w, w + 1}) && w > 0) Shaped(0, {Gate::kCount});
  }
  void operator()(const SquaredNorms& op) {
    const size_t norms = task_.uses.size() - 1;
    if (norms == 2 && !AreAlike({0, 1})) return;
    if (Shaped(norms, {MemberCount(0), 2})) AreFactors("counted", op.counted, MemberCount(0));
  }
  void operator()(const UpdateGate& op) {
    if (!Ranked({0}, 2) || !Shaped(0, {Size(0)[0], 2}) || !Shaped(1, {Gate::kCount}) || !Shaped(2, {Size(0)[0]})) return;
    IsFactor("norm to clip to", op.clip_norm);
    IsFactor("trust", op.trust);
    IsFactor("weight decay", op.weight_decay);
    AreFactors("decays", op.decays, Size(0)[0]);
    AreFactors("adapted", op.adapted, Size(0)[0]);
  }

 private:
  // An update by a gradient behind the scalars, with `moments` kept beside the weights, and perhaps with gate and trust.
  template <class Update>
  void Updates(const Update& op, size_t moments) {
    const bool is_gated = HasOptional(op);
    const size_t g = is_gated ? 3 : 1;
    for (size_t i = g; i <= g + moments; ++i) {
      if (!AreAlike({g, i + 1})) return;
    }
    if (is_gated && Shaped(1, {Gate::kCount})) Shaped(2, {MemberCount(g)});
    IsFactor("weight decay", op.weight_decay);
    AreFactors("rates", op.rates, MemberCount(g));
    AreFactors("decays", op.decays, MemberCount(g));
  }
  bool HasOptional(const Op& op) const { return HasOptionalOperands(op, task_.uses.size()); }
  bool AreAlike(std::initializer_list<size_t> operands) {
    if (!SameTypes(operands) || !SameShapes(operands)) return false;
    const Extents first = ExtentsOf(program_, task_.uses[*operands.begin()]);
    for (size_t i : operands) {
      if (ExtentsOf(program_, task_.uses[i]) == first) continue;
      Fail(
          "has gradient, what is kept, and weights that are not alike; expected tensors, or parts of buckets with equal "
          "members");
    }
    return problem_.empty();
  }
  int64_t MemberCount(size_t i) const {
    const auto* bucket = std::get_if<Bucket>(&program_.buffer(task_.uses[i].buffer).storage);
    return bucket == nullptr ? 1 : static_cast<int64_t>(bucket->members.size());
  }
  void IsFactor(absl::string_view name, double value) {
    if (!(value >= 0 && FitsF32(value))) Fail("has ", name, " ", value, "; expected a number from 0 that f32 holds");
  }
  void AreFactors(absl::string_view name, const Factors& factors, int64_t members) {
    if (!factors.empty() && static_cast<int64_t>(factors.size()) != members) {
      return Fail("has ", base::Counted(factors.size(), "number"), " in ", name, "; expected ", members);
    }
    for (double factor : factors) {
      if (!(factor >= 0 && FitsF32(factor))) Fail("has ", factor, " in ", name, "; expected numbers from 0 that f32 holds");
    }
  }

  template <class Loss>
  void CheckLoss(const Loss& op) {
    if (!(op.weight > 0 && FitsF32(op.weight))) {
      return Fail("has weight ", op.weight, "; expected a number above 0 that f32 holds");
    }
    if (!(op.label_smoothing >= 0 && op.label_smoothing < 1)) {
      Fail("has label smoothing ", op.label_smoothing, "; expected [0, 1)");
    }
  }
  template <class... Parts>
  void Fail(const Parts&... parts) {
    if (problem_.empty()) problem_ = absl::StrCat(parts...);
  }

  const Shape& Size(size_t i) const { return task_.uses[i].region.size; }
  int64_t Count(size_t i) const { return task_.uses[i].region.elements(); }
  DType Type(size_t i) const { return program_.buffer(task_.uses[i].buffer).dtype; }
  bool IsBucket(size_t i) const { return std::holds_alternative<Bucket>(program_.buffer(task_.uses[i].buffer).storage); }

  // Number and access of the operands of a transfer.
  bool HasAccesses(std::initializer_list<Access> expected) {
    bool equal = task_.uses.size() == expected.size();
    for (size_t i = 0; equal && i < expected.size(); ++i) equal = task_.uses[i].access == expected.begin()[i];
    const auto word = [](std::string* out, Access access) { absl::StrAppend(out, Name(access)); };
    if (!equal) FailOperands(absl::StrJoin(expected, ", ", word));
    return equal;
  }
  // Sums over devices would be rounded once for each device in bf16, and are no sums of numbers in other types.
  void SumsMasters() {
    if (!IsMaster(Type(0))) Fail("sums ", Name(Type(0)), " over devices; expected f32 or f64");
  }
  void FailOperands(const std::string& expected) {
    const auto word = [](std::string* out, const BufferUse& use) { absl::StrAppend(out, Name(use.access)); };
    Fail("has the operands (", absl::StrJoin(task_.uses, ", ", word), "); expected (", expected, ")");
  }

  // Number, access and element types of an op's operands, as its traits have them.
  bool OperandsFit(const Op& op) {
    const std::optional<OperandTraits> traits = TraitsOfOperands(op, task_.uses.size());
    bool equal = traits.has_value();
    for (size_t i = 0; equal && i < traits->size(); ++i) equal = task_.uses[i].access == (*traits)[i]->access;
    if (!equal) {
      FailOperands(DescribeOperands(op));
      return false;
    }
    // The type that tensors of layers share, or have the MasterType of; absent in an op of parameters alone.
    std::optional<DType> element;
    for (size_t i = 0; i < traits->size() && !element.has_value(); ++i) {
      if (IsTensor((*traits)[i]->role) && (*traits)[i]->width == Width::kElement) element = Type(i);
    }
    for (size_t i = 0; i < traits->size(); ++i) TypeFits(i, *(*traits)[i], element);
    return problem_.empty();
  }

  void TypeFits(size_t i, const OperandTrait& trait, std::optional<DType> element) {
    if (IsTensor(trait.role)) return TensorFits(i, trait, element);
    const std::optional<DType> type = TypeOf(trait.role);
    if (!type.has_value() || !Types({i}, *type)) return;
    if (trait.role == Role::kScalars) Shaped(i, {StepScalar::kCount});
    if (trait.role == Role::kMetrics) Shaped(i, {Metric::kCount});
    if (trait.role == Role::kFlag || trait.role == Role::kCount) Shaped(i, {1});
  }

  void TensorFits(size_t i, const OperandTrait& trait, std::optional<DType> element) {
    if (!element.has_value()) {
      if (!IsMaster(Type(i))) Fail("has operand ", i, ", ", trait.name, ", of ", Name(Type(i)), "; expected f32 or f64");
    } else if (!IsFloat(Type(i)) || IsBucket(i)) {
      Fail("has operand ", i, ", ", trait.name, ", of ", Name(Type(i)), "; expected a tensor of f32, f64 or bf16");
    } else if (trait.width != Width::kSummand || Type(i) != MasterType(*element)) {
      Types({i}, trait.width == Width::kMaster ? MasterType(*element) : *element);
    }
  }

  // Refuses bias and ReLU on a summand, since they belong to the finished sum.
  template <class Forward>
  void MakesSummand(const Forward& op, size_t y) {
    if (Type(y) == Type(0) || !(op.bias || op.relu)) return;
    Fail("makes a summand of ", Name(Type(y)), " from operands of ", Name(Type(0)),
         " and has bias or relu; expected these after the sum");
  }

  bool Types(std::initializer_list<size_t> operands, DType expected) {
    for (size_t i : operands) {
      if (Type(i) != expected) Fail("has operand ", i, " of ", Name(Type(i)), "; expected ", Name(expected));
    }
    return problem_.empty();
  }
  bool SameTypes(std::initializer_list<size_t> operands) { return Types(operands, Type(*operands.begin())); }

  bool SameShapes(std::initializer_list<size_t> operands) {
    const size_t first = *operands.begin();
    for (size_t i : operands) {
      if (Size(i) != Size(first)) {
        Fail("has operand ", first, " of shape ", ToString(Size(first)), ", but operand ", i, " of ", ToString(Size(i)));
      }
    }
    return problem_.empty();
  }

  // Parts of buckets that hold alike tensors, so that equal parts hold equal elements of them.
  bool SameBuckets(std::initializer_list<size_t> operands) {
    const Extents first = ExtentsOf(program_, task_.uses[*operands.begin()]);
    for (size_t i : operands) {
      if (ExtentsOf(program_, task_.uses[i]) != first) {
        Fail("has buckets ", *operands.begin(), " and ", i,
             " that differ in element type, parts or members; expected equal ones");
      }
    }
    return problem_.empty();
  }

  bool Shaped(size_t i, const Shape& expected) {
    if (Size(i) != expected) Fail("has operand ", i, " of shape ", ToString(Size(i)), "; expected ", ToString(expected));
    return problem_.empty();
  }

  bool Ranked(std::initializer_list<size_t> operands, size_t rank) {
    for (size_t i : operands) {
      if (Size(i).size() != rank) Fail("has operand ", i, " of shape ", ToString(Size(i)), "; expected rank ", rank);
    }
    return problem_.empty();
  }

  bool Labels(size_t labels, size_t logits) { return Ranked({logits}, 2) && Shaped(labels, {Size(logits)[0]}); }
  bool Channels(size_t x) {
    if (Size(x).size() < 2) Fail("has operand ", x, " of shape ", ToString(Size(x)), "; expected [n,K,…]");
    return problem_.empty();
  }

  // One dimension of a window; its padding before and behind.
  struct Span {
    int64_t size, stride, begin, end;
  };
  static Span Rows(const Window& w) { return {w.size_h, w.stride_h, w.pad_top, w.pad_bottom}; }
  static Span Columns(const Window& w) { return {w.size_w, w.stride_w, w.pad_left, w.pad_right}; }

  // The output extent of one dimension; fails if the window is none or does not fit. A pooling's padding is less than its
  // window: else a window may hold nothing but padding, which has no maximum and no mean.
  int64_t OutputExtent(int64_t input, const Span& w, bool pools) {
    const auto fail = [&](absl::string_view expected) {
      Fail("has a window of ", w.size, " with stride ", w.stride, " and padding ", w.begin,
           w.end == w.begin ? "" : absl::StrCat(" before and ", w.end, " behind"), " over ", input, "; expected ", expected);
      return 0;
    };
    if (w.size < 1 || w.stride < 1) return fail("a size and a stride of at least 1");
    if (w.begin < 0 || w.end < 0) return fail("padding of at least 0");
    if (std::max({w.size, w.stride, w.begin, w.end}) > kMaxAttribute) return fail("none of these above 2^31");
    if (pools && std::max(w.begin, w.end) >= w.size) return fail("padding less than the window");
    if (input + w.begin + w.end < w.size) return fail("a window that fits into the padded input");
    return (input + w.begin + w.end - w.size) / w.stride + 1;
  }

  // Whether `y` has the image extents that `window` leaves of `x`.
  bool HasWindowsOf(const Window& window, bool pools, size_t x, size_t y) {
    const int64_t p = OutputExtent(Size(x)[2], Rows(window), pools), q = OutputExtent(Size(x)[3], Columns(window), pools);
    return problem_.empty() && Shaped(y, {Size(x)[0], Size(y)[1], p, q});
  }

  bool Conv(const Window& window, int64_t groups, const ProductUses& uses) {
    const size_t x = uses.x, w = uses.w, y = uses.y;
    if (!Ranked({x, w, y}, 4) || !HasWindowsOf(window, /*pools=*/false, x, y)) return false;
    const int64_t channels = Size(x)[1];
    if (groups < 1 || channels % groups != 0 || Size(y)[1] % groups != 0) {
      Fail("has ", groups, " groups, which do not divide ", channels, " input and ",
           base::Counted(Size(y)[1], "output channel"));
      return false;
    }
    return Shaped(w, {Size(y)[1], channels / groups, window.size_h, window.size_w});
  }

  bool FullyConnected(const ProductUses& uses) {
    const size_t x = uses.x, w = uses.w, y = uses.y;
    return Ranked({x, w, y}, 2) && Shaped(w, {Size(y)[1], Size(x)[1]}) && Shaped(y, {Size(x)[0], Size(w)[0]});
  }

  void FitsBias(const ProductUses& uses) {
    if (uses.bias != ProductUses::kNone) Shaped(uses.bias, {Size(uses.w)[0]});
  }

  bool Pool(const Window& window, size_t x, size_t y) {
    if (!Ranked({x, y}, 4) || !HasWindowsOf(window, /*pools=*/true, x, y)) return false;
    if (Size(x)[1] != Size(y)[1]) Fail("pools ", base::Counted(Size(x)[1], "channel"), " to ", Size(y)[1]);
    return problem_.empty();
  }

  void FitsArgmax(const Window& window) {
    const int64_t cells = window.size_h * window.size_w;
    if (cells > kMostWindowCells) Fail("has a window of ", cells, " cells; argmax numbers at most ", kMostWindowCells);
  }

  template <class Op>
  void Lrn(const Op& op) {
    if (op.size < 1) Fail("has a window of ", op.size, " channels");
    if (!(op.alpha >= 0 && FitsF32(op.alpha)) || !(op.beta >= 0 && FitsF32(op.beta)) || !(op.k > 0 && FitsF32(op.k))) {
      Fail("has alpha ", op.alpha, ", beta ", op.beta, " and k ", op.k, ", of which powers may not be finite");
    }
    if (!Ranked({0}, 4)) return;
    if (op.groups < 1 || Size(0)[1] % op.groups != 0)
      Fail("has ", op.groups, " groups, which do not divide ", base::Counted(Size(0)[1], "channel"));
  }

  // Whether `sums` are those of groups of x's samples.
  bool HasSumsOf(size_t x, size_t sums) {
    if (!Channels(x) || !Ranked({sums}, 3)) return false;
    const int64_t groups = Size(sums)[0];
    if (groups < 1 || Size(x)[0] % groups != 0) {
      Fail("has ", groups, " groups of samples, which do not divide ", base::Counted(Size(x)[0], "sample"));
    }
    return problem_.empty() && Shaped(sums, {groups, 2, Size(x)[1]});
  }
  // Whether `moments` are three numbers of each sample and position of x.
  bool HasMoments(size_t x, size_t moments) {
    if (!Channels(x)) return false;
    Shape expected = Size(x);
    expected[1] = 3;
    return Shaped(moments, expected);
  }
  void Channelwise(std::initializer_list<size_t> operands, int64_t channels) {
    for (size_t i : operands) Shaped(i, {channels});
  }
  bool HasCount(int64_t count) {
    if (count < 1) Fail("has a count of ", count, "; expected at least 1");
    return problem_.empty();
  }
  void FitsEpsilon(double epsilon) {
    if (const absl::Status fits = CheckEpsilon(epsilon); !fits.ok()) Fail("is not as it should be: ", fits.message());
  }

  void IsFromZeroToOne(absl::string_view name, double value) {
    if (!(value >= 0 && value <= 1)) Fail("has ", name, " ", value, "; expected [0, 1]");
  }

  const Program& program_;
  const Task& task_;
  std::string problem_;
};

}  // namespace

absl::Status CheckOperands(const Program& program, const Task& task) { return OperandCheck(program, task).Run(); }

}  // namespace colonnade::program
