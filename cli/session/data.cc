#include "cli/session/data.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "cli/command_line/augment_words.h"
#include "cli/output/progress.h"
#include "cli/session/network.h"
#include "cpu/threads/cores.h"
#include "data/bad_samples.h"
#include "data/formats.h"
#include "data/no_split.h"
#include "engine/io/xxh3.h"
#include "models/models.h"
#include "tools/network_file.h"

namespace colonnade::cli {
namespace {

constexpr int64_t kSmallImage = 64;  // up to here images are padded and shifted as CIFAR's are, else cut as ImageNet's

// As published for such images: of CIFAR (He et al. 2016, section 4.2) and of ImageNet (Szegedy et al. 2015).
void ApplyStandard(const DataFlags& flags, const data::SampleSet& set, bool shifts, data::AugmentOptions& options) {
  const bool are_files = !set.image_shape().has_value();
  const int64_t cifar_size = 32 + 2 * flags.pad;
  const bool are_cifar = flags.source != kSyntheticData && set.image_shape() == program::Shape{3, cifar_size, cifar_size};
  if (shifts && !are_files) {
    options.cropping = data::Cropping::kPadded;
    options.pad = 1;
  } else if ((are_files || are_cifar) && options.height <= kSmallImage) {
    options.cropping = data::Cropping::kPadded;
    options.pad = std::max<int64_t>(options.height / 8, 1);  // 4 of 32
    options.mirror = true;
  } else if (are_files) {
    options.cropping = data::Cropping::kRandomResized;
    options.mirror = true;
  }
}

// A pad that was not given is that which the weights state.
absl::Status CheckPad(const DataFlags& flags, const program::Shape& shape) {
  if (2 * flags.pad < std::min(shape[1], shape[2])) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("--pad: expected less than half of an image of %d x %d, found %d%s", shape[1], shape[2], flags.pad,
                      flags.pad_is_given ? "" : ", with which these weights were trained; --pad says another"));
}

// The images and classes of the network that the flags ask for.
struct Wanted {
  program::Shape image;
  int64_t classes = 0;
};
absl::StatusOr<Wanted> WantedBy(const NetworkFlags& flags) {
  if (tools::IsNetworkFile(flags.model)) {
    ASSIGN_OR_RETURN(const tools::Network network, OpenNetwork(flags));
    return Wanted{network.graph.nodes[0].sample_shape, network.graph.classes()};
  }
  ASSIGN_OR_RETURN(const models::ModelInfo* model, tools::FindInZoo(flags.model));
  const int64_t channels = flags.input_channels > 0 ? flags.input_channels : model->input_channels;
  const int64_t size = flags.input_size > 0 ? flags.input_size : model->input_size;
  return Wanted{{channels, size, size}, flags.classes > 0 ? flags.classes : model->classes};
}

// Where a set has more classes than the network, how that is to have as many.
absl::Status WithAdviceOnClasses(const NetworkFlags& flags, int64_t classes, const absl::Status& status) {
  const std::string found = absl::StrCat(base::Counted(classes, "class"), ", found");
  if (flags.classes > 0 || tools::IsNetworkFile(flags.model) || !absl::StrContains(status.message(), found)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; --classes says how many ", flags.model, " is to have"));
}

// The network may have more classes than training has images of, so the labels of a test need not be among those.
void NoteUntrainedClasses(const data::SampleSet& train, const data::SampleSet& test) {
  std::vector<bool> is_trained(static_cast<size_t>(std::max(train.classes(), test.classes())));
  for (int64_t sample = 0; sample < train.size(); ++sample) {
    if (train.label(sample) >= 0) is_trained[static_cast<size_t>(train.label(sample))] = true;
  }
  int64_t untrained = 0;
  int32_t one_of_them = 0;
  for (int64_t sample = 0; sample < test.size(); ++sample) {
    const int32_t label = test.label(sample);
    if (label < 0 || is_trained[static_cast<size_t>(label)]) continue;
    if (untrained++ == 0) one_of_them = label;
  }
  if (untrained == 0) return;
  Say(absl::StrFormat("note: %s: %d of %d images are of classes without images in training, such as %s", test.name(),
                      untrained, test.size(), test.class_names()[static_cast<size_t>(one_of_them)]));
}

// Synthetic images could be drawn for any shape, but no other data would do.
absl::Status CheckChannels(const SessionFlags& flags, int64_t channels) {
  if (flags.data.source != kSyntheticData || channels == 1 || channels == 3) return absl::OkStatus();
  if (tools::IsNetworkFile(flags.network.model)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: expected images of 1 or 3 channels, found %d", flags.network.model, channels));
  }
  return absl::FailedPreconditionError(absl::StrFormat("--channels: expected 1 or 3, found %d", channels));
}

// Without the folders before it, so that a data set may move.
absl::string_view FileName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

absl::StatusOr<Samples> OpenSamples(const SessionFlags& flags, data::SplitOf split, const data::SampleSet* train_set,
                                    const std::vector<std::string>& class_names) {
  ASSIGN_OR_RETURN(const Wanted wanted, WantedBy(flags.network));
  RETURN_IF_ERROR(CheckChannels(flags, wanted.image[0]));
  absl::StatusOr<std::unique_ptr<data::SampleSet>> set =
      data::OpenSamples(flags.data.source, split,
                        {.synthetic_shape = wanted.image,
                         .synthetic_classes = wanted.classes,
                         .classes = train_set != nullptr ? train_set->classes() : wanted.classes,
                         .class_names = class_names,
                         .pad = flags.data.pad,
                         .skip_damaged = flags.data.bad_sample == "skip"});
  if (!set.ok()) return WithAdviceOnClasses(flags.network, wanted.classes, set.status());
  SayNotesOf(**set);
  if (train_set != nullptr) NoteUntrainedClasses(*train_set, **set);
  return Samples(*std::move(set));
}

void SayNotesOf(const data::SampleSet& set) {
  for (const std::string& note : set.notes()) Say(absl::StrCat("note: ", set.name(), ": ", note));
}

absl::StatusOr<Samples> OpenTrainingSet(const SessionFlags& flags) {
  absl::StatusOr<Samples> train = OpenSamples(flags, data::SplitOf::kTrain);
  if (!data::IsNoSplit(train.status())) return train;
  return absl::NotFoundError(absl::StrCat(train.status().message(),
                                          ", of which pixels have the mean and the deviation; --mean and --std say those"));
}

absl::StatusOr<data::AugmentOptions> RecipeFor(const DataFlags& flags, const data::SampleSet& set,
                                               const program::Shape& shape, data::SplitOf split, bool shifts,
                                               std::optional<tools::TestView> view) {
  data::AugmentOptions options{.height = shape[1], .width = shape[2], .channels = shape[0]};
  const bool are_files = !set.image_shape().has_value();
  const tools::TestView by_size = shape[1] > kSmallImage ? tools::TestView::kMiddle : tools::TestView::kWhole;
  if (are_files && view.value_or(by_size) == tools::TestView::kMiddle) options.cropping = data::Cropping::kCentre;
  if (are_files && split == data::SplitOf::kTest) {
    RETURN_IF_ERROR(CheckPad(flags, shape));
    options.frame = flags.pad;
  }
  options.resize = (std::max(shape[1], shape[2]) - 2 * options.frame) * 8 / 7;  // 256 of 224
  if (split == data::SplitOf::kTest || flags.augment == "none") return options;
  if (flags.augment == "standard") {
    ApplyStandard(flags, set, shifts, options);
  } else {
    const absl::Status applied = ApplyAugment(flags.augment, options);
    if (!applied.ok()) return absl::FailedPreconditionError(absl::StrCat("--augment: ", applied.message()));
    const int64_t cut = std::max(options.height, options.width);
    if (options.cropping == data::Cropping::kScaledRandom && options.resize < cut) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "--augment=scaled:N: expected at least %d, the side of what is cut, found %d", cut, options.resize));
    }
    if (shape[0] == 1) options.saturation = 0;  // grey has none to jitter
    RETURN_IF_ERROR(base::WithContext(options.Check(), "--augment"));
  }
  return options;
}

