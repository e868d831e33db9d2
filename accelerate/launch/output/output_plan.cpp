#include "accelerate/launch/output/output_plan.h"

#include <algorithm>
#include <set>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

constexpr const char* kStreamsAllowed =
    "write 0 (neither), 1 (standard output), 2 (standard error) or 3 (both) for all ranks, or "
    "LOCAL_RANK:NUMBER for some, as in 0:3,1:2.";

[[noreturn]] void refuse_streams(const std::string& where, const std::string& text) {
  throw ConfigError(where + " is '" + text + "'; " + kStreamsAllowed);
}

std::string local_ranks(int ranks) {
  return ranks == 1 ? "one local rank, 0" : "the local ranks 0 to " + std::to_string(ranks - 1);
}

std::size_t checked_local_rank(std::int64_t rank, const std::string& text, int ranks,
                               const std::string& where) {
  if (rank >= 0 && rank < ranks) return static_cast<std::size_t>(rank);
  throw ConfigError(where + " is '" + text + "', which names local rank " + std::to_string(rank) +
                    ". This machine has " + local_ranks(ranks) + ".");
}

detail::Streams one_number(std::string_view word, const std::string& text,
                           const std::string& where) {
  if (word.size() != 1 || word[0] < '0' || word[0] > '3') refuse_streams(where, text);
  return static_cast<detail::Streams>(word[0] - '0');
}

bool has(detail::Streams streams, detail::Streams one) {
  return (static_cast<int>(streams) & static_cast<int>(one)) != 0;
}

std::set<std::size_t> parse_local_ranks(const std::string& text, int ranks,
                                        const std::string& where) {
  std::set<std::size_t> chosen;
  if (text.empty()) return chosen;
  for (const auto& word : split(text, ',')) {
    const auto rank = parse_int(std::string(trim(word)));
    if (!rank) {
      throw ConfigError(where + " is '" + text +
                        "'; write numbers of local ranks, as in 0 or 0,2.");
    }
    chosen.insert(checked_local_rank(*rank, text, ranks, where));
  }
  return chosen;
}

// A filter hides a rank from the terminal, and takes nothing from its files.
Destination destination(bool is_teed, bool is_redirected, bool is_shown) {
  if (is_teed && is_shown) return Destination::both;
  if (is_teed || is_redirected) return Destination::file;
  return is_shown ? Destination::terminal : Destination::nowhere;
}

bool is_letter_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

bool OutputPlan::has_files() const {
  const auto is_file = [](Destination to) {
    return to == Destination::file || to == Destination::both;
  };
  return std::ranges::any_of(
      ranks, [&](const RankStreams& rank) { return is_file(rank.out) || is_file(rank.err); });
}

namespace detail {

std::vector<Streams> parse_streams(const std::string& text, int ranks, const std::string& where) {
  const auto count = static_cast<std::size_t>(ranks);
  if (text.find(':') == std::string::npos) return {count, one_number(text, text, where)};
  std::vector<Streams> streams(count, Streams::none);
  for (const auto& pair : split(text, ',')) {
    const auto colon = pair.find(':');
    const auto rank = parse_int(pair.substr(0, colon));
    if (colon == std::string::npos || !rank) refuse_streams(where, text);
    streams[checked_local_rank(*rank, text, ranks, where)] =
        one_number(std::string_view(pair).substr(colon + 1), text, where);
  }
  return streams;
}

OutputPlan parse_output(const OutputFlags& flags, int ranks) {
  const auto streams = [&](const std::string& text, const char* where) {
    return parse_streams(text.empty() ? "0" : text, ranks, where);
  };
  const auto tee = streams(flags.tee, "--tee");
  const auto redirects = streams(flags.redirects, "--redirects");
  const auto shown = parse_local_ranks(flags.local_ranks_filter, ranks, "--local_ranks_filter");
  OutputPlan plan{.log_dir = flags.log_dir};
  for (std::size_t rank = 0; rank < tee.size(); ++rank) {
    const bool is_shown = shown.empty() || shown.contains(rank);
    const auto goes = [&](Streams stream) {
      return destination(has(tee[rank], stream), has(redirects[rank], stream), is_shown);
    };
    plan.ranks.push_back({.out = goes(Streams::out), .err = goes(Streams::err)});
  }
  if (std::ranges::all_of(plan.ranks, [](const auto& rank) { return rank == RankStreams{}; }))
    plan.ranks.clear();
  return plan;
}

std::string fill_template(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string filled;
  while (!text.empty()) {
    const auto dollar = std::min(text.find('$'), text.size());
    filled += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.empty()) break;
    if (text.starts_with("$$")) {
      filled += '$';
      text.remove_prefix(2);
      continue;
    }
    const bool has_braces = text.starts_with("${");
    const std::size_t begin = has_braces ? 2 : 1;
    std::size_t end = begin;
    while (end < text.size() && is_letter_of_name(text[end])) ++end;
    const auto found = values.find(std::string(text.substr(begin, end - begin)));
    const bool is_closed = !has_braces || (end < text.size() && text[end] == '}');
    if (has_braces && is_closed) ++end;
    filled += found != values.end() && is_closed ? found->second : std::string(text.substr(0, end));
    text.remove_prefix(end);
  }
  return filled;
}

}  // namespace detail
}  // namespace accelerate
