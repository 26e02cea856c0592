#include "tests/fuzz/targets.h"

#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "cli/command_line/config.h"
#include "data/cifar.h"
#include "data/decode.h"
#include "data/gzip.h"
#include "data/idx.h"
#include "data/image_listing.h"
#include "data/image_records.h"
#include "data/jpeg_index.h"
#include "data/record_io.h"
#include "data/tar_samples.h"
#include "engine/checkpoint.h"
#include "engine/io/safetensors.h"
#include "engine/io/weights.h"
#include "engine/io/xxh3.h"
#include "engine/machine.h"
#include "partition/plan.h"
#include "program/text.h"
#include "program/verify.h"
#include "tests/data/record_writer.h"
#include "tests/data/tar_writer.h"
#include "tools/network_file.h"
#include "tools/rows.h"

namespace colonnade::fuzz {
namespace {

void Expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "expected %s\n", what);
  std::abort();
}

bool Plan(absl::string_view bytes) {
  const absl::StatusOr<partition::Plan> plan = partition::PlanFromJson(bytes);
  if (!plan.ok()) return false;
  const std::string json = partition::PlanToJson(*plan);
  const absl::StatusOr<partition::Plan> again = partition::PlanFromJson(json);
  Expect(again.ok() && partition::PlanToJson(*again) == json, "a plan that is written to be read as the same");
  return true;
}

bool Machine(absl::string_view bytes) {
  const absl::StatusOr<engine::Machine> machine = engine::MachineFromJson(bytes);
  if (!machine.ok()) return false;
  const std::string json = engine::MachineToJson(*machine);
  const absl::StatusOr<engine::Machine> again = engine::MachineFromJson(json);
  Expect(again.ok() && engine::MachineToJson(*again) == json, "a machine that is written to be read as the same");
  return true;
}

bool Rows(absl::string_view bytes) {
  const absl::StatusOr<tools::RowTable> table = tools::RowsFromJson(bytes);
  if (!table.ok()) return false;
  for (const tools::Row& row : table->rows) {
    Expect(!row.name.empty() && row.devices > 0 && row.global_batch > 0 && row.published_step_sec >= 0,
           "rows that can be lowered");
  }
  return true;
}

bool Network(absl::string_view bytes) {
  const absl::StatusOr<tools::Network> network = tools::NetworkFromJson(bytes);
  if (!network.ok()) return false;
  const std::string json = tools::NetworkToJson(*network);
  const absl::StatusOr<tools::Network> again = tools::NetworkFromJson(json);
  Expect(again.ok() && tools::NetworkToJson(*again) == json, "a network that is written to be read as the same");
  return true;
}

bool Program(absl::string_view bytes) {
  const absl::StatusOr<program::Program> parsed = program::Parse(bytes);
  if (!parsed.ok()) return false;
  (void)program::Verify(*parsed);
  const std::string text = program::Print(*parsed);
  const absl::StatusOr<program::Program> again = program::Parse(text);
  Expect(again.ok() && program::Print(*again) == text, "a Program that is printed to be read as the same");
  return true;
}

bool Idx(absl::string_view bytes) {
  bool is_taken = false;
  for (int rank : {1, 3}) is_taken |= data::ParseIdx(bytes, "fuzzed", rank).ok();
  return is_taken;
}

bool Gzip(absl::string_view bytes) {
  constexpr int64_t kMostBytes = 1 << 20;
  (void)data::UnpackStart(bytes, 16);
  (void)data::CheckMayHold(bytes, kMostBytes);
  return data::Unpack(bytes, kMostBytes).ok();
}

// With an index parts are what they are without.
void CheckIndex(absl::string_view bytes, const data::ImageHeader& header) {
  constexpr int kParts = 4;
  const std::optional<data::JpegIndex> index = data::JpegIndex::Of(bytes);
  if (!index) return;
  std::mt19937 random(static_cast<uint32_t>(bytes.size()));
  const auto below = [&random](int64_t count) { return static_cast<int64_t>(random() % count); };
  for (int i = 0; i < kParts; ++i) {
    const int64_t rows = 1 + below(header.height), columns = 1 + below(header.width);
    const data::Box box = {static_cast<double>(below(header.height - rows + 1)),
                           static_cast<double>(below(header.width - columns + 1)), static_cast<double>(rows),
                           static_cast<double>(columns)};
    const int64_t height = 1 + below(rows), width = 1 + below(columns);
    const absl::StatusOr<data::DecodedBox> without = data::DecodeBox(bytes, 3, box, height, width);
    const absl::StatusOr<data::DecodedBox> by_index = data::DecodeBox(bytes, 3, box, height, width, {}, &*index);
    Expect(without.status() == by_index.status(), "a part that is decoded with an index as without");
    Expect(!without.ok() || without->image.pixels == by_index->image.pixels, "the same pixels with an index as without");
  }
}

