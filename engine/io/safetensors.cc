#include "engine/io/safetensors.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_files.h"
#include "base/quoted.h"
#include "base/status_macros.h"
#include "engine/io/file.h"
#include "nlohmann/json.hpp"
#include "program/formulas/bfloat16.h"

namespace colonnade::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLargestHeader = 100'000'000;
constexpr char kMetadata[] = "__metadata__", kOwnKeys[] = "colonnade_", kChecksum[] = "colonnade_crc32";
constexpr char kNoText[] = "expected __metadata__ to map text to text";
constexpr char kIncomplete[] = "tensor %s: expected dtype, shape and two data_offsets alone";

absl::Status Broken(const std::string& what) { return absl::InvalidArgumentError(absl::StrCat("safetensors: ", what)); }

struct Entry {
  TensorView tensor;  // without bytes until all of the header is known to be good
  std::string dtype;
  uint64_t offsets[2] = {};
  int offset_count = 0;
  bool has_dtype = false, has_shape = false, has_offsets = false, too_large = false;

  bool is_counter() const { return dtype == "I64" && IsBatchCounter(tensor.name); }
  bool is_half() const { return dtype == "F16" || dtype == "BF16"; }
  bool is_number() const { return is_half() || dtype == "F32" || dtype == "F64"; }
  uint64_t element_bytes() const { return is_half() ? 2 : dtype == "F32" ? 4 : 8; }
  uint64_t begin() const { return offsets[0]; }
  uint64_t end() const { return offsets[1]; }
};

class Checksum {
 public:
  explicit Checksum(const Metadata& metadata) {
    for (const auto& [key, text] : metadata) Add({key, "=", text});
  }
  // What the bytes of a tensor are taken for goes into the checksum, too.
  void AddTensor(absl::string_view name, absl::string_view dtype, const program::Shape& shape, absl::string_view bytes) {
    Add({name, absl::StrCat(" ", dtype, program::ToString(shape)), bytes});
  }
  std::string digits() const { return absl::StrFormat("%08x", sum_); }

 private:
  void Add(std::initializer_list<absl::string_view> parts) {
    for (absl::string_view part : parts) {
      if (part.empty()) continue;  // zlib takes null for a new beginning
      sum_ = static_cast<uint32_t>(::crc32_z(sum_, reinterpret_cast<const Bytef*>(part.data()), part.size()));
    }
  }

  uint32_t sum_ = 0;
};

// A name that stands twice among `names`, or null.
const absl::string_view* FindTwice(const std::vector<absl::string_view>& names) {
  absl::flat_hash_set<absl::string_view> seen;
  seen.reserve(names.size());
  for (const absl::string_view& name : names) {
    if (!seen.insert(name).second) return &name;
  }
  return nullptr;
}

// Checks the type, and shape and offsets against the bytes of data that the file has.
absl::Status CheckEntry(const Entry& entry, uint64_t data_bytes, Halves halves) {
  auto broken = [&entry](const std::string& what) {
    return Broken(absl::StrFormat("tensor %s: %s", base::Quoted(entry.tensor.name), what));
  };
  const bool takes_halves = halves == Halves::kBecomeFloats;
  if (!entry.is_counter() && (!entry.is_number() || (entry.is_half() && !takes_halves))) {
    return broken(absl::StrFormat("expected dtype %s, found %s", takes_halves ? "F32, F64, F16 or BF16" : "F32 or F64",
                                  base::Quoted(entry.dtype)));
  }
  uint64_t bytes = entry.element_bytes();
  bool fits = !entry.too_large;
  for (int64_t extent : entry.tensor.shape) {
    fits = fits && !__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes);
  }
  if (!fits) return broken("the product of its shape is too large");
  if (entry.begin() > entry.end() || entry.end() > data_bytes) {
    return broken(
        absl::StrFormat("expected offsets within %d bytes of data, found [%d, %d]", data_bytes, entry.begin(), entry.end()));
  }
  if (entry.end() - entry.begin() != bytes) {
    return broken(absl::StrFormat("expected %d bytes for its shape, found %d", bytes, entry.end() - entry.begin()));
  }
  return absl::OkStatus();
}

