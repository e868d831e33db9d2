#include "accelerate/transformers/hub/hub_error.h"

#include "accelerate/base/error_name.h"

namespace accelerate {
namespace {

ErrorName name_of_reason(HubReason reason) {
  switch (reason) {
    case HubReason::unauthorized:
    case HubReason::forbidden:
      return error_name::kHubToken;
    case HubReason::gated:
      return error_name::kHubGated;
    case HubReason::repository_not_found:
    case HubReason::revision_not_found:
    case HubReason::file_not_found:
      return error_name::kHubNotFound;
    case HubReason::rate_limited:
    case HubReason::server_failure:
      return error_name::kHubBusy;
    case HubReason::bad_request:
    case HubReason::conflict:
    case HubReason::other:
      break;
  }
  return {};
}

}  // namespace

HubError::HubError(HubReason reason, HubAnswer answer, const std::string& message)
    : NetworkError(message, name_of_reason(reason)), reason_(reason), answer_(std::move(answer)) {}

}  // namespace accelerate
