// config.json of a model, as Transformers reads and writes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/formats/documents/document.h"
#include "accelerate/transformers/hub/repository.h"

namespace accelerate {

/// Every key of a config.json. Unknown keys are kept and written back. Copies are deep.
class PretrainedConfig {
 public:
  PretrainedConfig() : values_(Node::map()) {}
  /// Reads the text of a config.json; `name` stands for it in messages. Throws ConfigError, with
  /// the line, if it is not a JSON object.
  [[nodiscard]] static PretrainedConfig from_json(std::string_view text, const std::string& name);
  /// Reads `filename` in a folder or a repository of the hub. Throws ConfigError if it is not
  /// there, and what fetch_file() throws.
  [[nodiscard]] static PretrainedConfig from_pretrained(
      const std::string& name_or_folder, const HubOptions& options = {},
      const std::string& filename = "config.json");

  /// "bert", "llama", …; empty if the file does not say.
  [[nodiscard]] std::string model_type() const;
  /// The classes that the weights were saved from, such as "BertForSequenceClassification".
  [[nodiscard]] std::vector<std::string> architectures() const;

  [[nodiscard]] bool contains(std::string_view key) const { return values_.find(key) != nullptr; }
  /// The value of `key`; nullopt if there is none, or null. T: bool, std::int64_t, double,
  /// std::string, and vectors of std::int64_t and std::string. Throws ConfigError, with file and
  /// key, for a value of another type.
  template <typename T>
  [[nodiscard]] std::optional<T> get(std::string_view key) const;
  template <typename T>
  [[nodiscard]] T get(std::string_view key, T otherwise) const {
    return get<T>(key).value_or(std::move(otherwise));
  }
  /// As get(), but nullopt too for a value of another type. T may also be a vector of double.
  template <typename T>
  [[nodiscard]] std::optional<T> get_if(std::string_view key) const;
  /// The value of `key` as JSON; "null" if there is none.
  [[nodiscard]] std::string json_of(std::string_view key) const;
  /// The keys, in the order of the file.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// The object under `key`, such as "rope_parameters"; nullopt if there is none, or null. Throws
  /// ConfigError if it is not an object.
  [[nodiscard]] std::optional<PretrainedConfig> section(std::string_view key) const;
  /// Changes a value or adds it. T: as for get().
  template <typename T>
  void set(std::string_view key, const T& value);
  void set_section(std::string_view key, const PretrainedConfig& object);
  /// Sets all keys of `other`.
  void update(const PretrainedConfig& other);
  void erase(std::string_view key);
  /// Makes the value of `key`, also null, the value of `to` instead. Does nothing if there is none.
  void rename(std::string_view key, std::string_view to);

  /// Throws ConfigError: `key` has a value that is not allowed; says the value and `allowed`.
  [[noreturn]] void refuse(std::string_view key, const std::string& allowed) const;

  /// The names of the classes in the order of their numbers: `id2label`, else LABEL_0 and so on. As in
  /// Python, `num_labels` counts where both contradict each other. Throws ConfigError for numbers that
  /// are not 0 to n - 1.
  [[nodiscard]] std::vector<std::string> labels() const;
  /// The number of classes: `num_labels`, else of `id2label`, else 2. Throws ConfigError, as labels(),
  /// and for less than one.
  [[nodiscard]] std::int64_t num_labels() const;
  /// Writes `id2label` and `label2id`.
  void set_labels(const std::vector<std::string>& labels);
  /// Names the classes LABEL_0 and so on, unless there are as many labels already.
  void set_num_labels(std::int64_t num_labels);

  /// Returns the text that Python's to_json_string() gives: keys sorted, two spaces, a line feed.
  [[nodiscard]] std::string to_json_string() const;
  /// Makes `folder` and writes config.json into it. Throws FileError.
  void save_pretrained(const std::filesystem::path& folder,
                       const std::string& filename = "config.json") const;

  /// Where the keys come from, for messages.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  [[nodiscard]] const Node* find(std::string_view key) const;
  void put(std::string_view key, Node value);

  Node values_;
  std::string name_ = "the configuration";
};

}  // namespace accelerate
