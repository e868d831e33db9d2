#include "accelerate/launch/machines/machine_group.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <thread>
#include <utility>

#include "accelerate/base/checksum.h"
#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/keyed_checksum.h"
#include "accelerate/base/tcp.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/launch/machines/job_keys.h"
#include "accelerate/launch/machines/store_server.h"
#include "accelerate/launch/machines/wait_report.h"

namespace accelerate {
namespace {

using detail::StoreClient;
using detail::StoreError;
using nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds kAnswer{10'000};  // For the store to answer.
const std::string kWill(detail::kStoreWill.substr(1));

std::string own_host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// The program itself may lie in another folder on each machine.
std::string checksum_of_arguments(const std::vector<std::string>& command) {
  Checksum sum;
  for (std::size_t i = 1; i < command.size(); ++i) sum.update(command[i] + '\0');
  return checksum_text(sum.value());
}

}  // namespace

MachineOptions machine_options(const LaunchOptions& settings, std::vector<std::string> program) {
  const std::string token = env("ACCELERATE_JOB_TOKEN").value_or("");
  if (!token.empty() && !key_from_digits(token)) {
    throw ConfigError("ACCELERATE_JOB_TOKEN has " + std::to_string(token.size()) +
                      " characters; it must be 32 hexadecimal digits, the same on all machines, as "
                      "`openssl rand -hex 16` makes them.");
  }
  const bool is_said = settings.asked("num_processes") != nullptr;
  return {.is_elastic = settings.machines_come_and_go,
          .rank = settings.machine_rank,
          .fewest = settings.fewest_machines,
          .machines = settings.num_machines,
          .address = settings.text("main_process_ip"),
          .port = settings.main_process_port,
          .ranks = settings.num_processes,
          .ranks_of_all = is_said ? settings.num_processes * settings.num_machines : 0,
          .role = settings.text("role"),
          .program = std::move(program),
          .settings = settings_of_all_machines(settings),
          .token = token,
          .name_comes_later = env("KUBERNETES_SERVICE_HOST").has_value(),
          .max_restarts = settings.max_restarts,
          .timeout = settings.join_timeout,
          .last_call = settings.last_call_timeout};
}

MachineGroup::MachineGroup(MachineOptions options)
    : options_(std::move(options)),
      place_({.address = options_.address,
              .port = options_.port,
              .is_where_it_can_be = options_.is_elastic,
              .name_comes_later = options_.name_comes_later,
              .timeout = options_.timeout,
              .report = options_.report}),
      host_name_(own_host_name()),
      number_(options_.rank) {
  if (options_.is_elastic || options_.rank == 0) {
    if (Descriptor listener = place_.listen(); listener.valid()) host(std::move(listener));
  }
  join();
  begin_round(0);
}

MachineGroup::~MachineGroup() {
  try {
    if (client_) client_->set(kWill, "");
  } catch (const StoreError&) {  // Then there is nobody whom the will would tell.
  }
  watch_.reset();
  client_.reset();
}

std::int64_t MachineGroup::queries() const {
  return (client_ ? client_->queries() : 0) + (watch_ ? watch_->queries() : 0);
}

// --- Meeting -----------------------------------------------------------------------------------

detail::JobTerms MachineGroup::terms() const {
  return {.is_elastic = options_.is_elastic,
          .fewest = options_.is_elastic ? options_.fewest : options_.machines,
          .most = options_.machines,
          .timeout = options_.timeout,
          .last_call = options_.last_call,
          .token = options_.token,
          .place = place_.text(),
          .doubt = place_.doubt(),
          .report = options_.report};
}

void MachineGroup::host(Descriptor listener) {
  leader_.emplace(terms(), std::move(listener), host_name_);
  number_ = 0;
}

// Learns who holds the store, and whether this machine may take part.
void MachineGroup::join() {
  try {
    client_.emplace(place_.connect(), std::min(kAnswer, options_.timeout));
    client_->count_in();
    is_with_torchrun_ = !client_->has(detail::kJob);
    if (is_with_torchrun_) {
      if (options_.token.empty() && !options_.is_elastic) return;
      throw ConfigError(
          options_.is_elastic
              ? "what answers at " + place_.text() +
                    " is torchrun, whose rendezvous c10d keeps its state in a pickle, which is not "
                    "read here. Use rdzv_backend static on all machines."
              : "this machine was given ACCELERATE_JOB_TOKEN, but what answers at " +
                    place_.text() +
                    " is torchrun, which knows no token. Unset it on all machines.");
    }
    const json job = detail::parse_json(client_->get(detail::kJob));
    const std::string leader = "machine 0 (" + detail::text_in(job, "host") + ")";
    if (detail::number_in(job, "protocol") != detail::kProtocol) {
      throw ConfigError(leader +
                            " runs another version of accelerate.cpp than this machine. "
                            "Install the same version on all machines.",
                        error_name::kMachinesDiffer);
    }
    if ((job.value("elastic", json(false)) == json(true)) != options_.is_elastic) {
      throw ConfigError("rdzv_backend is " + std::string(options_.is_elastic ? "static" : "c10d") +
                            " on " + leader + " and " + (options_.is_elastic ? "c10d" : "static") +
                            " on this machine. Give all machines the same.",
                        error_name::kMachinesDiffer);
    }
    job_ = detail::text_in(job, "challenge");
    seal_ = detail::Seal(options_.token, job_);
    const bool is_sealed = job.value("sealed", json(false)) == json(true);
    if (is_sealed == !options_.token.empty()) return;
    throw ConfigError(is_sealed ? leader +
                                      " lets only machines take part that were given the same "
                                      "ACCELERATE_JOB_TOKEN, and this machine was given none."
                                : "this machine was given ACCELERATE_JOB_TOKEN, and " + leader +
                                      " was not. Give all machines the same.",
                      error_name::kTokenDiffers);
  } catch (const StoreError& error) {
    throw LaunchError("machine 0 is expected at " + place_.text() + ", but " + error.what() +
                          ". Does another program use this port, or another machine this address?",
                      error_name::kMachinesDoNotMeet);
  }
}

void MachineGroup::introduce() {
  if (!is_with_torchrun_) {
    if (options_.is_elastic && !leader_)
      number_ = static_cast<int>(client_->add(detail::kArrivals, 1));
    const bool is_range = options_.is_elastic && options_.fewest != options_.machines;
    const detail::MachineCard card{
        .number = number_,
        .host = host_name_,
        .machines = (is_range ? std::to_string(options_.fewest) + ":" : "") +
                    std::to_string(options_.machines),
        .ranks = options_.ranks,
        .ranks_of_all = options_.ranks_of_all,
        .role = options_.role,
        .version = ACCELERATE_VERSION,
        .program = detail::program_name(options_.program),
        .arguments = checksum_of_arguments(options_.program),
        .settings = options_.settings,
        .nonce = random_digits().value_or("")};
    claim_number(seal_.close(card.text()));
    leave_will(false);
  }
  const json role = {
      {"role", options_.role}, {"rank", number_}, {"local_world_size", options_.ranks}};
  if (!options_.is_elastic) client_->set(detail::role_key(number_), detail::json_text(role));
}

void MachineGroup::claim_number(const std::string& card) {
  const std::string there = client_->set_if_missing(detail::card_key(number_), card);
  if (there == card) return;
  const auto owner = seal_.open(there);
  throw ConfigError(
      "machine_rank " + std::to_string(number_) + " is taken" +
          (owner ? " by the machine " + detail::MachineCard::parse(*owner).host : "") +
          " in the job at " + place_.text() +
          ". Give each machine another machine_rank, from 0 to num_machines - 1.",
      error_name::kMachinesDoNotMeet);
}

// What the store makes known if this launcher's connection ends.
void MachineGroup::leave_will(bool is_in_round) {
  if (is_with_torchrun_) return;
  std::string will;
  const auto add = [&](const std::string& key) {
    detail::append_text(will, "/" + key);
    detail::append_text(will, detail::text_of(own_loss()));
  };
  add(detail::lost_key(number_));
  if (is_in_round) add(detail::end_key(round_));
  client_->set(kWill, will);
}

EndElsewhere MachineGroup::own_loss() const {
  return {.kind = EndElsewhere::Kind::lost,
          .machine = meeting_.machine,
          .host = host_name_,
          .what = with_name("its launcher was killed, or the machine is lost",
                            error_name::kMachineLost),
          .exit_code = 1};
}

// --- Rounds ------------------------------------------------------------------------------------

void MachineGroup::begin_round(int number) {
  round_ = number;
  try {
    if (number == 0) introduce();
    if (leader_) leader_->begin(number, *client_);
    if (is_with_torchrun_) {
      await_ranks_of_torchrun();
    } else {
      await_place();
    }
    leave_will(true);
    if (!is_with_torchrun_) client_->set(detail::taken_key(round_, number_), "");
    if (leader_) leader_->await_takers(round_, *client_);
    begin_watch();
  } catch (const StoreError& error) {
    throw LaunchError("the store of the job at " + place_.text() + " is gone: " + error.what() +
                          ". Was the launcher of machine 0 ended?",
                      error_name::kMachineLost);
  }
}

// Waits for a round with a place for this machine. A job that has begun has none at first. Else
// machine 0 says within its timeout, which began before this wait, what becomes of the round.
void MachineGroup::await_place() {
  const Deadline limit(options_.timeout +
                       (options_.is_elastic ? options_.last_call : milliseconds(0)) +
                       std::min(kAnswer, options_.timeout));
  detail::WaitReport report(leader_ ? nullptr : options_.report, limit);
  if (!leader_ && options_.is_elastic && client_->has(detail::kRound))
    round_ = std::max<int>(round_,
                           static_cast<int>(parse_int(client_->get(detail::kRound)).value_or(0)));
  bool has_begun = round_ > 0 && options_.is_elastic;
  for (;;) {
    if (client_->wait({detail::round_key(round_)}, milliseconds(1000))) {
      const auto round = detail::Round::parse(opened(detail::round_key(round_)));
      if (round.is_misconfigured) throw ConfigError(round.error);
      if (!round.error.empty()) throw LaunchError(round.error);
      const std::string place = detail::place_key(round_, number_);
      if (client_->has(place)) return take_place(round, detail::RoundMember::parse(opened(place)));
      has_begun = true;
      if (round.machines < options_.machines) ask_for_place(round_);
      ++round_;
      continue;
    }
    if (client_->has(detail::refusal_key(number_)))
      throw ConfigError(client_->get(detail::refusal_key(number_)));
    if (!has_begun && limit.is_over()) throw_not_begun(limit.timeout());
    report([&] {
      return "waiting at " + place_.text() + " for " +
             (round_ == 0 ? "the other machines" : "a place in the job");
    });
  }
}

// Returns a note of machine 0. Throws ConfigError if it has another token.
std::string MachineGroup::opened(const std::string& key) {
  if (auto text = seal_.open(client_->get(key))) return std::move(*text);
  throw ConfigError("machine 0 has another ACCELERATE_JOB_TOKEN than machine " +
                        std::to_string(number_) + " (" + host_name_ + ").",
                    error_name::kTokenDiffers);
}

void MachineGroup::throw_not_begun(milliseconds limit) const {
  throw LaunchError("machine 0 at " + place_.text() + " did not begin the job within " +
                        format_duration(limit) + ". Did all machines come?",
                    error_name::kMachinesDoNotMeet);
}

void MachineGroup::await_ranks_of_torchrun() {
  const Deadline deadline(options_.timeout);
  const std::string key = detail::ranks_key(number_);
  if (!client_->wait({key}, deadline.left())) {
    throw_not_begun(deadline.timeout());
  }
  const json ranks = detail::parse_json(client_->get(key));
  const bool is_valid =
      ranks.is_array() && ranks.size() == 4 &&
      std::ranges::all_of(ranks, [](const json& one) { return one.is_number_unsigned(); });
  if (!is_valid) throw LaunchError("machine 0 at " + place_.text() + " assigned no valid ranks");
  take_place({.error = {}, .token = {}, .ranks = ranks[1], .machines = options_.machines},
             {.number = number_,
              .index = number_,
              .first_rank = ranks[0],
              .first_role_rank = ranks[2],
              .ranks_of_role = ranks[3]});
}

void MachineGroup::take_place(const detail::Round& round, const detail::RoundMember& place) {
  meeting_ = {.address = options_.address,
              .port = options_.port,
              .token = options_.token.empty() ? round.token : options_.token,
              .job = job_,
              .machine = place.index,
              .machines = round.machines,
              .first_rank = place.first_rank,
              .ranks_of_all = round.ranks,
              .first_role_rank = place.first_role_rank,
              .ranks_of_role = place.ranks_of_role,
              .is_hosted = true,
              .restarts = round_,
              .max_restarts = options_.max_restarts};
}

// Ends the round that runs, so that the next one has a place for this machine.
void MachineGroup::ask_for_place(int running) {
  const EndElsewhere joined{.kind = EndElsewhere::Kind::joined,
                            .machine = number_,
                            .host = host_name_,
                            .what = "it joins the job",
                            .exit_code = 1};
  (void)client_->set_if_missing(detail::end_key(running), detail::text_of(joined));
}

void MachineGroup::begin_watch() {
  if (!watch_) watch_.emplace(place_.connect(), std::min(kAnswer, options_.timeout));
  watch_->begin_wait(detail::end_key(round_));
  is_watching_ = true;
}

std::optional<EndElsewhere> MachineGroup::news() {
  try {
    if (!is_watching_ || !watch_->wait_is_over()) return std::nullopt;
    is_watching_ = false;
    auto end = detail::end_from(watch_->get(detail::end_key(round_)));
    const bool is_own = end.kind != EndElsewhere::Kind::joined && end.machine == meeting_.machine;
    if (is_own) return std::nullopt;
    return end;
  } catch (const StoreError& error) {
    is_watching_ = false;
    return lost_store(error.what());
  }
}

void MachineGroup::tell(const EndElsewhere& end) {
  EndElsewhere told = end;
  told.machine = meeting_.machine;
  told.host = host_name_;
  try {
    (void)client_->set_if_missing(detail::end_key(round_), detail::text_of(told));
  } catch (const StoreError&) {  // The others notice that the store is gone.
  }
}

EndElsewhere MachineGroup::lost_store(const std::string& why) const {
  return {.kind = EndElsewhere::Kind::lost,
          .machine = 0,
          .host = options_.address,
          .what = with_name("the store of the job there is gone: " + why, error_name::kMachineLost),
          .exit_code = 1};
}

bool MachineGroup::begin_again(LaunchResult& result) {
  if (result.exit_code() == 0) {
    result.elsewhere = await_the_end_of_all();
    if (!result.elsewhere) return false;
  }
  if (is_with_torchrun_) return false;
  if (result.was_asked_to_end() && (result.launcher_was_told || !options_.is_elastic)) {
    leave();
    return false;
  }
  try {
    // The first end counts on all machines, also where another one was seen.
    const auto end = detail::end_from(client_->get(detail::end_key(round_)));
    const bool is_over = end.kind == EndElsewhere::Kind::interrupted ||
                         (end.kind == EndElsewhere::Kind::preempted && !options_.is_elastic);
    if (is_over || !goes_on_after(end)) return false;
    if (is_watching_) (void)news();
    leave_will(false);
    client_->set(detail::ready_key(round_ + 1, number_), "");
  } catch (const StoreError&) {  // Then the ranks of the other machines have ended too.
    return false;
  }
  begin_round(round_ + 1);
  return true;
}

// Machines that come and go need not wait for this one.
void MachineGroup::leave() {
  try {
    if (options_.is_elastic) client_->set(detail::lost_key(number_), detail::text_of(own_loss()));
  } catch (const StoreError&) {  // Then the job is over.
  }
}

// Machine 0 decides, so that all go on or none does.
bool MachineGroup::goes_on_after(const EndElsewhere& end) {
  const std::string key = detail::next_key(round_);
  if (leader_) client_->set(key, is_to_go_on(end) ? detail::kAgain : detail::kOver);
  while (!client_->wait({key}, milliseconds(5000))) {  // Its ranks may still be ending.
  }
  return client_->get(key) == detail::kAgain;
}

bool MachineGroup::is_to_go_on(const EndElsewhere& end) {
  if (leader_->has_torchrun()) return false;
  if (end.kind != EndElsewhere::Kind::failed) return options_.is_elastic;
  // A rank may have failed because a machine was lost, which the store notices later.
  const Deadline deadline(failures_ < options_.max_restarts ? milliseconds(0)
                                                            : 2 * detail::kLostAfter);
  while (options_.is_elastic) {
    if (leader_->has_lost_members(*client_)) return true;
    if (deadline.is_over()) break;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return ++failures_ <= options_.max_restarts;
}

std::optional<EndElsewhere> MachineGroup::await_the_end_of_all() {
  try {
    // Unless it holds the store, this machine may be lost from here on without harm.
    leave_will(false);
    if (client_->add(detail::done_key(round_), 1) == meeting_.machines)
      client_->set(detail::all_done_key(round_), "<val_ignored>");
    client_->begin_wait(detail::all_done_key(round_));
    for (;;) {
      std::array<pollfd, 2> polls{{{client_->fd(), POLLIN, 0}, {watch_->fd(), POLLIN, 0}}};
      poll(polls.data(), polls.size(), -1);
      if (client_->wait_is_over()) return std::nullopt;
      if (auto end = news()) {
        client_->stop_waiting();
        return end;
      }
    }
  } catch (const StoreError& error) {
    return lost_store(error.what());
  }
}

}  // namespace accelerate
