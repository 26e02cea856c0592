// torchvision's state dicts load into the networks that have its layer names: every name, every shape, and counters of
// batches that nothing here needs. torchvision's googlenet is googlenet_bn here, with auxiliary heads where the dict has
// them.
//
// Source: torchvision's resnet.py, vgg.py, alexnet.py and googlenet.py; for alexnet and resnet50 a list of all entries,
// where it lies beside the repository.

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cpu/backend.h"
#include "engine/executor.h"
#include "engine/io/safetensors.h"
#include "engine/io/weights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/folder.h"
#include "tests/paths.h"

namespace colonnade::engine {
namespace {

using program::Shape;

struct StateDictEntry {
  std::string name;
  Shape shape;
  bool operator==(const StateDictEntry&) const = default;
};
using StateDict = std::vector<StateDictEntry>;

void AddLinear(StateDict& dict, const std::string& name, const Shape& weight) {
  dict.push_back({name + ".weight", weight});
  dict.push_back({name + ".bias", {weight[0]}});
}

void AddNorm(StateDict& dict, const std::string& name, int64_t channels) {
  for (const char* of : {".weight", ".bias", ".running_mean", ".running_var"}) dict.push_back({name + of, {channels}});
  dict.push_back({name + ".num_batches_tracked", {}});
}

StateDict VggOfTorchvision(const std::vector<std::vector<int64_t>>& stages, bool normalised) {
  StateDict dict;
  int64_t in = 3;
  int index = 0;
  for (const std::vector<int64_t>& stage : stages) {
    for (int64_t out : stage) {
      AddLinear(dict, absl::StrCat("features.", index), {out, in, 3, 3});
      if (normalised) AddNorm(dict, absl::StrCat("features.", index + 1), out);
      index += normalised ? 3 : 2;  // a ReLU has an index, too
      in = out;
    }
    ++index;  // and a pooling
  }
  AddLinear(dict, "classifier.0", {4096, 512 * 7 * 7});
  AddLinear(dict, "classifier.3", {4096, 4096});
  AddLinear(dict, "classifier.6", {1000, 4096});
  return dict;
}

struct ResnetOfTorchvision {
  std::vector<int> blocks;
  bool bottleneck = false;
  int64_t groups = 1, width_per_group = 64;

  StateDict Entries() const {
    StateDict dict = {{"conv1.weight", {64, 3, 7, 7}}};
    AddNorm(dict, "bn1", 64);
    int64_t in = 64;
    for (size_t stage = 0; stage < blocks.size(); ++stage) {
      const int64_t planes = int64_t{64} << stage, out = bottleneck ? 4 * planes : planes;
      for (int block = 0; block < blocks[stage]; ++block) {
        const std::string name = absl::StrCat("layer", stage + 1, ".", block);
        AddBlock(dict, name, in, planes, out);
        const bool projects = block == 0 && (stage > 0 || in != out);
        if (projects) {
          dict.push_back({name + ".downsample.0.weight", {out, in, 1, 1}});
          AddNorm(dict, name + ".downsample.1", out);
        }
        in = out;
      }
    }
    AddLinear(dict, "fc", {1000, in});
    return dict;
  }

 private:
  void AddBlock(StateDict& dict, const std::string& name, int64_t in, int64_t planes, int64_t out) const {
    const int64_t inner = planes * width_per_group / 64 * groups;
    const std::vector<Shape> weights =
        bottleneck ? std::vector<Shape>{{inner, in, 1, 1}, {inner, inner / groups, 3, 3}, {out, inner, 1, 1}}
                   : std::vector<Shape>{{planes, in, 3, 3}, {planes, planes, 3, 3}};
    for (size_t i = 0; i < weights.size(); ++i) {
      dict.push_back({absl::StrCat(name, ".conv", i + 1, ".weight"), weights[i]});
      AddNorm(dict, absl::StrCat(name, ".bn", i + 1), weights[i][0]);
    }
  }
};

StateDict AlexnetOfTorchvision() {
  StateDict dict;
  AddLinear(dict, "features.0", {64, 3, 11, 11});
  AddLinear(dict, "features.3", {192, 64, 5, 5});
  AddLinear(dict, "features.6", {384, 192, 3, 3});
  AddLinear(dict, "features.8", {256, 384, 3, 3});
  AddLinear(dict, "features.10", {256, 256, 3, 3});
  AddLinear(dict, "classifier.1", {4096, 256 * 6 * 6});
  AddLinear(dict, "classifier.4", {4096, 4096});
  AddLinear(dict, "classifier.6", {1000, 4096});
  return dict;
}

void AddBasicConv2d(StateDict& dict, const std::string& name, const Shape& weight) {
  dict.push_back({name + ".conv.weight", weight});
  AddNorm(dict, name + ".bn", weight[0]);
}

// Channels as the arguments of torchvision's Inception: those that come in, and those of the convolutions of each branch.
struct InceptionOfTorchvision {
  const char* name;
  int64_t in, branch1, branch2_0, branch2_1, branch3_0, branch3_1, branch4_1;

