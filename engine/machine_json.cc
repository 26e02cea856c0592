// Profiles as JSON: a reader for each part of a file, what must hold of the whole, and a writer for each part. They stand in
// one file since what is read, what is checked and what is written of a field change together.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/json_files.h"
#include "base/json_text.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "engine/json_fields.h"
#include "engine/machine.h"
#include "engine/machine_quantities.h"
#include "engine/simulator/routes.h"
#include "nlohmann/json.hpp"

namespace colonnade::engine {
namespace {

using Json = nlohmann::ordered_json;  // written
using Read = JsonFields::Json;

constexpr char kVersionField[] = "colonnade_machine";
constexpr const char* kDuplexes[] = {"full", "half", "one-way"};
constexpr const char* kUnits[] = {"flops_per_sec", "bytes_per_sec"};

constexpr int kMostSteps = 16, kMostLinks = 1 << 15, kDeepest = 8;

// Faster than any one device or link known in 2026: a unit is probably wrong by 1000.
constexpr double kFastestFlops = 1e16, kFastestMemory = 5e13, kFastestLink = 2e12;
// Slower than any in use.
constexpr double kSlowestFlops = 1e8, kSlowestMemory = 1e7, kSlowestLink = 1e6;

// The lower bounds are 1 because a calibration may measure an op that does next to nothing.
constexpr Bounds kOpFlopRates{1, kFlopRates.most, "flop/s"};
constexpr Bounds kOpMemoryRates{1, kMemoryRates.most, "byte/s"};
constexpr Bounds kDelays{0, 10, "s"};  // of a link
constexpr Bounds kTransferTimes{1e-12, 1e5, "s"};
constexpr Bounds kExtents{1, 1e9, ""};
constexpr Bounds kCurveFactors{1e-6, 1e6, ""};

// {"value", "from", "source", "within"}.
void Take(JsonFields& parent, const char* name, Quantity& quantity, Bounds bounds, absl::Status& status,
          bool needed = false) {
  const Read* value = needed ? parent.Need(name) : parent.Find(name);
  if (value == nullptr) return;
  JsonFields fields(*value, parent.Path(name), status);
  fields.Number("value", quantity.value, true, bounds);
  fields.Choice("from", kOriginNames, quantity.origin, true);
  fields.Text("source", quantity.source);
  fields.Number("within", quantity.within, false, kFactors);
  fields.Finish();
}

void ReadQuantity(JsonFields& fields, const MachineQuantity& row, Machine& machine, absl::Status& status) {
  Quantity& quantity = machine.*row.quantity;
  Take(fields, row.field, quantity, row.bounds, status, row.is_needed);
  if (row.is_whole && quantity.value != std::floor(quantity.value)) {
    fields.Fail(absl::StrCat(row.field, ".value"), "a whole number", quantity.value);
  }
}

// Pairs of numbers within `first` and `second`, the first ones all different.
void ReadPairs(JsonFields& fields, const char* name, const char* what, Bounds first, Bounds second,
               std::vector<std::pair<double, double>>& pairs) {
  std::set<double> known;
  fields.Each(name, false, [&](const Read& pair, const std::string& path) {
    const auto is_within = [](const Read& number, Bounds bounds) {
      return number.is_number() && number.get<double>() >= bounds.least && number.get<double>() <= bounds.most;
    };
    const bool good = pair.is_array() && pair.size() == 2 && is_within(pair[0], first) && is_within(pair[1], second);
    const std::string element = path.substr(path.rfind(name));
    if (!good) return fields.Fail(element, what, pair);
    if (!known.insert(pair[0].get<double>()).second)
      return fields.Fail(absl::StrCat(element, "[0]"), "a number that stands once", pair[0]);
    pairs.emplace_back(pair[0].get<double>(), pair[1].get<double>());
  });
  std::sort(pairs.begin(), pairs.end());
}

auto PlaceOf(const OpRate::Point& p) {
  return std::tuple(p.shape.n, p.shape.c, p.shape.k, p.shape.r, p.shape.p, p.shape.groups, p.devices);
}

OpRate::Point ReadPoint(const Read& json, const std::string& path, Bounds rates, absl::Status& status) {
  OpRate::Point point;
  JsonFields fields(json, path, status);
  fields.Count("n", point.shape.n, false, kExtents);
  fields.Count("c", point.shape.c, false, kExtents);
  fields.Count("k", point.shape.k, false, kExtents);
  fields.Number("r", point.shape.r, false, kExtents);
  fields.Number("p", point.shape.p, false, kExtents);
  fields.Count("groups", point.shape.groups, false, kExtents);
  fields.Count("devices", point.devices, false, {0, program::kMostDevices});
  fields.Number("rate", point.rate, true, rates);
  fields.Finish();
  return point;
}

OpRate ReadOp(const Read& json, const std::string& path, absl::Status& status) {
  OpRate op;
  JsonFields fields(json, path, status);
  fields.Word("op", OpNames(), op.op);
  fields.Choice("unit", kUnits, op.unit, true);
  fields.Choice("from", kOriginNames, op.origin, true);
  fields.Text("source", op.source);
  fields.Number("within", op.within, false, kFactors);
  ReadPairs(fields, "batch_curve", "a pair [local batch from 1, factor from 1e-06 to 1e+06]", kExtents, kCurveFactors,
            op.batch_curve);
  fields.Number("batch_curve_within", op.batch_curve_within, false, kFactors);
  std::set<decltype(PlaceOf(OpRate::Point()))> places;
  fields.Each("points", true, [&](const Read& json_point, const std::string& where) {
    const OpRate::Point point =
        ReadPoint(json_point, where, op.unit == OpRate::Unit::kFlops ? kOpFlopRates : kOpMemoryRates, status);
    if (!places.insert(PlaceOf(point)).second && status.ok()) {
      status = absl::InvalidArgumentError(
          absl::StrCat(where, ": expected one rate for each shape and number of devices, found a second one"));
    }
    op.points.push_back(point);
  });
  fields.Finish();
  if (status.ok() && op.points.empty())
    status = absl::InvalidArgumentError(absl::StrCat(path, ".points: expected at least one point, found none"));
  return op;
}

// "node" of "node12", and 12; nothing where no number ends the name.
std::optional<std::pair<std::string, int>> Numbered(const std::string& name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  int number = 0;
  if (digits == name.size() || !absl::SimpleAtoi(name.substr(digits), &number)) return std::nullopt;
  return std::pair(name.substr(0, digits), number);
}

// Links as a file has them. With "each": n a line stands for one from every node that is `a` and a number: of the numbers
// below n to b0, of the next n to b1 and so on.
struct LinkLine {
  Link link;
  int each = 0;  // 0: it is one link
  std::string path;
};

LinkLine ReadLink(const Read& json, const std::string& path, absl::Status& status) {
  LinkLine line{.path = path};
  Link& link = line.link;
  JsonFields fields(json, path, status);
  fields.Text("a", link.a, true);
  fields.Text("b", link.b, true);
  fields.Count("each", line.each, false, {1, program::kMostDevices});
  Take(fields, "bytes_per_sec", link.bytes_per_sec, kLinkRates, status, true);
  Take(fields, "latency_sec", link.latency_sec, kDelays, status);
  Take(fields, "one_transfer_bytes_per_sec", link.one_transfer_bytes_per_sec, kLinkRates, status);
  fields.Choice("duplex", kDuplexes, link.duplex);
  fields.Finish();
  return line;
}

using NodeNumbers = std::map<std::string, std::set<int>>;  // of the nodes that are a kind and a number, by kind

// Returns the numbers of all nodes, whichever line first leads to them. A line whose b ends in a digit may lead to more and
// more of them; each line makes a link of each node that it is followed from, so that there are no more than kMostLinks.
absl::StatusOr<NodeNumbers> NumbersOf(const Machine& machine, const std::vector<LinkLine>& lines) {
  std::map<std::string, std::vector<const LinkLine*>> lines_from;  // those of many links, by kind
  NodeNumbers numbers;
  std::vector<std::pair<std::string, int>> found;  // of which no line has been followed yet
  size_t links = 0;
  const auto add = [&](const std::string& name) {
    auto numbered = Numbered(name);
    if (!numbered.has_value() || !numbers[numbered->first].insert(numbered->second).second) return;
    found.push_back(*std::move(numbered));
  };
  for (const std::string& device : machine.devices) add(device);
  for (const LinkLine& line : lines) {
    if (line.each != 0) {
      lines_from[line.link.a].push_back(&line);
    } else {
      add(line.link.a);
      add(line.link.b);
    }
  }
  while (!found.empty()) {
    const auto [kind, number] = std::move(found.back());
    found.pop_back();
    const std::vector<const LinkLine*>& from_here = lines_from[kind];
    links += from_here.size();
    if (links > kMostLinks) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "links: expected at most %d links, found more: lines with \"each\" stand for one from every node", kMostLinks));
    }
    for (const LinkLine* line : from_here) add(absl::StrCat(line->link.b, number / line->each));
  }
  return numbers;
}

