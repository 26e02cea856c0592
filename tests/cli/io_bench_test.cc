#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/input_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"
#include "tests/data/image_files.h"
#include "tests/sanitized.h"

namespace colonnade::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

TEST_F(Command, IoBenchReadsEachSampleOnce) {
  const Result r = Run("io-bench --data=digits --threads=1,2 --batch=100 --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const Json report = Json::parse(r.out);
  EXPECT_EQ(report.at("count"), 1437);
  EXPECT_EQ(report.at("format"), "digits");
  ASSERT_EQ(report.at("runs").size(), 2u);
  for (int i : {0, 1}) {
    const Json& run = report.at("runs")[i];
    EXPECT_EQ(run.at("threads"), i + 1);
    EXPECT_GT(run.at("images_per_s"), 0);
    EXPECT_LE(run.at("images_per_s"), run.at("attainable_images_per_s"));
    EXPECT_LE(run.at("images_per_s"), report.at("images_per_s"));
    EXPECT_GT(run.at("stages").at("augment"), 0);
    EXPECT_TRUE(run.at("stages").at("decode").is_null());  // pixels as they are
  }
}

// As in training, the next epoch has another order, and batches go on where epochs end.
TEST(RunInput, HasTheEpochsOfATraining) {
  InputFlags flags;
  flags.data.source = "digits";
  flags.batch = 500;  // three of them are more than the 1437 samples
  const Samples digits = *OpenInput(flags);
  std::vector<int32_t> labels;
  const InputRun run = *RunInput(flags, digits, /*threads=*/1, {.epochs = 2}, [&](const data::Batch& batch) {
    for (const data::Filled& sample : batch.samples) labels.push_back(sample.label);
  });
  ASSERT_EQ(run.count, 2 * 1437);
  ASSERT_EQ(labels.size(), 2u * 1437);
  const std::vector<int32_t> first(labels.begin(), labels.begin() + 1437), second(labels.begin() + 1437, labels.end());
  EXPECT_NE(first, second);
  EXPECT_THAT(first, ::testing::UnorderedElementsAreArray(second));
  EXPECT_EQ(std::count(labels.begin(), labels.end(), -1), 0) << "no padding between two epochs";
}

TEST_F(Command, IoBenchPrintsATableAndWritesCsv) {
  const Result r = Run(absl::StrCat("io-bench --data=digits --threads=1 --epochs=2 --augment=none --csv=", In("runs.csv")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("digits train: 1437 images [1,8,8], 10 classes, shuffled; batches of 64"));
  EXPECT_THAT(Run("io-bench --data=digits --threads=1 --augment=none --batch=4096").out, HasSubstr("; batches of 1437\n"));
  EXPECT_THAT(
      r.out,
      ContainsRegex("\nthreads  images/s  attainable  decoding +share +per core +read +decode +augment\n +1 .* - +- +- "));
  EXPECT_THAT(r.out, Not(HasSubstr("whole files")));
  const std::vector<std::string> lines = absl::StrSplit(*engine::ReadFile(In("runs.csv")), '\n');
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], StartsWith("format,threads,count,seconds,images_per_s,"));
  EXPECT_THAT(lines[1], StartsWith("digits,1,2874,"));
}

TEST_F(Command, IoBenchComparesFilesWithDecodingAlone) {
  std::filesystem::create_directories(In("images/train/cat"));
  for (int i = 0; i < 8; ++i) {
    std::ofstream(In(absl::StrCat("images/train/cat/", i, ".jpg")), std::ios::binary)
        << data::JpegOf(data::Pattern(80, 90, 3));
  }
  const Result r = Run(absl::StrCat("io-bench --threads=1,2 --batch=4 --input-size=72 --json --data=", In("images")));
  ASSERT_EQ(r.code, 0) << r.err;
  const Json report = Json::parse(r.out);
  ASSERT_EQ(report.at("runs").size(), 2u);
  for (const Json& run : report.at("runs")) {
    EXPECT_GT(run.at("decoded_alone_images_per_s"), 0);
    const double share = run.at("images_per_s").get<double>() / run.at("decoded_alone_images_per_s").get<double>();
    EXPECT_DOUBLE_EQ(run.at("share_of_decoding"), share);
    EXPECT_GT(run.at("share_per_core"), 0);
  }
}

