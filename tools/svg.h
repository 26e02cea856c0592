// SVG pictures, line by line: what drawings of plans, plots and reports are made of. Light, or dark where who looks at them
// prefers that; light on paper. Sizes are in pixels. Any thread.
#ifndef COLONNADE_TOOLS_SVG_H_
#define COLONNADE_TOOLS_SVG_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace colonnade::tools {

// `text` as the text of an element or the value of an attribute, of HTML and of XML. What neither may hold, control
// characters and bytes that are no UTF-8, becomes U+FFFD.
std::string Escaped(absl::string_view text);

// "1.3 kB", "22.15 MB"
std::string Bytes(int64_t bytes);

// Returns the width of a text in a sans-serif font of that size; an upper bound for most.
double TextWidth(absl::string_view text, double font_size);
// Returns the beginning of a text, with an ellipsis, as far as it fits into `width`.
std::string Clipped(absl::string_view text, double font_size, double width);

inline constexpr int kSeriesColours = 8;

// Colours by what they are for, as classes of the style of every picture. kSeries is the first of kSeriesColours.
enum class Paint { kNone, kPaper, kPanel, kInk, kMuted, kRule, kNeutral, kSeries };
inline Paint SeriesPaint(size_t index) {
  return static_cast<Paint>(static_cast<int>(Paint::kSeries) + static_cast<int>(index % kSeriesColours));
}

enum class Anchor { kStart, kMiddle, kEnd };

struct TextStyle {
  double size = 12;
  Paint paint = Paint::kInk;
  Anchor anchor = Anchor::kStart;
  bool bold = false;
  double turn = 0;  // degrees, clockwise, about its position
};

struct LineStyle {
  double width = 1;
  double opacity = 1;
  const char* dashes = "";  // "4 3"
};

class Svg {
 public:
  Svg(double width, double height);

  void Text(double x, double y, absl::string_view text, const TextStyle& style = {});
  void Line(double x1, double y1, double x2, double y2, Paint stroke, const LineStyle& style = {});
  // Straight or curved: `data` as of the attribute d of a path.
  void Path(const std::string& data, Paint fill, Paint stroke, const LineStyle& style = {});
  void Rect(double x, double y, double width, double height, Paint fill, double opacity = 1, double radius = 0);
  void Frame(double x, double y, double width, double height, Paint stroke, const LineStyle& style = {}, double radius = 0);
  void Circle(double x, double y, double radius, Paint fill, double opacity = 1);
  // What follows is about `title`, which viewers show where the mouse rests, until EndGroup.
  void BeginGroup(absl::string_view title);
  void EndGroup();
  void Raw(const std::string& svg) { body_ += svg; }

  // REQUIRES: every group has ended.
  std::string Finish() &&;

 private:
  std::string body_;
};

// Returns the names of the classes of a colour: of what is filled with it, and of what is drawn with it.
std::string FillClass(Paint paint);
std::string StrokeClass(Paint paint);
// Returns the rules of those classes, for pages that hold more than pictures.
std::string PaintStyles();

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_SVG_H_
