// Built instead of http_curl.cpp where there is no libcurl.
#include "accelerate/tracking/http.h"

namespace accelerate::detail {

std::unique_ptr<HttpTransport> make_http_transport(const HttpOptions&) {
  return nullptr;
}

bool has_http_transport() {
  return false;
}

}  // namespace accelerate::detail
