#include "program/text/words.h"

#include <charconv>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace colonnade::program {

const char* Name(Mode mode) {
  switch (mode) {
    case Mode::kTrain:
      return "train";
    case Mode::kEval:
      return "eval";
  }
  return "?";
}

const char* Name(Lifetime lifetime) {
  switch (lifetime) {
    case Lifetime::kStep:
      return "step";
    case Lifetime::kPersistent:
      return "persistent";
  }
  return "?";
}

const char* Name(Initializer::Kind kind) {
  switch (kind) {
    case Initializer::Kind::kConstant:
      return "constant";
    case Initializer::Kind::kGaussian:
      return "gaussian";
    case Initializer::Kind::kUniform:
      return "uniform";
  }
  return "?";
}

const char* Name(Output::Kind kind) {
  switch (kind) {
    case Output::Kind::kMetrics:
      return "metrics";
    case Output::Kind::kFinite:
      return "finite";
    case Output::Kind::kGate:
      return "gate";
    case Output::Kind::kGradient:
      return "gradient";
    case Output::Kind::kActivation:
      return "activation";
  }
  return "?";
}

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' || c == '-' || c == '+';
}

void LineCursor::Fail(absl::string_view expected) {
  if (!ok()) return;
  SkipBlanks();
  constexpr size_t kShown = 40;
  const std::string found = rest_.empty() ? "the end of the line"
                                          : absl::StrCat("\"", absl::Utf8SafeCEscape(rest_.substr(0, kShown)),
                                                         rest_.size() > kShown ? "…\"" : "\"");
  status_ = absl::InvalidArgumentError(absl::StrCat("line ", number_, ": expected ", expected, ", found ", found));
}

void LineCursor::SkipBlanks() {
  while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
}

bool LineCursor::AtEnd() {
  SkipBlanks();
  return rest_.empty();
}

bool LineCursor::AtBox() { return ok() && !rest_.empty() && rest_[0] == '['; }

bool LineCursor::AtNumber() {
  SkipBlanks();
  return !rest_.empty() && absl::ascii_isdigit(static_cast<unsigned char>(rest_[0]));
}

bool LineCursor::Accept(absl::string_view literal) {
  if (!ok()) return false;
  SkipBlanks();
  if (!absl::StartsWith(rest_, literal)) return false;
  rest_.remove_prefix(literal.size());
  return true;
}

bool LineCursor::AcceptWord(absl::string_view word) {
  if (!ok()) return false;
  SkipBlanks();
  if (!absl::StartsWith(rest_, word)) return false;
  if (rest_.size() > word.size() && IsWordCharacter(rest_[word.size()])) return false;
  rest_.remove_prefix(word.size());
  return true;
}

void LineCursor::Expect(absl::string_view literal) {
  if (!Accept(literal)) Fail(absl::StrCat("\"", literal, "\""));
}

std::string LineCursor::Quoted() {
  if (!ok()) return "";
  SkipBlanks();
  if (rest_.empty() || rest_[0] != '"') {
    Fail("a name in quotes");
    return "";
  }
  size_t end = 1;
  while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
  std::string text;
  if (end >= rest_.size() || !absl::CUnescape(rest_.substr(1, end - 1), &text)) {
    Fail("a name in quotes that ends and has known escapes");
    return "";
  }
  rest_.remove_prefix(end + 1);
  return text;
}

std::string LineCursor::Word() {
  if (!ok()) return "";
  SkipBlanks();
  size_t size = 0;
  while (size < rest_.size() && IsWordCharacter(rest_[size])) ++size;
  if (size == 0) return Quoted();
  const std::string word(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return word;
}

int64_t LineCursor::Int() {
  if (!ok()) return 0;
  SkipBlanks();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
  if (error != std::errc()) {
    Fail("a whole number");
    return 0;
  }
  rest_.remove_prefix(end - rest_.data());
  return value;
}

int32_t LineCursor::Int32() {
  const absl::string_view before = rest_;
  const int64_t value = Int();
  if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max()) {
    return static_cast<int32_t>(value);
  }
  rest_ = before;
  Fail("a number of 32 bits");
  return 0;
}

double LineCursor::Double() {
  if (!ok()) return 0;
  SkipBlanks();
  double value = 0;
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
  if (error != std::errc()) {
    Fail("a number");
    return 0;
  }
  rest_.remove_prefix(end - rest_.data());
  return value;
}

Shape LineCursor::ShapeBox() {
  Shape shape;
  Expect("[");
  if (Accept("]")) return shape;
  do shape.push_back(Int());
  while (Accept(","));
  Expect("]");
  return shape;
}

Region LineCursor::RegionBox() {
  Region region;
  Expect("[");
  if (Accept("]")) return region;
  do {
    const int64_t begin = Int();
    Expect(":");
    const int64_t end = Int();
    if (begin < 0 || end < begin) Fail("a range begin:end with 0 ≤ begin ≤ end before this");
    region.offset.push_back(begin);
    region.size.push_back(ok() ? end - begin : 0);
  } while (Accept(","));
  Expect("]");
  return region;
}

}  // namespace colonnade::program
