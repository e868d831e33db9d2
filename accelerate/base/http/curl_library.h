// The functions of libcurl that we use. The shared library is opened when they are first asked for.
// Linking it would add 5 ms to the start of each program, because it brings twenty libraries.
#pragma once

#include <curl/curl.h>

#include <string>

namespace accelerate::detail {

struct CurlLibrary {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_reset) easy_reset = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
  std::string fault;  ///< Why it cannot be used; "" when it can.
};

/// Returns the functions. The first call opens and initialises the library. Threads: any.
[[nodiscard]] const CurlLibrary& curl_library();

}  // namespace accelerate::detail
