#include <algorithm>
#include <cctype>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/watch/trackers/mlflow_tracker.h"
#include "accelerate/watch/trackers/tracker_options.h"

namespace accelerate::detail {
namespace {

bool has_control(const std::string& text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7F) return true;
  }
  return false;
}

// Returns the authority of a URL: the part between "//" and the next slash.
std::string authority(const std::string& url) {
  const auto begin = url.find("//") + 2;
  return url.substr(begin, url.find_first_of("/?#", begin) - begin);
}

std::string checked_server(std::optional<std::string> uri) {
  if (!uri) {
    throw ConfigError(
        "the tracker 'mlflow' needs a server: set MLFLOW_TRACKING_URI, or "
        "init_kwargs {\"mlflow\", {{\"tracking_uri\", …}}}, to its http:// or https:// address");
  }
  const bool is_http = uri->starts_with("http://") || uri->starts_with("https://");
  if (!is_http || has_control(*uri) || authority(*uri).empty()) {
    throw ConfigError(
        "the tracker 'mlflow' was given the server '" + *uri +
        "'; allowed is an http:// or https:// address. For files without a server use "
        "`mlflow server`, or the tracker 'jsonl'.");
  }
  if (authority(*uri).find('@') != std::string::npos) {
    throw ConfigError(
        "the address of the MLflow server has a name or password in it, which would show in "
        "messages and files; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD");
  }
  while (uri->ends_with('/')) uri->pop_back();
  return *uri;
}

std::string checked_secret(const char* variable) {
  const std::string value = env(variable).value_or("");
  for (const char c : value) {
    if (static_cast<unsigned char>(c) < 0x20) {
      throw ConfigError(std::string(variable) +
                        " has a control character in it, such as a line end");
    }
  }
  return value;
}

HttpOptions http_options() {
  HttpOptions http;
  http.bearer_token = checked_secret("MLFLOW_TRACKING_TOKEN");
  http.username = checked_secret("MLFLOW_TRACKING_USERNAME");
  http.password = checked_secret("MLFLOW_TRACKING_PASSWORD");
  http.verify_certificates = !env_flag("MLFLOW_TRACKING_INSECURE_TLS", false);
  http.certificates = env("MLFLOW_TRACKING_SERVER_CERT_PATH").value_or("");
  return http;
}

ConfigMap tags_from_environment(const std::string& text) {
  const Node node = read_json(text, "MLFLOW_TAGS");
  if (!node.is_map()) {
    throw ConfigError("MLFLOW_TAGS is " + node.describe() + "; allowed is a JSON object of texts");
  }
  ConfigMap tags;
  for (const auto& [key, line, value] : node.entries) {
    if (!value.is_scalar()) {
      throw ConfigError("MLFLOW_TAGS: '" + key + "' is " + value.describe() +
                        "; allowed is a text");
    }
    tags.emplace_back(key, value.text);
  }
  return tags;
}

// Leaves the values out: an address may hold a secret.
void tell_who_wins(const std::string& variable, const std::string& option) {
  get_logger("accelerate.tracking")
      .warning(variable + " is set and counts in place of the option " + option +
               " of the tracker mlflow, as in Python.");
}

std::string checked_run_id(const std::string& id) {
  for (const char c : id) {
    const bool allowed = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    if (!allowed || id.size() > 256) {
      throw ConfigError("the MLflow run id '" + id +
                        "' is not valid; allowed are letters, digits, '_' and '-'");
    }
  }
  return id;
}

}  // namespace

bool names_mlflow_server(const TrackerSetup& setup) {
  const auto is_server = [](const auto& option) { return option.first == "tracking_uri"; };
  return env("MLFLOW_TRACKING_URI").has_value() || std::ranges::any_of(setup.options, is_server);
}

MlflowOptions mlflow_options(const TrackerSetup& setup) {
  TrackerOptions options("mlflow", setup.options);
  const auto text = [&](const char* option, const char* variable) {
    const auto given = options.text(option);
    const auto wins = variable != nullptr ? env(variable) : std::nullopt;
    if (wins && given && *given != *wins) tell_who_wins(variable, option);
    return wins ? wins : given;
  };
  MlflowOptions settings;
  settings.server = checked_server(text("tracking_uri", "MLFLOW_TRACKING_URI"));
  settings.experiment = text("experiment_name", "MLFLOW_EXPERIMENT_NAME").value_or(setup.run_name);
  settings.run_id = checked_run_id(text("run_id", "MLFLOW_RUN_ID").value_or(""));
  settings.run_name = text("run_name", nullptr).value_or("");
  settings.description = text("description", nullptr).value_or("");
  settings.tags = options.map("tags").value_or(ConfigMap{});
  if (const auto tags = env("MLFLOW_TAGS")) {
    if (!settings.tags.empty()) tell_who_wins("MLFLOW_TAGS", "tags");
    settings.tags = tags_from_environment(*tags);
  }
  settings.http = http_options();
  settings.flush_interval = options.seconds("flush_secs").value_or(settings.flush_interval);
  settings.finish_timeout =
      options.seconds("finish_timeout_secs").value_or(settings.finish_timeout);
  options.finish();
  check_config(settings.tags);
  if (settings.experiment.empty() || settings.experiment.size() > 500) {
    throw ConfigError("an MLflow experiment needs a name of 1 to 500 bytes; this one has " +
                      std::to_string(settings.experiment.size()));
  }
  return settings;
}

}  // namespace accelerate::detail
