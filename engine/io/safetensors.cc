#include "engine/io/safetensors.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/io/file.h"
#include "engine/io/mapped_file.h"
#include "nlohmann/json.hpp"
#include "program/status_macros.h"

namespace colonnade::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLargestHeader = 100'000'000;
constexpr char kMetadata[] = "__metadata__", kChecksum[] = "colonnade_crc32";
constexpr char kNoText[] = "expected __metadata__ to map text to text";
constexpr char kIncomplete[] = "tensor %s: expected dtype, shape and two data_offsets alone";

absl::Status Broken(const std::string& what) { return absl::InvalidArgumentError(absl::StrCat("safetensors: ", what)); }

// A name from a file, fit to be printed.
std::string Quoted(absl::string_view name) { return absl::StrCat("\"", absl::Utf8SafeCEscape(name), "\""); }

struct Entry {
  NamedTensor tensor;
  std::string dtype;
  uint64_t offsets[2] = {};
  int offset_count = 0;
  bool has_dtype = false, has_shape = false, has_offsets = false, too_large = false;

  bool f64() const { return dtype == "F64"; }
  uint64_t begin() const { return offsets[0]; }
  uint64_t end() const { return offsets[1]; }
};

// What the bytes of a tensor are taken for goes into the checksum, too.
uint32_t AddTensor(uint32_t checksum, absl::string_view name, absl::string_view dtype, const program::Shape& shape,
                   absl::string_view bytes) {
  const std::string kind = absl::StrCat(" ", dtype, program::ToString(shape));
  for (absl::string_view part : {name, absl::string_view(kind), bytes}) {
    if (part.empty()) continue;  // zlib takes null for a new beginning
    checksum = static_cast<uint32_t>(::crc32_z(checksum, reinterpret_cast<const Bytef*>(part.data()), part.size()));
  }
  return checksum;
}

// A name that stands twice among `names`, or null.
const absl::string_view* FindTwice(const std::vector<absl::string_view>& names) {
  absl::flat_hash_set<absl::string_view> seen;
  seen.reserve(names.size());
  for (const absl::string_view& name : names) {
    if (!seen.insert(name).second) return &name;
  }
  return nullptr;
}

// Shape and offsets against the bytes of data that the file has.
absl::Status CheckEntry(const Entry& entry, uint64_t data_bytes) {
  auto broken = [&entry](const std::string& what) {
    return Broken(absl::StrFormat("tensor %s: %s", Quoted(entry.tensor.name), what));
  };
  if (entry.dtype != "F32" && entry.dtype != "F64") {
    return broken(absl::StrFormat("expected dtype F32 or F64, found %s", Quoted(entry.dtype)));
  }
  uint64_t bytes = entry.f64() ? 8 : 4;
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
  explicit HeaderReader(uint64_t data_bytes) : data_bytes_(data_bytes) {}

  const absl::Status& fault() const { return fault_; }
  std::vector<Entry>& entries() { return entries_; }
  const std::optional<std::string>& checksum() const { return checksum_; }

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
      if (key_ == kChecksum) checksum_ = std::move(value);
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
    if (*has) return Fail(absl::StrFormat("tensor %s: key \"%s\" stands twice", Quoted(entry.tensor.name), key_));
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
      fault_ = CheckEntry(entry, data_bytes_);
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
        return Fail(absl::StrFormat("tensor %s: expected a shape of whole numbers", Quoted(entries_.back().tensor.name)));
      case In::kTop:
        return key_ == kMetadata ? Fail(kNoText) : Fail(absl::StrFormat(kIncomplete, Quoted(key_)));
      case In::kTensor:
      case In::kOffsets:
        break;
    }
    return Fail(absl::StrFormat(kIncomplete, Quoted(entries_.back().tensor.name)));
  }
  bool CheckNames() {
    std::vector<absl::string_view> names, keys(metadata_keys_.begin(), metadata_keys_.end());
    names.reserve(entries_.size());
    for (const Entry& entry : entries_) names.push_back(entry.tensor.name);
    for (const std::vector<absl::string_view>* list : {&names, &keys}) {
      const absl::string_view* twice = FindTwice(*list);
      if (twice != nullptr) return Fail(absl::StrFormat("key %s stands twice in the header", Quoted(*twice)));
    }
    return true;
  }

  const uint64_t data_bytes_;
  absl::Status fault_;
  std::vector<Entry> entries_;
  std::vector<std::string> metadata_keys_;
  std::optional<std::string> checksum_;
  bool has_metadata_ = false;
  In in_ = In::kNothing;
  std::string key_;
};