int DataThreads(const DataFlags& flags) { return flags.threads > 0 ? flags.threads : cpu::UsableCores(); }

int64_t JpegIndexBytes(const DataFlags& flags) { return flags.jpeg_index * 1'000'000; }

namespace {

// Returns a checksum of the pixels [N, C, H, W] and the labels of a set that has them in memory.
absl::StatusOr<std::string> DigestOfPixels(const data::SampleSet& set) {
  const int64_t channels = (*set.image_shape())[0], plane = (*set.image_shape())[1] * (*set.image_shape())[2];
  std::string room, pixels, labels;
  pixels.reserve(static_cast<size_t>(set.size() * channels * plane));
  for (int64_t sample = 0; sample < set.size(); ++sample) {
    ASSIGN_OR_RETURN(const data::StoredImage stored, set.Read(sample, room));
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t i = 0; i < plane; ++i) pixels.push_back(stored.bytes[static_cast<size_t>(i * channels + c)]);
    }
    const int32_t label = set.label(sample);
    labels.append(reinterpret_cast<const char*>(&label), sizeof(label));
  }
  return engine::Xxh3Text(engine::Xxh3Text(pixels) + engine::Xxh3Text(labels));
}

// Returns a checksum of the classes, labels and names of a set of files, which are not read for this.
std::string DigestOfNames(const data::SampleSet& set) {
  constexpr size_t kMostText = size_t{1} << 20;
  std::string text = absl::StrCat(absl::StrJoin(set.class_names(), "\n"), "\n");
  for (int64_t sample = 0; sample < set.size(); ++sample) {
    absl::StrAppend(&text, set.label(sample), " ", FileName(set.sample_name(sample)), "\n");
    if (text.size() > kMostText) text = engine::Xxh3Text(text);
  }
  return engine::Xxh3Text(text);
}

}  // namespace

absl::StatusOr<std::string> IdentityOf(const data::SampleSet& set) {
  std::string shape = "in files", digest;
  if (set.image_shape().has_value()) {
    shape = program::ToString(*set.image_shape());
    ASSIGN_OR_RETURN(digest, DigestOfPixels(set));
  } else {
    digest = DigestOfNames(set);
  }
  return absl::StrFormat("%d images %s, %d classes, XXH3 %s", set.size(), shape, set.classes(), digest);
}

nlohmann::ordered_json InputJson(const data::StageTimes& times) {
  nlohmann::ordered_json stages;
  for (data::Stage stage : {data::Stage::kRead, data::Stage::kDecode, data::Stage::kAugment, data::Stage::kIdle}) {
    stages[data::Name(stage)] = absl::ToDoubleSeconds(times.of(stage));
  }
  return {{"waited_share", times.WaitedShare()}, {"images", times.images}, {"thread_seconds", std::move(stages)}};
}

std::string ToString(const data::Moments& moments) {
  const auto join = [](const std::vector<double>& values) {
    return absl::StrJoin(values, ",", [](std::string* out, double value) { absl::StrAppendFormat(out, "%.4g", value); });
  };
  return absl::StrCat("mean ", join(moments.mean), ", std ", join(moments.std));
}

void SaySkipped(data::Pipeline& stream, const data::SampleSet& set) {
  for (const data::BadSamples& bad : stream.Report(/*with_last=*/true)) {
    Say(data::ToString(bad, set.size(), set.class_names()));
  }
}

}  // namespace colonnade::cli
