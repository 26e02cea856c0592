#include "tools/transfers.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::tools {
namespace {

using ::testing::HasSubstr;

TEST(MeasureTransfer, ChecksItsResultsForEveryTransfer) {
  for (const std::string& what : MeasurableTransferNames()) {
    const absl::StatusOr<TransferTime> time = MeasureTransfer(what, 2, 1 << 16, 2);
    ASSERT_TRUE(time.ok()) << what << ": " << time.status();
    EXPECT_GT(time->seconds, 0) << what;
    EXPECT_EQ(time->bytes, 1 << 16) << what;
  }
  EXPECT_EQ(MeasureTransfer("all_refuse", 2, 1 << 10, 1).status().code(), absl::StatusCode::kFailedPrecondition);
}

// The data that one device receives, changed on the way: one element of buffer `name`.
class ChangedData : public engine::LoadedProgram {
 public:
  ChangedData(const program::Program& program, std::unique_ptr<engine::LoadedProgram> loaded, std::string name)
      : LoadedProgram(program), loaded_(std::move(loaded)), name_(std::move(name)) {}
  void Fence() override { loaded_->Fence(); }
  void Launch(program::TaskId task, int64_t step) override { loaded_->Launch(task, step); }
  void Await(int device, program::Lane lane, program::TaskId task, int64_t step) override {
    loaded_->Await(device, lane, task, step);
  }
  absl::Status Synchronize(int64_t step) override { return loaded_->Synchronize(step); }
  std::vector<engine::TaskTime> Times(int64_t step) const override { return loaded_->Times(step); }
  absl::Status ReadBytes(program::BufferId buffer, absl::Span<char> bytes) const override {
    const absl::Status status = loaded_->ReadBytes(buffer, bytes);
    const program::Buffer& of = program_.buffer(buffer);
    if (of.device == 1 && of.name == name_) bytes[4 * 3 + 2] ^= 0x10;  // of element 3
    return status;
  }
  absl::Status WriteBytes(program::BufferId buffer, absl::Span<const char> bytes) override {
    return loaded_->WriteBytes(buffer, bytes);
  }
  engine::DeviceMemory Memory(int device) const override { return loaded_->Memory(device); }
  const std::vector<engine::AddedReorder>& added_reorders() const override { return loaded_->added_reorders(); }

 private:
  const std::unique_ptr<engine::LoadedProgram> loaded_;
  const std::string name_;
};

class ChangingDevices : public engine::Backend {
 public:
  ChangingDevices(std::unique_ptr<engine::Backend> backend, std::string name)
      : backend_(std::move(backend)), name_(std::move(name)) {}
  std::string name() const override { return backend_->name(); }
  int device_count() const override { return backend_->device_count(); }
  absl::StatusOr<std::unique_ptr<engine::LoadedProgram>> Load(const program::Program& program,
                                                              const engine::HostSlot (&slots)[2]) override {
    auto loaded = backend_->Load(program, slots);
    if (!loaded.ok()) return loaded.status();
    return std::make_unique<ChangedData>(program, *std::move(loaded), name_);
  }
  absl::StatusOr<std::vector<engine::DeviceMemory>> MemoryOf(const program::Program& program) override {
    return backend_->MemoryOf(program);
  }
  int64_t TakenBytes(int device) const override { return backend_->TakenBytes(device); }

 private:
  const std::unique_ptr<engine::Backend> backend_;
  const std::string name_;
};

BackendMaker Changing(const std::string& name) {
  return [name](int devices) -> absl::StatusOr<std::unique_ptr<engine::Backend>> {
    return std::make_unique<ChangingDevices>(*CpuDevices(devices), name);
  };
}

TEST(RunTransfer, CountsElementsThatAreWrongInEveryCheck) {
  for (const std::string& what : MeasurableTransferNames()) {
    const std::string result = what == "all_reduce" ? "x" : "y";
    const TransferCase transfer{.operation = what, .members = IsBetweenTwo(what) ? 2 : 3, .bytes = 3 << 14};
    const absl::StatusOr<TransferRun> good = RunTransfer(transfer, {.checks = 3});
    ASSERT_TRUE(good.ok()) << what << ": " << good.status();
    EXPECT_EQ(good->wrong, 0) << what << ": " << good->first_wrong;
    const absl::StatusOr<TransferRun> bad = RunTransfer(transfer, {.checks = 3}, Changing(result));
    ASSERT_TRUE(bad.ok()) << what << ": " << bad.status();
    EXPECT_EQ(bad->wrong, 3) << what;
    EXPECT_THAT(bad->first_wrong, HasSubstr("element 3 of device 1: expected "));
    EXPECT_EQ(MeasureTransfer(what, transfer.members, transfer.bytes, 1, Changing(result)).status().code(),
              absl::StatusCode::kInternal);
  }
}

TEST(RunTransfer, BytesAreThoseThatMove) {
  for (const auto& [asked, moved] : {std::pair{4, 8192}, {12288, 8192}, {20000, 16384}}) {
    EXPECT_EQ(RunTransfer({.operation = "channel_slice", .members = 2, .bytes = asked}, {})->bytes, moved);
  }
  EXPECT_EQ(RunTransfer({.operation = "all_reduce", .members = 3, .bytes = 50}, {})->bytes, 48);
  EXPECT_EQ(RunTransfer({.operation = "all_reduce", .members = 3, .bytes = 4}, {})->bytes, 12);
}

TEST(RunTransfer, ChecksBothEndsOfAPair) {
  for (const auto& [from, to] : {std::pair(0, 2), std::pair(2, 1)}) {
    const absl::StatusOr<TransferRun> run = RunTransfer(
        {.operation = "exchange", .members = 3, .bytes = 1 << 12, .from = from, .to = to, .one_way = true}, {.checks = 2});
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->wrong, 0) << run->first_wrong;
    EXPECT_EQ(run->seconds.size(), 5u);
  }
  const TransferCase to_1{.operation = "exchange", .members = 3, .bytes = 1 << 12, .from = 2, .to = 1, .one_way = true};
  EXPECT_EQ(RunTransfer(to_1, {}, Changing("y"))->wrong, 1);
}

