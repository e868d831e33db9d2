// The parts of a URL that decide where a request goes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// `text` for a path or query of a URL; `keep` are characters that stay as they are.
[[nodiscard]] std::string url_escape(std::string_view text, std::string_view keep = "");

/// Where a URL leads: equal origins are one server.
struct Origin {
  std::string scheme;  ///< "http" or "https"
  std::string host;    ///< In lower case; an IPv6 address in its brackets.
  int port = 0;
  bool operator==(const Origin&) const = default;
};

/// nullopt for what is no http or https URL with a host, has a user or password in it, or holds
/// spaces or control characters.
[[nodiscard]] std::optional<Origin> origin_of(std::string_view url);

/// The URL that the header Location `target` names in an answer to `url`: `target` itself, or `url`
/// with another path. nullopt when that is no URL that origin_of() knows.
[[nodiscard]] std::optional<std::string> resolve_location(std::string_view url,
                                                          std::string_view target);

/// `url` without its query, which may hold a signature: for messages.
[[nodiscard]] std::string without_query(std::string_view url);

}  // namespace accelerate::detail
