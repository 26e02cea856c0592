// The text form of a Program: one line per buffer, task, parameter, input and output; Parse(Print(p)) == p exactly.
//
//   program two_column train batch=64 dtype=f32 mesh=data:1,model:2
//   group 0 = 0,1
//   buffer 12 d0 step f32 [64,16,8,8] "conv1.y"
//   task 17 d0 compute conv_forward{window=3x3/1x1+1x1 groups=1 bias=1 relu=1} read 3[0:64,0:1,0:8,0:8] … write 12[…]
//     waits 11 previous 90 work flops=… read=… written=… sent=… from conv1 forward
//
// (a task is one line; it is broken here to fit). Numbers that are not whole are printed so that they parse to the same
// bits.
#ifndef COLONNADE_PROGRAM_TEXT_H_
#define COLONNADE_PROGRAM_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "program/program.h"

namespace colonnade::program {

std::string Print(const Program& program);

// Parses the text form; the result has passed Verify. InvalidArgument names line, expected and found.
absl::StatusOr<Program> Parse(absl::string_view text);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_TEXT_H_
