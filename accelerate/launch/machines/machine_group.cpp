#include "accelerate/launch/machines/machine_group.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/hex.h"
#include "accelerate/base/keyed_checksum.h"
#include "accelerate/base/tcp.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/launch/machines/store_server.h"

namespace accelerate {
namespace {

using detail::StoreClient;
using detail::StoreError;
using nlohmann::json;
using std::chrono::milliseconds;

// Keys of ours. kEnd and kWill stand in store_server.h too, with the "/" of c10d's stores.
const std::string kJob = "accelerate/job";           // What machine 0 says of the job.
const std::string kMachine = "accelerate/machine/";  // The card of each machine.
const std::string kVerdict = "accelerate/verdict";
const std::string kWill(detail::kStoreWill.substr(1));
const std::string kEnd(detail::kStoreEnd.substr(1));
// Keys of torchrun's launchers: the id of the run, "none", comes first. A run is the same job for
// both if they exchange roles and ranks here and wait for each other's end here.
const std::string kRole = "none/torchelastic/role_info/";
const std::string kRanks = "none/torchelastic/assigned_ranks/";
const std::string kDone = "none/torchelastic/agent/terminal_state/num_members";
const std::string kAllDone = "none/torchelastic/agent/terminal_state/last_member";

constexpr milliseconds kSlice{5000};     // Between reports.
constexpr milliseconds kAnswer{10'000};  // For the store to answer.
constexpr int kVersion = 1;              // Of what launchers say to each other.

std::string own_host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Returns the text or number below a key; nothing if the other side did not say it.
std::string text_in(const json& value, const char* key) {
  return value.is_object() && value.contains(key) && value[key].is_string() ? value[key] : json("");
}

int number_in(const json& value, const char* key) {
  const bool is_said = value.is_object() && value.contains(key) && value[key].is_number_integer();
  const auto number = is_said ? value[key].get<std::int64_t>() : 0;
  return static_cast<int>(std::clamp<std::int64_t>(number, 0, INT_MAX));
}

ChecksumKey key_of(const std::string& token) {
  return key_from_digits(token).value_or(ChecksumKey{});
}

// A text that only a holder of the token can have written for this job.
std::string sealed(const std::string& token, const std::string& challenge,
                   const std::string& text) {
  return json{{"text", text},
              {"seal", detail::to_hex(keyed_checksum(key_of(token), challenge + text))}}
      .dump();
}

// Returns the text; nullopt if it was sealed with another token.
std::optional<json> unsealed(const std::string& token, const std::string& challenge,
                             const std::string& value) {
  const json outer = detail::parse_json(value);
  const std::string text = text_in(outer, "text");
  const std::string seal = detail::to_hex(keyed_checksum(key_of(token), challenge + text));
  if (!equal_in_constant_time(seal, text_in(outer, "seal"))) return std::nullopt;
  return detail::parse_json(text);
}

std::string machine_called(const json& card) {
  return "machine " + std::to_string(number_in(card, "machine")) + " (" + text_in(card, "host") +
         ")";
}

// Names the first variable that two machines see differently; "" if there is none.
std::string difference(const json& first, const json& other) {
  const json mine = first.value("settings", json::object());
  const json theirs = other.value("settings", json::object());
  std::set<std::string> names;
  for (const json& settings : {mine, theirs}) {
    for (const auto& [name, value] : settings.items()) names.insert(name);
  }
  const auto said = [](const json& settings, const std::string& name) {
    return settings.contains(name) ? "'" + text_in(settings, name.c_str()) + "'" : "not set";
  };
  for (const auto& name : names) {
    if (said(mine, name) == said(theirs, name)) continue;
    return name + " is " + said(mine, name) + " on " + machine_called(first) + " and " +
           said(theirs, name) + " on " + machine_called(other) +
           ". Give all machines the same flags and configuration file.";
  }
  return {};
}

// What speaks against one job of machine 0 and another machine; "" if nothing does.
std::string objection(const json& first, const json& other) {
  const auto differ = [&](const std::string& what, const std::string& here,
                          const std::string& there, const std::string& cure) {
    return what + " is " + here + " on " + machine_called(first) + " and " + there + " on " +
           machine_called(other) + ". " + cure;
  };
  const auto of = [](const json& card, const char* key) {
    return std::to_string(number_in(card, key));
  };
  if (of(first, "machines") != of(other, "machines")) {
    return differ("num_machines", of(first, "machines"), of(other, "machines"),
                  "Give all machines the same number.");
  }
  if (of(first, "ranks_of_all") != of(other, "ranks_of_all")) {
    const auto said = [&](const json& card) {
      return number_in(card, "ranks_of_all") == 0 ? "not given" : of(card, "ranks_of_all");
    };
    return differ("num_processes, the ranks of all machines,", said(first), said(other),
                  "Give all machines the same number.");
  }
  if (text_in(first, "version") != text_in(other, "version")) {
    return differ("the version of accelerate.cpp", text_in(first, "version"),
                  text_in(other, "version"), "Install the same version on all machines.");
  }
  return difference(first, other);
}

}  // namespace

MachineOptions machine_options(const LaunchOptions& settings) {
  const std::string token = env("ACCELERATE_JOB_TOKEN").value_or("");
  if (!token.empty() && !key_from_digits(token)) {
    throw ConfigError("ACCELERATE_JOB_TOKEN has " + std::to_string(token.size()) +
                      " characters; it must be 32 hexadecimal digits, the same on all machines, as "
                      "`openssl rand -hex 16` makes them.");
  }
  const bool is_said = settings.asked("num_processes") != nullptr;
  return {.rank = settings.machine_rank,
          .machines = settings.num_machines,
          .address = settings.text("main_process_ip"),
          .port = settings.main_process_port,
          .ranks = settings.num_processes,
          .ranks_of_all = is_said ? settings.num_processes * settings.num_machines : 0,
          .role = settings.text("role"),
          .settings = settings_of_all_machines(settings),
          .token = token};
}

MachineGroup::MachineGroup(MachineOptions options)
    : options_(std::move(options)), deadline_(options_.timeout), host_name_(own_host_name()) {
  if (options_.rank == 0) host();
  join();
  introduce();
  if (options_.rank == 0 && !is_with_torchrun_) {
    const std::string fault = await_all();
    const std::string verdict = fault.empty() ? verdict_on_all() : fault;
    const bool gives_token = options_.token.empty() && verdict.empty() && !meeting_.token.empty();
    client_->set(
        kVerdict,
        sealed(options_.token, challenge_,
               json{{"error", verdict}, {"token", gives_token ? meeting_.token : ""}}.dump()));
    if (!fault.empty()) throw LaunchError(fault);
    if (!verdict.empty()) throw ConfigError(verdict);
    assign_ranks();
  } else {
    hear_verdict();
  }
  take_ranks();
  begin_watch();
}

MachineGroup::~MachineGroup() {
  try {
    if (client_) client_->set(kWill, "");
  } catch (const StoreError&) {  // Then there is nobody whom the will would tell.
  }
  watch_.reset();
  client_.reset();
}

std::string MachineGroup::place() const {
  const bool is_v6 = options_.address.find(':') != std::string::npos;
  return (is_v6 ? "[" + options_.address + "]" : options_.address) + ":" +
         std::to_string(options_.port);
}

void MachineGroup::host() {
  const ResolvedHost found = resolve_host(options_.address, options_.port);
  if (found.error != 0) {
    throw ConfigError("main_process_ip is '" + options_.address +
                      "', which is not an address of a machine: " + gai_strerror(found.error) +
                      ". Give the address of this machine by which the others reach it.");
  }
  Listening listener = listen_on(*found.addresses);
  if (listener.error == EADDRNOTAVAIL) {
    throw ConfigError("main_process_ip is '" + options_.address +
                      "', which is not an address of this machine, yet machine_rank is 0: the "
                      "address is that of machine 0. Give this machine its own address or another "
                      "machine_rank.");
  }
  if (listener.error == EADDRINUSE) {
    throw LaunchError("main_process_port " + std::to_string(options_.port) + " of " +
                      options_.address +
                      " is taken by another program, or by another job. Choose a free one on all "
                      "machines.");
  }
  if (listener.error != 0) {
    throw LaunchError("cannot listen on " + place() + ": " + std::strerror(listener.error));
  }
  challenge_ = random_digits().value_or("");
  meeting_.token = options_.token.empty() ? random_digits().value_or("") : options_.token;
  const json job = {{"version", kVersion},
                    {"challenge", challenge_},
                    {"sealed", !options_.token.empty()},
                    {"host", host_name_}};
  store_.emplace(std::move(listener.socket),
                 std::map<std::string, std::string>{{"/" + kJob, job.dump()}});
}

StoreClient MachineGroup::connect() {
  auto retry = milliseconds(20);
  auto next_report = kSlice;
  int refusal = 0;
  for (;;) {
    const ResolvedHost found = resolve_host(options_.address, options_.port);
    if (found.error != 0 && found.error != EAI_AGAIN) {
      throw ConfigError("main_process_ip is '" + options_.address +
                        "', which is not an address of a machine: " + gai_strerror(found.error) +
                        ". Give the address by which machine 0 is reached from here.");
    }
    for (const addrinfo* one = found.addresses.get(); one != nullptr; one = one->ai_next) {
      Descriptor made = connect_within(
          *one, std::clamp(deadline_.left(), milliseconds(1), milliseconds(2000)), refusal);
      if (made.valid()) return {std::move(made), kAnswer};
    }
    if (deadline_.is_over()) {
      throw LaunchError("machine 0 did not answer at " + place() + " within " +
                        format_duration(deadline_.timeout()) + " (" + std::strerror(refusal) +
                        "). Was `accelerate launch --machine_rank 0` started there, is that its "
                        "address as seen from here, and does a firewall let the port through?");
    }
    if (deadline_.waited() >= next_report && options_.report) {
      options_.report("waiting for machine 0 at " + place() + " (" + std::strerror(refusal) + ", " +
                      format_duration(deadline_.waited()) + " of " +
                      format_duration(deadline_.timeout()) + ")");
      next_report = deadline_.waited() + kSlice;
    }
    std::this_thread::sleep_for(retry);
    retry = std::min(retry * 2, milliseconds(200));
  }
}

// Learns who holds the store.
void MachineGroup::join() {
  try {
    client_.emplace(connect());
    client_->count_in();
    is_with_torchrun_ = !client_->has(kJob);
    if (is_with_torchrun_) {
      if (options_.token.empty()) return;
      throw ConfigError("this machine was given ACCELERATE_JOB_TOKEN, but what answers at " +
                        place() + " is torchrun, which knows no token. Unset it on all machines.");
    }
    const json job = detail::parse_json(client_->get(kJob));
    challenge_ = text_in(job, "challenge");
    if (number_in(job, "version") != kVersion) {
      throw ConfigError("machine 0 (" + text_in(job, "host") +
                        ") runs another version of accelerate.cpp than this machine. Install the "
                        "same version on all machines.");
    }
    const bool is_sealed = job.value("sealed", json(false)) == json(true);
    if (is_sealed == !options_.token.empty()) return;
    throw ConfigError(is_sealed
                          ? "machine 0 (" + text_in(job, "host") +
                                ") lets only machines take part that were given the same "
                                "ACCELERATE_JOB_TOKEN, and this machine was given none."
                          : "this machine was given ACCELERATE_JOB_TOKEN, and machine 0 (" +
                                text_in(job, "host") + ") was not. Give all machines the same.");
  } catch (const StoreError& error) {
    throw LaunchError(place() + " is reached, but " + error.what() +
                      ". Does another program use this port, or another machine this address?");
  }
}

void MachineGroup::introduce() {
  if (!is_with_torchrun_) {
    const json card = {{"machine", options_.rank},
                       {"host", host_name_},
                       {"machines", options_.machines},
                       {"ranks", options_.ranks},
                       {"ranks_of_all", options_.ranks_of_all},
                       {"version", ACCELERATE_VERSION},
                       {"launcher", random_digits().value_or("")},  // Tells two of one host apart.
                       {"settings", options_.settings}};
    claim_number(sealed(options_.token, challenge_, card.dump()));
    const json will = {{"machine", options_.rank},
                       {"host", host_name_},
                       {"what", "its launcher was killed, or the machine is lost"},
                       {"exit_code", 1}};
    client_->set(kWill, will.dump());
  }
  const json role = {
      {"role", options_.role}, {"rank", options_.rank}, {"local_world_size", options_.ranks}};
  client_->set(kRole + std::to_string(options_.rank), role.dump());
}

void MachineGroup::claim_number(const std::string& card) {
  const std::string there = client_->set_if_missing(kMachine + std::to_string(options_.rank), card);
  if (there == card) return;
  const auto owner = unsealed(options_.token, challenge_, there);
  throw ConfigError("machine_rank " + std::to_string(options_.rank) + " is taken" +
                    (owner ? " by the machine " + text_in(*owner, "host") : "") +
                    " in the job at " + place() +
                    ". Give each machine another machine_rank, from 0 to num_machines - 1.");
}

// Waits for the roles of all machines. Returns what went wrong.
std::string MachineGroup::await_all() {
  std::vector<std::string> roles;
  for (int i = 0; i < options_.machines; ++i) roles.push_back(kRole + std::to_string(i));
  auto next_report = kSlice;
  while (!client_->wait(roles, std::min(deadline_.left(), milliseconds(1000)))) {
    if (client_->has(kEnd)) {
      const EndElsewhere end = end_from(client_->get(kEnd));
      return "machine " + std::to_string(end.machine) + " (" + end.host +
             ") left before all machines had come: " + end.what + ".";
    }
    if (deadline_.waited() < next_report && !deadline_.is_over()) continue;
    std::vector<int> missing;
    for (int i = 0; i < options_.machines; ++i) {
      if (!client_->has(roles[static_cast<std::size_t>(i)])) missing.push_back(i);
    }
    const std::string who =
        std::string(missing.size() == 1 ? "machine " : "machines ") + ranges(missing);
    if (deadline_.is_over()) {
      return who + " of " + std::to_string(options_.machines) + " did not come to " + place() +
             " within " + format_duration(deadline_.timeout()) +
             ". Was `accelerate launch` started there with its machine_rank and this address, and "
             "does a firewall let the port through?";
    }
    if (options_.report) {
      options_.report("waiting for " + who + " of " + std::to_string(options_.machines) + " at " +
                      place() + " (" + format_duration(deadline_.waited()) + " of " +
                      format_duration(deadline_.timeout()) + ")");
    }
    next_report = deadline_.waited() + kSlice;
  }
  return {};
}

// Compares what the machines say of themselves. A launcher of torchrun says nothing, and takes part
// only where no token is asked for; then the ranks are told none, for torchrun's have none.
std::string MachineGroup::verdict_on_all() {
  const auto card_of = [&](int machine) {
    return unsealed(options_.token, challenge_, client_->get(kMachine + std::to_string(machine)));
  };
  const json first = card_of(0).value_or(json::object());
  for (int machine = 1; machine < options_.machines; ++machine) {
    const std::string number = std::to_string(machine);
    if (!client_->has(kMachine + number)) {
      meeting_.token.clear();
      if (options_.token.empty()) continue;
      return "machine " + number +
             " was started by another launcher, which knows no ACCELERATE_JOB_TOKEN. Start it by "
             "`accelerate launch`, or unset the token on all machines.";
    }
    const auto card = card_of(machine);
    if (!card) {
      return "machine " + number + " has another ACCELERATE_JOB_TOKEN than machine 0 (" +
             host_name_ + ").";
    }
    if (const std::string why = objection(first, *card); !why.empty()) return why;
  }
  return {};
}

// As torchrun's launcher with number 0 does: [first rank, ranks, first of the role, of the role].
void MachineGroup::assign_ranks() {
  std::vector<json> roles;
  std::map<std::string, int> sizes;
  int all = 0;
  for (int machine = 0; machine < options_.machines; ++machine) {
    roles.push_back(detail::parse_json(client_->get(kRole + std::to_string(machine))));
    const int ranks = number_in(roles.back(), "local_world_size");
    sizes[text_in(roles.back(), "role")] += ranks;
    all += ranks;
  }
  std::map<std::string, int> next;
  int rank = 0;
  for (int machine = 0; machine < options_.machines; ++machine) {
    const json& card = roles[static_cast<std::size_t>(machine)];
    const std::string role = text_in(card, "role");
    client_->set(kRanks + std::to_string(machine), json{rank, all, next[role], sizes[role]}.dump());
    rank += number_in(card, "local_world_size");
    next[role] += number_in(card, "local_world_size");
  }
}

void MachineGroup::hear_verdict() {
  const std::string key = is_with_torchrun_ ? kRanks + std::to_string(options_.rank) : kVerdict;
  auto next_report = kSlice;
  while (!client_->wait({key}, std::min(deadline_.left(), milliseconds(1000)))) {
    if (!is_with_torchrun_ && client_->has(kEnd)) {
      const EndElsewhere end = end_from(client_->get(kEnd));
      throw LaunchError("machine " + std::to_string(end.machine) + " (" + end.host +
                        ") left before all machines had come: " + end.what + ".");
    }
    // Machine 0 says itself who is missing, and a little later so do all.
    if (deadline_.waited() > deadline_.timeout() + kAnswer ||
        (is_with_torchrun_ && deadline_.is_over())) {
      throw LaunchError("machine 0 at " + place() + " did not begin the job within " +
                        format_duration(deadline_.timeout()) + ". Did all machines come?");
    }
    if (deadline_.waited() < next_report || !options_.report) continue;
    options_.report("waiting for the other machines at " + place() + " (" +
                    format_duration(deadline_.waited()) + " of " +
                    format_duration(deadline_.timeout()) + ")");
    next_report = deadline_.waited() + kSlice;
  }
  if (is_with_torchrun_) return;
  const auto verdict = unsealed(options_.token, challenge_, client_->get(kVerdict));
  if (!verdict) {
    throw ConfigError("machine 0 has another ACCELERATE_JOB_TOKEN than machine " +
                      std::to_string(options_.rank) + " (" + host_name_ + ").");
  }
  if (const std::string error = text_in(*verdict, "error"); !error.empty())
    throw ConfigError(error);
  meeting_.token = options_.token.empty() ? text_in(*verdict, "token") : options_.token;
}

void MachineGroup::take_ranks() {
  const std::string key = kRanks + std::to_string(options_.rank);
  if (!client_->wait({key}, kAnswer)) throw LaunchError("machine 0 assigned no ranks to this one");
  const json ranks = detail::parse_json(client_->get(key));
  const bool is_valid =
      ranks.is_array() && ranks.size() == 4 &&
      std::ranges::all_of(ranks, [](const json& one) { return one.is_number_unsigned(); });
  if (!is_valid) throw LaunchError("machine 0 at " + place() + " assigned no valid ranks");
  meeting_.address = options_.address;
  meeting_.port = options_.port;
  meeting_.machine = options_.rank;
  meeting_.machines = options_.machines;
  meeting_.first_rank = ranks[0];
  meeting_.ranks_of_all = ranks[1];
  meeting_.first_role_rank = ranks[2];
  meeting_.ranks_of_role = ranks[3];
}

void MachineGroup::begin_watch() {
  watch_.emplace(connect());
  watch_->begin_wait(kEnd);
}

EndElsewhere MachineGroup::end_from(const std::string& text) const {
  const json end = detail::parse_json(text);
  return {.machine = number_in(end, "machine"),
          .host = text_in(end, "host"),
          .what = text_in(end, "what"),
          .exit_code = std::clamp(number_in(end, "exit_code"), 1, 255)};
}

EndElsewhere MachineGroup::lost_store(const std::string& why) const {
  return {
      .machine = 0, .host = options_.address, .what = "the store of the job there is gone: " + why};
}

std::optional<EndElsewhere> MachineGroup::news() {
  try {
    if (!watch_->wait_is_over()) return std::nullopt;
    auto end = end_from(watch_->get(kEnd));
    if (end.machine == options_.rank) return std::nullopt;  // We told it ourselves.
    return end;
  } catch (const StoreError& error) {
    return lost_store(error.what());
  }
}

void MachineGroup::tell(const EndElsewhere& end) {
  const json told = {{"machine", options_.rank},
                     {"host", host_name_},
                     {"what", end.what},
                     {"exit_code", end.exit_code}};
  try {
    (void)client_->set_if_missing(kEnd, told.dump());
  } catch (const StoreError&) {  // The others notice that the store is gone.
  }
}

std::optional<EndElsewhere> MachineGroup::finish() {
  try {
    // From here on this machine may be lost without harm, unless it holds the store.
    client_->set(kWill, "");
    if (client_->add(kDone, 1) == options_.machines) client_->set(kAllDone, "<val_ignored>");
    client_->begin_wait(kAllDone);
    for (;;) {
      std::array<pollfd, 2> polls{{{client_->fd(), POLLIN, 0}, {watch_->fd(), POLLIN, 0}}};
      poll(polls.data(), polls.size(), -1);
      if (client_->wait_is_over()) return std::nullopt;
      if (auto end = news()) return end;
    }
  } catch (const StoreError& error) {
    return lost_store(error.what());
  }
}

}  // namespace accelerate