// Takes the header apart while it is parsed: of a hostile one nothing is kept, and the first fault ends the parse.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(uint64_t data_bytes, Halves halves) : data_bytes_(data_bytes), halves_(halves) {}

  const absl::Status& fault() const { return fault_; }
  std::vector<Entry>& entries() { return entries_; }
  const std::optional<std::string>& checksum() const { return checksum_; }
  Metadata& metadata() { return metadata_; }

  bool null() override { return Unexpected(); }
  bool boolean(bool) override { return Unexpected(); }
  bool number_integer(number_integer_t) override { return Unexpected(); }
  bool number_float(number_float_t, const string_t&) override { return Unexpected(); }
  bool binary(binary_t&) override { return Unexpected(); }

  bool number_unsigned(number_unsigned_t value) override {
    if (in_ == In::kShape) {
      Entry& entry = entries_.back();
      entry.too_large |= value > INT64_MAX;
      entry.tensor.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (in_ != In::kOffsets || entries_.back().offset_count == 2) return Unexpected();
    entries_.back().offsets[entries_.back().offset_count++] = value;
    return true;
  }
  bool string(string_t& value) override {
    if (in_ == In::kMetadata) {
      if (key_ == kChecksum) {
        checksum_ = std::move(value);
      } else if (absl::StartsWith(key_, kOwnKeys)) {
        metadata_.emplace(key_, std::move(value));
      }
      return true;
    }
    if (in_ != In::kTensor || key_ != "dtype") return Unexpected();
    entries_.back().dtype = std::move(value);
    return true;
  }

  bool key(string_t& key) override {
    key_ = std::move(key);
    if (in_ == In::kMetadata) metadata_keys_.push_back(key_);
    if (in_ != In::kTensor) return true;
    Entry& entry = entries_.back();
    bool* has = key_ == "dtype"          ? &entry.has_dtype
                : key_ == "shape"        ? &entry.has_shape
                : key_ == "data_offsets" ? &entry.has_offsets
                                         : nullptr;
    if (has == nullptr) return Unexpected();
    if (*has) return Fail(absl::StrFormat("tensor %s: key \"%s\" stands twice", base::Quoted(entry.tensor.name), key_));
    *has = true;
    return true;
  }

  bool start_object(std::size_t) override {
    if (in_ == In::kNothing) return Enter(In::kTop);
    if (in_ != In::kTop) return Unexpected();
    if (key_ != kMetadata) {
      entries_.emplace_back().tensor.name = key_;
      return Enter(In::kTensor);
    }
    if (has_metadata_) return Fail("key \"__metadata__\" stands twice in the header");
    has_metadata_ = true;
    return Enter(In::kMetadata);
  }
  bool end_object() override {
    if (in_ == In::kTop) return CheckNames();
    if (in_ == In::kTensor) {
      const Entry& entry = entries_.back();
      if (!entry.has_dtype || !entry.has_shape || entry.offset_count != 2) return Unexpected();
      fault_ = CheckEntry(entry, data_bytes_, halves_);
    }
    return Enter(In::kTop);
  }
  bool start_array(std::size_t) override {
    if (in_ != In::kTensor || key_ == "dtype") return Unexpected();
    return Enter(key_ == "shape" ? In::kShape : In::kOffsets);
  }
  bool end_array() override { return Enter(In::kTensor); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    return Fail(absl::StrFormat("the header is not JSON at its byte %d", at));
  }

 private:
  enum class In { kNothing, kTop, kTensor, kShape, kOffsets, kMetadata };

  bool Enter(In in) {
    in_ = in;
    return fault_.ok();
  }
  bool Fail(const std::string& what) {
    fault_ = Broken(what);
    return false;
  }
  // What stands here has no place in the format.
  bool Unexpected() {
    switch (in_) {
      case In::kNothing:
        return Fail("expected a header that is a JSON object");
      case In::kMetadata:
        return Fail(kNoText);
      case In::kShape:
        return Fail(
            absl::StrFormat("tensor %s: expected a shape of whole numbers", base::Quoted(entries_.back().tensor.name)));
      case In::kTop:
        return key_ == kMetadata ? Fail(kNoText) : Fail(absl::StrFormat(kIncomplete, base::Quoted(key_)));
      case In::kTensor:
      case In::kOffsets:
        break;
    }
    return Fail(absl::StrFormat(kIncomplete, base::Quoted(entries_.back().tensor.name)));
  }
  bool CheckNames() {
    std::vector<absl::string_view> names, keys(metadata_keys_.begin(), metadata_keys_.end());
    names.reserve(entries_.size());
    for (const Entry& entry : entries_) names.push_back(entry.tensor.name);
    for (const std::vector<absl::string_view>* list : {&names, &keys}) {
      const absl::string_view* twice = FindTwice(*list);
      if (twice != nullptr) return Fail(absl::StrFormat("key %s stands twice in the header", base::Quoted(*twice)));
    }
    return true;
  }

  const uint64_t data_bytes_;
  const Halves halves_;
  absl::Status fault_;
  std::vector<Entry> entries_;
  std::vector<std::string> metadata_keys_;
  Metadata metadata_;
  std::optional<std::string> checksum_;
  bool has_metadata_ = false;
  In in_ = In::kNothing;
  std::string key_;
};

