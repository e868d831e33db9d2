// docs/training_arguments.md has a row for each argument, made of the tables, and no other rows.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "accelerate/base/text.h"
#include "accelerate/transformers/trainer/arguments/argument_table.h"
#include "tests/support/files.h"

namespace accelerate {
namespace {

std::string row_of(const detail::Key<TrainingArguments>& key) {
  std::string effect = key.doc;
  if (!key.choices.empty()) effect += " One of: " + join(key.choices, ", ") + ".";
  for (const auto& alias : key.rules.aliases) effect += " Also read as `" + alias + "`.";
  const std::string fallback = detail::default_text(key);
  return "| `" + key.name + "` | " + key.type + " | " +
         (fallback == "absent" ? fallback : "`" + fallback + "`") + " | " + effect + " |";
}

std::string row_of(const detail::PythonArgument& argument) {
  const bool accepts =
      argument.is_harmless(Node::boolean(true)) && argument.is_harmless(Node::boolean(false));
  const std::string another = accepts ? "accepted" : argument.refused ? "refused" : "warning";
  return "| `" + argument.name + "` | `" + detail::one_line(argument.fallback) + "` | " + another +
         " | " + argument.reason + ". |";
}

std::vector<std::string> rows_of_tables() {
  std::vector<std::string> rows;
  for (const auto& key : detail::argument_table().keys) rows.push_back(row_of(key));
  for (const auto& argument : detail::python_arguments()) rows.push_back(row_of(argument));
  return rows;
}

std::vector<std::string> rows_of_page() {
  std::istringstream page(testing::file_text(ACCELERATE_SOURCE_DIR "/docs/training_arguments.md"));
  std::vector<std::string> rows;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `")) rows.push_back(line);
  }
  return rows;
}

TEST(ArgumentsPage, HasARowForEachArgument) {
  const auto page = rows_of_page();
  const std::set<std::string> there(page.begin(), page.end());
  for (const auto& row : rows_of_tables()) {
    EXPECT_TRUE(there.contains(row)) << "docs/training_arguments.md lacks\n" << row;
  }
}

TEST(ArgumentsPage, HasNoOtherRows) {
  const auto tables = rows_of_tables();
  const std::set<std::string> known(tables.begin(), tables.end());
  const auto page = rows_of_page();
  EXPECT_EQ(page.size(), tables.size());
  for (const auto& row : page) EXPECT_TRUE(known.contains(row)) << row;
}

TEST(ArgumentsPage, HasTheHeadingOfEachGroup) {
  const auto page = testing::file_text(ACCELERATE_SOURCE_DIR "/docs/training_arguments.md");
  for (const auto& group : detail::argument_groups()) {
    EXPECT_NE(page.find("\n## " + group.title + "\n"), std::string::npos) << group.title;
  }
}

}  // namespace
}  // namespace accelerate
