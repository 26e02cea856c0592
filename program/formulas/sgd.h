// The update of a weight by stochastic gradient descent with momentum, in the forms in which it is published.
#ifndef COLONNADE_PROGRAM_FORMULAS_SGD_H_
#define COLONNADE_PROGRAM_FORMULAS_SGD_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "program/formulas/host_device.h"

namespace colonnade::program {

// With u = weight_decay·w + g:
//   kKrizhevsky  v ← momentum·v − lr·u,  w ← w + v                  Krizhevsky et al. 2012, section 5
//   kPyTorch     v ← momentum·v + u,     w ← w − lr·v               torch.optim.SGD; the same steps while lr is constant
//   kNesterov    v ← momentum·v + u,     w ← w − lr·(u + momentum·v)   Sutskever et al. 2013, as torch.optim.SGD has it
enum class SgdForm : uint8_t { kKrizhevsky, kPyTorch, kNesterov };
inline constexpr SgdForm kSgdForms[] = {SgdForm::kKrizhevsky, SgdForm::kPyTorch, SgdForm::kNesterov};  // all of them

inline const char* Name(SgdForm form) {
  return form == SgdForm::kKrizhevsky ? "krizhevsky" : form == SgdForm::kPyTorch ? "pytorch" : "nesterov";
}

// Returns the form of that name; nothing if there is none.
inline std::optional<SgdForm> SgdFormFromName(std::string_view name) {
  for (SgdForm form : kSgdForms) {
    if (name == Name(form)) return form;
  }
  return std::nullopt;
}

template <class T>
COLONNADE_HOST_DEVICE inline void SgdStep(SgdForm form, T lr, T momentum, T weight_decay, T g, T& v, T& w) {
  const T u = weight_decay * w + g;
  switch (form) {
    case SgdForm::kKrizhevsky:
      v = momentum * v - lr * u;
      w += v;
      return;
    case SgdForm::kPyTorch:
      v = momentum * v + u;
      w -= lr * v;
      return;
    case SgdForm::kNesterov:
      v = momentum * v + u;
      w -= lr * (u + momentum * v);
      return;
  }
}

// Calls f with `form` as a constant of its type, so that a loop in f is compiled for each.
template <class F>
void WithForm(SgdForm form, const F& f) {
  switch (form) {
    case SgdForm::kKrizhevsky:
      return f(std::integral_constant<SgdForm, SgdForm::kKrizhevsky>());
    case SgdForm::kPyTorch:
      return f(std::integral_constant<SgdForm, SgdForm::kPyTorch>());
    case SgdForm::kNesterov:
      return f(std::integral_constant<SgdForm, SgdForm::kNesterov>());
  }
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_FORMULAS_SGD_H_
