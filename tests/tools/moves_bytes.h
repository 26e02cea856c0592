// Programs whose time one can compute by hand, and a machine for them.
#ifndef COLONNADE_TESTS_TOOLS_MOVES_BYTES_H_
#define COLONNADE_TESTS_TOOLS_MOVES_BYTES_H_

#include <cstdint>
#include <utility>

#include "engine/machine.h"
#include "program/builder.h"
#include "program/representative_program.h"
#include "tests/engine/on_a_switch.h"
#include "tests/program/each_for_itself.h"

namespace colonnade::tools {

// One task that moves `compute_bytes` through the memory of the first device, and behind it, if `sent_bytes` is above 0, one
// transfer to the second.
inline program::RepresentativeProgram MovesBytes(int64_t compute_bytes, int64_t sent_bytes = 0) {
  const int devices = sent_bytes > 0 ? 2 : 1;
  program::Builder builder("bytes", program::Mode::kTrain, 1, program::DType::kF32, {{"data", devices}});
  const program::BufferId x = builder.AddBuffer(0, "x", program::DType::kF32, {compute_bytes / 4});
  const program::TaskId task =
      builder.AddCompute(0, program::Lane::kCompute, program::ActivationForward{program::Activation::kRelu},
                         {builder.Accumulate(x)}, 0, {"layer"});
  if (sent_bytes > 0) {
    const program::BufferId from = builder.AddBuffer(0, "from", program::DType::kF32, {sent_bytes / 4});
    const program::BufferId to = builder.AddBuffer(1, "to", program::DType::kF32, {sent_bytes / 4});
    builder.AddExchange(0, {{builder.Read(from)}, {.bytes_sent = sent_bytes}}, 1, {{builder.Write(to)}, {}},
                        program::Lane::kComm, {"send"});
  }
  program::Program program = std::move(builder).Build();
  program.tasks[task.value].work = {.bytes_read = compute_bytes};
  return program::EachForItself(std::move(program));
}

// Memory and links of 1 GB/s, all of it certain.
inline engine::Machine CertainMachine(int devices) {
  engine::Machine machine = engine::OnASwitch(devices);
  machine.flops_per_sec.origin = machine.memory_bytes_per_sec.origin = engine::Origin::kSpec;
  for (engine::Link& link : machine.links) link.bytes_per_sec.origin = engine::Origin::kSpec;
  return machine;
}

}  // namespace colonnade::tools

#endif  // COLONNADE_TESTS_TOOLS_MOVES_BYTES_H_
