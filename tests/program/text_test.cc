#include "program/text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/formulas/philox.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {
namespace {

using ::testing::HasSubstr;

class TextRoundTrip : public ::testing::TestWithParam<Program (*)()> {};

TEST_P(TextRoundTrip, IsExact) {
  const Program program = GetParam()();
  const std::string text = Print(program);
  const absl::StatusOr<Program> parsed = Parse(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << text;
  EXPECT_TRUE(*parsed == program) << text;
  EXPECT_EQ(Print(*parsed), text);
}

Program ShardedBucket() {
  Builder b("sharded/1", Mode::kEval, 1, DType::kF64, {{"data", 2}});
  b.AddBucket({.device = 1,
               .name = "half \"quoted\" \\ é",
               .dtype = DType::kF64,
               .lifetime = Lifetime::kPersistent,
               .parts = 2,
               .first_part = 1,
               .held_parts = 1,
               .equal_parts = true,
               .member_names = {"m"},
               .member_shapes = {{3, 1}}});
  b.AddBucket({.name = "empty", .parts = 1});
  b.AddBuffer(0, "", DType::kU8, {});
  return std::move(b).Build();
}

// EveryOp, whose running mean and variance are statistics.
Program WithStatistics() {
  Program program = EveryOp();
  const Task& track = Find(program, "batch_norm_track");
  for (const auto& [name, use, value] : {std::tuple("norm.running_mean", 1, 0.0), {"norm.running_var", 2, 1.0}}) {
    for (Parameter& parameter : program.parameters) {
      if (FindPiece(parameter.value(), track.uses[use].buffer) < 0) continue;
      parameter.name = name;
      parameter.layer = "batch norm";
      parameter.role = StateRole::kStatistic;
      parameter.initializer = {Initializer::Kind::kConstant, value};
    }
  }
  return program;
}

INSTANTIATE_TEST_SUITE_P(Programs, TextRoundTrip,
                         ::testing::Values(
                             TwoColumns, EveryOp, EveryCollective, ShardedBucket, WithStatistics,
                             +[] { return RandomLifetimes(3, 40); }));

TEST(Text, TellsAStatisticByAWordAndATrainedParameterByNone) {
  const std::string text = Print(WithStatistics());
  const std::string mean = "parameter \"norm.running_mean\" layer \"batch norm\" [4] statistic constant 0 value ";
  EXPECT_THAT(text, HasSubstr(mean));
  EXPECT_THAT(text, HasSubstr(" [10,144] uniform "));
  const absl::StatusOr<Program> parsed = Parse(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(TrainedCount(*parsed), 1);
  EXPECT_EQ(parsed->parameters[0].role, StateRole::kTrained);
  const auto is_statistic = [](const Parameter& parameter) { return parameter.role == StateRole::kStatistic; };
  EXPECT_EQ(std::count_if(parsed->parameters.begin(), parsed->parameters.end(), is_statistic), 2);
  const std::string wrong = absl::StrReplaceAll(text, {{" statistic ", " statistics "}});
  EXPECT_THAT(std::string(Parse(wrong).status().message()), HasSubstr("expected constant, gaussian or uniform"));
  EXPECT_EQ(TrainedCount(Builder("empty", Mode::kEval, 0, DType::kF32, {}).Build()), 0);
}

TEST(Text, ReadsAsOneLinePerTask) {
  const std::string text = Print(TwoColumns());
  EXPECT_THAT(text, HasSubstr("program two_columns train batch=2 dtype=f32 mesh=data:1,model:2\ngroup 0 = 0,1\n"
                              "buffer 0 d0 step f32 [2,1,4,4] \"images\"\n"));
  EXPECT_THAT(text, HasSubstr(" d0 compute conv_forward{window=3x3/1x1+0x0 groups=1 bias=1 relu=1} read 0 read 14 read 15 "
                              "write 3[0:2,0:2,0:2,0:2] waits "));
  EXPECT_THAT(
      text,
      HasSubstr(" d0 comm exchange{message=0 peer=1 sends=1 receives=1} read 3[0:2,0:2,0:2,0:2] write 3[0:2,2:4,0:2,0:2] "));
  EXPECT_THAT(text, HasSubstr(" work flops=10 read=208 written=64 sent=0 from conv forward\n"));
}

// EveryOp with another window in its average pooling.
std::string TextWithWindow(const Window& window) {
  Program program = EveryOp();
  for (Task& task : program.tasks) {
    auto* compute = std::get_if<Compute>(&task.body);
    if (compute == nullptr) continue;
    if (auto* pool = std::get_if<AvgPoolForward>(&compute->op)) pool->window = window;
  }
  return Print(program);
}

TEST(Text, AWindowTellsItsPaddingBehindOnlyWhereThatIsAnother) {
  EXPECT_THAT(TextWithWindow({3, 2, 2, 2, 1, 0, 1, 0}), HasSubstr("avg_pool_forward{window=3x2/2x2+1x0 count_pad=0}"));
  for (const auto& [window, words] : {std::pair(Window{3, 3, 2, 2, 1, 0, 0, 1}, "window=3x3/2x2+1x0:0x1 "),
                                      std::pair(Window{3, 2, 2, 2, 0, 0, 1, 0}, "window=3x2/2x2+0x0:1x0 "),
                                      std::pair(Window{2, 3, 2, 2, 0, 0, 0, 1}, "window=2x3/2x2+0x0:0x1 ")}) {
    const std::string text = TextWithWindow(window);
    EXPECT_THAT(text, HasSubstr(words));
    const auto parsed = Parse(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(Print(*parsed), text);
  }
  const std::string cut = absl::StrReplaceAll(TextWithWindow({3, 3, 2, 2, 0, 0, 1, 2}), {{"+0x0:1x2", "+0x0:1"}});
  EXPECT_THAT(std::string(Parse(cut).status().message()), HasSubstr("\"x\""));
}

TEST(Text, SkipsBlankLinesAndComments) {
  const std::string text = Print(EveryOp());
  const auto parsed = Parse(absl::StrCat("# a comment\n\n", absl::StrReplaceAll(text, {{"\n", "\n   \n"}})));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(Print(*parsed), text);
}

// A line of a good text, what to put in its place, and what Parse says.
struct Mistake {
  const char *from, *to, *message;
};

TEST(Text, NamesLineExpectedAndFound) {
  const std::string good = Print(TwoColumns());
  const Mistake mistakes[] = {
      {"program two", "programme two", "line 1: expected \"program\", found \"programme two_columns"},
      {"train batch", "trian batch", "line 1: expected train or eval, found \"trian batch"},
      {"mesh=data:1", "mesh=data:0", "line 1: expected a mesh of 1 to"},
      {"batch=2", "batch=two", "line 1: expected a whole number, found \"two dtype"},
      {"buffer 1 d0", "buffer 7 d0", "line 4: expected the number 1, found \"7 d0"},
      {"\"images\"\nbuffer 1", "\"images\nbuffer 1", "line 3: expected a name in quotes"},
      {"\"images\"\nbuffer 1", "\"images\" extra\nbuffer 1", "line 3: expected the end of the line, found \"extra\""},
      {"conv_forward{", "conv_sideways{", "expected an op, exchange or a collective, found \"conv_sideways{"},
      {"relu=1}", "relu=2}", "expected \"0\", found \"2}"},
      {"[2,1,4,4] \"images\"\nbuffer 1", "[2,1,4,99999999999999999999] \"images\"\nbuffer 1", "expected a whole number"},
      {"write 3[0:2,2:4", "write 3000[0:2,2:4", "structure: "},
      {"write 5 waits", "write 5000 waits", "expected the number of a buffer that stands above"},
  };
  for (const Mistake& mistake : mistakes) {
    std::string text = good;
    const size_t at = text.find(mistake.from);
    ASSERT_NE(at, std::string::npos) << mistake.from;
    text.replace(at, std::string(mistake.from).size(), mistake.to);
    const auto parsed = Parse(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << mistake.to;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(mistake.message));
  }
  EXPECT_THAT(std::string(Parse("").status().message()),
              HasSubstr("line 1: expected \"program\", found the end of the text"));
}

// A number that would be another one in 32 bits is refused wherever an id, a device or a number of a meeting stands.
TEST(Text, NumbersDoNotWrap) {
  const std::string text = Print(TwoColumns());
  for (const char* before : {" read ", " write ", "\nbuffer 0 d", " waits ", " previous ", " member ", "layout_as=",
                             "members=", "message=", "peer=", "instance=", "group=", "group 0 = ", " value "}) {
    const size_t at = text.find(before);
    ASSERT_NE(at, std::string::npos) << before;
    const size_t begin = at + std::string(before).size(), end = text.find_first_not_of("0123456789", begin);
    std::string wrapped = text;
    wrapped.replace(begin, end - begin, absl::StrCat((int64_t{1} << 32) + std::stoll(text.substr(begin, end - begin))));
    EXPECT_THAT(std::string(Parse(wrapped).status().message()), HasSubstr("expected a number of 32 bits")) << before;
  }
}

TEST(Text, AStreamIsANumberOf32BitsWithoutASign) {
  const std::string text = Print(EveryOp());
  const size_t begin = text.find("stream=") + 7, end = text.find_first_not_of("0123456789", begin);
  ASSERT_NE(text.find("stream="), std::string::npos);
  const auto with = [&](absl::string_view number) {
    return Parse(absl::StrCat(text.substr(0, begin), number, text.substr(end)));
  };
  EXPECT_TRUE(with("4294967295").ok()) << with("4294967295").status();
  for (const char* number : {"-1", "4294967296"}) {
    EXPECT_THAT(std::string(with(number).status().message()), HasSubstr("expected an unsigned number of 32 bits")) << number;
  }
}

// Deletes, repeats, moves or replaces bytes, numbers or lines of `text`.
std::string Mutated(const std::string& text, uint32_t seed) {
  const Philox4 r = RandomBlock(seed, RandomPurpose::kSyntheticData, 1, 0, 0);
  std::string out = text;
  const size_t at = r.v[1] % out.size();
  switch (r.v[0] % 7) {
    case 0:
      out.erase(at, 1 + r.v[2] % 8);
      return out;
    case 1:
      out[at] = static_cast<char>(r.v[2]);
      return out;
    case 2:
      out.insert(at, out.substr(r.v[2] % out.size(), r.v[3] % 30));
      return out;
    case 3: {  // another digit
      const size_t digit = out.find_first_of("0123456789", at);
      if (digit != std::string::npos) out[digit] = static_cast<char>('0' + r.v[2] % 10);
      return out;
    }
    case 4: {  // a number from an edge of its type
      const char* numbers[] = {"-1", "9223372036854775807", "-9223372036854775808", "2147483648", "0", "1e308", "nan"};
      const size_t begin = out.find_first_of("0123456789", at);
      if (begin == std::string::npos) return out;
      const size_t end = std::min(out.find_first_not_of("0123456789", begin), out.size());
      return out.replace(begin, end - begin, numbers[r.v[2] % 7]);
    }
    case 5:
      return out.substr(0, at);
    default: {
      std::vector<std::string> lines = absl::StrSplit(out, '\n');
      const size_t a = r.v[2] % lines.size(), b = r.v[3] % lines.size();
      if (r.v[1] % 2 == 0) {
        std::swap(lines[a], lines[b]);
      } else {
        lines.erase(lines.begin() + a);
      }
      return absl::StrJoin(lines, "\n");
    }
  }
}

TEST(Text, ParseSurvivesMutations) {
  const std::string texts[] = {Print(TwoColumns()), Print(EveryOp()), Print(EveryCollective()), Print(ShardedBucket())};
  int accepted = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    std::string text = Mutated(texts[seed % 4], seed);
    if (seed % 3 == 0 && !text.empty()) text = Mutated(text, seed + 1000000);
    const absl::StatusOr<Program> parsed = Parse(text);
    if (!parsed.ok()) {
      ASSERT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << parsed.status();
      continue;
    }
    ++accepted;  // a name, an amount of work: what a Program may state as it likes
    const absl::StatusOr<Program> again = Parse(Print(*parsed));
    ASSERT_TRUE(again.ok()) << again.status();
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 2000);
}

}  // namespace
}  // namespace colonnade::program
