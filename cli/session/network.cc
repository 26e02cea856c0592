#include "cli/session/network.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cli/command_line/errors.h"
#include "cli/output/progress.h"
#include "models/models.h"

namespace colonnade::cli {
namespace {

models::ModelOptions OptionsOf(const NetworkFlags& flags) {
  return {.input_channels = flags.input_channels,
          .input_size = flags.input_size,
          .classes = flags.classes,
          .width = flags.width,
          .dropout = flags.dropout == "on",
          .samples_per_group = SamplesPerGroup(flags.batch_norm),
          .zero_init_residual = flags.zero_init_residual == "on",
          .auxiliary_heads = flags.auxiliary_heads == "on",
          .label_smoothing = flags.label_smoothing};
}

// What one edits to change the network of --model=FILE: the file or, of weights, the network file that `models` prints.
std::string FileToChange(const std::string& model) {
  if (!tools::IsWeightsFile(model)) return "the file";
  return absl::StrFormat("the network file that colonnade models %s --json prints, and give it as --model", model);
}

// The flag among those that shape networks of the zoo which asks a file for what it is not; empty if none does.
std::string FlagAgainst(const NetworkFlags& flags, const tools::Network& network) {
  const models::ModelOptions asked = OptionsOf(flags), left;
  const program::Shape& image = network.graph.nodes[0].sample_shape;
  const auto differs = [](int64_t flag, int64_t own) { return flag != 0 && flag != own; };
  const std::pair<const char*, bool> all[] = {
      {"--channels", differs(asked.input_channels, image[0])},
      {"--input-size", differs(asked.input_size, image[1]) || differs(asked.input_size, image[2])},
      {"--classes", differs(asked.classes, network.graph.classes())},
      {"--width", asked.width != left.width},
      {"--dropout", asked.dropout != left.dropout},
      {"--batch-norm", asked.samples_per_group != left.samples_per_group},
      {"--zero-init-residual", asked.zero_init_residual != left.zero_init_residual},
      {"--auxiliary-heads", asked.auxiliary_heads != left.auxiliary_heads},
      {"--label-smoothing", asked.label_smoothing != left.label_smoothing}};
  for (const auto& [flag, is_against] : all) {
    if (is_against) return flag;
  }
  return "";
}

absl::StatusOr<tools::Network> NetworkOfFile(const NetworkFlags& flags) {
  ASSIGN_OR_RETURN(tools::Network network, tools::OpenNetwork(flags.model));
  const layers::LayerNode& images = network.graph.nodes[0];
  if (images.sample_shape.size() != 3) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: layer \"%s\", sample_shape: expected images [C,H,W], found %s",
                                                      flags.model, images.name, program::ToString(images.sample_shape)));
  }
  const std::string flag = FlagAgainst(flags, network);
  if (flag.empty()) return network;
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: expected none, since %s says what the network is; change %s, or write one of the zoo's: "
                      "colonnade models NAME %s=… --json",
                      flag, flags.model, FileToChange(flags.model), flag));
}

// Names the flag that asked for an option which the model cannot have.
absl::Status OptionAsFlag(const absl::Status& status) {
  absl::string_view rest = status.message();
  if (!absl::ConsumePrefix(&rest, "samples_per_group: ")) return FieldAsFlag(status, "zero_init_residual");
  return absl::Status(status.code(), absl::StrCat("--batch-norm: ", rest));
}

// "; use another --width", where a flag makes the network another than the zoo's and may be what is wrong.
std::string FlagsThatShape(const NetworkFlags& flags, absl::string_view wrong) {
  if (absl::StrContains(wrong, "auxiliary heads") || absl::StartsWith(wrong, "--")) return "";
  if (absl::StrContains(wrong, "expected an image of at least"))
    return flags.input_size == 0 ? "" : "; use another --input-size";
  std::vector<std::string> names;
  if (flags.width != 1) names.emplace_back("--width");
  if (flags.input_size != 0) names.emplace_back("--input-size");
  if (flags.input_channels != 0) names.emplace_back("--channels");
  if (flags.classes != 0) names.emplace_back("--classes");
  return names.empty() ? "" : absl::StrCat("; use another ", absl::StrJoin(names, " or "));
}

// "; --model=two_column takes such images", where models of the zoo do.
std::string ModelsFor(const program::Shape& shape) {
  std::vector<std::string> names;
  for (const models::ModelInfo& model : models::AllModels()) {
    if (shape == program::Shape{model.input_channels, model.input_size, model.input_size}) {
      names.push_back("--model=" + model.name);
    }
  }
  return names.empty()
             ? ""
             : absl::StrCat("; ", absl::StrJoin(names, " or "), names.size() > 1 ? " take" : " takes", " such images");
}

// "; --pad=2 makes such images of them", where zeros around the data's images do.
std::string PadFor(int64_t padded, const program::Shape& expected, const program::Shape& found) {
  const int64_t rows = expected[1] - found[1], columns = expected[2] - found[2];
  const int64_t pad = padded + rows / 2;
  if (expected[0] != found[0] || rows != columns || rows % 2 != 0 || pad < 0 || rows == 0 || pad > kMostPad) return "";
  return absl::StrFormat("; --pad=%d makes such images of them", pad);
}