// As a whole, and the middle of it at a smaller scale.
bool Picture(absl::string_view bytes) {
  const absl::StatusOr<data::ImageHeader> header = data::ReadImageHeader(bytes);
  if (!header.ok()) return false;
  const double height = static_cast<double>(header->height), width = static_cast<double>(header->width);
  const data::Box middle = {height / 4, width / 4, height / 2, width / 2};
  const absl::StatusOr<data::Image> whole = data::DecodeImage(bytes, 3);
  const absl::StatusOr<data::DecodedBox> part = data::DecodeBox(bytes, 1, middle, 1 + header->height / 4, 1);
  if (header->format == data::ImageFormat::kJpeg) CheckIndex(bytes, *header);
  if (!whole.ok()) return false;
  Expect(whole->height == header->height && whole->width == header->width, "an image of the size that its header states");
  Expect(part.ok(), "a part of an image that is decoded as a whole");
  return true;
}

bool Safetensors(absl::string_view bytes) {
  (void)engine::LooksLikeSafetensors(bytes);
  const absl::StatusOr<engine::Metadata> metadata = engine::ViewMetadata(bytes);
  const absl::StatusOr<engine::TensorFile> file_of_any = engine::ViewFile(bytes, engine::Halves::kBecomeFloats);
  if (file_of_any.ok()) {
    (void)engine::CheckFinite(file_of_any->tensors);
    Expect(metadata.ok() && *metadata == file_of_any->metadata, "metadata that are viewed alone to be those of the file");
  }
  const absl::StatusOr<std::vector<engine::TensorView>> tensors = engine::ViewTensors(bytes);
  if (!tensors.ok()) return false;
  (void)engine::CheckFinite(*tensors);
  const absl::StatusOr<std::string> header = engine::SafetensorsHeader(*tensors);
  if (!header.ok()) return true;  // "__metadata__" may not be the name of a tensor that is written
  std::string file = *header;
  for (const engine::TensorView& tensor : *tensors) file.append(tensor.bytes.data(), tensor.bytes.size());
  const auto again = engine::ViewTensors(file);
  Expect(again.ok() && again->size() == tensors->size(), "tensors that are written to be read as the same");
  return true;
}

bool Index(absl::string_view bytes) { return engine::WeightMapFromJson(bytes).ok(); }

// The checksum of a manifest would stop almost all of what a fuzzer makes: it is put right first.
std::string WithItsChecksum(absl::string_view manifest) {
  constexpr char kKey[] = "\"xxh3\": \"", kZeros[] = "0000000000000000";
  std::string text(manifest);
  const size_t key = text.find(kKey), at = key + sizeof(kKey) - 1;
  if (key == std::string::npos || text.size() < at + 16) return text;
  text.replace(at, 16, kZeros);
  return text.replace(at, 16, engine::Xxh3Text(text));
}

bool Manifest(absl::string_view bytes) {
  (void)engine::ManifestFromJson(bytes);
  const absl::StatusOr<engine::Manifest> manifest = engine::ManifestFromJson(WithItsChecksum(bytes));
  if (!manifest.ok()) return false;
  const std::string json = engine::ToJson(*manifest);
  const absl::StatusOr<engine::Manifest> again = engine::ManifestFromJson(json);
  Expect(again.ok() && engine::ToJson(*again) == json, "a manifest that is written to be read as the same");
  return true;
}

bool Cifar(absl::string_view bytes) {
  data::ImageSet set;
  const absl::StatusOr<data::CifarKind> kind = data::KindOfCifar(bytes, "fuzzed");
  const bool is_taken = kind.ok() && data::AppendCifar(bytes, "fuzzed", *kind, set).ok();
  Expect(static_cast<int64_t>(set.pixels.size()) == set.size() * 3 * 32 * 32, "the pixels of every label");
  return is_taken;
}

// The bytes as a file of records, and as the index of one.
bool RecordIo(absl::string_view bytes) {
  (void)data::ParseRecordIndex(bytes, 1000);
  const data::BytesInMemory file(bytes);
  std::string room;
  for (bool skip_damaged : {false, true}) {
    const absl::StatusOr<data::IndexedRecords> records = data::IndexImageRecords(file, std::nullopt, 0, skip_damaged);
    if (!records.ok()) continue;
    for (const data::RecordPlace& place : records->places) {
      const absl::StatusOr<absl::string_view> payload = data::ReadRecord(file, place, room);
      Expect(payload.ok(), "a record that is found to be read");
      const std::string record = data::RecordOf(*payload);
      Expect(data::RecordAt(data::BytesInMemory(record), 0)->payload_bytes == place.payload_bytes,
             "a record that is written to be read as the same");
    }
  }
  return data::ScanRecords(file).ok();
}

