#include "accelerate/transformers/hub/transfer/hub_client.h"

#include <algorithm>
#include <thread>

#include "accelerate/base/environment.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/hub/cache/cache.h"
#include "accelerate/transformers/hub/token.h"
#include "accelerate/transformers/hub/transfer/digest.h"
#include "accelerate/transformers/hub/transfer/hub_subject.h"

namespace accelerate::detail {
namespace {

constexpr int kMostRedirects = 20;
constexpr std::chrono::minutes kAnswerTimeout{5};  // The hub checks uploads first.

std::chrono::seconds seconds_of(const char* name, std::int64_t fallback) {
  const std::int64_t seconds = env_int(name).value_or(fallback);
  if (seconds >= 1 && seconds <= 86400) return std::chrono::seconds(seconds);
  throw ConfigError(std::string(name) + " is " + std::to_string(seconds) +
                    "; allowed are 1 to 86400 seconds");
}

std::string certificates_of_environment() {
  return env_first({"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}).value_or("");
}

std::unique_ptr<HttpTransport> hub_transport() {
  if (is_offline()) {
    throw NetworkError(
        "HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set, so no network is used. Unset it",
        error_name::kHubOffline);
  }
  if (const std::string why = why_no_network(); !why.empty()) throw NetworkError(why);
  return make_http_transport({.connect_timeout = seconds_of("HF_HUB_ETAG_TIMEOUT", 10),
                              .timeout = std::chrono::milliseconds(0),
                              .stall_timeout = seconds_of("HF_HUB_DOWNLOAD_TIMEOUT", 10),
                              .certificates = certificates_of_environment(),
                              .user_agent = "accelerate.cpp/" ACCELERATE_VERSION});
}

HubOptions checked(HubOptions options) {
  if (options.max_workers < 1 || options.max_workers > 64) {
    throw ConfigError("HubOptions::max_workers is " + std::to_string(options.max_workers) +
                      "; allowed are 1 to 64");
  }
  if (options.endpoint.empty()) options.endpoint = hub_endpoint();
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  if (!origin_of(options.endpoint)) {
    throw ConfigError("HubOptions::endpoint is " + shown_url(options.endpoint) +
                      "; allowed is an http:// or https:// URL without user and password");
  }
  return options;
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// The statuses of a hub, or of a proxy before it, that has a problem which passes.
bool is_passing_failure(int status) {
  return status == 408 || status == 500 || (status >= 502 && status <= 504) ||
         (status >= 520 && status <= 524);
}

bool is_transient(const NetworkError& error) {
  if (dynamic_cast<const LastingNetworkError*>(&error) != nullptr) return false;
  const auto* refusal = dynamic_cast<const HubError*>(&error);
  return refusal == nullptr || refusal->reason() == HubReason::rate_limited ||
         is_passing_failure(refusal->status());
}

std::optional<std::chrono::seconds> asked_wait(const NetworkError& error) {
  const auto* refusal = dynamic_cast<const HubError*>(&error);
  return refusal != nullptr ? refusal->answer().retry_after : std::nullopt;
}

std::string seconds_text(std::chrono::milliseconds wait) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(wait).count()) + " s";
}

void replace_all(std::string& text, const std::string& what) {
  constexpr const char* kHidden = "[token]";
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at))
    text.replace(at, what.size(), kHidden);
}

// Removes the token from an answer: a server may repeat the token, and its words are shown.
void hide(const std::string& token, HttpResponse& response) {
  if (token.empty()) return;
  replace_all(response.body, token);
  for (auto& [name, value] : response.headers) replace_all(value, token);
}

// Returns where a redirect leads. Throws LastingNetworkError for a target that a hub would never
// name.
std::string target_of(const HttpResponse& response, const std::string& url) {
  const std::string location = response.header("location").value_or("");
  const auto target = resolve_location(url, location);
  if (location.empty() || !target) {
    throw LastingNetworkError("the answer to " + safe_text(without_query(url)) +
                              " redirects to an address that is not http or https");
  }
  if (origin_of(url)->scheme == "https" && origin_of(*target)->scheme != "https") {
    throw LastingNetworkError("the answer to " + safe_text(without_query(url)) +
                              " leads from https to http, which is refused");
  }
  return *target;
}

}  // namespace

std::string why_no_network() {
  const std::string no_http = why_no_http_transport();
  const std::string why = no_http.empty() ? why_no_digest() : no_http;
  return why.empty() ? "" : "the hub cannot be reached: " + why;
}

HubClient::HubClient(const HubOptions& options) : HubClient(options, hub_transport()) {}

HubClient::HubClient(const HubOptions& options, std::unique_ptr<HttpTransport> transport)
    : options_(checked(options)),
      endpoint_(options_.endpoint),
      origin_(*origin_of(endpoint_)),
      token_(token_to_send(options_.token)),
      transport_(std::move(transport)) {}

// An answer of the hub may name any URL, but none that is less safe than the endpoint.
void HubClient::check_encryption(const std::string& url) const {
  const auto origin = origin_of(url);
  if (origin_.scheme != "https" || !origin || origin->scheme == "https") return;
  throw LastingNetworkError("the hub names " + safe_text(without_query(url)) +
                            ", which is not encrypted. An endpoint of https may name URLs of "
                            "https only, so nothing was sent there");
}

