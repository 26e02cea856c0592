#include "data/bad_samples.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_set.h"

namespace colonnade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PipelineOptions OptionsOf(BadSample policy) {
  return {.shuffle = false,
          .augment = {.height = 2, .width = 2, .channels = 1},
          .threads = 2,
          .bad_sample = policy,
          .moments = {{0}, {1}}};
}

// Positions [first, first + count): the samples that stand there, −1 for padding.
absl::StatusOr<std::vector<int>> ReadSamples(Pipeline& pipeline, int64_t first, int64_t count) {
  std::vector<uint8_t> pixels(count * 4);
  std::vector<int32_t> labels(count);
  const absl::Status status = pipeline.Read(first, absl::MakeSpan(pixels), absl::MakeSpan(labels));
  if (!status.ok()) return status;
  std::vector<int> samples;
  for (int64_t i = 0; i < count; ++i) {
    samples.push_back(labels[i] < 0 ? -1 : pixels[i * 4] + 256 * pixels[i * 4 + 1]);
    EXPECT_EQ(labels[i], samples.back() < 0 ? -1 : samples.back() % 3);
  }
  return samples;
}

TEST(BadSamples, TheFirstOfABatchEndsTheTrainingByName) {
  const auto set = std::make_shared<TestSet>(100);
  set->bad = {17, 12, 55};
  for (int threads : {1, 4}) {
    PipelineOptions options = OptionsOf(BadSample::kError);
    options.threads = threads;
    const auto pipeline = *Pipeline::Create(set, options);
    EXPECT_TRUE(ReadSamples(*pipeline, 0, 10).ok());
    const absl::Status status = ReadSamples(*pipeline, 10, 10).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "made-up/12: is bad");
  }
}

TEST(BadSamples, TheNextGoodOneOfTheEpochTakesTheirPlace) {
  const auto set = std::make_shared<TestSet>(1000);
  set->bad = {3, 4, 999};
  const auto pipeline = *Pipeline::Create(set, OptionsOf(BadSample::kSkip));
  EXPECT_THAT(*ReadSamples(*pipeline, 0, 8), ElementsAre(0, 1, 2, 5, 5, 5, 6, 7));
  EXPECT_THAT(*ReadSamples(*pipeline, 996, 8), ElementsAre(996, 997, 998, 0, 0, 1, 2, 5));
}

TEST(BadSamples, AreCountedOnceAnEpochWhateverThreadsAndBatches) {
  for (int threads : {1, 2, 4}) {
    for (int64_t batch : {7, 64, 300}) {
      const auto set = std::make_shared<TestSet>(500);
      set->bad = {0, 1, 4, 250, 499};
      PipelineOptions options = OptionsOf(BadSample::kSkip);
      options.threads = threads;
      options.shuffle = true;
      const auto pipeline = *Pipeline::Create(set, options);
      std::vector<BadSamples> reports;
      for (int64_t at = 0; at < 1200; at += batch) {
        ASSERT_TRUE(ReadSamples(*pipeline, at, batch).ok());
        for (BadSamples& report : pipeline->Report()) reports.push_back(std::move(report));
      }
      ASSERT_EQ(reports.size(), 2u);
      for (int64_t epoch : {0, 1}) {
        EXPECT_EQ(reports[epoch].epoch, epoch);
        EXPECT_EQ(reports[epoch].count, 5);
        EXPECT_THAT(reports[epoch].of_class, ElementsAre(1, 4));  // 0; 1, 4, 250 and 499
      }
    }
  }
}

TEST(BadSamples, MoreThanOneInAHundredEndTheTraining) {
  const auto set = std::make_shared<TestSet>(300);
  set->bad = {10, 100, 200, 280};
  const auto pipeline = *Pipeline::Create(set, OptionsOf(BadSample::kSkip));
  EXPECT_TRUE(ReadSamples(*pipeline, 0, 250).ok());
  const absl::Status status = ReadSamples(*pipeline, 250, 250).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("of 300 samples that cannot be used, found 4 so far; the first: made-up/10: is bad"));
}

