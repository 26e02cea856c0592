#include "tools/drawing.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "engine/io/file.h"
#include "tools/branch_lanes.h"
#include "tools/drawing_rows.h"
#include "tools/svg.h"

namespace colonnade::tools {
namespace {

constexpr double kLeastWidth = 640;  // of the title and the legend
constexpr double kMargin = 24, kHeaderHeight = 120, kLaneWidth = 13, kMostLabelWidth = 250;
constexpr double kCellHeight = 34, kRowGap = 10, kColumnGap = 8, kBusHeight = 17, kLevelHeight = 9;
constexpr double kMostMovesWidth = 320, kBracketLane = 16, kReductionWidth = 180;
constexpr double kShapeSize = 10.5, kSmall = 9.5, kMoveSize = 11;

// "12.35 MB a device", "up to …"
std::string BytesOfADevice(const Move& move) {
  return absl::StrCat(move.least_bytes == move.most_bytes ? "" : "up to ", Bytes(move.most_bytes), " a device");
}

// "conv2d · batch, column"
std::string AboutRow(const DrawnRow& row) {
  return row.strategies == "-" ? row.description : absl::StrCat(row.description, " · ", row.strategies);
}

std::string GroupsInWords(const Move& move) {
  return move.groups.size() < 2 ? "" : absl::StrFormat(", in %d groups", move.groups.size());
}

// "all-gather 12.35 MB a device, in 2 groups"
std::string LabelOf(const Move& move) { return absl::StrCat(move.kind, " ", BytesOfADevice(move), GroupsInWords(move)); }

std::string NamesInWords(const std::vector<std::string>& names) {
  constexpr size_t kMostNames = 3;
  if (names.size() <= kMostNames) return absl::StrJoin(names, ", ");
  return absl::StrFormat("%s … %s (%d)", names.front(), names.back(), names.size());
}

// How many of the devices, in the order of the mesh, are drawn: whole replicas if one has few enough.
int ColumnsOf(const partition::Mesh& mesh) {
  const int devices = mesh.device_count();
  if (devices <= kMostDevicesShown) return devices;
  const auto of_a_replica = static_cast<int>(mesh.axes.back().size);
  return of_a_replica > kMostDevicesShown ? kMostDevicesShown : kMostDevicesShown / of_a_replica * of_a_replica;
}

class Drawing {
 public:
  Drawing(const layers::LayerGraph& graph, const partition::Plan& plan, const program::Program& program, DrawnPlan drawn)
      : graph_(graph), plan_(plan), program_(program), drawn_(std::move(drawn)), columns_(ColumnsOf(plan.mesh)) {
    std::vector<std::vector<int>> inputs;
    for (const DrawnRow& row : drawn_.rows) inputs.push_back(row.inputs);
    lanes_ = LayOutBranches(inputs);
    const auto measure = [&](const std::vector<Move>& moves) {
      for (const Move& move : moves) moves_width_ = std::max(moves_width_, TextWidth(LabelOf(move), kMoveSize) + 20);
    };
    for (const DrawnReduction& reduction : drawn_.reductions) measure(reduction.moves);
    for (const DrawnRow& row : drawn_.rows) {
      measure(row.moves);
      label_width_ = std::max({label_width_, TextWidth(row.name, 12) + 20, TextWidth(AboutRow(row), kSmall) + 14});
      for (int c = 0; c < columns_; ++c) {
        const DrawnCell& cell = row.cells[c];
        const double part = cell.parts > 1 ? TextWidth(PartOf(cell), kSmall) + 6 : 0;
        cell_width_ =
            std::max({cell_width_, TextWidth(cell.output, kShapeSize) + part + 14, TextWidth(WeightsOf(cell), kSmall) + 14});
      }
    }
    labels_x_ = kMargin + kLaneWidth * lanes_.count + 8;
    label_width_ = std::min(label_width_, kMostLabelWidth);
    moves_width_ = std::min(moves_width_, kMostMovesWidth);
    cells_x_ = labels_x_ + label_width_;
    moves_x_ = cells_x_ + (cell_width_ + kColumnGap) * columns_ + 8;
    brackets_x_ = moves_x_ + moves_width_;
    width_ = std::max(brackets_x_ + kMargin, kLeastWidth);
    if (!drawn_.reductions.empty()) {
      width_ = brackets_x_ + kMargin + kBracketLane * static_cast<double>(drawn_.reductions.size()) + kReductionWidth;
      width_ = std::max(width_, kLeastWidth);
    }
    PlaceRows();
  }

