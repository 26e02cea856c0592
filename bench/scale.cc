// What each pass over the whole Program of one training step takes as devices become many, and over the devices that stand
// for all: processor time and peak memory.
//
// The machine is made here, of nodes of devices behind one switch each and a network switch between them: numbers are of the
// order of a DGX A100's, and decide nothing here.
#include <sys/resource.h>

#include <cstdio>
#include <ctime>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/command_line.h"
#include "engine/simulator.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "program/dag.h"
#include "program/memory.h"
#include "program/text.h"
#include "program/verify.h"

namespace {

using namespace colonnade;

struct Options {
  std::string model = "resnet152", plan = "data", collectives = "ring", reduction = "all-reduce";
  int devices = 1024, node = 8, batch = 1;
  bool with_text = false, with_simulation = false, with_trace = false, representatives_alone = false;
};

engine::Machine Nodes(int devices, int node) {
  engine::Machine machine;
  machine.name = "nodes";
  machine.flops_per_sec.value = 19.5e12;
  machine.memory_bytes_per_sec.value = 1.4e12;
  machine.launch_sec.value = 4e-6;
  for (int d = 0; d < devices; ++d) {
    const std::string name = absl::StrCat("d", d), inside = absl::StrCat("node", d / node);
    machine.devices.push_back(name);
    machine.links.push_back({.a = name, .b = inside, .bytes_per_sec = {250e9}, .latency_sec = {2e-6}});
    if (d % node != 0) continue;
    machine.links.push_back({.a = inside, .b = "network", .bytes_per_sec = {100e9}, .latency_sec = {3e-6}});
  }
  return machine;
}

// Prints what `run` took.
template <class Run>
auto Timed(const char* what, Run run) {
  const std::clock_t begin = std::clock();
  auto result = run();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%-22s %9.3f s %9.0f MB\n", what, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC,
              static_cast<double>(usage.ru_maxrss) / 1e3);
  std::fflush(stdout);
  return result;
}

// `lowered`: a Program, or those that stand for it.
template <class Lowered>
absl::Status SimulateOn(const Lowered& lowered, const Options& options) {
  engine::Machine machine = Nodes(options.devices, options.node);
  machine.collectives = options.collectives == "direct"    ? engine::CollectiveAlgorithm::kDirect
                        : options.collectives == "fastest" ? engine::CollectiveAlgorithm::kFastest
                                                           : engine::CollectiveAlgorithm::kRing;
  ASSIGN_OR_RETURN(const engine::Simulation simulation,
                   Timed("Simulate", [&] { return engine::Simulate(lowered, machine, {.trace = options.with_trace}); }));
  std::printf("a step takes %.9f ms, the first %.9f; %lld tasks\n", absl::ToDoubleMilliseconds(simulation.step),
              absl::ToDoubleMilliseconds(simulation.first_step), static_cast<long long>(simulation.tasks));
  return absl::OkStatus();
}

absl::Status Main(const Options& options) {
  ASSIGN_OR_RETURN(const layers::LayerGraph graph, models::BuildModel(options.model, {}));
  const int64_t batch = int64_t{options.batch} * options.devices;
  ASSIGN_OR_RETURN(partition::Plan plan, Timed("NamedPlan", [&] {
                     return partition::NamedPlan(options.plan, graph, {.devices = options.devices, .global_batch = batch});
                   }));
  plan.reduction = *partition::ReductionFromName(options.reduction);
  ASSIGN_OR_RETURN(const program::RepresentativeProgram few, Timed("LowerRepresentatives", [&] {
                     return partition::LowerRepresentatives(graph, plan, {.global_batch = batch});
                   }));
  std::printf("%zu tasks, %zu buffers\n", few.program.tasks.size(), few.program.buffers.size());
  if (options.with_simulation) RETURN_IF_ERROR(SimulateOn(few, options));
  if (options.representatives_alone) return absl::OkStatus();
  ASSIGN_OR_RETURN(const program::Program program,
                   Timed("Lower, with Verify", [&] { return partition::Lower(graph, plan, {.global_batch = batch}); }));
  std::printf("%zu tasks, %zu buffers\n", program.tasks.size(), program.buffers.size());
  RETURN_IF_ERROR(Timed("Verify", [&] { return program::Verify(program); }));
  Timed("DeriveDependencies", [&] { return program::DeriveDependencies(program); });
  const program::SizeOf size_of = [&](const program::Buffer& buffer) { return program::DenseSizeOf(program, buffer); };
  Timed("PlaceBuffers", [&] { return program::PlaceBuffers(program, size_of); });
  if (options.with_simulation) RETURN_IF_ERROR(SimulateOn(program, options));
  if (!options.with_text) return absl::OkStatus();
  const std::string text = Timed("Print", [&] { return program::Print(program); });
  return Timed("Parse", [&] { return program::Parse(text); }).status();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Processor time and peak memory of each pass over a whole Program of many devices.", "scale");
  app.add_option("--model", options.model, "model of the zoo")->capture_default_str();
  app.add_option("--plan", options.plan, "named plan")->capture_default_str();
  app.add_option("--devices", options.devices)->check(CLI::Range(1, 4096))->capture_default_str();
  app.add_option("--batch", options.batch, "samples of a device")->check(CLI::Range(1, 4096))->capture_default_str();
  app.add_option("--node", options.node, "devices of a node")->check(CLI::Range(1, 4096))->capture_default_str();
  app.add_option("--reduction", options.reduction, "of gradients")
      ->check(CLI::IsMember({"all-reduce", "sharded", "master"}))
      ->capture_default_str();
  app.add_option("--collectives", options.collectives)
      ->check(CLI::IsMember({"ring", "direct", "fastest"}))
      ->capture_default_str();
  app.add_flag("--simulate", options.with_simulation, "simulate the Program, too");
  app.add_flag("--trace", options.with_trace, "with where the time of each device goes");
  app.add_flag("--representatives", options.representatives_alone, "leave the whole Program out");
  app.add_flag("--text", options.with_text, "print and parse the Program, too");
  return colonnade::bench::Run(app, argc, argv, [&] { return Main(options); });
}
