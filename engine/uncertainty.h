// What a machine profile is unsure of, drawn at random: so that a prediction can say how far to trust it.
//
// A number that is right within a factor f is drawn from value / f to value · f, its logarithm evenly. A guess that states
// no factor has kGuessWithin; all other numbers that state none are certain. Numbers of one field that name one source are
// one piece of knowledge, so they get one factor (the four links of one kind, the passes of one kernel), and so do links
// that name none; all others are drawn apart. Sizes of memory, peaks and cores are not drawn, and memory never exceeds its
// peak.
#ifndef COLONNADE_ENGINE_UNCERTAINTY_H_
#define COLONNADE_ENGINE_UNCERTAINTY_H_

#include <cstdint>

#include "engine/machine.h"

namespace colonnade::engine {

inline constexpr double kGuessWithin = 1.5;

// Returns the factor within which a number is right: the stated one, else that of its origin.
double WithinOf(double stated, Origin origin);

// Returns draw number `draw` of `machine`: a function of (machine, seed, draw) alone.
Machine DrawMachine(const Machine& machine, uint64_t seed, uint64_t draw);

// Returns whether every draw is the machine itself.
bool IsCertain(const Machine& machine);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_UNCERTAINTY_H_