// The checksums of headers would stop almost all of what a fuzzer makes: they are put right first.
std::string WithItsChecksums(absl::string_view tar) {
  constexpr size_t kBlock = 512, kMagicAt = 257;
  std::string archive(tar);
  for (size_t header = 0; header + kBlock <= archive.size(); header += kBlock) {
    if (absl::StartsWith(absl::string_view(archive).substr(header + kMagicAt), "ustar")) data::PutChecksum(archive, header);
  }
  return archive;
}

bool Tar(absl::string_view changed) {
  (void)data::ScanTar(data::BytesInMemory(changed));
  const std::string bytes = WithItsChecksums(changed);
  const data::BytesInMemory file(bytes);
  const absl::StatusOr<data::TarIndex> index = data::ScanTar(file);
  if (!index.ok()) return false;
  for (const data::TarMember& member : index->members) {
    Expect(member.size >= 0 && member.offset + member.size <= file.size(), "members within the archive");
  }
  (void)data::SamplesByKey(file, *index, 0);
  for (data::SplitOf split : {data::SplitOf::kTrain, data::SplitOf::kTest})
    (void)data::SamplesByFolder(*index, split, {"a", "b"});
  return true;
}

// Its checksum would stop almost all of what a fuzzer makes: it is put right first.
bool Listing(absl::string_view bytes) {
  const std::string root = "root";
  (void)data::UnpackListing(bytes, root);
  const absl::string_view fields = bytes.substr(std::min<size_t>(bytes.size(), 8));
  const auto sum = static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(fields.data()), fields.size()));
  const std::optional<data::ImageListing> listing =
      data::UnpackListing(absl::StrFormat("%08x", sum) + std::string(fields), root);
  if (!listing.has_value()) return false;
  for (size_t file = 0; file < listing->files.size(); ++file) (void)listing->PathOf(static_cast<int64_t>(file));
  const std::string packed = data::PackListing(*listing, root);
  const std::optional<data::ImageListing> again = data::UnpackListing(packed, root);
  Expect(again.has_value() && data::PackListing(*again, root) == packed, "a listing that is kept to be read as the same");
  return true;
}

// A command with a flag of each kind, which takes what a config file says.
struct Command {
  CLI::App app;
  CLI::App* train = app.add_subcommand("train");
  std::string model, file;
  int64_t batch = 0;
  std::vector<double> mean;

  Command() {
    train->add_option("--model", model);
    train->add_option("--batch", batch)->check(CLI::PositiveNumber);
    train->add_option("--mean", mean)->delimiter(',');
    train->add_flag("--overlap");
    app.add_subcommand("simulate")->add_option("--devices", batch);
    for (CLI::App* command : app.get_subcommands({})) cli::AddConfigFlag(*command, file);
  }

  // What a config file holds to run it again; nothing where it is refused.
  std::string Parse(const std::string& text) {
    const absl::StatusOr<cli::ConfiguredWords> more = cli::ConfigWords(text, "fuzzed", {"train"}, app);
    if (!more.ok()) return "";
    std::vector<std::string> words(more->words.rbegin(), more->words.rend());  // as CLI11 takes them: the last one first
    words.push_back("train");
    try {
      app.parse(words);
    } catch (const CLI::ParseError&) {
      return "";
    }
    return cli::ConfigText(cli::ResolvedFlags(*train));
  }
};

bool Config(absl::string_view bytes) {
  Command first, again;
  const std::string resolved = first.Parse(std::string(bytes));
  if (resolved.empty()) return false;
  if (absl::StartsWith(resolved, "{")) return true;
  Expect(again.Parse(resolved) == resolved && again.model == first.model && again.batch == first.batch &&
             again.mean == first.mean,
         "a configuration that is printed to be read as the same");
  return true;
}

}  // namespace

const std::vector<Target>& AllTargets() {
  static const auto* targets = new std::vector<Target>{{"plan", Plan},          {"machine", Machine},
                                                       {"program", Program},    {"idx", Idx},
                                                       {"gzip", Gzip},          {"safetensors", Safetensors},
                                                       {"index", Index},        {"manifest", Manifest},
                                                       {"config", Config},      {"jpeg", Picture},
                                                       {"png", Picture},        {"cifar", Cifar},
                                                       {"record_io", RecordIo}, {"tar", Tar},
                                                       {"listing", Listing},    {"rows", Rows},
                                                       {"network", Network}};
  return *targets;
}

}  // namespace colonnade::fuzz
