// The rules that every Program keeps, checked after each lowering and each parse.
#ifndef COLONNADE_PROGRAM_VERIFY_H_
#define COLONNADE_PROGRAM_VERIFY_H_

#include "absl/status/status.h"
#include "program/program.h"

namespace colonnade::program {

// Returns Ok, or InvalidArgument that names the rule and the task or buffer that breaks it:
//   structure    ids are indices; devices, groups, members and regions are in range; a task uses its own device's
//                buffers; the count, element types and shapes of operands fit the op
//   argmax       a buffer that holds the argmax of a max pooling is of the step, and used by max poolings alone, all of one
//                window, images and box of it
//   slots        buffers of two slots are filled by loads on lane load, which has no other tasks, and read by computations
//   initialised  every element that is read was written before in this step, or lies in a piece of a parameter's state:
//                what persists in a type that state cannot have (outputs) comes from an input, by a load
//   messages     each message has two sides, each the other's peer, equal extents and element types, sent ↔ received
//   collectives  every member of the group has the instance exactly once, with equal attributes and matching extents; all
//                members see the instances of a group in the same order; a device's collectives are on one lane
//   overlap      what a task writes lies in no other operand of it, but for a member's own part of an all-gather or
//                reduce-scatter in place
//   deadlock     lane order, waits and meetings together are acyclic
//   order        tasks with conflicting uses are ordered by lane order and waits, within a step and from step to step
//   waits        a wait names a task of another lane of the same device: an earlier one in the sequence (waits), or any one
//                (waits_previous)
//   outputs      inputs, outputs and parameters name buffers that fit their regions; pieces cover what they state; a buffer
//                holds one piece of the state of one parameter
//
// Verify looks at one Program alone. Steps of several Programs on the same devices are kept apart by the backend's fence
// (engine/backend.h): on each device all of one step has ended before any of the next begins. So their uses need no waits
// between each other, and `initialised` is why they can share the memory of step buffers: no step reads what a step before
// it left there. waits_previous concerns steps of the same Program, which overlap where no other Program's come between.
absl::Status Verify(const Program& program);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_VERIFY_H_