  PlanPicture Draw() {
    Svg svg(width_, height_);
    DrawTitle(svg);
    DrawFrames(svg);
    DrawBranches(svg);
    for (size_t r = 0; r < drawn_.rows.size(); ++r) DrawRow(svg, r);
    DrawReductions(svg);
    return {std::move(svg).Finish(), Cuts()};
  }

 private:
  std::vector<double> Cuts() const {
    std::vector<double> cuts;
    for (double at : row_ends_) {
      const bool hits = std::any_of(beside_.begin(), beside_.end(),
                                    [at](const auto& text) { return text.first < at && at < text.second; });
      if (!hits) cuts.push_back(at);
    }
    return cuts;
  }

  static std::string PartOf(const DrawnCell& cell) { return absl::StrCat(cell.part + 1, "/", cell.parts); }
  static std::string WeightsOf(const DrawnCell& cell) { return cell.weights.empty() ? "" : "w " + cell.weights; }
  double ColumnX(int column) const { return cells_x_ + column * (cell_width_ + kColumnGap); }
  double CentreX(int column) const { return ColumnX(column) + cell_width_ / 2; }
  double RowCentre(int row) const { return tops_[row] + kCellHeight / 2; }

  // The columns of a group's devices that are drawn.
  std::vector<int> ColumnsOfGroup(const std::vector<int>& devices) const {
    std::vector<int> columns;
    for (int c = 0; c < columns_; ++c) {
      if (std::find(devices.begin(), devices.end(), plan_.device_at(c)) != devices.end()) columns.push_back(c);
    }
    return columns;
  }

  // Groups of a move, each with the level at which it crosses no other.
  std::vector<std::pair<std::vector<int>, int>> Levels(const Move& move) const {
    std::vector<std::pair<std::vector<int>, int>> levels;
    std::vector<int> ends;  // by level: the last column taken
    for (const std::vector<int>& group : move.groups) {
      std::vector<int> columns = ColumnsOfGroup(group);
      if (columns.empty()) continue;
      size_t level = 0;
      while (level < ends.size() && ends[level] >= columns.front()) ++level;
      if (level == ends.size()) ends.push_back(0);
      ends[level] = columns.back();
      levels.emplace_back(std::move(columns), static_cast<int>(level));
    }
    return levels;
  }
  double HeightOf(const Move& move) const {
    int most = 0;
    for (const auto& [columns, level] : Levels(move)) most = std::max(most, level);
    return kBusHeight + kLevelHeight * most;
  }

  void PlaceRows() {
    double y = kHeaderHeight + (HasGroups() ? 40 : 24);
    for (const DrawnRow& row : drawn_.rows) {
      for (const Move& move : row.moves) y += HeightOf(move);
      tops_.push_back(y + (row.moves.empty() ? 0 : 5));
      y = tops_.back() + kCellHeight + kRowGap;
      row_ends_.push_back(y - kRowGap / 2);
    }
    rows_end_ = y;
    y += 30;
    for (const DrawnReduction& reduction : drawn_.reductions) {
      for (const Move& move : reduction.moves) y += HeightOf(move) + 7;
    }
    height_ = (drawn_.reductions.empty() ? rows_end_ : y) + kMargin;
  }

  // Whether each group of so many columns holds the same parts of all layers.
  bool GroupsAreReplicas(int columns) const {
    for (const DrawnRow& row : drawn_.rows) {
      for (int c = columns; c < columns_; ++c) {
        if (row.cells[c].part != row.cells[c % columns].part) return false;
      }
    }
    return true;
  }

  bool HasGroups() const {
    return plan_.mesh.axes.back().size > 1 && plan_.mesh.axes.back().size < plan_.mesh.device_count();
  }

  void DrawTitle(Svg& svg) const {
    svg.Text(kMargin, 32,
             Clipped(absl::StrFormat("%s under %s, global batch %d", graph_.name, plan_.name, program_.global_batch), 17,
                     width_ - 2 * kMargin),
             {.size = 17, .bold = true});
    std::vector<std::string> axes;
    for (const program::MeshAxis& axis : plan_.mesh.axes) axes.push_back(absl::StrCat(axis.name, " ", axis.size));
    std::string about =
        absl::StrCat(base::Counted(plan_.mesh.device_count(), "device"), ", mesh ", absl::StrJoin(axes, " × "));
    if (!drawn_.reductions.empty()) {
      absl::StrAppendFormat(&about, "; gradients: %s, %s the backward pass", partition::Name(plan_.reduction),
                            plan_.overlap ? "beside" : "after");
    }
    if (columns_ < plan_.mesh.device_count()) absl::StrAppend(&about, "; the first ", columns_, " are drawn");
    svg.Text(kMargin, 51, about, {.paint = Paint::kMuted});
    DrawLegend(svg);
  }

