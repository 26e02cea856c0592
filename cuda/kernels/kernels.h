// Our own kernels: what thread i of each does. The mathematics of elements is program/formulas/math.h's.
//
// Each is a plain struct of numbers and addresses with `count` threads and operator()(i), which runs on the device
// (kernels.cu starts it) and, in tests, on the host in a loop. Instead of operator() a kernel may have Load(i), what i
// reads, ChannelsOf(i), the numbers of its channels, and Put(i, loaded, channels), so that a thread reads ahead, and the
// numbers once where all its elements have the same channels (HaveSameChannels). Threads of one kernel never write what
// another one of them reads or writes, so that results do not depend on their order. Sums that span threads are reductions
// (reduction.h), one kernel of many blocks and one that adds up what they found. T is the type in which elements are stored,
// float or BFloat16; arithmetic is that of float. A thread does `lanes` neighbouring elements, which it loads and stores at
// once: as many as 16 bytes hold, or one where they do not lie so (vector.h).
#ifndef COLONNADE_CUDA_KERNELS_H_
#define COLONNADE_CUDA_KERNELS_H_

#include <variant>

#include "cuda/kernels/batch_norm_kernels.h"
#include "cuda/kernels/batch_norm_sum_kernels.h"
#include "cuda/kernels/elementwise_kernels.h"
#include "cuda/kernels/fold_kernels.h"
#include "cuda/kernels/image_kernels.h"
#include "cuda/kernels/layer_norm_kernels.h"
#include "cuda/kernels/reduction_kernels.h"
#include "cuda/kernels/softmax_kernels.h"
#include "cuda/kernels/update_kernels.h"
#include "cuda/kernels/vector.h"
#include "program/formulas/bfloat16.h"

namespace colonnade::cuda {

template <class K>
concept WalksChannels = requires(const K& kernel) {
  kernel.Put(0, kernel.Load(0), kernel.ChannelsOf(0));
};

// What a thread does of `count` elements: element i and those that stand `stride`, the number of threads, apart.
template <class K>
COLONNADE_HOST_DEVICE void RunThread(const K& kernel, int64_t i, int64_t stride, int64_t count) {
  for (; i < count; i += stride) kernel(i);
}
// What two elements read is under way at once.
template <WalksChannels K>
COLONNADE_HOST_DEVICE void RunThread(const K& kernel, int64_t i, int64_t stride, int64_t count) {
  if (i >= count) return;
  const bool is_new = !kernel.HaveSameChannels(stride);
  auto channels = kernel.ChannelsOf(i);
  for (; i + stride < count; i += 2 * stride) {
    const auto loaded = kernel.Load(i), next = kernel.Load(i + stride);
    kernel.Put(i, loaded, channels);
    if (is_new) channels = kernel.ChannelsOf(i + stride);
    kernel.Put(i + stride, next, channels);
    if (is_new && i + 2 * stride < count) channels = kernel.ChannelsOf(i + 2 * stride);
  }
  if (i < count) kernel.Put(i, kernel.Load(i), channels);
}

// All kernels on elements of T, in vectors of `lanes`.
template <class T, int lanes, class... More>
using KernelsOf = std::variant<
    SumElements<T, lanes>, AddBias<T, T, lanes>, ActivationForwardElements<program::ReluFormula, T, lanes>,
    ActivationBackwardElements<program::ReluFormula, T, lanes>, ActivationForwardElements<program::GeluFormula, T, lanes>,
    ActivationBackwardElements<program::GeluFormula, T, lanes>, DropoutElements<T, lanes>, ChannelSums<T, lanes>,
    MaxPoolForwardElements<T, lanes>, MaxPoolBackwardElements<T, lanes>, AvgPoolForwardElements<T, lanes>,
    AvgPoolBackwardElements<T, lanes>, LrnForwardElements<T, lanes>, LrnBackwardElements<T, lanes>,
    PairSums<PowerTerms<T, lanes>>, PairSums<GradientTerms<T, lanes>>, PairSums<RecalledGradientTerms<T, lanes>>,
    PairSums<MaskedGradientTerms<T, lanes>>, BatchNormForwardElements<T, lanes>, BatchNormBackwardElements<T, lanes>,
    NormalisedWeights<T, lanes>, LayerNormMoments<T, lanes>, LayerNormForwardElements<T, lanes>,
    LayerNormGradientMeans<T, lanes>, LayerNormBackwardElements<T, lanes>, PairSums<LayerNormTerms<T, lanes>>, More...>;

template <class A, class B>
struct BothOf;
template <class... A, class... B>
struct BothOf<std::variant<A...>, std::variant<B...>> {
  using Type = std::variant<A..., B...>;
};

using KernelsOfFloat =
    BothOf<KernelsOf<float, 1, SgdElements<1>, AdamWElements<1>, AverageElements<1>, FoldPixels<float, float>,
                     FoldPixels<uint8_t, float>, ScalePixels<float>, UnfoldPixels<float, float>, SoftmaxSamples<float>,
                     SoftmaxElements<float>, SoftmaxBackwardElements<float>, NormalisedBiases<float>>,
           KernelsOf<float, kLanesOf<float>, SgdElements<kLanesOf<float>>, AdamWElements<kLanesOf<float>>,
                     AverageElements<kLanesOf<float>>>>::Type;

using KernelsOfBFloat16 =
    BothOf<KernelsOf<program::BFloat16, 1, ConvertElements<float, program::BFloat16, 1>,
                     ConvertElements<program::BFloat16, float, 1>, AddBias<float, program::BFloat16, 1>,
                     FoldPixels<uint8_t, program::BFloat16>, ScalePixels<program::BFloat16>,
                     FoldPixels<float, program::BFloat16>, FoldPixels<program::BFloat16, program::BFloat16>,
                     UnfoldPixels<program::BFloat16, float>, UnfoldPixels<program::BFloat16, program::BFloat16>,
                     SoftmaxSamples<program::BFloat16>, SoftmaxElements<program::BFloat16>,
                     SoftmaxBackwardElements<program::BFloat16>, NormalisedBiases<program::BFloat16>>,
           KernelsOf<program::BFloat16, kLanesOf<program::BFloat16>,
                     ConvertElements<float, program::BFloat16, kLanesOf<program::BFloat16>>,
                     ConvertElements<program::BFloat16, float, kLanesOf<program::BFloat16>>,
                     AddBias<float, program::BFloat16, kLanesOf<program::BFloat16>>>>::Type;

using Kernel = BothOf<
    std::variant<CopyElements, SumElements<int32_t, 1>, SumElements<double, 1>, FiniteTensors, FlagTensors, SumChannelParts,
                 SumMetrics, CountOfLabels, SumPairParts, SumGroups, FinishGradientSums, ForwardCoefficients,
                 BackwardCoefficients, TrackChannels, RecallChannels, PutSumPairs, SquareRanges, SumSquares, OpenGate>,
    BothOf<KernelsOfFloat, KernelsOfBFloat16>::Type>::Type;

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_KERNELS_H_
