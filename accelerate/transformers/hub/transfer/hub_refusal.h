// Turns an answer that refuses into a HubError with a remedy.
#pragma once

#include <string>

#include "accelerate/base/http/http.h"
#include "accelerate/transformers/hub/hub_error.h"
#include "accelerate/transformers/hub/transfer/hub_subject.h"

namespace accelerate::detail {

/// Returns the error for `response`, whose status is 400 or above. `url` is the last URL that was
/// requested; its query, which may hold a signature, is left out of the message.
[[nodiscard]] HubError refusal_of(const HttpResponse& response, const HubSubject& subject,
                                  const std::string& url, bool has_token);

}  // namespace accelerate::detail
