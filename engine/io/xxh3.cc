#include "engine/io/xxh3.h"

#define XXH_INLINE_ALL  // the header alone is needed
#include <xxhash.h>

#include "absl/strings/str_format.h"

namespace colonnade::engine {

std::string Xxh3Text(absl::string_view bytes) { return absl::StrFormat("%016x", XXH3_64bits(bytes.data(), bytes.size())); }

}  // namespace colonnade::engine
