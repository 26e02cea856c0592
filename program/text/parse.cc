#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "program/op_traits.h"
#include "program/text.h"
#include "program/text/fields.h"
#include "program/text/words.h"
#include "program/verify.h"
#include "program/verify/rules.h"

namespace colonnade::program {
namespace {

constexpr auto kDTypes = {DType::kF32, DType::kF64, DType::kI32, DType::kU8, DType::kBF16};
constexpr auto kLanes = {Lane::kCompute, Lane::kComm, Lane::kCopy, Lane::kLoad};
constexpr auto kPasses = {Pass::kInput, Pass::kForward, Pass::kBackward, Pass::kUpdate, Pass::kOutput};
constexpr auto kAccesses = {Access::kRead, Access::kWrite, Access::kAccumulate};
constexpr auto kLifetimes = {Lifetime::kStep, Lifetime::kPersistent};
constexpr auto kModes = {Mode::kTrain, Mode::kEval};
constexpr auto kInitializers = {Initializer::Kind::kConstant, Initializer::Kind::kGaussian, Initializer::Kind::kUniform};
constexpr auto kOutputs = {Output::Kind::kMetrics, Output::Kind::kFinite, Output::Kind::kGate, Output::Kind::kGradient,
                           Output::Kind::kActivation};

class FieldParser {
 public:
  explicit FieldParser(LineCursor& line) : line_(line) {}

  template <class T>
  void operator()(const char* name, T& value) {
    if constexpr (std::is_same_v<T, Factors>) {  // nothing is written of factors that are all 1
      any_ = any_ || line_.Accept("{");
      if (!any_ || !line_.AcceptWord(name)) return;
    } else {
      if (!any_) line_.Expect("{");
      any_ = true;
      line_.Expect(name);
    }
    line_.Expect("=");
    Read(value);
  }
  void Finish() {
    if (any_) line_.Expect("}");
  }

 private:
  void Read(bool& value) {
    value = line_.Accept("1");
    if (!value) line_.Expect("0");
  }
  void Read(int32_t& value) { value = line_.Int32(); }
  void Read(uint32_t& value) {
    const int64_t whole = line_.Int();
    if (whole < 0 || whole > UINT32_MAX) line_.Fail("an unsigned number of 32 bits before this");
    value = static_cast<uint32_t>(whole);
  }
  void Read(int64_t& value) { value = line_.Int(); }
  void Read(double& value) { value = line_.Double(); }
  void Read(SgdForm& value) {
    for (SgdForm form : kSgdForms) {
      value = form;
      if (line_.AcceptWord(Name(form))) return;
    }
    line_.Fail("krizhevsky, pytorch or nesterov");
  }
  void Read(AdamW& value) {
    value.beta1 = line_.Double();
    line_.Expect("/");
    value.beta2 = line_.Double();
    line_.Expect("/");
    value.epsilon = line_.Double();
  }
  void Read(Factors& value) {
    const char* before = "[";
    do {
      line_.Expect(before);
      value.push_back(line_.Double());
      before = ",";
    } while (line_.ok() && !line_.Accept("]"));
  }
  void Read(Shape& value) { value = line_.ShapeBox(); }
  void Read(Window& w) {
    Pair("", w.size_h, w.size_w);
    Pair("/", w.stride_h, w.stride_w);
    Pair("+", w.pad_top, w.pad_left);
    w.pad_bottom = w.pad_top;
    w.pad_right = w.pad_left;
    if (line_.Accept(":")) Pair("", w.pad_bottom, w.pad_right);
  }
  void Pair(const char* before, int64_t& h, int64_t& w) {
    line_.Expect(before);
    h = line_.Int();
    line_.Expect("x");
    w = line_.Int();
  }

  LineCursor& line_;
  bool any_ = false;
};

class Parser {
 public:
  absl::Status ParseLine(LineCursor& line) {
    if (!has_header_) {
      if (!line.AcceptWord("program")) line.Fail("\"program\"");
      ParseHeader(line);
      has_header_ = true;
    } else if (line.AcceptWord("group")) {
      ParseGroup(line);
    } else if (line.AcceptWord("buffer")) {
      ParseBuffer(line);
    } else if (line.AcceptWord("parameter")) {
      ParseParameter(line);
    } else if (line.AcceptWord("input")) {
      ParseInput(line);
    } else if (line.AcceptWord("output")) {
      ParseOutput(line);
    } else if (line.AcceptWord("task")) {
      ParseTask(line);
    } else {
      line.Fail("group, buffer, parameter, input, output or task");
    }
    if (!line.AtEnd()) line.Fail("the end of the line");
    return line.status();
  }

