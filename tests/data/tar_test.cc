// Tar archives: those of the tar program in its formats, and those that are damaged.

#include "data/tar.h"

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/file.h"
#include "data/tar_samples.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/sample_folder.h"
#include "tests/data/tar_writer.h"
#include "tests/sanitized.h"

namespace colonnade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TarError(const std::string& archive) {
  const absl::StatusOr<TarIndex> index = ScanTar(BytesInMemory(archive));
  if (index.ok()) return "no error";
  EXPECT_EQ(index.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(index.status().message());
}

// Each member as "name=bytes".
std::vector<std::string> MembersOf(const std::string& archive) {
  std::vector<std::string> members;
  const TarIndex index = ScanTar(BytesInMemory(archive)).value();
  for (const TarMember& member : index.members) {
    members.push_back(member.name + "=" + archive.substr(member.offset, member.size));
  }
  return members;
}

TEST(Tar, MembersAreFoundWithTheirBytes) {
  const std::string large(1000, 'x');
  EXPECT_THAT(MembersOf(TarOf({{"a", "one"}, {"b/c", ""}, {"d", large}})), ElementsAre("a=one", "b/c=", "d=" + large));
}

class TarFormats : public SampleFolder, public ::testing::WithParamInterface<const char*> {};

TEST_P(TarFormats, OfTheTarProgramAreRead) {
  const std::string folder = "set/" + std::string(90, 'f'), name = folder + "/" + std::string(90, 'n') + ".jpg";
  const bool is_short = GetParam() == std::string("v7");
  const std::string path = is_short ? "set/short.jpg" : name;
  Put(path, "bytes of a long name");
  std::filesystem::create_symlink("nowhere", In("set/z_link"));
  const std::string command =
      absl::StrCat("cd '", path_, "' && tar --format=", GetParam(), " -cf out.tar '", path, "' set/z_link 2>/dev/null");
  if (std::system(command.c_str()) != 0) GTEST_SKIP() << "skipped: no tar program that writes " << GetParam();
  const OpenFile file = OpenFile::Open(In("out.tar")).value();
  const TarIndex index = ScanTar(file).value();
  ASSERT_EQ(index.members.size(), 1u);
  EXPECT_EQ(index.members[0].name, path);
  EXPECT_EQ(index.passed_over, 1);
  std::string bytes(index.members[0].size, '\0');
  EXPECT_TRUE(file.ReadAt(index.members[0].offset, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(bytes, "bytes of a long name");
}

INSTANTIATE_TEST_SUITE_P(All, TarFormats, ::testing::Values("v7", "ustar", "gnu", "pax"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Tar, ANameOfGnuHoldsForTheNextMemberAlone) {
  const std::string name(200, 'n');
  EXPECT_THAT(MembersOf(TarMemberOf("././@LongLink", name + '\0', 'L') + TarMemberOf("cut", "1") + TarOf({{"b", "2"}})),
              ElementsAre(name + "=1", "b=2"));
}

TEST(Tar, APaxSizeAndNameHoldForTheNextMemberAlone) {
  std::string member = TarMemberOf("name", "12345");
  member.replace(124, 11, "00000000000");
  PutChecksum(member, 0);
  const std::string pax = "13 path=long\n9 size=5\n10 uid=77\n";
  EXPECT_THAT(MembersOf(TarMemberOf("x", pax, 'x') + member + TarOf({{"b", "2"}})), ElementsAre("long=12345", "b=2"));
}

TEST(Tar, ABinarySizeIsRead) {
  std::string member = TarMemberOf("name", "12345");
  member.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\5", 12));
  PutChecksum(member, 0);
  EXPECT_THAT(MembersOf(member + kTarEnd), ElementsAre("name=12345"));
  member.replace(124, 12, std::string("\x80\0\0\0\xff\0\0\0\0\0\0\5", 12));
  PutChecksum(member, 0);
  EXPECT_THAT(TarError(member + kTarEnd), HasSubstr("found no number"));
}

TEST(Tar, WhatIsDamagedIsNamedWithItsOffset) {
  const std::string good = TarMemberOf("a", "one") + TarMemberOf("b", "two");
  std::string changed = good, large = good;
  changed[1024] = 'c';
  large.replace(1024 + 124, 11, "77777777777");
  PutChecksum(large, 1024);
  EXPECT_THAT(TarError(changed + kTarEnd), HasSubstr("at offset 1024: expected a header with the checksum"));
  EXPECT_THAT(
      TarError(large + kTarEnd),
      HasSubstr("at offset 1024: expected a member of at most 1536 bytes, all that the file has left, found 8589934591"));
  EXPECT_THAT(TarError(good), HasSubstr("at offset 2048: expected a header or the archive's end"));
  EXPECT_THAT(TarError("three"), HasSubstr("at offset 0: expected a header"));
  EXPECT_THAT(TarError(std::string(600, 'x')), HasSubstr("checksum"));
}

TEST(Tar, ArchivesThatWereJoinedAreAnError) {
  EXPECT_THAT(TarError(TarOf({{"a", "1"}}) + TarOf({{"b", "2"}})), HasSubstr("such as a second archive"));
  EXPECT_EQ(MembersOf(TarOf({{"a", "1"}}) + std::string(100'000, '\0')).size(), 1u);
}

TEST(Tar, KindsThatAreNotReadAreNamed) {
  EXPECT_THAT(TarError(TarMemberOf("s", "", 'S') + kTarEnd), HasSubstr("found a member of type 0x53"));
  EXPECT_THAT(TarError(TarMemberOf("g", "10 size=5\n", 'g') + kTarEnd), HasSubstr("found one for all"));
  EXPECT_EQ(TarError(TarMemberOf("g", "12 comment=\n", 'g') + kTarEnd), "no error");
  EXPECT_THAT(TarError(TarMemberOf("x", "22 GNU.sparse.major=1\n", 'x') + kTarEnd), HasSubstr("found a sparse one"));
  for (const char* pax : {"5 a", "99 path=a\n", "x path=a\n", "8 path a\n", "2 \n", "10 size=-\n"}) {
    EXPECT_THAT(TarError(TarMemberOf("x", pax, 'x') + kTarEnd), HasSubstr("expected")) << pax;
  }
}

// With its checksums made right again in half of the cases, so that other fields are looked at.
TEST(Tar, DamagedArchivesAreReadOrRefused) {
  const std::string good = TarMemberOf("././@LongLink", std::string(150, 'n') + '\0', 'L') + TarMemberOf("cut", "1") +
                           TarMemberOf("x", "13 path=long\n9 size=5\n", 'x') + TarMemberOf("b.jpg", "12345") +
                           TarOf({{"c.jpg", "2"}, {"c.cls", "3"}, {"train/d/e.jpg", "4"}});
  std::mt19937 random(1);
  auto below = [&random](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
  int taken = 0;
  constexpr int kArchives = Draws(100'000);
  for (int n = 0; n < kArchives; ++n) {
    std::string archive = good;
    for (size_t changes = 1 + below(3); changes > 0; --changes) {
      archive[below(archive.size())] = static_cast<char>(below(2) == 0 ? below(256) : '0' + below(8));
    }
    if (below(2) == 0) {
      for (size_t header = 0; header < archive.size() - kTarEnd.size(); header += 1024) PutChecksum(archive, header);
    }
    if (below(8) == 0) archive.resize(below(archive.size()));
    const BytesInMemory bytes(archive);
    const absl::StatusOr<TarIndex> index = ScanTar(bytes);
    ASSERT_TRUE(index.ok() || absl::IsInvalidArgument(index.status())) << index.status();
    if (!index.ok()) continue;
    ++taken;
    for (const TarMember& member : index->members) ASSERT_LE(member.offset + member.size, bytes.size());
    (void)SamplesByKey(bytes, *index, 0);
    (void)SamplesByFolder(*index, SplitOf::kTrain, {});
  }
  EXPECT_GT(taken, kArchives / 20);
}

}  // namespace
}  // namespace colonnade::data
