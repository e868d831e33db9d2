#define PCRE2_CODE_UNIT_WIDTH 8
#include "accelerate/transformers/tokenizers/regex/general_matcher.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/hex.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kMostKinds = 256;
// A step takes some nanoseconds. Alternatives that each look through a long run of characters take
// some steps a character, and are no reason to give up.
constexpr std::size_t kMostSteps = 10'000'000, kMostStepsOfCharacter = 64;
constexpr std::uint32_t kMostHeapKib = 64 * 1024;
constexpr std::size_t kStackBytes = 32 * 1024;
// Address space: memory is taken as a match needs it, about 50 bytes a repetition of a group.
constexpr std::size_t kMostStackBytes = 256 * 1024 * 1024;

template <auto release>
struct Release {
  template <typename T>
  void operator()(T* pointer) const {
    release(pointer);
  }
};

std::string message_of(int code) {
  std::array<unsigned char, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// What a thread needs to match: limits, and a stack that grows.
struct Matching {
  std::unique_ptr<pcre2_match_context, Release<pcre2_match_context_free>> context{
      pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, Release<pcre2_jit_stack_free>> stack{
      pcre2_jit_stack_create(kStackBytes, kMostStackBytes, nullptr)};
  std::unique_ptr<pcre2_match_data, Release<pcre2_match_data_free>> data{
      pcre2_match_data_create(1, nullptr)};

  Matching() {
    if (!context || !data) throw std::bad_alloc();
    pcre2_set_heap_limit(context.get(), kMostHeapKib);
    if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

// Converts character numbers to byte offsets. Each number must be at least the one before.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  std::size_t byte_of(std::size_t character) {
    for (; character_ < character; ++character_) byte_ += width_of(text_[byte_]);
    return byte_;
  }

 private:
  std::string_view text_;
  std::size_t byte_ = 0, character_ = 0;
};

// Numbers code points by the sets that they are in. Code points in the same sets are of one kind.
class Kinds {
 public:
  explicit Kinds(const std::vector<CharacterSet>& sets) {
    for (const CharacterSet& set : sets) {
      if (count_ <= kMostKinds) split_at(set);
    }
  }

  [[nodiscard]] std::size_t count() const { return count_; }

  [[nodiscard]] std::vector<std::uint8_t> by_code_point() const {
    std::vector<std::uint8_t> kinds(unicode::kLimit);
    for (const auto& [range, kind] : runs_) {
      std::fill(kinds.begin() + range.first, kinds.begin() + range.last + 1,
                static_cast<std::uint8_t>(kind));
    }
    return kinds;
  }

  /// Returns the kinds of the characters in `set`, which must be one of the constructor's sets.
  [[nodiscard]] std::set<std::size_t> of(const CharacterSet& set) const {
    std::set<std::size_t> found;
    visit(set, [&](const Run& run, bool is_inside) {
      if (is_inside) found.insert(run.kind);
    });
    return found;
  }

 private:
  struct Run {
    CodeRange range;
    std::size_t kind;
  };

  // Cuts the runs where `set` begins and ends, and calls `take(run, is_inside)` for each part.
  template <typename Take>
  void visit(const CharacterSet& set, Take take) const {
    auto next = set.ranges().begin();
    for (Run run : runs_) {
      const char32_t last = run.range.last;
      for (char32_t first = run.range.first; first <= last; first = run.range.last + 1) {
        while (next != set.ranges().end() && next->last < first) ++next;
        const bool is_past = next == set.ranges().end() || next->first > last;
        const bool is_inside = !is_past && next->first <= first;
        run.range = {first, is_past     ? last
                            : is_inside ? std::min(last, next->last)
                                        : next->first - 1};
        take(run, is_inside);
      }
    }
  }

  void split_at(const CharacterSet& set) {
    std::vector<Run> runs;
    std::map<std::pair<std::size_t, bool>, std::size_t> renamed;
    visit(set, [&](Run run, bool is_inside) {
      run.kind = renamed.try_emplace({run.kind, is_inside}, renamed.size()).first->second;
      runs.push_back(run);
    });
    runs_ = std::move(runs);
    count_ = renamed.size();
  }

  std::vector<Run> runs_{{{0, unicode::kLimit - 1}, 0}};
  std::size_t count_ = 1;
};

std::string class_of(const std::set<std::size_t>& kinds) {
  if (kinds.empty()) return "(?!)";
  std::string spelling = "[";
  for (const std::size_t kind : kinds)
    spelling += "\\x" + to_hex(std::string(1, static_cast<char>(kind)));
  return spelling + "]";
}

// Returns the bytes that stand for characters of `kinds`.
std::set<std::size_t> bytes_of(const std::set<std::size_t>& kinds, bool has_continuing) {
  if (!has_continuing) return kinds;
  std::set<std::size_t> bytes;
  for (const std::size_t kind : kinds) bytes.insert({2 * kind, 2 * kind + 1});
  return bytes;
}

std::string continuing_class(std::size_t kinds) {
  std::set<std::size_t> bytes;
  for (std::size_t kind = 0; kind < kinds; ++kind) bytes.insert(2 * kind + 1);
  return class_of(bytes);
}

std::string spelled(const Translation& translation, const Kinds& kinds) {
  std::vector<std::string> classes;
  for (const CharacterSet& set : translation.sets)
    classes.push_back(class_of(bytes_of(kinds.of(set), translation.has_continuing)));
  std::string out;
  for (const auto& [text, set] : translation.parts) {
    out += text;
    if (set == Translation::kContinuing) out += continuing_class(kinds.count());
    if (set >= 0) out += classes[static_cast<std::size_t>(set)];
  }
  return out;
}

}  // namespace

struct GeneralMatcher::Program {
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { pcre2_code_free(code); }

  pcre2_code* code = nullptr;
};

GeneralMatcher::GeneralMatcher(const std::string& pattern)
    : GeneralMatcher(translate(pattern), pattern) {}

GeneralMatcher::GeneralMatcher(const Translation& translation, const std::string& pattern)
    : pattern_(pattern), program_(std::make_unique<Program>()) {
  const Kinds kinds(translation.sets);
  const std::size_t most = translation.has_continuing ? kMostKinds / 2 : kMostKinds;
  if (kinds.count() > most) {
    throw ConfigError("the pattern '" + pattern + "' tells more than " + std::to_string(most) +
                      " kinds of characters apart; allowed are " + std::to_string(most));
  }
  if (translation.has_continuing) clusters_.reset(new GeneralMatcher(translated_clusters(), "\\X"));
  kinds_ = kinds.by_code_point();
  const std::string bytes = spelled(translation, kinds);
  int error = 0;
  std::size_t place = 0;
  program_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(bytes.data()), bytes.size(),
                                 PCRE2_DOTALL | PCRE2_NEVER_UTF, &error, &place, nullptr);
  if (program_->code == nullptr)
    throw ConfigError("the pattern '" + pattern + "' is refused by PCRE2: " + message_of(error));
  // May fail: without a just-in-time compiler, as on some processors, PCRE2 interprets.
  pcre2_jit_compile(program_->code, PCRE2_JIT_COMPLETE);
}

