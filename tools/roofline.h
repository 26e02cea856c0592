// The roofline of a step [Williams, Waterman and Patterson 2009]: what each task reaches, below what a device can. Any
// thread.
#ifndef COLONNADE_TOOLS_ROOFLINE_H_
#define COLONNADE_TOOLS_ROOFLINE_H_

#include <string>
#include <vector>

#include "program/program.h"
#include "tools/ceilings.h"

namespace colonnade::tools {

// Draws, as SVG, a mark for each task that counts as computing: at its flop per byte that it reads or writes and its flop
// per second. Its area is its time, of `seconds` by task; its colour is its kind, which is a word such as conv_forward.
std::string RooflineAsSvg(const std::string& title, const program::Program& program, const std::vector<double>& seconds,
                          const Ceilings& ceilings);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_ROOFLINE_H_
