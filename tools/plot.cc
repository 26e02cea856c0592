#include "tools/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace colonnade::tools {
namespace {

constexpr double kWidth = 760, kHeight = 420, kLeft = 64, kRight = 20, kTop = 88, kBottom = 70;
constexpr double kCap = 4;  // half the cross-line of an error bar
constexpr const char* kColours[] = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759"};

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

const char* Colour(size_t series) { return kColours[series % std::size(kColours)]; }

// 1, 2 or 5 times a power of ten, so that about five ticks reach `most`.
double TickStep(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / 5)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (most / (factor * power) <= 6) return factor * power;
  }
  return 10 * power;
}

class Canvas {
 public:
  Canvas(const std::string& title, double most_x, double most_y) : most_x_(most_x), most_y_(most_y) {
    absl::StrAppendFormat(
        &svg_,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        kWidth, kHeight);
    Text(kWidth / 2, 20, title, "middle", 14);
    const double step = TickStep(most_y);
    for (double y = 0; y <= most_y * 1.0001; y += step) {
      absl::StrAppendFormat(&svg_, "<line x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\" stroke=\"#dddddd\"/>\n", kLeft, Y(y),
                            kWidth - kRight, Y(y));
      Text(kLeft - 6, Y(y) + 4, absl::StrFormat("%g", y), "end");
    }
  }

  double X(double x) const { return kLeft + x / most_x_ * (kWidth - kLeft - kRight); }
  double Y(double y) const { return kHeight - kBottom - y / most_y_ * (kHeight - kTop - kBottom); }

  void Text(double x, double y, const std::string& text, const char* anchor, int size = 12) {
    absl::StrAppendFormat(&svg_, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">%s</text>\n", x, y, anchor,
                          size, Escaped(text));
  }
  void Legend(size_t index, const std::string& name) {
    const double x = kLeft + 340 * static_cast<double>(index % 2), y = 34 + 16 * static_cast<double>(index / 2);
    absl::StrAppendFormat(&svg_, "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", x, y,
                          Colour(index));
    Text(x + 15, y + 10, name, "start");
  }
  void Bar(double x, double width, double value, size_t series) {
    absl::StrAppendFormat(&svg_, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, Y(value),
                          width, Y(0) - Y(value), Colour(series));
    Text(x + width / 2, Y(value) - 4, absl::StrFormat("%.2f", value), "middle", 10);
  }
  // From `low` to `high`, with a cross-line at each end.
  void ErrorBar(double x, double low, double high) {
    for (const auto& [x1, y1, x2, y2] :
         {std::array{x, low, x, high}, {x - kCap, low, x + kCap, low}, {x - kCap, high, x + kCap, high}}) {
      absl::StrAppendFormat(&svg_, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#333333\"/>\n", x1, Y(y1),
                            x2, Y(y2));
    }
  }
  void Line(const LineSeries& line, size_t series) {
    std::string path;
    for (const auto& [x, y] : line.points) absl::StrAppendFormat(&path, "%.1f,%.1f ", X(x), Y(y));
    absl::StrAppendFormat(&svg_, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" %s/>\n", path, Colour(series),
                          line.is_background ? "stroke-width=\"1\" stroke-opacity=\"0.4\"" : "stroke-width=\"2\"");
    if (line.points.size() != 1) return;
    const auto& [x, y] = line.points[0];
    absl::StrAppendFormat(&svg_, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", X(x), Y(y), Colour(series));
  }
  std::string Finish() && { return std::move(svg_) + "</svg>\n"; }

 private:
  const double most_x_, most_y_;
  std::string svg_;
};

}  // namespace

std::string BarChart(const std::string& title, const std::string& unit, const std::vector<std::string>& categories,
                     const std::vector<BarSeries>& series) {
  double most = 1e-9;
  for (const BarSeries& s : series) {
    for (double value : s.values) most = std::max(most, value);
    for (const auto& [low, high] : s.ranges) most = std::max(most, high);
  }
  Canvas canvas(title, static_cast<double>(categories.size()), most * 1.1);
  canvas.Text(kLeft, kTop - 8, unit, "start");
  const double width = 0.8 / static_cast<double>(std::max<size_t>(series.size(), 1));
  for (size_t c = 0; c < categories.size(); ++c) {
    for (size_t s = 0; s < series.size(); ++s) {
      const double x = static_cast<double>(c) + 0.1 + width * static_cast<double>(s);
      if (series[s].values[c] < 0) continue;
      canvas.Bar(canvas.X(x), canvas.X(width) - canvas.X(0), series[s].values[c], s);
      if (c < series[s].ranges.size())
        canvas.ErrorBar(canvas.X(x + 0.85 * width), series[s].ranges[c].first, series[s].ranges[c].second);
    }
    canvas.Text(canvas.X(static_cast<double>(c) + 0.5), kHeight - kBottom + 18, categories[c], "middle", 11);
  }
  for (size_t s = 0; s < series.size(); ++s) canvas.Legend(s, series[s].name);
  return std::move(canvas).Finish();
}

std::string LineChart(const std::string& title, const std::string& x_label, const std::string& y_label,
                      const std::vector<LineSeries>& series) {
  double most_x = 1e-9, most_y = 1e-9;
  for (const LineSeries& s : series) {
    for (const auto& [x, y] : s.points) most_x = std::max(most_x, x), most_y = std::max(most_y, y);
  }
  Canvas canvas(title, most_x, most_y * 1.05);
  const double step = TickStep(most_x);
  for (double x = 0; x <= most_x * 1.0001; x += step)
    canvas.Text(canvas.X(x), kHeight - kBottom + 18, absl::StrFormat("%g", x), "middle");
  canvas.Text(kWidth / 2, kHeight - 20, x_label, "middle");
  canvas.Text(kLeft, kTop - 8, y_label, "start");
  for (size_t s = 0; s < series.size(); ++s) {
    canvas.Line(series[s], s);
    canvas.Legend(s, series[s].name);
  }
  return std::move(canvas).Finish();
}

std::string Stacked(const std::vector<std::string>& charts) {
  std::string svg = absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\">\n", kWidth,
                                    kHeight * static_cast<double>(charts.size()));
  for (size_t i = 0; i < charts.size(); ++i) {
    absl::StrAppendFormat(&svg, "<svg y=\"%g\" width=\"%g\" height=\"%g\">\n%s</svg>\n", kHeight * static_cast<double>(i),
                          kWidth, kHeight, charts[i]);
  }
  return svg + "</svg>\n";
}

}  // namespace colonnade::tools
