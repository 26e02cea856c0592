#include "program/task.h"

#include "absl/strings/str_cat.h"

namespace colonnade::program {

const char* Name(Lane lane) {
  switch (lane) {
    case Lane::kCompute:
      return "compute";
    case Lane::kComm:
      return "comm";
    case Lane::kCopy:
      return "copy";
    case Lane::kLoad:
      return "load";
  }
  return "?";
}

const char* Name(Pass pass) {
  switch (pass) {
    case Pass::kInput:
      return "input";
    case Pass::kForward:
      return "forward";
    case Pass::kBackward:
      return "backward";
    case Pass::kUpdate:
      return "update";
    case Pass::kOutput:
      return "output";
  }
  return "?";
}

const char* Name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kReduce:
      return "reduce";
    case CollectiveKind::kBroadcast:
      return "broadcast";
  }
  return "?";
}

const char* Name(Access access) {
  switch (access) {
    case Access::kRead:
      return "read";
    case Access::kWrite:
      return "write";
    case Access::kAccumulate:
      return "accumulate";
  }
  return "?";
}

std::string Name(const Task& task) {
  struct Namer {
    std::string operator()(const Compute& compute) const { return Name(compute.op); }
    std::string operator()(const Exchange&) const { return "exchange"; }
    std::string operator()(const Collective& collective) const { return Name(collective.kind); }
  };
  return std::visit(Namer{}, task.body);
}

std::string Describe(const Task& task) {
  return absl::StrCat("task ", task.id.value, " (", Name(task), " of ", task.provenance.layer, ", device ", task.device,
                      ")");
}

}  // namespace colonnade::program