// `numbers` may have kinds without any.
absl::Status UnknownNodes(const LinkLine& line, const NodeNumbers& numbers) {
  std::vector<std::string> kinds;
  for (const auto& [kind, of_kind] : numbers) {
    if (!of_kind.empty()) kinds.push_back(kind);
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("%s.a: expected the name of nodes without their number, as gpu of gpu0, found \"%s\", and neither a "
                      "device nor the end of a link is called that and a number%s",
                      line.path, line.link.a, base::DidYouMean("; ", line.link.a, kinds)));
}

void AddLinks(const std::vector<LinkLine>& lines, Machine& machine, absl::Status& status) {
  if (lines.size() > kMostLinks) {
    status = absl::InvalidArgumentError(absl::StrFormat("links: expected at most %d, found %d", kMostLinks, lines.size()));
    return;
  }
  absl::StatusOr<NodeNumbers> found = NumbersOf(machine, lines);
  if (!found.ok()) {
    status = found.status();
    return;
  }
  NodeNumbers& numbers = *found;
  for (const LinkLine& line : lines) {
    const std::set<int>& of_a = numbers[line.link.a];
    if (line.each != 0 && of_a.empty()) {
      status = UnknownNodes(line, numbers);
      return;
    }
    const size_t links = machine.links.size() + (line.each == 0 ? 1 : of_a.size());
    if (links > kMostLinks) {
      status = absl::InvalidArgumentError(
          absl::StrFormat("%s: expected at most %d links, found %d", line.path, kMostLinks, links));
      return;
    }
    if (line.each == 0) machine.links.push_back(line.link);
    for (int number : line.each == 0 ? std::set<int>() : of_a) {
      Link& one = machine.links.emplace_back(line.link);
      absl::StrAppend(&one.a, number);
      absl::StrAppend(&one.b, number / line.each);
    }
  }
}

