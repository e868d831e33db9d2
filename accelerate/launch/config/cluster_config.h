// What a configuration file says about where and how to run: reading, writing, and single keys by
// name. Both this program and Hugging Face Accelerate can read and write the file.
// config_sections.h has the data, and docs/config_keys.md explains every key.
//
// Reading is strict: an unknown key, a wrong type or a value out of range is a ConfigError. It
// names file, line, key, what is allowed and the nearest known word.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/launch/config/config_sections.h"

namespace accelerate {

struct Node;

/// Returns `accelerate/default_config.yaml` below the first of $HF_HOME,
/// $XDG_CACHE_HOME/huggingface and ~/.cache/huggingface that is set. The file may be absent.
[[nodiscard]] std::filesystem::path default_config_file();

/// Returns `flag`, the value of --config_file. Throws ConfigError when it is empty, as it is when a
/// shell variable is unset. To take the default file then, or none, would hide the mistake.
[[nodiscard]] std::filesystem::path named_config_file(const std::string& flag);

/// A key that older versions of the original wrote, or that belongs to another place, and that
/// changes nothing today. Reading skips it; whoever reads tells the user.
struct RetiredKey {
  std::string key;  ///< As it stands in the file: "ipex_config", "distributed_type: MPS".
  int line = 0;
  std::string purpose;  ///< What it was for, as in "was for Apple's GPUs".
};

/// Returns "'ipex_config' (line 4) was for Intel's extension of PyTorch".
[[nodiscard]] std::string describe(const RetiredKey& key);

/// Reads a configuration file: JSON when the name ends in `.json`, YAML (of which JSON is a part)
/// otherwise. At most 1 MiB, regular files only. Legacy keys of old versions are translated. Says
/// in `retired` which keys were skipped. Throws ConfigError, naming file and line.
[[nodiscard]] ClusterConfig load_cluster_config(const std::filesystem::path& file,
                                                std::vector<RetiredKey>* retired = nullptr);

/// Reads a configuration from `text` as load_cluster_config does from a file. `name` stands for the
/// file in messages; a `.json` ending decides the format as above.
[[nodiscard]] ClusterConfig parse_cluster_config(const std::string& text, const std::string& name,
                                                 std::vector<RetiredKey>* retired = nullptr);

/// Returns the YAML text that the original would write: sorted keys, without absent values and
/// empty sections.
[[nodiscard]] std::string to_yaml(const ClusterConfig& config);

/// Returns the keys and values of to_yaml as JSON, indented by two blanks.
[[nodiscard]] std::string to_json(const ClusterConfig& config);

/// Returns the path that a configuration called `file` is written to. Symbolic links are followed,
/// even to a file that does not exist yet, so that saving keeps them. Throws ConfigError for links
/// that lead in a circle.
[[nodiscard]] std::filesystem::path config_target(const std::filesystem::path& file);

/// Writes `config` atomically to config_target(file), as JSON when the name ends in `.json`, as
/// YAML otherwise. Makes missing folders. Throws ConfigError when the file cannot be written.
void save_cluster_config(const ClusterConfig& config, const std::filesystem::path& file);

/// Writes `text` as save_cluster_config writes a configuration. It must be JSON when the name of
/// `file` ends in `.json`, YAML otherwise.
void save_config_text(const std::string& text, const std::filesystem::path& file);

/// One key as documentation, flags and menus need it.
struct ConfigKey {
  std::string section;               ///< "" for top-level keys, else e.g. "fsdp_config".
  std::string name;                  ///< As written in the file, with its prefix.
  std::vector<std::string> aliases;  ///< Other spellings that are read.
  std::string type;                  ///< "boolean", "integer", "number", "text", "list", …
  std::vector<std::string> choices;  ///< Allowed words; empty when any text is allowed.
  std::string doc;                   ///< What it means, one sentence.
};

/// Every key of every section, in the order of the tables.
[[nodiscard]] const std::vector<ConfigKey>& config_keys();

/// Sets the key called `name` from `text`, checked as in a file. `name` is a flag's name without
/// dashes, `-` and `_` alike: "num_processes", "fsdp_offload_params", "zero_stage". `where` is the
/// start of a message, e.g. "--num_processes". Throws ConfigError on an unknown name or a bad
/// value.
void set_config_key(ClusterConfig& config, std::string_view name, const std::string& text,
                    const std::string& where);

/// Checks `text` as set_config_key() does, and returns what config_key_text() would return then.
[[nodiscard]] std::string checked_config_text(std::string_view name, const std::string& text,
                                              const std::string& where);

/// Returns the value of the key called `name` as it is written on a command line or in an
/// environment variable: true and false in lower case, lists joined by commas. nullopt when absent.
/// Throws ConfigError on an unknown name.
[[nodiscard]] std::optional<std::string> config_key_text(const ClusterConfig& config,
                                                         std::string_view name);

/// Returns config_key_text() of every key that has a value, by name.
[[nodiscard]] std::map<std::string, std::string> config_texts(const ClusterConfig& config);

namespace detail {

/// Takes the retired keys out of a file's content, and returns them in the order of the file.
[[nodiscard]] std::vector<RetiredKey> take_retired_keys(Node& root);

}  // namespace detail
}  // namespace accelerate
