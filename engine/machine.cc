#include "engine/machine.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/routes.h"
#include "nlohmann/json.hpp"
#include "program/json_text.h"
#include "program/nearest_name.h"
#include "program/op.h"
#include "program/status_macros.h"

namespace colonnade::engine {
namespace {

using Json = nlohmann::ordered_json;  // written
using Read = nlohmann::json;          // read

constexpr char kVersionField[] = "colonnade_machine";
constexpr const char* kOrigins[] = {"spec", "measured", "published", "guess"};
constexpr const char* kAlgorithms[] = {"ring", "tree", "direct", "master", "fastest"};
constexpr const char* kDuplexes[] = {"full", "half", "one-way"};
constexpr const char* kUnits[] = {"flops_per_sec", "bytes_per_sec"};

constexpr int kMostDevices = 1024, kMostSteps = 16, kDeepest = 8;

// Faster than any one device or link known in 2026: a unit is probably wrong by 1000.
constexpr double kFastestFlops = 1e16, kFastestMemory = 5e13, kFastestLink = 2e12;

// Reads fields of one JSON object; the first fault stays. Each field is taken once; what is left over is unknown.
class Fields {
 public:
  Fields(const Read& object, std::string where, absl::Status& status)
      : object_(object), where_(std::move(where)), status_(status) {
    if (!object.is_object()) Fail("", "an object", object);
  }

  // Null where it is absent.
  const Read* Find(const char* name) {
    known_.push_back(name);
    if (!object_.is_object()) return nullptr;
    const auto it = object_.find(name);
    return it == object_.end() ? nullptr : &*it;
  }
  const Read* Need(const char* name) {
    const Read* value = Find(name);
    if (value == nullptr && status_.ok()) status_ = absl::InvalidArgumentError(absl::StrFormat("%s: missing", Path(name)));
    return value;
  }

  void Text(const char* name, std::string& text, bool needed = false) {
    const Read* value = needed ? Need(name) : Find(name);
    if (value == nullptr) return;
    if (!value->is_string()) return Fail(name, "text", *value);
    text = value->get<std::string>();
  }
  void Number(const char* name, double& number, bool needed, double least, double most = kLargest) {
    const Read* value = needed ? Need(name) : Find(name);
    if (value == nullptr) return;
    const bool is_number = value->is_number() && std::isfinite(value->get<double>());
    if (!is_number || value->get<double>() > most) {
      const std::string limit = most < kLargest ? absl::StrFormat(" of at most %g", most) : "";
      return Fail(name, absl::StrCat("a number", limit), *value);
    }
    if (value->get<double>() < least)
      return Fail(name,
                  least >= 1  ? absl::StrFormat("a number of at least %g", least)
                  : least > 0 ? "a number above 0"
                              : "a number of at least 0",
                  *value);
    number = value->get<double>();
  }
  template <size_t n, class E>
  void Choice(const char* name, const char* const (&words)[n], E& choice, bool needed = false) {
    const Read* value = needed ? Need(name) : Find(name);
    if (value == nullptr) return;
    for (size_t i = 0; i < n && value->is_string(); ++i) {
      if (value->get<std::string>() == words[i]) {
        choice = static_cast<E>(i);
        return;
      }
    }
    Fail(name, absl::StrCat("one of ", absl::StrJoin(words, ", ")), *value);
  }
  // One of many words; needed.
  void Word(const char* name, const std::vector<std::string>& words, std::string& word) {
    Text(name, word, true);
    if (!status_.ok() || std::find(words.begin(), words.end(), word) != words.end()) return;
    const std::string nearest = program::NearestName(word, words);
    status_ = absl::InvalidArgumentError(absl::StrFormat(
        "%s: unknown name \"%s\"%s; expected one of %s", Path(name), word,
        nearest.empty() ? "" : absl::StrFormat(", did you mean \"%s\"?", nearest), absl::StrJoin(words, ", ")));
  }
  // {"value", "from", "source"}; above 0 unless it may be zero.
  void Take(const char* name, Quantity& quantity, bool needed = false, bool may_be_zero = false) {
    const Read* value = needed ? Need(name) : Find(name);
    if (value == nullptr) return;
    Fields fields(*value, Path(name), status_);
    fields.Number("value", quantity.value, true, may_be_zero ? 0 : kAboveZero);
    fields.Choice("from", kOrigins, quantity.from, true);
    fields.Text("source", quantity.source);
    fields.Finish();
  }
  void Flag(const char* name, bool& flag) {
    const Read* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Fail(name, "true or false", *value);
    flag = value->get<bool>();
  }
  // Calls f(element, its path) for each element of an array.
  template <class F>
  void Each(const char* name, bool needed, F f) {
    const Read* value = needed ? Need(name) : Find(name);
    if (value == nullptr) return;
    if (!value->is_array()) return Fail(name, "a list", *value);
    for (size_t i = 0; i < value->size() && status_.ok(); ++i) f((*value)[i], absl::StrFormat("%s[%d]", Path(name), i));
  }

