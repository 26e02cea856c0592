// Finds, by bucket elimination, the assignments of least cost to variables of few values each, where the cost is a sum of
// factors: tables over some of the variables.
//
//   cost(x) = Σ_f f(x restricted to the scope of f)
//
// In the order of elimination, the bucket of a variable v takes the factors that name v and are in no bucket yet, and leaves
// a factor over the other variables of its scope:
//   m_v(rest) = min over v of the sum of its bucket
// The regret of a value of v is what it costs above m_v; the cost of an assignment is the least cost of all plus its
// regrets. So the variables are assigned from the last one eliminated to the first, and of all partial assignments the
// `count` of least regret are kept: each has a completion that adds none.
//
// Cost    of elimination: time and entries Σ_v Π of the sizes in v's bucket, which is exponential in the width of the order
//         (1 for a chain, 2 where branches join again); of the assignments: count · Σ of sizes.
// Source  Dechter 1999, Bucket elimination, Artificial Intelligence 113; for several assignments Flerova, Marinescu and
//         Dechter 2016, Searching for the M best solutions in graphical models, JAIR 55.
#ifndef COLONNADE_PARTITION_PLANNER_ELIMINATION_H_
#define COLONNADE_PARTITION_PLANNER_ELIMINATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace colonnade::partition {

struct Factor {
  std::vector<int> scope;     // variables, ascending
  std::vector<double> table;  // finite; row-major: the value of the last variable changes fastest
};

// Returns the number of entries of a table over `scope`, or the first product above `most`.
int64_t TableEntries(const std::vector<int>& sizes, const std::vector<int>& scope, int64_t most);

// Returns an order of elimination: always a variable whose elimination joins the fewest pairs that no scope names together
// (min-fill), the last of several. `sizes` says how many values each variable has. ResourceExhausted where a bucket would
// have more than `most_entries` entries.
absl::StatusOr<std::vector<int>> EliminationOrder(const std::vector<int>& sizes, const std::vector<std::vector<int>>& scopes,
                                                  int64_t most_entries);

// Returns the `count` assignments of least cost, or all if there are fewer, the cheapest first. An assignment has, by
// variable, the index of its value. Assignments of equal cost are in lexicographic order, compared from the last variable of
// `order` to the first.
std::vector<std::vector<int>> LeastAssignments(const std::vector<int>& sizes, std::vector<Factor> factors,
                                               const std::vector<int>& order, int count);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_PLANNER_ELIMINATION_H_
