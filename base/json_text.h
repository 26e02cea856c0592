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

// A parser callback that notes a key which its object has already, of which the library would keep the last, and nesting
// deeper than `deepest`, each with its place.
template <class Json>
class JsonGuard {
 public:
  // `place` says where the parser is.
  JsonGuard(int deepest, std::function<std::string()> place, std::string& fault)
      : deepest_(deepest), place_(std::move(place)), fault_(&fault) {}

  bool operator()(int depth, typename Json::parse_event_t event, Json& parsed) {
    using Event = typename Json::parse_event_t;
    if (depth > deepest_) {
      Note(absl::StrFormat("lists or objects nested deeper than %d", deepest_));
      return false;
    }
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key && !keys_.back().insert(parsed.template get<std::string>()).second) {
      Note(absl::StrFormat("key \"%s\" twice in one object", parsed.template get<std::string>()));
    }
    return true;
  }

 private:
  void Note(const std::string& fault) {
    if (fault_->empty()) *fault_ = absl::StrFormat("%s at %s", fault, place_());
  }

  int deepest_;
  std::function<std::string()> place_;
  std::string* fault_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

// InvalidArgument: "expected JSON; line 3, column 1: unexpected '}'; …", or "expected plain JSON, found key "a" twice in one
// object at line 3, column 9". The column is that of the last byte that was read.
template <class Json>
absl::StatusOr<Json> ParseJson(absl::string_view text, int deepest) {
  constexpr size_t kLongestReason = 120;
  std::string fault;
  const char* furthest = text.data();
  const auto place = [&] { return LineAndColumn(text, std::max<size_t>(furthest - text.data(), 1) - 1); };
  const TextIterator begin(text.data(), furthest), end(text.data() + text.size(), furthest);
  try {
    Json json = Json::parse(begin, end, JsonGuard<Json>(deepest, place, fault));
    if (fault.empty()) return json;
    return absl::InvalidArgumentError("expected plain JSON, found " + fault);
  } catch (const typename Json::parse_error& error) {
    const std::string what = error.what();
    const size_t reason = what.find(" - ");
    const size_t read = error.byte > 0 ? error.byte - 1 : 0;
    return absl::InvalidArgumentError(
        absl::StrFormat("expected JSON; %s: %s", LineAndColumn(text, read),
                        reason == std::string::npos ? "not JSON" : what.substr(reason + 3, kLongestReason)));
  } catch (const typename Json::exception& error) {  // a number beyond double
    const std::string what = error.what();
    return absl::InvalidArgumentError(
        absl::StrFormat("expected JSON; %s: %s", place(), what.substr(std::min(what.size(), what.find("] ") + 2))));
  }
}

}  // namespace colonnade::base

#endif  // COLONNADE_BASE_JSON_TEXT_H_
