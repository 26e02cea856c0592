// What a task costs, from its uses.
#ifndef COLONNADE_PROGRAM_WORK_H_
#define COLONNADE_PROGRAM_WORK_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "program/program.h"

namespace colonnade::program {

// Returns the bytes of the box that is used: of a bucket, those of the parts that are used, each as DenseSizeOf counts it.
int64_t BytesOf(const Program& program, const BufferUse& use);

// Work of a computation that does `flops`: it reads and writes each of its uses once, and what it accumulates both ways.
// What a Load writes it reads from the host, and a Store the reverse. `bytes_of` says what each use has.
Work WorkOf(const Op& op, absl::Span<const BufferUse> uses, int64_t flops, absl::FunctionRef<int64_t(size_t use)> bytes_of);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_WORK_H_
