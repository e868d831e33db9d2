#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/transformers/datasets/repository/chosen_files.h"

namespace accelerate::detail {
namespace {

using Patterns = std::vector<std::string>;

constexpr std::array<std::string_view, 3> kSplits = {"train", "validation", "test"};
constexpr std::string_view kShardNumbers =
    "-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]*.*";

Patterns keywords_of(std::string_view split) {
  if (split == "train") return {"train", "training"};
  if (split == "validation") return {"validation", "valid", "dev", "val"};
  return {"test", "testing", "eval", "evaluation"};
}

// K stands for the keyword, S for a character between words.
const Patterns kInFolders = {"**/K/**", "**/KS*/**", "**/*SK/**", "**/*SKS*/**"};
const Patterns kInFileNames = {"**/KS*", "**/*SKS*"};

std::string filled(std::string_view shape, std::string_view keyword) {
  std::string pattern;
  for (const char c : shape) {
    if (c == 'K') {
      pattern += keyword;
    } else if (c == 'S') {
      pattern += "[-._ 0-9]";
    } else {
      pattern += c;
    }
  }
  return pattern;
}

RepositorySplits by_keyword(const Patterns& shapes) {
  RepositorySplits splits;
  for (const std::string_view split : kSplits) {
    Patterns patterns;
    for (const std::string& keyword : keywords_of(split)) {
      for (const std::string& shape : shapes) patterns.push_back(filled(shape, keyword));
    }
    splits.emplace_back(split, std::move(patterns));
  }
  return splits;
}

// Returns all kinds of patterns, in the order in which they are tried.
std::vector<RepositorySplits> all_kinds() {
  return {{{"logs", {"**/*.eval"}}},
          {{"test", {"**/task.toml", "**/instruction.md"}}},
          by_keyword(kInFolders),
          by_keyword(kInFileNames),
          {{"train", {"**"}}}};
}

bool is_number(std::string_view text, std::size_t digits) {
  return text.size() >= digits &&
         text.substr(0, digits).find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns what precedes "-00000-of-00001" in the name of a shard; "" if nothing does.
std::string split_of_shard(std::string_view name) {
  for (std::size_t end = name.rfind('-'); end != std::string_view::npos && end > 0;
       end = name.rfind('-', end - 1)) {
    const std::string_view rest = name.substr(end + 1);
    if (is_number(rest, 5) && rest.substr(5).starts_with("-of-") && is_number(rest.substr(9), 4))
      return std::string(name.substr(0, end));
  }
  return "";
}

RepositorySplits shards(const ListedFiles& files, const std::string& base) {
  std::set<std::string> found;
  for (const std::string& path : files.matches(base, "data/*" + std::string(kShardNumbers))) {
    const std::string split = split_of_shard(base_name(path));
    if (!is_split_name(split)) {
      throw DataError("the shard '" + untrusted_line(path) +
                      "' names no split; letters, digits, '_' and dots between them are allowed "
                      "before the number. Name the files by .data_files");
    }
    found.insert(split);
  }
  std::vector<std::string> order;
  for (const std::string_view split : kSplits) {
    if (found.erase(std::string(split)) > 0) order.emplace_back(split);
  }
  order.insert(order.end(), found.begin(), found.end());
  RepositorySplits splits;
  for (const std::string& split : order)
    splits.push_back({split, {"data/" + split + std::string(kShardNumbers)}});
  return splits;
}

}  // namespace

RepositorySplits default_patterns(const ListedFiles& files, const std::string& base) {
  if (auto splits = shards(files, base); !splits.empty()) return splits;
  const auto is_empty = [&](const auto& split) {
    return std::none_of(split.second.begin(), split.second.end(), [&](const std::string& pattern) {
      return !files.matches(base, pattern).empty();
    });
  };
  for (RepositorySplits& splits : all_kinds()) {
    std::erase_if(splits, is_empty);
    if (!splits.empty()) return std::move(splits);
  }
  throw DataError(base.empty() ? "the repository has no data files"
                               : "the repository has no data files below '" + base + "'");
}

bool is_split_name(std::string_view name) {
  const auto is_word = [](const std::string& word) {
    return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      const char small = static_cast<char>(c | 0x20);
      return c == '_' || (c >= '0' && c <= '9') || (small >= 'a' && small <= 'z') ||
             static_cast<unsigned char>(c) >= 0x80;
    });
  };
  const auto words = split(name, '.');
  return std::all_of(words.begin(), words.end(), is_word);
}

}  // namespace accelerate::detail
