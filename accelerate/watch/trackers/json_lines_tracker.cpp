#include "accelerate/watch/trackers/json_lines_tracker.h"

#include <nlohmann/json.hpp>

#include "accelerate/base/error.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/watch/trackers/tracker_options.h"
#include "accelerate/watch/trackers/values.h"

namespace accelerate {
namespace {

using detail::json_number;
using Json = nlohmann::ordered_json;

constexpr std::string_view kJsonLinesFile = "metrics.jsonl";

Json distribution(const Histogram& histogram) {
  const auto summary = detail::summarize(histogram.values);
  if (!summary) return nullptr;
  return {{"_histogram",
           {{"min", summary->min},
            {"max", summary->max},
            {"num", summary->num},
            {"sum", json_number(summary->sum)},
            {"sum_squares", json_number(summary->sum_squares)},
            {"bucket_limit", summary->bucket_limit},
            {"bucket", summary->bucket}}}};
}

Json to_json(const TrackerValue& value) {
  const auto& data = value.as_variant();
  if (const auto* real = std::get_if<double>(&data)) return json_number(*real);
  if (const auto* whole = std::get_if<std::int64_t>(&data)) return *whole;
  if (const auto* text = std::get_if<std::string>(&data)) return *text;
  if (const auto* histogram = std::get_if<Histogram>(&data)) return distribution(*histogram);
  Json several = Json::object();
  for (const auto& [name, one] : std::get<Scalars>(data)) several[name] = json_number(one);
  return several;
}

Json table_json(const TrackerTable& table) {
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    Json cells = Json::array();
    for (const auto& value : row) cells.push_back(to_json(value));
    rows.push_back(std::move(cells));
  }
  return {{"_table", {{"columns", table.columns}, {"data", std::move(rows)}}}};
}

Json row(std::optional<std::int64_t> step) {
  return {{"_step", step ? Json(*step) : Json(nullptr)}, {"_time", detail::seconds_since_epoch()}};
}

void refuse_json_key(const std::string& name) {
  if (name != "_step" && name != "_time") return;
  throw UsageError("a value is called '" + name +
                   "', which the tracker 'jsonl' writes itself; log it under another name");
}

// What an earlier run left: the bytes of its whole lines, and the line end to add if an editor
// removed it from the last line. A killed run may have left half a line.
struct Earlier {
  std::uint64_t bytes = 0;
  std::string end;
};

Earlier earlier_lines(FileSystem& files, const std::filesystem::path& path) {
  if (files.status(path).kind == FileKind::none) return {};
  const auto content = files.map(path);
  const auto bytes = content->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto whole = text.rfind('\n') + 1;  // 0 if there is none.
  if (Json::accept(text.substr(whole))) return {text.size(), "\n"};
  return {whole, ""};
}

}  // namespace

void JsonLinesTracker::start() {
  FileTracker::start();
  reserve(std::string(kJsonLinesFile));
  const auto [bytes, end] = earlier_lines(disk(), folder() / kJsonLinesFile);
  files().resume(folder() / kJsonLinesFile, bytes);
  if (!end.empty()) files().append(folder() / kJsonLinesFile, end);
}

void JsonLinesTracker::store_init_configuration(const ConfigMap& config) {
  write_configuration(config);
}

void JsonLinesTracker::log(const TrackerValues& values, std::optional<std::int64_t> step) {
  Json object = row(step);
  for (const auto& [name, value] : values) {
    refuse_json_key(name);
    object[name] = to_json(value);
  }
  files().append(folder() / kJsonLinesFile, detail::json_text(object) + "\n");
}

void JsonLinesTracker::log_images(const TrackerImages& images, std::optional<std::int64_t> step) {
  Json object = row(step);
  for (const auto& [name, image] : images) {
    refuse_json_key(name);
    // If a run is continued, the time keeps its pictures apart from earlier ones.
    const std::string file =
        "images/" + detail::file_name_part(name) + "-" + std::to_string(step.value_or(0)) + "-" +
        std::to_string(static_cast<std::int64_t>(detail::seconds_since_epoch() * 1000)) + "-" +
        std::to_string(images_++) + ".png";
    files().write(folder() / file, detail::encode_image(name, image).png);
    object[name] = {{"_image", file}};
  }
  files().append(folder() / kJsonLinesFile, detail::json_text(object) + "\n");
}

void JsonLinesTracker::log_table(const std::string& name, const TrackerTable& table,
                                 std::optional<std::int64_t> step) {
  refuse_json_key(name);
  Json object = row(step);
  object[name] = table_json(table);
  files().append(folder() / kJsonLinesFile, detail::json_text(object) + "\n");
}

}  // namespace accelerate
