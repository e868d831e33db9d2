#include "accelerate/formats/torch_archive/pickle_machine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/utf8.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate::detail {
namespace {

using Kind = PickleNode::Kind;

class Machine {
 public:
  Machine(std::string_view bytes, std::span<const std::string_view> allowed,
          std::span<const std::string_view> classes)
      : bytes_(bytes), allowed_(allowed), classes_(classes) {}

  Pickle run();

 private:
  using Operation = void (*)(Machine&);
  static std::array<Operation, 256> operations();

  // Reading.
  std::string_view take(std::uint64_t size);
  std::uint64_t number(std::size_t size);
  std::string_view line();

  // The stack.
  PickleNode* make(Kind kind);
  void push(PickleNode* node);
  PickleNode* push_new(Kind kind);
  PickleNode* pop();
  PickleNode* top();
  std::vector<PickleNode*> pop_to_mark();
  PickleNode* top_of(Kind kind, const char* what);

  // Helpers of several operations.
  void text(std::string_view value);
  void push_integer(std::int64_t value);
  void big(std::string_view value);
  void byte_string(std::string_view value);
  void group(Kind kind);
  void short_tuple(std::size_t size);
  void append(Kind kind, const std::vector<PickleNode*>& items);
  void dict();
  void set_item();
  void put(std::uint64_t index);
  void get(std::uint64_t index);
  void add_entries(const std::vector<PickleNode*>& entries);
  void global(std::string_view module, std::string_view name);

  // Operations that take more than one line.
  void protocol();
  void frame();
  void mark() { marks_.push_back(stack_.size()); }
  void pop_one();
  void real();
  void old_string(std::uint64_t size);
  void reduce();
  void new_object();
  void build();
  void persistent();
  void global_lines();
  void stack_global();

  std::string_view bytes_;
  std::span<const std::string_view> allowed_, classes_;
  std::size_t at_ = 0;
  bool stopped_ = false;
  Pickle pickle_;
  std::vector<PickleNode*> stack_;
  std::vector<std::size_t> marks_;  // Heights of the stack.
  std::unordered_map<std::uint64_t, PickleNode*> memo_;
};

std::string_view Machine::take(std::uint64_t size) {
  if (size > bytes_.size() - at_) {
    refuse_pickle("ends in the middle of a value: the file is cut short or damaged");
  }
  const std::string_view taken = bytes_.substr(at_, size);
  at_ += size;
  return taken;
}

std::uint64_t Machine::number(std::size_t size) {
  const std::string_view digits = take(size);
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(digits[i]);
  return value;
}

std::string_view Machine::line() {
  const std::size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) take(bytes_.size());
  const std::string_view found = take(end - at_);
  take(1);
  return found;
}

PickleNode* Machine::make(Kind kind) {
  if (pickle_.nodes.size() == PickleLimits::kNodes) {
    refuse_pickle("has more than the " + std::to_string(PickleLimits::kNodes) +
                  " values that are allowed");
  }
  PickleNode& node = pickle_.nodes.emplace_back();
  node.kind = kind;
  return &node;
}

void Machine::push(PickleNode* node) {
  if (stack_.size() == PickleLimits::kNodes) refuse_pickle("piles up more values than are allowed");
  stack_.push_back(node);
}

PickleNode* Machine::push_new(Kind kind) {
  PickleNode* node = make(kind);
  push(node);
  return node;
}

PickleNode* Machine::top() {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor) refuse_pickle("takes a value that was never given: it is damaged");
  return stack_.back();
}

PickleNode* Machine::pop() {
  PickleNode* node = top();
  stack_.pop_back();
  return node;
}

std::vector<PickleNode*> Machine::pop_to_mark() {
  if (marks_.empty()) refuse_pickle("ends a group that was never begun: it is damaged");
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<PickleNode*> items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}

PickleNode* Machine::top_of(Kind kind, const char* what) {
  PickleNode* node = top();
  if (node->kind != kind)
    refuse_pickle(std::string("has another value where ") + what + " should be");
  return node;
}

void Machine::text(std::string_view value) {
  if (!is_utf8(value)) refuse_pickle("has a text that is not UTF-8");
  push_new(Kind::text)->text = value;
}

void Machine::push_integer(std::int64_t value) {
  push_new(Kind::integer)->integer = value;
}

