// Messages between two ranks. A sender offers a message in a post of its own; the receiver takes
// the first that has its tag, and reads it from the arena or piece by piece from the sender's mail
// slots. Neither is done before both are: a send waits for its receive.
#pragma once

#include <bitset>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/comm/shared_memory/operation.h"
#include "accelerate/comm/shared_memory/staged_collectives.h"

namespace accelerate::detail {

class Message final : public Pending {
 public:
  enum class Way : std::uint8_t { send, receive };
  struct Letter {
    Way way = Way::send;
    int peer = 0;
    int tag = 0;
    c10::ScalarType dtype = c10::ScalarType::Byte;
    Part part{};
    std::optional<SharedExtent> where{};  ///< Of a send, when `part` lies in the arena.
  };

  Message(Letter letter, std::shared_ptr<void> keep) : Pending(std::move(keep)), letter_(letter) {}

  [[nodiscard]] const Letter& letter() const { return letter_; }
  /// Whether the peer may read this rank's tensor while it is under way.
  [[nodiscard]] bool is_in_place() const { return post_ != nullptr && post_->in_place; }

 private:
  friend class Mailbox;
  Letter letter_;
  Post* post_ = nullptr;
  std::uint32_t pieces_ = 0;  // Of which so many:
  std::uint32_t moved_ = 0;
};

/// The messages of one rank that are under way.
class Mailbox {
 public:
  explicit Mailbox(const Group& group)
      : group_(group), offered_(group.own().posted_messages.value()), turns_(offered_) {}

  void add(std::shared_ptr<Message> message) { messages_.push_back(std::move(message)); }
  [[nodiscard]] std::size_t size() const { return messages_.size(); }
  [[nodiscard]] bool empty() const { return messages_.empty(); }
  /// Makes what progress there is and moves what has ended to `done`. Returns what `wanted` waits
  /// for, when it is here; else what the first message waits for. Throws CommError: a send and its
  /// receive differ in size or dtype.
  std::optional<Blocked> advance(const Pending* wanted,
                                 std::vector<std::shared_ptr<Message>>& done);
  [[nodiscard]] std::list<std::shared_ptr<Message>> take_all();

 private:
  std::optional<Blocked> advance(Message& message);
  std::optional<Blocked> send(Message& message);
  std::optional<Blocked> receive(Message& message);
  Post* offer(Message& message);
  [[nodiscard]] int receiver_of(const Post& post) const;  // One that is in use.
  Post* find_first(const Message& message) const;
  Post* look_for(const Message& message) const;
  void take(Message& message, Post& post) const;
  [[nodiscard]] bool is_first_of_its_kind(const Message& message) const;
  [[nodiscard]] std::uint32_t pieces_of(const Message& message) const;

  const Group& group_;
  std::list<std::shared_ptr<Message>> messages_;
  std::bitset<kPosts> in_use_;         // Of this rank's posts.
  std::uint32_t offered_;              // As posted_messages.
  std::uint32_t turns_;                // Mail slots that were filled.
  const Message* in_slots_ = nullptr;  // The one message that is in them.
};

}  // namespace accelerate::detail
