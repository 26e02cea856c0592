#include "base/json_files.h"

#include "gtest/gtest.h"

namespace colonnade::base {
namespace {

TEST(JsonFiles, AreToldByTheKeyOfTheirKind) {
  EXPECT_EQ(KindOfJson("\n {\"name\": \"mine\", \"colonnade_plan\": 1}"), "a plan file; --plan takes it");
  EXPECT_EQ(KindOfJson("{\"colonnade_rows\": 1"), "a table of rows; table --rows takes it");
  EXPECT_EQ(KindOfJson("[\"colonnade_plan\"]"), "") << "no object";
  EXPECT_EQ(KindOfJson("{}"), "");
}

TEST(JsonFiles, OfAnotherKindAreRefusedAndThoseOfNoneAreNot) {
  EXPECT_EQ(std::string(CheckKindOfJson("colonnade_machine", "{\"colonnade_model\": 1}").message()),
            "expected a machine profile, found a network file; --model takes it");
  EXPECT_TRUE(CheckKindOfJson("colonnade_machine", "{\"name\": 1}").ok());
  EXPECT_TRUE(CheckKindOfJson("colonnade_model", "{\"colonnade_plan\": \"a layer\", \"colonnade_model\": 1}").ok());
}

}  // namespace
}  // namespace colonnade::base
