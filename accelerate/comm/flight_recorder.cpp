#include "accelerate/comm/flight_recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

#include "accelerate/base/file_error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/open_file.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

std::uint64_t word_of(const FlightWhat& what) {
  std::uint64_t word = 0;
  std::memcpy(&word, &what, sizeof(word));
  return word;
}

FlightState state_of(std::uint64_t word) {
  FlightWhat what{};
  std::memcpy(&what, &word, sizeof(what));
  return what.state;
}

// The time of the last tick of the kernel's clock, a few ms ago at most. It costs a quarter of
// now_ns(), and a wait that matters lasts for seconds.
std::int64_t about_now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::uint32_t this_thread() {
  thread_local const auto number = static_cast<std::uint32_t>(::syscall(SYS_gettid));
  return number;
}

template <std::size_t N>
void put(char (&field)[N], const std::string& text) {
  std::memcpy(field, text.data(), std::min(text.size(), N - 1));
}

void put_call(FlightSlot& slot, const char* call) {
  char text[sizeof(slot.call)]{};
  if (call != nullptr) std::strncpy(text, call, sizeof(text) - 1);
  for (std::size_t i = 0; i < slot.call.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, text + i * sizeof(word), sizeof(word));
    slot.call[i].store(word, kRelaxed);
  }
}

std::string ranks_text(const GroupLabel& label, int size) {
  std::vector<int> ranks = label.ranks;
  if (ranks.empty()) {
    for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
  }
  std::ranges::sort(ranks);
  return accelerate::ranges(ranks);
}

}  // namespace

void FlightTicket::set_state(FlightState state) const {
  FlightWhat what = what_;
  what.state = state;
  slot_->what.store(word_of(what), kRelaxed);
}

void FlightTicket::waits() const {
  if (slot_ == nullptr || slot_->position.load(kRelaxed) != position_) return;
  slot_->waits_ns.store(about_now_ns(), kRelaxed);
  set_state(FlightState::waiting);
}

void FlightTicket::close(FlightState state) const {
  // A slot that a later collective has taken over is left alone.
  if (slot_ == nullptr || slot_->position.load(kRelaxed) != position_) return;
  slot_->ended_ns.store(FlightRecorder::now_ns(), kRelaxed);
  set_state(state);
}

FlightTicket GroupFlight::begin(const Sentence& what, std::uint64_t number) const {
  return recorder ? recorder->begin(group, what, number) : FlightTicket();
}

GroupLabel label_of_part(const GroupLabel& whole, const std::vector<int>& ranks, int number) {
  GroupLabel part{whole.recorder, whole.name + "/" + std::to_string(number), {}};
  for (const int rank : ranks) {
    const auto place = static_cast<std::size_t>(rank);
    part.ranks.push_back(place < whole.ranks.size() ? whole.ranks[place] : rank);
  }
  return part;
}

GroupFlight flight_of(const GroupLabel& label, int rank, int size) {
  return label.recorder ? label.recorder->add_group(label, rank, size) : GroupFlight();
}

std::int64_t FlightRecorder::now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

FlightRecorder::FlightRecorder(const FlightOptions& options)
    : options_(options),
      size_bytes_(sizeof(FlightHeader) + std::size_t{options.slots} * sizeof(FlightSlot)) {
  map();
  FlightHeader& head = header();
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  head.slot_bytes = sizeof(FlightSlot);
  head.slots = options.slots;
  head.rank = static_cast<std::uint32_t>(options.rank);
  head.world_size = static_cast<std::uint32_t>(options.world_size);
  head.process = static_cast<std::uint64_t>(::getpid());
  head.epoch_ns = since_1970 / std::chrono::nanoseconds(1) - now_ns();
  (void)::gethostname(head.host, sizeof(head.host) - 1);
  std::memcpy(head.magic, kFlightMagic.data(), kFlightMagic.size());
}

FlightRecorder::~FlightRecorder() {
  header().ended.store(1, kRelaxed);
  ::munmap(memory_, size_bytes_);
}

