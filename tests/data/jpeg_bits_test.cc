// The bits of a scan: what is written is what is read, at whatever place one begins.

#include "data/jpeg_bits.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sanitized.h"

namespace colonnade::data {
namespace {

// So many bits; half of the time ones, so that many bytes are 0xff.
std::pair<uint64_t, int> DrawnBits(std::mt19937_64& random) {
  const int count = 1 + static_cast<int>(random() % JpegBitReader::kMost);
  const uint64_t bits = random() % 2 == 0 ? ~uint64_t{0} : random();
  return {bits >> (kWordBits - count), count};
}

struct WrittenBits {
  std::vector<std::pair<uint64_t, int>> parts;
  std::string scan;
};

WrittenBits Written(std::mt19937_64& random, int count) {
  WrittenBits written;
  JpegBitWriter writer(written.scan);
  for (int i = 0; i < count; ++i) {
    written.parts.push_back(DrawnBits(random));
    writer.Reserve(written.parts.back().second);
    writer.Put(written.parts.back().first, written.parts.back().second);
  }
  writer.Finish();
  return written;
}

TEST(JpegBits, AreReadAsTheyWereWritten) {
  std::mt19937_64 random(1);
  for (int i = 0; i < Draws(2000); ++i) {
    const WrittenBits written = Written(random, 1 + i % 40);
    JpegBitReader reader(written.scan, 0);
    for (const auto& [bits, count] : written.parts) {
      reader.Fill();
      ASSERT_TRUE(reader.holds(count));
      ASSERT_EQ(reader.Peek(count), bits);
      ASSERT_EQ(reader.Take(count), bits);
    }
    EXPECT_FALSE(reader.is_past_end());
  }
}

// Of all places: the bits from there on, and how many lie between two of them.
TEST(JpegBits, AreFoundFromAnyPlaceOn) {
  std::mt19937_64 random(2);
  for (int i = 0; i < Draws(2000); ++i) {
    const WrittenBits written = Written(random, 20);
    std::vector<int64_t> places;
    JpegBitReader reader(written.scan, 0);
    for (const auto& part : written.parts) {
      places.push_back(reader.place());
      reader.Fill();
      reader.Skip(part.second);
    }
    const size_t from = random() % places.size(), to = from + random() % (places.size() - from);
    int64_t between = 0;
    for (size_t p = from; p < to; ++p) between += written.parts[p].second;
    EXPECT_EQ(BitsBetween(written.scan, places[from], places[to]), between);
    JpegBitReader later(written.scan, places[from]);
    for (size_t p = from; p < written.parts.size(); ++p) {
      ASSERT_EQ(later.place(), places[p]);
      later.Fill();
      ASSERT_EQ(later.Take(written.parts[p].second), written.parts[p].first);
    }
  }
}

TEST(JpegBits, EndAtAMarkerAndGoOnAsZeros) {
  for (const std::string& scan : {std::string("\x12\xff\0\x34\xff\xd9\x56", 7), std::string("\x12\xff\0\x34\xff", 5),
                                  std::string("\x12\xff\0\x34", 4)}) {
    JpegBitReader reader(scan, 0);
    EXPECT_EQ(reader.Take(24), 0x12ff34);
    EXPECT_FALSE(reader.is_past_end());
    EXPECT_EQ(reader.place(), 4 * kByteBits);
    reader.Fill();
    EXPECT_EQ(reader.Take(40), 0);
    EXPECT_TRUE(reader.is_past_end());
  }
}

TEST(JpegBits, AByteThatIsBegunIsFilledWithOnes) {
  std::string scan = "before";
  JpegBitWriter writer(scan);
  writer.Reserve(11);
  writer.Put(0x7f8, 11);  // eight ones, of which no marker is to be made, and three zeros
  writer.Finish();
  EXPECT_EQ(scan, std::string("before\xff\0\x1f", 9));
}

}  // namespace
}  // namespace colonnade::data
