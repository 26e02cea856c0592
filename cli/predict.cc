// predict: what trained weights take images for.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/trained_weights.h"
#include "data/class_names.h"
#include "data/unlabelled_images.h"
#include "engine/classification.h"
#include "engine/io/weights.h"
#include "engine/trainer.h"
#include "program/status_macros.h"

namespace colonnade::cli {
namespace {

constexpr int64_t kMostImagesAtOnce = 64;  // unless --batch says otherwise

// The network, and the stream of the images that it is asked about.
struct Question {
  Samples images;
  Session session;
  std::unique_ptr<data::Pipeline> stream;
};

// As few images as there are, of which each device gets as many as the others.
int64_t DefaultBatch(const Flags& flags, int64_t images) {
  const int64_t devices = std::max(flags.devices, 1);
  const int64_t wanted = std::min(images, kMostImagesAtOnce);
  return (wanted + devices - 1) / devices * devices;
}

// The training set, which has the names of the classes, and of whose pixels the mean and the deviation are taken.
absl::StatusOr<Samples> OpenGivenTrainingSet(const Flags& flags) {
  if (!flags.data.empty()) return OpenTrainingSet(flags);
  if (!flags.mean.empty() && !flags.std.empty()) return Samples();
  return absl::FailedPreconditionError(
      "--data: expected the training set, of whose pixels the mean and the deviation are, or --mean and --std, which say "
      "those; found neither");
}

absl::StatusOr<Question> Open(Flags& flags) {
  Question question;
  ASSIGN_OR_RETURN(const Samples train, OpenGivenTrainingSet(flags));
  ASSIGN_OR_RETURN(question.images, data::OpenUnlabelledImages(flags.images, {}));
  if (flags.batch == 0) flags.batch = DefaultBatch(flags, question.images->size());
  ASSIGN_OR_RETURN(question.session, OpenSession(flags, train.get()));
  data::Moments moments;
  std::vector<std::string> known;
  if (train != nullptr) {
    known = train->class_names();
    ASSIGN_OR_RETURN(const std::unique_ptr<data::Pipeline> stream, OpenStream(flags, question.session, train, true));
    moments = stream->moments();
  }
  ASSIGN_OR_RETURN(std::vector<std::string> names,
                   data::NameClasses(std::move(known), {}, question.session.graph.classes()));
  ASSIGN_OR_RETURN(question.images, data::OpenUnlabelledImages(flags.images, std::move(names)));
  ASSIGN_OR_RETURN(question.stream, OpenStream(flags, question.session, question.images, false, moments));
  return question;
}

using Answer = std::vector<engine::Guess>;  // on one image

absl::StatusOr<std::vector<Answer>> Ask(engine::Executor& executor, const Session& session, data::Pipeline& stream,
                                        int64_t top, const std::atomic<bool>& stop) {
  CountProgress progress("predicting:", "images");
  const int64_t classes = session.graph.classes();
  std::vector<Answer> answers;
  const auto read = [&](int64_t first, int64_t count) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<double> logits, executor.ReadActivation(session.graph.logits().name));
    for (int64_t i = 0; i < count; ++i) {
      answers.push_back(engine::LikeliestClasses(absl::MakeConstSpan(logits).subspan(i * classes, classes), top));
    }
    progress.Show(first + count, stream.size());
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(engine::Evaluate(executor, stream, {.stop = &stop, .read_batch = read}).status());
  return answers;
}

void PrintAnswers(const std::vector<Answer>& answers, const data::SampleSet& images) {
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto word = [&](std::string* out, const engine::Guess& guess) {
      absl::StrAppendFormat(out, "%s %.2f %%", images.class_names()[guess.label], 100 * guess.probability);
    };
    PrintLine(absl::StrCat(images.sample_name(static_cast<int64_t>(i)), ": ", absl::StrJoin(answers[i], ", ", word)));
  }
}

nlohmann::ordered_json AnswersJson(const std::vector<Answer>& answers, const data::SampleSet& images) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (size_t i = 0; i < answers.size(); ++i) {
    nlohmann::ordered_json classes = nlohmann::ordered_json::array();
    for (const engine::Guess& guess : answers[i]) {
      classes.push_back(
          {{"label", guess.label}, {"name", images.class_names()[guess.label]}, {"probability", guess.probability}});
    }
    all.push_back({{"file", images.sample_name(static_cast<int64_t>(i))}, {"classes", std::move(classes)}});
  }
  return all;
}

}  // namespace

absl::Status RunPredict(Flags flags, const std::atomic<bool>& stop, Outcome& outcome) {
  flags.mode = "eval";
  std::optional<CountProgress> loading(std::in_place, "loading");
  ASSIGN_OR_RETURN(const engine::MappedWeights weights, engine::MapWeights(flags.init));
  ASSIGN_OR_RETURN(const Question question, Open(flags));
  const Session& session = question.session;
  partition::LowerOptions lower = LowerOptionsOf(flags, session, program::Mode::kEval);
  lower.shown_layers = {session.graph.logits().name};
  ASSIGN_OR_RETURN(const program::Program program, partition::Lower(session.graph, session.plan, lower));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> executor, LoadTrained(flags, session, program, weights));
  loading.reset();
  outcome.before_steps();
  ASSIGN_OR_RETURN(const std::vector<Answer> answers, Ask(*executor, session, *question.stream, flags.top, stop));
  outcome.interrupted = stop.load();
  if (flags.json) {
    PrintJson({{"model", session.graph.name},
               {"stopped", outcome.interrupted},
               {"images", AnswersJson(answers, *question.images)}});
  } else {
    PrintAnswers(answers, *question.images);
  }
  return absl::OkStatus();
}

}  // namespace colonnade::cli
