#include "accelerate/launch/machines/job_notes.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <filesystem>
#include <set>
#include <utility>

#include "accelerate/base/hex.h"
#include "accelerate/base/keyed_checksum.h"
#include "accelerate/formats/documents/json.h"

namespace accelerate::detail {
namespace {

using nlohmann::json;

// Names the first variable that two machines see differently; "" if there is none.
std::string difference(const MachineCard& first, const MachineCard& other) {
  std::set<std::string> names;
  for (const auto* settings : {&first.settings, &other.settings}) {
    for (const auto& [name, value] : *settings) names.insert(name);
  }
  const auto said = [](const MachineCard& card, const std::string& name) {
    const auto found = card.settings.find(name);
    return found == card.settings.end() ? "not set" : "'" + found->second + "'";
  };
  for (const auto& name : names) {
    if (said(first, name) == said(other, name)) continue;
    return name + " is " + said(first, name) + " on " + first.name() + " and " + said(other, name) +
           " on " + other.name() + ". Give all machines the same flags and configuration file.";
  }
  return {};
}

}  // namespace

std::string text_in(const json& value, const std::string& key) {
  const bool is_said = value.is_object() && value.contains(key) && value[key].is_string();
  return is_said ? value[key].get<std::string>() : "";
}

int number_in(const json& value, const std::string& key) {
  const bool is_said = value.is_object() && value.contains(key) && value[key].is_number_integer();
  const auto number = is_said ? value[key].get<std::int64_t>() : 0;
  return static_cast<int>(std::clamp<std::int64_t>(number, 0, INT_MAX));
}

Seal::Seal(const std::string& token, std::string challenge) : challenge_(std::move(challenge)) {
  const ChecksumKey key = key_from_digits(token).value_or(ChecksumKey{});
  key_.assign(key.begin(), key.end());
}

std::string Seal::close(const std::string& text) const {
  ChecksumKey key{};
  std::copy(key_.begin(), key_.end(), key.begin());
  return json_text(json{{"text", text}, {"seal", to_hex(keyed_checksum(key, challenge_ + text))}});
}

std::optional<std::string> Seal::open(const std::string& sealed) const {
  const std::string text = text_in(parse_json(sealed), "text");
  if (!equal_in_constant_time(sealed, close(text))) return std::nullopt;
  return text;
}

std::string MachineCard::text() const {
  return json_text(json{{"number", number},
                        {"host", host},
                        {"machines", machines},
                        {"ranks", ranks},
                        {"ranks_of_all", ranks_of_all},
                        {"role", role},
                        {"version", version},
                        {"program", program},
                        {"arguments", arguments},
                        {"settings", settings},
                        {"nonce", nonce}});
}

MachineCard MachineCard::parse(const std::string& text) {
  const json value = parse_json(text);
  MachineCard card{.number = number_in(value, "number"),
                   .host = text_in(value, "host"),
                   .machines = text_in(value, "machines"),
                   .ranks = number_in(value, "ranks"),
                   .ranks_of_all = number_in(value, "ranks_of_all"),
                   .role = text_in(value, "role"),
                   .version = text_in(value, "version"),
                   .program = text_in(value, "program"),
                   .arguments = text_in(value, "arguments"),
                   .settings = {},
                   .nonce = text_in(value, "nonce")};
  if (!value.is_object() || !value.contains("settings")) return card;
  for (const auto& [name, setting] : value["settings"].items())
    if (setting.is_string()) card.settings[name] = setting.get<std::string>();
  return card;
}

std::string MachineCard::name() const {
  return "machine " + std::to_string(number) + " (" + host + ")";
}

std::string objection(const MachineCard& first, const MachineCard& other) {
  const auto differ = [&](const std::string& what, const std::string& here,
                          const std::string& there, const std::string& cure) {
    return what + " is " + here + " on " + first.name() + " and " + there + " on " + other.name() +
           ". " + cure;
  };
  if (first.version != other.version) {  // Of another version the rest may mean something else.
    return differ("the version of accelerate.cpp", first.version, other.version,
                  "Install the same version on all machines.");
  }
  if (first.machines != other.machines) {
    return differ("num_machines", first.machines, other.machines,
                  "Give all machines the same number.");
  }
  if (first.ranks_of_all != other.ranks_of_all) {
    const auto said = [](int ranks) { return ranks == 0 ? "not given" : std::to_string(ranks); };
    return differ("num_processes, the ranks of all machines,", said(first.ranks_of_all),
                  said(other.ranks_of_all), "Give all machines the same number.");
  }
  if (first.role == other.role && first.program != other.program) {
    return differ("the program", "'" + first.program + "'", "'" + other.program + "'",
                  "Start the same program on all machines, or give each its own --role.");
  }
  return difference(first, other);
}

std::string doubt(const MachineCard& first, const MachineCard& other) {
  if (first.role != other.role || first.arguments == other.arguments) return {};
  return "the program has other arguments on " + other.name() + " than on " + first.name() +
         ". Is that meant?";
}

std::string program_name(const std::vector<std::string>& command) {
  std::string name;
  for (const auto& word : command) {
    name = std::filesystem::path(word).filename();
    if (!name.starts_with("python") && !name.starts_with("-")) break;
  }
  return name;
}

std::vector<RoundMember> places_of(const std::vector<MachineCard>& cards) {
  std::vector<RoundMember> places;
  std::map<std::string, int> of_role;
  int ranks = 0;
  for (const auto& card : cards) {
    places.push_back({card.number, static_cast<int>(places.size()), ranks, of_role[card.role], 0});
    ranks += card.ranks;
    of_role[card.role] += card.ranks;
  }
  for (std::size_t i = 0; i < cards.size(); ++i) places[i].ranks_of_role = of_role[cards[i].role];
  return places;
}

std::string RoundMember::text() const {
  return json_text(json{{"number", number},
                        {"index", index},
                        {"first_rank", first_rank},
                        {"first_role_rank", first_role_rank},
                        {"ranks_of_role", ranks_of_role}});
}

RoundMember RoundMember::parse(const std::string& text) {
  const json value = parse_json(text);
  return {number_in(value, "number"), number_in(value, "index"), number_in(value, "first_rank"),
          number_in(value, "first_role_rank"), number_in(value, "ranks_of_role")};
}

std::string Round::text() const {
  return json_text(json{{"error", error},
                        {"misconfigured", is_misconfigured},
                        {"token", token},
                        {"ranks", ranks},
                        {"machines", machines}});
}

Round Round::parse(const std::string& text) {
  const json value = parse_json(text);
  return {
      .error = text_in(value, "error"),
      .is_misconfigured = value.is_object() && value.value("misconfigured", json()) == json(true),
      .token = text_in(value, "token"),
      .ranks = number_in(value, "ranks"),
      .machines = number_in(value, "machines")};
}

std::string text_of(const EndElsewhere& end) {
  return json_text(json{{"kind", static_cast<int>(end.kind)},
                        {"machine", end.machine},
                        {"host", end.host},
                        {"what", end.what},
                        {"exit_code", end.exit_code}});
}

EndElsewhere end_from(const std::string& text) {
  const json value = parse_json(text);
  return {.kind = static_cast<EndElsewhere::Kind>(std::clamp(number_in(value, "kind"), 0, 4)),
          .machine = number_in(value, "machine"),
          .host = text_in(value, "host"),
          .what = text_in(value, "what"),
          .exit_code = std::clamp(number_in(value, "exit_code"), 1, 255)};
}

}  // namespace accelerate::detail