void Machine::big(std::string_view value) {
  if (value.size() > 8) {
    push_new(Kind::big_integer)->text = value;
    return;
  }
  std::uint64_t bits = !value.empty() && (value.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
  for (std::size_t i = value.size(); i-- > 0;) {
    bits = bits << 8 | static_cast<unsigned char>(value[i]);
  }
  push_integer(std::bit_cast<std::int64_t>(bits));
}

void Machine::byte_string(std::string_view value) {
  push_new(Kind::bytes)->text = value;
}

void Machine::group(Kind kind) {
  auto items = pop_to_mark();
  push_new(kind)->items = std::move(items);
}

void Machine::short_tuple(std::size_t size) {
  std::vector<PickleNode*> items(size);
  for (std::size_t i = size; i-- > 0;) items[i] = pop();
  push_new(Kind::tuple)->items = std::move(items);
}

void Machine::append(Kind kind, const std::vector<PickleNode*>& items) {
  PickleNode* target = top_of(kind, kind == Kind::list ? "a list" : "a set");
  target->items.insert(target->items.end(), items.begin(), items.end());
}

void Machine::dict() {
  const auto entries = pop_to_mark();
  push_new(Kind::dict);
  add_entries(entries);
}

void Machine::set_item() {
  PickleNode* value = pop();
  PickleNode* key = pop();
  add_entries({key, value});
}

void Machine::put(std::uint64_t index) {
  if (memo_.size() == PickleLimits::kNodes) refuse_pickle("remembers more values than are allowed");
  memo_[index] = top();
}

void Machine::get(std::uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) refuse_pickle("recalls a value that was never given: it is damaged");
  push(found->second);
}

void Machine::add_entries(const std::vector<PickleNode*>& entries) {
  PickleNode* target = top();
  if (target->kind != Kind::dict && target->kind != Kind::call) {
    refuse_pickle("puts entries into something that is not a dict");
  }
  if (entries.size() % 2 != 0) refuse_pickle("has a key without a value");
  target->items.insert(target->items.end(), entries.begin(), entries.end());
}

void Machine::protocol() {
  const std::uint64_t version = number(1);
  if (version < 2 || version > 5) {
    refuse_pickle("is of protocol " + std::to_string(version) + ", 2 to 5 are allowed");
  }
}

// A frame only says how many bytes may be read at once.
void Machine::frame() {
  if (number(8) > bytes_.size() - at_) take(bytes_.size());
}

void Machine::pop_one() {
  if (!marks_.empty() && marks_.back() == stack_.size()) {
    marks_.pop_back();
  } else {
    pop();
  }
}

void Machine::real() {
  const std::string_view digits = take(8);  // Highest byte first.
  std::uint64_t bits = 0;
  for (const char digit : digits) bits = bits << 8 | static_cast<unsigned char>(digit);
  push_new(Kind::real)->real = std::bit_cast<double>(bits);
}

// Reads a string of Python 2, which did not distinguish text from bytes.
void Machine::old_string(std::uint64_t size) {
  const std::string_view value = take(size);
  push_new(is_utf8(value) ? Kind::text : Kind::bytes)->text = value;
}

void Machine::reduce() {
  PickleNode* arguments = top_of(Kind::tuple, "arguments");
  pop();
  PickleNode* callee = top_of(Kind::global, "a name to call");
  pop();
  push_new(Kind::call)->items = {callee, arguments};
}

void Machine::new_object() {
  PickleNode* arguments = top_of(Kind::tuple, "arguments");
  pop();
  // A class inside of a class is the result of a getattr.
  const bool inner = !classes_.empty() && top()->kind == Kind::call;
  PickleNode* name = inner ? top() : top_of(Kind::global, "the name of a class");
  pop();
  if (inner || std::ranges::binary_search(classes_, name->text)) {
    push_new(Kind::call)->items = {name, arguments};
    return;
  }
  if (name->text != kScriptClasses || !arguments->items.empty()) {
    refuse_pickle("makes an object of " + printable(name->text) + ", which data does not need");
  }
  push_new(Kind::object);
}

void Machine::build() {
  PickleNode* state = pop();
  PickleNode* target = top();
  if (target->kind != Kind::object) target = top_of(Kind::call, "an object to fill");
  if (target->state != nullptr) refuse_pickle("fills an object twice");
  target->state = state;
}

void Machine::persistent() {
  PickleNode* id = pop();
  push_new(Kind::persistent)->items = {id};
}

void Machine::global_lines() {
  const std::string_view module = line();
  global(module, line());
}

void Machine::stack_global() {
  const std::string_view name = top_of(Kind::text, "the name of a global")->text;
  pop();
  const std::string_view module = top_of(Kind::text, "the module of a global")->text;
  pop();
  global(module, name);
}

void Machine::global(std::string_view module, std::string_view name) {
  push_new(Kind::global)->text = allowed_global(module, name, allowed_);
}

