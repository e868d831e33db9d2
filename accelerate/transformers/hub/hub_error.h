// Refusals of the hub.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate {

enum class HubReason {
  unauthorized,          ///< 401: the hub does not know the token.
  forbidden,             ///< 403: the token lacks a right.
  gated,                 ///< The repository's conditions must be accepted first.
  repository_not_found,  ///< No repository has this name, or it is private.
  revision_not_found,
  file_not_found,
  bad_request,     ///< 400, for example a model card with invalid metadata.
  conflict,        ///< 409: it exists already. 412: the parent commit is no longer the newest.
  rate_limited,    ///< 429, after all retries.
  server_failure,  ///< 5xx or 408, after all retries.
  other
};

/// The details of the hub's answer.
struct HubAnswer {
  int status = 0;
  std::optional<std::chrono::seconds> retry_after = {};  ///< How long the hub asks to wait.
  std::string commit = {};  ///< The commit that was looked up; "" if unknown.
  std::string body = {};    ///< The text of the answer.
};

/// The hub answered and refused. The message has the status, the hub's words and a remedy, and
/// never a token. A failure of the network itself is a plain NetworkError.
class HubError : public NetworkError {
 public:
  /// The reason chooses the name of the error.
  HubError(HubReason reason, HubAnswer answer, const std::string& message);

  [[nodiscard]] std::string_view kind() const noexcept override { return "HubError"; }
  [[nodiscard]] HubReason reason() const noexcept { return reason_; }
  [[nodiscard]] int status() const noexcept { return answer_.status; }
  [[nodiscard]] const HubAnswer& answer() const noexcept { return answer_; }

 private:
  HubReason reason_;
  HubAnswer answer_;
};

}  // namespace accelerate
