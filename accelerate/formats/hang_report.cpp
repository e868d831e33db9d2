#include "accelerate/formats/hang_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"

namespace accelerate::detail {
namespace {

using Where = RankFinding::Where;
using Findings = std::vector<RankFinding>;

constexpr std::size_t kMostStackBytes = std::size_t{64} << 10;
// More stacks than a person reads; the files of the ranks have them all.
constexpr std::size_t kMostStacks = 16;

std::string seconds_text(double seconds) {
  return std::to_string(std::llround(std::clamp(seconds, 0.0, 1e12))) + " s";
}

// "rank 1" or "ranks 0, 2-5".
std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + accelerate::ranges(ranks);
}

std::vector<int> ranks_where(const Findings& findings, Where where) {
  std::vector<int> ranks;
  for (const auto& one : findings) {
    if (one.where == where) ranks.push_back(one.rank);
  }
  return ranks;
}

// The calls in which ranks wait, and the ranks; in the order of the first rank of each.
std::vector<std::pair<std::string, std::vector<int>>> waits_by_call(const Findings& findings) {
  std::vector<std::pair<std::string, std::vector<int>>> calls;
  for (const auto& one : findings) {
    if (one.where != Where::waits) continue;
    const auto same =
        std::ranges::find(calls, one.call, [](const auto& call) { return call.first; });
    if (same == calls.end()) {
      calls.push_back({one.call, {one.rank}});
    } else {
      same->second.push_back(one.rank);
    }
  }
  return calls;
}

double longest_wait(const Findings& findings, const std::string& call) {
  double longest = 0;
  for (const auto& one : findings) {
    if (one.where == Where::waits && one.call == call) longest = std::max(longest, one.seconds);
  }
  return longest;
}

std::string outside_text(const RankFinding& one) {
  const std::string who = "rank " + std::to_string(one.rank) + " is in no collective: ";
  if (one.call.empty()) return who + "it has made none so far";
  return who + "its last, " + one.call + ", ended " + seconds_text(one.seconds) + " ago";
}

std::string silent_text(const RankFinding& one) {
  return "rank " + std::to_string(one.rank) + " does not answer" +
         (one.process.empty() ? "" : ": it is " + one.process);
}

// The ranks that do something else than most, so that their stacks are read first.
std::set<int> suspects(const Findings& findings) {
  std::set<int> found;
  const auto outside = ranks_where(findings, Where::outside);
  found.insert(outside.begin(), outside.end());
  const auto calls = waits_by_call(findings);
  if (!found.empty() || calls.size() < 2) return found;
  const auto most =
      std::ranges::max_element(calls, {}, [](const auto& call) { return call.second.size(); });
  for (const auto& call : calls) {
    if (&call != &*most) found.insert(call.second.begin(), call.second.end());
  }
  return found;
}

std::string meaning(const Findings& findings) {
  const auto silent = ranks_where(findings, Where::silent);
  if (!silent.empty()) {
    return "They wait for " + ranks_text(silent) +
           ". A stopped process goes on after `kill -CONT`; a process that has died, or whose "
           "machine is lost, ends the job.";
  }
  const auto outside = ranks_where(findings, Where::outside);
  if (!outside.empty()) {
    return "They wait for " + ranks_text(outside) + ": the stacks below say what " +
           (outside.size() == 1 ? "it does" : "they do") + " instead.";
  }
  std::set<std::string> groups;
  for (const auto& one : findings) groups.insert(one.group);
  if (waits_by_call(findings).size() < 2) {
    return "All ranks wait in the same call: what lies between them, a network or a GPU, does not "
           "deliver.";
  }
  if (groups.size() > 1) {
    return "The ranks wait in different groups: they make the calls of these groups in different "
           "orders.";
  }
  const auto others = suspects(findings);
  std::vector<int> most;
  for (const auto& one : findings) {
    if (!others.contains(one.rank)) most.push_back(one.rank);
  }
  return "The ranks make different calls: the program takes another path on " +
         ranks_text({others.begin(), others.end()}) + " than on " + ranks_text(most) +
         "; the stacks below say where.";
}

std::string stacks_text(const Findings& findings) {
  const auto first = suspects(findings);
  std::vector<const RankFinding*> ordered;
  for (const auto& one : findings) {
    if (!one.stacks.empty()) ordered.push_back(&one);
  }
  std::ranges::stable_sort(ordered, std::greater{},
                           [&](const auto* one) { return first.contains(one->rank); });
  std::string text;
  for (std::size_t i = 0; i < std::min(ordered.size(), kMostStacks); ++i) {
    text += "\nrank " + std::to_string(ordered[i]->rank) + ", " + ordered[i]->process + ":\n" +
            ordered[i]->stacks;
  }
  if (ordered.size() > kMostStacks) {
    text += "\nThe stacks of " + count_of(ordered.size() - kMostStacks, "more rank") +
            " are in their files.\n";
  }
  return text;
}

// What must agree between ranks.
std::string essence(const FlightEntry& entry) {
  FlightEntry same = entry;
  same.call.clear();
  return describe(same);
}

// The calls of one group, by number, then by what was called: the ranks.
using CallsOfGroup = std::map<std::uint64_t, std::map<std::string, std::vector<int>>>;

std::map<std::string, CallsOfGroup> calls_by_group(const std::vector<FlightRecord>& records) {
  std::map<std::string, CallsOfGroup> groups;
  for (const auto& record : records) {
    for (const auto& entry : record.entries) {
      if (entry.number == 0) continue;  // A message.
      const std::string group = entry.group.name + " (ranks " + entry.group.ranks + ")";
      groups[group][entry.number][essence(entry)].push_back(record.rank);
    }
  }
  return groups;
}

// Returns the sentence about the first call that differs; empty if none does. Calls that some
// records no longer hold are compared among the others.
std::string first_difference(const std::string& group, const CallsOfGroup& calls) {
  for (const auto& [number, kinds] : calls) {
    if (kinds.size() < 2) continue;
    std::vector<std::string> parts;
    for (const auto& [what, ranks] : kinds) parts.push_back(ranks_text(ranks) + ": " + what);
    return "In group " + group + " call #" + std::to_string(number) +
           " differs: " + join(parts, "; ");
  }
  return "";
}

// Returns the sentence about ranks that have made fewer calls than others; empty if all have made
// the same number.
std::string shortfall(const std::string& group, const CallsOfGroup& calls) {
  std::map<int, std::uint64_t> last;
  for (const auto& [number, kinds] : calls) {
    for (const auto& [what, ranks] : kinds) {
      for (const int rank : ranks) last[rank] = number;
    }
  }
  std::map<std::uint64_t, std::vector<int>> by_number;
  for (const auto& [rank, number] : last) by_number[number].push_back(rank);
  if (by_number.size() < 2) return "";
  std::vector<std::string> parts;
  for (const auto& [number, ranks] : by_number) {
    parts.push_back(ranks_text(ranks) + (ranks.size() == 1 ? " has" : " have") + " begun call #" +
                    std::to_string(number));
  }
  return "In group " + group + " " + join(parts, ", ");
}

}  // namespace

