#include "base/utf8.h"

namespace colonnade::base {

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

}  // namespace colonnade::base
