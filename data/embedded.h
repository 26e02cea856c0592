// A file that is part of the program, and those of the digits data set (data/digits/README.md says where they are from).
// tools/machines.h and tools/rows.h have others.
#ifndef COLONNADE_DATA_EMBEDDED_H_
#define COLONNADE_DATA_EMBEDDED_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace colonnade::data {

struct EmbeddedFile {
  absl::string_view name;
  absl::string_view bytes;
};

absl::Span<const EmbeddedFile> EmbeddedFiles();

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_EMBEDDED_H_
