// Checks two rules. `outputs`: what a Program declares for the host (parameters, inputs, outputs) fits its buffers. `slots`:
// what the next step is given while this one runs is kept apart from it.

#include <map>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "program/boxes.h"
#include "program/location.h"
#include "program/verify/rules.h"

namespace colonnade::program {
namespace {

constexpr char kOutputsRule[] = "outputs", kSlotsRule[] = "slots";

// A list of pieces with the words for its messages.
struct Declared {
  std::string owner;  // output "metrics"
  const Shape& shape;
  const std::vector<Piece>& pieces;
};

absl::Status CheckPiecesFit(const Program& program, const Declared& declared) {
  for (const Piece& piece : declared.pieces) {
    const Buffer& buffer = program.buffer(piece.buffer);
    if (!Fits(piece.region, declared.shape)) {
      return RuleBroken(kOutputsRule, declared.owner, " of shape ", ToString(declared.shape), " has a piece ",
                        ToString(piece.region), ", which is not inside");
    }
    if (piece.region.size != buffer.shape || std::holds_alternative<Bucket>(buffer.storage)) {
      return RuleBroken(kOutputsRule, declared.owner, " has the piece ", ToString(piece.region), " in ", Describe(buffer),
                        " of shape ", ToString(buffer.shape), "; expected a tensor of the piece's extents");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPiecesCover(const Declared& declared) {
  std::set<std::pair<Shape, Shape>> seen;
  std::vector<Region> boxes;
  for (const Piece& piece : declared.pieces) {
    if (seen.emplace(piece.region.offset, piece.region.size).second) boxes.push_back(piece.region);
  }
  const std::vector<Region> left = Uncovered(Region::Whole(declared.shape), boxes);
  if (left.empty()) return absl::OkStatus();
  return RuleBroken(kOutputsRule, declared.owner, " of shape ", ToString(declared.shape), " has no piece that holds ",
                    ToString(left.front()));
}

using Claims = std::map<BufferId, std::string>;  // whose state lies in a buffer

// What is kept in one buffer for two would change under the one as the other is written.
absl::Status CheckClaims(const Program& program, const Declared& declared, Claims& claims) {
  for (const Piece& piece : declared.pieces) {
    const auto [claim, is_first] = claims.emplace(piece.buffer, declared.owner);
    if (is_first) continue;
    return RuleBroken(kOutputsRule, declared.owner, " has a piece in ", Describe(program.buffer(piece.buffer)),
                      ", which holds a piece of ", claim->second, "; expected a buffer for each piece");
  }
  return absl::OkStatus();
}

absl::Status CheckStateOf(const Program& program, const Declared& declared, Claims& claims) {
  RETURN_IF_ERROR(CheckPiecesFit(program, declared));
  for (const Piece& piece : declared.pieces) {
    const Buffer& buffer = program.buffer(piece.buffer);
    if (buffer.lifetime != Lifetime::kPersistent || !IsMaster(buffer.dtype)) {
      return RuleBroken(kOutputsRule, declared.owner, " lies in ", Describe(buffer),
                        "; expected a persistent buffer of f32 or f64");
    }
  }
  RETURN_IF_ERROR(CheckPiecesCover(declared));
  return CheckClaims(program, declared, claims);
}

absl::Status CheckParameters(const Program& program) {
  std::set<std::string> names;
  Claims claims;
  bool all_trained = true;  // before this one
  for (const Parameter& p : program.parameters) {
    const std::string owner = absl::StrCat("parameter \"", p.name, "\"");
    if (!names.insert(p.name).second) return RuleBroken(kOutputsRule, owner, " is declared twice");
    RETURN_IF_ERROR(CheckStateOf(program, {owner, p.shape, p.value()}, claims));
    if (p.role == StateRole::kTrained && !all_trained) {
      return RuleBroken(kOutputsRule, owner, " is trained and stands behind what is not; expected trained parameters first");
    }
    all_trained = p.role == StateRole::kTrained;
    for (StateKind kind : kStateKinds) {
      if (kind == StateKind::kValue || p.pieces(kind).empty()) continue;
      if (p.role != StateRole::kTrained) return RuleBroken(kOutputsRule, owner, " is not trained and has a ", Name(kind));
      RETURN_IF_ERROR(
          CheckStateOf(program, {absl::StrCat("the ", Name(kind), " of ", owner), p.shape, p.pieces(kind)}, claims));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(const Program& program) {
  std::set<std::string> names;
  for (const Input& input : program.inputs) {
    const Declared declared{absl::StrCat("input \"", input.name, "\""), input.shape, input.pieces};
    if (!names.insert(input.name).second) return RuleBroken(kOutputsRule, declared.owner, " is declared twice");
    RETURN_IF_ERROR(CheckPiecesFit(program, declared));
    RETURN_IF_ERROR(CheckPiecesCover(declared));
    for (const Piece& piece : input.pieces) {
      const DType dtype = program.buffer(piece.buffer).dtype;
      if (dtype != input.host_dtype) {
        return RuleBroken(kOutputsRule, declared.owner, " of ", Name(input.host_dtype), " is loaded into ",
                          Describe(program.buffer(piece.buffer)), " of ", Name(dtype));
      }
    }
  }
  return absl::OkStatus();
}

// Metrics and flags are whole on each device that has a piece.
absl::Status CheckWholePieces(const Declared& declared, const Shape& expected, const char* what) {
  if (declared.shape != expected) {
    return RuleBroken(kOutputsRule, declared.owner, " has shape ", ToString(declared.shape), "; expected ",
                      ToString(expected), ", ", what);
  }
  for (const Piece& piece : declared.pieces) {
    if (piece.region == Region::Whole(expected)) continue;
    return RuleBroken(kOutputsRule, declared.owner, " has the piece ", ToString(piece.region), "; expected all of ",
                      ToString(expected), ", ", what);
  }
  return absl::OkStatus();
}

// Metrics and the gate are equal on all devices, so exactly one device stores them.
absl::Status CheckOnePiece(const Declared& declared) {
  if (declared.pieces.size() == 1) return absl::OkStatus();
  return RuleBroken(kOutputsRule, declared.owner, " has ", declared.pieces.size(), " pieces; expected one, of one device");
}

bool HoldsOutput(DType dtype, Output::Kind kind) {
  switch (kind) {
    case Output::Kind::kMetrics:
    case Output::Kind::kGate:
      return dtype == DType::kF64;
    case Output::Kind::kFinite:
      return dtype == DType::kI32;
    case Output::Kind::kGradient:
      return IsMaster(dtype);
    case Output::Kind::kActivation:
      return IsFloat(dtype);
  }
  return false;
}

absl::Status CheckOutputs(const Program& program) {
  std::set<std::pair<Output::Kind, std::string>> names;
  for (const Output& output : program.outputs) {
    const Declared declared{absl::StrCat("output \"", output.name, "\""), output.shape, output.pieces};
    if (!names.emplace(output.kind, output.name).second)
      return RuleBroken(kOutputsRule, declared.owner, " is declared twice");
    RETURN_IF_ERROR(CheckPiecesFit(program, declared));
    RETURN_IF_ERROR(CheckPiecesCover(declared));
    for (const Piece& piece : output.pieces) {
      const DType dtype = program.buffer(piece.buffer).dtype;
      if (!HoldsOutput(dtype, output.kind)) {
        return RuleBroken(
            kOutputsRule, declared.owner, " lies in ", Describe(program.buffer(piece.buffer)), " of ", Name(dtype),
            "; expected f64 for metrics and gates, i32 for flags, f32 or f64 for gradients, f32, bf16 or f64 for "
            "activations");
      }
    }
    if (output.kind == Output::Kind::kMetrics) {
      RETURN_IF_ERROR(CheckWholePieces(declared, {Metric::kCount}, "one sum for each metric"));
      RETURN_IF_ERROR(CheckOnePiece(declared));
    } else if (output.kind == Output::Kind::kGate) {
      RETURN_IF_ERROR(CheckWholePieces(declared, {Gate::kCount}, "whether the gate is open, and a factor"));
      RETURN_IF_ERROR(CheckOnePiece(declared));
    } else if (output.kind == Output::Kind::kFinite) {
      const int64_t parameters = TrainedCount(program);
      RETURN_IF_ERROR(CheckWholePieces(declared, {parameters}, "one flag for each trained parameter"));
    }
  }
  return absl::OkStatus();
}

using Copies = std::map<std::pair<int, BufferId>, int>;  // how often (declaration, buffer) is loaded or stored

// Each Load and Store moves all of a declared piece; each piece is moved.
absl::Status CheckHostCopies(const Program& program) {
  Copies loads, stores;
  for (const Input& input : program.inputs) {
    const int index = static_cast<int>(&input - program.inputs.data());
    for (const Piece& piece : input.pieces) loads.try_emplace({index, piece.buffer}, 0);
  }
  for (const Output& output : program.outputs) {
    const int index = static_cast<int>(&output - program.outputs.data());
    for (const Piece& piece : output.pieces) stores.try_emplace({index, piece.buffer}, 0);
  }
  for (const Task& task : program.tasks) {
    const auto* compute = std::get_if<Compute>(&task.body);
    if (compute == nullptr) continue;
    const auto* load = std::get_if<Load>(&compute->op);
    const auto* store = std::get_if<Store>(&compute->op);
    if (load == nullptr && store == nullptr) continue;
    Copies& copies = load != nullptr ? loads : stores;
    const BufferUse& use = task.uses[0];
    const auto it = copies.find({load != nullptr ? load->input : store->output, use.buffer});
    if (it == copies.end() || use.region != Region::Whole(program.buffer(use.buffer).shape)) {
      return RuleBroken(kOutputsRule, Describe(task), " moves ", ToString(use.region), " of ",
                        Describe(program.buffer(use.buffer)), ", which is not a whole piece of that ",
                        load != nullptr ? "input" : "output");
    }
    ++it->second;
  }
  for (const auto& [key, count] : loads) {
    if (count != 0) continue;
    return RuleBroken(kOutputsRule, "no task loads ", Describe(program.buffer(key.second)), ", a piece of input \"",
                      program.inputs[key.first].name, "\"");
  }
  for (const auto& [key, count] : stores) {
    if (count == 1) continue;
    return RuleBroken(kOutputsRule, count, " tasks store ", Describe(program.buffer(key.second)), ", a piece of output \"",
                      program.outputs[key.first].name, "\"; expected one");
  }
  return absl::OkStatus();
}

// Lane kLoad fills buffers of two slots and does nothing else; all others on a device only compute on them.
absl::Status CheckSlots(const Program& program) {
  for (const Task& task : program.tasks) {
    const auto* compute = std::get_if<Compute>(&task.body);
    const bool loads = compute != nullptr && std::holds_alternative<Load>(compute->op);
    if (task.lane == Lane::kLoad && !loads) {
      return RuleBroken(kSlotsRule, Describe(task), " is on lane load; expected a load there");
    }
    for (const BufferUse& use : task.uses) {
      const Buffer& root = program.buffer(RootOf(program, use.buffer));
      const bool ahead = loads && task.lane == Lane::kLoad;
      if (ahead && (root.slots != 2 || use.buffer != root.id)) {
        return RuleBroken(kSlotsRule, Describe(task), " on lane load writes ", Describe(root),
                          "; expected a buffer of two slots");
      }
      if (root.slots == 1 || ahead) continue;
      if (compute == nullptr || Writes(use.access)) {
        return RuleBroken(kSlotsRule, Describe(task), " uses ", Describe(root),
                          " of two slots; expected a load on lane load, or a computation that reads it");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDeclarations(const Program& program) {
  for (const auto rule : {CheckParameters, CheckInputs, CheckOutputs, CheckHostCopies, CheckSlots}) {
    RETURN_IF_ERROR(rule(program));
  }
  return absl::OkStatus();
}

}  // namespace colonnade::program
