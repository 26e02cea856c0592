// The framing of RecordIO: real files, records that hold the magic, and files that are damaged anywhere.

#include "data/record_io.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "data/file.h"
#include "data/image_records.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/record_writer.h"
#include "tests/sanitized.h"
#include "tests/shared_data.h"

namespace colonnade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kMagicBytes("\x0a\x23\xd7\xce", 4);

std::vector<std::string> Payloads(const std::string& file, const std::vector<RecordPlace>& places) {
  std::vector<std::string> payloads;
  std::string room;
  for (const RecordPlace& place : places) {
    const absl::StatusOr<absl::string_view> payload = ReadRecord(BytesInMemory(file), place, room);
    payloads.emplace_back(payload.ok() ? *payload : payload.status().message());
  }
  return payloads;
}

absl::StatusOr<std::vector<RecordPlace>> Scan(const std::string& file) { return ScanRecords(BytesInMemory(file)); }
std::string ScanError(const std::string& file) { return std::string(Scan(file).status().message()); }
RecoveredRecords Recover(const std::string& file) { return *RecoverRecords(BytesInMemory(file)); }

TEST(RecordFraming, TheSampleOfDmlcHasTenRecords) {
  constexpr char kSample[] = "recordio-samples/dmlc_sample.rec";
  SKIP_WITHOUT_SHARED_DATA(kSample);
  const OpenFile file = *OpenFile::Open(SharedData(kSample));
  const std::vector<RecordPlace> places = *ScanRecords(file);
  ASSERT_EQ(places.size(), 10u);
  std::string room;
  EXPECT_EQ(ReadRecord(file, places[2], room)->substr(24), "3\n3\n3\n3\n3\n3\n3\n3\n3\n3\n");
  EXPECT_EQ(places.back().end, file.size());
}

TEST(RecordFraming, EveryLengthComesBack) {
  std::string file;
  std::vector<std::string> payloads;
  for (size_t length : {0u, 1u, 2u, 3u, 4u, 5u, 100u, 101u}) {
    payloads.push_back(std::string(length, static_cast<char>('a' + length % 26)));
    file += RecordOf(payloads.back());
  }
  EXPECT_EQ(file.size() % 4, 0u);
  EXPECT_EQ(Payloads(file, *Scan(file)), payloads);
}

TEST(RecordFraming, AMagicInThePayloadIsTakenOutAndPutBack) {
  const std::vector<std::string> payloads = {kMagicBytes, "abcd" + kMagicBytes + "efghi", kMagicBytes + kMagicBytes + "x",
                                             "abcd" + kMagicBytes, "ab" + kMagicBytes + "at no multiple of 4"};
  std::string file;
  for (const std::string& payload : payloads) file += RecordOf(payload);
  const std::vector<RecordPlace> places = *Scan(file);
  EXPECT_EQ(Payloads(file, places), payloads);
  EXPECT_EQ(Recover(file).records, places);
  EXPECT_EQ(Recover(file).gaps, 0);
  EXPECT_EQ(RecordOf(payloads[1]), kMagicBytes + std::string("\4\0\0\x20", 4) + "abcd" + kMagicBytes +
                                       std::string("\5\0\0\x60", 4) + "efghi" + std::string(3, '\0'));
}

