#include "accelerate/comm/shared_memory/mailbox.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

// Copies a piece of a message. An empty message may have null addresses.
void copy_piece(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

std::string size_of(c10::ScalarType dtype, std::size_t bytes) {
  return std::to_string(bytes / c10::elementSize(dtype)) + " elements of " + c10::toString(dtype);
}

}  // namespace

std::optional<Blocked> Mailbox::advance(const Pending* wanted,
                                        std::vector<std::shared_ptr<Message>>& done) {
  std::optional<Blocked> of_first, of_wanted;
  for (auto next = messages_.begin(); next != messages_.end();) {
    const auto blocked = advance(**next);
    if (!blocked) {
      done.push_back(*next);
      next = messages_.erase(next);
      continue;
    }
    if (!of_first) of_first = blocked;
    if (next->get() == wanted) of_wanted = blocked;
    ++next;
  }
  return of_wanted ? of_wanted : of_first;
}

std::list<std::shared_ptr<Message>> Mailbox::take_all() {
  return std::exchange(messages_, {});
}

std::optional<Blocked> Mailbox::advance(Message& message) {
  return message.letter_.way == Message::Way::send ? send(message) : receive(message);
}

std::uint32_t Mailbox::pieces_of(const Message& message) const {
  const std::size_t piece = group_.block.mail_slot_bytes();
  return std::max<std::uint32_t>(
      1, static_cast<std::uint32_t>((message.letter_.part.bytes + piece - 1) / piece));
}

// --- the sender ---
std::optional<Blocked> Mailbox::send(Message& message) {
  if (message.post_ == nullptr) message.post_ = offer(message);
  if (message.post_ == nullptr) {  // All posts are in use: waits for progress on the first one.
    Post& first = group_.own().posts[0];
    return Blocked{&first.drained, first.drained.value() + 1, receiver_of(first)};
  }
  Post& post = *message.post_;
  const int peer = message.letter_.peer;
  if (!post.taken.reached(post.taken_before + 1)) {
    return Blocked{&post.taken, post.taken_before + 1, peer};
  }
  if (!post.in_place) {
    if (in_slots_ != nullptr && in_slots_ != &message) {
      Counter& theirs = in_slots_->post_->drained;
      return Blocked{&theirs, theirs.value() + 1, in_slots_->letter_.peer};
    }
    if (message.moved_ == 0) {
      in_slots_ = &message;
      post.first_turn = turns_;
    }
    const std::size_t room = group_.block.mail_slot_bytes();
    for (; message.moved_ < message.pieces_; ++message.moved_) {
      const std::uint32_t free = post.drained_before + message.moved_ + 1 - kSlots;
      if (!post.drained.reached(free)) return Blocked{&post.drained, free, peer};
      const std::size_t begin = message.moved_ * room;
      copy_piece(group_.block.mail_slot(group_.rank, turns_++), message.letter_.part.data + begin,
                 std::min(room, message.letter_.part.bytes - begin));
      post.filled.raise_to(post.drained_before + message.moved_ + 1);
    }
  }
  const std::uint32_t end = post.drained_before + message.pieces_;
  if (!post.drained.reached(end)) return Blocked{&post.drained, end, peer};
  if (in_slots_ == &message) in_slots_ = nullptr;
  post.filled.raise_to(end);
  in_use_.reset(static_cast<std::size_t>(&post - group_.own().posts));
  return std::nullopt;
}

int Mailbox::receiver_of(const Post& post) const {
  const auto holds_it = [&](const auto& message) { return message->post_ == &post; };
  return (*std::find_if(messages_.begin(), messages_.end(), holds_it))->letter_.peer;
}