GeneralMatcher::~GeneralMatcher() = default;

void GeneralMatcher::spell(std::string_view text, std::string& kinds) const {
  std::vector<Match> clusters;
  if (clusters_ != nullptr) clusters_->find_all(text, clusters);
  kinds.clear();
  auto cluster = clusters.begin();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    std::uint8_t kind = kinds_[next_code_point(text, at)];
    if (clusters_ != nullptr) {
      const bool is_first = cluster != clusters.end() && cluster->begin == begin;
      kind = static_cast<std::uint8_t>(2 * kind + (is_first ? 0 : 1));
      if (is_first) ++cluster;
    }
    kinds.push_back(static_cast<char>(kind));
  }
}

void GeneralMatcher::find_all(std::string_view text, std::vector<Match>& matches) const {
  thread_local const Matching matching;
  thread_local std::string kinds;
  spell(text, kinds);
  const std::size_t steps = kMostSteps + kMostStepsOfCharacter * kinds.size();
  pcre2_set_match_limit(matching.context.get(),
                        static_cast<std::uint32_t>(std::min<std::size_t>(steps, UINT32_MAX)));
  Cursor begin(text), end(text);
  std::size_t last_end = SIZE_MAX;
  for (std::size_t from = 0; from <= kinds.size();) {
    const int found =
        pcre2_match(program_->code, reinterpret_cast<PCRE2_SPTR>(kinds.data()), kinds.size(), from,
                    0, matching.data.get(), matching.context.get());
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found < 0) {
      throw DataError("the pattern '" + pattern_ + "' takes too long on a text of " +
                      std::to_string(text.size()) + " bytes: " + message_of(found) +
                      ". Write it so that no part can match in many ways");
    }
    const auto* range = pcre2_get_ovector_pointer(matching.data.get());
    if (range[0] == range[1] && range[1] == last_end) {
      ++from;
      continue;
    }
    matches.push_back({begin.byte_of(range[0]), end.byte_of(range[1])});
    from = last_end = range[1];
  }
}

}  // namespace accelerate::detail
