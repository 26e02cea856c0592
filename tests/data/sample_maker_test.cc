// What one thread keeps from sample to sample.
#include "data/sample_maker.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/data/image_files.h"
#include "tests/data/test_set.h"

namespace colonnade::data {
namespace {

constexpr size_t kMostKept = size_t{16} << 20;

// One image, in so many bytes of memory; encoded or not.
class OneImage : public TestSet {
 public:
  OneImage(Image image, bool is_encoded, size_t room_bytes)
      : TestSet(1), image_(std::move(image)), is_encoded_(is_encoded), room_bytes_(room_bytes) {}
  absl::StatusOr<StoredImage> Read(int64_t, std::string& room) const override {
    const std::string bytes = is_encoded_ ? PngOf(image_) : std::string(image_.pixels.begin(), image_.pixels.end());
    room = bytes;
    room.resize(std::max(room_bytes_, bytes.size()));
    return StoredImage{.is_encoded = is_encoded_,
                       .height = image_.height,
                       .width = image_.width,
                       .channels = image_.channels,
                       .bytes = absl::string_view(room).substr(0, bytes.size())};
  }

 private:
  const Image image_;
  const bool is_encoded_;
  const size_t room_bytes_;
};

SampleMaker::Scratch ScratchAfter(Image image, bool is_encoded, size_t room_bytes) {
  const SampleMaker maker(std::make_shared<OneImage>(std::move(image), is_encoded, room_bytes),
                          {.height = 4, .width = 4, .channels = 3}, /*seed=*/1);
  SampleMaker::Scratch scratch;
  WorkerClock clock;
  std::vector<uint8_t> out(maker.sample_bytes());
  const absl::StatusOr<View> view = maker.Make(0, 0, scratch, clock, absl::MakeSpan(out));
  EXPECT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(out, std::vector<uint8_t>(out.size(), 9));
  return scratch;
}

TEST(SampleMaker, KeepsTheMemoryOfSmallFilesAndImagesAlone) {
  const std::vector<uint8_t> grey = {9, 9, 9};
  const SampleMaker::Scratch of_small = ScratchAfter(Uniform(40, 40, grey), true, 1 << 20);
  EXPECT_GE(of_small.bytes.capacity(), size_t{1} << 20);
  EXPECT_EQ(of_small.image.pixels.size(), 40u * 40 * 3);
  EXPECT_LT(ScratchAfter(Uniform(40, 40, grey), true, kMostKept + 1).bytes.capacity(), kMostKept);
  const int64_t side = 2400;  // 17 MB
  for (bool is_encoded : {false, true}) {
    const SampleMaker::Scratch scratch = ScratchAfter(Uniform(side, side, grey), is_encoded, 0);
    EXPECT_LT(scratch.image.pixels.capacity(), kMostKept) << is_encoded;
    EXPECT_LT(scratch.bytes.capacity(), kMostKept) << is_encoded;
  }
}

TEST(SampleMaker, AFrameIsOfZerosAndTheImageTakesTheRest) {
  for (bool is_encoded : {false, true}) {
    const SampleMaker maker(std::make_shared<OneImage>(Uniform(8, 8, {9, 9, 9}), is_encoded, 0),
                            {.height = 4, .width = 5, .channels = 3, .frame = 1}, /*seed=*/1);
    SampleMaker::Scratch scratch;
    WorkerClock clock;
    std::vector<uint8_t> out(maker.sample_bytes(), 7);
    ASSERT_EQ(out.size(), 4u * 5 * 3);
    ASSERT_TRUE(maker.Make(0, 0, scratch, clock, absl::MakeSpan(out)).ok());
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t y = i / 15, x = i / 3 % 5;
      EXPECT_EQ(out[i], (y == 1 || y == 2) && x > 0 && x < 4 ? 9 : 0) << y << ", " << x;
    }
  }
}

}  // namespace
}  // namespace colonnade::data
