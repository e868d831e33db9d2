#include "accelerate/launch/machines/hosts.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

constexpr int kMostSlots = 4096;

Host parse_host(const std::string& line, const std::string& where) {
  std::istringstream words(line);
  std::string name, slots, more;
  words >> name >> slots >> more;
  const bool is_said = slots.starts_with("slots=");
  const auto count = parse_int(is_said ? slots.substr(6) : "");
  // A name that begins with - would be an option of ssh.
  const bool is_name =
      !name.starts_with('-') && name.find_first_of("'\"\\$`;&|<>") == std::string::npos;
  if (!is_name || !count || *count < 1 || *count > kMostSlots || !more.empty()) {
    throw ConfigError(where + " is '" + line +
                      "'; it must be the name of a host and its slots, such as: node1 slots=4");
  }
  Host host{.name = name, .slots = std::vector<int>(static_cast<std::size_t>(*count))};
  std::iota(host.slots.begin(), host.slots.end(), 0);
  return host;
}

// What a filter says of one host: the slots; none means all.
struct Named {
  std::string host;
  std::vector<int> slots;
};

std::vector<Named> parse_filter(const std::string& text, const std::vector<Host>& hosts,
                                const std::string& what) {
  std::vector<Named> all;
  for (const auto& part : split(text, '@')) {
    const auto colon = part.find(':');
    Named named{std::string(trim(part.substr(0, colon))), {}};
    const auto host = std::ranges::find(hosts, named.host, &Host::name);
    std::vector<std::string> known;
    for (const auto& one : hosts) known.push_back(one.name);
    if (host == hosts.end()) {
      throw ConfigError(what + " is '" + text + "', and the hostfile has no host '" + named.host +
                        "'." + did_you_mean(named.host, known));
    }
    if (colon != std::string::npos) {
      for (const auto& word : split(part.substr(colon + 1), ',')) {
        const auto slot = parse_int(std::string(trim(word)));
        if (!slot || std::ranges::find(host->slots, *slot) == host->slots.end()) {
          throw ConfigError(what + " is '" + text + "', and '" + named.host + "' has no slot '" +
                            word + "'; it has 0 to " + std::to_string(host->slots.size() - 1) +
                            ".");
        }
        named.slots.push_back(static_cast<int>(*slot));
      }
    }
    all.push_back(std::move(named));
  }
  return all;
}

const Named* find_named(const std::vector<Named>& all, const std::string& host) {
  const auto found = std::ranges::find(all, host, &Named::host);
  return found == all.end() ? nullptr : &*found;
}

void keep_slots(Host& host, const Named* named, bool is_inclusion) {
  const auto is_named = [&](int slot) {
    return named != nullptr &&
           (named->slots.empty() || std::ranges::find(named->slots, slot) != named->slots.end());
  };
  const std::size_t before = host.slots.size();
  std::erase_if(host.slots, [&](int slot) { return is_named(slot) != is_inclusion; });
  host.is_whole = host.slots.size() == before;
}

}  // namespace

std::vector<Host> parse_hosts(const std::string& text, const std::string& file) {
  std::vector<Host> hosts;
  int number = 0;
  for (const auto& line : split(text, '\n')) {
    ++number;
    const std::string words(trim(line.substr(0, line.find('#'))));
    if (words.empty()) continue;
    const std::string where = "line " + std::to_string(number) + " of " + file;
    Host host = parse_host(words, where);
    if (std::ranges::find(hosts, host.name, &Host::name) != hosts.end())
      throw ConfigError(where + " names '" + host.name + "' for the second time.");
    hosts.push_back(std::move(host));
  }
  if (hosts.empty()) throw ConfigError(file + " names no hosts. A line is: node1 slots=4");
  return hosts;
}

std::vector<Host> filter_hosts(std::vector<Host> hosts, const std::string& inclusion,
                               const std::string& exclusion) {
  if (inclusion.empty() && exclusion.empty()) return hosts;
  if (!inclusion.empty() && !exclusion.empty()) {
    throw ConfigError(
        "deepspeed_inclusion_filter and deepspeed_exclusion_filter exclude each other: use one.");
  }
  const bool is_inclusion = !inclusion.empty();
  const auto named = is_inclusion ? parse_filter(inclusion, hosts, "deepspeed_inclusion_filter")
                                  : parse_filter(exclusion, hosts, "deepspeed_exclusion_filter");
  for (auto& host : hosts) keep_slots(host, find_named(named, host.name), is_inclusion);
  std::erase_if(hosts, [](const Host& host) { return host.slots.empty(); });
  if (hosts.empty())
    throw ConfigError("deepspeed_exclusion_filter is '" + exclusion + "': no host is left.");
  return hosts;
}

}  // namespace accelerate
