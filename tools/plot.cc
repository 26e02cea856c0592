#include "tools/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/svg.h"

namespace colonnade::tools {
namespace {

constexpr double kWidth = 760, kHeight = 430, kLeft = 70, kRight = 20, kTop = 74, kBottom = 76;
constexpr double kTitleRight = 28, kTickGap = 8;  // of the axis of y
constexpr double kFloor = kHeight - kBottom;      // where the axis of x lies
constexpr double kLeastRadius = 2, kMostRadius = 14;
constexpr double kCap = 4;  // half the cross-line of an error bar
constexpr double kFirstLegendRow = 44, kLegendRow = 17;
const LineStyle kIdeal = {.width = 1.6, .dashes = "6 4"};

// 1, 2 or 5 times a power of ten, so that about five ticks reach `most`.
double TickStep(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / 5)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (most / (factor * power) <= 6) return factor * power;
  }
  return 10 * power;
}

// The words of a text in lines, none of which is wider than `width` unless it is one word.
std::vector<std::string> InLines(absl::string_view text, double font_size, double width) {
  std::vector<std::string> lines;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    const std::string longer = lines.empty() ? std::string(word) : absl::StrCat(lines.back(), " ", word);
    if (!lines.empty() && TextWidth(longer, font_size) <= width) {
      lines.back() = longer;
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

class Axis {
 public:
  static Axis FromZero(double most) {
    Axis axis(0, most, /*by_powers=*/false);
    const double step = TickStep(most);
    for (double tick = 0; tick <= most * 1.0001; tick += step) axis.ticks_.push_back(tick);
    return axis;
  }
  // From a power of ten to a power of ten.
  static Axis ByPowers(double least, double most) {
    const double first = std::floor(std::log10(least)), last = std::max(first + 1, std::ceil(std::log10(most)));
    Axis axis(first, last, /*by_powers=*/true);
    for (double power = first; power <= last; ++power) axis.ticks_.push_back(std::pow(10, power));
    return axis;
  }

  // 0 at its beginning, 1 at its end.
  double PartOf(double value) const { return ((by_powers_ ? std::log10(value) : value) - begin_) / (end_ - begin_); }
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  Axis(double begin, double end, bool by_powers) : begin_(begin), end_(end), by_powers_(by_powers) {}

  double begin_, end_;  // by powers: their exponents
  bool by_powers_;
  std::vector<double> ticks_;
};

// The range of values above 0.
struct Range {
  double least = std::numeric_limits<double>::max(), most = 0;
  void Add(double value) { least = std::min(least, value), most = std::max(most, value); }
  Axis ByPowers() const { return most > 0 ? Axis::ByPowers(least, most) : Axis::ByPowers(1, 10); }
};

// Where the entries of a legend stand: beside the one before, or below where the row is full.
class LegendRows {
 public:
  std::pair<double, double> PlaceOf(const std::string& name) {
    const double width = 42 + 0.95 * TextWidth(name, 12);
    if (x_ > kLeft && x_ + width > kWidth - kRight) x_ = kLeft, y_ += kLegendRow;
    const double x = x_;
    x_ += width;
    return {x, y_};
  }
  double bottom() const { return y_; }

 private:
  double x_ = kLeft, y_ = kFirstLegendRow;
};

// Where the axis of y stands: its title and its widest number are left of it.
double LeftOf(const Axis& y_axis) {
  double widest = 0;
  for (double tick : y_axis.ticks()) widest = std::max(widest, TextWidth(absl::StrFormat("%g", tick), 12));
  return std::max(kLeft, kTitleRight + widest + kTickGap);
}

// The axes, and what is drawn in their units.
class Canvas {
 public:
  Canvas(const PlotTitles& titles, const Axis& x_axis, const Axis& y_axis, double top = kTop)
      : svg_(kWidth, kHeight), x_axis_(x_axis), y_axis_(y_axis), top_(top), left_(LeftOf(y_axis)) {
    svg_.Text(kWidth / 2, 22, Clipped(titles.title, 14, kWidth + 60), {.size = 14, .anchor = Anchor::kMiddle, .bold = true});
    for (double y : y_axis_.ticks()) {
      if (Y(y) < kFloor) svg_.Line(left_, Y(y), kWidth - kRight, Y(y), Paint::kRule);
      svg_.Line(left_ - 4, Y(y), left_, Y(y), Paint::kInk);
      svg_.Text(left_ - kTickGap, Y(y) + 4, absl::StrFormat("%g", y), {.anchor = Anchor::kEnd});
    }
    svg_.Text((left_ + kWidth - kRight) / 2, kHeight - 12, titles.x, {.size = 13, .anchor = Anchor::kMiddle});
    svg_.Text(20, (top_ + kFloor) / 2, titles.y, {.size = 13, .anchor = Anchor::kMiddle, .turn = -90});
  }

  double X(double x) const { return left_ + x_axis_.PartOf(x) * (kWidth - left_ - kRight); }
  double Y(double y) const { return kFloor - y_axis_.PartOf(y) * (kFloor - top_); }

  void TicksOfX() {
    for (double x : x_axis_.ticks()) {
      svg_.Line(X(x), kFloor, X(x), kFloor + 4, Paint::kInk);
      svg_.Text(X(x), kFloor + 18, absl::StrFormat("%g", x), {.anchor = Anchor::kMiddle});
    }
  }
  void Category(double x, const std::string& name) {
    constexpr double kSize = 11;
    constexpr size_t kMostLines = 4;  // above the axis's title
    const double width = X(1) - X(0);
    std::vector<std::string> lines;
    for (absl::string_view part : absl::StrSplit(name, '\n')) {
      const std::vector<std::string> of_part = InLines(part, kSize, width);
      lines.insert(lines.end(), of_part.begin(), of_part.end());
    }
    if (lines.size() > kMostLines) {
      lines[kMostLines - 1] = Clipped(absl::StrJoin(lines.begin() + kMostLines - 1, lines.end(), " "), kSize, width);
      lines.resize(kMostLines);
    }
    double y = kFloor + 17;
    for (const std::string& line : lines) {
      svg_.Text(X(x), y, line, {.size = kSize, .anchor = Anchor::kMiddle});
      y += 14;
    }
  }
  void Legend(size_t series, const std::string& name, bool is_line) {
    PlaceOf(name, [&](double x, double y) {
      if (is_line) {
        svg_.Line(x, y - 4, x + 18, y - 4, SeriesPaint(series), {.width = 2});
      } else {
        svg_.Rect(x + 4, y - 10, 11, 11, SeriesPaint(series));
      }
    });
  }
  void LegendOfIdeal() {
    PlaceOf("ideal", [&](double x, double y) { svg_.Line(x, y - 4, x + 18, y - 4, Paint::kMuted, kIdeal); });
  }
  void Bar(double x, double width, double value, double label_at, size_t series) {
    svg_.Rect(X(x), Y(value), X(width) - X(0), kFloor - Y(value), SeriesPaint(series));
    svg_.Text(X(x + width / 2), Y(label_at) - 5, absl::StrFormat("%.2f", value), {.size = 10, .anchor = Anchor::kMiddle});
  }
  // From `low` to `high`, with a cross-line at each end.
  void ErrorBar(double x, double low, double high) {
    svg_.Line(X(x), Y(low), X(x), Y(high), Paint::kInk, {.width = 1.3});
    for (double end : {low, high}) svg_.Line(X(x) - kCap, Y(end), X(x) + kCap, Y(end), Paint::kInk, {.width = 1.3});
  }
  void Ideal(double from, double to, double value) { svg_.Line(X(from), Y(value), X(to), Y(value), Paint::kMuted, kIdeal); }
  void Line(const LineSeries& line, size_t series) {
    std::string path;
    for (const auto& [x, y] : line.points) absl::StrAppendFormat(&path, "%c%.1f %.1f", path.empty() ? 'M' : 'L', X(x), Y(y));
    if (path.empty()) return;
    const LineStyle style = line.is_background ? LineStyle{.width = 1, .opacity = 0.4} : LineStyle{.width = 2};
    svg_.Path(path, Paint::kNone, SeriesPaint(series), style);
    if (line.points.size() == 1) svg_.Circle(X(line.points[0].first), Y(line.points[0].second), 3, SeriesPaint(series));
  }
  // `size` from 0 to 1, of its area.
  void DrawMark(const Mark& mark, double size, size_t series) {
    svg_.BeginGroup(mark.title);
    svg_.Circle(X(mark.x), Y(mark.y), kLeastRadius + (kMostRadius - kLeastRadius) * std::sqrt(size), SeriesPaint(series),
                /*opacity=*/0.6);
    svg_.EndGroup();
  }
  void DrawCeiling(const Ceiling& ceiling) {
    const double x1 = X(ceiling.from.first), y1 = Y(ceiling.from.second), x2 = X(ceiling.to.first),
                 y2 = Y(ceiling.to.second);
    svg_.Line(x1, y1, x2, y2, Paint::kInk, {.width = 1.6});
    const double along = std::atan2(y2 - y1, x2 - x1);
    const double x = ceiling.named_at_end ? x2 : x1, y = ceiling.named_at_end ? y2 : y1, gap = 6;
    svg_.Text(x + gap * std::sin(along), y - gap * std::cos(along), ceiling.name,
              {.anchor = ceiling.named_at_end ? Anchor::kEnd : Anchor::kStart, .turn = along * 180 / std::numbers::pi});
  }
  std::string Finish() && {
    svg_.Line(left_, kFloor, kWidth - kRight, kFloor, Paint::kInk);
    svg_.Line(left_, kFloor, left_, top_, Paint::kInk);
    return std::move(svg_).Finish();
  }

 private:
  template <typename DrawKey>
  void PlaceOf(const std::string& name, DrawKey draw_key) {
    const auto [x, y] = legend_.PlaceOf(name);
    draw_key(x, y);
    svg_.Text(x + 24, y, name);
  }

  Svg svg_;
  const Axis x_axis_, y_axis_;
  const double top_, left_;
  LegendRows legend_;
};

}  // namespace

std::string BarChart(const PlotTitles& titles, const std::vector<std::string>& categories,
                     const std::vector<BarSeries>& series, const std::vector<double>& ideal) {
  double most = 1e-9;
  for (const BarSeries& s : series) {
    for (double value : s.values) most = std::max(most, value);
    for (const auto& [low, high] : s.ranges) most = std::max(most, high);
  }
  for (double value : ideal) most = std::max(most, value);
  Canvas canvas(titles, Axis::FromZero(static_cast<double>(categories.size())), Axis::FromZero(most * 1.1));
  const double width = 0.8 / static_cast<double>(std::max<size_t>(series.size(), 1));
  for (size_t c = 0; c < categories.size(); ++c) {
    const auto left = static_cast<double>(c);
    for (size_t s = 0; s < series.size(); ++s) {
      const double x = left + 0.1 + width * static_cast<double>(s), value = series[s].values[c];
      if (value < 0) continue;
      const bool has_range = c < series[s].ranges.size();
      canvas.Bar(x, width * 0.94, value, has_range ? std::max(value, series[s].ranges[c].second) : value, s);
      if (has_range) canvas.ErrorBar(x + width * 0.47, series[s].ranges[c].first, series[s].ranges[c].second);
    }
    if (c < ideal.size()) canvas.Ideal(left + 0.04, left + 0.96, ideal[c]);
    canvas.Category(left + 0.5, categories[c]);
  }
  for (size_t s = 0; s < series.size(); ++s) canvas.Legend(s, series[s].name, /*is_line=*/false);
  if (!ideal.empty()) canvas.LegendOfIdeal();
  return std::move(canvas).Finish();
}

std::string LineChart(const PlotTitles& titles, const std::vector<LineSeries>& series) {
  double most_x = 1e-9, most_y = 1e-9;
  for (const LineSeries& s : series) {
    for (const auto& [x, y] : s.points) most_x = std::max(most_x, x), most_y = std::max(most_y, y);
  }
  Canvas canvas(titles, Axis::FromZero(most_x), Axis::FromZero(most_y * 1.05));
  canvas.TicksOfX();
  for (size_t s = 0; s < series.size(); ++s) {
    canvas.Line(series[s], s);
    canvas.Legend(s, series[s].name, /*is_line=*/true);
  }
  return std::move(canvas).Finish();
}

std::string MarkChart(const PlotTitles& titles, const std::vector<MarkSeries>& series,
                      const std::vector<Ceiling>& ceilings) {
  Range xs, ys;
  double most_weight = 1e-9;
  std::vector<std::pair<const Mark*, size_t>> marks;  // and of which series
  for (size_t s = 0; s < series.size(); ++s) {
    for (const Mark& mark : series[s].marks) {
      xs.Add(mark.x), ys.Add(mark.y);
      most_weight = std::max(most_weight, mark.weight);
      marks.emplace_back(&mark, s);
    }
  }
  for (const Ceiling& ceiling : ceilings) {
    for (const auto& [x, y] : {ceiling.from, ceiling.to}) xs.Add(x), ys.Add(y);
  }
  std::stable_sort(marks.begin(), marks.end(),
                   [](const auto& a, const auto& b) { return a.first->weight > b.first->weight; });
  LegendRows legend;
  for (const MarkSeries& one : series) legend.PlaceOf(one.name);
  Canvas canvas(titles, xs.ByPowers(), ys.ByPowers(), std::max(kTop, legend.bottom() + 13));
  canvas.TicksOfX();
  for (const auto& [mark, s] : marks) canvas.DrawMark(*mark, mark->weight / most_weight, s);
  for (const Ceiling& ceiling : ceilings) canvas.DrawCeiling(ceiling);
  for (size_t s = 0; s < series.size(); ++s) canvas.Legend(s, series[s].name, /*is_line=*/false);
  return std::move(canvas).Finish();
}

std::string Stacked(const std::vector<std::string>& charts) {
  const double height = kHeight * static_cast<double>(charts.size());
  std::string svg =
      absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\">\n",
                      kWidth, height, kWidth, height);
  for (size_t i = 0; i < charts.size(); ++i) {
    absl::StrAppendFormat(&svg, "<svg y=\"%g\" width=\"%g\" height=\"%g\">\n%s</svg>\n", kHeight * static_cast<double>(i),
                          kWidth, kHeight, charts[i]);
  }
  return svg + "</svg>\n";
}

}  // namespace colonnade::tools