TEST(RecordFraming, WhatIsDamagedIsNamedWithRecordAndOffset) {
  const std::string good = RecordOf("first") + RecordOf("second");
  std::string magic = good, kind = good, length = good;
  magic[16] ^= 1;
  kind[23] = 0x40;
  length[20] = 9;
  EXPECT_THAT(ScanError(magic), HasSubstr("record 1 at offset 16: expected the magic 0xced7230a, found 0xced7230b"));
  EXPECT_THAT(ScanError(kind), HasSubstr("record 1 at offset 16: expected the beginning of a record"));
  EXPECT_THAT(ScanError(length),
              HasSubstr("record 1 at offset 16: expected a part of 20 bytes, found the end of the file after 16"));
  EXPECT_THAT(ScanError(good + "abc"), HasSubstr("record 2 at offset 32: expected a header of 8 bytes, found the end"));
  EXPECT_THAT(ScanError("abc"),
              HasSubstr("record 0 at offset 0: expected a header of 8 bytes, found the end of the file after 3"));
  EXPECT_EQ(Scan("abc").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RecordFraming, APartThatNeverEndsIsDamaged) {
  const std::string begun = RecordOf("abcd" + kMagicBytes + "efgh").substr(0, 12);
  EXPECT_THAT(ScanError(begun), HasSubstr("record 0 at offset 12: expected a header"));
  EXPECT_THAT(ScanError(begun + RecordOf("next")),
              HasSubstr("expected its next part (kind 2 or 3), found a part of kind 0"));
  EXPECT_THAT(Payloads(begun + RecordOf("next"), Recover(begun + RecordOf("next")).records), ElementsAre("next"));
}

TEST(RecordFraming, ARecordThatChangedSinceIsNotGivenOut) {
  const std::string file = RecordOf("abcd" + kMagicBytes + "efgh"), other = RecordOf("abcdefghijklmnop");
  ASSERT_EQ(file.size(), other.size());
  EXPECT_THAT(Payloads(other, *Scan(file)), ElementsAre(HasSubstr("expected the record of 12 bytes that was there")));
  EXPECT_THAT(Payloads(std::string(24, 'x'), *Scan(file)), ElementsAre(HasSubstr("found one changed at offset 0")));
  EXPECT_THAT(Payloads(file.substr(4), *Scan(file)), ElementsAre(HasSubstr("found the end")));
}

TEST(RecordRecovery, GoesOnAtTheNextMagicAndCountsWhatItLeavesOut) {
  const std::string a = RecordOf("first"), b = RecordOf("second one"), c = RecordOf("third");
  std::string damaged = b;
  damaged[1] ^= 1;
  const RecoveredRecords found = Recover(a + damaged + c + "ab");
  EXPECT_THAT(Payloads(a + damaged + c, found.records), ElementsAre("first", "third"));
  EXPECT_EQ(found.gaps, 2);
  EXPECT_EQ(found.skipped_bytes, static_cast<int64_t>(b.size()) + 2);
}

TEST(RecordRecovery, ALengthThatReachesOverTheNextRecordCostsOneRecordAlone) {
  std::string file = RecordOf("first") + RecordOf("second") + RecordOf("third");
  file[4] = 5 + 16;  // ends where the third begins
  EXPECT_EQ(Scan(file)->size(), 2u) << "which reading from header to header cannot see";
  EXPECT_THAT(Payloads(file, Recover(file).records), ElementsAre("second", "third"));
}

TEST(RecordRecovery, PartsWithADamagedOneBetweenThemAreNotPutTogether) {
  std::string file = RecordOf("abcd" + kMagicBytes + "efgh" + kMagicBytes + "ijkl") + RecordOf("next");
  file[12] ^= 1;
  EXPECT_THAT(Payloads(file, Recover(file).records), ElementsAre("next"));
}

TEST(RecordRecovery, FindsMagicsOnBothSidesOfAChunk) {
  std::string file = "????" + RecordOf(std::string((1 << 20) - 16, 'x')) + RecordOf("behind the first MiB");
  ASSERT_EQ(file.substr((1 << 20) - 4, 4), kMagicBytes);
  EXPECT_EQ(Recover(file).records.size(), 2u);
  file = "????" + file;
  EXPECT_EQ(Recover(file).records.size(), 2u);
}

// Records as a data set has them, some of which hold the magic.
class DamagedRecords : public ::testing::Test {
 protected:
  DamagedRecords() {
    for (int i = 0; i < 24; ++i) {
      std::string payload(24, '\0');
      payload[6] = static_cast<char>(0x80), payload[7] = 0x3f;  // label 1
      for (size_t n = Below(60); n > 0; --n) payload.push_back(static_cast<char>(Below(256)));
      if (i % 3 == 0) payload.insert(payload.size() / 4 * 4, kMagicBytes + "more");
      file_ += RecordOf(payload);
      payloads_.push_back(payload);
    }
    places_ = *Scan(file_);
  }
  size_t Below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }

  // A file with one to three places changed: a header, single bytes, a run, the magic set where none was, or its end cut
  // off.
  std::string Damage() {
    std::string file = file_;
    for (size_t changes = 1 + Below(3); changes > 0; --changes) {
      const size_t header = static_cast<size_t>(places_[Below(places_.size())].offset), at = Below(file.size());
      switch (Below(5)) {
        case 0:
          if (header + 8 <= file.size()) file[header + Below(8)] ^= static_cast<char>(1 << Below(8));
          break;
        case 1:
          file[at] = static_cast<char>(Below(256));
          break;
        case 2:
          for (size_t i = at; i < std::min(file.size(), at + 40); ++i) file[i] = static_cast<char>(Below(256));
          break;
        case 3:
          file.replace(at / 4 * 4, 4, kMagicBytes);
          break;
        case 4:
          file.resize(1 + at);
          break;
      }
    }
    return file;
  }

  std::mt19937 random_{1};
  std::string file_;
  std::vector<std::string> payloads_;
  std::vector<RecordPlace> places_;
};

