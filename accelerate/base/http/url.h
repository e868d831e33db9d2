// The parts of a URL that decide where a request goes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// Escapes `text` for a path or query of a URL. The characters in `keep` stay as they are.
[[nodiscard]] std::string url_escape(std::string_view text, std::string_view keep = "");

/// The server that a URL leads to; equal origins are one server.
struct Origin {
  std::string scheme;  ///< "http" or "https"
  std::string host;    ///< In lower case; an IPv6 address in its brackets.
  int port = 0;
  bool operator==(const Origin&) const = default;
};

/// The origin of an http or https URL; nullopt for any other text. Also nullopt when there is no
/// host, when there is a user or password, or for spaces, control characters and backslashes.
[[nodiscard]] std::optional<Origin> origin_of(std::string_view url);

/// Resolves the header Location `target` of an answer to `url`: `target` may be a whole URL, or a
/// path relative to `url`. Returns nullopt when the result is not a URL that origin_of() knows.
[[nodiscard]] std::optional<std::string> resolve_location(std::string_view url,
                                                          std::string_view target);

/// Returns `url` without its query, which may hold a signature. For messages.
[[nodiscard]] std::string without_query(std::string_view url);

}  // namespace accelerate::detail
