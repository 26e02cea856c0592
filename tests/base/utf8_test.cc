#include "base/utf8.h"

#include "gtest/gtest.h"

namespace colonnade::base {
namespace {

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

}  // namespace
}  // namespace colonnade::base
