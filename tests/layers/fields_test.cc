// The attributes by name: all of them, so that a file holds all that a layer is.
#include "layers/fields.h"

#include <cstring>
#include <set>
#include <string>
#include <type_traits>
#include <variant>

#include "gtest/gtest.h"
#include "layers/layer.h"

namespace colonnade::layers {
namespace {

// How many bytes of `layer`, from `at` on, belong to the field; 0 where it begins elsewhere.
template <class L>
size_t Covered(const L& layer, const Field& field, size_t at) {
  return std::visit(
      [&](const auto* value) {
        const auto* begin = reinterpret_cast<const unsigned char*>(value);
        const auto* byte = reinterpret_cast<const unsigned char*>(&layer) + at;
        return byte >= begin && byte < begin + sizeof(*value) ? sizeof(*value) : size_t{0};
      },
      field.value);
}

// A byte that makes two layers unequal is part of an attribute, which is to be a field. What follows from the layer's name
// is none: the stream of a Dropout.
template <class L>
void ExpectEveryAttributeIsAField(const std::set<size_t>& none) {
  L layer{};
  const std::vector<Field> fields = Fields(layer);
  for (size_t at = 0; at < sizeof(L); ++at) {
    L other = layer;
    reinterpret_cast<unsigned char*>(&other)[at] ^= 1;
    if (other == layer || none.contains(at)) continue;
    size_t covered = 0;
    for (const Field& field : fields) covered += Covered(layer, field, at) > 0 ? 1 : 0;
    EXPECT_EQ(covered, 1u) << TypeName(layer) << ", byte " << at;
  }
}

TEST(Fields, AreAllAttributesOfALayer) {
  ExpectEveryAttributeIsAField<Conv2d>({});
  ExpectEveryAttributeIsAField<FullyConnected>({});
  ExpectEveryAttributeIsAField<MaxPool>({});
  ExpectEveryAttributeIsAField<AvgPool>({});
  ExpectEveryAttributeIsAField<Lrn>({});
  ExpectEveryAttributeIsAField<BatchNorm>({});
  ExpectEveryAttributeIsAField<LayerNorm>({});
  ExpectEveryAttributeIsAField<SoftmaxCrossEntropy>({});
  std::set<size_t> stream;
  for (size_t b = 0; b < sizeof(Dropout::stream); ++b) stream.insert(offsetof(Dropout, stream) + b);
  ExpectEveryAttributeIsAField<Dropout>(stream);
}

// Those that hold a list, and those that hold nothing: the size of what they hold is theirs.
TEST(Fields, AreThoseOfEveryLayerOfTheVariant) {
  std::set<std::string> with_none, all;
  for (Layer layer : DefaultLayers()) {
    EXPECT_TRUE(all.insert(TypeName(layer)).second) << "two types of one name: " << TypeName(layer);
    std::set<std::string> names;
    for (const Field& field : Fields(layer)) EXPECT_TRUE(names.insert(field.name).second) << field.name;
    for (const char* taken : {"name", "type", "inputs"}) EXPECT_FALSE(names.contains(taken)) << TypeName(layer);
    if (names.empty()) with_none.insert(TypeName(layer));
  }
  EXPECT_EQ(all.size(), std::variant_size_v<Layer>);
  EXPECT_EQ(with_none, (std::set<std::string>{"Add", "AddNarrow", "Concat", "Flatten", "Gelu", "Relu"}));
}

TEST(Fields, PointIntoTheLayer) {
  Layer layer = Conv2d{.out_channels = 3};
  for (const Field& field : Fields(layer)) {
    if (std::string(field.name) == "kernel") *std::get<int64_t*>(field.value) = 5;
  }
  EXPECT_EQ(std::get<Conv2d>(layer), (Conv2d{.out_channels = 3, .kernel = 5}));
}

}  // namespace
}  // namespace colonnade::layers
