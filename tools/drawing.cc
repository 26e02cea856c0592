#include "tools/drawing.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "engine/io/file.h"
#include "layers/traits.h"
#include "partition/shardings.h"
#include "program/status_macros.h"
#include "tools/planning.h"

namespace colonnade::tools {
namespace {

// One colour for each column; replicas repeat them.
constexpr const char* kColours[] = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#edc948", "#76b7b2", "#e15759", "#9c755f"};

int ColumnOf(const partition::Mesh& mesh, int position) {
  return mesh.axis_count() > 1 ? static_cast<int>(mesh.Coordinate(position, mesh.axis_count() - 1)) : 0;
}

// Bytes between two devices for one layer, both directions of time: activations forward, gradients backward.
using Moves = std::map<std::tuple<std::string, int, int>, int64_t>;

Moves MovesOf(const program::Program& program) {
  Moves moves;
  for (const program::Task& task : program.tasks) {
    if (task.work.bytes_sent == 0) continue;
    if (const auto* exchange = std::get_if<program::Exchange>(&task.what)) {
      moves[{task.from.layer, task.device, exchange->peer}] += task.work.bytes_sent;
    } else if (const auto* collective = std::get_if<program::Collective>(&task.what)) {
      const std::vector<int>& group = program.groups[collective->group];
      for (int peer : group) {
        if (peer != task.device)
          moves[{task.from.layer, task.device, peer}] += task.work.bytes_sent / static_cast<int64_t>(group.size() - 1);
      }
    }
  }
  return moves;
}

// The part of a Program's input that lies on `device`, as a shape; empty where none does.
program::Shape PartOnDevice(const program::Program& program, absl::string_view input, int device) {
  for (const program::Input& each : program.inputs) {
    if (each.name != input) continue;
    for (const program::Piece& piece : each.pieces) {
      if (program.buffer(piece.buffer).device == device) return piece.region.size;
    }
  }
  return {};
}

// What `device` holds of a layer's output. Plans say nothing of the images and of the loss: these are where the Program has
// the images and their labels.
std::string LocalShapeOf(const layers::LayerGraph& graph, const partition::Plan& plan,
                         const std::vector<partition::NodeSharding>& shardings, size_t node, const program::Program& program,
                         int device) {
  const layers::LayerTraits traits = layers::TraitsOf(graph.nodes[node].layer);
  if (traits.is_input) return program::ToString(PartOnDevice(program, "images", device));
  if (traits.is_loss) return program::ToString(PartOnDevice(program, "labels", device));
  const program::Shape global = graph.OutputShape(layers::LayerId{static_cast<int32_t>(node)}, program.global_batch);
  absl::StatusOr<program::Shape> local = partition::LocalShape(plan.mesh, shardings[node].output, global);
  return program::ToString(local.ok() ? *local : global);
}

// "1.3 kB", "22.15 MB"
std::string Bytes(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return bytes < 100000 ? absl::StrFormat("%.1f kB", value / 1e3) : absl::StrFormat("%.2f MB", value / 1e6);
}

// A name inside a quoted string of graphviz, which also reads HTML's entities there.
std::string Quoted(absl::string_view name) {
  return absl::StrReplaceAll(name, {{"\\", "\\\\"}, {"\"", "\\\""}, {"&", "&amp;"}, {"\n", " "}});
}

constexpr int kNotFound = 127;

// The exit code of graphviz' `dot` with these arguments; kNotFound where there is no such program.
absl::StatusOr<int> RunDot(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "dot");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDERR_FILENO);
    ::execvp("dot", argv.data());
    std::_Exit(kNotFound);
  }
  int code = -1;
  if (child < 0 || ::waitpid(child, &code, 0) != child) return absl::InternalError("dot: cannot start a process");
  return WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
}

absl::Status NoDot(const std::string& path, int code) {
  if (code != kNotFound) return absl::InternalError(absl::StrFormat("%s: graphviz' dot ended with %d", path, code));
  return absl::UnavailableError(
      absl::StrCat(path,
                   ": drawing as SVG needs graphviz' program dot, which is not installed; install graphviz, or name a "
                   "file that ends in .dot or .txt"));
}

std::string NodeId(size_t node, int device) { return absl::StrFormat("n%d_d%d", node, device); }

}  // namespace

