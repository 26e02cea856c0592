#include "op_case_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cpu/ref/kernels.h"
#include "gtest/gtest.h"
#include "program/builder.h"
#include "program/formulas/bfloat16.h"
#include "program/formulas/philox.h"
#include "program/op_traits.h"
#include "program/verify.h"

namespace colonnade::conformance {
namespace {

using program::Access;
using program::BufferId;
using program::BufferUse;
using program::DType;
using program::Lane;
using program::Lifetime;
using program::Region;
using program::Shape;

constexpr uint64_t kDropoutSeed = 42;
constexpr uint64_t kDropoutStep = 3;

std::vector<double> Labels(const Operand& operand) {
  std::vector<double> labels(program::ElementCount(operand.shape));
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = i % 5 == 4 ? -1.0 : static_cast<double>((i * 7 + 3) % operand.classes);
  }
  return labels;
}

std::vector<double> Scalars() {
  std::vector<double> scalars(program::StepScalar::kCount);
  scalars[program::StepScalar::kLearningRate] = 0.125;
  scalars[program::StepScalar::kStep] = kDropoutStep;
  scalars[program::StepScalar::kSeed] = kDropoutSeed;
  return scalars;
}

// To what operands of the run hold.
double Rounded(double value, Data data) {
  const auto rounded = static_cast<float>(value);
  return data == Data::kRounded ? float{program::BFloat16(rounded)} : rounded;
}

std::vector<double> Numbers(int64_t count, Data data, uint64_t seed, uint32_t stream) {
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) {
    if (data == Data::kIntegers) {
      const uint32_t word = program::RandomBlock(seed, program::RandomPurpose::kSyntheticData, stream, 0, i).v[0];
      values[i] = static_cast<double>(word % 7) - 3;
    } else {
      const double v = program::Gaussian(seed, program::RandomPurpose::kSyntheticData, stream, 0, i);
      values[i] = Rounded(std::abs(v) < 1e-3 ? v + 0.01 : v, data);
    }
  }
  return values;
}

