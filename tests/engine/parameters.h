// A network of three parameters, cut in any way, on the fake backend.
#ifndef COLONNADE_TESTS_ENGINE_PARAMETERS_H_
#define COLONNADE_TESTS_ENGINE_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/state.h"
#include "gtest/gtest.h"
#include "program/builder.h"
#include "tests/engine/fake_backend.h"

namespace colonnade::engine {

inline constexpr int64_t kRows = 40, kColumns = 60;

// "w" [40, 60] gaussian, "u" [8] uniform, "b" [3] constant: each box of a cut of w's columns into `parts` stands on `copies`
// devices.
inline program::Program Parameters(int parts, int copies, program::DType dtype = program::DType::kF32,
                                   const std::string& name = "w") {
  program::Builder b("net", program::Mode::kTrain, 1, dtype, {{"data", copies}, {"model", parts}});
  program::Parameter w{
      .name = name, .layer = "l", .shape = {kRows, kColumns}, .initializer = {program::Initializer::Kind::kGaussian, 0.5}};
  program::Parameter u{.name = "u", .layer = "l", .shape = {8}, .initializer = {program::Initializer::Kind::kUniform, 0.25}};
  program::Parameter c{.name = "b", .layer = "l", .shape = {3}, .initializer = {program::Initializer::Kind::kConstant, 0.1}};
  for (int d = 0; d < parts * copies; ++d) {
    const int64_t width = kColumns / parts;
    const program::Region box{{0, width * (d % parts)}, {kRows, width}};
    for (program::Parameter* p : {&w, &u, &c}) {
      const program::Region region = p == &w ? box : program::Region::Whole(p->shape);
      p->value().push_back({b.AddBuffer(d, p->name, dtype, region.size, program::Lifetime::kPersistent), region});
      p->pieces(program::StateKind::kMomentum)
          .push_back({b.AddBuffer(d, p->name + ".momentum", dtype, region.size, program::Lifetime::kPersistent), region});
    }
  }
  for (program::Parameter* p : {&w, &u, &c}) b.AddParameter(*p);
  return std::move(b).Build();
}

struct Loaded {
  program::Program program;
  HostSlot slots[2];
  FakeLoaded loaded;
  explicit Loaded(program::Program p) : program(std::move(p)), loaded(program, slots, nullptr) {}

  std::vector<NamedTensor> Initial(uint64_t seed) {
    EXPECT_TRUE(InitializeParameters(loaded, seed).ok());
    return *ReadTensors(loaded);
  }
};

}  // namespace colonnade::engine

#endif  // COLONNADE_TESTS_ENGINE_PARAMETERS_H_
