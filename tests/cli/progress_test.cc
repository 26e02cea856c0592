// What is said while something takes time: lines as wide as the terminal, at times that suit the run, and time left that is
// honest.

#include "cli/output/progress.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/calibration_time.h"
#include "cli/output/output.h"
#include "cli/training/step_lines.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"
#include "tests/cli/shell.h"
#include "tests/no_threads.h"

namespace colonnade::cli {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

TEST(Wrapped, BreaksBetweenWordsAndWithinThoseThatAreTooLong) {
  EXPECT_EQ(Wrapped("a line that fits", 20), "a line that fits");
  EXPECT_EQ(Wrapped("a line that does not fit into twenty columns", 20),
            "a line that does not\n    fit into twenty\n    columns");
  EXPECT_EQ(Wrapped("abcdefghijklmnopqrstuvwxyz", 20), "abcdefghijklmnopqrst\n    uvwxyz");
  EXPECT_EQ(Wrapped("fits with its last of twenty", 20, "  "), "fits with its last\n  of twenty");
  EXPECT_EQ(Wrapped("TEXT:{one,two,three,four}", 20), "TEXT:{one,two,three,\n    four}");
  EXPECT_EQ(Wrapped("exactly twenty chars", 20), "exactly twenty chars");
  EXPECT_EQ(Wrapped("exactly twenty chars and", 20), "exactly twenty chars\n    and");
  EXPECT_EQ(Wrapped("größer als zwanzig Zei", 20), "größer als zwanzig\n    Zei") << "characters, not bytes, are counted";
  EXPECT_EQ(Wrapped("größer als zwanzig Ä", 20), "größer als zwanzig Ä") << "of what fits, too";
}

// What a terminal obeys: ESC, the end of a line, DEL, and U+009B, which begins a sequence as ESC [ does.
TEST(Printable, ShowsControlCharactersAndLeavesAllElse) {
  EXPECT_EQ(Printable("a\x1b[31mb\r\n\tc\x7f\xc2\x9b"), R"(a\033[31mb\r\n\tc\177\302\233)");
  for (const char* text : {"größer ≤ 1 × 2", "\xc2\xa0", "\xff\xfe", "\xc2", "C:\\new", ""})
    EXPECT_EQ(Printable(text), text);
  EXPECT_EQ(PrintableLines("a\n\x1b"
                           "b\n"),
            "a\n\\033b\n");
}

TEST(PadRight, FillsUpToColumnsOfATerminal) {
  EXPECT_EQ(PadRight("für", 5), "für  ");
  EXPECT_EQ(PadRight("a\tb", 5), "a\\tb ") << "what is shown is counted";
  EXPECT_EQ(PadRight("longer", 5), "longer");
}

TEST(Print, WritesOneLine) {
  testing::internal::CaptureStdout();
  PrintLine("a folder's\nname");
  PrintJson({{"\u00fcber", "\x7f\u009b\xff"}});
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "a folder's\\nname\n"
            "{\"\\u00fcber\":\"\\u007f\\u009b\\ufffd\"}\n");
}

TEST(CountProgress, IsSilentWhereTheSystemGivesNoThread) {
  const NoThreads no_threads;
  CountProgress progress("counting");
  progress.Show(1, 2);
}

TEST(CountText, HasNoNumbersAndNoColonBeforeAnythingIsCounted) {
  EXPECT_EQ(CountText({.what = "loading"}, absl::Seconds(2)), "loading [00:02]");
  EXPECT_EQ(CountText({.what = "timing:"}, absl::Seconds(2)), "timing [00:02]");
  EXPECT_EQ(CountText({.what = "reading:", .counted = "MB"}, absl::Seconds(2)), "reading [00:02]");
}

TEST(CountText, KnowsNoTimeLeftBeforeTheFirstIsDone) {
  EXPECT_EQ(CountText({.what = "timing:", .total = 10, .behind = " steps"}, absl::Seconds(2)),
            "timing: 0/10 steps [00:02<?]");
}

TEST(CountText, TakesTheTimeLeftFromTheTimePassedOrAsItIsGiven) {
  const Count draws{.what = "draw", .done = 40, .total = 100};
  EXPECT_EQ(CountText(draws, absl::Seconds(4)), "draw 40/100 [00:04<00:06]");
  EXPECT_EQ(CountText(draws, absl::Seconds(4), absl::Seconds(9)), "draw 40/100 [00:04<00:09]");
  EXPECT_EQ(CountText({.what = "reading:", .counted = "images", .done = 40, .total = 100}, absl::Seconds(4)),
            "reading: 40/100 images, 10 images/s [00:04<00:06]");
}

