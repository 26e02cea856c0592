#include "base/utf8.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace colonnade::base {
namespace {

constexpr const char* kNoUtf8[] = {
    "\x80",     "\xff",         "\xc3",         "\xc3(",        "\xc0\x80",         "\xc1\xbf",         "\xe0\x9f\xbf",
    "\xe5\x8d", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x90\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"};

TEST(IsUtf8, TakesEveryCharacter) {
  for (const char* text : {"", "~\n", "\x7f", "\xc2\x80", "é", "\xdf\xbf", "\xe0\xa0\x80", "卷", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a é 卷"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  EXPECT_TRUE(IsUtf8(absl::string_view("\0a", 2)));
}

// Bytes that begin none; half of one; not the shortest form; halves of surrogate pairs; beyond U+10FFFF.
TEST(IsUtf8, TakesNothingElse) {
  for (const std::string text : kNoUtf8) {
    EXPECT_FALSE(IsUtf8(text) || IsUtf8("é" + text) || IsUtf8(text + "a")) << absl::CHexEscape(text);
    EXPECT_EQ(CharacterBytes(text), 0) << absl::CHexEscape(text);
  }
}

TEST(CharacterBytes, AreThoseOfTheFirst) {
  EXPECT_EQ(CharacterBytes(""), 0);
  EXPECT_EQ(CharacterBytes("a\xff"), 1);
  EXPECT_EQ(CharacterBytes("é卷"), 2);
  EXPECT_EQ(CharacterBytes("卷é"), 3);
  EXPECT_EQ(CharacterBytes("\xf0\x9f\x99\x82"), 4);
}

TEST(Characters, AreThoseOfUtf8) {
  EXPECT_EQ(Characters(""), 0);
  EXPECT_EQ(Characters("aé卷\xf0\x9f\x99\x82"), 4);
}

TEST(WholeCharacters, AreAsManyAsFit) {
  EXPECT_EQ(WholeCharacters("aé卷", 6), "aé卷");
  EXPECT_EQ(WholeCharacters("aé卷", 9), "aé卷");
  for (size_t most : {5, 4, 3}) EXPECT_EQ(WholeCharacters("aé卷", most), "aé") << most;
  EXPECT_EQ(WholeCharacters("aé卷", 2), "a");
  EXPECT_EQ(WholeCharacters("é", 1), "");
  EXPECT_EQ(WholeCharacters("ab", 0), "");
}

TEST(ControlBytes, AreOneOfAsciiAndTwoOfUnicode) {
  EXPECT_EQ(ControlBytes("\x1b[2J"), 1);
  EXPECT_EQ(ControlBytes("\x7f"), 1);
  EXPECT_EQ(ControlBytes(absl::string_view("\0a", 2)), 1);
  EXPECT_EQ(ControlBytes("\xc2\x80"), 2);
  EXPECT_EQ(ControlBytes("\xc2\x9f"), 2);
}

// U+00A0 follows the last control, U+0100 to U+011F have its second byte, and half a character is none.
TEST(ControlBytes, AreNoneOfWhatIsShown) {
  for (const char* text : {"", " ", "~", "\xc2\xa0", "\xc4\x9f", "\xc2", "é", "卷"})
    EXPECT_EQ(ControlBytes(text), 0) << text;
}

TEST(HasControls, FindsThemBehindOtherCharacters) {
  EXPECT_TRUE(HasControls("a\n"));
  EXPECT_TRUE(HasControls("é\xc2\x85"));
  EXPECT_FALSE(HasControls("a é 卷"));
}

TEST(Legible, EscapesControlsAndWhatIsNoCharacter) {
  EXPECT_EQ(Legible("a\x1b[31mb\n\xc2\x9b"), R"(a\033[31mb\n\302\233)");
  EXPECT_EQ(Legible("\xc3"), R"(\303)") << "half of one, as of a text that was cut";
  EXPECT_EQ(Legible("é\xff\xfe卷"), R"(é\377\376卷)");
  for (const char* text : {"größer ≤ 1 × 2", "\xc2\xa0", "C:\\new", ""}) EXPECT_EQ(Legible(text), text);
}

}  // namespace
}  // namespace colonnade::base