TEST_F(Command, IoBenchDecodesPartsByIndicesOnceTheyAreMade) {
  std::filesystem::create_directories(In("large/train/cat"));
  for (int i = 0; i < 6; ++i) {
    std::ofstream(In(absl::StrCat("large/train/cat/", i, ".jpg")), std::ios::binary)
        << data::JpegOf(data::Pattern(400, 500, 3));
  }
  const std::string bench =
      absl::StrCat("io-bench --threads=1 --batch=4 --augment=resized --input-size=72 --data=", In("large"));
  const auto report = [&](const std::string& flags) {
    const Result r = Run(absl::StrCat(bench, " --json ", flags));
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out);
  };
  const Json twice = report("--warm-up-epochs=1"), none = report("--warm-up-epochs=2 --epochs=3 --jpeg-index=0");
  EXPECT_EQ(twice.at("jpeg_indices").at("count"), 6);
  EXPECT_GT(twice.at("jpeg_indices").at("bytes"), 6 * 1000);
  EXPECT_GT(twice.at("jpeg_indices").at("decoded"), 0);
  EXPECT_EQ(twice.at("count"), 6);  // those of the warm-up do not count
  EXPECT_EQ(none.at("jpeg_indices").at("count"), 0);
  EXPECT_EQ(none.at("count"), 18);
  EXPECT_THAT(Run(absl::StrCat(bench, " --warm-up-epochs=1")).out,
              ContainsRegex("\nindices of 6 JPEGs took .* MB; with them [0-9]+ parts were decoded"));
  ExpectError(absl::StrCat(bench, " --jpeg-index=-1"), 2, {"--jpeg-index"});
}

// Of batches of 6 MB, so that little else is beside them; seven of them are an epoch, so that each place is filled.
TEST_F(Command, IoBenchHoldsAsManyBatchesAsArePrefetchedHoweverMuchIsRead) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep memory that was freed";
  const auto peak = [&](int prefetch, int epochs) {
    const Result r =
        Run(absl::StrCat("io-bench --data=digits --augment=none --input-size=160 --threads=2 --batch=239 --json",
                         " --prefetch=", prefetch, " --epochs=", epochs));
    EXPECT_EQ(r.code, 0) << r.err;
    const Json report = Json::parse(r.out);
    return report.at("peak_resident_bytes").get<double>() / report.at("batch_bytes").get<double>();
  };
  const double one = peak(1, 2);
  EXPECT_NEAR(peak(3, 2) - one, 2, 0.5);
  EXPECT_NEAR(peak(6, 2) - one, 5, 0.5);
  EXPECT_NEAR(peak(3, 8) - one, 2, 0.5);
}

TEST_F(Command, IoBenchSaysWhatIsToBeKnownOfASet) {
  for (const char* name : {"cat", "dog"}) {
    std::filesystem::create_directories(In(absl::StrCat("pets/", name)));
    Write(absl::StrCat("pets/", name, "/1.png"), data::PngOf(data::Pattern(16, 16, 3)));
    Write(absl::StrCat("pets/", name, "/notes.txt"), "none");
  }
  const Result r = Run(absl::StrCat("io-bench --threads=1 --data=", In("pets")));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("2 files are left out, such as"));
}

TEST_F(Command, IoBenchRefusesWhatItCannotWriteBeforeItReads) {
  ExpectError(absl::StrCat("io-bench --data=", In("none"), " --csv=", In("nowhere"), "/x.csv"), 74, {"nowhere"});
}

TEST_F(Command, IoBenchPrintsNothingWhereItsFileCannotBeWritten) {
  std::string threads = "1";
  for (int run = 1; run < 45; ++run) threads += ",1";
  const Result r = Wait(Start(absl::StrCat("io-bench --data=digits --json --threads=", threads, " --csv=", In("x.csv")), [] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {2048, 2048};  // less than the lines of so many runs, more than OpenMP shares between processes
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }));
  EXPECT_EQ(r.code, 74) << r.err;
  EXPECT_EQ(r.out, "");
}

TEST_F(Command, IoBenchRefusesWhatItCannotRead) {
  const Result r = Run("io-bench --data=no/such/folder");  // its message lists the formats, a line each
  EXPECT_EQ(r.code, 66);
  EXPECT_THAT(r.err, StartsWith("colonnade: data \"no/such/folder\": "));
  ExpectError("io-bench --data=digits --threads=0", 2, {"--threads"});
  ExpectError(absl::StrCat("io-bench --data=digits --csv=", In("no/such/folder/runs.csv")), 74, {"runs.csv"});
}

}  // namespace
}  // namespace colonnade::cli
