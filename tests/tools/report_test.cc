// Reports as pages: what they hold, what a name may do to them, and that they load nothing.
#include "tools/report.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/plot.h"
#include "tools/report_figures.h"
#include "tools/svg.h"

namespace colonnade::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHostile[] = "<script>alert('x')</script>&\"";
constexpr char kHarmless[] = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;";

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Escaped, ReplacesWhatMeansSomethingAndWhatIsNoCharacter) {
  EXPECT_EQ(Escaped(kHostile), kHarmless);
  EXPECT_EQ(Escaped("Größe ≤ 3 𝛼"), "Größe ≤ 3 𝛼");
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(Escaped(absl::string_view("a\0b\x1b\x7f", 5)), absl::StrCat("a", replaced, "b", replaced, replaced));
  // A byte that begins nothing, a sequence that ends early, an overlong one, a surrogate, U+FFFF, and beyond U+10FFFF.
  for (const char* wrong : {"\xff", "\xe2\x82", "\xc0\xaf", "\xed\xa0\x80", "\xef\xbf\xbf", "\xf4\x90\x80\x80"}) {
    EXPECT_THAT(Escaped(wrong), HasSubstr(replaced)) << Escaped(wrong);
    EXPECT_THAT(Escaped(wrong), Not(HasSubstr(wrong)));
  }
}

TEST(Clipped, EndsBetweenCharacters) {
  EXPECT_EQ(Clipped("short", 10, 100), "short");
  EXPECT_EQ(Clipped("ääääääää", 10, 40), "äääää…");
}

TEST(ToHtml, EscapesEveryName) {
  Report report{.title = kHostile, .subtitle = kHostile, .headlines = {{kHostile, kHostile}}};
  report.sections.push_back({.title = kHostile,
                             .text = kHostile,
                             .figures = {{.caption = kHostile, .svg = "<svg></svg>"}},
                             .tables = {{.caption = kHostile, .header = {kHostile}, .rows = {{kHostile, kHostile}}}},
                             .listing = kHostile});
  const std::string html = ToHtml(report);
  EXPECT_EQ(CountOf(html, "<script"), 1) << "the page's own";
  EXPECT_EQ(CountOf(html, kHarmless), 14);
}

TEST(ToHtml, NamesNoAddress) {
  const std::string html = ToHtml({.title = "t", .sections = {{.figures = {{.svg = Svg(10, 10).Finish()}}}}});
  EXPECT_THAT(html, Not(HasSubstr("://")));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
}

TEST(ToHtml, KeepsTheLinesOfAListing) {
  EXPECT_THAT(ToHtml({.sections = {{.listing = "\na <b>\nc"}}}), HasSubstr("<pre>\na &lt;b&gt;\nc</pre>"));
}

engine::TraceEvent EventOf(int device, int task) {
  return {.name = "conv_forward",
          .layer = kHostile,
          .device = device,
          .start = absl::Milliseconds(task),
          .end = absl::Milliseconds(task + 1)};
}

TEST(DrawTimeline, HasABarForEachTaskAndSaysWhatItIs) {
  engine::Trace trace{.events = {EventOf(0, 0), EventOf(1, 2)}};
  trace.events[1].lane = program::Lane::kComm;
  trace.events[1].meeting = 0;
  trace.events[1].bytes_sent = 2'500'000;
  const Timeline timeline = DrawTimeline(trace);
  EXPECT_EQ(timeline.devices, 2);
  EXPECT_EQ(CountOf(timeline.svg, "<title>"), 2);
  EXPECT_THAT(timeline.svg,
              HasSubstr(absl::StrCat(kHarmless, " conv_forward, forward, device 0: 0.000 to 1.000 ms, 1.000 ms")));
  EXPECT_THAT(timeline.svg, HasSubstr("2.000 to 3.000 ms, 1.000 ms, sends 2.50 MB"));
  EXPECT_EQ(CountOf(timeline.svg, absl::StrCat("class=\"", FillClass(SeriesPaint(4)), "\"")), 2) << "legend and transfer";
}

TEST(DrawTimeline, OfMoreThanAPageHoldsTheFirstDevicesAreShown) {
  engine::Trace trace;
  for (int device = 0; device < 3; ++device) {
    for (int task = 0; task < 2500; ++task) trace.events.push_back(EventOf(device, task));
  }
  const Timeline timeline = DrawTimeline(trace);
  EXPECT_EQ(timeline.devices, 2);
  EXPECT_EQ(CountOf(timeline.svg, "<title>"), 5000);
  EXPECT_THAT(timeline.svg, Not(HasSubstr(">device 2<")));
  EXPECT_EQ(DrawTimeline({}).devices, 0);
}

TEST(DrawStackedBars, PartsAreAsLongAsTheirShareAndALimitIsMarked) {
  const auto text_of = [](double value) { return absl::StrCat(value, " u"); };
  const std::string svg = DrawStackedBars({{"a", SeriesPaint(0)}, {"b", SeriesPaint(1)}}, {{kHostile, {3, 1}}}, text_of, 8);
  EXPECT_THAT(svg, HasSubstr(absl::StrCat(kHarmless, ", a: 3 u")));
  EXPECT_THAT(svg, HasSubstr(">4 u<"));
  EXPECT_THAT(svg, HasSubstr("a device has 8 u"));
  EXPECT_THAT(DrawStackedBars({{"a", SeriesPaint(0)}}, {{"x", {0}}}, text_of), Not(HasSubstr("a device has")));
}

