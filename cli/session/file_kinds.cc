#include "cli/session/file_kinds.h"

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "base/json_files.h"

namespace colonnade::cli {
namespace {

bool IsXml(absl::string_view bytes) { return absl::StartsWith(bytes, "<svg") || absl::StartsWith(bytes, "<?xml"); }

bool IsHtml(absl::string_view bytes) { return absl::StartsWithIgnoreCase(bytes, "<!doctype html"); }

// Eight bytes are the length of the header, of which the highest are 0, and the header is a JSON object.
bool IsSafetensors(absl::string_view bytes) {
  return bytes.size() > 8 && absl::EndsWith(bytes.substr(0, 8), absl::string_view("\0\0\0", 3)) && bytes[8] == '{';
}

// "lenet under single, batch 64, …"
bool IsDrawnInText(absl::string_view bytes) {
  const absl::string_view line = bytes.substr(0, bytes.find('\n'));
  return absl::StrContains(line, " under ") && absl::StrContains(line, ", batch ");
}

struct KindRow {
  FileKind kind;
  const char* name;
  bool (*is)(absl::string_view bytes);
};

constexpr KindRow kKinds[] = {
    {FileKind::kAny, "any file", [](absl::string_view) { return true; }},
    {FileKind::kDrawing, "an SVG", IsXml},
    {FileKind::kTextDrawing, "a drawing in text", IsDrawnInText},
    {FileKind::kPage, "an HTML page", IsHtml},
    {FileKind::kTimeline, "a timeline", [](absl::string_view bytes) { return base::IsJsonWithKey(bytes, "traceEvents"); }},
    {FileKind::kWeights, "a safetensors file", IsSafetensors},
    {FileKind::kPlan, "a plan", [](absl::string_view bytes) { return base::IsJsonWithKey(bytes, "colonnade_plan"); }},
    {FileKind::kProfile, "a machine profile",
     [](absl::string_view bytes) { return base::IsJsonWithKey(bytes, "colonnade_machine"); }},
    {FileKind::kTable, "a table of io-bench", [](absl::string_view bytes) { return absl::StartsWith(bytes, "format,"); }},
    {FileKind::kManPage, "a manual page", [](absl::string_view bytes) { return absl::StartsWith(bytes, ".TH "); }},
};

const KindRow& RowOfKind(FileKind kind) {
  return *absl::c_find_if(kKinds, [kind](const KindRow& row) { return row.kind == kind; });
}

}  // namespace

std::string NameOf(FileKind kind) { return RowOfKind(kind).name; }

bool BeginsAs(FileKind kind, absl::string_view bytes) { return RowOfKind(kind).is(bytes); }

}  // namespace colonnade::cli
