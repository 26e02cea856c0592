#include "engine/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/command_line/config.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/session/named_files.h"
#include "engine/checkpoint_folder.h"
#include "engine/io/safetensors.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CommandFlags {
  std::string action, folder, out, config;
  bool averages = false, json = false;
};

// A checkpoint that DIR is or has, and what a look at it found.
struct Found {
  std::string path;
  absl::Status status;
  engine::Manifest manifest;
};

absl::StatusOr<std::vector<Found>> Find(const CommandFlags& flags) {
  std::vector<Found> found;
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(flags.folder) / engine::kManifestName, ignored)) {
    found.push_back({.path = flags.folder});
  } else {
    ASSIGN_OR_RETURN(std::vector<int64_t> steps, engine::CheckpointSteps(flags.folder));
    for (int64_t step : steps) found.push_back({.path = engine::CheckpointPath(flags.folder, step)});
  }
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrFormat("%s: expected a checkpoint or a folder of checkpoints, found none", flags.folder));
  }
  for (Found& checkpoint : found) {
    absl::StatusOr<engine::Manifest> manifest = engine::ReadManifest(checkpoint.path);
    checkpoint.status = manifest.status();
    if (!manifest.ok()) continue;
    checkpoint.manifest = *std::move(manifest);
  }
  return found;
}

// Counts the megabytes that are read of all that was found.
class ReadProgress {
 public:
  explicit ReadProgress(int64_t all_bytes) : all_bytes_(all_bytes) {}

  engine::OnRead on_read() {
    return [this](int64_t bytes) {
      done_bytes_ += bytes;
      progress_.Show(done_bytes_ / kMegabyte, all_bytes_ / kMegabyte);
    };
  }

 private:
  static constexpr int64_t kMegabyte = 1'000'000;

  const int64_t all_bytes_;
  int64_t done_bytes_ = 0;
  CountProgress progress_{"reading:", "MB"};
};

void Verify(std::vector<Found>& all) {
  int64_t bytes = 0;
  for (const Found& found : all) bytes += found.manifest.Bytes();
  ReadProgress progress(bytes);
  for (Found& found : all) {
    if (found.status.ok()) found.status = engine::VerifyCheckpoint(found.path, progress.on_read());
  }
}

// "good" is null where only the manifest was read.
Json ToJson(const Found& found, bool is_verified) {
  const engine::Manifest& m = found.manifest;
  Json json = {{"path", found.path}, {"good", found.status.ok() && !is_verified ? Json() : Json(found.status.ok())}};
  if (!found.status.ok()) {
    json["why"] = found.status.message();
    return json;
  }
  Json run = Json::object();
  for (const auto& [field, value] : m.run) run[field] = value;
  json.update({{"step", m.position.step},
               {"sample", m.position.sample},
               {"loss", std::isfinite(m.position.loss) ? Json(m.position.loss) : Json()},
               {"test", m.test.has_value() ? Json{{"top1", m.test->top1}, {"loss", m.test->loss}} : Json()},
               {"bytes", found.manifest.Bytes()},
               {"plan", m.plan},
               {"run", run}});
  return json;
}

void Print(const CommandFlags& flags, const std::vector<Found>& all) {
  for (const Found& found : all) {
    if (!found.status.ok()) {
      PrintLine(absl::StrCat(found.path, ": ", found.status.message()));
      continue;
    }
    const engine::Manifest& m = found.manifest;
    const std::string loss =
        std::isfinite(m.position.loss)
            ? absl::StrFormat("mean loss %.4f since the checkpoint before or the run's start", m.position.loss)
            : "no loss";
    const std::string test = m.test.has_value() ? absl::StrFormat(", test top-1 %.2f %%", 100 * m.test->top1) : "";
    PrintLine(absl::StrFormat("%s: step %d, sample %d, %s%s, %.1f MB, written under %s%s", found.path, m.position.step,
                              m.position.sample, loss, test, static_cast<double>(found.manifest.Bytes()) / 1e6, m.plan,
                              flags.action == "verify" ? ": good" : ""));
  }
  if (flags.action == "verify" || !all.back().status.ok()) return;
  for (const auto& [field, value] : all.back().manifest.run)
    PrintLine(absl::StrFormat("  %s %s", PadRight(field, 20), value));
}

