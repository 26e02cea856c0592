#include "tools/drawing.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/io/file.h"
#include "partition/shardings.h"
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

std::string LocalShapeOf(const layers::LayerGraph& graph, const partition::Plan& plan,
                         const std::vector<partition::NodeSharding>& shardings, size_t node, int64_t batch) {
  const program::Shape global = graph.OutputShape(layers::LayerId{static_cast<int32_t>(node)}, batch);
  if (shardings[node].output.empty()) return program::ToString(global);
  absl::StatusOr<program::Shape> local = partition::LocalShape(plan.mesh, shardings[node].output, global);
  return program::ToString(local.ok() ? *local : global);
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
      graph.name, plan.name, program.global_batch);
  for (int position = 0; position < devices; ++position) {
    const int device = plan.device_at(position);
    absl::StrAppendFormat(&dot, "  subgraph cluster_%d { label=\"device %d\"; color=\"#cccccc\"; fontname=Helvetica;\n",
                          position, device);
    for (size_t node = 0; node < graph.nodes.size(); ++node) {
      absl::StrAppendFormat(&dot, "    %s [label=\"%s\\n%s\\n%s\", fillcolor=\"%s\"];\n", NodeId(node, device),
                            graph.nodes[node].name, LocalShapeOf(graph, plan, *shardings, node, program.global_batch),
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
          &dot, "  %s -> %s [color=\"#d62728\", penwidth=%.1f, constraint=false, fontsize=8, label=\"%.2f MB\"];\n",
          NodeId(graph.nodes[node].inputs[0].value, from), NodeId(node, to), 1 + std::log2(1 + megabytes), megabytes);
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
    absl::StrAppendFormat(&arrows[layer], "  %d->%d %.2f MB", from, to, static_cast<double>(bytes) / 1e6);
  }
  std::string text = absl::StrFormat("%s under %s, batch %d, %d devices; what one device holds, and what moves\n",
                                     graph.name, plan.name, program.global_batch, plan.mesh.device_count());
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    const std::string& name = graph.nodes[node].name;
    absl::StrAppendFormat(&text, "%-16s %-18s %-20s%s\n", name, StrategiesOf(plan, name),
                          LocalShapeOf(graph, plan, *shardings, node, program.global_batch), arrows[name]);
  }
  return text;
}

absl::Status DrawPlan(const layers::LayerGraph& graph, const partition::Plan& plan, const program::Program& program,
                      const std::string& path) {
  std::string pattern = (std::filesystem::temp_directory_path() / "colonnade_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return absl::DataLossError(absl::StrCat(pattern, ": cannot make a folder"));
  const std::string source = pattern + "/plan.dot", target = pattern + "/plan.svg";
  absl::Status status = engine::ReplaceFile(source, PlanAsDot(graph, plan, program));
  int code = -1;
  if (status.ok()) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::execlp("dot", "dot", "-Tsvg", "-o", target.c_str(), source.c_str(), static_cast<char*>(nullptr));
      std::_Exit(127);
    }
    if (child > 0) ::waitpid(child, &code, 0);
    absl::StatusOr<std::string> svg =
        code == 0 ? engine::ReadFile(target) : absl::StatusOr<std::string>(absl::NotFoundError("no dot"));
    if (!svg.ok()) std::fprintf(stderr, "note: graphviz' dot is not installed; %s is drawn as text\n", path.c_str());
    status = engine::ReplaceFile(path, svg.ok() ? *svg : PlanAsText(graph, plan, program));
  }
  std::error_code error;
  std::filesystem::remove_all(pattern, error);
  return status;
}

}  // namespace colonnade::tools
