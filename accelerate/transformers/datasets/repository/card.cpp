#include "accelerate/transformers/datasets/repository/card.h"

#include <algorithm>
#include <array>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/formats/documents/yaml.h"
#include "accelerate/transformers/datasets/repository/chosen_files.h"

namespace accelerate::detail {
namespace {

// Cards may list thousands of class names, and nested features.
constexpr DocumentLimits kLimits{.max_bytes = 16 << 20, .max_depth = 64};

[[noreturn]] void fail(const Node& at, const std::string& message) {
  throw ConfigError("the dataset card" +
                    (at.line > 0 ? ", line " + std::to_string(at.line) : std::string()) + ": " +
                    untrusted_line(message));
}

// Whether YAML 1.1 takes a scalar for text.
bool is_text(const Node& node) {
  return node.is_scalar() && (node.quoted || resolve_scalar(node.text) == ScalarKind::text);
}

bool is_null(const Node& node) {
  return node.is_null() ||
         (node.is_scalar() && !node.quoted && resolve_scalar(node.text) == ScalarKind::null);
}

// Whether Python's bool() of the value is true.
bool is_true(const Node& node) {
  if (is_null(node)) return false;
  if (!node.is_scalar()) return !node.items.empty() || !node.entries.empty();
  const auto kind = node.quoted ? ScalarKind::text : resolve_scalar(node.text);
  const std::string text = lower(node.text);
  if (kind == ScalarKind::boolean) return text == "yes" || text == "true" || text == "on";
  if (kind == ScalarKind::integer || kind == ScalarKind::real)
    return text.find_first_of("123456789acdefin") != std::string::npos;
  return !text.empty();
}

std::size_t line_end(std::string_view text, std::size_t from) {
  return std::min(text.find_first_of("\r\n", from), text.size());
}

// Returns where the next line begins, after the line end at `at`.
std::size_t next_line(std::string_view text, std::size_t at) {
  if (at >= text.size()) return text.size();
  return at + (text.substr(at).starts_with("\r\n") ? 2 : 1);
}

bool is_closing(std::string_view line) {
  return line.starts_with("---") && line.find_first_not_of(" \t", 3) == std::string_view::npos;
}

// Returns `block` after as many empty lines as `above` has, so that messages name the right line.
// Replaces lone carriage returns by line feeds, because yaml-cpp does not take them for line ends.
std::string with_line_feeds(std::string_view above, std::string_view block) {
  std::string text(static_cast<std::size_t>(std::count(above.begin(), above.end(), '\n')), '\n');
  for (std::size_t i = 0; i < block.size(); ++i)
    text += block[i] == '\r' && !block.substr(i + 1).starts_with('\n') ? '\n' : block[i];
  return text;
}

// Returns the text between two lines of "---" at the top; "" if none.
std::string front_matter(std::string_view readme) {
  const std::size_t begin = std::min(readme.find_first_not_of(" \t\r\n\f\v"), readme.size());
  const std::size_t end = line_end(readme, begin);
  if (readme.substr(begin, end - begin) != "---" || end == readme.size()) return "";
  const std::size_t first = next_line(readme, end);
  for (std::size_t at = first; at < readme.size();) {
    const std::size_t stop = line_end(readme, at);
    // A line that ends with a lone carriage return cannot close the block.
    const bool ends_well =
        stop == readme.size() || readme[stop] == '\n' || readme.substr(stop).starts_with("\r\n");
    if (at > first && ends_well && is_closing(readme.substr(at, stop - at))) {
      return with_line_feeds(readme.substr(0, first), readme.substr(first, at - first));
    }
    at = next_line(readme, stop);
  }
  return "";
}

// Returns the value of `configs`; `otherwise` if there is none.
Node configs_of(const std::string& yaml, const std::string& name, Node otherwise) {
  const Node root = read_yaml(yaml, name, kLimits);
  if (is_null(root)) return otherwise;
  if (!root.is_map()) fail(root, name + " holds " + root.describe() + "; a map is allowed");
  const Node* found = root.find("configs");
  return found == nullptr ? otherwise : *found;
}

std::vector<std::string> patterns_of(const Node& node) {
  if (is_text(node)) return {node.text};
  std::vector<std::string> patterns;
  for (const Node& item : node.items) {
    if (!is_text(item)) fail(item, item.describe() + " was found where a file or pattern belongs");
    patterns.push_back(item.text);
  }
  return patterns;
}

std::pair<std::string, std::vector<std::string>> split_of(const Node& node) {
  const Node* split = node.find("split");
  const Node* path = node.find("path");
  const bool is_valid = node.entries.size() == 2 && split != nullptr && path != nullptr &&
                        is_text(*split) && is_split_name(split->text) &&
                        (is_text(*path) || path->is_sequence());
  if (!is_valid) {
    fail(node,
         "`data_files` has an entry with other keys or values than `split`, a name of letters, "
         "digits, '_' and dots, and `path`, a file, a pattern or a list");
  }
  return {split->text, patterns_of(*path)};
}

RepositorySplits data_files_of(const Node& node) {
  if (!is_text(node) && !node.is_sequence()) {
    fail(node, "`data_files` is " + node.describe() +
                   "; a file, a pattern or a list is allowed, whose entries may have `split` and "
                   "`path`");
  }
  const auto is_map = [](const Node& item) { return item.is_map(); };
  if (std::none_of(node.items.begin(), node.items.end(), is_map))
    return {{"train", patterns_of(node)}};
  RepositorySplits splits;
  for (const Node& item : node.items) {
    if (!item.is_map()) fail(item, "`data_files` mixes files and splits");
    splits.push_back(split_of(item));
    for (std::size_t i = 0; i + 1 < splits.size(); ++i) {
      if (splits[i].first == splits.back().first)
        fail(item, "`data_files` names the split '" + splits[i].first + "' twice");
    }
  }
  return splits;
}

std::string name_of(const Node& node) {
  const Node* name = node.is_map() ? node.find("config_name") : nullptr;
  if (name == nullptr) fail(node, "an entry of `configs` has no `config_name`");
  if (!is_text(*name) || name->text.empty() ||
      name->text.find_first_of("<>:/\\|?*") != std::string::npos) {
    fail(*name, "`config_name` is " + name->describe() +
                    "; a text without < > : / \\ | ? and * is allowed. Quote what YAML takes for a "
                    "number or a truth value");
  }
  return name->text;
}

CardConfig config_of(const Node& node) {
  CardConfig config{.name = name_of(node), .values = node};
  if (const Node* value = node.find("default")) config.is_default = is_true(*value);
  if (const Node* value = node.find("data_files")) {
    config.names_data_files = true;
    if (!is_null(*value)) config.data_files = data_files_of(*value);
  }
  if (const Node* value = node.find("data_dir"); value != nullptr && is_true(*value)) {
    if (!is_text(*value)) fail(*value, "`data_dir` is " + value->describe() + ", not a folder");
    config.data_dir = value->text;
  }
  return config;
}

// A key that changes what a reader returns, unless its value is one of the harmless ones.
struct Setting {
  std::string_view format;
  std::string_view names;          // Separated by blanks.
  std::string_view harmless = "";  // Separated by blanks.
};

constexpr std::array<Setting, 12> kSettings = {{
    {"csv", " header ", " infer 0 "},
    {"csv", " quotechar ", " \" "},
    {"csv", " decimal ", " . "},
    {"csv", " skiprows skipfooter quoting ", " 0 "},
    {"csv", " skipinitialspace ", " false False no "},
    {"csv", " keep_default_na na_filter skip_blank_lines doublequote ", " true True yes "},
    {"csv",
     " names column_names index_col usecols prefix converters true_values false_values nrows "
     "na_values thousands lineterminator escapechar comment dialect date_format float_precision "},
    {"csv", " encoding_errors on_bad_lines ", " strict error "},
    {"parquet", " columns filters on_bad_files ", " error "},
    {"text", " keep_linebreaks sample_by ", " false False no line "},
    {"json", " newlines_in_values on_mixed_types parse_agent_traces ", " true True yes use_json "},
    // For all formats.
    {"", " features encoding encoding_errors ", " utf-8 utf8 UTF-8 strict "},
}};

bool has_word(std::string_view words, const std::string& word) {
  return words.find(" " + word + " ") != std::string_view::npos;
}

bool changes_rows(const std::string& format, const NodeEntry& entry) {
  if (is_null(entry.value)) return format == "csv" && entry.key == "header";
  if (format == "parquet" && entry.key.starts_with("encoding")) return false;
  const auto is_changed = [&](const Setting& setting) {
    return (setting.format.empty() || setting.format == format) &&
           has_word(setting.names, entry.key) &&
           !(entry.value.is_scalar() && has_word(setting.harmless, entry.value.text));
  };
  return std::any_of(kSettings.begin(), kSettings.end(), is_changed);
}

char delimiter_of(const Node& value) {
  if (is_text(value) && value.text == "\\t") return '\t';
  if (is_text(value) && value.text.size() == 1) return value.text[0];
  fail(value, "the delimiter is " + value.describe() + "; one character is allowed");
}

}  // namespace

std::vector<CardConfig> read_card(std::string_view readme, std::string_view standalone_yaml) {
  Node configs = configs_of(front_matter(readme), "README.md", Node::null());
  configs = configs_of(std::string(standalone_yaml), ".huggingface.yaml", std::move(configs));
  if (!is_true(configs)) return {};
  if (!configs.is_sequence())
    fail(configs, "`configs` is " + configs.describe() + "; a list is allowed");
  std::vector<CardConfig> result;
  for (const Node& node : configs.items) {
    CardConfig config = config_of(node);
    const auto before = std::find_if(result.begin(), result.end(),
                                     [&](const CardConfig& c) { return c.name == config.name; });
    // If two configurations have the same name, the last one replaces the first.
    if (before == result.end()) {
      result.push_back(std::move(config));
    } else {
      *before = std::move(config);
    }
  }
  return result;
}

void apply_values(const CardConfig& config, RepositoryFiles& files) {
  for (const NodeEntry& entry : config.values.entries) {
    if (!changes_rows(files.format, entry)) continue;
    fail(entry.value, "the configuration '" + config.name + "' sets `" + entry.key +
                          "`, which changes what is read from " + files.format +
                          " and is not supported. Name the files by .data_files, and set it in the "
                          "options of the call");
  }
  if (files.format == "csv") {
    for (const char* name : {"sep", "delimiter"}) {  // The second one wins.
      const Node* value = config.values.find(name);
      const bool is_unset = value == nullptr || (is_null(*value) && name[0] == 'd');
      if (!is_unset) files.delimiter = delimiter_of(*value);
    }
  }
  const Node* field = config.values.find("field");
  if (files.format != "json" || field == nullptr || is_null(*field)) return;
  if (!is_text(*field)) fail(*field, "`field` is " + field->describe() + ", not a text");
  files.json_field = field->text;
}

}  // namespace accelerate::detail
