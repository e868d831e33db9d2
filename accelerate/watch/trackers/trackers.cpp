#include "accelerate/watch/trackers/trackers.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {

struct Trackers::Choice {
  std::string name;
  TrackerClass tracker_class;
  bool is_from_all = false;
  std::shared_ptr<GeneralTracker> object = nullptr;  // Null if a name was given.
};

namespace {

// The tracker of a rank that does not track.
class BlankTracker final : public GeneralTracker {
 public:
  explicit BlankTracker(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] std::string name() const override { return name_; }
  void log(const TrackerValues&, std::optional<std::int64_t>) override {}
  void log_images(const TrackerImages&, std::optional<std::int64_t>) override {}
  void log_table(const std::string&, const TrackerTable&, std::optional<std::int64_t>) override {}

 private:
  std::string name_;
};

// Wraps a tracker object as a class, so that both kinds of choice are treated alike.
TrackerClass class_of(const std::shared_ptr<GeneralTracker>& tracker) {
  if (!tracker) {
    throw ConfigError("log_with has a null pointer; allowed are names and trackers");
  }
  return {[tracker](const TrackerSetup&) { return tracker; }, tracker->requires_logging_directory(),
          tracker->main_process_only()};
}

void need_directory(const std::string& name, const TrackerClass& one,
                    const std::filesystem::path& logging_dir) {
  if (!one.requires_logging_directory || !logging_dir.empty()) return;
  throw ConfigError("log_with has '" + name +
                    "', which writes files and needs a folder for them: set project_dir, or "
                    "project_config.logging_dir, of the Accelerator's options");
}

// Calls `fn` with every tracker, even if it throws for one of them.
template <typename Fn>
void for_each(const std::vector<std::shared_ptr<GeneralTracker>>& trackers, Fn&& fn) {
  std::exception_ptr first;
  for (const auto& tracker : trackers) {
    try {
      fn(*tracker);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace

std::shared_ptr<GeneralTracker> LogWith::tracker() const {
  const auto* tracker = std::get_if<std::shared_ptr<GeneralTracker>>(&choice_);
  return tracker != nullptr ? *tracker : nullptr;
}

Trackers::Trackers(const std::vector<LogWith>& log_with, std::filesystem::path logging_dir,
                   bool is_main_process)
    : logging_dir_(std::move(logging_dir)), is_main_process_(is_main_process) {
  const auto is_all = [](const LogWith& one) {
    return one.name() != nullptr && *one.name() == "all";
  };
  for (const LogWith& one : log_with) {
    if (is_all(one)) continue;
    if (one.name() != nullptr) {
      add({*one.name(), detail::tracker_class(*one.name())});
    } else {
      const TrackerClass own = class_of(one.tracker());
      add({one.tracker()->name(), own, false, one.tracker()});
    }
  }
  if (std::ranges::none_of(log_with, is_all)) return;
  for (const auto& name : available_trackers()) add({name, detail::tracker_class(name), true});
}

void Trackers::add(Choice choice) {
  const auto same = std::ranges::find(choices_, choice.name, &Choice::name);
  if (same == choices_.end()) {
    need_directory(choice.name, choice.tracker_class, logging_dir_);
    choices_.push_back(std::move(choice));
  } else if (same->object != choice.object && !choice.is_from_all) {
    throw ConfigError(
        "log_with has two trackers called '" + choice.name +
        "'; get_tracker could not tell them apart, so each needs a name() of its own");
  }
}

Trackers::~Trackers() = default;
Trackers::Trackers(Trackers&&) noexcept = default;
Trackers& Trackers::operator=(Trackers&&) noexcept = default;

void Trackers::init(const std::string& project_name, const ConfigMap& config,
                    const TrackerInitOptions& init_kwargs) {
  if (started_) {
    throw UsageError(
        "init_trackers was called a second time; end_training() ends the first run of trackers");
  }
  check_kwargs(init_kwargs);
  detail::check_config(config);
  try {
    make(project_name, init_kwargs);
    for (const auto& tracker : active_) tracker->start();
    if (!config.empty()) {
      for (const auto& tracker : active_) tracker->store_init_configuration(config);
    }
  } catch (...) {
    active_.clear();
    active_names_.clear();
    throw;
  }
  started_ = true;
}

void Trackers::make(const std::string& project_name, const TrackerInitOptions& init_kwargs) {
  for (const auto& [name, tracker_class, is_from_all, object] : choices_) {
    if (tracker_class.main_process_only && !is_main_process_) continue;
    const auto options = init_kwargs.find(name);
    const TrackerSetup setup{project_name, logging_dir_,
                             options == init_kwargs.end() ? ConfigMap{} : options->second};
    if (is_from_all && tracker_class.is_in_all && !tracker_class.is_in_all(setup)) continue;
    auto tracker = tracker_class.make(setup);
    if (!tracker) {
      throw ConfigError("the tracker class '" + name +
                        "' made a null pointer; its function must return a tracker");
    }
    active_.push_back(std::move(tracker));
    active_names_.push_back(name);
  }
}

void Trackers::check_kwargs(const TrackerInitOptions& init_kwargs) const {
  for (const auto& [name, options] : init_kwargs) {
    const auto known = names();
    if (std::ranges::find(known, name) != known.end()) continue;
    throw ConfigError("init_kwargs has options for '" + name + "', but log_with has " +
                      (known.empty() ? "no trackers" : join(known, ", ")) + "." +
                      did_you_mean(name, known));
  }
}

std::vector<std::string> Trackers::names() const {
  std::vector<std::string> all;
  for (const Choice& choice : choices_) all.push_back(choice.name);
  return all;
}

void Trackers::need_started(const char* call) const {
  if (started_ || choices_.empty()) return;
  throw UsageError(std::string(call) + " was called " +
                   (ended_ ? "after end_training(), so the run is over"
                           : "before init_trackers(), so there is no run yet") +
                   ": call init_trackers(project_name) first");
}

void Trackers::log(const TrackerValues& values, std::optional<std::int64_t> step) {
  need_started("log()");
  detail::check_values(values);
  for_each(active_, [&](GeneralTracker& tracker) { tracker.log(values, step); });
}

void Trackers::log_images(const TrackerImages& images, std::optional<std::int64_t> step) {
  need_started("log_images()");
  std::vector<std::string> all;
  for (const auto& one : images) all.push_back(one.first);
  detail::check_names(all, "image");
  for_each(active_, [&](GeneralTracker& tracker) { tracker.log_images(images, step); });
}

void Trackers::log_table(const std::string& name, const TrackerTable& table,
                         std::optional<std::int64_t> step) {
  need_started("log_table()");
  detail::check_names({name}, "table");
  detail::check_names(table.columns, "column");
  for (const auto& row : table.rows) {
    for (const auto& cell : row) detail::check_values({{name, cell}});
    if (row.size() == table.columns.size()) continue;
    throw UsageError("the table '" + name + "' has " + std::to_string(table.columns.size()) +
                     " columns and a row of " + std::to_string(row.size()) +
                     " values; every row needs a value for each column");
  }
  for_each(active_, [&](GeneralTracker& tracker) { tracker.log_table(name, table, step); });
}

std::shared_ptr<GeneralTracker> Trackers::get(const std::string& name) const {
  const auto known = names();
  if (std::ranges::find(known, name) == known.end()) {
    throw UsageError("get_tracker: log_with has no '" + name + "', only " +
                     (known.empty() ? "nothing" : join(known, ", ")) + "." +
                     did_you_mean(name, known));
  }
  need_started("get_tracker()");
  const auto found = std::ranges::find(active_names_, name) - active_names_.begin();
  const auto place = static_cast<std::size_t>(found);
  return place < active_.size() ? active_[place] : std::make_shared<BlankTracker>(name);
}

void Trackers::finish() {
  const auto all = std::exchange(active_, {});
  active_names_.clear();
  ended_ = ended_ || started_;
  started_ = false;
  for_each(all, [](GeneralTracker& tracker) { tracker.finish(); });
}

}  // namespace accelerate