// The newest good one of those before the last; "" where there is none.
std::string NewestGoodBefore(const std::vector<Found>& all) {
  for (size_t i = all.size() - 1; i-- > 0;) {
    if (all[i].status.ok() && engine::VerifyCheckpoint(all[i].path).ok()) return all[i].path;
  }
  return "";
}

absl::StatusOr<engine::VerifiedCheckpoint> OpenNewest(const std::vector<Found>& all) {
  ReadProgress progress(all.back().manifest.Bytes());
  absl::StatusOr<engine::VerifiedCheckpoint> checkpoint =
      engine::VerifiedCheckpoint::Open(all.back().path, progress.on_read());
  if (checkpoint.ok()) return checkpoint;
  const std::string good = NewestGoodBefore(all);
  if (good.empty()) return checkpoint;
  return absl::Status(checkpoint.status().code(),
                      absl::StrCat(checkpoint.status().message(), "; the newest good one is ", good));
}

// The weights of the newest checkpoint.
absl::Status Export(const CommandFlags& flags, const std::vector<Found>& all) {
  const Found& found = all.back();
  if (flags.out.empty()) return absl::FailedPreconditionError("--out: expected where to write the weights, found nothing");
  RETURN_IF_ERROR(CheckWrittenFiles({{"--out", flags.out, FileKind::kWeights}}));
  ASSIGN_OR_RETURN(const engine::VerifiedCheckpoint checkpoint, OpenNewest(all));
  std::vector<engine::TensorView> weights = checkpoint.tensors(engine::StateKind::kValue);
  if (flags.averages) {
    const std::vector<engine::TensorView> averages = checkpoint.tensors(engine::StateKind::kAverage);
    if (averages.empty()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("--averages: expected averages, which train --ema=D keeps, found none in %s; leave --averages out "
                          "to export the weights",
                          found.path));
    }
    for (engine::TensorView& tensor : weights) {
      const auto same = [&](const engine::TensorView& average) { return average.name == tensor.name; };
      const auto average = std::find_if(averages.begin(), averages.end(), same);
      if (average != averages.end()) tensor = *average;
    }
  }
  RETURN_IF_ERROR(engine::SaveTensors(flags.out, weights, checkpoint.manifest().metadata));
  if (flags.json) {
    PrintJson({{"path", found.path}, {"step", checkpoint.manifest().position.step}, {"out", flags.out}});
  }
  return absl::OkStatus();
}

absl::Status RunCheckpoint(const CommandFlags& flags) {
  if (flags.action != "export" && (flags.averages || !flags.out.empty())) {
    return absl::FailedPreconditionError(absl::StrFormat("%s: expected export, whose flag this is, found %s",
                                                         flags.averages ? "--averages" : "--out", flags.action));
  }
  ASSIGN_OR_RETURN(std::vector<Found> found, Find(flags));
  if (flags.action == "export") return Export(flags, found);
  if (flags.action == "verify") Verify(found);
  if (flags.json) {
    Json all = Json::array();
    for (const Found& checkpoint : found) all.push_back(ToJson(checkpoint, flags.action == "verify"));
    PrintJson({{"checkpoints", all}});
  } else {
    Print(flags, found);
  }
  for (const Found& checkpoint : found) {
    if (!checkpoint.status.ok()) return checkpoint.status;
  }
  return absl::OkStatus();
}

}  // namespace

SubCommand AddCheckpoint(CLI::App& app) {
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Shows, verifies or exports what train --checkpoint has saved.");
  const auto flags = std::make_shared<CommandFlags>();
  checkpoint
      ->add_option("ACTION", flags->action, "show: what is there; verify: reads all of it and compares; export: the weights")
      ->required()
      ->check(CLI::IsMember({"show", "verify", "export"}));
  checkpoint->add_option("DIR", flags->folder, "a folder of checkpoints, or one checkpoint in it")
      ->type_name("DIR")
      ->required();
  checkpoint->add_option("--out", flags->out, "export: where to write the weights, a safetensors file")->type_name("FILE");
  checkpoint->add_flag("--averages", flags->averages, "export: the averages of train --ema in the place of the weights");
  AddJsonFlag(*checkpoint, flags->json);
  AddConfigFlag(*checkpoint, flags->config);
  checkpoint->footer(
      "Examples:\n  colonnade checkpoint show run1\n"
      "  colonnade checkpoint export run1 --out=weights.safetensors");
  return {checkpoint, [=] { return RunCheckpoint(*flags); }};
}

}  // namespace colonnade::cli
