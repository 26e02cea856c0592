#include "engine/safetensors.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/file.h"
#include "nlohmann/json.hpp"

namespace colonnade::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLargestHeader = 100'000'000;
constexpr int kDeepest = 8;

absl::Status Broken(const std::string& what) { return absl::InvalidArgumentError(absl::StrCat("safetensors: ", what)); }

// Stops the parse at a key that its object has already, and at nesting that the format has no use for.
class HeaderGuard {
 public:
  explicit HeaderGuard(std::string* fault) : fault_(fault) {}
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest) Note("the header is nested too deeply");
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      Note(absl::StrCat("key \"", parsed.get<std::string>(), "\" stands twice in the header"));
    }
    return fault_->empty();
  }

 private:
  void Note(const std::string& fault) {
    if (fault_->empty()) *fault_ = fault;
  }
  std::string* fault_;
  std::vector<std::set<std::string>> keys_;
};

struct Entry {
  NamedTensor tensor;
  bool f64 = false;
  uint64_t begin = 0, end = 0;
};

bool IsCount(const Json& value) { return value.is_number_unsigned(); }

// The shape's bytes, or an error where they do not fit into 64 bits.
absl::StatusOr<uint64_t> BytesOf(const std::string& name, const Json& shape, uint64_t element, program::Shape& extents) {
  uint64_t bytes = element;
  for (const Json& extent : shape) {
    if (!IsCount(extent) || extent.get<uint64_t>() > INT64_MAX) {
      return Broken(absl::StrFormat("tensor \"%s\": expected a shape of whole numbers", name));
    }
    extents.push_back(extent.get<int64_t>());
    if (__builtin_mul_overflow(bytes, extent.get<uint64_t>(), &bytes)) {
      return Broken(absl::StrFormat("tensor \"%s\": the product of its shape is too large", name));
    }
  }
  return bytes;
}

absl::StatusOr<Entry> ParseEntry(const std::string& name, const Json& value, uint64_t data_bytes) {
  const bool complete = value.is_object() && value.size() == 3 && value.contains("dtype") && value.contains("shape") &&
                        value.contains("data_offsets") && value["dtype"].is_string() && value["shape"].is_array() &&
                        value["data_offsets"].is_array() && value["data_offsets"].size() == 2 &&
                        IsCount(value["data_offsets"][0]) && IsCount(value["data_offsets"][1]);
  if (!complete) return Broken(absl::StrFormat("tensor \"%s\": expected dtype, shape and two data_offsets alone", name));
  const std::string dtype = value["dtype"].get<std::string>();
  if (dtype != "F32" && dtype != "F64") {
    return Broken(absl::StrFormat("tensor \"%s\": expected dtype F32 or F64, found \"%s\"", name, dtype));
  }
  Entry entry{.tensor = {name, {}, {}}, .f64 = dtype == "F64"};
  absl::StatusOr<uint64_t> bytes = BytesOf(name, value["shape"], entry.f64 ? 8 : 4, entry.tensor.shape);
  if (!bytes.ok()) return bytes.status();
  entry.begin = value["data_offsets"][0].get<uint64_t>();
  entry.end = value["data_offsets"][1].get<uint64_t>();
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return Broken(absl::StrFormat("tensor \"%s\": expected offsets within %d bytes of data, found [%d, %d]", name, data_bytes,
                                  entry.begin, entry.end));
  }
  if (entry.end - entry.begin != *bytes) {
    return Broken(absl::StrFormat("tensor \"%s\": expected %d bytes for its shape, found %d", name, *bytes,
                                  entry.end - entry.begin));
  }
  return entry;
}

absl::StatusOr<std::vector<Entry>> ParseHeader(absl::string_view text, uint64_t data_bytes) {
  if (text.find_first_not_of(' ') == absl::string_view::npos || text[text.find_first_not_of(' ')] != '{') {
    return Broken("expected a header that begins with {");
  }
  std::string fault;
  const Json header = Json::parse(text.begin(), text.end(), HeaderGuard(&fault), /*allow_exceptions=*/false);
  if (!fault.empty()) return Broken(fault);
  if (header.is_discarded() || !header.is_object()) return Broken("the header is not a JSON object");
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      bool texts = value.is_object();
      for (const auto& item : value) texts = texts && item.is_string();
      if (!texts) return Broken("expected __metadata__ to map text to text");
      continue;
    }
    absl::StatusOr<Entry> entry = ParseEntry(name, value, data_bytes);
    if (!entry.ok()) return entry.status();
    entries.push_back(*std::move(entry));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      return Broken(absl::StrFormat("tensor \"%s\": expected its bytes to begin at %d, found %d", entry.tensor.name, at, entry.begin));
    }
    at = entry.end;
  }
  if (at != data_bytes) return Broken(absl::StrFormat("expected %d bytes of data, found %d", at, data_bytes));
  return entries;
}

template <class T>
void Convert(const char* from, std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    values[i] = value;
  }
}

}  // namespace

absl::Status SaveTensors(const std::string& path, absl::Span<const NamedTensor> tensors) {
  Json header = Json::object();
  uint64_t at = 0;
  for (const NamedTensor& tensor : tensors) {
    const uint64_t bytes = tensor.values.size() * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"},
                           {"shape", std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())},
                           {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return ReplaceFile(path, [&](Append append) {
    const uint64_t length = text.size();
    absl::Status s = append(absl::string_view(reinterpret_cast<const char*>(&length), sizeof(length)));
    if (s.ok()) s = append(text);
    for (const NamedTensor& tensor : tensors) {
      const std::vector<float> values(tensor.values.begin(), tensor.values.end());
      if (s.ok()) s = append(absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
    }
    return s;
  });
}

absl::StatusOr<std::vector<NamedTensor>> ParseTensors(absl::string_view bytes) {
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) {
    return Broken(absl::StrFormat("expected at least %d bytes, found %d", sizeof(length), bytes.size()));
  }
  std::memcpy(&length, bytes.data(), sizeof(length));
  bytes.remove_prefix(sizeof(length));
  if (length > kLargestHeader || length > bytes.size()) {
    return Broken(absl::StrFormat("expected a header of at most %d bytes, found a length of %d",
                                  std::min<uint64_t>(kLargestHeader, bytes.size()), length));
  }
  absl::StatusOr<std::vector<Entry>> entries = ParseHeader(bytes.substr(0, length), bytes.size() - length);
  if (!entries.ok()) return entries.status();
  std::vector<NamedTensor> tensors;
  for (Entry& entry : *entries) {
    const char* from = bytes.data() + length + entry.begin;
    entry.tensor.values.resize((entry.end - entry.begin) / (entry.f64 ? 8 : 4));
    entry.f64 ? Convert<double>(from, entry.tensor.values) : Convert<float>(from, entry.tensor.values);
    tensors.push_back(std::move(entry.tensor));
  }
  return tensors;
}

absl::StatusOr<std::vector<NamedTensor>> LoadTensors(const std::string& path) {
  absl::StatusOr<std::string> bytes = ReadFile(path);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<std::vector<NamedTensor>> tensors = ParseTensors(*bytes);
  if (!tensors.ok()) return absl::Status(tensors.status().code(), absl::StrCat(path, ": ", tensors.status().message()));
  return tensors;
}

}  // namespace colonnade::engine
