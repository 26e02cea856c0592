// Small hand-built Programs that keep every rule, for tests to pass on or to break.
#ifndef COLONNADE_TESTS_PROGRAM_SAMPLE_PROGRAMS_H_
#define COLONNADE_TESTS_PROGRAM_SAMPLE_PROGRAMS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "program/builder.h"
#include "program/program.h"

namespace colonnade::program {

// Returns one training step of a convolution split into two columns and a fully connected layer, with an exchange, views,
// buckets and an all-reduce, on three lanes; not scheduled.
Program TwoColumnsUnscheduled();
// Returns the same with a wait for each dependency between lanes.
Program TwoColumns();

// Runs every op once on one device, in an order that initialises what each reads; on one lane, so that it needs no waits.
Program EveryOp();

// Runs every kind of collective once on two devices, on one lane.
Program EveryCollective();

// Copies a bucket, and adds it to another, part by part.
Program PartsOfBuckets();

// Has many step buffers of random sizes and lifetimes, written and read by tasks on random lanes; scheduled.
Program RandomLifetimes(uint32_t seed, int buffers);

// Writes a wait for each dependency between lanes, also those that others imply.
void AddAllWaits(Program& program);

// Declares each persistent tensor that no parameter has a piece in as a frozen parameter of its own. REQUIRES: all are of
// f32 or f64.
void DeclareState(Program& program);

// Returns the first task that does `word` (as Name(task) says), on `device`.
Task& Find(Program& program, absl::string_view word, int device = 0);
// Returns the first buffer of that name on `device`.
Buffer& FindBuffer(Program& program, absl::string_view name, int device = 0);

}  // namespace colonnade::program

#endif  // COLONNADE_TESTS_PROGRAM_SAMPLE_PROGRAMS_H_
