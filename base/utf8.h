// The characters of UTF-8, and the control characters among them: what a terminal obeys instead of showing it.
#ifndef COLONNADE_BASE_UTF8_H_
#define COLONNADE_BASE_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace colonnade::base {

// Returns the bytes of the character that `text` begins with (RFC 3629: in its shortest form, and no half of a surrogate
// pair); 0 where it is none.
size_t CharacterBytes(absl::string_view text);

// Returns whether all of `text` is characters.
bool IsUtf8(absl::string_view text);

// Returns the characters of `text`, which is UTF-8.
size_t Characters(absl::string_view text);

// Returns as many whole characters from the beginning of `text` as `most` bytes hold.
absl::string_view WholeCharacters(absl::string_view text, size_t most);

// Returns the bytes of the control character that `text` begins with: one of ASCII, or U+0080 to U+009F; 0 where it is none.
size_t ControlBytes(absl::string_view text);

// Returns whether there is one anywhere in `text`.
bool HasControls(absl::string_view text);

// Returns `text` with its control characters, and the bytes that are of no character, escaped as C does.
std::string Legible(absl::string_view text);

}  // namespace colonnade::base

#endif  // COLONNADE_BASE_UTF8_H_
