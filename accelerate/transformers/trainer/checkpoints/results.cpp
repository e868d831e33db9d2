#include "accelerate/transformers/trainer/checkpoints/checkpoints.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/formats/documents/json.h"

namespace accelerate::detail {
namespace {

void set_entry(Node& map, const std::string& name, Node value) {
  for (auto& entry : map.entries)
    if (entry.key == name) return void(entry.value = std::move(value));
  map.entries.push_back({name, 0, std::move(value)});
}

Node node_of_metrics(Node map, const LogValues& metrics) {
  for (const auto& [name, value] : metrics) set_entry(map, name, Node::real(value));
  return map;
}

Node read_results(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return Node::map();
  Node node = read_json(read_file(real_file_system(), file, std::size_t{1} << 20), file.string());
  if (!node.is_map())
    throw ConfigError(file.string() + " is " + node.describe() + "; allowed is a map of results");
  return node;
}

std::string metric_text(const std::string& name, double value) {
  std::array<char, 48> text{};
  if (name.ends_with("_runtime")) {
    const auto hundredths = static_cast<long long>(std::llround(value * 100));
    const long long seconds = hundredths / 100;
    std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld.%02lld", seconds / 3600,
                  seconds / 60 % 60, seconds % 60, hundredths % 100);
  } else {
    std::snprintf(text.data(), text.size(), "%.4f", value);
  }
  return text.data();
}

}  // namespace

void write_state(const std::filesystem::path& folder, const TrainerState& state) {
  std::filesystem::create_directories(folder);
  write_file_atomically(real_file_system(), folder / "trainer_state.json", state.to_json());
}

void write_results(const std::filesystem::path& folder, const std::string& split,
                   const LogValues& metrics, bool combined) {
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const Node& node) {
    write_file_atomically(real_file_system(), folder / name, write_json(node));
  };
  write(split + "_results.json", node_of_metrics(Node::map(), metrics));
  if (combined)
    write("all_results.json", node_of_metrics(read_results(folder / "all_results.json"), metrics));
}

std::string metrics_table(const std::string& split, const LogValues& metrics) {
  const LogValues sorted = metrics.sorted();
  std::size_t names = 0, values = 0;
  for (const auto& [name, value] : sorted) {
    names = std::max(names, name.size());
    values = std::max(values, metric_text(name, value).size());
  }
  std::string table = "***** " + split + " metrics *****";
  for (const auto& [name, value] : sorted) {
    const std::string text = metric_text(name, value);
    table += "\n  " + name + std::string(names - name.size(), ' ') + " = " +
             std::string(values - text.size(), ' ') + text;
  }
  return table;
}

}  // namespace accelerate::detail
