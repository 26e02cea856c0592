// Where the operands of convolutions and fully connected layers stand among a task's uses.
#ifndef COLONNADE_PROGRAM_PRODUCT_USES_H_
#define COLONNADE_PROGRAM_PRODUCT_USES_H_

namespace colonnade::program {

// The uses that are x, w, y and the bias, or their gradients; kNone where the op has no bias.
struct ProductUses {
  static constexpr int kNone = -1;
  int x, w, y;
  int bias = kNone;
};
constexpr ProductUses ForwardUses(bool has_bias) {
  return has_bias ? ProductUses{.x = 0, .w = 1, .y = 3, .bias = 2} : ProductUses{.x = 0, .w = 1, .y = 2};
}
constexpr ProductUses BackwardDataUses() { return {.x = 2, .w = 1, .y = 0}; }
constexpr ProductUses BackwardWeightsUses(bool has_bias) {
  return {.x = 0, .w = 2, .y = 1, .bias = has_bias ? 3 : ProductUses::kNone};
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_PRODUCT_USES_H_
