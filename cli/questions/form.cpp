#include "cli/questions/form.h"

#include <algorithm>
#include <csignal>

#include "accelerate/base/error.h"

namespace accelerate::cli {
namespace {

constexpr std::chrono::milliseconds kForever{60'000}, kBetweenBytes{50}, kBetweenDigits{1500};
constexpr int kNoByte = -1;

std::size_t place_of(const std::vector<std::string>& choices, const std::string& choice) {
  const auto found = std::ranges::find(choices, choice);
  return found == choices.end() ? 0 : static_cast<std::size_t>(found - choices.begin());
}

// Returns what is wrong with `typed`, or "".
std::string obstacle_of(const Question& question, const std::string& typed) {
  try {
    (void)question.answer_of(typed);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

void erase_last(std::string& text) {
  const auto is_inner = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; };
  while (!text.empty() && is_inner(text.back())) text.pop_back();
  if (!text.empty()) text.pop_back();
}

// Returns the choice that `typed` stands for.
std::optional<std::size_t> chosen_by(const Question& question, const std::string& typed) {
  try {
    return place_of(choices_of(question), question.answer_of(typed));
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

// Selects a choice by a digit or letter. Digits form a number while there is a choice of that
// number.
void choose(const Question& question, FormState& state, char byte) {
  for (const std::string& typed : {state.digits + byte, std::string(1, byte)}) {
    const auto chosen = chosen_by(question, typed);
    if (!chosen) continue;
    state.selected = *chosen;
    state.digits = typed;
    return;
  }
}

}  // namespace

int Form::read_byte(std::chrono::milliseconds timeout) {
  using Kind = TerminalScreen::Answer::Kind;
  const auto answer = screen_.wait(timeout);
  if (answer.kind == Kind::signal) throw Left{answer.value};
  if (answer.kind == Kind::closed) throw ConfigError("the terminal is gone; nothing was written");
  if (answer.kind == Kind::resized) screen_.redraw();
  return answer.kind == Kind::key ? answer.value : kNoByte;
}

// Reads what follows an escape: arrows are "[A" or "OA".
Form::Pressed Form::read_escape() {
  const int bracket = read_byte(kBetweenBytes);
  if (bracket != '[' && bracket != 'O') return {};
  int last = read_byte(kBetweenBytes);
  while (last == ';' || (last >= '0' && last <= '9')) last = read_byte(kBetweenBytes);
  if (last == 'A') return {Key::up};
  if (last == 'B') return {Key::down};
  return {};
}

Form::Pressed Form::read_key() {
  constexpr int kControlC = 3, kControlD = 4, kBackspace = 8, kControlU = 21, kEscape = 27,
                kDelete = 127;
  const int byte = read_byte(kForever);
  switch (byte) {
    case kControlC:
    case kControlD:
      throw Left{SIGINT};
    case '\r':
    case '\n':
      return {Key::enter};
    case '<':
      return {Key::back, '<'};
    case '?':
      return {Key::help, '?'};
    case kBackspace:
    case kDelete:
      return {Key::erase};
    case kControlU:
      return {Key::clear};
    case kEscape:
      return read_escape();
    default:
      break;
  }
  return byte >= ' ' ? Pressed{Key::byte, static_cast<char>(byte)} : Pressed{};
}

Form::Outcome Form::press(const Question& question, FormState& state, Pressed pressed) {
  const bool is_text = question.kind == Question::Kind::text;
  const auto choices = choices_of(question);
  // Inside a text, "<" and "?" are letters like any other.
  const bool is_letter = is_text && pressed.byte != 0 && !state.typed.empty();
  if (pressed.key == Key::back && !is_letter) return Outcome::went_back;
  if (pressed.key == Key::help && !is_letter) {
    state.shows_help = !state.shows_help;
    return Outcome::open;
  }
  if (pressed.key == Key::enter) {
    state.message = is_text ? obstacle_of(question, state.typed) : "";
    return state.message.empty() ? Outcome::answered : Outcome::open;
  }
  if (is_text) {
    if (pressed.byte != 0) state.typed += pressed.byte;
    if (pressed.key == Key::erase) erase_last(state.typed);
    if (pressed.key == Key::clear) state.typed.clear();
    state.message.clear();
    return Outcome::open;
  }
  // A digit joins the one before if it follows soon.
  const auto now = std::chrono::steady_clock::now();
  if (pressed.key != Key::byte || now - last_digit_ > kBetweenDigits) state.digits.clear();
  last_digit_ = now;
  if (pressed.key == Key::up) state.selected += choices.size() - 1;
  if (pressed.key == Key::down) ++state.selected;
  state.selected %= choices.size();
  if (pressed.key == Key::byte) choose(question, state, pressed.byte);
  return Outcome::open;
}

std::optional<std::string> Form::ask(const Question& question,
                                     const std::vector<Answered>& before) {
  const auto choices = choices_of(question);
  FormState state{.notes = notes_, .selected = place_of(choices, question.fallback)};
  for (;;) {
    if (!screen_.has_key()) {  // A pasted text is checked and shown once all of it has come.
      if (!state.typed.empty() && state.message.empty())
        state.message = obstacle_of(question, state.typed);
      screen_.draw(form_page(question, state, before, terminal_size(out_)));
    }
    const Outcome outcome = press(question, state, read_key());
    if (outcome == Outcome::open) continue;
    notes_.clear();
    if (outcome == Outcome::went_back) return std::nullopt;
    return question.kind == Question::Kind::text ? question.answer_of(state.typed)
                                                 : choices[state.selected];
  }
}

}  // namespace accelerate::cli