TEST(BadSamples, ASetWithoutAnyGoodSampleEndsTheTrainingSoon) {
  const auto set = std::make_shared<TestSet>(10000);
  for (int64_t i = 0; i < 10000; ++i) set->bad.insert(i);
  const auto pipeline = *Pipeline::Create(set, OptionsOf(BadSample::kSkip));
  const absl::Status status = ReadSamples(*pipeline, 0, 1).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("found 101 in a row; the first: made-up/0: is bad"));
}

TEST(BadSamples, OfATestSetArePadding) {
  const auto set = std::make_shared<TestSet>(200);
  set->bad = {2};
  PipelineOptions options = OptionsOf(BadSample::kSkip);
  options.once = true;
  const auto pipeline = *Pipeline::Create(set, options);
  EXPECT_THAT(*ReadSamples(*pipeline, 0, 4), ElementsAre(0, 1, -1, 3));
}

TEST(BadSamples, OfASetThatIsReadAgainAreToldOnceWithoutAnEpoch) {
  const auto set = std::make_shared<TestSet>(200);
  set->bad = {2, 150};
  PipelineOptions options = OptionsOf(BadSample::kSkip);
  options.once = true;
  const auto pipeline = *Pipeline::Create(set, options);
  EXPECT_THAT(pipeline->Report(), ::testing::IsEmpty());
  for (int64_t at : {0, 100, 0, 100}) ASSERT_TRUE(ReadSamples(*pipeline, at, 100).ok());
  const std::vector<BadSamples> reports = pipeline->Report(/*with_last=*/true);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].count, 2);
  EXPECT_THAT(ToString(reports[0], 200, {"a", "b", "c"}), ::testing::StartsWith("2 of 200 samples could not be used"));
  for (int64_t at : {0, 100}) ASSERT_TRUE(ReadSamples(*pipeline, at, 100).ok());
  EXPECT_THAT(pipeline->Report(/*with_last=*/true), ::testing::IsEmpty());
}

TEST(BadSamples, ArePaddingWhereThatIsAskedForAndEachIsTold) {
  const auto set = std::make_shared<TestSet>(20);
  set->bad = {2, 3, 5, 6, 17};  // far more than one in a hundred
  PipelineOptions options = OptionsOf(BadSample::kPad);
  std::vector<std::string> told;
  options.on_padded = [&](int64_t position, const absl::Status& why) {
    told.push_back(absl::StrCat(position, " ", why.message()));
  };
  const auto pipeline = *Pipeline::Create(set, options);
  EXPECT_THAT(*ReadSamples(*pipeline, 0, 6), ElementsAre(0, 1, -1, -1, 4, -1));
  ASSERT_THAT(told, ElementsAre("2 made-up/2: is bad", "3 made-up/3: is bad", "5 made-up/5: is bad"));
  EXPECT_THAT(*ReadSamples(*pipeline, 15, 5), ElementsAre(15, 16, -1, 18, 19));
  EXPECT_EQ(told.back(), "17 made-up/17: is bad");
  EXPECT_THAT(pipeline->Report(/*with_last=*/true), ::testing::IsEmpty());
}

TEST(BadSamples, AreToldByClass) {
  BadSamples bad{.epoch = 3};
  bad.Add(2, absl::InvalidArgumentError("a.jpg: ends early"));
  bad.Add(0, absl::InvalidArgumentError("b.jpg: ends early"));
  bad.Add(2, absl::InvalidArgumentError("c.jpg: ends early"));
  EXPECT_EQ(ToString(bad, 1000, {"ant", "bee", "cat"}),
            "epoch 3: 3 of 1000 samples could not be used and were skipped: 1 of class ant, 2 of class cat; the first: "
            "a.jpg: ends early");
}

}  // namespace
}  // namespace colonnade::data
