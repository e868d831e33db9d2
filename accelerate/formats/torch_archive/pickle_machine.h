// Reads a Python pickle as data. Nothing is ever imported or called: where a pickle asks to call
// something, the result is a node that says what was to be called, and that only for names on a
// list. Part of formats/torch_archive, which gives those calls their meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

struct PickleLimits {
  static constexpr std::size_t kBytes = std::size_t{64} << 20;  ///< Of the pickle.
  static constexpr std::size_t kNodes = 4'000'000;              ///< Of values, the stack, the memo.
};

/// A value of a pickle. Values refer to each other and may form loops: whoever walks them counts.
struct PickleNode {
  // clang-format off
  enum class Kind { none, boolean, integer, big_integer, real, text, bytes, list, tuple, set, dict, global, call, object, persistent };
  // clang-format on

  Kind kind = Kind::none;
  std::int64_t integer = 0;  ///< Of an integer; of a boolean 0 or 1.
  double real = 0;
  /// Text (UTF-8), bytes, the little-endian two's complement of a big integer, or "module.name" of
  /// a global. Lives as long as the pickle's bytes and the list of names.
  std::string_view text = {};
  /// Of a list, tuple or set: its items. Of a dict: key, value, key, value, …. Of a call: the
  /// global, the tuple of arguments, then as of a dict what was put into the result. Of a
  /// persistent: its id.
  std::vector<PickleNode*> items = {};
  /// Of a call or an object: what was given to its __setstate__.
  PickleNode* state = nullptr;
};

/// On the list of names this stands for all classes of TorchScript ("__torch__.Net"): a pickle may
/// then hold objects of them, which become nodes like everything else.
inline constexpr std::string_view kScriptClasses = "__torch__";

/// The name on the list `allowed`, sorted, by which the global is known. Throws CheckpointError
/// whose message is a clause, with the name that was asked for, when it is not on it.
[[nodiscard]] std::string_view allowed_global(std::string_view module, std::string_view name,
                                              std::span<const std::string_view> allowed);

/// Throws CheckpointError "its pickle <why>": a clause.
[[noreturn]] void refuse_pickle(const std::string& why);

/// A pickle that has been read: the last value is `root`.
struct Pickle {
  std::deque<PickleNode> nodes;
  PickleNode* root = nullptr;
};

/// Reads `bytes`, which must stay alive, of protocol 2 to 5. `allowed` are the globals, as
/// "module.name", sorted. Throws CheckpointError whose message is a clause: an unknown global by
/// its name, an operation that data does not need, bytes that end too early, what exceeds the
/// limits.
[[nodiscard]] Pickle read_pickle(std::span<const std::byte> bytes,
                                 std::span<const std::string_view> allowed);

}  // namespace accelerate::detail
