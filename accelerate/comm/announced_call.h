// Which call of the user a collective belongs to, for errors and logs. When a rank waits alone in
// save_state(), its error should name save_state() and not only the all_gather inside.
#pragma once

namespace accelerate::detail {

/// While it lives, collectives that this thread begins belong to `name`, e.g. "save_state()". When
/// scopes are nested, the name of the outermost stays, because that is what the user called. `name`
/// must live as long as the program; null names no call.
class [[nodiscard]] AnnouncedCall {
 public:
  explicit AnnouncedCall(const char* name);
  ~AnnouncedCall();
  AnnouncedCall(const AnnouncedCall&) = delete;
  AnnouncedCall& operator=(const AnnouncedCall&) = delete;

 private:
  const char* before_;
};

/// Returns the name of the call that this thread is in; null outside of all.
[[nodiscard]] const char* announced_call();

}  // namespace accelerate::detail