MeasuredTransfer ReadTransfer(const Read& json, const std::string& path, absl::Status& status) {
  MeasuredTransfer transfer;
  JsonFields fields(json, path, status);
  fields.Word("what", ProfiledTransferNames(), transfer.operation);
  fields.Count("members", transfer.members, true, {2, program::kMostDevices});
  fields.Choice("from", kOriginNames, transfer.origin, true);
  fields.Text("source", transfer.source);
  fields.Number("within", transfer.within, false, kFactors);
  ReadPairs(fields, "points", "a pair [bytes above 0, seconds from 1e-12 to 100000]", {1e-30, 1e18}, kTransferTimes,
            transfer.points);
  fields.Finish();
  if (status.ok() && transfer.points.empty())
    status = absl::InvalidArgumentError(absl::StrCat(path, ".points: expected at least one point, found none"));
  return transfer;
}

// Names, or {"name": "gpu", "count": 1024} for gpu0 to gpu1023.
void ReadDevices(JsonFields& fields, Machine& machine, absl::Status& status) {
  const Read* devices = fields.Need("devices");
  if (devices != nullptr && devices->is_object()) {
    std::string name;
    int count = 0;
    JsonFields many(*devices, "devices", status);
    many.Text("name", name, true);
    many.Count("count", count, true, {1, program::kMostDevices});
    many.Finish();
    for (int d = 0; d < count; ++d) machine.devices.push_back(absl::StrCat(name, d));
  } else {
    fields.Each("devices", true, [&](const Read& device, const std::string& path) {
      if (!device.is_string()) return fields.Fail(path, "a name", device);
      machine.devices.push_back(device.get<std::string>());
    });
    if (status.ok() && machine.devices.empty()) {
      status = absl::InvalidArgumentError("devices: expected at least one, found none");
    }
  }
  fields.Each("staged", false, [&](const Read& pair, const std::string& path) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return fields.Fail(path, "a pair of devices", pair);
    }
    machine.staged.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
  });
}

