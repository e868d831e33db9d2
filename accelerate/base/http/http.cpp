#include "accelerate/base/http/http.h"

namespace accelerate::detail {

std::optional<std::string> HttpResponse::header(std::string_view name) const {
  for (auto at = headers.rbegin(); at != headers.rend(); ++at) {
    if (at->first == name) return at->second;
  }
  return std::nullopt;
}

}  // namespace accelerate::detail
