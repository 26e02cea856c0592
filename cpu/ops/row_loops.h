// The loops of convolutions and poolings by rows, compiled once for each instruction set (row_loops_avx512.cc,
// row_loops_avx2.cc).
//
// Images are row-major. A vector holds neighbours of a row of y; a tile of outputs times some vectors stays in registers
// while all taps of the window are added to it, so that each value of x that is loaded serves every output of the tile.
// Pure functions; threads may call them on images of their own.
#ifndef COLONNADE_CPU_ROW_LOOPS_H_
#define COLONNADE_CPU_ROW_LOOPS_H_

#include <cstdint>

namespace colonnade::cpu {

// A convolution of stride 1 from padded planes of x to planes of y.
// REQUIRES: pitch ≥ columns, rounded up to lanes, + window_columns − 1.
struct RowConvolution {
  std::int64_t inputs, outputs;              // channels
  std::int64_t rows, columns;                // of y
  std::int64_t window_rows, window_columns;  // window_columns is 3 or 5
  std::int64_t pitch;                        // floats from one row of x to the next
  std::int64_t plane;                        // and from one plane of x to the next
};

// The images that the gradient of the weights is summed over. Images, planes and rows lie at regular distances, in floats.
// Rows of dy end with zeros up to a multiple of kMostLanes columns.
struct RowGradient {
  std::int64_t images, x_image, dy_image, dy_plane, dy_pitch;
};

// The lanes of the widest vectors, of which rows are padded to a multiple.
inline constexpr std::int64_t kMostLanes = 16;

// The place of a window's maximum before any of its cells was seen.
inline constexpr std::int32_t kNowhere = 255;

struct RowLoops {
  std::int64_t lanes;         // of a vector
  std::int64_t outputs;       // at most, of a tile of Convolve
  std::int64_t accumulators;  // at most, of a tile of AddGradient: outputs times columns of the window

  // y[k] = Σ over inputs and taps of x·w, plus bias[k] unless `bias` is null, at least 0 if `relu`. `w`: for each tile of
  // `tile` outputs, of which the last may have fewer, [inputs, window_rows, window_columns, outputs of the tile].
  void (*convolve)(const RowConvolution& of, std::int64_t tile, const float* x, const float* w, const float* bias, bool relu,
                   float* y);
  // Adds Σ x·dy to the vectors `sums`, by lane: for each tile, [inputs, window_rows, outputs of the tile, window_columns].
  void (*add_gradient)(const RowConvolution& of, const RowGradient& over, std::int64_t tile, const float* x, const float* dy,
                       float* sums);
  // Shows a cell to kMostLanes windows: window i in [begin, end) takes x[i·stride] and `place` where that is larger than
  // value[i] or where places[i] is still kNowhere. The stride is 1 or 2; x[0, kMostLanes·stride) is read.
  void (*take_cells)(const float* x, std::int64_t stride, std::int32_t place, std::int64_t begin, std::int64_t end,
                     float* value, std::int32_t* places);
  // sum[0, kMostLanes) += the `count` floats of `row`, a multiple of kMostLanes, by lane.
  void (*add_row)(const float* row, std::int64_t count, float* sum);
};

// Returns the loops for the widest vectors that this processor has; null where it has none that they are compiled for.
const RowLoops* FindRowLoops();

extern const RowLoops kRowLoopsAvx512, kRowLoopsAvx2;

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_ROW_LOOPS_H_
