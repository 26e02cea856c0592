#include "cuda/driver/convolution_graph_builder.h"

namespace colonnade::cuda {
namespace {

// cuDNN refuses those that it has no convolutions of.
cudnnDataType_t TypeOf(program::DType dtype) {
  switch (dtype) {
    case program::DType::kF32:
      return CUDNN_DATA_FLOAT;
    case program::DType::kF64:
      return CUDNN_DATA_DOUBLE;
    case program::DType::kI32:
      return CUDNN_DATA_INT32;
    case program::DType::kU8:
      return CUDNN_DATA_UINT8;
    case program::DType::kBF16:
      return CUDNN_DATA_BFLOAT16;
  }
  return CUDNN_DATA_FLOAT;
}

// cuDNN's words for a direction and its operands.
struct DirectionNames {
  cudnnBackendDescriptorType_t operation;
  AttributeName x, filter, y, convolution, alpha, beta;
};
DirectionNames NamesOf(Convolution::Direction direction) {
  switch (direction) {
    case Convolution::Direction::kForward:
      break;
    case Convolution::Direction::kBackwardData:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Convolution::Direction::kBackwardWeights:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

GraphTensor WrittenBy(Convolution::Direction direction) {
  switch (direction) {
    case Convolution::Direction::kForward:
      return kY;
    case Convolution::Direction::kBackwardData:
      return kX;
    case Convolution::Direction::kBackwardWeights:
      return kFilter;
  }
  return kY;
}

}  // namespace

void ConvolutionGraphBuilder::AddConvolution() {
  const bool goes_on = c_.bias != nullptr || c_.relu || c_.writes_f32;
  const GraphTensor written = WrittenBy(c_.direction);
  const auto operand = [&](GraphTensor name) {
    return AddTensor(goes_on && name == written ? kProduct : name, ShapeOf(name));
  };
  const auto x = operand(kX), filter = operand(kFilter), y = operand(kY);
  const auto convolution = Add(
      DescriptorBuilder(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
          .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
          .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
          .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
          .SetAll(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::array<int64_t, 2>{1, 1})
          .SetAll(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::array<int64_t, 2>{c_.window.stride_h, c_.window.stride_w})
          .SetAll(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::array<int64_t, 2>{c_.window.pad_top, c_.window.pad_left})
          .SetAll(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::array<int64_t, 2>{c_.window.pad_bottom, c_.window.pad_right}));
  const DirectionNames names = NamesOf(c_.direction);
  operations_.push_back(Add(DescriptorBuilder(names.operation)
                                .Refer(names.x, x)
                                .Refer(names.filter, filter)
                                .Refer(names.y, y)
                                .Refer(names.convolution, convolution)
                                .Set(names.alpha, 1.0f)
                                .Set(names.beta, 0.0f)));
  if (goes_on) AddRest(written == kX ? x : written == kFilter ? filter : y);
}

void ConvolutionGraphBuilder::AddRest(cudnnBackendDescriptor_t product) {
  cudnnBackendDescriptor_t last = product;
  if (c_.writes_f32) {
    const GraphTensor written = WrittenBy(c_.direction);
    AddPointwise(CUDNN_POINTWISE_IDENTITY, last, nullptr, AddTensor(written, ShapeOf(written)));
    return;
  }
  if (c_.bias != nullptr) {
    const auto bias = AddTensor(kBias, {1, c_.k, 1, 1});
    const auto sum = AddTensor(c_.relu ? kSum : kY, ShapeOf(kY));
    AddPointwise(CUDNN_POINTWISE_ADD, last, bias, sum);
    last = sum;
  }
  // max(NaN, 0) is 0, as in program/formulas/math.h.
  if (c_.relu) AddPointwise(CUDNN_POINTWISE_RELU_FWD, last, nullptr, AddTensor(kY, ShapeOf(kY)));
}

ConvolutionGraphBuilder::Shape4 ConvolutionGraphBuilder::ShapeOf(GraphTensor name) const {
  if (name == kX) return {c_.n, c_.c, c_.h, c_.w};
  if (name == kFilter) return {c_.k, c_.c / c_.groups, c_.window.size_h, c_.window.size_w};
  return {c_.n, c_.k, c_.p, c_.q};
}

absl::Status ConvolutionGraphBuilder::Finish() {
  DescriptorBuilder graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (handle_ != nullptr) graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle_);
  Add(graph.ReferToAll(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_));
  return status_;
}

cudnnBackendDescriptor_t ConvolutionGraphBuilder::AddTensor(GraphTensor name, const Shape4& shape) {
  const bool is_virtual = name == kProduct || name == kSum;
  const bool is_f32 = is_virtual || (c_.writes_f32 && name == WrittenBy(c_.direction));
  const auto& [n, c, h, w] = shape;
  return Add(DescriptorBuilder(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
                 .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t{name})
                 .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, is_f32 ? CUDNN_DATA_FLOAT : TypeOf(c_.dtype))
                 .SetAll(CUDNN_ATTR_TENSOR_DIMENSIONS, shape)
                 .SetAll(CUDNN_ATTR_TENSOR_STRIDES, Shape4{h * w * c, 1, w * c, c})
                 .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment_)
                 .Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual));
}

void ConvolutionGraphBuilder::AddPointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                           cudnnBackendDescriptor_t y) {
  const auto what = Add(DescriptorBuilder(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                            .Set(CUDNN_ATTR_POINTWISE_MODE, mode)
                            .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT));
  DescriptorBuilder operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.Refer(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what)
      .Refer(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .Refer(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  if (b != nullptr) operation.Refer(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  operations_.push_back(Add(operation));
}

}  // namespace colonnade::cuda
