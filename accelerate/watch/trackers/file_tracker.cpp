#include "accelerate/watch/trackers/file_tracker.h"

#include "accelerate/base/error.h"
#include "accelerate/base/folder_lock.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/watch/trackers/tracker_options.h"

namespace accelerate::detail {

FileTracker::FileTracker(std::string name, const TrackerSetup& setup, BackgroundFilesOptions files)
    : name_(std::move(name)),
      folder_(run_folder(name_, setup.logging_dir, setup.run_name)),
      files_options_(files) {
  TrackerOptions options(name_, setup.options);
  if (const auto interval = options.seconds("flush_secs"))
    files_options_.flush_interval = *interval;
  options.finish();
}

void FileTracker::start() {
  make_run_folder(name_, disk(), folder_);
  files_ = std::make_unique<BackgroundFiles>("the tracker '" + name_ + "'", files_options_);
}

void FileTracker::finish() {
  files_.reset();
  reserved_.reset();
}

BackgroundFiles& FileTracker::files() const {
  check_run_is_under_way(files_ != nullptr, name_);
  return *files_;
}

void FileTracker::reserve(const std::string& name) {
  const auto file = folder_ / name;
  try {
    reserved_ = lock_file(file, folder_ / ("." + name + ".lock"));
  } catch (const FolderInUse& error) {
    throw ConfigError("the tracker '" + name_ + "' cannot write to '" + file.string() +
                      "': " + error.holder() +
                      " writes to it in a run that has not ended; choose another " +
                      "project name, or another project_dir");
  } catch (const FileError&) {  // Files cannot be locked here, so nobody is kept out.
  }
}

void FileTracker::write_configuration(const ConfigMap& config) {
  files().rewrite(folder_ / "config.json",
                  [text = write_json(to_node(config))](const std::string&) { return text; });
}

}  // namespace accelerate::detail
