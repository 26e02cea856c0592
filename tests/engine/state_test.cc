// Parameters and momenta as global tensors, whatever boxes devices hold.

#include "engine/state.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/io/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/builder.h"
#include "program/formulas/bfloat16.h"
#include "tests/engine/fake_backend.h"
#include "tests/engine/load_weights.h"
#include "tests/engine/parameters.h"

namespace colonnade::engine {
namespace {

using program::BufferId;
using program::DType;
using program::Initializer;
using program::Lifetime;
using program::Program;
using program::Region;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(InitializeParameters, GivesTheSameTensorsUnderEveryCut) {
  Loaded whole(Parameters(1, 1));
  const std::vector<NamedTensor> expected = whole.Initial(3);
  for (const auto& [parts, copies] : {std::pair{2, 1}, {1, 3}, {4, 2}, {60, 1}}) {
    Loaded cut(Parameters(parts, copies));
    const std::vector<NamedTensor> found = cut.Initial(3);
    ASSERT_EQ(found.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(found[i].name, expected[i].name);
      EXPECT_EQ(found[i].shape, expected[i].shape);
      EXPECT_EQ(found[i].values, expected[i].values) << parts << " parts";
    }
    // Every copy, not the first alone.
    for (const program::Piece& piece : cut.program.parameters[1].value()) {
      EXPECT_EQ(cut.loaded.memory[piece.buffer.value], expected[1].values);
    }
  }
}

TEST(InitializeParameters, ProgramsInF64StartFromTheFloatsOfThoseInF32) {
  Loaded f32(Parameters(1, 1)), f64(Parameters(2, 1, DType::kF64));
  const std::vector<NamedTensor> a = f32.Initial(3), b = f64.Initial(3);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].values, b[i].values);
    for (double value : b[i].values) EXPECT_EQ(value, static_cast<double>(static_cast<float>(value)));
  }
  EXPECT_EQ(b[2].values[0], double{0.1f});
}

TEST(InitializeParameters, ValuesDependOnSeedAndNameAndHaveTheirDistribution) {
  Loaded loaded(Parameters(1, 1)), renamed(Parameters(1, 1, DType::kF32, "v"));
  const std::vector<double> w = loaded.Initial(3)[0].values;
  EXPECT_NE(loaded.Initial(4)[0].values, w);
  EXPECT_NE(renamed.Initial(3)[0].values, w);
  EXPECT_EQ(std::set<double>(w.begin(), w.end()).size(), w.size());
  double sum = 0, squares = 0;
  for (double value : w) {
    sum += value;
    squares += value * value;
  }
  // 2,400 numbers: four standard errors of the mean and of the deviation.
  const double n = static_cast<double>(w.size());
  EXPECT_NEAR(sum / n, 0, 4 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.5, 4 * 0.5 / std::sqrt(2 * n));
  const std::vector<double> uniform = loaded.Initial(3)[1].values;
  for (double value : uniform) EXPECT_LE(std::abs(value), 0.25);
}

TEST(InitializeParameters, MomentaBecomeZero) {
  Loaded loaded(Parameters(2, 1));
  for (std::vector<double>& values : loaded.loaded.memory) std::fill(values.begin(), values.end(), 9);
  loaded.Initial(1);
  const absl::StatusOr<std::vector<NamedTensor>> momenta = ReadTensors(loaded.loaded, StateKind::kMomentum);
  ASSERT_TRUE(momenta.ok());
  for (const NamedTensor& momentum : *momenta) {
    for (double value : momentum.values) EXPECT_EQ(value, 0) << momentum.name;
  }
}

TEST(WriteTensors, GivesEachPieceItsBox) {
  Loaded loaded(Parameters(2, 2));
  std::vector<NamedTensor> tensors = loaded.Initial(1);
  for (size_t i = 0; i < tensors[0].values.size(); ++i) tensors[0].values[i] = static_cast<double>(i);
  ASSERT_TRUE(WriteTensors(loaded.loaded, tensors).ok());
  for (const program::Piece& piece : loaded.program.parameters[0].value()) {
    const std::vector<double>& box = loaded.loaded.memory[piece.buffer.value];
    const int64_t first = piece.region.offset[1];
    EXPECT_EQ(box[0], first);
    EXPECT_EQ(box[29], first + 29);
    EXPECT_EQ(box[30], kColumns + first);
  }
  EXPECT_EQ((*ReadTensors(loaded.loaded))[0].values, tensors[0].values);
}