SlowerDevice ReadSlower(const Read& json, const std::string& path, absl::Status& status) {
  SlowerDevice slower;
  JsonFields fields(json, path, status);
  fields.Text("device", slower.device, true);
  fields.Number("factor", slower.factor, true, kFactors);
  fields.Choice("from", kOriginNames, slower.origin);
  fields.Text("source", slower.source);
  fields.Finish();
  return slower;
}

constexpr const char* kPixelTypes[] = {"uint8", "fp32"};

// The name of a network, or {"model", "batch", "step_sec", "pixels"}: the step of one device that the profile makes come
// out.
void ReadFittedTo(JsonFields& fields, FittedStep& step, absl::Status& status) {
  const Read* fitted = fields.Find("fitted_to");
  if (fitted == nullptr) return;
  if (!fitted->is_object()) return fields.Text("fitted_to", step.model);
  JsonFields object(*fitted, "fitted_to", status);
  object.Text("model", step.model, true);
  object.Count("batch", step.batch, true, kExtents);
  object.Number("step_sec", step.step_sec, true, kTransferTimes);
  ReadPixelType(object, step.has_f32_pixels);
  object.Finish();
}

void ReadKernels(JsonFields& fields, Machine& machine) {
  if (fields.Find("precision") != nullptr) {
    fields.Word("precision", {std::begin(kPrecisions), std::end(kPrecisions)}, machine.precision);
  }
  if (fields.Find("kernels") != nullptr) {
    fields.Word("kernels", {std::begin(kTimedKernels), std::end(kTimedKernels)}, machine.kernels);
  }
}

// Ends of single links that are no devices and have no other link: such a name is probably misspelt. Links for many make
// nodes of one link wherever a count leaves a rest.
void WarnOfLinksThatLeadNowhere(const std::vector<LinkLine>& lines, Machine& machine) {
  if (machine.devices.size() < 2) return;
  absl::flat_hash_set<absl::string_view> known(machine.devices.begin(), machine.devices.end());
  known.insert("host");
  known.insert(machine.server);
  absl::flat_hash_map<absl::string_view, int> links_of;
  for (const Link& link : machine.links) {
    for (absl::string_view end : {absl::string_view(link.a), absl::string_view(link.b)}) {
      if (++links_of[end] > 1) known.insert(end);
    }
  }
  std::vector<std::string> stray;
  for (const LinkLine& line : lines) {
    for (const std::string& end : {line.link.a, line.link.b}) {
      if (line.each == 0 && !known.contains(end)) stray.push_back(end);
    }
  }
  if (stray.empty()) return;
  std::vector<std::string> names(known.begin(), known.end());
  std::sort(names.begin(), names.end());
  machine.warnings.push_back(absl::StrFormat(
      "links: node \"%s\"%s is no device and has one link alone, which leads nowhere%s", stray[0],
      stray.size() == 1 ? "" : absl::StrFormat(", as %d more,", stray.size() - 1), base::DidYouMean("; ", stray[0], names)));
}

// Of several links between two nodes routes take the fastest.
void WarnOfLinksBesideEachOther(Machine& machine) {
  std::set<std::pair<std::string, std::string>> seen;  // from, to
  const Link* first = nullptr;
  int count = 0;
  for (const Link& link : machine.links) {
    bool is_new = seen.emplace(link.a, link.b).second;
    if (link.duplex != Link::Duplex::kOneWay) is_new = seen.emplace(link.b, link.a).second && is_new;
    if (is_new) continue;
    if (count++ == 0) first = &link;
  }
  if (count == 0) return;
  machine.warnings.push_back(absl::StrFormat(
      "links: there is more than one from %s to %s%s, of which the fastest alone is used; give one, with the rate of all",
      first->a, first->b, count == 1 ? "" : absl::StrFormat(", and %d more such", count - 1)));
}

