// What the registry says of architectures, held against the models, the page and the tests.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "accelerate/tensor/construction/init_on_device.h"
#include "tests/support/support.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

const std::map<Task, std::string> kClassOf{
    {Task::base, "base"},
    {Task::sequence_classification, "SequenceClassification"},
    {Task::token_classification, "TokenClassification"},
    {Task::question_answering, "QuestionAnswering"},
    {Task::masked_lm, "MaskedLM"},
    {Task::causal_lm, "CausalLM"},
    {Task::multiple_choice, "MultipleChoice"},
    {Task::seq2seq_lm, "Seq2SeqLM"}};

TEST(Architectures, EachHasASmallModel) {
  std::set<std::string> known, small;
  for (const auto& architecture : detail::architectures()) known.emplace(architecture.model_type);
  for (const char* kind : testing::small_kinds()) small.emplace(kind);
  for (const auto& model : testing::kSmallSeq2Seq) small.emplace(model.kind);
  EXPECT_EQ(known, small);
}

TEST(Architectures, EachIsFoundByItsName) {
  for (const auto& architecture : detail::architectures()) {
    const auto* found = detail::find_architecture(architecture.model_type);
    ASSERT_NE(found, nullptr) << architecture.model_type << ": the registry does not name it";
    EXPECT_EQ(found->model_type, architecture.model_type);
  }
  EXPECT_EQ(detail::find_architecture("bert "), nullptr);
}

// The rows of the table of docs/models.md. The last column is what tests/reference/*_live.py compare.
std::string rows_of_the_page() {
  std::string rows;
  for (const auto& architecture : detail::architectures()) {
    std::string heads;
    for (const auto& [task, make] : architecture.classes)
      if (task != Task::base) heads += (heads.empty() ? "`" : ", `") + kClassOf.at(task) + "`";
    const bool generates = architecture.classes.contains(Task::causal_lm) ||
                           architecture.classes.contains(Task::seq2seq_lm);
    rows += "| `" + std::string(architecture.model_type) + "` | " + heads +
            " | outputs, gradients, files" + (generates ? ", generation" : "") +
            (architecture.gguf ? ", GGUF" : "") + " |\n";
  }
  return rows;
}

// ACCELERATE_WRITE_PAGES=1 build/dev/tests/test_models --gtest_filter='*ThePageListsEach*' writes it.
TEST(Architectures, ThePageListsEachWithItsHeads) {
  const std::string path = ACCELERATE_SOURCE_DIR "/docs/models.md", head = "|---|---|---|\n";
  std::stringstream read;
  read << std::ifstream(path).rdbuf();
  const std::string page = read.str();
  const auto section = page.find("\n## Which models\n");
  ASSERT_NE(section, std::string::npos);
  const auto begin = page.find(head, section) + head.size(), end = page.find("\n\n", begin) + 1;
  const std::string rows = rows_of_the_page();
  if (std::getenv("ACCELERATE_WRITE_PAGES") != nullptr)
    std::ofstream(path) << page.substr(0, begin) << rows << page.substr(end);
  EXPECT_EQ(page.substr(begin, end - begin), rows);
}

TEST(Architectures, EachHeadIsSavedAndLoaded) {
  for (const auto& architecture : detail::architectures()) {
    for (const auto& [task, make] : architecture.classes) {
      const std::string kind(architecture.model_type);
      SCOPED_TRACE(kind + " " + kClassOf.at(task));
      at::manual_seed(3);
      const auto model = detail::model_from_config(task, testing::small_config(kind));
      const testing::TemporaryFolder folder;
      model->save_pretrained(folder.path());
      const auto again = detail::model_from_pretrained(task, folder.path().string(), {});
      EXPECT_EQ(again->name(), model->name());
      const auto wanted = model->parameters(), found = again->parameters();
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(found[i].equal(wanted[i])) << i;
    }
  }
}

TEST(Architectures, WhatStaysWholeIsAModule) {
  for (const char* kind : testing::small_kinds()) {
    const auto model = AutoModel::from_config(testing::small_config(kind));
    std::set<std::string> classes;
    for (const auto& module : model->modules()) classes.insert(module->name());
    const auto whole = model->no_split_modules();
    EXPECT_FALSE(whole.empty()) << kind;
    for (const std::string& name : whole) EXPECT_TRUE(classes.contains(name)) << kind << name;
  }
}

// Each weight of the model has a name in GGUF files, and each name belongs to a weight.
TEST(Architectures, NamesOfGgufFilesAreThoseOfTheWeights) {
  int count = 0;
  for (const auto& architecture : detail::architectures()) {
    if (!architecture.gguf) continue;
    ++count;
    SCOPED_TRACE(architecture.model_type);
    const auto& names = *architecture.gguf;
    std::set<std::string> known, found;
    for (const auto& [in_file, name] : names.outside) known.emplace(name);
    for (const auto& [in_file, name] : names.inside)
      known.insert(std::string(names.layers) + "0." + std::string(name));
    for (const auto& [in_file, step] : names.steps)
      EXPECT_TRUE(std::ranges::count(names.inside, in_file, &detail::NamePairs::value_type::first));
    const auto model = AutoModelForCausalLM::from_config(
        testing::small_config(std::string(architecture.model_type)));
    for (const auto& item : model->named_parameters()) {
      const std::string module = item.key().substr(0, item.key().rfind('.'));
      if (!module.starts_with(std::string(names.layers) + "1.")) found.insert(module);
    }
    EXPECT_EQ(known, found);
  }
  EXPECT_GE(count, 4);
}

// Buffers of Python's models are for estimates of models that are not there.
TEST(Architectures, EstimatesNeedNoMemory) {
  const auto scope = init_empty_weights();
  for (const char* kind : testing::small_kinds()) {
    const auto model = AutoModel::from_config(testing::small_config(kind));
    for (const auto& [name, type, elements] : model->python_buffers()) {
      EXPECT_FALSE(name.empty());
      EXPECT_GT(elements, 0) << kind;
    }
  }
}

}  // namespace
}  // namespace accelerate
