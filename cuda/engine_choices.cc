#include "cuda/engine_choices.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cuda/alignment.h"
#include "engine/io/file.h"
#include "nlohmann/json.hpp"

namespace colonnade::cuda {
namespace {

using Json = nlohmann::json;  // read
using Written = nlohmann::ordered_json;

constexpr char kVersionField[] = "colonnade_engines";
constexpr int kVersion = 2;  // in version 1 engines had lost their settings
constexpr int64_t kLargestFile = int64_t{64} << 20;
constexpr int kDeepest = 5;

const char* Name(Convolution::Direction direction) {
  switch (direction) {
    case Convolution::Direction::kForward:
      return "forward";
    case Convolution::Direction::kBackwardData:
      return "backward_data";
    case Convolution::Direction::kBackwardWeights:
      return "backward_weights";
  }
  return "";
}

}  // namespace

int64_t AlignmentOf(const Convolution& convolution) {
  return std::min({AlignmentOf(convolution.x, 1), AlignmentOf(convolution.filter, 1), AlignmentOf(convolution.y, 1),
                   AlignmentOf(convolution.bias, 1)});
}

std::string KeyOf(const Convolution& c) {
  const program::Window& w = c.window;
  const std::string pad_behind =
      w.pad_bottom == w.pad_top && w.pad_right == w.pad_left ? "" : absl::StrFormat(":%dx%d", w.pad_bottom, w.pad_right);
  const bool tf32 = c.dtype == program::DType::kF32 && c.precision == Precision::kTf32;
  std::string key =
      absl::StrFormat("%s %s n%d c%d h%d w%d k%d p%d q%d window %dx%d stride %dx%d pad %dx%d%s groups %d align %d",
                      Name(c.direction), tf32 ? "tf32" : program::Name(c.dtype), c.n, c.c, c.h, c.w, c.k, c.p, c.q, w.size_h,
                      w.size_w, w.stride_h, w.stride_w, w.pad_top, w.pad_left, pad_behind, c.groups, AlignmentOf(c));
  if (c.bias != nullptr) key += " bias";
  if (c.relu) key += " relu";
  if (c.writes_f32) key += " to f32";
  if (c.deterministic) key += " deterministic";
  return key;
}

absl::StatusOr<EngineChoices> EngineChoices::Read(const std::string& path) {
  EngineChoices choices;
  choices.path_ = path;
  RETURN_IF_ERROR(engine::CheckWritable(path));
  absl::StatusOr<std::string> text = engine::ReadFile(path, kLargestFile);
  if (absl::IsNotFound(text.status())) return choices;
  if (!text.ok()) return text.status();
  RETURN_IF_ERROR(choices.Parse(*text));
  return choices;
}

absl::Status EngineChoices::Parse(absl::string_view text) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": expected engines found by a search, of version 2, found ", what,
                                                   "; name another file or remove this one"));
  };
  const auto shallow = [](int depth, Json::parse_event_t, const Json&) { return depth <= kDeepest; };
  const Json json = Json::parse(text.begin(), text.end(), shallow, /*allow_exceptions=*/false);
  if (!json.is_object()) return wrong("no JSON object");
  if (json.value(kVersionField, Json()) != kVersion) {
    return wrong(absl::StrCat("no \"", kVersionField, "\": ", kVersion));
  };
  const Json found = json.value("found", Json());
  if (!found.is_array()) return wrong("no list \"found\"");
  for (size_t i = 0; i < found.size(); ++i) {
    const Json& entry = found[i];
    const auto has = [&](const char* name, bool (Json::*is)() const noexcept) {
      return entry.is_object() && entry.contains(name) && (entry[name].*is)();
    };
    bool fits = has("gpu", &Json::is_string) && has("cudnn", &Json::is_number_integer) &&
                has("convolution", &Json::is_string) && has("engine", &Json::is_number_integer) &&
                has("seconds", &Json::is_number) && has("knobs", &Json::is_array);
    Choice choice;
    if (fits) {
      for (const Json& knob : entry["knobs"]) {
        fits = fits && knob.is_array() && knob.size() == 2 && knob[0].is_number_integer() && knob[1].is_number_integer();
        if (fits) choice.engine.knobs.emplace_back(knob[0].get<int64_t>(), knob[1].get<int64_t>());
      }
    }
    if (!fits) return wrong(absl::StrCat("something else at found[", i, "]"));
    choice.engine.index = entry["engine"].get<int64_t>();
    choice.seconds = entry["seconds"].get<double>();
    choices_[{entry["gpu"].get<std::string>(), entry["cudnn"].get<int64_t>(), entry["convolution"].get<std::string>()}] =
        std::move(choice);
  }
  return absl::OkStatus();
}

const Engine* EngineChoices::Find(const std::string& gpu, int64_t cudnn_version, const std::string& key) const {
  const auto it = choices_.find({gpu, cudnn_version, key});
  return it == choices_.end() ? nullptr : &it->second.engine;
}

absl::Status EngineChoices::Add(const std::string& gpu, int64_t cudnn_version, const std::string& key, const Engine& engine,
                                double seconds) {
  // Others may have added to it since.
  ASSIGN_OR_RETURN(EngineChoices now, Read(path_));
  choices_ = std::move(now.choices_);
  choices_[{gpu, cudnn_version, key}] = {engine, seconds};
  Written json = {{kVersionField, kVersion}, {"found", Written::array()}};
  for (const auto& [where, choice] : choices_) {
    const auto& [name, version, convolution] = where;
    json["found"].push_back({{"gpu", name},
                             {"cudnn", version},
                             {"convolution", convolution},
                             {"engine", choice.engine.index},
                             {"knobs", choice.engine.knobs},
                             {"seconds", choice.seconds}});
  }
  return engine::ReplaceFile(path_, absl::StrCat(json.dump(1), "\n"));
}

}  // namespace colonnade::cuda