  void DrawLegend(Svg& svg) const {
    double x = kMargin, y = 66;
    const auto say = [&](absl::string_view text) {
      svg.Text(x, y + 10, text, {.size = 11, .paint = Paint::kMuted});
      x += 0.9 * TextWidth(text, 11) + 14;
    };
    DrawBox(svg, x, y, 20, 12, Paint::kNeutral);
    x += 26;
    say("the whole layer");
    for (size_t i = 0; i < 4; ++i, x += 15) DrawBox(svg, x, y, 12, 12, SeriesPaint(i));
    x += 4;
    say("a part of its channels or weights; in a row one colour is one part");
    x = kMargin;
    y += 19;
    DrawArrow(svg, x + 5, y + 6, true);
    x += 15;
    say("moves forward");
    DrawArrow(svg, x + 5, y + 6, false);
    x += 15;
    say("backward");
    say("In a box: the output that the device holds, and its weights (w)");
  }

  void DrawBox(Svg& svg, double x, double y, double width, double height, Paint paint) const {
    svg.Rect(x, y, width, height, paint, 0.22, 3);
    svg.Frame(x, y, width, height, paint, {.width = 1.2}, 3);
  }

  // A head of an arrow, down or up.
  void DrawArrow(Svg& svg, double x, double y, bool down) const {
    const double d = down ? 4 : -4;
    svg.Path(absl::StrFormat("M%.1f %.1fL%.1f %.1fL%.1f %.1fZ", x - 4, y - d, x + 4, y - d, x, y + d),
             down ? Paint::kInk : Paint::kMuted, Paint::kNone);
  }

  void DrawFrames(Svg& svg) const {
    const double top = kHeaderHeight;
    if (HasGroups()) {
      const auto of_a_replica = static_cast<int>(plan_.mesh.axes.back().size);
      const char* const name = GroupsAreReplicas(of_a_replica) ? "replica" : "group";
      for (int first = 0; first < columns_; first += of_a_replica) {
        const int last = std::min(first + of_a_replica, columns_) - 1;
        const double x = ColumnX(first) - 3.5, width = ColumnX(last) + cell_width_ + 3.5 - x;
        svg.Rect(x, top, width, rows_end_ - top, Paint::kPanel, 1, 6);
        svg.Frame(x, top, width, rows_end_ - top, Paint::kRule, {.width = 1.2}, 6);
        svg.Text(x + width / 2, top + 16, absl::StrCat(name, " ", first / of_a_replica),
                 {.paint = Paint::kMuted, .anchor = Anchor::kMiddle, .bold = true});
      }
    }
    for (int c = 0; c < columns_; ++c) {
      svg.Text(CentreX(c), top + (HasGroups() ? 33 : 15), absl::StrCat("device ", plan_.device_at(c)),
               {.anchor = Anchor::kMiddle, .bold = true});
    }
  }

  void DrawBranches(Svg& svg) const {
    const auto lane_x = [](int lane) { return kMargin + kLaneWidth * (lane + 0.5); };
    for (const LaneEdge& edge : lanes_.edges) {
      const double from = lane_x(lanes_.lane_of[edge.from]), to = lane_x(lanes_.lane_of[edge.to]), x = lane_x(edge.lane);
      const double top = RowCentre(edge.from), bottom = RowCentre(edge.to), bend = (kCellHeight + kRowGap) * 0.55;
      svg.Path(
          absl::StrFormat("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1fL%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", from, top,
                          from, top + bend / 2, x, top + bend / 2, x, top + bend, x, std::max(bottom - bend, top + bend / 2),
                          x, bottom - bend / 2, to, bottom - bend / 2, to, bottom),
          Paint::kNone, Paint::kMuted, {.width = 1.4});
    }
    for (size_t r = 0; r < drawn_.rows.size(); ++r) {
      svg.Circle(lane_x(lanes_.lane_of[r]), RowCentre(static_cast<int>(r)), 3.2, Paint::kInk);
    }
  }

  void DrawRow(Svg& svg, size_t r) const {
    const DrawnRow& row = drawn_.rows[r];
    double y = tops_[r] - (row.moves.empty() ? 0 : 5);
    for (const Move& move : row.moves) y -= HeightOf(move);
    for (const Move& move : row.moves) {
      DrawMove(svg, move, y);
      y += HeightOf(move);
    }
    const double top = tops_[r], wide = label_width_ - 12;
    svg.Text(labels_x_, top + 15, Clipped(row.name, 12, wide), {.bold = true});
    svg.BeginGroup(absl::StrCat(row.name, ": ", AboutRow(row)));
    svg.Text(labels_x_, top + 28, Clipped(AboutRow(row), kSmall, wide), {.size = kSmall, .paint = Paint::kMuted});
    for (int c = 0; c < columns_; ++c) DrawCell(svg, row.cells[c], ColumnX(c), top);
    svg.EndGroup();
  }

