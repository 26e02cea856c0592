// Programs and their texts changed at random, as the grammar allows, for tests that ask whether Verify lets through only
// what can be run.
#ifndef COLONNADE_TESTS_PROGRAM_MUTATE_H_
#define COLONNADE_TESTS_PROGRAM_MUTATE_H_

#include <cstdint>
#include <iterator>
#include <random>
#include <string>

#include "program/program.h"

namespace colonnade::program {

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  // Changes one to three things: operands, boxes, access, lanes, waits, attributes, element types, extents, views, buckets,
  // pieces, the order and number of tasks and of meetings. What comes out may break any rule, but Print can print it.
  void Change(Program& program);

  // Replaces a number or a word of `text` by one that stands in another place of it, or drops, doubles or swaps lines.
  std::string Change(const std::string& text);

 private:
  // A number in [0, count). REQUIRES: count > 0.
  size_t Any(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  bool OneIn(size_t count) { return Any(count) == 0; }
  int64_t Other(int64_t value);
  template <class List>
  auto& AnyOf(List& list) {
    return list[Any(std::size(list))];
  }

  void ChangeOperand(Program& program);
  void SwapOperands(Program& program);
  void MergeOperands(Program& program);
  void ChangeBox(Program& program);
  void ChangeBoxesAlike(Program& program);
  void ChangeAccess(Program& program);
  void ChangeLane(Program& program);
  void ChangeWaits(Program& program);
  void ChangeAttribute(Program& program);
  void ChangeMeeting(Program& program);
  void ChangeType(Program& program);
  void ChangeShape(Program& program);
  void ChangeStorage(Program& program);
  void ChangeLifetime(Program& program);
  void ChangeLayout(Program& program);
  void ChangeBucket(Program& program);
  void ChangePiece(Program& program);
  void ChangeDeclaration(Program& program);
  void DropTask(Program& program);
  void RepeatTask(Program& program);
  void MoveTask(Program& program);
  void MeetInAnotherOrder(Program& program);

  void ShiftBox(Region& region, const Shape& inside);
  std::mt19937 random_;
};

}  // namespace colonnade::program

#endif  // COLONNADE_TESTS_PROGRAM_MUTATE_H_