// clang-format off
std::array<Machine::Operation, 256> Machine::operations() {
  using M = Machine;
  std::array<Operation, 256> of{};
  of[0x80] = [](M& m) { m.protocol(); };
  of[0x95] = [](M& m) { m.frame(); };
  of['.'] = [](M& m) { m.stopped_ = true; };
  // The stack and the memo.
  of['('] = [](M& m) { m.mark(); };
  of['0'] = [](M& m) { m.pop_one(); };
  of['1'] = [](M& m) { m.pop_to_mark(); };
  of['2'] = [](M& m) { m.push(m.top()); };
  of['q'] = [](M& m) { m.put(m.number(1)); };
  of['r'] = [](M& m) { m.put(m.number(4)); };
  of[0x94] = [](M& m) { m.put(m.memo_.size()); };
  of['h'] = [](M& m) { m.get(m.number(1)); };
  of['j'] = [](M& m) { m.get(m.number(4)); };
  // Numbers.
  of['N'] = [](M& m) { m.push_new(Kind::none); };
  of[0x88] = [](M& m) { m.push_new(Kind::boolean)->integer = 1; };
  of[0x89] = [](M& m) { m.push_new(Kind::boolean); };
  of['J'] = [](M& m) { m.push_integer(static_cast<std::int32_t>(m.number(4))); };
  of['K'] = [](M& m) { m.push_integer(static_cast<std::int64_t>(m.number(1))); };
  of['M'] = [](M& m) { m.push_integer(static_cast<std::int64_t>(m.number(2))); };
  of[0x8a] = [](M& m) { m.big(m.take(m.number(1))); };
  of[0x8b] = [](M& m) { m.big(m.take(m.number(4))); };
  of['G'] = [](M& m) { m.real(); };
  // Text and bytes.
  of['X'] = [](M& m) { m.text(m.take(m.number(4))); };
  of[0x8c] = [](M& m) { m.text(m.take(m.number(1))); };
  of[0x8d] = [](M& m) { m.text(m.take(m.number(8))); };
  of['B'] = [](M& m) { m.byte_string(m.take(m.number(4))); };
  of['C'] = [](M& m) { m.byte_string(m.take(m.number(1))); };
  of[0x8e] = [](M& m) { m.byte_string(m.take(m.number(8))); };
  of['T'] = [](M& m) { m.old_string(m.number(4)); };
  of['U'] = [](M& m) { m.old_string(m.number(1)); };
  // Containers.
  of[']'] = [](M& m) { m.push_new(Kind::list); };
  of['l'] = [](M& m) { m.group(Kind::list); };
  of['a'] = [](M& m) { m.append(Kind::list, {m.pop()}); };
  of['e'] = [](M& m) { m.append(Kind::list, m.pop_to_mark()); };
  of[')'] = [](M& m) { m.push_new(Kind::tuple); };
  of['t'] = [](M& m) { m.group(Kind::tuple); };
  of[0x85] = [](M& m) { m.short_tuple(1); };
  of[0x86] = [](M& m) { m.short_tuple(2); };
  of[0x87] = [](M& m) { m.short_tuple(3); };
  of['}'] = [](M& m) { m.push_new(Kind::dict); };
  of['d'] = [](M& m) { m.dict(); };
  of['s'] = [](M& m) { m.set_item(); };
  of['u'] = [](M& m) { m.add_entries(m.pop_to_mark()); };
  of[0x8f] = [](M& m) { m.push_new(Kind::set); };
  of[0x90] = [](M& m) { m.append(Kind::set, m.pop_to_mark()); };
  // Names and their calls.
  of['c'] = [](M& m) { m.global_lines(); };
  of[0x93] = [](M& m) { m.stack_global(); };
  of['R'] = [](M& m) { m.reduce(); };
  of[0x81] = [](M& m) { m.new_object(); };
  of['b'] = [](M& m) { m.build(); };
  of['Q'] = [](M& m) { m.persistent(); };
  return of;
}
// clang-format on

Pickle Machine::run() {
  static const std::array<Operation, 256> kOperations = operations();
  while (!stopped_) {
    const std::size_t before = at_;
    const auto code = static_cast<unsigned char>(number(1));
    if (kOperations[code] == nullptr) {
      std::array<char, 8> hex{};
      std::snprintf(hex.data(), hex.size(), "0x%02x", code);
      refuse_pickle("has the operation " + std::string(hex.data()) + " at its byte " +
                    std::to_string(before) + ", which data does not need");
    }
    kOperations[code](*this);
  }
  pickle_.root = pop();
  if (!stack_.empty() || !marks_.empty())
    refuse_pickle("ends with values left over: it is damaged");
  if (at_ != bytes_.size()) refuse_pickle("is followed by other bytes");
  return std::move(pickle_);
}

}  // namespace

void refuse_pickle(const std::string& why) {
  throw CheckpointError("its pickle " + why);
}

Pickle read_pickle(std::span<const std::byte> bytes, std::span<const std::string_view> allowed,
                   std::span<const std::string_view> classes) {
  if (bytes.size() > PickleLimits::kBytes) {
    refuse_pickle("has " + std::to_string(bytes.size()) + " bytes, at most " +
                  std::to_string(PickleLimits::kBytes) + " are allowed");
  }
  return Machine(byte_text(bytes), allowed, classes).run();
}

}  // namespace accelerate::detail
