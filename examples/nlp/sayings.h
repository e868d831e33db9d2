// Sayings of eight topics, from the Debian package fortunes, as rows for a classifier.
#pragma once

#include <accelerate/transformers/datasets/dataset_dict.h>
#include <accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h>

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace sayings {

inline const std::vector<std::string> kTopics{"art",       "computers", "food",    "law",
                                              "men-women", "politics",  "science", "songs-poems"};

/// Returns the texts of a file. They are separated by lines of a single %.
inline std::vector<std::string> read(const std::string& file) {
  std::ifstream lines(file);
  if (!lines) {
    throw std::runtime_error(file +
                             " cannot be opened: apt-get install fortunes, or name another "
                             "folder by --data");
  }
  std::vector<std::string> texts;
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line != "%") {
      text += line + "\n";
    } else if (!text.empty()) {
      texts.push_back(std::exchange(text, {}));
    }
  }
  if (!text.empty()) texts.push_back(text);
  return texts;
}

/// Returns the sets "train" and "test"; every fifth saying is for testing. Columns: input_ids,
/// attention_mask, label, and what else the tokenizer gives.
inline accelerate::DatasetDict load(const std::string& folder,
                                    const accelerate::PreTrainedTokenizer& tokenizer) {
  using namespace accelerate;
  std::vector<Row> rows;
  for (std::size_t topic = 0; topic < kTopics.size(); ++topic) {
    for (const auto& text : read(folder + "/" + kTopics[topic]))
      rows.push_back(Row{{"text", text}, {"label", static_cast<std::int64_t>(topic)}});
  }
  const auto encoded = Dataset::from_rows(rows).map(
      [&](const RowBatch& batch) {
        return tokenizer(batch.texts("text"), {.truncation = true, .max_length = 128});
      },
      {.remove_columns = {"text"}});
  std::vector<std::uint64_t> train, test;
  for (std::uint64_t i = 0; i < encoded.size(); ++i) (i % 5 == 4 ? test : train).push_back(i);
  return DatasetDict({{"train", encoded.select(train)}, {"test", encoded.select(test)}});
}

}  // namespace sayings