struct Header {
  std::vector<Entry> entries;  // in the order of their bytes
  Metadata metadata;
  std::optional<std::string> checksum;  // as the file states it
};

absl::StatusOr<Header> ParseHeader(absl::string_view text, uint64_t data_bytes, Halves halves) {
  const size_t first = text.find_first_not_of(' ');
  if (first == absl::string_view::npos || text[first] != '{') return Broken("expected a header that begins with {");
  HeaderReader reader(data_bytes, halves);
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  if (!reader.fault().ok()) return reader.fault();
  if (!parsed) return Broken("the header is not JSON");
  std::vector<Entry>& entries = reader.entries();
  auto before = [](const Entry& a, const Entry& b) {
    return a.begin() != b.begin() ? a.begin() < b.begin() : a.end() < b.end();
  };
  if (!std::is_sorted(entries.begin(), entries.end(), before)) std::stable_sort(entries.begin(), entries.end(), before);
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin() != at) {
      return Broken(absl::StrFormat("tensor %s: expected its bytes to begin at %d, found %d",
                                    base::Quoted(entry.tensor.name), at, entry.begin()));
    }
    at = entry.end();
  }
  if (at != data_bytes) return Broken(absl::StrFormat("expected %d bytes of data, found %d", at, data_bytes));
  return Header{std::move(entries), std::move(reader.metadata()), reader.checksum()};
}

// Checks that tensors and metadata are what they were when they were written; a file by another hand need not say.
absl::Status CheckSum(const Header& header, absl::string_view data) {
  if (!header.checksum.has_value()) return absl::OkStatus();
  Checksum sum(header.metadata);
  for (const Entry& entry : header.entries) {
    sum.AddTensor(entry.tensor.name, entry.dtype, entry.tensor.shape,
                  data.substr(entry.begin(), entry.end() - entry.begin()));
  }
  const std::string found = sum.digits();
  if (found == *header.checksum) return absl::OkStatus();
  return Broken(absl::StrFormat("expected tensors of checksum %s, as %s says, found %s: the file is damaged",
                                base::Quoted(*header.checksum), kChecksum, found));
}