struct Header {
  std::vector<Entry> entries;           // in the order of their bytes
  std::optional<std::string> checksum;  // as the file states it
};

absl::StatusOr<Header> ParseHeader(absl::string_view text, uint64_t data_bytes) {
  const size_t first = text.find_first_not_of(' ');
  if (first == absl::string_view::npos || text[first] != '{') return Broken("expected a header that begins with {");
  HeaderReader reader(data_bytes);
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
      return Broken(absl::StrFormat("tensor %s: expected its bytes to begin at %d, found %d", Quoted(entry.tensor.name), at,
                                    entry.begin()));
    }
    at = entry.end();
  }
  if (at != data_bytes) return Broken(absl::StrFormat("expected %d bytes of data, found %d", at, data_bytes));
  return Header{std::move(entries), reader.checksum()};
}

// That the tensors are what they were when they were written; a file by another hand need not say.
absl::Status CheckSum(const Header& header, absl::string_view data) {
  if (!header.checksum.has_value()) return absl::OkStatus();
  uint32_t sum = 0;
  for (const Entry& entry : header.entries) {
    sum = AddTensor(sum, entry.tensor.name, entry.dtype, entry.tensor.shape,
                    data.substr(entry.begin(), entry.end() - entry.begin()));
  }
  const std::string found = absl::StrFormat("%08x", sum);
  if (found == *header.checksum) return absl::OkStatus();
  return Broken(absl::StrFormat("expected tensors of checksum %s, as %s says, found %s: the file is damaged",
                                Quoted(*header.checksum), kChecksum, found));
}

std::vector<float> AsFloats(const NamedTensor& tensor) { return {tensor.values.begin(), tensor.values.end()}; }

absl::string_view BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

template <class T>
void Convert(const char* from, std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    values[i] = value;
  }
}

absl::Status OfFile(const std::string& path, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

// A tensor as a header states it.
struct Stated {
  absl::string_view name;
  program::DType dtype = program::DType::kF32;
  const program::Shape* shape = nullptr;
  int64_t elements = 0;  // that are there
};

// What the format cannot hold.
absl::Status CheckStated(absl::Span<const Stated> tensors) {
  std::vector<absl::string_view> names;
  for (const Stated& tensor : tensors) {
    const std::string name = Quoted(tensor.name);
    if (tensor.name == kMetadata) return Broken(absl::StrCat(name, " cannot be the name of a tensor"));
    if (tensor.elements != program::ElementCount(*tensor.shape)) {
      return Broken(absl::StrFormat("tensor %s: expected as many values as shape %s has, found %d", name,
                                    program::ToString(*tensor.shape), tensor.elements));
    }
    names.push_back(tensor.name);
  }
  const absl::string_view* twice = FindTwice(names);
  return twice == nullptr ? absl::OkStatus() : Broken(absl::StrFormat("two tensors are named %s", Quoted(*twice)));
}

// The length of the header's JSON, then that, filled up with spaces to a multiple of 8 bytes. Without a checksum where
// `checksum` is empty.
absl::StatusOr<std::string> HeaderOf(absl::Span<const Stated> tensors, const std::string& checksum) {
  RETURN_IF_ERROR(CheckStated(tensors));
  Json header = Json::object();
  if (!checksum.empty()) header[kMetadata] = {{kChecksum, checksum}};
  uint64_t at = 0;
  for (const Stated& tensor : tensors) {
    const uint64_t bytes = static_cast<uint64_t>(tensor.elements * program::SizeInBytes(tensor.dtype));
    header[std::string(tensor.name)] = {{"dtype", tensor.dtype == program::DType::kF64 ? "F64" : "F32"},
                                        {"shape", std::vector<int64_t>(tensor.shape->begin(), tensor.shape->end())},
                                        {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  try {
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    const uint64_t length = text.size();
    return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&length), sizeof(length)), text);
  } catch (const Json::exception&) {
    return Broken("the name of a tensor is not UTF-8");
  }
}

struct Parsed {
  Header header;
  absl::string_view data;
};

absl::StatusOr<Parsed> Parse(absl::string_view bytes) {
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) {
    return Broken(absl::StrFormat("expected at least %d bytes, found %d", sizeof(length), bytes.size()));
  }
  std::memcpy(&length, bytes.data(), sizeof(length));
  const absl::string_view rest = bytes.substr(sizeof(length));
  if (length > kLargestHeader || length > rest.size()) {
    return Broken(absl::StrFormat("expected a header of at most %d bytes, found a length of %d",
                                  std::min<uint64_t>(kLargestHeader, rest.size()), length));
  }
  Parsed parsed{.data = rest.substr(length)};
  ASSIGN_OR_RETURN(parsed.header, ParseHeader(rest.substr(0, length), parsed.data.size()));
  return parsed;
}

}  // namespace