TEST_F(DamagedRecords, AreRecoveredWhereTheyAreUndamaged) {
  constexpr int kDamagedFiles = Draws(100'000);
  int64_t undamaged = 0, errors = 0;
  for (int n = 0; n < kDamagedFiles; ++n) {
    const std::string file = Damage();
    errors += Scan(file).ok() ? 0 : 1;
    const RecoveredRecords found = Recover(file);
    const std::vector<std::string> payloads = Payloads(file, found.records);
    int64_t kept_bytes = 0;
    for (const RecordPlace& place : found.records) kept_bytes += place.end - place.offset;
    ASSERT_EQ(kept_bytes + found.skipped_bytes, static_cast<int64_t>(file.size()));
    for (size_t i = 0; i < places_.size(); ++i) {
      const auto begin = static_cast<size_t>(places_[i].offset), size = static_cast<size_t>(places_[i].end) - begin;
      if (file.size() < begin + size || file.compare(begin, size, file_, begin, size) != 0) continue;
      ++undamaged;
      const auto at = std::find(found.records.begin(), found.records.end(), places_[i]);
      ASSERT_NE(at, found.records.end()) << "record " << i << " of file " << n;
      ASSERT_EQ(payloads[at - found.records.begin()], payloads_[i]);
    }
  }
  EXPECT_GT(undamaged, int64_t{kDamagedFiles} * 10);
  EXPECT_GT(errors, kDamagedFiles / 3);
}

TEST_F(DamagedRecords, AreReadAsImagesOrRefused) {
  for (int n = 0; n < Draws(100'000); ++n) {
    const std::string file = Damage();
    const BytesInMemory bytes(file);
    for (bool skip : {false, true}) {
      const absl::StatusOr<IndexedRecords> records = IndexImageRecords(bytes, std::nullopt, 10, skip);
      ASSERT_TRUE(records.ok() || (!skip && absl::IsInvalidArgument(records.status()))) << records.status();
      if (!records.ok()) continue;
      ASSERT_EQ(records->labels.size(), records->places.size());
      for (int32_t label : records->labels) ASSERT_LT(label, 10);
    }
  }
}

// Counts what is read of it.
class CountedBytes : public ByteSource {
 public:
  explicit CountedBytes(absl::string_view bytes) : bytes_(bytes) {}
  int64_t size() const override { return bytes_.size(); }
  absl::Status ReadAt(int64_t offset, absl::Span<char> to) const override {
    read += static_cast<int64_t>(to.size());
    return bytes_.ReadAt(offset, to);
  }
  mutable int64_t read = 0;

 private:
  BytesInMemory bytes_;
};

TEST(ReadRecordStart, IsTheStartOfWhatReadRecordGivesAndReadsNoMore) {
  const std::string payload =
      "ab12" + kMagicBytes + kMagicBytes + "cdef" + kMagicBytes + std::string(1000, 'g') + kMagicBytes;
  for (const std::string& before : {std::string(), RecordOf("before")}) {
    const std::string file = before + RecordOf(payload);
    const RecordPlace place = Scan(file)->back();
    std::string room;
    ASSERT_EQ(*ReadRecord(BytesInMemory(file), place, room), payload);
    for (int64_t bytes = 0; bytes <= place.payload_bytes; ++bytes) {
      const CountedBytes counted(file);
      const absl::StatusOr<absl::string_view> start = ReadRecordStart(counted, place, bytes, room);
      ASSERT_TRUE(start.ok()) << start.status();
      EXPECT_EQ(*start, payload.substr(0, bytes)) << bytes;
      EXPECT_LE(counted.read, bytes + 8 * 5) << bytes << ": the headers of five parts besides";
    }
  }
}

}  // namespace
}  // namespace colonnade::data
