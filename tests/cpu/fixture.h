// What the tests of the CPU backend share: schedules by the derived dependencies, and steps without an executor.
#ifndef COLONNADE_TESTS_CPU_FIXTURE_H_
#define COLONNADE_TESTS_CPU_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cpu/backend.h"
#include "engine/backend.h"
#include "program/builder.h"
#include "program/program.h"

namespace colonnade::cpu {

// Writes the waits that DeriveDependencies asks for.
program::Program Scheduled(program::Program program);

program::Builder MakeBuilder(int devices, program::DType dtype = program::DType::kF32);

inline program::Region WholeOf(const program::Shape& shape) { return program::Region::Whole(shape); }

// Whole numbers in [−range, range], by a fixed formula.
std::vector<double> Integers(int64_t count, int seed, int range = 7);

// A step buffer that a Copy fills from a persistent one, which tests write: step buffers share memory, so that what is
// written to them from outside need not last until they are read.
struct Fed {
  program::BufferId host, step;
};
Fed AddFed(program::Builder& builder, int device, const std::string& name, program::DType dtype,
           const program::Shape& shape);

// A backend with one Program, and its host memory.
class Session {
 public:
  explicit Session(program::Program program, CpuOptions options = {});

  engine::LoadedProgram& operator*() { return *loaded_; }
  engine::LoadedProgram* operator->() { return loaded_.get(); }
  const absl::Status& status() const { return status_; }
  const program::Program& program() const { return program_; }
  engine::Backend& backend() { return *backend_; }
  engine::HostSlot& slot(int64_t step) { return slots_[step % 2]; }

  // Hands one step to the lanes.
  void Launch(int64_t step);
  std::vector<double> Read(program::BufferId buffer);
  void Write(program::BufferId buffer, const std::vector<double>& values);

 private:
  program::Program program_;
  engine::HostSlot slots_[2];
  std::unique_ptr<engine::Backend> backend_;
  std::unique_ptr<engine::LoadedProgram> loaded_;
  absl::Status status_;
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_TESTS_CPU_FIXTURE_H_
