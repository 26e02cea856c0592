#include "tools/drawing_rows.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "layers/traits.h"
#include "partition/shardings.h"
#include "tools/planning.h"
#include "tools/svg.h"

namespace colonnade::tools {
namespace {

constexpr char kGradient[] = ".gradient";

// By node: whether no edge passes by it, so that all behind it hangs on it alone.
std::vector<bool> CutsOf(const layers::LayerGraph& graph) {
  std::vector<bool> cuts(graph.nodes.size(), true);
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    for (layers::LayerId input : graph.nodes[node].inputs) {
      for (size_t passed = static_cast<size_t>(input.value) + 1; passed < node; ++passed) cuts[passed] = false;
    }
  }
  return cuts;
}

// Whether a node only changes values of its one input.
bool OnlyChangesValues(const layers::LayerGraph& graph, size_t node) {
  const layers::LayerNode& n = graph.nodes[node];
  return n.inputs.size() == 1 && n.parameters.empty() && !layers::IsLoss(n.layer) &&
         n.sample_shape == graph.node(n.inputs[0]).sample_shape;
}

// Sums of what tasks of one pass and kind send, by device.
struct Sent {
  std::map<int, int64_t> by_device;
  std::set<std::vector<int>> groups;
  std::set<std::pair<int, int>> pairs;
};
using MoveKey = std::pair<program::Pass, std::string>;
using Moves = std::map<MoveKey, Sent>;

// The pairs as groups of all devices that hang together.
std::vector<std::vector<int>> Joined(const std::set<std::pair<int, int>>& pairs, int devices) {
  std::vector<int> first(devices);
  for (int d = 0; d < devices; ++d) first[d] = d;
  const auto find = [&](int d) {
    while (first[d] != d) d = first[d];
    return d;
  };
  for (const auto& [a, b] : pairs) first[std::max(find(a), find(b))] = std::min(find(a), find(b));
  std::map<int, std::vector<int>> groups;
  for (const auto& [a, b] : pairs) groups[find(a)];
  for (int d = 0; d < devices; ++d) {
    if (const auto group = groups.find(find(d)); group != groups.end()) group->second.push_back(d);
  }
  std::vector<std::vector<int>> joined;
  for (auto& [device, group] : groups) joined.push_back(std::move(group));
  return joined;
}

std::vector<Move> MovesFrom(const Moves& sent, int devices) {
  std::vector<Move> moves;
  for (const auto& [key, of] : sent) {
    Move move;
    move.pass = key.first;
    move.kind = key.second;
    if (!of.by_device.empty()) move.least_bytes = of.by_device.begin()->second;
    for (const auto& [device, bytes] : of.by_device) {
      move.least_bytes = std::min(move.least_bytes, bytes);
      move.most_bytes = std::max(move.most_bytes, bytes);
      move.all_bytes += bytes;
    }
    move.groups = Joined(of.pairs, devices);
    for (std::vector<int> group : of.groups) {
      std::sort(group.begin(), group.end());
      move.groups.push_back(std::move(group));
    }
    if (move.all_bytes > 0) moves.push_back(std::move(move));
  }
  return moves;
}

// Adds a transfer to what its pass and kind send.
void Add(const program::Program& program, const program::Task& task, Moves& moves) {
  if (std::holds_alternative<program::Compute>(task.body)) return;
  Sent& sent = moves[{task.provenance.pass, absl::StrReplaceAll(program::Name(task), {{"_", "-"}})}];
  sent.by_device[task.device] += task.work.bytes_sent;
  if (const auto* exchange = std::get_if<program::Exchange>(&task.body)) {
    sent.pairs.insert(std::minmax(task.device, exchange->peer));
  } else {
    sent.groups.insert(program.groups[std::get<program::Collective>(task.body).group]);
  }
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

// Images of bytes lie with their channels last; networks state them first.
program::Shape ChannelsFirst(const program::Program& program, const program::Shape& images) {
  const bool are_bytes = program.inputs[0].host_dtype == program::DType::kU8;
  return are_bytes && images.size() == 4 ? program::Shape{images[0], images[3], images[1], images[2]} : images;
}

class RowMaker {
 public:
  RowMaker(const layers::LayerGraph& graph, const partition::Plan& plan, const program::Program& program,
           std::vector<partition::NodeSharding> shardings)
      : graph_(graph), plan_(plan), program_(program), shardings_(std::move(shardings)) {
    for (const program::Parameter& parameter : program.parameters) {
      for (const program::Piece& piece : parameter.value()) {
        held_[parameter.layer].emplace_back(program.buffer(piece.buffer).device, piece);
      }
    }
  }

  // Returns the row of nodes `first` to `last`.
  DrawnRow Row(size_t first, size_t last) const {
    DrawnRow row;
    if (first == last) {
      row.name = graph_.nodes[first].name;
      row.description = layers::TypeName(graph_.nodes[first].layer);
    } else {
      row.name = BlockName(first, last);
      row.description = absl::StrFormat("block of %d layers", last - first + 1);
    }
    std::vector<std::string> strategies;
    for (size_t node = first; node <= last; ++node) {
      const std::string of_node = StrategiesOf(plan_, graph_.nodes[node].name);
      if (std::find(strategies.begin(), strategies.end(), of_node) == strategies.end()) strategies.push_back(of_node);
    }
    row.strategies = absl::StrJoin(strategies, "; ");
    for (int position = 0; position < plan_.mesh.device_count(); ++position) {
      row.cells.push_back({.output = OutputOf(last, position), .weights = WeightsOf(first, last, position)});
    }
    const size_t main = MainOf(first, last);
    std::map<program::Region, int, bool (*)(const program::Region&, const program::Region&)> parts(
        [](const program::Region& a, const program::Region& b) { return a.offset < b.offset; });
    for (size_t p = 0; p < row.cells.size(); ++p) {
      row.cells[p].part = parts.emplace(RegionOf(main, static_cast<int>(p)), static_cast<int>(parts.size())).first->second;
    }
    for (DrawnCell& cell : row.cells) cell.parts = static_cast<int>(parts.size());
    return row;
  }

 private:
  // "layer1.0" of layer1.0.conv1 to layer1.0.relu; else the first and the last.
  std::string BlockName(size_t first, size_t last) const {
    const std::string &a = graph_.nodes[first].name, &b = graph_.nodes[last].name;
    size_t common = a.size();
    for (size_t node = first; node <= last; ++node) {
      const std::string& name = graph_.nodes[node].name;
      common = std::min(common, name.size());
      while (name.compare(0, common, a, 0, common) != 0) --common;
    }
    const std::string prefix = a.substr(0, common);
    const size_t end = prefix.find_last_of("._/");
    return end != std::string::npos && end > 0 ? prefix.substr(0, end) : absl::StrCat(a, " … ", b);
  }

  // The node by which parts of a block are told: the last that has parameters.
  size_t MainOf(size_t first, size_t last) const {
    for (size_t node = last; node > first; --node) {
      if (!graph_.nodes[node].parameters.empty()) return node;
    }
    return first;
  }

  // What a position holds of a layer's weights, or of its channels where it has none; of all of them everywhere alike.
  program::Region RegionOf(size_t node, int position) const {
    program::Region region;
    const layers::LayerNode& n = graph_.nodes[node];
    if (const auto held = held_.find(n.name); held != held_.end()) {
      for (const auto& [device, piece] : held->second) {
        if (device == plan_.device_at(position)) return piece.region;
      }
    }
    if (layers::IsInput(n.layer)) return region;
    const program::Shape global = graph_.OutputShape(layers::LayerId{static_cast<int32_t>(node)}, program_.global_batch);
    region = partition::RegionOn(plan_.mesh, shardings_[node].output, global, position);
    if (!region.offset.empty()) region.offset[0] = 0;
    return region;
  }

  // Plans say nothing of the images and of the loss: these are where the Program has the images and their labels.
  std::string OutputOf(size_t node, int position) const {
    const layers::Layer& layer = graph_.nodes[node].layer;
    const int device = plan_.device_at(position);
    if (layers::IsInput(layer))
      return program::ToString(
          ChannelsFirst(program_, PartOnDevice(program_, program::kHostInputNames[program::HostInput::kImages], device)));
    if (layers::IsLoss(layer))
      return program::ToString(PartOnDevice(program_, program::kHostInputNames[program::HostInput::kLabels], device));
    const program::Shape global = graph_.OutputShape(layers::LayerId{static_cast<int32_t>(node)}, program_.global_batch);
    return program::ToString(partition::LocalShape(plan_.mesh, shardings_[node].output, global));
  }

  std::string WeightsOf(size_t first, size_t last, int position) const {
    int64_t bytes = 0;
    for (size_t node = first; node <= last; ++node) {
      const auto held = held_.find(graph_.nodes[node].name);
      if (held == held_.end()) continue;
      for (const auto& [device, piece] : held->second) {
        if (device != plan_.device_at(position)) continue;
        if (first == last) return program::ToString(piece.region.size);
        bytes += program::ElementCount(piece.region.size) * program::SizeInBytes(program_.buffer(piece.buffer).dtype);
      }
    }
    return bytes > 0 ? Bytes(bytes) : "";
  }

  const layers::LayerGraph& graph_;
  const partition::Plan& plan_;
  const program::Program& program_;
  const std::vector<partition::NodeSharding> shardings_;
  std::map<std::string, std::vector<std::pair<int, program::Piece>>> held_;  // by layer: device and piece
};

// By bucket of gradients or statistics: the rows of the layers that make what is in it.
std::map<std::string, std::set<int>> RowsOfBuckets(const program::Program& program,
                                                   const std::map<std::string, int>& row_of_layer) {
  std::map<std::string, std::set<int>> rows;
  for (const program::Task& task : program.tasks) {
    const auto row = row_of_layer.find(task.provenance.layer);
    if (row == row_of_layer.end()) continue;
    for (const program::BufferUse& use : task.uses) {
      const auto* member = std::get_if<program::BucketMember>(&program.buffer(use.buffer).storage);
      if (member == nullptr || use.access == program::Access::kRead) continue;
      const std::string& bucket = program.buffer(member->bucket).name;
      rows[std::string(absl::StripSuffix(bucket, kGradient))].insert(row->second);
    }
  }
  return rows;
}

// Joins buckets that are reduced by the same transfers among the same devices.
std::vector<DrawnReduction> ReductionsOf(const std::map<std::string, Moves>& moves, int devices,
                                         const std::map<std::string, std::set<int>>& rows) {
  std::map<std::vector<std::tuple<program::Pass, std::string, std::vector<std::vector<int>>>>, DrawnReduction> reductions;
  for (const auto& [bucket, sent] : moves) {
    std::vector<std::tuple<program::Pass, std::string, std::vector<std::vector<int>>>> key;
    const std::vector<Move> of_bucket = MovesFrom(sent, devices);
    if (of_bucket.empty()) continue;
    for (const Move& move : of_bucket) key.emplace_back(move.pass, move.kind, move.groups);
    DrawnReduction& reduction = reductions[key];
    reduction.buckets.push_back(bucket);
    if (const auto found = rows.find(bucket); found != rows.end()) {
      reduction.rows.insert(reduction.rows.end(), found->second.begin(), found->second.end());
    }
    if (reduction.moves.empty()) {
      reduction.moves = of_bucket;
      reduction.of_gradients = of_bucket[0].pass != program::Pass::kForward;
      continue;
    }
    for (size_t m = 0; m < of_bucket.size(); ++m) {
      reduction.moves[m].least_bytes += of_bucket[m].least_bytes;
      reduction.moves[m].most_bytes += of_bucket[m].most_bytes;
      reduction.moves[m].all_bytes += of_bucket[m].all_bytes;
    }
  }
  std::vector<DrawnReduction> all;
  for (auto& [key, reduction] : reductions) {
    std::sort(reduction.rows.begin(), reduction.rows.end());
    reduction.rows.erase(std::unique(reduction.rows.begin(), reduction.rows.end()), reduction.rows.end());
    all.push_back(std::move(reduction));
  }
  return all;
}

}  // namespace

std::vector<int> RowOfEachNode(const layers::LayerGraph& graph, bool folds_blocks) {
  const std::vector<bool> cuts = CutsOf(graph);
  std::vector<int> row_of(graph.nodes.size());
  int rows = 0;
  for (size_t first = 0, last; first < graph.nodes.size(); first = last + 1, ++rows) {
    last = first;
    if (folds_blocks) {
      while (!cuts[last] && last + 1 < graph.nodes.size()) ++last;
      if (last > first) {
        while (last + 1 < graph.nodes.size() && cuts[last + 1] && OnlyChangesValues(graph, last + 1)) ++last;
      }
    }
    std::fill(row_of.begin() + static_cast<ptrdiff_t>(first), row_of.begin() + static_cast<ptrdiff_t>(last) + 1, rows);
  }
  return row_of;
}

absl::StatusOr<DrawnPlan> RowsOfPlan(const layers::LayerGraph& graph, const partition::Plan& plan,
                                     const program::Program& program, bool folds_blocks) {
  ASSIGN_OR_RETURN(partition::GraphSharding sharding, partition::ShardGraph(graph, plan, program.global_batch));
  const RowMaker maker(graph, plan, program, std::move(sharding.nodes));
  const std::vector<int> row_of = RowOfEachNode(graph, folds_blocks);
  DrawnPlan drawn;
  for (size_t first = 0, last; first < graph.nodes.size(); first = last + 1) {
    for (last = first; last + 1 < graph.nodes.size() && row_of[last + 1] == row_of[first];) ++last;
    DrawnRow row = maker.Row(first, last);
    std::set<int> inputs;
    for (size_t node = first; node <= last; ++node) {
      for (layers::LayerId input : graph.nodes[node].inputs) inputs.insert(row_of[input.value]);
    }
    inputs.erase(row_of[first]);
    row.inputs.assign(inputs.begin(), inputs.end());
    drawn.rows.push_back(std::move(row));
  }
  std::map<std::string, int> row_of_layer;
  for (size_t node = 0; node < graph.nodes.size(); ++node) row_of_layer[graph.nodes[node].name] = row_of[node];
  std::map<int, Moves> of_rows;
  std::map<std::string, Moves> of_buckets;
  for (const program::Task& task : program.tasks) {
    const auto row = row_of_layer.find(task.provenance.layer);
    Add(program, task, row != row_of_layer.end() ? of_rows[row->second] : of_buckets[task.provenance.layer]);
  }
  for (const auto& [row, moves] : of_rows) drawn.rows[row].moves = MovesFrom(moves, program.device_count);
  drawn.reductions = ReductionsOf(of_buckets, program.device_count, RowsOfBuckets(program, row_of_layer));
  return drawn;
}

}  // namespace colonnade::tools
