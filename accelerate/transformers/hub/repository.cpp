#include "accelerate/transformers/hub/repository.h"

#include <algorithm>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/hex.h"
#include "accelerate/base/http/url.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/transformers/hub/cache/python_paths.h"
#include "accelerate/transformers/hub/transfer/digest.h"

namespace accelerate {
namespace {

using detail::is_word_character;

bool is_repo_part(std::string_view part) {
  const auto is_allowed = [](char c) { return is_word_character(c) || c == '-' || c == '.'; };
  return !part.empty() && part.size() <= 96 && is_word_character(part.front()) &&
         is_word_character(part.back()) && std::all_of(part.begin(), part.end(), is_allowed);
}

}  // namespace

bool is_repo_id(std::string_view text) {
  const auto parts = split(text, '/');
  return parts.size() <= 2 && std::all_of(parts.begin(), parts.end(), is_repo_part) &&
         text.find("--") == std::string_view::npos && text.find("..") == std::string_view::npos &&
         !text.ends_with(".git");
}

std::string hub_endpoint() {
  std::string endpoint = env("HF_ENDPOINT").value_or("https://huggingface.co");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (detail::origin_of(endpoint)) return endpoint;
  throw ConfigError("HF_ENDPOINT is " + detail::shown_url(endpoint) +
                    "; allowed is an http:// or https:// URL without user and password, such as "
                    "https://huggingface.co");
}

namespace detail {

bool is_commit(std::string_view text) {
  return is_hex(text, 40);
}

void check_repo_id(const std::string& id) {
  if (is_repo_id(id)) return;
  throw ConfigError(shown(id) + " is not " + kRepoIdRule);
}

void check_safe(std::string_view what, const std::string& path) {
  std::string fault;
  std::string slashes = path;  // Windows' separators count too, as in huggingface_hub.
  std::replace(slashes.begin(), slashes.end(), '\\', '/');
  const auto parts = split(slashes, '/');
  if (path.empty()) fault = "is empty";
  if (path.starts_with('/')) fault = "is an absolute path";
  if (path.find('\0') != std::string::npos) fault = "holds a zero byte";
  if (std::find(parts.begin(), parts.end(), "..") != parts.end()) fault = "holds a '..'";
  if (fault.empty()) return;
  throw ConfigError(std::string(what) + " " + shown(path) + " " + fault +
                    ": use a path inside the repository, such as 'main' for a revision and "
                    "'onnx/config.json' for a file");
}

bool is_on(const std::optional<std::string>& value) {
  const std::string word = lower(value.value_or(""));
  return word == "1" || word == "on" || word == "yes" || word == "true";
}

std::string word_of(RepoType type) {
  return type == RepoType::dataset ? "dataset" : "model";
}

std::string label_of(const std::string& id, RepoType type) {
  return "the " + word_of(type) + " '" + id + "'";
}

std::string folder_name_of(const std::string& id, RepoType type) {
  return word_of(type) + "s--" + join(split(id, '/'), "--");
}

std::string safe_text(std::string_view text) {
  return untrusted_line(text);
}

std::string shown(std::string_view text) {
  const std::string safe = safe_text(text);
  const std::string_view fitting = fit_bytes(safe, 120);
  return "'" + std::string(fitting) + (fitting.size() < safe.size() ? "…'" : "'");
}

std::string shown(const std::vector<std::string>& texts) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> parts;
  for (const auto& text : texts) {
    if (parts.size() == kMost) break;
    parts.push_back(shown(text));
  }
  if (texts.size() > kMost) parts.push_back(std::to_string(texts.size() - kMost) + " more");
  return join(parts, ", ");
}

std::string shown_url(std::string_view url) {
  return url.find('@') == std::string_view::npos ? shown(url) : "a URL with an '@'";
}

std::string command_words(const std::string& id, const HubOptions& options) {
  std::string words = id;
  if (options.type == RepoType::dataset) words += " --repo-type dataset";
  if (options.revision != "main") words += " --revision " + shell_word(options.revision);
  if (!options.cache_dir.empty()) {
    words += " --cache-dir " + shell_word(expand_user(options.cache_dir.string()));
  }
  return safe_text(words);
}

}  // namespace detail
}  // namespace accelerate
