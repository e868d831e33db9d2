// Typed errors. A type says what the user can do next; a message says what was found, what was
// allowed, and the likely cause or cure. Where there is more to say than fits, it ends with the name
// under which docs/errors.md goes on. Each layer may add one sentence with throw_with_context;
// what() then tells the causes too, as an uncaught error does.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

namespace accelerate {

/// The stable name of a situation, e.g. "accelerate.error/rank-late": docs/errors.md has a section
/// under it, with causes and cures. The library's names are in accelerate/base/error_name.h. A
/// program may make names of its own.
class ErrorName {
 public:
  /// No name: the message says all that there is to say.
  constexpr ErrorName() = default;
  /// `text` is a literal, so that names can be copied and kept.
  consteval explicit ErrorName(const char* text) : text_(text) {}
  /// Returns "" for no name.
  [[nodiscard]] constexpr std::string_view text() const noexcept { return text_; }

 private:
  std::string_view text_;
};

/// Returns `message` with " [name]" once, at the end of its own sentences: before the causes that
/// throw_with_context adds. Without a name it returns `message`.
[[nodiscard]] std::string with_name(const std::string& message, ErrorName name);

/// Base of everything that the library throws on purpose. Our own bugs are TORCH_INTERNAL_ASSERT
/// instead.
class Error : public std::runtime_error {
 public:
  /// what() is safe to print, whatever `message` quotes of files and servers: a question mark takes
  /// the place of what steers a terminal, except line ends and tabs, and of bytes that are not UTF-8.
  /// It shows `name` as with_name() does.
  explicit Error(const std::string& message, ErrorName name = {});
  /// The type's name as a user reads it, e.g. "ConfigError".
  [[nodiscard]] virtual std::string_view kind() const noexcept { return "Error"; }
  /// The name under which docs/errors.md tells cause and cure: the one of the situation, or else the
  /// one of the type, such as "accelerate.error/config". Causes have names of their own.
  [[nodiscard]] std::string name() const;
  /// The name that the error was made with: none if it has the name of its type.
  [[nodiscard]] ErrorName situation() const noexcept { return name_; }

 private:
  ErrorName name_;
};

// clang-format off
/// A configuration file, environment variable, flag or option has a value that is not allowed.
class ConfigError : public Error { public: using Error::Error; [[nodiscard]] std::string_view kind() const noexcept override { return "ConfigError"; } };
/// The API was called in the wrong order or with objects that do not go together.
class UsageError : public Error { public: using Error::Error; [[nodiscard]] std::string_view kind() const noexcept override { return "UsageError"; } };
/// A program could not be started, or a launched rank failed.
class LaunchError : public Error { public: using Error::Error; [[nodiscard]] std::string_view kind() const noexcept override { return "LaunchError"; } };
/// Ranks could not meet, one was lost, one is late, or they disagree about a collective.
class CommError : public Error { public: using Error::Error; [[nodiscard]] std::string_view kind() const noexcept override { return "CommError"; } };
/// A file of weights or state is missing, damaged, hostile, or could not be written.
class CheckpointError : public Error { public: using Error::Error; [[nodiscard]] std::string_view kind() const noexcept override { return "CheckpointError"; } };
/// A dataset, sampler or loader failed, or was asked for what it does not have.
class DataError : public Error { public: using Error::Error; [[nodiscard]] std::string_view kind() const noexcept override { return "DataError"; } };
/// A remote service (hub, tracker) did not answer or refused.
class NetworkError : public Error { public: using Error::Error; [[nodiscard]] std::string_view kind() const noexcept override { return "NetworkError"; } };
// clang-format on

namespace detail {
/// Returns, inside a `catch` block, the current exception and its causes, each as
/// "\n  because: …".
[[nodiscard]] std::string current_causes();
}  // namespace detail

/// Returns the message of `error` followed by the messages of its causes, outermost first, one a
/// line: "cannot load a.yaml\n  because: line 3: …". For an error of throw_with_context this is
/// what(). Errors that were nested with std::throw_with_nested get their causes only here.
[[nodiscard]] std::string describe(const std::exception& error);

/// Throws, inside a `catch` block, E with the current exception nested in it. Its what() is
/// `sentence` followed by the causes, as describe() writes them.
template <typename E>
[[noreturn]] void throw_with_context(const std::string& sentence) {
  std::throw_with_nested(E(sentence + detail::current_causes()));
}

/// The same for a situation that has a name, which what() shows at the end of `sentence`.
template <typename E>
[[noreturn]] void throw_with_context(const std::string& sentence, ErrorName name) {
  std::throw_with_nested(E(sentence + detail::current_causes(), name));
}

}  // namespace accelerate