  void AddTo(StateDict& dict) const {
    const std::string module = absl::StrCat("inception", name);
    AddBasicConv2d(dict, module + ".branch1", {branch1, in, 1, 1});
    AddBasicConv2d(dict, module + ".branch2.0", {branch2_0, in, 1, 1});
    AddBasicConv2d(dict, module + ".branch2.1", {branch2_1, branch2_0, 3, 3});
    AddBasicConv2d(dict, module + ".branch3.0", {branch3_0, in, 1, 1});
    AddBasicConv2d(dict, module + ".branch3.1", {branch3_1, branch3_0, 3, 3});
    AddBasicConv2d(dict, module + ".branch4.1", {branch4_1, in, 1, 1});
  }
};

StateDict GooglenetOfTorchvision(bool auxiliary_heads) {
  StateDict dict;
  AddBasicConv2d(dict, "conv1", {64, 3, 7, 7});
  AddBasicConv2d(dict, "conv2", {64, 64, 1, 1});
  AddBasicConv2d(dict, "conv3", {192, 64, 3, 3});
  for (const InceptionOfTorchvision& module : {InceptionOfTorchvision{"3a", 192, 64, 96, 128, 16, 32, 32},
                                               {"3b", 256, 128, 128, 192, 32, 96, 64},
                                               {"4a", 480, 192, 96, 208, 16, 48, 64},
                                               {"4b", 512, 160, 112, 224, 24, 64, 64},
                                               {"4c", 512, 128, 128, 256, 24, 64, 64},
                                               {"4d", 512, 112, 144, 288, 32, 64, 64},
                                               {"4e", 528, 256, 160, 320, 32, 128, 128},
                                               {"5a", 832, 256, 160, 320, 32, 128, 128},
                                               {"5b", 832, 384, 192, 384, 48, 128, 128}}) {
    module.AddTo(dict);
  }
  if (auxiliary_heads) {
    for (const auto& [name, in] : std::map<std::string, int64_t>{{"aux1", 512}, {"aux2", 528}}) {
      AddBasicConv2d(dict, name + ".conv", {128, in, 1, 1});
      AddLinear(dict, name + ".fc1", {1024, 128 * 4 * 4});
      AddLinear(dict, name + ".fc2", {1000, 1024});
    }
  }
  AddLinear(dict, "fc", {1000, 1024});
  return dict;
}

constexpr char kWithHeads[] = "_with_heads";  // ends the name of a network that is built with auxiliary heads

const std::map<std::string, StateDict>& StateDicts() {
  static const auto* dicts = new std::map<std::string, StateDict>{
      {"alexnet", AlexnetOfTorchvision()},
      {"vgg11", VggOfTorchvision({{64}, {128}, {256, 256}, {512, 512}, {512, 512}}, false)},
      {"vgg16_bn", VggOfTorchvision({{64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}}, true)},
      {"googlenet_bn", GooglenetOfTorchvision(false)},
      {absl::StrCat("googlenet_bn", kWithHeads), GooglenetOfTorchvision(true)},
      {"resnet18", ResnetOfTorchvision{{2, 2, 2, 2}}.Entries()},
      {"resnet34", ResnetOfTorchvision{{3, 4, 6, 3}}.Entries()},
      {"resnet50", ResnetOfTorchvision{{3, 4, 6, 3}, true}.Entries()},
      {"resnet101", ResnetOfTorchvision{{3, 4, 23, 3}, true}.Entries()},
      {"resnet152", ResnetOfTorchvision{{3, 8, 36, 3}, true}.Entries()},
      {"resnext50_32x4d", ResnetOfTorchvision{{3, 4, 6, 3}, true, 32, 4}.Entries()}};
  return *dicts;
}

bool IsCounter(const StateDictEntry& entry) { return IsBatchCounter(entry.name); }

int64_t BytesOf(const StateDictEntry& entry) { return IsCounter(entry) ? 8 : 4 * program::ElementCount(entry.shape); }

// Writes a file with holes: the first value of the entry numbered i is i + 1, all others are zero.
void WriteStateDict(const StateDict& dict, const std::string& path) {
  std::string header = "{";
  int64_t end = 0;
  for (const StateDictEntry& entry : dict) {
    const int64_t begin = end;
    end += BytesOf(entry);
    absl::StrAppend(&header, header.size() > 1 ? "," : "", "\"", entry.name, "\":{\"dtype\":\"",
                    IsCounter(entry) ? "I64" : "F32", "\",\"shape\":", program::ToString(entry.shape), ",\"data_offsets\":[",
                    begin, ",", end, "]}");
  }
  header += "}";
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0644);
  const uint64_t length = header.size();
  ASSERT_EQ(::pwrite(file, &length, 8, 0), 8);
  ASSERT_EQ(::pwrite(file, header.data(), length, 8), static_cast<ssize_t>(length));
  int64_t at = static_cast<int64_t>(8 + length);
  ASSERT_EQ(::ftruncate(file, at + end), 0);
  for (size_t i = 0; i < dict.size(); ++i) {
    const auto first = static_cast<float>(i + 1);
    ASSERT_EQ(::pwrite(file, &first, 4, at), 4);
    at += BytesOf(dict[i]);
  }
  ::close(file);
}

// A program that keeps the first value alone of what is written to each buffer, so that large networks take no memory.
class FirstValues : public LoadedProgram {
 public:
  using LoadedProgram::LoadedProgram;
  void Launch(program::TaskId, int64_t) override {}
  void Await(int, program::Lane, program::TaskId, int64_t) override {}
  absl::Status Synchronize(int64_t) override { return absl::OkStatus(); }
  std::vector<TaskTime> Times(int64_t) const override { return {}; }
  absl::Status ReadBytes(program::BufferId, absl::Span<char>) const override { return absl::OkStatus(); }
  absl::Status WriteBytes(program::BufferId buffer, absl::Span<const char> bytes) override {
    std::memcpy(&values[buffer], bytes.data(), sizeof(float));
    return absl::OkStatus();
  }
  void Fence() override {}
  DeviceMemory Memory(int) const override { return {}; }
  const std::vector<AddedReorder>& added_reorders() const override { return none_; }

