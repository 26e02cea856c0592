#include "data/user_cache.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace colonnade::data {

std::string UserCacheFolder() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') return absl::StrCat(cache, "/colonnade");
  if (home != nullptr && *home == '/') return absl::StrCat(home, "/.cache/colonnade");
  return "";
}

}  // namespace colonnade::data
