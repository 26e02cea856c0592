#include "engine/json_fields.h"

#include <algorithm>
#include <cmath>

#include "base/nearest_name.h"
#include "base/utf8.h"

namespace colonnade::engine {
namespace {

constexpr size_t kLongestFound = 60;

std::string Clipped(std::string text) {
  if (text.size() <= kLongestFound) return text;
  return absl::StrCat(base::WholeCharacters(text, kLongestFound - 3), "...");
}

// What is nested may be as deep as the file is long.
std::string Found(const nlohmann::json& found) {
  constexpr size_t kShortList = 4;
  const auto is_nested = [](const nlohmann::json& element) { return element.is_structured(); };
  const bool is_short = !found.empty() && found.size() <= kShortList && std::none_of(found.begin(), found.end(), is_nested);
  if (found.is_array() && !is_short) return "a list";
  if (found.is_object()) return "an object";
  return Clipped(found.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

std::string Expected(const char* kind, Bounds bounds, const nlohmann::json& found) {
  const std::string unit = *bounds.unit == '\0' ? "" : absl::StrCat(" ", bounds.unit);
  // Bounds that no one means are said to those alone who go beyond them.
  const bool above_zero = bounds.least == kAboveZero.least;
  const bool bounded = bounds.most < kAboveZero.most || (found.is_number() && found.get<double>() > bounds.most);
  if (above_zero)
    return absl::StrCat(kind, " above 0", bounded ? absl::StrFormat(" and at most %g", bounds.most) : "", unit);
  const bool is_below = found.is_number() && found.get<double>() < bounds.least;
  if (bounds.least <= kAnyNumber.least && !is_below) {
    return absl::StrCat(kind, bounded ? absl::StrFormat(" of at most %g", bounds.most) : "", unit);
  }
  if (!bounded) return absl::StrFormat("%s of at least %g%s", kind, bounds.least, unit);
  return absl::StrFormat("%s from %g to %g%s", kind, bounds.least, bounds.most, unit);
}

}  // namespace

JsonFields::JsonFields(const Json& object, std::string where, absl::Status& status)
    : object_(object), where_(std::move(where)), status_(status) {
  if (!object.is_object()) Fail("", "an object", object);
}

const JsonFields::Json* JsonFields::Find(const char* name) {
  if (std::find(known_.begin(), known_.end(), name) == known_.end()) known_.emplace_back(name);
  if (!object_.is_object()) return nullptr;
  const auto it = object_.find(name);
  return it == object_.end() ? nullptr : &*it;
}

const JsonFields::Json* JsonFields::Need(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr && status_.ok()) status_ = absl::InvalidArgumentError(absl::StrFormat("%s: missing", Path(name)));
  return value;
}

void JsonFields::Text(const char* name, std::string& text, bool needed) {
  const Json* value = needed ? Need(name) : Find(name);
  if (value == nullptr) return;
  if (!value->is_string()) return Fail(name, "text", *value);
  text = value->get<std::string>();
}

void JsonFields::Number(const char* name, double& number, bool needed, Bounds bounds) {
  const Json* value = needed ? Need(name) : Find(name);
  if (value == nullptr) return;
  const double found = value->is_number() ? value->get<double>() : NAN;
  if (!(found >= bounds.least && found <= bounds.most)) return Fail(name, Expected("a number", bounds, *value), *value);
  number = found;
}

void JsonFields::Whole(const char* name, double& number, bool needed, Bounds bounds) {
  const Json* value = needed ? Need(name) : Find(name);
  if (value == nullptr) return;
  const double found = value->is_number() ? value->get<double>() : NAN;
  const bool is_whole = found >= bounds.least && found <= bounds.most && found == std::floor(found);
  if (!is_whole) return Fail(name, Expected("a whole number", bounds, *value), *value);
  number = found;
}

void JsonFields::Word(const char* name, const std::vector<std::string>& words, std::string& word) {
  Text(name, word, true);
  if (!status_.ok() || std::find(words.begin(), words.end(), word) != words.end()) return;
  status_ = absl::InvalidArgumentError(absl::StrFormat("%s: unknown name %s%s; expected one of %s", Path(name), Found(word),
                                                       base::DidYouMean(", ", word, words), absl::StrJoin(words, ", ")));
}

void JsonFields::Flag(const char* name, bool& flag) {
  const Json* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_boolean()) return Fail(name, "true or false", *value);
  flag = value->get<bool>();
}

void JsonFields::Fail(const std::string& name, const std::string& expected, const Json& found) {
  if (!status_.ok()) return;
  const std::string path = Path(name);
  status_ = absl::InvalidArgumentError(
      absl::StrFormat("%s%sexpected %s, found %s", path, path.empty() ? "" : ": ", expected, Found(found)));
}

void JsonFields::FailChoice(const char* name, const std::vector<std::string>& words, const Json& found) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(
      absl::StrFormat("%s: expected one of %s, found %s%s", Path(name), absl::StrJoin(words, ", "), Found(found),
                      found.is_string() ? base::DidYouMean("; ", found.get<std::string>(), words) : ""));
}

void JsonFields::Finish() {
  if (!status_.ok() || !object_.is_object()) return;
  for (const auto& [name, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    status_ = absl::InvalidArgumentError(absl::StrFormat("%s: unknown field%s; expected one of %s", Path(Clipped(name)),
                                                         base::DidYouMean(", ", name, known_), absl::StrJoin(known_, ", ")));
    return;
  }
}

std::string JsonFields::Path(const std::string& name) const {
  return where_.empty() ? name : name.empty() ? where_ : absl::StrCat(where_, ".", name);
}

}  // namespace colonnade::engine