  std::map<program::BufferId, float> values;

 private:
  std::vector<AddedReorder> none_;
};

program::Program LoweredToOneDevice(absl::string_view model) {
  models::ModelOptions options;
  options.auxiliary_heads = absl::ConsumeSuffix(&model, kWithHeads);
  const layers::LayerGraph graph = *models::BuildModel(model, options);
  const partition::Plan plan = *partition::NamedPlan("single", graph, {.devices = 1, .global_batch = 1});
  return *partition::Lower(graph, plan, {.mode = program::Mode::kEval, .global_batch = 1});
}

class Torchvision : public Folder, public ::testing::WithParamInterface<std::string> {};

TEST_P(Torchvision, AStateDictLoadsWithEveryNameAndShape) {
  const StateDict& dict = StateDicts().at(GetParam());
  WriteStateDict(dict, In("w.safetensors"));
  const absl::StatusOr<MappedWeights> weights = MapWeights(In("w.safetensors"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  const program::Program program = LoweredToOneDevice(GetParam());
  FirstValues loaded(program);
  const absl::Status written = WriteState(loaded, StateKind::kValue, weights->tensors);
  ASSERT_TRUE(written.ok()) << written;
  std::map<std::string, float> expected;
  for (size_t i = 0; i < dict.size(); ++i) expected[dict[i].name] = static_cast<float>(i + 1);
  for (const program::Parameter& parameter : program.parameters) {
    EXPECT_EQ(loaded.values.at(parameter.value()[0].buffer), expected.at(parameter.name)) << parameter.name;
  }
}

std::vector<std::string> NamesOfStateDicts() {
  std::vector<std::string> names;
  for (const auto& [name, dict] : StateDicts()) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(AllNetworks, Torchvision, ::testing::ValuesIn(NamesOfStateDicts()),
                         [](const auto& info) { return info.param; });

// num_params in torchvision's documentation of GoogLeNet_Weights; with heads what its GoogLeNet() has.
TEST(TorchvisionStateDicts, OfGooglenetHaveItsNumberOfParameters) {
  for (const auto& [name, expected] :
       std::map<std::string, int64_t>{{"googlenet_bn", 6'624'904}, {"googlenet_bn_with_heads", 13'004'888}}) {
    int64_t count = 0;
    for (const StateDictEntry& entry : StateDicts().at(name)) {
      const bool is_statistic = entry.name.find(".running_") != std::string::npos;
      if (!is_statistic && !IsCounter(entry)) count += program::ElementCount(entry.shape);
    }
    EXPECT_EQ(count, expected) << name;
  }
}

using TorchvisionHeads = Folder;
// Which of them a file has, the network must be built with: nothing is left out in silence.
TEST_F(TorchvisionHeads, AStateDictWithHeadsNeedsThemAndOneWithoutMustNotHaveThem) {
  const std::string plain = "googlenet_bn", heads = plain + kWithHeads;
  const auto load = [&](const std::string& dict, const std::string& model) {
    const std::string path = In(absl::StrCat(dict, ".safetensors"));
    WriteStateDict(StateDicts().at(dict), path);
    const program::Program program = LoweredToOneDevice(model);
    FirstValues loaded(program);
    return std::string(WriteState(loaded, StateKind::kValue, MapWeights(path)->tensors).message());
  };
  EXPECT_THAT(load(heads, plain), ::testing::HasSubstr("\"aux1.conv.conv.weight\": network \"googlenet_bn\" has no such"));
  EXPECT_THAT(load(plain, heads), ::testing::HasSubstr("\"aux1.conv.conv.weight\": expected shape [128,512,1,1], found no"));
}

using TorchvisionOnADevice = Folder;
TEST_F(TorchvisionOnADevice, AStateDictLoadsIntoItsMemory) {
  WriteStateDict(StateDicts().at("resnet18"), In("w.safetensors"));
  const MappedWeights weights = *MapWeights(In("w.safetensors"));
  const program::Program program = LoweredToOneDevice("resnet18");
  const std::unique_ptr<Backend> backend = *cpu::MakeCpuBackend({.devices = 1, .threads_per_device = 1});
  const std::unique_ptr<Executor> executor = *Executor::Create(program, *backend);
  const absl::Status written = WriteState(executor->loaded(), StateKind::kValue, weights.tensors);
  ASSERT_TRUE(written.ok()) << written;
  StateCopy copy;
  ASSERT_TRUE(CopyState(executor->loaded(), copy, {StateKind::kValue}).ok());
  std::map<std::string, std::vector<char>> expected;
  for (const TensorView& tensor : weights.tensors) expected[tensor.name].assign(tensor.bytes.begin(), tensor.bytes.end());
  for (const StateCopy::Tensor& tensor : copy.tensors) EXPECT_TRUE(tensor.bytes == expected.at(tensor.name)) << tensor.name;
}

// What torchvision itself lists, line by line: "bn1.weight<tab>[64]<tab>F32".
std::map<std::string, StateDict> ListedStateDicts(const std::string& path) {
  std::map<std::string, StateDict> dicts;
  std::string line, model;
  for (std::ifstream file(path); std::getline(file, line);) {
    if (line.rfind("# torchvision ", 0) == 0) {
      model = std::vector<std::string>(absl::StrSplit(line, ' '))[2];
      continue;
    }
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    StateDictEntry& entry = dicts[model].emplace_back(StateDictEntry{fields[0], {}});
    const std::string extents(absl::StripSuffix(absl::StripPrefix(fields[1], "["), "]"));
    for (const auto extent : absl::StrSplit(extents, ", ", absl::SkipEmpty())) {
      int64_t value = 0;
      EXPECT_TRUE(absl::SimpleAtoi(extent, &value)) << line;
      entry.shape.push_back(value);
    }
  }
  return dicts;
}

TEST(TorchvisionStateDicts, AreThoseThatItLists) {
  const std::string list = absl::StrCat(kSourceDir, "/../shared/design/torchvision_state_dicts.txt");
  if (!std::filesystem::exists(list)) GTEST_SKIP() << "skipped: no list of torchvision's state dicts beside the repository";
  const std::map<std::string, StateDict> listed = ListedStateDicts(list);
  EXPECT_EQ(listed.size(), 2u);
  for (const auto& [model, dict] : listed) {
    const StateDict& rules = StateDicts().at(model);
    ASSERT_EQ(rules.size(), dict.size()) << model;
    for (size_t i = 0; i < dict.size(); ++i) {
      EXPECT_EQ(rules[i].name, dict[i].name) << model;
      EXPECT_EQ(rules[i].shape, dict[i].shape) << model << " " << dict[i].name;
    }
  }
}

}  // namespace
}  // namespace colonnade::engine