TEST(ReadTensors, PutsTogetherThePartsThatShardedDevicesHold) {
  Loaded loaded(Parameters(1, 2));
  const std::vector<program::Piece>& pieces = loaded.program.parameters[1].pieces(program::StateKind::kMomentum);
  loaded.loaded.memory[pieces[0].buffer.value] = {1, 2, 3, 4, 5, 66, 66, 66};
  loaded.loaded.memory[pieces[1].buffer.value] = {77, 77, 77, 77, 77, 6, 7, 8};
  loaded.loaded.held[pieces[0].buffer] = {0, 5};
  loaded.loaded.held[pieces[1].buffer] = {5, 8};
  EXPECT_THAT((*ReadTensors(loaded.loaded, StateKind::kMomentum))[1].values, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(WriteTensors, NamesTheTensorThatDoesNotFitAndWritesNothing) {
  Loaded loaded(Parameters(2, 1));
  const std::vector<NamedTensor> good = loaded.Initial(1);
  const std::vector<std::vector<double>> before = loaded.loaded.memory;
  auto error = [&](const std::vector<NamedTensor>& tensors) {
    const absl::Status status = WriteTensors(loaded.loaded, tensors);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(loaded.loaded.memory, before);
    return std::string(status.message());
  };
  std::vector<NamedTensor> tensors = good;
  tensors.pop_back();
  EXPECT_THAT(error(tensors), HasSubstr("tensor \"b\": expected shape [3], found no such tensor"));
  tensors = good;
  tensors.push_back({"extra", {1}, {0}});
  EXPECT_THAT(error(tensors), HasSubstr("tensor \"extra\": network \"net\" has no such parameter"));
  tensors = good;
  tensors[0].shape = {kColumns, kRows};
  EXPECT_THAT(error(tensors), HasSubstr("tensor \"w\": expected shape [40,60], found [60,40]"));
  tensors = good;
  tensors[0].values.pop_back();
  EXPECT_THAT(error(tensors), HasSubstr("tensor \"w\": expected 2400 values, found 2399"));
  tensors = good;
  tensors.push_back(good[1]);
  EXPECT_THAT(error(tensors), HasSubstr("tensor \"u\": expected one of that name, found several"));
}

// "w" [6] trained and cut over `parts` devices, then the statistics "mean" and "var" [4], whole on each.
Program WithStatistics(int parts) {
  program::Builder b("net", program::Mode::kTrain, 1, DType::kF32, {{"model", parts}});
  program::Parameter w{.name = "w", .layer = "l", .shape = {6}, .initializer = {Initializer::Kind::kGaussian, 0.5}};
  program::Parameter mean{.name = "mean",
                          .layer = "norm",
                          .role = program::StateRole::kStatistic,
                          .shape = {4},
                          .initializer = {Initializer::Kind::kConstant, 0}};
  program::Parameter var = mean;
  var.name = "var";
  var.initializer.value = 1;
  for (int d = 0; d < parts; ++d) {
    const Region part{{6 / parts * d}, {6 / parts}};
    w.value().push_back({b.AddBuffer(d, "w", DType::kF32, part.size, Lifetime::kPersistent), part});
    w.pieces(program::StateKind::kMomentum)
        .push_back({b.AddBuffer(d, "w.momentum", DType::kF32, part.size, Lifetime::kPersistent), part});
    for (program::Parameter* p : {&mean, &var}) {
      p->value().push_back({b.AddBuffer(d, p->name, DType::kF32, {4}, Lifetime::kPersistent), Region::Whole({4})});
    }
  }
  for (const program::Parameter& p : {w, mean, var}) b.AddParameter(p);
  return std::move(b).Build();
}

std::vector<std::string> NamesOf(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

TEST(Statistics, BeginAtTheirConstantsOnEveryDevice) {
  Loaded loaded(WithStatistics(3));
  for (std::vector<double>& values : loaded.loaded.memory) std::fill(values.begin(), values.end(), 9);
  ASSERT_TRUE(InitializeParameters(loaded.loaded, 5).ok());
  for (const program::Piece& piece : loaded.program.parameters[1].value()) {
    EXPECT_THAT(loaded.loaded.memory[piece.buffer.value], ElementsAre(0, 0, 0, 0));
  }
  for (const program::Piece& piece : loaded.program.parameters[2].value()) {
    EXPECT_THAT(loaded.loaded.memory[piece.buffer.value], ElementsAre(1, 1, 1, 1));
  }
}

// A statistic has no piece of momentum, so that reading one would leave zeros under its name.
TEST(Statistics, HaveNoMomentumToRead) {
  Loaded loaded(WithStatistics(2));
  const absl::StatusOr<std::vector<NamedTensor>> momenta = ReadTensors(loaded.loaded, StateKind::kMomentum);
  ASSERT_TRUE(momenta.ok()) << momenta.status();
  EXPECT_THAT(NamesOf(*momenta), ElementsAre("w"));
}

TEST(Statistics, HaveNoMomentumToWriteAndOneOfTheirNameIsRefused) {
  Loaded loaded(WithStatistics(2));
  ASSERT_TRUE(InitializeParameters(loaded.loaded, 5).ok());
  EXPECT_TRUE(WriteTensors(loaded.loaded, {{"w", {6}, {1, 2, 3, 4, 5, 6}}}, StateKind::kMomentum).ok());
  EXPECT_THAT((*ReadTensors(loaded.loaded, StateKind::kMomentum))[0].values, ElementsAre(1, 2, 3, 4, 5, 6));
  const absl::Status status =
      WriteTensors(loaded.loaded, {{"w", {6}, {6, 5, 4, 3, 2, 1}}, {"mean", {4}, {7, 7, 7, 7}}}, StateKind::kMomentum);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"mean\": network \"net\" has no such parameter"));
  EXPECT_THAT((*ReadTensors(loaded.loaded))[1].values, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT((*ReadTensors(loaded.loaded, StateKind::kMomentum))[0].values, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Statistics, AreReadSavedLoadedAndWrittenAsParametersAreAndMustNotLack) {
  Loaded loaded(WithStatistics(2)), other(WithStatistics(3));
  std::vector<NamedTensor> tensors = loaded.Initial(1);
  ASSERT_THAT(NamesOf(tensors), ElementsAre("w", "mean", "var"));
  tensors[1].values = {1, 2, 3, 4};
  tensors[2].values = {5, 6, 7, 8};
  ASSERT_TRUE(WriteTensors(other.loaded, tensors).ok());
  for (const program::Piece& piece : other.program.parameters[2].value()) {
    EXPECT_THAT(other.loaded.memory[piece.buffer.value], ElementsAre(5, 6, 7, 8));
  }
  EXPECT_THAT((*ReadTensors(other.loaded))[1].values, ElementsAre(1, 2, 3, 4));

  Loaded from_file(WithStatistics(1));
  const std::string path = ::testing::TempDir() + "/state_test_statistics.safetensors";
  ASSERT_TRUE(SaveTensors(path, *ReadTensors(other.loaded)).ok());
  const absl::StatusOr<std::vector<NamedTensor>> saved = LoadWeights(path);
  ASSERT_TRUE(saved.ok()) << saved.status();
  std::filesystem::remove(path);
  ASSERT_TRUE(WriteTensors(from_file.loaded, *saved).ok());
  EXPECT_THAT((*ReadTensors(from_file.loaded))[2].values, ElementsAre(5, 6, 7, 8));

  tensors.pop_back();
  EXPECT_THAT(std::string(WriteTensors(other.loaded, tensors).message()),
              HasSubstr("tensor \"var\": expected shape [4], found no such tensor"));
  tensors[1].name = "meen";
  EXPECT_EQ(WriteTensors(other.loaded, tensors).message(),
            "tensor \"mean\": expected shape [4], found no such tensor; the nearest name is \"meen\"");

  tensors[1].name = "a.wrapper.of.it.mean";
  EXPECT_THAT(std::string(WriteTensors(other.loaded, tensors).message()),
              HasSubstr("found no such tensor; the nearest name is \"a.wrapper.of.it.mean\""));

  // What is another parameter was not meant.
  other.program.parameters[1].name = tensors[1].name = "conv1.weight";
  other.program.parameters[2].name = "conv2.weight";
  EXPECT_EQ(WriteTensors(other.loaded, tensors).message(),
            "tensor \"conv2.weight\": expected shape [4], found no such tensor");
}

// Weights of a network for other classes: "b" is of the head.
TEST(WriteState, LeavesNewLayersAsTheyAre) {
  Loaded loaded(Parameters(2, 2));
  loaded.program.parameters[2].layer = "head";
  const std::vector<NamedTensor> before = loaded.Initial(1);
  StateCopy other;
  Loaded from(Parameters(1, 1));
  from.Initial(2);
  ASSERT_TRUE(CopyState(from.loaded, other).ok());
  std::vector<TensorView> tensors = other.views(StateKind::kValue);
  const std::vector<char> zeros(5 * sizeof(float));
  tensors[2] = {.name = "b", .dtype = DType::kF32, .shape = {5}, .bytes = zeros};
  EXPECT_THAT(std::string(WriteState(loaded.loaded, StateKind::kValue, tensors).message()),
              HasSubstr("tensor \"b\": expected shape [3], found [5]"));
  for (const bool has_head : {true, false}) {
    loaded.Initial(1);
    if (!has_head) tensors.pop_back();
    ASSERT_TRUE(WriteState(loaded.loaded, StateKind::kValue, tensors, {"head"}).ok()) << has_head;
    const std::vector<NamedTensor> after = *ReadTensors(loaded.loaded), taken = *ReadTensors(from.loaded);
    for (const size_t i : {0, 1}) {
      EXPECT_EQ(after[i].values, taken[i].values);
      EXPECT_NE(after[i].values, before[i].values);
    }
    EXPECT_EQ(after[2].values, before[2].values);
  }
  EXPECT_EQ(WriteState(loaded.loaded, StateKind::kValue, tensors, {"heat"}),
            absl::InvalidArgumentError(
                "new layer \"heat\": network \"net\" has no layer of that name with a value; did you mean \"head\"?"));
  tensors.pop_back();
  EXPECT_THAT(std::string(WriteState(loaded.loaded, StateKind::kValue, tensors, {"head"}).message()),
              HasSubstr("tensor \"u\": expected shape [8], found no such tensor"));
}

TEST(CheckCopies, AgreesWhereAllDevicesHoldTheSame) {
  for (const auto& [parts, copies] : {std::pair{1, 1}, {4, 1}, {1, 3}, {2, 2}}) {
    Loaded loaded(Parameters(parts, copies));
    loaded.Initial(3);
    EXPECT_TRUE(CheckCopies(loaded.loaded).ok()) << parts << " parts, " << copies << " copies";
  }
}

TEST(CheckCopies, NamesTensorAndDevicesWhereOneCopyIsOffByTheLastBit) {
  Loaded loaded(Parameters(2, 2));  // devices 1 and 3 hold the second half of "w"
  loaded.Initial(3);
  double& off = loaded.loaded.memory[loaded.program.parameters[0].value()[3].buffer.value][35];
  const float good = static_cast<float>(off);
  off = std::nextafter(good, 10.0f);
  const absl::Status status = CheckCopies(loaded.loaded);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"w\": devices 1 and 3 hold copies that differ, "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("as element 35 of their part"));
  off = good;
  EXPECT_TRUE(CheckCopies(loaded.loaded).ok());
}

TEST(CheckCopies, LooksAtStatisticsToo) {
  Loaded loaded(WithStatistics(3));
  loaded.Initial(1);
  loaded.loaded.memory[loaded.program.parameters[2].value()[2].buffer.value][3] = 1 + 0x1p-23;
  EXPECT_THAT(std::string(CheckCopies(loaded.loaded).message()),
              HasSubstr("\"var\": devices 0 and 2 hold copies that differ, 1 and 1.0000001192092896 as element 3"));
}

TEST(CheckCopies, LooksAtMomentaToo) {
  Loaded loaded(Parameters(1, 2));
  loaded.Initial(1);
  loaded.loaded.memory[loaded.program.parameters[0].pieces(StateKind::kMomentum)[1].buffer.value][3] = 1;
  EXPECT_THAT(std::string(CheckCopies(loaded.loaded).message()),
              HasSubstr("momentum of \"w\": devices 0 and 1 hold copies that differ, 0 and 1 as element 3"));
}

// Bits, not values: a zero of another sign is a difference, one and the same NaN is none.
TEST(CheckCopies, ComparesBits) {
  Loaded loaded(WithStatistics(2));
  loaded.Initial(1);
  const auto mean = [&loaded](int device) -> double& {
    return loaded.loaded.memory[loaded.program.parameters[1].value()[device].buffer.value][0];
  };
  mean(1) = -0.0;
  EXPECT_THAT(std::string(CheckCopies(loaded.loaded).message()), HasSubstr("differ, 0 and -0 as element 0"));
  mean(0) = mean(1) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(CheckCopies(loaded.loaded).ok());
}

// Boxes that begin at one place and end at others are no copies of each other.
TEST(CheckCopies, ComparesBoxesOfOneSizeAlone) {
  Program program = WithStatistics(2);
  program::Parameter& w = program.parameters[0];
  program.buffer(w.value()[1].buffer).shape = {6};
  w.value()[1].region = Region::Whole({6});
  Loaded loaded(std::move(program));
  loaded.Initial(1);
  loaded.loaded.memory[loaded.program.parameters[0].value()[0].buffer.value] = {7, 7, 7};
  EXPECT_TRUE(CheckCopies(loaded.loaded).ok());
}

TEST(CheckFinite, NamesTensorAndElement) {
  EXPECT_TRUE(CheckFinite({}).ok());
  const auto check = [](double value) {
    const double good[] = {-3e38, 1e-50}, bad[] = {1, 2, value};
    const auto view = [](const std::string& name, absl::Span<const double> values) {
      const auto* bytes = reinterpret_cast<const char*>(values.data());
      return TensorView{name, DType::kF64, {static_cast<int64_t>(values.size())}, {bytes, sizeof(double) * values.size()}};
    };
    return CheckFinite(std::vector<TensorView>{view("w", good), view("b", bad)});
  };
  EXPECT_TRUE(check(3).ok());
  for (double value : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity(), 1e39}) {
    const absl::Status status = check(value);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << value;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("tensor \"b\": expected finite values, found"));
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("element 2"));
  }
}