  bool has_header() const { return has_header_; }
  Program Finish() && { return std::move(program_); }

 private:
  void ParseHeader(LineCursor& line) {
    program_.model = line.Word();
    program_.mode = line.OneOf(kModes, "train or eval");
    line.Expect("batch=");
    program_.global_batch = line.Int();
    line.Expect("dtype=");
    program_.dtype = line.OneOf(kDTypes, "an element type");
    if (!line.Accept("mesh=")) return;
    do {
      MeshAxis axis{line.Word()};
      line.Expect(":");
      axis.size = line.Int();
      program_.mesh.push_back(std::move(axis));
    } while (line.Accept(","));
    const std::optional<int> devices = DeviceCount(program_.mesh);
    if (!devices.has_value()) return line.Fail(absl::StrCat("a mesh of 1 to ", kMostDevices, " devices before this"));
    program_.device_count = *devices;
  }

  // The number that an entry carries must be that of its place.
  int32_t Id(LineCursor& line, size_t expected) {
    const std::string number = absl::StrCat(expected);
    if (!line.AcceptWord(number)) line.Fail(absl::StrCat("the number ", number));
    return static_cast<int32_t>(expected);
  }

  int Device(LineCursor& line) {
    line.Expect("d");
    return line.Int32();
  }

  void ParseGroup(LineCursor& line) {
    Id(line, program_.groups.size());
    line.Expect("=");
    std::vector<int>& group = program_.groups.emplace_back();
    do group.push_back(line.Int32());
    while (line.Accept(","));
  }

  void ParseBuffer(LineCursor& line) {
    Buffer buffer;
    buffer.id.value = Id(line, program_.buffers.size());
    buffer.device = Device(line);
    buffer.lifetime = line.OneOf(kLifetimes, "step or persistent");
    buffer.dtype = line.OneOf(kDTypes, "an element type");
    buffer.shape = line.ShapeBox();
    buffer.name = line.Quoted();
    if (line.AcceptWord("bucket")) {
      buffer.storage = ParseBucket(line);
    } else if (line.AcceptWord("member")) {
      const int index = line.Int32();
      line.Expect("of");
      buffer.storage = BucketMember{BufferId{line.Int32()}, index};
    }
    if (line.Accept("slots=")) buffer.slots = line.Int32();
    buffer.layout_as = line.Accept("layout_as=") ? BufferId{line.Int32()} : buffer.id;
    program_.buffers.push_back(std::move(buffer));
  }

  Bucket ParseBucket(LineCursor& line) {
    Bucket bucket;
    line.Expect("parts=");
    bucket.parts = line.Int();
    line.Expect("first=");
    bucket.first_part = line.Int();
    line.Expect("held=");
    bucket.held_parts = line.Int();
    bucket.equal_parts = line.AcceptWord("equal");
    line.Expect("members=");
    if (line.AtNumber()) bucket.members = ParseIds<BufferId>(line);
    return bucket;
  }

  template <class Id>
  std::vector<Id> ParseIds(LineCursor& line) {
    std::vector<Id> ids;
    do ids.push_back(Id{line.Int32()});
    while (line.Accept(","));
    return ids;
  }

  // Pieces up to the next word; a box that is left out is all of `shape`.
  std::vector<Piece> ParsePieces(LineCursor& line, const Shape& shape) {
    std::vector<Piece> pieces;
    while (line.ok() && line.AtNumber()) {
      const BufferId buffer{line.Int32()};
      pieces.push_back({buffer, line.AtBox() ? line.RegionBox() : Region::Whole(shape)});
    }
    return pieces;
  }

  void ParseParameter(LineCursor& line) {
    Parameter p;
    p.name = line.Quoted();
    line.Expect("layer");
    p.layer = line.Word();
    p.shape = line.ShapeBox();
    if (line.AcceptWord("statistic")) p.role = StateRole::kStatistic;
    if (line.AcceptWord("frozen")) p.role = StateRole::kFrozen;
    p.initializer.kind = line.OneOf(kInitializers, "constant, gaussian or uniform");
    p.initializer.value = line.Double();
    for (StateKind kind : kStateKinds) {
      if (line.AcceptWord(Name(kind))) {
        p.pieces(kind) = ParsePieces(line, p.shape);
      } else if (kind == StateKind::kValue) {
        line.Fail("\"value\"");
      }
    }
    program_.parameters.push_back(std::move(p));
  }