void FlightRecorder::map() {
  int flags = MAP_SHARED | MAP_ANONYMOUS;
  Descriptor fd;
  if (!options_.file.empty()) {
    // Replaces what is there instead of following a link of somebody else.
    if (::unlink(options_.file.c_str()) != 0 && errno != ENOENT) {
      throw FileError("replace", options_.file, errno);
    }
    fd = open_or_throw("create", options_.file, O_RDWR | O_CREAT | O_EXCL, 0600);
    reserve_space(fd.get(), options_.file, size_bytes_);
    flags = MAP_SHARED;
  }
  void* const at = ::mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, flags, fd.get(), 0);
  if (at == MAP_FAILED) throw FileError("map", options_.file, errno);
  memory_ = static_cast<std::byte*>(at);
}

FlightSlot& FlightRecorder::slot(std::uint64_t position) const {
  auto* const slots = reinterpret_cast<FlightSlot*>(memory_ + sizeof(FlightHeader));
  return slots[(position - 1) % options_.slots];
}

GroupFlight FlightRecorder::add_group(const GroupLabel& label, int rank, int size) {
  FlightGroupRow row{static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size), {}, {}};
  put(row.name, label.name);
  put(row.ranks, ranks_text(label, size));
  const std::lock_guard lock(mutex_);
  FlightHeader& head = header();
  const std::uint32_t known = head.groups.load(kRelaxed);
  std::uint32_t index = 0;
  while (index < known && std::memcmp(&head.rows[index], &row, sizeof(row)) != 0) ++index;
  if (index == known && known < kFlightGroups) {
    head.rows[index] = row;
    head.groups.store(known + 1, std::memory_order_release);
  }
  return {shared_from_this(), static_cast<std::uint8_t>(index)};
}

FlightTicket FlightRecorder::begin(std::uint8_t group, const Sentence& what, std::uint64_t number) {
  const std::uint64_t position = header().begun.fetch_add(1, kRelaxed) + 1;
  FlightSlot& at = slot(position);
  const FlightWhat head{
      FlightState::begun,
      what.kind,
      what.has_tensor ? static_cast<std::uint8_t>(what.dtype) : std::uint8_t{0xff},
      static_cast<std::uint8_t>(std::min<std::size_t>(what.sizes.size(), 255)),
      group,
      {}};
  at.position.store(0, kRelaxed);
  at.what.store(word_of(head), kRelaxed);
  at.number.store(number, kRelaxed);
  at.bytes.store(what.bytes(), kRelaxed);
  at.begun_ns.store(now_ns(), kRelaxed);
  at.waits_ns.store(0, kRelaxed);
  at.ended_ns.store(0, kRelaxed);
  at.peer_and_thread.store(
      std::uint64_t{static_cast<std::uint32_t>(what.peer)} << 32 | this_thread(), kRelaxed);
  const std::size_t dims = std::min(what.sizes.size(), kFlightDims);
  for (std::size_t i = 0; i < dims; ++i) at.sizes[i].store(what.sizes[i], kRelaxed);
  put_call(at, what.call);
  // A reader that sees the position sees the rest.
  at.position.store(position, std::memory_order_release);
  return {shared_from_this(), at, head, position};
}

std::optional<FlightRecorder::Wait> FlightRecorder::longest_wait() const {
  std::optional<Wait> longest;
  const std::uint64_t count = std::min<std::uint64_t>(begun(), options_.slots);
  for (std::uint64_t i = 1; i <= count; ++i) {
    const FlightSlot& one = slot(i);
    const std::uint64_t position = one.position.load(std::memory_order_acquire);
    if (position == 0 || state_of(one.what.load(kRelaxed)) != FlightState::waiting) continue;
    const std::int64_t since = one.waits_ns.load(kRelaxed);
    if (!longest || since < longest->since_ns) longest = Wait{position, since};
  }
  return longest;
}

std::uint64_t FlightRecorder::begun() const {
  return header().begun.load(kRelaxed);
}

std::string_view FlightRecorder::bytes() const {
  return {reinterpret_cast<const char*>(memory_), size_bytes_};
}

FlightRecord FlightRecorder::read() const {
  return parse_flight_record(bytes(), "the record of this rank");
}

void FlightRecorder::write_to(const std::filesystem::path& file) const {
  if (file == options_.file) return;
  write_file_atomically(real_file_system(), file, bytes(), {.durable = false});
}

}  // namespace accelerate::detail
