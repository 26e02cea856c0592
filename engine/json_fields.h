// Reads the fields of JSON files that people write by hand (machine profiles, tables of rows, networks), each with one
// message for what is wrong: where, expected, found.
#ifndef COLONNADE_ENGINE_JSON_FIELDS_H_
#define COLONNADE_ENGINE_JSON_FIELDS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace colonnade::engine {

// What a number may be; both ends are allowed.
struct Bounds {
  double least = 0, most = 1e30;
  const char* unit = "";
};
inline constexpr Bounds kAboveZero{.least = 1e-30}, kAnyNumber{.least = -1e30};

// Reads fields of one JSON object; the first fault stays. Each field is taken once; what is left over is unknown.
class JsonFields {
 public:
  using Json = nlohmann::json;

  // `object` and `status` must outlive the reader.
  JsonFields(const Json& object, std::string where, absl::Status& status);

  // Return the field; null where it is absent, which Need takes for an error.
  const Json* Find(const char* name);
  const Json* Need(const char* name);

  void Text(const char* name, std::string& text, bool needed = false);
  void Number(const char* name, double& number, bool needed, Bounds bounds);
  // Reads a whole number.
  template <class Integer>
  void Count(const char* name, Integer& count, bool needed, Bounds bounds) {
    double number = static_cast<double>(count);
    Whole(name, number, needed, bounds);
    count = static_cast<Integer>(number);
  }
  template <size_t n, class E>
  void Choice(const char* name, const char* const (&words)[n], E& choice, bool needed = false) {
    const Json* value = needed ? Need(name) : Find(name);
    if (value == nullptr) return;
    for (size_t i = 0; i < n && value->is_string(); ++i) {
      if (value->get<std::string>() == words[i]) {
        choice = static_cast<E>(i);
        return;
      }
    }
    FailChoice(name, {words, words + n}, *value);
  }
  // Reads a field that must be there, and be one of `words`.
  void Word(const char* name, const std::vector<std::string>& words, std::string& word);
  void Flag(const char* name, bool& flag);
  // Calls f(element, its path) for each element of an array.
  template <class F>
  void Each(const char* name, bool needed, F f) {
    const Json* value = needed ? Need(name) : Find(name);
    if (value == nullptr) return;
    if (!value->is_array()) return Fail(name, "a list", *value);
    for (size_t i = 0; i < value->size() && status_.ok(); ++i) f((*value)[i], absl::StrFormat("%s[%d]", Path(name), i));
  }

  // Fails with the field's path, what was expected and what was found.
  void Fail(const std::string& name, const std::string& expected, const Json& found);
  // Fails if the object has a field that was never asked for.
  void Finish();

  std::string Path(const std::string& name) const;

 private:
  void Whole(const char* name, double& number, bool needed, Bounds bounds);
  void FailChoice(const char* name, const std::vector<std::string>& words, const Json& found);

  const Json& object_;
  const std::string where_;
  absl::Status& status_;
  std::vector<std::string> known_;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_JSON_FIELDS_H_
