// YAML and JSON against PyYAML and Python's json: every row of tests/reference/yaml_golden.json,
// which tests/reference/yaml_golden.py wrote. ACCELERATE_YAML_GOLDEN names another file of the same
// script.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "accelerate/base/environment.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/documents/yaml.h"

namespace accelerate {
namespace {

const Node& golden_documents() {
  static const Node kGolden = [] {
    const std::string path =
        env("ACCELERATE_YAML_GOLDEN")
            .value_or(ACCELERATE_SOURCE_DIR "/tests/reference/yaml_golden.json");
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return read_json(text.str(), path, {.max_bytes = 1 << 26, .max_depth = 64});
  }();
  return kGolden;
}

// The rows of one kind; their number must be what the script said it wrote.
const std::vector<Node>& rows(const char* kind) {
  const std::vector<Node>& found = golden_documents().find(kind)->items;
  EXPECT_EQ(std::to_string(found.size()), golden_documents().find("rows")->find(kind)->text)
      << kind;
  EXPECT_GT(found.size(), 50u) << kind;
  return found;
}

const std::string& field(const Node& row, const char* name) {
  return row.find(name)->text;
}

// The tree without positions and with every scalar as bare text: what PyYAML's BaseLoader sees.
std::string skeleton(const Node& node) {
  std::string out;
  switch (node.kind) {
    case Node::Kind::null:
      return "''";
    case Node::Kind::scalar:
      return "'" + node.text + "'";
    case Node::Kind::sequence:
      for (const Node& item : node.items) out += skeleton(item) + ",";
      return "[" + out + "]";
    case Node::Kind::map:
      for (const NodeEntry& entry : node.entries)
        out += "'" + entry.key + "':" + skeleton(entry.value) + ",";
      return "{" + out + "}";
  }
  return out;
}

const char* name_of(ScalarKind kind) {
  constexpr const char* kNames[] = {"null",      "boolean", "integer", "real",
                                    "timestamp", "merge",   "value",   "text"};
  return kNames[static_cast<int>(kind)];
}

TEST(YamlGolden, WritesTheBytesOfSafeDump) {
  for (const Node& row : rows("documents"))
    EXPECT_EQ(write_yaml(*row.find("data")), field(row, "yaml"));
}

TEST(YamlGolden, WritesTheBytesOfJsonDumps) {
  for (const Node& row : rows("documents"))
    EXPECT_EQ(write_json(*row.find("data")), field(row, "json"));
}

TEST(YamlGolden, WritesFloatsAsPython) {
  for (const Node& row : rows("floats")) {
    const Node list =
        Node::sequence({Node::real(std::strtod(field(row, "value").c_str(), nullptr))});
    EXPECT_EQ(write_yaml(list), field(row, "yaml"));
    EXPECT_EQ(write_json(list), field(row, "json"));
  }
}

TEST(YamlGolden, ResolvesPlainScalarsAsPyYaml) {
  for (const Node& row : rows("scalars")) {
    const std::string& text = field(row, "text");
    EXPECT_STREQ(name_of(resolve_scalar(text)), field(row, "kind").c_str()) << "'" << text << "'";
  }
}

TEST(YamlGolden, ReadsTextsAsPyYaml) {
  for (const Node& row : rows("texts")) {
    const std::string& text = field(row, "text");
    EXPECT_EQ(skeleton(read_yaml(text, "golden_documents")), skeleton(*row.find("data"))) << text;
  }
}

// yaml-cpp drops the line feeds of a quoted scalar that holds nothing else.
bool holds_only_breaks(const std::string& text) {
  return !text.empty() && text.find_first_not_of('\n') == std::string::npos;
}

bool yaml_cpp_reads(const Node& node) {
  if (holds_only_breaks(node.text)) return false;
  for (const Node& item : node.items) {
    if (!yaml_cpp_reads(item)) return false;
  }
  for (const NodeEntry& entry : node.entries) {
    if (holds_only_breaks(entry.key) || !yaml_cpp_reads(entry.value)) return false;
  }
  return true;
}

TEST(YamlGolden, ReadsBackWhatItWrote) {
  std::size_t read = 0;
  for (const Node& row : rows("documents")) {
    if (!yaml_cpp_reads(*row.find("data"))) continue;
    const std::string text = write_yaml(*row.find("data"));
    EXPECT_EQ(write_yaml(read_yaml(text, "golden_documents", {.max_depth = 64})), text);
    ++read;
  }
  EXPECT_GT(read, rows("documents").size() * 95 / 100);
}

TEST(YamlGolden, ReadsJsonWritings) {
  for (const Node& row : rows("documents")) {
    EXPECT_EQ(write_json(read_json(field(row, "json"), "golden_documents", {.max_depth = 32})),
              field(row, "json"));
  }
}

}  // namespace
}  // namespace accelerate
