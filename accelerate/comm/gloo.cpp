#include "accelerate/comm/gloo.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/tcp.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/socket.h"
#include "accelerate/comm/unanswered.h"
#include "accelerate/tensor/compat/quiet_log.h"

namespace accelerate::detail {
namespace {

// Gloo waits five times its timeout for a peer to connect.
constexpr int kWaitsOfGloo = 5;

std::chrono::milliseconds timeout_for(const Deadline& meeting) {
  return meeting.left() / kWaitsOfGloo + std::chrono::milliseconds(1);
}

// Waits for the peers' addresses until the deadline of the meeting, instead of as long as Gloo says,
// and looks meanwhile whether a peer has given up. Polls, because c10d prints a warning when a wait
// ends early.
class AddressesOfPeers final : public c10d::PrefixStore {
 public:
  AddressesOfPeers(const c10::intrusive_ptr<c10d::Store>& store, const GlooOptions& options)
      : PrefixStore("gloo", store), meeting_(options.times.meeting), look_(options.look) {}

  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    constexpr std::chrono::milliseconds kLongest{50};  // Rank 0 answers all ranks by one thread.
    std::chrono::milliseconds pause{1};
    while (!check(keys)) {
      if (meeting_.is_over()) throw CommError("a peer did not say where it listens");
      if (look_) look_();
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongest);
    }
  }

 private:
  Deadline meeting_;
  std::function<void()> look_;
};

bool has_interface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return true;  // Gloo will say what is wrong.
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const bool has_address = one->ifa_addr != nullptr && (one->ifa_addr->sa_family == AF_INET ||
                                                          one->ifa_addr->sa_family == AF_INET6);
    if (has_address && name == one->ifa_name) return true;
  }
  return false;
}

std::string interfaces() {
  std::set<std::string> names;
  const std::unique_ptr<struct if_nameindex, decltype(&if_freenameindex)> all(if_nameindex(),
                                                                              &if_freenameindex);
  for (const auto* one = all.get(); one != nullptr && one->if_index != 0; ++one) {
    if (has_interface(one->if_name)) names.insert(one->if_name);
  }
  return names.empty() ? "none" : join({names.begin(), names.end()}, ", ");
}

using Tensors = std::vector<at::Tensor>;

