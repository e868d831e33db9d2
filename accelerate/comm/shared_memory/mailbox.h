// Messages between two ranks. A sender offers a message in one of its posts. The receiver takes the
// first message with its tag, and reads it from the arena or piece by piece from the sender's mail
// slots. A send is done only when its receive has read the whole message.
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
    std::optional<SharedExtent> where{};  ///< Where `part` lies, if it is a send from the arena.
  };

  Message(Letter letter, std::shared_ptr<void> keep) : Pending(std::move(keep)), letter_(letter) {}

  [[nodiscard]] const Letter& letter() const { return letter_; }
  /// Whether the peer may read this rank's tensor while it is under way.
  [[nodiscard]] bool is_in_place() const { return post_ != nullptr && post_->in_place; }

 private:
  friend class Mailbox;
  Letter letter_;
  Post* post_ = nullptr;
  std::uint32_t pieces_ = 0;  // Into which the message is cut.
  std::uint32_t moved_ = 0;   // Pieces moved so far.
};

/// The messages of one rank that are under way.
class Mailbox {
 public:
  explicit Mailbox(const Group& group)
      : group_(group), offered_(group.own().posted_messages.value()), turns_(offered_) {}

  void add(std::shared_ptr<Message> message) { messages_.push_back(std::move(message)); }
  [[nodiscard]] std::size_t size() const { return messages_.size(); }
  [[nodiscard]] bool empty() const { return messages_.empty(); }
  /// Makes what progress is possible and appends messages that have ended to `done`. Returns what
  /// `wanted` waits for if it is under way here; else what the first message waits for. Throws
  /// CommError when a send and its receive differ in size or dtype.
  std::optional<Blocked> advance(const Pending* wanted,
                                 std::vector<std::shared_ptr<Message>>& done);
  [[nodiscard]] std::list<std::shared_ptr<Message>> take_all();

 private:
  std::optional<Blocked> advance(Message& message);
  std::optional<Blocked> send(Message& message);
  std::optional<Blocked> receive(Message& message);
  Post* offer(Message& message);
  [[nodiscard]] int receiver_of(const Post& post) const;  // `post` must be in use.
  Post* find_first(const Message& message) const;
  Post* look_for(const Message& message) const;
  void take(Message& message, Post& post) const;
  [[nodiscard]] bool is_first_of_its_kind(const Message& message) const;
  [[nodiscard]] std::uint32_t pieces_of(const Message& message) const;

  const Group& group_;
  std::list<std::shared_ptr<Message>> messages_;
  std::bitset<kPosts> in_use_;         // Which of this rank's posts hold a message.
  std::uint32_t offered_;              // Messages offered so far; counted as in posted_messages.
  std::uint32_t turns_;                // Mail slots filled so far.
  const Message* in_slots_ = nullptr;  // The only message that uses the mail slots; null if none.
};

}  // namespace accelerate::detail
