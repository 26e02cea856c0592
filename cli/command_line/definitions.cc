#include "cli/command_line/definitions.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "models/models.h"
#include "partition/named_plans.h"
#include "tools/machines.h"

namespace colonnade::cli {
namespace {

using Words = std::vector<std::string>;

// What a value may be, by the type that its definition names.
Words ValuesOfType(const std::string& type) {
  Words words;
  if (type == "MODEL") {
    for (const models::ModelInfo& model : models::AllModels()) words.push_back(model.name);
  } else if (type == "PLAN") {
    words = partition::PlanNamesAndAuto();
  } else if (type == "MACHINE") {
    words.emplace_back("local");
    for (const data::EmbeddedFile& file : tools::ShippedMachines())
      words.emplace_back(absl::StripSuffix(file.name, ".json"));
  } else if (type == "DATA") {
    words = {"digits", "synthetic"};
  }
  return words;
}

// CLI11 describes a type and its checks as "TEXT:{on,off}", "INT:INT in [1 - 64]" and "TEXT:sync|ghost:N".
void ReadType(const std::string& text, Definition& definition) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  definition.placeholder = parts.first;
  const std::string type = parts.first.substr(0, parts.first.find('.'));
  definition.values = ValuesOfType(type);
  definition.folders = type == "DIR";
  definition.files = type == "FILE" || type == "MODEL" || type == "PLAN" || type == "MACHINE" || type == "DATA";
  absl::string_view rule = parts.second;
  const size_t range = rule.find(" in [");
  if (absl::ConsumePrefix(&rule, "{") && absl::ConsumeSuffix(&rule, "}")) {
    definition.values = absl::StrSplit(rule, ',');
  } else if (range != absl::string_view::npos) {
    rule.remove_prefix(range + 5);
    definition.rule = absl::StrCat("from ", absl::StrReplaceAll(absl::StripSuffix(rule, "]"), {{" - ", " to "}}));
  } else if (!rule.empty()) {
    definition.rule = std::string(rule);
    for (const absl::string_view word : absl::StrSplit(rule, '|')) {
      if (std::all_of(word.begin(), word.end(), absl::ascii_islower)) definition.values.emplace_back(word);
    }
  }
}

Definition Read(const CLI::Option& option) {
  Definition definition{.group = option.get_group(), .help = option.get_description(), .required = option.get_required()};
  definition.is_argument = !option.nonpositional();
  definition.name = definition.is_argument ? option.get_name(true) : absl::StrCat("--", option.get_lnames().front());
  if (!option.get_snames().empty()) definition.short_name = absl::StrCat("-", option.get_snames().front());
  definition.takes_value = option.get_items_expected_max() > 0;
  definition.needs_value = option.get_items_expected_min() > 0;
  if (definition.takes_value) ReadType(option.get_type_name(), definition);
  definition.default_value = option.get_default_str();
  for (const CLI::Option* need : option.get_needs()) definition.needs.push_back(need->get_name());
  return definition;
}

}  // namespace

std::vector<Definition> DefinitionsOf(const CLI::App& command) {
  std::vector<Definition> definitions;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_group().empty()) definitions.push_back(Read(*option));
  }
  // Arguments, then groups in the order in which they were begun.
  std::vector<std::string> groups = {"Options"};
  for (const Definition& definition : definitions) groups.push_back(definition.group);
  const auto place = [&](const Definition& definition) {
    return definition.is_argument ? -1 : std::find(groups.begin(), groups.end(), definition.group) - groups.begin();
  };
  std::stable_sort(definitions.begin(), definitions.end(),
                   [&](const Definition& a, const Definition& b) { return place(a) < place(b); });
  return definitions;
}

std::vector<const CLI::App*> SubCommandsOf(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App* sub) { return !sub->get_name().empty(); })) {
    const std::vector<const CLI::App*> own = SubCommandsOf(*sub);
    if (own.empty()) commands.push_back(sub);
    commands.insert(commands.end(), own.begin(), own.end());
  }
  return commands;
}

std::vector<const CLI::App*> GroupsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* sub) { return !SubCommandsOf(*sub).empty(); });
}

std::vector<std::string> WordsOfCommand(const CLI::App& command) {
  Words words;
  for (const CLI::App* at = &command; at->get_parent() != nullptr; at = at->get_parent()) words.push_back(at->get_name());
  std::reverse(words.begin(), words.end());
  return words;
}

std::string NameOf(const CLI::App& command) { return absl::StrJoin(WordsOfCommand(command), "-"); }

const CLI::App* CommandOf(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    const auto subs = at->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == word; });
    if (subs.empty()) break;
    at = subs.front();
  }
  return at == &app ? nullptr : at;
}

absl::Span<const std::string> WordsBeforeDashes(const std::vector<std::string>& words) {
  const auto dashes = absl::c_find(words, "--");
  return absl::MakeConstSpan(words).first(static_cast<size_t>(dashes - words.begin()));
}

}  // namespace colonnade::cli
