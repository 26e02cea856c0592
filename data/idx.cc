#include "data/idx.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "data/gzip.h"

namespace colonnade::data {
namespace {

constexpr unsigned char kUnsignedByte = 0x08;

uint32_t BigEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (char c : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

absl::Status Wrong(const std::string& name, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", what));
}

// The extents, checked against kMostIdxElements.
absl::StatusOr<program::Shape> ParseExtents(absl::string_view bytes, const std::string& name, int rank) {
  program::Shape shape;
  int64_t elements = 1;
  for (int d = 0; d < rank; ++d) {
    shape.push_back(BigEndian(bytes.substr(4 + 4 * d)));
    if (shape.back() != 0 && elements > kMostIdxElements / shape.back()) {
      return Wrong(name,
                   absl::StrFormat("expected at most %d elements, found extents whose product is more", kMostIdxElements));
    }
    elements *= shape.back();
  }
  return shape;
}

}  // namespace

absl::StatusOr<IdxArray> ParseIdx(absl::string_view file, const std::string& name, int rank) {
  const auto header_bytes = 4 + 4 * static_cast<int64_t>(rank);
  absl::StatusOr<std::string> header = UnpackStart(file, header_bytes);
  if (!header.ok()) return base::WithContext(header.status(), name);
  const uint32_t expected = uint32_t{kUnsignedByte} << 8 | static_cast<uint32_t>(rank);
  if (header->size() < 4 || BigEndian(*header) != expected) {
    return Wrong(name, absl::StrFormat("expected an IDX file of unsigned bytes with %d dimensions (magic 0x%08x), found %s",
                                       rank, expected,
                                       header->size() < 4 ? absl::StrFormat("%d bytes", header->size())
                                                          : absl::StrFormat("magic 0x%08x", BigEndian(*header))));
  }
  if (static_cast<int64_t>(header->size()) < header_bytes) {
    return Wrong(name, absl::StrFormat("expected a header of %d bytes, found a file of %d", header_bytes, header->size()));
  }
  ASSIGN_OR_RETURN(program::Shape shape, ParseExtents(*header, name, rank));
  const int64_t elements = program::ElementCount(shape);
  const absl::Status may_hold = CheckMayHold(file, header_bytes + elements);
  absl::StatusOr<std::string> bytes = may_hold.ok() ? Unpack(file, header_bytes + elements) : may_hold;
  if (!bytes.ok()) {
    return base::WithContext(bytes.status(), absl::StrFormat("%s: extents %s", name, program::ToString(shape)));
  }
  bytes->erase(0, static_cast<size_t>(header_bytes));
  if (static_cast<int64_t>(bytes->size()) != elements) {
    return Wrong(name, absl::StrFormat("expected %d bytes after the header for extents %s, found %d", elements,
                                       program::ToString(shape), bytes->size()));
  }
  return IdxArray{std::move(shape), *std::move(bytes)};
}

absl::StatusOr<ImageSet> ParseIdxPair(absl::string_view images, const std::string& images_name, absl::string_view labels,
                                      const std::string& labels_name, int64_t classes) {
  ASSIGN_OR_RETURN(IdxArray pixels, ParseIdx(images, images_name, 3));
  ASSIGN_OR_RETURN(IdxArray marks, ParseIdx(labels, labels_name, 1));
  if (marks.shape[0] != pixels.shape[0]) {
    return Wrong(labels_name, absl::StrFormat("expected %s, one for each image of %s, found %d",
                                              base::Counted(pixels.shape[0], "label"), images_name, marks.shape[0]));
  }
  if (program::ElementCount(pixels.shape) == 0) {
    return Wrong(images_name, absl::StrFormat("expected images, found extents %s", program::ToString(pixels.shape)));
  }
  ImageSet set{.sample_shape = {1, pixels.shape[1], pixels.shape[2]}};
  set.pixels.assign(pixels.bytes.begin(), pixels.bytes.end());
  for (size_t i = 0; i < marks.bytes.size(); ++i) {
    const int32_t label = static_cast<unsigned char>(marks.bytes[i]);
    if (classes > 0 && label >= classes) {
      return Wrong(labels_name, absl::StrFormat("label of sample %d: expected below %s, found %d", i,
                                                base::Counted(classes, "class"), label));
    }
    set.labels.push_back(label);
  }
  set.classes = classes > 0 ? classes : *std::max_element(set.labels.begin(), set.labels.end()) + 1;
  return set;
}

}  // namespace colonnade::data
