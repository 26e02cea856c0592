// Reductions: kernels whose threads work in blocks, each of which merges what its threads found.
//
// A block is a table of kThreadsOfBlock / columns() rows. The thread at (row, column) makes a Part of its own; the parts of
// a column are merged by halves of its rows, always in the same order, and the last one is put. Instead of count and
// operator() a reduction has
//   using Part                                 a plain aggregate
//   blocks()                                   how many there are
//   columns()                                  of each block; at most kThreadsOfBlock
//   PartOf(block, row, rows, column)           what one of the `rows` threads of a column finds
//   static Merge(a, b)                         of two rows
//   Put(block, column, part)                   writes a column's result
#ifndef COLONNADE_CUDA_REDUCTION_H_
#define COLONNADE_CUDA_REDUCTION_H_

#include <cstdint>

#include "program/formulas/host_device.h"

namespace colonnade::cuda {

inline constexpr int kThreadsOfBlock = 256;

template <class K>
concept Reduction = requires {
  typename K::Part;
};

// Returns what thread `row` merges with, of `rows` that are left: the row half of them further on, or −1. (rows + 1) / 2 are
// left afterwards.
COLONNADE_HOST_DEVICE inline int PartnerOf(int row, int rows) {
  const int half = (rows + 1) / 2;
  return row + half < rows ? row + half : -1;
}

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_REDUCTION_H_