TEST(RateText, IsTheCountOverTheTime) {
  EXPECT_EQ(RateText(100, absl::Seconds(4), "images"), ", 25 images/s");
  EXPECT_EQ(RateText(0, absl::ZeroDuration(), "MB"), ", 0 MB/s");
}

const StepLine kLine{.step = 120,
                     .epoch = 1.25,
                     .loss = 0.5,
                     .top1 = 0.615,
                     .images_per_s = 4321,
                     .step_ms = 14.82,
                     .predicted_ms = 14.1,
                     .input_share = 0.03,
                     .memory_bytes = 123'000'000};

TEST(StepLines, ColumnsStandBelowTheirNames) {
  EXPECT_EQ(StepHeader(true, 0), "   step  epoch     loss   top-1 images/s  ms/step predicted  error input  memory");
  EXPECT_EQ(StepText(kLine, true, 0), "    120   1.25   0.5000  61.5 %     4321    14.82     14.10   -5 %   3 %  123 MB");
  for (const auto& [loss, text] : std::vector<std::pair<double, std::string>>{
           {1234.56, "   1234.6"}, {1386768843393753677824.0, " 1.39e+21"}, {HUGE_VAL, "      inf"}}) {
    StepLine large = kLine;
    large.loss = loss;
    EXPECT_THAT(StepText(large, true, 0), HasSubstr(absl::StrCat("   1.25", text, "  61.5 %")));
  }
  StepLine without = kLine;
  without.predicted_ms = std::nullopt;
  EXPECT_EQ(StepHeader(false, 80), "   step  epoch     loss   top-1 images/s  ms/step input  memory");
  EXPECT_EQ(StepText(without, false, 80), "    120   1.25   0.5000  61.5 %     4321    14.82   3 %  123 MB");
}

TEST(StepLines, ANarrowTerminalHasFewerColumns) {
  EXPECT_EQ(StepHeader(true, 80).size(), 80u);
  EXPECT_EQ(StepHeader(true, 60), "   step  epoch     loss   top-1 images/s  ms/step input");
  EXPECT_EQ(StepHeader(true, 5), "   step");
}

TEST(Bar, IsAsWideAsTheTerminalAndLeavesOutWhatDoesNotFit) {
  const engine::TrainProgress p{.step = 50, .steps = 200, .loss = 1.25, .elapsed = absl::Seconds(10)};
  for (int width : {60, 80, 120, 200}) EXPECT_EQ(Bar(p, 64, width).size(), static_cast<size_t>(width));
  EXPECT_EQ(Bar(p, 64, 80), "step  25%|#####                | 50/200 [00:10<00:30, 320 images/s, loss=1.2500]");
  EXPECT_EQ(Bar(p, 64, 60), "step  25%|###           | 50/200 [00:10<00:30, 320 images/s]");
  EXPECT_EQ(Bar(p, 64, 30), "step  25% 50/200 [00:10<00:30]");
}

TEST(StepsBetweenLines, AreRoundAndNoMoreThanTheIntervalAllows) {
  const absl::Duration five = absl::Seconds(5);
  EXPECT_EQ(StepsBetweenLines(absl::Milliseconds(100), five), 50);
  EXPECT_EQ(StepsBetweenLines(absl::Milliseconds(101), five), 20);
  EXPECT_EQ(StepsBetweenLines(absl::Milliseconds(5), five), 1000);
  EXPECT_EQ(StepsBetweenLines(absl::Seconds(3), five), 1);
  EXPECT_EQ(StepsBetweenLines(absl::Minutes(3), five), 1);
}

CalibrationTime TimeOfTwoNetworks(absl::Duration budget) {
  // A slice of "small" takes its least time, 0.1 s for each of two Programs; a step of "large" 1 s.
  return {
      {{"small", 1e6, 2}, {"small", 1e6, 2}, {"large", 1e11, 2}, {"large", 1e11, 2}}, budget, 1e11, absl::Milliseconds(100)};
}

TEST(CalibrationTime, GivesAllRoundsWhereThereIsTime) {
  const CalibrationTime time = TimeOfTwoNetworks(absl::Minutes(3));
  EXPECT_EQ(time.SlicesInTime(0, absl::ZeroDuration()), kMostSlices);
  // Two of 0.3 s and 5 x 0.2 s, two of 0.3 s, two first steps and 5 x 2 steps.
  EXPECT_NEAR(absl::ToDoubleSeconds(time.Left(0, absl::ZeroDuration())), 2 * 1.3 + 2 * 12.3, 1e-3);
  EXPECT_EQ(time.Left(4, absl::ZeroDuration()), absl::ZeroDuration());
}