std::string PlanAsDot(const layers::LayerGraph& graph, const partition::Plan& plan, const program::Program& program) {
  const int devices = plan.mesh.device_count();
  absl::StatusOr<std::vector<partition::NodeSharding>> shardings = partition::ShardGraph(graph, plan, program.global_batch);
  if (!shardings.ok()) return "";
  std::string dot = absl::StrFormat(
      "digraph plan {\n  label=\"%s under %s, batch %d\"; labelloc=t; fontname=Helvetica;\n"
      "  node [shape=box, style=filled, fontname=Helvetica, fontsize=10, fontcolor=white]; edge [color=\"#999999\", "
      "arrowsize=0.5];\n",
      Quoted(graph.name), Quoted(plan.name), program.global_batch);
  for (int position = 0; position < devices; ++position) {
    const int device = plan.device_at(position);
    absl::StrAppendFormat(&dot, "  subgraph cluster_%d { label=\"device %d\"; color=\"#cccccc\"; fontname=Helvetica;\n",
                          position, device);
    for (size_t node = 0; node < graph.nodes.size(); ++node) {
      absl::StrAppendFormat(&dot, "    %s [label=\"%s\\n%s\\n%s\", fillcolor=\"%s\"];\n", NodeId(node, device),
                            Quoted(graph.nodes[node].name), LocalShapeOf(graph, plan, *shardings, node, program, device),
                            StrategiesOf(plan, graph.nodes[node].name),
                            kColours[ColumnOf(plan.mesh, position) % std::size(kColours)]);
    }
    absl::StrAppend(&dot, "  }\n");
  }
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    for (layers::LayerId input : graph.nodes[node].inputs) {
      for (int device = 0; device < devices; ++device) {
        absl::StrAppendFormat(&dot, "  %s -> %s;\n", NodeId(input.value, device), NodeId(node, device));
      }
    }
  }
  for (const auto& [key, bytes] : MovesOf(program)) {
    const auto& [layer, from, to] = key;
    for (size_t node = 0; node < graph.nodes.size(); ++node) {
      if (graph.nodes[node].name != layer || graph.nodes[node].inputs.empty()) continue;
      const double megabytes = static_cast<double>(bytes) / 1e6;
      absl::StrAppendFormat(
          &dot, "  %s -> %s [color=\"#d62728\", penwidth=%.1f, constraint=false, fontsize=8, label=\"%s\"];\n",
          NodeId(graph.nodes[node].inputs[0].value, from), NodeId(node, to), 1 + std::log2(1 + megabytes), Bytes(bytes));
    }
  }
  return dot + "}\n";
}

std::string PlanAsText(const layers::LayerGraph& graph, const partition::Plan& plan, const program::Program& program) {
  absl::StatusOr<std::vector<partition::NodeSharding>> shardings = partition::ShardGraph(graph, plan, program.global_batch);
  if (!shardings.ok()) return std::string(shardings.status().message());
  std::map<std::string, std::string> arrows;
  for (const auto& [key, bytes] : MovesOf(program)) {
    const auto& [layer, from, to] = key;
    absl::StrAppendFormat(&arrows[layer], "  %d->%d %s", from, to, Bytes(bytes));
  }
  std::string text = absl::StrFormat("%s under %s, batch %d, %d devices; what one device holds, and what moves\n",
                                     graph.name, plan.name, program.global_batch, plan.mesh.device_count());
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    const std::string& name = graph.nodes[node].name;
    absl::StrAppendFormat(&text, "%-16s %-22s %-20s%s\n", name, StrategiesOf(plan, name),
                          LocalShapeOf(graph, plan, *shardings, node, program, plan.device_at(0)), arrows[name]);
  }
  return text;
}

absl::Status CheckCanDraw(const std::string& path) {
  if (absl::EndsWith(path, ".dot") || absl::EndsWith(path, ".txt")) return absl::OkStatus();
  ASSIGN_OR_RETURN(int code, RunDot({"-V"}));
  return code == 0 ? absl::OkStatus() : NoDot(path, code);
}

absl::Status DrawPlan(const layers::LayerGraph& graph, const partition::Plan& plan, const program::Program& program,
                      const std::string& path) {
  if (absl::EndsWith(path, ".dot")) return engine::ReplaceFile(path, PlanAsDot(graph, plan, program));
  if (absl::EndsWith(path, ".txt")) return engine::ReplaceFile(path, PlanAsText(graph, plan, program));
  std::string folder = (std::filesystem::temp_directory_path() / "colonnade_XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return absl::DataLossError(absl::StrCat(folder, ": cannot make a folder"));
  const auto draw = [&]() -> absl::Status {
    const std::string source = folder + "/plan.dot", target = folder + "/plan.svg";
    RETURN_IF_ERROR(engine::ReplaceFile(source, PlanAsDot(graph, plan, program)));
    ASSIGN_OR_RETURN(int code, RunDot({"-Tsvg", "-o", target, source}));
    if (code != 0) return NoDot(path, code);
    ASSIGN_OR_RETURN(std::string svg, engine::ReadFile(target));
    return engine::ReplaceFile(path, svg);
  };
  const absl::Status status = draw();
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return status;
}

}  // namespace colonnade::tools