Post* Mailbox::offer(Message& message) {
  if (in_use_.all()) return nullptr;
  std::size_t place = 0;
  while (in_use_[place]) ++place;
  in_use_.set(place);
  Post* const post = &group_.own().posts[place];
  const Message::Letter& letter = message.letter_;
  post->number = offered_++;
  post->taken_before = post->taken.value();
  post->drained_before = post->drained.value();
  post->dtype = letter.dtype;
  post->bytes = letter.part.bytes;
  post->in_place = letter.where && letter.part.bytes >= Operation::kInPlaceFrom;
  post->where = letter.where.value_or(SharedExtent{});
  message.pieces_ = post->in_place ? 1 : pieces_of(message);
  post->address.store(Post::address_of(letter.peer, letter.tag), std::memory_order_release);
  group_.own().posted_messages.raise_to(offered_);
  return post;
}

// --- the receiver ---
std::optional<Blocked> Mailbox::receive(Message& message) {
  RankLines& theirs = group_.block.lines(message.letter_.peer);
  if (message.post_ == nullptr) {
    const std::uint32_t seen = theirs.posted_messages.value();
    Post* const post = is_first_of_its_kind(message) ? find_first(message) : nullptr;
    if (post == nullptr) {
      return Blocked{&theirs.posted_messages, seen + 1, message.letter_.peer};
    }
    take(message, *post);
  }
  Post& post = *message.post_;
  std::byte* const to = message.letter_.part.data;
  if (post.in_place) {
    std::memcpy(to, group_.peers.map(message.letter_.peer, post.where), message.letter_.part.bytes);
    post.drained.raise_to(post.drained_before + 1);
    return std::nullopt;
  }
  const std::size_t room = group_.block.mail_slot_bytes();
  for (; message.moved_ < message.pieces_; ++message.moved_) {
    const std::uint32_t target = post.drained_before + message.moved_ + 1;
    if (!post.filled.reached(target)) return Blocked{&post.filled, target, message.letter_.peer};
    const std::size_t begin = message.moved_ * room;
    copy_piece(to + begin,
               group_.block.mail_slot(message.letter_.peer, post.first_turn + message.moved_),
               std::min(room, message.letter_.part.bytes - begin));
    post.drained.raise_to(target);
  }
  return std::nullopt;
}

// Whether no earlier receive waits for the same peer and tag: a later receive must not take the
// message of an earlier one.
bool Mailbox::is_first_of_its_kind(const Message& message) const {
  for (const auto& other : messages_) {
    if (other.get() == &message) return true;
    if (other->letter_.way == Message::Way::receive && other->post_ == nullptr &&
        other->letter_.peer == message.letter_.peer && other->letter_.tag == message.letter_.tag) {
      return false;
    }
  }
  return true;
}

// Searches twice. The first search may miss a message that is offered in a post it has already
// passed, and find a later message in another post. The second search sees every message that was
// offered before the one found.
Post* Mailbox::find_first(const Message& message) const {
  return look_for(message) == nullptr ? nullptr : look_for(message);
}

Post* Mailbox::look_for(const Message& message) const {
  const std::uint64_t wanted = Post::address_of(group_.rank, message.letter_.tag);
  Post* first = nullptr;
  for (Post& post : group_.block.lines(message.letter_.peer).posts) {
    // Only this rank takes posts with its address, so such a post does not change meanwhile.
    if (post.address.load(std::memory_order_acquire) != wanted) continue;
    const bool earlier =
        first == nullptr || static_cast<std::int32_t>(post.number - first->number) < 0;
    if (earlier) first = &post;
  }
  return first;
}

void Mailbox::take(Message& message, Post& post) const {
  const Message::Letter& letter = message.letter_;
  if (post.bytes != letter.part.bytes || post.dtype != letter.dtype) {
    throw CommError("rank " + std::to_string(letter.peer) + " sends " +
                    size_of(post.dtype, post.bytes) + " with tag " + std::to_string(letter.tag) +
                    ", and rank " + std::to_string(group_.rank) + " receives " +
                    size_of(letter.dtype, letter.part.bytes));
  }
  message.post_ = &post;
  message.pieces_ = pieces_of(message);
  post.address.store(0, std::memory_order_relaxed);  // the sender reads it only after `taken`
  post.taken.raise_to(post.taken_before + 1);
}

}  // namespace accelerate::detail