TEST(CalibrationTime, GivesFewerRoundsAndInTheEndNone) {
  const CalibrationTime time = TimeOfTwoNetworks(absl::Seconds(20));
  EXPECT_EQ(time.SlicesInTime(0, absl::ZeroDuration()), 3);
  EXPECT_EQ(time.SlicesInTime(2, absl::Seconds(10)), 1);
  EXPECT_EQ(time.SlicesInTime(2, absl::Seconds(14)), 1) << "of this one, though not of the next";
  EXPECT_EQ(time.SlicesInTime(3, absl::Seconds(17)), 0);
  EXPECT_LE(time.Left(0, absl::ZeroDuration()), absl::Seconds(20));
}

TEST(CalibrationTime, LearnsWhatANetworkTakesAndHowFastTheMachineIs) {
  CalibrationTime time = TimeOfTwoNetworks(absl::Minutes(3));
  time.Add(2, absl::Seconds(6), 5, absl::Seconds(20));  // twice as long as was guessed
  EXPECT_NEAR(absl::ToDoubleSeconds(time.Left(3, absl::Seconds(30))), 6 + 20, 1e-3);
  // Another network's steps are then guessed by what those were.
  CalibrationTime other({{"first", 1e11, 1}, {"second", 1e11, 1}}, absl::Minutes(3), 1e11, absl::Milliseconds(100));
  other.Add(0, absl::Seconds(4), 1, absl::Seconds(4));
  EXPECT_NEAR(absl::ToDoubleSeconds(other.Left(1, absl::Seconds(8))), 0.3 + 2 * 2 + 5 * 4, 1e-3);
}

TEST(CalibrationTime, ShortStepsSayNothingOfLongOnesAndAGuessLeavesOutNothing) {
  CalibrationTime time({{"short", 1e7, 1}, {"long", 1e11, 1}, {"huge", 1e14, 1}}, absl::Minutes(3), 1e11,
                       absl::Milliseconds(100));
  time.Add(0, absl::Seconds(1), 1, absl::Seconds(1));  // at this rate "long" would take hours
  EXPECT_EQ(time.SlicesInTime(1, absl::Seconds(2)), 1);
  EXPECT_EQ(time.SlicesInTime(2, absl::Seconds(60)), 1);
  EXPECT_EQ(time.SlicesInTime(2, absl::Seconds(100)), 0);
}

class Transcript : public Command {
 protected:
  static constexpr absl::string_view kWipe = "\x1b[K";

  // What a terminal of so many columns shows of the command's stderr, with carriage returns as they come.
  std::string On(int columns, const std::string& arguments, const std::string& environment = "TERM=xterm NO_COLOR=") const {
    return ShellOutput(absl::StrCat("script -qec 'stty cols ", columns, "; ", environment, " ", kCommand, " ", arguments,
                                    " >", In("out"), "' ", In("typescript"), " </dev/null"));
  }
};

TEST_F(Transcript, NoLineIsWiderThanTheTerminal) {
  COLONNADE_NEED_PROGRAM("script");
  for (int columns : {60, 80, 120}) {
    const std::string shown =
        On(columns, "train --model=two_column --data=digits --plan=hybrid --devices=4 --steps=60 --width=0.25");
    EXPECT_THAT(shown, HasSubstr("after 50 steps")) << shown;
    size_t widest = 0;
    for (absl::string_view line : absl::StrSplit(shown, absl::ByAnyChar("\r\n"))) {
      absl::ConsumePrefix(&line, kWipe);
      absl::ConsumeSuffix(&line, kWipe);
      widest = std::max(widest, line.size());
    }
    // What fills the last column makes some terminals go on: the bar leaves it free.
    EXPECT_THAT(widest, AllOf(Ge(static_cast<size_t>(columns) - 1), Le(static_cast<size_t>(columns)))) << shown;
  }
}

TEST_F(Transcript, WhereATerminalIsDumbOrPlainTextIsAskedForNothingIsRedrawn) {
  COLONNADE_NEED_PROGRAM("script");
  const std::string train = "train --model=two_column --data=digits --steps=400";
  EXPECT_THAT(On(80, train), HasSubstr(kWipe));
  for (const char* plain : {"TERM=dumb", "TERM=xterm NO_COLOR=1"}) {
    const std::string shown = On(80, train, plain);
    EXPECT_THAT(shown, HasSubstr("after 50 steps")) << plain;
    EXPECT_THAT(shown, Not(HasSubstr("\x1b"))) << plain;
  }
}

TEST_F(Transcript, WithoutATerminalNothingIsDrawnInPlace) {
  const Result r = Run("train --model=two_column --data=digits --steps=60 --width=0.25");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, Not(HasSubstr("\r")));
  EXPECT_THAT(r.err, HasSubstr("   step  epoch     loss   top-1 images/s  ms/step"));
  EXPECT_THAT(r.err, HasSubstr("after 50 steps: "));
}

}  // namespace
}  // namespace colonnade::cli
