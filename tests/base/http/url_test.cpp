#include "accelerate/base/http/url.h"

#include <gtest/gtest.h>

namespace accelerate::detail {
namespace {

struct OriginCase {
  const char* url;
  std::optional<Origin> origin;
};

TEST(Url, OriginIsSchemeHostAndPort) {
  const OriginCase cases[] = {
      {"https://huggingface.co/a", Origin{"https", "huggingface.co", 443}},
      {"HTTP://Host:8080", Origin{"http", "host", 8080}},
      {"http://[::1]:80/x", Origin{"http", "[::1]", 80}},
      {"https://a?x=http://b/", Origin{"https", "a", 443}},
      {"https://a:", Origin{"https", "a", 443}},
      {"https://user@host/", std::nullopt},  // A token would go to who knows whom.
      {"https://good.co\\@evil.com/", std::nullopt},
      {"https://a b/", std::nullopt},
      {"https://a\nb/", std::nullopt},
      {"ftp://a/", std::nullopt},
      {"file:///etc/passwd", std::nullopt},
      {"https:///path", std::nullopt},
      {"https://a:0", std::nullopt},
      {"https://a:65536", std::nullopt},
      {"https://[::1", std::nullopt},
      {"", std::nullopt},
  };
  for (const auto& [url, origin] : cases) EXPECT_EQ(origin_of(url), origin) << url;
}

struct LocationCase {
  const char *url, *target, *resolved;
};

TEST(Url, LocationMayBeWholeOrAPathOrRelative) {
  const LocationCase cases[] = {
      {"https://a/b/c?d", "https://e/f", "https://e/f"},
      {"https://a/b/c?d", "/f?g", "https://a/f?g"},
      {"https://a", "/f", "https://a/f"},
      {"https://a:1/b/c", "d", "https://a:1/b/d"},
      {"https://a/b", "//e/f", "https://e/f"},
      {"https://a/b", "javascript://x", ""},
      {"https://a/b", "http://u:p@x/", ""},
  };
  for (const auto& [url, target, resolved] : cases)
    EXPECT_EQ(resolve_location(url, target).value_or(""), resolved) << target;
}

TEST(Url, EscapesAllButLettersDigitsAndWhatIsKept) {
  EXPECT_EQ(url_escape("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(url_escape("a b/é#?%", "/"), "a%20b/%C3%A9%23%3F%25");
}

TEST(Url, LeavesOutAQueryThatMayHoldASignature) {
  EXPECT_EQ(without_query("https://a/b?signature=secret#x"), "https://a/b");
}

}  // namespace
}  // namespace accelerate::detail