  void DrawCell(Svg& svg, const DrawnCell& cell, double x, double y) const {
    DrawBox(svg, x, y, cell_width_, kCellHeight, cell.parts == 1 ? Paint::kNeutral : SeriesPaint(cell.part));
    const std::string weights = WeightsOf(cell);
    svg.Text(x + 6, y + (weights.empty() ? 21 : 14.5), cell.output, {.size = kShapeSize});
    svg.Text(x + 6, y + 27.5, weights, {.size = kSmall, .paint = Paint::kMuted});
    if (cell.parts > 1) {
      svg.Text(x + cell_width_ - 5, y + 13, PartOf(cell), {.size = kSmall, .paint = Paint::kMuted, .anchor = Anchor::kEnd});
    }
  }

  // The devices of each group joined by a line, as thick as what it carries, and a label beside it.
  void DrawMove(Svg& svg, const Move& move, double y) const {
    const bool forward = move.pass != program::Pass::kBackward && move.pass != program::Pass::kUpdate;
    const double thickness = std::min(1 + 0.5 * std::log2(1 + static_cast<double>(move.most_bytes) / 1e6), 5.0);
    svg.BeginGroup(absl::StrFormat("%s, %s: %s in all", program::Name(move.pass), move.kind, Bytes(move.all_bytes)));
    for (const auto& [columns, level] : Levels(move)) {
      const double at = y + kBusHeight / 2 + kLevelHeight * level;
      svg.Line(CentreX(columns.front()), at, CentreX(columns.back()), at, forward ? Paint::kInk : Paint::kMuted,
               {.width = thickness});
      for (int c : columns) DrawArrow(svg, CentreX(c), at, forward);
    }
    svg.EndGroup();
    svg.Text(moves_x_, y + kBusHeight / 2 + 4,
             Clipped(absl::StrCat(forward ? "↓ " : "↑ ", LabelOf(move)), kMoveSize, moves_width_),
             {.size = kMoveSize, .paint = forward ? Paint::kInk : Paint::kMuted});
  }

  void DrawReductions(Svg& svg) {
    if (drawn_.reductions.empty()) return;
    const double labels = brackets_x_ + kBracketLane * static_cast<double>(drawn_.reductions.size()) + 6;
    svg.Text(brackets_x_ - 6, kHeaderHeight + 15, "reduced together", {.bold = true});
    svg.Text(labels_x_, rows_end_ + 20, "reductions of gradients and statistics", {.bold = true});
    double y = rows_end_ + 28, free = 0;
    // By where their labels stand, so that no two lie upon each other.
    std::vector<size_t> order;
    for (size_t i = 0; i < drawn_.reductions.size(); ++i) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return MiddleOf(a) < MiddleOf(b); });
    for (size_t i : order) {
      const DrawnReduction& reduction = drawn_.reductions[i];
      const std::string letter(1, static_cast<char>('A' + i % 26));
      const double x = brackets_x_ + kBracketLane * static_cast<double>(i);
      if (!reduction.rows.empty()) DrawBracket(svg, x, reduction, letter);
      const double first = std::max(MiddleOf(i) - 14, free);
      double at = first;
      svg.Text(labels, at, absl::StrCat(letter, "  ", Clipped(NamesInWords(reduction.buckets), 11, kReductionWidth - 20)),
               {.size = 11, .bold = true});
      for (const Move& move : reduction.moves) {
        at += 14;
        svg.Text(labels, at, Clipped(absl::StrCat(move.kind, " ", BytesOfADevice(move)), 11, kReductionWidth + 20),
                 {.size = 11});
        svg.Text(labels_x_, y + kBusHeight / 2 + 4,
                 Clipped(absl::StrCat(letter, "  ", NamesInWords(reduction.buckets)), 11, label_width_ - 8), {.size = 11});
        DrawMove(svg, move, y);
        y += HeightOf(move) + 7;
      }
      beside_.emplace_back(first - 12, at + 5);
      free = at + 26;
    }
  }
  double MiddleOf(size_t reduction) const {
    const std::vector<int>& rows = drawn_.reductions[reduction].rows;
    return rows.empty() ? rows_end_ : (RowCentre(rows.front()) + RowCentre(rows.back())) / 2;
  }
  void DrawBracket(Svg& svg, double x, const DrawnReduction& reduction, const std::string& letter) const {
    const double top = RowCentre(reduction.rows.front()), bottom = RowCentre(reduction.rows.back());
    svg.Line(x, top - 6, x, bottom + 6, Paint::kInk, {.width = 1.4});
    for (int row : reduction.rows) svg.Circle(x, RowCentre(row), 2.6, Paint::kInk);
    svg.Text(x, top - 10, letter, {.size = 11, .anchor = Anchor::kMiddle, .bold = true});
  }

