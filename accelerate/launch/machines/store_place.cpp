#include "accelerate/launch/machines/store_place.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "accelerate/base/deadline.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/tcp.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/machines/wait_report.h"

namespace accelerate::detail {
namespace {

using std::chrono::milliseconds;

// Connects to the first of the addresses that answers. `refusal`: why none did.
Descriptor first_that_answers(const ResolvedHost& found, const Deadline& deadline, int& refusal) {
  for (const addrinfo* one = found.addresses.get(); one != nullptr; one = one->ai_next) {
    Descriptor made = connect_within(
        *one, std::clamp(deadline.left(), milliseconds(1), milliseconds(2000)), refusal);
    if (made.valid()) return made;
  }
  return {};
}

}  // namespace

void StorePlace::remember(const ResolvedHost& found) {
  std::vector<std::string> addresses;
  is_only_here_ = found.addresses != nullptr;
  for (const addrinfo* one = found.addresses.get(); one != nullptr; one = one->ai_next) {
    addresses.push_back(numeric_address(*one));
    is_only_here_ = is_only_here_ && is_loopback(*one);
  }
  const bool is_name = std::ranges::find(addresses, options_.address) == addresses.end();
  resolved_ = is_name ? join(addresses, ", ") : "";
  is_only_here_ = is_only_here_ && is_name && options_.address != "localhost";
}

std::string StorePlace::doubt() const {
  if (!is_only_here_) return {};
  return options_.address + " is " + resolved_ +
         " on this machine, which no other machine can reach: correct /etc/hosts, or give "
         "main_process_ip as a number.";
}

std::string StorePlace::text() const {
  const bool is_v6 = options_.address.find(':') != std::string::npos;
  return (is_v6 ? "[" + options_.address + "]" : options_.address) + ":" +
         std::to_string(options_.port) + (resolved_.empty() ? "" : " (" + resolved_ + ")");
}

Descriptor StorePlace::listen() {
  const ResolvedHost found = resolve_host(options_.address, options_.port);
  if (found.error != 0) {
    if (options_.is_where_it_can_be) return {};  // connect() says what is wrong.
    throw ConfigError("main_process_ip is '" + options_.address +
                          "', which is not an address of a machine: " + gai_strerror(found.error) +
                          ". Give the address of this machine by which the others reach it.",
                      error_name::kMachinesDoNotMeet);
  }
  remember(found);
  Listening listener = listen_on(*found.addresses);
  if (listener.error == 0) return std::move(listener.socket);
  if (options_.is_where_it_can_be &&
      (listener.error == EADDRNOTAVAIL || listener.error == EADDRINUSE))
    return {};
  if (listener.error == EADDRNOTAVAIL) {
    throw ConfigError(
        "main_process_ip is '" + options_.address +
            "', which is not an address of this machine, yet machine_rank is 0: the "
            "address is that of machine 0. Give this machine its own address or another "
            "machine_rank.",
        error_name::kMachinesDoNotMeet);
  }
  if (listener.error == EADDRINUSE) {
    throw LaunchError(
        "main_process_port " + std::to_string(options_.port) + " of " + options_.address +
            " is taken by another program, or by another job. Choose a free one on all "
            "machines.",
        error_name::kPortTaken);
  }
  throw LaunchError("cannot listen on " + text() + ": " + std::strerror(listener.error));
}

Descriptor StorePlace::connect() {
  const Deadline deadline(options_.timeout);
  WaitReport report(options_.report, deadline);
  auto retry = milliseconds(20);
  int refusal = 0;
  for (;;) {
    const ResolvedHost found = resolve_host(options_.address, options_.port);
    if (found.error != 0 && found.error != EAI_AGAIN && !options_.name_comes_later) {
      throw ConfigError(
          "main_process_ip is '" + options_.address +
              "', which is not an address of a machine: " + gai_strerror(found.error) +
              ". Give the address by which machine 0 is reached from here.",
          error_name::kMachinesDoNotMeet);
    }
    remember(found);
    if (Descriptor made = first_that_answers(found, deadline, refusal); made.valid()) return made;
    const char* why = found.error == 0 ? std::strerror(refusal) : gai_strerror(found.error);
    if (deadline.is_over()) {
      throw LaunchError("machine 0 did not answer at " + text() + " within " +
                            format_duration(deadline.timeout()) + " (" + why +
                            "). Was `accelerate launch` started there, is that its address as seen "
                            "from here, and does a firewall let the port through?",
                        error_name::kMachinesDoNotMeet);
    }
    report([&] { return "waiting for machine 0 at " + text() + " (" + why + ")"; });
    std::this_thread::sleep_for(retry);
    retry = std::min(retry * 2, milliseconds(200));
  }
}

}  // namespace accelerate::detail