// An F16 is a sign, five bits of an exponent (bias 15) and ten of a fraction.
float FloatOfHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float size = 0;
  if (exponent == 31) {
    size = fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else {
    size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                         : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -size : size;
}

float FloatOfBFloat16(uint16_t bits) {
  program::BFloat16 number;
  number.bits = bits;
  return number;
}

std::vector<float> Widen(absl::string_view halves, float (*widen)(uint16_t bits)) {
  std::vector<float> floats;
  floats.reserve(halves.size() / sizeof(uint16_t));
  for (size_t at = 0; at < halves.size(); at += sizeof(uint16_t)) {
    uint16_t bits = 0;
    std::memcpy(&bits, halves.data() + at, sizeof(bits));
    floats.push_back(widen(bits));
  }
  return floats;
}

std::vector<float> AsFloats(const NamedTensor& tensor) { return {tensor.values.begin(), tensor.values.end()}; }

const char* DtypeOf(const TensorView& tensor) { return tensor.dtype == program::DType::kF64 ? "F64" : "F32"; }

absl::string_view BytesOf(const TensorView& tensor) { return {tensor.bytes.data(), tensor.bytes.size()}; }

// What the format cannot hold.
absl::Status CheckStated(absl::Span<const TensorView> tensors) {
  std::vector<absl::string_view> names;
  for (const TensorView& tensor : tensors) {
    const std::string name = base::Quoted(tensor.name);
    if (tensor.name == kMetadata) return Broken(absl::StrCat(name, " cannot be the name of a tensor"));
    const int64_t expected = program::ElementCount(tensor.shape) * program::SizeInBytes(tensor.dtype);
    if (static_cast<int64_t>(tensor.bytes.size()) != expected) {
      return Broken(absl::StrFormat("tensor %s: expected %d bytes, as shape %s has, found %d", name, expected,
                                    program::ToString(tensor.shape), tensor.bytes.size()));
    }
    names.push_back(tensor.name);
  }
  const absl::string_view* twice = FindTwice(names);
  return twice == nullptr ? absl::OkStatus() : Broken(absl::StrFormat("two tensors are named %s", base::Quoted(*twice)));
}

struct Parsed {
  Header header;
  absl::string_view data;
};

constexpr size_t kMostOfAJson = 4096;  // where writers and people put what a file is

// What to say of files that people have in place of weights in safetensors, whose first bytes are no length of a header
// that is there. REQUIRES: there are eight, which say `length`.
std::string OtherFormat(absl::string_view bytes, uint64_t length) {
  const auto said = [](const char* is, const char* by) {
    return absl::StrFormat("; it looks like %s: save the tensors by %s", is, by);
  };
  if (absl::StartsWith(bytes, "PK\x03\x04")) return said("a file of torch.save", "safetensors.torch.save_file");
  if (absl::StartsWith(bytes, "\x89HDF")) return said("an HDF5 file of Keras", "safetensors.numpy.save_file");
  const bool is_pickle = length > kLargestHeader && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;  // its protocol
  if (is_pickle) return said("a pickle, such as of torch.save", "safetensors.torch.save_file");
  const std::string kind = base::KindOfJson(bytes.substr(0, kMostOfAJson));
  return kind.empty() ? "" : absl::StrCat("; it looks like ", kind);
}

absl::StatusOr<Parsed> Parse(absl::string_view bytes, Halves halves) {
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) {
    return Broken(absl::StrFormat("expected at least %d bytes, found %d", sizeof(length), bytes.size()));
  }
  std::memcpy(&length, bytes.data(), sizeof(length));
  const absl::string_view rest = bytes.substr(sizeof(length));
  if (length > kLargestHeader || length > rest.size()) {
    return Broken(absl::StrFormat("expected a header of at most %d bytes, found a length of %d%s",
                                  std::min<uint64_t>(kLargestHeader, rest.size()), length, OtherFormat(bytes, length)));
  }
  Parsed parsed{.data = rest.substr(length)};
  ASSIGN_OR_RETURN(parsed.header, ParseHeader(rest.substr(0, length), parsed.data.size(), halves));
  return parsed;
}

}  // namespace

bool IsBatchCounter(absl::string_view name) { return absl::EndsWith(name, "num_batches_tracked"); }