// Two members' operands, and what each gathers.
TEST(CheckHostMemory, OfATransferIsThatOfItsOperandsAndResults) {
  const TransferCase gather{.operation = "all_gather", .members = 2, .bytes = 4000};
  constexpr int64_t kNeeded = 2 * (4000 + 2 * 4000);
  EXPECT_TRUE(CheckHostMemory(gather, kNeeded).ok());
  const absl::Status status = CheckHostMemory(gather, kNeeded - 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("all_gather of 4000 bytes on 2 devices needs at least "));
}

TEST(TransferRun, PercentilesAreOfTheRepeats) {
  TransferRun run;
  for (int i = 1; i <= 100; ++i) run.seconds.push_back(i);
  EXPECT_EQ(run.Quantile(0.5), 50.5);
  EXPECT_DOUBLE_EQ(run.Quantile(0.99), 99.01);
  EXPECT_EQ(run.Mean(), 50.5);
  run.seconds = {30, 1, 2};
  EXPECT_EQ(run.Quantile(0.5), 2);
}

// As doc/PERFORMANCE.md of nccl-tests has them.
TEST(BusBandwidth, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor("all_reduce", 4), 1.5);
  EXPECT_DOUBLE_EQ(BusFactor("all_gather", 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor("reduce_scatter", 8), 0.875);
  EXPECT_DOUBLE_EQ(BusFactor("exchange", 2), 1);
  EXPECT_EQ(SizeOf({.operation = "all_gather", .members = 4}, 100), 400);
  EXPECT_EQ(SizeOf({.operation = "reduce_scatter", .members = 4}, 100), 100);
}

TEST(ReadTransfers, ReadsWhatBenchTransfersPrints) {
  const auto transfers = ReadTransfers(R"({"version": "1", "transfers": [
      {"operation": "all_reduce", "devices": 2, "size_bytes": 4096, "p50_us": 12.5, "wrong": 0},
      {"operation": "all_gather", "devices": 4, "size_bytes": 4096, "p50_us": 30, "wrong": null}]})");
  ASSERT_TRUE(transfers.ok()) << transfers.status();
  ASSERT_EQ(transfers->size(), 2u);
  EXPECT_EQ((*transfers)[0].operation, "all_reduce");
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
  EXPECT_THAT(error("[]"), HasSubstr("a list \"transfers\""));
  EXPECT_THAT(error(R"({"transfers": []})"), HasSubstr("at least one"));
  EXPECT_THAT(error(R"({"transfers": [7]})"), HasSubstr("transfers[0]: expected an object"));
  EXPECT_THAT(error(R"({"transfers": [{"operation": "all_refuse"}]})"),
              HasSubstr("transfers[0].operation: unknown name \"all_refuse\", did you mean \"all_reduce\"?"));
  const auto wrong_field = [&](const char* members, const char* size, const char* time, const char* wrong) {
    const std::string json = absl::StrFormat(
        R"({"transfers": [{"operation": "exchange", "devices": %s, "size_bytes": %s, "p50_us": %s, "wrong": %s}]})", members,
        size, time, wrong);
    return error(json.c_str());
  };
  EXPECT_THAT(wrong_field("1", "64", "1", "0"), HasSubstr("devices: expected a whole number from 2 to 4096, found 1"));
  EXPECT_THAT(wrong_field("2.5", "64", "1", "0"), HasSubstr("devices: expected a whole number from 2 to 4096, found 2.5"));
  EXPECT_THAT(wrong_field("4097", "64", "1", "0"), HasSubstr("devices: expected a whole number from 2 to 4096"));
  EXPECT_THAT(wrong_field("2", "0", "1", "0"), HasSubstr("size_bytes: expected a number from 1 to 1e+18 byte, found 0"));
  EXPECT_THAT(wrong_field("2", "64", "\"1\"", "0"), HasSubstr("p50_us: expected a number from 1e-06 to 1e+11 us"));
  EXPECT_THAT(wrong_field("2", "64", "1e-7", "0"), HasSubstr("p50_us: expected a number from 1e-06"));
  EXPECT_THAT(wrong_field("2", "2e9", "9", "0"), HasSubstr("p50_us: expected a time in which 2e+09 bytes move at 2e+14"));
  EXPECT_THAT(wrong_field("2", "64", "1", "2"), HasSubstr("wrong: expected no wrong results, found 2"));
}

TEST(ReadTransfers, TakesTheFastestTransferThatAProfileMayHave) {
  const auto transfers =
      ReadTransfers(R"({"transfers": [{"operation": "exchange", "devices": 2, "size_bytes": 2e9, "p50_us": 10}]})");
  EXPECT_TRUE(transfers.ok()) << transfers.status();
}

}  // namespace
}  // namespace colonnade::tools
