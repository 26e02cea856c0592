// Where the cache of a user lies, by the environment.
#include "data/user_cache.h"

#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::data {
namespace {

TEST(UserCacheFolder, IsThatOfTheEnvironment) {
  const char* old = std::getenv("XDG_CACHE_HOME");
  const std::string before = old == nullptr ? "" : old;
  ::setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(UserCacheFolder(), "/caches/colonnade");
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_THAT(UserCacheFolder(), ::testing::AnyOf("", ::testing::EndsWith("/.cache/colonnade")));
  if (old != nullptr) ::setenv("XDG_CACHE_HOME", before.c_str(), 1);
}

}  // namespace
}  // namespace colonnade::data
