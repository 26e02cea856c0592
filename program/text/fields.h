// The attributes of every op, exchange and collective by name, in the order of the text form: one list for Print and Parse.
// Internal to program/.
#ifndef COLONNADE_PROGRAM_TEXT_FIELDS_H_
#define COLONNADE_PROGRAM_TEXT_FIELDS_H_

#include <tuple>
#include <type_traits>

#include "program/op_table.h"
#include "program/task.h"

namespace colonnade::program {

// Calls `f(name, attribute)` for each attribute of what a task does.
template <class F>
struct VisitFields {
  F& f;

  template <class What>
  void operator()(What& what) {
    using T = std::remove_const_t<What>;
    if constexpr (std::is_same_v<T, Compute>) {
      std::visit(*this, what.op);
    } else if constexpr (std::is_same_v<T, Exchange>) {
      f("message", what.message);
      f("peer", what.peer);
      f("sends", what.sends);
      f("receives", what.receives);
    } else if constexpr (std::is_same_v<T, Collective>) {
      f("instance", what.instance);
      f("group", what.group);
      f("from", what.dim_from);
      f("to", what.dim_to);
      f("root", what.root);
    } else {
      std::apply([&](const auto&... attribute) { (f(attribute.name, what.*attribute.member), ...); },
                 OpTraits<T>::kAttributes);
    }
  }
};
template <class F>
VisitFields(F&) -> VisitFields<F>;

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_TEXT_FIELDS_H_
