#include "base/counted.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace colonnade::base {
namespace {

bool EndsWithAny(absl::string_view noun, std::initializer_list<absl::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](absl::string_view end) { return absl::EndsWith(noun, end); });
}

std::string Plural(absl::string_view noun) {
  if (EndsWithAny(noun, {"s", "x", "ch", "sh"}) && !absl::EndsWith(noun, "epoch")) return absl::StrCat(noun, "es");
  if (absl::EndsWith(noun, "y") && !EndsWithAny(noun, {"ay", "ey", "oy", "uy"})) {
    return absl::StrCat(absl::StripSuffix(noun, "y"), "ies");
  }
  return absl::StrCat(noun, "s");
}

}  // namespace

std::string Counted(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", count == 1 ? std::string(noun) : Plural(noun));
}

std::string Counted(int64_t count, absl::string_view noun, absl::string_view of_one, absl::string_view of_several) {
  return absl::StrCat(Counted(count, noun), " ", count == 1 ? of_one : of_several);
}

}  // namespace colonnade::base
