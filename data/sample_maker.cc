#include "data/sample_maker.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/with_context.h"

namespace colonnade::data {
namespace {

constexpr size_t kMostKept = size_t{16} << 20;  // bytes of a file and of its pixels, as memory for the next

void KeepSmall(SampleMaker::Scratch& scratch) {
  if (scratch.bytes.capacity() > kMostKept) std::string().swap(scratch.bytes);  // an assignment keeps the memory
  if (scratch.image.pixels.capacity() > kMostKept) scratch.image = Image();
}

// All of an image, for a box of its size that may reach beyond it.
absl::StatusOr<DecodedBox> DecodeAll(absl::string_view file, const Box& box, const AugmentOptions& augment,
                                     std::vector<uint8_t> room) {
  ASSIGN_OR_RETURN(DecodedBox all, DecodeBox(file, augment.channels, {0, 0, box.height, box.width}, augment.height,
                                             augment.width, std::move(room)));
  all.box.top = box.top * all.box.height / box.height;
  all.box.left = box.left * all.box.width / box.width;
  return all;
}

// The part of a file that a view needs.
absl::StatusOr<DecodedBox> DecodeView(absl::string_view file, const Box& box, const AugmentOptions& augment,
                                      std::vector<uint8_t> room, const JpegIndex* index) {
  if (augment.cropping == Cropping::kPadded) return DecodeAll(file, box, augment, std::move(room));
  return DecodeBox(file, augment.channels, box, augment.height, augment.width, std::move(room), index);
}

bool SeesParts(const AugmentOptions& augment) {
  return augment.cropping != Cropping::kWhole && augment.cropping != Cropping::kPadded;
}

absl::Status CheckPixels(const StoredImage& stored, int64_t channels) {
  if (stored.channels != channels) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected an image of %s, found %d", base::Counted(channels, "channel"), stored.channels));
  }
  const int64_t bytes = stored.height * stored.width * stored.channels;
  if (stored.height > 0 && stored.width > 0 && static_cast<int64_t>(stored.bytes.size()) == bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("expected %d bytes, those of %d x %d pixels of %s, found %d", bytes,
                                                    stored.height, stored.width, base::Counted(channels, "channel"),
                                                    stored.bytes.size()));
}

// `inside` has rows of so many bytes.
void PutInFrame(absl::Span<const uint8_t> inside, int64_t row_bytes, int64_t frame, int64_t channels,
                absl::Span<uint8_t> out) {
  absl::c_fill(out, uint8_t{0});
  const int64_t side = frame * channels, stride = row_bytes + 2 * side;
  auto to = out.begin() + frame * stride + side;
  for (auto from = inside.begin(); from != inside.end(); from += row_bytes, to += stride) std::copy_n(from, row_bytes, to);
}

}  // namespace

SampleMaker::SampleMaker(std::shared_ptr<const SampleSet> set, const AugmentOptions& augment, uint64_t seed,
                         std::shared_ptr<JpegIndices> indices)
    : set_(std::move(set)), frame_(augment.frame), augment_(Inside(augment)), seed_(seed), indices_(std::move(indices)) {}

absl::StatusOr<View> SampleMaker::Make(int64_t sample, int64_t epoch, Scratch& scratch, WorkerClock& clock,
                                       absl::Span<uint8_t> out) const {
  const absl::Cleanup keep_small = [&scratch] { KeepSmall(scratch); };
  if (frame_ == 0) return MakeInside(sample, epoch, scratch, clock, out);
  scratch.inside.resize(static_cast<size_t>(augment_.height * augment_.width * augment_.channels));
  ASSIGN_OR_RETURN(const View view, MakeInside(sample, epoch, scratch, clock, absl::MakeSpan(scratch.inside)));
  PutInFrame(scratch.inside, augment_.width * augment_.channels, frame_, augment_.channels, out);
  return view;
}

absl::StatusOr<View> SampleMaker::MakeInside(int64_t sample, int64_t epoch, Scratch& scratch, WorkerClock& clock,
                                             absl::Span<uint8_t> out) const {
  clock.Start(sample);
  absl::StatusOr<StoredImage> stored = set_->Read(sample, scratch.bytes);
  clock.Lap(Stage::kRead);
  if (!stored.ok()) return stored.status();  // it names the sample
  absl::StatusOr<View> view = stored->is_encoded ? MakeOfFile(sample, epoch, stored->bytes, scratch.image, clock, out)
                                                 : MakeOfPixels(sample, epoch, *stored, scratch.image, clock, out);
  if (view.ok()) return view;
  return base::WithContext(view.status(), set_->sample_name(sample));
}

std::shared_ptr<const JpegIndex> SampleMaker::IndexOf(int64_t sample, absl::string_view file,
                                                      const ImageHeader& header) const {
  if (indices_ == nullptr || header.format != ImageFormat::kJpeg || !SeesParts(augment_)) return nullptr;
  return indices_->Of(sample, file, header.height * header.width);
}

absl::StatusOr<View> SampleMaker::MakeOfFile(int64_t sample, int64_t epoch, absl::string_view file, Image& image,
                                             WorkerClock& clock, absl::Span<uint8_t> out) const {
  ASSIGN_OR_RETURN(const ImageHeader header, ReadImageHeader(file));
  const View view = DrawView(augment_, seed_, epoch, sample, header.height, header.width);
  const std::shared_ptr<const JpegIndex> index = IndexOf(sample, file, header);
  absl::StatusOr<DecodedBox> decoded = DecodeView(file, view.box, augment_, std::move(image.pixels), index.get());
  clock.Lap(Stage::kDecode);
  RETURN_IF_ERROR(decoded.status());
  if (decoded->by_index) indices_->CountDecoded();
  image = std::move(decoded->image);
  Render(augment_, view, image, decoded->box, out);
  clock.Lap(Stage::kAugment);
  return view;
}

absl::StatusOr<View> SampleMaker::MakeOfPixels(int64_t sample, int64_t epoch, const StoredImage& stored, Image& image,
                                               WorkerClock& clock, absl::Span<uint8_t> out) const {
  RETURN_IF_ERROR(CheckPixels(stored, augment_.channels));
  image.height = stored.height;
  image.width = stored.width;
  image.channels = stored.channels;
  image.pixels.assign(stored.bytes.begin(), stored.bytes.end());
  const View view = DrawView(augment_, seed_, epoch, sample, image.height, image.width);
  Render(augment_, view, image, view.box, out);
  clock.Lap(Stage::kAugment);
  return view;
}

}  // namespace colonnade::data
