// predict: what trained weights take images for.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cli/command_line/config.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/session/network.h"
#include "cli/session/session.h"
#include "cli/session/trained_weights.h"
#include "data/class_names.h"
#include "data/unlabelled_images.h"
#include "engine/classification.h"
#include "engine/io/weights.h"
#include "engine/trainer.h"
#include "tools/trained_on.h"

namespace colonnade::cli {
namespace {

constexpr int64_t kMostImagesAtOnce = 64;  // unless --batch says otherwise

struct PredictFlags : SessionFlags {
  PredictFlags() {
    data.source.clear();
    plan.batch = 0;  // all images at once, up to some
  }
  std::vector<std::string> images;  // files and folders
  int64_t top = 5;
  std::string config;
  bool json = false;
};

// The network, and the stream of the images that it is asked about.
struct Question {
  Samples images;
  Session session;
  std::unique_ptr<data::Pipeline> stream;
  std::map<int64_t, absl::Status> unanswered;  // by image: why
};

// All images, but no more than the most and what makes that a multiple of the devices, between which a plan may split it.
int64_t DefaultBatch(int devices, int64_t images) {
  return (std::min(images, kMostImagesAtOnce) + devices - 1) / devices * devices;
}

using tools::TrainedOn;

// The training set, which has the names of the classes, and of whose pixels the mean and the deviation are taken. Where
// flags or weights say those, a test set has the names, too.
absl::StatusOr<Samples> OpenNamedClasses(const SessionFlags& flags, const std::optional<TrainedOn>& trained_on) {
  const bool is_measured = NeedsTrainingSet(flags, trained_on);
  if (flags.data.source.empty()) {
    if (!is_measured) return Samples();
    return absl::FailedPreconditionError(
        "--data: these weights do not say with what mean and deviation of the pixels they were trained; name the training "
        "set, or give --mean and --std");
  }
  absl::StatusOr<Samples> train = OpenTrainingSet(flags);
  return absl::IsNotFound(train.status()) && !is_measured
             ? OpenSamples(flags, data::SplitOf::kTest, nullptr, ClassNamesOf(trained_on))
             : train;
}

constexpr char kNoteOnMomentsOfNoise[] =
    "note: synthetic images are noise, whose mean and deviation are not those of these images; --data=PATH names the "
    "training set";

// What is no error but may not be what was meant.
void SayNotesOn(const data::SampleSet& named, const PredictFlags& flags, const layers::LayerGraph& graph,
                const std::optional<TrainedOn>& trained_on) {
  NoteFewerClasses(flags.network, graph, data::LabelledClasses(named), /*advises=*/false);
  if (flags.data.source == kSyntheticData && NeedsTrainingSet(flags, trained_on)) Say(kNoteOnMomentsOfNoise);
  WarnOfOtherClasses(trained_on, named);
}

// `question` must stay where it is, since the stream adds to what is unanswered.
absl::Status Open(PredictFlags& flags, const std::optional<TrainedOn>& trained_on, Question& question) {
  TakeClasses(flags.network, trained_on);
  ASSIGN_OR_RETURN(Samples named, OpenNamedClasses(flags, trained_on));
  const bool lacks_pad = LacksPad(flags.data, trained_on, named.get());
  TakePad(flags.data, trained_on);
  if (lacks_pad) {
    ASSIGN_OR_RETURN(named, OpenNamedClasses(flags, trained_on));
  }
  TakeImageSize(flags.network, trained_on, named.get());
  ASSIGN_OR_RETURN(std::vector<std::string> files, data::ListImageFiles(flags.images));
  if (flags.plan.batch == 0) flags.plan.batch = DefaultBatch(DeviceCount(flags.plan), static_cast<int64_t>(files.size()));
  ASSIGN_OR_RETURN(question.session, OpenSession(flags, named.get(), program::Mode::kEval));
  question.session.test_view = TestViewOf(trained_on);
  ASSIGN_OR_RETURN(const data::Moments moments, MomentsOf(flags, question.session, named, trained_on));
  std::vector<std::string> known;
  if (named != nullptr) {
    SayNotesOn(*named, flags, question.session.graph, trained_on);
    known = named->class_names();
  } else if (trained_on.has_value() && std::ssize(trained_on->class_names) == question.session.graph.classes()) {
    known = trained_on->class_names;
  }
  ASSIGN_OR_RETURN(std::vector<std::string> names,
                   data::NameClasses(std::move(known), {}, question.session.graph.classes()));
  question.images = data::UnlabelledImages(std::move(files), std::move(names));
  const auto note = [&unanswered = question.unanswered](int64_t image, const absl::Status& why) { unanswered[image] = why; };
  ASSIGN_OR_RETURN(question.stream,
                   OpenStream(flags, question.session, question.images, data::SplitOf::kTest, moments, note));
  return absl::OkStatus();
}

using Answer = std::vector<engine::Guess>;  // on one image; none where there is no answer

absl::Status CheckFiniteLogits(absl::Span<const double> logits, const std::string& image) {
  for (double logit : logits) {
    if (std::isfinite(logit)) continue;
    return absl::OutOfRangeError(absl::StrFormat("%s: expected finite logits of these weights, found %g", image, logit));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Answer>> Ask(engine::Executor& executor, Question& question, int64_t top,
                                        const std::atomic<bool>& stop) {
  const Session& session = question.session;
  const data::SampleSet& images = *question.images;
  CountProgress progress("predicting:", "images");
  const int64_t classes = session.graph.classes();
  std::vector<Answer> answers;
  const auto read = [&](int64_t first, int64_t count) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<double> logits, executor.ReadActivation(session.graph.logits().name));
    for (int64_t i = 0; i < count; ++i) {
      const absl::Span<const double> of_image = absl::MakeConstSpan(logits).subspan(i * classes, classes);
      absl::Status finite = CheckFiniteLogits(of_image, images.sample_name(first + i));
      if (!finite.ok()) question.unanswered.emplace(first + i, std::move(finite));
      const bool is_answered = !question.unanswered.contains(first + i);
      answers.push_back(is_answered ? engine::LikeliestClasses(of_image, top) : Answer());
    }
    progress.Show(first + count, images.size());
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(engine::Evaluate(executor, *question.stream, {.stop = &stop, .read_batch = read}).status());
  return answers;
}

void PrintAnswers(const std::vector<Answer>& answers, const data::SampleSet& images) {
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].empty()) continue;
    const auto word = [&](std::string* out, const engine::Guess& guess) {
      absl::StrAppendFormat(out, "%s %.2f %%", images.class_names()[guess.label], 100 * guess.probability);
    };
    PrintLine(absl::StrCat(images.sample_name(static_cast<int64_t>(i)), ": ", absl::StrJoin(answers[i], ", ", word)));
  }
}

