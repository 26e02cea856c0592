// Which cells of a pooling's window count.
#ifndef COLONNADE_PROGRAM_FORMULAS_WINDOW_H_
#define COLONNADE_PROGRAM_FORMULAS_WINDOW_H_

#include <cstdint>

#include "program/formulas/host_device.h"

namespace colonnade::program {

// Returns by how many cells, along rows or columns, the sum of a window that begins at `first` is divided: those in the
// image, of `extent` cells, or in the image with `pad` cells on either side.
COLONNADE_HOST_DEVICE inline int64_t CountedCells(int64_t first, int64_t size, int64_t extent, int64_t pad) {
  const int64_t begin = first < -pad ? -pad : first, end = first + size < extent + pad ? first + size : extent + pad;
  return end - begin;
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_FORMULAS_WINDOW_H_