void Warn(const std::vector<LinkLine>& lines, Machine& machine) {
  auto warn = [&](const std::string& field, double value, double slowest, double fastest, const char* unit) {
    const bool is_slow = value > 0 && value < slowest;
    if (!is_slow && value <= fastest) return;
    machine.warnings.push_back(absl::StrFormat("%s is %.3g %s, %s than any known device (%.0e): is a unit wrong by 1000?",
                                               field, value, unit, is_slow ? "slower" : "faster",
                                               is_slow ? slowest : fastest));
  };
  WarnOfLinksThatLeadNowhere(lines, machine);
  WarnOfLinksBesideEachOther(machine);
  if (machine.ops.empty()) {
    machine.warnings.push_back("there are no ops: every kernel is taken to run at flops_per_sec or memory_bytes_per_sec");
  }
  const bool may_switch = machine.collectives == CollectiveAlgorithm::kFastest && machine.copy_engines == 0;
  if (machine.switch_bytes_per_sec.value > 0 && !may_switch) {
    machine.warnings.push_back(
        "switch_bytes_per_sec is not used: a switch adds where collectives are fastest and there are no copy_engines");
  }
  warn("flops_per_sec", machine.flops_per_sec.value, kSlowestFlops, kFastestFlops, "flop/s");
  warn("memory_bytes_per_sec", machine.memory_bytes_per_sec.value, kSlowestMemory, kFastestMemory, "byte/s");
  for (const OpRate& op : machine.ops) {
    const bool flops = op.unit == OpRate::Unit::kFlops;
    double fastest = 0;
    for (const OpRate::Point& point : op.points) fastest = std::max(fastest, point.rate);
    warn(absl::StrCat("ops: ", op.op), fastest, /*slowest=*/0, flops ? kFastestFlops : kFastestMemory,
         flops ? "flop/s" : "byte/s");
  }
  for (const Link& link : machine.links) {
    warn(absl::StrCat("link ", link.a, " to ", link.b), link.bytes_per_sec.value, kSlowestLink, kFastestLink, "byte/s");
  }
}

absl::Status CheckServer(const Machine& machine) {
  const bool is_server = machine.collectives == CollectiveAlgorithm::kServer;
  const auto needs_it = [&](const char* field) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: expected collectives \"server\" beside it, found \"%s\"", field, Name(machine.collectives)));
  };
  if (!is_server && machine.server != Machine().server) return needs_it("server");
  if (!is_server && machine.server_bytes_per_sec.value > 0) return needs_it("server_bytes_per_sec");
  if (!is_server) return absl::OkStatus();
  if (std::find(machine.devices.begin(), machine.devices.end(), machine.server) != machine.devices.end()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("server: expected a node that is no device, found \"%s\"", machine.server));
  }
  if (machine.copy_engines == 1) {
    return absl::InvalidArgumentError(
        "copy_engines: expected 0 or 2 where collectives go through a server, which gets and sends at once, found 1");
  }
  return absl::OkStatus();
}

absl::Status CheckDeviceNames(const Machine& machine) {
  const std::set<std::string> names(machine.devices.begin(), machine.devices.end());
  if (machine.device_count() > program::kMostDevices) {
    return absl::InvalidArgumentError(
        absl::StrFormat("devices: expected at most %d, found %d", program::kMostDevices, machine.device_count()));
  }
  if (names.contains("host")) {
    return absl::InvalidArgumentError(
        "devices: expected another name than host, the node through which transfers are staged");
  }
  if (names.size() == machine.devices.size()) return absl::OkStatus();
  return absl::InvalidArgumentError("devices: expected different names, found one twice");
}

// `field` names `name`.
absl::Status CheckIsDevice(const char* field, const std::string& name, const Machine& machine) {
  if (std::find(machine.devices.begin(), machine.devices.end(), name) != machine.devices.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: expected a device, found \"%s\"%s", field, name, base::DidYouMean("; ", name, machine.devices)));
}

absl::Status CheckStaged(const Machine& machine) {
  for (const auto& [a, b] : machine.staged) {
    for (const std::string& name : {a, b}) RETURN_IF_ERROR(CheckIsDevice("staged", name, machine));
  }
  return absl::OkStatus();
}

absl::Status CheckSlower(const Machine& machine) {
  std::set<std::string> slower;
  for (const SlowerDevice& device : machine.slower) {
    RETURN_IF_ERROR(CheckIsDevice("slower", device.device, machine));
    if (slower.insert(device.device).second) continue;
    return absl::InvalidArgumentError(absl::StrFormat("slower: expected a device once, found \"%s\" twice", device.device));
  }
  return absl::OkStatus();
}

absl::Status CheckLinks(const Machine& machine) {
  for (const Link& link : machine.links) {
    if (link.a != link.b) continue;
    return absl::InvalidArgumentError(absl::StrFormat("links: expected two nodes, found \"%s\" twice", link.a));
  }
  return absl::OkStatus();
}

