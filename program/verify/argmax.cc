// The rule `argmax`: a max_pool_forward's note of where its maxima were is the backend's own, so that nothing but max
// poolings touches it, and all that do have the same window, images and box of the note.

#include <map>
#include <optional>

#include "base/status_macros.h"
#include "program/location.h"
#include "program/op_traits.h"
#include "program/verify/rules.h"

namespace colonnade::program {
namespace {

constexpr char kArgmaxRule[] = "argmax";

// What one task says of the note that it writes or reads.
struct Note {
  TaskId task;
  Location place;
  Window window;
  Shape images;  // the extents of what is pooled
};

std::optional<Note> NoteOf(const Program& program, const Task& task) {
  const auto* compute = std::get_if<Compute>(&task.body);
  if (compute == nullptr) return std::nullopt;
  const int argmax = OperandOf(compute->op, task.uses.size(), Role::kArgmax);
  if (argmax < 0) return std::nullopt;
  const int images = OperandOf(compute->op, task.uses.size(), Role::kInput);
  Note note{task.id, Locate(program, task.uses[argmax]), {}, task.uses[images].region.size};
  std::visit(
      [&](const auto& attributes) {
        if constexpr (requires { attributes.window; }) note.window = attributes.window;
      },
      compute->op);
  return note;
}

std::string DescribeWindow(const Window& window) {
  const Shape begin = {window.pad_top, window.pad_left}, end = {window.pad_bottom, window.pad_right};
  return absl::StrCat("a window of ", ToString({window.size_h, window.size_w}), ", stride ",
                      ToString({window.stride_h, window.stride_w}), ", padding ", ToString(begin),
                      begin == end ? "" : absl::StrCat(" before and ", ToString(end), " behind"));
}

absl::Status CheckAlike(const Program& program, const Note& note, const Note& first) {
  const auto describe = [](const Note& n) {
    return absl::StrCat(DescribeWindow(n.window), " over ", ToString(n.images), ", noted in ", ToString(n.place.region));
  };
  const bool alike = note.window == first.window && note.images == first.images && note.place.member == first.place.member &&
                     note.place.region == first.place.region;
  if (alike) return absl::OkStatus();
  return RuleBroken(kArgmaxRule, Describe(program.task(note.task)), " has ", describe(note), " of ",
                    Describe(program.buffer(note.place.root)), "; expected, as in ", Describe(program.task(first.task)),
                    ", ", describe(first));
}

}  // namespace

absl::Status CheckArgmax(const Program& program) {
  std::map<BufferId, Note> notes;  // by root: what the first task says
  for (const Task& task : program.tasks) {
    const std::optional<Note> note = NoteOf(program, task);
    if (!note.has_value()) continue;
    const auto [first, is_first] = notes.try_emplace(note->place.root, *note);
    if (!is_first) RETURN_IF_ERROR(CheckAlike(program, *note, first->second));
    const Buffer& root = program.buffer(note->place.root);
    if (root.lifetime == Lifetime::kStep) continue;
    return RuleBroken(kArgmaxRule, Describe(task), " has its argmax in ", Describe(root),
                      ", which outlives the step; expected a buffer of the step");
  }
  for (const Task& task : program.tasks) {
    if (NoteOf(program, task).has_value()) continue;
    for (const BufferUse& use : task.uses) {
      const auto note = notes.find(RootOf(program, use.buffer));
      if (note == notes.end()) continue;
      return RuleBroken(kArgmaxRule, Describe(task), " uses ", Describe(program.buffer(use.buffer)),
                        ", which holds the argmax of ", Describe(program.task(note->second.task)),
                        "; expected max poolings alone");
    }
  }
  return absl::OkStatus();
}

}  // namespace colonnade::program
