#include "base/utf8.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace colonnade::base {

size_t CharacterBytes(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return 0;
  if (byte(0) < 0x80) return 1;
  const size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  uint32_t code = byte(0) & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool is_short_enough = length == 2 || (length == 3 ? code >= 0x800 : code >= 0x10000);
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  return is_short_enough && !is_surrogate && code <= 0x10ffff ? length : 0;
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t length = CharacterBytes(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

size_t Characters(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

absl::string_view WholeCharacters(absl::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (text[most] & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

size_t ControlBytes(absl::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  if (text.empty()) return 0;
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  return byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0 ? 2 : 0;
}

bool HasControls(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (ControlBytes(text.substr(i)) > 0) return true;
  }
  return false;
}

std::string Legible(absl::string_view text) {
  std::string legible;
  while (!text.empty()) {
    const size_t control = ControlBytes(text), character = CharacterBytes(text);
    const absl::string_view next = text.substr(0, std::max({control, character, size_t{1}}));
    absl::StrAppend(&legible, control > 0 || character == 0 ? absl::CEscape(next) : std::string(next));
    text.remove_prefix(next.size());
  }
  return legible;
}

}  // namespace colonnade::base
