// Reads JSON that people write by hand: says where a text is wrong, and refuses what a JSON library lets pass in silence.
//
// A template over the library's type (nlohmann::json or ordered_json), so that this folder needs no library. Pure functions.
#ifndef COLONNADE_BASE_JSON_TEXT_H_
#define COLONNADE_BASE_JSON_TEXT_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/utf8.h"

namespace colonnade::base {

// "line 3, column 7" of the byte at `offset`; both count from 1.
inline std::string LineAndColumn(absl::string_view text, size_t offset) {
  const absl::string_view before = text.substr(0, offset);
  const size_t line_start = before.rfind('\n') == absl::string_view::npos ? 0 : before.rfind('\n') + 1;
  return absl::StrFormat("line %d, column %d", 1 + std::count(before.begin(), before.end(), '\n'),
                         before.size() - line_start + 1);
}

// Reads a text for a JSON library and notes how far it came.
class TextIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TextIterator(const char* at, const char*& furthest) : at_(at), furthest_(&furthest) {}
  const char& operator*() const { return *at_; }
  TextIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  TextIterator operator++(int) {
    const TextIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TextIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

// A handler of a JSON library's events that builds nothing: it ends at what is no JSON, and at what the library would let
// pass: a key that its object has already, of which it would keep the last, and nesting deeper than `deepest`.
template <class Json>
class JsonGuard {
 public:
  // `place` says where the parser is; `text` is what it reads.
  JsonGuard(absl::string_view text, int deepest, std::function<std::string()> place)
      : text_(text), deepest_(deepest), place_(std::move(place)) {}

  // OK, or InvalidArgument as ParseJson's.
  const absl::Status& status() const { return status_; }

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(typename Json::number_integer_t) { return true; }
  bool number_unsigned(typename Json::number_unsigned_t) { return true; }
  bool number_float(typename Json::number_float_t, const typename Json::string_t&) { return true; }
  bool string(typename Json::string_t&) { return true; }
  bool binary(typename Json::binary_t&) { return true; }
  bool start_object(size_t) { return Open(); }
  bool start_array(size_t) { return Open(); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(typename Json::string_t& name) {
    return keys_.back().insert(name).second || Refuse(absl::StrFormat("key \"%s\" twice in one object", Legible(name)));
  }
  bool parse_error(size_t byte, const std::string&, const typename Json::exception& error) {
    constexpr size_t kLongestReason = 120;
    const std::string what = error.what();
    const size_t reason = what.find(" - ");
    const bool is_number_too_large = dynamic_cast<const typename Json::parse_error*>(&error) == nullptr;
    if (is_number_too_large) {
      return Fail("expected JSON; %s: %s", place_(), what.substr(std::min(what.size(), what.find("] ") + 2)));
    }
    return Fail("expected JSON; %s: %s", LineAndColumn(text_, byte > 0 ? byte - 1 : 0),
                reason == std::string::npos ? "not JSON" : Legible(what.substr(reason + 3, kLongestReason)));
  }

 private:
  bool Open() {
    keys_.emplace_back();
    return std::ssize(keys_) <= deepest_ || Refuse(absl::StrFormat("lists or objects nested deeper than %d", deepest_));
  }
  bool Close() {
    keys_.pop_back();
    return true;
  }
  bool Refuse(const std::string& fault) { return Fail("expected plain JSON, found %s at %s", fault, place_()); }
  bool Fail(const absl::FormatSpec<std::string, std::string>& format, const std::string& a, const std::string& b) {
    status_ = absl::InvalidArgumentError(absl::StrFormat(format, a, b));
    return false;
  }

  absl::string_view text_;
  int deepest_;
  std::function<std::string()> place_;
  absl::Status status_;
  std::vector<std::set<std::string>> keys_;  // of the lists and objects that are open; a list has none
};

// InvalidArgument: "expected JSON; line 3, column 1: unexpected '}'; …", or "expected plain JSON, found key "a" twice in one
// object at line 3, column 9". The column is that of the last byte that was read.
//
// The text is read twice, first by the guard. The library's callback would do in one reading, but looks through all of a
// list behind each of its elements that is a list or an object.
template <class Json>
absl::StatusOr<Json> ParseJson(absl::string_view text, int deepest) {
  const char* furthest = text.data();
  const TextIterator begin(text.data(), furthest), end(text.data() + text.size(), furthest);
  JsonGuard<Json> guard(text, deepest, [&] { return LineAndColumn(text, std::max<size_t>(furthest - text.data(), 1) - 1); });
  if (!Json::sax_parse(begin, end, &guard)) return guard.status();
  return Json::parse(text.begin(), text.end());
}

}  // namespace colonnade::base

#endif  // COLONNADE_BASE_JSON_TEXT_H_
