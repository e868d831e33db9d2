#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>

#include "accelerate/formats/documents/document_builder.h"
#include "accelerate/formats/documents/yaml.h"

namespace accelerate {
namespace {

// Whether `tag` is a real tag. yaml-cpp marks nodes without a tag: "?" on plain nodes, "!" on
// quoted scalars.
bool is_tagged(const std::string& tag) {
  return !tag.empty() && tag != "?" && tag != "!";
}

// Turns yaml-cpp's events into a tree. The events come while the text is parsed, so that a refusal
// stops a bomb before it is built. yaml-cpp's own node API would have expanded it first.
class YamlHandler : public YAML::EventHandler {
 public:
  YamlHandler(const std::string& name, const DocumentLimits& limits, int last_quote)
      : builder_(name, limits), last_quote_(last_quote) {}

  Node take() { return builder_.take(); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) {
      builder_.fail(line(mark),
                    "a second document starts here; a file holds one. Remove the '---'");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_extras(mark, "?", anchor);
    if (builder_.wants_key()) return builder_.key("", line(mark));
    Node node;
    node.line = line(mark);
    builder_.scalar(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    builder_.fail(line(mark), "aliases (*name) are refused; write the value out");
  }

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    if (!name.empty()) refuse_anchor(mark);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_extras(mark, tag, anchor);
    const bool quoted = tag == "!";
    // yaml-cpp takes a quote at the very end for an empty text.
    if (quoted && mark.pos == last_quote_) {
      builder_.fail(line(mark), "this is not YAML: the quote that opens here is never closed");
    }
    // yaml-cpp turns the escapes for next line and no-break space into the bytes 0x85 and 0xA0,
    // which are not UTF-8.
    std::string text = quoted ? detail::mend_latin1(value) : value;
    if (builder_.wants_key()) return add_key(std::move(text), quoted, line(mark));
    Node node = Node::string(std::move(text));
    node.quoted = quoted;
    node.line = line(mark);
    builder_.scalar(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse_extras(mark, tag, anchor);
    builder_.begin(Node::Kind::sequence, line(mark));
  }
  void OnSequenceEnd() override { builder_.end(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse_extras(mark, tag, anchor);
    builder_.begin(Node::Kind::map, line(mark));
  }
  void OnMapEnd() override { builder_.end(); }

 private:
  static int line(const YAML::Mark& mark) { return mark.line + 1; }

  [[noreturn]] void refuse_anchor(const YAML::Mark& mark) const {
    builder_.fail(line(mark),
                  "anchors (&name) are refused; write the value out, or quote a text "
                  "that starts with '&'");
  }

  void refuse_extras(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) refuse_anchor(mark);
    if (is_tagged(tag)) {
      builder_.fail(line(mark), "the tag '" + tag + "' is refused; write the plain value");
    }
  }

  void add_key(const std::string& text, bool quoted, int at) {
    if (!quoted && text == "<<")
      builder_.fail(at, "merge keys (<<) are refused; write the keys out");
    builder_.key(text, at);
  }

  detail::DocumentBuilder builder_;
  int last_quote_;
  int documents_ = 0;
};

// Returns the position of a quote that is the last character; -1 if another character is. yaml-cpp
// counts bytes after the byte order mark.
int position_of_last_quote(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const bool is_quote = text.ends_with('\'') || text.ends_with('"');
  return is_quote ? static_cast<int>(text.size()) - 1 : -1;
}

// Returns the text with a '#' at its end if it ends in white space. Without it, yaml-cpp accepts a
// quoted scalar that is never closed. The comment sign shows it the end of the text and changes
// nothing else.
std::string with_visible_end(std::string_view text) {
  std::string whole(text);
  if (whole.ends_with(' ') || whole.ends_with('\t')) whole += '\n';
  if (whole.ends_with('\n')) whole += '#';
  return whole;
}

}  // namespace

Node read_yaml(std::string_view text, const std::string& name, const DocumentLimits& limits) {
  detail::check_text(text, name, limits);
  std::istringstream stream{with_visible_end(text)};
  YamlHandler handler(name, limits, position_of_last_quote(text));
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(handler)) {
    }
  } catch (const YAML::Exception& error) {
    detail::fail_at(name, error.mark.line + 1, "this is not YAML: " + error.msg);
  }
  return handler.take();
}

}  // namespace accelerate