TEST(WriteState, NamesATensorWhoseBytesAreNotThoseOfItsShapeAndWritesNothing) {
  Loaded loaded(Parameters(2, 1));
  loaded.Initial(1);
  StateCopy copy;
  ASSERT_TRUE(CopyState(loaded.loaded, copy).ok());
  const std::vector<std::vector<double>> before = loaded.loaded.memory;
  std::vector<TensorView> views = copy.views(StateKind::kValue);
  ASSERT_TRUE(WriteState(loaded.loaded, StateKind::kValue, views).ok());
  views[1].bytes.remove_suffix(1);
  const absl::Status status = WriteState(loaded.loaded, StateKind::kValue, views);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "tensor \"u\": expected 32 bytes, found 31");
  views[1] = views[0];
  EXPECT_THAT(std::string(WriteState(loaded.loaded, StateKind::kValue, views).message()),
              HasSubstr("tensor \"w\": expected one of that name, found several"));
  EXPECT_EQ(loaded.loaded.memory, before);
}

TEST(WriteState, TakesNumbersOfAnyFloatingTypeAndNoOthers) {
  Loaded loaded(Parameters(2, 1));
  loaded.Initial(1);
  StateCopy copy;
  ASSERT_TRUE(CopyState(loaded.loaded, copy).ok());
  std::vector<TensorView> views = copy.views(StateKind::kValue);
  const std::vector<program::BFloat16> halves(program::ElementCount(views[1].shape), program::BFloat16(1.5F));
  views[1].dtype = DType::kBF16;
  views[1].bytes = {reinterpret_cast<const char*>(halves.data()), sizeof(program::BFloat16) * halves.size()};
  ASSERT_TRUE(CheckFinite(views).ok());
  ASSERT_TRUE(WriteState(loaded.loaded, StateKind::kValue, views).ok());
  EXPECT_EQ((*ReadTensors(loaded.loaded))[1].values, std::vector<double>(halves.size(), 1.5));
  for (DType dtype : {DType::kI32, DType::kU8}) {
    const std::vector<char> zeros(program::ElementCount(views[1].shape) * program::SizeInBytes(dtype));
    views[1].dtype = dtype;
    views[1].bytes = zeros;
    const absl::Status status = WriteState(loaded.loaded, StateKind::kValue, views);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), absl::StrCat("tensor \"u\": expected f32, f64 or bf16, found ", program::Name(dtype)));
  }
  const program::BFloat16 infinite(std::numeric_limits<float>::infinity());
  EXPECT_FALSE(
      CheckFinite(std::vector<TensorView>{{"w", DType::kBF16, {1}, {reinterpret_cast<const char*>(&infinite), 2}}}).ok());
}

// Of those that are drawn, the smallest is "u".
TEST(CheckInitialized, LooksAtAParameterWhoseInitialValuesAreNot0InSinglePrecision) {
  const auto of_bound = [](double bound) {
    program::Program program = Parameters(1, 1);
    program.parameters[1].initializer.value = bound;
    Loaded made(std::move(program));
    EXPECT_FALSE(CheckInitialized(made.loaded).ok());
    made.Initial(1);
    return CheckInitialized(made.loaded);
  };
  EXPECT_TRUE(of_bound(1e-30).ok());
  EXPECT_TRUE(of_bound(1e-46).ok()) << of_bound(1e-46);
}

}  // namespace
}  // namespace colonnade::engine