TEST(ToHtml, APictureTooTallForOnePageOfPaperGoesOverSeveral) {
  const auto page_of = [](const std::string& sizes) {
    return ToHtml({.sections = {{.figures = {{.svg = "<svg viewBox=\"0 0 " + sizes + "\"></svg>", .is_long = true}}}}});
  };
  EXPECT_THAT(page_of("100 199"), HasSubstr("<figure class=\"long\">"));
  EXPECT_THAT(page_of("100 201"), HasSubstr("<figure class=\"long tall\">"));
}

// A page is 1.42 times as high as wide, the first less by its heading.
TEST(ToHtml, APictureTooTallForOnePageIsCutWhereItMayBe) {
  const std::string html = ToHtml({.sections = {{.figures = {{.svg = "<svg viewBox=\"0 0 100 390\"><path/></svg>",
                                                              .is_long = true,
                                                              .cuts = {50, 120, 130, 255, 389}}}}}});
  EXPECT_THAT(html, HasSubstr("<figure class=\"long tall cut\">"));
  const size_t begin = html.find("<g id=\"") + 7;
  const std::string id = html.substr(begin, html.find('"', begin) - begin);
  EXPECT_EQ(CountOf(html, "<use href=\"#" + id + "\"/></svg>"), 3);
  for (const char* piece : {"0 0 100 120", "0 120 100 135", "0 255 100 135"}) {
    EXPECT_THAT(html, HasSubstr(absl::StrCat("<svg viewBox=\"", piece, "\"")));
  }
}

TEST(ToHtml, OnPaperATableOfManyRowsStandsInColumns) {
  const auto page_of = [](size_t rows, size_t columns) {
    const std::vector<std::string> cells(columns, "x");
    return ToHtml({.sections = {{.tables = {{.header = cells, .rows = {rows, cells}}}}}});
  };
  EXPECT_THAT(page_of(40, 4), HasSubstr("<div class=\"rows\"><table>"));
  EXPECT_THAT(page_of(39, 4), Not(HasSubstr("<div class=\"rows\">")));
  EXPECT_THAT(page_of(40, 5), Not(HasSubstr("<div class=\"rows\">"))) << "too wide for a column";
}

TEST(BarChart, HasTitlesAtItsAxesAnIdealAndErrorBars) {
  const std::string svg = BarChart({"T", "devices", "speed-up"}, {"1 GPU", "2 GPUs\nmodel"},
                                   {{"simulated", {1, 1.5}, {{0.9, 1.1}, {1.2, 1.8}}}}, {1, 2});
  for (const char* part : {">devices<", ">speed-up<", "rotate(-90", ">ideal<", ">model<", ">1.50<"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  EXPECT_EQ(CountOf(svg, "stroke-dasharray"), 3) << "the ideal of each category, and the legend's";
  const std::string bare = BarChart({"T", "x", "y"}, {"1"}, {{"simulated", {1}, {}}});
  EXPECT_THAT(bare, Not(HasSubstr("stroke-dasharray")));
  EXPECT_THAT(bare, Not(HasSubstr("stroke-width=\"1.3\""))) << "an error bar";
}

TEST(BarChart, NamesThatAreTooLongForTheirPlaceAreBrokenBetweenWords) {
  const std::vector<std::string> names = {
      "1", "2", "3", "4", "5", "4 GPUs\none weird trick", "4 GPUs\nthe planner's choice"};
  const std::string svg = BarChart({}, names, {{"s", {1, 1, 1, 1, 1, 1, 1}, {}}});
  for (const char* line : {">one weird<", ">trick<", ">the planner&#39;s<", ">choice<"}) EXPECT_THAT(svg, HasSubstr(line));
  EXPECT_THAT(BarChart({}, {"one weird trick"}, {{"s", {1}, {}}}), HasSubstr(">one weird trick<"));
}

TEST(BarChart, NamesOfManyLinesEndAboveTheTitleOfTheAxis) {
  const std::string svg =
      BarChart({}, {"1", "2", "3", "4", "5", "one\ntwo\nthree four five six\nseven\neight", "a\nb\nc\nd"},
               {{"s", {1, 1, 1, 1, 1, 1, 1}, {}}});
  for (const char* line : {">two<", ">three four<", ">five six sev…<", ">d<"}) EXPECT_THAT(svg, HasSubstr(line));
  EXPECT_THAT(svg, Not(HasSubstr(">eight<")));
}

// What is 2 of an axis to 2 lies above what is 1.5.
TEST(BarChart, TheIdealIsInsideTheAxes) {
  const std::string svg = BarChart({}, {"4"}, {{"s", {1.5}, {}}}, {4});
  const size_t line = svg.find("stroke-dasharray");
  ASSERT_NE(line, std::string::npos);
  const size_t y = svg.rfind("y1=\"", line);
  EXPECT_GT(std::stod(svg.substr(y + 4)), 50);
}

// The title of the axis is 13 high, at 20.
TEST(LineChart, NumbersOfAnAxisStandBesideItsTitleHoweverWideTheyAre) {
  for (const double most : {4.0, 4e17}) {
    const std::string svg = LineChart({"T", "epoch", "loss"}, {{"s", {{0, 0}, {1, most}}}}),
                      tick = most > 4 ? ">4e+17<" : ">4<";
    const size_t number = svg.find(tick), x = svg.rfind(" x=\"", number);
    ASSERT_NE(number, std::string::npos);
    EXPECT_GE(std::stod(svg.substr(x + 4)) - TextWidth(tick.substr(1, tick.size() - 2), 12), 27);
  }
}

}  // namespace
}  // namespace colonnade::tools