  const layers::LayerGraph& graph_;
  const partition::Plan& plan_;
  const program::Program& program_;
  const DrawnPlan drawn_;
  const int columns_;  // devices that are drawn
  BranchLanes lanes_;
  double cell_width_ = 76, label_width_ = 120, moves_width_ = 40;
  double labels_x_ = 0, cells_x_ = 0, moves_x_ = 0, brackets_x_ = 0, width_ = 0, height_ = 0;
  std::vector<double> tops_;  // of the boxes of each row
  double rows_end_ = 0;
  std::vector<double> row_ends_;                   // between a row and what follows it
  std::vector<std::pair<double, double>> beside_;  // from where to where the texts of the reductions stand
};

}  // namespace

absl::StatusOr<PlanPicture> PictureOfPlan(const layers::LayerGraph& graph, const partition::Plan& plan,
                                          const program::Program& program, const DrawingOptions& options) {
  ASSIGN_OR_RETURN(DrawnPlan drawn, RowsOfPlan(graph, plan, program, options.folds_blocks));
  return Drawing(graph, plan, program, std::move(drawn)).Draw();
}

absl::StatusOr<std::string> PlanAsSvg(const layers::LayerGraph& graph, const partition::Plan& plan,
                                      const program::Program& program, const DrawingOptions& options) {
  ASSIGN_OR_RETURN(PlanPicture picture, PictureOfPlan(graph, plan, program, options));
  return std::move(picture.svg);
}

absl::StatusOr<std::string> PlanAsText(const layers::LayerGraph& graph, const partition::Plan& plan,
                                       const program::Program& program) {
  ASSIGN_OR_RETURN(const DrawnPlan drawn, RowsOfPlan(graph, plan, program, /*folds_blocks=*/false));
  size_t name = 5, strategies = 8, output = 6, weights = 7;
  for (const DrawnRow& row : drawn.rows) {
    name = std::max(name, row.name.size());
    strategies = std::max(strategies, row.strategies.size());
    output = std::max(output, row.cells[0].output.size());
    weights = std::max(weights, row.cells[0].weights.size());
  }
  std::string text = absl::StrFormat("%s under %s, batch %d, %s; what device %d holds, and what moves\n", graph.name,
                                     base::Legible(plan.name), program.global_batch,
                                     base::Counted(plan.mesh.device_count(), "device"), plan.device_at(0));
  const auto append_moves = [&](const std::vector<Move>& moves) {
    for (const Move& move : moves) {
      absl::StrAppend(&text, "  ", program::Name(move.pass), " ", move.kind, " ", BytesOfADevice(move), GroupsInWords(move));
    }
    text += '\n';
  };
  for (const DrawnRow& row : drawn.rows) {
    absl::StrAppendFormat(&text, "%-*s  %-*s  %-*s  %-*s", name, row.name, strategies, row.strategies, output,
                          row.cells[0].output, weights, row.cells[0].weights);
    append_moves(row.moves);
  }
  for (const DrawnReduction& reduction : drawn.reductions) {
    absl::StrAppend(&text, reduction.of_gradients ? "gradients of " : "", NamesInWords(reduction.buckets), ":");
    append_moves(reduction.moves);
  }
  return text;
}

absl::Status CheckCanDraw(const std::string& path) {
  if (!absl::EndsWith(path, ".dot")) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("expected a file that ends in .svg or .txt, found ", path, "; graphviz is not used"));
}

absl::Status DrawPlan(const layers::LayerGraph& graph, const partition::Plan& plan, const program::Program& program,
                      const std::string& path, const DrawingOptions& options) {
  RETURN_IF_ERROR(CheckCanDraw(path));
  if (absl::EndsWith(path, ".txt")) {
    ASSIGN_OR_RETURN(const std::string text, PlanAsText(graph, plan, program));
    return engine::ReplaceFile(path, text);
  }
  ASSIGN_OR_RETURN(const std::string svg, PlanAsSvg(graph, plan, program, options));
  return engine::ReplaceFile(path, svg);
}

}  // namespace colonnade::tools
