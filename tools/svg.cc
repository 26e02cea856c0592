#include "tools/svg.h"

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/utf8.h"

namespace colonnade::tools {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Two themes of what is not data; data has the same colours in both.
struct Colours {
  const char *paper, *panel, *ink, *muted, *rule, *neutral;
};
constexpr Colours kLight = {"#ffffff", "#f6f8fa", "#1f2328", "#59636e", "#d1d9e0", "#8c959f"};
constexpr Colours kDark = {"#0d1117", "#161b22", "#e6edf3", "#9da7b3", "#3d444d", "#7d8590"};
constexpr std::array<const char*, kSeriesColours> kSeries = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1",
                                                             "#e15759", "#76b7b2", "#9c755f", "#d4a72c"};

// The bytes of the character of XML that `text` begins with; 0 where there is none.
size_t CharacterLength(absl::string_view text) {
  const bool is_none = base::ControlBytes(text) > 0 || absl::StartsWith(text, "\xEF\xBF\xBE") ||
                       absl::StartsWith(text, "\xEF\xBF\xBF");  // U+FFFE, U+FFFF
  return is_none ? 0 : base::CharacterBytes(text);
}

std::string Rules(const Colours& colours) {
  std::string css;
  const auto add = [&](Paint paint, const char* colour) {
    absl::StrAppendFormat(&css, ".%s{fill:%s}.%s{stroke:%s}", FillClass(paint), colour, StrokeClass(paint), colour);
  };
  add(Paint::kPaper, colours.paper);
  add(Paint::kPanel, colours.panel);
  add(Paint::kInk, colours.ink);
  add(Paint::kMuted, colours.muted);
  add(Paint::kRule, colours.rule);
  add(Paint::kNeutral, colours.neutral);
  return css;
}

// Returns the attributes of a line in these classes.
std::string LineAttributes(absl::string_view classes, const LineStyle& style) {
  std::string attributes = absl::StrFormat("class=\"%s\" stroke-width=\"%g\"", classes, style.width);
  if (style.opacity < 1) absl::StrAppendFormat(&attributes, " stroke-opacity=\"%g\"", style.opacity);
  if (*style.dashes != '\0') absl::StrAppendFormat(&attributes, " stroke-dasharray=\"%s\"", style.dashes);
  return attributes;
}

}  // namespace

std::string Escaped(absl::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const absl::string_view character = length == 0 ? kReplacement : text.substr(0, length);
    if (character == "&") {
      escaped += "&amp;";
    } else if (character == "<") {
      escaped += "&lt;";
    } else if (character == ">") {
      escaped += "&gt;";
    } else if (character == "\"") {
      escaped += "&quot;";
    } else if (character == "'") {
      escaped += "&#39;";
    } else {
      absl::StrAppend(&escaped, character);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return escaped;
}

std::string Bytes(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1000) return absl::StrFormat("%d B", bytes);
  if (bytes < 100000) return absl::StrFormat("%.1f kB", value / 1e3);
  return bytes < 1'000'000'000 ? absl::StrFormat("%.2f MB", value / 1e6) : absl::StrFormat("%.2f GB", value / 1e9);
}

double TextWidth(absl::string_view text, double font_size) {
  return 0.6 * font_size * static_cast<double>(base::Characters(text));
}

std::string Clipped(absl::string_view text, double font_size, double width) {
  if (TextWidth(text, font_size) <= width) return std::string(text);
  while (!text.empty() && TextWidth(text, font_size) + font_size > width) {
    do {
      text.remove_suffix(1);
    } while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80);
    // What is left may end in the first byte of a character that lost the others.
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0) text.remove_suffix(1);
  }
  return absl::StrCat(text, "…");
}

std::string FillClass(Paint paint) { return absl::StrCat("f", static_cast<int>(paint)); }
std::string StrokeClass(Paint paint) { return absl::StrCat("s", static_cast<int>(paint)); }

std::string PaintStyles() {
  std::string css = absl::StrFormat(".%s{fill:none}.%s{stroke:none}", FillClass(Paint::kNone), StrokeClass(Paint::kNone));
  for (size_t i = 0; i < kSeries.size(); ++i) {
    absl::StrAppendFormat(&css, ".%s{fill:%s}.%s{stroke:%s}", FillClass(SeriesPaint(i)), kSeries[i],
                          StrokeClass(SeriesPaint(i)), kSeries[i]);
  }
  return absl::StrCat(css, Rules(kLight), "\n@media screen and (prefers-color-scheme:dark){", Rules(kDark), "}");
}

Svg::Svg(double width, double height) {
  absl::StrAppendFormat(&body_,
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" "
                        "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" role=\"img\">\n<style>%s</style>\n",
                        width, height, width, height, PaintStyles());
  Rect(0, 0, width, height, Paint::kPaper);
}

void Svg::Text(double x, double y, absl::string_view text, const TextStyle& style) {
  static constexpr const char* kAnchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  absl::StrAppendFormat(&body_, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" font-size=\"%g\"%s%s", x, y,
                        FillClass(style.paint), style.size, kAnchors[static_cast<int>(style.anchor)],
                        style.bold ? " font-weight=\"bold\"" : "");
  if (style.turn != 0) absl::StrAppendFormat(&body_, " transform=\"rotate(%g %.1f %.1f)\"", style.turn, x, y);
  absl::StrAppend(&body_, ">", Escaped(text), "</text>\n");
}

void Svg::Line(double x1, double y1, double x2, double y2, Paint stroke, const LineStyle& style) {
  absl::StrAppendFormat(&body_, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2,
                        LineAttributes(StrokeClass(stroke), style));
}

void Svg::Path(const std::string& data, Paint fill, Paint stroke, const LineStyle& style) {
  absl::StrAppendFormat(&body_, "<path d=\"%s\" %s/>\n", data,
                        LineAttributes(absl::StrCat(FillClass(fill), " ", StrokeClass(stroke)), style));
}

void Svg::Rect(double x, double y, double width, double height, Paint fill, double opacity, double radius) {
  absl::StrAppendFormat(&body_, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"%s\"", x, y, width,
                        height, FillClass(fill));
  if (opacity < 1) absl::StrAppendFormat(&body_, " fill-opacity=\"%g\"", opacity);
  if (radius > 0) absl::StrAppendFormat(&body_, " rx=\"%g\"", radius);
  absl::StrAppend(&body_, "/>\n");
}

void Svg::Frame(double x, double y, double width, double height, Paint stroke, const LineStyle& style, double radius) {
  absl::StrAppendFormat(&body_, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%g\" fill=\"none\" %s/>\n",
                        x, y, width, height, radius, LineAttributes(StrokeClass(stroke), style));
}

void Svg::Circle(double x, double y, double radius, Paint fill, double opacity) {
  absl::StrAppendFormat(&body_, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.4g\" class=\"%s\"", x, y, radius, FillClass(fill));
  if (opacity < 1) absl::StrAppendFormat(&body_, " fill-opacity=\"%g\"", opacity);
  absl::StrAppend(&body_, "/>\n");
}

void Svg::BeginGroup(absl::string_view title) { absl::StrAppend(&body_, "<g><title>", Escaped(title), "</title>\n"); }

void Svg::EndGroup() { absl::StrAppend(&body_, "</g>\n"); }

std::string Svg::Finish() && { return std::move(body_) + "</svg>\n"; }

}  // namespace colonnade::tools