nlohmann::ordered_json ClassesJson(const Answer& answer, const std::vector<std::string>& class_names) {
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (const engine::Guess& guess : answer) {
    classes.push_back({{"label", guess.label}, {"name", class_names[guess.label]}, {"probability", guess.probability}});
  }
  return classes;
}

nlohmann::ordered_json AnswersJson(const std::vector<Answer>& answers, const Question& question) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto image = static_cast<int64_t>(i);
    const auto why = question.unanswered.find(image);
    const bool is_answered = why == question.unanswered.end();
    all.push_back({{"file", question.images->sample_name(image)},
                   {"classes", ClassesJson(answers[i], question.images->class_names())},
                   {"error", is_answered ? nlohmann::ordered_json() : nlohmann::ordered_json(why->second.message())}});
  }
  return all;
}

// Of those that were asked about; all were, unless a signal came.
absl::Status CheckAllAnswered(const Question& question, size_t asked, bool was_stopped) {
  const std::map<int64_t, absl::Status>& unanswered = question.unanswered;
  const auto end = unanswered.lower_bound(static_cast<int64_t>(asked));
  if (unanswered.begin() == end) return absl::OkStatus();
  for (auto it = unanswered.begin(); it != end; ++it) Warn(it->second.message());
  if (was_stopped) return absl::OkStatus();
  const absl::Status& first = unanswered.begin()->second;
  const auto count = std::distance(unanswered.begin(), end);
  return absl::Status(first.code(),
                      absl::StrFormat("%d of %s %s no answer; the first: %s", count, base::Counted(asked, "image"),
                                      count == 1 ? "has" : "have", first.message()));
}

