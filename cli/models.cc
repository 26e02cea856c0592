#include "models/models.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "cli/command_line/config.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/prediction/prediction.h"
#include "cli/session/network.h"
#include "layers/layer.h"
#include "program/types.h"
#include "tools/network_file.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ModelsFlags {
  NetworkFlags network;
  std::string config;
  bool json = false, summary = false;
};

// A column is as wide as its widest cell; numbers stand at its right.
struct Column {
  std::string title;
  bool numbers = false;
};

void PrintTable(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns.size(); ++c) {
    widths.push_back(columns[c].title.size());
    for (const std::vector<std::string>& row : rows) widths[c] = std::max(widths[c], WidthOf(Printable(row[c])));
  }
  const auto print = [&](auto cell_of) {
    std::vector<std::string> cells;
    for (size_t c = 0; c < columns.size(); ++c) {
      cells.push_back(columns[c].numbers ? absl::StrFormat("%*s", static_cast<int>(widths[c]), cell_of(c))
                                         : PadRight(cell_of(c), widths[c]));
    }
    const std::string line = absl::StrJoin(cells, "  ");
    PrintLine(std::string(absl::StripTrailingAsciiWhitespace(line)));
  };
  print([&](size_t c) { return columns[c].title; });
  for (const std::vector<std::string>& row : rows) print([&](size_t c) { return row[c]; });
}

// Numbers of floating-point operations, in millions and in billions.
std::string Mega(int64_t flops) { return absl::StrFormat("%.3f", static_cast<double>(flops) / 1e6); }
std::string Giga(int64_t flops) { return absl::StrFormat("%.3f", static_cast<double>(flops) / 1e9); }

int64_t ParametersOf(const layers::LayerNode& node) {
  int64_t parameters = 0;
  for (const layers::ParameterSpec& parameter : node.parameters) parameters += program::ElementCount(parameter.shape);
  return parameters;
}

void PrintLayers(const layers::LayerGraph& graph) {
  std::vector<std::vector<std::string>> rows;
  for (const layers::LayerNode& node : graph.nodes) {
    rows.push_back({node.name, layers::TypeName(node.layer), program::ToString(node.sample_shape),
                    absl::StrCat(ParametersOf(node)), Mega(layers::ForwardFlops(node, 1))});
  }
  rows.push_back({"in all", "", "", absl::StrCat(graph.ParameterCount()), Mega(graph.ForwardFlops(1))});
  PrintTable({{"layer"}, {"type"}, {"output"}, {"parameters", true}, {"Mflop/image", true}}, rows);
}

// What each layer makes and costs.
Json SummaryOf(const layers::LayerGraph& graph) {
  Json layers = Json::array();
  for (const layers::LayerNode& node : graph.nodes) {
    layers.push_back({{"name", node.name},
                      {"type", layers::TypeName(node.layer)},
                      {"output", node.sample_shape},
                      {"parameters", ParametersOf(node)},
                      {"forward_flops", layers::ForwardFlops(node, 1)}});
  }
  return {{"model", graph.name},
          {"layers", std::move(layers)},
          {"parameters", graph.ParameterCount()},
          {"forward_flops", graph.ForwardFlops(1)}};
}

}  // namespace

absl::Status ListModels(bool as_json) {
  std::vector<std::vector<std::string>> rows;
  Json list = Json::array();
  for (const models::ModelInfo& model : models::AllModels()) {
    ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel(model.name, {}));
    const program::Shape& image = graph.nodes[0].sample_shape;
    rows.push_back({model.name, absl::StrCat(graph.ParameterCount()), Giga(graph.ForwardFlops(1)), absl::StrJoin(image, "x"),
                    model.description});
    list.push_back({{"model", model.name},
                    {"description", model.description},
                    {"input", image},
                    {"classes", graph.classes()},
                    {"parameters", graph.ParameterCount()},
                    {"forward_flops", graph.ForwardFlops(1)}});
  }
  if (as_json) {
    PrintJson({{"models", std::move(list)}});
  } else {
    PrintTable({{"model"}, {"parameters", true}, {"Gflop", true}, {"image"}, {"description"}}, rows);
  }
  return absl::OkStatus();
}

namespace {

absl::Status RunModels(const ModelsFlags& flags) {
  if (flags.network.model.empty()) return ListModels(flags.json);
  ASSIGN_OR_RETURN(const tools::Network network, OpenNetwork(flags.network));
  if (!flags.json) {
    PrintLayers(network.graph);
  } else if (flags.summary) {
    PrintJson(SummaryOf(network.graph));
  } else {
    std::printf("%s", tools::NetworkToJson(network).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

SubCommand AddModels(CLI::App& app) {
  CLI::App* models =
      app.add_subcommand("models", "Lists the networks of the zoo, or the layers of one of them or of a file.");
  const auto flags = std::make_shared<ModelsFlags>();
  CLI::Option* name =
      models
          ->add_option("NAME", flags->network.model, "the network whose layers are shown, with shapes, parameters and flop")
          ->type_name("MODEL");
  AddNetworkFlags(*models, flags->network);
  for (CLI::Option* option : models->get_options()) {
    if (option->get_group() == "Model") option->needs(name);
  }
  AddJsonFlag(*models, flags->json);
  CLI::Option* json = models->get_option("--json");
  json->description("of a network: the file that --model=FILE takes; of the zoo: a list with parameters and flop");
  models->add_flag("--summary", flags->summary, "with --json: what each layer makes and costs instead")
      ->needs(name)
      ->needs(json);
  AddConfigFlag(*models, flags->config);
  models->footer(
      "Examples:\n  colonnade models vgg16 --width=0.5 --input-size=32 --classes=10\n"
      "  colonnade models resnet20 --json > mine.json");
  return {models, [=] { return RunModels(*flags); }};
}

}  // namespace colonnade::cli
