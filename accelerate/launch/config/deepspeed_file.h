// Reads DeepSpeed's own JSON file: a path, the JSON itself, or base64 of it. Every key is checked
// against the table of deepspeed_keys.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/formats/documents/document.h"

namespace accelerate {

/// A checked file. Keys are named by path, outermost first: "zero_optimization.stage".
class DeepSpeedFile {
 public:
  /// `root`: the file's map, with every key checked. `name` stands for the file in messages.
  DeepSpeedFile(Node root, std::string name, std::vector<std::string> elsewhere)
      : root_(std::move(root)), name_(std::move(name)), elsewhere_(std::move(elsewhere)) {}

  /// Whether the file has the key, also with nothing or "auto" as its value.
  [[nodiscard]] bool has(std::string_view path) const { return find(path) != nullptr; }
  [[nodiscard]] bool is_auto(std::string_view path) const;

  /// Return the key's value; nullopt if the key is absent, nothing, or "auto".
  [[nodiscard]] std::optional<bool> boolean(std::string_view path) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view path) const;
  [[nodiscard]] std::optional<double> number(std::string_view path) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view path) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view path) const;
  [[nodiscard]] std::vector<double> numbers(std::string_view path) const;

  /// Returns the names of the keys directly below a section.
  [[nodiscard]] std::vector<std::string> keys_of(std::string_view path) const;

  /// As upstream's HfDeepSpeedConfig. The value is as the file has it, also "auto"; nullopt if the
  /// key is absent or nothing.
  [[nodiscard]] std::optional<std::string> get_value(std::string_view path) const;
  /// Whether the file has the key and says so: neither holds of an absent key.
  [[nodiscard]] bool is_true(std::string_view path) const { return boolean(path) == true; }
  [[nodiscard]] bool is_false(std::string_view path) const { return boolean(path) == false; }
  [[nodiscard]] bool is_zero2() const { return integer("zero_optimization.stage") == 2; }
  [[nodiscard]] bool is_zero3() const { return integer("zero_optimization.stage") == 3; }
  /// Whether stage 2 or 3 offloads the optimizer or the parameters.
  [[nodiscard]] bool is_offload() const;
  /// Gives `value` to a key that is "auto". If the key has another value, adds a sentence that says
  /// so to `mismatches`. An absent key stays absent.
  void fill_match(std::string_view path, const Node& value, std::vector<std::string>& mismatches);
  /// Returns the file as JSON, with what fill_match() filled in.
  [[nodiscard]] std::string to_json() const;

  /// Returns "FILE, line LINE" for the key, or "FILE" if the file does not have it.
  [[nodiscard]] std::string place_of(std::string_view path) const;
  [[nodiscard]] const std::string& name() const { return name_; }

  /// Warns, in one line, of keys without effect that a program asks for in another way.
  void warn_of_keys_without_effect() const;

 private:
  [[nodiscard]] const Node* find(std::string_view path) const;
  [[nodiscard]] const Node* said(std::string_view path) const;

  Node root_;
  std::string name_;
  std::vector<std::string> elsewhere_;
};

/// Its name in Hugging Face Accelerate.
using HfDeepSpeedConfig = DeepSpeedFile;

/// Reads and checks `source`. Older names take the place of their successors. Throws ConfigError, which names file, line, key and what is
/// allowed, for a source that is none of the three, a file over 1 MB or nested too deeply, keys
/// that DeepSpeed does not have, values that do not fit, and keys that are refused.
[[nodiscard]] DeepSpeedFile read_deepspeed_file(const std::string& source);

}  // namespace accelerate