// Sends the token to the endpoint's host and nowhere else.
HttpResponse HubClient::exchange(HttpRequest request) {
  check_encryption(request.url);
  if (!token_.empty() && origin_of(request.url) == origin_)
    request.headers.push_back("Authorization: Bearer " + token_);
  const bool sends_content = request.method != "GET" && request.method != "HEAD";
  if (sends_content) request.stall_timeout = kAnswerTimeout;
  if (!sends_content && !request.receive) request.timeout = kAnswerTimeout;
  bool is_refused_here = false;  // Whether request.receive threw, and not the network.
  if (const auto receive = request.receive) {
    request.receive = [&is_refused_here, receive](const HttpResponse& head,
                                                  std::string_view piece) {
      is_refused_here = true;
      receive(head, piece);
      is_refused_here = false;
    };
  }
  try {
    return transport_->send(request);
  } catch (const NetworkError& error) {
    if (is_refused_here) throw;
    const std::string what =
        "no answer from " + safe_text(without_query(request.url)) + ": " + safe_text(error.what());
    if (is_transient(error)) throw NetworkError(what, error_name::kHubUnreachable);
    throw LastingNetworkError(what, error_name::kHubUnreachable);
  }
}

HttpResponse HubClient::send_once(HttpRequest request, const HubCall& call) {
  for (int i = 0; i < kMostRedirects; ++i) {
    HttpResponse response = exchange(request);
    if (response.status >= 400) hide(token_, response);
    if (response.status >= 400)
      throw refusal_of(response, call.subject, request.url, !token_.empty());
    if (!is_redirect(response.status)) return response;
    std::string target = target_of(response, request.url);
    const bool leaves = origin_of(target) != origin_of(request.url);
    if (leaves && call.redirects == Redirects::own_host) return response;
    if (request.method != "GET" && request.method != "HEAD" &&
        (leaves || response.status == 301 || response.status == 302 || response.status == 303)) {
      throw LastingNetworkError("the answer to " + safe_text(without_query(request.url)) +
                                " redirects to another URL, to which nothing is uploaded: is the "
                                "repository's name or HF_ENDPOINT out of date?");
    }
    request.url = std::move(target);
  }
  throw LastingNetworkError("more than " + std::to_string(kMostRedirects) +
                            " redirects, the last from " + safe_text(without_query(request.url)));
}

bool HubClient::wait_for_retry(Retries& retries, const NetworkError& error) {
  constexpr int kMostDoublings = 3;
  constexpr std::chrono::seconds kMostAskedWait{600};
  if (retries.made >= options_.max_retries || !is_transient(error)) return false;
  const auto doublings = std::min(retries.made, kMostDoublings);
  const auto asked = asked_wait(error);
  const auto wait = asked ? *asked : options_.retry_wait * (1 << doublings);
  const auto logger = get_logger("accelerate.hub");
  retries.asked_wait += asked.value_or(std::chrono::seconds(0));
  if (retries.asked_wait > kMostAskedWait) {
    logger.warning("The hub asks to wait " + seconds_text(retries.asked_wait) +
                   " in all for one request; the limit is " + seconds_text(kMostAskedWait) +
                   ". The request is given up");
    return false;
  }
  ++retries.made;
  logger.warning(std::string(error.what()) + ". Tries again in " + seconds_text(wait) +
                 (asked ? ", as the hub asks (" : " (") + std::to_string(retries.made) + " of " +
                 std::to_string(options_.max_retries) + ")");
  std::this_thread::sleep_for(wait);
  return true;
}

HttpResponse HubClient::send(HttpRequest request, const HubCall& call) {
  for (Retries retries;;) {
    try {
      return send_once(request, call);
    } catch (const NetworkError& error) {
      if (!call.retries || !wait_for_retry(retries, error)) throw;
    }
  }
}

std::string HubClient::get(const std::string& url, const HubSubject& subject) {
  return send({.url = url}, {.subject = subject}).body;
}

std::string HubClient::post(const std::string& url, const std::string& json,
                            const HubSubject& subject) {
  return send({.method = "POST", .url = url, .body = json}, {.subject = subject}).body;
}

std::string HubClient::api_url(const HubSubject& subject, const std::string& rest) const {
  return endpoint_ + "/api/" + word_of(subject.type) + "s/" + subject.id + rest;
}

std::string HubClient::file_url(const HubSubject& subject) const {
  const char* prefix = subject.type == RepoType::dataset ? "/datasets/" : "/";
  return endpoint_ + prefix + subject.id + "/resolve/" + url_escape(subject.revision) + "/" +
         url_escape(subject.file, "/");
}

std::string HubClient::on_this_endpoint(std::string url) const {
  const std::string original = "https://huggingface.co";
  const bool is_there = url == original || url.starts_with(original + "/");
  return is_there ? endpoint_ + url.substr(original.size()) : url;
}

HubSubject checked_subject(const std::string& repo_id, const HubOptions& options) {
  check_repo_id(repo_id);
  check_safe("the revision", options.revision);
  return {.id = repo_id, .type = options.type, .revision = options.revision};
}

}  // namespace accelerate::detail
