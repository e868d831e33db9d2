// The choice of files in a repository of the hub against Python's `datasets`: every row of
// tests/reference/repository_files_golden.json, which tests/transformers/datasets/repository_files_golden.py
// wrote. ACCELERATE_REPOSITORY_GOLDEN names another file of the same script.
#include "accelerate/transformers/datasets/repository_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/datasets/repository/glob.h"

namespace accelerate {
namespace {

using Paths = std::vector<std::string>;

Node read_golden() {
  const std::string path =
      env("ACCELERATE_REPOSITORY_GOLDEN")
          .value_or(ACCELERATE_SOURCE_DIR "/tests/reference/repository_files_golden.json");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return read_json(text.str(), path, {.max_bytes = 1 << 24, .max_depth = 16});
}

std::string text_of(const Node& row, const char* name) {
  const Node* found = row.find(name);
  return found == nullptr ? "" : found->text;
}

Paths texts_of(const Node& list) {
  Paths texts;
  for (const Node& item : list.items) texts.push_back(item.text);
  return texts;
}

// The splits as one text, for comparison.
std::string written(const RepositorySplits& splits) {
  std::string text;
  for (const auto& [split, paths] : splits) text += split + ": " + join(paths, " | ") + "\n";
  return text;
}

RepositorySplits splits_of(const Node& list) {
  RepositorySplits splits;
  for (const Node& item : list.items)
    splits.emplace_back(item.items[0].text, texts_of(item.items[1]));
  return splits;
}

struct Question {
  explicit Question(const Node& row)
      : files(texts_of(*row.find("files"))),
        card(text_of(row, "card")),
        standalone_yaml(text_of(row, "standalone_yaml")),
        options{.config = text_of(row, "ask_config"),
                .data_dir = text_of(row, "data_dir"),
                .data_files = {},
                .standalone_yaml = standalone_yaml} {
    const Node* data_files = row.find("data_files");
    if (data_files == nullptr) return;
    for (const NodeEntry& entry : data_files->entries)
      options.data_files.emplace_back(entry.key, texts_of(entry.value));
  }

