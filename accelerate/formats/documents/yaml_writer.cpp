// Writes what PyYAML's safe_dump writes, by the rules of PyYAML's emitter (yaml/emitter.py of
// PyYAML 6): which styles a scalar allows, when a key is "simple", where a long scalar is folded.
// Only the part that default_flow_style=False can reach is here; the only flow collections are
// empty lists and maps.
#include <algorithm>
#include <vector>

#include "accelerate/formats/documents/scalar_style.h"
#include "accelerate/formats/documents/yaml.h"

namespace accelerate {
namespace {

using detail::Scalar;
using detail::ScalarStyle;

constexpr std::size_t kBestWidth = 80;
constexpr int kIndent = 2;

std::u32string_view slice(const std::u32string& text, std::size_t start, std::size_t end) {
  return std::u32string_view(text).substr(start, end - start);
}

class Emitter {
 public:
  std::string document(const Node& node) {
    write_node(node, {.root = true});
    write_indent();
    if (open_ended_) {
      write_indicator("...", true);
      write_indent();
    }
    return std::move(out_);
  }

 private:
  // The position of a node in its parent.
  struct Context {
    bool root = false;
    bool in_map = false;
    bool simple_key = false;
  };

  // Sets the indentation of a child for its own lifetime. -1 stands for "none yet".
  class Deeper {
   public:
    Deeper(Emitter& emitter, bool flow, bool indentless = false)
        : emitter_(emitter), before_(emitter.indent_) {
      if (before_ < 0) {
        emitter.indent_ = flow ? kIndent : 0;
      } else if (!indentless) {
        emitter.indent_ += kIndent;
      }
    }
    ~Deeper() { emitter_.indent_ = before_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Emitter& emitter_;
    int before_;
  };

  void write_node(const Node& node, Context context) {
    switch (node.kind) {
      case Node::Kind::null:
        return write_scalar(detail::analyze_scalar("null", false), context);
      case Node::Kind::scalar:
        return write_scalar(detail::analyze_scalar(node.text, node.quoted), context);
      case Node::Kind::sequence:
        return write_sequence(node, context);
      case Node::Kind::map:
        return write_map(node);
    }
  }

  void write_empty(const char* open, const char* close) {
    write_indicator(open, true, /*whitespace=*/true);
    write_indicator(close, false);
  }

  void write_sequence(const Node& node, Context context) {
    if (node.items.empty()) return write_empty("[", "]");
    const Deeper deeper(*this, false, context.in_map && !indention_);
    for (const Node& item : node.items) {
      write_indent();
      write_indicator("-", true, false, /*indention=*/true);
      write_node(item, {});
    }
  }

  void write_map(const Node& node) {
    if (node.entries.empty()) return write_empty("{", "}");
    std::vector<const NodeEntry*> sorted;
    for (const NodeEntry& entry : node.entries) sorted.push_back(&entry);
    std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->key < b->key; });
    const Deeper deeper(*this, false);
    for (const NodeEntry* entry : sorted) write_entry(*entry);
  }

  void write_entry(const NodeEntry& entry) {
    const Scalar key = detail::analyze_scalar(entry.key, true);
    write_indent();
    if (key.is_simple_key()) {
      write_scalar(key, {.in_map = true, .simple_key = true});
      write_indicator(":", false);
    } else {
      write_indicator("?", true, false, /*indention=*/true);
      write_scalar(key, {.in_map = true});
      write_indent();
      write_indicator(":", true, false, /*indention=*/true);
    }
    write_node(entry.value, {.in_map = true});
  }

  void write_scalar(const Scalar& scalar, Context context) {
    const Deeper deeper(*this, true);
    const bool fold = !context.simple_key;
    switch (scalar.style(context.simple_key)) {
      case ScalarStyle::plain:
        return write_plain(scalar.text, fold, context.root);
      case ScalarStyle::single_quoted:
        return write_single_quoted(scalar.text, fold);
      case ScalarStyle::double_quoted:
        return write_double_quoted(scalar.text, fold);
    }
  }

