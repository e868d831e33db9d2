#include "accelerate/tracking/mlflow_entries.h"

#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "accelerate/base/base64.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/tracking/json_line.h"
#include "accelerate/tracking/warnings.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::pair<std::string, double>> numbers_of(const TrackerValues& values) {
  std::vector<std::pair<std::string, double>> all;
  for (const auto& [name, value] : values) {
    const auto& data = value.as_variant();
    if (const auto* real = std::get_if<double>(&data)) {
      all.emplace_back(name, *real);
    } else if (const auto* whole = std::get_if<std::int64_t>(&data)) {
      all.emplace_back(name, static_cast<double>(*whole));
    } else if (const auto* several = std::get_if<Scalars>(&data)) {
      for (const auto& [part, one] : *several) all.emplace_back(name + "/" + part, one);
    } else {
      warn_once("the tracker 'mlflow' keeps numbers only; '" + name + "' is left out");
    }
  }
  return all;
}

// Returns lines {"kind": kind, key: [items…]} with at most `most` items, small enough for the
// server.
std::vector<std::string> chunked(const char* key, const std::vector<Json>& items,
                                 std::size_t most) {
  std::vector<std::string> lines;
  Json chunk = Json::array();
  std::size_t bytes = 0;
  const auto emit = [&] {
    if (!chunk.empty()) lines.push_back(json_line({{"kind", "batch"}, {key, std::move(chunk)}}));
    chunk = Json::array();
    bytes = 0;
  };
  for (const Json& item : items) {
    // Measured as it is sent, since escapes can make a character six bytes long.
    const std::size_t size = json_line(item).size();
    if (chunk.size() == most || bytes + size > MlflowLimits::kRequestBytes) emit();
    bytes += size;
    chunk.push_back(item);
  }
  emit();
  return lines;
}

}  // namespace

std::string mlflow_key(const std::string& name) {
  std::string key = name;
  for (char& c : key) {
    const auto byte = static_cast<unsigned char>(c);
    const bool allowed = (byte < 0x80 && std::isalnum(byte) != 0) ||
                         std::string_view("_-. :/").find(c) != std::string::npos;
    if (!allowed) c = '_';
  }
  // The server refuses names that a path would normalise: "a//b", "/a", "a/../b", "a/".
  std::vector<std::string> parts;
  for (const auto& part : split(key, '/')) {
    if (!part.empty()) parts.push_back(part == "." || part == ".." ? "_" : part);
  }
  key = join(parts, "/").substr(0, MlflowLimits::kKey);
  while (key.ends_with('/')) key.pop_back();
  return key.empty() ? "_" : key;
}

std::string run_line(const MlflowRun& run, const std::string& server) {
  Json tags = Json::array();
  for (const auto& tag : flatten(run.tags)) {
    tags.push_back({{"key", mlflow_key(tag.name)},
                    {"value", fit_bytes(setting_text(tag), MlflowLimits::kTag)}});
  }
  if (!run.description.empty()) {
    tags.push_back({{"key", "mlflow.note.content"},
                    {"value", fit_bytes(run.description, MlflowLimits::kTag)}});
  }
  return json_line({{"kind", "run"},
                    {"version", 1},
                    {"server", server},
                    {"spool_id", run.spool_id},
                    {"experiment", run.experiment},
                    {"run_name", run.run_name},
                    {"run_id", run.run_id},
                    {"start_time", run.start_time_ms},
                    {"tags", std::move(tags)}});
}

std::vector<std::string> metric_lines(const TrackerValues& values, std::int64_t step,
                                      std::int64_t time_ms) {
  std::vector<Json> items;
  for (const auto& [name, value] : numbers_of(values)) {
    items.push_back({{"key", mlflow_key(name)},
                     {"value", json_number(value)},
                     {"timestamp", time_ms},
                     {"step", step}});
  }
  return chunked("metrics", items, MlflowLimits::kMetrics);
}

std::vector<std::string> param_lines(const TrackerConfig& config) {
  std::vector<Json> items;
  for (const auto& setting : flatten(config)) {
    const std::string text = setting_text(setting);
    if (text.size() > MlflowLimits::kParam) {
      warn_once("the setting '" + setting.name +
                "' is longer than the 6000 bytes that MLflow keeps; "
                "its beginning is kept");
    }
    items.push_back(
        {{"key", mlflow_key(setting.name)}, {"value", fit_bytes(text, MlflowLimits::kParam)}});
  }
  return chunked("params", items, MlflowLimits::kParamsOrTags);
}

std::string artifact_line(const std::string& path, const std::string& content) {
  return json_line({{"kind", "artifact"}, {"path", path}, {"content", to_base64(content)}});
}

std::string end_line(std::int64_t time_ms) {
  return json_line({{"kind", "end"}, {"status", "FINISHED"}, {"end_time", time_ms}});
}

}  // namespace accelerate::detail
