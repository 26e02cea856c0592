#include "tools/transfers.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::tools {
namespace {

using ::testing::HasSubstr;

TEST(MeasureTransfer, ChecksItsResultsForEveryTransfer) {
  for (const std::string& what : TransferNames()) {
    const absl::StatusOr<TransferTime> time = MeasureTransfer(what, 2, 1 << 16, 2);
    ASSERT_TRUE(time.ok()) << what << ": " << time.status();
    EXPECT_GT(time->seconds, 0) << what;
    EXPECT_EQ(time->bytes, 1 << 16) << what;
  }
  EXPECT_EQ(MeasureTransfer("all_refuse", 2, 1 << 10, 1).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ReadTransfers, ReadsWhatBenchTransfersPrints) {
  const auto transfers = ReadTransfers(R"({"context": {}, "benchmarks": [
      {"name": "all_reduce/2/4096/iterations:1/manual_time", "real_time": 12.5, "time_unit": "us"},
      {"name": "all_gather/4/4096/iterations:1/manual_time", "real_time": 30, "time_unit": "us"}]})");
  ASSERT_TRUE(transfers.ok()) << transfers.status();
  ASSERT_EQ(transfers->size(), 2u);
  EXPECT_EQ((*transfers)[0].what, "all_reduce");
  EXPECT_EQ((*transfers)[0].members, 2);
  EXPECT_EQ((*transfers)[0].bytes, 4096);
  EXPECT_DOUBLE_EQ((*transfers)[0].seconds, 12.5e-6);
  EXPECT_EQ((*transfers)[1].bytes, 1024);  // of one member
}

TEST(ReadTransfers, NamesWhatIsWrong) {
  const auto error = [](const char* json) {
    const absl::Status status = ReadTransfers(json).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error("{\n nothing"), HasSubstr("expected JSON; line 2, column 3: "));
  EXPECT_THAT(error("[]"), HasSubstr("a list \"benchmarks\""));
  EXPECT_THAT(error(R"({"benchmarks": []})"), HasSubstr("at least one"));
  EXPECT_THAT(error(R"({"benchmarks": [{"name": "all_reduce/2", "real_time": 1, "time_unit": "us"}]})"),
              HasSubstr("\"all_reduce/2\": expected a name as all_reduce/2/4096"));
  EXPECT_THAT(error(R"({"benchmarks": [{"name": "all_reduce/2/64", "real_time": 1, "time_unit": "ms"}]})"),
              HasSubstr("\"real_time\" in \"us\""));
  EXPECT_THAT(error(R"({"benchmarks": [{"name": "exchange/2/64", "error_occurred": true}]})"),
              HasSubstr("ended with an error"));
}

}  // namespace
}  // namespace colonnade::tools
