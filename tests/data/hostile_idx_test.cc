// IDX files that state one size and hold another: no more memory is asked for than they state, or hold.

#include <zlib.h>

#include <string>
#include <utility>

#include "data/gzip.h"
#include "data/idx.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocations.h"

namespace colonnade::data {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

// The gzip stream of `head` and then `zeros` bytes of zero, made piece by piece.
std::string GzippedWithZeros(const std::string& head, size_t zeros) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(kMiB, '\0');
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const std::string piece(kMiB, '\0');
  auto add = [&stream](const std::string& bytes, size_t count, int flush) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(count);
    return deflate(&stream, flush);
  };
  EXPECT_EQ(add(head, head.size(), Z_NO_FLUSH), Z_OK);
  for (; zeros > 0; zeros -= std::min(zeros, kMiB)) EXPECT_EQ(add(piece, std::min(zeros, kMiB), Z_NO_FLUSH), Z_OK);
  EXPECT_EQ(add(piece, 0, Z_FINISH), Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

std::string Header(const std::string& extents) { return std::string("\0\0\x08\x03", 4) + extents; }

TEST(HostileIdx, AGzipBombUnderASmallHeaderIsNotUnpacked) {
  const std::string bomb = GzippedWithZeros(Header(std::string("\0\0\0\1\0\0\0\2\0\0\0\2", 12)), 200 * kMiB);
  ASSERT_LT(bomb.size(), kMiB);
  absl::Status status;
  const size_t largest = LargestAllocationIn([&] { status = ParseIdx(bomb, "bomb.gz", 3).status(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("bomb.gz: extents [1,2,2]: expected gzip that unpacks to at most 20 bytes"));
  EXPECT_LT(largest, 4096u);
}

TEST(HostileIdx, AHeaderOf4GiBOverFewBytesAllocatesFew) {
  const std::string header = Header(std::string("\0\1\0\0\0\0\1\0\0\0\1\0", 12));  // 65536 x 256 x 256
  const std::string expected = "expected 4294967296 bytes after the header",
                    before = "expected gzip that unpacks to 4294967312";
  for (const auto& [file, message] : {std::pair{header + "few", expected},
                                      {GzippedWithZeros(header, 1000), before},
                                      {GzippedWithZeros(header, 200 * kMiB), before}}) {
    absl::Status status;
    const size_t largest = LargestAllocationIn([&status, &file = file] { status = ParseIdx(file, "f", 3).status(); });
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_LT(largest, kMiB / 2);
  }
}

TEST(HostileIdx, AHeaderAbove4GiBIsRefusedForWhatItStates) {
  const std::string header = Header(std::string("\0\1\0\0\0\0\1\0\0\0\1\1", 12));
  EXPECT_THAT(std::string(ParseIdx(header, "f", 3).status().message()), HasSubstr("product is more"));
}

TEST(HostileIdx, AllOfAGoodFileIsReadWithinWhatItStates) {
  const std::string file = GzippedWithZeros(Header(std::string("\0\0\0\5\0\0\4\0\0\0\4\0", 12)), 5 * kMiB);
  const size_t largest = LargestAllocationIn([&] { EXPECT_TRUE(ParseIdx(file, "f", 3).ok()); });
  EXPECT_LE(largest, 5 * kMiB + 64);
}

// A damaged byte never crashes the reader; where the gzip still holds, it is an error or the sum in its trailer would be
// wrong.
TEST(HostileIdx, EveryFlippedByteOfAGzipIsAnErrorOrHarmless) {
  const std::string file = GzippedWithZeros(Header(std::string("\0\0\0\2\0\0\0\3\0\0\0\3", 12)), 18);
  for (size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    absl::StatusOr<IdxArray> array = ParseIdx(damaged, "f", 3);
    if (array.ok()) {
      EXPECT_EQ(array->bytes, std::string(18, '\0')) << "byte " << i;
    } else {
      EXPECT_EQ(array.status().code(), absl::StatusCode::kInvalidArgument) << "byte " << i;
    }
  }
}

TEST(UnpackStart, GivesThatManyBytesOrAllOfThem) {
  const std::string packed = GzippedWithZeros("abc", 5);
  EXPECT_EQ(*UnpackStart(packed, 4), std::string("abc\0", 4));
  EXPECT_EQ(*UnpackStart(packed, 100), std::string("abc\0\0\0\0\0", 8));
  EXPECT_EQ(*UnpackStart("plain", 2), "pl");
  EXPECT_EQ(*UnpackStart("plain", 9), "plain");
}

}  // namespace
}  // namespace colonnade::data