  std::vector<std::string> files;
  std::string card, standalone_yaml;
  RepositoryOptions options;
};

void check_row(const Node& row) {
  const Question question(row);
  const auto choose = [&] { return choose_files(question.files, question.card, question.options); };
  if (row.find("refused") != nullptr) {
    EXPECT_THROW((void)choose(), Error);
    return;
  }
  const RepositoryFiles chosen = choose();
  EXPECT_EQ(written(chosen.splits), written(splits_of(*row.find("splits"))));
  EXPECT_EQ(chosen.config, text_of(row, "config"));
  EXPECT_EQ(chosen.format, text_of(row, "format"));
  EXPECT_EQ(chosen.json_field, text_of(row, "field"));
  if (const std::string delimiter = text_of(row, "delimiter"); !delimiter.empty()) {
    EXPECT_EQ(std::string(1, chosen.delimiter), delimiter);
  }
  if (question.standalone_yaml.empty() && question.options.data_files.empty() &&
      question.options.data_dir.empty()) {
    EXPECT_EQ(config_names(question.files, question.card), texts_of(*row.find("names")));
  }
}

TEST(RepositoryFilesGolden, ChoosesWhatDatasetsChooses) {
  const Node golden = read_golden();
  const auto& rows = golden.find("rows")->items;
  EXPECT_EQ(std::to_string(rows.size()), golden.find("count")->text);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    SCOPED_TRACE("row " + std::to_string(i) + ": " + write_json(rows[i]));
    ASSERT_NO_THROW(check_row(rows[i]));
    refused += rows[i].find("refused") != nullptr ? 1 : 0;
  }
  EXPECT_GT(rows.size(), 300U);
  EXPECT_GT(rows.size() - refused, 150U);
}

// What choosing throws; "" if it throws nothing.
template <typename E>
std::string message_of(const Paths& files, std::string_view card,
                       const RepositoryOptions& options = {}) {
  try {
    (void)choose_files(files, card, options);
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string card_with(const std::string& config) {
  return "---\nlicense: mit\nconfigs:\n- config_name: en\n  data_files: a.csv\n" + config + "---\n";
}

TEST(RepositoryFiles, NamesTheFormatsFoundAndAllowed) {
  const auto message = message_of<DataError>({"a.jpg", "b.jpg", "c.png"}, "");
  EXPECT_TRUE(has(message, "'imagefolder'")) << message;
  EXPECT_TRUE(has(message, ".jpg (2 files), .png (1 file)")) << message;
  EXPECT_TRUE(has(message, ".csv, .tsv, .json")) << message;
}

TEST(RepositoryFiles, NamesCompressedFiles) {
  const auto message = message_of<DataError>({"train.csv.gz"}, "");
  EXPECT_TRUE(has(message, "'train.csv.gz' is compressed")) << message;
  EXPECT_NE(message_of<DataError>({"a.jsonl.zst"}, ""), "");
}

TEST(RepositoryFiles, ListsTheConfigurationsIfOneMustBeNamed) {
  const auto card = card_with("- config_name: fr\n  data_files: b.csv\n");
  const auto message = message_of<ConfigError>({"a.csv", "b.csv"}, card);
  EXPECT_TRUE(has(message, "name one of: en, fr")) << message;
  EXPECT_EQ(config_names({"a.csv", "b.csv"}, card), (Paths{"en", "fr"}));
}

TEST(RepositoryFiles, GuessesWhichConfigurationWasMeant) {
  const auto card = card_with("- config_name: french\n  data_files: b.csv\n");
  const auto message = message_of<ConfigError>({"a.csv", "b.csv"}, card, {.config = "frenhc"});
  EXPECT_TRUE(has(message, "Did you mean 'french'?")) << message;
}

TEST(RepositoryFiles, NamesTheLineOfTheCard) {
  const auto message = message_of<ConfigError>({"a.csv"}, card_with("- data_files: b.csv\n"));
  EXPECT_TRUE(has(message, "line 6")) << message;
  EXPECT_TRUE(has(message_of<ConfigError>({"a.csv"}, card_with("- [\n")), "README.md, line"));
}

TEST(RepositoryFiles, RefusesWhatWouldChangeRows) {
  for (const char* setting : {"skiprows: 1", "header: null", "features: []", "names: [a, b]",
                              "sep: ab", "encoding: latin-1", "quotechar: '\\'"}) {
    const auto card = card_with("  " + std::string(setting) + "\n");
    EXPECT_NE(message_of<ConfigError>({"a.csv"}, card), "") << setting;
  }
  for (const char* setting : {"skiprows: 0", "header: infer", "encoding: utf-8", "quotechar: '\"'",
                              "drop_labels: true", "chunksize: 5", "sample_by: paragraph"}) {
    const auto card = card_with("  " + std::string(setting) + "\n");
    EXPECT_EQ(choose_files({"a.csv"}, card).splits.size(), 1U) << setting;
  }
}

TEST(RepositoryFiles, RefusesPatternsThatLeaveTheRepository) {
  for (const char* pattern : {"../a.csv", "s/../../a.csv", "/etc/*.csv", "https://host/a.csv",
                              "hf://datasets/x/y/a.csv", "zip://*::a.csv", "file:a.csv"}) {
    const RepositoryOptions options{.data_files = {{"train", {pattern}}}};
    EXPECT_TRUE(has(message_of<ConfigError>({"a.csv"}, "", options), "inside the repository"))
        << pattern;
  }
  EXPECT_NE(message_of<ConfigError>({"a.csv"}, "", {.data_dir = "../x"}), "");
  EXPECT_NE(message_of<ConfigError>({"a.csv"}, card_with("  data_dir: /etc\n")), "");
}

TEST(RepositoryFiles, RefusesListingsThatNoRepositoryHas) {
  for (const char* path : {"../a.csv", "/a.csv", "a//b.csv", "./a.csv", ""})
    EXPECT_NE(message_of<DataError>({path}, ""), "") << path;
}

TEST(RepositoryFiles, RefusesAliasesInTheCard) {
  const auto card = "---\na: &x [a.csv]\nconfigs: *x\n---\n";
  EXPECT_TRUE(has(message_of<ConfigError>({"a.csv"}, card), "anchors"));
}

TEST(RepositoryFiles, NamesTheConfigurationWithoutFiles) {
  const auto card = card_with("- config_name: fr\n  data_dir: fr\n");
  EXPECT_TRUE(has(message_of<DataError>({"a.csv"}, card, {.config = "en"}), "'fr'"));
}

TEST(RepositoryFiles, BoundsWhatACardCanAskFor) {
  const RepositoryOptions globs{.data_files = {{"train", Paths(1001, "*.csv")}}};
  EXPECT_TRUE(has(message_of<ConfigError>({"a.csv"}, "", globs), "1000 patterns"));
  Paths many;
  for (int i = 0; i < 2000; ++i) many.push_back(std::to_string(i) + ".csv");
  const RepositoryOptions files{.data_files = {{"train", Paths(600, "*")}}};
  EXPECT_TRUE(has(message_of<ConfigError>(many, "", files), "1000000 files"));
}

TEST(Glob, TakesLinearTimeForHostilePatterns) {
  std::string pattern, path(2000, 'a');
  for (int i = 0; i < 500; ++i) pattern += "*[a]";
  EXPECT_FALSE(detail::Glob(pattern + "b").matches(path + "/b"));
  EXPECT_TRUE(detail::Glob(pattern + "*").matches(path));
  EXPECT_THROW(detail::Glob(std::string(4097, 'a')), ConfigError);
}

}  // namespace
}  // namespace accelerate