// That no op and no transfer is measured twice.
absl::Status CheckMeasurements(const Machine& machine) {
  std::set<std::string> ops;
  for (const OpRate& op : machine.ops) {
    if (ops.insert(op.op).second) continue;
    return absl::InvalidArgumentError(absl::StrFormat("ops: expected one entry for each op, found \"%s\" twice", op.op));
  }
  std::set<std::pair<std::string, int>> transfers;
  for (const MeasuredTransfer& transfer : machine.transfers) {
    if (transfers.emplace(transfer.operation, transfer.members).second) continue;
    return absl::InvalidArgumentError(absl::StrFormat("transfers: expected one entry for each, found %s of %d twice",
                                                      transfer.operation, transfer.members));
  }
  return absl::OkStatus();
}

absl::Status Validate(const Machine& machine) {
  for (const auto check :
       {CheckDeviceNames, CheckStaged, CheckServer, CheckSlower, CheckLinks, CheckMeasurements, CheckMemoryPeak}) {
    RETURN_IF_ERROR(check(machine));
  }
  return Routes::Create(machine).status();
}

Json ToJson(const Quantity& quantity) {
  Json json = {{"value", quantity.value}, {"from", Name(quantity.origin)}};
  if (!quantity.source.empty()) json["source"] = quantity.source;
  if (quantity.within != 0) json["within"] = quantity.within;
  return json;
}

void Put(Json& json, const char* name, const Quantity& quantity) {
  if (quantity.value != 0) json[name] = ToJson(quantity);
}

Json ToJson(const OpRate& op) {
  Json json = {{"op", op.op}, {"unit", kUnits[static_cast<int>(op.unit)]}, {"from", Name(op.origin)}};
  if (!op.source.empty()) json["source"] = op.source;
  if (op.within != 0) json["within"] = op.within;
  if (!op.batch_curve.empty()) json["batch_curve"] = op.batch_curve;
  if (op.batch_curve_within != 0) json["batch_curve_within"] = op.batch_curve_within;
  json["points"] = Json::array();
  for (const OpRate::Point& point : op.points) {
    Json p = Json::object();
    const OpShape& s = point.shape;
    for (const auto& [name, value] :
         {std::pair{"n", s.n}, {"c", s.c}, {"k", s.k}, {"r", s.r}, {"p", s.p}, {"groups", s.groups}}) {
      if (value != 1) p[name] = value;
    }
    if (point.devices > 0) p["devices"] = point.devices;
    p["rate"] = point.rate;
    json["points"].push_back(std::move(p));
  }
  return json;
}

Json ToJson(const MeasuredTransfer& transfer) {
  Json json = {{"what", transfer.operation},
               {"members", transfer.members},
               {"from", Name(transfer.origin)},
               {"source", transfer.source}};
  if (transfer.within != 0) json["within"] = transfer.within;
  json["points"] = transfer.points;
  return json;
}

Json ToJson(const FittedStep& step) {
  if (step.batch == 0) return step.model;
  Json json = {{"model", step.model}, {"batch", step.batch}, {"step_sec", step.step_sec}};
  if (step.has_f32_pixels) json["pixels"] = kPixelTypes[1];
  return json;
}

}  // namespace

void ReadPixelType(JsonFields& fields, bool& is_f32) {
  std::string pixels;
  if (fields.Find("pixels") != nullptr) fields.Word("pixels", {std::begin(kPixelTypes), std::end(kPixelTypes)}, pixels);
  if (!pixels.empty()) is_f32 = pixels == kPixelTypes[1];
}

void LimitRates(Machine& machine) {
  const auto limit = [](double& rate, Bounds bounds) { rate = std::min(rate, bounds.most); };
  limit(machine.flops_per_sec.value, kFlopRates);
  limit(machine.memory_bytes_per_sec.value, kMemoryRates);
  limit(machine.shared_memory_bytes_per_sec.value, kMemoryRates);
  for (OpRate& op : machine.ops) {
    for (OpRate::Point& point : op.points) limit(point.rate, op.unit == OpRate::Unit::kFlops ? kFlopRates : kMemoryRates);
  }
  for (Link& link : machine.links) limit(link.bytes_per_sec.value, kLinkRates);
}

