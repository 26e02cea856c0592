// Reads and writes of files that go on where the system has done a part of them or was interrupted by a signal. Any thread.
#ifndef COLONNADE_BASE_FULL_IO_H_
#define COLONNADE_BASE_FULL_IO_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace colonnade::base {

using WriteCall = absl::FunctionRef<ssize_t(int file, const void* bytes, size_t count)>;
using ReadCall = absl::FunctionRef<ssize_t(int file, void* to, size_t count, off_t offset)>;

// Writes all of `bytes`. Returns false, and leaves errno as `write` set it, where that fails, or with EIO where it takes
// nothing; then a part may be written.
bool WriteFull(int file, absl::string_view bytes, WriteCall write = ::write);

// Reads from `offset` on until `to` is full or the file ends. Returns the bytes read, or -1 where `read` fails, and leaves
// errno as that set it.
int64_t ReadFull(int file, int64_t offset, absl::Span<char> to, ReadCall read = ::pread);

}  // namespace colonnade::base

#endif  // COLONNADE_BASE_FULL_IO_H_
