#include "accelerate/transformers/tokenizers/decoders/decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/utf8.h"
#include "accelerate/transformers/tokenizers/text/byte_letters.h"
#include "accelerate/transformers/tokenizers/text/metaspace_options.h"
#include "accelerate/transformers/tokenizers/text/pattern.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

using Tokens = std::vector<std::string>;

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos && !what.empty();
       at = text.find(what, done)) {
    out.append(text.substr(done, at - done)).append(by);
    done = at + what.size();
  }
  return out.append(text.substr(done));
}

struct WordPieceDecoder : Decoder {
  explicit WordPieceDecoder(const JsonView& json)
      : prefix(json.text("prefix", "##")), cleans(json.boolean("cleanup", true)) {}
  [[nodiscard]] Tokens apply(Tokens tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i].starts_with(prefix)) {
        tokens[i].erase(0, prefix.size());
      } else if (i > 0) {
        tokens[i].insert(0, " ");
      }
      if (cleans) tokens[i] = clean_up(std::move(tokens[i]));
    }
    return tokens;
  }
  std::string prefix;
  bool cleans;
};

struct ByteLevelDecoder : Decoder {
  [[nodiscard]] Tokens apply(Tokens tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += from_byte_letters(token).value_or(token);
    return {replace_malformed(bytes)};
  }
};

struct BpeDecoder : Decoder {
  explicit BpeDecoder(const JsonView& json) : suffix(json.text("suffix", "</w>")) {}
  [[nodiscard]] Tokens apply(Tokens tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = replaced(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
    }
    return tokens;
  }
  std::string suffix;
};

struct MetaspaceDecoder : Decoder {
  explicit MetaspaceDecoder(const JsonView& json) : options(read_metaspace_options(json)) {}
  [[nodiscard]] Tokens apply(Tokens tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool drops = i == 0 && options.prepend != PrependScheme::never;
      tokens[i] = replaced(tokens[i], options.replacement, drops ? "" : " ");
    }
    return tokens;
  }
  MetaspaceOptions options;
};

struct ByteFallback : Decoder {
  [[nodiscard]] Tokens apply(Tokens tokens) const override {
    Tokens out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (is_utf8(bytes)) {
        out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), to_utf8(0xFFFD));
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const int byte = byte_of(token); byte >= 0) {
        bytes.push_back(static_cast<char>(byte));
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    return out;
  }

  // Returns the byte that "<0xNN>" names; -1 for any other token.
  static int byte_of(const std::string& token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    int byte = 0;
    for (const char c : token.substr(3, 2)) {
      const auto digit = std::string_view("0123456789abcdef")
                             .find(static_cast<char>(c >= 'A' && c <= 'F' ? c + 32 : c));
      if (digit == std::string_view::npos) return -1;
      byte = 16 * byte + static_cast<int>(digit);
    }
    return byte;
  }
};

struct Fuse : Decoder {
  [[nodiscard]] Tokens apply(Tokens tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    return {all};
  }
};

struct StripDecoder : Decoder {
  explicit StripDecoder(const JsonView& json)
      : content(json.at("content").text()),
        start(json.count("start", 0)),
        stop(json.count("stop", 0)) {
    if (count_code_points(content) != 1)
      json.refuse("strips '" + content + "'; allowed is one character");
  }
  [[nodiscard]] Tokens apply(Tokens tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::size_t i = 0; i < start && rest.starts_with(content); ++i)
        rest.remove_prefix(content.size());
      for (std::size_t i = 0; i < stop && rest.ends_with(content); ++i)
        rest.remove_suffix(content.size());
      token = std::string(rest);
    }
    return tokens;
  }
  std::string content;
  std::size_t start, stop;
};

struct ReplaceDecoder : Decoder {
  explicit ReplaceDecoder(const JsonView& json)
      : pattern(json.at("pattern")), content(json.at("content").text()) {}
  [[nodiscard]] Tokens apply(Tokens tokens) const override {
    std::size_t room = kMostGrowth + 16 * tokens.size();
    for (std::string& token : tokens) {
      std::string out;
      std::size_t done = 0;
      for (const Span& match : pattern.find_all(token)) {
        out.append(token, done, match.begin - done).append(content);
        done = match.end;
        check_size(out.size(), token.size() + room);
      }
      out.append(token, done);
      check_size(out.size(), token.size() + room);
      room -= out.size() - std::min(token.size(), out.size());
      token = std::move(out);
    }
    return tokens;
  }
  // Without a limit, a file with many replacements of "a" by "aa" would fill the memory.
  static constexpr std::size_t kMostGrowth = std::size_t{1} << 22;
  static void check_size(std::size_t bytes, std::size_t most) {
    if (bytes > most)
      throw DataError("the decoder's replacements make a text more than 4 MiB longer");
  }

  Pattern pattern;
  std::string content;
};

struct Ctc : Decoder {
  explicit Ctc(const JsonView& json)
      : pad(json.text("pad_token", "<pad>")),
        delimiter(json.text("word_delimiter_token", "|")),
        cleans(json.boolean("cleanup", true)) {}
  [[nodiscard]] Tokens apply(Tokens tokens) const override {
    Tokens out;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i] == tokens[i - 1]) continue;
      std::string text = replaced(tokens[i], pad, "");
      if (cleans) text = replaced(clean_up(std::move(text)), delimiter, " ");
      if (!text.empty()) out.push_back(std::move(text));
    }
    return out;
  }
  std::string pad, delimiter;
  bool cleans;
};

struct Sequence : Decoder {
  explicit Sequence(const JsonView& json) {
    json.at("decoders").each([&](const JsonView& one) { all.push_back(read_decoder(one)); });
  }
  [[nodiscard]] Tokens apply(Tokens tokens) const override {
    for (const auto& one : all) tokens = one->apply(std::move(tokens));
    return tokens;
  }
  std::vector<std::unique_ptr<Decoder>> all;
};

}  // namespace

std::string clean_up(std::string text) {
  static constexpr std::array<std::array<const char*, 2>, 11> kChanges = {{{" .", "."},
                                                                           {" ?", "?"},
                                                                           {" !", "!"},
                                                                           {" ,", ","},
                                                                           {" ' ", "'"},
                                                                           {" n't", "n't"},
                                                                           {" 'm", "'m"},
                                                                           {" do not", " don't"},
                                                                           {" 's", "'s"},
                                                                           {" 've", "'ve"},
                                                                           {" 're", "'re"}}};
  for (const auto& [what, by] : kChanges) text = replaced(text, what, by);
  return text;
}

std::unique_ptr<Decoder> read_decoder(const JsonView& json) {
  const std::string_view type = json.at("type").text();
  if (type == "WordPiece") return std::make_unique<WordPieceDecoder>(json);
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "BPEDecoder") return std::make_unique<BpeDecoder>(json);
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(json);
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Strip") return std::make_unique<StripDecoder>(json);
  if (type == "Replace") return std::make_unique<ReplaceDecoder>(json);
  if (type == "CTC") return std::make_unique<Ctc>(json);
  if (type == "Sequence") return std::make_unique<Sequence>(json);
  json.refuse(
      "is of the type '" + std::string(type) +
          "'; allowed are BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, Metaspace, Replace, "
          "Sequence, Strip, "
          "WordPiece",
      error_name::kUnknownTokenizer);
}

}  // namespace accelerate::detail