absl::StatusOr<Machine> MachineFromJson(absl::string_view text) {
  RETURN_IF_ERROR(base::CheckKindOfJson(kVersionField, text));
  ASSIGN_OR_RETURN(Read json, base::ParseJson<Read>(text, kDeepest));
  absl::Status status;
  Machine machine;
  JsonFields fields(json, "", status);
  const Read* version = fields.Need(kVersionField);
  if (version != nullptr && *version != 1) fields.Fail(kVersionField, "version 1", *version);
  fields.Text("name", machine.name, true);
  fields.Text("description", machine.description);
  ReadKernels(fields, machine);
  ReadDevices(fields, machine, status);
  for (const MachineQuantity& row : MachineQuantities()) ReadQuantity(fields, row, machine, status);
  fields.Each("ops", false,
              [&](const Read& op, const std::string& path) { machine.ops.push_back(ReadOp(op, path, status)); });
  std::vector<LinkLine> lines;
  fields.Each("links", false,
              [&](const Read& link, const std::string& path) { lines.push_back(ReadLink(link, path, status)); });
  if (status.ok()) AddLinks(lines, machine, status);
  fields.Flag("peer_access", machine.peer_access);
  fields.Count("copy_engines", machine.copy_engines, false, {0, 2});
  fields.Choice("collectives", kAlgorithmNames, machine.collectives);
  fields.Each("transfers", false, [&](const Read& transfer, const std::string& path) {
    machine.transfers.push_back(ReadTransfer(transfer, path, status));
  });
  fields.Each("slower", false, [&](const Read& slower, const std::string& path) {
    machine.slower.push_back(ReadSlower(slower, path, status));
  });
  fields.Text("server", machine.server);
  fields.Count("devices_per_host", machine.devices_per_host, false, {1, program::kMostDevices});
  ReadFittedTo(fields, machine.fitted_to, status);
  fields.Each("timed", false, [&](const Read& network, const std::string& path) {
    if (!network.is_string()) return fields.Fail(path, "the name of a network", network);
    machine.timed.push_back(network.get<std::string>());
  });
  fields.Count("steps_in_flight", machine.steps_in_flight, false, {1, kMostSteps});
  fields.Finish();
  if (!status.ok()) return status;
  RETURN_IF_ERROR(Validate(machine));
  Warn(lines, machine);
  return machine;
}

std::string MachineToJson(const Machine& m) {
  Json json = {{kVersionField, 1}, {"name", m.name}, {"description", m.description}};
  if (!m.precision.empty()) json["precision"] = m.precision;
  if (!m.kernels.empty()) json["kernels"] = m.kernels;
  json["devices"] = m.devices;
  for (const MachineQuantity& row : MachineQuantities()) {
    const Quantity& quantity = m.*row.quantity;
    if (row.is_needed || quantity.value != 0) json[row.field] = ToJson(quantity);
  }
  json["ops"] = Json::array();
  for (const OpRate& op : m.ops) json["ops"].push_back(ToJson(op));
  json["links"] = Json::array();
  for (const Link& link : m.links) {
    Json l = {{"a", link.a}, {"b", link.b}, {"bytes_per_sec", ToJson(link.bytes_per_sec)}};
    Put(l, "latency_sec", link.latency_sec);
    Put(l, "one_transfer_bytes_per_sec", link.one_transfer_bytes_per_sec);
    l["duplex"] = kDuplexes[static_cast<int>(link.duplex)];
    json["links"].push_back(std::move(l));
  }
  json["peer_access"] = m.peer_access;
  if (!m.staged.empty()) json["staged"] = m.staged;
  for (const SlowerDevice& slower : m.slower) {
    json["slower"].push_back({{"device", slower.device}, {"factor", slower.factor}, {"from", Name(slower.origin)}});
    if (!slower.source.empty()) json["slower"].back()["source"] = slower.source;
  }
  json["copy_engines"] = m.copy_engines;
  json["collectives"] = Name(m.collectives);
  if (m.collectives == CollectiveAlgorithm::kServer) json["server"] = m.server;
  json["transfers"] = Json::array();
  for (const MeasuredTransfer& transfer : m.transfers) json["transfers"].push_back(ToJson(transfer));
  if (!m.fitted_to.model.empty()) json["fitted_to"] = ToJson(m.fitted_to);
  if (!m.timed.empty()) json["timed"] = m.timed;
  if (m.devices_per_host > 0) json["devices_per_host"] = m.devices_per_host;
  json["steps_in_flight"] = m.steps_in_flight;
  return json.dump(1);
}

}  // namespace colonnade::engine
