// The words that only the text form uses, and a cursor over one line of it. Internal to program/.
#ifndef COLONNADE_PROGRAM_TEXT_WORDS_H_
#define COLONNADE_PROGRAM_TEXT_WORDS_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "program/program.h"

namespace colonnade::program {

const char* Name(Mode mode);
const char* Name(Lifetime lifetime);
const char* Name(Initializer::Kind kind);
const char* Name(Output::Kind kind);

// Whether `c` may stand in a name that is written without quotes.
bool IsWordCharacter(char c);

// Reads one line from the left. The first failure is kept; after it every call does nothing and returns a zero, so that a
// caller may read a whole line and ask for status() once. Loops must ask ok().
class LineCursor {
 public:
  LineCursor(absl::string_view line, int number) : rest_(line), number_(number) {}

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  void Fail(absl::string_view expected);  // … found: the rest of the line

  bool AtEnd();                             // nothing but blanks is left
  bool Accept(absl::string_view literal);   // skips blanks, then `literal` if it is next
  bool AcceptWord(absl::string_view word);  // the same, but the literal must end there
  void Expect(absl::string_view literal);

  std::string Word();    // a bare or a quoted name
  std::string Quoted();  // a quoted name
  int64_t Int();
  int32_t Int32();
  double Double();
  Shape ShapeBox();    // [64,96]
  Region RegionBox();  // [0:64,48:96]
  bool AtBox();        // a '[' follows at once, without a blank
  bool AtNumber();     // skips blanks; a digit follows

  // The value whose Name() comes next.
  template <class Enum>
  Enum OneOf(std::initializer_list<Enum> values, absl::string_view expected) {
    for (Enum value : values) {
      if (AcceptWord(Name(value))) return value;
    }
    Fail(expected);
    return *values.begin();
  }

 private:
  void SkipBlanks();

  absl::string_view rest_;
  int number_;
  absl::Status status_;
};

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_TEXT_WORDS_H_
