// Tensors in a file of the safetensors format: u64 header length, a JSON header, then the tensors' bytes without holes.
//
// Files written here carry a checksum in their metadata, "colonnade_crc32": the CRC-32 (zlib's) in eight hexadecimal digits
// of, for each text of Metadata in the order of the keys, its key, "=" and the text, and, for each tensor in the order of
// the bytes, its name, a space, its dtype, its shape as "[2,3]" and its bytes. It is checked where it stands; files without
// it are read as they are.
#ifndef COLONNADE_ENGINE_SAFETENSORS_H_
#define COLONNADE_ENGINE_SAFETENSORS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/state.h"

namespace colonnade::engine {

// Texts that a file states beside its tensors, by keys that begin with "colonnade_". Texts of other programs are not read.
using Metadata = std::map<std::string, std::string>;

// Returns what stands before the bytes of `tensors` in a file, with their checksum. InvalidArgument that names the tensor
// where two have one name, a name is not UTF-8, or shape and number of bytes differ; or where a text is not UTF-8.
absl::StatusOr<std::string> SafetensorsHeader(absl::Span<const TensorView> tensors, const Metadata& metadata = {});

struct TensorFile {
  std::vector<TensorView> tensors;
  Metadata metadata;
  std::vector<std::shared_ptr<const std::vector<float>>> widened;  // what the views of F16 and BF16 tensors show
};
// What becomes of F16 and BF16 tensors; every one of their numbers is a float, too.
enum class Halves { kAreRefused, kBecomeFloats };
// What becomes of the checksum that a file states: a reader with sums of its own need not check it.
enum class StatedChecksum { kIsChecked, kIsIgnored };
// Returns the F32 and F64 tensors of a file, whose contents are `bytes`, in the order of their bytes, which are not copied,
// and its metadata without the checksum. Counters of batches are left out. InvalidArgument with tensor, expected and found
// where the file breaks a rule of the format (header length, JSON, duplicate or unknown keys, offsets that overlap or leave
// a hole, sizes that do not fit shapes) or its checksum, where it is checked, is not the one that it states. MapWeights
// (engine/io/weights.h) reads files.
absl::StatusOr<TensorFile> ViewFile(absl::string_view bytes, Halves halves = Halves::kAreRefused,
                                    StatedChecksum checksum = StatedChecksum::kIsChecked);
absl::StatusOr<std::vector<TensorView>> ViewTensors(absl::string_view bytes);  // those of ViewFile
// Returns the metadata of ViewFile by looking at the header alone, so that damaged tensors are not noticed.
absl::StatusOr<Metadata> ViewMetadata(absl::string_view bytes);
// Whether `bytes` begin as such a file does, and as no text does: with the length of a header, and a header.
bool LooksLikeSafetensors(absl::string_view bytes);

// Whether a tensor of that name is the counter that PyTorch keeps with a batch normalisation, an I64 that nothing here
// needs.
bool IsBatchCounter(absl::string_view name);

// Replaces `path` by the tensors, each in its own type, in the order given. InvalidArgument as SafetensorsHeader's, with
// nothing written. REQUIRES: keys of `metadata` as above, none of them the checksum's.
absl::Status SaveTensors(const std::string& path, absl::Span<const TensorView> tensors, const Metadata& metadata = {});
// Does the same, with all values as F32.
absl::Status SaveTensors(const std::string& path, absl::Span<const NamedTensor> tensors);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SAFETENSORS_H_
