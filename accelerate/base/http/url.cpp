#include "accelerate/base/http/url.h"

#include <algorithm>

#include "accelerate/base/http/http.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

bool is_plain(char c) {
  return static_cast<unsigned char>(c) > 0x20 && c != 0x7f && c != '\\';
}

// "host", "host:8080", "[::1]:8080"; the port of the scheme where none is given.
std::optional<Origin> parsed_authority(const std::string& scheme, std::string_view authority) {
  std::string_view host = authority;
  std::string_view port;
  const std::size_t close = authority.starts_with('[') ? authority.find(']') : 0;
  if (close == std::string_view::npos) return std::nullopt;
  if (const auto colon = authority.find(':', close); colon != std::string_view::npos) {
    host = authority.substr(0, colon);
    port = authority.substr(colon + 1);
  }
  if (host.empty()) return std::nullopt;
  Origin origin{scheme, lower(host), scheme == "https" ? 443 : 80};
  if (port.empty()) return origin;
  const auto number = parse_int(port);
  if (!number || *number < 1 || *number > 65535) return std::nullopt;
  origin.port = static_cast<int>(*number);
  return origin;
}

// The length of "https://host:port".
std::size_t origin_length(std::string_view url) {
  return std::min(url.find_first_of("/?#", url.find("://") + 3), url.size());
}

}  // namespace

std::string url_escape(std::string_view text, std::string_view keep) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (kPlain.find(c) != std::string_view::npos || keep.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

std::optional<Origin> origin_of(std::string_view url) {
  if (!std::ranges::all_of(url, is_plain)) return std::nullopt;
  const auto colon = url.find("://");
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string scheme = lower(url.substr(0, colon));
  if (scheme != "http" && scheme != "https") return std::nullopt;
  const std::size_t begin = colon + 3;
  const std::string_view authority = url.substr(begin, origin_length(url) - begin);
  if (authority.find('@') != std::string_view::npos) return std::nullopt;
  return parsed_authority(scheme, authority);
}

std::optional<std::string> resolve_location(std::string_view url, std::string_view target) {
  std::string resolved(target);
  if (target.starts_with("//")) {
    resolved = std::string(url.substr(0, url.find("://") + 1)) + resolved;
  } else if (target.starts_with('/')) {
    resolved = std::string(url.substr(0, origin_length(url))) + resolved;
  } else if (target.find("://") == std::string_view::npos) {
    const std::string_view path = url.substr(0, url.find_first_of("?#"));
    resolved = std::string(path.substr(0, path.rfind('/') + 1)) + resolved;
  }
  return origin_of(resolved) ? std::optional(resolved) : std::nullopt;
}

std::string without_query(std::string_view url) {
  return std::string(url.substr(0, url.find_first_of("?#")));
}

std::optional<std::string> HttpResponse::header(std::string_view name) const {
  for (auto at = headers.rbegin(); at != headers.rend(); ++at) {
    if (at->first == name) return at->second;
  }
  return std::nullopt;
}

}  // namespace accelerate::detail
