// A whole Program as one of representatives.
#ifndef COLONNADE_TESTS_PROGRAM_EACH_FOR_ITSELF_H_
#define COLONNADE_TESTS_PROGRAM_EACH_FOR_ITSELF_H_

#include <utility>
#include <variant>

#include "program/representative_program.h"

namespace colonnade::program {

// Makes one in which each device stands for itself.
inline RepresentativeProgram EachForItself(Program program) {
  RepresentativeProgram made{.program = std::move(program), .stands_for = {}, .alike = {}};
  for (int device = 0; device < made.program.device_count; ++device) made.stands_for.push_back({device});
  for (const RepresentativeProgram::Devices& group : made.program.groups) made.alike[group] = {group};
  for (const Task& task : made.program.tasks) {
    const auto* exchange = std::get_if<Exchange>(&task.body);
    if (exchange == nullptr) continue;
    const RepresentativeProgram::Devices pair = {task.device, exchange->peer};
    if (task.device < exchange->peer) made.alike[pair] = {pair};
  }
  return made;
}

}  // namespace colonnade::program

#endif  // COLONNADE_TESTS_PROGRAM_EACH_FOR_ITSELF_H_
