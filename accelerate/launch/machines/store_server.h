// The store in which the launchers of a job and then its ranks meet. It speaks to every
// c10d::TCPStore of LibTorch, and to the launchers of torchrun, without LibTorch itself.
// docs/decisions/store_of_the_launcher.md says why it is ours.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/launch/machines/store_wire.h"

namespace accelerate::detail {

/// A client sets this key to keys and values in turns, each as append_text() writes it. When the
/// client's connection ends, the store sets those keys that are missing. So others learn of a
/// launcher that died, or whose machine is lost. The last will counts; an empty one says nothing.
inline constexpr std::string_view kStoreWill = "/accelerate/will";

class StoreServer {
 public:
  /// Will serve what connects to `listener`, a socket that listens. `values`: what the store holds
  /// from the beginning.
  StoreServer(Descriptor listener, std::map<std::string, std::string> values);

  /// Serves until `owner`, the reading end of a pipe, ends; then until the last client has left,
  /// but not for longer than two seconds. One thread. A client that does not speak the protocol, or
  /// asks for more than StoreLimits, is dropped. Cost of a query: logarithmic in the number of keys;
  /// a value that is set costs one answer for each client that waits for it.
  void run(int owner);

 private:
  using Id = std::uint64_t;

  struct Client {
    Id id = 0;
    Descriptor socket;
    std::string in;                // What arrived and is not handled yet.
    std::string out;               // Answers that the socket did not take yet.
    bool greeted = false;          // Whether it has said that it is a client of a store.
    bool is_lost = false;          // To be dropped once the queries at hand are done.
    std::set<std::string> awaits;  // Keys that it waits for and that are not there.
    std::string barrier;           // The barrier at which it waits.
    std::string will;              // See kStoreWill.
  };

  void accept_all();
  void listen(bool takes_clients);
  void read_from(Client& client);
  void handle_all(Client& client);
  // Handles the first query of `in` and returns its bytes; 0 if it has not arrived completely.
  std::size_t handle_one(Client& client, std::string_view in);
  bool answer(Client& client, StoreQuery query, StoreArguments& arguments);
  bool answer_about_keys(Client& client, StoreQuery query, StoreArguments& arguments);
  bool answer_about_queues(Client& client, StoreQuery query, StoreArguments& arguments);
  bool take_greeting(Client& client, StoreArguments& arguments);

  void set(std::string_view key, std::string_view value, Client& by);
  void store(const std::string& key, std::string value);
  bool has(const std::string& key) const;
  void wait(Client& client, const std::vector<std::string_view>& keys);
  void stop_waiting(Client& client);
  void wake(const std::string& key);
  void meet_at(Client& client, std::string key, std::int64_t count);

  void reply(Client& client, std::string_view bytes);
  void write_to(Client& client);
  void drop(Id id);

  Descriptor listener_;
  Descriptor events_;  // Of epoll.
  bool is_listening_ = true;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::deque<std::string>> queues_;
  std::unordered_map<Id, Client> clients_;
  std::unordered_map<std::string, std::set<Id>> waiting_;   // By key.
  std::unordered_map<std::string, std::set<Id>> barriers_;  // By key.
  std::uint64_t held_bytes_ = 0;
  Id next_id_ = 2;  // 0 is the listener, 1 the owner.
};

}  // namespace accelerate::detail