// The length of the header's JSON, then that, filled up with spaces to a multiple of 8 bytes.
absl::StatusOr<std::string> SafetensorsHeader(absl::Span<const TensorView> tensors, const Metadata& metadata) {
  RETURN_IF_ERROR(CheckStated(tensors));
  Checksum sum(metadata);
  for (const TensorView& tensor : tensors) sum.AddTensor(tensor.name, DtypeOf(tensor), tensor.shape, BytesOf(tensor));
  Json header = {{kMetadata, metadata}};
  header[kMetadata][kChecksum] = sum.digits();
  uint64_t at = 0;
  for (const TensorView& tensor : tensors) {
    const uint64_t end = at + tensor.bytes.size();
    header[tensor.name] = {{"dtype", DtypeOf(tensor)},
                           {"shape", std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())},
                           {"data_offsets", {at, end}}};
    at = end;
  }
  try {
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    const uint64_t length = text.size();
    return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&length), sizeof(length)), text);
  } catch (const Json::exception&) {
    return Broken("the name of a tensor, or a text of the metadata, is not UTF-8");
  }
}

absl::StatusOr<TensorFile> ViewFile(absl::string_view bytes, Halves halves, StatedChecksum checksum) {
  ASSIGN_OR_RETURN(Parsed parsed, Parse(bytes, halves));
  if (checksum == StatedChecksum::kIsChecked) RETURN_IF_ERROR(CheckSum(parsed.header, parsed.data));
  TensorFile file{.tensors = {}, .metadata = std::move(parsed.header.metadata)};
  file.tensors.reserve(parsed.header.entries.size());
  for (Entry& entry : parsed.header.entries) {
    if (entry.is_counter()) continue;
    TensorView& tensor = file.tensors.emplace_back(std::move(entry.tensor));
    tensor.dtype = entry.dtype == "F64" ? program::DType::kF64 : program::DType::kF32;
    const absl::string_view stored = parsed.data.substr(entry.begin(), entry.end() - entry.begin());
    tensor.bytes = stored;
    if (entry.is_half()) {
      const std::vector<float>& floats = *file.widened.emplace_back(
          std::make_shared<const std::vector<float>>(Widen(stored, entry.dtype == "F16" ? FloatOfHalf : FloatOfBFloat16)));
      tensor.bytes = {reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float)};
    }
  }
  return file;
}

absl::StatusOr<std::vector<TensorView>> ViewTensors(absl::string_view bytes) {
  ASSIGN_OR_RETURN(TensorFile file, ViewFile(bytes));
  return std::move(file.tensors);
}

absl::StatusOr<Metadata> ViewMetadata(absl::string_view bytes) {
  ASSIGN_OR_RETURN(Parsed parsed, Parse(bytes, Halves::kBecomeFloats));
  return std::move(parsed.header.metadata);
}

bool LooksLikeSafetensors(absl::string_view bytes) {
  const size_t header = sizeof(uint64_t);
  return bytes.size() > header && bytes[header - 1] == '\0' && bytes[header] == '{';
}

absl::Status SaveTensors(const std::string& path, absl::Span<const TensorView> tensors, const Metadata& metadata) {
  ASSIGN_OR_RETURN(std::string header, SafetensorsHeader(tensors, metadata));
  return ReplaceFile(path, [&](Append append) {
    absl::Status s = append(header);
    for (const TensorView& tensor : tensors) {
      if (s.ok()) s = append(BytesOf(tensor));
    }
    return s;
  });
}

absl::Status SaveTensors(const std::string& path, absl::Span<const NamedTensor> tensors) {
  std::vector<std::vector<float>> values;
  std::vector<TensorView> views;
  for (const NamedTensor& tensor : tensors) {
    const std::vector<float>& floats = values.emplace_back(AsFloats(tensor));
    const auto* bytes = reinterpret_cast<const char*>(floats.data());
    views.push_back({tensor.name, program::DType::kF32, tensor.shape, {bytes, floats.size() * sizeof(float)}});
  }
  return SaveTensors(path, views);
}

}  // namespace colonnade::engine
