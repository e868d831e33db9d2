#include "accelerate/watch/trackers/tensorboard_tracker.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <ctime>

#include "accelerate/base/utf8.h"
#include "accelerate/formats/documents/yaml.h"
#include "accelerate/formats/tensorboard/tensorboard_events.h"
#include "accelerate/watch/trackers/tracker_options.h"
#include "accelerate/watch/trackers/values.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return detail::file_name_part(name.data());
}

// Readers recognise event files by "tfevents" and sort them by name, hence the padded time.
std::string event_file_name(double now) {
  static std::atomic<unsigned> count = 0;  // Two files of a process never share a name.
  std::array<char, 32> time{};
  std::snprintf(time.data(), time.size(), "%010lld", static_cast<long long>(now));
  return "events.out.tfevents." + std::string(time.data()) + "." + host_name() + "." +
         std::to_string(::getpid()) + "." + std::to_string(count++);
}

// Formats the time as str(time.time()) does: "1763735645.123456".
std::string time_folder(double now) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.6f", now);
  return text.data();
}

// The part of a plot becomes the name of a run, which is a folder, so it must not contain
// separators.
std::string scalars_folder(const std::string& tag, const std::string& part) {
  std::string name(fit_bytes(tag + "_" + part, 200));
  for (char& c : name) {
    if (c == '/' || static_cast<unsigned char>(c) < 0x20) c = '_';
  }
  return name;
}

Hparams to_hparams(const ConfigMap& config) {
  Hparams hparams;
  for (const auto& setting : detail::flatten(config)) {
    if (const auto* flag = std::get_if<bool>(&setting.value)) {
      hparams.emplace_back(setting.name, *flag);
    } else if (const auto* whole = std::get_if<std::int64_t>(&setting.value)) {
      hparams.emplace_back(setting.name, static_cast<double>(*whole));
    } else if (const auto* real = std::get_if<double>(&setting.value)) {
      hparams.emplace_back(setting.name, *real);
    } else if (const auto* text = std::get_if<std::string>(&setting.value)) {
      hparams.emplace_back(setting.name, *text);
    }
  }
  return hparams;
}

void warn_nothing_finite(const std::string& tag) {
  detail::warn_once("the histogram '" + tag + "' has no finite element and was left out");
}

}  // namespace

void TensorBoardTracker::start() {
  FileTracker::start();
  event_files_.clear();
  event_file(folder());
}

const fs::path& TensorBoardTracker::event_file(const fs::path& place) {
  const auto [entry, is_new] = event_files_.try_emplace(place);
  if (is_new) {
    const double now = detail::seconds_since_epoch();
    entry->second = place / event_file_name(now);
    files().append(entry->second, file_version_event(now));
    files().set_head(entry->second, file_version_event(now));
  }
  return entry->second;
}

void TensorBoardTracker::add(const fs::path& place, std::string record) {
  files().append(event_file(place), std::move(record));
}

void TensorBoardTracker::store_init_configuration(const ConfigMap& config) {
  const double now = detail::seconds_since_epoch();
  const fs::path place = folder() / time_folder(now);
  add(place, hparams_events({now, 0}, to_hparams(config)));
  files().rewrite(place / "hparams.yml", [text = write_yaml(detail::to_node(config))](
                                             const std::string&) { return text; });
}

void TensorBoardTracker::log(const TrackerValues& values, std::optional<std::int64_t> step) {
  const double now = detail::seconds_since_epoch();
  for (const auto& [tag, value] : values) log_value(tag, value, now, step.value_or(0));
}

void TensorBoardTracker::log_value(const std::string& tag, const TrackerValue& value, double now,
                                   std::int64_t step) {
  const EventStamp stamp{now, step};
  if (const auto* real = std::get_if<double>(&value.as_variant())) {
    add(scalar_event(stamp, tag, static_cast<float>(*real)));
  } else if (const auto* whole = std::get_if<std::int64_t>(&value.as_variant())) {
    add(scalar_event(stamp, tag, static_cast<float>(*whole)));
  } else if (const auto* text = std::get_if<std::string>(&value.as_variant())) {
    add(text_event(stamp, tag, *text));
  } else if (const auto* several = std::get_if<Scalars>(&value.as_variant())) {
    log_scalars(tag, *several, now, step);
  } else if (const auto* histogram = std::get_if<Histogram>(&value.as_variant())) {
    const auto summary = detail::summarize(histogram->values);
    summary ? add(histogram_event(stamp, tag, *summary)) : warn_nothing_finite(tag);
  }
}

void TensorBoardTracker::log_scalars(const std::string& tag, const Scalars& values, double now,
                                     std::int64_t step) {
  for (const auto& [part, value] : values) {
    add(folder() / scalars_folder(tag, part),
        scalar_event({now, step}, tag, static_cast<float>(value)));
  }
}

void TensorBoardTracker::log_images(const TrackerImages& images, std::optional<std::int64_t> step) {
  const EventStamp stamp{detail::seconds_since_epoch(), step.value_or(0)};
  for (const auto& [tag, image] : images) {
    add(image_event(stamp, tag, detail::encode_image(tag, image)));
  }
}

void TensorBoardTracker::log_table(const std::string& name, const TrackerTable& table,
                                   std::optional<std::int64_t> step) {
  const EventStamp stamp{detail::seconds_since_epoch(), step.value_or(0)};
  add(text_event(stamp, name, detail::markdown(table)));
}

}  // namespace accelerate