  void Fail(const std::string& name, const std::string& expected, const Read& found) {
    if (!status_.ok()) return;
    // What is nested may be as deep as the file is long.
    std::string text = found.is_array()    ? "a list"
                       : found.is_object() ? "an object"
                                           : found.dump(-1, ' ', true, Read::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    status_ = absl::InvalidArgumentError(absl::StrFormat("%s: expected %s, found %s", Path(name), expected, text));
  }
  void Finish() {
    if (!status_.ok() || !object_.is_object()) return;
    for (const auto& [name, value] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      const std::string nearest = program::NearestName(name, known_);
      status_ = absl::InvalidArgumentError(absl::StrFormat(
          "%s: unknown field%s; expected one of %s", Path(name),
          nearest.empty() ? "" : absl::StrFormat(", did you mean \"%s\"?", nearest), absl::StrJoin(known_, ", ")));
      return;
    }
  }

  static constexpr double kAboveZero = 1e-30, kLargest = 1e30;

 private:
  std::string Path(const std::string& name) const {
    return where_.empty() ? name : name.empty() ? where_ : absl::StrCat(where_, ".", name);
  }

  const Read& object_;
  const std::string where_;
  absl::Status& status_;
  std::vector<std::string> known_;
};

void ReadPairs(Fields& fields, const char* name, const char* what, std::vector<std::pair<double, double>>& pairs) {
  fields.Each(name, false, [&](const Read& pair, const std::string& path) {
    const bool good = pair.is_array() && pair.size() == 2 && pair[0].is_number() && pair[1].is_number() &&
                      pair[0].get<double>() > 0 && pair[1].get<double>() > 0;
    if (!good) return fields.Fail(path.substr(path.find(name)), what, pair);
    pairs.emplace_back(pair[0].get<double>(), pair[1].get<double>());
  });
  std::sort(pairs.begin(), pairs.end());
}

// The word for all other ops, and those for all ops.
const std::vector<std::string>& OpNames() {
  static const auto& names = *new std::vector<std::string>([] {
    std::vector<std::string> all = {kAllOtherOps};
    [&]<size_t... i>(std::index_sequence<i...>) {
      (all.push_back(program::Name(program::Op(std::variant_alternative_t<i, program::Op>()))), ...);
    }
    (std::make_index_sequence<std::variant_size_v<program::Op>>());
    return all;
  }());
  return names;
}

const std::vector<std::string>& TransferWords() {
  static const auto& names = *new std::vector<std::string>([] {
    std::vector<std::string> all = {"exchange", "channel_slice"};
    for (auto kind :
         {program::CollectiveKind::kAllGather, program::CollectiveKind::kReduceScatter, program::CollectiveKind::kAllReduce,
          program::CollectiveKind::kAllToAll, program::CollectiveKind::kReduce, program::CollectiveKind::kBroadcast}) {
      all.push_back(program::Name(kind));
    }
    return all;
  }());
  return names;
}

OpRate ReadOp(const Read& json, const std::string& path, absl::Status& status) {
  OpRate op;
  Fields fields(json, path, status);
  fields.Word("op", OpNames(), op.op);
  fields.Choice("unit", kUnits, op.unit, true);
  fields.Choice("from", kOrigins, op.from, true);
  fields.Text("source", op.source);
  ReadPairs(fields, "batch_curve", "a pair [local batch, factor above 0]", op.batch_curve);
  fields.Each("points", true, [&](const Read& point, const std::string& where) {
    OpRate::Point& p = op.points.emplace_back();
    Fields f(point, where, status);
    double devices = 0;
    f.Number("n", p.shape.n, false, 1);
    f.Number("c", p.shape.c, false, 1);
    f.Number("k", p.shape.k, false, 1);
    f.Number("r", p.shape.r, false, 1);
    f.Number("p", p.shape.p, false, 1);
    f.Number("groups", p.shape.groups, false, 1);
    f.Number("devices", devices, false, 0, kMostDevices);
    f.Number("rate", p.rate, true, Fields::kAboveZero);
    f.Finish();
    p.devices = static_cast<int>(devices);
  });
  fields.Finish();
  if (status.ok() && op.points.empty())
    status = absl::InvalidArgumentError(absl::StrCat(path, ".points: expected at least one point, found none"));
  return op;
}

Link ReadLink(const Read& json, const std::string& path, absl::Status& status) {
  Link link;
  Fields fields(json, path, status);
  fields.Text("a", link.a, true);
  fields.Text("b", link.b, true);
  fields.Take("bytes_per_sec", link.bytes_per_sec, true);
  fields.Take("latency_sec", link.latency_sec, false, true);
  fields.Take("one_transfer_bytes_per_sec", link.one_transfer_bytes_per_sec);
  fields.Choice("duplex", kDuplexes, link.duplex);
  fields.Finish();
  return link;
}

MeasuredTransfer ReadTransfer(const Read& json, const std::string& path, absl::Status& status) {
  MeasuredTransfer transfer;
  Fields fields(json, path, status);
  double members = 2;
  fields.Word("what", TransferWords(), transfer.what);
  fields.Number("members", members, true, 1, kMostDevices);
  fields.Choice("from", kOrigins, transfer.from, true);
  fields.Text("source", transfer.source);
  ReadPairs(fields, "points", "a pair [bytes, seconds above 0]", transfer.points);
  fields.Finish();
  transfer.members = static_cast<int>(members);
  if (status.ok() && transfer.points.empty())
    status = absl::InvalidArgumentError(absl::StrCat(path, ".points: expected at least one point, found none"));
  return transfer;
}

void ReadDevices(Fields& fields, Machine& machine) {
  fields.Each("devices", true, [&](const Read& device, const std::string& path) {
    if (!device.is_string()) return fields.Fail(path, "a name", device);
    machine.devices.push_back(device.get<std::string>());
  });
  fields.Each("staged", false, [&](const Read& pair, const std::string& path) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return fields.Fail(path, "a pair of devices", pair);
    }
    machine.staged.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
  });
}

void Warn(Machine& machine) {
  auto warn = [&](const std::string& field, double value, double fastest, const char* unit) {
    if (value <= fastest) return;
    machine.warnings.push_back(absl::StrFormat(
        "%s is %.3g %s, faster than any known device (%.0e): is a unit wrong by 1000?", field, value, unit, fastest));
  };
  if (machine.ops.empty()) {
    machine.warnings.push_back("there are no ops: every kernel is taken to run at flops_per_sec or memory_bytes_per_sec");
  }
  warn("flops_per_sec", machine.flops_per_sec.value, kFastestFlops, "flop/s");
  warn("memory_bytes_per_sec", machine.memory_bytes_per_sec.value, kFastestMemory, "byte/s");
  for (const OpRate& op : machine.ops) {
    const bool flops = op.unit == OpRate::Unit::kFlops;
    for (const OpRate::Point& point : op.points) {
      warn(absl::StrCat("ops: ", op.op), point.rate, flops ? kFastestFlops : kFastestMemory, flops ? "flop/s" : "byte/s");
    }
  }
  for (const Link& link : machine.links) {
    warn(absl::StrCat("link ", link.a, " to ", link.b), link.bytes_per_sec.value, kFastestLink, "byte/s");
  }
}

absl::Status Validate(const Machine& machine) {
  std::set<std::string> names(machine.devices.begin(), machine.devices.end());
  if (machine.device_count() > kMostDevices) {
    return absl::InvalidArgumentError(
        absl::StrFormat("devices: expected at most %d, found %d", kMostDevices, machine.device_count()));
  }
  if (machine.devices.empty()) return absl::InvalidArgumentError("devices: expected at least one, found none");
  if (names.size() != machine.devices.size())
    return absl::InvalidArgumentError("devices: expected different names, found one twice");
  for (const auto& [a, b] : machine.staged) {
    for (const std::string& name : {a, b}) {
      if (!names.contains(name))
        return absl::InvalidArgumentError(absl::StrFormat("staged: expected devices, found \"%s\"", name));
    }
  }
  for (const Link& link : machine.links) {
    if (link.a == link.b)
      return absl::InvalidArgumentError(absl::StrFormat("links: expected two nodes, found \"%s\" twice", link.a));
  }
  return Routes::Create(machine).status();
}

Json ToJson(const Quantity& quantity) {
  Json json = {{"value", quantity.value}, {"from", Name(quantity.from)}};
  if (!quantity.source.empty()) json["source"] = quantity.source;
  return json;
}

void Put(Json& json, const char* name, const Quantity& quantity) {
  if (quantity.value != 0) json[name] = ToJson(quantity);
}

Json ToJson(const OpRate& op) {
  Json json = {{"op", op.op}, {"unit", kUnits[static_cast<int>(op.unit)]}, {"from", Name(op.from)}};
  if (!op.source.empty()) json["source"] = op.source;
  if (!op.batch_curve.empty()) json["batch_curve"] = op.batch_curve;
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

template <class F>
void ForEachOrigin(const Machine& m, F f) {
  for (const Quantity* q : {&m.memory_bytes, &m.flops_per_sec, &m.memory_bytes_per_sec, &m.shared_memory_bytes_per_sec,
                            &m.launch_sec, &m.handoff_sec, &m.skew, &m.cores, &m.step_sec, &m.step_sec_per_device}) {
    if (q->value != 0) f(q->from, 1);
  }
  for (const OpRate& op : m.ops) f(op.from, op.points.size() + op.batch_curve.size());
  for (const Link& link : m.links) {
    f(link.bytes_per_sec.from, 1);
    if (link.latency_sec.value != 0) f(link.latency_sec.from, 1);
    if (link.one_transfer_bytes_per_sec.value != 0) f(link.one_transfer_bytes_per_sec.from, 1);
  }
  for (const MeasuredTransfer& transfer : m.transfers) f(transfer.from, transfer.points.size());
}

}  // namespace

const char* Name(Origin origin) { return kOrigins[static_cast<int>(origin)]; }
const char* Name(CollectiveAlgorithm algorithm) { return kAlgorithms[static_cast<int>(algorithm)]; }

absl::StatusOr<Machine> MachineFromJson(absl::string_view text) {
  ASSIGN_OR_RETURN(Read json, program::ParseJson<Read>(text, kDeepest));
  absl::Status status;
  Machine machine;
  Fields fields(json, "", status);
  const Read* version = fields.Need(kVersionField);
  if (version != nullptr && *version != 1) fields.Fail(kVersionField, "version 1", *version);
  fields.Text("name", machine.name, true);
  fields.Text("description", machine.description);
  ReadDevices(fields, machine);
  fields.Take("memory_bytes", machine.memory_bytes, true);
  fields.Take("flops_per_sec", machine.flops_per_sec, true);
  fields.Take("memory_bytes_per_sec", machine.memory_bytes_per_sec, true);
  fields.Take("shared_memory_bytes_per_sec", machine.shared_memory_bytes_per_sec);
  fields.Take("launch_sec", machine.launch_sec, false, true);
  fields.Take("handoff_sec", machine.handoff_sec, false, true);
  fields.Take("skew", machine.skew, false, true);
  fields.Each("ops", false,
              [&](const Read& op, const std::string& path) { machine.ops.push_back(ReadOp(op, path, status)); });
  fields.Each("links", false,
              [&](const Read& link, const std::string& path) { machine.links.push_back(ReadLink(link, path, status)); });
  fields.Flag("peer_access", machine.peer_access);
  double copy_engines = 0, steps_in_flight = 2;
  fields.Number("copy_engines", copy_engines, false, 0, 2);
  fields.Choice("collectives", kAlgorithms, machine.collectives);
  fields.Each("transfers", false, [&](const Read& transfer, const std::string& path) {
    machine.transfers.push_back(ReadTransfer(transfer, path, status));
  });
  fields.Take("cores", machine.cores);
  fields.Take("step_sec", machine.step_sec, false, true);
  fields.Take("step_sec_per_device", machine.step_sec_per_device, false, true);
  fields.Text("fitted_to", machine.fitted_to);
  fields.Number("steps_in_flight", steps_in_flight, false, 1, kMostSteps);
  fields.Finish();
  if (!status.ok()) return status;
  machine.copy_engines = static_cast<int>(copy_engines);
  machine.steps_in_flight = static_cast<int>(steps_in_flight);
  RETURN_IF_ERROR(Validate(machine));
  Warn(machine);
  return machine;
}

std::string MachineToJson(const Machine& m) {
  Json json = {{kVersionField, 1}, {"name", m.name}, {"description", m.description}, {"devices", m.devices}};
  json["memory_bytes"] = ToJson(m.memory_bytes);
  json["flops_per_sec"] = ToJson(m.flops_per_sec);
  json["memory_bytes_per_sec"] = ToJson(m.memory_bytes_per_sec);
  Put(json, "shared_memory_bytes_per_sec", m.shared_memory_bytes_per_sec);
  Put(json, "launch_sec", m.launch_sec);
  Put(json, "handoff_sec", m.handoff_sec);
  Put(json, "skew", m.skew);
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
  json["copy_engines"] = m.copy_engines;
  json["collectives"] = Name(m.collectives);
  json["transfers"] = Json::array();
  for (const MeasuredTransfer& t : m.transfers) {
    json["transfers"].push_back(
        {{"what", t.what}, {"members", t.members}, {"from", Name(t.from)}, {"source", t.source}, {"points", t.points}});
  }
  Put(json, "cores", m.cores);
  Put(json, "step_sec", m.step_sec);
  Put(json, "step_sec_per_device", m.step_sec_per_device);
  if (!m.fitted_to.empty()) json["fitted_to"] = m.fitted_to;
  json["steps_in_flight"] = m.steps_in_flight;
  return json.dump(1);
}

std::vector<int> CountByOrigin(const Machine& machine) {
  std::vector<int> counts(std::size(kOrigins), 0);
  ForEachOrigin(machine,
                [&](Origin origin, size_t numbers) { counts[static_cast<int>(origin)] += static_cast<int>(numbers); });
  return counts;
}

absl::StatusOr<Machine> FirstDevices(Machine machine, int devices) {
  if (devices > machine.device_count()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("machine %s has %d devices, found %d asked for", machine.name, machine.device_count(), devices));
  }
  machine.devices.resize(devices);
  return machine;
}

}  // namespace colonnade::engine
