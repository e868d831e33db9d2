// Reads a Python pickle as data. Nothing is ever imported or called. Where a pickle asks for a
// call, the result is a node that says what would have been called; only names on a list are
// allowed. formats/torch_archive, of which this is a part, gives these nodes their meaning.
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
  static constexpr std::size_t kBytes = std::size_t{64} << 20;  ///< Bytes of the pickle.
  static constexpr std::size_t kNodes = 4'000'000;              ///< Values, stack and memo.
};

/// A value of a pickle. Values refer to each other and may form loops, so limit the depth when you
/// walk them.
struct PickleNode {
  // clang-format off
  enum class Kind { none, boolean, integer, big_integer, real, text, bytes, list, tuple, set, dict, global, call, object, persistent };
  // clang-format on

  Kind kind = Kind::none;
  std::int64_t integer = 0;  ///< Of an integer; 0 or 1 of a boolean.
  double real = 0;
  /// The text (UTF-8), the bytes, the little-endian two's complement of a big integer, or the
  /// "module.name" of a global. Valid as long as the pickle's bytes and the list of names.
  std::string_view text = {};
  /// List, tuple or set: the items. Dict: key, value, key, value, …. Call: the global, the tuple of
  /// arguments, then the keys and values that were put into the result; an object of a class of
  /// `classes` is such a call, too. Persistent: its id.
  std::vector<PickleNode*> items = {};
  /// For a call or an object: the argument of its __setstate__.
  PickleNode* state = nullptr;
};

/// This name on the list allows all classes of TorchScript ("__torch__.Net"). A pickle may then
/// hold objects of these classes, which become nodes like everything else.
inline constexpr std::string_view kScriptClasses = "__torch__";

/// Returns the entry of the sorted list `allowed` that allows the global. Throws CheckpointError,
/// whose message is a clause with the name of the global, if there is none.
[[nodiscard]] std::string_view allowed_global(std::string_view module, std::string_view name,
                                              std::span<const std::string_view> allowed);

/// Throws CheckpointError with the clause "its pickle <why>".
[[noreturn]] void refuse_pickle(const std::string& why);

/// A pickle that has been read. `root` is its value.
struct Pickle {
  std::deque<PickleNode> nodes;
  PickleNode* root = nullptr;
};

/// Reads a pickle of protocol 2 to 5. `bytes` must outlive the result. `allowed`: the globals that
/// may appear, as "module.name", sorted. `classes`: those of `allowed` of which the pickle may have
/// objects, sorted. Throws CheckpointError, whose message is a clause, for:
/// - a global that is not allowed, with its name,
/// - an operation that data does not need,
/// - bytes that end too early, or a pickle beyond the limits.
[[nodiscard]] Pickle read_pickle(std::span<const std::byte> bytes,
                                 std::span<const std::string_view> allowed,
                                 std::span<const std::string_view> classes = {});

/// Whether the pickle calls the global `name`, or has an object of the class `name`, at `node`.
[[nodiscard]] bool is_call_of(const PickleNode& node, std::string_view name);

/// Returns the attribute `name` of an object that the pickle made by a call and filled with a dict;
/// nullptr if `object` is something else or has no such attribute.
[[nodiscard]] const PickleNode* attribute_of(const PickleNode& object, std::string_view name);

}  // namespace accelerate::detail