absl::Status RunPredict(PredictFlags flags, const std::atomic<bool>& stop, Outcome& outcome) {
  std::optional<CountProgress> loading(std::in_place, "loading");
  ASSIGN_OR_RETURN(const engine::MappedWeights weights, OpenWeights(flags.weights.init));
  Question question;
  RETURN_IF_ERROR(TakeNetwork(flags.network, flags.weights.init, weights));
  ASSIGN_OR_RETURN(const std::optional<TrainedOn> trained_on, TrainedOnOf(flags.weights.init, weights));
  RETURN_IF_ERROR(Open(flags, trained_on, question));
  const Session& session = question.session;
  partition::LowerOptions lower = LowerOptionsOf(flags, session, program::Mode::kEval);
  lower.shown_layers = {session.graph.logits().name};
  ASSIGN_OR_RETURN(const program::Program program, partition::Lower(session.graph, session.plan, lower));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> executor, LoadTrained(flags, session, program, weights));
  loading.reset();
  outcome.before_steps();
  ASSIGN_OR_RETURN(const std::vector<Answer> answers, Ask(*executor, question, flags.top, stop));
  for (const std::string& note : executor->loaded().Notes()) Warn(note);
  outcome.interrupted = stop.load();
  if (flags.json) {
    PrintJson({{"model", session.graph.name}, {"stopped", outcome.interrupted}, {"images", AnswersJson(answers, question)}});
  } else {
    PrintAnswers(answers, *question.images);
  }
  return CheckAllAnswered(question, answers.size(), outcome.interrupted);
}

}  // namespace

SubCommand AddPredict(CLI::App& app, const std::atomic<bool>& stop, Outcome& outcome) {
  CLI::App* predict =
      app.add_subcommand("predict", "Tells what saved weights take images for: the likeliest classes of each.");
  const auto flags = std::make_shared<PredictFlags>();
  predict->add_option("IMAGE", flags->images, "image files, and folders of them")->type_name("FILE")->required();
  AddSessionFlags(*predict, *flags);
  AddTrainedWeightsFlag(*predict, flags->weights);
  predict->add_option("--top", flags->top, "how many classes of each image, the likeliest first")
      ->check(CLI::Range(int64_t{1}, data::kMostClasses))
      ->capture_default_str();
  predict->get_option("--data")->description(
      "the training set: names of the classes, mean and deviation of the pixels (default: what the weights were trained "
      "with, or --mean and --std)");
  predict->get_option("--bad-sample")
      ->description("skip: of the training set; of an image that cannot be read this is said, and the others are answered");
  predict->get_option("--batch")->description("images at once (default: all of them, up to some 64)")->default_str("");
  AddJsonFlag(*predict, flags->json);
  AddConfigFlag(*predict, flags->config);
  predict->footer(
      "Examples:\n  colonnade predict --init=w.safetensors cat.jpg dog.png\n"
      "  colonnade predict --model=resnet50 --init=resnet50.safetensors --mean=0.485,0.456,0.406 --std=0.229,0.224,0.225 "
      "--top=1 --json folder");
  const auto run = [=, &stop, &outcome] {
    flags->data.pad_is_given = predict->count("--pad") > 0;
    return RunPredict(*flags, stop, outcome);
  };
  return {.app = predict, .run = run, .keeps_results = true};
}

}  // namespace colonnade::cli