std::string PadForModel(const std::string& name, int64_t padded, const program::Shape& found) {
  const absl::StatusOr<const models::ModelInfo*> model = models::FindModel(name);
  if (!model.ok()) return "";
  return PadFor(padded, {(*model)->input_channels, (*model)->input_size, (*model)->input_size}, found);
}

}  // namespace

absl::StatusOr<tools::Network> OpenNetwork(const NetworkFlags& flags, const data::SampleSet* samples, int64_t pad) {
  if (tools::IsNetworkFile(flags.model)) return NetworkOfFile(flags);
  const std::optional<program::Shape> shape = samples != nullptr ? samples->image_shape() : std::nullopt;
  models::ModelOptions options = OptionsOf(flags);
  if (shape.has_value() && options.input_channels == 0) options.input_channels = (*shape)[0];
  if (shape.has_value() && options.input_size == 0) options.input_size = (*shape)[1];
  absl::StatusOr<tools::Network> network = tools::OpenNetwork(flags.model, options);
  if (network.ok()) return network;
  const absl::Status wrong = OptionAsFlag(network.status());
  options.input_channels = options.input_size = 0;
  const bool images_are_wrong = shape.has_value() && flags.input_size == 0 && tools::OpenNetwork(flags.model, options).ok();
  const std::string advice = images_are_wrong
                                 ? absl::StrFormat(" (built for the images %s of %s)%s%s", program::ToString(*shape),
                                                   samples->name(), ModelsFor(*shape), PadForModel(flags.model, pad, *shape))
                                 : FlagsThatShape(flags, wrong.message());
  return absl::FailedPreconditionError(absl::StrCat(wrong.message(), advice));
}

std::string AdviceOnHeads(const NetworkFlags& flags, absl::string_view message) {
  const models::ModelOptions without;
  models::ModelOptions with = without;
  with.auxiliary_heads = true;
  const absl::StatusOr<layers::LayerGraph> heads = models::BuildModel(flags.model, with),
                                           none = models::BuildModel(flags.model, without);
  if (!heads.ok() || !none.ok()) return "";  // a file, or a model that has no heads
  for (const layers::LayerNode& node : heads->nodes) {
    const bool is_named = absl::c_any_of(node.parameters, [&](const layers::ParameterSpec& parameter) {
      return absl::StrContains(message, absl::StrCat("\"", parameter.name, "\""));
    });
    if (!is_named || none->Find(node.name).ok()) continue;
    if (flags.auxiliary_heads != "on") return "; --auxiliary-heads=on takes weights that have those heads";
    if (absl::StrContains(message, "no such tensor")) return "; without --auxiliary-heads weights need no such heads";
  }
  return "";
}

absl::StatusOr<layers::LayerGraph> BuildNetwork(const NetworkFlags& flags) {
  ASSIGN_OR_RETURN(tools::Network network, OpenNetwork(flags));
  return std::move(network.graph);
}

absl::Status CheckImages(const NetworkFlags& flags, int64_t pad, const tools::Network& network,
                         const data::SampleSet& samples) {
  const program::Shape& expected = network.graph.nodes[0].sample_shape;
  const program::Shape found = samples.image_shape().value_or(expected);
  const bool is_file = tools::IsNetworkFile(flags.model);
  if (found != expected) {
    std::vector<std::string> given;
    if (flags.input_size > 0) given.push_back("--input-size");
    if (flags.input_channels > 0) given.push_back("--channels");
    const std::string remedy = is_file
                                   ? absl::StrFormat("set sample_shape in %s, or use other data", FileToChange(flags.model))
                               : given.empty() ? "set --input-size and --channels, or use other data"
                                               : absl::StrCat("leave out ", absl::StrJoin(given, " and "));
    return absl::FailedPreconditionError(absl::StrFormat(
        "model \"%s\" takes images %s, %s has %s; %s%s%s", flags.model, program::ToString(expected), samples.name(),
        program::ToString(found), remedy, PadFor(pad, expected, found), given.empty() ? ModelsFor(found) : ""));
  }
  if (expected.size() != 3 || (expected[0] != 1 && expected[0] != 3 && !samples.image_shape().has_value())) {
    return absl::FailedPreconditionError(
        absl::StrFormat("model \"%s\" takes images %s, the files of %s give 1 or 3 channels", flags.model,
                        program::ToString(expected), samples.name()));
  }
  const int64_t classes = flags.classes > 0 ? flags.classes : network.info.classes;
  if (samples.classes() <= classes) return absl::OkStatus();
  const std::string remedy = is_file ? absl::StrCat("change the last layer before the loss in ", FileToChange(flags.model))
                                     : absl::StrFormat("set --classes=%d", samples.classes());
  return absl::FailedPreconditionError(absl::StrFormat("model \"%s\" has %s, %s has %d; %s", flags.model,
                                                       base::Counted(classes, "class"), samples.name(), samples.classes(),
                                                       remedy));
}

void NoteFewerClasses(const NetworkFlags& flags, const layers::LayerGraph& graph, int64_t classes, bool advises) {
  if (classes >= graph.classes()) return;
  const bool is_default = flags.classes == 0 && !tools::IsNetworkFile(flags.model);
  Say(absl::StrFormat("note: the network has %s, the data set %d%s", base::Counted(graph.classes(), "class"), classes,
                      advises && is_default ? absl::StrFormat("; --classes=%d makes one of as many", classes) : ""));
}

}  // namespace colonnade::cli