absl::StatusOr<std::string> SafetensorsHeader(absl::Span<const TensorView> tensors) {
  std::vector<Stated> stated;
  for (const TensorView& tensor : tensors) {
    stated.push_back({tensor.name, tensor.dtype, &tensor.shape,
                      static_cast<int64_t>(tensor.bytes.size()) / program::SizeInBytes(tensor.dtype)});
  }
  return HeaderOf(stated, "");
}

absl::StatusOr<std::vector<TensorView>> ViewTensors(absl::string_view bytes) {
  ASSIGN_OR_RETURN(Parsed parsed, Parse(bytes));
  std::vector<TensorView> tensors;
  tensors.reserve(parsed.header.entries.size());
  for (Entry& entry : parsed.header.entries) {
    tensors.push_back({std::move(entry.tensor.name), entry.f64() ? program::DType::kF64 : program::DType::kF32,
                       std::move(entry.tensor.shape), parsed.data.substr(entry.begin(), entry.end() - entry.begin())});
  }
  return tensors;
}

absl::Status SaveTensors(const std::string& path, absl::Span<const NamedTensor> tensors) {
  std::vector<Stated> stated;
  uint32_t sum = 0;
  for (const NamedTensor& tensor : tensors) {
    stated.push_back({tensor.name, program::DType::kF32, &tensor.shape, static_cast<int64_t>(tensor.values.size())});
    sum = AddTensor(sum, tensor.name, "F32", tensor.shape, BytesOf(AsFloats(tensor)));
  }
  ASSIGN_OR_RETURN(std::string header, HeaderOf(stated, absl::StrFormat("%08x", sum)));
  return ReplaceFile(path, [&](Append append) {
    absl::Status s = append(header);
    for (const NamedTensor& tensor : tensors) {
      if (s.ok()) s = append(BytesOf(AsFloats(tensor)));
    }
    return s;
  });
}

absl::StatusOr<std::vector<NamedTensor>> ParseTensors(absl::string_view bytes) {
  ASSIGN_OR_RETURN(Parsed parsed, Parse(bytes));
  RETURN_IF_ERROR(CheckSum(parsed.header, parsed.data));
  std::vector<NamedTensor> tensors;
  tensors.reserve(parsed.header.entries.size());
  for (Entry& entry : parsed.header.entries) {
    const char* from = parsed.data.data() + entry.begin();
    entry.tensor.values.resize((entry.end() - entry.begin()) / (entry.f64() ? 8 : 4));
    entry.f64() ? Convert<double>(from, entry.tensor.values) : Convert<float>(from, entry.tensor.values);
    tensors.push_back(std::move(entry.tensor));
  }
  return tensors;
}

absl::StatusOr<std::vector<NamedTensor>> LoadTensors(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  absl::StatusOr<std::vector<NamedTensor>> tensors = ParseTensors(file.bytes());
  if (!tensors.ok()) return OfFile(path, tensors.status());
  return tensors;
}

absl::StatusOr<std::vector<NamedTensor>> LoadWeights(const std::string& path) {
  ASSIGN_OR_RETURN(std::vector<NamedTensor> weights, LoadTensors(path));
  RETURN_IF_ERROR(OfFile(path, CheckFinite(weights)));
  return weights;
}

}  // namespace colonnade::engine