  void ParseInput(LineCursor& line) {
    Input input;
    input.name = line.Quoted();
    input.host_dtype = line.OneOf(kDTypes, "an element type");
    input.shape = line.ShapeBox();
    line.Expect("pieces");
    input.pieces = ParsePieces(line, input.shape);
    program_.inputs.push_back(std::move(input));
  }

  void ParseOutput(LineCursor& line) {
    Output output;
    output.kind = line.OneOf(kOutputs, "metrics, finite, gate, gradient or activation");
    output.name = line.Quoted();
    line.Expect("layer");
    output.layer = line.Word();
    output.shape = line.ShapeBox();
    line.Expect("pieces");
    output.pieces = ParsePieces(line, output.shape);
    program_.outputs.push_back(std::move(output));
  }

  void ParseTask(LineCursor& line) {
    Task task;
    task.id.value = Id(line, program_.tasks.size());
    task.device = Device(line);
    task.lane = line.OneOf(kLanes, "compute, comm, copy or load");
    ParseWhat(line, task);
    ParseUses(line, task);
    if (line.AcceptWord("waits")) {
      const std::vector<TaskId> waits = ParseIds<TaskId>(line);
      task.waits.assign(waits.begin(), waits.end());
    }
    if (line.AcceptWord("previous")) {
      const std::vector<TaskId> waits = ParseIds<TaskId>(line);
      task.waits_previous.assign(waits.begin(), waits.end());
    }
    if (line.AcceptWord("work")) {
      const std::pair<const char*, int64_t*> amounts[] = {{"flops=", &task.work.flops},
                                                          {"read=", &task.work.bytes_read},
                                                          {"written=", &task.work.bytes_written},
                                                          {"sent=", &task.work.bytes_sent}};
      for (const auto& [name, amount] : amounts) {
        line.Expect(name);
        *amount = line.Int();
      }
    }
    if (!line.AcceptWord("from")) line.Fail("a use, waits, previous, work or from");
    task.provenance.layer = line.Word();
    task.provenance.pass = line.OneOf(kPasses, "input, forward, backward, update or output");
    program_.tasks.push_back(std::move(task));
  }

  void ParseWhat(LineCursor& line, Task& task) {
    const auto body = FindBody(line);
    if (!body.has_value()) return line.Fail("an op, exchange or a collective");
    task.body = *body;
    FieldParser fields(line);
    std::visit(VisitFields{fields}, task.body);
    fields.Finish();
  }

  std::optional<decltype(Task::body)> FindBody(LineCursor& line) const {
    for (const Op& op : ops_) {
      if (line.AcceptWord(Name(op))) return Compute{op};
    }
    for (CollectiveKind kind : kCollectiveKinds) {
      if (line.AcceptWord(Name(kind))) return Collective{.kind = kind};
    }
    if (line.AcceptWord("exchange")) return Exchange{};
    return std::nullopt;
  }

  void ParseUses(LineCursor& line, Task& task) {
    while (line.ok()) {
      std::optional<Access> access;
      for (Access candidate : kAccesses) {
        if (!access.has_value() && line.AcceptWord(Name(candidate))) access = candidate;
      }
      if (!access.has_value()) return;
      BufferUse use{BufferId{line.Int32()}, {}, *access};
      if (line.AtBox()) {
        use.region = line.RegionBox();
      } else if (use.buffer.valid() && static_cast<size_t>(use.buffer.value) < program_.buffers.size()) {
        use.region = Region::Whole(program_.buffer(use.buffer).shape);
      } else {
        line.Fail("the number of a buffer that stands above, before this");
      }
      task.uses.push_back(std::move(use));
    }
  }

  const std::vector<Op> ops_ = AllOps();
  bool has_header_ = false;
  Program program_;
};

}  // namespace

absl::StatusOr<Program> Parse(absl::string_view text) {
  Parser parser;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    LineCursor cursor(line, ++number);
    if (cursor.AtEnd() || line[0] == '#') continue;
    RETURN_IF_ERROR(parser.ParseLine(cursor));
  }
  if (!parser.has_header()) {
    return absl::InvalidArgumentError(absl::StrCat("line ", number, ": expected \"program\", found the end of the text"));
  }
  Program program = std::move(parser).Finish();
  RETURN_IF_ERROR(Verify(program));
  return program;
}

}  // namespace colonnade::program
