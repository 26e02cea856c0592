// The kinds of files that flags write, told by how such a file begins.
#ifndef COLONNADE_CLI_SESSION_FILE_KINDS_H_
#define COLONNADE_CLI_SESSION_FILE_KINDS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace colonnade::cli {

enum class FileKind { kAny, kDrawing, kTextDrawing, kPage, kTimeline, kWeights, kPlan, kProfile, kTable, kManPage };

// Returns what a message calls such a file: "an SVG".
std::string NameOf(FileKind kind);

// Whether a file that begins with these bytes is of that kind; kBytesOfKind of them tell.
bool BeginsAs(FileKind kind, absl::string_view bytes);
inline constexpr int kBytesOfKind = 512;

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SESSION_FILE_KINDS_H_