  // Plain scalars hold no line breaks: a text with line breaks is always quoted.
  void write_plain(const std::u32string& text, bool fold, bool root) {
    open_ended_ = root;
    if (text.empty()) return;
    if (!whitespace_) put(U" ");
    whitespace_ = indention_ = false;
    bool spaces = false;
    for (std::size_t start = 0, end = 0; end <= text.size(); ++end) {
      const bool at_space = end < text.size() && text[end] == U' ';
      if (spaces && !at_space) {
        if (start + 1 == end && column_ > kBestWidth && fold) {
          write_indent();
          whitespace_ = indention_ = false;
        } else {
          put(slice(text, start, end));
        }
        start = end;
      } else if (!spaces && (at_space || end == text.size())) {
        put(slice(text, start, end));
        start = end;
      }
      spaces = at_space;
    }
  }

  void write_single_quoted(const std::u32string& text, bool fold) {
    write_indicator("'", true);
    bool spaces = false, breaks = false;
    for (std::size_t start = 0, end = 0; end <= text.size(); ++end) {
      const char32_t c = end < text.size() ? text[end] : U'\0';
      const bool done = end == text.size();
      if (spaces && c != U' ') {
        const bool inside = start != 0 && !done;
        if (start + 1 == end && column_ > kBestWidth && fold && inside) {
          write_indent();
        } else {
          put(slice(text, start, end));
        }
        start = end;
      } else if (breaks && c != U'\n') {
        // A folded single break reads back as a blank, so n breaks are written as n + 1.
        for (std::size_t n = end - start + 1; n > 0; --n) write_line_break();
        write_indent();
        start = end;
      } else if (!spaces && !breaks && (done || c == U' ' || c == U'\n' || c == U'\'')) {
        put(slice(text, start, end));
        start = end;
      }
      if (c == U'\'' && !done) {
        put(U"''");
        start = end + 1;
      }
      spaces = c == U' ';
      breaks = c == U'\n';
    }
    write_indicator("'", false);
  }

  void write_double_quoted(const std::u32string& text, bool fold) {
    write_indicator("\"", true);
    for (std::size_t start = 0, end = 0; end <= text.size(); ++end) {
      const bool done = end == text.size();
      if (done || detail::needs_escape(text[end])) {
        put(slice(text, start, end));
        start = end;
        if (!done) {
          put(detail::escape(text[end]));
          start = end + 1;
        }
      }
      const bool may_fold = end > 0 && end + 1 < text.size() && (text[end] == U' ' || start >= end);
      if (may_fold && fold && column_ + end > kBestWidth + start) {
        fold_double_quoted(text, start, end);
      }
    }
    write_indicator("\"", false);
  }

  // Ends the line with a backslash. A blank at the start of the next line needs a backslash of its
  // own.
  void fold_double_quoted(const std::u32string& text, std::size_t& start, std::size_t end) {
    if (start < end) {
      put(slice(text, start, end));
      start = end;
    }
    put(U"\\");
    write_indent();
    whitespace_ = indention_ = false;
    if (text[start] == U' ') put(U"\\");
  }

  void write_indicator(std::string_view indicator, bool need_whitespace, bool whitespace = false,
                       bool indention = false) {
    if (!whitespace_ && need_whitespace) put(U" ");
    put(std::u32string(indicator.begin(), indicator.end()));
    whitespace_ = whitespace;
    indention_ = indention_ && indention;
    open_ended_ = false;
  }

  void write_indent() {
    const auto indent = static_cast<std::size_t>(std::max(indent_, 0));
    if (!indention_ || column_ > indent || (column_ == indent && !whitespace_)) write_line_break();
    if (column_ < indent) {
      whitespace_ = true;
      put(std::u32string(indent - column_, U' '));
    }
  }

  void write_line_break() {
    whitespace_ = indention_ = true;
    column_ = 0;
    out_ += '\n';
  }

  // Appends `text`, which is ASCII: everything else has been escaped.
  void put(std::u32string_view text) {
    out_.append(text.begin(), text.end());
    column_ += text.size();
  }

  std::string out_;
  std::size_t column_ = 0;
  int indent_ = -1;
  bool whitespace_ = true;   // The last character was white space.
  bool indention_ = true;    // Only indentation has been written on this line.
  bool open_ended_ = false;  // The document needs "..." at its end.
};

}  // namespace

std::string write_yaml(const Node& node) {
  return Emitter().document(node);
}

}  // namespace accelerate
