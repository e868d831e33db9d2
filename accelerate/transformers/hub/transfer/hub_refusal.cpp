#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/hub/transfer/hub_client.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "accelerate/base/http/url.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"

namespace accelerate::detail {
namespace {

constexpr const char* kLogIn = "log in by `accelerate hub login` or set HF_TOKEN";

// Returns the beginning of the hub's words in one line, safe to print: they are somebody else's
// text.
std::string words_of(const HttpResponse& response) {
  constexpr std::size_t kMost = 300, kMostOfBody = 64U << 10;
  std::string text = response.header("x-error-message").value_or("");
  nlohmann::json body;
  if (response.body.size() <= kMostOfBody) body = parse_json(response.body);
  if (text.empty() && body.is_object() && body.contains("error") && body["error"].is_string())
    text = body["error"].get<std::string>();
  const std::string safe = safe_text(text);
  return std::string(fit_bytes(safe, kMost));
}

HubReason reason_of(const HttpResponse& response, const HubSubject& subject) {
  const std::string code = response.header("x-error-code").value_or("");
  const int status = response.status;
  if (code == "RevisionNotFound") return HubReason::revision_not_found;
  if (code == "EntryNotFound") return HubReason::file_not_found;
  if (code == "GatedRepo") return HubReason::gated;
  if (code == "RepoNotFound") return HubReason::repository_not_found;
  if (status == 401) {
    // The hub answers the same for private repositories, to hide them, and for a wrong token.
    const bool is_token =
        response.header("x-error-message") == "Invalid credentials in Authorization header";
    return is_token || subject.id.empty() ? HubReason::unauthorized
                                          : HubReason::repository_not_found;
  }
  if (status == 404 && !subject.id.empty())
    return subject.file.empty() ? HubReason::repository_not_found : HubReason::file_not_found;
  if (status == 400) return HubReason::bad_request;
  if (status == 403) return HubReason::forbidden;
  if (status == 409 || status == 412) return HubReason::conflict;
  if (status == 429) return HubReason::rate_limited;
  return status >= 500 || status == 408 ? HubReason::server_failure : HubReason::other;
}

// Returns 56 seconds for a 429 with "ratelimit: "api";r=0;t=55", whose r is 0. Source:
// huggingface_hub.
std::optional<std::chrono::seconds> wait_of(const HttpResponse& response) {
  const std::string limit = response.header("ratelimit").value_or("");
  const auto number = [&](std::string_view key) -> std::optional<std::int64_t> {
    const auto at = limit.find(key);
    if (at == std::string::npos) return std::nullopt;
    const auto from = at + key.size();
    return parse_int(limit.substr(from, limit.find_first_not_of("0123456789", from) - from));
  };
  constexpr std::int64_t kMostSeconds = 600;
  const auto wait = number(";t=");
  if (response.status != 429 || number(";r=") != 0 || !wait) return response.retry_after;
  return std::chrono::seconds(std::min(*wait + 1, kMostSeconds));
}

// Returns `before` and how long the hub asks to wait, or `otherwise` if it does not say.
std::string asked_time(const HttpResponse& response, const std::string& before,
                       const std::string& otherwise) {
  const auto wait = wait_of(response);
  return wait ? before + std::to_string(wait->count()) + " s" : otherwise;
}

std::string cure_of(HubReason reason, const HttpResponse& response, const HubSubject& subject,
                    bool has_token) {
  switch (reason) {
    case HubReason::unauthorized:
      return has_token ? std::string("The hub does not know the token that was sent: ") + kLogIn
                       : std::string("A token is needed: ") + kLogIn;
    case HubReason::repository_not_found:
      return "There is no repository with this name, or it is private. Check the name and whether "
             "it is a model or a dataset; for a private one " +
             (has_token ? "the token needs the right to read it" : std::string(kLogIn));
    case HubReason::gated:
      return "Its owner asks for an agreement: accept it on the repository's page, then " +
             std::string(has_token ? "try again with that account's token" : kLogIn);
    case HubReason::revision_not_found:
      return "It has no revision " + shown(subject.revision) +
             "; allowed are a branch, a tag, refs/pr/N and a commit";
    case HubReason::file_not_found:
      return subject.file.empty() ? "It has no such file"
                                  : "It has no file " + shown(subject.file) + " at the revision " +
                                        shown(subject.revision);
    case HubReason::forbidden:
      return has_token ? "The token lacks the right to do this here: make one that has it, at "
                         "https://huggingface.co/settings/tokens"
                       : std::string("A token is needed: ") + kLogIn;
    case HubReason::conflict:
      return response.status == 412 ? "Another commit came first: fetch it and try again"
                                    : "It exists already";
    case HubReason::rate_limited:
      return "Too many requests were sent. " + asked_time(response, "Wait ", "Wait some minutes") +
             (has_token ? std::string() : std::string(", or ") + kLogIn + " for a higher limit");
    case HubReason::server_failure:
      return "The hub has a problem. " + asked_time(response, "Try again in ", "Try again later");
    case HubReason::bad_request:
      return "The hub does not take the request; what it says is the reason";
    default:
      return "Nothing can be done about it here";
  }
}

}  // namespace

HubError refusal_of(const HttpResponse& response, const HubSubject& subject, const std::string& url,
                    bool has_token) {
  const HubReason reason = reason_of(response, subject);
  const std::string words = words_of(response);
  std::string message = "the hub answered " + std::to_string(response.status);
  if (!words.empty()) message += " (" + words + ")";
  if (!subject.id.empty()) message += " for " + label_of(subject.id, subject.type);
  message += ". " + cure_of(reason, response, subject, has_token) + ". The request was " +
             safe_text(without_query(url));
  if (const auto id = response.header("x-request-id")) message += ", with the id " + shown(*id);
  const std::string commit = response.header("x-repo-commit").value_or("");
  return {reason,
          {.status = response.status,
           .retry_after = wait_of(response),
           .commit = is_commit(commit) ? commit : "",
           .body = response.body},
          message};
}

}  // namespace accelerate::detail