std::vector<std::string> differences(const std::vector<FlightRecord>& records) {
  std::vector<std::string> found;
  for (const auto& [group, calls] : calls_by_group(records)) {
    std::string one = first_difference(group, calls);
    if (one.empty()) one = shortfall(group, calls);
    if (!one.empty()) found.push_back(one + ".");
  }
  return found;
}

RankFinding finding_of(const FlightRecord& record, std::int64_t now_ns) {
  RankFinding finding{.rank = record.rank, .where = Where::outside, .call = ""};
  const FlightEntry* waits = nullptr;
  const FlightEntry* last = nullptr;
  for (const auto& entry : record.entries) {
    if (entry.state == FlightState::waiting &&
        (waits == nullptr || entry.waits_ns < waits->waits_ns))
      waits = &entry;
    if (entry.is_over() && (last == nullptr || entry.ended_ns > last->ended_ns)) last = &entry;
  }
  const FlightEntry* shown = waits != nullptr ? waits : last;
  if (shown == nullptr) return finding;
  if (waits != nullptr) finding.where = Where::waits;
  finding.call = describe(*shown);
  finding.group = shown->group.name;
  const auto since = waits != nullptr ? shown->waits_ns : shown->ended_ns;
  finding.seconds = (static_cast<double>(now_ns) - static_cast<double>(since)) * 1e-9;
  return finding;
}

std::string to_message(const RankFinding& finding) {
  return nlohmann::json{{"waits", finding.where == Where::waits},
                        {"call", finding.call},
                        {"group", finding.group},
                        {"seconds", finding.seconds},
                        {"process", finding.process},
                        {"stacks", finding.stacks.substr(0, kMostStackBytes)}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RankFinding from_message(const std::string& message, int rank) {
  const auto json = nlohmann::json::parse(message, nullptr, false);
  RankFinding finding{.rank = rank, .call = ""};
  try {
    finding.call = untrusted_line(json.at("call").get<std::string>());
    finding.group = untrusted_line(json.at("group").get<std::string>());
    finding.seconds = json.at("seconds").get<double>();
    finding.process = untrusted_line(json.at("process").get<std::string>());
    finding.stacks = untrusted_text(json.at("stacks").get<std::string>(), kMostStackBytes);
    finding.where = json.at("waits").get<bool>() ? Where::waits : Where::outside;
  } catch (const nlohmann::json::exception&) {
    return {.rank = rank, .call = "", .process = "a process whose answer cannot be read"};
  }
  if (!std::isfinite(finding.seconds) || std::abs(finding.seconds) > 1e9) finding.seconds = 0;
  return finding;
}

std::string where_ranks_are(const Findings& findings) {
  std::string text;
  for (const auto& [call, ranks] : waits_by_call(findings)) {
    text += "  " + ranks_text(ranks) + (ranks.size() == 1 ? " waits in " : " wait in ") + call +
            " for " + seconds_text(longest_wait(findings, call)) + "\n";
  }
  for (const auto& one : findings) {
    if (one.where == Where::outside) text += "  " + outside_text(one) + "\n";
    if (one.where == Where::silent) text += "  " + silent_text(one) + "\n";
  }
  return text;
}

std::string hang_report(const Findings& findings) {
  return where_ranks_are(findings) + meaning(findings) + "\n" + stacks_text(findings);
}

}  // namespace accelerate::detail
