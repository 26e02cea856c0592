// Ways to break a good Program, and what Verify must say of each: what the tables of its rules' tests are made of.
#ifndef COLONNADE_TESTS_PROGRAM_BREAKAGES_H_
#define COLONNADE_TESTS_PROGRAM_BREAKAGES_H_

#include <functional>
#include <ostream>
#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "program/program.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {

// One way to break a good Program, and what Verify must say.
struct Breakage {
  const char* name;
  const char* rule;
  const char* says;
  std::function<void(Program&)> apply;
  Program (*start)() = TwoColumns;
};

inline void PrintTo(const Breakage& breakage, std::ostream* out) { *out << breakage.name; }
inline std::string NameOf(const ::testing::TestParamInfo<Breakage>& info) { return info.param.name; }

// Its one test breaks the Program and reads what Verify says.
class VerifyFinds : public ::testing::TestWithParam<Breakage> {};

void ExpectVerified(const Program& program);

template <class What>
What& WhatOf(Task& task) {
  return std::get<What>(task.body);
}
template <class OpKind>
OpKind& OpOf(Task& task) {
  return std::get<OpKind>(std::get<Compute>(task.body).op);
}

// Operands `uses` of the op named `word` are of another type.
Breakage Retyped(const char* name, const char* word, std::vector<int> uses, DType dtype, const char* says,
                 Program (*start)() = EveryOp);

// What both members of `word` send and receive lies in one buffer of `shape`, at the boxes given for member m.
void PutInOneBuffer(Program& program, const char* word, const Shape& shape, const std::function<Region(int)>& sent,
                    const std::function<Region(int)>& received);

}  // namespace colonnade::program

#endif  // COLONNADE_TESTS_PROGRAM_BREAKAGES_H_
