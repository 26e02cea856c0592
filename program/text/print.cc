#include <charconv>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/quoted.h"
#include "program/text.h"
#include "program/text/fields.h"
#include "program/text/words.h"

namespace colonnade::program {
namespace {

// A name as it is where no reader could take it for something else, else quoted.
std::string Word(const std::string& text) {
  for (char c : text) {
    if (!IsWordCharacter(c)) return base::Quoted(text);
  }
  return text.empty() ? base::Quoted(text) : text;
}

// The shortest digits that parse to the same bits.
std::string Digits(double value) {
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
}

class FieldPrinter {
 public:
  explicit FieldPrinter(std::string& out) : out_(out) {}

  template <class T>
  void operator()(const char* name, const T& value) {
    if constexpr (std::is_same_v<T, Factors>) {
      if (value.empty()) return;
    }
    absl::StrAppend(&out_, any_ ? " " : "{", name, "=");
    Append(value);
    any_ = true;
  }
  void Finish() {
    if (any_) out_ += '}';
  }

 private:
  void Append(bool value) { out_ += value ? '1' : '0'; }
  void Append(int32_t value) { absl::StrAppend(&out_, value); }
  void Append(uint32_t value) { absl::StrAppend(&out_, value); }
  void Append(int64_t value) { absl::StrAppend(&out_, value); }
  void Append(double value) { out_ += Digits(value); }
  void Append(SgdForm value) { out_ += Name(value); }
  void Append(const AdamW& value) {
    absl::StrAppend(&out_, Digits(value.beta1), "/", Digits(value.beta2), "/", Digits(value.epsilon));
  }
  void Append(const Factors& value) {
    for (size_t i = 0; i < value.size(); ++i) absl::StrAppend(&out_, i == 0 ? "[" : ",", Digits(value[i]));
    out_ += ']';
  }
  void Append(const Shape& value) { out_ += ToString(value); }
  void Append(const Window& w) {
    absl::StrAppend(&out_, w.size_h, "x", w.size_w, "/", w.stride_h, "x", w.stride_w, "+", w.pad_top, "x", w.pad_left);
    if (w.pad_bottom == w.pad_top && w.pad_right == w.pad_left) return;
    absl::StrAppend(&out_, ":", w.pad_bottom, "x", w.pad_right);
  }

  std::string& out_;
  bool any_ = false;
};

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  std::string Run() && {
    PrintHeader();
    for (const Buffer& buffer : program_.buffers) PrintBuffer(buffer);
    for (const Parameter& p : program_.parameters) {
      absl::StrAppend(&out_, "parameter ", base::Quoted(p.name), " layer ", Word(p.layer), " ", ToString(p.shape),
                      p.role == StateRole::kStatistic ? " statistic "
                      : p.role == StateRole::kFrozen  ? " frozen "
                                                      : " ",
                      Name(p.initializer.kind), " ", Digits(p.initializer.value));
      for (StateKind kind : kStateKinds) {
        if (kind == StateKind::kValue || !p.pieces(kind).empty()) absl::StrAppend(&out_, " ", Name(kind));
        PrintPieces(p.pieces(kind), p.shape);
      }
      out_ += '\n';
    }
    for (const Input& input : program_.inputs) {
      absl::StrAppend(&out_, "input ", base::Quoted(input.name), " ", Name(input.host_dtype), " ", ToString(input.shape),
                      " pieces");
      PrintPieces(input.pieces, input.shape);
      out_ += '\n';
    }
    for (const Output& output : program_.outputs) {
      absl::StrAppend(&out_, "output ", Name(output.kind), " ", base::Quoted(output.name), " layer ", Word(output.layer),
                      " ", ToString(output.shape), " pieces");
      PrintPieces(output.pieces, output.shape);
      out_ += '\n';
    }
    for (const Task& task : program_.tasks) PrintTask(task);
    return std::move(out_);
  }

 private:
  void PrintHeader() {
    absl::StrAppend(&out_, "program ", Word(program_.model), " ", Name(program_.mode), " batch=", program_.global_batch,
                    " dtype=", Name(program_.dtype));
    for (const MeshAxis& axis : program_.mesh) {
      absl::StrAppend(&out_, &axis == program_.mesh.data() ? " mesh=" : ",", Word(axis.name), ":", axis.size);
    }
    out_ += '\n';
    for (size_t g = 0; g < program_.groups.size(); ++g) {
      absl::StrAppend(&out_, "group ", g, " = ", absl::StrJoin(program_.groups[g], ","), "\n");
    }
  }

  void PrintBuffer(const Buffer& buffer) {
    absl::StrAppend(&out_, "buffer ", buffer.id.value, " d", buffer.device, " ", Name(buffer.lifetime), " ",
                    Name(buffer.dtype), " ", ToString(buffer.shape), " ", base::Quoted(buffer.name));
    if (const auto* bucket = std::get_if<Bucket>(&buffer.storage)) {
      absl::StrAppend(&out_, " bucket parts=", bucket->parts, " first=", bucket->first_part, " held=", bucket->held_parts,
                      bucket->equal_parts ? " equal" : "", " members=", Ids(bucket->members));
    } else if (const auto* member = std::get_if<BucketMember>(&buffer.storage)) {
      absl::StrAppend(&out_, " member ", member->index, " of ", member->bucket.value);
    }
    if (buffer.slots != 1) absl::StrAppend(&out_, " slots=", buffer.slots);
    if (buffer.layout_as != buffer.id) absl::StrAppend(&out_, " layout_as=", buffer.layout_as.value);
    out_ += '\n';
  }

  void PrintTask(const Task& task) {
    absl::StrAppend(&out_, "task ", task.id.value, " d", task.device, " ", Name(task.lane), " ", Name(task));
    FieldPrinter printer(out_);
    std::visit(VisitFields{printer}, task.body);
    printer.Finish();
    for (const BufferUse& use : task.uses) {
      absl::StrAppend(&out_, " ", Name(use.access), " ", use.buffer.value);
      PrintBox(use.region, program_.buffer(use.buffer).shape);
    }
    if (!task.waits.empty()) absl::StrAppend(&out_, " waits ", Ids(task.waits));
    if (!task.waits_previous.empty()) absl::StrAppend(&out_, " previous ", Ids(task.waits_previous));
    if (task.work != Work{}) {
      absl::StrAppend(&out_, " work flops=", task.work.flops, " read=", task.work.bytes_read,
                      " written=", task.work.bytes_written, " sent=", task.work.bytes_sent);
    }
    absl::StrAppend(&out_, " from ", Word(task.provenance.layer), " ", Name(task.provenance.pass), "\n");
  }

  void PrintPieces(const std::vector<Piece>& pieces, const Shape& shape) {
    for (const Piece& piece : pieces) {
      absl::StrAppend(&out_, " ", piece.buffer.value);
      PrintBox(piece.region, shape);
    }
  }

  void PrintBox(const Region& region, const Shape& shape) {
    if (region != Region::Whole(shape)) out_ += ToString(region);
  }

  template <class List>
  static std::string Ids(const List& ids) {
    return absl::StrJoin(ids, ",", [](std::string* out, const auto& id) { absl::StrAppend(out, id.value); });
  }

  const Program& program_;
  std::string out_;
};

}  // namespace

std::string Print(const Program& program) { return Printer(program).Run(); }

}  // namespace colonnade::program
