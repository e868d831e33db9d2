// Which call of the user a collective belongs to, for errors and logs: a rank that waits alone in
// save_state() should read of save_state(), not of the all_gather in it.
#pragma once

namespace accelerate::detail {

/// While alive, collectives that this thread begins belong to `name`, "save_state()". An inner one
/// leaves the name of the outermost, which is what the user called. `name` must live as long as
/// the program; null: of none.
class [[nodiscard]] AnnouncedCall {
 public:
  explicit AnnouncedCall(const char* name);
  ~AnnouncedCall();
  AnnouncedCall(const AnnouncedCall&) = delete;
  AnnouncedCall& operator=(const AnnouncedCall&) = delete;

 private:
  const char* before_;
};

/// The call that this thread is in; null outside of any.
[[nodiscard]] const char* announced_call();

}  // namespace accelerate::detail
