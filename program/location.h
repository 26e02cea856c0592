// Where a use lies in its root buffer, so that two uses can be compared. Internal to program/.
//
// Pure functions over a Program whose storage is sound (Verify's `structure`); threads may share them.
#ifndef COLONNADE_PROGRAM_LOCATION_H_
#define COLONNADE_PROGRAM_LOCATION_H_

#include "program/program.h"

namespace colonnade::program {

// A box inside a root buffer. In a bucket it is either a range of parts (member is kParts) or a box of one member.
struct Location {
  static constexpr int kWhole = -1;  // the root is an ordinary buffer
  static constexpr int kParts = -2;  // the root is a bucket, region counts parts
  BufferId root;
  int member = kWhole;
  Region region;
};

Location Locate(const Program& program, BufferId buffer, const Region& region);
inline Location Locate(const Program& program, const BufferUse& use) { return Locate(program, use.buffer, use.region); }

// Whether the two share an element. A part and a member of one bucket always count as sharing: only the backend knows where
// a member lies.
bool ShareElements(const Location& a, const Location& b);

// Whether `outer` certainly holds every element of `inner`.
bool Covers(const Program& program, const Location& outer, const Location& inner);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_LOCATION_H_