// Two differences from c10d's engine.
// 1. abort(): c10d's destructor waits for operations in flight, up to their timeout. Closing the
//    connections makes the operations fail immediately, on this rank and on the peers.
// 2. A message of another size than its receiver expects: Gloo throws on a thread of its own, which
//    ends the process. Here a tag depends on the number of bytes too, so such
//    messages do not meet: the ranks wait, and find out why (GroupDiagnosis).
class SafeGloo final : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) override {
    choose_tag(tensors);
    return ProcessGroupGloo::allreduce(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> reduce(Tensors& tensors,
                                        const c10d::ReduceOptions& options) override {
    choose_tag(tensors);
    return ProcessGroupGloo::reduce(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors,
                                           const c10d::BroadcastOptions& options) override {
    choose_tag(tensors);
    return ProcessGroupGloo::broadcast(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override {
    choose_tag({input});
    return ProcessGroupGloo::_allgather_base(output, input, options);
  }
  c10::intrusive_ptr<c10d::Work> gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::GatherOptions& options) override {
    choose_tag(inputs);
    return ProcessGroupGloo::gather(outputs, inputs, options);
  }
  c10::intrusive_ptr<c10d::Work> scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ScatterOptions& options) override {
    choose_tag(outputs);
    return ProcessGroupGloo::scatter(outputs, inputs, options);
  }
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<std::int64_t>& output_counts,
                                               std::vector<std::int64_t>& input_counts,
                                               const c10d::AllToAllOptions& options) override {
    choose_tag({input});
    return ProcessGroupGloo::alltoall_base(output, input, output_counts, input_counts, options);
  }

  // Only send writes on the caller's thread; other operations run on Gloo's threads.
  c10::intrusive_ptr<c10d::Work> send(Tensors& tensors, int destination, int tag) override {
    const WithoutBrokenPipes quiet;
    return ProcessGroupGloo::send(tensors, destination, sized(tag, tensors));
  }
  c10::intrusive_ptr<c10d::Work> recv(Tensors& tensors, int source, int tag) override {
    return ProcessGroupGloo::recv(tensors, source, sized(tag, tensors));
  }

  void abort() override {
    for (const auto& context : contexts_) context->closeConnections();
  }

 private:
  // Of a tag, the lower bits come from the size.
  static constexpr int kBitsOfSize = 12;

  static std::uint32_t size_bits(const Tensors& tensors) {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;  // Spreads sizes that are close together.
    std::uint64_t bytes = 0;
    for (const auto& tensor : tensors) bytes += tensor.nbytes();
    return static_cast<std::uint32_t>((bytes * kGolden) >> (64 - kBitsOfSize));
  }

  // The upper bits count collectives. c10d takes the number as the tag.
  void choose_tag(const Tensors& tensors) {
    const std::uint32_t count = (collectiveCounter_ >> kBitsOfSize) + 1;
    collectiveCounter_ = count << kBitsOfSize | size_bits(tensors);
  }

  static int sized(int tag, const Tensors& tensors) {
    constexpr int kTags = std::numeric_limits<int>::max() >> kBitsOfSize;
    if (tag < 0 || tag > kTags) {
      throw UsageError("the tag of a message is " + std::to_string(tag) + "; Gloo takes 0 to " +
                       std::to_string(kTags));
    }
    return tag << kBitsOfSize | static_cast<int>(size_bits(tensors));
  }
};

// Says what may keep ranks apart; nothing if all are on this machine.
void throw_if_blocked(const std::string& address, const std::string& unanswered) {
  const std::string ports =
      " Ranks connect to ports that the system chooses, not to MASTER_PORT alone.";
  if (!unanswered.empty()) {
    throw BlockedError("Nothing answers at " + unanswered +
                           ", where other ranks listen. Does a firewall drop what goes there?" +
                           ports,
                       error_name::kRanksDoNotMeet);
  }
  const ResolvedHost own = resolve_host(address, 0);
  if (own.error != 0 || is_loopback(*own.addresses)) return;
  throw BlockedError("The other ranks have to reach this one at " + address +
                         ". Does a firewall drop what goes there?" + ports,
                     error_name::kRanksDoNotMeet);
}

}  // namespace

void check_socket_interface() {
  const auto interface = env("GLOO_SOCKET_IFNAME");
  if (!interface || has_interface(*interface)) return;
  throw ConfigError("GLOO_SOCKET_IFNAME is '" + *interface +
                    "', but this machine has no network interface of that name with an address; it "
                    "has " +
                    interfaces() +
                    ". Without the variable, the address that leads to rank 0 is used.");
}

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const GlooOptions& options) {
  using c10d::ProcessGroupGloo;
  check_socket_interface();
  const WithoutBrokenPipes no_signals;
  const compat::QuietLog quiet(compat::QuietLog::Keeps::nothing);
  const auto addresses = c10::make_intrusive<AddressesOfPeers>(store, options);
  auto gloo = ProcessGroupGloo::Options::create(timeout_for(options.times.meeting));
  const auto interface = env("GLOO_SOCKET_IFNAME");
  gloo->devices = {interface ? ProcessGroupGloo::createDeviceForInterface(*interface)
                             : ProcessGroupGloo::createDeviceForHostname(options.address)};
  // With two threads a small collective need not wait for a large one that was issued before it.
  gloo->threads = 2;
  UnansweredWatch watch("rank " + std::to_string(options.rank) + " of " +
                        std::to_string(options.size));
  try {
    auto made = c10::make_intrusive<SafeGloo>(addresses, options.rank, options.size, gloo);
    made->setTimeout(options.times.timeout);
    return made;
  } catch (const std::exception&) {
    const std::string unanswered = watch.end();
    if (options.times.meeting.is_over()) throw_if_blocked(options.address, unanswered);
    throw;
  }
}

}  // namespace accelerate::detail
