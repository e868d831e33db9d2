// The tables of docs/training_arguments.md are made of the tables of the arguments. To write them
// anew: ACCELERATE_WRITE_PAGES=1 build/dev/tests/test_trainer --gtest_filter='ArgumentsPage.*'
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "accelerate/base/text.h"
#include "accelerate/transformers/trainer/arguments/argument_table.h"
#include "tests/support/files.h"

namespace accelerate {
namespace {

constexpr const char* kPage = ACCELERATE_SOURCE_DIR "/docs/training_arguments.md";

std::string row_of(const detail::Key<TrainingArguments>& key) {
  std::string effect = key.doc;
  if (!key.choices.empty()) effect += " One of: " + join(key.choices, ", ") + ".";
  for (const auto& alias : key.rules.aliases) effect += " Also read as `" + alias + "`.";
  const std::string fallback = detail::default_text(key);
  return "| `" + key.name + "` | " + key.type + " | " +
         (fallback == "absent" ? fallback : "`" + fallback + "`") + " | " + effect + " |\n";
}

std::string row_of(const detail::PythonArgument& argument) {
  const bool accepts =
      argument.is_harmless(Node::boolean(true)) && argument.is_harmless(Node::boolean(false));
  const std::string another = accepts ? "accepted" : argument.refused ? "refused" : "warning";
  return "| `" + argument.name + "` | `" + detail::one_line(argument.fallback) + "` | " + another +
         " | " + argument.reason + ". |\n";
}

// Returns the rows below the heading `title`; "" for a heading without a table.
std::string rows_of(const std::string& title) {
  std::string rows;
  for (const auto& group : detail::argument_groups())
    for (const auto& key : group.keys)
      if (group.title == title) rows += row_of(key);
  if (title == "Arguments of Python alone")
    for (const auto& argument : detail::python_arguments()) rows += row_of(argument);
  return rows;
}

TEST(ArgumentsPage, HasARowForEachArgument) {
  const std::string page = testing::file_text(kPage);
  std::istringstream lines(page);
  std::string made, title;
  std::size_t rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| `")) continue;
    made += line + "\n";
    if (line.starts_with("## ")) title = line.substr(3);
    if (!line.starts_with("|---")) continue;
    made += rows_of(title);
    rows += static_cast<std::size_t>(std::ranges::count(rows_of(title), '\n'));
  }
  EXPECT_EQ(rows, detail::argument_table().keys.size() + detail::python_arguments().size());
  if (std::getenv("ACCELERATE_WRITE_PAGES") != nullptr) std::ofstream(kPage) << made;
  EXPECT_EQ(page, made);
}

}  // namespace
}  // namespace accelerate