template <class T>
void ToBytes(const std::vector<double>& values, std::vector<char>& bytes) {
  bytes.resize(values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = static_cast<T>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
}

template <class T>
void FromBytes(const std::vector<char>& bytes, std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
}

std::vector<char> ToBytes(DType dtype, const std::vector<double>& values) {
  std::vector<char> bytes;
  switch (dtype) {
    case DType::kF32:
      ToBytes<float>(values, bytes);
      break;
    case DType::kF64:
      ToBytes<double>(values, bytes);
      break;
    case DType::kI32:
      ToBytes<int32_t>(values, bytes);
      break;
    case DType::kU8:
      ToBytes<uint8_t>(values, bytes);
      break;
    case DType::kBF16:
      ToBytes<program::BFloat16>(values, bytes);
      break;
  }
  return bytes;
}

void FromBytes(DType dtype, const std::vector<char>& bytes, std::vector<double>& values) {
  switch (dtype) {
    case DType::kF32:
      FromBytes<float>(bytes, values);
      break;
    case DType::kF64:
      FromBytes<double>(bytes, values);
      break;
    case DType::kI32:
      FromBytes<int32_t>(bytes, values);
      break;
    case DType::kU8:
      FromBytes<uint8_t>(bytes, values);
      break;
    case DType::kBF16:
      FromBytes<program::BFloat16>(bytes, values);
      break;
  }
}

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (int d = static_cast<int>(shape.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

program::OperandTraits TraitsOf(const Step& step) {
  const std::optional<program::OperandTraits> traits = program::TraitsOfOperands(step.op, step.operands.size());
  EXPECT_TRUE(traits.has_value()) << program::Name(step.op) << " takes " << program::DescribeOperands(step.op);
  return traits.value_or(program::OperandTraits());
}

// Who gives an operand that the ops only read: the test, behind the Program's back and in any type, or a Load, as Verify
// expects of what is no parameter's state.
enum class Giver { kTest, kLoad };

// Makes the Program of a case: its buffers, the copies from and to what the host sees, and its ops.
class ProgramOfCase {
 public:
  ProgramOfCase(const OpCase& op_case, DType dtype, Home home, Giver giver)
      : case_(op_case),
        dtype_(dtype),
        home_(home),
        giver_(giver),
        builder_("conformance", program::Mode::kTrain, 1, dtype, {{"data", 1}}),
        host_(op_case.operands.size()),
        uses_(op_case.operands.size()),
        masters_(op_case.operands.size(), false) {
    for (const Step& step : op_case.steps) {
      const program::OperandTraits traits = TraitsOf(step);
      for (size_t j = 0; j < traits.size(); ++j) {
        if (traits[j]->width == program::Width::kMaster) masters_[step.operands[j]] = true;
      }
    }
  }

  program::Program Build() && {
    if (home_ == Home::kPersistent) {
      for (size_t i = 0; i < host_.size(); ++i) AddPersistent(i);
    } else {
      AddBuckets();
      for (size_t i = 0; i < host_.size(); ++i) AddOperand(i);
    }
    AddSteps();
    for (const auto& [from, to] : copies_out_) Copy(from, to);
    program::Program program = std::move(builder_).Build();
    for (size_t i = 0; i < host_.size(); ++i) {
      const int like = case_.operands[i].layout_as;
      if (like >= 0) program.buffer(host_[i]).layout_as = host_[like];
    }
    return program;
  }

  const std::vector<BufferId>& host() const { return host_; }

 private:
  DType TypeOf(size_t i) const {
    const bool is_master = masters_[i] || case_.operands[i].in_master_type;
    return case_.operands[i].dtype.value_or(is_master ? program::MasterType(dtype_) : dtype_);
  }

  void AddPersistent(size_t i) {
    const Operand& operand = case_.operands[i];
    const Lifetime lifetime = operand.role == Role::kSaved ? Lifetime::kStep : Lifetime::kPersistent;
    host_[i] = builder_.AddBuffer(0, operand.name, TypeOf(i), operand.shape, lifetime);
    uses_[i] = builder_.Read(host_[i]);
    Give(i);
  }

  void Give(size_t i) {
    const Operand& operand = case_.operands[i];
    if (giver_ == Giver::kTest || operand.role == Role::kSaved) return;
    const std::string name = absl::StrCat(operand.name, " ", i);
    const int input =
        builder_.AddInput({name, TypeOf(i), operand.shape, {{host_[i], program::Region::Whole(operand.shape)}}});
    builder_.AddCompute(0, Lane::kCompute, program::Load{input}, {builder_.Write(host_[i])}, {}, {name});
  }

  // One bucket of parameters, one of their momenta, one of their gradients.
  void AddBuckets() {
    const auto add = [&](const char* name, auto&& belongs) {
      program::Builder::BucketSpec spec{.name = name, .dtype = dtype_, .lifetime = Lifetime::kPersistent};
      std::vector<size_t> members;
      for (size_t i = 0; i < host_.size(); ++i) {
        const Operand& operand = case_.operands[i];
        if (!belongs(operand)) continue;
        members.push_back(i);
        spec.dtype = TypeOf(i);
        spec.member_names.push_back(operand.name);
        spec.member_shapes.push_back(operand.shape);
        spec.member_layout_as.push_back(operand.layout_as < 0 ? BufferId() : host_[operand.layout_as]);
      }
      if (members.empty()) return;
      const auto bucket = std::get<program::Bucket>(builder_.buffer(builder_.AddBucket(spec)).storage);
      for (size_t m = 0; m < members.size(); ++m) {
        host_[members[m]] = bucket.members[m];
        uses_[members[m]] = builder_.Read(bucket.members[m]);
        Give(members[m]);
      }
    };
    add("parameters", [](const Operand& o) { return o.role == Role::kParameter && o.layout_as < 0; });
    add("momenta", [](const Operand& o) { return o.role == Role::kParameter && o.layout_as >= 0; });
    add("gradients", [](const Operand& o) { return o.role == Role::kOutput && o.layout_as >= 0; });
  }

  // An operand that is no member: in a buffer of the step, copied from or to a persistent one.
  void AddOperand(size_t i) {
    const Operand& operand = case_.operands[i];
    if (host_[i].valid()) return;
    if (operand.role == Role::kSaved) return AddPersistent(i);
    host_[i] = builder_.AddBuffer(0, absl::StrCat(operand.name, ".host"), TypeOf(i), operand.shape, Lifetime::kPersistent);
    Give(i);
    uses_[i] = home_ == Home::kBox && operand.shape.size() > 1
                   ? BoxFor(i)
                   : builder_.Read(builder_.AddBuffer(0, operand.name, TypeOf(i), operand.shape));
    if (operand.role == Role::kInput) {
      Copy(builder_.Read(host_[i]), uses_[i]);
    } else {
      copies_out_.push_back({uses_[i], builder_.Read(host_[i])});
    }
  }

  // A box that begins inside a block of channels, of a buffer that has the layout of activations.
  BufferUse BoxFor(size_t i) {
    const Operand& operand = case_.operands[i];
    constexpr int64_t kBefore = 5, kBlock = 16;
    Shape shape = operand.shape;
    Region box{Shape(shape.size(), 0), operand.shape};
    box.offset[0] = 1;
    box.offset[1] = kBefore;
    shape[0] += 2;
    shape[1] = (shape[1] + kBefore + kBlock) / kBlock * kBlock;
    return {builder_.AddBuffer(0, absl::StrCat(operand.name, ".whole"), TypeOf(i), shape), box, Access::kRead};
  }

  void Copy(BufferUse from, BufferUse to) {
    from.access = Access::kRead;
    to.access = Access::kWrite;
    builder_.AddCompute(0, Lane::kCompute, program::Copy{}, {from, to}, {}, {"copy"});
  }

  void AddSteps() {
    for (const Step& step : case_.steps) {
      const program::OperandTraits traits = TraitsOf(step);
      program::Uses uses;
      for (size_t j = 0; j < traits.size(); ++j) {
        uses.push_back(uses_[step.operands[j]]);
        uses.back().access = traits[j]->access;
      }
      builder_.AddCompute(0, Lane::kCompute, step.op, uses, {}, {case_.name});
    }
  }

  const OpCase& case_;
  const DType dtype_;
  const Home home_;
  const Giver giver_;
  program::Builder builder_;
  std::vector<BufferId> host_;
  std::vector<BufferUse> uses_;  // by operand: what the ops see
  std::vector<bool> masters_;    // by operand: of the master type to an op
  std::vector<std::pair<BufferUse, BufferUse>> copies_out_;
};

}  // namespace

Values MakeValues(const OpCase& op_case, Data data, uint64_t seed) {
  Values values;
  for (size_t i = 0; i < op_case.operands.size(); ++i) {
    const Operand& operand = op_case.operands[i];
    switch (operand.fill) {
      case Fill::kNumbers:
        values.push_back(Numbers(program::ElementCount(operand.shape), data, seed, static_cast<uint32_t>(i)));
        break;
      case Fill::kFarFromZero:
        values.push_back(Numbers(program::ElementCount(operand.shape), data, seed, static_cast<uint32_t>(i)));
        for (double& value : values.back()) value = Rounded(value + 1000, data);
        break;
      case Fill::kBytes:
        values.emplace_back(program::ElementCount(operand.shape));
        for (size_t k = 0; k < values.back().size(); ++k) values.back()[k] = static_cast<double>((k * 89 + seed) % 256);
        break;
      case Fill::kPositive:
        values.push_back(Numbers(program::ElementCount(operand.shape), data, seed, static_cast<uint32_t>(i)));
        for (double& value : values.back()) value = Rounded(std::abs(value) + 1, data);
        break;
      case Fill::kZeros:
        values.emplace_back(program::ElementCount(operand.shape), 0.0);
        break;
      case Fill::kLabels:
        values.push_back(Labels(operand));
        break;
      case Fill::kScalars:
        values.push_back(Scalars());
        break;
    }
  }
  return values;
}

absl::StatusOr<Values> RunOracle(const OpCase& op_case, const Values& values, size_t steps) {
  std::vector<std::vector<char>> bytes;
  std::vector<cpu::ref::Tensor> tensors;
  for (size_t i = 0; i < op_case.operands.size(); ++i) {
    const Operand& operand = op_case.operands[i];
    const DType dtype = operand.dtype.value_or(DType::kF64);
    const bool is_written_first = operand.role == Role::kOutput || operand.role == Role::kSaved;
    bytes.push_back(ToBytes(dtype, is_written_first ? std::vector<double>(values[i].size()) : values[i]));
    tensors.push_back({bytes.back().data(), dtype, operand.shape, RowMajorStrides(operand.shape)});
  }
  for (size_t i = 0; i < op_case.steps.size() && i < steps; ++i) {
    std::vector<cpu::ref::Tensor> operands;
    for (int operand : op_case.steps[i].operands) operands.push_back(tensors[operand]);
    if (absl::Status status = cpu::ref::Run(op_case.steps[i].op, operands); !status.ok()) return status;
  }
  Values results = values;
  for (size_t i = 0; i < results.size(); ++i) FromBytes(tensors[i].dtype, bytes[i], results[i]);
  return results;
}

const char* Name(Home home) {
  switch (home) {
    case Home::kPersistent:
      return "persistent";
    case Home::kStep:
      return "step";
    case Home::kBox:
      return "box";
  }
  return "";
}

LoadedCase::LoadedCase(const OpCase& op_case, DType dtype, Home home) : case_(op_case) {
  ProgramOfCase made(case_, dtype, home, Giver::kTest);
  program_ = std::move(made).Build();
  host_ = made.host();
}

absl::StatusOr<std::unique_ptr<LoadedCase>> LoadedCase::Load(engine::Backend& backend, const OpCase& op_case, DType dtype,
                                                             Home home) {
  std::unique_ptr<LoadedCase> result(new LoadedCase(op_case, dtype, home));
  const program::Program verified = ProgramOfCase(op_case, dtype, home, Giver::kLoad).Build();
  if (absl::Status status = program::Verify(verified); !status.ok()) return status;
  auto loaded = backend.Load(result->program_, result->slots_);
  if (!loaded.ok()) return loaded.status();
  result->loaded_ = *std::move(loaded);
  return result;
}

absl::StatusOr<Values> LoadedCase::Run(const Values& values) {
  for (size_t i = 0; i < host_.size(); ++i) {
    if (case_.operands[i].role == Role::kSaved) continue;
    // What is to be written starts as something else than the result.
    const std::vector<double> unset(values[i].size(), 77);
    if (absl::Status status = loaded_->Write(host_[i], case_.operands[i].role == Role::kOutput ? unset : values[i]);
        !status.ok()) {
      return status;
    }
  }
  for (const program::Task& task : program_.tasks) loaded_->Launch(task.id, step_);
  if (absl::Status status = loaded_->Synchronize(step_++); !status.ok()) return status;
  Values results = values;
  for (size_t i = 0; i < host_.size(); ++i) {
    if (case_.operands[i].role == Role::kSaved) continue;
    if (absl::Status status = loaded_->Read(host_[i], absl::MakeSpan(results[i])); !status.ok()) return status;
  }
  return results;
}

std::optional<double> Bf16Tolerance(const OpCase& op_case) {
  double tolerance = 1.0 / 128;
  for (const Step& step : op_case.steps) {
    if (std::holds_alternative<program::SgdUpdate>(step.op) && op_case.steps.size() > 1) return std::nullopt;
    const auto* conv = std::get_if<program::ConvForward>(&step.op);
    const bool has_addend = std::holds_alternative<program::BatchNormForward>(step.op) && step.operands.size() > 5;
    if ((conv != nullptr && conv->bias) || has_addend) tolerance = 0.1;
  }
  return tolerance;
}

double RelativeDistance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(size > 0 ? difference / size : difference);
}

}  // namespace colonnade::conformance
